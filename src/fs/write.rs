//! Writing whole files and creating directories.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

use super::atomic::{AtomicFile, NewDirectories, WRITE};
use super::open::NEW_FILE;
use super::options::{Durability, WriteOptions};
#[cfg(unix)]
use super::permissions::set_mode;
use super::version::{Condition, change_in_place_if};
use crate::check::{Proof, without_parent};
use crate::dir::{Handle, Rule, split};
use crate::error::{Code, Result};

/// Writes a whole file.
pub(super) fn write(path: &Proof, content: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
    let to = path.destination(options)?;
    if options.is_in_place() && to.old.is_some() {
        return path.write_in_place(content.as_ref(), options);
    }
    let mut file = AtomicFile::begin(path, to, options, NEW_FILE)?;
    #[cfg(unix)]
    if options.in_place == super::options::InPlace::IfOwnerChanges && !file.can_keep_owner()? {
        drop(file);
        return path.write_in_place(content.as_ref(), options);
    }
    file.write_content(content)?;
    file.put_in_place()
}

impl Proof {
    fn write_in_place(&self, content: &[u8], options: WriteOptions) -> Result<()> {
        let (directory, name) = &self.parent_dir()?;
        let condition = Condition::new(self, (directory, name), options.version());
        change_in_place_if(condition, || self.overwrite(content, options.durability))
    }

    /// Overwrites the file before truncating it, so a full disk causes an error only if the new
    /// content is longer than the old.
    fn overwrite(&self, content: &[u8], durability: Durability) -> Result<()> {
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
            if durability != Durability::None {
                file.sync_all()?;
            }
        }
        Ok(())
    }

    /// Opens the directory that contains the last name, and returns it with that name.
    pub(super) fn parent_dir(&self) -> Result<(Handle, OsString)> {
        let (handle, place) = self.place()?;
        let (parent, name) = split(&place).ok_or(Code::RootItself)?;
        Ok((parent_at(&handle, parent, self.roots().policy().mounts)?, name.to_owned()))
    }
}

/// Opens the directory that contains an entry.
pub(super) fn parent_at(handle: &Handle, parent: &Path, mounts: Rule) -> Result<Handle> {
    let opened = handle.dir(parent, mounts);
    opened.map_err(|error| if error.reason() == Code::NotFound { without_parent() } else { error })
}

impl Proof {
    pub(super) fn create_dir(&self) -> Result<()> {
        self.ensure_writable()?;
        self.ensure_not_root()
            .map_err(|error| if self.existed() { Code::AlreadyExists.into() } else { error })?;
        let (directory, name) = self.parent_dir()?;
        self.ensure_not_moved(&directory)?;
        Ok(directory.create_dir(&name)?)
    }

    pub(super) fn create_dir_all(&self) -> Result<()> {
        self.ensure_writable()?;
        if self.root().is_file() {
            return Err(Code::AlreadyExists.into());
        }
        let (handle, place) = self.place()?;
        let mut created = NewDirectories::default();
        let result = self.create_dirs(&handle, &place, 0, &mut created);
        created.keep();
        match result {
            Err(error) if error.reason() == Code::NotADirectory && self.existed() => {
                Err(Code::AlreadyExists.into())
            }
            result => result.map(drop),
        }
    }
}
