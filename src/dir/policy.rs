//! The operator's policy for unusual files.
//!
//! A [`Policy`] applies to every operation. By default it refuses special files. It allows hard
//! links and mounts, which are common in ordinary workspaces.

/// Whether a kind of file or path is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Allow it like any other.
    Allow,
    /// Refuse it, with a specific error code.
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
/// unexpected ways.
///
/// ```
/// # use mcp_roots_guard::{Policy, Rule};
/// let policy = Policy::default().hard_links(Rule::Refuse).mounts(Rule::Refuse);
/// # assert_ne!(policy, Policy::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    pub(crate) hard_links: Rule,
    pub(crate) special_files: Rule,
    pub(crate) mounts: Rule,
}

impl Default for Policy {
    fn default() -> Self {
        Self { hard_links: Rule::Allow, special_files: Rule::Refuse, mounts: Rule::Allow }
    }
}

impl Policy {
    /// Sets the rule for regular files with more than one name, one of which may be outside the
    /// roots. They are allowed by default. Refusing them takes no additional system call, but
    /// package managers and version control systems create thousands of hard links.
    #[must_use]
    pub fn hard_links(self, hard_links: Rule) -> Self {
        Self { hard_links, ..self }
    }

    /// Sets the rule for FIFOs, sockets and devices. They are refused by default. If allowed, they
    /// are opened in non-blocking mode (`O_NONBLOCK`) and remain in it.
    #[must_use]
    pub fn special_files(self, special_files: Rule) -> Self {
        Self { special_files, ..self }
    }

    /// Sets the rule for filesystems and bind mounts that are mounted inside a root. They are
    /// allowed by default. If `openat2` is not available, a mount is recognized by its mount ID
    /// (Linux 5.8 or later) or else by its device number. A bind mount of the same filesystem has
    /// the same device number, so only a mount ID reveals it.
    #[must_use]
    pub fn mounts(self, mounts: Rule) -> Self {
        Self { mounts, ..self }
    }
}
