//! What the operator may choose about files.
//!
//! Goes in: the server author's choices. Comes out: a [`Policy`] that every operation obeys. What is true after: the defaults refuse
//! special files, and allow what ordinary workspaces are full of, hard links and mounts.

/// Whether something is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// It is served like any other.
    Allow,
    /// It is refused, with a kind of its own.
    Refuse,
}

/// What may be done beneath a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reading, listing, describing.
    ReadOnly,
    /// Everything.
    ReadWrite,
}

/// Rules about files that are inside a root and yet may not be what they seem.
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
    /// Regular files with more than one name, of which one may lie outside. Default: allow. Refusing costs no system call, but
    /// package managers and version control systems link files by the thousand.
    #[must_use]
    pub fn hard_links(self, hard_links: Rule) -> Self {
        Self { hard_links, ..self }
    }

    /// FIFOs, sockets and devices. Default: refuse. Allowed ones are opened without blocking (`O_NONBLOCK`), and stay so.
    #[must_use]
    pub fn special_files(self, special_files: Rule) -> Self {
        Self { special_files, ..self }
    }

    /// Other file systems, and bind mounts, that are mounted inside a root. Default: allow. Where the kernel lacks `openat2`, a mount
    /// is known by its mount id (Linux 5.8), else by its device number, which a bind mount of the same file system shares.
    #[must_use]
    pub fn mounts(self, mounts: Rule) -> Self {
        Self { mounts, ..self }
    }
}
