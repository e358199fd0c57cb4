//! What a pattern does with names.

use mcp_roots_guard::BoundaryBuilder;

/// How a pattern protects names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protection {
    ReadOnly,
    Denied,
}

impl Protection {
    pub(crate) fn add(self, builder: BoundaryBuilder, pattern: &str) -> BoundaryBuilder {
        match self {
            Self::ReadOnly => builder.protect(pattern),
            Self::Denied => builder.deny(pattern),
        }
    }
}
