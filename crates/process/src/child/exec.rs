//! What the new process does between fork(2) and execve(2), on Linux.
//!
//! The program is confined here, and not in the thread that starts it: processes and threads of the
//! same confinement may trace and signal each other (landlock(7)), and a thread of the server
//! shares the server's memory.
//!
//! Only this thread exists in the new process, so a lock that another thread held stays locked.
//! Therefore it makes only system calls: it allocates nothing, and drops nothing that was
//! allocated. This is the only unsafe code of the crate, because neither std nor another crate has
//! a safe way to run these calls at this point.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::libc;
use rustix::process::{
    Pid, Resource, Signal, getpid, getppid, getrlimit, set_parent_process_death_signal,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use crate::confine::Restriction;

/// Makes the program inherit no descriptor except standard input, output and error, have no
/// privileges unless it keeps them, die with the thread that starts it, and be confined if there is
/// a restriction.
#[expect(unsafe_code, reason = "std has no safe hook between fork and execve")]
pub(super) fn prepare(
    command: &mut Command,
    keeps_privileges: bool,
    mut confined: Option<Restriction>,
) {
    let server = getpid();
    let highest = getrlimit(Resource::Nofile).maximum.unwrap_or(MOST_DESCRIPTORS);
    let before_exec = move || {
        // Defense: The child inherits no descriptor of the server.
        close_at_exec(highest.min(MOST_DESCRIPTORS))?;
        if !keeps_privileges {
            drop_privileges()?;
        }
        end_with_server(server)?;
        confined.as_mut().map_or(Ok(()), Restriction::enforce)
    };
    // SAFETY: The function makes only system calls, as the documentation of this module explains.
    unsafe { command.pre_exec(before_exec) };
}

/// Makes execve(2) close each descriptor except standard input, output and error.
#[expect(unsafe_code, reason = "no crate offers close_range(2), or fcntl(2) of a number, as safe")]
fn close_at_exec(highest: u64) -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: The call has no pointers, and changes only descriptors of the new process.
    let marked = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if marked == 0 {
        return Ok(());
    }
    // The kernel is older than 5.11, or a filter of a container does not know the call.
    for number in FIRST..u32::try_from(highest).unwrap_or(u32::MAX) {
        let number = libc::c_int::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: The same. If there is no such descriptor, nothing happens (EBADF).
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// Drops all capabilities. With `no_new_privs`, a program gets none back by its owner, set-user-ID
/// bit or file capabilities, even as root (execve(2), capabilities(7)).
fn drop_privileges() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // Defense: A program of a server that runs as root cannot use root's powers.
    Ok(set_no_new_privs(true).and_then(|()| set_capabilities(None, none))?)
}

/// Lets the kernel kill the program when the thread that starts it ends, also with the server
/// (PR_SET_PDEATHSIG(2const)).
fn end_with_server(server: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The server may have ended before.
    if getppid() == Some(server) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPIPE)) }
}

/// The most descriptors that are marked one by one, the default of `fs.nr_open` (proc(5)).
const MOST_DESCRIPTORS: u64 = 1 << 20;
