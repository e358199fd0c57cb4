//! Listing an open directory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;

use super::FileType;

#[cfg(target_os = "linux")]
pub(crate) use self::linux::Entries;
#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) use self::other::Entries;
#[cfg(windows)]
pub(crate) use self::windows::Entries;

/// The number of entries for which a list has memory from the start.
pub(crate) const USUAL_ENTRIES: usize = 128;

/// A name in a directory.
#[derive(Debug)]
pub(crate) struct DirectoryEntry {
    pub(crate) name: OsString,
    /// The type, unless the filesystem does not report it with the name (`DT_UNKNOWN`, readdir(3)).
    pub(crate) file_type: Option<FileType>,
}

impl Iterator for Entries {
    type Item = io::Result<DirectoryEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let listed = self.advance()?;
        Some(listed.map(|file_type| DirectoryEntry { name: self.name().to_owned(), file_type }))
    }
}

#[cfg(not(target_os = "linux"))]
impl Entries {
    /// Passes each entry to `receive`, until it breaks.
    pub(crate) fn each(
        mut self,
        mut receive: impl FnMut(&OsStr, Option<FileType>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        while let Some(listed) = self.advance() {
            if receive(self.name(), listed?).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// A list of names, on Unix in one allocation.
#[derive(Debug)]
pub(crate) struct NameList {
    #[cfg(unix)]
    text: Vec<u8>,
    /// Without unsafe code, a part of a string cannot be read as a name.
    #[cfg(windows)]
    names: Vec<OsString>,
    #[cfg(windows)]
    size: usize,
}

/// The position of a name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NameAt {
    start: usize,
    #[cfg(unix)]
    end: usize,
}

#[cfg(unix)]
impl NameList {
    pub(crate) fn with_capacity(names: usize) -> Self {
        Self { text: Vec::with_capacity(names.saturating_mul(16)) }
    }

    pub(crate) fn push(&mut self, name: &OsStr) -> NameAt {
        let start = self.text.len();
        self.text.extend_from_slice(name.as_encoded_bytes());
        NameAt { start, end: self.text.len() }
    }

    pub(crate) fn get(&self, at: NameAt) -> &OsStr {
        use std::os::unix::ffi::OsStrExt as _;
        OsStr::from_bytes(self.text.get(at.start..at.end).unwrap_or_default())
    }

    pub(crate) fn size_of(name: &OsStr) -> usize {
        name.len()
    }

    /// The memory of the names in bytes.
    pub(crate) fn size(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
    }
}

#[cfg(target_os = "linux")]
impl NameList {
    fn clear(&mut self) {
        self.text.clear();
    }
}

#[cfg(windows)]
impl NameList {
    pub(crate) fn with_capacity(names: usize) -> Self {
        Self { names: Vec::with_capacity(names), size: 0 }
    }

    pub(crate) fn push(&mut self, name: &OsStr) -> NameAt {
        self.names.push(name.to_owned());
        self.size += Self::size_of(name);
        NameAt { start: self.names.len() - 1 }
    }

    pub(crate) fn get(&self, at: NameAt) -> &OsStr {
        self.names.get(at.start).map_or(OsStr::new(""), OsString::as_os_str)
    }

    pub(crate) fn size_of(name: &OsStr) -> usize {
        size_of::<OsString>() + name.len() + crate::limits::ALLOCATION
    }

    /// The memory of the names in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.names.shrink_to_fit();
    }
}

#[cfg(unix)]
fn is_entry(name: &OsStr) -> bool {
    name != "." && name != ".."
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::VecDeque;
    use std::os::unix::ffi::OsStrExt as _;
    use std::sync::Arc;

    use rustix::fs::RawDir;
    use rustix::io::Errno;

    use super::{ControlFlow, FileType, NameAt, NameList, OsStr, USUAL_ENTRIES, io, is_entry};
    use crate::dir::Handle;

    /// The entries of a directory, except `.` and `..`. There are none after an error.
    ///
    /// The names that one system call returns are copied at once, into one allocation. rustix's
    /// `Dir` and `std` allocate twice for each name.
    #[derive(Debug)]
    pub(crate) struct Entries {
        directory: Arc<Handle>,
        buffer: Vec<u8>,
        names: NameList,
        /// What is left of `names`.
        read: VecDeque<(NameAt, Option<FileType>)>,
        current: NameAt,
        is_over: bool,
    }

    impl Entries {
        /// A directory can be listed once, because the position is that of its descriptor.
        #[allow(clippy::unnecessary_wraps, reason = "the signature is the same on all systems")]
        pub(in crate::dir) fn of(directory: &Arc<Handle>) -> io::Result<Self> {
            Ok(Self {
                directory: Arc::clone(directory),
                buffer: Vec::with_capacity(BUFFER),
                names: NameList::with_capacity(USUAL_ENTRIES),
                read: VecDeque::with_capacity(USUAL_ENTRIES),
                current: NameAt::default(),
                is_over: false,
            })
        }

        /// Moves to the next entry. Returns its type, if the system reports it with the name.
        pub(crate) fn advance(&mut self) -> Option<io::Result<Option<FileType>>> {
            while self.read.is_empty() && !self.is_over {
                if let Err(error) = self.read_more() {
                    return Some(Err(error));
                }
            }
            let (current, file_type) = self.read.pop_front()?;
            self.current = current;
            Some(Ok(file_type))
        }

        pub(crate) fn name(&self) -> &OsStr {
            self.names.get(self.current)
        }

        /// Passes each entry to `receive`, until it breaks, without copying a name.
        pub(crate) fn each(
            mut self,
            mut receive: impl FnMut(&OsStr, Option<FileType>) -> ControlFlow<()>,
        ) -> io::Result<()> {
            let mut names = RawDir::new(&self.directory.dir, self.buffer.spare_capacity_mut());
            while let Some(next) = names.next() {
                match next {
                    Ok(next) => {
                        let name = OsStr::from_bytes(next.file_name().to_bytes());
                        let file_type = FileType::known(next.file_type());
                        if is_entry(name) && receive(name, file_type).is_break() {
                            break;
                        }
                    }
                    Err(Errno::INTR) => {}
                    // A directory that was removed has no entries, as with readdir(3).
                    Err(Errno::NOENT) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        }

        fn read_more(&mut self) -> io::Result<()> {
            (self.current, self.is_over) = (NameAt::default(), true);
            self.names.clear();
            let mut names = RawDir::new(&self.directory.dir, self.buffer.spare_capacity_mut());
            loop {
                match names.next() {
                    Some(Ok(next)) => {
                        let name = OsStr::from_bytes(next.file_name().to_bytes());
                        if is_entry(name) {
                            let file_type = FileType::known(next.file_type());
                            self.read.push_back((self.names.push(name), file_type));
                        }
                    }
                    Some(Err(Errno::INTR)) => break,
                    // A directory that was removed has no entries, as with readdir(3).
                    None | Some(Err(Errno::NOENT)) => return Ok(()),
                    Some(Err(error)) => return Err(error.into()),
                }
                if names.is_buffer_empty() {
                    break;
                }
            }
            self.is_over = false;
            Ok(())
        }
    }

    /// The size of the buffer in bytes, as in the C library.
    const BUFFER: usize = 1 << 15;
}

#[cfg(not(any(target_os = "linux", windows)))]
mod other {
    use std::os::unix::ffi::OsStrExt as _;
    use std::sync::Arc;

    use super::{FileType, OsStr, OsString, io, is_entry};
    use crate::dir::Handle;

    #[derive(Debug)]
    pub(crate) struct Entries {
        inner: rustix::fs::Dir,
        name: OsString,
    }

    impl Entries {
        pub(in crate::dir) fn of(directory: &Arc<Handle>) -> io::Result<Self> {
            // Opened again, because rustix needs a descriptor of its own.
            let inner = rustix::fs::Dir::read_from(&directory.dir)?;
            Ok(Self { inner, name: OsString::new() })
        }

        pub(crate) fn advance(&mut self) -> Option<io::Result<Option<FileType>>> {
            loop {
                let next = match self.inner.read()? {
                    Ok(next) => next,
                    Err(error) => return Some(Err(error.into())),
                };
                let name = OsStr::from_bytes(next.file_name().to_bytes());
                if is_entry(name) {
                    self.name.clear();
                    self.name.push(name);
                    return Some(Ok(FileType::known(next.file_type())));
                }
            }
        }

        pub(crate) fn name(&self) -> &OsStr {
            &self.name
        }
    }
}

#[cfg(windows)]
mod windows {
    use std::sync::Arc;

    use super::{FileType, OsStr, OsString, io};
    use crate::dir::{Handle, kernel};

    /// The directory is listed by its path, so each type is looked up through its handle instead.
    #[derive(Debug)]
    pub(crate) struct Entries {
        inner: std::fs::ReadDir,
        name: OsString,
    }

    impl Entries {
        pub(in crate::dir) fn of(directory: &Arc<Handle>) -> io::Result<Self> {
            Ok(Self { inner: kernel::entries(directory)?, name: OsString::new() })
        }

        pub(crate) fn advance(&mut self) -> Option<io::Result<Option<FileType>>> {
            let next = self.inner.next()?;
            Some(next.map(|next| {
                self.name = next.file_name();
                None
            }))
        }

        pub(crate) fn name(&self) -> &OsStr {
            &self.name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_list_returns_its_names_and_counts_their_memory() {
        let mut names = NameList::with_capacity(0);
        let texts = ["b", "", "a name", "\u{e9}"].map(OsStr::new);
        let at = texts.map(|text| names.push(text));
        assert_eq!(at.map(|at| names.get(at)), texts);
        assert_eq!(names.size(), texts.into_iter().map(NameList::size_of).sum::<usize>());
        assert!(NameList::size_of(texts[2]) >= texts[2].len());
        names.shrink_to_fit();
        assert_eq!(at.map(|at| names.get(at)), texts);
        #[cfg(unix)]
        assert_eq!(names.text.capacity(), names.size());
        #[cfg(target_os = "linux")]
        {
            names.clear();
            assert_eq!((names.size(), names.get(at[2])), (0, OsStr::new("")));
        }
    }
}
