//! File operations on checked paths, each beneath the handle of its root.
//!
//! An operation that follows symlinks is a method of [`CheckedPath`], and one on a directory entry
//! itself is a method of [`CheckedEntry`]. Those that most tools need are also methods of [`Roots`],
//! which check the request and perform the operation in one step. Nothing outside the roots is read
//! or changed, and every opened file is verified before it is read or changed. What a change requires
//! of its place is the table of `permit`.
//!
//! | operation | on a | module | requires |
//! | --- | --- | --- | --- |
//! | open, read, read_to_string, content_hash | path | `open`, `version` | a file |
//! | metadata | path, entry | `open` | something |
//! | read_dir, walk | path | `list` | a directory |
//! | open to create, write, write_with, atomic_file | path | `open`, `write`, `atomic` | its directory, unless the options create parents |
//! | create_dir | path | `write` | its directory, and nothing |
//! | create_dir_all | path | `write` | no file on the way |
//! | copy | path to path | `copy` | a file; as for a write |
//! | set_attribute, open_unguarded_dir | path | `attributes` | something; a directory |
//! | remove_file, remove_dir, remove_dir_all, rename | entry | `change` | an entry |
//! | read_link | entry | `links` | a symlink |
//! | symlink, hard_link | entry | `links` | its directory, and nothing; a file to link |
//!
//! A write replaces a file by an [`AtomicFile`]. A [`ChangeSet`] (`changes`) prepares several of
//! these operations and commits them in order.

mod permit;
mod open;
#[cfg(feature = "ignore")]
mod ignored;
#[cfg(not(feature = "ignore"))]
#[path = "not_ignored.rs"]
mod ignored;
mod list;
#[cfg(unix)]
mod acl;
#[cfg(unix)]
mod permissions;
#[cfg(windows)]
#[path = "no_permissions.rs"]
mod permissions;
mod version;
mod options;
mod parents;
mod atomic;
mod write;
mod change;
mod changes;
mod links;
mod copy;
mod attributes;

pub use atomic::AtomicFile;
pub use attributes::Attribute;
pub(crate) use attributes::open_unguarded_dir;
pub use changes::{ChangeSet, CommitError};
pub use list::{DirEntry, ReadDir, Walk, WalkOptions};
pub use open::{OpenFile, OpenMode};
pub use options::{Durability, Overwrite, WriteOptions};
pub use version::ContentHash;

use crate::check::{CheckedEntry, CheckedPath};
use crate::dir::Metadata;
use crate::error::Result;
use crate::path::IntoLocation;
use crate::roots::{LastName, Roots};

/// Defines operations that most tools need, one row each. A row generates a method of a proof, and
/// one of [`Roots`], which is a check and then the operation. `|path|` is followed by one attempt at
/// the operation.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $proof:ident.$name:ident($($argument:ident: $type:ty),*) -> $result:ty,
            $operation:literal, $last_name:ident, |$path:ident| $attempt:expr;
    )*) => {
        impl Roots {
            $(
                $(#[$doc])*
                ///
                /// This checks the request and performs the operation in one step. In addition to
                /// the errors above, it returns the errors of [`Roots::check`].
                pub fn $name(
                    &self,
                    request: impl IntoLocation,
                    $($argument: $type),*
                ) -> Result<$result> {
                    let request = self.location(request)?;
                    self.run($operation, &request, LastName::$last_name, |$path, _| $attempt)
                }
            )*
        }

        $(
            impl $proof {
                $(#[$doc])*
                pub fn $name(&self, $($argument: $type),*) -> Result<$result> {
                    self.0.run($operation, |$path| $attempt)
                }
            }
        )*
    };
}

operations! {
    /// Writes a whole file atomically. The content is written to a new file in the same directory,
    /// which is then renamed to the final name. A reader sees either the old content or the new,
    /// and a failed write leaves the old content. This requires permission to write to the
    /// directory (rename(2)) and, on Unix, to read or to write the old file. The content is synced
    /// to the device before the rename. The directory is synced afterwards, if the filesystem
    /// supports that and the process may read the directory. If that fails, the error says that the
    /// file has its new content.
    ///
    /// With the sync, writing a small file takes several times as long. A file that can be created
    /// again can be written without it, by [`write_with`](Self::write_with) and
    /// [`Durability::None`](crate::Durability::None).
    ///
    /// The new file keeps the permission bits of the old one, without set-user-ID and set-group-ID.
    /// It also keeps the owner and the group, as far as the process may set them. If the owner
    /// cannot be kept, the group and others keep only the bits that the old owner had too; if the
    /// group cannot be kept, only those that the old group and all others had. On Linux, a POSIX
    /// access control list is kept exactly. If it cannot be kept, which takes the same owner and
    /// group, the write is refused. So nobody gains access, except the owner of the new file, who
    /// can always change its mode. The permissions are those of the old file immediately before it
    /// is replaced, after the content was written. Lists of other kinds (NFSv4, macOS, Windows) are
    /// not kept, and the new file inherits the list of its directory.
    ///
    /// The new file does not keep extended attributes, the birth time or other hard links, which
    /// still name the old content. [`write_with`](Self::write_with) can write in place, which keeps
    /// all of these, and can create missing parents, require an unchanged file, and reduce what is
    /// synced. A file that did not exist has mode 0666 minus the umask, or the permissions
    /// from the default access control list of its directory.
    ///
    /// Exceeding the process's file size limit (`RLIMIT_FSIZE`, setrlimit(2)) kills the process,
    /// unless it handles or ignores `SIGXFSZ`.
    ///
    /// If the process is killed during a write, the new file remains. Its name is
    /// `.mcp-roots-guard-` followed by 16 hexadecimal digits and `.tmp`. A server that keeps no
    /// [`AtomicFile`] or [`ChangeSet`] for longer than an hour can remove the files that were not
    /// modified for that long:
    ///
    /// ```sh
    /// find DIRECTORY -name '.mcp-roots-guard-????????????????.tmp' -type f -mmin +60 -delete
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`RootItself`](crate::ErrorKind::RootItself) for a
    /// single-file root, even inside another root, because it can only be written
    /// [in place](crate::WriteOptions::in_place);
    /// [`IsADirectory`](crate::ErrorKind::IsADirectory), also for a new name that ends in a slash;
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`, `hard_linked`);
    /// [`PermissionDenied`](crate::ErrorKind::PermissionDenied), also for a file that the process
    /// may neither read nor write, or whose access control list cannot be kept; operating system
    /// errors.
    CheckedPath.write(content: impl AsRef<[u8]>) -> (), "write", New,
        |path| write::write(path, &content, WriteOptions::default());

    /// Writes a whole file like [`write`](Self::write), and lets the caller choose how an existing
    /// file is treated, whether missing parents are created, whether the file must be unchanged,
    /// and what is synced.
    ///
    /// # Errors
    ///
    /// The errors of [`write`](Self::write), and the errors of
    /// [`CheckedPath::atomic_file`] for its options, except that a file can be written in place. A
    /// write in place that fails midway leaves part of the new content.
    CheckedPath.write_with(content: impl AsRef<[u8]>, options: WriteOptions) -> (), "write", New,
        |path| write::write(path, &content, options);

    /// Creates a directory. Its parent must exist. Unlike mkdir(2), this follows a dangling symlink
    /// as the last name if its target is inside a root, and creates the target.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists), [`NotFound`](crate::ErrorKind::NotFound)
    /// if the parent does not exist.
    CheckedPath.create_dir() -> (), "create directory", New,
        |path| path.create_dir();

    /// Creates a directory and its missing parents. Succeeds if the directory already exists.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`AlreadyExists`](crate::ErrorKind::AlreadyExists)
    /// or [`NotADirectory`](crate::ErrorKind::NotADirectory) if a name on the path exists and is
    /// not a directory. Directories that were created before an error remain.
    CheckedPath.create_dir_all() -> (), "create directory", New,
        |path| path.create_dir_all();

    /// Lists a directory, in no particular order. Entries are neither opened nor followed, so a FIFO
    /// or a symlink that points outside is listed like any other entry.
    /// [Denied](crate::BoundaryBuilder::deny) names are omitted.
    ///
    /// # Errors
    ///
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory);
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`) for a directory of a proc
    /// filesystem; operating system errors, which the iterator can also yield.
    CheckedPath.read_dir() -> ReadDir, "list", Existing,
        |path| list::read_dir(path);

    /// Walks a directory and everything beneath it. The entries of each directory are sorted by
    /// name, and a directory comes before its content. Symlinks are yielded but not followed, so
    /// the walk has no loops and stays inside. It is limited in depth
    /// ([`WALK_DEPTH`](crate::limits::WALK_DEPTH)), entries
    /// ([`WALK_ENTRIES`](crate::limits::WALK_ENTRIES), or the limit in the options) and memory
    /// ([`WALK_BYTES`](crate::limits::WALK_BYTES)). Denied names are omitted, and do not count.
    ///
    /// # Errors
    ///
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory). The walk itself ends with an error at a
    /// directory that it cannot read, unless
    /// [`WalkOptions::skip_unreadable`](crate::WalkOptions::skip_unreadable) is set, and with
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if it reaches a limit on entries or
    /// memory.
    CheckedPath.walk(options: WalkOptions) -> Walk, "walk", Existing,
        |path| list::walk(path, options);

    /// Returns the metadata of the named file or directory. Symlinks are followed. For a symlink
    /// itself, use [`CheckedEntry::metadata`].
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound).
    CheckedPath.metadata() -> Metadata, "describe", Existing,
        |path| open::metadata(path);

    /// Removes a file, a symlink or a special file. A symlink itself is removed, and its target is
    /// not affected.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`RootItself`](crate::ErrorKind::RootItself),
    /// [`IsADirectory`](crate::ErrorKind::IsADirectory), [`NotFound`](crate::ErrorKind::NotFound).
    CheckedEntry.remove_file() -> (), "remove", Unfollowed,
        |path| change::remove_file(path, None);

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`RootItself`](crate::ErrorKind::RootItself),
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory) (also for a symlink),
    /// [`DirectoryNotEmpty`](crate::ErrorKind::DirectoryNotEmpty),
    /// [`NotFound`](crate::ErrorKind::NotFound).
    CheckedEntry.remove_dir() -> (), "remove", Unfollowed,
        |path| path.remove_dir();

    /// Removes a directory and everything in it, deepest entries first. Symlinks in it are removed
    /// but not followed, and a mounted filesystem is never entered. Entries are removed in batches,
    /// so memory use does not grow with their number (under 20 MB). If another process adds entries
    /// meanwhile, the directory that they are in remains, and the error is
    /// [`DirectoryNotEmpty`](crate::ErrorKind::DirectoryNotEmpty). This also happens on systems that
    /// keep the name of an open file until it is closed (Windows before version 10, some network
    /// filesystems).
    ///
    /// If names are protected, the directory is searched first, and nothing is removed if it
    /// contains a protected name.
    ///
    /// # Errors
    ///
    /// - The errors of [`CheckedEntry::remove_dir`].
    /// - [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`mount_crossing`).
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_deep`) for a directory more than
    ///   [`WALK_DEPTH`](crate::limits::WALK_DEPTH) deep.
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_many_entries`) after ten million
    ///   entries, or if more than [`WALK_ENTRIES`](crate::limits::WALK_ENTRIES) would have to be
    ///   searched for protected names.
    /// - [`Protected`](crate::ErrorKind::Protected) for a directory that contains a protected name.
    /// - [`TooLong`](crate::ErrorKind::TooLong) if a path below the directory is longer than the
    ///   system allows (4,095 bytes on Linux). Remove a directory inside it first.
    ///
    /// Entries that were removed before an error stay removed, so another call continues after
    /// `too_many_entries`.
    CheckedEntry.remove_dir_all() -> (), "remove", Unfollowed,
        |path| path.remove_dir_all();
}
