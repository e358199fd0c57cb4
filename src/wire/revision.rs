//! Revisions of the protocol.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use guarded_fs::{Error, ErrorKind, Result};

/// A protocol revision known to this crate. Revisions are ordered by date, and `Display` writes the
/// protocol's notation, such as `2025-06-18`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Revision {
    /// The first revision with roots.
    V2024_11_05,
    /// No changes to roots.
    V2025_03_26,
    /// No changes to roots.
    V2025_06_18,
    /// The last revision with sessions and with `notifications/roots/list_changed`.
    V2025_11_25,
    /// The first revision without sessions. Each request declares the client's capabilities, and a
    /// retried request can contain the client's roots.
    V2026_07_28,
}

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: &'static [Self] = &[
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether the revision has no sessions, so that each request must be self-contained.
    #[must_use]
    pub const fn is_stateless(self) -> bool {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => false,
            Self::V2026_07_28 => true,
        }
    }
}

/// Accepts exactly the texts that `Display` writes. Another text is
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) (`unknown_revision`).
impl FromStr for Revision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.iter().copied().find(|revision| revision.as_str() == text);
        known.ok_or_else(|| {
            let about = "not a known revision of the protocol";
            let error = Error::new(ErrorKind::InvalidInput, "unknown_revision", about);
            error.with_request("parse", OsStr::new(text))
        })
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_ordered_and_parsed_exactly() {
        let texts = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
        assert_eq!(Revision::ALL.iter().map(ToString::to_string).collect::<Vec<_>>(), texts);
        assert!(Revision::ALL.is_sorted());
        for (&revision, text) in Revision::ALL.iter().zip(texts) {
            assert_eq!(text.parse::<Revision>().unwrap(), revision, "{text}");
            assert_eq!(revision.is_stateless(), text == "2026-07-28", "{text}");
        }
        for unknown in ["", "2026-07-29", "DRAFT-2026-v1", "2025-06-18 ", "2025-6-18", "1.0"] {
            assert_eq!(unknown.parse::<Revision>().unwrap_err().code(), "unknown_revision");
        }
    }
}
