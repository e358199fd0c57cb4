//! What a session needs of the async runtime: a time limit, and threads where waiting is allowed.
//!
//! Goes in: a future and a deadline, or work that does I/O. Comes out: what it came to, or that it was too late. What is true after: a
//! missing runtime or timer is a refusal, and so is a panic of what ran here.
//!
//! Built with `--cfg shuttle`, the same code runs under the shuttle scheduler, which then owns locks, atomics and time. What it does not
//! know, the map and the notifications, is one step each, begun by [`step`]: neither wakes or drops anything under its own locks that
//! takes a step.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;

use crate::error::{Error, ErrorKind, Result};

#[cfg(not(shuttle))]
mod tokio_time {
    use super::{AssertUnwindSafe, Error, ErrorKind, Future, Poll, Result, broke_down, catch_unwind, pin};

    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use std::sync::{Mutex, MutexGuard};
    pub(crate) use tokio::sync::Notify;
    use tokio::task::JoinHandle;
    pub(crate) use tokio::time::Instant;

    /// Nothing: threads interleave as they like.
    pub(crate) const fn step() {}

    /// What a future comes to until the deadline; `None` when it is too late.
    pub(crate) async fn until<T>(deadline: Instant, work: impl Future<Output = T>) -> Result<Option<T>> {
        let no_runtime = |_| Error::from(ErrorKind::NoRuntime);
        tokio::runtime::Handle::try_current().map_err(|_| ErrorKind::NoRuntime)?;
        // A runtime can be without a timer, or shut it down, and says so by a panic only.
        let limited = catch_unwind(AssertUnwindSafe(|| tokio::time::timeout_at(deadline, work))).map_err(no_runtime)?;
        let mut limited = pin!(limited);
        std::future::poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| limited.as_mut().poll(context)));
            polled.map_or_else(|panic| Poll::Ready(Err(no_runtime(panic))), |polled| polled.map(|done| Ok(done.ok())))
        })
        .await
    }

    /// The same time for those who wait without a runtime.
    pub(crate) fn std_instant(instant: Instant) -> std::time::Instant {
        instant.into()
    }

    /// Begins I/O where waiting is allowed.
    pub(crate) fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| ErrorKind::NoRuntime)?;
        // It panics if it can have no thread.
        let spawned = catch_unwind(AssertUnwindSafe(|| runtime.spawn_blocking(work)));
        Ok(spawned.map_err(|_| ErrorKind::NoRuntime)?)
    }

    /// Does I/O where waiting is allowed.
    pub(crate) async fn off_workers<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let done = spawn_blocking(work)?.await;
        done.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => Err(broke_down(ErrorKind::RootsFailed, &*panic)),
            // The runtime is shutting down.
            Err(_) => Err(ErrorKind::NoRuntime.into()),
        })
    }
}

#[cfg(shuttle)]
mod shuttle_time {
    use std::ops::Add;
    use std::time::Duration;

    use tokio::sync::futures::Notified;

    use super::{Future, Result};

    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};

    /// A time: it is always the same.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) struct Instant(Duration);

    impl Instant {
        pub(crate) const fn now() -> Self {
            Self(Duration::ZERO)
        }

        pub(crate) const fn elapsed(self) -> Duration {
            self.0
        }
    }

    impl Add<Duration> for Instant {
        type Output = Self;

        fn add(self, more: Duration) -> Self {
            Self(self.0 + more)
        }
    }

    /// Long after what is done until then.
    pub(crate) fn std_instant(instant: Instant) -> std::time::Instant {
        std::time::Instant::now() + instant.0 + Duration::from_hours(1)
    }

    /// Another task may run before what follows.
    pub(crate) fn step() {
        shuttle::thread::sleep(Duration::ZERO);
    }

    #[derive(Debug)]
    pub(crate) struct Notify(tokio::sync::Notify);

    impl Notify {
        pub(crate) fn new() -> Self {
            Self(tokio::sync::Notify::new())
        }

        pub(crate) fn notified(&self) -> Notified<'_> {
            step();
            self.0.notified()
        }

        pub(crate) fn notify_waiters(&self) {
            step();
            self.0.notify_waiters();
        }
    }

    /// No time passes here: what never ends is a deadlock that shuttle reports.
    pub(crate) async fn until<T>(_: Instant, work: impl Future<Output = T>) -> Result<Option<T>> {
        Ok(Some(work.await))
    }

    /// Another task may run before the work and after it.
    pub(crate) async fn off_workers<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        shuttle::future::yield_now().await;
        let done = work();
        shuttle::future::yield_now().await;
        done
    }
}

#[cfg(shuttle)]
pub(crate) use shuttle_time::*;
#[cfg(not(shuttle))]
pub(crate) use tokio_time::*;

/// What a future comes to, unless another ends before or with it.
pub(crate) async fn unless<T>(stop: impl Future, work: impl Future<Output = T>) -> Option<T> {
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    std::future::poll_fn(|context| match stop.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

/// Runs a future of the server's author to its end; its panic is an error, also where it is dropped.
pub(crate) async fn unpanicked<T>(work: impl Future<Output = T>) -> Result<T> {
    let mut work = Contained(Some(Box::pin(work)));
    std::future::poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.0.as_mut().map(|work| work.as_mut().poll(context))));
        match polled {
            Ok(None | Some(Poll::Pending)) => Poll::Pending,
            Ok(Some(Poll::Ready(done))) => Poll::Ready(Ok(done)),
            Err(panic) => Poll::Ready(Err(broke_down(ErrorKind::SourcePanicked, &*panic))),
        }
    })
    .await
}

/// Drops what may panic then.
struct Contained<F>(Option<Pin<Box<F>>>);

impl<F> Drop for Contained<F> {
    fn drop(&mut self) {
        let work = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
    }
}

fn broke_down(kind: ErrorKind, panic: &(dyn Any + Send)) -> Error {
    let message = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::new(kind).detail(message.unwrap_or("panicked"))
}
