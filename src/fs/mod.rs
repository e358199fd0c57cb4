//! File operations on checked paths, each beneath the handle of its root.
//!
//! Each operation is a method of [`CheckedPath`]. Those that most tools need are also methods of
//! [`Roots`], which check the request and perform the operation in one step. Nothing outside the
//! roots is read or changed, and every opened file is verified before it is read or changed.
//!
//! | operation | intent | module | follows a symlink as the last name |
//! | --- | --- | --- | --- |
//! | open, read, read_to_string, metadata | [`Existing`] | `open` | yes, inside |
//! | version | [`Existing`] | `version` | yes, inside |
//! | open to create, write | [`New`] | `open`, `write` | yes, inside, even if dangling |
//! | write_with, atomic_file | [`New`], or [`NewTree`] to create parents | `write`, `atomic` | yes, inside, even if dangling |
//! | create_dir, create_dir_all | [`NewTree`] | `write` | yes, inside |
//! | read_dir, walk | [`Existing`] | `list` | yes, inside, but no listed symlinks |
//! | metadata of a symlink, rename, remove_file | [`NoFollow`] | `open`, `change` | no |
//! | remove_dir, remove_dir_all | [`NoFollow`] | `change` | no |
//! | copy | [`Existing`] to [`New`] or [`NewTree`] | `copy` | yes, inside |
//! | read_link, symlink, hard_link | [`NoFollow`] | `links` | no |
//! | set_attribute, open_unguarded_dir | [`Existing`] | `attributes` | yes, inside |
//!
//! A write replaces a file by an [`AtomicFile`]. A [`ChangeSet`] (`changes`) prepares several of
//! these operations and commits them in order.
//!
//! [`Existing`]: Intent::Existing
//! [`New`]: Intent::New
//! [`NewTree`]: Intent::NewTree
//! [`NoFollow`]: Intent::NoFollow

mod preconditions;
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
mod version;
mod options;
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
pub use changes::{ChangeSet, PartialCommit};
pub use list::{DirEntry, ReadDir, Walk, WalkOptions};
pub use open::{OpenFile, OpenMode};
pub use options::{Durability, InPlace, Overwrite, WriteOptions};
pub use version::FileVersion;

use crate::check::CheckedPath;
use crate::dir::Metadata;
use crate::error::Result;
use crate::path::IntoLocation;
use crate::roots::{Intent, Roots};

/// Defines operations that most tools need, one row each. A row generates a method of
/// [`CheckedPath`], and one of [`Roots`], which is a check and then the operation. The intent of
/// the check can depend on the options, so the documentation of the proof's method names it in
/// words. `|path|` is followed by one attempt at the operation.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $name:ident($($argument:ident: $type:ty),*) -> $result:ty, $operation:literal, $intent:expr,
            $named:literal, |$path:ident| $attempt:expr;
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
                    self.run($operation, &request, $intent, |$path, _| $attempt)
                }
            )*
        }

        impl CheckedPath {
            $(
                $(#[$doc])*
                ///
                #[doc = concat!("Check the path for ", $named, ".")]
                pub fn $name(&self, $($argument: $type),*) -> Result<$result> {
                    self.run($operation, |$path| $attempt)
                }
            )*
        }
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
    /// [in place](crate::InPlace::Always);
    /// [`IsADirectory`](crate::ErrorKind::IsADirectory), also for a new name that ends in a slash;
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`, `hard_linked`);
    /// [`PermissionDenied`](crate::ErrorKind::PermissionDenied), also for a file that the process
    /// may neither read nor write, or whose access control list cannot be kept; operating system
    /// errors.
    write(content: impl AsRef<[u8]>) -> (), "write",
        Intent::New, "[`Intent::New`]",
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
    write_with(content: impl AsRef<[u8]>, options: WriteOptions) -> (), "write",
        options.intent(), "[`Intent::New`], or for [`Intent::NewTree`] to create parents",
        |path| write::write(path, &content, options);

    /// Creates a directory and its missing parents. Succeeds if the directory already exists.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`AlreadyExists`](crate::ErrorKind::AlreadyExists)
    /// or [`NotADirectory`](crate::ErrorKind::NotADirectory) if a name on the path exists and is
    /// not a directory. Directories that were created before an error remain.
    create_dir_all() -> (), "create directory",
        Intent::NewTree, "[`Intent::NewTree`]",
        |path| write::create_dir_all(path);

    /// Lists a directory, in no particular order. Entries are neither opened nor followed, so a FIFO
    /// or a symlink that points outside is listed like any other entry.
    /// [Denied](crate::Protection::Denied) names are omitted.
    ///
    /// # Errors
    ///
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory);
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`) for a directory of a proc
    /// filesystem; operating system errors, which the iterator can also yield.
    read_dir() -> ReadDir, "list",
        Intent::Existing, "[`Intent::Existing`]",
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
    walk(options: WalkOptions) -> Walk, "walk",
        Intent::Existing, "[`Intent::Existing`]",
        |path| list::walk(path, options);

    /// Returns the metadata of the named file or directory. Symlinks are followed by the check.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound).
    metadata() -> Metadata, "describe",
        Intent::Existing, "[`Intent::Existing`], or for [`Intent::NoFollow`] to describe a symlink",
        |path| open::metadata(path);

    /// Removes a file, a symlink or a special file. A symlink itself is removed, and its target is
    /// not affected.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`RootItself`](crate::ErrorKind::RootItself),
    /// [`IsADirectory`](crate::ErrorKind::IsADirectory), [`NotFound`](crate::ErrorKind::NotFound).
    remove_file() -> (), "remove",
        Intent::NoFollow, "[`Intent::NoFollow`]. After another check, the error is `wrong_intent`",
        |path| change::remove_file(path, None);

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
    /// - The errors of [`CheckedPath::remove_dir`].
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
    remove_dir_all() -> (), "remove",
        Intent::NoFollow, "[`Intent::NoFollow`]. After another check, the error is `wrong_intent`",
        |path| change::remove_dir_all(path);
}
