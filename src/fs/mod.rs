//! File operations on checked paths, each beneath the handle of its root.
//!
//! Each operation is a method of [`CheckedPath`] and of [`Roots`]. The method of [`Roots`] checks
//! the request and performs the operation in one step. Nothing outside the roots is read or
//! changed, and every opened file is verified before it is read or changed.
//!
//! | operation | intent | module | follows a symlink as the last name |
//! | --- | --- | --- | --- |
//! | open, read, read_to_string, metadata | [`Existing`] | `open` | yes, inside |
//! | open to create, write, write_with | [`New`] | `open`, `write` | yes, inside, even if dangling |
//! | create_dir, create_dir_all | [`NewTree`] | `write` | yes, inside |
//! | read_dir, walk | [`Existing`] | `list` | yes, inside, but no listed symlinks |
//! | symlink_metadata, rename, remove_file | [`NoFollow`] | `open`, `change` | no |
//! | remove_dir, remove_dir_all | [`NoFollow`] | `change` | no |
//!
//! [`Existing`]: Intent::Existing
//! [`New`]: Intent::New
//! [`NewTree`]: Intent::NewTree
//! [`NoFollow`]: Intent::NoFollow

mod open;
mod list;
#[cfg(unix)]
mod acl;
#[cfg(unix)]
mod permissions;
mod write;
mod change;

pub use change::Replace;
pub use list::{DirEntry, ReadDir, Walk, WalkEntry, WalkOptions};
pub use open::{OpenFile, OpenOptions};
pub use write::{Existing, WriteOptions};

use crate::check::CheckedPath;
use crate::dir::Metadata;
use crate::error::{Error, Result};
use crate::path::Location;
use crate::roots::{Intent, Roots};

/// Defines the operations, one row each. A row generates a method of [`Roots`], which checks the
/// request for the intent and performs the operation in one step, and a method of [`CheckedPath`].
/// The private method after `=>` does the work.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $intent:ident: fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty => $work:ident, $operation:literal;
    )*) => {
        impl Roots {
            $(
                $(#[$doc])*
                ///
                /// This checks the request and performs the operation in one step. In addition to
                /// the errors above, it returns the errors of [`Roots::check`].
                pub fn $name<L>(&self, request: L, $($argument: $type),*) -> Result<$result>
                where
                    L: TryInto<Location>,
                    Error: From<L::Error>,
                {
                    let request = self.location(request)?;
                    self.run_request($operation, &request, |budget| {
                        let checked = self.decide(&request, Intent::$intent, budget)?;
                        checked.operate(|| checked.$work($($argument),*))
                    })
                }
            )*
        }

        impl CheckedPath {
            $(
                $(#[$doc])*
                pub fn $name(&self, $($argument: $type),*) -> Result<$result> {
                    self.perform($operation, || self.$work($($argument),*))
                }
            )*
        }
    };
}

operations! {
    /// Writes a whole file atomically. The content is written to a new file in the same directory,
    /// which is then renamed to the final name. A reader sees either the old content or the new,
    /// and a failed write leaves the old content. This requires permission to write to the
    /// directory, not to the file (rename(2)). The content is synced to the device before the
    /// rename. The directory is synced afterwards, if the filesystem supports that.
    ///
    /// The new file keeps the permission bits of the old one, without set-user-ID and set-group-ID.
    /// As far as the process may set them, it also keeps the owner, the group and, on Linux, the
    /// POSIX access control list. These permissions grant nobody access that the old ones denied.
    /// If the owner, the group or the list cannot be kept, the group and others keep only the bits
    /// that every owner, group and entry that was not kept had too. The exception is the owner of
    /// the new file, who can always change its mode. The permissions are those of the old file when
    /// the write began. Lists of other kinds (NFSv4, macOS, Windows) are not kept, and the new file
    /// inherits the list of its directory.
    ///
    /// The new file does not keep extended attributes, the birth time or other hard links, which
    /// still name the old content. [`write_with`](Self::write_with) can write in place, which keeps
    /// all of these. A file that did not exist has mode 0666 minus the umask, or the permissions
    /// from the default access control list of its directory.
    ///
    /// If the process is killed during a write, the new file remains. Its name is
    /// `.mcp-roots-guard-` followed by 16 hexadecimal digits and `.tmp`. No write uses such a file
    /// for longer than an hour, so an older one can be removed:
    ///
    /// ```sh
    /// find DIRECTORY -name '.mcp-roots-guard-????????????????.tmp' -type f -mmin +60 -delete
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`RootItself`](crate::ErrorKind::RootItself) for a
    /// single-file root, even inside another root, because it can only be written
    /// [in place](crate::Existing::InPlace);
    /// [`IsADirectory`](crate::ErrorKind::IsADirectory),
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`, `hard_linked`);
    /// operating system errors.
    New: fn write(content: impl AsRef<[u8]> + Copy) -> () => write_now, "write";

    /// Writes a whole file like [`write`](Self::write), and lets the caller choose how an existing
    /// file is treated.
    ///
    /// # Errors
    ///
    /// Same as [`write`](Self::write). A write in place that fails midway leaves part of the new
    /// content.
    New: fn write_with(content: impl AsRef<[u8]> + Copy, options: WriteOptions) -> () => write_with_now, "write";

    /// Creates a directory. Its parent must exist.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists), [`NotFound`](crate::ErrorKind::NotFound)
    /// if the parent does not exist.
    NewTree: fn create_dir() -> () => create_dir_now, "create directory";

    /// Creates a directory and its missing parents. Succeeds if the directory already exists.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`AlreadyExists`](crate::ErrorKind::AlreadyExists)
    /// or [`NotADirectory`](crate::ErrorKind::NotADirectory) if a name on the path exists and is
    /// not a directory. Directories that were created before an error remain.
    NewTree: fn create_dir_all() -> () => create_dir_all_now, "create directory";

    /// Lists a directory, in no particular order. Entries are described but neither opened nor
    /// followed, so a FIFO or a symlink that points outside is listed like any other entry. Names
    /// that are hidden ([`Protection::Hidden`](crate::Protection::Hidden)) are omitted.
    ///
    /// # Errors
    ///
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory), and operating system errors, which the
    /// iterator can also yield.
    Existing: fn read_dir() -> ReadDir => read_dir_now, "list";

    /// Walks a directory and everything beneath it. The entries of each directory are sorted by
    /// name, and a directory comes before its content. Symlinks are described but not followed, so
    /// the walk has no loops and stays inside. It is limited in depth
    /// ([`WALK_DEPTH`](crate::limits::WALK_DEPTH)), entries
    /// ([`WALK_ENTRIES`](crate::limits::WALK_ENTRIES), or the limit in the options) and memory
    /// ([`WALK_BYTES`](crate::limits::WALK_BYTES)). Hidden names are omitted, and do not count.
    ///
    /// # Errors
    ///
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory). The walk itself yields an error for each
    /// directory that it cannot read, and continues. It ends with the error
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if it reaches a limit on entries or
    /// memory.
    Existing: fn walk(options: WalkOptions) -> Walk => walk_now, "walk";

    /// Returns the metadata of the named file or directory. Symlinks are followed.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound).
    Existing: fn metadata() -> Metadata => metadata_now, "describe";

    /// Returns the metadata of the last name itself. A symlink is not followed.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound).
    NoFollow: fn symlink_metadata() -> Metadata => metadata_now, "describe";

    /// Removes a file, a symlink or a special file. A symlink itself is removed, and its target is
    /// not affected.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`RootItself`](crate::ErrorKind::RootItself),
    /// [`IsADirectory`](crate::ErrorKind::IsADirectory), [`NotFound`](crate::ErrorKind::NotFound).
    NoFollow: fn remove_file() -> () => remove_file_now, "remove";

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`RootItself`](crate::ErrorKind::RootItself),
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory) (also for a symlink),
    /// [`DirectoryNotEmpty`](crate::ErrorKind::DirectoryNotEmpty),
    /// [`NotFound`](crate::ErrorKind::NotFound).
    NoFollow: fn remove_dir() -> () => remove_dir_now, "remove";

    /// Removes a directory and everything in it, deepest entries first. Symlinks in it are removed
    /// but not followed, and a mounted filesystem is never entered. Entries are removed in batches,
    /// so memory use does not grow with their number (under 20 MB). If another process adds
    /// entries, removal continues until nothing is left or a limit is reached.
    ///
    /// If names are protected, the directory is searched first, and nothing is removed if it
    /// contains a read-only name. Hidden names are left in place, together with the directories
    /// that contain them.
    ///
    /// # Errors
    ///
    /// - The errors of [`remove_dir`](Self::remove_dir).
    /// - [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`mount_crossing`).
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_deep`) for a directory more than
    ///   [`WALK_DEPTH`](crate::limits::WALK_DEPTH) deep.
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_many_entries`) after ten million
    ///   entries, or if more than [`WALK_ENTRIES`](crate::limits::WALK_ENTRIES) would have to be
    ///   searched for read-only names.
    /// - [`ReadOnly`](crate::ErrorKind::ReadOnly) (`protected`) for a directory that contains a
    ///   read-only name, and [`DirectoryNotEmpty`](crate::ErrorKind::DirectoryNotEmpty) for one
    ///   that contains a hidden name.
    ///
    /// Entries that were removed before an error stay removed, so another call continues after
    /// `too_many_entries`.
    NoFollow: fn remove_dir_all() -> () => remove_dir_all_now, "remove";
}
