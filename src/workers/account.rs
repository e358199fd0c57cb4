//! Accounts for resources that are shared by all clients.
//!
//! Slots and child processes are limited for each account, so that a client that exhausts its share
//! affects only itself.

use std::collections::HashMap;
#[cfg(feature = "rmcp")]
use std::sync::Arc;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::events::SessionId;

/// The party that is charged for a job or a child process: a client, or the server's own
/// configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Account {
    /// The server's own configuration.
    Operator,
    /// An authenticated principal.
    #[cfg(feature = "rmcp")]
    Principal(Arc<str>),
    /// A connection that belongs to a single client.
    #[cfg(feature = "rmcp")]
    Connection(u64),
    /// A session of a client without a key.
    Session(SessionId),
    /// All other callers: stateless requests without a key, and
    /// [`Boundary::resolve`](crate::Boundary::resolve).
    Anonymous,
}

impl Account {
    /// Whether this is a connection that belongs to a single client.
    pub(crate) const fn is_connection(&self) -> bool {
        match self {
            #[cfg(feature = "rmcp")]
            Self::Connection(_) => true,
            _ => false,
        }
    }
}

/// A limited number of permits, for example to run a child process.
///
/// Some permits can be reserved for the server's own configuration. A client gets another permit
/// only while it has fewer than twice the number of remaining unreserved permits. The first client
/// gets at most two thirds of them, and the next client at most two thirds of the remainder. A
/// client that takes many permits thus leaves some for others.
pub(crate) struct Permits {
    held: LazyLock<Mutex<HashMap<Account, usize>>>,
    all: usize,
    /// The number that is not reserved.
    unreserved: usize,
}

/// One of the [`Permits`]. Dropping it returns it.
#[must_use]
pub(crate) struct Permit {
    account: Account,
    permits: &'static Permits,
}

impl Permits {
    pub(crate) const fn new(all: usize, unreserved: usize) -> Self {
        Self { held: LazyLock::new(Mutex::default), all, unreserved }
    }

    /// Takes a permit, or returns `None` if the account may not take another.
    pub(crate) fn take(&'static self, account: &Account) -> Option<Permit> {
        let mut held = self.lock();
        let all: usize = held.values().sum();
        let own = held.get(account).copied().unwrap_or_default();
        // No client takes the permits that others need.
        let is_left = match account {
            Account::Operator => all < self.all,
            _ => own < 2 * self.unreserved.saturating_sub(all),
        };
        is_left.then(|| {
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
