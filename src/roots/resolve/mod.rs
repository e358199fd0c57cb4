//! Resolves where a request leads, without ever looking outside the roots.
//!
//! [`resolve`] takes a path, the roots by their names ([`PathIndex`]), an [`Intent`] and a
//! [`Lookup`], which answers one question: what is this name inside this root? The result is a
//! [`Place`] inside a root, or a refusal. Every look-up names plain components inside a root, so
//! nothing outside is opened, read or looked up.
//!
//! It is a state machine over the position, the components that are left, and the number of
//! symlinks followed. The position is inside a root, where names are looked up, or at an ancestor
//! of a root, which is known by name from the canonical paths of the roots and never looked up. A
//! component moves the position:
//!
//! | at | component | to |
//! | --- | --- | --- |
//! | an ancestor | `..` | its parent |
//! | an ancestor | a name on the path to a root | there, or into the root |
//! | an ancestor | another name | outside: refused |
//! | inside | `..` | the parent; from the root itself, an ancestor or the enclosing root |
//! | inside | a directory or file | there |
//! | inside | a symlink | its text is resolved first; an absolute one from `/` or a root's alias |
//! | inside | a missing name | refused, or the names to be created, by intent |
//! | not a directory | anything | refused |
//!
//! A [`Lookup`] may skip several names at once if all but the last are directories. The result is
//! the same as with one step for each name.

mod walk;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use self::walk::Walk;
use crate::error::{Code, Result};
use crate::path::index::{Node, PathIndex};
use crate::path::names::is_absolute;

/// What a path is checked for.
///
/// ```
/// # #[cfg(unix)] fn main() -> Result<(), mcp_roots_guard::Error> {
/// use mcp_roots_guard::{ErrorKind, Intent, Roots};
///
/// # let work = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(work.path().join("docs")).unwrap();
/// # std::os::unix::fs::symlink("docs/new.txt", work.path().join("link")).unwrap();
/// // There is a directory `docs`, and a symlink to `docs/new.txt`, which is missing.
/// let roots = Roots::from_dirs([work.path()])?;
/// assert_eq!(roots.check("link", Intent::Existing).unwrap_err().kind(), ErrorKind::NotFound);
/// assert!(roots.check("link", Intent::New)?.relative().ends_with("docs/new.txt"));
/// assert!(roots.check("link", Intent::NoFollow)?.relative().ends_with("link"));
/// assert_eq!(roots.check("a/b/c", Intent::New).unwrap_err().kind(), ErrorKind::NotFound);
/// assert!(!roots.check("a/b/c", Intent::NewTree)?.exists());
/// # Ok(())
/// # }
/// # #[cfg(not(unix))] fn main() {}
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// To use what exists. Symlinks are followed.
    Existing,
    /// To create or overwrite. The parent must exist, and the last name may exist. If the last name
    /// is a symlink, it stands for its target, even if the target does not exist yet.
    New,
    /// As [`New`](Intent::New), but missing parents will be created. Only plain names may follow
    /// the first missing one.
    NewTree,
    /// The last name itself, to remove, rename or describe it: a symlink is not followed. The name
    /// need not exist.
    NoFollow,
}

/// Answers the look-ups of the resolver.
pub(crate) trait Lookup {
    /// Returns what is at `path` in root number `root`. `path` consists of plain names, and no
    /// symlink in it may be followed. The empty path is the root itself.
    fn look(&mut self, root: usize, path: &Path) -> Result<EntryKind>;

    /// Returns how many of the last `unknown` names of `path` can be skipped before the next
    /// look-up: at least one, and all of them except the last are directories. `None` if each name
    /// needs a look-up.
    fn skippable(&mut self, _root: usize, _path: &Path, _unknown: usize) -> Option<Result<usize>> {
        None
    }
}

/// What a name is, as far as the resolver needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Missing,
    Directory,
    Link(OsString),
    Other,
}

/// Where a request leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Inside a root, by plain names from the root.
    Inside { root: usize, path: PathBuf, found: Found },
    /// At an ancestor of roots.
    Above(Node),
}

/// What exists at a place inside a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Found {
    Exists,
    /// A symlink. Only for [`Intent::NoFollow`].
    Link,
    /// The last names of the path are missing, this many of them.
    Missing(usize),
}

/// Resolves `request`. A relative one starts in the root `base`.
pub(crate) fn resolve(
    lookup: &mut impl Lookup,
    aliases: &PathIndex,
    base: Option<usize>,
    request: &OsStr,
    intent: Intent,
) -> Result<Place> {
    let mut walk = Walk::new(lookup, aliases, intent);
    if is_absolute(request) {
        walk.start(request);
    } else {
        walk.enter(base.ok_or(Code::OutsideRoots)?);
        // Defence: dot-dot-follows-symlinks-first
        walk.push(request);
    }
    walk.run()
}
