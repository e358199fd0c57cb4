//! Confines the whole process to the allowed directories, or a child process to the roots in force.
//!
//! [`Boundary::confine_process`](crate::Boundary::confine_process) takes a [`Confinement`], which
//! lists the paths that the process needs in addition to the allowed directories. From then on, no
//! thread of the process and no program that it starts can open, create, remove, rename or run a
//! file outside these paths and the allowed directories, whether or not the code uses the guard.
//! This cannot be undone. The result is a [`Confined`], which reports what the kernel enforces.
//!
//! [`ChildCommand::confined`](crate::ChildCommand::confined) takes the same type. It confines only
//! the thread that starts the child process, and with it the child process and everything that it
//! starts. The rules are those of the roots in force for the request. The child process can also be
//! denied TCP connections, signals and abstract Unix sockets.
//!
//! The mechanism is Landlock (landlock(7), Linux 5.13). Its rules refer to file and directory
//! objects, and the kernel checks them whenever the process opens, creates, removes, renames or
//! runs something by path. The rules are created from the guard's own handles, so a path that is
//! swapped in the meantime does not widen access. The guard itself continues to work. Its look-ups
//! use `O_PATH` descriptors, `statx` and `readlink`, which Landlock does not restrict. All its
//! other operations are beneath the allowed directories.
//!
//! Confinement is refused, and nothing is enforced, in these cases among others:
//!
//! | case | refusal |
//! | --- | --- |
//! | no allowed directory | `no_directories` |
//! | another system, or a kernel without Landlock | `confinement_unavailable` |
//! | other threads, if the kernel confines only the calling thread, or threads that cannot be counted | `threads_running` |
//! | a writable extra that is in, contains or is another name of a read-only directory | `access_conflict` |
//! | an extra named through a symlink that a tool could have created | `through_link` |
//!
//! An older version of Landlock with fewer rights does not cause a refusal.
//! [`Confined::not_enforced`] lists the restrictions that the older version does not enforce.
//!

#[cfg(feature = "landlock")]
mod process;
#[cfg(all(target_os = "linux", feature = "landlock"))]
mod linux;
#[cfg(not(all(target_os = "linux", feature = "landlock")))]
mod other;

use std::fmt;
use std::path::{Path, PathBuf};

#[cfg(all(target_os = "linux", feature = "landlock"))]
use self::linux as system;
#[cfg(not(all(target_os = "linux", feature = "landlock")))]
use self::other as system;
pub(crate) use self::system::{Prepared, Restriction, prepare};

/// The paths that a process may use in addition to the allowed directories. They are passed to
/// [`Boundary::confine_process`](crate::Boundary::confine_process).
///
/// The default is the allowed directories alone. This is sufficient for the guard, for a Rust
/// program that is already running, and for tokio.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Confinement {
    extras: Vec<Extra>,
}

/// The operations allowed on a path and everything beneath it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExtraAccess {
    /// Read and list.
    ReadOnly,
    /// Read, list, create, write, rename and remove, except device nodes.
    ReadWrite,
    /// Read, list, and run programs with the libraries that they load. If the path contains or is
    /// inside a writable path, files written there can be run. A rename into this path is refused
    /// (`CrossDevice`) if the file comes from a place where files cannot be run.
    Execute,
}

#[derive(Clone, Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux supports confinement"))]
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
    /// For the runtime files, of which each system has only some.
    Ignored,
}

impl Confinement {
    /// Adds a file or directory, which must exist. Symlinks are followed, because the operator is
    /// trusted. The exceptions are symlinks in an allowed directory or a writable extra, where a
    /// tool could have created them. If the process needs a temporary directory, add it too. Add a
    /// directory that only the server uses, rather than all of `/tmp`, which other programs also
    /// use.
    pub fn extra(mut self, path: impl Into<PathBuf>, access: ExtraAccess) -> Self {
        self.push(path.into(), access, Missing::Refused);
        self
    }

    /// Like [`extra`](Self::extra), but the path may be missing. A missing path is reported
    /// ([`Confined::missing`]), and stays inaccessible if it is created later, unless another
    /// accessible path contains it.
    pub fn optional_extra(mut self, path: impl Into<PathBuf>, access: ExtraAccess) -> Self {
        self.push(path.into(), access, Missing::Reported);
        self
    }

    /// Adds the files that system libraries read for host names, time zones and certificates
    /// ([`RUNTIME_FILES`]). They are read-only, and missing files are ignored. It also adds
    /// `/dev/null`, which is writable. It adds no programs and nothing in `/proc`, which contains
    /// the process's own environment. With glibc 2.34 or later, resolving host names needs nothing
    /// more. A file that is replaced, as some programs replace `resolv.conf` when the network
    /// changes, is inaccessible until a restart. If that matters, add the directory that contains
    /// the file.
    pub fn runtime_files(mut self) -> Self {
        for path in RUNTIME_FILES {
            self.push(path.into(), ExtraAccess::ReadOnly, Missing::Ignored);
        }
        self.push("/dev/null".into(), ExtraAccess::ReadWrite, Missing::Ignored);
        self
    }

    /// Adds the directories of the system's programs and libraries ([`PROGRAM_DIRECTORIES`]), which
    /// almost every program needs to start, and [the runtime files](Self::runtime_files). Missing
    /// directories are ignored. Nothing in `/proc` and no temporary or home directory is added. A
    /// root inside one of these directories, such as `/usr/src/project`, can be read and its files
    /// can be run, even if it is not among the roots in force.
    pub fn programs(mut self) -> Self {
        for path in PROGRAM_DIRECTORIES {
            self.push(path.into(), ExtraAccess::Execute, Missing::Ignored);
        }
        for path in PROGRAM_FILES {
            self.push(path.into(), ExtraAccess::ReadOnly, Missing::Ignored);
        }
        self.runtime_files()
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

/// The directories that [`Confinement::programs`] makes readable and executable: those of hier(7),
/// and the stores of Nix and Guix.
pub const PROGRAM_DIRECTORIES: &[&str] =
    &["/bin", "/gnu/store", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sbin", "/usr"];

/// Files that programs read when they start (ld.so(8), update-alternatives(1), random(4)).
const PROGRAM_FILES: &[&str] = &[
    "/dev/random",
    "/dev/zero",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
];

/// A report of the confinement that the kernel enforces. `Display` formats it for the operator's
/// log, with one line for each path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it reports the restrictions that are not enforced"]
pub struct Confined {
    abi: u32,
    threads: usize,
    paths: Vec<ConfinedPath>,
    missing: Vec<PathBuf>,
    denied: Denied,
}

/// The restrictions other than those of files and directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Denied {
    network: bool,
    signals: bool,
}

/// The exceptions from the confinement of a child process.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub(crate) struct ChildScope {
    /// Whether files in the roots can be run.
    pub(crate) programs: bool,
    pub(crate) network: bool,
    pub(crate) signals: bool,
    /// Whether the kernel may be too old to enforce everything.
    pub(crate) partial: bool,
}

/// A path that is accessible with everything beneath it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConfinedPath {
    path: PathBuf,
    access: ExtraAccess,
    is_allowed_directory: bool,
}

impl Confined {
    /// The version of Landlock that the kernel supports.
    #[must_use]
    pub fn abi(&self) -> u32 {
        self.abi
    }

    /// The requested restrictions that newer kernels enforce, but that this kernel does not enforce
    /// or enforces differently. If there are none, everything that was requested is enforced. For a
    /// child process that was not allowed them, the requested restrictions include TCP connections
    /// (Landlock 4) and signals and abstract Unix sockets of other processes (Landlock 6). For what
    /// is never restricted, see [`Boundary::confine_process`](crate::Boundary::confine_process).
    pub fn not_enforced(&self) -> impl Iterator<Item = &'static str> {
        let (abi, denied) = (self.abi, self.denied);
        let network = denied.network.then_some(&NETWORK_SINCE);
        let signals = denied.signals.then_some(&SIGNALS_SINCE);
        let known = SINCE.iter().chain(network).chain(signals);
        known.filter(move |(since, _)| abi < *since).map(|(_, what)| *what)
    }

    /// The accessible paths, with all symlinks resolved, and the operations allowed on each and
    /// everything beneath it. The allowed directories come before the extras. An earlier
    /// confinement of this process, or of its parent, may still deny a path.
    #[must_use]
    pub fn paths(&self) -> impl ExactSizeIterator<Item = (&Path, ExtraAccess)> {
        self.paths.iter().map(|path| (path.path.as_path(), path.access))
    }

    /// The optional allowed directories and extras that did not exist. A path that is created later
    /// is inaccessible, unless it is inside one of [`paths`](Self::paths).
    #[must_use]
    pub fn missing(&self) -> &[PathBuf] {
        &self.missing
    }
}

/// Each limitation, with the first version of Landlock to which it no longer applies (landlock(7),
/// "Landlock ABI versions").
const SINCE: &[(u32, &str)] = &[
    (2, "files cannot be renamed or linked from one directory to another, even inside"),
    (3, "files outside can be truncated by path if the user may write them"),
    (5, "devices that can be opened accept any ioctl"),
];

const NETWORK_SINCE: (u32, &str) = (4, "TCP connections are possible");

const SIGNALS_SINCE: (u32, &str) =
    (6, "signals and abstract Unix sockets reach processes outside the confinement");

impl fmt::Display for Confined {
    #[expect(
        clippy::unnecessary_debug_formatting,
        reason = "each path takes one line, whatever its name"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_complete = self.not_enforced().next().is_none();
        let enforced = if is_complete { "fully" } else { "partly" };
        let (abi, threads) = (self.abi, self.threads);
        let word = if threads == 1 { "thread" } else { "threads" };
        write!(f, "confined by Landlock, version {abi}, {enforced} enforced, {threads} {word}")?;
        for what in self.not_enforced() {
            write!(f, "\n  older kernel: {what}")?;
        }
        if self.denied.network && self.abi >= NETWORK_SINCE.0 {
            write!(f, "\n  denied: TCP")?;
        }
        if self.denied.signals && self.abi >= SIGNALS_SINCE.0 {
            write!(f, "\n  denied: signals and abstract Unix sockets of other processes")?;
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
            write!(f, "\n  missing, inaccessible until a restart: {path:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(abi: u32) -> Confined {
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
        Confined {
            abi,
            threads: 1,
            paths,
            missing: vec!["/srv/none".into()],
            denied: Denied::default(),
        }
    }

    #[test]
    fn the_report_lists_accessible_paths_and_unenforced_restrictions() {
        let lines = [
            "confined by Landlock, version 7, fully enforced, 1 thread",
            r#"  directory, read-write: "/srv/a\nb""#,
            r#"  directory, read-only: "/srv/c""#,
            r#"  extra, read and execute: "/usr""#,
            r#"  missing, inaccessible until a restart: "/srv/none""#,
        ];
        assert_eq!(report(7).to_string(), lines.join("\n"));
        let old = report(1).to_string();
        assert!(
            old.starts_with(
                "confined by Landlock, version 1, partly enforced, 1 thread\n  older kernel: "
            ),
            "{old}"
        );
        let gaps = |abi| report(abi).not_enforced().count();
        assert_eq!([1, 2, 3, 4, 5, 9].map(gaps), [3, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn unenforced_denials_are_reported_only_as_gaps() {
        let denied = Denied { network: true, signals: true };
        for (abi, gaps, is_denied) in [
            (3, 3, [false, false]),
            (4, 2, [true, false]),
            (5, 1, [true, false]),
            (6, 0, [true, true]),
        ] {
            let report = Confined { denied, ..report(abi) };
            assert_eq!(report.not_enforced().count(), gaps, "{abi}");
            let shown = report.to_string();
            assert_eq!(
                [shown.contains("denied: TCP"), shown.contains("denied: signals")],
                is_denied,
                "{shown}"
            );
        }
    }
}
