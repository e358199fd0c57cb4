//! The thread that starts a program, moves its input and output, and stops it.
//!
//! The thread ends after the program, because on Linux the program is killed when the thread ends.
//! The process group is killed while its leader has not been waited for, because the number of a
//! process can be reused after that (waitpid(2)).
//!
//! A killed program cannot be reaped while it hangs in the kernel, or while another process traces
//! it or this thread one of its threads (ptrace(2)). So the thread waits for a bounded time and
//! then ends, which releases what it traces. Later starts reap what is left.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use guarded_fs::{Error, ErrorKind, Result, host};

use super::output::{ChildOutput, ExitReason, NOT_ALLOWED, OutputBuffer};
use super::permits::ChildPermit;
use super::program::{interpreter, no_such_program};
use super::system::{KilledProcess, NULL, Pipes, has_exited, kill};
use crate::confine::ChildConfinement;
use crate::kinds;
use crate::limits::{CHILD_DRAIN, CHILD_KILL, CHILD_PAUSE, CHILD_SHORT_PAUSE};

pub(super) struct Task {
    /// The program as the caller named it.
    pub(super) name: OsString,
    pub(super) command: Command,
    pub(super) stdin: Option<Vec<u8>>,
    pub(super) time: Duration,
    pub(super) output: usize,
    pub(super) keeps_privileges: bool,
}

pub(super) fn start(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name("guarded-process".into()).spawn(work);
    let error = |error: io::Error| {
        host::with_raw_os_error(kinds::busy(), error.raw_os_error())
            .with_operator_detail("could not start a thread")
    };
    thread.map(drop).map_err(error)
}

/// Runs a program until it ends. It is killed when no message can be sent to the caller, who then
/// waits no longer.
pub(super) fn run(
    task: Task,
    directory: File,
    confinement: Option<ChildConfinement>,
    permit: ChildPermit,
    caller: &SyncSender<()>,
) -> Result<ChildOutput> {
    // A time that cannot be represented never comes.
    let deadline = Instant::now().checked_add(task.time);
    reap_left();
    let mut command = task.command;
    command.stdin(if task.stdin.is_some() { Stdio::piped() } else { File::open(NULL)?.into() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let (confined, restriction) = confinement.map(ChildConfinement::verified).transpose()?.unzip();
    #[cfg(target_os = "linux")]
    super::exec::prepare(&mut command, task.keeps_privileges, restriction);
    #[cfg(not(target_os = "linux"))]
    let _: Option<crate::confine::Restriction> = restriction;
    let program = PathBuf::from(command.get_program());
    let spawned = command.spawn();
    // Closes the other ends of what the program inherited.
    drop((command, directory));
    let is_awaited = || caller.try_send(()) != Err(TrySendError::Disconnected(()));
    let is_late = || deadline.is_some_and(|deadline| deadline <= Instant::now());
    let mut child = spawned.map_err(|error| match error.kind() {
        // The system does not say which file is missing.
        io::ErrorKind::NotFound => {
            let text = "the program, its interpreter or the directory does not exist";
            host::with_raw_os_error(no_such_program(text), error.raw_os_error())
        }
        // The confinement allows the program itself, but perhaps not what runs it.
        io::ErrorKind::PermissionDenied if confined.is_some() => {
            let error = Error::from(error).with_outcome(NOT_ALLOWED.to_owned());
            match interpreter(&program) {
                Some(name) => error
                    .with_operator_detail(format!("the first line of the program names {name:?}")),
                None => error,
            }
        }
        _ => error.into(),
    })?;
    let mut captured = OutputBuffer { streams: Default::default(), left: Some(task.output) };
    let mut pipes = Pipes::new(&mut child, task.stdin, permit);
    let is_complete = pipes.as_mut().is_ok_and(|pipes| {
        let mut pause = CHILD_SHORT_PAUSE;
        while !has_exited(&mut child) {
            if captured.left.is_none() || is_late() || !is_awaited() {
                return false;
            }
            // A program whose output ends usually exits soon.
            let is_moving = pipes.transfer(pause, &mut captured);
            pause = if is_moving { CHILD_SHORT_PAUSE } else { (2 * pause).min(CHILD_PAUSE) };
        }
        true
    });
    kill(&mut child);
    let killed = Instant::now();
    if let Ok(pipes) = &mut pipes {
        // Reads what is left. A process that escaped from the group can hold the pipes open.
        while pipes.have_output() && killed.elapsed() < CHILD_DRAIN {
            pipes.transfer(CHILD_PAUSE, &mut captured);
        }
    }
    let status = reap(child, killed);
    // Returns the permit.
    drop(pipes?);
    let unknown = || Error::new(ErrorKind::Io, "io", "the exit status of the program is unknown");
    let ended = match captured.left {
        None => ExitReason::OutputLimit,
        Some(_) if is_complete => ExitReason::Exited(status.ok_or_else(unknown)?),
        Some(_) => ExitReason::TimedOut,
    };
    let [stdout, stderr] = captured.streams;
    Ok(ChildOutput { name: task.name, ended, stdout, stderr, confined })
}

/// Killed programs that could not be reaped in time. Unless other code of the server reaps them,
/// their numbers are not reused.
static LEFT: Mutex<Vec<KilledProcess>> = Mutex::new(Vec::new());

fn reap_left() {
    // A program that could not be reaped is reaped later.
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(|left| {
        // Most have not ended. Asking for a group takes longer, because every child is compared.
        left.status.is_none() && !has_exited(&mut left.child) || !left.reap()
    });
}

fn reap(child: Child, killed: Instant) -> Option<ExitStatus> {
    let mut left = KilledProcess::new(child);
    let mut pause = CHILD_SHORT_PAUSE;
    while !left.reap() {
        // Defense: A program that cannot be reaped costs its caller only a short time.
        if killed.elapsed() > CHILD_KILL {
            let status = left.status;
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(left);
            return status;
        }
        thread::sleep(pause);
        pause = (2 * pause).min(CHILD_PAUSE);
    }
    left.status
}
