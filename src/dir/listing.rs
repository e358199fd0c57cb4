//! Listing an open directory on Unix.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use cap_std::fs::Dir;
use rustix::fs::{FileType as Listed, Mode, OFlags, openat};

use super::FileType;

/// The entries of a directory, except `.` and `..`.
#[derive(Debug)]
pub(crate) struct Entries(rustix::fs::Dir);

/// A name in a directory, with its type if the filesystem reports it.
pub(crate) struct DirectoryEntry(rustix::fs::DirEntry);

impl Entries {
    /// Lists a directory from its beginning. It is opened again, because its descriptor need not be
    /// readable, and because a descriptor has one position.
    pub(super) fn of(directory: &Dir) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::Dir::new(openat(directory, ".", flags, Mode::empty())?)?))
    }
}

impl Iterator for Entries {
    type Item = io::Result<DirectoryEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.0.read()? {
                Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
                entry => return Some(entry.map(DirectoryEntry).map_err(io::Error::from)),
            }
        }
    }
}

impl DirectoryEntry {
    pub(crate) fn file_name(&self) -> OsString {
        OsStr::from_bytes(self.0.file_name().to_bytes()).to_owned()
    }

    /// The type that came with the name. `None` if there was none (`DT_UNKNOWN`, readdir(3)).
    pub(super) fn file_type(&self) -> Option<FileType> {
        Some(match self.0.file_type() {
            Listed::Directory => FileType::Directory,
            Listed::RegularFile => FileType::File,
            Listed::Symlink => FileType::Symlink,
            Listed::Fifo => FileType::Fifo,
            Listed::Socket => FileType::Socket,
            Listed::BlockDevice | Listed::CharacterDevice => FileType::Device,
            Listed::Unknown => return None,
        })
    }
}
