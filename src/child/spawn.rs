//! The thread that starts and supervises one program.
//!
//! On Linux, the thread first gets its own copy of the descriptor table, in which it closes
//! everything except the working directory. Rust opens each descriptor with `FD_CLOEXEC`, but a
//! server can have inherited others, and C libraries can open them. Where a copy is not permitted,
//! as in containers whose seccomp profile blocks unshare(2), the program is not started if there is
//! such a descriptor.
//!
//! From then on, descriptors of this thread have no meaning elsewhere, and closing a descriptor
//! here does not close it for the server. The thread therefore owns none of the server's
//! descriptors. The caller keeps the working directory open until this thread is
//! [ready](Progress::Ready).
//!
//! The process group is killed while its leader has not been waited for, because the number of a
//! process can be reused after that (waitpid(2)).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::confine::Prepared;
use crate::error::{Code, Error, Result};
use crate::limits::CHILD_DRAIN;
#[cfg(unix)]
use crate::limits::CHILD_TICK;

use super::output::{ChildOutput, Ended};
use super::permits::Permit;

/// A program to start. It owns no descriptor, except of the prepared confinement, which the caller
/// owns, too.
pub(super) struct Task {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: Directory,
    pub(super) stdin: Option<Vec<u8>>,
    pub(super) time: Duration,
    pub(super) output: usize,
    pub(super) confinement: Option<Arc<Prepared>>,
    /// Returned when the program has ended.
    pub(super) permit: Arc<Permit>,
}

/// The working directory.
pub(super) enum Directory {
    /// The number of the caller's descriptor.
    #[cfg(target_os = "linux")]
    Descriptor(i32),
    Path(PathBuf),
}

/// What the thread reports to the caller.
pub(super) enum Progress {
    /// The caller may close the working directory and the confinement.
    Ready,
    /// The program ended, or could not be started.
    Done(Result<ChildOutput>),
}

/// What the thread, its readers and the caller share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    streams: [Vec<u8>; 2],
    /// The number of streams that have not ended.
    open: usize,
    is_over_limit: bool,
    is_stopped: bool,
}

impl Shared {
    /// Tells the threads that nobody waits for the program any longer.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Reads a stream to its end, until the output limit is exceeded, or until nobody waits for it.
    fn read(&self, mut stream: File, number: usize, limit: usize) {
        let mut chunk = [0; 1 << 14];
        while self.is_wanted(&stream, Direction::Read) {
            let read = match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if is_temporary(&error) => continue,
                Err(_) => break,
            };
            let mut state = self.lock();
            let used: usize = state.streams.iter().map(Vec::len).sum();
            let kept = read.min(limit - used.min(limit));
            let bytes = chunk.get(..kept).unwrap_or_default();
            if let Some(stream) = state.streams.get_mut(number) {
                stream.extend_from_slice(bytes);
            }
            if kept < read {
                state.is_over_limit = true;
                break;
            }
        }
        // The other end fails if the program continues to write.
        drop(stream);
        self.lock().open -= 1;
        self.changed.notify_all();
    }

    /// Writes the program's input, until nobody waits for the program. A program need not read it.
    fn write(&self, mut pipe: File, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.is_wanted(&pipe, Direction::Write) {
            match pipe.write(bytes) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if is_temporary(&error) => {}
                Err(_) => break,
            }
        }
    }

    /// Waits until a pipe is ready. Returns false if nobody waits for the program any longer, which
    /// a process that escaped from the group would otherwise hide by holding the other end open. On
    /// Windows, the read or write that follows can still block.
    #[cfg(unix)]
    fn is_wanted(&self, pipe: &File, direction: Direction) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let events = match direction {
            Direction::Read => PollFlags::IN,
            Direction::Write => PollFlags::OUT,
        };
        let tick = Timespec::try_from(CHILD_TICK).ok();
        while !self.lock().is_stopped {
            match poll(&mut [PollFd::new(pipe, events)], tick.as_ref()) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // The read or write that follows reports an error.
                _ => return true,
            }
        }
        false
    }

    #[cfg(windows)]
    fn is_wanted(&self, _: &File, _: Direction) -> bool {
        !self.lock().is_stopped
    }
}

/// What a thread does with a pipe.
#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

/// Whether to wait until the pipe is ready again. A process that escaped can use the same pipe.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// Starts the program, waits until it ends, and reports it. This is the main function of the
/// thread.
pub(super) fn supervise(task: Task, shared: &Arc<Shared>, progress: &Sender<Progress>) {
    // A time that cannot be represented never comes.
    let deadline = Instant::now().checked_add(task.time);
    let done = run(task, deadline, shared, progress);
    let _ = progress.send(Progress::Done(done));
}

fn run(
    task: Task,
    deadline: Option<Instant>,
    shared: &Arc<Shared>,
    progress: &Sender<Progress>,
) -> Result<ChildOutput> {
    let mut command = Command::new(&task.program);
    command.args(&task.arguments).env_clear().envs(task.environment);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    match &task.directory {
        #[cfg(target_os = "linux")]
        Directory::Descriptor(number) => command.current_dir(format!("/proc/self/fd/{number}")),
        Directory::Path(path) => command.current_dir(path),
    };
    // The listing comes before anything that this thread opens for the program.
    #[cfg(target_os = "linux")]
    let table = descriptors::Table::copy()?;
    // A confined thread may not be permitted to open `/dev/null`.
    command.stdin(if task.stdin.is_some() { Stdio::piped() } else { File::open(NULL)?.into() });
    let restriction = match task.confinement {
        Some(prepared) => Some(prepared.for_thread()?),
        None => None,
    };
    #[cfg(target_os = "linux")]
    if table.close_others(&task.directory) {
        let _ = progress.send(Progress::Ready);
    }
    let confined = match restriction {
        Some(restriction) => Some(restriction.restrict()?),
        None => None,
    };
    let spawned = command.spawn();
    // Closes the other ends of what the program inherited.
    drop(command);
    let _ = progress.send(Progress::Ready);
    let mut child = spawned.map_err(of_start)?;
    let read = read_streams(&mut child, task.stdin, task.output, shared, &task.permit);
    let stopped = match &read {
        Ok(()) => wait(&mut child, deadline, shared),
        Err(_) => Some(Ended::TimedOut),
    };
    kill(&mut child);
    let status = child.wait()?;
    read?;
    let mut state = shared.lock();
    let drained = Instant::now() + CHILD_DRAIN;
    while state.open > 0 && !state.is_over_limit && Instant::now() < drained {
        state = shared.wait(state, drained.saturating_duration_since(Instant::now()));
    }
    let [stdout, stderr] = std::mem::take(&mut state.streams);
    let ended = match stopped {
        _ if state.is_over_limit => Ended::OutputLimit,
        Some(stopped) => stopped,
        None => Ended::Exited(status),
    };
    Ok(ChildOutput { ended, stdout, stderr, confined })
}

#[cfg(unix)]
const NULL: &str = "/dev/null";
#[cfg(windows)]
const NULL: &str = "NUL";

/// The error of starting a program. The system does not say which file is missing.
fn of_start(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::io(Code::NoSuchProgram, error)
            .says("the program, its interpreter or the directory does not exist"),
        _ => error.into(),
    }
}

/// Starts the threads that read the program's output and write its input. They end when the pipes
/// are closed or when nobody waits for the program any longer, and then return the permit.
fn read_streams(
    child: &mut Child,
    stdin: Option<Vec<u8>>,
    limit: usize,
    shared: &Arc<Shared>,
    permit: &Arc<Permit>,
) -> Result<()> {
    let start = |work: Box<dyn FnOnce() + Send>| {
        let thread = thread::Builder::new().name(THREAD.into()).spawn(work);
        let error = |error| Error::io(Code::Busy, error).detail("could not start a thread");
        thread.map(drop).map_err(error)
    };
    if let (Some(pipe), Some(bytes)) = (child.stdin.take(), stdin) {
        let (writer, pipe, permit) = (shared.clone(), file(pipe)?, permit.clone());
        start(Box::new(move || {
            writer.write(pipe, &bytes);
            drop(permit);
        }))?;
    }
    let pipes =
        [child.stdout.take().map(file).transpose()?, child.stderr.take().map(file).transpose()?];
    for (number, pipe) in pipes.into_iter().enumerate() {
        let Some(pipe) = pipe else { continue };
        shared.lock().open += 1;
        let (reader, permit) = (shared.clone(), permit.clone());
        let started = start(Box::new(move || {
            reader.read(pipe, number, limit);
            drop(permit);
        }));
        started.inspect_err(|_| shared.lock().open -= 1)?;
    }
    Ok(())
}

/// Returns a file that does not block. The program's end of the pipe still does (open(2)).
#[cfg(unix)]
fn file(pipe: impl Into<std::os::fd::OwnedFd>) -> io::Result<File> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let file = File::from(pipe.into());
    fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(windows)]
#[expect(clippy::unnecessary_wraps, reason = "on Unix, this can fail")]
fn file(pipe: impl Into<std::os::windows::io::OwnedHandle>) -> io::Result<File> {
    Ok(pipe.into().into())
}

/// Waits until the program has exited. Returns how it must end if it has not.
fn wait(child: &mut Child, deadline: Option<Instant>, shared: &Shared) -> Option<Ended> {
    let mut pause = Duration::from_millis(1);
    loop {
        if has_exited(child) {
            return None;
        }
        let state = shared.lock();
        let now = Instant::now();
        let left =
            deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now));
        if state.is_over_limit {
            return Some(Ended::OutputLimit);
        }
        if state.is_stopped || left.is_zero() {
            return Some(Ended::TimedOut);
        }
        drop(shared.wait(state, pause.min(left)));
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// How often a running program is looked at in the end.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Whether the program has exited. It is not reaped, so its number and its group still exist.
#[cfg(unix)]
fn has_exited(child: &mut Child) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that other code of the server has reaped it.
    !matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(None))
}

#[cfg(windows)]
fn has_exited(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

/// Kills the program and its process group.
#[cfg(unix)]
fn kill(child: &mut Child) {
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let leader = Pid::from_child(child);
    // If other code of the server has reaped the program, the number may be in use again.
    if waitid(WaitId::Pid(leader), options).is_ok() {
        let _ = kill_process_group(leader, Signal::KILL);
    }
}

#[cfg(windows)]
fn kill(child: &mut Child) {
    let _ = child.kill();
}

/// The name of the threads.
pub(super) const THREAD: &str = "mcp-roots-child";

#[cfg(target_os = "linux")]
mod descriptors {
    use std::fs;
    use std::io;

    use nix::sched::{CloneFlags, unshare};
    use nix::unistd::close;
    use rustix::fs::OFlags;

    use super::Directory;
    use crate::error::{Code, Error, Result};

    /// The descriptor table of this thread.
    pub(super) struct Table {
        /// The descriptors of the server in this thread's own table. `None` if the table is the
        /// server's.
        copied: Option<Vec<i32>>,
    }

    impl Table {
        /// Gives this thread its own descriptor table. If that is not permitted, uses the server's,
        /// unless the program would inherit a descriptor.
        pub(super) fn copy() -> Result<Self> {
            // Defense: The child inherits no descriptor of the server.
            if unshare(CloneFlags::CLONE_FILES).is_ok() {
                return Ok(Self { copied: Some(open().map_err(no_proc)?) });
            }
            match inheritable()?.as_slice() {
                [] => Ok(Self { copied: None }),
                found => Err(Error::new(Code::InheritedDescriptors)
                    .detail(format!("descriptors without FD_CLOEXEC: {found:?}"))),
            }
        }

        /// Closes the server's descriptors except the working directory in this thread's own table.
        /// Returns false if it has none.
        pub(super) fn close_others(self, directory: &Directory) -> bool {
            let Some(copied) = self.copied else { return false };
            let kept = match directory {
                Directory::Descriptor(number) => *number,
                Directory::Path(_) => 0,
            };
            for number in copied.into_iter().filter(|number| *number != kept) {
                let _ = close(number);
            }
            true
        }
    }

    /// The open descriptors except standard input, output and error.
    fn open() -> io::Result<Vec<i32>> {
        let number = |entry: io::Result<fs::DirEntry>| entry.map(|entry| parse(&entry));
        let listed: io::Result<Vec<_>> = fs::read_dir(FDS)?.map(number).collect();
        // The listing contains its own descriptor, which is closed by now.
        let is_open = |number: &i32| fs::read_link(format!("{FDS}/{number}")).is_ok();
        let listed = listed?.into_iter().flatten();
        Ok(listed.filter(|number| *number > 2 && is_open(number)).collect())
    }

    /// The descriptors of the calling thread (proc(5)).
    const FDS: &str = "/proc/thread-self/fd";

    fn parse(entry: &fs::DirEntry) -> Option<i32> {
        entry.file_name().to_str()?.parse().ok()
    }

    /// The descriptors that a program would inherit (proc(5), `/proc/PID/fdinfo`).
    fn inheritable() -> Result<Vec<i32>> {
        let mut found = Vec::new();
        for number in open().map_err(no_proc)? {
            // A descriptor that was closed in the meantime is not inherited.
            let info = fs::read_to_string(format!("/proc/thread-self/fdinfo/{number}"));
            let Ok(info) = info else { continue };
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
            if flags.is_none_or(|flags| flags & OFlags::CLOEXEC.bits() == 0) {
                found.push(number);
            }
        }
        Ok(found)
    }

    fn no_proc(error: io::Error) -> Error {
        Error::io(Code::Unsupported, error).detail("/proc is required")
    }
}
