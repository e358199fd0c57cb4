//! What all sessions of a server have in common.
//!
//! Goes in: a [`Boundary`], and the operator's choices about clients' roots. Comes out: a [`Guard`], which mints sessions and holds the
//! snapshots of those, as a map. What is true after: the map decides nothing. An entry counts only while the session that it belongs to
//! says so ([`session`](crate::Session)), so that to lose one, at any time and for any reason, costs a question to the client and
//! nothing else.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::boundary::Boundary;
use crate::error::{Code, Error, Result};
use crate::events::SessionId;
use crate::limits::{
    FETCH_LIMIT, LONGEST_TIME, SESSIONS, TIME_TO_IDLE, TIME_TO_LIVE, VERIFY_LIMIT,
};
#[cfg(feature = "rmcp")]
use crate::limits::{MOST_WORK, TIME_TO_LIVE_KEYED, WORK};
use crate::roots::Roots;
use crate::session::cache::SnapshotCache;
use crate::session::runtime::{Instant, run_on_workers, timeout_at};
use crate::workers::{Account, Workers};

/// What client roots are to a server.
///
/// | the client | [`Narrow`](Self::Narrow) | [`Ignore`](Self::Ignore) |
/// | --- | --- | --- |
/// | declared roots and tells them | the part of them inside the allowed directories; without any, all of them | the allowed directories |
/// | declared roots and tells none | nothing | the allowed directories |
/// | declared roots and does not tell, or an error | a refusal | the allowed directories |
/// | declared no roots | by [`WithoutClientRoots`] | the allowed directories |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientRoots {
    /// They narrow the allowed directories; where there are none
    /// ([`client_roots_only`](crate::BoundaryBuilder::client_roots_only)), they are all there is.
    Narrow,
    /// They are never asked for: the allowed directories are in force.
    Ignore,
}

/// What is in force for a client that did not declare the roots capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WithoutClientRoots {
    /// Nothing: each request is refused with
    /// [`RootsUnsupported`](crate::ErrorKind::RootsUnsupported).
    Deny,
    /// The allowed directories.
    AllowedDirectories,
}

/// The guard of a server process: built once, cheap to clone, shared by all clients.
///
/// ```
/// use mcp_roots_guard::{
///     Access, Boundary, ClientCapabilities, Guard, ListRootsResult, RootsCapability,
/// };
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let directory = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(directory.path().join("site")).unwrap();
/// # let projects = directory.path().to_str().unwrap();
/// // Once.
/// let guard = Guard::new(Boundary::builder().directory(projects, Access::ReadWrite).build()?);
/// // For each client, with what it declared in `initialize`.
/// let session = guard.session(ClientCapabilities::with_roots(RootsCapability::announcing()))?;
/// // For each request; the client is asked only when it has to be.
/// # let told = ListRootsResult::from_uris([format!("file://{projects}/site")]);
/// # let ask = |_: Option<String>| std::future::ready(mcp_roots_guard::RootsResponse::List(told.clone()));
/// let roots = session.roots(ask).await?;
/// roots.write("notes.txt", "hello")?;
/// // On `notifications/roots/list_changed`.
/// session.list_changed();
/// # Ok::<(), mcp_roots_guard::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Guard {
    inner: Arc<Inner>,
}

struct Inner {
    boundary: Boundary,
    choices: Choices,
    cache: SnapshotCache,
    sessions: AtomicUsize,
    /// The threads that wait for filesystems.
    workers: Workers,
}

/// The operator's choices on their way to a [`Guard`].
///
/// What would have no effect is an error: with [`ClientRoots::Ignore`] no list is asked for or
/// kept, so no time to live and no time to idle may be set, and [`WithoutClientRoots::Deny`] would
/// be passed over. A time of more than a year counts as a year.
///
/// ```
/// use mcp_roots_guard::{Access, Boundary, ClientRoots, ErrorKind, Guard, WithoutClientRoots};
///
/// # let work = tempfile::tempdir().unwrap();
/// let boundary = Boundary::builder().directory(work.path(), Access::ReadWrite).build()?;
/// let builder = Guard::builder(boundary).client_roots(ClientRoots::Ignore);
/// let denied = builder.without_client_roots(WithoutClientRoots::Deny).build();
/// assert_eq!(denied.unwrap_err().kind(), ErrorKind::InvalidInput);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct GuardBuilder {
    boundary: Boundary,
    choices: Choices,
    time_to_idle: Duration,
    /// Why it cannot ignore client roots: what was chosen about their lists.
    list_option_error: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices {
    pub(crate) client_roots: ClientRoots,
    pub(crate) without_client_roots: WithoutClientRoots,
    pub(crate) fetch_limit: Duration,
    /// For clients that announce changes, and for those that do not.
    pub(crate) time_to_live: Duration,
    pub(crate) time_to_live_unannounced: Duration,
    #[cfg(feature = "rmcp")]
    pub(crate) time_to_live_keyed: Duration,
    #[cfg(feature = "rmcp")]
    work_at_once: usize,
}

impl GuardBuilder {
    /// What client roots are to this server. Default: they narrow the allowed directories.
    pub fn client_roots(mut self, client_roots: ClientRoots) -> Self {
        self.choices.client_roots = client_roots;
        self
    }

    /// What is in force for a client that declared no roots. Default: the allowed directories, and where there are none, nothing.
    pub fn without_client_roots(mut self, without: WithoutClientRoots) -> Self {
        self.choices.without_client_roots = without;
        self
    }

    /// The longest that a call waits for a client's roots, all of it: for others that ask, for the answer, for its resolution. Default:
    /// [`FETCH_LIMIT`].
    pub fn fetch_limit(mut self, limit: Duration) -> Self {
        self.choices.fetch_limit = limit.min(LONGEST_TIME);
        self
    }

    /// How long a list counts of a client that announces changes, in case a notification was lost. Default: [`TIME_TO_LIVE`].
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.choices.time_to_live = time_to_live.min(LONGEST_TIME);
        self.list_option_error.get_or_insert("client roots are ignored: leave time_to_live out");
        self
    }

    /// How long a list counts of a client that does not announce changes. Default: zero, so that it is asked for each request. With
    /// another, such a client's withdrawn root is served for so long.
    pub fn time_to_live_unannounced(mut self, time_to_live: Duration) -> Self {
        self.choices.time_to_live_unannounced = time_to_live.min(LONGEST_TIME);
        self.list_option_error
            .get_or_insert("client roots are ignored: leave time_to_live_unannounced out");
        self
    }

    /// How long a list counts for a client's other requests that it told in one of them, in the stateless era (2026-07-28), if the server
    /// says who the client is ([`ClientKey`](crate::rmcp::ClientKey)). Nobody tells of changes there, so a withdrawn root is served for so
    /// long. Default: [`TIME_TO_LIVE_KEYED`].
    #[cfg(feature = "rmcp")]
    pub fn time_to_live_keyed(mut self, time_to_live: Duration) -> Self {
        self.choices.time_to_live_keyed = time_to_live.min(LONGEST_TIME);
        self.list_option_error
            .get_or_insert("client roots are ignored: leave time_to_live_keyed out");
        self
    }

    /// How many places there are for handlers' work, each with a thread of the guard's; more work
    /// waits. From 1 to 4,096. Default: [`WORK`].
    ///
    /// One client's work takes at most a quarter of them, rounded down, but at least one. The
    /// runtime's own threads for blocking work (`max_blocking_threads`) are not used.
    #[cfg(feature = "rmcp")]
    pub fn work_at_once(mut self, work: usize) -> Self {
        self.choices.work_at_once = work;
        self
    }

    /// How long the snapshot of a session is kept that nobody asks for. Default: [`TIME_TO_IDLE`].
    pub fn time_to_idle(mut self, time_to_idle: Duration) -> Self {
        self.time_to_idle = time_to_idle.min(LONGEST_TIME);
        self.list_option_error.get_or_insert("client roots are ignored: leave time_to_idle out");
        self
    }

    /// Builds the guard. No I/O.
    ///
    /// # Errors
    ///
    /// [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`no_directories`) if the
    /// allowed directories are to be in force, and there are none;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) (`invalid_options`) if a choice would have
    /// no effect beside another, or is no number of places.
    pub fn build(self) -> Result<Guard> {
        let invalid = |text| Err(Error::new(Code::InvalidOptions).says(text));
        match self.list_option_error {
            Some(text) if self.choices.client_roots == ClientRoots::Ignore => return invalid(text),
            _ => {}
        }
        #[cfg(feature = "rmcp")]
        if !(1..=MOST_WORK).contains(&self.choices.work_at_once) {
            return invalid("work_at_once takes a number from 1 to 4096");
        }
        let needs_directories = self.choices.client_roots == ClientRoots::Ignore
            || self.choices.without_client_roots == WithoutClientRoots::AllowedDirectories;
        if needs_directories && !self.boundary.has_allowed_directories() {
            return Err(Code::NoDirectories.into());
        }
        if self.choices.client_roots == ClientRoots::Ignore
            && self.choices.without_client_roots == WithoutClientRoots::Deny
        {
            return invalid(
                "client roots are ignored, so every client gets the allowed directories: leave \
                 without_client_roots(Deny) out",
            );
        }
        Ok(self.into_guard())
    }

    fn into_guard(self) -> Guard {
        let Self { boundary, choices, time_to_idle, .. } = self;
        let time_to_live = choices.time_to_live.max(choices.time_to_live_unannounced);
        #[cfg(feature = "rmcp")]
        let (time_to_live, places) =
            (time_to_live.max(choices.time_to_live_keyed), choices.work_at_once);
        // Work comes through the adapter.
        #[cfg(not(feature = "rmcp"))]
        let places = 1;
        let inner = Inner {
            boundary,
            choices,
            cache: SnapshotCache::new(time_to_live, time_to_idle),
            sessions: AtomicUsize::new(0),
            workers: Workers::new(places),
        };
        Guard { inner: Arc::new(inner) }
    }
}

impl Guard {
    /// A guard with the default choices: client roots narrow the boundary's allowed directories, and those alone are in force for a
    /// client that declared no roots. Where there are no allowed directories, client roots are all there is.
    #[must_use]
    pub fn new(boundary: Boundary) -> Self {
        Self::builder(boundary).into_guard()
    }

    /// Begins the choices for a boundary.
    pub fn builder(boundary: Boundary) -> GuardBuilder {
        let any = boundary.has_allowed_directories();
        let choices = Choices {
            client_roots: ClientRoots::Narrow,
            without_client_roots: if any {
                WithoutClientRoots::AllowedDirectories
            } else {
                WithoutClientRoots::Deny
            },
            fetch_limit: FETCH_LIMIT,
            time_to_live: TIME_TO_LIVE,
            time_to_live_unannounced: Duration::ZERO,
            #[cfg(feature = "rmcp")]
            time_to_live_keyed: TIME_TO_LIVE_KEYED,
            #[cfg(feature = "rmcp")]
            work_at_once: WORK,
        };
        GuardBuilder { boundary, choices, time_to_idle: TIME_TO_IDLE, list_option_error: None }
    }

    /// What this server may ever serve.
    #[must_use]
    pub fn boundary(&self) -> &Boundary {
        &self.inner.boundary
    }

    /// How many sessions there are.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.inner.sessions.load(Ordering::Relaxed)
    }

    /// Forgets the snapshots of all sessions, so that each is asked for again, but for those that are being asked for or resolved now: to
    /// free what they hold.
    pub fn forget_all(&self) {
        self.inner.cache.forget_all();
    }

    pub(crate) fn choices(&self) -> &Choices {
        &self.inner.choices
    }

    pub(crate) fn cache(&self) -> &SnapshotCache {
        &self.inner.cache
    }

    #[cfg(feature = "rmcp")]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn workers(&self) -> &Workers {
        &self.inner.workers
    }

    /// The allowed directories, verified if that is due.
    ///
    /// If that takes long, the last ones are returned, as to everyone who asks meanwhile: an allowed
    /// directory that hangs must not keep clients from the others. Until it answers, none of them is
    /// verified or resolved again.
    pub(crate) async fn allowed_roots(&self, deadline: Instant) -> Result<Roots> {
        let (current, turn) = self.boundary().current_allowed_roots();
        let Some(turn) = turn else { return Ok(current) };
        let boundary = self.boundary().clone();
        let verify = run_on_workers(self.workers(), &Account::Operator, move || {
            Ok(boundary.verify_allowed_roots(turn))
        });
        match timeout_at(deadline.min(Instant::now() + VERIFY_LIMIT), verify).await? {
            Some(Err(error)) if !matches!(error.reason(), Code::QueueFull | Code::Busy) => {
                Err(error)
            }
            Some(Ok(verified)) => Ok(verified),
            _ => Ok(current),
        }
    }

    /// Verifies a snapshot if that is due and no other call does. Returns whether this call did.
    pub(crate) async fn verify(
        &self,
        roots: &Roots,
        account: &Account,
        deadline: Instant,
    ) -> Result<bool> {
        let Some(mut turn) = roots.begin_verification() else { return Ok(false) };
        // One of the allowed directories may be back, which the snapshot does not show.
        self.allowed_roots(deadline).await?;
        let verify = run_on_workers(self.workers(), account, move || Ok(turn.verify()));
        timeout_at(deadline, verify).await?.ok_or(Code::RootsTimedOut)??;
        Ok(true)
    }

    /// Mints the identifier of one more session, which is counted.
    pub(crate) fn register_session(&self) -> Result<SessionId> {
        let more = |sessions| (sessions < SESSIONS).then_some(sessions + 1);
        let entered = self.inner.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        entered.map_err(|_| Code::TooManySessions)?;
        Ok(Self::next_session_id())
    }

    /// Mints an identifier.
    pub(crate) fn next_session_id() -> SessionId {
        SessionId(NonZeroU64::MIN.saturating_add(SESSION_IDS.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn unregister_session(&self) {
        self.inner.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Nothing of what its sessions hold: it may be shown by one of them.
impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("choices", self.choices())
            .field("sessions", &self.sessions())
            .field("cached", &self.cache().len())
            .field("cached_bytes", &self.cache().bytes())
            .finish_non_exhaustive()
    }
}

/// Sessions of this process so far; none is numbered twice.
static SESSION_IDS: AtomicU64 = AtomicU64::new(0);
