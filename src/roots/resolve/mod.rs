//! Resolves a request without ever looking outside the roots.
//!
//! [`resolve`] takes a path, an index of the roots ([`PathIndex`]), an [`Intent`], and a
//! [`Lookup`], which looks up a name inside a root. The result is a [`Place`] inside a root or at
//! an ancestor of roots, or a refusal. Every look-up consists of plain names inside a root, so
//! nothing outside is opened, read or looked up.
//!
//! The resolver is a state machine. Its state is the position, the remaining components, and the
//! number of symlinks followed. The position is either inside a root, where names are looked up, or
//! at an ancestor of a root. Ancestors are known from the canonical paths of the roots and are
//! never looked up. Each component moves the position:
//!
//! | position | component | next position |
//! | --- | --- | --- |
//! | an ancestor | `..` | its parent |
//! | an ancestor | a name on the path to a root | the named ancestor or root |
//! | an ancestor | any other name | none: refused as outside |
//! | inside a root | `..` | the parent directory; for the root itself, the enclosing root or an ancestor |
//! | inside a root | a directory or file | that directory or file |
//! | inside a root | a symlink | unchanged, and the symlink's target is resolved next; an absolute target starts at `/` or at a root; with [`Intent::NoFollow`], a symlink at the end of the path is not followed |
//! | inside a root | a missing name | none: refused, or the end of the walk if the intent allows missing names |
//! | inside a root | a name that is [denied](Lookup::is_denied) | none: refused, without a look-up |
//! | not a directory | any | none: refused |

mod walk;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use self::walk::Walk;
use crate::error::{Code, Error, Result};
use crate::path::index::{Node, PathIndex};

/// The purpose for which a path is checked.
///
/// ```
/// # #[cfg(unix)] fn main() -> Result<(), mcp_roots_guard::Error> {
/// use mcp_roots_guard::{ErrorKind, Intent, Roots};
///
/// # let work = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(work.path().join("docs")).unwrap();
/// # std::os::unix::fs::symlink("docs/new.txt", work.path().join("link")).unwrap();
/// // `docs` is a directory, and `link` is a symlink to `docs/new.txt`, which does not exist.
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
    /// To access an existing file or directory. Symlinks are followed.
    Existing,
    /// To create or overwrite a file. The parent must exist, and the last name may exist. If the
    /// last name is a symlink, it is followed, even if its target does not exist yet. A new name
    /// that ends in a slash is refused, because it names a directory.
    New,
    /// To create a directory, or to create a file and its missing parents. Like
    /// [`New`](Intent::New), but parents may be missing. Only plain names may follow the first
    /// missing name.
    NewTree,
    /// To remove, rename, link or describe the last name itself. If it is a symlink, it is not
    /// followed, and a slash after it is refused. The name need not exist.
    NoFollow,
}

/// Performs the look-ups of the resolver.
pub(crate) trait Lookup {
    /// Returns the kind of the entry at `path` in root number `root`. `path` consists of plain
    /// names, and no symlink in it may be followed. An empty path is the root itself.
    fn look(&mut self, root: usize, path: &Path) -> Result<EntryKind>;

    /// Returns whether one of the last `names` names of `path` in root number `root` is denied.
    /// `path` consists of plain names. A denied name is refused before it is looked up.
    fn is_denied(&self, root: usize, path: &Path, names: usize) -> bool;
}

/// The kind of a directory entry, as far as it matters to the resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Missing,
    Directory,
    Link(OsString),
    Other,
}

/// The result of resolving a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Inside(Located),
    /// At an ancestor of roots.
    Above(Node),
}

/// A place inside a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) root: usize,
    /// The path relative to the root. It consists of plain names.
    pub(crate) path: PathBuf,
    pub(crate) found: Found,
    /// Whether the last name of the request is a symlink that was followed.
    pub(crate) is_target: bool,
    /// Whether the path that led here ends in a slash, `.` or `..`, and so names a directory.
    pub(crate) names_directory: bool,
}

/// What exists at a place inside a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Found {
    Exists,
    /// It is a symlink. Only used with [`Intent::NoFollow`].
    Link,
    /// The number of trailing components that do not exist.
    Missing(usize),
}

/// Resolves `request`. A relative request starts at the root `base`, and fails with `OutsideRoots`
/// if there is no base.
pub(crate) fn resolve<'a>(
    lookup: &'a mut impl Lookup,
    aliases: &'a PathIndex,
    base: Option<usize>,
    request: &'a OsStr,
    intent: Intent,
) -> Result<Place> {
    Walk::new(lookup, aliases, intent).run(|walk| {
        if aliases.is_absolute(request) {
            return walk.start(request);
        }
        walk.enter(base.ok_or(Code::OutsideRoots)?);
        // Defense: `..` applies to where a symlink led, not to the text of the path.
        walk.push(request)
    })
}

/// The error for a file that would have the name of a directory, whether or not there is one.
pub(crate) fn named_as_directory() -> Error {
    Error::new(Code::IsADirectory).says(
        "the path ends in a slash or a dot, so it names a directory; write it without that to name a \
         file",
    )
}

/// Resolves the target of a symlink at `link` in root number `root`, whether or not the symlink
/// exists. `link` consists of plain names.
pub(crate) fn resolve_symlink(
    lookup: &mut impl Lookup,
    aliases: &PathIndex,
    root: usize,
    link: PathBuf,
    text: OsString,
    intent: Intent,
) -> Result<Place> {
    Walk::new(lookup, aliases, intent).run(|walk| walk.start_at_symlink(root, link, text))
}
