//! The directories held open for roots. There are at most [`HANDLES`], each shared by all roots
//! that are the same directory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

#[cfg(target_os = "linux")]
use crate::dir::Filesystem;
use crate::dir::{Handle, Identity, Mount};
use crate::limits::HANDLES;
use crate::roots::sharing::WeakTable;
use crate::workers::{Account, Permit, Permits};

/// An open directory, shared by the roots that are this directory in all snapshots.
#[derive(Debug)]
pub(crate) struct Opened {
    handle: Arc<Handle>,
    /// `None` if it could not be determined.
    #[cfg(target_os = "linux")]
    filesystem: Option<Filesystem>,
    _permit: Permit,
}

/// Identifies an open directory by the canonical path with which it was opened, its object and its
/// mount.
///
/// While a directory is open, no other directory has the same device, inode and mount numbers. The
/// mount is included because a directory can be mounted over itself, for example read-only. If the
/// kernel does not report mounts, only the path and the identity are compared.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    directory: PathBuf,
    identity: Identity,
    mount: Option<Mount>,
}

static OPENED: LazyLock<WeakTable<Key, Opened>> = LazyLock::new(WeakTable::default);

impl Opened {
    /// Keeps a directory open that was just opened by its canonical path. If the same directory is
    /// already held open, returns that one and closes this one. Returns `None` if no permit is
    /// available to the account.
    pub(crate) fn hold(
        fresh: Handle,
        directory: &Path,
        identity: Identity,
        account: &Account,
    ) -> Option<Arc<Self>> {
        let key = Key { directory: directory.to_owned(), identity, mount: fresh.mount().ok() };
        // Keeps the handle alive until the table's lock is released, because dropping it may close
        // the directory.
        let fresh = Arc::new(fresh);
        #[cfg(target_os = "linux")]
        let filesystem = fresh.filesystem().ok();
        OPENED.get_or_insert(key, || {
            let handle = fresh.clone();
            Some(Arc::new(Self {
                handle,
                #[cfg(target_os = "linux")]
                filesystem,
                _permit: HELD.take(account)?,
            }))
        })
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn filesystem(&self) -> Option<Filesystem> {
        self.filesystem
    }
}

/// The permits to hold a directory open. The last quarter is reserved. A directory is charged to the
/// account that first opened it. A directory without a permit is opened on use.
static HELD: Permits = Permits::new(HANDLES, HANDLES / 4 * 3);

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::events::SessionId;

    /// Other tests in this process may take permits at the same time, so only bounds are asserted.
    #[test]
    fn one_client_leaves_permits_for_the_next() {
        let take = |number| {
            let account = Account::Session(SessionId(NonZeroU64::new(u64::MAX - number).unwrap()));
            std::iter::from_fn(|| HELD.take(&account)).collect::<Vec<_>>()
        };
        let clients: Vec<_> = (0..3).map(take).collect();
        assert!(clients.iter().all(|permits| !permits.is_empty() && permits.len() <= HANDLES / 2));
        assert!(HELD.take(&Account::Operator).is_some());
    }
}
