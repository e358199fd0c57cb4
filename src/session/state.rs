//! The state of a session: one small [`State`] under one lock.
//!
//! ARCHITECTURE.md has the table of its transitions. The lock is held for a few steps, without I/O,
//! without an await and without dropping a snapshot.

use std::sync::atomic::{AtomicU64 as Counter, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::limits::{BACK_OFF, BACK_OFF_MOST, FETCH_RETRIES, STALLED, VERIFY_EVERY};
use crate::session::cache::Cached;
use crate::session::runtime::{Instant, Notify, timeout_at};

#[derive(Debug)]
pub(super) struct State {
    /// The epoch in which a list must be requested to count.
    epoch: u64,
    /// The snapshot that was cached in this epoch. The cache owns it.
    cached: Weak<Cached>,
    /// When it was cached, or last renewed.
    renewed: Instant,
    fetch: Option<Arc<Fetch>>,
    /// The number of fetches begun so far.
    fetches: u64,
    failure: Option<Failure>,
    /// When the cached list may be resolved again, after that failed.
    renew_after: Option<Instant>,
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
    /// When the leader gives up, if it is still polled.
    pub(super) until: Instant,
    /// Whether only a cached snapshot is verified and its list resolved again.
    renews: bool,
    end: OnceLock<End>,
    ended: Notify,
}

/// How a fetch ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    Cached(Arc<Cached>),
    Failed(Failure),
    /// The list changed before the response came.
    Overtaken,
    /// No result: the leader was dropped, another call replaced the fetch, or the session was
    /// closed.
    Nothing,
}

/// What a call does when the cached snapshot cannot be served as it is.
pub(super) enum Join {
    Lead(Arc<Fetch>),
    Wait(Arc<Fetch>),
    /// Another call cached a snapshot meanwhile.
    Retry,
    /// Resolving the list again failed recently: the remaining roots of the snapshot are served.
    Serve,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            epoch: next_epoch(),
            cached: Weak::new(),
            renewed: Instant::now(),
            fetch: None,
            fetches: 0,
            failure: None,
            renew_after: None,
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

    /// The cached snapshot of this epoch, and whether it is to be renewed after so long.
    pub(super) fn cached(
        &self,
        now: Instant,
        renew_every: Duration,
    ) -> Option<(Arc<Cached>, bool)> {
        let cached = self.cached.upgrade()?;
        Some((cached, now >= self.renewed + renew_every))
    }

    /// The cache has evicted this snapshot.
    pub(super) fn evicted(&mut self, cached: &Arc<Cached>) {
        if self.cached.as_ptr() == Arc::as_ptr(cached) {
            self.cached = Weak::new();
        }
    }

    /// The last failure, if the list has not changed since.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref().filter(|last| last.epoch == self.epoch)
    }

    /// Joins the fetch in progress, or begins one. `seen` is the snapshot that the call found.
    /// `renews` says whether it is current, so that only its list must be resolved again. Also
    /// returns the fetch that this one replaces, which the caller ends after it has released the
    /// lock.
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
        // A list from before a change is not resolved again as if it were from after it.
        let is_old = seen.is_some_and(|seen| renews && seen.epoch != self.epoch);
        let is_seen = seen.is_some_and(|seen| Arc::as_ptr(seen) == self.cached.as_ptr());
        // Defence: leader-has-seen-the-snapshot
        if is_old || !is_seen && self.cached.strong_count() > 0 {
            return Ok((Join::Retry, None));
        }
        // Calls do not wait for a request from before a change, or for a leader that is neither
        // polled nor dropped.
        // A call without a snapshot does not wait while one is verified that no longer counts.
        let useful = |fetch: &&Arc<Fetch>| {
            // Defence: fetch-from-before-a-change-is-replaced
            fetch.epoch == self.epoch
                // Defence: stalled-leader-is-replaced
                && now < fetch.until + STALLED
                && (renews || !fetch.renews)
        };
        if let Some(fetch) = self.fetch.as_ref().filter(useful) {
            return Ok((Join::Wait(fetch.clone()), None));
        }
        if renews && self.renew_after.is_some_and(|after| now < after) {
            return Ok((Join::Serve, None));
        }
        if let Some(failure) = self.failure().filter(|last| !renews && now < last.until) {
            // Defence: failed-client-is-left-alone
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

    /// A fetch obtained a snapshot. Returns how the fetch ends; [`End::Nothing`] if it is no longer
    /// in progress.
    pub(super) fn succeed(
        &mut self,
        fetch: &Arc<Fetch>,
        cached: &Arc<Cached>,
        is_cached: bool,
        now: Instant,
    ) -> End {
        if !self.is_in_progress(fetch) {
            return End::Nothing;
        }
        self.fetch = None;
        // Defence: overtaken-list-does-not-count
        if fetch.epoch != self.epoch {
            return End::Overtaken;
        }
        self.renewed = now;
        (self.failure, self.short_attempts) = (None, 0);
        if is_cached {
            self.cached = Arc::downgrade(cached);
            self.changes += 1;
        }
        End::Cached(cached.clone())
    }

    /// Verifying a cached snapshot or resolving its list again failed. It is not tried again for
    /// [`VERIFY_EVERY`].
    pub(super) fn postpone(&mut self, fetch: &Arc<Fetch>, now: Instant) -> End {
        if self.is_in_progress(fetch) {
            self.renewed = now;
            self.renew_after = Some(now + VERIFY_EVERY);
        }
        self.abandon(fetch)
    }

    /// A fetch failed because of the client. The back-off doubles with each consecutive failure.
    pub(super) fn fail(&mut self, fetch: &Arc<Fetch>, error: &Error, now: Instant) -> End {
        if !self.is_in_progress(fetch) {
            return End::Nothing;
        }
        self.fetch = None;
        if fetch.epoch != self.epoch {
            return End::Overtaken;
        }
        let earlier = self.failure().map_or(0, |last| last.times);
        // Defence: back-off-has-an-end
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

    /// A leader had too little time to request the list. False after too many in a row, each of
    /// which may have waited for the one before.
    pub(super) fn allow_short_attempt(&mut self) -> bool {
        self.short_attempts += 1;
        self.short_attempts <= FETCH_RETRIES
    }

    /// Begins a new epoch because the client's list changed. False if the session is closed.
    pub(super) fn change(&mut self) -> bool {
        self.changes += 1;
        if self.is_closed() {
            return false;
        }
        self.epoch = next_epoch();
        // Defence: change-withdraws-the-snapshot
        self.cached = Weak::new();
        true
    }

    /// Closes the session. Returns the fetch in progress, which the caller ends; an error if the
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
    /// Ends the fetch and wakes the calls that wait for it. Only the first end counts.
    pub(super) fn end(&self, end: End) {
        let _ = self.end.set(end);
        self.ended.notify_waiters();
    }

    /// Waits until the fetch ends; `None` if the deadline comes first.
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
            // Defence: waiting-call-misses-no-end
            ended.await;
        }
    }
}

/// The next epoch of the process-wide counter.
fn next_epoch() -> u64 {
    EPOCHS.fetch_add(1, Relaxed)
}

static EPOCHS: Counter = Counter::new(1);

/// The epoch of a closed session; no list is requested in it.
const CLOSED: u64 = 0;

#[cfg(not(shuttle))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::roots::Roots;

    /// What [`State::join`] has a call do, by name.
    fn join(state: &mut State, seen: Option<&Arc<Cached>>, renews: bool) -> &'static str {
        let now = Instant::now();
        match state.join(seen, renews, now, now + Duration::from_secs(5)).unwrap().0 {
            Join::Lead(_) => "lead",
            Join::Wait(_) => "wait",
            Join::Retry => "retry",
            Join::Serve => "serve",
        }
    }

    fn cached(state: &mut State) -> Arc<Cached> {
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        let (Join::Lead(fetch), _) = state.join(None, false, now, now + minute).unwrap() else {
            panic!("nothing is cached and no fetch is in progress");
        };
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::from_dirs([directory.path()]).unwrap();
        let cached = Arc::new(Cached::new(fetch.epoch, now + minute, roots));
        assert!(matches!(state.succeed(&fetch, &cached, true, now), End::Cached(_)));
        cached
    }

    #[test]
    fn a_list_from_before_a_change_is_not_resolved_again_after_it() {
        let mut state = State::new();
        let old = cached(&mut state);
        assert!(state.change());
        // The call compared the epochs before the change.
        assert_eq!(join(&mut state, Some(&old), true), "retry");
        assert_eq!(join(&mut state, None, false), "lead");
        assert_eq!(join(&mut state, Some(&old), true), "retry");
    }

    #[test]
    fn a_call_that_has_not_seen_the_cached_snapshot_looks_again() {
        let mut state = State::new();
        let seen = cached(&mut state);
        assert_eq!(join(&mut state, None, false), "retry");
        assert_eq!(join(&mut state, Some(&seen), true), "lead");
        assert_eq!(join(&mut state, Some(&seen), true), "wait");
        assert!(state.close().unwrap().is_some());
        assert!(state.join(None, false, Instant::now(), Instant::now()).is_err());
    }
}
