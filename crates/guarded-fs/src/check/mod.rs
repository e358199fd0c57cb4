//! The decision and its proofs.
//!
//! Both proofs contain a [`Proof`]: the place was inside the root when it was checked. It is also
//! inside when it is used, because every operation runs beneath the handle of the allowed
//! directory, along the root's own names and the proof's names.
//!
//! The decision is the resolver's ([`Roots::locate`]). The operation decides what the place must
//! be.

mod proof;
mod operation;
mod explain;
mod still_allows;
mod within;

use std::ffi::OsStr;
use std::ops::Deref;
use std::path::{Path, PathBuf};

pub use self::explain::Explanation;
pub(crate) use self::operation::Name;
pub(crate) use self::proof::{OpenDirectory, named_as_directory, without_parent};
pub use self::proof::{PlaceKey, Proof};
use crate::error::{Code, Error, Result};
use crate::path::index::Position;
use crate::path::protect::{ProtectedNames, has_temporary_name};
use crate::path::{IntoLocation, Location};
use crate::roots::{LastName, Presence, Roots};

/// Proof that a request, with all symlinks followed, names a place inside a root, whether or not
/// something is there. Its methods are the file operations that follow symlinks. Those on a
/// directory entry itself are methods of [`CheckedEntry`].
///
/// A proof is a name: each operation finds what it leads to at that time, without following a
/// symlink. It is valid for its snapshot of the roots, whichever roots are in force later. The
/// proof for an entry of a listing begins at the directory that was listed, which it holds open.
///
/// A snapshot's memory, about 10 MiB for a client's list of 4 MiB, is freed with its last proof. To
/// remember many places for a long time, keep the [`uri`](Proof::uri) of each, and check it again
/// in the roots that are in force then. To compare places, and as the key of a map, use
/// [`place_key`](Proof::place_key), which keeps no snapshot.
#[derive(Clone, Debug)]
pub struct CheckedPath(pub(crate) Proof);

/// Proof that a request names a directory entry inside a root, whether or not it exists. A symlink
/// at the end of the path is not followed: the entry is the symlink. Its methods remove, rename and
/// link entries. Everything else is as described at [`CheckedPath`].
///
/// ```
/// # #[cfg(unix)] fn main() -> Result<(), guarded_fs::Error> {
/// use guarded_fs::{Access, Roots};
///
/// # let work = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(work.path().join("docs")).unwrap();
/// # std::os::unix::fs::symlink("docs/new.txt", work.path().join("link")).unwrap();
/// // `docs` is a directory, and `link` is a symlink to `docs/new.txt`, which does not exist.
/// let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
/// assert!(roots.check("link")?.relative().ends_with("docs/new.txt"));
/// let link = roots.check_entry("link")?;
/// assert!(link.relative().ends_with("link"));
/// assert_eq!(link.follow()?.place_key(), roots.check("link")?.place_key());
/// link.remove_file()?;
/// # Ok(())
/// # }
/// # #[cfg(not(unix))] fn main() {}
/// ```
#[derive(Clone, Debug)]
pub struct CheckedEntry(pub(crate) Proof);

impl Roots {
    /// Decides whether the place that a request names is inside the roots. All symlinks are
    /// followed, even one at the end of the path whose target does not exist yet.
    ///
    /// Neither the place nor the directory that would contain it need exist, so a misspelled name
    /// in a root is no error here. [`exists`](Proof::exists) says whether something is there, and
    /// an operation that needs it returns [`NotFound`](crate::ErrorKind::NotFound). Nothing is
    /// looked up below a missing name, and only plain names may follow it.
    ///
    /// Text is parsed by [`Location::parse`], and a `Path` is used unchanged. A relative request
    /// starts at the first root, or at the one that [`with_base`](Self::with_base) selected, and
    /// never at the current directory of the process. One that ends in a slash or in `.` names a
    /// directory, even if nothing is there.
    ///
    /// # Errors
    ///
    /// - Those of [`Location::parse`].
    /// - [`OutsideRoots`](crate::ErrorKind::OutsideRoots), whether or not anything exists at the
    ///   place.
    /// - For a relative request, the reason why the client's roots could not be obtained, if only
    ///   directories that are [always](crate::DirectoryOptions::always) in force are served.
    /// - [`NotFound`](crate::ErrorKind::NotFound) for `..` after a missing name;
    ///   [`NotADirectory`](crate::ErrorKind::NotADirectory) and
    ///   [`PermissionDenied`](crate::ErrorKind::PermissionDenied) for a place inside a root.
    /// - [`TooCostly`](crate::ErrorKind::TooCostly) (`too_many_links`, `too_costly`).
    /// - [`Protected`](crate::ErrorKind::Protected) if a pattern
    ///   [denies](crate::BoundaryBuilder::deny) a name on the way, whether or not anything exists
    ///   there.
    /// - [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`mount_crossing`).
    /// - [`RootUnavailable`](crate::ErrorKind::RootUnavailable) if the root's name leads to no
    ///   directory now, or to a file instead.
    /// - [`Changed`](crate::ErrorKind::Changed) if the path keeps changing during the check.
    ///
    /// ```
    /// # use guarded_fs::{Access, ErrorKind, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
    /// let checked = roots.check("new-file.txt")?;
    /// assert!(!checked.exists());
    /// assert_eq!(checked.relative().to_str(), Some("new-file.txt"));
    /// assert_eq!(checked.read(1 << 20).unwrap_err().kind(), ErrorKind::NotFound);
    /// let refused = roots.check("../passwd").unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::OutsideRoots);
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    pub fn check(&self, request: impl IntoLocation) -> Result<CheckedPath> {
        self.check_last(request, LastName::Any).map(CheckedPath)
    }

    /// Decides like [`check`](Self::check), but does not follow a symlink at the end of the path.
    /// Use this to remove, rename, link or describe a directory entry itself.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check); [`NotADirectory`](crate::ErrorKind::NotADirectory) for a
    /// symlink with a slash after it.
    pub fn check_entry(&self, request: impl IntoLocation) -> Result<CheckedEntry> {
        self.check_last(request, LastName::Unfollowed).map(CheckedEntry)
    }

    /// Whether something exists at the place, with symlinks followed, as in [`std::fs::exists`].
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check).
    pub fn exists(&self, request: impl IntoLocation) -> Result<bool> {
        Ok(self.check(request)?.existed())
    }

    fn check_last(&self, request: impl IntoLocation, last_name: LastName) -> Result<Proof> {
        let request = self.location(request)?;
        self.run_check(&request, |budget| self.decide(&request, last_name, budget))
    }

    /// Returns the proofs of the roots in force, except those that are missing or that a walk of
    /// another one visits. Each is as if requested by its canonical path. A walk of each visits
    /// everything that is in force once:
    ///
    /// ```
    /// # use guarded_fs::{Access, Roots, WalkOptions};
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::write(work.path().join("a.txt"), "needle").unwrap();
    /// # let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
    /// let mut found = Vec::new();
    /// for top in roots.check_all()? {
    ///     if top.metadata()?.is_file() {
    ///         continue; // a root that is a single file
    ///     }
    ///     let mut walk = top.walk(WalkOptions::default().skip_unreadable())?;
    ///     while let Some(entry) = walk.next_entry()? {
    ///         if entry.read_to_string(1 << 20).is_ok_and(|text| text.contains("needle")) {
    ///             found.push(entry.path());
    ///         }
    ///     }
    /// }
    /// assert_eq!(found.len(), 1);
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    ///
    /// What a walk
    /// leaves out, such as a mount that the boundary refuses, is left out even if it is a root.
    ///
    /// # Errors
    ///
    /// [`OutsideRoots`](crate::ErrorKind::OutsideRoots), with the reason, if there are no roots;
    /// [`RootUnavailable`](crate::ErrorKind::RootUnavailable) if all are missing; those of
    /// [`check`](Self::check).
    pub fn check_all(&self) -> Result<Vec<CheckedPath>> {
        let mut missing = None;
        let mut checked = Vec::new();
        for (number, root) in self.iter().enumerate() {
            if let (Position::Root(outer), way) = self.index().above(number) {
                let is_denied = |it: &ProtectedNames| {
                    it.denies_last_names(&[root.path()], way.iter().count() + 1, |_| true)
                };
                // The walk of the enclosing root visits this one, unless a name on the way is
                // denied. The parent of `/` is `/`.
                if outer != number && !self.protected().is_some_and(is_denied) {
                    continue;
                }
            }
            // The entries of a walk have the path under which the client knows the root.
            let shown = PathBuf::from(root.client_path());
            let is_name =
                self.index().strip_root(shown.as_os_str()) == Some((number, OsStr::new("")));
            match self.check(if is_name { &shown } else { root.path() }) {
                Ok(top) => checked.push(top),
                Err(error) if error.reason() == Code::RootUnavailable => missing = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (checked.is_empty(), missing) {
            (false, _) => Ok(checked),
            (true, Some(error)) => Err(error),
            (true, None) => Err(self.log_refused(Code::OutsideRoots.into())),
        }
    }

    /// Every operation on a request starts here.
    pub(crate) fn location(&self, request: impl IntoLocation) -> Result<Location> {
        let location = request.try_into().map_err(|error| self.log_refused(error.into()))?;
        let location = location.with_separators(self.index());
        // A file that is being written is not named in requests, and not changed before its commit.
        if has_temporary_name(location.as_os_str()) {
            return Err(self.log_refused(proof::temporary().with_request("check", location.sent())));
        }
        Ok(location)
    }

    pub(crate) fn log_refused(&self, error: Error) -> Error {
        self.with_reason(error).logged(self)
    }
}

impl CheckedPath {
    /// Checks a path relative to this directory, without checking this proof's request again.
    /// Symlinks and `..` in it can lead to any place in the roots. To confine untrusted names, such
    /// as those in an archive, to one directory, use [`Roots::within`].
    ///
    /// # Errors
    ///
    /// [`InvalidPath`](crate::ErrorKind::InvalidPath) (`not_relative`) for an absolute path or a
    /// URI; those of [`Roots::check`].
    ///
    /// ```
    /// # use guarded_fs::{Access, ErrorKind, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(work.path().join("docs")).unwrap();
    /// let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
    /// let docs = roots.check("docs")?;
    /// docs.join("a.txt")?.write("a")?;
    /// assert_eq!(roots.read("docs/a.txt", 9)?, b"a");
    /// let refused = docs.join("../../a.txt").unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::OutsideRoots);
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    pub fn join(&self, relative: impl IntoLocation) -> Result<Self> {
        self.0.join(relative, LastName::Any).map(Self)
    }

    /// Like [`join`](Self::join), but does not follow a symlink at the end of the path.
    ///
    /// # Errors
    ///
    /// Those of [`join`](Self::join) and [`Roots::check_entry`].
    pub fn join_entry(&self, relative: impl IntoLocation) -> Result<CheckedEntry> {
        self.0.join(relative, LastName::Unfollowed).map(CheckedEntry)
    }

    /// Returns the proof for the directory entry at this place, to remove or rename a file that was
    /// read. Nothing is looked up.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) (`followed_symlink`) if the request ended
    /// at a symlink that was followed, because the place is its target.
    pub fn entry(&self) -> Result<CheckedEntry> {
        // The target of a symlink is not removed in place of the symlink.
        if self.0.is_target() {
            let error =
                Error::from(Code::FollowedSymlink).with_request("check", self.0.request().sent());
            return Err(self.0.roots().log_refused(error));
        }
        Ok(CheckedEntry(self.0.clone()))
    }
}

impl CheckedEntry {
    /// Returns the proof for the place to which the entry leads. If the entry was a symlink when it
    /// was checked, it is resolved now. Otherwise, nothing is looked up.
    ///
    /// # Errors
    ///
    /// Those of [`Roots::check`].
    pub fn follow(&self) -> Result<CheckedPath> {
        if self.0.found() != Presence::Link {
            return Ok(CheckedPath(self.0.clone()));
        }
        let followed = self.0.check_below(Path::new(""), self.0.request(), LastName::Any);
        followed.map(CheckedPath)
    }
}

impl Deref for CheckedPath {
    type Target = Proof;

    fn deref(&self) -> &Proof {
        &self.0
    }
}

impl Deref for CheckedEntry {
    type Target = Proof;

    fn deref(&self) -> &Proof {
        &self.0
    }
}
