//! Making files and directories.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

#[cfg(unix)]
use super::open::verify;
use super::open::{NEW_FILE, allow};
#[cfg(unix)]
use super::permissions::{Carried, Permissions};
use crate::check::CheckedPath;
#[cfg(unix)]
use crate::dir::Metadata;
#[cfg(unix)]
use crate::dir::Policy;
use crate::dir::{Handle, Look, Want, split, temporary_name};
use crate::error::{Code, Error, Result};
use crate::limits::NAMES_TRIED;
use crate::roots::Found;

/// How [`write_with`](crate::Roots::write_with) writes a whole file.
///
/// ```
/// # use mcp_roots_guard::{Existing, Roots, WriteOptions};
/// # let directory = tempfile::tempdir().unwrap();
/// let roots = Roots::from_dirs([directory.path()])?;
/// let keep_the_owner = WriteOptions::new().existing(Existing::InPlaceIfOwnerChanges);
/// roots.write_with("shared.txt", "content", keep_the_owner)?;
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct WriteOptions {
    existing: Existing,
}

impl WriteOptions {
    /// An existing file is replaced.
    pub fn new() -> Self {
        Self::default()
    }

    /// What to do with an existing file. A file that does not exist is always created complete, or
    /// not at all.
    pub fn existing(self, existing: Existing) -> Self {
        Self { existing }
    }
}

/// What a whole-file write does with a file that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Existing {
    /// A new file takes its place in one step: a reader sees the old content or the new, and a
    /// failed write leaves the old. This needs the right to write the directory, not the file
    /// (rename(2)). [`Roots::write`](crate::Roots::write) says what the new file keeps.
    #[default]
    Replace,
    /// The file itself is opened, verified and overwritten. It keeps everything: owner, group,
    /// access control list, extended attributes, birth time, hard links; not the set-user-ID and
    /// set-group-ID bits. This needs the right to
    /// write the file, not the directory, and is the only way to write a root that is a single
    /// file.
    ///
    /// It is not atomic: a reader can see part of the new content, or the new content followed by
    /// the rest of the old. A write that fails midway, on a full disk for instance, leaves the file
    /// like that: the old content is lost as far as it was overwritten.
    InPlace,
    /// As [`Replace`](Self::Replace) if the new file can have the owner, the group and the access
    /// control list of the old one, else as
    /// [`InPlace`](Self::InPlace). On Windows, where the new file never gets the old access control
    /// list, always in place.
    InPlaceIfOwnerChanges,
}

impl CheckedPath {
    pub(super) fn write_now(&self, content: impl AsRef<[u8]>) -> Result<()> {
        self.write_with_now(content, WriteOptions::new())
    }

    pub(super) fn write_with_now(&self, content: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.may_write()?;
        let (directory, name) = self.parent()?;
        let policy = self.roots().policy();
        let old = match directory.look_in(&name, policy.mounts)? {
            Look::Missing => None,
            Look::Link(..) if self.found() == Found::Link => return Err(Code::SpecialFile.into()),
            Look::Link(..) => return Err(Code::Changed.into()),
            Look::Other(metadata) => {
                allow(&metadata, policy)?;
                Some(metadata)
            }
        };
        let in_place = match options.existing {
            Existing::Replace => false,
            Existing::InPlace => true,
            Existing::InPlaceIfOwnerChanges => cfg!(windows),
        };
        if in_place && old.is_some() {
            return self.write_in_place(content.as_ref());
        }
        // Last, as a directory is refused as such first.
        self.is_no_root()?;
        self.is_no_alias_of_file_root(&directory, &name)?;
        let mut new = Temporary::new(&directory, if old.is_some() { PRIVATE_FILE } else { NEW_FILE })?;
        #[cfg(unix)]
        let carried = match &old {
            Some(old) => Some(permissions(&directory, &name, old, policy)?.carry_to(&new.file)?),
            None => None,
        };
        #[cfg(unix)]
        if options.existing == Existing::InPlaceIfOwnerChanges && carried.is_some_and(|carried| !carried.whole) {
            drop(new);
            return self.write_in_place(content.as_ref());
        }
        new.file.write_all(content.as_ref())?;
        #[cfg(unix)]
        if let Some(Carried { mode, .. }) = carried {
            set_mode(&new.file, mode)?;
        }
        new.file.sync_all()?;
        new.rename(&name, old.is_some())?;
        // The new content is in place; not every file system can sync a directory, and Windows has no call for it.
        #[cfg(not(windows))]
        let _ = directory.sync();
        Ok(())
    }

    /// Overwrites before it cuts, so that a full disk can only fail where the new content is longer
    /// than the old.
    fn write_in_place(&self, content: &[u8]) -> Result<()> {
        let (mut file, metadata) = self.open_existing(WRITE)?;
        // As the kernel does for a write without privileges (write(2)).
        #[cfg(unix)]
        if let Some(mode) = metadata.mode().filter(|mode| mode & 0o6000 != 0) {
            set_mode(&file, mode & 0o1777)?;
        }
        file.write_all(content)?;
        if metadata.is_file() {
            file.set_len(u64::try_from(content.len()).unwrap_or(u64::MAX))?;
            file.sync_all()?;
        }
        Ok(())
    }

    pub(super) fn create_dir_now(&self) -> Result<()> {
        self.may_write()?;
        match self.found() {
            Found::Missing(1) => {}
            Found::Missing(_) => return Err(Code::NotFound.into()),
            Found::Exists | Found::Link => return Err(Code::AlreadyExists.into()),
        }
        self.is_no_root()?;
        let (directory, name) = self.parent()?;
        Ok(directory.create_dir(&name)?)
    }

    pub(super) fn create_dir_all_now(&self) -> Result<()> {
        self.may_write()?;
        if self.root().is_file() {
            return Err(Code::AlreadyExists.into());
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
            Err(error) if error.reason() == Code::NotADirectory => return Err(Code::AlreadyExists.into()),
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
        let (parent, name) = split(&place).ok_or(Code::RootItself)?;
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
        let want = Want { create_new: Some(mode), ..WRITE };
        for _ in 0..NAMES_TRIED {
            let name = temporary_name();
            match directory.open(Path::new(&name), want, crate::dir::Rule::Allow) {
                Err(error) if error.reason() == Code::AlreadyExists => {}
                file => return Ok(Self { directory, name, file: file?, kept: false }),
            }
        }
        Err(Code::AlreadyExists.into())
    }

    /// Takes the name of the old file. If there was none and now there is one, its permissions are
    /// not known.
    fn rename(mut self, name: &OsStr, is_old: bool) -> Result<()> {
        let renamed = self.directory.rename(&self.name, self.directory, name, is_old);
        self.kept = renamed.is_ok();
        renamed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists if !is_old => Code::Changed.into(),
            _ => Error::from(error),
        })
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

/// The permissions of the file that is to be replaced. It is opened for that, and no special file
/// is.
#[cfg(unix)]
fn permissions(directory: &Handle, name: &OsStr, old: &Metadata, policy: Policy) -> Result<Permissions> {
    if old.is_file() {
        for want in [Want::READ, WRITE] {
            match directory.open(Path::new(name), want, policy.mounts) {
                Ok(file) => {
                    verify(&file, policy)?;
                    return Ok(Permissions::of(&file)?);
                }
                // It was there just now.
                Err(error) if error.reason() == Code::NotFound => return Err(Code::Changed.into()),
                Err(error) if !is_denied(&error) => return Err(error),
                Err(_) => {}
            }
        }
    }
    Ok(Permissions::unknown(old.mode().unwrap_or_default()))
}

/// Whether a file can not be opened though it could be replaced: besides permissions, somebody has
/// a lease on it or runs it (open(2)).
#[cfg(unix)]
fn is_denied(error: &Error) -> bool {
    use io::ErrorKind::{ExecutableFileBusy, PermissionDenied, WouldBlock};
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| matches!(cause.kind(), PermissionDenied | WouldBlock | ExecutableFileBusy))
}

#[cfg(unix)]
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

const WRITE: Want = Want { read: false, write: true, append: false, create_new: None };

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
        assert_eq!(new.rename(OsStr::new("taken"), true).unwrap_err().reason(), Code::IsADirectory);
        assert_eq!(names(), 2);
        // As when a file was made meanwhile where there was none, whose permissions are not known.
        let new = Temporary::new(&handle, NEW_FILE).unwrap();
        assert_eq!(new.rename(OsStr::new("old"), false).unwrap_err().reason(), Code::Changed);
        assert_eq!(names(), 2);
        assert_eq!(std::fs::read(directory.path().join("old")).unwrap(), b"old");
    }
}
