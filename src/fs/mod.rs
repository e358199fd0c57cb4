//! Operations on what was checked, each beneath its root's own handle.
//!
//! Goes in: a [`CheckedPath`], or [`Roots`] and a request, which is then checked and used in one step. Comes out: files, entries,
//! metadata. What is true after: nothing outside the roots was read or changed; whatever was opened was verified before any effect.
//!
//! | operation | intent | in | follows a last link |
//! | --- | --- | --- | --- |
//! | open, read, read_to_string, metadata | [`Existing`](Intent::Existing) | `open` | yes, inside |
//! | open for creating, write | [`New`](Intent::New) | `open`, `write` | yes, inside, also to a name that does not exist |
//! | create_dir, create_dir_all | [`NewTree`](Intent::NewTree) | `write` | yes, inside |
//! | read_dir, walk | [`Existing`](Intent::Existing) | `list` | yes, inside; links found are described, not followed |
//! | symlink_metadata, rename, remove_file, remove_dir, remove_dir_all | [`Entry`](Intent::Entry) | `open`, `change` | no |

mod open;
mod list;
mod write;
mod change;

pub use change::Replace;
pub use list::{DirEntry, ReadDir, WALK_DEPTH, WALK_ENTRIES, Walk, WalkEntry, WalkOptions};
pub use open::{OpenFile, OpenOptions};

use crate::check::CheckedPath;
use crate::error::{Error, Result};
use crate::location::Location;
use crate::metadata::Metadata;
use crate::resolve::Intent;
use crate::roots::Roots;

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
                    self.answer($operation, &request, || {
                        let checked = self.decide(&request, Intent::$intent)?;
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
    /// Writes a whole file, all or nothing: into a new file of a random name beside it, which then takes its name. A reader sees the
    /// old content or the new, and a failure leaves the old. The permission bits of a file that is replaced are kept; its owner, its
    /// extended attributes and its other hard links are not (they keep the old content). It takes the right to write the directory,
    /// and not the file (rename(2)). The content is synced to the device before it takes the name; the name is, too, where the file
    /// system can do that.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`RootItself`](crate::ErrorKind::RootItself) for a single-file root, which is written in place
    /// by [`open_with`](Self::open_with); [`IsADirectory`](crate::ErrorKind::IsADirectory), [`SpecialFile`](crate::ErrorKind::SpecialFile),
    /// [`HardLinked`](crate::ErrorKind::HardLinked); what the operating system says.
    New: fn write(content: impl AsRef<[u8]> + Copy) -> () => write_now, "write";

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

    /// Walks a directory and all beneath it, each directory's entries in the order of their names, a directory before what is in it.
    /// Links are described and not followed, so there are no loops and nothing outside.
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
    Entry: fn symlink_metadata() -> Metadata => metadata_now, "describe";

    /// Removes a file, a link or a special file; of a link, not what it points to.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`RootItself`](crate::ErrorKind::RootItself), [`IsADirectory`](crate::ErrorKind::IsADirectory),
    /// [`NotFound`](crate::ErrorKind::NotFound).
    Entry: fn remove_file() -> () => remove_file_now, "remove";

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`RootItself`](crate::ErrorKind::RootItself), [`NotADirectory`](crate::ErrorKind::NotADirectory) also for a
    /// link, [`DirectoryNotEmpty`](crate::ErrorKind::DirectoryNotEmpty), [`NotFound`](crate::ErrorKind::NotFound).
    Entry: fn remove_dir() -> () => remove_dir_now, "remove";

    /// Removes a directory and all in it; links in it are removed and not followed, and a mounted file system is never entered.
    ///
    /// # Errors
    ///
    /// As [`remove_dir`](Self::remove_dir); [`MountCrossing`](crate::ErrorKind::MountCrossing), [`TooDeep`](crate::ErrorKind::TooDeep),
    /// [`TooManyEntries`](crate::ErrorKind::TooManyEntries). What was removed before an error stays removed.
    Entry: fn remove_dir_all() -> () => remove_dir_all_now, "remove";
}
