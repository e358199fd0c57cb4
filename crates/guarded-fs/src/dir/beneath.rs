//! A path beneath an open directory: [`Beneath`].

use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Handle, Rule, Stat};
use crate::error::Result;

/// A path of plain names beneath an open directory, and whether it may cross mounts.
#[derive(Clone)]
pub(crate) struct Beneath {
    pub(crate) directory: Arc<Handle>,
    pub(crate) path: PathBuf,
    pub(crate) mounts: Rule,
}

impl Beneath {
    pub(crate) fn name(&self) -> &OsStr {
        self.path.as_os_str()
    }

    pub(crate) fn look(&self) -> Result<Stat> {
        self.directory.look(&self.path, self.mounts)
    }

    pub(crate) fn look_in(&self) -> Result<Stat> {
        self.directory.look_in(self.name(), self.mounts)
    }

    pub(crate) fn open(&self) -> Result<File> {
        self.directory.open(&self.path, self.mounts)
    }

    pub(crate) fn dir(&self) -> Result<Handle> {
        self.directory.dir(&self.path, self.mounts)
    }
}
