//! File operations on checked paths, each beneath the handle of its root.
//!
//! Each operation is a method of [`CheckedPath`], and of [`Roots`], which checks a request and
//! operates in one step. Nothing outside the roots is read or changed, and whatever is opened is
//! verified before any effect.
//!
//! | operation | intent | in | follows a symlink as the last name |
//! | --- | --- | --- | --- |
//! | open, read, read_to_string, metadata | [`Existing`] | `open` | yes, inside |
//! | open to create, write, write_with | [`New`] | `open`, `write` | yes, inside, also dangling |
//! | create_dir, create_dir_all | [`NewTree`] | `write` | yes, inside |
//! | read_dir, walk | [`Existing`] | `list` | yes, inside; but not those that are listed |
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

/// Defines the operations, one row each. A row makes a method of [`Roots`], which checks the
/// request for the intent and operates in one step, and a method of [`CheckedPath`]. The private
/// method after `=>` does the work.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $intent:ident: fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty => $work:ident, $operation:literal;
    )*) => {
        impl Roots {
            $(
                $(#[$doc])*
                ///
                /// This checks the request and operates in one step. In addition to the errors
                /// above it has those of [`Roots::check`].
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
    /// Writes a whole file, all or nothing: into a new file beside it, which then takes its name. A
    /// reader sees the old content or the new, and a failure leaves the old. This needs the right
    /// to write the directory, not the file (rename(2)). The content is synced to the device before
    /// it takes the name, and so is the name, where the filesystem supports that.
    ///
    /// A file that is replaced keeps its permission bits without set-user-ID and set-group-ID and,
    /// as far as the process may set them, its owner, its group and, on Linux, its POSIX access
    /// control list. Nobody can read or write the new content who could not read or write the old:
    /// where the owner, the group or the list is lost, group and others only keep the bits that
    /// every lost owner, group and entry had. The owner of the new file, who can always change its
    /// mode, is the exception. The permissions are those that the file had when the write began.
    /// Lists of other kinds (NFSv4, macOS, Windows) are not kept: the new file has what it inherits
    /// from its directory.
    ///
    /// The new file does not keep extended attributes, the time of birth, or other hard links,
    /// which still name the old content. [`write_with`](Self::write_with) can write in place, which
    /// keeps everything. A file that did not exist has the mode 0666 less the umask, or what the
    /// default access control list of its directory says.
    ///
    /// A process that is killed during a write leaves the new file behind, as `.mcp-roots-guard-`
    /// with 16 hexadecimal digits and `.tmp`. After an hour, no write uses such a file any more,
    /// and it can be removed:
    ///
    /// ```sh
    /// find DIRECTORY -name '.mcp-roots-guard-????????????????.tmp' -type f -mmin +60 -delete
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`RootItself`](crate::ErrorKind::RootItself) for a
    /// single-file root, which can only be written [in place](crate::Existing::InPlace);
    /// [`IsADirectory`](crate::ErrorKind::IsADirectory),
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`, `hard_linked`); errors
    /// of the operating system.
    New: fn write(content: impl AsRef<[u8]> + Copy) -> () => write_now, "write";

    /// Writes a whole file as [`write`](Self::write) does, and lets the caller choose what happens
    /// to an existing file.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write). A write in place that fails midway leaves part of the new
    /// content.
    New: fn write_with(content: impl AsRef<[u8]> + Copy, options: WriteOptions) -> () => write_with_now, "write";

    /// Creates a directory. Its parent must exist.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists), [`NotFound`](crate::ErrorKind::NotFound)
    /// for the parent.
    NewTree: fn create_dir() -> () => create_dir_now, "create directory";

    /// Creates a directory and its missing parents. It succeeds if the directory exists already.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`AlreadyExists`](crate::ErrorKind::AlreadyExists)
    /// or [`NotADirectory`](crate::ErrorKind::NotADirectory) if something else is in the way.
    /// Directories that were created before an error stay.
    NewTree: fn create_dir_all() -> () => create_dir_all_now, "create directory";

    /// Lists a directory, in no particular order. Entries are described, and neither opened nor
    /// followed, so a FIFO or a symlink that leads out is just an entry.
    ///
    /// # Errors
    ///
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory), and errors of the operating system, also
    /// during the listing.
    Existing: fn read_dir() -> ReadDir => read_dir_now, "list";

    /// Walks a directory and everything beneath it. The entries of each directory are sorted by
    /// name, and a directory comes before its content. Symlinks are described and not followed, so
    /// the walk has no loops and stays inside. It is bounded in depth
    /// ([`WALK_DEPTH`](crate::limits::WALK_DEPTH)), entries
    /// ([`WALK_ENTRIES`](crate::limits::WALK_ENTRIES), or what the options say) and memory
    /// ([`WALK_BYTES`](crate::limits::WALK_BYTES)).
    ///
    /// # Errors
    ///
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory). The walk itself yields an error for each
    /// directory that it cannot read, and continues.
    Existing: fn walk(options: WalkOptions) -> Walk => walk_now, "walk";

    /// Describes what the request names. Symlinks are followed.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound).
    Existing: fn metadata() -> Metadata => metadata_now, "describe";

    /// Describes the last name itself: a symlink is not followed.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound).
    NoFollow: fn symlink_metadata() -> Metadata => metadata_now, "describe";

    /// Removes a file, a symlink or a special file. A symlink is removed, and its target is not.
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
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory) also for a symlink,
    /// [`DirectoryNotEmpty`](crate::ErrorKind::DirectoryNotEmpty),
    /// [`NotFound`](crate::ErrorKind::NotFound).
    NoFollow: fn remove_dir() -> () => remove_dir_now, "remove";

    /// Removes a directory and everything in it, the deepest first. Symlinks in it are removed and
    /// not followed, and a mounted filesystem is never entered. Entries are removed in batches, so
    /// the memory does not grow with their number (under 20 MB). A directory to which another
    /// process adds entries is emptied until nothing is left.
    ///
    /// # Errors
    ///
    /// As [`remove_dir`](Self::remove_dir); [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile)
    /// (`mount_crossing`), [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_deep`) for a
    /// directory more than [`WALK_DEPTH`](crate::limits::WALK_DEPTH) deep. What was removed before
    /// an error stays removed. So another call continues where one ended with
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_many_entries`), after ten million
    /// entries.
    NoFollow: fn remove_dir_all() -> () => remove_dir_all_now, "remove";
}
