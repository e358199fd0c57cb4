//! The state of a session: one small [`State`] under one lock.
//!
//! Each of the eight transitions in the table of ARCHITECTURE.md is in a method here. The lock is
//! held only for a few steps, and never during I/O, across an await or while a snapshot is dropped.

use std::sync::{Arc, Weak};

use guarded_fs::host::{ResolvedRoots, Scope as _};
use guarded_fs::{Error, ErrorKind, Result};
use tokio::sync::SetOnce;

use crate::limits::{BACK_OFF, BACK_OFF_MOST, STALLED, SYMLINKED_LIST_TTL};
use crate::session::epoch::Epoch;
use crate::session::errors::roots_timed_out;
use crate::session::runtime::{Instant, timeout_at};
use crate::wire::ListRootsResult;

/// A client's list, and the snapshot that it was resolved to.
#[derive(Debug)]
pub(crate) struct CacheEntry {
    /// The session's epoch in which the list was requested.
    pub(crate) epoch: Arc<Epoch>,
    pub(crate) expires: Instant,
    pub(crate) list: Arc<ListRootsResult>,
    pub(crate) resolved: ResolvedRoots,
    /// The guard's invalidations when the list was requested, and the time at which it began to be
    /// resolved.
    pub(crate) as_of: Current,
}

/// What a cached snapshot is compared with when a call begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    pub(crate) now: Instant,
    /// The boundary's generation.
    pub(crate) generation: u64,
    pub(crate) invalidations: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    /// It may serve a new call.
    Valid,
    /// Its list may give other roots now. The client is not asked.
    ResolveAgain,
    /// The client must be asked.
    Invalid,
}

impl CacheEntry {
    /// Whether the snapshot may serve a new call.
    pub(crate) fn validity(&self, current: Current) -> Validity {
        // Defense: A change withdraws the snapshot immediately.
        if self.epoch.is_over()
            || current.now >= self.expires
            || self.as_of.invalidations != current.invalidations
        {
            return Validity::Invalid;
        }
        // The filesystem decided about an entry, and a symlink may lead elsewhere by now. The result
        // of an empty list depends on the configured paths alone.
        let is_old = self.resolved.is_provisional
            && !self.list.roots.is_empty()
            && current.now >= self.as_of.now + SYMLINKED_LIST_TTL;
        // Defense: After the allowed directories have changed, the list is resolved again.
        if is_old || self.resolved.generation != current.generation {
            Validity::ResolveAgain
        } else {
            Validity::Valid
        }
    }

    pub(crate) fn resolved_again(&self, resolved: ResolvedRoots, now: Current) -> Self {
        let as_of = Current { invalidations: self.as_of.invalidations, ..now };
        Self {
            epoch: self.epoch.clone(),
            expires: self.expires,
            list: self.list.clone(),
            resolved,
            as_of,
        }
    }
}

#[derive(Debug)]
pub(super) struct State {
    /// The current epoch. Only a list requested in this epoch is used.
    epoch: Arc<Epoch>,
    /// The last snapshot, which may be from an earlier epoch. The cache owns it.
    pub(super) cached: Weak<CacheEntry>,
    fetch: Option<Arc<Fetch>>,
    /// The failure of the last fetch in this epoch, until a fetch succeeds.
    failure: Option<Box<Failure>>,
}

#[derive(Debug)]
struct Failure {
    error: Error,
    /// How many consecutive failures there were.
    times: u32,
    /// The end of the back-off.
    until: Instant,
}

/// A list being requested from the client, or being resolved again.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) epoch: Arc<Epoch>,
    /// The time at which the leader gives up, if it is still polled.
    until: Instant,
    /// The snapshot, once the fetch has ended, if it ended with one.
    pub(super) end: SetOnce<Option<Arc<CacheEntry>>>,
}

pub(super) enum Step {
    Serve(Arc<CacheEntry>),
    Wait(Arc<Fetch>),
    Lead {
        fetch: Arc<Fetch>,
        /// The cached list to resolve again, if the client need not be asked.
        again: Option<Arc<CacheEntry>>,
        /// The fetch that this one replaces. The caller ends it after releasing the lock.
        replaced: Option<Arc<Fetch>>,
    },
}

impl State {
    pub(super) fn new(first: Epoch) -> Self {
        Self { epoch: Arc::new(first), cached: Weak::new(), fetch: None, failure: None }
    }

    /// Fails if the session is closed.
    pub(super) fn epoch(&self) -> Result<&Arc<Epoch>> {
        self.epoch.ensure_usable().map(|()| &self.epoch)
    }

    pub(super) fn failure(&self) -> Option<ErrorKind> {
        self.failure.as_ref().map(|failure| failure.error.kind())
    }

    /// A call begins, or continues after a fetch without a result.
    pub(super) fn next_step(
        &mut self,
        cached: Option<&Arc<CacheEntry>>,
        current: Current,
        deadline: Instant,
    ) -> Result<Step> {
        let epoch = self.epoch()?.clone();
        let again = match cached.map(|cached| (cached, cached.validity(current))) {
            Some((cached, Validity::Valid)) => return Ok(Step::Serve(cached.clone())),
            Some((cached, Validity::ResolveAgain)) => Some(cached.clone()),
            _ => None,
        };
        // Calls do not wait for a request sent before a change, or for a leader that is neither
        // polled nor dropped.
        let is_useful =
            |fetch: &&Arc<Fetch>| !fetch.epoch.is_over() && current.now < fetch.until + STALLED;
        if let Some(fetch) = self.fetch.as_ref().filter(is_useful) {
            return Ok(Step::Wait(fetch.clone()));
        }
        if let Some(failure) = self.failure.as_ref().filter(|last| current.now < last.until) {
            // Defense: A client that failed is not asked again until its back-off has passed.
            return Err(failure.error.clone());
        }
        let fetch = Arc::new(Fetch { epoch, until: deadline, end: SetOnce::new() });
        let replaced = self.fetch.replace(fetch.clone());
        Ok(Step::Lead { fetch, again, replaced })
    }

    /// A fetch obtained a snapshot. Returns whether it counts.
    pub(super) fn succeed(
        &mut self,
        fetch: &Arc<Fetch>,
        cached: &Arc<CacheEntry>,
        keep: bool,
    ) -> bool {
        let counts = self.ends(fetch);
        if counts {
            self.failure = None;
        }
        if counts && keep {
            self.cached = Arc::downgrade(cached);
        }
        counts
    }

    /// A fetch failed because of the client. Returns whether this counts.
    pub(super) fn fail(&mut self, fetch: &Arc<Fetch>, error: &Error, now: Instant) -> bool {
        if !self.ends(fetch) {
            return false;
        }
        let earlier = self.failure.as_ref().map_or(0, |last| last.times);
        let back_off = BACK_OFF_MOST.min(BACK_OFF * 2_u32.saturating_pow(earlier));
        let (times, until) = (earlier.saturating_add(1), now + back_off);
        self.failure = Some(Box::new(Failure { error: error.clone(), times, until }));
        true
    }

    /// A fetch ends, with or without a result. Returns whether it was in progress and its result
    /// counts.
    pub(super) fn ends(&mut self, fetch: &Arc<Fetch>) -> bool {
        let is_current = self.fetch.as_ref().is_some_and(|current| Arc::ptr_eq(current, fetch));
        if is_current {
            self.fetch = None;
        }
        // Defense: A list that was requested before a change does not count.
        is_current && !fetch.epoch.is_over()
    }

    /// The client's list changed. Returns false if the session is closed.
    pub(super) fn change(&mut self) -> bool {
        let is_open = self.epoch().is_ok();
        if is_open {
            (self.epoch, self.failure) = (Arc::new(self.epoch.withdraw()), None);
        }
        is_open
    }

    /// Returns the fetch in progress, which the caller ends, or an error if the session was already
    /// closed.
    pub(super) fn close(&mut self) -> Result<Option<Arc<Fetch>>> {
        self.epoch()?.close();
        self.failure = None;
        Ok(self.fetch.take())
    }
}

impl Fetch {
    /// Waits until the fetch ends. Returns no result if its leader has stalled.
    pub(super) async fn wait(&self, deadline: Instant) -> Result<Option<Arc<CacheEntry>>> {
        let stalled = self.until + STALLED;
        // Defense: A waiting call misses no end of its fetch.
        match timeout_at(deadline.min(stalled), self.end.wait()).await? {
            Some(end) => Ok(end.clone()),
            None if stalled < deadline => Ok(None),
            None => Err(roots_timed_out()),
        }
    }

    /// Ends the fetch and wakes the calls that wait for it, unless it has ended.
    pub(super) fn end(&self, end: Option<Arc<CacheEntry>>) {
        let _ = self.end.set(end);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use guarded_fs::{Access, Boundary};

    use super::*;

    fn first() -> Epoch {
        Epoch::new(std::num::NonZeroU64::MIN, "".into())
    }

    const MINUTE: Duration = Duration::from_secs(60);

    fn current(now: Instant) -> Current {
        Current { now, generation: 0, invalidations: 0 }
    }

    fn step(state: &mut State, cached: Option<&Arc<CacheEntry>>, current: Current) -> Step {
        state.next_step(cached, current, current.now + MINUTE).unwrap()
    }

    fn lead(state: &mut State, cached: Option<&Arc<CacheEntry>>, current: Current) -> Arc<Fetch> {
        let Step::Lead { fetch, .. } = step(state, cached, current) else {
            panic!("the call does not lead")
        };
        fetch
    }

    fn list(fetch: &Fetch, now: Instant) -> Arc<CacheEntry> {
        let directory = tempfile::tempdir().unwrap();
        let boundary = Boundary::builder().directory(directory.path(), Access::ReadWrite);
        Arc::new(CacheEntry {
            epoch: fetch.epoch.clone(),
            expires: now + MINUTE,
            list: Arc::default(),
            resolved: guarded_fs::host::allowed(&boundary.build().unwrap(), |resolve| resolve()),
            as_of: current(now),
        })
    }

    #[test]
    fn each_fact_about_a_snapshot_decides_whether_it_serves() {
        let (mut state, now) = (State::new(first()), Instant::now());
        let fetch = lead(&mut state, None, current(now));
        let cached = list(&fetch, now);
        assert!(state.succeed(&fetch, &cached, true));
        for (case, current, expected) in [
            ("valid", current(now), "serve"),
            ("expired", current(now + MINUTE), "ask"),
            ("forgotten", Current { invalidations: 1, ..current(now) }, "ask"),
            ("another generation", Current { generation: 1, ..current(now) }, "resolve"),
        ] {
            let step = match step(&mut state, Some(&cached), current) {
                Step::Serve(_) => "serve",
                Step::Wait(_) => "wait",
                Step::Lead { again: None, .. } => "ask",
                Step::Lead { again: Some(_), .. } => "resolve",
            };
            assert_eq!(step, expected, "{case}");
            state.fetch = None;
        }
        assert!(state.change());
        assert!(matches!(
            step(&mut state, Some(&cached), current(now)),
            Step::Lead { again: None, .. }
        ));
    }

    #[test]
    fn a_replaced_fetch_changes_nothing() {
        let (mut state, now) = (State::new(first()), Instant::now());
        let stalled = lead(&mut state, None, current(now));
        assert!(matches!(step(&mut state, None, current(now)), Step::Wait(_)));
        let later = now + MINUTE + STALLED;
        let Step::Lead { fetch, replaced, .. } = step(&mut state, None, current(later)) else {
            panic!("the leader has stalled")
        };
        assert!(Arc::ptr_eq(&replaced.unwrap(), &stalled));
        assert!(!state.succeed(&stalled, &list(&stalled, later), true));
        assert!(!state.fail(&stalled, &roots_timed_out(), later));
        assert!(!state.ends(&stalled));
        assert!(state.failure().is_none() && state.cached.upgrade().is_none());
        assert!(matches!(step(&mut state, None, current(later)), Step::Wait(_)));
        assert!(state.succeed(&fetch, &list(&fetch, later), true));
    }
}
