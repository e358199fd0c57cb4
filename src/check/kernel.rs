//! The common way on Linux: what one walk of the kernel says.
//!
//! Goes in: a request, and the root that it starts in. Comes out: the decision that the resolver would come to, too, or nothing, where
//! only the resolver can tell.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::CheckedPath;
use crate::dir::{Follow, Handle, Look, name_of};
use crate::error::{Error, Result, is_name_too_long};
use crate::path::Location;
use crate::path::names::{below, components};
use crate::roots::{Found, Intent, Roots};

impl Roots {
    /// The common way: what the kernel's walk says. `None` leaves the decision to the resolver.
    pub(super) fn decide_by_kernel(&self, request: &Location, intent: Intent) -> Option<Result<CheckedPath>> {
        let (number, rest) = self.start(request)?;
        let decided = match intent {
            Intent::Existing => self.place_by_kernel(number, rest)?.map(|(_, relative)| (relative, Found::Exists)),
            Intent::New | Intent::NewTree | Intent::NoFollow => Ok(self.last_by_kernel(number, rest, intent)?),
        };
        let root = self.shared_root(number).ok()?;
        Some(decided.map(|(relative, found)| CheckedPath {
            roots: self.clone(),
            root,
            relative,
            found,
            intent,
            request: request.clone(),
        }))
    }

    /// What exists, and where it is: if no link is on the way, where it is written; else by the name that the kernel has for it.
    fn place_by_kernel(&self, number: usize, rest: &OsStr) -> Option<Result<(File, PathBuf)>> {
        if let Some(names) = plain_names(rest) {
            match self.walk_by_kernel(number, rest, Follow::NoLink)? {
                Walked::There(file) => return Some(Ok((file, names))),
                Walked::Refused(error) => return Some(Err(error)),
                Walked::Undecided => {}
            }
        }
        match self.walk_by_kernel(number, rest, Follow::Place)? {
            Walked::There(file) => {
                let relative = relative_to(self.root(number).ok()?.path(), &name_of(&file)?)?;
                Some(Ok((file, relative)))
            }
            Walked::Refused(error) => Some(Err(error)),
            Walked::Undecided => None,
        }
    }

    /// What the last name is, which need not exist, in its parent, which does. A link there is the resolver's, unless it is asked for itself.
    fn last_by_kernel(&self, number: usize, rest: &OsStr, intent: Intent) -> Option<(PathBuf, Found)> {
        let slash = rest.as_bytes().iter().rposition(|&byte| byte == b'/');
        let (parent, name) = rest.as_bytes().split_at(slash.map_or(0, |slash| slash + 1));
        if matches!(name, b"" | b"." | b"..") {
            return None;
        }
        let (directory, mut relative) = self.place_by_kernel(number, OsStr::from_bytes(parent))?.ok()?;
        let found = match Handle::from(directory).look_in(OsStr::from_bytes(name), self.policy().mounts).ok()? {
            Look::Missing => Found::Missing(1),
            Look::Other(_) => Found::Exists,
            Look::Link(..) if intent == Intent::NoFollow => Found::Link,
            Look::Link(..) => return None,
        };
        relative.push(OsStr::from_bytes(name));
        Some((relative, found))
    }

    /// Opens by one walk of the kernel beneath a root. `None` where there is no such walk.
    pub(crate) fn walk_by_kernel(&self, number: usize, rest: &OsStr, want: Follow) -> Option<Walked> {
        let root = self.root(number).ok()?;
        // The kernel goes through a proc file system's plain links; the resolver refuses them with the others.
        if root.is_file() || root.meets_proc() {
            return None;
        }
        let handle = match root.handle() {
            Ok(handle) => handle,
            Err(error) => return Some(Walked::Refused(error)),
        };
        Some(match handle.follow(beneath(rest), want, self.policy().mounts)? {
            Ok(file) => Walked::There(file),
            Err(error) if kernel_decides(&error) => Walked::Refused(error.into()),
            Err(_) => Walked::Undecided,
        })
    }
}

/// What a walk of the kernel came to.
pub(crate) enum Walked {
    There(File),
    /// As the resolver would, too.
    Refused(Error),
    /// Only the resolver can tell.
    Undecided,
}

/// What follows a root's alias in a request, as the kernel takes it: no leading slash, all else as it is.
fn beneath(rest: &OsStr) -> &OsStr {
    let bytes = rest.as_bytes();
    let start = bytes.iter().position(|&byte| byte != b'/').unwrap_or(bytes.len());
    OsStr::from_bytes(bytes.get(start..).unwrap_or_default())
}

/// The names of a path, if none of them is `..`.
fn plain_names(path: &OsStr) -> Option<PathBuf> {
    let mut names = Vec::with_capacity(path.len());
    for (name, _) in components(path) {
        match name.as_bytes() {
            b"." => continue,
            b".." => return None,
            _ if names.is_empty() => {}
            _ => names.push(b'/'),
        }
        names.extend(name.as_bytes());
    }
    Some(OsString::from_vec(names).into())
}

/// What is left of the kernel's name for a file below the root.
fn relative_to(root: &Path, name: &Path) -> Option<PathBuf> {
    let below = below(name.as_os_str(), root)?.as_bytes();
    Some(OsStr::from_bytes(below.strip_prefix(b"/").unwrap_or(below)).into())
}

/// The errors of the kernel's walk that the resolver would come to, too. Not `EXDEV`: the way may come back. Not `ELOOP`: a magic link
/// is no loop. Not what is rare.
fn kernel_decides(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied)
        || is_name_too_long(error)
}
