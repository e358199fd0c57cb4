//! The descriptor table of the thread that starts a program, on Linux.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use nix::unistd::close;
use rustix::fs::OFlags;

use crate::error::{Code, Error, Result};

/// The path of a descriptor of the process that looks it up (proc(5)).
pub(super) fn path(number: i32) -> PathBuf {
    format!("/proc/self/fd/{number}").into()
}

/// Gives the calling thread its own copy of the descriptor table, and returns the server's
/// descriptors in it. If a copy is not permitted, returns `None`, or an error if the program would
/// inherit a descriptor.
pub(super) fn copy_table() -> Result<Option<Vec<i32>>> {
    // Defense: The child inherits no descriptor of the server.
    if unshare(CloneFlags::CLONE_FILES).is_ok() {
        return open().map(Some);
    }
    let found: Vec<_> = open()?.into_iter().filter(|number| is_inheritable(*number)).collect();
    if found.is_empty() {
        return Ok(None);
    }
    let detail = format!("descriptors without FD_CLOEXEC: {found:?}");
    Err(Error::new(Code::InheritedDescriptors).detail(detail))
}

/// Closes these descriptors in the calling thread's table, except the one of the directory.
pub(super) fn close_others(copied: Vec<i32>, directory: Option<&Path>) {
    for number in copied.into_iter().filter(|number| directory != Some(&path(*number))) {
        let _ = close(number);
    }
}

/// The open descriptors of the calling thread, except standard input, output and error.
fn open() -> Result<Vec<i32>> {
    let name = |entry: io::Result<DirEntry>| entry.map(|entry| entry.file_name());
    let listed = fs::read_dir("/proc/thread-self/fd")
        .and_then(|listed| listed.map(name).collect::<io::Result<Vec<_>>>())
        .map_err(|error| Error::io(Code::Unsupported, error).detail("/proc is required"))?;
    let numbers = listed.iter().filter_map(|name| name.to_str()?.parse().ok());
    // The listing contains its own descriptor, which is closed by now.
    let is_open = |number: &i32| fs::read_link(format!("/proc/thread-self/fd/{number}")).is_ok();
    Ok(numbers.filter(|number| *number > 2 && is_open(number)).collect())
}

/// Whether a program would inherit a descriptor (proc(5), `/proc/PID/fdinfo`).
fn is_inheritable(number: i32) -> bool {
    // A descriptor that was closed in the meantime is not inherited.
    let info = fs::read_to_string(format!("/proc/thread-self/fdinfo/{number}"));
    let Ok(info) = info else { return false };
    let flags = |line: &str| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok();
    info.lines().find_map(flags).is_none_or(|flags| flags & OFlags::CLOEXEC.bits() == 0)
}
