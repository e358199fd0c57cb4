//! How a call obtains its client's roots: from the cache, from the fetch in progress, or by a fetch
//! of its own.
//!
//! The first call without a snapshot becomes the leader: it requests the list within its own
//! request, and other calls wait. If the leader is dropped, or the author's source panics, its
//! fetch ends and a waiting call leads the next one. Each call ends by its own deadline, whatever
//! it waits for.

use std::ops::DerefMut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::boundary::WithoutClientRoots;
use crate::dir::Effort;
use crate::error::{Code, Error, Result};
use crate::events::{self, SessionId};
use crate::limits::{FETCH_RETRIES, REJECTED_LOGGED};
use crate::roots::Roots;
use crate::session::cache::Cached;
use crate::session::leader::Leader;
use crate::session::runtime::{Instant, Mutex, Notify, run_on_workers, std_instant, timeout_at};
use crate::session::state::{End, Failure, Fetch, Join, State};
use crate::session::{ClientRoots, Guard, RootsSource};
use crate::wire::{ClientCapabilities, ListRootsResult};
use crate::workers::Account;

/// A client, shared by the clones of its session.
pub(crate) struct Client {
    pub(crate) id: SessionId,
    pub(crate) guard: Guard,
    pub(crate) declared: ClientCapabilities,
    /// The account that its work is charged to.
    pub(crate) account: Account,
    pub(crate) lifetime: Lifetime,
    state: Mutex<State>,
    pub(crate) changed: Notify,
}

/// How long the guard keeps the state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Session,
    #[cfg(feature = "rmcp")]
    Request,
}

impl Client {
    pub(crate) fn new(
        id: SessionId,
        guard: Guard,
        declared: ClientCapabilities,
        account: Account,
        lifetime: Lifetime,
    ) -> Self {
        let state = Mutex::new(State::new());
        Self { id, guard, declared, account, lifetime, state, changed: Notify::new() }
    }

    /// Returns the roots in force for a call that begins now, and the epoch of their list if they
    /// are the client's.
    pub(crate) async fn roots(&self, source: impl RootsSource) -> Result<(Roots, Option<u64>)> {
        let now = Instant::now();
        // The larger futures are boxed, to keep the future of every call small.
        let obtained = match self.fallback_policy() {
            Some(without) => self.roots_without(without, now).await.map(|roots| (roots, None)),
            None => Box::pin(self.obtain(source, now))
                .await
                .map(|cached| (cached.roots.clone(), Some(cached.epoch))),
        };
        let (roots, epoch) = match obtained {
            Err(error) => (Box::pin(self.always_roots(error)).await?, None),
            Ok(obtained) => obtained,
        };
        Ok((roots.for_session(self.id, &self.account), epoch))
    }

    /// Returns the client's roots and the epoch of their list, if they are cached and can be used at
    /// once, without I/O and without reporting the use to the cache.
    pub(crate) fn cached_roots(&self, now: Instant) -> Option<(Roots, u64)> {
        if self.fallback_policy().is_some() {
            return None;
        }
        let (cached, must_touch) = self.lock().cached(now, self.guard.cache().touch_every())?;
        (!must_touch && self.may_serve(&cached, now))
            .then(|| (cached.roots.for_session(self.id, &self.account), cached.epoch))
    }

    /// Returns the directories that are always in force, for a client whose roots could not be
    /// obtained because of `error`. Fails with `error` if there are no such directories, or if the
    /// client did not cause the error.
    pub(crate) async fn always_roots(&self, error: Error) -> Result<Roots> {
        if !self.guard.boundary().has_always_directories() || !is_clients(error.reason()) {
            return Err(error);
        }
        let allowed = self.guard.allowed_roots(self.deadline(Instant::now())).await?;
        // The session may have been closed in the meantime.
        self.epoch()?;
        match allowed.always_despite(&error) {
            always if always.is_empty() => Err(error),
            always => Ok(always),
        }
    }

    /// Returns the roots of a list that came with the request itself.
    pub(crate) async fn roots_of_list(&self, list: ListRootsResult) -> Result<Roots> {
        match self.resolve_list(list).await {
            Err(error) => self.always_roots(error).await,
            resolved => resolved,
        }
    }

    async fn resolve_list(&self, list: ListRootsResult) -> Result<Roots> {
        let now = Instant::now();
        if let Some(without) = self.fallback_policy() {
            return self.roots_without(without, now).await;
        }
        if self.lock().is_closed() {
            return Err(Code::SessionClosed.into());
        }
        let roots = self.resolve(Arc::new(list), self.deadline(now)).await?;
        self.log_fetched(&roots, 1);
        Ok(roots)
    }

    /// Returns the policy that applies if client roots are ignored or the client declared none, or
    /// `None` if the client's list decides.
    pub(crate) fn fallback_policy(&self) -> Option<WithoutClientRoots> {
        let choices = self.guard.choices();
        match (choices.client_roots, self.declared.roots()) {
            (ClientRoots::Ignore, _) => Some(WithoutClientRoots::AllowedDirectories),
            (ClientRoots::Narrow, None) => Some(choices.without_client_roots),
            (ClientRoots::Narrow, Some(_)) => None,
        }
    }

    async fn roots_without(&self, without: WithoutClientRoots, now: Instant) -> Result<Roots> {
        if self.lock().is_closed() {
            return Err(Code::SessionClosed.into());
        }
        match without {
            WithoutClientRoots::Deny => Err(Code::RootsUnsupported.into()),
            WithoutClientRoots::AllowedDirectories => {
                self.guard.allowed_roots(self.deadline(now)).await
            }
        }
    }

    /// Returns the cached snapshot if it is current at this time.
    pub(crate) fn cached(&self, now: Instant) -> Option<Arc<Cached>> {
        self.look(now).filter(|cached| cached.is_current(now))
    }

    /// Returns the cached snapshot of this epoch, which may have expired.
    fn look(&self, now: Instant) -> Option<Arc<Cached>> {
        let cache = self.guard.cache();
        let (cached, must_touch) = self.lock().cached(now, cache.touch_every())?;
        if must_touch {
            if !cache.touch(&self.key()) {
                self.lock().evicted(&cached);
                return None;
            }
            self.lock().touched(now);
        }
        Some(cached)
    }

    /// Returns whether a snapshot of this epoch can serve a new call: its list has not expired, and
    /// resolving it again would give the same roots as far as is known.
    fn may_serve(&self, cached: &Cached, now: Instant) -> bool {
        let boundary = self.guard.boundary();
        cached.is_current(now)
            // Defense: After the allowed directories have changed, the list is resolved again.
            && !cached.must_resolve(boundary, now)
            && !boundary.is_resolution_due()
    }

    async fn obtain(&self, mut source: impl RootsSource, now: Instant) -> Result<Arc<Cached>> {
        let deadline = self.deadline(now);
        // A list that has expired when it arrives is still valid for calls that began before it was
        // requested.
        let first = self.lock().fetches() + 1;
        let mut changes = 0;
        loop {
            let now = Instant::now();
            let seen = self.look(now);
            if let Some(cached) = seen.as_ref().filter(|seen| self.may_serve(seen, now)) {
                return Ok(cached.clone());
            }
            let cached = seen.as_ref().filter(|seen| seen.is_current(now));
            if now >= deadline {
                return Err(timed_out());
            }
            let (join, replaced) =
                self.lock().join(seen.as_ref(), cached.is_some(), now, deadline)?;
            if let Some(replaced) = replaced {
                replaced.end(End::Nothing);
            }
            let end = match (join, cached) {
                (Join::Retry, _) => End::Nothing,
                (Join::Wait(fetch), _) => self.wait(&fetch, first, deadline).await?,
                (Join::Lead(fetch), Some(cached)) => {
                    Leader { client: self, fetch }.renew(cached, deadline).await?
                }
                (Join::Lead(fetch), None) => {
                    Leader { client: self, fetch }.fetch(&mut source, deadline).await?
                }
            };
            match end {
                End::Cached(cached) => return Ok(cached),
                End::Failed(failure) => return Err(failure.error()),
                End::Nothing => {}
                End::Overtaken if changes == FETCH_RETRIES => {
                    return Err(Code::RootsChanging.into());
                }
                End::Overtaken => changes += 1,
            }
        }
    }

    /// Waits for a fetch. Its result is valid only if it is from the session's epoch at the end of
    /// the wait. A list that has expired by then is valid only if it was requested after the call
    /// began.
    async fn wait(&self, fetch: &Fetch, first: u64, deadline: Instant) -> Result<End> {
        let end = fetch.wait(deadline).await?.ok_or_else(timed_out)?;
        let epoch = self.lock().epoch();
        Ok(match end {
            End::Cached(cached) if cached.epoch != epoch => End::Nothing,
            End::Cached(cached) if fetch.number < first && !cached.is_current(Instant::now()) => {
                End::Nothing
            }
            End::Failed(failure) if failure.epoch != epoch => End::Nothing,
            end => end,
        })
    }

    pub(super) async fn resolve(
        &self,
        list: Arc<ListRootsResult>,
        deadline: Instant,
    ) -> Result<Roots> {
        // The configured paths are resolved separately, because one that the list does not name may
        // hang.
        self.guard.allowed_roots(deadline).await?;
        let boundary = self.guard.boundary().clone();
        let cancelled = CancelOnDrop::default();
        let effort = Effort::new(Some(std_instant(deadline)), cancelled.0.clone());
        let resolve = move || boundary.resolve_within(&list, &effort);
        let work = run_on_workers(self.guard.workers(), &self.account, resolve);
        timeout_at(deadline, work).await?.ok_or_else(timed_out)?
    }

    /// Withdraws every list requested so far. Returns false if the session is closed.
    pub(crate) fn change(&self) -> bool {
        let changed = self.lock().change();
        self.changed.notify_waiters();
        changed
    }

    /// Closes the session. Returns false if it was already closed.
    pub(crate) fn close(&self) -> bool {
        let Ok(fetch) = self.lock().close() else { return false };
        // A client with `Lifetime::Request` was not counted and has nothing in the cache.
        if self.lifetime == Lifetime::Session {
            self.guard.cache().forget(&self.key());
            self.guard.unregister_session();
        }
        if let Some(fetch) = fetch {
            fetch.end(End::Nothing);
        }
        self.changed.notify_waiters();
        true
    }

    /// Returns the number of changes for [`Changes`](crate::Changes), or an error once the session
    /// is closed.
    pub(crate) fn changes(&self) -> Result<u64> {
        let state = self.lock();
        if state.is_closed() { Err(Code::SessionClosed.into()) } else { Ok(state.changes()) }
    }

    /// Returns the current epoch, or an error once the session is closed.
    pub(crate) fn epoch(&self) -> Result<u64> {
        let state = self.lock();
        if state.is_closed() { Err(Code::SessionClosed.into()) } else { Ok(state.epoch()) }
    }

    /// Returns the error code of the last fetch, if it failed and the list has not changed since.
    pub(crate) fn failure(&self) -> Option<Code> {
        self.lock().failure().map(Failure::code)
    }

    /// The key in the cache. Unlike the account, it is different for each session.
    pub(super) fn key(&self) -> Account {
        Account::Session(self.id)
    }

    fn deadline(&self, now: Instant) -> Instant {
        now + self.guard.choices().fetch_limit
    }

    pub(super) fn time_to_live(&self) -> Duration {
        let choices = self.guard.choices();
        match self.declared.roots() {
            Some(capability) if capability.list_changed => choices.time_to_live,
            _ => choices.time_to_live_unannounced,
        }
    }

    pub(super) fn log_fetched(&self, roots: &Roots, pages: usize) {
        events::fetched(self.id, roots.roots().len(), roots.rejected().len(), pages);
        for rejected in roots.rejected().iter().take(REJECTED_LOGGED) {
            events::rejected(self.id, rejected.index(), rejected.entry(), rejected.error());
        }
    }

    /// Locks the state even if the lock is poisoned, because each transition leaves the state
    /// consistent.
    pub(super) fn lock(&self) -> impl DerefMut<Target = State> + '_ {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cancels the resolution when dropped, which happens when no call waits for it any longer.
#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Whether an error means that the client failed to provide its roots.
fn is_clients(code: Code) -> bool {
    matches!(
        code,
        Code::RootsUnsupported
            | Code::RootsFailed
            | Code::RootsTimedOut
            | Code::RootsChanging
            | Code::RootsStale
            | Code::TooManyRoots
            | Code::TooManyPages
            | Code::RepeatedCursor
            | Code::TooLarge
    )
}

pub(super) fn timed_out() -> Error {
    Code::RootsTimedOut.into()
}
