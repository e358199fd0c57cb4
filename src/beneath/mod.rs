//! One directory held open, and what can be asked beneath it.
//!
//! Goes in: a path relative to the directory, of plain names only (no `..`, no `.`), or one name. Comes out: a handle, a file, or what
//! the name is. What is true after: no link was followed on the way, so what came out was beneath the directory when it was opened;
//! the one exception is [`Handle::follow`], where the kernel itself follows links and stops at the edge.
//!
//! On Linux each is one `openat2` (openat2(2), Linux 5.6) with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`. Where the kernel or a seccomp
//! filter refuses it, and on other systems, the directory is walked through held descriptors, a name at a time, by cap-std; on Windows
//! each is then asked where it is.

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(windows, path = "windows.rs")]
#[cfg_attr(not(any(target_os = "linux", windows)), path = "other.rs")]
mod kernel;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use cap_std::io_lifetimes::AsFilelike as _;

use crate::error::{Error, ErrorKind, Result};
use crate::metadata::{FileType, Metadata};
use crate::policy::Rule;

/// A directory held open. It follows the directory object, whatever its name becomes.
#[derive(Debug)]
pub(crate) struct Handle {
    dir: Dir,
    /// The final path that it had when that was asked for.
    #[cfg(windows)]
    place: std::sync::OnceLock<String>,
}

/// What a file is opened for. None of them truncates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    /// `O_CREAT | O_EXCL`, with this mode before the umask.
    pub(crate) create_new: Option<u32>,
}

impl Want {
    pub(crate) const READ: Self = Self { read: true, write: false, append: false, create_new: None };
}

/// What a name is. For a link also its text.
#[derive(Debug)]
pub(crate) enum Look {
    Missing,
    Link(OsString, Metadata),
    Other(Metadata),
}

/// The directory that the last question stood in, so that walking down a name at a time opens each only once where there is no
/// `openat2`; and how many names were walked again because the next question stood elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    at: Option<(PathBuf, Handle)>,
    again: usize,
}

impl Handle {
    fn new(dir: Dir) -> Self {
        Self {
            dir,
            #[cfg(windows)]
            place: std::sync::OnceLock::new(),
        }
    }

    /// Opens a directory by a path from outside, following links. For configuration only, and for the file system's root.
    pub(crate) fn ambient(path: &Path) -> io::Result<Self> {
        Ok(Self::new(Dir::open_ambient_dir(path, ambient_authority())?))
    }

    /// The directory at `path`; the empty path is this one.
    pub(crate) fn dir(&self, path: &Path, mounts: Rule) -> Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(opened) = kernel::dir(&self.dir, path, mounts) {
            return Ok(Self::new(Dir::from_std_file(opened.map_err(on_the_way)?)));
        }
        let mut dir = Self::new(self.dir.try_clone()?);
        for name in path {
            dir = dir.child(name, mounts)?;
        }
        Ok(dir)
    }

    /// A directory in this one, on held descriptors.
    fn child(&self, name: &OsStr, mounts: Rule) -> Result<Self> {
        let opened = self.dir.open_dir_nofollow(name).map_err(|error| match on_the_way(error) {
            // open(2) with O_DIRECTORY says ENOTDIR of a link, too; the way was plain when it was checked.
            error if error.kind() == ErrorKind::NotADirectory && self.is_link(name) => ErrorKind::Changed.into(),
            error => error,
        });
        let child = Self::new(opened?);
        #[cfg(windows)]
        let _ = child.place.set(kernel::stands(self, name, &child.dir)?);
        if mounts == Rule::Refuse && child.mount()? != self.mount()? {
            return Err(ErrorKind::MountCrossing.into());
        }
        Ok(child)
    }

    fn is_link(&self, name: &OsStr) -> bool {
        self.describe(name).is_ok_and(|metadata| metadata.file_type() == FileType::Link)
    }

    /// What one name in this directory is, not followed.
    #[cfg(not(windows))]
    pub(crate) fn describe(&self, name: &OsStr) -> io::Result<Metadata> {
        // Not by cap-std, whose times panic when they are very old.
        kernel::describe(&self.dir, name)
    }

    /// The same.
    #[cfg(windows)]
    pub(crate) fn describe(&self, name: &OsStr) -> io::Result<Metadata> {
        kernel::describe(self, name)
    }

    /// What the name at `path` is, not followed.
    pub(crate) fn look(&self, path: &Path, mounts: Rule, cursor: &mut Cursor) -> Result<Look> {
        #[cfg(target_os = "linux")]
        if let Some(looked) = kernel::look(&self.dir, path, mounts) {
            return match looked {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Look::Missing),
                Err(error) => Err(on_the_way(error)),
                Ok(file) => {
                    let metadata = Metadata::of_file(&file)?;
                    match metadata.file_type() {
                        FileType::Link => Ok(Look::Link(kernel::read_link(&file)?, metadata)),
                        _ => Ok(Look::Other(metadata)),
                    }
                }
            };
        }
        self.look_by_names(path, mounts, cursor)
    }

    /// As [`look`](Self::look), but that something is missing is only said of the last name: of its parent, all of whose names are
    /// directories, it was asked. `None` where one call does not open that.
    #[cfg(target_os = "linux")]
    pub(crate) fn look_ahead(&self, path: &Path, mounts: Rule) -> Option<Result<Look>> {
        let (parent, name) = split(path)?;
        let parent = kernel::dir(&self.dir, parent, mounts)?.ok()?;
        Some(Self::from(parent).look_in(name, mounts))
    }

    /// What one name in this directory is.
    #[cfg(target_os = "linux")]
    pub(crate) fn look_in(&self, name: &OsStr, mounts: Rule) -> Result<Look> {
        match mounts {
            Rule::Allow => self.look_here(name),
            // Only an open name tells its mount.
            Rule::Refuse => self.look(Path::new(name), mounts, &mut Cursor::default()),
        }
    }

    fn look_by_names(&self, path: &Path, mounts: Rule, cursor: &mut Cursor) -> Result<Look> {
        let Some((parent, name)) = split(path) else { return Ok(Look::Other(self.metadata()?)) };
        let dir = match cursor.at.take() {
            Some((at, dir)) if at == parent => dir,
            Some((at, dir)) if parent.parent() == Some(&at) => {
                dir.child(parent.file_name().unwrap_or_default(), mounts)?
            }
            _ => {
                cursor.again += parent.iter().count();
                if cursor.again > NAMES_AGAIN {
                    return Err(ErrorKind::TooLong.into());
                }
                match self.dir(parent, mounts) {
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Look::Missing),
                    dir => dir?,
                }
            }
        };
        let looked = match dir.look_here(name) {
            // Only an open descriptor tells the time of birth.
            Ok(Look::Other(metadata)) if metadata.is_dir() => {
                dir.child(name, mounts).and_then(|child| Ok(Look::Other(child.metadata()?)))
            }
            #[cfg(not(windows))]
            Ok(Look::Other(_)) if mounts == Rule::Refuse && kernel::mount_of(&dir.dir, name)? != dir.mount()? => {
                Err(ErrorKind::MountCrossing.into())
            }
            looked => looked,
        };
        cursor.at = Some((parent.to_owned(), dir));
        looked
    }

    #[cfg(windows)]
    fn look_here(&self, name: &OsStr) -> Result<Look> {
        kernel::look_here(self, name)
    }

    #[cfg(not(windows))]
    fn look_here(&self, name: &OsStr) -> Result<Look> {
        match self.describe(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Look::Missing),
            Err(error) => Err(on_the_way(error)),
            Ok(metadata) => match metadata.file_type() {
                FileType::Link => Ok(Look::Link(self.link_here(name)?, metadata)),
                _ => Ok(Look::Other(metadata)),
            },
        }
    }

    /// The text of a link that was there just now.
    #[cfg(not(windows))]
    fn link_here(&self, name: &OsStr) -> Result<OsString> {
        if kernel::is_proc(&self.dir)? {
            return Err(proc_link());
        }
        // The name can become another thing between the two questions: EINVAL, then.
        Ok(self.dir.read_link_contents(name).map_err(|_| ErrorKind::Changed)?.into_os_string())
    }

    /// Opens the file at `path`: without blocking, and without following a link in the last place either.
    pub(crate) fn open(&self, path: &Path, want: Want, mounts: Rule) -> Result<File> {
        #[cfg(target_os = "linux")]
        if let Some(opened) = kernel::open(&self.dir, path, want, mounts) {
            return opened.map_err(on_the_way);
        }
        let (parent, name) = split(path).ok_or(ErrorKind::IsADirectory)?;
        let dir = self.dir(parent, mounts)?;
        let file = match dir.dir.open_with(name, &want.options()) {
            #[cfg(windows)]
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && dir.is_dir_here(name) => {
                return Err(ErrorKind::IsADirectory.into());
            }
            file => file.map_err(on_the_way)?.into_std(),
        };
        #[cfg(windows)]
        kernel::stands(&dir, name, &file)?;
        #[cfg(windows)]
        let file = kernel::behind_filter(&dir, name, file, want)?;
        if mounts == Rule::Refuse && kernel::mount(&file)? != dir.mount()? {
            return Err(ErrorKind::MountCrossing.into());
        }
        Ok(file)
    }

    /// Opens what `path` names by one walk of the kernel, which follows links and stops at this directory's edge with `EXDEV`.
    /// The path may be anything. `None` where there is no such walk.
    #[cfg(target_os = "linux")]
    pub(crate) fn follow(&self, path: &OsStr, want: Follow, mounts: Rule) -> Option<io::Result<File>> {
        kernel::follow(&self.dir, path, want, mounts)
    }

    pub(crate) fn metadata(&self) -> Result<Metadata> {
        Ok(Metadata::of_file(&self.dir.as_filelike_view::<File>())?)
    }

    pub(crate) fn mount(&self) -> Result<Mount> {
        kernel::mount(&self.dir)
    }

    /// Its entries, without `.` and `..`.
    pub(crate) fn entries(&self) -> io::Result<Entries> {
        #[cfg(windows)]
        return kernel::entries(self);
        #[cfg(not(windows))]
        self.dir.entries()
    }

    /// Makes a directory of one name in this one.
    pub(crate) fn create_dir(&self, name: &OsStr) -> io::Result<()> {
        #[cfg(windows)]
        return kernel::create_dir(self, name);
        #[cfg(not(windows))]
        self.dir.create_dir(name)
    }

    /// Removes one name in this directory that is no directory; a link, whatever it points to.
    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        #[cfg(windows)]
        return kernel::remove_file(self, name);
        #[cfg(not(windows))]
        self.dir.remove_file(name)
    }

    /// Removes an empty directory of one name in this one.
    pub(crate) fn remove_dir(&self, name: &OsStr) -> io::Result<()> {
        #[cfg(windows)]
        return kernel::remove_dir(self, name);
        #[cfg(not(windows))]
        self.dir.remove_dir(name)
    }

    /// Renames a name in this directory to one in another, which must not exist unless `replace`.
    pub(crate) fn rename(&self, from: &OsStr, to_dir: &Self, to: &OsStr, replace: bool) -> io::Result<()> {
        if !replace {
            if let Some(renamed) = kernel::rename_new(&self.dir, from, &to_dir.dir, to) {
                return renamed;
            }
            match to_dir.describe(to) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
                Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            }
        }
        #[cfg(windows)]
        return kernel::rename(self, from, to_dir, to);
        #[cfg(not(windows))]
        self.dir.rename(from, &to_dir.dir, to)
    }

    /// Makes the directory's entries durable; Windows has no such call.
    #[cfg(not(windows))]
    pub(crate) fn sync(&self) -> io::Result<()> {
        // The handle itself may be O_PATH, which fsync(2) refuses.
        self.dir.open(".")?.into_std().sync_all()
    }
}

#[cfg(all(target_os = "linux", feature = "landlock"))]
impl std::os::fd::AsFd for Handle {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// An open directory; of another file the questions are errors.
impl From<File> for Handle {
    fn from(directory: File) -> Self {
        Self::new(Dir::from_std_file(directory))
    }
}

/// What [`Handle::follow`] opens.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// The place, if no link is on the way to it or in it; else `ELOOP`.
    NoLink,
    /// The place, for its name and metadata (`O_PATH`).
    Place,
    /// The file, for reading, without blocking.
    Read,
}

impl Want {
    fn options(self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(self.read).write(self.write).append(self.append).create_new(self.create_new.is_some());
        options.follow(FollowSymlinks::No).nonblock(true);
        #[cfg(unix)]
        if let Some(mode) = self.create_new {
            use cap_std::fs::OpenOptionsExt as _;
            options.mode(mode);
        }
        options
    }
}

/// The entries of a directory.
#[cfg(windows)]
pub(crate) type Entries = std::fs::ReadDir;
#[cfg(not(windows))]
pub(crate) type Entries = cap_std::fs::ReadDir;

/// A file system as it is mounted: its mount id, or where the kernel does not tell, its device number.
pub(crate) type Mount = (bool, u64);

/// The name that the kernel has for an open file now (proc(5), `/proc/PID/fd`); none where it does not tell, or the file has none.
#[cfg(target_os = "linux")]
pub(crate) fn name_of(file: &File) -> Option<PathBuf> {
    kernel::name_of(file)
}

/// Whether an open file is of a proc file system.
#[cfg(all(target_os = "linux", feature = "landlock"))]
pub(crate) fn is_proc(file: &File) -> Result<bool> {
    kernel::is_proc(file)
}

/// Splits off the last name.
pub(crate) fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    Some((path.parent()?, path.file_name()?))
}

/// A name for a file that is there for a moment, seeded by the system's randomness, differently each time.
pub(crate) fn temporary_name() -> OsString {
    OsString::from(format!(".{:016x}.tmp", RandomState::new().hash_one(0)))
}

/// Of 2^64 names one is free at the first try, unless something is very wrong.
pub(crate) const NAMES_TRIED: usize = 8;

/// Errors of a walk that follows no link.
fn on_the_way(error: io::Error) -> Error {
    match kernel::classify(&error) {
        Some(kind) => Error::io(kind, error),
        None => error.into(),
    }
}

#[cfg(not(windows))]
fn proc_link() -> Error {
    Error::new(ErrorKind::OutsideRoots).detail("a link of a proc file system")
}

/// The most names opened again for one request: 32 times the longest path, some tenths of a second. Only a request that climbs and
/// descends in a very deep tree needs more.
const NAMES_AGAIN: usize = 32 * crate::location::PATH_BYTES / 2;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The kernel's name for a removed file has a suffix that could be a file's own: such a name is not taken.
    #[test]
    fn the_kernels_name_is_taken_only_when_it_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("f");
        let file = File::create(&path).unwrap();
        assert_eq!(name_of(&file), Some(path.clone()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(name_of(&file), None);
        let odd = path.with_file_name("f (deleted)");
        assert_eq!(name_of(&File::create(odd).unwrap()), None);
    }

    #[test]
    fn a_new_file_is_never_one_that_is_there() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("f"), "old").unwrap();
        let handle = Handle::ambient(directory.path()).unwrap();
        let want = Want { read: false, write: true, append: false, create_new: Some(0o600) };
        let made = |name| handle.open(Path::new(name), want, Rule::Allow).map(drop).map_err(|error| error.kind());
        assert_eq!((made("f"), made("g")), (Err(ErrorKind::AlreadyExists), Ok(())));
    }

    /// Two places in turn, a hundred names apart: each time the way there is walked again.
    #[test]
    fn the_names_that_are_walked_again_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let deep = Path::new(&"d/".repeat(100)).join("none");
        std::fs::create_dir_all(directory.path().join(deep.parent().unwrap())).unwrap();
        let handle = Handle::ambient(directory.path()).unwrap();
        let mut cursor = Cursor::default();
        let mut look = |path: &Path| handle.look_by_names(path, Rule::Allow, &mut cursor).map(drop);
        let times = (0..NAMES_AGAIN).take_while(|_| look(&deep).and_then(|()| look(Path::new("d"))).is_ok()).count();
        assert_eq!(times, NAMES_AGAIN / 100);
        assert_eq!(look(&deep).unwrap_err().kind(), ErrorKind::TooLong);
    }
}
