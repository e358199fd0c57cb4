//! Bounds on the cost of resolution.
//!
//! A [`Budget`] limits the look-ups, and therefore the CPU time, of one request or one entry of a
//! root list, regardless of the symlinks that a tree contains. An [`Effort`] ends the resolution of
//! a whole list at a deadline, or when no caller is waiting for the result. Every look-up checks
//! the budget, and a look-up for a list also checks the effort.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::{Code, Error, Result};
use crate::limits::{LIST_TIME, LOOKUPS};

/// The remaining look-ups for one request or one entry of a root list.
#[derive(Debug)]
pub(crate) struct Budget<'a> {
    left: usize,
    effort: Option<&'a Effort>,
}

impl Budget<'_> {
    /// The budget of one request: [`LOOKUPS`].
    pub(crate) const fn new() -> Self {
        Self { left: LOOKUPS, effort: None }
    }

    /// Subtracts look-ups from the budget. Fails with `too_costly` if too few are left, or if the
    /// resolution of the list must end.
    pub(crate) fn spend(&mut self, lookups: usize) -> Result<()> {
        if self.effort.is_some_and(Effort::is_spent) {
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

    /// The number of look-ups spent so far.
    pub(crate) const fn spent(&self) -> usize {
        LOOKUPS - self.left
    }
}

/// Ends the resolution of a list at a deadline, or when no caller is waiting for the result.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    until: Instant,
    given_up: Arc<AtomicBool>,
}

impl Default for Effort {
    fn default() -> Self {
        Self::new(None, Arc::default())
    }
}

impl Effort {
    /// Creates an effort that ends after [`LIST_TIME`], at `until`, or when `given_up` is set,
    /// whichever comes first.
    pub(crate) fn new(until: Option<Instant>, given_up: Arc<AtomicBool>) -> Self {
        let longest = Instant::now() + LIST_TIME;
        Self { until: until.map_or(longest, |until| until.min(longest)), given_up }
    }

    /// Whether the resolution must end. The remaining entries then fail with
    /// [`TooCostly`](crate::ErrorKind::TooCostly) (`too_costly`).
    pub(crate) fn is_spent(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) || Instant::now() >= self.until
    }

    /// The budget of one entry of the list.
    pub(crate) const fn entry(&self) -> Budget<'_> {
        Budget { left: LOOKUPS, effort: Some(self) }
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
        let given_up = Arc::new(AtomicBool::new(false));
        let (waited_for, late) = (
            Effort::new(None, given_up.clone()),
            Effort::new(Some(Instant::now()), Arc::default()),
        );
        let (mut waited_for, mut late) = (waited_for.entry(), late.entry());
        assert_eq!((waited_for.spend(1).is_ok(), late.spend(1).is_ok()), (true, false));
        given_up.store(true, Ordering::Relaxed);
        assert_eq!(waited_for.spend(1).unwrap_err().reason(), Code::TooCostly);
    }
}
