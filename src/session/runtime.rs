//! The parts of the async runtime that a session needs: the clock, deadlines, a lock, and threads
//! for work that may block.
//!
//! With `--cfg shuttle`, the shuttle scheduler decides when each lock is taken, when a number that
//! threads share is read or changed, and when each job runs. Its clock stands still.

use std::future::Future;
use std::pin::pin;
use std::sync::PoisonError;
use std::task::Poll;

#[cfg(not(shuttle))]
mod tokio_runtime {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use tokio::runtime::Handle;

    use super::Future;
    use crate::session::errors::no_runtime;
    use guarded_fs::Result;

    pub(crate) use std::sync::atomic::AtomicU8;
    pub(crate) use std::sync::{Mutex, MutexGuard};
    pub(crate) use tokio::time::Instant;

    /// Returns the output of a future, or `None` if the deadline passes first. A panic in the
    /// future is propagated to the caller.
    pub(crate) async fn timeout_at<T>(
        deadline: Instant,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>> {
        Handle::try_current().map_err(|_| no_runtime())?;
        // tokio reports a missing timer only by a panic.
        let work = AssertUnwindSafe(|| tokio::time::timeout_at(deadline, work));
        Ok(catch_unwind(work).map_err(|_| no_runtime())?.await.ok())
    }
}

#[cfg(shuttle)]
#[path = "../../tests/support/shuttle_runtime.rs"]
mod shuttle_runtime;

#[cfg(not(shuttle))]
#[path = "threads.rs"]
mod threads;

#[cfg(shuttle)]
pub(crate) use shuttle_runtime::*;
#[cfg(not(shuttle))]
pub(crate) use threads::Threads;
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

/// Locks even if the lock is poisoned, because a panic leaves the value consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
