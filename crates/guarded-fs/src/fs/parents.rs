//! Creating the missing directories on a path.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::permit::{ChangeKind, ChangePermit};
use crate::check::Proof;
#[cfg(target_os = "linux")]
use crate::dir::is_proc;
use crate::dir::{Beneath, Handle, Identity, Rule};
use crate::error::{Code, Error, Result};
use crate::roots::Presence;

impl Proof {
    pub(super) fn permit_with_parents(
        &self,
        kind: ChangeKind,
        created: &mut NewDirectories,
    ) -> Result<ChangePermit<'_>> {
        self.ensure_may_change(kind)?;
        self.ensure_may_be_put(kind)?;
        self.permit_at(kind, self.create_dirs(1, created)?, Some(1))
    }

    /// Creates missing directories on the path to the one `above` names above the place.
    /// Returns the last one, with the rest of the path. `created` receives the new ones, also if an
    /// error follows.
    pub(super) fn create_dirs(
        &self,
        above: usize,
        created: &mut NewDirectories,
    ) -> Result<Beneath> {
        let (Beneath { mut directory, path, mounts }, missing) = self.last_present(above)?;
        let mut names = path.iter();
        for (name, missing) in names.by_ref().take(missing).zip((1..=missing).rev()) {
            let at = Beneath { directory, path: name.into(), mounts };
            let permit = self.permit_parent(at, above + missing);
            let (child, identity) = permit.open_or_create()?;
            created.add(&permit.at().directory, name, identity);
            directory = Arc::new(child);
        }
        Ok(Beneath { directory, path: names.collect(), mounts })
    }

    /// Opens the last directory that exists on the path to the one `above` names above the place.
    /// Returns it with the rest of the path, and how many of its directories are missing.
    pub(super) fn last_present(&self, above: usize) -> Result<(Beneath, usize)> {
        let Beneath { directory: base, path: place, mounts } = self.place()?;
        let mut missing = match self.found() {
            Presence::Missing(missing) => missing.saturating_sub(above),
            Presence::Exists | Presence::Link => 0,
        };
        let (present, directory) = loop {
            let present = place.ancestors().nth(above + missing).ok_or(Code::RootItself)?;
            match base.dir(present, mounts) {
                Err(error)
                    if error.reason() == Code::NotFound && !present.as_os_str().is_empty() =>
                {
                    missing += 1;
                }
                opened => break (present, Arc::new(opened.map_err(is_removed)?)),
            }
        };
        // A root's own names are never created.
        let canonical = self.canonical();
        let first = canonical.ancestors().nth((above + missing).saturating_sub(1));
        if missing > 0 && first.is_some_and(|first| self.holds_root(first)) {
            return Err(Code::RootItself.into());
        }
        let path = place.iter().skip(present.iter().count()).collect();
        Ok((Beneath { directory, path, mounts }, missing))
    }
}

impl ChangePermit<'_> {
    fn open_or_create(&self) -> Result<(Handle, Option<Identity>)> {
        self.slot().open_or_create_dir().map_err(|error| {
            // Only a proc filesystem has no new names.
            #[cfg(target_os = "linux")]
            if error.reason() == Code::NotFound && is_proc(&self.at().directory).unwrap_or(false) {
                return error;
            }
            is_removed(error)
        })
    }
}

/// Another process can have removed a directory to which its name still leads for a moment.
fn is_removed(error: Error) -> Error {
    if error.reason() == Code::NotFound { Code::Changed.into() } else { error }
}

/// Directories created for a file, removed on drop, deepest first, unless they are kept or not
/// empty.
#[derive(Default)]
pub(super) struct NewDirectories {
    /// The directory in which the first one was created.
    base: Option<Arc<Handle>>,
    /// The path of the last one beneath `base`.
    path: PathBuf,
    /// Of each name in `path`. `None` for a directory that another process created.
    identities: Vec<Option<Identity>>,
}

impl NewDirectories {
    fn add(&mut self, parent: &Arc<Handle>, name: &OsStr, identity: Option<Identity>) {
        if self.base.is_none() && identity.is_none() {
            return;
        }
        self.base.get_or_insert_with(|| Arc::clone(parent));
        self.path.push(name);
        self.identities.push(identity);
    }

    pub(super) fn keep(&mut self) {
        self.base = None;
    }

    /// Syncs the directories that contain the created ones, as far as the system supports that.
    pub(super) fn sync(&self) -> Result<()> {
        for parent in self.path.ancestors().skip(1) {
            let Some(base) = &self.base else { break };
            let opened = base.dir(parent, Rule::Allow).and_then(|it| Ok(it.open_to_sync()?));
            match opened {
                // Another process has moved or removed it.
                Err(error) if error.reason().is_replaced() => {}
                opened => Handle::sync(opened?)?,
            }
        }
        Ok(())
    }
}

impl Drop for NewDirectories {
    fn drop(&mut self) {
        let Some(base) = self.base.take() else { return };
        for (path, identity) in self.path.ancestors().zip(self.identities.iter().rev()) {
            if let Some(identity) = identity {
                // The caller reports why the write failed, so an error here is ignored.
                let _ = base.remove_created_dir(path, *identity);
            }
        }
    }
}
