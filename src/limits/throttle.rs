//! When something has to be done again.
//!
//! Goes in: that it was done. Comes out: whose turn it is to do it next. What is true after: it is done at most every [`VERIFY_EVERY`], by
//! one at a time, and takes a small share of all time.

use crate::limits::{LONGEST_REST, VERIFY_EVERY, VERIFY_SHARE};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Whether something has to be done now, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Due {
    Yes,
    No,
}

/// When something was done last, in milliseconds on [`clock`].
#[derive(Debug)]
pub(crate) struct Throttle(AtomicU64);

impl Throttle {
    /// It was done just now.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(clock()))
    }

    /// Whether it is this caller's turn. It is the next one's after [`VERIFY_EVERY`], whether this one is done or not.
    pub(crate) fn take(&self) -> Due {
        self.take_for(Duration::ZERO)
    }

    /// As [`take`](Self::take), and it is nobody else's turn until this one is [done](Self::done), or takes absurdly long.
    pub(crate) fn take_exclusive(&self) -> Due {
        self.take_for(LONGEST_REST)
    }

    /// Whether it is somebody's turn.
    #[cfg(not(shuttle))]
    pub(crate) fn is_due(&self) -> bool {
        clock().saturating_sub(self.0.load(Ordering::Relaxed)) >= millis(VERIFY_EVERY)
    }

    /// As [`take`](Self::take) says then.
    #[cfg(shuttle)]
    #[expect(clippy::unused_self, reason = "the real one needs it")]
    pub(crate) fn is_due(&self) -> bool {
        shuttle::current::context_switches() % 2 == 0
    }

    #[cfg(not(shuttle))]
    fn take_for(&self, more: Duration) -> Due {
        let (now, then) = (clock(), self.0.load(Ordering::Relaxed));
        let next = now.saturating_add(millis(more));
        let is_due = now.saturating_sub(then) >= millis(VERIFY_EVERY)
            && self.0.compare_exchange(then, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_due { Due::Yes } else { Due::No }
    }

    /// Half of the time, and the same in each run of a schedule: who shares a snapshot, and so this, hangs on what is freed when.
    #[cfg(shuttle)]
    #[expect(clippy::unused_self, reason = "the real one needs it")]
    fn take_for(&self, _: Duration) -> Due {
        if shuttle::current::context_switches() % 2 == 0 { Due::Yes } else { Due::No }
    }

    /// It was done since `start`. The longer that took, the longer it is not due.
    pub(crate) fn done(&self, start: Stopwatch) {
        let more = start.rest().saturating_sub(VERIFY_EVERY);
        self.0.store(clock().saturating_add(millis(more)), Ordering::Relaxed);
    }

    /// It was not done: it is somebody else's turn.
    pub(crate) fn give_back(&self) {
        self.0.store(clock().saturating_sub(millis(VERIFY_EVERY)), Ordering::Relaxed);
    }
}

/// When something was begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    /// How long it should rest that took until now.
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
