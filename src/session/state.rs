//! The state of a session: one small [`State`] under one lock.
//!
//! ARCHITECTURE.md contains the table of its transitions. The lock is held only for a few steps,
//! and never during I/O, across an await or while a snapshot is dropped.

use std::sync::atomic::{AtomicU64 as Counter, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::limits::{BACK_OFF, BACK_OFF_MOST, FETCH_RETRIES, STALLED};
use crate::session::cache::Cached;
use crate::session::runtime::{Instant, Notify, timeout_at};

#[derive(Debug)]
pub(super) struct State {
    /// The current epoch. Only a list requested in this epoch is used.
    epoch: u64,
    /// The snapshot that was cached in this epoch. The cache owns it.
    cached: Weak<Cached>,
    /// The time when the use of the snapshot was last reported to the cache.
    touched: Instant,
    fetch: Option<Arc<Fetch>>,
    /// The number of fetches begun so far.
    fetches: u64,
    failure: Option<Failure>,
    /// The number of consecutive leaders that had too little time to request the list.
    short_attempts: u32,
    /// The number of events that [`Changes`](crate::Changes) reports.
    changes: u64,
}

/// The failure of the last fetch, until a fetch succeeds.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) epoch: u64,
    error: Arc<Error>,
    /// The number of consecutive failures, including this one.
    times: u32,
    /// The end of the back-off.
    until: Instant,
}

/// A request to the client for its roots, or a cached list being resolved again.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) number: u64,
    pub(super) epoch: u64,
    /// The time at which the leader gives up, if it is still polled.
    pub(super) until: Instant,
    /// Whether this fetch only resolves a cached list again.
    renews: bool,
    end: OnceLock<End>,
    ended: Notify,
}

/// How a fetch ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    Cached(Arc<Cached>),
    Failed(Failure),
    /// The list changed before the response arrived.
    Overtaken,
    /// No result: the leader was dropped, another call replaced the fetch, or the session was
    /// closed.
    Nothing,
}

/// The next step of a call whose cached snapshot cannot be served as it is.
pub(super) enum Join {
    Lead(Arc<Fetch>),
    Wait(Arc<Fetch>),
    /// Another call cached a snapshot or the list changed meanwhile.
    Retry,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            epoch: next_epoch(),
            cached: Weak::new(),
            touched: Instant::now(),
            fetch: None,
            fetches: 0,
            failure: None,
            short_attempts: 0,
            changes: 0,
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn is_closed(&self) -> bool {
        self.epoch == CLOSED
    }

    pub(super) fn fetches(&self) -> u64 {
        self.fetches
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the cached snapshot of this epoch, and whether its use must be reported to the
    /// cache.
    pub(super) fn cached(
        &self,
        now: Instant,
        touch_every: Duration,
    ) -> Option<(Arc<Cached>, bool)> {
        let cached = self.cached.upgrade()?;
        Some((cached, now >= self.touched + touch_every))
    }

    /// Records that the use of the snapshot was reported to the cache.
    pub(super) fn touched(&mut self, now: Instant) {
        self.touched = now;
    }

    /// Records that the cache has evicted this snapshot.
    pub(super) fn evicted(&mut self, cached: &Arc<Cached>) {
        if self.cached.as_ptr() == Arc::as_ptr(cached) {
            self.cached = Weak::new();
        }
    }

    /// Returns the last failure, if the list has not changed since.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref().filter(|last| last.epoch == self.epoch)
    }

    /// Joins the fetch in progress, or begins one. `seen` is the snapshot that the call found.
    /// `renews` is true if that snapshot is current and only has to be renewed. Also returns the
    /// fetch that this one replaces, which the caller ends after it has released the lock.
    pub(super) fn join(
        &mut self,
        seen: Option<&Arc<Cached>>,
        renews: bool,
        now: Instant,
        deadline: Instant,
    ) -> Result<(Join, Option<Arc<Fetch>>)> {
        if self.is_closed() {
            return Err(Code::SessionClosed.into());
        }
        // A list requested before a change must not be resolved again in the new epoch.
        let is_old = seen.is_some_and(|seen| renews && seen.epoch != self.epoch);
        let is_seen = seen.is_some_and(|seen| Arc::as_ptr(seen) == self.cached.as_ptr());
        // Defense: A call leads a fetch only if it knows the newest snapshot.
        if is_old || !is_seen && self.cached.strong_count() > 0 {
            return Ok((Join::Retry, None));
        }
        // Calls do not wait for a request sent before a change, or for a leader that is neither
        // polled nor dropped. A call without a current snapshot does not wait for the renewal of an
        // expired one.
        let useful = |fetch: &&Arc<Fetch>| {
            fetch.epoch == self.epoch && now < fetch.until + STALLED && (renews || !fetch.renews)
        };
        if let Some(fetch) = self.fetch.as_ref().filter(useful) {
            return Ok((Join::Wait(fetch.clone()), None));
        }
        if let Some(failure) = self.failure().filter(|last| !renews && now < last.until) {
            // Defense: A client that failed is not asked again until its back-off has passed.
            return Err(failure.error());
        }
        self.fetches += 1;
        let fetch = Arc::new(Fetch {
            number: self.fetches,
            epoch: self.epoch,
            until: deadline,
            renews,
            end: OnceLock::new(),
            ended: Notify::new(),
        });
        let replaced = self.fetch.replace(fetch.clone());
        Ok((Join::Lead(fetch), replaced))
    }

    pub(super) fn is_in_progress(&self, fetch: &Arc<Fetch>) -> bool {
        self.fetch.as_ref().is_some_and(|current| Arc::ptr_eq(current, fetch))
    }

    /// Records that a fetch obtained a snapshot. Returns the end of the fetch, which is
    /// [`End::Nothing`] if the fetch is no longer in progress.
    pub(super) fn succeed(
        &mut self,
        fetch: &Arc<Fetch>,
        cached: &Arc<Cached>,
        is_cached: bool,
    ) -> End {
        if !self.is_in_progress(fetch) {
            return End::Nothing;
        }
        self.fetch = None;
        // Defense: A list that was requested before a change does not count.
        if fetch.epoch != self.epoch {
            return End::Overtaken;
        }
        (self.failure, self.short_attempts) = (None, 0);
        if is_cached {
            self.cached = Arc::downgrade(cached);
            self.touched = Instant::now();
            self.changes += 1;
        }
        End::Cached(cached.clone())
    }

    /// Records that a fetch failed because of the client. The back-off doubles with each
    /// consecutive failure.
    pub(super) fn fail(&mut self, fetch: &Arc<Fetch>, error: &Error, now: Instant) -> End {
        if !self.is_in_progress(fetch) {
            return End::Nothing;
        }
        self.fetch = None;
        if fetch.epoch != self.epoch {
            return End::Overtaken;
        }
        let earlier = self.failure().map_or(0, |last| last.times);
        // Defense: The back-off has an upper limit.
        let back_off = BACK_OFF_MOST.min(BACK_OFF * 2_u32.saturating_pow(earlier));
        let failure = Failure {
            epoch: self.epoch,
            error: Arc::new(error.repeated()),
            times: earlier.saturating_add(1),
            until: now + back_off,
        };
        (self.failure, self.short_attempts) = (Some(failure.clone()), 0);
        End::Failed(failure)
    }

    pub(super) fn abandon(&mut self, fetch: &Arc<Fetch>) -> End {
        if self.is_in_progress(fetch) {
            self.fetch = None;
        }
        End::Nothing
    }

    /// Records that a leader had too little time to request the list. Returns false after too many
    /// such leaders in a row, each of which may have waited for the previous one.
    pub(super) fn allow_short_attempt(&mut self) -> bool {
        self.short_attempts += 1;
        self.short_attempts <= FETCH_RETRIES
    }

    /// Begins a new epoch because the client's list changed. Returns false if the session is
    /// closed.
    pub(super) fn change(&mut self) -> bool {
        self.changes += 1;
        if self.is_closed() {
            return false;
        }
        self.epoch = next_epoch();
        // Defense: A change withdraws the snapshot immediately.
        self.cached = Weak::new();
        true
    }

    /// Closes the session. Returns the fetch in progress, which the caller ends, or an error if the
    /// session was already closed.
    pub(super) fn close(&mut self) -> Result<Option<Arc<Fetch>>> {
        if self.is_closed() {
            return Err(Code::SessionClosed.into());
        }
        self.epoch = CLOSED;
        self.cached = Weak::new();
        self.changes += 1;
        Ok(self.fetch.take())
    }
}

impl Failure {
    pub(super) fn code(&self) -> Code {
        self.error.reason()
    }

    pub(super) fn error(&self) -> Error {
        self.error.repeated()
    }
}

impl Fetch {
    /// Ends the fetch and wakes the calls that wait for it. Only the first call sets the end.
    pub(super) fn end(&self, end: End) {
        let _ = self.end.set(end);
        self.ended.notify_waiters();
    }

    /// Waits until the fetch ends. Returns `None` if the deadline passes first.
    pub(super) async fn wait(&self, deadline: Instant) -> Result<Option<End>> {
        let stalled = self.until + STALLED;
        let end = timeout_at(deadline.min(stalled), self.ended()).await?;
        Ok(if end.is_none() && stalled < deadline { Some(End::Nothing) } else { end })
    }

    pub(super) async fn ended(&self) -> End {
        loop {
            // Registered before the end is read, so that an end in between is not missed.
            let ended = self.ended.notified();
            if let Some(end) = self.end.get() {
                return end.clone();
            }
            // Defense: A waiting call misses no end of its fetch.
            ended.await;
        }
    }
}

/// Returns the next epoch of the process-wide counter.
fn next_epoch() -> u64 {
    EPOCHS.fetch_add(1, Relaxed)
}

static EPOCHS: Counter = Counter::new(1);

/// The epoch of a closed session, in which no list is requested.
const CLOSED: u64 = 0;

#[cfg(not(shuttle))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::roots::Roots;

    /// Returns the name of the step that [`State::join`] returns.
    fn join(state: &mut State, seen: Option<&Arc<Cached>>, renews: bool) -> &'static str {
        let now = Instant::now();
        match state.join(seen, renews, now, now + Duration::from_secs(5)).unwrap().0 {
            Join::Lead(_) => "lead",
            Join::Wait(_) => "wait",
            Join::Retry => "retry",
        }
    }

    fn cached(state: &mut State) -> Arc<Cached> {
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        let (Join::Lead(fetch), _) = state.join(None, false, now, now + minute).unwrap() else {
            panic!("a call must lead if nothing is cached and no fetch is in progress");
        };
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::from_dirs([directory.path()]).unwrap();
        let cached = Arc::new(Cached::new(fetch.epoch, now + minute, roots, Arc::default()));
        assert!(matches!(state.succeed(&fetch, &cached, true), End::Cached(_)));
        cached
    }

    #[test]
    fn a_list_requested_before_a_change_is_not_resolved_again() {
        let mut state = State::new();
        let old = cached(&mut state);
        assert!(state.change());
        // The call found the snapshot before the change.
        assert_eq!(join(&mut state, Some(&old), true), "retry");
        assert_eq!(join(&mut state, None, false), "lead");
        assert_eq!(join(&mut state, Some(&old), true), "retry");
    }

    #[test]
    fn a_replaced_fetch_changes_nothing() {
        let mut state = State::new();
        let now = Instant::now();
        let Join::Lead(stalled) = state.join(None, false, now, now).unwrap().0 else {
            panic!("no fetch is in progress");
        };
        let later = now + STALLED;
        let (joined, replaced) = state.join(None, false, later, later).unwrap();
        let Join::Lead(successor) = joined else { panic!("the leader has stalled") };
        assert!(Arc::ptr_eq(&replaced.unwrap(), &stalled));
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::from_dirs([directory.path()]).unwrap();
        let late = Arc::new(Cached::new(stalled.epoch, later + STALLED, roots, Arc::default()));
        assert!(matches!(state.succeed(&stalled, &late, true), End::Nothing));
        assert!(matches!(state.fail(&stalled, &Code::RootsTimedOut.into(), later), End::Nothing));
        assert!(state.is_in_progress(&successor) && state.failure().is_none());
        assert!(state.cached(later, STALLED).is_none());
    }

    #[test]
    fn a_call_that_has_not_seen_the_cached_snapshot_retries() {
        let mut state = State::new();
        let seen = cached(&mut state);
        assert_eq!(join(&mut state, None, false), "retry");
        assert_eq!(join(&mut state, Some(&seen), true), "lead");
        assert_eq!(join(&mut state, Some(&seen), true), "wait");
        assert!(state.close().unwrap().is_some());
        assert!(state.join(None, false, Instant::now(), Instant::now()).is_err());
    }
}
