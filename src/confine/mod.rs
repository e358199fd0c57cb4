//! Confines the whole process to the allowed directories.
//!
//! [`Guard::confine_process`] takes a [`Confinement`], which lists what the process needs besides
//! the allowed directories. From then on no thread of the process opens, creates, removes, renames
//! or runs a file outside of both, whether the code uses the guard or not, and neither does any
//! program that it starts. This cannot be undone. The result is a [`Confined`], the report of what
//! the kernel enforces.
//!
//! The mechanism is Landlock (landlock(7), Linux 5.13): rules about directory objects, which the
//! kernel checks for each path that it opens. The rules are made from the guard's own handles, so a
//! path that is swapped in the meantime widens nothing. The guard itself continues to work: its
//! look-ups are `O_PATH` descriptors, `statx` and the text of symlinks, which Landlock does not
//! restrict, and everything else is beneath the directories.
//!
//! Confinement is refused, and nothing is enforced, in these cases:
//!
//! | case | refusal |
//! | --- | --- |
//! | no allowed directory | `no_directories` |
//! | another system, or a kernel without Landlock | `confinement_unavailable` |
//! | other threads, and a kernel that confines only the calling one | `threads_running` |
//! | a writable extra in or around a read-only directory, or its other name | `access_conflict` |
//! | an extra named through a symlink that a tool could have created | `through_link` |
//!
//! An older Landlock with fewer rights is not a refusal. [`Confined::not_enforced`] lists what it
//! does not enforce.
//!

#[cfg(target_os = "linux")]
mod linux;

use std::fmt;
use std::path::{Path, PathBuf};

#[cfg(not(target_os = "linux"))]
use crate::error::Code;
use crate::error::Result;
use crate::session::Guard;

/// What a process may use besides the allowed directories. Passed to [`Guard::confine_process`].
///
/// ```no_run
/// use mcp_roots_guard::{Access, Boundary, Confinement, ExtraAccess, Guard};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let boundary = Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?;
///     let guard = Guard::new(boundary);
///     let cache = "/var/cache/server";
///     let extras = Confinement::new().runtime_files().extra(cache, ExtraAccess::ReadWrite);
///     eprintln!("{}", guard.confine_process(&extras)?); // first, while there is no other thread
///     let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
///     runtime.block_on(async { /* serve */ });
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Confinement {
    extras: Vec<Extra>,
}

/// What may be done with a path and everything beneath it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExtraAccess {
    /// Read and list.
    ReadOnly,
    /// Read, list, create, write, rename and remove, except device nodes.
    ReadWrite,
    /// Read, list and run programs, with the libraries they load. If it encloses a writable path,
    /// or lies in one, files written there can be run, and nothing can be renamed into it from
    /// where files cannot be run (`CrossDevice`).
    Execute,
}

#[derive(Clone, Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux confines"))]
struct Extra {
    path: PathBuf,
    access: ExtraAccess,
    missing: Missing,
}

/// What to do if an extra does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Refused,
    Reported,
    /// Each system has only some of these.
    Ignored,
}

impl Confinement {
    /// The allowed directories alone. That is enough for the guard, for a Rust program that is
    /// already running, and for tokio.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file or directory, which must exist. Symlinks are followed, because the operator is
    /// trusted, but not through an allowed directory or a writable extra, where a tool could have
    /// created one. A temporary directory is an extra, too. Prefer one of the server's own to all
    /// of `/tmp`, which other programs also use.
    pub fn extra(mut self, path: impl Into<PathBuf>, access: ExtraAccess) -> Self {
        self.push(path.into(), access, Missing::Refused);
        self
    }

    /// As [`extra`](Self::extra), but the path may be missing. Then it is reported
    /// ([`Confined::missing`]), and stays inaccessible if it is created later.
    pub fn optional_extra(mut self, path: impl Into<PathBuf>, access: ExtraAccess) -> Self {
        self.push(path.into(), access, Missing::Reported);
        self
    }

    /// Adds the files that the system's libraries read for host names, time zones and certificates
    /// ([`RUNTIME_FILES`]), read-only and as far as they exist, and `/dev/null`, writable. It adds
    /// no program, and nothing of `/proc`, which contains the process's own environment. With glibc
    /// 2.34 or later, host names need nothing more. A file that is replaced, as some programs
    /// replace `resolv.conf` when the network changes, is inaccessible until a restart. If that
    /// matters, add its directory.
    pub fn runtime_files(mut self) -> Self {
        for path in RUNTIME_FILES {
            self.push(path.into(), ExtraAccess::ReadOnly, Missing::Ignored);
        }
        self.push("/dev/null".into(), ExtraAccess::ReadWrite, Missing::Ignored);
        self
    }

    fn push(&mut self, path: PathBuf, access: ExtraAccess, missing: Missing) {
        self.extras.push(Extra { path, access, missing });
    }
}

/// The files that [`Confinement::runtime_files`] makes readable (resolv.conf(5), nsswitch.conf(5),
/// tzset(3), and the places where distributions keep certificates).
pub const RUNTIME_FILES: &[&str] = &[
    "/dev/urandom",
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/share/zoneinfo",
    "/var/lib/ca-certificates",
];

/// A report of what the kernel enforces. `Display` prints it for the operator's log, with a line
/// for each path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it tells what is not enforced"]
pub struct Confined {
    abi: u32,
    enforced: Enforced,
    threads: usize,
    paths: Vec<ConfinedPath>,
    missing: Vec<PathBuf>,
}

/// How much of the confinement the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Enforced {
    /// Everything that was requested.
    Fully,
    /// Not what [`Confined::not_enforced`] lists, because the kernel is older.
    Partly,
}

/// A path that this confinement makes accessible, with everything beneath it. An earlier
/// confinement of this process, or of its parent, may still deny it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfinedPath {
    path: PathBuf,
    access: ExtraAccess,
    is_allowed_directory: bool,
}

impl ConfinedPath {
    /// The path when the process was confined, with all symlinks resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What may be done there.
    #[must_use]
    pub fn access(&self) -> ExtraAccess {
        self.access
    }

    /// Whether this is an allowed directory and not an extra.
    #[must_use]
    pub fn is_allowed_directory(&self) -> bool {
        self.is_allowed_directory
    }
}

impl Confined {
    /// The version of Landlock that the kernel offers.
    #[must_use]
    pub fn abi(&self) -> u32 {
        self.abi
    }

    /// How much is enforced.
    #[must_use]
    pub fn enforced(&self) -> Enforced {
        self.enforced
    }

    /// What this kernel does not enforce, or enforces differently, and newer kernels do. What no
    /// kernel enforces is listed at [`Guard::confine_process`].
    pub fn not_enforced(&self) -> impl Iterator<Item = &'static str> {
        let abi = self.abi;
        SINCE.iter().filter(move |(since, _)| abi < *since).map(|(_, what)| *what)
    }

    /// The number of threads that the process had. All of them are confined, with all that they
    /// start.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The accessible paths: the allowed directories, then the extras.
    #[must_use]
    pub fn paths(&self) -> &[ConfinedPath] {
        &self.paths
    }

    /// Optional allowed directories and extras that did not exist. One that is created later is
    /// inaccessible, unless it lies in one of [`paths`](Self::paths).
    #[must_use]
    pub fn missing(&self) -> &[PathBuf] {
        &self.missing
    }
}

/// The version of Landlock from which each limitation no longer applies (landlock(7), "Landlock ABI
/// versions").
const SINCE: &[(u32, &str)] = &[
    (2, "files can not be renamed or linked from one directory to another, not even inside"),
    (3, "files outside that may be written can be truncated by their path"),
    (5, "devices that can be opened take any ioctl"),
];

impl fmt::Display for Confined {
    #[expect(
        clippy::unnecessary_debug_formatting,
        reason = "a path is one line, whatever its name"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let enforced = match self.enforced {
            Enforced::Fully => "fully",
            Enforced::Partly => "partly",
        };
        let (abi, threads) = (self.abi, self.threads);
        let word = if threads == 1 { "thread" } else { "threads" };
        write!(f, "confined by Landlock, version {abi}, {enforced} enforced, {threads} {word}")?;
        for what in self.not_enforced() {
            write!(f, "\n  older kernel: {what}")?;
        }
        for confined in &self.paths {
            let access = match confined.access {
                ExtraAccess::ReadOnly => "read-only",
                ExtraAccess::ReadWrite => "read-write",
                ExtraAccess::Execute => "read and execute",
            };
            let whose = if confined.is_allowed_directory { "directory" } else { "extra" };
            write!(f, "\n  {whose}, {access}: {:?}", confined.path)?;
        }
        for path in &self.missing {
            write!(f, "\n  missing, out of reach until a restart: {path:?}")?;
        }
        Ok(())
    }
}

impl Guard {
    /// Restricts the whole process to the allowed directories, by their access, and to the extras,
    /// so the kernel stops code that does not use the guard. This is permanent: neither this
    /// process nor a program that it starts can undo it. Each further call narrows, up to 16
    /// (landlock(7)).
    ///
    /// Call it first, after the guard is built and before any thread or runtime exists. From Linux
    /// 7.0 on, the kernel confines all threads at once. An older kernel confines the calling thread
    /// and those that it starts later. So if `/proc/self/task` shows more than one thread, or
    /// cannot be read, this is refused and nothing is changed. A thread that was just joined can
    /// still be there for an instant.
    ///
    /// This is a second line of defense and does not replace the guard: Landlock knows paths, not
    /// clients. **It does not restrict**, on any kernel:
    ///
    /// - what is open already: descriptors, standard input and output;
    /// - whether something exists, its metadata, its extended attributes and the text of symlinks
    ///   (`stat`, `getxattr`, `readlink`), in the whole filesystem; and the names of what changes
    ///   in a watched directory (`inotify`);
    /// - changes of mode, owner, times and extended attributes, also outside, as far as the user
    ///   has the right to make them;
    /// - the network, signals, and sockets by their path: a service behind one (a session bus, a
    ///   container daemon) does what it is asked, unconfined;
    /// - other names of the same object, by bind mounts and hard links: a file in a read-only
    ///   directory can be written through a name in a writable one, and a file inside can have a
    ///   name outside, too.
    ///
    /// The rules are tied to the objects that exist now. A directory that is moved away stays
    /// accessible under its new name. One that **replaces it, or comes back later, is not
    /// accessible**: the guard resolves it again, and operations there are refused
    /// ([`PermissionDenied`](crate::ErrorKind::PermissionDenied)) until the process is restarted.
    /// So a deploy that replaces an allowed directory needs a restart, and one that replaces its
    /// content does not. The same holds for a root that is a file, once another file has its name.
    ///
    /// No file is run as a program unless it lies in an extra with [`ExtraAccess::Execute`]. A
    /// program that exists only in memory (memfd_create(2)) can be run, and is confined, too.
    /// Device nodes cannot be created, and a device that is opened later accepts none of its own
    /// ioctls. `no_new_privs` is set (prctl(2)): programs that are started gain no rights by
    /// set-user-ID.
    ///
    /// # Errors
    ///
    /// [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`no_directories`) without
    /// allowed directories, because the clients' lists are not known yet.
    /// [`ConfinementUnavailable`](crate::ErrorKind::ConfinementUnavailable)
    /// (`confinement_unavailable`) without Landlock: on other systems, on kernels before 5.13, on
    /// those where it is not built in or not enabled (`lsm=`), and behind a filter that blocks it
    /// or answers for it. [`ConfinementUnavailable`](crate::ErrorKind::ConfinementUnavailable)
    /// (`threads_running`). [`RootUnavailable`](crate::ErrorKind::RootUnavailable) and similar
    /// errors for an allowed directory that is gone.
    /// [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`access_conflict`) for a
    /// writable extra that lies in a read-only allowed directory, encloses one, or is another name
    /// of one. [`RootRejected`](crate::ErrorKind::RootRejected) (`through_link`) for an extra that
    /// is named through a symlink in an allowed directory or in a writable extra. An extra that is
    /// not optional and cannot be opened has the error of that. [`Io`](crate::ErrorKind::Io) for
    /// other errors of the kernel: `no_new_privs` may be set then, and nothing else is.
    pub fn confine_process(&self, confinement: &Confinement) -> Result<Confined> {
        #[cfg(target_os = "linux")]
        return linux::confine(self.boundary(), confinement);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = confinement;
            Err(Code::ConfinementUnavailable.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(abi: u32, enforced: Enforced) -> Confined {
        let path = |path: &str, access, is_allowed_directory| ConfinedPath {
            path: path.into(),
            access,
            is_allowed_directory,
        };
        let paths = vec![
            path("/srv/a\nb", ExtraAccess::ReadWrite, true),
            path("/srv/c", ExtraAccess::ReadOnly, true),
            path("/usr", ExtraAccess::Execute, false),
        ];
        Confined { abi, enforced, threads: 1, paths, missing: vec!["/srv/none".into()] }
    }

    #[test]
    fn the_report_tells_what_is_enforced_and_what_is_not() {
        let lines = [
            "confined by Landlock, version 7, fully enforced, 1 thread",
            r#"  directory, read-write: "/srv/a\nb""#,
            r#"  directory, read-only: "/srv/c""#,
            r#"  extra, read and execute: "/usr""#,
            r#"  missing, out of reach until a restart: "/srv/none""#,
        ];
        assert_eq!(report(7, Enforced::Fully).to_string(), lines.join("\n"));
        let old = report(1, Enforced::Partly).to_string();
        assert!(
            old.starts_with(
                "confined by Landlock, version 1, partly enforced, 1 thread\n  older kernel: "
            ),
            "{old}"
        );
        let gaps = |abi| report(abi, Enforced::Partly).not_enforced().count();
        assert_eq!([1, 2, 3, 4, 5, 9].map(gaps), [3, 2, 1, 1, 0, 0]);
    }
}
