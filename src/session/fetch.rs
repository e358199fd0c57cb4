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

use tokio::sync::watch;

use crate::account::Account;
use crate::boundary::WithoutClientRoots;
use crate::dir::Effort;
use crate::error::{Code, Error, ErrorKind, Result};
use crate::events::{self, SessionId};
use crate::limits::{FETCH_RETRIES, REJECTED_LOGGED};
use crate::roots::Roots;
use crate::session::runtime::{Instant, Mutex, run_until_stopped, std_instant, timeout_at};
use crate::session::state::{Cached, Current, End, Fetch, State, Step, Validity};
use crate::session::{ClientRoots, FetchedList, Guard, RootsSource, fetch_list};
use crate::wire::{ClientCapabilities, ListRootsResult};

/// A client, shared by the clones of its session.
pub(crate) struct Client {
    pub(crate) id: SessionId,
    pub(crate) guard: Guard,
    pub(crate) declared: ClientCapabilities,
    /// The account that its work is charged to.
    pub(crate) account: Account,
    pub(crate) lifetime: Lifetime,
    state: Mutex<State>,
    /// Wakes [`Changes`](crate::Changes).
    pub(crate) changes: watch::Sender<()>,
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
        guard: Guard,
        declared: ClientCapabilities,
        account: Option<Account>,
        lifetime: Lifetime,
    ) -> Self {
        let (id, state) = (Guard::next_session_id(), Mutex::new(State::new()));
        let account = account.unwrap_or(Account::Session(id));
        Self { id, guard, declared, account, lifetime, state, changes: watch::Sender::default() }
    }

    /// Returns the roots in force for a call that begins now, and the epoch of their list if they
    /// are the client's.
    pub(crate) async fn roots(&self, source: impl RootsSource) -> Result<(Roots, Option<u64>)> {
        let obtained = match self.fallback_policy() {
            Some(without) => self.roots_without(without).map(|roots| (roots, None)),
            // Boxed, to keep the future of every call small.
            None => Box::pin(self.obtain(source))
                .await
                .map(|cached| (cached.roots.clone(), Some(cached.epoch))),
        };
        match obtained {
            Ok((roots, epoch)) => Ok((roots.for_session(self.id, &self.account), epoch)),
            Err(error) => self.always_roots(error).map(|roots| (roots, None)),
        }
    }

    /// Returns the client's roots and the epoch of their list, if they are cached and valid.
    pub(crate) fn cached_roots(&self) -> Option<(Roots, u64)> {
        if self.fallback_policy().is_some() {
            return None;
        }
        let cached = self.valid(self.guard.current())?;
        Some((cached.roots.for_session(self.id, &self.account), cached.epoch))
    }

    /// Returns the cached snapshot if it may serve a new call.
    pub(crate) fn valid(&self, current: Current) -> Option<Arc<Cached>> {
        let state = self.lock();
        let cached = state.cached();
        let is_valid =
            cached.as_ref().is_some_and(|it| state.validity(it, current) == Validity::Valid);
        // The lock is released first, because dropping the snapshot may free it.
        drop(state);
        cached.filter(|_| is_valid)
    }

    /// Returns the directories that are always in force, for a client whose roots could not be
    /// obtained because of `error`. Fails with `error`, which is reported to the operator, if there
    /// are no such directories, or if the client did not cause the error.
    pub(crate) fn always_roots(&self, error: Error) -> Result<Roots> {
        let is_clients = matches!(
            error.kind(),
            ErrorKind::RootsUnsupported
                | ErrorKind::RootsFailed
                | ErrorKind::RootsStale
                | ErrorKind::LimitExceeded
        );
        if !self.guard.boundary().has_always_directories() || !is_clients {
            return Err(self.refused(error));
        }
        // The session may have been closed in the meantime.
        self.epoch().map_err(|closed| self.refused(closed))?;
        match self.guard.allowed_roots().always_despite(&error) {
            always if always.is_empty() => Err(self.refused(error)),
            always => Ok(always.for_session(self.id, &self.account)),
        }
    }

    pub(crate) fn refused(&self, error: Error) -> Error {
        events::refused(Some(self.id), &error);
        error
    }

    /// Returns the roots of a list that came with the request itself.
    pub(crate) async fn roots_of_list(&self, list: Arc<ListRootsResult>) -> Result<Roots> {
        let resolved = match self.fallback_policy() {
            Some(without) => self.roots_without(without),
            None => self.resolve_carried(list).await,
        };
        match resolved {
            Ok(roots) => Ok(roots.for_session(self.id, &self.account)),
            Err(error) => self.always_roots(error),
        }
    }

    async fn resolve_carried(&self, list: Arc<ListRootsResult>) -> Result<Roots> {
        self.epoch()?;
        let roots = self.resolve(list, self.deadline(Instant::now())).await?;
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

    fn roots_without(&self, without: WithoutClientRoots) -> Result<Roots> {
        self.epoch()?;
        match without {
            WithoutClientRoots::Deny => Err(Code::RootsUnsupported.into()),
            WithoutClientRoots::AllowedDirectories => Ok(self.guard.allowed_roots()),
        }
    }

    async fn obtain(&self, mut source: impl RootsSource) -> Result<Arc<Cached>> {
        let began = Instant::now();
        let deadline = self.deadline(began);
        let mut asked = 0;
        loop {
            let (fetch, end) = match self.next_step(deadline)? {
                Step::Serve(cached) => return Ok(cached),
                Step::Wait(fetch) => {
                    let end = fetch.wait(deadline).await?.ok_or_else(timed_out)?;
                    (fetch, end)
                }
                Step::Lead { fetch, again, replaced } => {
                    if let Some(replaced) = replaced {
                        replaced.end(End::Nothing);
                    }
                    let leader = Leader { client: self, fetch: fetch.clone() };
                    // A list that keeps changing is not requested without end.
                    if asked > FETCH_RETRIES {
                        return Err(Code::RootsChanging.into());
                    }
                    asked += u32::from(again.is_none());
                    match leader.fetch(&mut source, again, deadline).await? {
                        // A list that has expired by now is still valid for the call that
                        // requested it.
                        End::Cached(cached) => return Ok(cached),
                        end => (fetch, end),
                    }
                }
            };
            let is_current = fetch.epoch == self.epoch()?;
            match end {
                // A list that has expired by now is valid if it was requested after the call began.
                End::Cached(cached) if is_current && cached.expires > began => return Ok(cached),
                End::Failed(error) if is_current => return Err(error.repeated()),
                _ => {}
            }
        }
    }

    fn next_step(&self, deadline: Instant) -> Result<Step> {
        let current = self.guard.current();
        let mut state = self.lock();
        let cached = state.cached();
        let step = state.next_step(cached.as_ref(), current, deadline);
        // The lock is released first, because dropping the snapshot may free it.
        drop(state);
        step
    }

    async fn resolve(&self, list: Arc<ListRootsResult>, deadline: Instant) -> Result<Roots> {
        let boundary = self.guard.boundary().clone();
        let cancelled = CancelOnDrop::default();
        let effort = Effort::new(Some(std_instant(deadline)), cancelled.0.clone());
        let resolve = move || boundary.resolve_within(&list, &effort);
        let done = timeout_at(deadline, self.guard.slots().resolve(&self.account, resolve)).await?;
        done.ok_or_else(timed_out)??.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            Err(Error::new(Code::RootsFailed).detail(text.unwrap_or("panicked")))
        })
    }

    /// Withdraws every list requested so far. Returns false if the session is closed.
    pub(crate) fn change(&self) -> bool {
        let changed = self.lock().change();
        self.changes.send_replace(());
        changed
    }

    /// Closes the session. Returns false if it was already closed.
    pub(crate) fn close(&self) -> bool {
        let Ok(fetch) = self.lock().close() else { return false };
        // A client with `Lifetime::Request` was not counted and has nothing in the cache.
        if self.lifetime == Lifetime::Session {
            self.guard.cache().remove(&self.key());
            self.guard.unregister_session();
        }
        if let Some(fetch) = fetch {
            fetch.end(End::Nothing);
        }
        self.changes.send_replace(());
        true
    }

    /// Returns the current epoch, or an error once the session is closed.
    pub(crate) fn epoch(&self) -> Result<u64> {
        self.lock().epoch()
    }

    /// Returns the error code of the last fetch, if it failed and the list has not changed since.
    pub(crate) fn failure(&self) -> Option<Code> {
        self.lock().failure().map(Error::reason)
    }

    /// The key in the cache. Unlike the account, it is different for each session.
    fn key(&self) -> Account {
        Account::Session(self.id)
    }

    fn deadline(&self, now: Instant) -> Instant {
        now + self.guard.choices().fetch_limit
    }

    fn time_to_live(&self) -> Duration {
        let choices = self.guard.choices();
        match self.declared.roots() {
            Some(capability) if capability.list_changed => choices.time_to_live,
            _ => choices.time_to_live_unannounced,
        }
    }

    fn log_fetched(&self, roots: &Roots, pages: usize) {
        events::fetched(self.id, roots.roots().len(), roots.rejected().len(), pages);
        for rejected in roots.rejected().iter().take(REJECTED_LOGGED) {
            events::rejected(self.id, rejected.index(), rejected.entry(), rejected.error());
        }
    }

    /// Locks the state even if the lock is poisoned, because each transition leaves the state
    /// consistent.
    fn lock(&self) -> impl DerefMut<Target = State> + '_ {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The call that performs a fetch. If it is dropped before the fetch has ended, the fetch ends
/// without a result.
struct Leader<'a> {
    client: &'a Client,
    fetch: Arc<Fetch>,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        // Defense: A leader that is dropped ends its fetch, so that another call can lead.
        let end = self.client.lock().abandon(&self.fetch);
        self.fetch.end(end);
    }
}

impl Leader<'_> {
    /// Requests the list and resolves it, or only resolves the cached one `again`. Stops if the
    /// fetch ends first, because the session closed or another call replaced the fetch.
    async fn fetch(
        self,
        source: &mut impl RootsSource,
        again: Option<Arc<Cached>>,
        deadline: Instant,
    ) -> Result<End> {
        let client = self.client;
        // The time to live starts at the request, because the client may change its list
        // immediately afterwards.
        let (began, guard_number) = (Instant::now(), client.guard.current().guard_number);
        if deadline < began + client.guard.choices().fetch_limit / LEAST_TIME {
            return Err(timed_out());
        }
        let work = async {
            if let Some(cached) = again {
                let roots = client.resolve(cached.list.clone(), deadline).await?;
                events::resolved_again(client.id, roots.roots().len());
                return Ok(cached.resolved_again(roots));
            }
            // Defense: A client that never answers is not waited for after the deadline.
            let FetchedList { list, pages } =
                timeout_at(deadline, fetch_list(source)).await?.ok_or_else(timed_out)??;
            let list = Arc::new(list);
            let roots = client.resolve(list.clone(), deadline).await?;
            client.log_fetched(&roots, pages);
            let (epoch, expires) = (self.fetch.epoch, began + client.time_to_live());
            Ok(Cached { epoch, expires, guard_number, list, roots, resolved: Instant::now() })
        };
        match run_until_stopped(self.fetch.end.wait(), work).await {
            None => Ok(self.fetch.end.wait().await.clone()),
            Some(Ok(cached)) => Ok(self.succeed(Arc::new(cached))),
            Some(Err(error)) => self.fail(error),
        }
    }

    fn succeed(&self, cached: Arc<Cached>) -> End {
        let client = self.client;
        let keep = !client.time_to_live().is_zero();
        let end = client.lock().succeed(&self.fetch, cached.clone(), keep);
        if keep && matches!(end, End::Cached(_)) {
            client.guard.cache().insert(client.key(), cached);
            // Defense: A closed session leaves nothing in the cache.
            if client.epoch().is_err() {
                client.guard.cache().remove(&client.key());
            }
            client.changes.send_replace(());
        }
        self.fetch.end(end.clone());
        end
    }

    /// Ends the fetch with a failure of the client. Returns an error of the guard itself, after
    /// which another call may try.
    fn fail(&self, error: Error) -> Result<End> {
        let client = self.client;
        events::not_fetched(client.id, &error);
        if matches!(error.reason(), Code::NoRuntime | Code::Busy | Code::QueueFull) {
            return Err(error);
        }
        let end = client.lock().fail(&self.fetch, &error, Instant::now());
        self.fetch.end(end.clone());
        Ok(end)
    }
}

/// A call leads a fetch only if it has at least this part of the fetch limit left. With less time, a
/// client that answers slowly would be blamed for it, or be asked again by each call in a row.
const LEAST_TIME: u32 = 4;

/// Cancels the resolution when dropped, which happens when no call waits for it any longer.
#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn timed_out() -> Error {
    Code::RootsTimedOut.into()
}
