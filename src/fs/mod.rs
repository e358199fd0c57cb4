//! Operations on what was checked, each beneath its root's own handle.
//!
//! Each is a method of [`CheckedPath`], and of [`Roots`], which checks a request and operates in one
//! step. Nothing outside the roots is read or changed, and whatever is opened is verified before
//! any effect.
//!
//! | operation | intent | in | follows a last link |
//! | --- | --- | --- | --- |
//! | open, read, read_to_string, metadata | [`Existing`](Intent::Existing) | `open` | yes, inside |
//! | open for creating, write, write_with | [`New`](Intent::New) | `open`, `write` | yes, inside, also to a name that does not exist |
//! | create_dir, create_dir_all | [`NewTree`](Intent::NewTree) | `write` | yes, inside |
//! | read_dir, walk | [`Existing`](Intent::Existing) | `list` | yes, inside; links found are described, not followed |
//! | symlink_metadata, rename, remove_file, remove_dir, remove_dir_all | [`NoFollow`](Intent::NoFollow) | `open`, `change` | no |

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

/// One row for each operation: it is made on [`Roots`], where it checks the request for the intent and operates in one step, and on
/// [`CheckedPath`]. What it does is the private method behind `=>`.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $intent:ident: fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty => $work:ident, $operation:literal;
    )*) => {
        impl Roots {
            $(
                $(#[$doc])*
                ///
                /// This checks the request and operates in one step; besides what is said above it has the errors of
                /// [`Roots::check`].
                pub fn $name<L>(&self, request: L, $($argument: $type),*) -> Result<$result>
                where
                    L: TryInto<Location>,
                    Error: From<L::Error>,
                {
                    let request = self.location(request)?;
                    self.answer($operation, &request, |budget| {
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
    /// it takes the name, and so is the name, where the file system can do that.
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
    /// It does not keep extended attributes, the time of birth, or other hard links, which stay
    /// links to the old content.
    /// [`write_with`](Self::write_with) can write in place, which keeps everything. A new file has
    /// the mode 0666 less the umask, or what its directory's default access control list says.
    ///
    /// A process that is killed during a write leaves the new file behind, as `.mcp-roots-guard-`
    /// with 16 hexadecimal digits and `.tmp`. A file of such a name that is an hour old is in use
    /// by no write and can be removed:
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
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`, `hard_linked`); what the
    /// operating system says.
    New: fn write(content: impl AsRef<[u8]> + Copy) -> () => write_now, "write";

    /// Writes a whole file as [`write`](Self::write) does, with a choice of what happens to a file
    /// that exists.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write). A write in place that fails midway leaves part of the new
    /// content.
    New: fn write_with(content: impl AsRef<[u8]> + Copy, options: WriteOptions) -> () => write_with_now, "write";

    /// Makes a directory; its parent must exist.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`AlreadyExists`](crate::ErrorKind::AlreadyExists), [`NotFound`](crate::ErrorKind::NotFound) for the parent.
    NewTree: fn create_dir() -> () => create_dir_now, "create directory";

    /// Makes a directory and its missing parents. One that is there already is no error.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`AlreadyExists`](crate::ErrorKind::AlreadyExists) or [`NotADirectory`](crate::ErrorKind::NotADirectory) if
    /// something else is in the way. What was made before an error stays.
    NewTree: fn create_dir_all() -> () => create_dir_all_now, "create directory";

    /// Lists a directory, in no order. Entries are described and never opened, links not followed, so that a FIFO or a link out is
    /// just an entry.
    ///
    /// # Errors
    ///
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory), and what the operating system says, also while it is listed.
    Existing: fn read_dir() -> ReadDir => read_dir_now, "list";

    /// Walks a directory and everything beneath it, each directory's entries in the order of their
    /// names, a directory before what is in it. Links are described and not followed, so there are
    /// no loops and nothing outside. The walk is bounded in depth
    /// ([`WALK_DEPTH`](crate::limits::WALK_DEPTH)), entries ([`WALK_ENTRIES`](crate::limits::WALK_ENTRIES), or what
    /// the options say) and memory ([`WALK_BYTES`](crate::limits::WALK_BYTES)).
    ///
    /// # Errors
    ///
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory); the walk itself yields errors for directories it can not read, and goes on.
    Existing: fn walk(options: WalkOptions) -> Walk => walk_now, "walk";

    /// What the request names, links followed.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound).
    Existing: fn metadata() -> Metadata => metadata_now, "describe";

    /// What the last name itself is: a link is described, not followed.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound).
    NoFollow: fn symlink_metadata() -> Metadata => metadata_now, "describe";

    /// Removes a file, a link or a special file; of a link, not what it points to.
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
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`RootItself`](crate::ErrorKind::RootItself), [`NotADirectory`](crate::ErrorKind::NotADirectory) also for a
    /// link, [`DirectoryNotEmpty`](crate::ErrorKind::DirectoryNotEmpty), [`NotFound`](crate::ErrorKind::NotFound).
    NoFollow: fn remove_dir() -> () => remove_dir_now, "remove";

    /// Removes a directory and everything in it, the deepest first; links in it are removed and not
    /// followed, and a mounted file system is never entered. It removes in batches, so that its
    /// memory does not grow with the number of entries (under 20 MB), and goes on until a directory
    /// is empty, also while another process adds to it.
    ///
    /// # Errors
    ///
    /// As [`remove_dir`](Self::remove_dir); [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile)
    /// (`mount_crossing`), [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_deep`) for a
    /// directory more than [`WALK_DEPTH`](crate::limits::WALK_DEPTH) deep. What was removed before
    /// an error stays removed, and so another call goes on where one ended with
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_many_entries`), after ten million
    /// entries.
    NoFollow: fn remove_dir_all() -> () => remove_dir_all_now, "remove";
}
