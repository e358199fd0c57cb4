//! Limits the number of child processes, so that a client that starts many leaves some for others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::account::Account;
use crate::limits::CHILDREN;

/// For each running program, the account of the client that started it.
static RUNNING: Mutex<Vec<Account>> = Mutex::new(Vec::new());

/// A permit to run a child process. Dropping it returns it.
///
/// A client gets another permit only while it has fewer than twice the number of remaining ones.
/// The first client gets at most two thirds of them, and the next client at most two thirds of the
/// remainder. A client that takes many permits thus leaves some for others.
#[must_use]
pub(super) struct Permit(Account);

impl Permit {
    /// Takes a permit, or returns `None` if the account may not take another.
    pub(super) fn take(account: &Account) -> Option<Self> {
        let mut running = lock();
        let own = running.iter().filter(|other| *other == account).count();
        // No client takes the permits that others need.
        (own < 2 * CHILDREN.saturating_sub(running.len())).then(|| {
            running.push(account.clone());
            Self(account.clone())
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut running = lock();
        if let Some(index) = running.iter().position(|account| *account == self.0) {
            running.swap_remove(index);
        }
    }
}

fn lock() -> MutexGuard<'static, Vec<Account>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
