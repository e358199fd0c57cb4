//! The directories that are held open for roots.
//!
//! Goes in: a directory that was resolved and opened. Comes out: that directory held open, by this handle or by one that this process
//! has already. What is true after: as long as it is held, it is the object that was resolved, and one of at most [`HANDLES`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use crate::beneath::{Handle, Mount};
use crate::metadata::Identity;
use crate::policy::Whose;

/// A directory that is held open for each root that is it, in whatever snapshot.
#[derive(Debug)]
pub(crate) struct Opened {
    handle: Arc<Handle>,
    _permit: Permit,
}

/// What tells one held directory from another: the canonical path by which it was opened, and the object, as it is mounted.
///
/// A held directory keeps its device, inode and mount numbers for itself, so who has the same now is the same. The mount counts since
/// one directory can be mounted over itself, read-only, say; a kernel that does not tell it leaves path and identity.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    directory: PathBuf,
    identity: Identity,
    mount: Option<Mount>,
}

static OPENED: LazyLock<Mutex<HashMap<Key, Weak<Opened>>>> = LazyLock::new(Mutex::default);

impl Opened {
    /// Holds a directory that was just opened by its canonical path, and is not needed if that object is held already: then it is
    /// closed. None when all permits are taken.
    pub(crate) fn hold(fresh: Handle, directory: &Path, identity: Identity, whose: Whose) -> Option<Arc<Self>> {
        let key = Key { directory: directory.to_owned(), identity, mount: fresh.mount().ok() };
        let fresh = Arc::new(fresh);
        // No handle is closed under the lock: `fresh` outlives it, and a held one is handed out.
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = opened.get(&key).and_then(Weak::upgrade) {
            return Some(held);
        }
        let held = Arc::new(Self { handle: fresh.clone(), _permit: Permit::take(whose)? });
        if opened.len() >= 2 * HANDLES {
            opened.retain(|_, held| held.strong_count() > 0);
        }
        opened.insert(key, Arc::downgrade(&held));
        Some(held)
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }
}

/// One of the [`HANDLES`] that this process holds open for roots.
///
/// Clients take none of the last quarter, so some are left for the operator's directories, and one that a client holds already costs
/// the operator none. A client that shares what the operator opened can keep that permit longer than the operator does, as its snapshot
/// keeps the operator's that it was resolved beneath; the worst that comes of it is a directory that is opened on use.
#[derive(Debug)]
struct Permit(());

static HELD: AtomicUsize = AtomicUsize::new(0);

impl Permit {
    /// None when all are taken; some are left for the operator's directories.
    fn take(whose: Whose) -> Option<Self> {
        let limit = if whose == Whose::Operator { HANDLES } else { HANDLES / 4 * 3 };
        let more = |held| (held < limit).then_some(held + 1);
        HELD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Directories that one process holds open for roots; those of further roots are opened on use, and then verified. A quarter of the
/// 1,024 descriptors that a process may commonly have (`RLIMIT_NOFILE`, getrlimit(2)). Equal ones count once.
pub const HANDLES: usize = 256;
