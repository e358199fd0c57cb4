//! Rejected entries of a root list.

use crate::error::Error;

/// An entry of a root list that was rejected, with the reason. Show it only to the operator,
/// because the reason can reveal which files exist.
#[derive(Debug)]
pub struct RejectedEntry {
    pub(crate) index: usize,
    pub(crate) entry: String,
    pub(crate) error: Error,
}

impl RejectedEntry {
    /// The index of the entry in its list, starting at 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The entry's URI or path as it was sent or configured, shortened if it is long.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// The reason why the entry was rejected.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }
}
