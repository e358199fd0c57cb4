//! The pipes and the process group of a program, on Unix.

use std::fs::File;
use std::io::{self, BufRead as _, Cursor, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use guarded_fs::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, kill_process_group, waitid,
    waitpgid, waitpid,
};

use super::output::OutputBuffer;
use super::permits::ChildPermit;

pub(super) const NULL: &str = "/dev/null";

/// The open pipes of a program. This end does not block.
pub(super) struct Pipes {
    input: Option<(File, Cursor<Vec<u8>>)>,
    outputs: Vec<(usize, File)>,
    _permit: ChildPermit,
}

impl Pipes {
    pub(super) fn new(
        child: &mut Child,
        stdin: Option<Vec<u8>>,
        permit: ChildPermit,
    ) -> Result<Self> {
        let input = child.stdin.take().map(nonblocking).transpose()?;
        let stdout = child.stdout.take().map(nonblocking).transpose()?;
        let stderr = child.stderr.take().map(nonblocking).transpose()?;
        let outputs = stdout.into_iter().chain(stderr).enumerate().collect();
        Ok(Self { input: input.zip(stdin.map(Cursor::new)), outputs, _permit: permit })
    }

    /// Whether the program, or a process that it left behind, can still write.
    pub(super) fn have_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Waits at most this long until a pipe is ready, and then reads or writes each at most once.
    /// Returns false if none was ready.
    pub(super) fn transfer(&mut self, time: Duration, captured: &mut OutputBuffer) -> bool {
        let input = self.input.iter().map(|(pipe, _)| PollFd::new(pipe, PollFlags::OUT));
        let outputs = self.outputs.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN));
        let mut polled: Vec<_> = input.chain(outputs).collect();
        if let Ok(0) = poll(&mut polled, Timespec::try_from(time).ok().as_ref()) {
            return false;
        }
        if let Some((pipe, bytes)) = &mut self.input {
            match pipe.write(bytes.fill_buf().unwrap_or_default()) {
                Ok(written @ 1..) => bytes.consume(written),
                Err(error) if is_temporary(&error) => {}
                // Everything is written, or nobody can read it any longer.
                _ => self.input = None,
            }
        }
        let mut chunk = [0; 1 << 14];
        self.outputs.retain_mut(|(stream, pipe)| match pipe.read(&mut chunk) {
            // A pipe that has ended, and would always be ready, is not polled again.
            Ok(read) => read > 0 && captured.push(*stream, chunk.get(..read).unwrap_or_default()),
            Err(error) => is_temporary(&error),
        });
        true
    }
}

/// Changes only this end of the pipe. The program's end still blocks (open(2)).
fn nonblocking(pipe: impl Into<OwnedFd>) -> io::Result<File> {
    let pipe = File::from(pipe.into());
    ioctl_fionbio(&pipe, true)?;
    Ok(pipe)
}

/// Whether the pipe was not ready. A process that escaped can use the same pipe.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// Does not reap the program, so its number and its group still exist.
pub(super) fn has_exited(child: &mut Child) -> bool {
    look(child).unwrap_or(true)
}

pub(super) fn kill(child: &mut Child) {
    // If other code of the server has reaped the program, the number may be in use again.
    // Defense: The process group is killed with the program.
    if look(child).is_ok() {
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        // It may have moved to another group of the session (setpgid(2)).
        let _ = child.kill();
    }
}

/// Whether the program has exited. An error means that other code of the server has reaped it.
fn look(child: &Child) -> rustix::io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(child)), options).map(|status| status.is_some())
}

pub(super) struct KilledProcess {
    pub(super) child: Child,
    pub(super) status: Option<ExitStatus>,
}

impl KilledProcess {
    pub(super) fn new(child: Child) -> Self {
        Self { child, status: None }
    }

    /// Reaps the program and those processes of its group that are children of the server, as far
    /// as they have ended: siblings (`CLONE_PARENT`, clone(2)) and, if the server is the init
    /// process of a container, orphans. Returns whether none of them is left.
    pub(super) fn reap(&mut self) -> bool {
        // Other code of the server has reaped it, and its number may be in use again.
        if self.status.is_none() && look(&self.child).is_err() {
            return true;
        }
        // The number of the program and of the group, which is not reused while either exists.
        let leader = Pid::from_child(&self.child);
        // A thread of the program that this thread traces must be reaped before the program.
        // The process group is reaped with the program.
        let is_group_left = loop {
            match waitpgid(leader, WaitOptions::NOHANG) {
                Ok(Some((process, status))) if process == leader => self.set_status(status),
                Ok(Some(_)) => {}
                left => break left.is_ok(),
            }
        };
        // It may have moved to another group (setpgid(2)).
        while self.status.is_none() {
            match waitpid(Some(leader), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => self.set_status(status),
                Ok(None) => return false,
                // Other code of the server has reaped it.
                Err(_) => break,
            }
        }
        !is_group_left
    }

    /// Ignores a stop, which the kernel reports of a program that this thread traces.
    fn set_status(&mut self, status: WaitStatus) {
        self.status = (!status.stopped()).then(|| ExitStatus::from_raw(status.as_raw()));
    }
}
