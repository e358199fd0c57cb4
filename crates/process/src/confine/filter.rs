//! A seccomp filter (seccomp(2)) that denies a child process what Landlock does not: protocols
//! other than TCP and UDP, Unix sockets by path before version 9, watches of files, and processes
//! that the server would have to reap. These system calls fail with `EACCES`:
//!
//! - `socket`: every domain of a denied channel.
//! - `socketpair`: with the network, every domain but Unix sockets (tipc(7) has pairs); with Unix
//!   sockets, the types that can be connected again by path: `SOCK_DGRAM`, and `SOCK_RAW`, which is
//!   the same for them.
//! - `io_uring_setup`: with sockets, because a ring creates them without these calls.
//! - `prlimit64`: with signals, setting a limit of a process by its number, which can end it.
//! - `inotify_add_watch`: with watches. A filter cannot read the path, so watches of files in the
//!   roots are denied, too. `inotify_init` is permitted: programs that start with it, such as `tail
//!   -f`, poll when they cannot add a watch.
//! - `fanotify_init`: always, because it reports the names of entries in the whole filesystem.
//! - `clone`: always `CLONE_PARENT`, which makes the new process a child of the server.
//!
//! `clone3` has its flags in memory, which a filter cannot read. It fails with `ENOSYS`, as on an
//! old kernel, so the C library uses `clone`. A program for another architecture than the server's,
//! such as a 32-bit program, is killed (`SIGSYS`), because its calls have other numbers.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixDatagram;

use nix::libc;
use rustix::fs::{CWD, inotify};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Resource, getpid, getrlimit, prlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::Channel;

pub(super) struct Filter {
    programs: [BpfProgram; 2],
    /// The channels that this filter denies, wholly or in part.
    denied: Vec<Channel>,
}

impl Filter {
    /// `None` if filters are not supported on this architecture.
    pub(super) fn new(denied: &[Channel], denies_unix_sockets: bool) -> Option<Self> {
        let mut denied = denied.to_vec();
        denied.retain(|channel| denies_unix_sockets || *channel != Channel::UnixSockets);
        Some(Self { programs: programs(&denied)?, denied })
    }

    /// Applies both filters to the calling thread and everything that it starts from now on, with
    /// system calls only.
    pub(super) fn apply(&self) -> io::Result<()> {
        // Defense: A child process has no socket that Landlock does not restrict.
        let applied = self.programs.iter().try_for_each(|program| apply_filter(program));
        applied.map_err(|_| io::Error::from_raw_os_error(libc::EACCES))
    }

    /// Applies the filter to the calling thread, and tests whether it is enforced, because one of a
    /// container can forbid filters, or only report success. Landlock permits all that is tested.
    pub(super) fn is_enforced_here(&self) -> bool {
        // Without the filter, the error is EBADF. An own instance could exceed the user's limit.
        let watch = || inotify::add_watch(CWD, "/", inotify::WatchFlags::CREATE);
        self.apply().is_ok()
            && self.denied.iter().all(|channel| match channel {
                Channel::Network => is_denied(socket(AddressFamily::INET, SocketType::DGRAM, None)),
                Channel::Signals => is_denied(prlimit(Some(getpid()), LIMIT, getrlimit(LIMIT))),
                Channel::UnixSockets => is_denied(UnixDatagram::unbound()),
                Channel::Watches => is_denied(watch()),
            })
    }
}

/// Any other error, such as a full descriptor table, shows nothing.
fn is_denied<T>(done: Result<T, impl Into<io::Error>>) -> bool {
    done.is_err_and(|error| error.into().raw_os_error() == Some(libc::EACCES))
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
fn programs(channels: &[Channel]) -> Option<[BpfProgram; 2]> {
    let network = channels.contains(&Channel::Network);
    let unix = channels.contains(&Channel::UnixSockets);
    let condition = |argument, length, operator, value: i32| {
        SeccompCondition::new(argument, length, operator, u64::try_from(value).ok()?).ok()
    };
    let one = |argument, operator, value| {
        SeccompRule::new(vec![condition(argument, Length::Dword, operator, value)?]).ok()
    };
    let (flags, domain, kind) = (0, 0, 1);
    // Defense: A confined program cannot create a child of the server.
    let mask = u64::try_from(libc::CLONE_PARENT).ok()?;
    let sibling = one(flags, Compare::MaskedEq(mask), libc::CLONE_PARENT)?;
    let mut denied = vec![(libc::SYS_clone, vec![sibling]), (libc::SYS_fanotify_init, Vec::new())];
    // Defense: A confined program watches no files, so it learns no names used outside.
    if channels.contains(&Channel::Watches) {
        denied.push((libc::SYS_inotify_add_watch, Vec::new()));
    }
    if network || unix {
        denied.push((libc::SYS_io_uring_setup, Vec::new()));
        let sockets = match (network, unix) {
            // Without a condition, every call matches.
            (true, true) => Vec::new(),
            (_, false) => vec![one(domain, Compare::Ne, libc::AF_UNIX)?],
            (false, true) => vec![one(domain, Compare::Eq, libc::AF_UNIX)?],
        };
        denied.push((libc::SYS_socket, sockets));
    }
    let mut pairs = Vec::new();
    if network {
        pairs.push(one(domain, Compare::Ne, libc::AF_UNIX)?);
    }
    if unix {
        let is = |of| one(kind, Compare::MaskedEq(SOCKET_TYPES), of);
        pairs.extend([is(libc::SOCK_DGRAM)?, is(libc::SOCK_RAW)?]);
    }
    if !pairs.is_empty() {
        denied.push((libc::SYS_socketpair, pairs));
    }
    if channels.contains(&Channel::Signals) {
        let (process, new_limit) = (0, 2);
        let conditions = vec![
            condition(process, Length::Dword, Compare::Ne, 0)?,
            condition(new_limit, Length::Qword, Compare::Ne, 0)?,
        ];
        denied.push((libc::SYS_prlimit64, vec![SeccompRule::new(conditions).ok()?]));
    }
    let unknown = vec![(libc::SYS_clone3, Vec::new())];
    Some([failing(denied, libc::EACCES)?, failing(unknown, libc::ENOSYS)?])
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
fn failing(calls: Vec<(i64, Vec<SeccompRule>)>, error: i32) -> Option<BpfProgram> {
    let x32: Vec<_> = calls.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
    let rules: BTreeMap<_, _> = calls.into_iter().chain(x32).collect();
    let error = SeccompAction::Errno(error.try_into().ok()?);
    let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, arch).ok()?;
    filter.try_into().ok()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
fn programs(_: &[Channel]) -> Option<[BpfProgram; 2]> {
    None
}

/// Any limit. It is set to its present value.
const LIMIT: Resource = Resource::Core;

/// The bits of the second argument of socket(2) that are the type. The others are flags
/// (`SOCK_TYPE_MASK` in Linux's include/linux/net.h).
const SOCKET_TYPES: u64 = 0xf;

/// The bit of the call numbers of the x32 ABI, which x86-64 kernels can support too (syscall(2)).
/// No other architecture has a call with this bit.
const X32: i64 = 0x4000_0000;
