//! Rejected entries of a root list.

use crate::error::Error;
use crate::limits::ENTRY_CHARS;

/// An entry of a root list that was rejected, with the reason. Show it only to the operator,
/// because the reason can reveal which files exist.
#[derive(Debug)]
pub struct RejectedEntry {
    index: usize,
    entry: String,
    pub(crate) error: Error,
}

impl RejectedEntry {
    pub(crate) fn new(index: usize, entry: &str, error: Error) -> Self {
        let error = error.with_request("open root", entry.as_ref());
        // A hostile entry may be long, so only a bounded part of it is stored for the log.
        let entry = entry.chars().take(ENTRY_CHARS).collect();
        Self { index, entry, error }
    }

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

    /// Why the entry was rejected.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }
}
