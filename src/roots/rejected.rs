//! Rejected entries of a root list.

use crate::error::{Code, Error};

/// An entry of a root list that was rejected, with the reason. Show it only to the operator,
/// because the reason can reveal which files exist.
#[derive(Debug)]
pub struct RejectedRoot {
    pub(crate) index: usize,
    pub(crate) entry: String,
    pub(crate) error: Error,
}

impl RejectedRoot {
    /// Whether the same entry could be granted if it is resolved again later.
    pub(super) fn is_transient(&self) -> bool {
        matches!(
            self.error.reason(),
            Code::NotFound
                | Code::NotADirectory
                | Code::SpecialFile
                | Code::PermissionDenied
                | Code::RootUnavailable
                | Code::Changed
                | Code::Io
        )
    }

    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        self.index == other.index
            && self.entry == other.entry
            && self.error.is_equivalent(&other.error)
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

    /// The reason why the entry was rejected.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }
}
