//! One question at a time to each client.
//!
//! Goes in: calls that need the roots in force, each with a source of its own. Comes out: to each the snapshot, or the same refusal
//! to all who waited for it. What is true after: the first of the calls without a snapshot leads: it asks in its own request, and the
//! others wait for it to land. No lock is held while it asks. A leader that is dropped lands as well, and the next of those who wait leads.
//!
//! | a fetch lands as | when | those who waited |
//! | --- | --- | --- |
//! | kept | the list was told, resolved, and is still of the session's epoch | take it |
//! | overtaken | the list changed before the answer came | ask again, at most [`FETCH_RETRIES`] times |
//! | superseded | the list has changed, and a later call starts another fetch | ask again |
//! | failed | the client answered an error, or too late, or its list is refused | are refused the same way, and so is who comes until the back-off is over; not if the list changed meanwhile |
//! | abandoned | its leader was dropped, is not polled any more, or had less than half of the time limit left to ask (at most [`FETCH_RETRIES`] of these in a row, then it failed); or the session was closed | one of them leads, if it is open |
//!
//! A call ends by its own deadline, whatever it waits for.

mod leader;

use std::sync::atomic::AtomicU64 as Counter;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use self::leader::Leader;
use crate::error::{Code, Error, Result};
use crate::events::{self, SessionId};
use crate::limits::{FETCH_RETRIES, REJECTED_LOGGED, STALLED};
use crate::roots::Roots;
use crate::session::cache::Cached;
use crate::session::runtime::{AtomicU64, Instant, Mutex, MutexGuard, Notify, Ordering, off_workers, until};
use crate::session::{ClientRoots, Guard, RootsSource, WithoutClientRoots};
use crate::wire::{ClientCapabilities, ListRootsResult};
use crate::workers::Account;

/// One client, and what is known of its roots.
pub(crate) struct Client {
    pub(crate) id: SessionId,
    pub(crate) guard: Guard,
    pub(crate) declared: ClientCapabilities,
    /// Who is charged for its work.
    pub(crate) account: Account,
    pub(crate) stay: Stay,
    /// The epoch that an answer must be asked in to count.
    epoch: AtomicU64,
    state: Mutex<State>,
    /// Counts what [`Changes`](crate::Changes) tells.
    version: AtomicU64,
    pub(crate) changed: Notify,
}

/// How long a client is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    Session,
    /// For one request only.
    #[cfg(feature = "rmcp")]
    Request,
}

#[derive(Debug, Default)]
struct State {
    fetch: Option<Arc<Fetch>>,
    /// Flights that began, and those that finished.
    begun: u64,
    finished: u64,
    failure: Option<Failure>,
    /// Leaders in a row that had too little time to ask.
    in_vain: u32,
}

/// The last fetch's failure, while nothing has succeeded since.
#[derive(Clone, Debug)]
struct Failure {
    epoch: u64,
    kind: Code,
    detail: Option<Arc<str>>,
    /// How many in a row.
    times: u32,
    until: Instant,
}

/// A question that is being asked.
#[derive(Debug)]
struct Fetch {
    number: u64,
    epoch: u64,
    /// When its leader gives up, if it still runs.
    until: Instant,
    outcome: OnceLock<Outcome>,
    finished: Notify,
}

#[derive(Clone, Debug)]
enum Outcome {
    Cached(Cached),
    Overtaken,
    Superseded,
    Failed(Failure),
    Abandoned,
}

/// Whether a kept snapshot can be served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stands {
    Yes,
    /// It can, and there may be more to serve by now.
    MayBeMore,
    /// A root is gone, and not for want of looking.
    No,
}

/// What a call without a snapshot does next.
enum Step<'a> {
    Lead(Leader<'a>),
    Wait(Arc<Fetch>),
    /// Look for a snapshot again: fetches may have finished since, this many by now.
    LookAgain(Option<u64>),
}

impl Client {
    pub(crate) fn new(id: SessionId, guard: Guard, declared: ClientCapabilities, account: Account, stay: Stay) -> Self {
        Self {
            id,
            guard,
            declared,
            account,
            stay,
            epoch: AtomicU64::new(next_epoch()),
            state: Mutex::default(),
            version: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    /// The roots in force for a call that begins now, and where they are the client's, the epoch of their list.
    pub(crate) async fn roots(&self, source: impl RootsSource) -> Result<(Roots, Option<u64>)> {
        let now = Instant::now();
        let deadline = now + self.guard.choices().fetch_limit;
        if self.is_closed() {
            return Err(Code::SessionClosed.into());
        }
        if let Some(without) = self.without_asking() {
            return Ok((self.roots_without(without, deadline).await?, None));
        }
        // The common way; what waits is put aside, as its room would be taken by each call.
        let kept = self.kept_at(now).filter(|kept| !kept.roots.is_due() && self.judge(kept, now) == Stands::Yes);
        let kept = match kept {
            Some(kept) => kept,
            None => Box::pin(self.listed(source, deadline)).await?,
        };
        Ok((kept.roots, Some(kept.epoch)))
    }

    /// The roots of a list that came with a call that begins now.
    pub(crate) async fn told(&self, list: ListRootsResult) -> Result<Roots> {
        let deadline = Instant::now() + self.guard.choices().fetch_limit;
        if self.is_closed() {
            return Err(Code::SessionClosed.into());
        }
        if let Some(without) = self.without_asking() {
            return self.roots_without(without, deadline).await;
        }
        let (roots, _) = self.resolve(Arc::new(list), deadline).await?;
        self.tell_fetched(&roots, 1);
        Ok(roots)
    }

    /// Tells the operator what came of a list.
    fn tell_fetched(&self, roots: &Roots, pages: usize) {
        events::fetched(self.id, roots.roots().len(), roots.rejected().len(), pages);
        for rejected in roots.rejected().iter().take(REJECTED_LOGGED) {
            events::rejected(self.id, rejected.index(), rejected.entry(), rejected.error());
        }
    }

    /// What is in force without a question: where client roots are ignored, or the client declared none.
    pub(crate) fn without_asking(&self) -> Option<WithoutClientRoots> {
        let choices = self.guard.choices();
        match (choices.client_roots, self.declared.roots()) {
            (ClientRoots::Ignore, _) => Some(WithoutClientRoots::AllowedDirectories),
            (ClientRoots::Narrow, None) => Some(choices.without_client_roots),
            (ClientRoots::Narrow, Some(_)) => None,
        }
    }

    async fn roots_without(&self, without: WithoutClientRoots, deadline: Instant) -> Result<Roots> {
        match without {
            WithoutClientRoots::Deny => Err(Code::RootsUnsupported.into()),
            WithoutClientRoots::AllowedDirectories => self.guard.allowed_roots(deadline).await,
        }
    }

    /// The client's list, resolved: the one that is kept, or told now.
    async fn listed(&self, mut source: impl RootsSource, deadline: Instant) -> Result<Cached> {
        // An answer that is too old by now counts only if it was asked for after the call began: so always, where lists do not live.
        let mut from = None;
        let mut seen = None;
        let mut changes = 0;
        loop {
            let now = Instant::now();
            let (kept, stands) = match self.kept_at(now) {
                Some(kept) => match self.stands(&kept, now, deadline).await? {
                    Stands::Yes => return Ok(kept),
                    // Verifying takes time, in which the list may have changed.
                    stands => (Some(kept).filter(|kept| kept.epoch == self.epoch()), stands),
                },
                None => (None, Stands::No),
            };
            if Instant::now() >= deadline {
                return Err(late());
            }
            let from = *from.get_or_insert_with(|| self.lock().begun + 1);
            let outcome = match (self.turn(seen, deadline)?, kept) {
                (Step::LookAgain(finished), _) => {
                    seen = finished;
                    continue;
                }
                (Step::Wait(_), Some(kept)) if stands == Stands::MayBeMore => return Ok(kept),
                (Step::Wait(fetch), _) => match fetch.wait(deadline).await? {
                    Some(Outcome::Cached(kept)) if fetch.number < from && Instant::now() >= kept.until => continue,
                    Some(Outcome::Cached(kept)) if kept.epoch != self.epoch() => continue,
                    // What failed before the list changed says nothing of the list.
                    Some(Outcome::Failed(failure)) if failure.epoch != self.epoch() => continue,
                    Some(outcome) => outcome,
                    None => return Err(late()),
                },
                (Step::Lead(leader), Some(kept)) => leader.renew(kept, deadline).await?,
                (Step::Lead(leader), None) => leader.fetch(&mut source, deadline).await?,
            };
            match outcome {
                Outcome::Cached(kept) => return Ok(kept),
                Outcome::Failed(failure) => return Err(failure.error()),
                Outcome::Abandoned | Outcome::Superseded => {}
                Outcome::Overtaken if changes == FETCH_RETRIES => return Err(Code::RootsChanging.into()),
                Outcome::Overtaken => changes += 1,
            }
        }
    }

    /// The snapshot in force, if one is kept that counts now.
    pub(crate) fn kept(&self) -> Option<Cached> {
        self.kept_at(Instant::now())
    }

    fn kept_at(&self, now: Instant) -> Option<Cached> {
        let kept = self.guard.kept(self.id)?;
        // In this order: a change that came before this call was made is seen.
        let counts = kept.epoch == self.epoch() && now < kept.until;
        counts.then_some(kept)
    }

    /// Whether a kept snapshot can be served as it is. Verifies its names, and those of the allowed directories, when that is due.
    async fn stands(&self, kept: &Cached, now: Instant, deadline: Instant) -> Result<Stands> {
        if let Some(turn) = kept.roots.begin_verification() {
            // An allowed directory may be back, which none of these roots would tell.
            self.guard.allowed_roots(deadline).await?;
            let verify = off_workers(self.guard.workers(), &self.account, move || Ok(turn.verify()));
            until(deadline, verify).await?.ok_or_else(late)??;
        }
        Ok(self.judge(kept, now))
    }

    /// Whether a kept snapshot can be served whose names need not be verified now.
    fn judge(&self, kept: &Cached, now: Instant) -> Stands {
        let (gone, rests) = (kept.roots.has_gone(), now < kept.rests);
        if kept.epoch != self.epoch() {
            Stands::MayBeMore
        } else if gone && !(kept.failed && rests) {
            Stands::No
        } else if !rests && (kept.lacks || !self.guard.boundary().is_current(&kept.roots)) {
            Stands::MayBeMore
        } else {
            Stands::Yes
        }
    }

    fn turn(&self, seen: Option<u64>, deadline: Instant) -> Result<Step<'_>> {
        let mut state = self.lock();
        let epoch = self.epoch();
        if epoch == CLOSED {
            return Err(Code::SessionClosed.into());
        }
        if let Some(fetch) = &state.fetch {
            // Nobody should wait for a question of before a change, or for a leader that is neither polled nor dropped.
            let useless = if fetch.epoch != epoch {
                Outcome::Superseded
            } else if Instant::now() >= fetch.until + STALLED {
                Outcome::Abandoned
            } else {
                return Ok(Step::Wait(fetch.clone()));
            };
            let fetch = fetch.clone();
            drop(state);
            self.finish(&fetch, useless);
            return Ok(Step::LookAgain(seen));
        }
        if let Some(failure) = state.failure.as_ref().filter(|last| last.epoch == epoch && Instant::now() < last.until)
        {
            return Err(failure.error());
        }
        if seen != Some(state.finished) {
            return Ok(Step::LookAgain(Some(state.finished)));
        }
        state.begun += 1;
        let number = state.begun;
        let fetch =
            Arc::new(Fetch { number, epoch, until: deadline, outcome: OnceLock::new(), finished: Notify::new() });
        state.fetch = Some(fetch.clone());
        Ok(Step::Lead(Leader { client: self, fetch }))
    }

    /// Counts a leader that had too little time; false after too many in a row. Each may have waited for the one before.
    fn asks_in_vain(&self) -> bool {
        let mut state = self.lock();
        state.in_vain += 1;
        state.in_vain <= FETCH_RETRIES
    }

    /// Whether nobody has finished this fetch.
    fn is_current(&self, fetch: &Arc<Fetch>) -> bool {
        self.lock().fetch.as_ref().is_some_and(|current| Arc::ptr_eq(current, fetch))
    }

    fn finish(&self, fetch: &Arc<Fetch>, outcome: Outcome) {
        let mut state = self.lock();
        if !state.fetch.as_ref().is_some_and(|current| Arc::ptr_eq(current, fetch)) {
            return;
        }
        match &outcome {
            Outcome::Cached(_) => (state.failure, state.in_vain) = (None, 0),
            Outcome::Failed(failure) => (state.failure, state.in_vain) = (Some(failure.clone()), 0),
            Outcome::Overtaken | Outcome::Superseded | Outcome::Abandoned => {}
        }
        state.fetch = None;
        state.finished += 1;
        // Set before anybody is woken, and once: only the fetch in the air lands.
        let _ = fetch.outcome.set(outcome);
        drop(state);
        fetch.finished.notify_waiters();
    }

    /// Withdraws all that was asked for so far. False if the session is closed.
    pub(crate) fn change(&self) -> bool {
        let fresh = next_epoch();
        let changed =
            self.epoch.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |epoch| (epoch != CLOSED).then_some(fresh));
        self.tell();
        changed.is_ok()
    }

    /// Ends it. False if it was closed already.
    pub(crate) fn close(&self) -> bool {
        if self.epoch.swap(CLOSED, Ordering::SeqCst) == CLOSED {
            return false;
        }
        // Nothing is ever kept of one that is there for a request only, and it was not counted.
        if self.stay == Stay::Session {
            self.guard.forget(self.id);
            self.guard.leave();
        }
        let fetch = self.lock().fetch.clone();
        if let Some(fetch) = fetch {
            self.finish(&fetch, Outcome::Abandoned);
        }
        self.tell();
        true
    }

    fn tell(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.epoch() == CLOSED
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Why the last fetch failed, while that counts.
    pub(crate) fn failure(&self) -> Option<Code> {
        let epoch = self.epoch();
        self.lock().failure.as_ref().filter(|last| last.epoch == epoch).map(|last| last.kind)
    }

    fn time_to_live(&self) -> Duration {
        let choices = self.guard.choices();
        match self.declared.roots() {
            Some(capability) if capability.list_changed => choices.time_to_live,
            _ => choices.time_to_live_unannounced,
        }
    }

    /// Held for a few steps without I/O or await; what a panicking holder left is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fetch {
    /// How it lands; `None` if the deadline comes first.
    async fn wait(&self, deadline: Instant) -> Result<Option<Outcome>> {
        let stalled = self.until + STALLED;
        let finished = until(deadline.min(stalled), self.outcome()).await?;
        Ok(if finished.is_none() && stalled < deadline { Some(Outcome::Abandoned) } else { finished })
    }

    async fn outcome(&self) -> Outcome {
        loop {
            // From here on an outcome wakes this, polled or not.
            let finished = self.finished.notified();
            if let Some(outcome) = self.outcome.get() {
                return outcome.clone();
            }
            finished.await;
        }
    }
}

impl Failure {
    fn error(&self) -> Error {
        let error = Error::new(self.kind);
        match &self.detail {
            Some(detail) => error.detail(&**detail),
            None => error,
        }
    }
}

fn late() -> Error {
    Code::RootsTimedOut.into()
}

/// An epoch that no session of this process ever had.
fn next_epoch() -> u64 {
    EPOCHS.fetch_add(1, Relaxed)
}

static EPOCHS: Counter = Counter::new(1);

/// The epoch of a closed session, in which nothing is ever asked.
const CLOSED: u64 = 0;
