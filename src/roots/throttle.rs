//! How often a snapshot is verified.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::limits::{VERIFY_EVERY, VERIFY_STALLED};

/// Lets one caller at a time do something, at most every [`VERIFY_EVERY`].
///
/// It holds the time of the last turn in milliseconds on [`clock`]. While somebody has the turn, that
/// is the time at which the turn counts as lost.
#[derive(Debug)]
pub(crate) struct Throttle(AtomicU64);

impl Throttle {
    /// A throttle for something that was done just now.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(clock()))
    }

    /// Takes the turn, if it is due. Nobody else gets it until [`done`](Self::done) or
    /// [`give_back`](Self::give_back) is called, or [`VERIFY_STALLED`] has passed.
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

    /// Ends the turn: it was done.
    pub(crate) fn done(&self) {
        self.0.store(clock(), Ordering::Relaxed);
    }

    /// Ends the turn without having done it: the next caller gets it.
    pub(crate) fn give_back(&self) {
        self.0.store(clock().saturating_sub(millis(VERIFY_EVERY)), Ordering::Relaxed);
    }
}

#[cfg(not(shuttle))]
fn is_due(last: u64) -> bool {
    clock().saturating_sub(last) >= millis(VERIFY_EVERY)
}

/// True half of the time, and the same in each run of a schedule. Snapshots can share a throttle, and
/// whether they do depends on when one is freed.
#[cfg(shuttle)]
fn is_due(_: u64) -> bool {
    shuttle::current::context_switches() % 2 == 0
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since this process first asked.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    millis(START.get_or_init(Instant::now).elapsed())
}
