//! An open directory: [`Handle`].

use std::ffi::OsStr;
#[cfg(not(windows))]
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use cap_std::io_lifetimes::AsFilelike as _;

#[cfg(target_os = "linux")]
use super::Follow;
#[cfg(not(windows))]
use super::proc_link;
use super::{
    Budget, Entries, FileType, Identity, Metadata, Mount, OpenHow, Rule, Stat, kernel, split,
    walk_error,
};
use crate::error::{Code, Result};
#[cfg(target_os = "linux")]
use crate::limits::NAMES_PER_LOOKUP;

/// An open directory, which stays the same object even if its path changes.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(super) dir: Dir,
    /// Its final path, read when first needed.
    #[cfg(windows)]
    pub(super) place: std::sync::OnceLock<String>,
}

impl Handle {
    fn new(dir: Dir) -> Self {
        Self {
            dir,
            #[cfg(windows)]
            place: std::sync::OnceLock::new(),
        }
    }

    /// Opens a directory by an ambient path, following symlinks: only for configured directories
    /// and the filesystem root.
    pub(crate) fn ambient(path: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        let dir = Dir::from_std_file(kernel::ambient(path)?);
        #[cfg(not(target_os = "linux"))]
        let dir = Dir::open_ambient_dir(path, cap_std::ambient_authority())?;
        Ok(Self::new(dir))
    }

    /// Opens an entry of this directory, or the directory itself (`.`), with `O_PATH`.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_path(&self, name: &OsStr) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, openat};
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.dir, name, flags, Mode::empty())?))
    }

    /// Opens the directory at `path`. An empty path opens this one.
    pub(crate) fn dir(&self, path: &Path, mounts: Rule) -> Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(opened) = kernel::dir(&self.dir, path, mounts) {
            return Ok(Self::new(Dir::from_std_file(opened.map_err(walk_error)?)));
        }
        let mut dir = Self::new(self.dir.try_clone()?);
        for name in path {
            dir = dir.child(name, mounts)?;
        }
        Ok(dir)
    }

    /// Like [`Handle::dir`], but charges the walk to a budget: one system call, or one for each
    /// name if `openat2` cannot be used. The look-up that needs the directory pays for the first.
    pub(super) fn dir_within_budget(
        &self,
        path: &Path,
        mounts: Rule,
        budget: &mut Budget<'_>,
    ) -> Result<Self> {
        #[cfg(target_os = "linux")]
        {
            budget.spend(path.iter().count() / NAMES_PER_LOOKUP)?;
            if let Some(opened) = kernel::dir(&self.dir, path, mounts) {
                return Ok(opened.map_err(walk_error)?.into());
            }
        }
        let mut names = path.iter();
        let Some(first) = names.next() else { return Ok(Self::new(self.dir.try_clone()?)) };
        names.try_fold(self.child(first, mounts)?, |directory, name| {
            budget.spend(1)?;
            directory.child(name, mounts)
        })
    }

    fn child(&self, name: &OsStr, mounts: Rule) -> Result<Self> {
        // Defense: Without openat2, a directory swapped for a symlink is not opened.
        let opened = self.dir.open_dir_nofollow(name);
        self.verify_child(name, opened.map(Self::new), mounts)
    }

    fn verify_child(&self, name: &OsStr, opened: io::Result<Self>, mounts: Rule) -> Result<Self> {
        let child = opened.map_err(|error| match walk_error(error) {
            // open(2) with O_DIRECTORY also fails with ENOTDIR for a symlink. Unless the name is
            // now something other than a directory or a symlink, the path counts as changed.
            error if error.reason() == Code::NotADirectory && !self.is_other(name) => {
                Code::Changed.into()
            }
            error => error,
        })?;
        #[cfg(windows)]
        let _ = child.place.set(kernel::verify_place(self, name, &child.dir)?);
        if mounts == Rule::Refuse && child.mount()? != self.mount()? {
            return Err(Code::MountCrossing.into());
        }
        Ok(child)
    }

    fn is_other(&self, name: &OsStr) -> bool {
        let file_type = self.describe(name).map(|metadata| metadata.file_type());
        file_type
            .is_ok_and(|file_type| !matches!(file_type, FileType::Directory | FileType::Symlink))
    }

    #[cfg(not(windows))]
    pub(crate) fn describe(&self, name: &OsStr) -> io::Result<Metadata> {
        // cap-std is not used here, because it panics on very old timestamps.
        kernel::describe(&self.dir, name)
    }

    #[cfg(windows)]
    pub(crate) fn describe(&self, name: &OsStr) -> io::Result<Metadata> {
        kernel::describe(self, name)
    }

    /// Describes the name at `path`. In a directory that does not exist, everything is missing.
    pub(crate) fn look(&self, path: &Path, mounts: Rule) -> Result<Stat> {
        #[cfg(target_os = "linux")]
        if let Some(looked) = self.look_by_kernel(path, mounts) {
            return looked;
        }
        let Some((parent, name)) = split(path) else { return Ok(Stat::Other(self.metadata()?)) };
        match self.dir(parent, mounts) {
            Err(error) if error.reason() == Code::NotFound => Ok(Stat::Missing),
            parent => parent?.look_in(name, mounts),
        }
    }

    /// Like [`Handle::look`], with one system call. `None` if `openat2` cannot be used.
    #[cfg(target_os = "linux")]
    fn look_by_kernel(&self, path: &Path, mounts: Rule) -> Option<Result<Stat>> {
        let looked = kernel::look(&self.dir, path, mounts)?;
        let look = |file: File| {
            let metadata = Metadata::of_file(&file)?;
            match metadata.file_type() {
                FileType::Symlink => Ok(Stat::Link(kernel::read_link(&file, &metadata)?, metadata)),
                _ => Ok(Stat::Other(metadata)),
            }
        };
        Some(match looked {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Stat::Missing),
            looked => looked.map_err(walk_error).and_then(look),
        })
    }

    #[cfg_attr(
        windows,
        allow(unused_variables, reason = "on Windows, a mounted volume is a symlink")
    )]
    pub(crate) fn look_in(&self, name: &OsStr, mounts: Rule) -> Result<Stat> {
        // Opening the name also checks its mount, in the same call.
        #[cfg(target_os = "linux")]
        if mounts == Rule::Refuse {
            if let Some(looked) = self.look_by_kernel(Path::new(name), mounts) {
                return looked;
            }
        }
        let looked = self.look_portable(name)?;
        #[cfg(not(windows))]
        if mounts == Rule::Refuse
            && matches!(looked, Stat::Other(_))
            && kernel::mount_of(&self.dir, name)? != self.mount()?
        {
            return Err(Code::MountCrossing.into());
        }
        Ok(looked)
    }

    #[cfg(windows)]
    fn look_portable(&self, name: &OsStr) -> Result<Stat> {
        kernel::look(self, name)
    }

    #[cfg(not(windows))]
    fn look_portable(&self, name: &OsStr) -> Result<Stat> {
        match self.describe(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Stat::Missing),
            Err(error) => Err(walk_error(error)),
            Ok(metadata) => match metadata.file_type() {
                FileType::Symlink => Ok(Stat::Link(self.read_link(name, &metadata)?, metadata)),
                _ => Ok(Stat::Other(metadata)),
            },
        }
    }

    #[cfg(not(windows))]
    fn read_link(&self, name: &OsStr, metadata: &Metadata) -> Result<OsString> {
        if kernel::is_in_proc(&self.dir, metadata)? {
            return Err(proc_link());
        }
        // The usual error is EINVAL, because the name is no longer a symlink.
        Ok(self.dir.read_link_contents(name).map_err(|_| Code::Changed)?.into_os_string())
    }

    /// Opens the file at `path` for reading, without blocking. Fails if any name is a symlink.
    pub(crate) fn open(&self, path: &Path, mounts: Rule) -> Result<File> {
        self.open_with(path, OpenHow::READ, mounts)
    }

    /// Like [`open`](Self::open). Only a [`Slot`](super::Slot) and a temporary name open for
    /// writing.
    pub(super) fn open_with(&self, path: &Path, how: OpenHow, mounts: Rule) -> Result<File> {
        #[cfg(target_os = "linux")]
        if let Some(opened) = kernel::open(&self.dir, path, how, mounts) {
            return opened.map_err(walk_error);
        }
        let (parent, name) = split(path).ok_or(Code::IsADirectory)?;
        let dir = self.dir(parent, mounts)?;
        let file = match dir.dir.open_with(name, &how.options()) {
            #[cfg(windows)]
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && dir.is_dir(name) => {
                return Err(Code::IsADirectory.into());
            }
            file => file.map_err(walk_error)?.into_std(),
        };
        #[cfg(windows)]
        kernel::verify_place(&dir, name, &file)?;
        #[cfg(windows)]
        let file = kernel::open_through_filter(&dir, name, file, how)?;
        if mounts == Rule::Refuse && kernel::mount(&file)? != dir.mount()? {
            return Err(Code::MountCrossing.into());
        }
        Ok(file)
    }

    /// Opens `path` in one kernel walk, which fails with `EXDEV` if it would leave this directory.
    /// `None` if `openat2` cannot be used.
    #[cfg(target_os = "linux")]
    pub(crate) fn follow(
        &self,
        path: &OsStr,
        want: Follow,
        mounts: Rule,
    ) -> Option<io::Result<File>> {
        kernel::follow(&self.dir, path, want, mounts)
    }

    pub(crate) fn metadata(&self) -> Result<Metadata> {
        Ok(Metadata::of_file(&self.dir.as_filelike_view::<File>())?)
    }

    pub(crate) fn metadata_without_birth(&self) -> Result<Metadata> {
        Ok(Metadata::without_birth(&self.dir.as_filelike_view::<File>())?)
    }

    pub(crate) fn identity(&self) -> Result<Identity> {
        Ok(self.metadata_without_birth()?.identity())
    }

    pub(crate) fn mount(&self) -> Result<Mount> {
        kernel::mount(&self.dir)
    }

    pub(crate) fn list(&self, path: &Path, mounts: Rule) -> Result<(Arc<Self>, Entries)> {
        #[cfg(unix)]
        let directory = self.open_dir(path, mounts)?.into();
        #[cfg(windows)]
        let directory = self.dir(path, mounts)?;
        let directory = Arc::new(directory);
        let entries = Entries::of(&directory)?;
        Ok((directory, entries))
    }

    /// Looks up the type if it did not come with the name.
    pub(crate) fn type_of(&self, name: &OsStr, listed: Option<FileType>) -> io::Result<FileType> {
        match listed {
            Some(file_type) => Ok(file_type),
            None => Ok(self.describe(name)?.file_type()),
        }
    }

    /// Opens the directory at `path` for reading, unlike [`dir`](Self::dir), which on Linux opens
    /// with `O_PATH`.
    #[cfg(unix)]
    pub(crate) fn open_dir(&self, path: &Path, mounts: Rule) -> Result<File> {
        use rustix::fs::{Mode, OFlags};
        #[cfg(target_os = "linux")]
        if let Some(opened) = kernel::open_dir(&self.dir, path, mounts) {
            return opened.map_err(walk_error);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |at: &Self, name: &OsStr| -> io::Result<File> {
            Ok(rustix::fs::openat(&at.dir, name, flags, Mode::empty())?.into())
        };
        // The name `.` is the open directory itself, wherever it has been moved.
        let Some((parent, name)) = split(path) else { return Ok(open(self, OsStr::new("."))?) };
        let parent = self.dir(parent, mounts)?;
        let opened = open(&parent, name).map(Self::from);
        Ok(parent.verify_child(name, opened, mounts)?.dir.into_std_file())
    }

    /// Every handle can be listed.
    #[cfg(windows)]
    pub(crate) fn open_dir(&self, path: &Path, mounts: Rule) -> Result<File> {
        Ok(self.dir(path, mounts)?.dir.into_std_file())
    }

    /// Opens the directory to sync its entries, because fsync(2) refuses an `O_PATH` handle. `None`
    /// if the process may not read the directory, and on Windows, which cannot sync one.
    pub(crate) fn open_to_sync(&self) -> io::Result<Option<File>> {
        if cfg!(windows) {
            return Ok(None);
        }
        match self.dir.open(".") {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            opened => Ok(Some(opened?.into_std())),
        }
    }

    /// Syncs a directory from [`open_to_sync`](Self::open_to_sync), if its filesystem supports that
    /// (EINVAL, fsync(2)).
    pub(crate) fn sync(opened: Option<File>) -> io::Result<()> {
        use io::ErrorKind::{InvalidInput, Unsupported};
        match opened.map_or(Ok(()), |directory| directory.sync_all()) {
            Err(error) if matches!(error.kind(), InvalidInput | Unsupported) => Ok(()),
            synced => synced,
        }
    }
}

#[cfg(target_os = "linux")]
impl std::os::fd::AsFd for Handle {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// The file must be an open directory, or every method fails.
impl From<File> for Handle {
    fn from(directory: File) -> Self {
        Self::new(Dir::from_std_file(directory))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn create_new_refuses_an_existing_file() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("f"), "old").unwrap();
        let handle = Handle::ambient(directory.path()).unwrap();
        let how = OpenHow { read: false, write: true, append: false, create_new: Some(0o600) };
        let made = |name| {
            handle
                .open_with(Path::new(name), how, Rule::Allow)
                .map(drop)
                .map_err(|error| error.reason())
        };
        assert_eq!((made("f"), made("g")), (Err(Code::AlreadyExists), Ok(())));
    }
    #[test]
    fn listed_device_is_recognized() {
        let handle = Handle::ambient(Path::new("/dev")).unwrap();
        let (listed, entries) = handle.list(Path::new(""), Rule::Allow).unwrap();
        let mut entries = entries.map(std::io::Result::unwrap);
        let null = entries.find(|entry| entry.name == "null").unwrap();
        assert_eq!(listed.type_of(&null.name, null.file_type).unwrap(), FileType::Device);
    }
}
