//! The directories that are held open for roots.
//!
//! Goes in: a directory that was resolved and opened. Comes out: that directory held open, by this handle or by one that this process
//! has already. What is true after: as long as it is held, it is the object that was resolved, and one of at most [`HANDLES`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use crate::dir::{Handle, Identity, Mount};
use crate::limits::HANDLES;
use crate::workers::Account;

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
    pub(crate) fn hold(fresh: Handle, directory: &Path, identity: Identity, account: &Account) -> Option<Arc<Self>> {
        let key = Key { directory: directory.to_owned(), identity, mount: fresh.mount().ok() };
        let fresh = Arc::new(fresh);
        // No handle is closed under the lock: `fresh` outlives it, and a held one is handed out.
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = opened.get(&key).and_then(Weak::upgrade) {
            return Some(held);
        }
        let held = Arc::new(Self { handle: fresh.clone(), _permit: Permit::take(account)? });
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
/// Clients take none of the last quarter, so some are left for the allowed directories. Of the rest
/// a client takes one more only while it has fewer than twice as many as are left: the first takes two
/// thirds of them at most, the next two thirds of what remains. So a client that lists many directories
/// leaves some for others.
///
/// A directory is charged to whoever opened it first. The worst that comes of not getting a permit is a
/// directory that is opened on use.
#[derive(Debug)]
struct Permit(Account);

static HELD: LazyLock<Mutex<HashMap<Account, usize>>> = LazyLock::new(Mutex::default);

impl Permit {
    /// `None` when all are taken that the account may have.
    fn take(account: &Account) -> Option<Self> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = held.values().sum();
        let own = held.get(account).copied().unwrap_or_default();
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

    /// Other tests of this process take some at the same time.
    #[test]
    fn one_client_leaves_some_for_the_next() {
        let take = |number| {
            let account = Account::Session(SessionId(NonZeroU64::new(u64::MAX - number).unwrap()));
            std::iter::from_fn(|| Permit::take(&account)).collect::<Vec<_>>()
        };
        let clients: Vec<_> = (0..3).map(take).collect();
        assert!(clients.iter().all(|permits| !permits.is_empty() && permits.len() <= HANDLES / 2));
        assert!(Permit::take(&Account::Operator).is_some());
    }
}
