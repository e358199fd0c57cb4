//! Options for writing whole files.

use crate::error::{Code, Error, Result};
use crate::fs::version::Version;
use crate::roots::Intent;

/// Options of [`write_with`](crate::Roots::write_with).
///
/// ```
/// # use mcp_roots_guard::{Existing, Roots, WriteOptions};
/// # let directory = tempfile::tempdir().unwrap();
/// let roots = Roots::from_dirs([directory.path()])?;
/// let keep_the_owner = WriteOptions::new().existing(Existing::InPlaceIfOwnerChanges);
/// roots.write_with("shared.txt", "content", keep_the_owner)?;
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct WriteOptions {
    pub(super) existing: Existing,
    pub(super) create_parents: bool,
    pub(super) durability: Durability,
    pub(super) if_unchanged: Option<Version>,
}

impl WriteOptions {
    /// Returns the default options: an existing file is replaced, parents are not created, and the
    /// content and the name are durable when the write returns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how an existing file is treated. A file that does not exist is always created
    /// completely or not at all.
    pub fn existing(self, existing: Existing) -> Self {
        Self { existing, ..self }
    }

    /// Creates missing parent directories. The request is then checked with [`Intent::NewTree`]
    /// instead of [`Intent::New`]. A [`CheckedPath`](crate::CheckedPath) that was checked with
    /// another intent refuses this option
    /// ([`InvalidInput`](crate::ErrorKind::InvalidInput): `invalid_options`). One that was checked
    /// with [`Intent::NewTree`] creates parents with or without it.
    ///
    /// If the write fails, the directories that it created are removed again, unless another
    /// process has put something into them.
    pub fn create_parents(self, create_parents: bool) -> Self {
        Self { create_parents, ..self }
    }

    /// Sets what is synced to the device before the write returns.
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Writes only if the file exists and still has this content. Otherwise, the write fails with
    /// [`Changed`](crate::ErrorKind::Changed) (`modified`). A file of more than
    /// [`COMPARED_BYTES`](crate::limits::COMPARED_BYTES) is not compared, and the write fails with
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_large`).
    ///
    /// The content is compared when the write begins and again when it is committed. Immediately
    /// before the new file replaces the old one, the name must still refer to the file that was
    /// compared, with the same size and the same times of modification and status change. Between
    /// this look-up and the rename, conditional changes of this process in the same directory
    /// exclude one another. A change by another process in that time, which is a few microseconds,
    /// or by an unconditional operation of this process, is lost. While a file is overwritten
    /// [in place](Existing::InPlace) under this condition, other conditional changes of the file
    /// fail with [`Changed`](crate::ErrorKind::Changed). A change in place that keeps the
    /// size is also not detected if it is so soon after the comparison that the filesystem records
    /// the same times, which is up to 10 ms on Linux.
    pub fn if_unchanged(self, version: Version) -> Self {
        Self { if_unchanged: Some(version), ..self }
    }

    pub(super) fn intent(self) -> Intent {
        if self.create_parents { Intent::NewTree } else { Intent::New }
    }

    /// Whether an existing file is always overwritten in place.
    pub(super) fn is_in_place(self) -> bool {
        match self.existing {
            Existing::Replace | Existing::Refuse => false,
            Existing::InPlace => true,
            Existing::InPlaceIfOwnerChanges => cfg!(windows),
        }
    }

    /// Checks the options for a path that was checked with this intent.
    pub(super) fn validate(self, intent: Intent) -> Result<()> {
        if self.create_parents && intent != Intent::NewTree {
            let text = "parents are created only for a path that was checked with Intent::NewTree";
            return Err(Error::new(Code::InvalidOptions).says(text));
        }
        if self.existing == Existing::Refuse && self.if_unchanged.is_some() {
            return Err(Error::new(Code::InvalidOptions).says(
                "a write cannot require both that the file is unchanged and that it is new",
            ));
        }
        Ok(())
    }

    /// Like [`validate`](Self::validate), for a file that is always replaced.
    pub(super) fn validate_atomic(self, intent: Intent) -> Result<()> {
        if matches!(self.existing, Existing::InPlace | Existing::InPlaceIfOwnerChanges) {
            let text = "an atomic file cannot be written in place";
            return Err(Error::new(Code::InvalidOptions).says(text));
        }
        self.validate(intent)
    }
}

/// How a write of a whole file treats an existing file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Existing {
    /// Replaces it atomically with a new file. A reader sees either the old content or the new, and
    /// a failed write leaves the old content. This requires permission to write to the directory
    /// (rename(2)). See [`Roots::write`](crate::Roots::write) for the permissions and attributes
    /// that the new file keeps, and for the files that are not replaced because it cannot keep
    /// theirs.
    #[default]
    Replace,
    /// Opens the file itself, verifies it and overwrites it. The file keeps its owner, group,
    /// access control list, extended attributes, birth time and hard links, but not the set-user-ID
    /// and set-group-ID bits. This requires permission to write to the file, not to the directory.
    /// It is the only way to write a root that is a single file.
    ///
    /// It is not atomic. A reader can see part of the new content, or the new content followed by
    /// the rest of the old. A write that fails midway, for instance on a full disk, leaves the file
    /// in that state, and the overwritten part of the old content is lost.
    InPlace,
    /// Like [`Replace`](Self::Replace) if the new file can have the owner, the group and the access
    /// control list of the old one, and otherwise like [`InPlace`](Self::InPlace). On Windows, the
    /// file is always written in place, because a new file never has the old access control list.
    InPlaceIfOwnerChanges,
    /// Refuses the write with [`AlreadyExists`](crate::ErrorKind::AlreadyExists). On Linux and
    /// macOS, the check and the creation are one atomic step, unless the filesystem does not support
    /// it; see [`Replace::Never`](crate::Replace::Never).
    Refuse,
}

/// What a write syncs to the device before it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing. After a power failure, the file can be the old one, the new one or empty, depending
    /// on the filesystem. If only the process dies, the file is the old one or the new one.
    None,
    /// The content and the permissions of the new file. After a power failure, the file is the old
    /// one or the new one.
    Data,
    /// The content, the permissions, the name and the names of created parents. After a power
    /// failure, the file is the new one. Windows has no call to sync a directory, and not every
    /// filesystem supports it. In these cases, this is the same as [`Data`](Self::Data).
    #[default]
    DataAndDirectory,
}
