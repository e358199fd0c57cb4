//! The cache that owns the snapshots of all clients. An entry that is lost for any reason costs one
//! request to the client.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::limits::{CACHE_BYTES, CACHE_ENTRY_BYTES};
use crate::session::state::CacheEntry;
use crate::wire::RootEntry;

pub(crate) struct SnapshotCache(Cache<NonZeroU64, Arc<CacheEntry>>);

impl SnapshotCache {
    pub(crate) fn new(time_to_live: Duration) -> Self {
        let cache = Cache::builder()
            .max_capacity(CACHE_BYTES)
            .weigher(|_, cached: &Arc<CacheEntry>| weight(cached))
            // moka's default policy (TinyLFU) rejects new entries while the cache is full, so the
            // lists of their clients would be requested each time. Sessions do not read through the
            // cache, so their entries leave in the order in which they came.
            .eviction_policy(EvictionPolicy::lru())
            .time_to_live(time_to_live);
        Self(cache.build())
    }

    pub(crate) fn insert(&self, session: NonZeroU64, cached: Arc<CacheEntry>) {
        self.0.insert(session, cached);
    }

    pub(crate) fn remove(&self, session: NonZeroU64) {
        self.0.invalidate(&session);
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

/// Estimates the heap memory of an entry, in bytes. `tests/session/memory.rs` compares it with an
/// allocator's count.
fn weight(cached: &CacheEntry) -> u32 {
    let CacheEntry { resolved, list, .. } = cached;
    let listed = list.roots.iter().map(|entry| {
        size_of::<RootEntry>() + entry.uri.len() + entry.name.as_ref().map_or(0, String::len)
    });
    let bytes = CACHE_ENTRY_BYTES + resolved.weight + listed.sum::<usize>();
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ROOT_LIST_ENTRIES;
    use crate::session::Guard;
    use crate::session::epoch::Epoch;
    use crate::wire::ListRootsResult;
    use guarded_fs::{Boundary, host};

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn total_weight_is_bounded() {
        let uris = (0..ROOT_LIST_ENTRIES).map(|number| format!("x://{number}"));
        let cache = SnapshotCache::new(MINUTE);
        let list = Arc::new(ListRootsResult::from_uris(uris));
        let boundary = Boundary::any_listed().build().unwrap();
        let resolved = host::narrow(&boundary, &list.roots, &|| false).unwrap();
        let as_of = Guard::new(boundary).current();
        let epoch = Arc::new(Epoch::new(NonZeroU64::MIN, "".into()));
        let one = CacheEntry { epoch, expires: as_of.now + MINUTE, list, resolved, as_of };
        let (each, one) = (u64::from(weight(&one)), Arc::new(one));
        for _ in 0..2 * CACHE_BYTES / each {
            cache.insert(Guard::next_session_id(), one.clone());
        }
        cache.0.run_pending_tasks();
        let bytes = cache.bytes();
        assert!((1..=CACHE_BYTES).contains(&bytes), "{bytes}");
        assert_eq!(cache.len() as u64 * each, bytes);
    }
}
