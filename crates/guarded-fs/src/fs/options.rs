//! Options of writes and walks.

use crate::fs::version::ContentHash;
use crate::limits::WALK_ENTRIES;

/// Options of a whole file that is written: by [`write_with`](crate::Roots::write_with),
/// [`copy`](crate::Roots::copy), an [`AtomicFile`](crate::AtomicFile) or a
/// [`ChangeSet`](crate::ChangeSet). By default, an existing file is replaced by a new file, whatever
/// it contains, parents are not created, and the content and the name are durable when the write
/// returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct WriteOptions {
    pub(super) precondition: Precondition,
    pub(super) create_parents: bool,
    pub(super) durability: Durability,
}

impl WriteOptions {
    /// Sets what must hold of the name before it is written. The default is [`Precondition::Any`].
    pub fn precondition(self, precondition: Precondition) -> Self {
        Self { precondition, ..self }
    }

    /// Creates missing parent directories. If the write fails, they are removed again, unless
    /// another process has put something into them.
    pub fn create_parents(self) -> Self {
        Self { create_parents: true, ..self }
    }

    /// Sets what is synced to the device before the write returns.
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Opens, verifies and overwrites an existing file itself, instead of replacing it. A file that
    /// does not exist is always created completely or not at all. An
    /// [`AtomicFile`](crate::AtomicFile) and a [`ChangeSet`](crate::ChangeSet), which replace files,
    /// do not take the result.
    ///
    /// The file keeps its owner, group, access control list, extended attributes, birth time and
    /// hard links, but not the set-user-ID and set-group-ID bits. This requires permission to write
    /// to the file, not to the directory, and is the only way to write a root that is a single
    /// file.
    ///
    /// It is not atomic. A reader can see part of the new content, or the new content followed by
    /// the rest of the old. A write that fails midway, for instance on a full disk, leaves the file
    /// so, and the overwritten content is lost.
    pub fn in_place(self) -> WriteMethod {
        WriteMethod { options: self, in_place: InPlace::Always }
    }

    /// Overwrites a file [in place](Self::in_place) only if a new file could not have its owner,
    /// group and access control list. That is always so on Windows, where it never has the old
    /// list.
    pub fn in_place_if_owner_changes(self) -> WriteMethod {
        WriteMethod { options: self, in_place: InPlace::IfOwnerChanges }
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            precondition: Precondition::Any,
            create_parents: false,
            durability: Durability::default(),
        }
    }
}

/// How [`write_with`](crate::Roots::write_with) and [`copy`](crate::Roots::copy) treat an existing
/// file: [`WriteOptions`] become one that replaces it, and
/// [`in_place`](WriteOptions::in_place) makes one that overwrites it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct WriteMethod {
    pub(super) options: WriteOptions,
    pub(super) in_place: InPlace,
}

impl From<WriteOptions> for WriteMethod {
    fn from(options: WriteOptions) -> Self {
        Self { options, in_place: InPlace::Never }
    }
}

impl WriteMethod {
    pub(super) fn is_in_place(self) -> bool {
        match self.in_place {
            InPlace::Never => false,
            InPlace::Always => true,
            InPlace::IfOwnerChanges => cfg!(windows),
        }
    }
}

/// What must hold of a name before a change replaces, moves or removes what has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precondition {
    /// Nothing has the name. Otherwise, fails with
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists). On Linux and macOS, the check and the
    /// change are one atomic step (`RENAME_NOREPLACE`, renameat2(2)). On Windows, and on a
    /// filesystem without this flag, what another process creates between the two can be replaced.
    Missing,
    /// Whatever has the name is changed. A rename replaces its destination as rename(2) does: a
    /// file replaces a file or symlink, and a directory an empty directory.
    Any,
    /// A file has the name, and still has this content. Otherwise, fails with
    /// [`Changed`](crate::ErrorKind::Changed) (`modified`), or with
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for a file of more than
    /// [`COMPARED_BYTES`](crate::limits::COMPARED_BYTES), which is not compared.
    ///
    /// A write compares the content when it begins and when it is committed. Immediately before the
    /// change, the name must still refer to the file that was compared, with the same size and
    /// times of modification and status change. Until the change, conditional changes of this
    /// process in the same directory exclude one another. While a file is overwritten [in
    /// place](WriteOptions::in_place), others of it fail with
    /// [`Changed`](crate::ErrorKind::Changed).
    ///
    /// Two kinds of change are not detected, and are lost:
    ///
    /// - One between this look-up and the change, a few microseconds, by another process or by an
    ///   unconditional operation of this process.
    /// - One in place that keeps the size, so soon after the comparison that the filesystem records
    ///   the same times, which is up to 10 ms on Linux.
    Unchanged(ContentHash),
}

impl Precondition {
    pub(super) fn version(self) -> Option<ContentHash> {
        match self {
            Self::Unchanged(version) => Some(version),
            Self::Missing | Self::Any => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InPlace {
    Never,
    Always,
    IfOwnerChanges,
}

/// What a write syncs to the device before it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing. After a power failure, the file can be the old one, the new one or empty, depending
    /// on the filesystem. If only the process dies, it is the old or the new one.
    None,
    /// The content and the permissions of the new file. After a power failure, the file is the old
    /// one or the new one.
    Data,
    /// Also the name, and the names of created parents. After a power failure, the file is the new
    /// one. This is the same as [`Data`](Self::Data) on Windows, which cannot sync a directory, on
    /// filesystems that cannot, and for a directory that the process may not read.
    #[default]
    DataAndDirectory,
}

/// Options of a walk. By default, it has the limits [`WALK_DEPTH`](crate::limits::WALK_DEPTH) and
/// [`WALK_ENTRIES`], yields every name, and fails at the first directory that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct WalkOptions {
    pub(super) max_depth: usize,
    pub(super) max_entries: usize,
    pub(super) skip_dot_files: bool,
    pub(super) skip_unreadable: bool,
    pub(super) git_ignore: bool,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self {
            max_depth: usize::MAX,
            max_entries: WALK_ENTRIES,
            skip_dot_files: false,
            skip_unreadable: false,
            git_ignore: false,
        }
    }
}

impl WalkOptions {
    /// Sets the maximum depth. Directories at this depth are yielded but not entered: with 1, the
    /// walk yields what [`read_dir`](crate::Roots::read_dir) lists. Without this limit, a directory
    /// deeper than [`WALK_DEPTH`](crate::limits::WALK_DEPTH) cannot be read (`too_deep`).
    pub fn max_depth(self, max_depth: usize) -> Self {
        Self { max_depth, ..self }
    }

    /// Sets the maximum number of entries. If there are more, the walk ends with
    /// [`TooManyEntries`](crate::ErrorKind::TooManyEntries). Which entries of a larger directory
    /// are yielded is not specified.
    pub fn max_entries(self, max_entries: usize) -> Self {
        Self { max_entries, ..self }
    }

    /// Omits names that begin with a dot. They are neither entered nor counted.
    pub fn skip_dot_files(self) -> Self {
        Self { skip_dot_files: true, ..self }
    }

    /// Continues after a directory that cannot be read or is too deep, which would otherwise end
    /// the walk. [`Walk::unreadable`](crate::Walk::unreadable) collects the errors.
    pub fn skip_unreadable(self) -> Self {
        Self { skip_unreadable: true, ..self }
    }
}
