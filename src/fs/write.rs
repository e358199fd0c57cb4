//! Making files and directories.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use super::open::{NEW_FILE, allow};
use crate::beneath::{Cursor, Handle, Look, NAMES_TRIED, Want, split, temporary_name};
use crate::check::CheckedPath;
use crate::error::{Error, ErrorKind, Result};
use crate::resolve::Found;

impl CheckedPath {
    pub(super) fn write_now(&self, content: impl AsRef<[u8]>) -> Result<()> {
        self.may_write()?;
        let (directory, name) = self.parent()?;
        let policy = self.roots().policy();
        let mode = match directory.look(Path::new(&name), policy.mounts, &mut Cursor::default())? {
            Look::Missing => None,
            Look::Link(..) if self.found() == Found::Link => return Err(ErrorKind::SpecialFile.into()),
            Look::Link(..) => return Err(ErrorKind::Changed.into()),
            Look::Other(metadata) => {
                allow(&metadata, policy)?;
                // A replaced file's set-user-ID bits are dropped, as writing to it would (chmod(2), write(2)).
                metadata.mode().map(|mode| mode & 0o777)
            }
        };
        // Last, as a directory is refused as such first.
        self.is_no_root()?;
        let mut new = Temporary::new(&directory, if mode.is_some() { PRIVATE_FILE } else { NEW_FILE })?;
        new.file.write_all(content.as_ref())?;
        #[cfg(unix)]
        if let Some(mode) = mode {
            set_mode(&new.file, mode)?;
        }
        new.file.sync_all()?;
        new.rename(&name)?;
        // The new content is in place; not every file system can sync a directory, and Windows has no call for it.
        #[cfg(not(windows))]
        let _ = directory.sync();
        Ok(())
    }

    pub(super) fn create_dir_now(&self) -> Result<()> {
        self.may_write()?;
        match self.found() {
            Found::Missing(1) => {}
            Found::Missing(_) => return Err(ErrorKind::NotFound.into()),
            Found::Exists | Found::Link => return Err(ErrorKind::AlreadyExists.into()),
        }
        self.is_no_root()?;
        let (directory, name) = self.parent()?;
        Ok(directory.create_dir(&name)?)
    }

    pub(super) fn create_dir_all_now(&self) -> Result<()> {
        self.may_write()?;
        if self.root().is_file() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let (handle, place) = self.place()?;
        let mounts = self.roots().policy().mounts;
        let names: Vec<&OsStr> = place.iter().collect();
        let missing = match self.found() {
            Found::Missing(count) => count,
            Found::Exists | Found::Link => 0,
        };
        let (there, make) = names.split_at_checked(names.len().saturating_sub(missing)).unwrap_or_default();
        let mut directory = match handle.dir(&there.iter().collect::<std::path::PathBuf>(), mounts) {
            Err(error) if error.kind() == ErrorKind::NotADirectory => return Err(ErrorKind::AlreadyExists.into()),
            directory => directory?,
        };
        for name in make {
            match directory.create_dir(name) {
                // Someone else made it just now; what it is, opening it tells.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result?,
            }
            directory = directory.dir(Path::new(name), mounts)?;
        }
        Ok(())
    }

    /// The directory that holds the last name, opened, and that name.
    pub(super) fn parent(&self) -> Result<(Handle, OsString)> {
        let (handle, place) = self.place()?;
        let (parent, name) = split(&place).ok_or(ErrorKind::RootItself)?;
        Ok((handle.dir(parent, self.roots().policy().mounts)?, name.to_owned()))
    }
}

/// A file that is being written, removed again unless it gets its name.
struct Temporary<'a> {
    directory: &'a Handle,
    name: OsString,
    file: File,
    kept: bool,
}

impl<'a> Temporary<'a> {
    fn new(directory: &'a Handle, mode: u32) -> Result<Self> {
        let want = Want { read: false, write: true, append: false, create_new: Some(mode) };
        for _ in 0..NAMES_TRIED {
            let name = temporary_name();
            match directory.open(Path::new(&name), want, crate::policy::Rule::Allow) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                file => return Ok(Self { directory, name, file: file?, kept: false }),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    fn rename(mut self, name: &OsStr) -> Result<()> {
        let renamed = self.directory.rename(&self.name, self.directory, name, true);
        self.kept = renamed.is_ok();
        renamed.map_err(Error::from)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // The first error is the one to tell.
            let _ = self.directory.remove_file(&self.name);
        }
    }
}

#[cfg(unix)]
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

/// Until it gets the mode of the file that it replaces, nobody else reads the new content.
const PRIVATE_FILE: u32 = 0o600;

#[cfg(test)]
mod tests {
    use super::*;

    /// A write that fails at any point leaves the old file, and nothing beside it.
    #[test]
    fn a_write_that_fails_leaves_no_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("taken")).unwrap();
        std::fs::write(directory.path().join("old"), "old").unwrap();
        let handle = Handle::ambient(directory.path()).unwrap();
        let names = || {
            let entries = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
            entries.collect::<std::collections::BTreeSet<_>>().len()
        };
        // As when writing or syncing fails.
        let mut new = Temporary::new(&handle, NEW_FILE).unwrap();
        new.file.write_all(b"half").unwrap();
        assert_eq!(names(), 3);
        // Nobody can tell its name beforehand, and take it.
        assert_ne!(Temporary::new(&handle, NEW_FILE).unwrap().name, new.name);
        drop(new);
        assert_eq!(names(), 2);
        // As when the name has become a directory meanwhile.
        let new = Temporary::new(&handle, NEW_FILE).unwrap();
        assert_eq!(new.rename(OsStr::new("taken")).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(names(), 2);
        assert_eq!(std::fs::read(directory.path().join("old")).unwrap(), b"old");
    }
}
