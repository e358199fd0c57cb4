//! The roots of one client, never those it has withdrawn.
//!
//! A call that begins after [`Session::list_changed`] returned is never decided by a list that was
//! requested before. The argument:
//!
//! 1. A session has an epoch. Each `list_changed` replaces it by the next number of a counter of the
//!    process, so no epoch occurs twice.
//! 2. A leader reads the epoch before it requests the list, and the snapshot carries that epoch.
//! 3. A call gets a snapshot in three ways: from the cache, by waiting for a fetch, or as the leader of
//!    one. The session forgets its cached snapshot when the epoch changes, and the other two compare
//!    the snapshot's epoch with the session's, read after the call began.
//! 4. A call that begins after `list_changed` returned reads that epoch or a later one, and an older
//!    list has an older one.
//! 5. What the cache evicts or loses costs a request to the client and nothing else: the epoch is in
//!    the session, not in the cache. A failure caches nothing.
//! 6. Resolving a cached list again keeps the epoch of the list and the time at which it is too old.
//! 7. A closed session has an epoch that no snapshot has, and its fetch is ended.
//! 8. The source requests the list when it is called, as [`RootsSource`] demands. A list that came with
//!    a request decides that request alone.
//! 9. The server's transport orders the notification and the call: a server that handles messages
//!    concurrently calls `list_changed` before it reads the next message.

pub(crate) mod runtime;
mod source;
pub(crate) mod cache;
#[cfg(feature = "rmcp")]
mod key;
mod guard;
mod state;
mod fetch;

use std::fmt;
use std::sync::Arc;

pub use self::guard::{ClientRoots, Guard, GuardBuilder, WithoutClientRoots};
#[cfg(feature = "rmcp")]
pub(crate) use self::source::fetch_failed;
pub(crate) use self::source::{FetchedList, fetch_list};
pub use self::source::{RootsResponse, RootsSource};

#[cfg(feature = "rmcp")]
pub use self::key::ClientKey;
use crate::check::CheckedPath;
use crate::error::{Code, Error, ErrorKind, Result};
use crate::events::{self, SessionId};
use crate::roots::Roots;
use crate::session::fetch::{Client, Lifetime};
use crate::session::runtime::Instant;
use crate::wire::{ClientCapabilities, ListRootsResult};
use crate::workers::Account;

/// One client of a server. Cheap to clone; the last clone that is dropped closes it.
///
/// ```
/// use mcp_roots_guard::{
///     Boundary, ClientCapabilities, ErrorKind, Guard, ListRootsResult, RootsCapability, RootsResponse, RootsState,
/// };
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let guard = Guard::new(Boundary::builder().client_roots_only().build()?);
/// let session = guard.session(ClientCapabilities::with_roots(RootsCapability::announcing()))?;
/// assert_eq!(session.state(), RootsState::Stale);
/// let ask = |_: Option<String>| async { RootsResponse::List(ListRootsResult::from_uris(["file:///tmp"])) }; // a request to the client
/// session.roots(ask).await?;
/// assert_eq!(session.state(), RootsState::Available);
/// // The client is not asked again,
/// session.roots(|_: Option<String>| async { unreachable!() }).await?;
/// session.list_changed();
/// // until it says that its roots changed; then nothing is served until it has told them.
/// let failed = session.roots(|_: Option<String>| async { RootsResponse::Failed("-32601: no such method".into()) }).await;
/// assert_eq!(failed.unwrap_err().kind(), ErrorKind::RootsFailed);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Session {
    shared: Arc<CloseOnDrop>,
}

/// What closes the session when it is dropped. Those who wait for changes hold the client, and not this.
struct CloseOnDrop(Arc<Client>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        close(&self.0);
    }
}

/// Its number and state.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id()).field("state", &self.state()).finish()
    }
}

/// The session's number.
impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("session", &self.client.id).finish_non_exhaustive()
    }
}

fn close(client: &Client) {
    if client.close() && client.lifetime == Lifetime::Session {
        events::closed(client.id);
    }
}

/// What is known of a client's roots right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RootsState {
    /// The client did not declare roots: [`WithoutClientRoots`] says what is in force.
    Unsupported,
    /// This server ignores client roots ([`ClientRoots::Ignore`]).
    Ignored,
    /// They have to be asked for: for the first time, because they changed or were forgotten, or as the client does not announce changes.
    Stale,
    /// They were requested and could not be obtained; nothing is in force.
    Failed(ErrorKind),
    /// The client told its roots, and nothing of them is in force: it has none, or none stands.
    Empty,
    /// They are in force.
    Available,
    /// The session is closed.
    Closed,
}

impl Guard {
    /// Begins the session of a client, with what it declared in `initialize`.
    ///
    /// Without readable capabilities there is no session: see [`ClientCapabilities`].
    ///
    /// A client of the stateless era (2026-07-28) declares its capabilities in each request: a session for each request is as good.
    ///
    /// # Errors
    ///
    /// [`Busy`](crate::ErrorKind::Busy) (`too_many_sessions`).
    pub fn session(&self, declared: ClientCapabilities) -> Result<Session> {
        let id = self.register_session()?;
        Ok(self.begin(id, declared, Account::Session(id), Lifetime::Session))
    }

    /// The same for a client that bears a key, which is then charged for what the session uses.
    #[cfg(feature = "rmcp")]
    pub(crate) fn session_with_key(
        &self,
        declared: ClientCapabilities,
        key: Option<&ClientKey>,
    ) -> Result<Session> {
        let id = self.register_session()?;
        let account = key.map_or(Account::Session(id), |key| key.account().clone());
        Ok(self.begin(id, declared, account, Lifetime::Session))
    }

    /// The same for one request: it is not counted, and its end is nothing to tell.
    #[cfg(feature = "rmcp")]
    pub(crate) fn session_for_request(
        &self,
        declared: ClientCapabilities,
        key: Option<&ClientKey>,
    ) -> Session {
        let account = key.map_or(Account::Anonymous, |key| key.account().clone());
        self.begin(Self::next_session_id(), declared, account, Lifetime::Request)
    }

    fn begin(
        &self,
        id: SessionId,
        declared: ClientCapabilities,
        account: Account,
        lifetime: Lifetime,
    ) -> Session {
        let client = Client::new(id, self.clone(), declared, account, lifetime);
        Session { shared: Arc::new(CloseOnDrop(Arc::new(client))) }
    }
}

impl Session {
    /// The roots in force for a request that arrives now: those that are kept, or what `source` tells. Take them once a request.
    ///
    /// One call asks at a time, within its own request, and the others wait for it. If it is dropped, or not polled any more, or the roots
    /// change meanwhile, its question counts no more, and another call asks. A call takes at most the guard's
    /// [`fetch_limit`](crate::GuardBuilder::fetch_limit). After a failure the client is not asked again for a second, then two, and so on up to
    /// half a minute, unless it says that its roots changed; calls are refused meanwhile.
    ///
    /// It must be awaited in a tokio runtime with time enabled. Directories are resolved on threads of
    /// the guard's, one list of a client at a time. It can be dropped at any await.
    ///
    /// # Errors
    ///
    /// [`RootsUnsupported`](crate::ErrorKind::RootsUnsupported) by [`WithoutClientRoots::Deny`], or
    /// as the source said; [`RootsFailed`](crate::ErrorKind::RootsFailed) (`roots_failed`,
    /// `roots_timed_out`, `roots_changing`); [`RootsFailed`](crate::ErrorKind::RootsFailed)
    /// (`too_many_roots`), [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_large`),
    /// [`RootsFailed`](crate::ErrorKind::RootsFailed) (`too_many_pages`, `repeated_cursor`) for the
    /// list; [`SessionClosed`](crate::ErrorKind::SessionClosed);
    /// [`NoRuntime`](crate::ErrorKind::NoRuntime). In none of these cases is anything granted.
    pub async fn roots(&self, source: impl RootsSource) -> Result<Roots> {
        self.roots_and_epoch(source).await.map(|(roots, _)| roots)
    }

    /// The same, and where the roots are the client's, the epoch of their list.
    pub(crate) async fn roots_and_epoch(
        &self,
        source: impl RootsSource,
    ) -> Result<(Roots, Option<u64>)> {
        let client = self.client();
        match client.roots(source).await {
            Ok((roots, epoch)) => Ok((roots.for_session(client.id), epoch)),
            Err(error) => Err(self.log_refusal(error)),
        }
    }

    /// Who is charged for its work.
    #[cfg(feature = "rmcp")]
    pub(crate) fn account(&self) -> &Account {
        &self.client().account
    }

    /// Whether the session is still in the epoch of a list, and open.
    #[cfg(feature = "rmcp")]
    pub(crate) fn ensure_current(&self, epoch: Option<u64>) -> Result<()> {
        let now = self.client().epoch()?;
        match epoch {
            Some(epoch) if epoch != now => Err(Code::RootsStale.into()),
            _ => Ok(()),
        }
    }

    /// The roots in force for a request that came with the client's list: a retry in the stateless era (2026-07-28). They are for this
    /// request alone, and neither kept nor given to others; the policies are those of [`roots`](Self::roots). For a list from configuration,
    /// see [`Boundary::resolve`](crate::Boundary::resolve).
    ///
    /// # Errors
    ///
    /// [`RootsUnsupported`](crate::ErrorKind::RootsUnsupported),
    /// [`RootsFailed`](crate::ErrorKind::RootsFailed) (`roots_timed_out`, `roots_failed`,
    /// `too_many_roots`), [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_large`),
    /// [`SessionClosed`](crate::ErrorKind::SessionClosed),
    /// [`NoRuntime`](crate::ErrorKind::NoRuntime).
    pub async fn roots_from_list(&self, list: ListRootsResult) -> Result<Roots> {
        let client = self.client();
        match client.roots_of_list(list).await {
            Ok(roots) => Ok(roots.for_session(client.id)),
            Err(error) => Err(self.log_refusal(error)),
        }
    }

    /// Withdraws the client's roots: the next call asks for them again. For `notifications/roots/list_changed`.
    ///
    /// It takes effect before it returns; it does not wait, and asks nothing, as a notification is no request to ask in. Call it before
    /// the client's next message is handled: where messages are handled concurrently, in the loop that reads them, and not in a task
    /// that the notification starts. The directories of the withdrawn list may stay open until the next answer or until the session is closed;
    /// no later call is given them. A request that took its [`Roots`] before goes on with those: ask
    /// [`still_allows`](Self::still_allows) in what takes long.
    pub fn list_changed(&self) {
        if self.client().change() {
            events::changed(self.client().id);
        }
    }

    /// Whether a proof from an earlier request still stands by the snapshot now in force: for an open watch, a subscription, a long
    /// iteration. It stands until somebody says otherwise: ask before each step. It may do I/O of a few system calls, at most twice a second
    /// where the proof's root is in force itself; see [`Roots::still_allows`].
    ///
    /// # Errors
    ///
    /// [`RootsStale`](crate::ErrorKind::RootsStale) if the roots have to be asked for, which takes
    /// a request to ask in; so it always is for a client that does not announce changes, without a
    /// [time to live](crate::GuardBuilder::time_to_live_unannounced). Those of
    /// [`Roots::still_allows`]. [`SessionClosed`](crate::ErrorKind::SessionClosed),
    /// [`RootsUnsupported`](crate::ErrorKind::RootsUnsupported).
    pub fn still_allows(&self, checked: &CheckedPath) -> Result<()> {
        self.current_roots()?.still_allows(checked)
    }

    /// The roots in force, as far as they need not be asked for.
    fn current_roots(&self) -> Result<Roots> {
        let client = self.client();
        let _ = client.epoch()?;
        match client.fallback_policy() {
            None => Ok(client.cached(Instant::now()).ok_or(Code::RootsStale)?.roots.clone()),
            Some(WithoutClientRoots::Deny) => Err(Code::RootsUnsupported.into()),
            Some(WithoutClientRoots::AllowedDirectories) => {
                Ok(client.guard.boundary().last_allowed_roots())
            }
        }
    }

    /// Tells from now on when the client's roots change.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let client = self.shared.0.clone();
        Changes { seen: client.changes().unwrap_or_default(), client }
    }

    /// What is known of the client's roots right now. To show: by the time it is read it may be otherwise.
    #[must_use]
    pub fn state(&self) -> RootsState {
        let client = self.client();
        if client.epoch().is_err() {
            return RootsState::Closed;
        }
        if client.guard.choices().client_roots == ClientRoots::Ignore {
            return RootsState::Ignored;
        }
        if client.declared.roots().is_none() {
            return RootsState::Unsupported;
        }
        match client.cached(Instant::now()) {
            Some(cached) if cached.roots.is_empty() => RootsState::Empty,
            Some(_) => RootsState::Available,
            None => {
                client.failure().map_or(RootsState::Stale, |code| RootsState::Failed(code.kind()))
            }
        }
    }

    /// Closes the session, for all clones: its roots are forgotten, and calls are refused.
    pub fn close(&self) {
        close(self.client());
    }

    /// The identifier that events bear.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.client().id
    }

    /// The guard that minted it.
    #[must_use]
    pub fn guard(&self) -> &Guard {
        &self.client().guard
    }

    /// What the client declared.
    #[must_use]
    pub fn declared(&self) -> ClientCapabilities {
        self.client().declared
    }

    fn client(&self) -> &Client {
        &self.shared.0
    }

    fn log_refusal(&self, error: Error) -> Error {
        events::refused(Some(self.client().id), &error);
        error
    }
}

/// Tells when a session's roots change. It does not keep the session open.
#[derive(Clone)]
pub struct Changes {
    client: Arc<Client>,
    seen: u64,
}

impl Changes {
    /// Waits until the roots may be others than when this was last asked, or was made: [`Session::list_changed`] was called, or they were
    /// told or resolved anew and are kept. What happened in between counts as one change. It can be dropped at any await, and loses
    /// nothing.
    ///
    /// It is not told when time passes, or memory is short: then [`Session::still_allows`] says
    /// [`RootsStale`](crate::ErrorKind::RootsStale). Of a client that does not announce changes
    /// nothing is kept, and so no answer is told, unless it is [trusted for a
    /// time](crate::GuardBuilder::time_to_live_unannounced).
    ///
    /// # Errors
    ///
    /// [`SessionClosed`](crate::ErrorKind::SessionClosed), from then on.
    pub async fn changed(&mut self) -> Result<()> {
        loop {
            // From here on a change wakes this, polled or not.
            let changed = self.client.changed.notified();
            let count = self.client.changes()?;
            if count != self.seen {
                self.seen = count;
                return Ok(());
            }
            changed.await;
        }
    }
}

#[cfg(all(test, feature = "rmcp"))]
mod tests {
    use super::*;
    use crate::Boundary;

    #[test]
    fn a_closed_session_is_never_current() {
        let guard = Guard::new(Boundary::builder().client_roots_only().build().unwrap());
        let session = guard.session(ClientCapabilities::without_roots()).unwrap();
        let still = |epoch| session.ensure_current(epoch).map_err(|error| error.reason());
        let epoch = session.client().epoch().unwrap();
        assert_eq!(
            (still(None), still(Some(epoch)), still(Some(0))),
            (Ok(()), Ok(()), Err(Code::RootsStale))
        );
        session.close();
        assert_eq!(
            (still(None), still(Some(epoch))),
            (Err(Code::SessionClosed), Err(Code::SessionClosed))
        );
    }
}
