//! Waiting for a program, and stopping it when its request ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use tokio::sync::oneshot;

use super::permits::Permits;
use super::spawn::{Directory, Progress, Shared, THREAD, Task, supervise};
use super::{ChildCommand, ChildOutput, program};
use crate::error::{Code, Error, Result};
use crate::limits::{CHILD_KILL, CHILD_LATE, CHILD_TICK, CHILDREN};
use crate::roots::retry_changed;

static RUNNING: Permits = Permits::new(CHILDREN);

/// Runs a program and waits for it.
pub(super) fn output(command: &ChildCommand) -> Result<ChildOutput> {
    command.ensure_wanted()?;
    let roots = command.directory.roots();
    let permit = RUNNING.take(roots.account()).ok_or(Code::TooManyChildren)?;
    let place = &command.directory;
    let opened = retry_changed(|| crate::fs::open_unguarded_dir(place)).map_err(|error| {
        let error = if place.root().is_there() { error } else { Code::RootUnavailable.into() };
        error.at("open directory", place.request().sent())
    })?;
    // Defense: The child starts in the directory that was opened, whatever its path is now.
    let directory = if command.is_directory_by_path {
        Directory::Path(command.directory.canonical())
    } else {
        #[cfg(target_os = "linux")]
        {
            Directory::Descriptor(std::os::fd::AsRawFd::as_raw_fd(&opened))
        }
        #[cfg(not(target_os = "linux"))]
        return Err(Code::DirectoryByPath.into());
    };
    let mut environment = program::environment(&command.directory);
    for (name, value) in &command.environment {
        environment.retain(|(other, _)| other != name);
        environment.extend(value.clone().map(|value| (name.clone(), value)));
    }
    let confinement = match &command.confinement {
        Some(confinement) => Some(Arc::new(crate::confine::prepare(
            &command.directory,
            confinement,
            &command.program,
            command.allowed,
        )?)),
        None => None,
    };
    let task = Task {
        program: command.program.clone(),
        arguments: command.arguments.clone(),
        environment,
        directory,
        stdin: command.stdin.clone(),
        time: command.time,
        output: command.output,
        confinement: confinement.clone(),
        permit: Arc::new(permit),
    };
    let shared = Arc::new(Shared::default());
    // A panic of the caller's function also stops the program.
    let _stop = Stop(&shared);
    let (sender, progress) = mpsc::channel();
    let supervised = shared.clone();
    start(move || supervise(task, &supervised, &sender))?;
    let mut ready: Option<Instant> = None;
    let mut unwanted: Option<(Error, Instant)> = None;
    loop {
        match progress.recv_timeout(CHILD_TICK) {
            Ok(Progress::Ready) => ready = Some(Instant::now()),
            Ok(Progress::Done(done)) => return unwanted.map_or(done, |(error, _)| Err(error)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(Code::Io).detail("the thread of the program panicked"));
            }
        }
        // Until the thread is ready, it uses descriptors of this one, so this function must not end,
        // even by a panic of the caller's function.
        let Some(ready) = ready else { continue };
        match &unwanted {
            None => {
                let is_late = ready.elapsed() > command.time.saturating_add(CHILD_LATE);
                let late = || Error::new(Code::Busy).detail("the killed program has not ended");
                let wanted = if is_late { Err(late()) } else { command.ensure_wanted() };
                if let Err(error) = wanted {
                    shared.stop();
                    unwanted = Some((error, Instant::now()));
                }
            }
            // A killed program that hangs in the kernel ends later.
            Some((_, since)) if since.elapsed() > CHILD_KILL => break,
            Some(_) => {}
        }
    }
    drop(opened);
    unwanted.map_or_else(|| Err(Code::Cancelled.into()), |(error, _)| Err(error))
}

/// Runs a program on a thread of its own. Dropping the future stops the program.
pub(super) async fn output_async(mut command: ChildCommand) -> Result<ChildOutput> {
    let dropped = StopOnDrop(Arc::default());
    let (is_dropped, stop) = (dropped.0.clone(), command.stop.take());
    command.stop = Some(Arc::new(move || {
        is_dropped.load(Ordering::Relaxed) || stop.as_ref().is_some_and(|stop| stop())
    }));
    let (sender, receiver) = oneshot::channel();
    start(move || {
        let _ = sender.send(output(&command));
    })?;
    receiver.await.map_err(|_| Error::new(Code::Io).detail("the waiting thread panicked"))?
}

fn start(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(THREAD.into()).spawn(work);
    let error = |error| Error::io(Code::Busy, error).detail("could not start a thread");
    thread.map(drop).map_err(error)
}

struct Stop<'a>(&'a Shared);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
