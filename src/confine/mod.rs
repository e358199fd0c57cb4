//! The whole process confined to the allowed directories.
//!
//! Goes in: a [`Guard`] with allowed directories, and what else the process needs. Comes out: a [`Confined`], the report of what the
//! kernel enforces from then on. What is true after: no thread of the process opens, makes, removes, renames or runs a file that lies
//! neither in an allowed directory nor in an extra, whether it asks the guard or not; nor does any program that it starts. It can not be
//! undone.
//!
//! This is Landlock (landlock(7), Linux 5.13): rules tied to directory objects, which the kernel asks for each path that it opens. The
//! guard's own handles are what the rules are made from, so a path that is swapped meanwhile widens nothing. The guard itself goes on as
//! before: its looks are `O_PATH` descriptors, `statx` and the text of links, which Landlock leaves alone, and the rest is beneath the
//! directories.
//!
//! | | what is refused | what is enforced then |
//! | --- | --- | --- |
//! | no allowed directory | [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`no_directories`) | nothing |
//! | another system, or a kernel without Landlock | [`ConfinementUnavailable`](crate::ErrorKind::ConfinementUnavailable) (`confinement_unavailable`) | nothing |
//! | other threads, and a kernel that confines the calling one only | [`ConfinementUnavailable`](crate::ErrorKind::ConfinementUnavailable) (`threads_running`) | nothing |
//! | an extra that may be written, and is in a read-only directory, around one, or one by another name | [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`access_conflict`) | nothing |
//! | an extra named through a link that a tool could have made | [`RootRejected`](crate::ErrorKind::RootRejected) (`through_link`) | nothing |
//! | an older Landlock that knows less | no refusal: [`Confined::not_enforced`] | the rest |

#[cfg(target_os = "linux")]
mod linux;

use std::fmt;
use std::path::{Path, PathBuf};

#[cfg(not(target_os = "linux"))]
use crate::error::Code;
use crate::error::Result;
use crate::session::Guard;

/// What a process may use besides the allowed directories, on its way to [`Guard::confine_process`].
///
/// ```no_run
/// use mcp_roots_guard::{Access, Boundary, Confinement, ExtraAccess, Guard};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let guard = Guard::new(Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?);
///     let extras = Confinement::new().runtime_files().extra("/var/cache/server", ExtraAccess::ReadWrite);
///     eprintln!("{}", guard.confine_process(&extras)?); // first of all: no thread is there yet
///     tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async { /* serve */ });
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Confinement {
    extras: Vec<Named>,
}

/// What may be done with a path, and with what is beneath it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExtraAccess {
    /// Reading and listing.
    ReadOnly,
    /// Also making, writing, renaming and removing; device nodes excepted.
    ReadWrite,
    /// Reading, listing and running its programs, with the libraries they load. If it is around what may be written, or in it,
    /// what is written there can be run; and nothing is renamed into it from where that can not (`CrossDevice`).
    Execute,
}

#[derive(Clone, Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing is looked for elsewhere"))]
struct Named {
    path: PathBuf,
    reach: ExtraAccess,
    missing: Missing,
}

/// What it means that an extra is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Refused,
    Reported,
    /// Each system has some of them.
    Ignored,
}

impl Confinement {
    /// The allowed directories alone. That is enough for the guard, for a Rust program that is running, and for tokio.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file or directory, which must exist. Links are followed, as the operator is trusted, but none that lies in an
    /// allowed directory, or in an extra that may be written: a tool could have made it. A temporary directory is an extra, too:
    /// better the server's own than all of `/tmp`, where other programs keep theirs.
    pub fn extra(mut self, path: impl Into<PathBuf>, reach: ExtraAccess) -> Self {
        self.also(path.into(), reach, Missing::Refused);
        self
    }

    /// As [`extra`](Self::extra), but it may be missing. Then it is reported ([`Confined::missing`]), and stays out of reach when it is
    /// made later.
    pub fn optional_extra(mut self, path: impl Into<PathBuf>, reach: ExtraAccess) -> Self {
        self.also(path.into(), reach, Missing::Reported);
        self
    }

    /// Adds what the system's libraries read for names of hosts, time zones and certificates, as far as it is there, read-only
    /// ([`RUNTIME_FILES`]), and `/dev/null` to be written. No program, and nothing of `/proc`, which holds the process's own
    /// environment. With glibc from 2.34 on names of hosts need nothing more. A file that is replaced, as `resolv.conf` is by
    /// some programs when the network changes, is out of reach until a restart; where that matters, name its directory.
    pub fn runtime_files(mut self) -> Self {
        for path in RUNTIME_FILES {
            self.also(path.into(), ExtraAccess::ReadOnly, Missing::Ignored);
        }
        self.also("/dev/null".into(), ExtraAccess::ReadWrite, Missing::Ignored);
        self
    }

    fn also(&mut self, path: PathBuf, reach: ExtraAccess, missing: Missing) {
        self.extras.push(Named { path, reach, missing });
    }
}

/// What [`Confinement::runtime_files`] lets be read (resolv.conf(5), nsswitch.conf(5), tzset(3), and where distributions keep certificates).
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

/// The report of what the kernel enforces: `Display` has it for the operator's log, a line for each path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it tells what is not enforced"]
pub struct Confined {
    abi: u32,
    enforced: Enforced,
    threads: usize,
    paths: Vec<ConfinedPath>,
    missing: Vec<PathBuf>,
}

/// How much of what confinement means the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Enforced {
    /// All that is asked of it.
    Fully,
    /// Not what [`Confined::not_enforced`] tells: the kernel is older.
    Partly,
}

/// A path that this confinement lets be used, with what is beneath it. An earlier one, or one around this process, may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfinedPath {
    path: PathBuf,
    reach: ExtraAccess,
    is_operators: bool,
}

impl ConfinedPath {
    /// Where it was when the process was confined, all links followed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What may be done there.
    #[must_use]
    pub fn reach(&self) -> ExtraAccess {
        self.reach
    }

    /// Whether it is an allowed directory, and no extra.
    #[must_use]
    pub fn is_allowed_directory(&self) -> bool {
        self.is_operators
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

    /// What this kernel does not enforce, or enforces otherwise, as newer ones do not. What no kernel does stands at
    /// [`Guard::confine_process`].
    pub fn not_enforced(&self) -> impl Iterator<Item = &'static str> {
        let abi = self.abi;
        SINCE.iter().filter(move |(since, _)| abi < *since).map(|(_, what)| *what)
    }

    /// How many threads the process had. All of them are confined, and each that they start.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// What can be used: the allowed directories, then the extras.
    #[must_use]
    pub fn paths(&self) -> &[ConfinedPath] {
        &self.paths
    }

    /// Optional allowed directories and extras that were not there. One that is made later is out of reach,
    /// unless it lies in one of [`paths`](Self::paths).
    #[must_use]
    pub fn missing(&self) -> &[PathBuf] {
        &self.missing
    }
}

/// The version of Landlock from which something is no longer as told here (landlock(7), "Landlock ABI versions").
const SINCE: &[(u32, &str)] = &[
    (2, "files can not be renamed or linked from one directory to another, not even inside"),
    (3, "files outside that may be written can be truncated by their path"),
    (5, "devices that can be opened take any ioctl"),
];

impl fmt::Display for Confined {
    #[expect(clippy::unnecessary_debug_formatting, reason = "a path is one line, whatever its name")]
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
            let reach = match confined.reach {
                ExtraAccess::ReadOnly => "read-only",
                ExtraAccess::ReadWrite => "read-write",
                ExtraAccess::Execute => "read and execute",
            };
            let whose = if confined.is_operators { "directory" } else { "extra" };
            write!(f, "\n  {whose}, {reach}: {:?}", confined.path)?;
        }
        for path in &self.missing {
            write!(f, "\n  missing, out of reach until a restart: {path:?}")?;
        }
        Ok(())
    }
}

impl Guard {
    /// Restricts the whole process to the allowed directories, by their access, and to the extras, so that code that forgets the
    /// guard is stopped by the kernel. For good: neither this process nor a program that it starts can undo it. Each further call
    /// narrows, up to 16 (landlock(7)).
    ///
    /// Call it first of all: after the guard is built, before any thread or runtime is there. From Linux 7.0 on the kernel confines all
    /// threads at once; before, it confines the calling one and those it starts later, so where `/proc/self/task` holds more than one, or
    /// can not be asked, this is refused and nothing is changed. A thread that was just joined can be there for an instant.
    ///
    /// It is a second line, and not a guard: Landlock knows paths, not clients. **It leaves alone**, whatever the kernel:
    ///
    /// - what is open already: descriptors, standard input and output;
    /// - whether something exists, its metadata, its extended attributes and the text of links (`stat`, `getxattr`, `readlink`),
    ///   for all of the file system; and names of what changes in a directory that is watched (`inotify`);
    /// - changes of mode, owner, times and extended attributes, also outside, as far as the user may make them;
    /// - the network, signals, and sockets by their path: a service behind one (a session bus, a container's daemon) does what it
    ///   is asked, unconfined;
    /// - other names of the same object, by bind mounts and hard links: what lies in a read-only directory can be written where
    ///   such a name lies in what may be written, and a file inside can have a name outside, too.
    ///
    /// The rules are tied to objects, as they are now. A directory that is moved away stays in reach under its new name; one that **replaces
    /// it, or comes back later, does not come into reach**: the guard resolves it again, and operations there are refused
    /// ([`PermissionDenied`](crate::ErrorKind::PermissionDenied)) until the process is started anew. So a deploy that replaces an operator
    /// directory needs a restart; one that replaces what is in it does not. The same holds of a root that is a file, once another file has
    /// its name.
    ///
    /// No file is run as a program but one of an extra ([`ExtraAccess::Execute`]); a program that is in memory only (memfd_create(2)) can
    /// be, and is confined, too. Device nodes can not be made, and a device that is opened later takes none of its own ioctls.
    /// `no_new_privs` is set (prctl(2)): programs that are started gain no rights by set-user-ID.
    ///
    /// # Errors
    ///
    /// [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`no_directories`) without
    /// allowed directories: what clients list is not known yet.
    /// [`ConfinementUnavailable`](crate::ErrorKind::ConfinementUnavailable)
    /// (`confinement_unavailable`) where there is no Landlock: on other systems, on kernels before
    /// 5.13, on those where it is not built in or not enabled (`lsm=`), and behind a filter that
    /// takes it away or answers for it.
    /// The same (`threads_running`) if the process has other threads, or may have.
    /// [`RootUnavailable`](crate::ErrorKind::RootUnavailable) and the like for an allowed directory
    /// that is gone by now. [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration)
    /// (`access_conflict`) for an extra that may be written and lies in a read-only allowed
    /// directory, or around one, or is one by another name.
    /// [`RootRejected`](crate::ErrorKind::RootRejected) (`through_link`) for an extra that is named
    /// through a link in an allowed directory, or in an extra that may be written. By its kind, why
    /// an extra that is not optional can not be had. [`Io`](crate::ErrorKind::Io) for what else the
    /// kernel says; `no_new_privs` may be set then, and nothing else is.
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
        let path = |path: &str, reach, is_operators| ConfinedPath { path: path.into(), reach, is_operators };
        let paths = vec![
            path("/srv/a\nb", ExtraAccess::ReadWrite, true),
            path("/srv/c", ExtraAccess::ReadOnly, true),
            path("/usr", ExtraAccess::Execute, false),
        ];
        Confined { abi, enforced, threads: 1, paths, missing: vec!["/srv/none".into()] }
    }

    #[test]
    fn the_report_tells_what_is_enforced_and_what_is_not() {
        let told = [
            "confined by Landlock, version 7, fully enforced, 1 thread",
            r#"  directory, read-write: "/srv/a\nb""#,
            r#"  directory, read-only: "/srv/c""#,
            r#"  extra, read and execute: "/usr""#,
            r#"  missing, out of reach until a restart: "/srv/none""#,
        ];
        assert_eq!(report(7, Enforced::Fully).to_string(), told.join("\n"));
        let old = report(1, Enforced::Partly).to_string();
        assert!(
            old.starts_with("confined by Landlock, version 1, partly enforced, 1 thread\n  older kernel: "),
            "{old}"
        );
        let gaps = |abi| report(abi, Enforced::Partly).not_enforced().count();
        assert_eq!([1, 2, 3, 4, 5, 9].map(gaps), [3, 2, 1, 1, 0, 0]);
    }
}
