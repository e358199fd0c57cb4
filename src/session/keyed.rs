//! What clients of the stateless era told, while it counts for their other requests.
//!
//! Goes in: a key that the server gave, and the snapshot of a request that bore it. Comes out: the same for later requests with that key.
//! What is true after: nothing from the wire is a key; of several requests the one that was received last counts, and for a short time; what is
//! kept takes no more than [`CACHE_BYTES`].

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::rmcp::model::Extensions;
use moka::ops::compute::Op;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::limits::CACHE_BYTES;
use crate::roots::Roots;
use crate::session::cache::weight;
use crate::session::runtime::Instant;
use crate::workers::Account;

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
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClientKey(Account);

/// What clients of the stateless era told, by who they are.
pub(crate) struct KeyedCache {
    lists: Cache<ClientKey, List>,
    time_to_live: Duration,
}

/// The last that a client told.
#[derive(Clone)]
struct List {
    /// In the order in which requests were received.
    received: u64,
    until: Instant,
    /// None while it is resolved, and if nothing came of it.
    roots: Option<Roots>,
}

impl ClientKey {
    /// The key of an authenticated principal. An empty name is nobody's, and its key equals no other, itself made anew included.
    #[must_use]
    pub fn principal(name: &str) -> Self {
        if name.is_empty() { Self::connection() } else { Self(Account::Principal(name.into())) }
    }

    /// A key that nobody else has.
    pub(crate) fn connection() -> Self {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        Self(Account::Connection(CONNECTIONS.fetch_add(1, Ordering::Relaxed)))
    }

    /// The key that a request bears: in its own extensions, or in those of its HTTP request.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        #[cfg(feature = "rmcp-http")]
        if let Some(key) = extensions.get::<::http::request::Parts>().and_then(|parts| parts.extensions.get()) {
            return Some(key);
        }
        extensions.get()
    }

    /// Who is charged for what its requests use.
    pub(crate) fn account(&self) -> &Account {
        &self.0
    }

    fn bytes(&self) -> usize {
        match &self.0 {
            Account::Principal(name) => name.len(),
            _ => 0,
        }
    }
}

/// Not who it is: that may be nobody's business where it is printed.
impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

impl KeyedCache {
    pub(crate) fn new(time_to_live: Duration) -> Self {
        let lists = Cache::builder()
            .max_capacity(CACHE_BYTES)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ROOT_LIST_ENTRIES;
    use crate::wire::ListRootsResult;

    #[test]
    fn the_request_that_was_received_last_counts_and_for_its_time() {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, other] = directories.each_ref().map(|directory| Roots::from_dirs([directory.path()]).unwrap());
        let told = KeyedCache::new(Duration::from_secs(2));
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
        let told = KeyedCache { time_to_live: Duration::ZERO, ..told };
        told.begin(&key, 8);
        told.finish(&key, 8, &one);
        assert!(told.of(&key).is_none());
        assert!(ClientKey::principal("") != ClientKey::principal(""));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let list = ListRootsResult::from_uris((0..ROOT_LIST_ENTRIES).map(|number| format!("x://{number}")));
        let roots = Roots::from_list(&list).unwrap();
        let told = KeyedCache::new(Duration::from_secs(60));
        for _ in 0..2 * CACHE_BYTES / u64::from(weight(Some(&roots), 0)) {
            let key = ClientKey::connection();
            told.begin(&key, 1);
            told.finish(&key, 1, &roots);
        }
        told.lists.run_pending_tasks();
        assert!((1..=CACHE_BYTES).contains(&told.lists.weighted_size()), "{}", told.lists.weighted_size());
    }
}
