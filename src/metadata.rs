//! What a name is.
//!
//! Goes in: what the operating system said of an open file or of a name that was not followed. Comes out: [`Metadata`], and inside
//! the crate the identity by which a directory is known again. What is true after: it was so when it was asked.

use std::fs::File;
use std::io;
use std::time::SystemTime;

use cap_fs_ext::{FileTypeExt as _, MetadataExt as _};

/// What kind of thing a name is; a link is a link, not what it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO.
    Fifo,
    /// A Unix domain socket.
    Socket,
    /// A block or character device.
    Device,
    /// Something else.
    Other,
}

impl FileType {
    /// The type in snake case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "link",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Other => "other",
        }
    }
}

/// What the file system said of a name or an open file.
#[derive(Clone, Debug)]
pub struct Metadata {
    file_type: FileType,
    len: u64,
    links: u64,
    modified: Option<SystemTime>,
    accessed: Option<SystemTime>,
    created: Option<SystemTime>,
    mode: Option<u32>,
    identity: Identity,
}

/// The same object, told from another that took its name, and from one that took its inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    inode: u64,
    born: Option<SystemTime>,
}

impl Metadata {
    /// What it is.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.file_type
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// Whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.file_type == FileType::File
    }

    /// Size in bytes; of a link, the length of its text.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.len
    }

    /// How many names it has (hard links).
    #[must_use]
    pub fn hard_links(&self) -> u64 {
        self.links
    }

    /// When its content last changed, where the file system tells.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    /// When it was last read, where the file system tells.
    #[must_use]
    pub fn accessed(&self) -> Option<SystemTime> {
        self.accessed
    }

    /// When it was created, where the file system tells.
    #[must_use]
    pub fn created(&self) -> Option<SystemTime> {
        self.created
    }

    /// The permission bits, `0o7777` of `st_mode`, where the system has them.
    #[must_use]
    pub fn mode(&self) -> Option<u32> {
        self.mode
    }

    /// Reads it from an open file: what the descriptor holds, whatever its name is now.
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        Ok(Self::from(&cap_std::fs::Metadata::from_file(file)?))
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }
}

impl Identity {
    /// Whether both are the same object. The time of birth, where both have one, tells an object from a later one that got its
    /// inode number; one that is held open keeps its number for itself.
    pub(crate) fn same(self, other: Self) -> bool {
        let born = self.born.is_none() || other.born.is_none() || self.born == other.born;
        (self.device, self.inode) == (other.device, other.inode) && born
    }
}

impl From<&cap_std::fs::Metadata> for Metadata {
    fn from(metadata: &cap_std::fs::Metadata) -> Self {
        let created = metadata.created().ok().map(cap_std::time::SystemTime::into_std);
        Self {
            file_type: FileType::from(metadata.file_type()),
            len: metadata.len(),
            links: metadata.nlink(),
            modified: metadata.modified().ok().map(cap_std::time::SystemTime::into_std),
            accessed: metadata.accessed().ok().map(cap_std::time::SystemTime::into_std),
            created,
            mode: mode(metadata),
            identity: Identity { device: metadata.dev(), inode: metadata.ino(), born: created },
        }
    }
}

impl From<cap_std::fs::FileType> for FileType {
    fn from(file_type: cap_std::fs::FileType) -> Self {
        match file_type {
            t if t.is_file() => Self::File,
            t if t.is_dir() => Self::Directory,
            t if t.is_symlink() => Self::Link,
            t if t.is_fifo() => Self::Fifo,
            t if t.is_socket() => Self::Socket,
            t if t.is_block_device() || t.is_char_device() => Self::Device,
            _ => Self::Other,
        }
    }
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)] // None elsewhere.
fn mode(metadata: &cap_std::fs::Metadata) -> Option<u32> {
    use cap_std::fs::MetadataExt as _;
    Some(metadata.mode() & 0o7777)
}

#[cfg(not(unix))]
fn mode(_: &cap_std::fs::Metadata) -> Option<u32> {
    None
}
