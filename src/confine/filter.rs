//! A seccomp filter (seccomp(2)) that denies a child process the sockets that Landlock does not.
//!
//! Landlock can deny TCP and UDP, but no other protocol, and Unix sockets by path only from version
//! 9 on. The filter makes these system calls fail with `EACCES`:
//!
//! | call | denied |
//! | --- | --- |
//! | `socket` | every domain of a denied channel |
//! | `socketpair` | types that can be connected again, by path: `SOCK_DGRAM`, and `SOCK_RAW`, which is the same for Unix sockets |
//! | `io_uring_setup` | always, because a ring creates sockets without these calls |
//!
//! A program for another architecture than the server's, such as a 32-bit program, is killed
//! (`SIGSYS`), because its calls have other numbers.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// Denies the calling thread and everything that it starts from now on to create sockets of the
/// network, Unix sockets, or both. Returns whether this is enforced. It is not if the filter is not
/// supported on this architecture, or another filter forbids filters or only reports success.
pub(super) fn deny_sockets(network: bool, unix: bool) -> bool {
    // Defense: A child process has no socket that Landlock does not restrict.
    let is_applied = filter(network, unix).is_some_and(|filter| apply_filter(&filter).is_ok());
    is_applied
        && !(unix && UnixDatagram::unbound().is_ok())
        && !(network && UdpSocket::bind("127.0.0.1:0").is_ok())
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
fn filter(network: bool, unix: bool) -> Option<BpfProgram> {
    let rule = |argument, operator, value: i32| {
        let value = u64::try_from(value).ok()?;
        let condition =
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).ok()?;
        SeccompRule::new(vec![condition]).ok()
    };
    let (domain, kind) = (0, 1);
    let sockets = match (network, unix) {
        (false, false) => return None,
        (true, false) => vec![rule(domain, SeccompCmpOp::Ne, libc::AF_UNIX)?],
        (false, true) => vec![rule(domain, SeccompCmpOp::Eq, libc::AF_UNIX)?],
        // Without a condition, every call matches.
        (true, true) => Vec::new(),
    };
    let mut denied = vec![(libc::SYS_socket, sockets), (libc::SYS_io_uring_setup, Vec::new())];
    if unix {
        let is = |of| rule(kind, SeccompCmpOp::MaskedEq(SOCKET_TYPES), of);
        denied.push((libc::SYS_socketpair, vec![is(libc::SOCK_DGRAM)?, is(libc::SOCK_RAW)?]));
    }
    let x32 = denied.iter().map(|(call, rules)| (call | X32, rules.clone()));
    let rules: BTreeMap<_, _> = denied.iter().cloned().chain(x32).collect();
    let error = SeccompAction::Errno(libc::EACCES.try_into().ok()?);
    let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, arch).ok()?;
    filter.try_into().ok()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
fn filter(_: bool, _: bool) -> Option<BpfProgram> {
    None
}

/// The bits of the second argument of socket(2) that are the type. The others are flags (Linux's
/// include/linux/net.h, `SOCK_TYPE_MASK`).
const SOCKET_TYPES: u64 = 0xf;

/// The bit of the call numbers of the x32 ABI, which x86-64 kernels can support in addition
/// (syscall(2)). No other architecture has a call with this bit.
const X32: i64 = 0x4000_0000;
