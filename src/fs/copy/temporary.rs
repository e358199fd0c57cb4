//! The temporary directory in which a tree is copied.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::check::CheckedPath;
use crate::dir::{Handle, Identity, Look, Rule, temporary_name};
use crate::error::{Code, Result};
use crate::fs::atomic::Created;
use crate::fs::change::remove_content;
use crate::limits::{NAMES_TRIED, REMOVED_ENTRIES};
use crate::path::protect::Protected;

/// The directory in which a tree is copied. It is removed on drop unless it was renamed.
pub(super) struct TemporaryTree {
    pub(super) parent: Handle,
    pub(super) name: OsString,
    /// The name that the directory will have.
    last_name: OsString,
    pub(super) identity: Identity,
    /// `None` once the directory was renamed on Windows, which does not rename an open directory.
    handle: Option<Handle>,
    /// The parents that were created for the destination, which are removed after the directory.
    pub(super) created: Created,
    is_renamed: bool,
}

impl TemporaryTree {
    pub(super) fn new(created: Created, last_name: OsString, parent: Handle) -> Result<Self> {
        for _ in 0..NAMES_TRIED {
            let name = temporary_name();
            match create_private_dir(&parent, &name) {
                Err(error) if error.reason() == Code::AlreadyExists => {}
                made => {
                    made?;
                    let opened = parent
                        .dir(Path::new(&name), Rule::Refuse)
                        .and_then(|handle| Ok((handle.identity()?, handle)));
                    if opened.is_err() {
                        // For example, no descriptor is left. The caller reports this error.
                        let _ = parent.remove_dir(&name);
                    }
                    let (identity, handle) = opened?;
                    let handle = Some(handle);
                    let is_renamed = false;
                    return Ok(Self {
                        parent,
                        name,
                        last_name,
                        identity,
                        handle,
                        created,
                        is_renamed,
                    });
                }
            }
        }
        Err(Code::AlreadyExists.into())
    }

    /// Opens a directory in the tree. No symlink is followed and no mount is entered.
    pub(super) fn directory(&self, path: &Path) -> Result<Handle> {
        self.handle.as_ref().ok_or(Code::Changed)?.dir(path, Rule::Refuse)
    }

    /// Gives the directory its name, unless that name exists.
    pub(super) fn rename(&mut self, to: &CheckedPath) -> Result<()> {
        if cfg!(windows) {
            self.handle = None;
        }
        to.ensure_not_moved(&self.parent)?;
        match self.parent.look_in(&self.name, Rule::Refuse)? {
            Look::Other(found) if found.identity() == self.identity => {}
            _ => return Err(Code::Changed.into()),
        }
        self.parent.rename(&self.name, &self.parent, &self.last_name, false)?;
        self.is_renamed = true;
        self.created.keep();
        Ok(())
    }
}

impl Drop for TemporaryTree {
    fn drop(&mut self) {
        if self.is_renamed {
            return;
        }
        let handle = self
            .handle
            .take()
            .map_or_else(|| self.parent.dir(Path::new(&self.name), Rule::Refuse), Ok);
        // The caller reports why the copy failed, so an error here is ignored.
        if let Ok(handle) = handle {
            if handle.identity().is_ok_and(|identity| identity == self.identity) {
                let _ = remove_content(&handle, &Protected::default(), REMOVED_ENTRIES);
            }
        }
        let _ = self.parent.remove_dir(&self.name);
    }
}

pub(super) fn create_private_dir(parent: &Handle, name: &OsStr) -> Result<()> {
    #[cfg(unix)]
    return Ok(parent.create_private_dir(name)?);
    #[cfg(not(unix))]
    Ok(parent.create_dir(name)?)
}
