//! Open directories, and system calls beneath them.
//!
//! A [`Handle`] is an open directory. Its methods take one name or a relative path of plain names
//! (no `.` or `..`), and follow no symlink, so every file that they open or describe was beneath
//! the directory at that time. [`Handle::follow`] also accepts `.` and `..`, and can follow
//! symlinks that stay inside. A [`Cursor`] makes repeated look-ups beneath one handle efficient,
//! and a [`Budget`] limits their number.
//!
//! On Linux, most operations take one `openat2` call (openat2(2), Linux 5.6) with `RESOLVE_BENEATH`
//! and `RESOLVE_NO_SYMLINKS`. If it cannot be used, and on other systems, cap-std walks the path
//! one name at a time through open descriptors. On Windows, the final path of each handle is also
//! verified.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod kernel;
#[cfg(windows)]
#[path = "windows.rs"]
mod kernel;
#[cfg(not(any(target_os = "linux", windows)))]
#[path = "other.rs"]
mod kernel;
mod budget;
mod metadata;
mod policy;
mod handle;
mod beneath;
mod slot;
mod listing;
mod cursor;

#[cfg(not(windows))]
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::Path;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::OpenOptions;

pub(crate) use self::beneath::Beneath;
pub(crate) use self::budget::Budget;
pub(crate) use self::cursor::Cursor;
pub(crate) use self::handle::Handle;
#[cfg(target_os = "linux")]
pub(crate) use self::kernel::is_proc;
pub(crate) use self::metadata::Identity;
pub use self::metadata::{FileType, Metadata};
pub use self::policy::Access;
pub(crate) use self::policy::{Policy, Rule};
#[cfg(test)]
pub(crate) use self::slot::Always;
pub(crate) use self::slot::{Permit, Slot, TemporaryName};
#[cfg(not(windows))]
use crate::error::Code;
use crate::error::Error;
#[cfg(not(windows))]
use crate::error::Result;

/// How a file is opened. No combination truncates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenHow {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    /// Creates the file (`O_CREAT | O_EXCL`) with this mode, less the umask.
    pub(crate) create_new: Option<u32>,
}

impl OpenHow {
    pub(crate) const READ: Self =
        Self { read: true, write: false, append: false, create_new: None };

    pub(crate) const WRITE: Self =
        Self { read: false, write: true, append: false, create_new: None };

    fn options(self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options
            .read(self.read)
            .write(self.write)
            .append(self.append)
            .create_new(self.create_new.is_some());
        options.follow(FollowSymlinks::No).nonblock(true);
        #[cfg(unix)]
        if let Some(mode) = self.create_new {
            use cap_std::fs::OpenOptionsExt as _;
            options.mode(mode);
        }
        options
    }
}

/// What a name is, without following it, and the target of a symlink.
#[derive(Clone, Debug)]
pub(crate) enum Stat {
    Missing,
    Link(OsString, Metadata),
    Other(Metadata),
}

/// How [`Handle::follow`] opens a path.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Opens the path with `O_PATH`. Fails with `ELOOP` at a symlink.
    NoLink,
    /// Opens the path for reading, without blocking, and follows symlinks.
    Read,
    /// Like `Read`, but fails with `ELOOP` at a symlink.
    ReadNoLink,
}

pub(crate) use self::listing::{DirectoryEntry, Entries, NameAt, NameList, USUAL_ENTRIES};

/// A mounted filesystem: `true` and its mount ID, or `false` and its device number if the kernel
/// reports no mount ID.
pub(crate) type Mount = (bool, u64);

/// Splits off the last name, if there is one.
pub(crate) fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    Some((path.parent()?, path.file_name()?))
}

/// A random name for a temporary file, by which operators recognize files that a killed process
/// left behind ([`Roots::write`](crate::Roots::write)).
pub(crate) fn temporary_name() -> OsString {
    OsString::from(format!(".guarded-fs-{:016x}.tmp", RandomState::new().hash_one(0)))
}

#[cfg(not(windows))]
#[allow(clippy::unnecessary_wraps, reason = "the signature is the same on all systems")]
pub(crate) fn symlink_text(text: &OsStr) -> Result<Cow<'_, OsStr>> {
    Ok(Cow::Borrowed(text))
}
#[cfg(windows)]
pub(crate) use kernel::symlink_text;

/// Converts an error of a walk that follows no symlinks.
fn walk_error(error: io::Error) -> Error {
    match kernel::classify(&error) {
        Some(kind) => Error::from(kind).caused_by(error),
        None => error.into(),
    }
}

#[cfg(not(windows))]
fn proc_link() -> Error {
    Error::from(Code::OutsideRoots).with_operator_detail("a symlink in a proc filesystem")
}
