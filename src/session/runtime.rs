//! The parts of the async runtime that a session needs: the clock, deadlines, a lock, and threads
//! for work that may block.
//!
//! With `--cfg shuttle`, the same code runs under the shuttle scheduler, which then decides when
//! each lock is taken and when each job runs. Its clock stands still.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use crate::error::{Code, Error, Result};

#[cfg(not(shuttle))]
mod tokio_runtime {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use tokio::runtime::{Builder, Handle, Runtime};

    use super::{Code, Error, Future, Poll, Result, pin};
    use crate::limits::IDLE;

    pub(crate) use std::sync::Mutex;
    pub(crate) use tokio::time::Instant;

    /// Returns the output of a future, or `None` if the deadline passes first. A panic in the
    /// future is propagated to the caller.
    pub(crate) async fn timeout_at<T>(
        deadline: Instant,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>> {
        let no_runtime = |_| Error::from(Code::NoRuntime);
        Handle::try_current().map_err(|_| Code::NoRuntime)?;
        // tokio reports a missing or stopped timer only by a panic. The sleep is unconstrained,
        // because the work may have used up the task's cooperative budget.
        let sleep = catch_unwind(|| tokio::task::unconstrained(tokio::time::sleep_until(deadline)));
        let (mut sleep, mut work) = (pin!(sleep.map_err(no_runtime)?), pin!(work));
        std::future::poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(Some(output)));
            }
            match catch_unwind(AssertUnwindSafe(|| sleep.as_mut().poll(context))) {
                Ok(slept) => slept.map(|()| Ok(None)),
                Err(panic) => Poll::Ready(Err(no_runtime(panic))),
            }
        })
        .await
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
        /// Threads that start on demand, up to this number.
        pub(crate) fn new(most: usize) -> Self {
            let mut builder = Builder::new_current_thread();
            builder.max_blocking_threads(most).thread_keep_alive(IDLE).thread_name(THREAD);
            Self::Own(builder.build().ok())
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
                    Err(error) => error.try_into_panic().map(Err).map_err(|_| Code::NoRuntime.into()),
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
mod shuttle_runtime {
    use std::ops::Add;
    use std::time::Duration;

    use super::{Future, Result};

    pub(crate) use shuttle::sync::Mutex;

    /// A clock that never advances.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) struct Instant(Duration);

    impl Instant {
        pub(crate) const fn now() -> Self {
            Self(Duration::ZERO)
        }
    }

    impl Add<Duration> for Instant {
        type Output = Self;

        fn add(self, more: Duration) -> Self {
            Self(self.0 + more)
        }
    }

    /// Returns a time an hour later, so that no deadline passes during a schedule.
    pub(crate) fn std_instant(instant: Instant) -> std::time::Instant {
        std::time::Instant::now() + instant.0 + Duration::from_secs(3600)
    }

    /// Time does not pass here, so work that never ends is a deadlock, which shuttle reports.
    pub(crate) async fn timeout_at<T>(
        _: Instant,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>> {
        Ok(Some(work.await))
    }

    pub(crate) enum Threads {
        Own,
        Given(tokio::runtime::Handle),
    }

    impl Threads {
        pub(crate) fn new(_: usize) -> Self {
            Self::Own
        }

        /// Another task may run before and after the job.
        pub(crate) fn spawn<T, F>(
            &self,
            job: F,
        ) -> Result<impl Future<Output = Result<std::thread::Result<T>>> + Send + use<T, F>>
        where
            T: Send + 'static,
            F: FnOnce() -> T + Send + 'static,
        {
            Ok(async {
                shuttle::future::yield_now().await;
                let done = job();
                shuttle::future::yield_now().await;
                Ok(Ok(done))
            })
        }
    }
}

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
