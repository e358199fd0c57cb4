//! The options, progress and result of copying a tree.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::fs::options::Durability;
use crate::limits::{COPY_BYTES, WALK_ENTRIES};

/// How [`copy_tree`](crate::Roots::copy_tree) treats an entry that it may not or cannot copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Refused {
    /// The copy fails, and the error names the entry.
    #[default]
    Fail,
    /// The entry is skipped, with everything in it. [`CopyReport::skipped`] lists it.
    Skip,
}

/// Options of [`copy_tree`](crate::Roots::copy_tree).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct CopyOptions {
    pub(super) max_entries: usize,
    pub(super) max_bytes: u64,
    pub(super) refused: Refused,
    pub(super) create_parents: bool,
    pub(super) durability: Durability,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            max_entries: WALK_ENTRIES,
            max_bytes: COPY_BYTES,
            refused: Refused::default(),
            create_parents: false,
            durability: Durability::None,
        }
    }
}

impl CopyOptions {
    /// Returns the default options: at most [`WALK_ENTRIES`] entries and [`COPY_BYTES`] bytes, the
    /// copy fails at the first refused entry, parents are not created, and nothing is synced.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of entries. A larger tree is not copied, and the error is
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_many_entries`). Skipped entries
    /// count, and hidden names do not.
    pub fn max_entries(self, max_entries: usize) -> Self {
        Self { max_entries, ..self }
    }

    /// Sets the maximum number of bytes in all files together. A larger tree is not copied, and the
    /// error is [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_large`). A sparse file
    /// counts with its full size, because its copy can take that much space.
    pub fn max_bytes(self, max_bytes: u64) -> Self {
        Self { max_bytes, ..self }
    }

    /// Sets how an entry is treated that cannot be copied.
    pub fn refused(self, refused: Refused) -> Self {
        Self { refused, ..self }
    }

    /// Creates missing parent directories of the destination. The destination is then checked with
    /// [`Intent::NewTree`](crate::Intent::NewTree) instead of [`Intent::New`](crate::Intent::New).
    /// A [`CheckedPath`](crate::CheckedPath) ignores this option, because its own intent determines
    /// whether parents are created.
    ///
    /// If the copy fails, the directories that it created are removed again, unless another process
    /// has put something into them.
    pub fn create_parents(self, create_parents: bool) -> Self {
        Self { create_parents, ..self }
    }

    /// Sets what is synced to the device before the copy returns. The default is
    /// [`Durability::None`], because a tree can have many files, and syncing each of them can take
    /// much longer than copying it.
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }
}

/// The progress of [`copy_tree`](crate::Roots::copy_tree).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    pub(super) entries: usize,
    pub(super) bytes: u64,
    pub(super) current: PathBuf,
}

impl CopyProgress {
    /// The number of entries that were found so far. The number of remaining entries is unknown.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The number of bytes that were copied so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The entry that is being copied, relative to the source.
    #[must_use]
    pub fn current(&self) -> &Path {
        &self.current
    }
}

/// The result of [`copy_tree`](crate::Roots::copy_tree).
#[derive(Debug, Default)]
#[must_use = "entries may have been skipped"]
pub struct CopyReport {
    pub(super) files: usize,
    pub(super) directories: usize,
    pub(super) symlinks: usize,
    pub(super) bytes: u64,
    pub(super) skipped: Vec<SkippedEntry>,
    pub(super) skipped_count: usize,
}

impl CopyReport {
    /// The number of files that were copied.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files
    }

    /// The number of directories that were copied, including the source itself.
    #[must_use]
    pub fn directories(&self) -> usize {
        self.directories
    }

    /// The number of symlinks that were copied.
    #[must_use]
    pub fn symlinks(&self) -> usize {
        self.symlinks
    }

    /// The number of bytes in all files that were copied.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first [`COPY_SKIPPED`](crate::limits::COPY_SKIPPED) entries that were skipped.
    #[must_use]
    pub fn skipped(&self) -> &[SkippedEntry] {
        &self.skipped
    }

    /// The number of entries that were skipped. A directory that was skipped with its content
    /// counts as one.
    #[must_use]
    pub fn skipped_count(&self) -> usize {
        self.skipped_count
    }
}

/// An entry that [`copy_tree`](crate::Roots::copy_tree) skipped.
#[derive(Debug)]
pub struct SkippedEntry {
    pub(super) path: PathBuf,
    pub(super) error: Error,
}

impl SkippedEntry {
    /// The path relative to the source.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The reason.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }
}
