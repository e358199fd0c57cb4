//! What is kept of clients' snapshots.
//!
//! Goes in: a snapshot, and until when it counts. Comes out: the same, while it does. What is true after: what is kept takes no more
//! than [`KEPT_WEIGHT`]; what a client of the stateless era told is kept under a key that the server gave, and for a short time.

#[cfg(feature = "rmcp")]
use std::fmt;
#[cfg(feature = "rmcp")]
use std::sync::Arc;
#[cfg(feature = "rmcp")]
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "rmcp")]
use std::time::Duration;

#[cfg(feature = "rmcp")]
use moka::ops::compute::Op;
#[cfg(feature = "rmcp")]
use moka::policy::EvictionPolicy;
#[cfg(feature = "rmcp")]
use moka::sync::Cache;

use crate::roots::{Root, Roots, Skipped};
use crate::runtime::Instant;
use crate::wire::RootEntry;

/// A session's snapshot, while it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// The session's epoch in which the list was asked for.
    pub(crate) epoch: u64,
    /// When the list is too old to count.
    pub(crate) until: Instant,
    /// Until when the list is not resolved again for what may be there by now.
    pub(crate) rests: Instant,
    /// Whether an entry was skipped that may be there later; and whether resolving it again failed.
    pub(crate) lacks: bool,
    pub(crate) failed: bool,
    pub(crate) roots: Roots,
}

/// Who a client is, said by the server: an authenticated principal, or a connection that is one client.
///
/// It does two things. In the stateless era (2026-07-28), a list that a client told counts for its other requests too, for
/// [a short time](crate::GuardBuilder::time_to_live_keyed); without a key, each request is asked in. And a session that began with a
/// key serves requests with that key only.
///
/// The server puts it into a request's extensions, before rmcp handles it: over HTTP as an extension of the HTTP request, by the layer that
/// authenticates; on stdio by [`GuardedTransport::one_client`](crate::rmcp::GuardedTransport::one_client). Requests with equal keys share
/// roots, so it must be another for each user, and for each of the programs that one user runs (an access token's client identifier tells
/// them apart). It must not be anything that a client chooses, such as its `mcp-session-id`.
#[cfg(feature = "rmcp")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClientKey(Key);

#[cfg(feature = "rmcp")]
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Principal(Arc<str>),
    Connection(u64),
}

/// What clients of the stateless era told, by who they are.
#[cfg(feature = "rmcp")]
pub(crate) struct Told {
    lists: Cache<ClientKey, List>,
    time_to_live: Duration,
}

/// The last that a client told.
#[cfg(feature = "rmcp")]
#[derive(Clone)]
struct List {
    /// In the order in which requests were received.
    received: u64,
    until: Instant,
    /// None while it is resolved, and if nothing came of it.
    roots: Option<Roots>,
}

#[cfg(feature = "rmcp")]
impl ClientKey {
    /// The key of an authenticated principal. An empty name is nobody's, and its key equals no other, itself made anew included.
    #[must_use]
    pub fn principal(name: &str) -> Self {
        if name.is_empty() { Self::connection() } else { Self(Key::Principal(name.into())) }
    }

    /// A key that nobody else has.
    pub(crate) fn connection() -> Self {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        Self(Key::Connection(CONNECTIONS.fetch_add(1, Ordering::Relaxed)))
    }

    fn bytes(&self) -> usize {
        match &self.0 {
            Key::Principal(name) => name.len(),
            Key::Connection(_) => 0,
        }
    }
}

/// Not who it is: that may be nobody's business where it is printed.
#[cfg(feature = "rmcp")]
impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

#[cfg(feature = "rmcp")]
impl Told {
    pub(crate) fn new(time_to_live: Duration) -> Self {
        let lists = Cache::builder()
            .max_capacity(KEPT_WEIGHT)
            .weigher(|key: &ClientKey, list: &List| weight(list.roots.as_ref(), key.bytes()))
            .eviction_policy(EvictionPolicy::lru())
            .time_to_live(time_to_live)
            .build();
        Self { lists, time_to_live }
    }

    /// A request tells something: what the client told before counts no more, unless that was in a request that was received later.
    pub(crate) fn begin(&self, key: &ClientKey, received: u64) {
        let told = List { received, until: Instant::now() + self.time_to_live, roots: None };
        self.lists.entry_by_ref(key).and_upsert_with(|kept| match kept.map(moka::Entry::into_value) {
            Some(kept) if kept.received > received => kept,
            _ => told,
        });
    }

    /// Keeps what came of it, if it is still the last, and was not forgotten meanwhile. Its time began with it.
    pub(crate) fn finish(&self, key: &ClientKey, received: u64, roots: &Roots) {
        self.lists.entry_by_ref(key).and_compute_with(|kept| match kept.map(moka::Entry::into_value) {
            Some(kept) if kept.received == received => Op::Put(List { roots: Some(roots.clone()), ..kept }),
            _ => Op::Nop,
        });
    }

    /// What a client told in an earlier request, if that counts now.
    pub(crate) fn of(&self, key: &ClientKey) -> Option<Roots> {
        self.lists.get(key).filter(|list| Instant::now() < list.until)?.roots
    }

    /// Forgets what a client told, and closes what only that held.
    pub(crate) fn forget(&self, key: &ClientKey) {
        self.lists.invalidate(key);
        self.lists.run_pending_tasks();
    }

    pub(crate) fn forget_all(&self) {
        self.lists.invalidate_all();
        self.lists.run_pending_tasks();
    }
}

/// About how many KiB a snapshot takes, with so many bytes besides, if nobody shares it.
pub(crate) fn weight(roots: Option<&Roots>, besides: usize) -> u32 {
    let entry = |entry: &RootEntry| entry.uri.len() + entry.name.as_ref().map_or(0, String::len) + 100;
    let listed = |roots: &Roots| roots.list().map_or(0, |list| list.roots.iter().map(entry).sum::<usize>());
    let root = |root: &Root| 500 + root.spellings().map(|path| 4 * path.as_os_str().len()).sum::<usize>();
    let skipped = |skipped: &Skipped| skipped.entry().len() + 300;
    let bytes = |roots: &Roots| {
        listed(roots) + roots.roots().map(root).sum::<usize>() + roots.skipped().iter().map(skipped).sum::<usize>()
    };
    let bytes = besides + roots.map_or(0, bytes);
    u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX)
}

/// How much is kept of sessions' snapshots, in KiB: room for those of [`SESSIONS`](crate::SESSIONS) with a few roots each, or of some fifty
/// clients with the longest list. The least recently used is forgotten first, and asked for again. Each counts as if nobody shared it,
/// since whoever shares it may be gone first; so clients that list a lot cost others a question. As much again for [`ClientKey`]s.
pub(crate) const KEPT_WEIGHT: u64 = 512 * 1024;

/// The default for [`GuardBuilder::time_to_live_keyed`](crate::GuardBuilder::time_to_live_keyed): calls one after the other are asked in once,
/// and what a user withdrew is not served for longer than it takes to notice.
#[cfg(feature = "rmcp")]
pub const TIME_TO_LIVE_KEYED: Duration = Duration::from_secs(5);

/// How much work of handlers a guard does at once; more waits for a place, until its request is cancelled. Half of the threads that tokio has
/// for work that blocks: so slow tools of one client do not keep those of others from having their roots resolved. The places are for all
/// clients, and cancelled work keeps its own until it looks: what takes long should be bounded. Work that waits for other work of the
/// guard's waits for ever once all places are taken so.
#[cfg(feature = "rmcp")]
pub const WORK: usize = 256;

#[cfg(all(test, feature = "rmcp"))]
mod tests {
    use super::*;

    #[test]
    fn the_request_that_was_received_last_counts_and_for_its_time() {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, other] = directories.each_ref().map(|directory| Roots::from_dirs([directory.path()]).unwrap());
        let told = Told::new(Duration::from_secs(2));
        let (key, stranger) = (ClientKey::principal("one"), ClientKey::connection());
        let is = |roots: &Roots| told.of(&key).is_some_and(|kept| kept.is_same_snapshot(roots));
        told.begin(&key, 5);
        assert!(told.of(&key).is_none());
        told.finish(&key, 5, &one);
        assert!(is(&one) && told.of(&stranger).is_none());
        // What was received before it is told late, and counts no more.
        told.begin(&key, 4);
        assert!(is(&one));
        told.finish(&key, 4, &other);
        assert!(is(&one));
        told.begin(&key, 6);
        assert!(told.of(&key).is_none());
        told.finish(&key, 5, &one);
        assert!(told.of(&key).is_none());
        told.finish(&key, 6, &other);
        assert!(is(&other));
        // What was forgotten meanwhile is not kept again.
        told.begin(&key, 7);
        told.forget(&key);
        told.finish(&key, 7, &one);
        assert!(told.of(&key).is_none());
        // Its time is counted from when the request came.
        let told = Told { time_to_live: Duration::ZERO, ..told };
        told.begin(&key, 8);
        told.finish(&key, 8, &one);
        assert!(told.of(&key).is_none());
        assert!(ClientKey::principal("") != ClientKey::principal(""));
    }
}
