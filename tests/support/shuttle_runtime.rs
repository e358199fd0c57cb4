//! What a session needs of a runtime, for the model check: the shuttle scheduler decides when each
//! lock is taken and when each job runs, and the clock stands still. `src/session/runtime.rs`
//! includes this file in the build with `--cfg shuttle`.

use std::future::Future;
use std::ops::Add;
use std::time::Duration;

use crate::error::Result;

pub(crate) use shuttle::sync::{Mutex, MutexGuard};

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
pub(crate) async fn timeout_at<T>(_: Instant, work: impl Future<Output = T>) -> Result<Option<T>> {
    Ok(Some(work.await))
}

pub(crate) struct Threads;

impl Threads {
    pub(crate) fn own(_: usize, _: Duration) -> Self {
        Self
    }

    pub(crate) fn of(_: tokio::runtime::Handle) -> Self {
        Self
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
