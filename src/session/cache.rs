//! The cache that owns the snapshots of all clients.
//!
//! A session's entry that is lost for any reason costs one request to the client. A stateless
//! client's costs the requests in which it cannot be asked. The cache holds at most [`CACHE_BYTES`]
//! and evicts the oldest entry first.

use std::sync::Arc;
use std::time::Duration;

use moka::ops::compute::Op;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::account::Account;
use crate::limits::{
    CACHE_BYTES, CACHE_ENTRY_BYTES, CACHE_LIST_ENTRY_BYTES, CACHE_NODE_BYTES, CACHE_ROOT_BYTES,
};
use crate::session::state::Cached;

/// The snapshots of all clients. The key is the session's number or, in the stateless era, the
/// client's key.
pub(crate) struct SnapshotCache(Cache<Account, Arc<Cached>>);

impl SnapshotCache {
    pub(crate) fn new(time_to_live: Duration) -> Self {
        let cache = Cache::builder()
            .max_capacity(CACHE_BYTES)
            .weigher(|_, cached: &Arc<Cached>| weight(cached))
            // moka's default policy (TinyLFU) rejects new entries while the cache is full, so the
            // lists of their clients would be requested each time. Sessions do not read through the
            // cache, so their entries leave in the order in which they came.
            .eviction_policy(EvictionPolicy::lru())
            .time_to_live(time_to_live);
        Self(cache.build())
    }

    pub(crate) fn get(&self, key: &Account) -> Option<Arc<Cached>> {
        self.0.get(key)
    }

    /// Adds or replaces an entry, unless there is one with a later epoch.
    pub(crate) fn replace(&self, key: &Account, cached: Arc<Cached>) {
        self.0.entry_by_ref(key).and_compute_with(|old| match old {
            // Defense: A request that was received earlier does not replace a later list.
            Some(old) if old.value().epoch > cached.epoch => Op::Nop,
            _ => Op::Put(cached),
        });
    }

    /// Replaces an entry by the same list, resolved again, unless the entry has gone or is another.
    pub(crate) fn update(&self, key: &Account, again: Arc<Cached>) {
        self.0.entry_by_ref(key).and_compute_with(|old| match old {
            Some(old) if old.value().epoch == again.epoch => Op::Put(again),
            _ => Op::Nop,
        });
    }

    /// Removes a client's snapshot.
    pub(crate) fn remove(&self, key: &Account) {
        self.0.invalidate(key);
        self.0.run_pending_tasks();
    }

    pub(crate) fn clear(&self) {
        self.0.invalidate_all();
        self.0.run_pending_tasks();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().count()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.weighted_size()
    }
}

/// Estimates the heap memory of an entry, in bytes: the lengths of its strings, plus a constant for
/// each structure. `tests/session/memory.rs` compares it with an allocator's count.
fn weight(cached: &Cached) -> u32 {
    let Cached { roots, list, .. } = cached;
    let listed = list.roots.iter().map(|entry| {
        CACHE_LIST_ENTRY_BYTES + entry.uri.len() + entry.name.as_ref().map_or(0, String::len)
    });
    let resolved = roots.roots().map(|root| {
        let paths = root.paths().map(|path| path.as_os_str().len()).sum::<usize>();
        let texts =
            [&root.name, &root.listed].into_iter().flatten().map(String::len).sum::<usize>();
        CACHE_ROOT_BYTES + paths + root.names.as_os_str().len() + texts
    });
    let rejected = roots.rejected().iter().map(|rejected| CACHE_ROOT_BYTES + rejected.entry.len());
    let bytes = CACHE_ENTRY_BYTES
        + CACHE_NODE_BYTES * roots.index().nodes()
        + listed.chain(resolved).chain(rejected).sum::<usize>();
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::{Boundary, ClientRoots};
    use crate::limits::ROOT_LIST_ENTRIES;
    use crate::roots::Roots;
    use crate::session::runtime::Instant;
    use crate::wire::ListRootsResult;

    const MINUTE: Duration = Duration::from_secs(60);

    fn cached(epoch: u64, list: ListRootsResult, roots: Roots) -> Cached {
        let (list, guard_number, now) = (Arc::new(list), 0, Instant::now());
        Cached { epoch, expires: now + MINUTE, guard_number, list, roots, resolved: now }
    }

    fn listed(list: &ListRootsResult) -> Roots {
        let only = Boundary::without_directories().build().unwrap();
        only.resolve(list).unwrap()
    }

    #[test]
    fn a_later_request_replaces_an_earlier_one() {
        let cache = SnapshotCache::new(MINUTE);
        let (key, stranger) = (Account::Principal(Arc::new("one".to_owned())), Account::Anonymous);
        let epoch = || cache.get(&key).map(|cached| cached.epoch);
        let roots = listed(&ListRootsResult::default());
        let list = |epoch| Arc::new(cached(epoch, ListRootsResult::default(), roots.clone()));
        cache.replace(&key, list(5));
        assert_eq!(epoch(), Some(5));
        assert!(cache.get(&stranger).is_none());
        // A request received earlier but handled later changes nothing.
        cache.replace(&key, list(4));
        assert_eq!(epoch(), Some(5));
        cache.replace(&key, list(6));
        assert_eq!(epoch(), Some(6));
        // A list that was resolved again replaces only itself. A later list that was refused is kept
        // as an expired one, so it counts.
        cache.update(&key, list(5));
        assert_eq!(epoch(), Some(6));
        cache.update(&key, list(6));
        assert_eq!(epoch(), Some(6));
        cache.remove(&key);
        cache.update(&key, list(6));
        assert_eq!(epoch(), None);
    }

    #[test]
    fn total_weight_is_bounded() {
        let uris = (0..ROOT_LIST_ENTRIES).map(|number| format!("x://{number}"));
        let cache = SnapshotCache::new(MINUTE);
        let list = ListRootsResult::from_uris(uris);
        let roots = listed(&list);
        let one = Arc::new(cached(1, list, roots));
        let each = u64::from(weight(&one));
        for number in 0..2 * CACHE_BYTES / each {
            cache.replace(&Account::Connection(number), one.clone());
        }
        cache.0.run_pending_tasks();
        let bytes = cache.bytes();
        assert!((1..=CACHE_BYTES).contains(&bytes), "{bytes}");
        assert_eq!(cache.len() as u64 * each, bytes);
    }
}
