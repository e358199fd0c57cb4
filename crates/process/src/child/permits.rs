//! Limits the number of child processes for each client.

use std::sync::{Mutex, MutexGuard, PoisonError};

use guarded_fs::host::Scope;

use crate::limits::CHILDREN;

/// For each running program, the share of its client.
static RUNNING: Mutex<Vec<Box<str>>> = Mutex::new(Vec::new());

/// A permit to run a child process, until it is dropped.
///
/// A client gets another permit only while it has fewer than twice the number of remaining ones:
/// the first client at most two thirds of all, and the next one at most two thirds of the rest.
#[must_use]
pub(super) struct ChildPermit(Box<str>);

impl ChildPermit {
    pub(super) fn take(scope: Option<&dyn Scope>) -> Option<Self> {
        let share = scope.map_or("", Scope::share);
        let mut running = lock();
        let own = running.iter().filter(|other| other.as_ref() == share).count();
        // No client takes the permits that others need.
        (own < 2 * CHILDREN.saturating_sub(running.len())).then(|| {
            running.push(share.into());
            Self(share.into())
        })
    }
}

impl Drop for ChildPermit {
    fn drop(&mut self) {
        let mut running = lock();
        if let Some(index) = running.iter().position(|share| *share == self.0) {
            running.swap_remove(index);
        }
    }
}

fn lock() -> MutexGuard<'static, Vec<Box<str>>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
