//! A table of values that are shared while they are alive, such as locks.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A table of weak references.
pub(crate) struct WeakTable<K, V>(Mutex<TableEntries<K, V>>);

struct TableEntries<K, V> {
    values: HashMap<K, Weak<V>>,
    /// The number of values that were alive at the last cleanup.
    alive: usize,
}

impl<K, V> Default for WeakTable<K, V> {
    fn default() -> Self {
        Self(Mutex::new(TableEntries { values: HashMap::new(), alive: 0 }))
    }
}

impl<K: Eq + Hash, V> WeakTable<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.with(|entries| entries.values.get(key).and_then(Weak::upgrade))
    }

    /// Returns the value of a key if it is still alive, and otherwise a new one from `make`. The
    /// lock is held during the call, so concurrent callers get the same new value.
    pub(crate) fn get_or_insert(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        self.with(|entries| {
            let alive = entries.values.get(&key).and_then(Weak::upgrade);
            alive.unwrap_or_else(|| {
                let value = Arc::new(make());
                entries.insert(key, &value);
                value
            })
        })
    }

    pub(crate) fn insert(&self, key: K, value: &Arc<V>) {
        self.with(|entries| entries.insert(key, value));
    }

    /// Runs `work` under the lock. `work` must not drop a value, because this could close
    /// directories while the lock is held.
    fn with<T>(&self, work: impl FnOnce(&mut TableEntries<K, V>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: Eq + Hash, V> TableEntries<K, V> {
    fn insert(&mut self, key: K, value: &Arc<V>) {
        self.values.insert(key, Arc::downgrade(value));
        if self.values.len() > 2 * self.alive + CLEANUP_SLACK {
            self.values.retain(|_, value| value.strong_count() > 0);
            self.alive = self.values.len();
        }
    }
}

const CLEANUP_SLACK: usize = 64;
