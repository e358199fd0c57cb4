//! Limits the number of child processes, so that a client that starts many leaves some for others.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::account::Account;

/// A limited number of permits to run a child process.
///
/// A client gets another permit only while it has fewer than twice the number of remaining ones.
/// The first client gets at most two thirds of them, and the next client at most two thirds of the
/// remainder. A client that takes many permits thus leaves some for others.
pub(super) struct Permits {
    held: LazyLock<Mutex<HashMap<Account, usize>>>,
    all: usize,
}

/// One of the [`Permits`]. Dropping it returns it.
#[must_use]
pub(super) struct Permit {
    account: Account,
    permits: &'static Permits,
}

impl Permits {
    pub(super) const fn new(all: usize) -> Self {
        Self { held: LazyLock::new(Mutex::default), all }
    }

    /// Takes a permit, or returns `None` if the account may not take another.
    pub(super) fn take(&'static self, account: &Account) -> Option<Permit> {
        let mut held = self.lock();
        let all: usize = held.values().sum();
        let own = held.get(account).copied().unwrap_or_default();
        // No client takes the permits that others need.
        (own < 2 * self.all.saturating_sub(all)).then(|| {
            held.insert(account.clone(), own + 1);
            Permit { account: account.clone(), permits: self }
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Account, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.permits.lock();
        match held.get_mut(&self.account) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(held.remove(&self.account)),
        }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Permit").field(&self.account).finish()
    }
}
