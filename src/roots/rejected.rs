//! The entries of a root list that grant nothing.

use crate::error::{Code, Error};

/// An entry of a root list that grants nothing, with the reason. For the operator only: the reason
/// can reveal what exists.
#[derive(Debug)]
pub struct RejectedRoot {
    pub(crate) index: usize,
    pub(crate) entry: String,
    pub(crate) error: Error,
}

impl RejectedRoot {
    /// Whether the entry may be granted later.
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

    /// The index of the entry in its list, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The entry's URI or path as it was sent, shortened if long.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// The reason why it grants nothing.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }
}
