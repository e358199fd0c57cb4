//! Limits how often a snapshot is verified.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::limits::{VERIFY_EVERY, VERIFY_STALLED};

/// Lets one caller at a time do something, at most once every [`VERIFY_EVERY`].
///
/// It stores the time of the last turn in milliseconds of [`clock`]. While a caller has the turn,
/// it stores the time at which the turn counts as lost.
#[derive(Debug)]
pub(crate) struct Throttle(AtomicU64);

impl Throttle {
    /// A throttle whose last turn ends now.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(clock()))
    }

    /// Takes the turn if it is due. No other caller gets it until [`done`](Self::done) or
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

    /// Makes the next turn due, unless somebody has the turn.
    pub(crate) fn expire(&self) {
        let (last, now) = (self.0.load(Ordering::Relaxed), clock());
        if last <= now {
            let due = now.saturating_sub(millis(VERIFY_EVERY));
            let _ = self.0.compare_exchange(last, due, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Ends the turn: it was done.
    pub(crate) fn done(&self) {
        self.0.store(clock(), Ordering::Relaxed);
    }

    /// Ends the turn without having done the work, so that the next caller gets it.
    pub(crate) fn give_back(&self) {
        self.0.store(clock().saturating_sub(millis(VERIFY_EVERY)), Ordering::Relaxed);
    }
}

#[cfg(not(shuttle))]
fn is_due(last: u64) -> bool {
    clock().saturating_sub(last) >= millis(VERIFY_EVERY)
}

/// True half of the time, and the same in each replay of a schedule. Real time would not be:
/// snapshots can share a throttle, and whether they do depends on when one is freed.
#[cfg(shuttle)]
fn is_due(_: u64) -> bool {
    shuttle::current::context_switches() % 2 == 0
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since [`VERIFY_EVERY`] before the first call in this process, so that something can be
/// due from the beginning.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    millis(START.get_or_init(Instant::now).elapsed() + VERIFY_EVERY)
}
