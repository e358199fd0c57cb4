//! The pipes of a program, on Windows, which cannot wait for several of them at once.

use std::io::{Read, Write as _};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use guarded_fs::Result;

use super::output::OutputBuffer;
use super::permits::ChildPermit;
use super::spawn::start;

pub(super) const NULL: &str = "NUL";

/// Each pipe has a thread, which holds the permit and ends with the pipe.
pub(super) struct Pipes {
    chunks: Receiver<(usize, Vec<u8>)>,
    have_output: bool,
}

impl Pipes {
    pub(super) fn new(
        child: &mut Child,
        stdin: Option<Vec<u8>>,
        permit: ChildPermit,
    ) -> Result<Self> {
        // A thread waits until its chunk is taken, so the memory is bounded.
        let (sender, chunks) = mpsc::sync_channel(1);
        let shared = Arc::new((sender, permit));
        if let (Some(mut pipe), Some(bytes)) = (child.stdin.take(), stdin) {
            let shared = shared.clone();
            start(move || {
                let _ = pipe.write_all(&bytes);
                drop(shared);
            })?;
        }
        let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        for (stream, mut pipe) in stdout.into_iter().chain(stderr).enumerate() {
            let shared = shared.clone();
            start(move || {
                let mut chunk = vec![0; 1 << 14];
                while let Ok(read @ 1..) = pipe.read(&mut chunk) {
                    let bytes = chunk.get(..read).unwrap_or_default();
                    if shared.0.send((stream, bytes.to_vec())).is_err() {
                        break;
                    }
                }
            })?;
        }
        Ok(Self { chunks, have_output: true })
    }

    pub(super) fn have_output(&self) -> bool {
        self.have_output
    }

    /// Waits at most this long for output. Returns false if there was none.
    pub(super) fn transfer(&mut self, time: Duration, captured: &mut OutputBuffer) -> bool {
        let received = self.chunks.recv_timeout(time);
        if received == Err(RecvTimeoutError::Disconnected) {
            self.have_output = false;
            thread::sleep(time);
        }
        received.is_ok_and(|(stream, bytes)| captured.push(stream, &bytes))
    }
}

pub(super) fn has_exited(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

/// Kills the program, but not the processes that it has started.
pub(super) fn kill(child: &mut Child) {
    let _ = child.kill();
}

pub(super) struct KilledProcess {
    pub(super) child: Child,
    pub(super) status: Option<ExitStatus>,
}

impl KilledProcess {
    pub(super) fn new(child: Child) -> Self {
        Self { child, status: None }
    }

    pub(super) fn reap(&mut self) -> bool {
        self.status = self.child.try_wait().ok().flatten();
        self.status.is_some()
    }
}
