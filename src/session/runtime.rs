//! The parts of the async runtime that a session needs: deadlines, locks, notifications, and access
//! to the guard's threads.
//!
//! A missing runtime or timer is reported as a refusal, and so is a panic in a job.
//!
//! When this is built with `--cfg shuttle`, the same code runs under the shuttle scheduler, which
//! then controls locks, atomics and time. Shuttle does not control the cache and the notifications.
//! Each of their operations is therefore one step, which begins with [`schedule_point`]. While they
//! hold their own locks, they do not wake or drop anything that takes a step.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use crate::error::Result;
use crate::workers::{Account, Workers};

#[cfg(not(shuttle))]
mod tokio_time {
    use std::any::Any;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{Account, Future, Poll, Result, Workers, pin};
    use crate::error::{Code, Error};
    use crate::workers::For;

    pub(crate) use std::sync::Mutex;
    pub(crate) use tokio::sync::Notify;
    pub(crate) use tokio::time::Instant;

    /// Does nothing: real threads need no scheduling points.
    pub(crate) const fn schedule_point() {}

    /// Returns the output of a future, or `None` if the deadline passes first. A panic in the
    /// future is propagated to the caller.
    pub(crate) async fn timeout_at<T>(
        deadline: Instant,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>> {
        let no_runtime = |_| Error::from(Code::NoRuntime);
        tokio::runtime::Handle::try_current().map_err(|_| Code::NoRuntime)?;
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

    /// Runs a job that resolves a list or verifies roots on one of the guard's threads, when it is
    /// the account's turn. If this future is dropped before that, the job never starts.
    pub(crate) async fn run_on_workers<T: Send + 'static>(
        workers: &Workers,
        account: &Account,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let done = match account {
            _ if !is_paused() => workers.run(For::Roots, account.clone(), job).await?,
            // This runs inline, because it is part of a client's job.
            Account::Operator => catch_unwind(AssertUnwindSafe(job)),
            _ => run_on_runtime(job).await?,
        };
        done.unwrap_or_else(|panic| Err(panicked(Code::RootsFailed, &*panic)))
    }

    /// Whether the runtime's clock is paused, as in tests (tokio's `test-util`).
    ///
    /// A paused clock advances to the next deadline when the runtime is idle. The runtime counts as
    /// idle while other threads work, unless they are its own blocking threads.
    fn is_paused() -> bool {
        let (start, frozen) = (std::time::Instant::now(), Instant::now());
        while start.elapsed().is_zero() {
            std::hint::spin_loop();
        }
        Instant::now() == frozen
    }

    async fn run_on_runtime<T: Send + 'static>(
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<std::thread::Result<T>> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| Code::NoRuntime)?;
        // `spawn_blocking` panics if it cannot start a thread.
        let spawned = catch_unwind(AssertUnwindSafe(|| runtime.spawn_blocking(job)));
        let mut spawned = AbortOnDrop(spawned.map_err(|_| Code::NoRuntime)?);
        let done = (&mut spawned.0).await;
        // An error other than a panic means that the runtime is shutting down.
        done.map_or_else(
            |error| error.try_into_panic().map(Err).map_err(|_| Code::NoRuntime.into()),
            |done| Ok(Ok(done)),
        )
    }

    fn panicked(code: Code, panic: &(dyn Any + Send)) -> Error {
        let message = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Error::new(code).detail(message.unwrap_or("panicked"))
    }

    /// Prevents a job from starting after its caller was dropped.
    struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

    impl<T> Drop for AbortOnDrop<T> {
        fn drop(&mut self) {
            self.0.abort();
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[tokio::test]
        async fn a_panicking_job_is_an_error_that_shows_the_message_only_to_the_operator() {
            let workers = Workers::new(1);
            for (payload, detail) in [
                (Box::new("static") as Box<dyn Any + Send>, "static"),
                (Box::new("formatted".to_owned()), "formatted"),
                (Box::new(7), "panicked"),
            ] {
                let job = || std::panic::resume_unwind(payload);
                let result = run_on_workers::<()>(&workers, &Account::Anonymous, job).await;
                let error = result.unwrap_err();
                assert_eq!(error.reason(), Code::RootsFailed);
                assert_eq!(error.operator_detail(), Some(detail));
                assert!(!error.to_string().contains(detail));
            }
        }
    }
}

#[cfg(shuttle)]
mod shuttle_time {
    use std::ops::Add;
    use std::time::Duration;

    use tokio::sync::futures::Notified;

    use super::{Account, Future, Result, Workers};

    pub(crate) use shuttle::sync::Mutex;

    /// A clock that never advances.
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

    /// Returns a time an hour later, so that no deadline passes during a schedule.
    pub(crate) fn std_instant(instant: Instant) -> std::time::Instant {
        std::time::Instant::now() + instant.0 + Duration::from_secs(3600)
    }

    /// Another task may run here.
    pub(crate) fn schedule_point() {
        shuttle::thread::sleep(Duration::ZERO);
    }

    #[derive(Debug)]
    pub(crate) struct Notify(tokio::sync::Notify);

    impl Notify {
        pub(crate) fn new() -> Self {
            Self(tokio::sync::Notify::new())
        }

        pub(crate) fn notified(&self) -> Notified<'_> {
            schedule_point();
            self.0.notified()
        }

        pub(crate) fn notify_waiters(&self) {
            schedule_point();
            self.0.notify_waiters();
        }
    }

    /// Time does not pass here, so work that never ends is a deadlock, which shuttle reports.
    pub(crate) async fn timeout_at<T>(
        _: Instant,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>> {
        Ok(Some(work.await))
    }

    /// Another task may run before and after the work.
    pub(crate) async fn run_on_workers<T: Send + 'static>(
        _: &Workers,
        account: &Account,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if *account == Account::Operator {
            return work();
        }
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
