//! The cache of clients' snapshots, and the memory that each snapshot uses.
//!
//! The cache makes no decisions: an entry lost for any reason costs one request to the client. It
//! uses at most [`CACHE_BYTES`] and evicts the least recently used entry first.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(feature = "tracing")]
use moka::notification::RemovalCause;
#[cfg(feature = "rmcp")]
use moka::ops::compute::Op;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::boundary::Boundary;
use crate::limits::{CACHE_BYTES, CACHE_ENTRY_BYTES, LINKED_LIST, VERIFY_EVERY};
use crate::roots::{RejectedRoot, Root, Roots, Snapshot};
use crate::session::runtime::{Instant, schedule_point};
use crate::wire::{ListRootsResult, RootEntry};
use crate::workers::Account;

/// The snapshots of all clients. The key is the session's number or, in the stateless era, the
/// client's key.
pub(crate) struct SnapshotCache {
    map: Cache<Account, Arc<Cached>>,
    /// How often a session that uses its snapshot reports this to the cache.
    touch_every: Duration,
}

/// A cached snapshot.
#[derive(Debug)]
pub(crate) struct Cached {
    /// The session's epoch in which the list was requested. In the stateless era, the number of the
    /// request that carried the list.
    pub(crate) epoch: u64,
    /// The time at which the list expires.
    pub(crate) until: Instant,
    pub(crate) roots: Roots,
    /// The list, which is resolved again if it may give other roots.
    pub(crate) list: Arc<ListRootsResult>,
    resolved: Instant,
    /// Set by [`SnapshotCache::forget_all`].
    forgotten: AtomicBool,
}

impl Cached {
    /// A list that was resolved just now.
    pub(crate) fn new(
        epoch: u64,
        until: Instant,
        roots: Roots,
        list: Arc<ListRootsResult>,
    ) -> Self {
        let (resolved, forgotten) = (Instant::now(), AtomicBool::new(false));
        Self { epoch, until, roots, list, resolved, forgotten }
    }

    pub(crate) fn is_current(&self, now: Instant) -> bool {
        now < self.until && !self.forgotten.load(Ordering::Relaxed)
    }

    /// Whether resolving the list again could give other roots: the allowed directories are others,
    /// or the filesystem decided about an entry more than [`LINKED_LIST`] ago.
    pub(crate) fn must_resolve(&self, boundary: &Boundary, now: Instant) -> bool {
        !boundary.is_current(&self.roots)
            || self.roots.is_provisional() && now >= self.resolved + LINKED_LIST
    }
}

impl SnapshotCache {
    pub(crate) fn new(time_to_live: Duration, time_to_idle: Duration) -> Self {
        let cache = Cache::builder()
            .max_capacity(CACHE_BYTES)
            .weigher(|key: &Account, cached: &Arc<Cached>| weight(key, cached))
            // moka's default policy (TinyLFU) rejects new entries while the cache is full, so the
            // lists of their clients would be requested each time.
            .eviction_policy(EvictionPolicy::lru())
            .time_to_live(time_to_live)
            .time_to_idle(time_to_idle);
        #[cfg(feature = "tracing")]
        let cache = cache.eviction_listener(|key: Arc<Account>, _, cause| match *key {
            Account::Session(session) if cause.was_evicted() => {
                crate::events::evicted(
                    session,
                    if cause == RemovalCause::Size { "size" } else { "time" },
                );
            }
            _ => {}
        });
        Self { map: cache.build(), touch_every: VERIFY_EVERY.min(time_to_idle / 4) }
    }

    pub(crate) fn touch_every(&self) -> Duration {
        self.touch_every
    }

    /// Marks a client's snapshot as used. Returns false if there is none.
    pub(crate) fn touch(&self, key: &Account) -> bool {
        schedule_point();
        self.map.get(key).is_some()
    }

    #[cfg(feature = "rmcp")]
    pub(crate) fn get(&self, key: &Account) -> Option<Arc<Cached>> {
        self.map.get(key).filter(|cached| cached.is_current(Instant::now()))
    }

    pub(crate) fn insert(&self, key: Account, cached: Arc<Cached>) {
        schedule_point();
        self.map.insert(key, cached);
    }

    /// Like [`insert`](Self::insert), but does nothing if the entry has a later epoch.
    #[cfg(feature = "rmcp")]
    pub(crate) fn insert_newer(&self, key: &Account, cached: Arc<Cached>) {
        self.map.entry_by_ref(key).and_compute_with(|old| match old {
            Some(old) if old.value().epoch > cached.epoch => Op::Nop,
            _ => Op::Put(cached),
        });
    }

    /// Replaces the entry only if it has the same epoch.
    #[cfg(feature = "rmcp")]
    pub(crate) fn replace(&self, key: &Account, cached: Arc<Cached>) {
        self.map.entry_by_ref(key).and_compute_with(|old| match old {
            Some(old) if old.value().epoch == cached.epoch => Op::Put(cached),
            _ => Op::Nop,
        });
    }

    /// Removes a client's snapshot.
    pub(crate) fn forget(&self, key: &Account) {
        schedule_point();
        self.map.invalidate(key);
        self.map.run_pending_tasks();
    }

    pub(crate) fn forget_all(&self) {
        for (key, cached) in &self.map {
            schedule_point();
            cached.forgotten.store(true, Ordering::Relaxed);
            self.map.invalidate(&*key);
        }
        self.map.run_pending_tasks();
    }

    pub(crate) fn len(&self) -> usize {
        self.map.iter().count()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.map.weighted_size()
    }
}

/// The estimated heap size in bytes of a snapshot and its cache entry, assuming no sharing.
///
/// The estimate is derived from the sizes and capacities of the parts. `tests/session/memory.rs`
/// compares it with an allocator's count.
fn weight(key: &Account, cached: &Cached) -> u32 {
    let name = match key {
        #[cfg(feature = "rmcp")]
        Account::Principal(name) => name.len(),
        _ => 0,
    };
    let bytes = CACHE_ENTRY_BYTES + arc_size::<Cached>() + name + heap(cached);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn heap(cached: &Cached) -> usize {
    let Cached { roots, list, .. } = cached;
    let rejected = |rejected: &RejectedRoot| {
        size_of::<RejectedRoot>() + rejected.entry.capacity() + rejected.error.heap()
    };
    let text =
        |entry: &RootEntry| entry.uri.capacity() + entry.name.as_ref().map_or(0, String::capacity);
    let entry = |entry: &RootEntry| size_of::<RootEntry>() + text(entry);
    let room = list.roots.capacity().saturating_sub(list.roots.len());
    arc_size::<Snapshot>()
        + roots.roots().map(root_heap).sum::<usize>()
        + roots.index().heap()
        + roots.rejected().iter().map(rejected).sum::<usize>()
        + arc_size::<ListRootsResult>()
        + room * size_of::<RootEntry>()
        + list.roots.iter().map(entry).sum::<usize>()
}

fn root_heap(root: &Root) -> usize {
    let alias = |path: &PathBuf| size_of::<PathBuf>() + path.capacity();
    // The snapshot stores its roots as a list of `Arc`s.
    size_of::<Arc<Root>>()
        + arc_size::<Root>()
        + root.canonical.capacity()
        + root.protected.heap()
        + root.aliases.iter().map(alias).sum::<usize>()
        + root.name.as_ref().map_or(0, String::capacity)
        + root.listed.as_ref().map_or(0, String::capacity)
        + root.names.capacity()
}

/// The size of an `Arc`'s allocation: the value and two counters.
const fn arc_size<T>() -> usize {
    2 * size_of::<usize>() + size_of::<T>()
}

#[cfg(all(test, feature = "rmcp"))]
mod tests {
    use super::*;
    use crate::limits::ROOT_LIST_ENTRIES;
    use crate::session::ClientKey;

    fn cache() -> SnapshotCache {
        SnapshotCache::new(Duration::from_secs(60), Duration::from_secs(60))
    }

    fn cached(epoch: u64, time: Duration, roots: &Roots) -> Arc<Cached> {
        Arc::new(Cached::new(epoch, Instant::now() + time, roots.clone(), Arc::default()))
    }

    #[test]
    fn a_later_request_replaces_an_earlier_one_until_it_expires() {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, other] =
            directories.each_ref().map(|directory| Roots::from_dirs([directory.path()]).unwrap());
        let cache = cache();
        let (key, stranger) =
            (ClientKey::principal("one").account().clone(), ClientKey::connection());
        let is = |roots: &Roots| {
            cache.get(&key).is_some_and(|cached| cached.roots.is_same_snapshot(roots))
        };
        let begin =
            |epoch| cache.insert_newer(&key, cached(epoch, Duration::ZERO, &Roots::empty()));
        let finish =
            |epoch, roots| cache.replace(&key, cached(epoch, Duration::from_secs(2), roots));
        begin(5);
        assert!(cache.get(&key).is_none());
        finish(5, &one);
        assert!(is(&one) && cache.get(stranger.account()).is_none());
        // A request received earlier but handled later is ignored.
        begin(4);
        assert!(is(&one));
        finish(4, &other);
        assert!(is(&one));
        begin(6);
        assert!(cache.get(&key).is_none());
        finish(5, &one);
        assert!(cache.get(&key).is_none());
        finish(6, &other);
        assert!(is(&other));
        // An entry that was removed meanwhile is not cached again.
        begin(7);
        cache.forget(&key);
        finish(7, &one);
        assert!(cache.get(&key).is_none());
        begin(8);
        cache.replace(&key, cached(8, Duration::ZERO, &one));
        assert!(cache.get(&key).is_none(), "the entry has expired");
    }

    #[test]
    fn total_weight_is_bounded() {
        let list = ListRootsResult::from_uris(
            (0..ROOT_LIST_ENTRIES).map(|number| format!("x://{number}")),
        );
        let roots = Roots::from_list(&list).unwrap();
        let cache = cache();
        let one = cached(1, Duration::from_secs(60), &roots);
        let each = u64::from(weight(&Account::Anonymous, &one));
        for _ in 0..2 * CACHE_BYTES / each {
            cache.insert(
                ClientKey::connection().account().clone(),
                cached(1, Duration::from_secs(60), &roots),
            );
        }
        cache.map.run_pending_tasks();
        let bytes = cache.bytes();
        assert!((1..=CACHE_BYTES).contains(&bytes), "{bytes}");
        assert_eq!(cache.len() as u64 * each, bytes);
    }
}
