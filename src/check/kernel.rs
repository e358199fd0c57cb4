//! Decides requests with path walks by the Linux kernel, where the result is provably the
//! resolver's decision.
//!
//! The resolver ([`resolve`](mod@crate::roots::resolve)) defines the decision. As an optimization,
//! the kernel first walks the path beneath the root. The result of this walk is used only in these
//! cases:
//!
//! | the walk | the decision |
//! | --- | --- |
//! | meets no symlink, and ends at an existing entry | the place that the text names |
//! | meets no symlink, and finds nothing there | the same refusal |
//! | meets no symlink, and leaves the root (`EXDEV`) | the resolver's, which continues from there |
//! | meets a symlink only at its end | the place that the target names, if a second walk meets no symlink and ends at an existing entry; otherwise the resolver's, which continues with the target |
//! | follows symlinks that stay inside, for reading | the file, or the same refusal |
//!
//! If names can be hidden, the kernel gets only paths in which no name is hidden, and follows no
//! symlink, so that a walk can neither pass through a hidden name nor reveal one.
//!
//! Where the resolver continues, it counts look-ups and steps from there on.
//!
//! For a name that need not exist, the kernel walks to the parent, and the last name is looked up
//! there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
#[cfg(feature = "rmcp")]
use std::path::Path;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::dir::{Budget, Filesystem, Follow, Handle, Look, Rule};
#[cfg(feature = "rmcp")]
use crate::dir::{FileType, Metadata, cached};
#[cfg(feature = "rmcp")]
use crate::error::Code;
use crate::error::{Error, Result};
use crate::limits::NAME_BYTES;
use crate::path::Location;
use crate::path::index::Origin;
use crate::path::names::{components, is_absolute};
#[cfg(feature = "rmcp")]
use crate::roots::{EntryKind, Lookup, Place, resolve};
use crate::roots::{Found, Intent, Located, Roots, resolve_in, resolve_symlink_in};

impl Roots {
    /// Decides a request whose path contains no symlink, or one only at its end. Returns `None` to
    /// leave the decision to the resolver.
    pub(super) fn locate_by_kernel(
        &self,
        request: &Location,
        intent: Intent,
        budget: &mut Budget<'_>,
    ) -> Option<Result<Located>> {
        let (number, rest) = self.start(request)?;
        if self.root(number).ok()?.protected.hides_any(rest) {
            return None;
        }
        let (path, last) = match intent {
            Intent::Existing => (rest, None),
            Intent::New | Intent::NewTree | Intent::NoFollow => split_last(rest)?,
        };
        let mounts = self.policy().mounts;
        let opened = match self.follow(number, path, Follow::NoLink)? {
            Ok(opened) => opened,
            // If the policy refuses mounts, EXDEV could also mean a mount point, so the resolver
            // decides.
            Err(error)
                if error.kind() == io::ErrorKind::CrossesDevices && mounts == Rule::Allow =>
            {
                let from = lexical_path(path).err()?;
                let rest = OsStr::from_bytes(rest.as_bytes().get(from..)?);
                return Some(resolve_in(self, Some(number), rest, intent, budget));
            }
            Err(error) if last.is_none() && Errno::from_io_error(&error) == Some(Errno::LOOP) => {
                return self.locate_by_symlink(number, path, budget);
            }
            Err(error) if last.is_none() => return same_refusal(error).map(Err),
            Err(_) => return None,
        };
        let mut names = lexical_path(path).ok()?;
        let found = match last {
            None => Found::Exists,
            Some(last) => {
                let found = match Handle::from(opened).look_in(last, mounts).ok()? {
                    Look::Missing => Found::Missing(1),
                    Look::Other(_) => Found::Exists,
                    Look::Link(..) if intent == Intent::NoFollow => Found::Link,
                    Look::Link(..) => return None,
                };
                names.push(last);
                found
            }
        };
        Some(Ok(Located { root: number, path: names, found, is_target: false }))
    }

    /// Returns the place that a path names whose last name is a symlink and whose other names are
    /// not. Returns `None` to leave the decision to the resolver.
    fn locate_by_symlink(
        &self,
        number: usize,
        path: &OsStr,
        budget: &mut Budget<'_>,
    ) -> Option<Result<Located>> {
        // The resolver refuses symlinks of procfs. The symlink is on the same mount as the root.
        let is_suitable = |filesystem: Filesystem| !filesystem.is_proc();
        let text = self.root(number).ok()?.handle_on(is_suitable)?.read_symlink(beneath(path))?;
        // The resolver refuses an empty target, which a damaged filesystem could contain.
        if text.is_empty() {
            return None;
        }
        let link = lexical_path(path).ok()?;
        let target = if is_absolute(&text) {
            let begun = self.index().begin_from(&text, Origin::Symlink);
            begun.and_then(|(number, rest)| self.locate_plain(number, rest))
        } else {
            self.locate_plain(number, link.with_file_name(&text).as_os_str())
        };
        let place = target.map_or_else(
            || resolve_symlink_in(self, number, link, text, Intent::Existing, None, budget),
            Ok,
        );
        Some(place.map(|place| Located { is_target: true, ..place }))
    }

    /// Returns the place of an existing file whose path contains no symlink. Returns `None` in all
    /// other cases.
    fn locate_plain(&self, number: usize, path: &OsStr) -> Option<Located> {
        if self.root(number).ok()?.protected.hides_any(path) {
            return None;
        }
        self.follow(number, path, Follow::NoLink)?.ok()?;
        let path = lexical_path(path).ok()?;
        Some(Located { root: number, path, found: Found::Exists, is_target: false })
    }

    /// Opens a file for reading, and follows symlinks that stay inside the root. Returns `None` to
    /// leave the decision to the resolver.
    pub(crate) fn open_by_kernel(&self, request: &Location) -> Option<Result<File>> {
        let (number, rest) = self.start(request)?;
        // The kernel follows ordinary symlinks of procfs, but the resolver refuses all symlinks
        // there.
        if self.root(number).ok()?.overlaps_proc() {
            return None;
        }
        let protected = &self.root(number).ok()?.protected;
        let follow = if protected.can_hide() { Follow::ReadNoLink } else { Follow::Read };
        if protected.hides_any(rest) {
            return None;
        }
        match self.follow(number, rest, follow)? {
            Ok(file) => Some(Ok(file)),
            Err(error) => same_refusal(error).map(Err),
        }
    }

    /// Opens a regular file for reading if this cannot wait, or refuses a request that leaves the
    /// roots. Returns `None` if it could wait, and for any other error.
    ///
    /// It cannot wait if the root's filesystem is local and the kernel has every name on the path
    /// in its cache. The file is opened only after it is known to be a regular file, because opening
    /// a device can wait.
    #[cfg(feature = "rmcp")]
    pub(crate) fn open_without_waiting(
        &self,
        request: &Location,
    ) -> Option<Result<(File, Metadata)>> {
        let Some((number, rest)) = self.start(request) else {
            return self.refuse_by_text(None, request.as_os_str()).map(Err);
        };
        let root = self.root(number).ok().filter(|root| !root.overlaps_proc())?;
        if root.protected.hides_any(rest) {
            return None;
        }
        let handle = root.handle_on(Filesystem::is_local)?;
        if let Err(from) = lexical_path(rest) {
            // The names before the `..` that leaves the root must exist, and not be symlinks.
            let (before, after) = rest.as_bytes().split_at_checked(from)?;
            handle.walk_cached(beneath(OsStr::from_bytes(before)), false).ok()?;
            return self.refuse_by_text(Some(number), OsStr::from_bytes(after)).map(Err);
        }
        let place = handle.walk_cached(beneath(rest), !root.protected.can_hide()).ok()?;
        let metadata = Metadata::without_birth(&place).ok()?;
        if metadata.file_type() != FileType::File {
            return None;
        }
        Some(Ok((cached::reopen(&place).ok()?, metadata)))
    }

    /// Refuses a request that starts at a root and is outside by its text alone. Returns `None` if
    /// the decision needs a look-up.
    #[cfg(feature = "rmcp")]
    fn refuse_by_text(&self, base: Option<usize>, rest: &OsStr) -> Option<Error> {
        if base.is_none() && !self.index().is_absolute(rest) {
            return None;
        }
        let decided = resolve(&mut NoLookups, self.index(), base, rest, Intent::Existing);
        match decided {
            Ok(Place::Above(_)) => Some(Code::OutsideRoots.into()),
            Err(error) if error.reason() == Code::OutsideRoots => Some(error),
            _ => None,
        }
    }

    fn follow(&self, number: usize, path: &OsStr, want: Follow) -> Option<io::Result<File>> {
        let root = self.root(number).ok().filter(|root| !root.is_file())?;
        // A filesystem may allow longer names than the resolver accepts.
        if path.len() > NAME_BYTES && components(path).any(|(name, _)| name.len() > NAME_BYTES) {
            return None;
        }
        root.handle().ok()?.follow(beneath(path), want, self.policy().mounts)
    }
}

/// Removes the slashes at the start of a path.
fn beneath(path: &OsStr) -> &OsStr {
    let start = path.as_bytes().iter().take_while(|&&byte| byte == b'/').count();
    OsStr::from_bytes(path.as_bytes().get(start..).unwrap_or_default())
}

/// A [`Lookup`] that fails at the first name inside a root.
#[cfg(feature = "rmcp")]
struct NoLookups;

#[cfg(feature = "rmcp")]
impl Lookup for NoLookups {
    fn look(&mut self, _: usize, _: &Path) -> Result<EntryKind> {
        Err(Code::Changed.into())
    }

    fn is_hidden(&mut self, _: usize, _: &Path) -> bool {
        false
    }
}

/// Returns the resolver's refusal, or `None` if the kernel's error does not determine it. EACCES
/// does not, because the resolver handles `..` in a directory without search permission.
fn same_refusal(error: io::Error) -> Option<Error> {
    let is_the_same =
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    is_the_same.then(|| error.into())
}

/// Splits a path into the parent's path and the last name. Returns `None` if the last component is
/// empty, `.`, `..` or too long.
fn split_last(path: &OsStr) -> Option<(&OsStr, Option<&OsStr>)> {
    let slash = path.as_bytes().iter().rposition(|&byte| byte == b'/');
    let (parent, last) = path.as_bytes().split_at(slash.map_or(0, |slash| slash + 1));
    let is_name = !matches!(last, b"" | b"." | b"..") && last.len() <= NAME_BYTES;
    is_name.then(|| (OsStr::from_bytes(parent), Some(OsStr::from_bytes(last))))
}

/// Removes `.` and `..` from a path that contains no symlink. The error is the offset of the `..`
/// that leaves the root.
fn lexical_path(path: &OsStr) -> std::result::Result<PathBuf, usize> {
    let mut names = Vec::with_capacity(path.len());
    for (name, after) in components(path) {
        match name.as_bytes() {
            b"." => {}
            b".." if names.is_empty() => return Err(path.len() - after.len() - name.len()),
            b".." => names.truncate(names.iter().rposition(|&byte| byte == b'/').unwrap_or(0)),
            name => {
                if !names.is_empty() {
                    names.push(b'/');
                }
                names.extend(name);
            }
        }
    }
    Ok(OsString::from_vec(names).into())
}
