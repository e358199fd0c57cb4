//! Writing whole files and creating directories.

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

/// Options of [`write_with`](crate::Roots::write_with).
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
    /// Returns the default options: an existing file is replaced.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how an existing file is treated. A file that does not exist is always created
    /// completely or not at all.
    pub fn existing(self, existing: Existing) -> Self {
        Self { existing }
    }
}

/// How a write of a whole file treats an existing file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Existing {
    /// Replaces it atomically with a new file. A reader sees either the old content or the new, and
    /// a failed write leaves the old content. This requires permission to write to the directory,
    /// not to the file (rename(2)). See [`Roots::write`](crate::Roots::write) for the permissions
    /// and attributes that the new file keeps.
    #[default]
    Replace,
    /// Opens the file itself, verifies it and overwrites it. The file keeps its owner, group,
    /// access control list, extended attributes, birth time and hard links, but not the set-user-ID
    /// and set-group-ID bits. This requires permission to write to the file, not to the directory.
    /// It is the only way to write a root that is a single file.
    ///
    /// It is not atomic. A reader can see part of the new content, or the new content followed by
    /// the rest of the old. A write that fails midway, for instance on a full disk, leaves the file
    /// in that state, and the overwritten part of the old content is lost.
    InPlace,
    /// Like [`Replace`](Self::Replace) if the new file can have the owner, the group and the access
    /// control list of the old one, and otherwise like [`InPlace`](Self::InPlace). On Windows, the
    /// file is always written in place, because a new file never has the old access control list.
    InPlaceIfOwnerChanges,
}

impl CheckedPath {
    pub(super) fn write_now(&self, content: impl AsRef<[u8]>) -> Result<()> {
        self.write_with_now(content, WriteOptions::new())
    }

    pub(super) fn write_with_now(
        &self,
        content: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.ensure_writable()?;
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
        // This check comes last, so that a directory is refused with `IsADirectory`.
        self.ensure_not_root()?;
        self.ensure_not_file_root_alias(&directory, &name)?;
        let mut new =
            Temporary::new(&directory, if old.is_some() { PRIVATE_FILE } else { NEW_FILE })?;
        #[cfg(unix)]
        let carried = match &old {
            Some(old) => Some(permissions(&directory, &name, old, policy)?.carry_to(&new.file)?),
            None => None,
        };
        #[cfg(unix)]
        if options.existing == Existing::InPlaceIfOwnerChanges
            && carried.is_some_and(|carried| !carried.is_complete)
        {
            drop(new);
            return self.write_in_place(content.as_ref());
        }
        new.file.write_all(content.as_ref())?;
        #[cfg(unix)]
        if let Some(Carried { mode, .. }) = carried {
            // Defense: new-content-gets-the-old-mode
            set_mode(&new.file, mode)?;
        }
        new.file.sync_all()?;
        self.ensure_not_moved(&directory)?;
        new.rename(&name, old.is_some())?;
        // The write has already succeeded. Not every filesystem can sync a directory, and Windows
        // has no call for it.
        #[cfg(not(windows))]
        let _ = directory.sync();
        Ok(())
    }

    /// Overwrites the file before truncating it, so a full disk causes an error only if the new
    /// content is longer than the old.
    fn write_in_place(&self, content: &[u8]) -> Result<()> {
        let (mut file, metadata) = self.open_existing(WRITE)?;
        // Set-user-ID and set-group-ID are cleared, as the kernel does for an unprivileged write
        // (write(2)).
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
        self.ensure_writable()?;
        match self.found() {
            Found::Missing(1) => {}
            Found::Missing(_) => return Err(Code::NotFound.into()),
            Found::Exists | Found::Link => return Err(Code::AlreadyExists.into()),
        }
        self.ensure_not_root()?;
        let (directory, name) = self.parent()?;
        self.ensure_not_moved(&directory)?;
        Ok(directory.create_dir(&name)?)
    }

    pub(super) fn create_dir_all_now(&self) -> Result<()> {
        self.ensure_writable()?;
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
        let (present, absent) =
            names.split_at_checked(names.len().saturating_sub(missing)).unwrap_or_default();
        let mut directory =
            match handle.dir(&present.iter().collect::<std::path::PathBuf>(), mounts) {
                Err(error) if error.reason() == Code::NotADirectory => {
                    return Err(Code::AlreadyExists.into());
                }
                directory => directory?,
            };
        for name in absent {
            match directory.create_dir(name) {
                // Another process has just created it. The next open fails if it is not a
                // directory.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result?,
            }
            directory = directory.dir(Path::new(name), mounts)?;
        }
        Ok(())
    }

    /// Opens the directory that contains the last name, and returns it with that name.
    pub(super) fn parent(&self) -> Result<(Handle, OsString)> {
        let (handle, place) = self.place()?;
        let (parent, name) = split(&place).ok_or(Code::RootItself)?;
        Ok((handle.dir(parent, self.roots().policy().mounts)?, name.to_owned()))
    }
}

/// A temporary file that is being written. It is removed on drop unless it was renamed.
struct Temporary<'a> {
    directory: &'a Handle,
    name: OsString,
    file: File,
    is_renamed: bool,
}

impl<'a> Temporary<'a> {
    fn new(directory: &'a Handle, mode: u32) -> Result<Self> {
        let want = Want { create_new: Some(mode), ..WRITE };
        for _ in 0..NAMES_TRIED {
            let name = temporary_name();
            match directory.open(Path::new(&name), want, crate::dir::Rule::Allow) {
                Err(error) if error.reason() == Code::AlreadyExists => {}
                file => return Ok(Self { directory, name, file: file?, is_renamed: false }),
            }
        }
        Err(Code::AlreadyExists.into())
    }

    /// Renames the file to its final name. If no old file was expected and one exists now, this
    /// fails, because the permissions of that file are not known.
    fn rename(mut self, name: &OsStr, is_old: bool) -> Result<()> {
        // Defense: new-name-replaces-nothing
        let renamed = self.directory.rename(&self.name, self.directory, name, is_old);
        self.is_renamed = renamed.is_ok();
        renamed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists if !is_old => Code::Changed.into(),
            _ => Error::from(error),
        })
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // Defense: failed-write-leaves-no-file
        if !self.is_renamed {
            // The caller reports why the write failed, so an error here is ignored.
            let _ = self.directory.remove_file(&self.name);
        }
    }
}

/// Reads the permissions of the file to be replaced. The file is opened for this, unless it is a
/// special file.
#[cfg(unix)]
fn permissions(
    directory: &Handle,
    name: &OsStr,
    old: &Metadata,
    policy: Policy,
) -> Result<Permissions> {
    if old.is_file() {
        for want in [Want::READ, WRITE] {
            match directory.open(Path::new(name), want, policy.mounts) {
                Ok(file) => {
                    verify(&file, policy)?;
                    return Ok(Permissions::of(&file)?);
                }
                // The file existed when it was looked up.
                Err(error) if error.reason() == Code::NotFound => return Err(Code::Changed.into()),
                Err(error) if !is_denied(&error) => return Err(error),
                Err(_) => {}
            }
        }
    }
    Ok(Permissions::unknown(old.mode().unwrap_or_default()))
}

/// Returns whether a file cannot be opened although it could be replaced, because its permissions
/// deny it, another process has a lease on it, or it is being executed (open(2)).
#[cfg(unix)]
fn is_denied(error: &Error) -> bool {
    use io::ErrorKind::{ExecutableFileBusy, PermissionDenied, WouldBlock};
    let cause =
        std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| {
        matches!(cause.kind(), PermissionDenied | WouldBlock | ExecutableFileBusy)
    })
}

#[cfg(unix)]
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

const WRITE: Want = Want { read: false, write: true, append: false, create_new: None };

/// The mode of the new file until it receives the mode of the old one. Only the owner can read the
/// new content until then.
const PRIVATE_FILE: u32 = 0o600;

#[cfg(test)]
mod tests {
    use super::*;

    /// A write that fails at any point leaves the old file and no other file.
    #[test]
    fn a_failed_write_leaves_no_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("taken")).unwrap();
        std::fs::write(directory.path().join("old"), "old").unwrap();
        let handle = Handle::ambient(directory.path()).unwrap();
        let names = || {
            let entries = std::fs::read_dir(directory.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name());
            entries.collect::<std::collections::BTreeSet<_>>().len()
        };
        // Writing or syncing failed.
        let mut new = Temporary::new(&handle, NEW_FILE).unwrap();
        new.file.write_all(b"half").unwrap();
        assert_eq!(names(), 3);
        // The name of a temporary file cannot be predicted.
        assert_ne!(Temporary::new(&handle, NEW_FILE).unwrap().name, new.name);
        drop(new);
        assert_eq!(names(), 2);
        // The destination has become a directory.
        let new = Temporary::new(&handle, NEW_FILE).unwrap();
        assert_eq!(new.rename(OsStr::new("taken"), true).unwrap_err().reason(), Code::IsADirectory);
        assert_eq!(names(), 2);
        // Another process created the destination, so its permissions are not known.
        let new = Temporary::new(&handle, NEW_FILE).unwrap();
        assert_eq!(new.rename(OsStr::new("old"), false).unwrap_err().reason(), Code::Changed);
        assert_eq!(names(), 2);
        assert_eq!(std::fs::read(directory.path().join("old")).unwrap(), b"old");
    }
}
