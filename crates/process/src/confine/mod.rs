//! Confines the whole process to the allowed directories ([`Confinement::confine_process`]), or a
//! child process to the roots in force ([`ChildCommand::confined`](crate::ChildCommand::confined)).
//!
//! The mechanism is Landlock (landlock(7), Linux 5.13) and, for a child process, also a seccomp
//! filter (`filter`). The rules refer to file and directory objects, and the kernel checks them
//! whenever the process opens, creates, removes, renames or runs something by path. They are
//! created from the guard's own handles, so a path that is swapped in the meantime does not widen
//! access.
//!
//! The guard continues to work: its look-ups use `O_PATH` descriptors, `statx` and `readlink`,
//! which Landlock does not restrict, and all its other operations are beneath the allowed
//! directories.
//!
//! Landlock only adds rights, so a writable directory or extra inside a read-only one is enforced
//! exactly. Patterns for protected names are the guard's alone.

#[cfg(target_os = "linux")]
mod filter;
mod process;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

use std::fmt;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use self::linux as system;
#[cfg(not(target_os = "linux"))]
use self::other as system;
pub(crate) use self::system::{ChildConfinement, Restriction, prepare};

use guarded_fs::Error;

use crate::kinds;

/// The paths and [channels](Channel) that a process may use in addition to the allowed directories.
///
/// The default is the allowed directories alone, which is sufficient for the guard, for a Rust
/// program that is already running, and for tokio.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Confinement {
    extras: Vec<Extra>,
    /// Whether each channel is allowed. The last choice counts.
    choices: Vec<(Channel, bool)>,
    /// Whether a program can run files in the roots.
    has_programs_in_roots: bool,
    /// Whether a program runs even if the kernel cannot enforce everything.
    is_partial_allowed: bool,
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

/// A way to reach or observe other processes without opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Channel {
    /// TCP (Landlock 4) and UDP (Landlock 10). A seccomp filter (on x86-64, AArch64 and RISC-V)
    /// also denies a child process all other protocols except Unix sockets.
    Network,
    /// Signals to processes outside the confinement (Landlock 6).
    Signals,
    /// Unix sockets of processes outside the confinement, such as those of a container daemon,
    /// `systemd --user` or an SSH agent: by path (Landlock 9) or by abstract name (Landlock 6).
    /// Before Landlock 9, a seccomp filter denies a child process all Unix sockets except connected
    /// pairs (socketpair(2)).
    UnixSockets,
    /// Watches of files and directories (inotify(7)). Landlock does not restrict them: a watch
    /// tells the names of entries that other processes open, create, rename and remove, in any
    /// directory that the user may read.
    ///
    /// A seccomp filter (on x86-64, AArch64 and RISC-V) denies a child process all watches, also in
    /// the roots, because it cannot see their paths. Allow them to a program that waits for changed
    /// files, such as a development server. Nothing denies them to the whole process. Whether
    /// allowed or not, a child process cannot use fanotify(7).
    Watches,
}

#[derive(Clone, Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux supports confinement"))]
struct Extra {
    path: PathBuf,
    access: ExtraAccess,
    missing: IfMissing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfMissing {
    Refused,
    Reported,
    /// For the runtime files, of which each system has only some.
    Ignored,
}

impl Confinement {
    /// Adds a file or directory, which must exist. Symlinks are followed, because the operator is
    /// trusted, except in a writable allowed directory or a writable extra, where a tool could have
    /// created them. If the process needs a temporary directory, add one that only the server uses,
    /// rather than all of `/tmp`.
    pub fn extra(mut self, path: impl Into<PathBuf>, access: ExtraAccess) -> Self {
        self.push(path.into(), access, IfMissing::Refused);
        self
    }

    /// Like [`extra`](Self::extra), but the path may be missing. It is then
    /// [reported](ConfinementReport::missing), and stays inaccessible if it is created later,
    /// unless another accessible path contains it.
    pub fn optional_extra(mut self, path: impl Into<PathBuf>, access: ExtraAccess) -> Self {
        self.push(path.into(), access, IfMissing::Reported);
        self
    }

    /// Adds the files that system libraries read for host names, time zones and certificates
    /// ([`RUNTIME_FILES`]), read-only and as far as they exist, and `/dev/null`, which is writable.
    /// It adds no programs, and nothing in `/proc`, which contains the process's own environment.
    /// With glibc 2.34 or later, resolving host names needs nothing more.
    ///
    /// A file that is replaced, as `resolv.conf` can be when the network changes, is inaccessible
    /// until a restart. If that matters, add its directory.
    pub fn runtime_files(mut self) -> Self {
        for path in RUNTIME_FILES {
            self.push(path.into(), ExtraAccess::ReadOnly, IfMissing::Ignored);
        }
        self.push("/dev/null".into(), ExtraAccess::ReadWrite, IfMissing::Ignored);
        self
    }

    /// Adds the directories of the system's programs and libraries ([`PROGRAM_DIRECTORIES`]), which
    /// almost every program needs to start, as far as they exist, and [the runtime
    /// files](Self::runtime_files). Nothing in `/proc` and no temporary or home directory is added.
    ///
    /// A root inside one of these directories, such as `/usr/src/project`, can be read and its
    /// files can be run, even if it is not in force.
    pub fn programs(mut self) -> Self {
        for path in PROGRAM_DIRECTORIES {
            self.push(path.into(), ExtraAccess::Execute, IfMissing::Ignored);
        }
        for path in PROGRAM_FILES {
            self.push(path.into(), ExtraAccess::ReadOnly, IfMissing::Ignored);
        }
        self.runtime_files()
    }

    /// Allows a channel, which a child process is otherwise denied.
    pub fn allow(mut self, channel: Channel) -> Self {
        self.choices.push((channel, true));
        self
    }

    /// Lets a confined program run files in the roots, such as tests that it has just built.
    pub fn allow_programs_in_roots(mut self) -> Self {
        self.has_programs_in_roots = true;
        self
    }

    /// Runs a confined program even if the kernel cannot enforce all restrictions.
    /// [`ChildOutput::report`](crate::ChildOutput::report) has those that it does not enforce.
    pub fn allow_partial(mut self) -> Self {
        self.is_partial_allowed = true;
        self
    }

    /// Denies a channel, which the whole process is otherwise allowed. Denied
    /// [`UnixSockets`](Channel::UnixSockets), a server can no longer connect to a system log, a
    /// name service or a session bus. For the whole process, denied [`Watches`](Channel::Watches)
    /// are [reported](ConfinementReport::not_enforced) as not enforced.
    pub fn deny(mut self, channel: Channel) -> Self {
        self.choices.push((channel, false));
        self
    }

    fn push(&mut self, path: PathBuf, access: ExtraAccess, missing: IfMissing) {
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

/// What the kernel enforces. `Display` formats it for the operator's log, with one line for each
/// path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it reports the restrictions that are not enforced"]
pub struct ConfinementReport {
    abi: u32,
    threads: usize,
    paths: Vec<ConfinedPath>,
    missing: Vec<PathBuf>,
    denied: Vec<Channel>,
    /// Whether the seccomp filter of a child process is enforced. `None` for the whole process, and
    /// if no channel is denied and filters are not supported.
    is_filtered: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ConfinedPath {
    path: PathBuf,
    access: ExtraAccess,
    is_allowed_directory: bool,
}

impl ConfinementReport {
    /// The version of Landlock that the kernel supports.
    #[must_use]
    pub fn abi(&self) -> u32 {
        self.abi
    }

    /// The requested restrictions that are not enforced, or are enforced differently, because the
    /// kernel is too old or does not permit a seccomp filter. For what is never restricted, see
    /// [`Confinement::confine_process`]. Each comes with the channel that it concerns, or `None` for
    /// files.
    pub fn not_enforced(&self) -> impl Iterator<Item = (Option<Channel>, &'static str)> {
        self.gaps().map(|(_, channel, what)| (*channel, *what))
    }

    fn gaps(&self) -> impl Iterator<Item = &'static (u32, Option<Channel>, &'static str)> {
        SINCE.iter().filter(|(since, channel, _)| {
            let is_requested = channel.is_none_or(|channel| self.denied.contains(&channel));
            let is_filtered = self.is_filtered == Some(true)
                && channel.is_some_and(|channel| channel != Channel::Signals);
            // Without a filter, Landlock denies a part of each other channel.
            let is_expected = *since != FILTER
                || *channel == Some(Channel::Watches)
                || self.is_filtered == Some(false);
            self.abi < *since && is_requested && is_expected && !is_filtered
        })
    }

    /// The accessible paths, with all symlinks resolved, and the operations allowed on each and
    /// everything beneath it. The allowed directories come first. An earlier confinement of this
    /// process, or of its parent, may still deny a path.
    #[must_use]
    pub fn paths(&self) -> impl ExactSizeIterator<Item = (&Path, ExtraAccess)> {
        self.paths.iter().map(|path| (path.path.as_path(), path.access))
    }

    /// The optional allowed directories and extras that did not exist. One that is created later is
    /// inaccessible, unless it is inside one of [`paths`](Self::paths).
    #[must_use]
    pub fn missing(&self) -> &[PathBuf] {
        &self.missing
    }
}

/// Each limitation, with the first version of Landlock to which it no longer applies (landlock(7),
/// "Landlock ABI versions"), and the channel whose denial it limits.
const SINCE: &[(u32, Option<Channel>, &str)] = &[
    (2, None, "files cannot be renamed or linked from one directory to another, even inside"),
    (3, None, "files outside can be truncated by path if the user may write them"),
    (5, None, "devices that can be opened accept any ioctl"),
    (4, Some(Channel::Network), "TCP connections are possible"),
    (10, Some(Channel::Network), "UDP, and TCP connections by Fast Open, are possible"),
    (6, Some(Channel::Signals), "signals reach processes outside the confinement"),
    (6, Some(Channel::UnixSockets), "abstract Unix sockets of other processes can be reached"),
    (9, Some(Channel::UnixSockets), "Unix sockets of other processes can be reached by path"),
    (FILTER, Some(Channel::Network), "Multipath TCP and other network protocols are possible"),
    (FILTER, Some(Channel::Signals), "limits can end processes outside the confinement"),
    (FILTER, Some(Channel::Watches), "names that others use outside can be watched"),
];

/// In place of a version: no version of Landlock denies it, but the filter of a child process does.
const FILTER: u32 = u32::MAX;

impl fmt::Display for ConfinementReport {
    #[expect(
        clippy::unnecessary_debug_formatting,
        reason = "each path takes one line, whatever its name"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_complete = self.not_enforced().next().is_none();
        let enforced =
            if is_complete { "fully enforced" } else { "enforced as far as this kernel can" };
        let (abi, threads) = (self.abi, self.threads);
        let word = if threads == 1 { "thread" } else { "threads" };
        write!(f, "confined by Landlock, version {abi}, {enforced}, {threads} {word}")?;
        for (_, what) in self.not_enforced() {
            write!(f, "\n  not enforced: {what}")?;
        }
        for denied in &self.denied {
            if self.gaps().all(|(_, channel, _)| *channel != Some(*denied)) {
                let what = match denied {
                    Channel::Network if self.is_filtered != Some(true) => "TCP and UDP",
                    Channel::Network => "the network",
                    Channel::Signals => "signals to other processes",
                    Channel::UnixSockets => "Unix sockets of other processes",
                    Channel::Watches => "watches of files",
                };
                write!(f, "\n  denied: {what}")?;
            }
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

fn unavailable() -> Error {
    let text = "process confinement is not available here";
    Error::new(kinds::CONFINEMENT_UNAVAILABLE, "confinement_unavailable", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(abi: u32) -> ConfinementReport {
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
        ConfinementReport {
            abi,
            threads: 1,
            paths,
            missing: vec!["/srv/none".into()],
            denied: Vec::new(),
            is_filtered: None,
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
                "confined by Landlock, version 1, enforced as far as this kernel can, 1 thread\n  \
                 not enforced: "
            ),
            "{old}"
        );
        let gaps = |abi| report(abi).not_enforced().count();
        assert_eq!([1, 2, 3, 4, 5, 9].map(gaps), [3, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn unenforced_denials_are_reported_only_as_gaps() {
        for (abi, is_filtered, gaps, expected) in [
            (3, None, 7, ""),
            (4, None, 6, ""),
            (5, None, 5, ""),
            (5, Some(true), 1, "network Unix watches"),
            (6, None, 3, "signals"),
            (6, Some(true), 0, "network signals Unix watches"),
            (9, None, 2, "signals Unix"),
            (10, None, 1, "TCP signals Unix"),
            (10, Some(true), 0, "network signals Unix watches"),
            (10, Some(false), 3, "Unix"),
        ] {
            let denied =
                vec![Channel::Network, Channel::Signals, Channel::UnixSockets, Channel::Watches];
            let report = ConfinementReport { denied, is_filtered, ..report(abi) };
            assert_eq!(report.not_enforced().count(), gaps, "{abi}");
            let shown = report.to_string();
            let denied = shown.lines().filter_map(|line| line.strip_prefix("  denied: "));
            let words = denied.map(|what| what.trim_start_matches("the ").split(' ').next());
            assert_eq!(words.flatten().collect::<Vec<_>>().join(" "), expected, "{shown}");
        }
    }
}
