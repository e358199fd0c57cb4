//! An allowed directory: its canonical path and a cached handle.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::dir::{Handle, Identity, Rule};
use crate::error::{Code, Error, Result};
use crate::roots::throttle::{Throttle, Turn};

/// A directory that the operator's configuration allows, or the filesystem root or a volume if it
/// allows none.
///
/// Each operation needs one, so its handle is cached. The path is opened again, without following a
/// symlink, after an operation has failed, and when the directory is used and
/// [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY) has passed. The handle then leads to what has the
/// name now: another directory after a deployment, or nothing.
#[derive(Debug)]
pub(crate) struct AllowedDirectory {
    /// The filesystem root, or the volume on Windows.
    top: Arc<Handle>,
    /// The path from `top`, of plain names.
    path: PathBuf,
    /// The number of names in the configured path, which for a single file is longer than this
    /// directory's. Patterns do not protect these names.
    pub(crate) consented: usize,
    /// `None` while the directory is missing.
    current: Mutex<Option<CurrentHandle>>,
    opened: Throttle,
}

#[derive(Clone, Debug)]
struct CurrentHandle {
    handle: Arc<Handle>,
    identity: Identity,
}

impl AllowedDirectory {
    /// The filesystem root or a volume, which is opened once.
    pub(crate) fn at_top(top: Handle, consented: usize) -> Result<Arc<Self>> {
        let identity = top.identity()?;
        let top = Arc::new(top);
        let current = Mutex::new(Some(CurrentHandle { handle: top.clone(), identity }));
        let (path, opened) = (PathBuf::new(), Throttle::new());
        Ok(Arc::new(Self { top, path, consented, current, opened }))
    }

    /// A directory at a path of plain names below this filesystem root or volume.
    pub(crate) fn below(&self, path: &Path, consented: usize) -> Result<Arc<Self>> {
        let (top, path) = (self.top.clone(), path.to_owned());
        let current = Mutex::new(Some(CurrentHandle::open(&top, &path)?));
        Ok(Arc::new(Self { top, path, consented, current, opened: Throttle::new() }))
    }

    /// The handle of the directory that has the name, or had it at most
    /// [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY) ago. Fails with `RootUnavailable` if no
    /// directory has it, or if opening it has taken more than [`OPENING`](crate::limits::OPENING),
    /// for example on a network filesystem that hangs: then only one caller waits.
    pub(crate) fn handle(&self) -> Result<Arc<Handle>> {
        if self.is_top() {
            return Ok(self.top.clone());
        }
        if let Some(turn) = self.opened.take() {
            self.open_again(turn);
        } else if self.opened.is_stalled() {
            return Err(
                Error::from(Code::RootUnavailable).with_text("the filesystem does not answer")
            );
        }
        self.current().map(|current| current.handle).ok_or_else(|| Code::RootUnavailable.into())
    }

    /// Opens the path again, unless another caller does. Returns whether there is a directory.
    pub(crate) fn is_there(&self) -> bool {
        if self.is_top() {
            return true;
        }
        if let Some(turn) = self.opened.take_early() {
            self.open_again(turn);
        }
        !self.opened.is_stalled() && self.current().is_some()
    }

    fn open_again(&self, _turn: Turn) {
        let current = match CurrentHandle::open(&self.top, &self.path) {
            Ok(current) => Some(current),
            Err(error) if is_missing(&error) => None,
            // It cannot be opened now, for example because no descriptor is free.
            Err(_) => return,
        };
        // The previous handle is closed after the lock is released.
        let _previous = std::mem::replace(&mut *self.lock(), current);
    }

    /// The identity when it was last opened.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.lock().as_ref().map(|current| current.identity)
    }

    pub(crate) fn is_top(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    pub(crate) fn top_and_path(&self) -> (&Handle, &Path) {
        (&self.top, &self.path)
    }

    fn current(&self) -> Option<CurrentHandle> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<CurrentHandle>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CurrentHandle {
    fn open(top: &Handle, path: &Path) -> Result<Self> {
        let handle = top.dir(path, Rule::Allow)?;
        Ok(Self { identity: handle.identity()?, handle: Arc::new(handle) })
    }
}

/// Whether a root's name leads to no directory, runs through a symlink, or cannot be entered.
pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(
        error.reason(),
        Code::NotFound
            | Code::NotADirectory
            | Code::PermissionDenied
            | Code::MountCrossing
            | Code::Changed
            | Code::TooLong
            | Code::RootUnavailable
    )
}
