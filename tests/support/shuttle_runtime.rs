//! What a session needs of a runtime, for the model check: the shuttle scheduler decides when each
//! lock is taken, a shared number is used and each job runs, and the clock stands still.
//! `src/session/runtime.rs` includes this file in the build with `--cfg shuttle`.

#![allow(
    clippy::expect_used,
    clippy::unnecessary_wraps,
    clippy::unused_self,
    reason = "it has the signatures of the real one"
)]

use std::future::Future;
use std::ops::{Add, Deref, DerefMut};
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use guarded_fs::Result;
pub(crate) use shuttle::sync::atomic::AtomicU8;

/// Another task may run before a lock is taken, and after it is released.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

pub(crate) struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        match self.0.lock() {
            Ok(guard) => Ok(MutexGuard(Some(guard))),
            Err(poisoned) => Err(PoisonError::new(MutexGuard(Some(poisoned.into_inner())))),
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("the lock is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("the lock is held")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.0.take());
        if !std::thread::panicking() {
            shuttle::thread::sleep(Duration::ZERO);
        }
    }
}

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

/// Time does not pass here, so work that never ends is a deadlock, which shuttle reports.
pub(crate) async fn timeout_at<T>(_: Instant, work: impl Future<Output = T>) -> Result<Option<T>> {
    Ok(Some(work.await))
}

pub(crate) struct Threads;

impl Threads {
    pub(crate) fn own(_: usize) -> Self {
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
