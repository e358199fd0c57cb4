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
mod budget;
mod metadata;
mod policy;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf, is_separator};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use cap_std::io_lifetimes::AsFilelike as _;

pub(crate) use self::budget::{Budget, Effort};
pub(crate) use self::metadata::Identity;
pub use self::metadata::{FileType, Metadata};
pub use self::policy::{Access, Policy, Rule};
use crate::error::{Code, Error, Result};
use crate::limits::CURSOR_HANDLES;
#[cfg(target_os = "linux")]
use crate::limits::{NAMES_PER_LOOKUP, PATH_BYTES};

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

/// The way to the directory of the last look-up. It keeps the last few directories on it open, so that
/// a look-up beside, above or below the last one does not walk from the top again.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The directory of the last look-up.
    path: PathBuf,
    /// Open directories on the way there, each with the length of its path; the deepest is last.
    held: VecDeque<(usize, Handle)>,
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

    /// The same, on a budget: by one call of the kernel, or one for each name. The first name is paid for
    /// by the look-up that asks for the directory.
    fn dir_within(&self, path: &Path, mounts: Rule, budget: &mut Budget<'_>) -> Result<Self> {
        #[cfg(target_os = "linux")]
        {
            budget.spend(path.iter().count() / NAMES_PER_LOOKUP)?;
            if let Some(opened) = kernel::dir(&self.dir, path, mounts) {
                return Ok(opened.map_err(on_the_way)?.into());
            }
        }
        let mut names = path.iter();
        let Some(first) = names.next() else { return Ok(Self::new(self.dir.try_clone()?)) };
        names.try_fold(self.child(first, mounts)?, |directory, name| {
            budget.spend(1)?;
            directory.child(name, mounts)
        })
    }

    /// A directory in this one, on held descriptors.
    fn child(&self, name: &OsStr, mounts: Rule) -> Result<Self> {
        let opened = self.dir.open_dir_nofollow(name).map_err(|error| match on_the_way(error) {
            // open(2) with O_DIRECTORY says ENOTDIR for a symlink, too. Whatever is there by now, if it is
            // not a file, the name was a symlink when it was opened.
            error if error.reason() == Code::NotADirectory && !self.is_other(name) => Code::Changed.into(),
            error => error,
        });
        let child = Self::new(opened?);
        #[cfg(windows)]
        let _ = child.place.set(kernel::stands(self, name, &child.dir)?);
        if mounts == Rule::Refuse && child.mount()? != self.mount()? {
            return Err(Code::MountCrossing.into());
        }
        Ok(child)
    }

    /// Whether a name is neither a directory nor a symlink.
    fn is_other(&self, name: &OsStr) -> bool {
        let file_type = self.describe(name).map(|metadata| metadata.file_type());
        file_type.is_ok_and(|file_type| !matches!(file_type, FileType::Directory | FileType::Symlink))
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
    pub(crate) fn look(&self, path: &Path, mounts: Rule) -> Result<Look> {
        #[cfg(target_os = "linux")]
        if let Some(looked) = self.look_at_once(path, mounts) {
            return looked;
        }
        match split(path) {
            Some((parent, name)) => self.dir(parent, mounts)?.look_in(name, mounts),
            None => Ok(Look::Other(self.metadata()?)),
        }
    }

    /// The same by one call of the kernel. `None` where there is no such call.
    #[cfg(target_os = "linux")]
    fn look_at_once(&self, path: &Path, mounts: Rule) -> Option<Result<Look>> {
        let looked = kernel::look(&self.dir, path, mounts)?;
        let look = |file: File| {
            let metadata = Metadata::of_file(&file)?;
            match metadata.file_type() {
                FileType::Symlink => Ok(Look::Link(kernel::read_link(&file)?, metadata)),
                _ => Ok(Look::Other(metadata)),
            }
        };
        Some(match looked {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Look::Missing),
            looked => looked.map_err(on_the_way).and_then(look),
        })
    }

    /// What one name in this directory is, not followed.
    #[cfg_attr(windows, allow(unused_variables, reason = "a mounted volume is a symlink there"))]
    pub(crate) fn look_in(&self, name: &OsStr, mounts: Rule) -> Result<Look> {
        // Only an open name tells its mount in the same call.
        #[cfg(target_os = "linux")]
        if mounts == Rule::Refuse {
            if let Some(looked) = self.look_at_once(Path::new(name), mounts) {
                return looked;
            }
        }
        let looked = self.look_here(name)?;
        #[cfg(not(windows))]
        if mounts == Rule::Refuse
            && matches!(looked, Look::Other(_))
            && kernel::mount_of(&self.dir, name)? != self.mount()?
        {
            return Err(Code::MountCrossing.into());
        }
        Ok(looked)
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
                FileType::Symlink => Ok(Look::Link(self.link_here(name)?, metadata)),
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
        Ok(self.dir.read_link_contents(name).map_err(|_| Code::Changed)?.into_os_string())
    }

    /// Opens the file at `path`: without blocking, and without following a link in the last place either.
    pub(crate) fn open(&self, path: &Path, want: Want, mounts: Rule) -> Result<File> {
        #[cfg(target_os = "linux")]
        if let Some(opened) = kernel::open(&self.dir, path, want, mounts) {
            return opened.map_err(on_the_way);
        }
        let (parent, name) = split(path).ok_or(Code::IsADirectory)?;
        let dir = self.dir(parent, mounts)?;
        let file = match dir.dir.open_with(name, &want.options()) {
            #[cfg(windows)]
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && dir.is_dir_here(name) => {
                return Err(Code::IsADirectory.into());
            }
            file => file.map_err(on_the_way)?.into_std(),
        };
        #[cfg(windows)]
        kernel::stands(&dir, name, &file)?;
        #[cfg(windows)]
        let file = kernel::behind_filter(&dir, name, file, want)?;
        if mounts == Rule::Refuse && kernel::mount(&file)? != dir.mount()? {
            return Err(Code::MountCrossing.into());
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

    /// Which directory it is, now.
    pub(crate) fn identity(&self) -> Result<Identity> {
        Ok(Metadata::without_birth(&self.dir.as_filelike_view::<File>())?.identity())
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
    /// The place (`O_PATH`), if no link is on the way to it or in it; else `ELOOP`.
    NoLink,
    /// The file, for reading, without blocking; links are followed.
    Read,
}

impl Cursor {
    /// What the name at `path` beneath `top` is, not followed. `path` is plain names; the caller has seen
    /// that all but the last are directories.
    pub(crate) fn look(&mut self, top: &Handle, path: &Path, mounts: Rule, budget: &mut Budget<'_>) -> Result<Look> {
        budget.spend(1)?;
        // As the kernel would refuse the whole of it to operations: openat2(2), ENAMETOOLONG.
        #[cfg(target_os = "linux")]
        if path.as_os_str().len() >= PATH_BYTES && kernel::dir(&top.dir, Path::new(""), mounts).is_some() {
            return Err(Code::TooLong.into());
        }
        let Some((parent, name)) = split(path) else { return Ok(Look::Other(top.metadata()?)) };
        match self.reach(top, parent, mounts, budget) {
            Err(error) if error.reason() == Code::NotFound => Ok(Look::Missing),
            directory => directory?.look_in(name, mounts),
        }
    }

    /// How many of the last `unknown` names of `path` can be passed before a look: all of those but
    /// the last are directories. The kernel walks them all, or finds how many by halves. `None` where
    /// it cannot be asked.
    #[cfg(target_os = "linux")]
    pub(crate) fn passable(
        &mut self,
        top: &Handle,
        path: &Path,
        unknown: usize,
        mounts: Rule,
        budget: &mut Budget<'_>,
    ) -> Option<Result<usize>> {
        let (mut passed, mut names, mut beyond) = (1, unknown, unknown + 1);
        while passed + 1 < beyond {
            let parent = path.ancestors().nth(unknown + 1 - names)?;
            let (length, from, rest) = self.nearest(top, parent);
            // The first walk is paid for by the look that follows.
            let cost = usize::from(names < unknown) + rest.iter().count() / NAMES_PER_LOOKUP;
            if let Err(error) = budget.spend(cost) {
                return Some(Err(error));
            }
            if rest.as_os_str().is_empty() {
                passed = names;
            } else if let Ok(opened) = kernel::dir(&from.dir, &rest, mounts)? {
                self.hold(length, parent, opened.into());
                passed = names;
            } else {
                beyond = names;
            }
            names = passed.midpoint(beyond);
        }
        Some(Ok(passed))
    }

    /// The directory at `path`, opened from the nearest one that is held.
    fn reach<'a>(
        &'a mut self,
        top: &'a Handle,
        path: &Path,
        mounts: Rule,
        budget: &mut Budget<'_>,
    ) -> Result<&'a Handle> {
        let (length, from, rest) = self.nearest(top, path);
        if !rest.as_os_str().is_empty() {
            let opened = from.dir_within(&rest, mounts, budget)?;
            self.hold(length, path, opened);
        }
        Ok(self.held.back().map_or(top, |(_, directory)| directory))
    }

    /// Closes what is not on the way to `path`. The nearest directory that is held, the length of its
    /// path, and the names from there.
    fn nearest<'a, 'p>(&'a mut self, top: &'a Handle, path: &'p Path) -> (usize, &'a Handle, Cow<'p, Path>) {
        let (last, next) = (self.path.as_os_str().as_encoded_bytes(), path.as_os_str().as_encoded_bytes());
        let common = common_length(last, next);
        let is_on_the_way =
            |length: usize| length <= common && next.get(length).is_none_or(|byte| is_separator(char::from(*byte)));
        while self.held.back().is_some_and(|(length, _)| !is_on_the_way(*length)) {
            self.held.pop_back();
        }
        let (length, from) = self.held.back().map_or((0, top), |(length, directory)| (*length, directory));
        if length == 0 {
            return (length, from, Cow::Borrowed(path));
        }
        // As many names as separators: one precedes each.
        let names = count_separators(next.get(length..).unwrap_or_default());
        let names: Vec<&OsStr> = path.iter().rev().take(names).collect();
        (length, from, Cow::Owned(names.into_iter().rev().collect()))
    }

    /// Keeps a directory open that was reached from the one whose path has this length.
    fn hold(&mut self, from: usize, path: &Path, directory: Handle) {
        debug_assert!(from < path.as_os_str().len(), "it lies below");
        if self.held.len() == CURSOR_HANDLES {
            self.held.pop_front();
        }
        self.held.push_back((path.as_os_str().len(), directory));
        self.path.clear();
        self.path.push(path);
    }
}

/// How many separators a path has. A block's count fits a byte, so that the compiler can count many
/// bytes at once.
pub(crate) fn count_separators(path: &[u8]) -> usize {
    let in_block = |block: &[u8]| block.iter().map(|byte| u8::from(is_separator(char::from(*byte)))).sum::<u8>();
    path.chunks(usize::from(u8::MAX)).map(|block| usize::from(in_block(block))).sum()
}

/// How many bytes two paths have in common at their beginning.
fn common_length(one: &[u8], other: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let blocks = one.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK)).take_while(|(one, other)| one == other);
    let equal = BLOCK * blocks.count();
    let (one, other) = (one.iter().skip(equal), other.iter().skip(equal));
    equal + one.zip(other).take_while(|(one, other)| one == other).count()
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

/// Whether an open file is of a proc file system.
#[cfg(all(target_os = "linux", feature = "landlock"))]
pub(crate) fn is_proc(file: &File) -> Result<bool> {
    kernel::is_proc(file)
}

/// Splits off the last name.
pub(crate) fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    Some((path.parent()?, path.file_name()?))
}

/// A name for a file that is there for a moment, seeded by the system's randomness, differently
/// each time. What an operator searches for after a process was killed
/// ([`Roots::write`](crate::Roots::write)).
pub(crate) fn temporary_name() -> OsString {
    OsString::from(format!(".mcp-roots-guard-{:016x}.tmp", RandomState::new().hash_one(0)))
}

/// Errors of a walk that follows no link.
fn on_the_way(error: io::Error) -> Error {
    match kernel::classify(&error) {
        Some(kind) => Error::io(kind, error),
        None => error.into(),
    }
}

#[cfg(not(windows))]
fn proc_link() -> Error {
    Error::new(Code::OutsideRoots).detail("a link of a proc file system")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_never_one_that_is_there() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("f"), "old").unwrap();
        let handle = Handle::ambient(directory.path()).unwrap();
        let want = Want { read: false, write: true, append: false, create_new: Some(0o600) };
        let made = |name| handle.open(Path::new(name), want, Rule::Allow).map(drop).map_err(|error| error.reason());
        assert_eq!((made("f"), made("g")), (Err(Code::AlreadyExists), Ok(())));
    }

    /// Wherever it is, and at the cost of a look-up for each half.
    #[test]
    fn the_first_name_that_is_no_directory_is_found_by_halves() {
        let directory = tempfile::tempdir().unwrap();
        let path = PathBuf::from("d/".repeat(100));
        let mut at = directory.path().to_owned();
        let handle = Handle::ambient(&at).unwrap();
        for passed in 1..=100 {
            let (mut cursor, mut budget) = (Cursor::default(), Budget::new());
            let found = cursor.passable(&handle, &path, 100, Rule::Allow, &mut budget);
            assert_eq!(found.unwrap().unwrap(), passed);
            let (spent, whole) = (budget.spent(), 99 / NAMES_PER_LOOKUP);
            let is_due = match passed {
                100 => spent == whole,
                _ => (whole + 6..=2 * whole + 7).contains(&spent),
            };
            assert!(is_due, "{passed}: {spent}");
            at.push("d");
            std::fs::create_dir(&at).unwrap();
        }
    }

    /// A look-up beside the last costs one, however deep it is; further away it costs the way there.
    #[test]
    fn a_look_up_costs_the_way_from_what_is_held() {
        let directory = tempfile::tempdir().unwrap();
        let deep = PathBuf::from("d/".repeat(160));
        std::fs::create_dir_all(directory.path().join(&deep)).unwrap();
        let handle = Handle::ambient(directory.path()).unwrap();
        let (mut cursor, mut budget) = (Cursor::default(), Budget::new());
        let mut cost = |path: &Path| {
            let before = budget.spent();
            assert!(matches!(cursor.look(&handle, path, Rule::Allow, &mut budget), Ok(Look::Missing)));
            assert!(cursor.held.len() <= CURSOR_HANDLES);
            budget.spent() - before
        };
        let walked = |names: usize| 1 + names / NAMES_PER_LOOKUP;
        assert_eq!(cost(&deep.join("none")), walked(160));
        assert_eq!(cost(&deep.join("none")), 1);
        assert_eq!(cost(&deep.parent().unwrap().join("none")), walked(159));
        assert_eq!(cost(&deep.join("none")), walked(1));
        let ancestors: Vec<_> = deep.ancestors().collect();
        let names = |up: usize| ancestors[up].join("none");
        assert_eq!((cost(&names(100)), cost(&names(101)), cost(&names(99))), (walked(60), walked(59), walked(2)));
        assert_eq!(cost(Path::new("none")), 1);
    }
}
