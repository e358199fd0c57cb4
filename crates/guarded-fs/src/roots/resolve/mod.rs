//! Resolves a request without ever looking outside the roots.
//!
//! [`resolve`] takes a path, an index of the roots ([`PathIndex`]), whether the [`LastName`] is
//! followed, and a [`Lookup`], which looks up a name inside a root. The result is a [`Place`] inside
//! a root or at an ancestor of roots, or a refusal. Every look-up consists of plain names inside a
//! root, so nothing outside is opened, read or looked up.
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
//! | inside a root | a symlink | unchanged, and the symlink's target is resolved next; an absolute target starts at `/` or at a root; with [`LastName::Unfollowed`], a symlink at the end of the path is not followed |
//! | inside a root | a missing name | the end of the walk: the rest must be plain names, which are not looked up |
//! | inside a root | a name that is [denied](Lookup::is_denied) | none: refused, without a look-up |
//! | not a directory | any | none: refused |

mod walk;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use self::walk::PathWalk;
use crate::dir::Stat;
use crate::error::{Code, Result};
use crate::path::index::{Node, PathIndex, Position};

/// What an operation does with the last name of a request. This decides whether a symlink there is
/// followed, and otherwise only which look-up comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastName {
    /// Uses what is there. A symlink is followed. [`Roots::decide`](crate::Roots::decide) refuses a
    /// missing name at once.
    Existing,
    /// Names a place, whether or not something is there. A symlink is followed.
    Any,
    /// Like [`Any`](Self::Any), for a name that is created or replaced, so its directory is looked
    /// up first.
    New,
    /// Names the entry itself. A symlink is not followed.
    Unfollowed,
}

/// Performs the look-ups of the resolver.
pub(crate) trait Lookup {
    /// Returns what is at `path` in root number `root`. `path` consists of plain names, and no
    /// symlink in it may be followed. An empty path is the root itself.
    fn look(&mut self, root: usize, path: &Path) -> Result<Stat>;

    /// Returns whether one of the last `names` names of `path` in root number `root` is denied.
    /// `path` consists of plain names. A denied name is refused before it is looked up.
    fn is_denied(&self, root: usize, path: &Path, names: usize) -> bool;
}

/// The result of resolving a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Inside(PlaceInRoot),
    /// At an ancestor of roots.
    Above(Node),
}

/// A place inside a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaceInRoot {
    pub(crate) root: usize,
    /// The path relative to the root. It consists of plain names.
    pub(crate) path: PathBuf,
    pub(crate) found: Presence,
    /// Whether the last name of the request is a symlink that was followed.
    pub(crate) is_target: bool,
    /// Whether the path that led here ends in a slash, `.` or `..`, and so names a directory.
    pub(crate) names_directory: bool,
}

impl PlaceInRoot {
    /// A place that no symlink led to, by a path that need not name a directory.
    pub(crate) fn plain(root: usize, path: PathBuf, found: Presence) -> Self {
        Self { root, path, found, is_target: false, names_directory: false }
    }
}

/// What exists at a place inside a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Presence {
    Exists,
    /// It is a symlink. Only used with [`LastName::Unfollowed`].
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
    last_name: LastName,
) -> Result<Place> {
    PathWalk::new(lookup, aliases, last_name).run(|walk| {
        if aliases.is_absolute(request) {
            return walk.start(request);
        }
        walk.go_to(Position::Root(base.ok_or(Code::OutsideRoots)?));
        // Defense: `..` applies to where a symlink led, not to the text of the path.
        walk.push(request)
    })
}

/// Resolves the target of a symlink at `link` in root number `root`, whether or not the symlink
/// exists. `link` consists of plain names.
pub(crate) fn resolve_symlink(
    lookup: &mut impl Lookup,
    aliases: &PathIndex,
    root: usize,
    link: PathBuf,
    text: OsString,
) -> Result<Place> {
    PathWalk::new(lookup, aliases, LastName::Any)
        .run(|walk| walk.start_at_symlink(root, link, text))
}
