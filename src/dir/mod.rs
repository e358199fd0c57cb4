//! Directories held open, and system calls beneath them.
//!
//! A [`Handle`] is one open directory. Its methods take a path relative to the directory, made of
//! plain names only (no `..`, no `.`), or one name. They follow no symlink, so what they open or
//! describe was beneath the directory at that time. The one exception is [`Handle::follow`], where
//! the kernel follows symlinks and stops at the edge of the directory. A [`Cursor`] makes many
//! look-ups beneath one handle cheap, and a [`Budget`] limits how many there are.
//!
//! On Linux each operation is one `openat2` (openat2(2), Linux 5.6) with
//! `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`. Where the kernel or a seccomp filter refuses that call,
//! and on other systems, cap-std walks the path one name at a time through held descriptors. On
//! Windows the final path of each handle is verified as well.

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(windows, path = "windows.rs")]
#[cfg_attr(not(any(target_os = "linux", windows)), path = "other.rs")]
mod kernel;
mod budget;
mod metadata;
mod policy;
mod handle;
mod cursor;

use std::ffi::{OsStr, OsString};
#[cfg(all(target_os = "linux", feature = "landlock"))]
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::Path;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::OpenOptions;

pub(crate) use self::budget::{Budget, Effort};
pub(crate) use self::cursor::{Cursor, count_separators};
pub(crate) use self::handle::Handle;
pub(crate) use self::metadata::Identity;
pub use self::metadata::{FileType, Metadata};
pub use self::policy::{Access, Policy, Rule};
#[cfg(not(windows))]
use crate::error::Code;
use crate::error::Error;
#[cfg(all(target_os = "linux", feature = "landlock"))]
use crate::error::Result;

/// What a file is opened for. No combination truncates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    /// Creates the file with `O_CREAT | O_EXCL` and this mode, less the umask.
    pub(crate) create_new: Option<u32>,
}

impl Want {
    pub(crate) const READ: Self =
        Self { read: true, write: false, append: false, create_new: None };

    fn options(self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options
            .read(self.read)
            .write(self.write)
            .append(self.append)
            .create_new(self.create_new.is_some());
        // Defence: fallback-opens-no-symlinked-file
        options.follow(FollowSymlinks::No).nonblock(true);
        #[cfg(unix)]
        if let Some(mode) = self.create_new {
            use cap_std::fs::OpenOptionsExt as _;
            options.mode(mode);
        }
        options
    }
}

/// What a name is, without following it. A symlink comes with its text.
#[derive(Debug)]
pub(crate) enum Look {
    Missing,
    Link(OsString, Metadata),
    Other(Metadata),
}

/// What [`Handle::follow`] opens.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// The place itself (`O_PATH`). Fails with `ELOOP` if any name of the path is a symlink.
    NoLink,
    /// The file, for reading and without blocking. Symlinks are followed.
    Read,
}

/// An iterator over the entries of a directory.
#[cfg(windows)]
pub(crate) type Entries = std::fs::ReadDir;
#[cfg(not(windows))]
pub(crate) type Entries = cap_std::fs::ReadDir;

/// A mounted filesystem: `true` and its mount id, or `false` and its device number where the kernel
/// reports no mount id.
pub(crate) type Mount = (bool, u64);

/// Whether an open file lies in a proc filesystem.
#[cfg(all(target_os = "linux", feature = "landlock"))]
pub(crate) fn is_proc(file: &File) -> Result<bool> {
    kernel::is_proc(file)
}

/// Splits a path into its parent and its last name.
pub(crate) fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    Some((path.parent()?, path.file_name()?))
}

/// A random name for a file that exists only during a write. Operators search for it after a
/// process was killed ([`Roots::write`](crate::Roots::write)).
pub(crate) fn temporary_name() -> OsString {
    OsString::from(format!(".mcp-roots-guard-{:016x}.tmp", RandomState::new().hash_one(0)))
}

/// Classifies an error of a walk that follows no symlink.
fn walk_error(error: io::Error) -> Error {
    match kernel::classify(&error) {
        Some(kind) => Error::io(kind, error),
        None => error.into(),
    }
}

#[cfg(not(windows))]
fn proc_link() -> Error {
    Error::new(Code::OutsideRoots).detail("a link of a proc file system")
}
