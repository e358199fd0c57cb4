//! How often something expensive may be repeated.
//!
//! A [`Throttle`] lets a caller repeat it at most every [`VERIFY_EVERY`]. Where the caller takes it
//! exclusively and says when it is done, one caller at a time repeats it, and that takes a twentieth
//! of one core at most.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::limits::{LONGEST_REST, VERIFY_EVERY, VERIFY_SHARE};

/// The time of the last repetition, in milliseconds on [`clock`].
#[derive(Debug)]
pub(crate) struct Throttle(AtomicU64);

impl Throttle {
    /// A throttle for something that was done just now.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(clock()))
    }

    /// Whether this caller is to repeat it now. Nobody else is for [`VERIFY_EVERY`].
    #[must_use]
    pub(crate) fn take(&self) -> bool {
        self.take_for(Duration::ZERO)
    }

    /// As [`take`](Self::take), and nobody else is until [`done`](Self::done) or
    /// [`give_back`](Self::give_back) is called, or [`LONGEST_REST`] has passed.
    #[must_use]
    pub(crate) fn take_exclusive(&self) -> bool {
        self.take_for(LONGEST_REST)
    }

    /// Whether [`take`](Self::take) would return true.
    #[cfg(not(shuttle))]
    pub(crate) fn is_due(&self) -> bool {
        clock().saturating_sub(self.0.load(Ordering::Relaxed)) >= millis(VERIFY_EVERY)
    }

    /// Whether [`take`](Self::take) would return true.
    #[cfg(shuttle)]
    #[expect(clippy::unused_self, reason = "the real one needs it")]
    pub(crate) fn is_due(&self) -> bool {
        shuttle::current::context_switches() % 2 == 0
    }

    #[cfg(not(shuttle))]
    fn take_for(&self, more: Duration) -> bool {
        let (now, last) = (clock(), self.0.load(Ordering::Relaxed));
        let next = now.saturating_add(millis(more));
        now.saturating_sub(last) >= millis(VERIFY_EVERY)
            && self.0.compare_exchange(last, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// True half of the time, and the same in each run of a schedule. Snapshots can share a throttle,
    /// and whether they do depends on when one is freed.
    #[cfg(shuttle)]
    #[expect(clippy::unused_self, reason = "the real one needs it")]
    fn take_for(&self, _: Duration) -> bool {
        shuttle::current::context_switches() % 2 == 0
    }

    /// Records that it was repeated, from `start` until now. The longer it took, the longer it rests.
    pub(crate) fn done(&self, start: Stopwatch) {
        let more = start.rest().saturating_sub(VERIFY_EVERY);
        self.0.store(clock().saturating_add(millis(more)), Ordering::Relaxed);
    }

    /// Records that it was not repeated after all: the next caller is to.
    pub(crate) fn give_back(&self) {
        self.0.store(clock().saturating_sub(millis(VERIFY_EVERY)), Ordering::Relaxed);
    }
}

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// How long something should not be repeated that took until now.
    pub(crate) fn rest(self) -> Duration {
        self.0.elapsed().saturating_mul(VERIFY_SHARE).clamp(VERIFY_EVERY, LONGEST_REST)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since this process first asked.
fn clock() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    millis(START.get_or_init(Instant::now).elapsed())
}
