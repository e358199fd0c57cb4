//! How a call obtains its client's roots: from the cache, from the fetch in progress, or by a fetch
//! of its own, which it then leads.
//!
//! If the leader is dropped, or the author's source panics, its fetch ends and a waiting call leads
//! the next one. Each call ends by its own deadline, whatever it waits for.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use guarded_fs::host::{self, ResolvedRoots};
use guarded_fs::{Error, ErrorKind, Result, Roots};
use tokio::sync::watch;

use crate::kinds;
use crate::limits::{ENTRIES_LOGGED, FETCH_RETRIES};
use crate::session::epoch::Epoch;
use crate::session::errors::{roots_changing, roots_failed, roots_timed_out, roots_unsupported};
use crate::session::events;
use crate::session::runtime::{Instant, Mutex, lock, run_until_stopped, timeout_at};
use crate::session::state::{CacheEntry, Current, Fetch, State, Step, Validity};
use crate::session::{ClientRoots, Guard, RootsSource, fetch_list};
use crate::wire::{ClientCapabilities, ListRootsResult};

/// A client, shared by the clones of its session. One of the stateless era has no session, and
/// lives as long as its request.
pub(crate) struct Client {
    pub(crate) id: NonZeroU64,
    pub(crate) guard: Guard,
    pub(crate) declared: ClientCapabilities,
    /// The [share](host::Scope::share) that its work is charged to: one for all clients with the
    /// same `rmcp::ClientKey`.
    pub(crate) share: Arc<str>,
    state: Mutex<State>,
    /// Wakes [`RootsChanges`](crate::RootsChanges).
    pub(crate) changes: watch::Sender<()>,
}

impl Client {
    pub(crate) fn new(guard: Guard, declared: ClientCapabilities, share: Arc<str>) -> Self {
        let id = Guard::next_session_id();
        let state = Mutex::new(State::new(Epoch::new(id, share.clone())));
        Self { id, guard, declared, share, state, changes: watch::Sender::default() }
    }

    /// The roots in force for a call that begins now.
    pub(crate) async fn roots(&self, source: impl RootsSource) -> Result<RootsInForce> {
        let obtained = match self.without_list() {
            Some(without) => self.roots_without(without),
            None => match self.valid() {
                Some(cached) => Ok(cached),
                // Boxed, to keep the future of every call small.
                None => Box::pin(self.obtain(source)).await,
            }
            .map(|cached| RootsInForce::of_list(&cached)),
        };
        obtained.or_else(|error| self.always_roots(error))
    }

    /// The cached snapshot, if it may serve a new call.
    pub(crate) fn valid(&self) -> Option<Arc<CacheEntry>> {
        let current = self.guard.current();
        let state = lock(&self.state);
        let cached = state.cached.upgrade();
        let is_valid = cached.as_ref().is_some_and(|it| it.validity(current) == Validity::Valid);
        // The lock is released first, because dropping the snapshot may free it.
        drop(state);
        cached.filter(|_| is_valid)
    }

    /// The directories that are always in force, for a client whose roots could not be obtained
    /// because of `error`. Fails with `error`, which is reported to the operator, if there are
    /// none, or if the client did not cause it.
    fn always_roots(&self, error: Error) -> Result<RootsInForce> {
        if is_guards(&error) {
            return Err(self.log_refused(error));
        }
        // The session may have been closed in the meantime.
        let epoch = self.epoch().map_err(|closed| self.log_refused(closed))?;
        let roots = self.always_despite(&error);
        if roots.iter().len() == 0 {
            return Err(self.log_refused(error));
        }
        Ok(RootsInForce { roots, epoch })
    }

    fn always_despite(&self, failure: &Error) -> Roots {
        host::always_in_force(&self.guard.allowed().roots, failure)
    }

    /// The roots of a list that came with the request itself.
    pub(crate) async fn roots_of_list(
        &self,
        sent: Result<ListRootsResult>,
    ) -> Result<RootsInForce> {
        let resolved = match (self.without_list(), sent) {
            (Some(without), _) => self.roots_without(without),
            (None, Ok(list)) => {
                let epoch = self.epoch().map_err(|closed| self.log_refused(closed))?;
                let deadline = Instant::now() + self.guard.choices().fetch_limit;
                let resolved = self.resolve(Arc::new(list), deadline).await;
                let roots = resolved.map(|resolved| resolved.roots);
                let roots = roots.inspect(|roots| self.log_fetched(roots, 1));
                roots.map(|roots| RootsInForce { roots, epoch })
            }
            (None, Err(error)) => Err(error),
        };
        resolved.or_else(|error| self.always_roots(error))
    }

    /// The roots in force, without asking the client. If its list is not known, only the
    /// directories that are always in force are, because of `unknown`.
    pub(crate) fn known_roots(&self, unknown: &Error) -> Result<RootsInForce> {
        let epoch = self.epoch()?;
        let roots = match (self.without_list(), self.valid()) {
            (Some(true), _) => self.guard.allowed().roots,
            (Some(false), _) => self.always_despite(&roots_unsupported()),
            (None, Some(cached)) => return Ok(RootsInForce::of_list(&cached)),
            // Defense: A list that is not known grants nothing.
            (None, None) => self.always_despite(unknown),
        };
        Ok(RootsInForce { roots, epoch })
    }

    /// Whether the allowed directories are in force, because client roots are ignored or the client
    /// declared none. `None` if the client's list decides.
    pub(crate) fn without_list(&self) -> Option<bool> {
        let client_roots = self.guard.choices().client_roots;
        let has_roots = self.declared != ClientCapabilities::WithoutRoots;
        let is_asked = has_roots && client_roots != ClientRoots::Ignore;
        (!is_asked).then(|| client_roots != ClientRoots::Require)
    }

    fn roots_without(&self, are_allowed: bool) -> Result<RootsInForce> {
        let epoch = self.epoch()?;
        if are_allowed {
            Ok(RootsInForce { roots: self.guard.allowed().roots, epoch })
        } else {
            Err(roots_unsupported())
        }
    }

    async fn obtain(&self, mut source: impl RootsSource) -> Result<Arc<CacheEntry>> {
        let began = Instant::now();
        let deadline = began + self.guard.choices().fetch_limit;
        let mut asked = 0;
        loop {
            match self.next_step(deadline)? {
                Step::Serve(cached) => return Ok(cached),
                Step::Wait(fetch) => match fetch.wait(deadline).await? {
                    // The list was requested in this epoch and, if it has expired by now, after the
                    // call began.
                    Some(cached) if !cached.epoch.is_over() && cached.expires > began => {
                        return Ok(cached);
                    }
                    _ => {}
                },
                Step::Lead { fetch, again, replaced } => {
                    if let Some(replaced) = replaced {
                        replaced.end(None);
                    }
                    let leader = Leader { client: self, fetch };
                    // A list that keeps changing is not requested without end.
                    if asked > FETCH_RETRIES {
                        return Err(roots_changing());
                    }
                    asked += u32::from(again.is_none());
                    if let Some(cached) = leader.fetch(&mut source, again, deadline).await? {
                        return Ok(cached);
                    }
                }
            }
        }
    }

    fn next_step(&self, deadline: Instant) -> Result<Step> {
        let current = self.guard.current();
        let mut state = lock(&self.state);
        let cached = state.cached.upgrade();
        let step = state.next_step(cached.as_ref(), current, deadline);
        // The lock is released first, because dropping the snapshot may free it.
        drop(state);
        step
    }

    async fn resolve(
        &self,
        list: Arc<ListRootsResult>,
        deadline: Instant,
    ) -> Result<ResolvedRoots> {
        self.epoch()?;
        let guard = self.guard.clone();
        // Nobody waits for the result once this call has ended.
        let waiting = Arc::new(());
        let caller = Arc::downgrade(&waiting);
        let resolve = move || guard.roots_of(&list, &|| caller.strong_count() == 0);
        let done = timeout_at(deadline, self.guard.slots().resolve(&self.share, resolve)).await?;
        let panicked = |_| Err(roots_failed("resolving the list panicked"));
        let resolved = done.ok_or_else(roots_timed_out)??.unwrap_or_else(panicked);
        resolved.map_err(|error| match error.kind() {
            ErrorKind::TooCostly => {
                roots_timed_out().with_operator_detail("resolving the list took too long")
            }
            _ => error,
        })
    }

    /// Withdraws every list requested so far. Returns false if the session is closed.
    pub(crate) fn change(&self) -> bool {
        // A client that is not asked has nothing to withdraw.
        let is_asked = self.without_list().is_none();
        let changed = if is_asked { lock(&self.state).change() } else { self.epoch().is_ok() };
        self.changes.send_replace(());
        changed
    }

    pub(crate) fn close(&self) {
        let Ok(fetch) = lock(&self.state).close() else { return };
        self.guard.cache().remove(self.id);
        self.guard.unregister_session();
        if let Some(fetch) = fetch {
            fetch.end(None);
        }
        self.changes.send_replace(());
        events::closed(self.id);
    }

    /// The current epoch, or an error once the session is closed.
    pub(crate) fn epoch(&self) -> Result<Arc<Epoch>> {
        lock(&self.state).epoch().cloned()
    }

    pub(crate) fn failure(&self) -> Option<ErrorKind> {
        lock(&self.state).failure()
    }

    fn time_to_live(&self) -> Duration {
        let choices = self.guard.choices();
        if self.declared == ClientCapabilities::WithAnnouncedRoots {
            choices.time_to_live
        } else {
            choices.time_to_live_without_notifications
        }
    }

    /// Reports a refusal of this client's request to the operator.
    pub(crate) fn log_refused(&self, error: Error) -> Error {
        host::log_refused(error, Some(self.id))
    }

    fn log_fetched(&self, roots: &Roots, pages: usize) {
        events::fetched(self.id, roots.iter().len(), roots.rejected().len(), pages);
        self.log_roots(roots);
        for rejected in roots.rejected().iter().take(ENTRIES_LOGGED) {
            events::rejected(self.id, rejected.index(), rejected.entry(), rejected.error());
        }
    }

    fn log_roots(&self, roots: &Roots) {
        for (index, root) in roots.iter().enumerate().take(ENTRIES_LOGGED) {
            events::root_in_force(self.id, index, root.path());
        }
    }
}

/// Roots of a client that are in no scope yet, and the epoch in which they were obtained.
pub(crate) struct RootsInForce {
    pub(crate) roots: Roots,
    pub(crate) epoch: Arc<Epoch>,
}

impl RootsInForce {
    fn of_list(cached: &CacheEntry) -> Self {
        Self { roots: cached.resolved.roots.clone(), epoch: cached.epoch.clone() }
    }

    pub(crate) fn in_session(self) -> Roots {
        host::in_scope(self.roots, self.epoch)
    }
}

/// The call that performs a fetch, which ends without a result if this is dropped before.
struct Leader<'a> {
    client: &'a Client,
    fetch: Arc<Fetch>,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        // Defense: A leader that is dropped ends its fetch, so that another call can lead.
        lock(&self.client.state).ends(&self.fetch);
        self.fetch.end(None);
    }
}

impl Leader<'_> {
    /// Requests the list and resolves it, or only resolves the cached one `again`. Stops if the
    /// fetch ends first, because the session closed or another call replaced the fetch.
    async fn fetch(
        self,
        source: &mut impl RootsSource,
        again: Option<Arc<CacheEntry>>,
        deadline: Instant,
    ) -> Result<Option<Arc<CacheEntry>>> {
        let client = self.client;
        // The time to live starts at the request, because the client may change its list
        // immediately afterwards.
        let requested = client.guard.current();
        if deadline < requested.now + client.guard.choices().fetch_limit / LEAST_TIME {
            return Err(roots_timed_out());
        }
        let work = async {
            if let Some(cached) = again {
                let resolved = client.resolve(cached.list.clone(), deadline).await?;
                events::resolved_again(client.id, resolved.roots.iter().len());
                client.log_roots(&resolved.roots);
                return Ok(cached.resolved_again(resolved, requested));
            }
            // Defense: A client that never answers is not waited for after the deadline.
            let (list, pages) =
                timeout_at(deadline, fetch_list(source)).await?.ok_or_else(roots_timed_out)??;
            let list = Arc::new(list);
            let invalidations = requested.invalidations;
            let as_of = Current { invalidations, ..client.guard.current() };
            let resolved = client.resolve(list.clone(), deadline).await?;
            client.log_fetched(&resolved.roots, pages);
            let (epoch, expires) =
                (self.fetch.epoch.clone(), requested.now + client.time_to_live());
            Ok(CacheEntry { epoch, expires, list, resolved, as_of })
        };
        match run_until_stopped(self.fetch.end.wait(), work).await {
            None => Ok(self.fetch.end.wait().await.clone()),
            Some(Ok(cached)) => Ok(self.succeed(Arc::new(cached))),
            Some(Err(error)) => {
                events::not_fetched(client.id, &error);
                // After an error of the guard itself, another call may try at once.
                let counts = is_guards(&error)
                    || lock(&client.state).fail(&self.fetch, &error, Instant::now());
                if counts { Err(error) } else { Ok(None) }
            }
        }
    }

    fn succeed(&self, cached: Arc<CacheEntry>) -> Option<Arc<CacheEntry>> {
        let client = self.client;
        let keep = !client.time_to_live().is_zero();
        if !lock(&client.state).succeed(&self.fetch, &cached, keep) {
            return None;
        }
        if keep {
            let cache = client.guard.cache();
            cache.insert(client.id, cached.clone());
            // Defense: A closed session leaves nothing in the cache.
            if client.epoch().is_err() {
                cache.remove(client.id);
            }
            client.changes.send_replace(());
        }
        self.fetch.end(Some(cached.clone()));
        Some(cached)
    }
}

/// A call leads a fetch only if it has at least this part of the fetch limit left. With less, a
/// client that answers slowly would be blamed for it, or be asked again by each call in a row.
const LEAST_TIME: u32 = 4;

/// Whether an error is the guard's own instead of the client's, or the session is closed.
fn is_guards(error: &Error) -> bool {
    matches!(error.kind(), kinds::BUSY | kinds::NO_RUNTIME | kinds::SESSION_CLOSED)
}
