//! Writing whole files and creating directories.

use std::io::Write as _;

use super::atomic::AtomicFile;
use super::open::NEW_FILE;
use super::options::{Durability, InPlace, WriteOptions};
use super::parents::NewDirectories;
use super::permissions::narrow_mode;
use super::permit::ChangeKind;
use super::version::{Condition, change_in_place_if};
use crate::check::Proof;
use crate::dir::{OpenHow, Stat};
use crate::error::{Code, Result};

/// Writes a whole file.
pub(super) fn write(path: &Proof, content: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
    let Some(mut file) = path.begin_write(options, NEW_FILE)? else {
        let content = content.as_ref();
        return path.change_in_place(options, || path.overwrite(content, options.durability));
    };
    file.write_content(content)?;
    file.put_in_place()
}

impl Proof {
    /// Begins to write a file, which has this mode if it is new. Returns `None` if an existing file
    /// must be overwritten in place.
    pub(super) fn begin_write(
        &self,
        options: WriteOptions,
        mode: u32,
    ) -> Result<Option<AtomicFile>> {
        options.validate()?;
        if options.is_in_place() {
            if let Stat::Other(metadata) = self.permit(ChangeKind::Modify)?.look()? {
                self.roots().policy().allow(&metadata)?;
                return Ok(None);
            }
        }
        let file = AtomicFile::begin(self, options, mode)?;
        let is_kept = options.in_place != InPlace::IfOwnerChanges || file.can_keep_owner()?;
        Ok(Some(file).filter(|_| is_kept))
    }

    /// Runs a change in place, if the file has the version in the options.
    pub(super) fn change_in_place<T>(
        &self,
        options: WriteOptions,
        change: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if options.version().is_none() {
            return change();
        }
        let (directory, name) = &self.parent_dir()?;
        let entry = (directory, name.as_os_str());
        change_in_place_if(Condition::new(self, entry, options.version()), change)
    }

    /// Overwrites the file before truncating it, so a full disk causes an error only if the new
    /// content is longer than the old.
    fn overwrite(&self, content: &[u8], durability: Durability) -> Result<()> {
        let (mut file, metadata) = self.open_to_change(ChangeKind::Overwrite, OpenHow::WRITE)?;
        narrow_mode(&file, &metadata, 0o777)?;
        file.write_all(content)?;
        if metadata.is_file() {
            file.set_len(u64::try_from(content.len()).unwrap_or(u64::MAX))?;
            if durability != Durability::None {
                file.sync_all()?;
            }
        }
        Ok(())
    }

    pub(super) fn create_dir(&self) -> Result<()> {
        self.permit(ChangeKind::CreateDir)?.slot().create_dir()
    }

    pub(super) fn create_dir_all(&self) -> Result<()> {
        self.ensure_writable()?;
        if self.root().is_file() {
            return Err(Code::AlreadyExists.into());
        }
        let mut created = NewDirectories::default();
        let result = self.create_dirs(0, &mut created);
        created.keep();
        match result {
            Err(error) if error.reason() == Code::NotADirectory && self.existed() => {
                Err(Code::AlreadyExists.into())
            }
            result => result.map(drop),
        }
    }
}
