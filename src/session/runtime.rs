//! The parts of the async runtime that a session needs: the clock, deadlines, a lock, and threads
//! for work that may block.
//!
//! With `--cfg shuttle`, the same code runs under the shuttle scheduler, which then decides when
//! each lock is taken and when each job runs. Its clock stands still.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

#[cfg(not(shuttle))]
mod tokio_runtime {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use tokio::runtime::{Builder, Handle, Runtime};

    use std::time::Duration;

    use super::Future;
    use crate::error::{Code, Error, Result};

    pub(crate) use std::sync::{Mutex, MutexGuard};
    pub(crate) use tokio::time::Instant;

    /// Returns the output of a future, or `None` if the deadline passes first. A panic in the
    /// future is propagated to the caller.
    pub(crate) async fn timeout_at<T>(
        deadline: Instant,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>> {
        Handle::try_current().map_err(|_| Code::NoRuntime)?;
        // tokio reports a missing timer only by a panic.
        let work = AssertUnwindSafe(|| tokio::time::timeout_at(deadline, work));
        Ok(catch_unwind(work).map_err(|_| Code::NoRuntime)?.await.ok())
    }

    /// Converts the time for code that waits without a runtime.
    pub(crate) fn std_instant(instant: Instant) -> std::time::Instant {
        instant.into()
    }

    /// The blocking threads of a tokio runtime.
    pub(crate) enum Threads {
        /// A runtime that is used for nothing else and is never driven. `None` if it could not be
        /// built, and once this is dropped.
        Own(Option<Runtime>),
        /// The blocking threads of the server's own runtime.
        Given(Handle),
    }

    impl Threads {
        /// Threads that start on demand, up to this number, and end when they were idle this long.
        pub(crate) fn own(most: usize, idle: Duration) -> Self {
            let mut builder = Builder::new_current_thread();
            builder.max_blocking_threads(most).thread_keep_alive(idle).thread_name(THREAD);
            Self::Own(builder.build().ok())
        }

        pub(crate) const fn of(runtime: Handle) -> Self {
            Self::Given(runtime)
        }

        /// Starts a job. Returns a future of its result or its panic. The job continues if the
        /// future is dropped.
        pub(crate) fn spawn<T, F>(
            &self,
            job: F,
        ) -> Result<impl Future<Output = Result<std::thread::Result<T>>> + Send + use<T, F>>
        where
            T: Send + 'static,
            F: FnOnce() -> T + Send + 'static,
        {
            let handle = match self {
                Self::Own(runtime) => runtime.as_ref().ok_or(Code::NoRuntime)?.handle(),
                Self::Given(handle) => handle,
            };
            // `spawn_blocking` panics if the system starts no thread.
            let spawned = catch_unwind(AssertUnwindSafe(|| handle.spawn_blocking(job)));
            let spawned = spawned
                .map_err(|_| Error::new(Code::Busy).detail("the system started no thread"))?;
            Ok(async {
                match spawned.await {
                    Ok(done) => Ok(Ok(done)),
                    // Any other error than a panic means that the runtime has been shut down.
                    Err(error) => {
                        error.try_into_panic().map(Err).map_err(|_| Code::NoRuntime.into())
                    }
                }
            })
        }
    }

    impl Drop for Threads {
        fn drop(&mut self) {
            if let Self::Own(runtime) = self
                && let Some(runtime) = runtime.take()
            {
                // Does not wait, so a job that hangs keeps neither this thread nor the process.
                runtime.shutdown_background();
            }
        }
    }

    const THREAD: &str = "mcp-roots-guard";
}

#[cfg(shuttle)]
#[path = "../../tests/support/shuttle_runtime.rs"]
mod shuttle_runtime;

#[cfg(shuttle)]
pub(crate) use shuttle_runtime::*;
#[cfg(not(shuttle))]
pub(crate) use tokio_runtime::*;

/// Returns the output of `work`, or `None` if `stop` ends before it or together with it.
pub(crate) async fn run_until_stopped<T>(
    stop: impl Future,
    work: impl Future<Output = T>,
) -> Option<T> {
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    std::future::poll_fn(|context| match stop.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}
