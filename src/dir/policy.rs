//! The operator's policy for unusual files.
//!
//! A [`Policy`] applies to every operation. By default it refuses special files. It allows hard
//! links and mounts, which are common in ordinary workspaces.

/// Whether a kind of file or path is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    Allow,
    Refuse,
}

/// The operations that are allowed beneath a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Files and directories can be read, listed and described.
    ReadOnly,
    /// Every operation is allowed.
    ReadWrite,
}

/// Rules for files inside a root that may be reachable from elsewhere, or that may behave in
/// unexpected ways. [`BoundaryBuilder`](crate::BoundaryBuilder) documents each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Policy {
    pub(crate) hard_links: Rule,
    pub(crate) special_files: Rule,
    pub(crate) mounts: Rule,
}

impl Default for Policy {
    fn default() -> Self {
        Self { hard_links: Rule::Allow, special_files: Rule::Refuse, mounts: Rule::Allow }
    }
}
