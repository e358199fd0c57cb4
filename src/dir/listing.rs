//! Listing an open directory.

use std::ffi::OsString;
use std::io;

use super::FileType;

#[cfg(target_os = "linux")]
pub(crate) use self::linux::Entries;
#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) use self::other::Entries;
#[cfg(windows)]
pub(crate) use self::windows::Entries;

/// A name in a directory.
#[derive(Debug)]
pub(crate) struct DirectoryEntry {
    pub(crate) name: OsString,
    /// The type, if the system reports it with the name. Some filesystems do not (`DT_UNKNOWN`,
    /// readdir(3)).
    pub(super) file_type: Option<FileType>,
}

/// Returns the entry, except for `.` and `..`.
#[cfg(unix)]
fn entry(name: &std::ffi::CStr, file_type: rustix::fs::FileType) -> Option<DirectoryEntry> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::FileType as Listed;

    let name = name.to_bytes();
    let file_type = match file_type {
        _ if matches!(name, b"." | b"..") => return None,
        Listed::Directory => Some(FileType::Directory),
        Listed::RegularFile => Some(FileType::File),
        Listed::Symlink => Some(FileType::Symlink),
        Listed::Fifo => Some(FileType::Fifo),
        Listed::Socket => Some(FileType::Socket),
        Listed::BlockDevice | Listed::CharacterDevice => Some(FileType::Device),
        Listed::Unknown => None,
    };
    Some(DirectoryEntry { name: OsStr::from_bytes(name).to_owned(), file_type })
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use rustix::fs::RawDir;
    use rustix::io::Errno;

    use super::{DirectoryEntry, entry, io};
    use crate::dir::Handle;

    /// The entries of a directory, except `.` and `..`. There are none after an error.
    ///
    /// The names that one system call returns are copied at once. rustix's `Dir` and the standard
    /// library allocate memory twice for each name.
    #[derive(Debug)]
    pub(crate) struct Entries {
        directory: Arc<Handle>,
        buffer: Vec<u8>,
        /// The entries that were read and not yet returned.
        read: VecDeque<DirectoryEntry>,
        is_over: bool,
    }

    impl Entries {
        /// Lists a directory that is open for reading. The position is that of its descriptor, so a
        /// handle can be listed once.
        #[allow(clippy::unnecessary_wraps, reason = "the signature is the same on all systems")]
        pub(in crate::dir) fn of(directory: &Arc<Handle>) -> io::Result<Self> {
            let (directory, buffer) = (Arc::clone(directory), Vec::with_capacity(BUFFER));
            Ok(Self { directory, buffer, read: VecDeque::new(), is_over: false })
        }

        /// Reads the names that one system call returns.
        fn read_more(&mut self) -> io::Result<()> {
            let mut names = RawDir::new(&self.directory.dir, self.buffer.spare_capacity_mut());
            loop {
                match names.next() {
                    Some(Ok(next)) => self.read.extend(entry(next.file_name(), next.file_type())),
                    Some(Err(Errno::INTR)) => return Ok(()),
                    // A directory that was removed has no entries, as with readdir(3).
                    None | Some(Err(Errno::NOENT)) => {
                        self.is_over = true;
                        return Ok(());
                    }
                    Some(Err(error)) => {
                        self.is_over = true;
                        return Err(error.into());
                    }
                }
                if names.is_buffer_empty() {
                    return Ok(());
                }
            }
        }
    }

    impl Iterator for Entries {
        type Item = io::Result<DirectoryEntry>;

        fn next(&mut self) -> Option<Self::Item> {
            while self.read.is_empty() && !self.is_over {
                if let Err(error) = self.read_more() {
                    return Some(Err(error));
                }
            }
            self.read.pop_front().map(Ok)
        }
    }

    /// The size of the buffer in bytes, as in the C library.
    const BUFFER: usize = 1 << 15;
}

#[cfg(not(any(target_os = "linux", windows)))]
mod other {
    use std::sync::Arc;

    use super::{DirectoryEntry, entry, io};
    use crate::dir::Handle;

    /// The entries of a directory, except `.` and `..`.
    #[derive(Debug)]
    pub(crate) struct Entries(rustix::fs::Dir);

    impl Entries {
        /// Lists a directory from its beginning.
        pub(in crate::dir) fn of(directory: &Arc<Handle>) -> io::Result<Self> {
            // Opened again, because rustix needs a descriptor of its own.
            Ok(Self(rustix::fs::Dir::read_from(&directory.dir)?))
        }
    }

    impl Iterator for Entries {
        type Item = io::Result<DirectoryEntry>;

        fn next(&mut self) -> Option<Self::Item> {
            loop {
                let next = match self.0.read()? {
                    Ok(next) => entry(next.file_name(), next.file_type()),
                    Err(error) => return Some(Err(error.into())),
                };
                if let Some(entry) = next {
                    return Some(Ok(entry));
                }
            }
        }
    }
}

#[cfg(windows)]
mod windows {
    use std::sync::Arc;

    use super::{DirectoryEntry, io};
    use crate::dir::{Handle, kernel};

    /// The entries of a directory, except `.` and `..`. The directory is listed by its path, so each
    /// type is looked up through the handle of the directory instead.
    #[derive(Debug)]
    pub(crate) struct Entries(std::fs::ReadDir);

    impl Entries {
        /// Lists a directory from its beginning.
        pub(in crate::dir) fn of(directory: &Arc<Handle>) -> io::Result<Self> {
            Ok(Self(kernel::entries(directory)?))
        }
    }

    impl Iterator for Entries {
        type Item = io::Result<DirectoryEntry>;

        fn next(&mut self) -> Option<Self::Item> {
            let next = self.0.next()?;
            Some(next.map(|next| DirectoryEntry { name: next.file_name(), file_type: None }))
        }
    }
}
