//! A seccomp filter (seccomp(2)) that denies a child process what Landlock does not.
//!
//! Landlock can deny TCP and UDP, but no other protocol, and Unix sockets by path only from version
//! 9 on. The filter makes these system calls fail with `EACCES`:
//!
//! | call | denied |
//! | --- | --- |
//! | `socket` | every domain of a denied channel |
//! | `socketpair` | with the network, every domain but Unix sockets (tipc(7) has pairs); with Unix sockets, the types that can be connected again, by path: `SOCK_DGRAM`, and `SOCK_RAW`, which is the same for them |
//! | `io_uring_setup` | with sockets, because a ring creates them without these calls |
//! | `prlimit64` | with signals, because a limit can end another process: setting a limit of a process by its number |
//!
//! A program for another architecture than the server's, such as a 32-bit program, is killed
//! (`SIGSYS`), because its calls have other numbers.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixDatagram;

use nix::libc;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Resource, getpid, getrlimit, prlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::Channel;

pub(super) struct Filter {
    program: BpfProgram,
    network: bool,
    unix: bool,
    signals: bool,
}

impl Filter {
    /// `None` if there is nothing to deny, or if filters are not supported on this architecture.
    pub(super) fn new(denied: &[Channel], denies_unix_sockets: bool) -> Option<Self> {
        let is_denied = |channel| denied.contains(&channel);
        let unix = is_denied(Channel::UnixSockets) && denies_unix_sockets;
        let network = is_denied(Channel::Network);
        let signals = is_denied(Channel::Signals);
        let program = program(network, unix, signals)?;
        Some(Self { program, network, unix, signals })
    }

    /// Applies the filter to the calling thread and everything that it starts from now on. Makes
    /// only system calls.
    pub(super) fn apply(&self) -> io::Result<()> {
        // Defense: A child process has no socket that Landlock does not restrict.
        apply_filter(&self.program).map_err(|_| io::Error::from_raw_os_error(libc::EACCES))
    }

    /// Applies the filter to the calling thread, and tests whether it is enforced. A filter of a
    /// container can forbid filters, or only report success. Landlock, which is enforced already,
    /// permits all that is tested.
    pub(super) fn is_enforced_here(&self) -> bool {
        self.apply().is_ok()
            && (!self.unix || is_denied(UnixDatagram::unbound()))
            && (!self.network || is_denied(socket(AddressFamily::INET, SocketType::DGRAM, None)))
            && (!self.signals || is_denied(prlimit(Some(getpid()), LIMIT, getrlimit(LIMIT))))
    }
}

/// Any other error, such as a full descriptor table, shows nothing.
fn is_denied<T>(done: Result<T, impl Into<io::Error>>) -> bool {
    done.is_err_and(|error| error.into().raw_os_error() == Some(libc::EACCES))
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
fn program(network: bool, unix: bool, signals: bool) -> Option<BpfProgram> {
    let condition = |argument, length, operator, value: i32| {
        SeccompCondition::new(argument, length, operator, u64::try_from(value).ok()?).ok()
    };
    let one = |argument, operator, value| {
        SeccompRule::new(vec![condition(argument, Length::Dword, operator, value)?]).ok()
    };
    let (domain, kind) = (0, 1);
    let mut denied = Vec::new();
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
    if signals {
        let (process, new_limit) = (0, 2);
        let conditions = vec![
            condition(process, Length::Dword, Compare::Ne, 0)?,
            condition(new_limit, Length::Qword, Compare::Ne, 0)?,
        ];
        denied.push((libc::SYS_prlimit64, vec![SeccompRule::new(conditions).ok()?]));
    }
    if denied.is_empty() {
        return None;
    }
    let x32 = denied.iter().map(|(call, rules)| (call | X32, rules.clone()));
    let rules: BTreeMap<_, _> = denied.iter().cloned().chain(x32).collect();
    let error = SeccompAction::Errno(libc::EACCES.try_into().ok()?);
    let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, arch).ok()?;
    filter.try_into().ok()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
fn program(_: bool, _: bool, _: bool) -> Option<BpfProgram> {
    None
}

/// Any limit. It is set to its present value.
const LIMIT: Resource = Resource::Core;

/// The bits of the second argument of socket(2) that are the type. The others are flags (Linux's
/// include/linux/net.h, `SOCK_TYPE_MASK`).
const SOCKET_TYPES: u64 = 0xf;

/// The bit of the call numbers of the x32 ABI, which x86-64 kernels can support in addition
/// (syscall(2)). No other architecture has a call with this bit.
const X32: i64 = 0x4000_0000;
