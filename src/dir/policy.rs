//! The operator's choices about files.
//!
//! A [`Policy`] applies to every operation. By default it refuses special files, and allows hard
//! links and mounts, which are common in ordinary workspaces.

/// Whether something is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// It is served like any other file.
    Allow,
    /// It is refused with an error kind of its own.
    Refuse,
}

/// What may be done beneath a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read, list and describe.
    ReadOnly,
    /// Every operation.
    ReadWrite,
}

/// Rules about files that lie inside a root but may be reachable, or behave, in unexpected ways.
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
    /// Regular files with more than one name, one of which may lie outside. Default: allow.
    /// Refusing costs no system call, but package managers and version control systems create
    /// thousands of hard links.
    #[must_use]
    pub fn hard_links(self, hard_links: Rule) -> Self {
        Self { hard_links, ..self }
    }

    /// FIFOs, sockets and devices. Default: refuse. If allowed, they are opened in non-blocking
    /// mode (`O_NONBLOCK`), and stay in it.
    #[must_use]
    pub fn special_files(self, special_files: Rule) -> Self {
        Self { special_files, ..self }
    }

    /// Other filesystems and bind mounts that are mounted inside a root. Default: allow. Where the
    /// kernel lacks `openat2`, a mount is recognized by its mount id (Linux 5.8), or else by its
    /// device number, which a bind mount of the same filesystem shares.
    #[must_use]
    pub fn mounts(self, mounts: Rule) -> Self {
        Self { mounts, ..self }
    }
}
