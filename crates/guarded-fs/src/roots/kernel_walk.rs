//! Decides requests with path walks by the Linux kernel, as an optimization, where the result is
//! provably the decision of the resolver ([`resolve`](mod@crate::roots::resolve)):
//!
//! | the walk | the decision |
//! | --- | --- |
//! | meets no symlink, and ends at an existing entry | the place that the text names |
//! | meets no symlink, and finds nothing there | the same refusal |
//! | follows symlinks that stay inside, for reading | the file, or the same refusal |
//!
//! A walk begins at the allowed directory and goes along the root's own names, which may not be
//! symlinks. It begins at the root if the path contains `..`, if the policy refuses mounts, or if a
//! file is to be read and the first walk met a symlink, which then cannot lead out of the root. A
//! path whose `..` leaves the root is left to the resolver.
//!
//! If names can be denied, the kernel gets only paths in which no denied name can begin, and
//! follows no symlink. Neither does it follow one in `/` or `/proc`, because some symlinks of a
//! proc filesystem lead to a target that their text does not name.
//!
//! For a name that need not exist, the kernel walks to the parent, and the last name is looked up
//! there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::dir::{Follow, Handle, Metadata, Rule, Stat};
use crate::error::{Code, Error, Result};
use crate::limits::NAME_BYTES;
use crate::path::Location;
use crate::path::names::{components, ends_as_directory};
use crate::path::protect::ProtectedNames;
use crate::roots::{LastName, PlaceInRoot, Presence, Root, Roots};

impl Roots {
    /// Decides a request whose path contains no symlink, or returns `None`.
    pub(super) fn locate_by_kernel(
        &self,
        request: &Location,
        last_name: LastName,
    ) -> Option<Result<PlaceInRoot>> {
        let (number, root, rest) = self.start_by_kernel(request)?;
        let (path, last) = match last_name {
            LastName::Existing | LastName::Any => (rest, None),
            LastName::New | LastName::Unfollowed => split_last(rest)?,
        };
        let mut names = lexical_path(path)?;
        let opened = match self.walk_plain(root, path, Follow::NoLink)? {
            Ok(opened) => opened,
            Err(error) if last.is_none() => {
                let refusal = same_refusal(error)?;
                if last_name == LastName::Any && refusal.reason() == Code::NotFound {
                    return self.locate_by_kernel(request, LastName::New);
                }
                return Some(Err(refusal));
            }
            Err(_) => return None,
        };
        let found = match last {
            None => Presence::Exists,
            Some(last) => {
                names.push(last);
                match Handle::from(opened).look_in(last, self.policy().mounts).ok()? {
                    Stat::Missing => Presence::Missing(1),
                    Stat::Other(_) => Presence::Exists,
                    Stat::Link(..) if last_name == LastName::Unfollowed => Presence::Link,
                    Stat::Link(..) => return None,
                }
            }
        };
        let names_directory = last.is_none() && ends_as_directory(rest);
        Some(Ok(PlaceInRoot { names_directory, ..PlaceInRoot::plain(number, names, found) }))
    }

    /// Opens a file for reading, following symlinks that stay inside the root, or returns `None`.
    pub(crate) fn open_by_kernel(&self, request: &Location) -> Option<Result<(File, &Root)>> {
        let (_, root, rest) = self.start_by_kernel(request)?;
        // The kernel follows ordinary symlinks of procfs, but the resolver refuses all symlinks
        // there.
        let can_deny = self.protected().is_some_and(ProtectedNames::can_deny);
        let follows = !can_deny && !root.overlaps_proc();
        let is_allowed_directory = root.names.as_os_str().is_empty();
        let opened = if follows && is_allowed_directory {
            self.walk_beneath(root, rest, Follow::Read)?
        } else {
            match self.walk_plain(root, rest, Follow::ReadNoLink)? {
                Err(error) if follows && is_link(&error) => {
                    self.walk_beneath(root, rest, Follow::Read)?
                }
                opened => opened,
            }
        };
        match opened {
            Ok(file) => Some(Ok((file, root))),
            Err(error) => same_refusal(error).map(Err),
        }
    }

    /// Describes what a path of a list names. Returns `None` if the path contains a symlink or
    /// cannot be walked, to leave the decision to the resolver.
    pub(crate) fn find_by_kernel(&self, listed: &Location) -> Option<(PlaceInRoot, Stat)> {
        let (number, root, path) = self.start_by_kernel(listed)?;
        let names = lexical_path(path)?;
        let opened = self.walk_plain(root, path, Follow::NoLink)?.ok()?;
        let found = Stat::Other(Metadata::without_birth(&opened).ok()?);
        Some((PlaceInRoot::plain(number, names, Presence::Exists), found))
    }

    /// The root in which a request starts, with its number, and the rest of the request, unless the
    /// resolver must decide.
    fn start_by_kernel<'a>(&self, request: &'a Location) -> Option<(usize, &Root, &'a OsStr)> {
        let (number, rest) = self.start(request)?;
        let root = self.root(number).ok()?;
        let is_for_resolver = root.is_file() || has_long_name(rest) || self.may_deny(root, rest);
        (!is_for_resolver).then_some((number, root, rest))
    }

    fn may_deny(&self, root: &Root, path: &OsStr) -> bool {
        let place = [root.path(), Path::new(path)];
        self.protected().is_some_and(|it| it.can_deny() && it.may_match(&place, root.consented()))
    }

    fn walk_plain(&self, root: &Root, path: &OsStr, want: Follow) -> Option<io::Result<File>> {
        let mounts = self.policy().mounts;
        let is_allowed_directory = root.names.as_os_str().is_empty();
        // If a directory is moved out of the root during the walk, a `..` in it leads outside, so
        // the walk begins at the root, which the kernel does not let it leave.
        let climbs = || components(path).any(|(name, _)| name == "..");
        if is_allowed_directory || climbs() || mounts == Rule::Refuse {
            return self.walk_beneath(root, path, want);
        }
        // The slash at the end of an empty path requires that the root is a directory.
        let mut whole = OsString::with_capacity(root.names.as_os_str().len() + 1 + path.len());
        whole.push(&root.names);
        whole.push("/");
        whole.push(beneath(path));
        root.directory.handle().ok()?.follow(&whole, want, mounts)
    }

    fn walk_beneath(&self, root: &Root, path: &OsStr, want: Follow) -> Option<io::Result<File>> {
        root.handle().ok()?.follow(beneath(path), want, self.policy().mounts)
    }
}

/// Whether a name is longer than the resolver accepts. A filesystem may allow it.
fn has_long_name(path: &OsStr) -> bool {
    path.len() > NAME_BYTES && components(path).any(|(name, _)| name.len() > NAME_BYTES)
}

fn is_link(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

fn beneath(path: &OsStr) -> &OsStr {
    let start = path.as_bytes().iter().take_while(|&&byte| byte == b'/').count();
    OsStr::from_bytes(path.as_bytes().get(start..).unwrap_or_default())
}

/// The resolver's refusal, if the kernel's error determines it. EACCES does not, because the
/// resolver handles `..` in a directory without search permission.
fn same_refusal(error: io::Error) -> Option<Error> {
    let is_the_same =
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    is_the_same.then(|| error.into())
}

/// Splits off the last name, unless it is empty, `.`, `..` or too long.
fn split_last(path: &OsStr) -> Option<(&OsStr, Option<&OsStr>)> {
    let slash = path.as_bytes().iter().rposition(|&byte| byte == b'/');
    let (parent, last) = path.as_bytes().split_at(slash.map_or(0, |slash| slash + 1));
    let is_name = !matches!(last, b"" | b"." | b"..") && last.len() <= NAME_BYTES;
    is_name.then(|| (OsStr::from_bytes(parent), Some(OsStr::from_bytes(last))))
}

/// Removes `.` and `..` from a path without symlinks. `None` if a `..` leaves the root.
fn lexical_path(path: &OsStr) -> Option<PathBuf> {
    let mut names = PathBuf::with_capacity(path.len());
    for (name, _) in components(path) {
        match name.as_bytes() {
            b".." if !names.pop() => return None,
            b"." | b".." => {}
            _ => names.push(name),
        }
    }
    Some(names)
}
