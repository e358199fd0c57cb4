//! Where a request really leads, without ever looking outside the roots.
//!
//! Goes in: a path as bytes, the roots' names ([`PathIndex`]), an [`Intent`], and someone who answers one question ([`Lookup`]): *what is
//! this name, inside this root?* Comes out: a place inside a root, or a refusal. What is true after: every question that was asked
//! lay inside a root, and named plain components only, so nothing outside was opened, read or even looked up.
//!
//! Several names in a row can be passed at once if all but the last are directories; the result is
//! that of a step for each.
//!
//! It is a state machine over {position, components to do, links followed}. A position is inside a root, where names are asked for, or
//! at an ancestor of one, known by name from the roots' canonical paths and never asked for. A component moves it:
//!
//! | at | component | to |
//! | --- | --- | --- |
//! | an ancestor | `..` | its parent |
//! | an ancestor | a name that leads to a root | there, or into the root |
//! | an ancestor | another name | outside: refused |
//! | inside | `..` | the parent; above the root's own top, an ancestor or the root around it |
//! | inside | a directory or file | there |
//! | inside | a link | its text comes before what is to do; an absolute text starts anew at `/` or at a root's alias |
//! | inside | nothing | refused, or the names that are to be made, by intent |
//! | no directory | anything | refused |

mod walk;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use self::walk::Walk;
use crate::error::{ErrorKind, Result};
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
/// // There is a directory `docs`, and a link to `docs/new.txt`, which is missing.
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
    /// To use what is there, links followed.
    Existing,
    /// To make or overwrite: the parent exists, the last name may. A last name that is a link stands for what it points to, also if
    /// that does not exist yet.
    New,
    /// As [`New`](Intent::New), and missing parents will be made; only plain names may follow the first that is missing.
    NewTree,
    /// The last name itself, a link not followed, to remove, rename or describe it. It need not exist.
    NoFollow,
}

/// Answers the resolver's one question.
pub(crate) trait Lookup {
    /// What is at `path` in root number `root`? `path` is plain names, and no link in it may be followed; the empty path is the root.
    fn look(&mut self, root: usize, path: &Path) -> Result<EntryKind>;

    /// How many of the last `unknown` names of `path` can be passed before a look: at least one, and
    /// all of those but the last are directories. `None` if only a look at each name tells.
    fn passable(&mut self, _root: usize, _path: &Path, _unknown: usize) -> Option<Result<usize>> {
        None
    }
}

/// What a name is, as far as resolving goes.
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
    /// Inside a root, by plain names from its top.
    Inside { root: usize, path: PathBuf, found: Found },
    /// At an ancestor of roots.
    Above(Node),
}

/// What is at a place inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Found {
    Exists,
    /// A link, as [`Intent::NoFollow`] asks for it.
    Link,
    /// So many names at the end of the path do not exist.
    Missing(usize),
}

/// Resolves `request`; a relative one starts in root `base`.
pub(crate) fn resolve(
    names: &mut impl Lookup,
    aliases: &PathIndex,
    base: Option<usize>,
    request: &OsStr,
    intent: Intent,
) -> Result<Place> {
    let mut walk = Walk::new(names, aliases, intent);
    if is_absolute(request) {
        walk.start(request);
    } else {
        walk.enter(base.ok_or(ErrorKind::OutsideRoots)?);
        walk.push(request);
    }
    walk.run()
}
