//! Changes of directory entries: [`Slot`] and [`TemporaryName`].
//!
//! Everything that changes an entry, or opens one for writing, is a method of a [`Slot`], which
//! asks its [`Permit`] immediately before. Exceptions are the guard's own temporary files, and the
//! directories that it has just created for a permitted change. They are removed without a permit,
//! so that nothing remains of a change that is no longer allowed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Beneath, Handle, Identity, OpenHow, Rule, Stat, kernel, split, temporary_name};
use crate::error::{Code, Error, Result};
use crate::limits::NAMES_TRIED;

pub(crate) trait Permit {
    /// Fails if the change is not allowed now.
    fn ask(&self) -> Result<()>;
}

/// An entry of an open directory that may be changed, whether or not it exists.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    directory: &'a Handle,
    /// A name or, for an entry that is only opened, a path of plain names.
    path: &'a Path,
    mounts: Rule,
    permit: &'a dyn Permit,
}

impl<'a> Slot<'a> {
    pub(crate) fn new(place: &'a Beneath, permit: &'a dyn Permit) -> Self {
        Self { directory: &place.directory, path: &place.path, mounts: place.mounts, permit }
    }

    /// An entry of a tree that is removed. It is never opened.
    pub(crate) fn of_content(
        directory: &'a Handle,
        name: &'a OsStr,
        permit: &'a dyn Permit,
    ) -> Self {
        Self { directory, path: Path::new(name), mounts: Rule::Refuse, permit }
    }

    fn name(&self) -> &'a OsStr {
        self.path.as_os_str()
    }

    /// Opens the file for writing, without blocking. Fails if any name is a symlink.
    pub(crate) fn open(&self, how: OpenHow) -> Result<File> {
        self.permit.ask()?;
        self.directory.open_with(self.path, how, self.mounts)
    }

    #[cfg(windows)]
    pub(crate) fn open_to_set_attributes(&self, _: bool) -> Result<File> {
        self.permit.ask()?;
        match split(self.path) {
            Some((parent, name)) => {
                kernel::open_to_set_attributes(&self.directory.dir(parent, self.mounts)?, name)
            }
            None => kernel::open_to_set_attributes(self.directory, OsStr::new("")),
        }
    }

    /// The owner of a file may set its attributes through any descriptor.
    #[cfg(not(windows))]
    pub(crate) fn open_to_set_attributes(&self, is_dir: bool) -> Result<File> {
        self.permit.ask()?;
        if is_dir {
            return self.directory.open_dir(self.path, self.mounts);
        }
        match self.directory.open(self.path, self.mounts) {
            Err(error) if error.reason() == Code::PermissionDenied => {
                self.directory.open_with(self.path, OpenHow::WRITE, self.mounts)
            }
            opened => opened,
        }
    }

    pub(crate) fn create_dir(&self) -> Result<()> {
        self.permit.ask()?;
        #[cfg(windows)]
        kernel::create_dir(self.directory, self.name())?;
        #[cfg(not(windows))]
        self.directory.dir.create_dir(self.name())?;
        Ok(())
    }

    /// Opens the directory, creating it if missing. Returns its identity if it is new.
    pub(crate) fn open_or_create_dir(&self) -> Result<(Handle, Option<Identity>)> {
        let is_new = match self.create_dir() {
            // Another process has just created it. Opening it fails if it is not a directory.
            Err(error) if error.reason() == Code::AlreadyExists => false,
            created => created.map(|()| true)?,
        };
        let opened = self.directory.dir(self.path, self.mounts).and_then(|opened| {
            let identity = is_new.then(|| opened.identity()).transpose()?;
            Ok((opened, identity))
        });
        if is_new && opened.is_err() {
            // For example, no descriptor is left. The caller reports this error.
            let _ = self.directory.remove_dir(self.name());
        }
        opened
    }

    /// Creates a symlink. Windows has two kinds: `is_dir` is whether the target is a directory.
    /// Fails with `AlreadyExists` if the name exists.
    #[cfg_attr(not(windows), allow(unused_variables, reason = "Unix has one kind of symlink"))]
    pub(crate) fn symlink(&self, text: &OsStr, is_dir: bool) -> Result<()> {
        self.permit.ask()?;
        #[cfg(windows)]
        kernel::symlink(self.directory, text, self.name(), is_dir)?;
        #[cfg(not(windows))]
        rustix::fs::symlinkat(text, &self.directory.dir, self.name()).map_err(io::Error::from)?;
        Ok(())
    }

    /// Gives an open file this name. Fails with `AlreadyExists` if that exists. `None` if the
    /// system cannot link a file without its name.
    #[cfg_attr(not(target_os = "linux"), allow(unused_variables, clippy::unused_self))]
    pub(crate) fn link_file(&self, file: &File) -> Option<Result<()>> {
        #[cfg(target_os = "linux")]
        return match self.permit.ask() {
            Ok(()) => kernel::link_file(file, &self.directory.dir, self.name()).map(|it| Ok(it?)),
            Err(refused) => Some(Err(refused.of_destination())),
        };
        #[cfg(not(target_os = "linux"))]
        None
    }

    pub(crate) fn remove_file(&self) -> Result<()> {
        self.permit.ask()?;
        Ok(self.directory.remove_file(self.name())?)
    }

    pub(crate) fn remove_dir(&self) -> Result<()> {
        self.permit.ask()?;
        Ok(self.directory.remove_dir(self.name())?)
    }

    /// Renames the entry. Unless `replace` is true, fails with `AlreadyExists` if the destination
    /// exists. Where the system cannot check this atomically, one created at the same time can be
    /// replaced.
    pub(crate) fn rename(&self, to: &Slot<'_>, replace: bool) -> Result<()> {
        self.permit.ask()?;
        to.permit.ask().map_err(Error::of_destination)?;
        Ok(self.directory.rename(self.name(), to, replace)?)
    }
}

/// The name of a file that the guard created, or of a directory that it renamed to be removed.
pub(crate) struct TemporaryName {
    directory: Arc<Handle>,
    name: OsString,
}

impl TemporaryName {
    /// Creates a file with this mode, less the umask.
    pub(crate) fn of_new_file(directory: Arc<Handle>, mode: u32) -> Result<(Self, File)> {
        let how = OpenHow { create_new: Some(mode), ..OpenHow::WRITE };
        Self::create(directory, |directory, name| {
            directory.open_with(Path::new(name), how, Rule::Allow)
        })
    }

    /// Creates a hard link to the entry `from`, even if that is a symlink, to be renamed or linked
    /// to `to`.
    pub(crate) fn of_link(from: &Slot<'_>, to: &Slot<'_>, directory: Arc<Handle>) -> Result<Self> {
        from.permit.ask()?;
        to.permit.ask().map_err(Error::of_destination)?;
        let link = |directory: &Handle, name: &OsStr| {
            Ok(from.directory.hard_link(from.name(), directory, name)?)
        };
        Ok(Self::create(directory, link)?.0)
    }

    /// Renames the entry, in its own directory, which is given once more to be kept open.
    pub(crate) fn of_renamed(from: &Slot<'_>, directory: Arc<Handle>) -> Result<Self> {
        let rename = |_: &Handle, name: &OsStr| {
            let to = Slot { path: Path::new(name), ..*from };
            from.rename(&to, false)
        };
        Ok(Self::create(directory, rename)?.0)
    }

    fn create<T>(
        directory: Arc<Handle>,
        create: impl Fn(&Handle, &OsStr) -> Result<T>,
    ) -> Result<(Self, T)> {
        for _ in 0..NAMES_TRIED {
            let name = temporary_name();
            match create(&directory, &name) {
                Err(error) if error.reason() == Code::AlreadyExists => {}
                created => return created.map(|created| (Self { directory, name }, created)),
            }
        }
        Err(Code::AlreadyExists.into())
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    pub(crate) fn look(&self, mounts: Rule) -> Result<Stat> {
        self.directory.look_in(&self.name, mounts)
    }

    /// Gives the file its final name, like [`Slot::rename`].
    pub(crate) fn rename(&self, to: &Slot<'_>, replace: bool) -> Result<()> {
        to.permit.ask()?;
        Ok(self.directory.rename(&self.name, to, replace)?)
    }

    /// Creates a hard link at `to`. Fails with `AlreadyExists` if that exists.
    pub(crate) fn link(&self, to: &Slot<'_>) -> Result<()> {
        to.permit.ask().map_err(Error::of_destination)?;
        Ok(self.directory.hard_link(&self.name, to.directory, to.name())?)
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        self.directory.remove_file(&self.name)
    }

    pub(crate) fn dir(&self) -> Result<Handle> {
        self.directory.dir(Path::new(&self.name), Rule::Refuse)
    }

    /// Removes the directory, which must be empty.
    pub(crate) fn remove_dir(&self) -> io::Result<()> {
        self.directory.remove_dir(&self.name)
    }
}

impl Handle {
    /// Removes a directory that the guard created, unless another one is at the path by now.
    pub(crate) fn remove_created_dir(&self, path: &Path, created: Identity) -> Result<()> {
        let Some((parent, name)) = split(path) else { return Ok(()) };
        if self.dir(path, Rule::Allow)?.identity()? == created {
            self.dir(parent, Rule::Allow)?.remove_dir(name)?;
        }
        Ok(())
    }

    /// Creates a hard link, also to a symlink itself.
    fn hard_link(&self, from: &OsStr, to_dir: &Self, to: &OsStr) -> io::Result<()> {
        #[cfg(windows)]
        return kernel::hard_link(self, from, to_dir, to);
        #[cfg(not(windows))]
        Ok(rustix::fs::linkat(&self.dir, from, &to_dir.dir, to, rustix::fs::AtFlags::empty())?)
    }

    fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        #[cfg(windows)]
        return kernel::remove_file(self, name);
        #[cfg(not(windows))]
        self.dir.remove_file(name)
    }

    fn remove_dir(&self, name: &OsStr) -> io::Result<()> {
        #[cfg(windows)]
        return kernel::remove_dir(self, name);
        #[cfg(not(windows))]
        self.dir.remove_dir(name)
    }

    fn rename(&self, from: &OsStr, to: &Slot<'_>, replace: bool) -> io::Result<()> {
        let (to_dir, to) = (to.directory, to.name());
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
}

#[cfg(test)]
pub(crate) struct Always;

#[cfg(test)]
impl Permit for Always {
    fn ask(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn only_a_directory_that_was_missing_is_new() {
        let work = tempfile::tempdir().unwrap();
        let directory = Arc::new(Handle::ambient(work.path()).unwrap());
        let slot = |name: &str| Beneath {
            directory: Arc::clone(&directory),
            path: name.into(),
            mounts: Rule::Allow,
        };
        std::fs::create_dir(work.path().join("there")).unwrap();
        std::fs::write(work.path().join("file"), "").unwrap();
        for (name, is_new) in [("there", false), ("new", true), ("new", false)] {
            let place = slot(name);
            let (_, created) = Slot::new(&place, &Always).open_or_create_dir().unwrap();
            assert_eq!(created.is_some(), is_new, "{name}");
        }
        let refused = Slot::new(&slot("file"), &Always).open_or_create_dir().unwrap_err();
        assert_eq!(refused.reason(), Code::NotADirectory);
    }
}
