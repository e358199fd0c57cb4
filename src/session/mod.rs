//! Sessions: how the roots of one client are fetched, cached and withdrawn.
//!
//! No call that begins after [`Session::list_changed`] has returned uses a list that was requested
//! before the change:
//!
//! 1. A session has an epoch. Each `list_changed` ends it and begins another one. Closing ends the
//!    last one.
//! 2. A leader reads the epoch before it requests the list, and the snapshot carries it, also after
//!    its list was resolved again.
//! 3. However a call obtains a snapshot, the snapshot's epoch must not be over, which is read after
//!    the call began. The epoch is also the scope of the snapshot, so nothing begins through it
//!    later.
//! 4. The source requests the list when it is called, as [`RootsSource`] requires. A list that came
//!    with a request is used only for that request.
//! 5. The epoch is stored in the session, so an entry that the cache loses costs only a request to
//!    the client. A failed fetch caches nothing.
//! 6. The transport determines the order of the notification and the call. A server that handles
//!    messages concurrently calls `list_changed` before it reads the next message, or lets an
//!    [`Observer`] do so.

pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod runtime;
mod slots;
pub(crate) mod source;
pub(crate) mod epoch;
pub(crate) mod state;
mod cache;
mod guard;
mod fetch;
mod observe;

use std::fmt;
use std::sync::Arc;

use guarded_fs::{ErrorKind, Result, Roots};
use tokio::sync::watch;

pub use self::guard::{ClientRoots, Guard, GuardBuilder};
pub use self::observe::Observer;
pub(crate) use self::source::fetch_list;
pub use self::source::{RootsResponse, RootsSource};

use crate::kinds;
use crate::session::errors::{CHANGED, roots_stale};
pub(crate) use crate::session::fetch::{Client, RootsInForce};
use crate::wire::{ClientCapabilities, ListRootsResult};

/// One client of a server. A session is cheap to clone. Dropping the last clone closes it.
///
/// ```
/// use mcp_roots_guard::{
///     Boundary, ClientCapabilities, Guard, ListRootsResult, RootsResponse, RootsState, kinds,
/// };
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let guard = Guard::new(Boundary::any_listed().build()?);
/// let session = guard.session(ClientCapabilities::WithAnnouncedRoots)?;
/// assert_eq!(session.state(), RootsState::Unknown);
/// // Sends a request to the client.
/// let ask = |_: Option<String>| async {
///     RootsResponse::List(ListRootsResult::from_uris(["file:///tmp"]))
/// };
/// session.roots(ask).await?;
/// assert_eq!(session.state(), RootsState::Available);
/// // The list is cached, so no second request is sent.
/// session.roots(|_: Option<String>| async { unreachable!() }).await?;
/// session.list_changed();
/// // After a change, nothing is served until the client has sent its new list.
/// let fail = |_: Option<String>| async { RootsResponse::Failed("no such method".into()) };
/// let failed = session.roots(fail).await;
/// assert_eq!(failed.unwrap_err().kind(), kinds::ROOTS_FAILED);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// # }).unwrap();
/// ```
///
/// # Which roots are in force
///
/// | case | in force |
/// | --- | --- |
/// | the client sent a list | the part of it inside the allowed directories; all of it with [`any_listed`](crate::Boundary::any_listed), none with [`nothing`](crate::Boundary::nothing) |
/// | the client did not declare roots | the allowed directories, or nothing: [`ClientRoots::Require`] |
/// | the list is empty | nothing, or the allowed directories: [`ClientRoots::NarrowIfListed`] |
/// | every entry of the list is rejected | nothing |
/// | the list is late, malformed or an error | nothing |
/// | in any of these cases | also the allowed directories that are [always] in force, after the client's roots |
/// | the capabilities are missing or malformed | there is no session: answer the request with -32602 |
/// | a configured path leads to another directory, or an optional directory appears | calls notice this at most twice a second, and the cached list is resolved again, without asking the client |
///
/// A relative path starts at the client's first root or, if the client does not narrow the allowed
/// directories, at the first allowed directory. [`Roots::with_base`] chooses another root. If the
/// client's list could not be obtained or grants nothing, a relative path is refused with the error
/// that the call would return if no directory were always in force.
///
/// # When the client is asked
///
/// | case | behavior |
/// | --- | --- |
/// | it announces changes (`listChanged`) | its list is used until it announces a change, for an hour at most |
/// | it does not announce changes | it is asked for each request, unless [`time_to_live_without_notifications`] is set |
/// | several calls arrive at once | one call asks, within its own request, and the others wait. If that call is cancelled or stalls, or its [`RootsSource`] panics, a waiting call asks. The panic propagates only to that call |
/// | the list changes while it is requested | the result is discarded, and the list is requested again |
/// | it answers with an error, or not within 5 s ([`fetch_limit`]) | the waiting calls end, and further calls are refused immediately for 1 s, unless the client announces a change. This time doubles with each consecutive failure, up to 30 s |
///
/// # If every request is refused
///
/// Look at the events `entry rejected` (feature `tracing`) or at [`Roots::rejected`]: they show why
/// no entry of the client's list grants access. A client that sends paths instead of URIs, such as
/// Cursor, needs [`allow_bare_paths`].
///
/// [always]: crate::DirectoryOptions::always
/// [`time_to_live_without_notifications`]: crate::GuardBuilder::time_to_live_without_notifications
/// [`fetch_limit`]: crate::GuardBuilder::fetch_limit
/// [`allow_bare_paths`]: crate::GuardBuilder::allow_bare_paths
#[derive(Clone)]
pub struct Session {
    shared: Arc<CloseOnDrop>,
}

struct CloseOnDrop(Arc<Client>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id()).field("state", &self.state()).finish()
    }
}

impl fmt::Debug for RootsChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootsChanges").field("session", &self.client.id).finish_non_exhaustive()
    }
}

/// The state of a client's roots. Directories that are [always](crate::DirectoryOptions::always) in
/// force are served in every state except [`Closed`](Self::Closed).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RootsState {
    /// The client did not declare roots. [`ClientRoots`] determines which roots are in force.
    Unsupported,
    /// This server ignores client roots ([`ClientRoots::Ignore`]).
    Ignored,
    /// The roots must be requested: they never were, they changed, expired or were evicted, or the
    /// client does not announce changes.
    Unknown,
    /// The roots were requested but could not be obtained. None of them is in force.
    Failed(ErrorKind),
    /// The client's list put no root in force, because it is empty or every entry was rejected.
    Empty,
    /// The roots are in force.
    Available,
    /// The session is closed.
    Closed,
}

impl Guard {
    /// Begins a session for a client with the capabilities that it declared in `initialize`. Since
    /// 2026-07-28, a client declares them in each request, and a server can begin a session for
    /// each.
    ///
    /// # Errors
    ///
    /// [`BUSY`](crate::kinds::BUSY) (`too_many_sessions`) if [`SESSIONS`](crate::limits::SESSIONS)
    /// sessions are open.
    pub fn session(&self, declared: ClientCapabilities) -> Result<Session> {
        self.session_with_share(declared, Self::next_share())
    }

    pub(crate) fn session_with_share(
        &self,
        declared: ClientCapabilities,
        share: Arc<str>,
    ) -> Result<Session> {
        self.register_session()?;
        let client = Arc::new(Client::new(self.clone(), declared, share));
        Ok(Session { shared: Arc::new(CloseOnDrop(client)) })
    }
}

impl Session {
    /// Returns the roots in force for a request that arrives now, from the cache or by asking the
    /// client through `source`. Call this once per request. A call takes at most the guard's
    /// [`fetch_limit`](crate::GuardBuilder::fetch_limit).
    ///
    /// The roots end when the client changes its list
    /// ([`ROOTS_STALE`](crate::kinds::ROOTS_STALE)) and when the session is closed.
    ///
    /// Await the future in a tokio runtime with time enabled. Directories are resolved on the
    /// guard's own threads, one list per client at a time. The future can be dropped at any await
    /// point.
    ///
    /// # Errors
    ///
    /// An error never grants access. If a directory is [always](crate::DirectoryOptions::always) in
    /// force, the errors of the client's list are not returned: the roots are then these
    /// directories, and relative requests are refused with the error.
    ///
    /// - [`ROOTS_UNSUPPORTED`](crate::kinds::ROOTS_UNSUPPORTED) if the client declared no roots and
    ///   gets [nothing](crate::ClientRoots::Require), or the source returned it.
    /// - [`ROOTS_FAILED`](crate::kinds::ROOTS_FAILED) (`roots_failed`, `roots_timed_out`,
    ///   `roots_changing`) if the list could not be obtained.
    /// - [`ROOTS_FAILED`](crate::kinds::ROOTS_FAILED) (`too_many_pages`, `repeated_cursor`) or
    ///   [`TooManyRoots`](crate::ErrorKind::TooManyRoots) and
    ///   [`TooLarge`](crate::ErrorKind::TooLarge) if the list exceeds a limit.
    /// - [`BUSY`](crate::kinds::BUSY) (`queue_full`, `busy`) if no thread is free to resolve the
    ///   list.
    /// - [`SESSION_CLOSED`](crate::kinds::SESSION_CLOSED);
    ///   [`NO_RUNTIME`](crate::kinds::NO_RUNTIME).
    pub async fn roots(&self, source: impl RootsSource) -> Result<Roots> {
        self.client().roots(source).await.map(RootsInForce::in_session)
    }

    /// Returns the roots in force for a request that carries the client's list, such as a retry in
    /// the stateless era (2026-07-28). They apply only to this request and are not cached.
    ///
    /// ```
    /// use mcp_roots_guard::{Access, Boundary, ClientCapabilities, Guard, ListRootsResult};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> mcp_roots_guard::Result<()> {
    /// # let work = tempfile::tempdir().unwrap();
    /// # let uri = url::Url::from_file_path(work.path().canonicalize().unwrap()).unwrap();
    /// let boundary = Boundary::builder().directory(work.path(), Access::ReadWrite).build()?;
    /// let guard = Guard::new(boundary);
    /// // The capabilities and the list are those of the request.
    /// let session = guard.session(ClientCapabilities::WithRoots)?;
    /// let roots = session.roots_from_list(ListRootsResult::from_uris([uri])).await?;
    /// roots.write("notes.txt", "hello")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`roots`](Self::roots), except `roots_changing`, `too_many_pages` and
    /// `repeated_cursor`. As there, the errors of the list are not returned if a directory is
    /// [always](crate::DirectoryOptions::always) in force.
    pub async fn roots_from_list(&self, list: ListRootsResult) -> Result<Roots> {
        self.client().roots_of_list(Ok(list)).await.map(RootsInForce::in_session)
    }

    /// Runs work that may block on a thread of the guard, when it is the client's turn. Use this
    /// for filesystem operations outside a request, for example to look at a file that the client
    /// has subscribed to, or with an SDK for which this crate has no adapter.
    ///
    /// The work waits for one of the [slots](crate::GuardBuilder::slots) that the client's
    /// requests use. If the future is dropped before the work starts, the work never runs. Work
    /// that has started continues.
    ///
    /// ```
    /// # use mcp_roots_guard::{Metadata, Result, Session};
    /// /// Looks at a file, unless its root has been withdrawn.
    /// async fn look(session: &Session, path: String) -> Result<Metadata> {
    ///     let client = session.clone();
    ///     let work = move || client.known_roots()?.check(path)?.metadata();
    ///     session.run(work).await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of the work; [`SESSION_CLOSED`](crate::kinds::SESSION_CLOSED) if the session is
    /// closed before the work starts; [`BUSY`](crate::kinds::BUSY) (`queue_full`, `busy`);
    /// [`NO_RUNTIME`](crate::kinds::NO_RUNTIME) outside a tokio runtime with time enabled;
    /// [`Io`](crate::ErrorKind::Io) if the work panics.
    pub async fn run<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T> + Send + 'static,
    {
        let client = self.client().clone();
        client.epoch().map_err(|error| client.log_refused(error))?;
        let work = move || {
            // While the work waited for a slot, the session may have been closed.
            client.epoch()?;
            work()
        };
        let client = self.client();
        let done = client.guard.slots().work(&client.share, work).await;
        done.map_err(|error| client.log_refused(error))?
            .unwrap_or_else(|_| Err(kinds::panicked("the work panicked")))
    }

    /// Withdraws the client's roots, so that the next call requests them again. Call this for each
    /// `notifications/roots/list_changed`, before the client's next message is handled: if messages
    /// are handled concurrently, in the loop that reads them, not in a task that the notification
    /// starts. If that loop is part of an SDK, use an [`Observer`].
    ///
    /// The change takes effect before this method returns. The client is not contacted, because a
    /// server may send requests only while it is handling a request. Nothing begins any longer
    /// through [`Roots`] that a request obtained from the withdrawn list: the request is refused
    /// ([`ROOTS_STALE`](crate::kinds::ROOTS_STALE)). The table of
    /// [`Scope`](guarded_fs::host::Scope) says when each operation asks.
    pub fn list_changed(&self) {
        if self.client().change() {
            events::changed(self.client().id);
        }
    }

    /// Returns the roots that are in force now, without asking the client. Use this for work
    /// outside a request, such as a subscription, and check its path again each time. A
    /// [`CheckedPath`](crate::CheckedPath) that is kept instead holds its whole snapshot.
    ///
    /// If the client's list is not known, the result has only the directories that are
    /// [always](crate::DirectoryOptions::always) in force. Its [`failure`](Roots::failure) is then
    ///
    /// - [`ROOTS_STALE`](crate::kinds::ROOTS_STALE) if the list must be requested again, which is
    ///   [usual](crate::GuardBuilder::time_to_live_without_notifications) for a client that does
    ///   not announce changes;
    /// - [`ROOTS_UNSUPPORTED`](crate::kinds::ROOTS_UNSUPPORTED) if the client declared no roots and
    ///   gets [nothing](crate::ClientRoots::Require).
    ///
    /// # Errors
    ///
    /// [`SESSION_CLOSED`](crate::kinds::SESSION_CLOSED).
    pub fn known_roots(&self) -> Result<Roots> {
        self.client().known_roots(&roots_stale(CHANGED)).map(RootsInForce::in_session)
    }

    /// Returns a listener for changes to the client's roots from now on.
    #[must_use]
    pub fn changes(&self) -> RootsChanges {
        let client = self.client().clone();
        RootsChanges { changes: client.changes.subscribe(), client }
    }

    /// The current state of the client's roots, for display: it may change before the caller uses
    /// it.
    #[must_use]
    pub fn state(&self) -> RootsState {
        let client = self.client();
        if client.epoch().is_err() {
            return RootsState::Closed;
        }
        if client.guard.choices().client_roots == ClientRoots::Ignore {
            return RootsState::Ignored;
        }
        if client.declared == ClientCapabilities::WithoutRoots {
            return RootsState::Unsupported;
        }
        match client.valid() {
            Some(cached) if cached.resolved.roots.why_none().is_some() => RootsState::Empty,
            Some(_) => RootsState::Available,
            None => client.failure().map_or(RootsState::Unknown, RootsState::Failed),
        }
    }

    /// Closes the session and all its clones. Its roots are dropped, and further calls are refused.
    pub fn close(&self) {
        self.client().close();
    }

    /// The number of this session in log events. It is unique within this process.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.client().id.get()
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.shared.0
    }
}

/// Waits for changes to a session's roots, without keeping the session open.
#[derive(Clone)]
pub struct RootsChanges {
    client: Arc<Client>,
    changes: watch::Receiver<()>,
}

impl RootsChanges {
    /// Waits until the roots may have changed since the last call, or since this listener was
    /// created: [`Session::list_changed`] was called, or a list was fetched or resolved again, and
    /// cached. Several changes in between count as one. The future can be dropped at any await
    /// point without losing a change.
    ///
    /// Neither a snapshot that expires or is evicted nor a list that is not cached wakes this.
    /// The [known roots](Session::known_roots) then have the failure
    /// [`ROOTS_STALE`](crate::kinds::ROOTS_STALE).
    ///
    /// # Errors
    ///
    /// [`SESSION_CLOSED`](crate::kinds::SESSION_CLOSED) once the session is closed.
    pub async fn changed(&mut self) -> Result<()> {
        self.client.epoch()?;
        // The sender is part of the client, so this cannot fail.
        let _ = self.changes.changed().await;
        self.client.epoch().map(drop)
    }
}
