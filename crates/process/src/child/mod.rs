//! Child processes that start inside a root. `docs/defenses.md` lists the attacks on them.
//!
//! One thread starts a program, moves its input and output in one loop over the pipes, and stops it
//! (`spawn`). It never calls the server's functions. The caller waits for its result, and every
//! [`CHILD_TICK`](crate::limits::CHILD_TICK) checks whether the request is still active (`wait`).
//! For `output_async`, a second thread is the caller. Where a system cannot wait for several pipes
//! at once, each pipe has a thread (`windows`).

#[cfg(feature = "tokio")]
mod asynchronous;
mod confined;
#[cfg(target_os = "linux")]
mod exec;
mod output;
mod permits;
mod program;
mod spawn;
#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;
mod wait;

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::process::Command;
use std::time::Duration;

pub use self::output::{ChildOutput, ExitReason};
pub use self::program::CHILD_ENVIRONMENT;
use self::spawn::Task;
use self::wait::Failure;

use guarded_fs::{CheckedPath, Error, Result, host};

use crate::confine::Confinement;
use crate::limits::{CHILD_OUTPUT, CHILD_TIME};

/// A program to run with a checked directory as its working directory. On Linux, a directory that
/// replaces that one after the check does not change where the program starts.
///
/// - **Environment.** Only the variables in [`CHILD_ENVIRONMENT`] are inherited. [`env`](Self::env)
///   adds others.
/// - **Input and output.** Standard input is empty, unless [`stdin`](Self::stdin) provides it.
///   Standard output and standard error are captured. On Linux, no other descriptor is inherited.
///   On other systems, descriptors without `FD_CLOEXEC` and inheritable handles are, of which Rust
///   creates none.
/// - **End.** The program's process group is killed when the program exits, at a limit, and when
///   the request ends or its client withdraws the roots. On Linux, the program itself is also
///   killed if the server ends, unless it prevents that (PR_SET_PDEATHSIG(2const)). On Windows,
///   only the program itself is killed. A process that creates its own session or group (setsid(2))
///   escapes this. Unless it is confined, it can also be a child of the server (`CLONE_PARENT`,
///   clone(2)), which nobody reaps.
/// - **Return.** The call returns at most about two seconds after the program is killed, even if
///   the program hangs in the kernel or is traced (ptrace(2)). It then no longer counts as one of
///   the client's programs, and a later call reaps it.
/// - **Privileges.** On Linux, the program has no capabilities (capabilities(7)) and gains none,
///   unless it may [keep them](Self::keep_privileges). So a program of a server that runs as root
///   cannot set the clock, change owners, or use files that only their owner may use, unless root
///   owns them.
///
/// The program runs as the server's user. It is **not restricted to the roots**, and ignores
/// read-only access and protected names, unless it is [confined](Self::confined) on Linux. Even
/// then, it can use protected names, and change the modes and times of files outside that the
/// server's user owns. For root, these are the system's files, so run the server as another user.
///
/// ```
/// # #[cfg(target_os = "linux")] fn main() -> guarded_fs::Result<()> {
/// use std::time::Duration;
///
/// use guarded_fs::{Access, Roots};
/// use guarded_process::ChildCommand;
///
/// # let work = tempfile::tempdir().unwrap();
/// # std::fs::write(work.path().join("a.txt"), "").unwrap();
/// let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
/// let listing = ChildCommand::new(&roots.check(".")?, "ls")?
///     .arg("-1")
///     .time_limit(Duration::from_secs(10))
///     .output_limit(1 << 16)
///     .output()?;
/// assert!(listing.success());
/// assert_eq!(listing.stdout(), b"a.txt\n");
/// # Ok(())
/// # }
/// # #[cfg(not(target_os = "linux"))] fn main() {}
/// ```
#[must_use = "the program runs when `output` or `output_async` is called"]
pub struct ChildCommand {
    directory: CheckedPath,
    task: Task,
    starts_in: StartsIn,
    confinement: Option<Confinement>,
}

enum StartsIn {
    Checked,
    Path,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    Open(File),
}

impl ChildCommand {
    /// Prepares to run a program with a checked directory as its working directory.
    ///
    /// `program` is an absolute path, or a name that is looked up in the server's `PATH`, without
    /// its relative directories and those inside a writable allowed directory. Neither the program
    /// nor a symlink on its path may be inside one, in force or not, because a client could have
    /// written it. Names are compared regardless of case, like
    /// [protected](guarded_fs::BoundaryBuilder::protect) ones. The filesystem root is excepted,
    /// because no program is outside it. So with
    /// [`Boundary::any_listed`](guarded_fs::Boundary::any_listed) or a writable `/`, a name can find
    /// a program that another client has written: give an absolute path then.
    ///
    /// Looking up the directories in `PATH` can block. In asynchronous work, call this in a closure
    /// that may block, such as that of `RequestRoots::run` (feature `rmcp`).
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](guarded_fs::ErrorKind::InvalidInput) (`invalid_program`) if `program` is
    ///   empty or is a relative path with more than one name.
    /// - [`NotFound`](guarded_fs::ErrorKind::NotFound) (`no_such_program`) if there is no such
    ///   executable file.
    /// - [`ForbiddenFile`](guarded_fs::ErrorKind::ForbiddenFile) (`program_inside_roots`) if the
    ///   program is inside a writable directory, or its path follows a symlink inside one.
    pub fn new(directory: &CheckedPath, program: impl AsRef<OsStr>) -> Result<Self> {
        let name = program.as_ref();
        let found = program::find(directory.roots(), name);
        let found = found.map_err(|error| refused(directory, error, name))?;
        let mut command = Command::new(found);
        command.env_clear().envs(program::environment(directory.roots()));
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(Self {
            directory: directory.clone(),
            task: Task {
                name: name.to_owned(),
                command,
                stdin: None,
                time: CHILD_TIME,
                output: CHILD_OUTPUT,
                keeps_privileges: false,
            },
            starts_in: StartsIn::Checked,
            confinement: None,
        })
    }

    /// Adds an argument, which is passed to the program unchanged, without a shell. One from a
    /// model can be an option (`--output=FILE`), so put `--` before it or reject a leading `-`.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.task.command.arg(argument);
        self
    }

    /// Adds several arguments, like [`arg`](Self::arg).
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.task.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.task.command.env(name, value);
        self
    }

    /// Removes an environment variable, for example one in [`CHILD_ENVIRONMENT`].
    ///
    /// ```
    /// # #[cfg(unix)] fn main() -> guarded_fs::Result<()> {
    /// use guarded_fs::{Access, Roots};
    /// use guarded_process::ChildCommand;
    ///
    /// # let work = tempfile::tempdir().unwrap();
    /// let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
    /// let without_home = ChildCommand::new(&roots.check(".")?, "env")?.env_remove("HOME");
    /// # let _ = without_home;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))] fn main() {}
    /// ```
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.task.command.env_remove(name);
        self
    }

    /// Lets the program keep the server's capabilities and run set-user-ID programs such as `sudo`,
    /// which a confined program never can. A program that becomes another user this way cannot be
    /// killed by a server that is not root: it outlives its limits, its request and the server, and
    /// does not count as one of the client's programs after its limits.
    pub fn keep_privileges(mut self) -> Self {
        self.task.keeps_privileges = true;
        self
    }

    /// Passes these bytes to the program's standard input, which then ends.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.task.stdin = Some(bytes.into());
        self
    }

    /// Sets how long the program may run. The default is [`CHILD_TIME`].
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.task.time = time;
        self
    }

    /// Sets how many bytes the program may write to standard output and standard error together.
    /// The default is [`CHILD_OUTPUT`].
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.task.output = bytes;
        self
    }

    /// Starts the program in this open directory instead of the checked one, such as a scratch
    /// directory of the application. Nothing checks it: it need not be inside the roots, and a
    /// [confined](Self::confined) program can use it only as far as the confinement allows. The
    /// checked directory is not opened. Its roots still decide everything else, and it is the one
    /// that events name.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use guarded_fs::{Access, Roots};
    /// use guarded_process::ChildCommand;
    ///
    /// # let (work, scratch) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
    /// let scratch = std::fs::File::open(scratch.path())?;
    /// let sort = ChildCommand::new(&roots.check(".")?, "sort")?.args(["-o", "sorted"]);
    /// let output = sort.stdin("b\na\n").unguarded_open_dir(scratch).output()?;
    /// assert!(output.success());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The directory must be open for reading or with `O_PATH` (open(2)). If it is not a directory,
    /// [`output`](Self::output) fails with [`NotADirectory`](guarded_fs::ErrorKind::NotADirectory).
    #[cfg(target_os = "linux")]
    pub fn unguarded_open_dir(mut self, directory: impl Into<std::os::fd::OwnedFd>) -> Self {
        self.starts_in = StartsIn::Open(directory.into().into());
        self
    }

    /// Sets the working directory by its path, for systems other than Linux, where it cannot be set
    /// by descriptor. If the directory is replaced after it was checked, the program can start
    /// outside the roots.
    pub fn unguarded_dir(mut self) -> Self {
        self.starts_in = StartsIn::Path;
        self
    }

    /// Runs the program and waits until it exits or is stopped.
    ///
    /// In a handler of an MCP server, this occupies one of the client's slots for the whole time.
    /// Use `output_async` (feature `tokio`) for a program that takes longer than a file operation.
    ///
    /// # Errors
    ///
    /// - The error of the scope that the roots belong to, if it ended, such as
    ///   [`Stopped`](guarded_fs::ErrorKind::Stopped) for [stoppable
    ///   roots](guarded_fs::Roots::stoppable). The program is killed within about 70 ms.
    /// - [`BUSY`](crate::kinds::BUSY): `too_many_children` if this client already runs its share of
    ///   [`CHILDREN`](crate::limits::CHILDREN) programs; `busy` if no thread can be started, or the
    ///   start of the program does not end.
    /// - [`Unsupported`](guarded_fs::ErrorKind::Unsupported) (`directory_by_path`) where the
    ///   directory cannot be set by descriptor.
    /// - [`CONFINEMENT_UNAVAILABLE`](crate::kinds::CONFINEMENT_UNAVAILABLE) and the errors of
    ///   `Confinement::confine_process` for a confined program.
    /// - [`NotADirectory`](guarded_fs::ErrorKind::NotADirectory) and other errors from opening the
    ///   directory; [`PermissionDenied`](guarded_fs::ErrorKind::PermissionDenied) and
    ///   [`Io`](guarded_fs::ErrorKind::Io) from starting the program. If a confined program may not
    ///   use its interpreter or loader, the text says so, and the operator's detail names the
    ///   interpreter.
    pub fn output(self) -> Result<ChildOutput> {
        let report = self.report();
        report(wait::output(self, || false))
    }
}

impl ChildCommand {
    fn report(&self) -> impl FnOnce(Result<ChildOutput, Failure>) -> Result<ChildOutput> + use<> {
        let (directory, name) = (self.directory.clone(), self.task.name.clone());
        move |ended| match ended {
            Ok(output) => {
                host::log_allowed(&directory, "run", &name);
                Ok(output)
            }
            Err(Failure::Logged(error)) => Err(error),
            Err(Failure::New(error)) => Err(refused(&directory, error, &name)),
        }
    }
}

fn refused(directory: &CheckedPath, error: Error, program: &OsStr) -> Error {
    error.with_request("run", program).logged(directory.roots())
}

/// Omits the environment, which can contain secrets.
impl fmt::Debug for ChildCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildCommand")
            .field("directory", &self.directory)
            .field("program", &self.task.command.get_program())
            .field("arguments", &self.task.command.get_args())
            .finish_non_exhaustive()
    }
}
