//! Limits how often an allowed directory is opened again, and the configured paths are resolved
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::limits::{OPENING, VERIFY_EVERY};

/// Allows one caller at a time to do a task, at most once every [`VERIFY_EVERY`].
///
/// The value is the time of [`clock`] when the task was last done or, with the bit [`BUSY`], when
/// the caller that is doing it began.
#[derive(Debug)]
pub(crate) struct Throttle(Arc<AtomicU64>);

/// The exclusive right to do the task, which is done when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Arc<AtomicU64>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(clock(), Ordering::Relaxed);
    }
}

const BUSY: u64 = 1 << 63;

impl Throttle {
    /// The task counts as done now.
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(clock())))
    }

    /// Returns a turn if the task is due and no other caller does it.
    pub(crate) fn take(&self) -> Option<Turn> {
        self.take_if(is_due)
    }

    /// Like [`take`](Self::take), even if the task was done a moment ago.
    pub(crate) fn take_early(&self) -> Option<Turn> {
        self.take_if(|_| true)
    }

    fn take_if(&self, may: impl Fn(u64) -> bool) -> Option<Turn> {
        let last = self.0.load(Ordering::Relaxed);
        if last & BUSY != 0 || !may(last) {
            return None;
        }
        let busy = clock() | BUSY;
        let taken = self.0.compare_exchange(last, busy, Ordering::Relaxed, Ordering::Relaxed);
        taken.ok().map(|_| Turn(self.0.clone()))
    }

    /// Whether a caller has been doing the task for more than [`OPENING`].
    pub(crate) fn is_stalled(&self) -> bool {
        let began = self.0.load(Ordering::Relaxed);
        began & BUSY != 0 && clock().saturating_sub(began & !BUSY) > millis(OPENING)
    }
}

fn is_due(last: u64) -> bool {
    clock().saturating_sub(last) >= millis(VERIFY_EVERY)
}

fn millis(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000).saturating_add(time.subsec_millis().into())
}

/// The milliseconds of a clock that never goes back.
///
/// It is the coarse clock, at most a kernel tick of 10 ms behind (clock_gettime(2)): each call of a
/// session reads it, several times as fast as the exact one. The C library reads it, because rustix
/// would look for the vDSO itself, which crashes under Valgrind.
#[cfg(target_os = "linux")]
fn clock() -> u64 {
    use nix::time::{ClockId, clock_gettime};
    let coarse = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE);
    // An environment that emulates Linux could lack the coarse clock. Without the exact one,
    // `std::time::Instant` would not work either.
    let now = coarse.or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC));
    millis(now.map_or(Duration::ZERO, Duration::from))
}

/// The milliseconds since the first call in this process.
#[cfg(not(target_os = "linux"))]
fn clock() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    millis(START.get_or_init(std::time::Instant::now).elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_hangs_is_not_done_again_and_is_seen_to_hang() {
        let throttle = Throttle::new();
        assert!(throttle.take().is_none(), "the task counts as done");
        let turn = throttle.take_early().unwrap();
        assert!(throttle.take_early().is_none() && !throttle.is_stalled());
        std::thread::sleep(OPENING + Duration::from_millis(100));
        assert!(throttle.is_stalled() && throttle.take().is_none());
        drop(turn);
        assert!(!throttle.is_stalled() && throttle.take_early().is_some());
    }
}
