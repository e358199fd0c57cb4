//! Bounds on the cost of resolution.
//!
//! A [`Budget`] limits the look-ups, and therefore the CPU time, of one request or one entry of a
//! root list, whatever symlinks a tree contains. That of an entry also ends with the resolution of
//! its list.

use crate::error::{Code, Error, Result};
use crate::limits::LOOKUPS;

pub(crate) struct Budget<'a> {
    left: usize,
    is_list_over: Option<&'a dyn Fn() -> bool>,
}

impl<'a> Budget<'a> {
    /// The budget of one request: [`LOOKUPS`].
    pub(crate) const fn new() -> Self {
        Self { left: LOOKUPS, is_list_over: None }
    }

    /// The budget of one entry of a list.
    pub(crate) const fn of_entry(is_list_over: &'a dyn Fn() -> bool) -> Self {
        Self { left: LOOKUPS, is_list_over: Some(is_list_over) }
    }

    /// Subtracts look-ups. Fails with `too_costly` if too few are left, or if the resolution of the
    /// list is over.
    pub(crate) fn spend(&mut self, lookups: usize) -> Result<()> {
        if self.is_list_over.is_some_and(|is_over| is_over()) {
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn budget_ends_after_its_look_ups_or_with_its_list() {
        let mut budget = Budget::new();
        assert_eq!((budget.spend(LOOKUPS - 1).is_ok(), budget.spent()), (true, LOOKUPS - 1));
        assert!(budget.spend(1).is_ok());
        assert_eq!(budget.spend(1).unwrap_err().reason(), Code::TooCostly);
        let is_over = Cell::new(false);
        let is_list_over = || is_over.get();
        let mut waited_for = Budget::of_entry(&is_list_over);
        assert!(waited_for.spend(1).is_ok());
        is_over.set(true);
        assert_eq!(waited_for.spend(1).unwrap_err().reason(), Code::TooCostly);
    }
}
