//! Preparing a program, waiting for it, and stopping it when its request ends.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;

use guarded_fs::{Error, Result, host};

use super::permits::ChildPermit;
use super::spawn::{run, start};
use super::{ChildCommand, ChildOutput, StartsIn};
use crate::confine;
use crate::kinds;
use crate::limits::{CHILD_KILL, CHILD_LATE, CHILD_TICK};

pub(super) enum Failure {
    /// The guard has logged it.
    Logged(Error),
    New(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::New(error)
    }
}

/// Runs a program and waits for it, unless the future that waits for it is dropped.
pub(super) fn output(
    child: ChildCommand,
    is_dropped: impl Fn() -> bool,
) -> Result<ChildOutput, Failure> {
    let ensure_wanted = || {
        child.directory.roots().ensure_usable()?;
        if is_dropped() { Err(kinds::cancelled()) } else { Ok(()) }
    };
    ensure_wanted()?;
    let place = &child.directory;
    let permit = ChildPermit::take(host::scope(place.roots())).ok_or_else(too_many_children)?;
    let is_by_path = matches!(child.starts_in, StartsIn::Path);
    let opened = match child.starts_in {
        StartsIn::Open(directory) => directory,
        _ => File::from(place.open_unguarded_dir().map_err(Failure::Logged)?),
    };
    let mut task = child.task;
    // Defense: The child starts in the directory that was opened, whatever its path is now.
    task.command.current_dir(if is_by_path {
        place.to_unguarded_path()
    } else {
        #[cfg(target_os = "linux")]
        {
            // The new process has the same number for it (fork(2), proc(5)).
            format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened)).into()
        }
        #[cfg(not(target_os = "linux"))]
        return Err(Failure::New(Error::new(
            guarded_fs::ErrorKind::Unsupported,
            "directory_by_path",
            "this system cannot start a program in a directory by its descriptor",
        )));
    });
    let program = Path::new(task.command.get_program());
    let prepare = |confinement| confine::prepare(place, confinement, program);
    let confinement = child.confinement.as_ref().map(prepare).transpose()?;
    let late = task.time.saturating_add(CHILD_LATE);
    // The program is stopped when `ready` is dropped.
    let (caller, ready) = mpsc::sync_channel(1);
    let (done, result) = mpsc::channel();
    start(move || {
        let _ = done.send(run(task, opened, confinement, permit, &caller));
    })?;
    let late = Instant::now().checked_add(late);
    let refusal = loop {
        match result.recv_timeout(CHILD_TICK) {
            Err(RecvTimeoutError::Timeout) => {}
            done => {
                let ended = done.map_err(|_| kinds::panicked("the thread panicked"))?;
                return Ok(ended?);
            }
        }
        if late.is_some_and(|late| late < Instant::now()) {
            break kinds::busy().with_operator_detail("the start of the program has not ended");
        }
        if let Err(error) = ensure_wanted() {
            break error;
        }
    };
    // A program that hangs in the kernel ends later.
    drop(ready);
    let _ = result.recv_timeout(CHILD_KILL);
    Err(refusal.into())
}

fn too_many_children() -> Error {
    let text = "too many programs are running; try again when one has ended";
    Error::new(kinds::BUSY, "too_many_children", text)
}
