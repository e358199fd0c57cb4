//! A table of values that are shared while alive, such as locks.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub(crate) struct WeakTable<K, V>(Mutex<HashMap<K, Weak<V>>>);

impl<K, V> Default for WeakTable<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V> WeakTable<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.lock().get(key).and_then(Weak::upgrade)
    }

    /// Returns the living value of a key, or a new one from `make`, which is called under the lock,
    /// so that concurrent callers get the same.
    pub(crate) fn get_or_insert(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        let mut values = self.lock();
        values.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let value = Arc::new(make());
            insert(&mut values, key, &value);
            value
        })
    }

    pub(crate) fn insert(&self, key: K, value: &Arc<V>) {
        insert(&mut self.lock(), key, value);
    }

    /// No value may be dropped while locked, because that could close directories.
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Weak<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn insert<K: Eq + Hash, V>(values: &mut HashMap<K, Weak<V>>, key: K, value: &Arc<V>) {
    // Values that are no longer alive are forgotten before the table grows.
    if values.len() == values.capacity() {
        values.retain(|_, value| value.strong_count() > 0);
        let alive = values.len();
        values.shrink_to(2 * alive);
        values.reserve(alive + 1);
    }
    values.insert(key, Arc::downgrade(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_gone_are_forgotten() {
        let table = WeakTable::default();
        let kept: Vec<_> = (0..10).map(|key| table.get_or_insert(key, || key)).collect();
        for key in 10..100_000 {
            assert_eq!(*table.get_or_insert(key, || key), key);
        }
        assert!(table.lock().len() < 100, "{}", table.lock().len());
        assert!(table.lock().capacity() < 100, "{}", table.lock().capacity());
        assert!(kept.iter().all(|kept| table.get(kept).is_some_and(|it| Arc::ptr_eq(&it, kept))));
    }
}
