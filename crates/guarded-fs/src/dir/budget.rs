//! Bounds on the cost of resolution.
//!
//! A [`Budget`] limits the look-ups, and therefore the CPU time, of one request or one entry of a
//! root list, whatever symlinks a tree contains. A [`Deadline`] ends the resolution of a whole
//! list.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::{Code, Error, Result};
use crate::limits::{LIST_TIME, LOOKUPS};

#[derive(Debug)]
pub(crate) struct Budget<'a> {
    left: usize,
    deadline: Option<&'a Deadline>,
}

impl Budget<'_> {
    /// The budget of one request: [`LOOKUPS`].
    pub(crate) const fn new() -> Self {
        Self { left: LOOKUPS, deadline: None }
    }

    /// Subtracts look-ups. Fails with `too_costly` if too few are left, or if the deadline of the
    /// list has passed.
    pub(crate) fn spend(&mut self, lookups: usize) -> Result<()> {
        if self.deadline.is_some_and(Deadline::has_passed) {
            return Err(Error::from(Code::TooCostly).with_operator_detail(
                "resolving the list took too long, or no caller waits for it",
            ));
        }
        let left = self.left.checked_sub(lookups);
        self.left = left.unwrap_or_default();
        // Defense: A resolution that uses up its look-ups is refused.
        left.map(drop).ok_or_else(|| {
            Error::over(Code::TooCostly, "the path takes more than {} look-ups to resolve", LOOKUPS)
        })
    }

    pub(crate) const fn spent(&self) -> usize {
        LOOKUPS - self.left
    }
}

/// When the resolution of a list ends without a result: at a time, or when a clone of the deadline
/// is [cancelled](Self::cancel), for example because nobody waits for the result any longer. Make
/// one for each list: the latest deadline, which is also the default, is 30 seconds after it was
/// made.
///
/// It is checked before each look-up. A filesystem that does not answer a look-up can outlast it.
#[derive(Clone, Debug)]
pub struct Deadline {
    at: Instant,
    is_cancelled: Arc<AtomicBool>,
}

impl Default for Deadline {
    fn default() -> Self {
        Self { at: Instant::now() + LIST_TIME, is_cancelled: Arc::default() }
    }
}

impl Deadline {
    /// A deadline at this time, but at most 30 seconds from now.
    #[must_use]
    pub fn at(time: Instant) -> Self {
        let latest = Self::default();
        Self { at: time.min(latest.at), ..latest }
    }

    /// Lets the deadline and its clones pass now.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed) || Instant::now() >= self.at
    }

    pub(crate) const fn entry(&self) -> Budget<'_> {
        Budget { left: LOOKUPS, deadline: Some(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_ends_after_its_look_ups_or_with_its_list() {
        let mut budget = Budget::new();
        assert_eq!((budget.spend(LOOKUPS - 1).is_ok(), budget.spent()), (true, LOOKUPS - 1));
        assert!(budget.spend(1).is_ok());
        assert_eq!(budget.spend(1).unwrap_err().reason(), Code::TooCostly);
        let (deadline, past) = (Deadline::default(), Deadline::at(Instant::now()));
        let (mut waited_for, mut late) = (deadline.entry(), past.entry());
        assert_eq!((waited_for.spend(1).is_ok(), late.spend(1).is_ok()), (true, false));
        deadline.clone().cancel();
        assert_eq!(waited_for.spend(1).unwrap_err().reason(), Code::TooCostly);
    }
}
