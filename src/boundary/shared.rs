//! Snapshots that say the same are one.
//!
//! Goes in: the roots that a session's own list was resolved to. Comes out: the same, or an older snapshot of another session that says the
//! same in every word: the same list, resolved to the same directory objects under the same names. What is true after: ten thousand
//! clients with the same workspace cost one snapshot, and none of them can tell.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError, Weak};

use crate::roots::{Roots, Snapshot};

/// The snapshots that somebody still has, by a hash of what was listed.
#[derive(Default)]
pub(crate) struct SnapshotTable(Mutex<Table>);

#[derive(Default)]
struct Table {
    snapshots: HashMap<u64, Weak<Snapshot>>,
    /// How many there were when those that nobody has were last thrown out.
    alive: usize,
}

impl SnapshotTable {
    /// An older snapshot that says the same, or this one.
    pub(crate) fn share(&self, roots: Roots) -> Roots {
        let key = key(&roots);
        let older = self.with(|table| table.snapshots.get(&key).and_then(Roots::upgrade));
        // Whichever is dropped here may close directories, and so not under the lock.
        match older {
            Some(older) if older.generation() == roots.generation() && older.says_the_same(&roots) => older,
            _ => {
                self.with(|table| table.insert(key, roots.downgrade()));
                roots
            }
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Table) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Table {
    fn insert(&mut self, key: u64, snapshot: Weak<Snapshot>) {
        self.snapshots.insert(key, snapshot);
        if self.snapshots.len() > 2 * self.alive + SOME {
            self.snapshots.retain(|_, snapshot| snapshot.strong_count() > 0);
            self.alive = self.snapshots.len();
        }
    }
}

/// Two lists of one key are compared, so it may be short of what was listed.
fn key(roots: &Roots) -> u64 {
    let mut hasher = DefaultHasher::new();
    for entry in roots.list().iter().flat_map(|list| &list.roots) {
        entry.uri.hash(&mut hasher);
        entry.name.hash(&mut hasher);
    }
    for root in roots.roots() {
        root.path().hash(&mut hasher);
    }
    hasher.finish()
}

/// As many as are not worth a look.
const SOME: usize = 64;
