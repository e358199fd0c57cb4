//! Opening and describing files.
//!
//! An opened file is verified before it is read or changed: it must be a regular file and, if the
//! policy refuses hard links, have only one name. Before a file is written, its name is looked up,
//! because opening a FIFO would wake its reader. `O_TRUNC` is never passed: a file is truncated
//! after it was verified. A new file is created with `O_EXCL`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::OnceLock;

use super::permit::ChangeKind;
use crate::check::{CheckedEntry, CheckedPath, Proof, without_parent};
use crate::dir::{Metadata, OpenHow, Stat};
use crate::error::{Code, Error, Result};
use crate::limits::READ_AHEAD;
use crate::path::{IntoLocation, Location};
use crate::roots::{LastName, Presence, Roots};

/// How [`open_with`](Roots::open_with) opens a file to change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OpenMode {
    /// Opens an existing file for reading and writing.
    ReadWrite,
    /// Opens a file for reading and writing, and creates it if it does not exist.
    Create,
    /// Creates a file, which must not exist, for reading and writing. Unlike [`File::create_new`],
    /// this follows a dangling symlink as the last name if its target is inside a root, and creates
    /// the target.
    CreateNew,
    /// Opens a file for writing only, creates it if it does not exist, and truncates it after it
    /// was verified, like [`File::create`].
    Truncate,
    /// Opens a file for writing at its end only, and creates it if it does not exist.
    Append,
}

impl OpenMode {
    fn creates(self) -> bool {
        self != Self::ReadWrite
    }

    fn last_name(self) -> LastName {
        if self.creates() { LastName::New } else { LastName::Existing }
    }

    fn how(self) -> OpenHow {
        let append = self == Self::Append;
        let read = !matches!(self, Self::Truncate | Self::Append);
        OpenHow { read, write: !append, append, create_new: None }
    }
}

/// An open file, which is a regular file unless the policy allows others. It was verified when it
/// was opened, and remains the same file whatever happens to its name or to the roots.
///
/// It reads, writes and seeks as [`std::fs::File`] does. An operation for which it was not opened
/// fails with the system's error, such as writing to a file from [`Roots::open`] with `EBADF` on
/// Unix and `ERROR_ACCESS_DENIED` on Windows.
///
/// ```
/// use std::io::{Read as _, Seek as _, Write as _};
///
/// use guarded_fs::{Access, OpenMode, Roots};
///
/// # let directory = tempfile::tempdir().unwrap();
/// let roots = Roots::from_dirs([directory.path()], Access::ReadWrite)?;
/// let mut file = roots.open_with("notes.txt", OpenMode::Create)?;
/// file.write_all(b"hello")?;
/// file.rewind()?;
/// let mut text = String::new();
/// file.take(1 << 20).read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// // Read only, with a limit.
/// let file = roots.open("notes.txt")?;
/// assert_eq!(file.metadata().len(), 5);
/// assert_eq!(file.read_all(1 << 20)?, b"hello");
/// assert!(roots.open("notes.txt")?.write(b"no").is_err());
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    metadata: Metadata,
    /// The metadata with the birth time, which needs a slower call.
    all_metadata: OnceLock<Box<Metadata>>,
    request: Location,
}

impl OpenFile {
    /// Reads from the current position to the end of a file of at most `limit` bytes. The limit
    /// bounds memory use, because a sparse file can have any size.
    ///
    /// # Errors
    ///
    /// [`TooLarge`](crate::ErrorKind::TooLarge); operating system errors.
    pub fn read_all(self, limit: u64) -> Result<Vec<u8>> {
        self.read_within(limit).map_err(|error| error.with_request("read", self.request.sent()))
    }

    /// Reads `length` bytes from the byte at `offset` on, or fewer at the end of the file. The next
    /// read begins behind them.
    ///
    /// # Errors
    ///
    /// Operating system errors, for example for a special file without positions.
    pub fn read_range(&mut self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        // A position is a signed number on every system. A larger one has an error of its own.
        let position = SeekFrom::Start(offset.min(i64::MAX.unsigned_abs()));
        let read = (&self.file)
            .seek(position)
            .and_then(|_| (&self.file).take(length).read_to_end(&mut content));
        // The offset is larger than a file of this filesystem can be (lseek(2)).
        let is_beyond = |error: &io::Error| {
            error.kind() == io::ErrorKind::InvalidInput && self.metadata.is_file()
        };
        match read {
            Err(error) if !is_beyond(&error) => {
                Err(Error::from(error).with_request("read", self.request.sent()))
            }
            _ => Ok(content),
        }
    }

    /// The metadata of the file when it was opened, after a truncation if there was one. The birth
    /// time, which does not change, is looked up on the first call.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        self.all_metadata.get_or_init(|| Box::new(self.metadata.with_birth(&self.file)))
    }

    /// Returns the file as a [`std::fs::File`]. On Unix, its descriptor has `O_NONBLOCK`, which has
    /// no effect on a regular file.
    #[must_use]
    pub fn into_std(self) -> File {
        self.file
    }

    fn new(file: File, metadata: Metadata, request: &Location) -> Self {
        Self { file, metadata, all_metadata: OnceLock::new(), request: request.clone() }
    }

    fn read_within(&self, limit: u64) -> Result<Vec<u8>> {
        if self.metadata.len() > limit && self.metadata.is_file() {
            return Err(Error::too_large(limit));
        }
        // A file can claim any size. Beyond `READ_AHEAD`, memory is allocated as content arrives.
        let expected = usize::try_from(self.metadata.len().min(READ_AHEAD)).unwrap_or_default();
        // One extra byte allows the read that finds the end of the file without growing the buffer.
        let mut content = Vec::with_capacity(expected.saturating_add(1));
        (&self.file).take(limit.saturating_add(1)).read_to_end(&mut content)?;
        // Defense: A file that grew beyond the limit is refused.
        if u64::try_from(content.len()).is_ok_and(|len| len <= limit) {
            return Ok(content);
        }
        Err(Error::too_large(limit))
    }
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Write for OpenFile {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.file.write(content)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for OpenFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Roots {
    /// Opens a file for reading. To create a file, change it or append to it, use
    /// [`open_with`](Self::open_with). On Linux, this takes one `openat2` beneath the root and one
    /// metadata call.
    ///
    /// # Errors
    ///
    /// Those of [`Roots::check`]; [`NotFound`](crate::ErrorKind::NotFound);
    /// [`IsADirectory`](crate::ErrorKind::IsADirectory);
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`, `hard_linked`) by
    /// policy; [`PermissionDenied`](crate::ErrorKind::PermissionDenied).
    pub fn open(&self, request: impl IntoLocation) -> Result<OpenFile> {
        self.run_reading("open", request, Ok)
    }

    /// Opens a file to change it. This never blocks on a FIFO, socket or device, which the policy
    /// refuses by default.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open); [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// [`Protected`](crate::ErrorKind::Protected),
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists).
    pub fn open_with(&self, request: impl IntoLocation, mode: OpenMode) -> Result<OpenFile> {
        self.operate(OPEN_TO_WRITE, request, mode.last_name(), |path| path.open_to_write(mode))
    }

    /// Reads a file of at most `limit` bytes. Every read has a limit, because a request decides how
    /// large the file is. For a file that the program trusts, it is
    /// [`UNLIMITED`](crate::limits::UNLIMITED).
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open); [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn read(&self, request: impl IntoLocation, limit: u64) -> Result<Vec<u8>> {
        self.run_reading("read", request, |file| file.read_within(limit))
    }

    /// Like [`read`](Self::read), but returns UTF-8 text.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read); [`NotUtf8`](crate::ErrorKind::NotUtf8).
    pub fn read_to_string(&self, request: impl IntoLocation, limit: u64) -> Result<String> {
        self.run_reading("read", request, |file| file.read_within(limit).and_then(text))
    }

    fn run_reading<T>(
        &self,
        name: &'static str,
        request: impl IntoLocation,
        read: impl Fn(OpenFile) -> Result<T>,
    ) -> Result<T> {
        let request = self.location(request)?;
        let shortcut = || self.open_directly(&request).map(|file| read(file?));
        self.run_directly(name, &request, LastName::Existing, shortcut, |path, _| {
            read(path.open_for_reading()?)
        })
    }

    #[cfg_attr(not(target_os = "linux"), expect(clippy::unused_self, unused_variables))]
    fn open_directly(&self, request: &Location) -> Option<Result<OpenFile>> {
        #[cfg(target_os = "linux")]
        return self.open_by_kernel(request).map(|file| {
            let (file, root) = file?;
            let metadata = root.verify(&file, self.policy())?;
            Ok(OpenFile::new(file, metadata, request))
        });
        #[cfg(not(target_os = "linux"))]
        None
    }
}

impl CheckedPath {
    /// Like [`Roots::open`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn open(&self) -> Result<OpenFile> {
        self.0.run("open", Proof::open_for_reading)
    }

    /// Like [`Roots::open_with`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn open_with(&self, mode: OpenMode) -> Result<OpenFile> {
        self.0.run(OPEN_TO_WRITE, |path| path.open_to_write(mode))
    }

    /// Like [`Roots::read`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn read(&self, limit: u64) -> Result<Vec<u8>> {
        self.0.run("read", |path| path.open_for_reading()?.read_within(limit))
    }

    /// Like [`Roots::read_to_string`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn read_to_string(&self, limit: u64) -> Result<String> {
        self.0.run("read", |path| path.open_for_reading()?.read_within(limit).and_then(text))
    }
}

impl Proof {
    fn open_for_reading(&self) -> Result<OpenFile> {
        let (file, metadata) = self.open_existing()?;
        Ok(OpenFile::new(file, metadata, self.request()))
    }

    pub(super) fn open_existing(&self) -> Result<(File, Metadata)> {
        self.verify_opened(self.place()?.open()?)
    }

    pub(super) fn open_to_change(
        &self,
        kind: ChangeKind,
        how: OpenHow,
    ) -> Result<(File, Metadata)> {
        self.verify_opened(self.permit(kind)?.slot().open(how)?)
    }

    pub(super) fn verify_opened(&self, file: File) -> Result<(File, Metadata)> {
        // Defense: The file that was opened is verified before it is read or changed.
        let metadata = self.root().verify(&file, self.roots().policy())?;
        if self.names_directory() {
            return Err(Code::NotADirectory.into());
        }
        Ok((file, metadata))
    }

    pub(super) fn open_entry(&self) -> Result<(File, Metadata)> {
        self.open_existing().map_err(|error| self.blame_symlink(error))
    }

    /// The error for an entry that was a symlink when it was checked.
    pub(super) fn blame_symlink(&self, error: Error) -> Error {
        let is_link = self.found() == Presence::Link && error.reason() == Code::Changed;
        if is_link { Code::SpecialFile.into() } else { error }
    }

    fn open_to_write(&self, mode: OpenMode) -> Result<OpenFile> {
        let permit = self.permit(ChangeKind::Modify)?;
        if mode.creates() && self.existed() {
            self.ensure_names_file()?;
        }
        let looked = match self.found() {
            // The file is created with `O_EXCL`, which fails if the name exists by now.
            Presence::Missing(_) if mode == OpenMode::CreateNew => Stat::Missing,
            _ => permit.look()?,
        };
        let (file, metadata) = match looked {
            Stat::Missing if mode.creates() => self.create_file(mode)?,
            Stat::Missing => return Err(Code::NotFound.into()),
            Stat::Link(..) | Stat::Other(_) if mode == OpenMode::CreateNew => {
                return Err(Code::AlreadyExists.into());
            }
            Stat::Link(..) => return Err(Code::Changed.into()),
            Stat::Other(metadata) => {
                self.roots().policy().allow(&metadata)?;
                let file = permit.slot().open(mode.how())?;
                let (file, mut metadata) = self.verify_opened(file)?;
                if mode == OpenMode::Truncate {
                    file.set_len(0)?;
                    metadata = Metadata::without_birth(&file)?;
                }
                (file, metadata)
            }
        };
        Ok(OpenFile::new(file, metadata, self.request()))
    }

    fn create_file(&self, mode: OpenMode) -> Result<(File, Metadata)> {
        let permit = self.permit(ChangeKind::CreateFile)?;
        let how = OpenHow { create_new: Some(NEW_FILE), ..mode.how() };
        let file = permit.slot().open(how).map_err(|error| match error.reason() {
            // Another process has just created it.
            Code::AlreadyExists if mode != OpenMode::CreateNew => Code::Changed.into(),
            Code::NotFound => without_parent(),
            _ => error,
        })?;
        let metadata = Metadata::without_birth(&file)?;
        Ok((file, metadata))
    }
}

impl Roots {
    /// Returns the metadata of a file or directory. Symlinks are followed.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check); [`NotFound`](crate::ErrorKind::NotFound).
    pub fn metadata(&self, request: impl IntoLocation) -> Result<Metadata> {
        self.operate("describe", request, LastName::Existing, metadata)
    }
}

impl CheckedPath {
    /// Like [`Roots::metadata`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn metadata(&self) -> Result<Metadata> {
        self.0.run("describe", metadata)
    }
}

const OPEN_TO_WRITE: &str = "open for writing";

fn metadata(path: &Proof) -> Result<Metadata> {
    match path.look()? {
        Stat::Missing => Err(Code::NotFound.into()),
        Stat::Link(..) => Err(Code::Changed.into()),
        Stat::Other(metadata) if path.names_directory() && !metadata.is_dir() => {
            Err(Code::NotADirectory.into())
        }
        Stat::Other(metadata) => Ok(metadata),
    }
}

impl Roots {
    /// Returns the metadata of a directory entry itself, even if it is a symlink.
    ///
    /// # Errors
    ///
    /// Those of [`Roots::check_entry`]; [`NotFound`](crate::ErrorKind::NotFound).
    pub fn symlink_metadata(&self, request: impl IntoLocation) -> Result<Metadata> {
        self.operate("describe", request, LastName::Unfollowed, symlink_metadata)
    }
}

impl CheckedEntry {
    /// Like [`Roots::symlink_metadata`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn metadata(&self) -> Result<Metadata> {
        self.0.run("describe", symlink_metadata)
    }
}

fn symlink_metadata(entry: &Proof) -> Result<Metadata> {
    match entry.look()? {
        Stat::Missing => Err(Code::NotFound.into()),
        Stat::Link(_, metadata) | Stat::Other(metadata) => Ok(metadata),
    }
}

fn text(content: Vec<u8>) -> Result<String> {
    String::from_utf8(content).map_err(|_| Code::NotUtf8.into())
}

/// The mode of a new file before the umask is applied, as in `std` (open(2)).
pub(super) const NEW_FILE: u32 = 0o666;

/// The mode of a new file until it has its permissions: only its owner can read it.
pub(super) const PRIVATE_FILE: u32 = 0o600;
