//! Limits how often a snapshot and a root's aliases are verified.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::limits::{VERIFY_EVERY, VERIFY_STALLED};

/// Allows one caller at a time to do a task, at most once every [`VERIFY_EVERY`].
///
/// The value is the time when the task was last done, in milliseconds of [`clock`]. While a caller
/// is doing the task, the value is the time when that caller counts as stalled.
#[derive(Debug)]
pub(crate) struct Throttle(AtomicU64);

impl Throttle {
    /// Creates a throttle whose task counts as done now.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(clock()))
    }

    /// Returns true if the caller should do the task now. No other caller gets true until
    /// [`done`](Self::done) or [`give_back`](Self::give_back) is called, or [`VERIFY_STALLED`] plus
    /// [`VERIFY_EVERY`] has passed.
    #[must_use]
    pub(crate) fn take(&self) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        let stalled = clock().saturating_add(millis(VERIFY_STALLED));
        is_due(last)
            && self.0.compare_exchange(last, stalled, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether [`take`](Self::take) would return true.
    pub(crate) fn is_due(&self) -> bool {
        is_due(self.0.load(Ordering::Relaxed))
    }

    /// Allows the task to be done again now, unless a caller is doing it.
    pub(crate) fn expire(&self) {
        let (last, now) = (self.0.load(Ordering::Relaxed), clock());
        if last <= now {
            let due = now.saturating_sub(millis(VERIFY_EVERY));
            let _ = self.0.compare_exchange(last, due, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Records that the caller has done the task.
    pub(crate) fn done(&self) {
        self.0.store(clock(), Ordering::Relaxed);
    }

    /// Records that the caller has not done the task, so that the next caller can do it.
    pub(crate) fn give_back(&self) {
        self.0.store(clock().saturating_sub(millis(VERIFY_EVERY)), Ordering::Relaxed);
    }
}

#[cfg(not(shuttle))]
fn is_due(last: u64) -> bool {
    clock().saturating_sub(last) >= millis(VERIFY_EVERY)
}

/// Returns true about half of the time. The result is the same when a schedule is replayed, which
/// would not be the case with real time.
#[cfg(shuttle)]
fn is_due(_: u64) -> bool {
    shuttle::current::context_switches() % 2 == 0
}

fn millis(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000).saturating_add(time.subsec_millis().into())
}

/// Returns the time in milliseconds of a clock that never goes back, plus [`VERIFY_EVERY`], so that a
/// task can be allowed from the start.
///
/// This is the coarse clock, which is a kernel tick behind: at most 10 ms (clock_gettime(2)). It is
/// read several times as fast as the exact one, which matters because each call of a session reads
/// it. The C library reads it, because rustix would look for the vDSO itself, which crashes under
/// Valgrind.
#[cfg(target_os = "linux")]
fn clock() -> u64 {
    use nix::time::{ClockId, clock_gettime};
    let coarse = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE);
    // An environment that emulates Linux could lack the coarse clock. Without the exact one,
    // `std::time::Instant` would not work either.
    let now = coarse.or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC));
    millis(now.map_or(Duration::ZERO, Duration::from)).saturating_add(millis(VERIFY_EVERY))
}

/// Returns the milliseconds since the first call in this process, plus [`VERIFY_EVERY`], so that a
/// task can be allowed from the start.
#[cfg(not(target_os = "linux"))]
fn clock() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let elapsed = START.get_or_init(std::time::Instant::now).elapsed();
    millis(elapsed).saturating_add(millis(VERIFY_EVERY))
}
