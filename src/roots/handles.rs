//! The directories held open for roots. There are at most [`HANDLES`], each shared by all roots
//! that are the same directory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::dir::{Handle, Identity, Mount};
use crate::limits::HANDLES;
use crate::roots::sharing::WeakTable;
use crate::workers::Account;

/// An open directory, shared by the roots that are this directory in all snapshots.
#[derive(Debug)]
pub(crate) struct Opened {
    handle: Arc<Handle>,
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
        OPENED.get_or_insert(key, || {
            let handle = fresh.clone();
            Some(Arc::new(Self { handle, _permit: Permit::take(account)? }))
        })
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }
}

/// A permit to hold one of [`HANDLES`] directories open in this process.
///
/// The last quarter of the permits is reserved for the allowed directories. A client gets another
/// permit only while it has fewer than twice the number of remaining unreserved permits. The first
/// client gets at most two thirds of them, and the next client at most two thirds of the remainder.
/// A client that lists many directories thus leaves permits for others.
///
/// A directory is charged to the account that first opened it. A directory without a permit is
/// opened on use.
#[derive(Debug)]
struct Permit(Account);

static HELD: LazyLock<Mutex<HashMap<Account, usize>>> = LazyLock::new(Mutex::default);

impl Permit {
    /// Takes a permit, or returns `None` if the account may not take another.
    fn take(account: &Account) -> Option<Self> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = held.values().sum();
        let own = held.get(account).copied().unwrap_or_default();
        // Defense: handles-are-left-for-others
        let is_left = match account {
            Account::Operator => all < HANDLES,
            _ => own < 2 * (HANDLES / 4 * 3).saturating_sub(all),
        };
        is_left.then(|| {
            held.insert(account.clone(), own + 1);
            Self(account.clone())
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get_mut(&self.0) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(held.remove(&self.0)),
        }
    }
}

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
            std::iter::from_fn(|| Permit::take(&account)).collect::<Vec<_>>()
        };
        let clients: Vec<_> = (0..3).map(take).collect();
        assert!(clients.iter().all(|permits| !permits.is_empty() && permits.len() <= HANDLES / 2));
        assert!(Permit::take(&Account::Operator).is_some());
    }
}
