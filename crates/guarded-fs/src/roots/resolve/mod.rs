//! Resolves a request without ever looking outside the roots.
//!
//! [`resolve`] returns a [`Place`] inside a root or at an ancestor of roots, or a refusal. Every
//! look-up consists of plain names inside a root, so nothing outside is opened, read or looked up.
//!
//! It is a state machine of a position, the remaining components, and the number of symlinks
//! followed. The position is inside a root, where names are looked up, or at an ancestor of roots,
//! which is known from their canonical paths and never looked up. Each component moves it:
//!
//! | position | component | next position |
//! | --- | --- | --- |
//! | an ancestor | `..` | its parent |
//! | an ancestor | a name on the path to a root | the named ancestor or root |
//! | an ancestor | any other name | none: refused as outside |
//! | inside a root | `..` | the parent directory; for the root itself, the enclosing root or an ancestor |
//! | inside a root | a directory or file | that directory or file |
//! | inside a root | a symlink | unchanged, and its target is next; an absolute one starts at `/` or at a root; with [`LastName::Unfollowed`], a symlink at the end is not followed |
//! | inside a root | a missing name | the end: the rest must be plain names, which are not looked up |
//! | inside a root | a name that is [denied](Lookup::is_denied) | none: refused, without a look-up |
//! | not a directory | any | none: refused |

mod walk;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use self::walk::PathWalk;
use crate::dir::Stat;
use crate::error::{Code, Result};
use crate::path::index::{Node, PathIndex, Position};

/// What an operation does with the last name of a request. Only [`Unfollowed`](Self::Unfollowed)
/// does not follow a symlink there. The others differ in the first look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastName {
    /// Uses what is there. [`Roots::decide`](crate::Roots::decide) refuses a missing name at once.
    Existing,
    /// Names a place, whether or not something is there.
    Any,
    /// Names a place to create or replace, so its directory is looked up first.
    New,
    /// Names the entry itself.
    Unfollowed,
}

pub(crate) trait Lookup {
    /// Returns what is at `path` in root number `root`. `path` consists of plain names, none of
    /// which may be followed as a symlink. An empty path is the root itself.
    fn look(&mut self, root: usize, path: &Path) -> Result<Stat>;

    /// Whether one of the last `names` names of `path`, which consists of plain names, is denied. A
    /// denied name is refused before it is looked up.
    fn is_denied(&self, root: usize, path: &Path, names: usize) -> bool;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Inside(PlaceInRoot),
    /// At an ancestor of roots.
    Above(Node),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaceInRoot {
    pub(crate) root: usize,
    /// The path in the root, of plain names.
    pub(crate) path: PathBuf,
    pub(crate) found: Presence,
    /// Whether the last name of the request was a followed symlink.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Presence {
    Exists,
    /// A symlink, with [`LastName::Unfollowed`].
    Link,
    /// The number of trailing names that do not exist.
    Missing(usize),
}

/// Resolves `request`. A relative one starts at the root `base`, and fails with `OutsideRoots`
/// without one.
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

/// Resolves the target of a symlink at `link`, whether or not that exists.
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
