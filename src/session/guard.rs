//! What all sessions of a server share: the [`Boundary`], the operator's choices, the slots for
//! work that waits for filesystems, and the cache of snapshots.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use guarded_fs::host::{self, ResolvedRoots};
use guarded_fs::{Boundary, Error, ErrorKind, Result, WhyNone};
use tokio::runtime::Handle;

use crate::limits::{FETCH_LIMIT, LONGEST_TIME, MOST_SLOTS, SESSIONS, SLOTS, TIME_TO_LIVE};
use crate::session::cache::SnapshotCache;
use crate::session::errors::too_many_sessions;
use crate::session::runtime::Instant;
use crate::session::slots::Slots;
use crate::session::state::Current;
use crate::wire::ListRootsResult;

/// The guard of a server process. It is built once, is cheap to clone, and is shared by all
/// clients. The [crate's example](crate) creates one.
#[derive(Clone)]
pub struct Guard {
    inner: Arc<Inner>,
}

/// How a client's roots determine the roots in force. See [`GuardBuilder::client_roots`].
///
/// Directories that are [always](crate::DirectoryOptions::always) in force are served in addition.
/// If a client that declared roots fails to send a list, its request is refused, unless client
/// roots are ignored. A list is empty only if it has no entries: one whose entries are all rejected
/// grants nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientRoots {
    /// Client roots are never requested. The allowed directories are in force for each client.
    Ignore,
    /// The part of the client's list inside the allowed directories is in force. For a client that
    /// declares no roots, or sends an empty list, the allowed directories are.
    NarrowIfListed,
    /// Like [`NarrowIfListed`](Self::NarrowIfListed), but an empty list grants nothing.
    #[default]
    Narrow,
    /// Like [`Narrow`](Self::Narrow), but a client that declares no roots gets nothing either. If no
    /// directory is always in force, each of its requests is refused with
    /// [`ROOTS_UNSUPPORTED`](crate::kinds::ROOTS_UNSUPPORTED).
    Require,
}

struct Inner {
    choices: GuardBuilder,
    cache: SnapshotCache,
    sessions: AtomicUsize,
    slots: Slots,
    invalidations: AtomicU64,
}

/// Builds a [`Guard`] from the operator's choices.
///
/// A choice that would have no effect is an error, such as a time to live with
/// [`ClientRoots::Ignore`]. Times longer than a year are treated as a year.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_roots_guard::{Access, Boundary, Guard};
///
/// # let work = tempfile::tempdir().unwrap();
/// let boundary = Boundary::builder().directory(work.path(), Access::ReadWrite).build()?;
/// // For a client that sends bare paths, answers slowly, and announces no changes.
/// let guard = Guard::builder(boundary)
///     .allow_bare_paths()
///     .fetch_limit(Duration::from_secs(20))
///     .time_to_live_without_notifications(Duration::from_secs(5))
///     .build()?;
/// assert_eq!(guard.sessions(), 0);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct GuardBuilder {
    boundary: Boundary,
    pub(crate) client_roots: ClientRoots,
    bare_paths: bool,
    pub(crate) fetch_limit: Duration,
    pub(crate) time_to_live: Duration,
    pub(crate) time_to_live_without_notifications: Duration,
    slots: usize,
    pub(crate) stalled_after: Option<Duration>,
    runtime: Option<Handle>,
    /// The error for an option for client lists, together with [`ClientRoots::Ignore`].
    list_option_error: Option<&'static str>,
}

impl GuardBuilder {
    /// Sets how a client's roots determine the roots in force. The default is
    /// [`ClientRoots::Narrow`]. With [`Boundary::any_listed`], which grants only what a client
    /// lists, it is [`ClientRoots::Require`], the only choice there.
    pub fn client_roots(mut self, client_roots: ClientRoots) -> Self {
        self.client_roots = client_roots;
        self
    }

    /// Accepts bare absolute paths in root lists, without percent-decoding, as the client Cursor
    /// sends them. The protocol requires `file://` URIs, so they are refused by default
    /// ([`InvalidPath`](crate::ErrorKind::InvalidPath): `not_absolute`).
    pub fn allow_bare_paths(mut self) -> Self {
        self.bare_paths = true;
        self.list_option_error
            .get_or_insert("client roots are ignored: leave allow_bare_paths out");
        self
    }

    /// Sets the longest time that a call waits for a client's roots: for a fetch by another call,
    /// for the response, and for resolving the list. The default is [`FETCH_LIMIT`].
    pub fn fetch_limit(mut self, limit: Duration) -> Self {
        self.fetch_limit = limit.min(LONGEST_TIME);
        self
    }

    /// Sets how long the list of a client that announces changes is used. This limits the effect of
    /// a lost notification. The default is [`TIME_TO_LIVE`].
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = time_to_live.min(LONGEST_TIME);
        self.list_option_error.get_or_insert("client roots are ignored: leave time_to_live out");
        self
    }

    /// Sets how long the list of a client that does not announce changes is used. The default is
    /// zero: it is requested for each request. With a longer time, a root that such a client has
    /// withdrawn is served for up to that time.
    pub fn time_to_live_without_notifications(mut self, time_to_live: Duration) -> Self {
        self.time_to_live_without_notifications = time_to_live.min(LONGEST_TIME);
        self.list_option_error.get_or_insert(
            "client roots are ignored: leave time_to_live_without_notifications out",
        );
        self
    }

    /// Sets the number of slots: how many handlers can work at once, from 1 to 4,096. The default
    /// is [`SLOTS`].
    ///
    /// - One client's work takes at most a quarter of the slots, rounded down, but always at least
    ///   one.
    /// - Work waits for a slot, and waiting clients take turns. At most 1,024 calls of one client
    ///   wait, and further ones are refused ([`BUSY`](crate::kinds::BUSY): `queue_full`).
    /// - If all slots are taken, work that has been running for two seconds lends its slot to a
    ///   client that has none. While as much work runs as there are slots, a client with running
    ///   work gets none of the lent slots, and its calls are refused (`busy`).
    /// - Work that has started keeps its slot after its request is cancelled, until it checks
    ///   whether to continue, so long-running work should be bounded.
    /// - Work that waits for other work of the same client can deadlock, if it occupies all of the
    ///   client's slots.
    ///
    /// The server's own threads for blocking work (`max_blocking_threads`) are not used, unless
    /// [`runtime`](Self::runtime) says so.
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// Runs the guard's blocking work on the blocking threads of this runtime. By default, the
    /// guard has threads of its own, which start on demand and do not keep the process from ending.
    ///
    /// This is for a server that waits for work in progress when it stops
    /// (`Runtime::shutdown_timeout`), and for tests with a paused clock (`tokio::time::pause`),
    /// which would otherwise advance during the work.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Builds the guard, without I/O.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) (`invalid_options`) if a choice would have
    /// no effect because client roots are ignored, if the boundary is [`Boundary::any_listed`] and
    /// client roots are not required, or if the number of slots is out of range.
    pub fn build(self) -> Result<Guard> {
        let invalid = |text| Err(Error::new(ErrorKind::InvalidInput, "invalid_options", text));
        match self.list_option_error {
            Some(text) if self.client_roots == ClientRoots::Ignore => {
                return invalid(text);
            }
            _ => {}
        }
        if self.client_roots != ClientRoots::Require && is_any_listed(&self.boundary) {
            return invalid(
                "with any_listed, only what a client lists is in force: leave client_roots out",
            );
        }
        if !(1..=MOST_SLOTS).contains(&self.slots) {
            return invalid("slots must be between 1 and 4096");
        }
        if self.stalled_after == Some(Duration::ZERO) {
            return invalid("stalled_after must be longer than zero");
        }
        Ok(self.into_guard())
    }

    fn into_guard(self) -> Guard {
        let time_to_live = self.time_to_live.max(self.time_to_live_without_notifications);
        let (cache, sessions) = (SnapshotCache::new(time_to_live), AtomicUsize::new(0));
        let slots = Slots::new(self.slots, self.runtime.as_ref());
        let invalidations = AtomicU64::new(0);
        Guard { inner: Arc::new(Inner { choices: self, cache, sessions, slots, invalidations }) }
    }
}

impl Guard {
    /// Creates a guard with the default choices.
    #[must_use]
    pub fn new(boundary: Boundary) -> Self {
        Self::builder(boundary).into_guard()
    }

    /// Returns a builder with the default choices for a boundary.
    pub fn builder(boundary: Boundary) -> GuardBuilder {
        let is_any_listed = is_any_listed(&boundary);
        GuardBuilder {
            boundary,
            client_roots: if is_any_listed { ClientRoots::Require } else { ClientRoots::default() },
            bare_paths: false,
            fetch_limit: FETCH_LIMIT,
            time_to_live: TIME_TO_LIVE,
            time_to_live_without_notifications: Duration::ZERO,
            slots: SLOTS,
            stalled_after: None,
            runtime: None,
            list_option_error: None,
        }
    }

    /// Not public, because its allowed directories ignore the client.
    pub(crate) fn boundary(&self) -> &Boundary {
        &self.inner.choices.boundary
    }

    /// The number of open sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.inner.sessions.load(Ordering::Relaxed)
    }

    /// Withdraws all cached snapshots and frees their memory. The next call of each client requests
    /// its roots again. Fetches in progress are not affected.
    pub fn invalidate_all(&self) {
        self.inner.invalidations.fetch_add(1, Ordering::Relaxed);
        self.inner.cache.clear();
    }

    pub(crate) fn choices(&self) -> &GuardBuilder {
        &self.inner.choices
    }

    pub(crate) fn cache(&self) -> &SnapshotCache {
        &self.inner.cache
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.inner.slots
    }

    /// What a cached snapshot is compared with now.
    pub(crate) fn current(&self) -> Current {
        Current {
            now: Instant::now(),
            generation: self.allowed().generation,
            invalidations: self.inner.invalidations.load(Ordering::Relaxed),
        }
    }

    /// The allowed directories as last resolved. If it is due, a job resolves the configured paths
    /// again. Nobody waits for it, because a path can hang.
    pub(crate) fn allowed(&self) -> ResolvedRoots {
        host::allowed(self.boundary(), |resolve| self.slots().start(resolve))
    }

    /// The roots of a client's list. Blocks, but not for resolving the configured paths again.
    pub(crate) fn roots_of(
        &self,
        list: &ListRootsResult,
        is_over: &dyn Fn() -> bool,
    ) -> Result<ResolvedRoots> {
        let choices = self.choices();
        // Also the names, which `host::narrow` does not receive.
        list.ensure_bounded()?;
        // Takes the turn to resolve the configured paths, so that narrowing does not.
        let allowed = self.allowed();
        if list.roots.is_empty() && choices.client_roots == ClientRoots::NarrowIfListed {
            return Ok(allowed);
        }
        let entries = list.roots.iter().map(|entry| entry.to_list_entry(choices.bare_paths));
        host::narrow(&choices.boundary, entries, is_over)
    }

    pub(crate) fn register_session(&self) -> Result<()> {
        let more = |sessions| (sessions < SESSIONS).then_some(sessions + 1);
        let entered = self.inner.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        entered.map(drop).map_err(|_| too_many_sessions())
    }

    pub(crate) fn next_session_id() -> NonZeroU64 {
        NonZeroU64::MIN.saturating_add(SESSION_IDS.fetch_add(1, Ordering::Relaxed))
    }

    /// A share that belongs to one client, such as a connection or a session.
    pub(crate) fn next_share() -> Arc<str> {
        format!("client {}", Self::next_session_id()).into()
    }

    pub(crate) fn unregister_session(&self) {
        self.inner.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether only a client's list puts directories in force. Nothing is looked up, because there are
/// no configured paths then.
fn is_any_listed(boundary: &Boundary) -> bool {
    boundary.directories().is_empty()
        && boundary.allowed_roots().why_none() == Some(WhyNone::Unconfigured)
}

/// Omits the paths of its sessions, because one session may print the guard.
impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("client_roots", &self.choices().client_roots)
            .field("sessions", &self.sessions())
            .field("cached", &self.cache().len())
            .field("cached_bytes", &self.cache().bytes())
            .finish_non_exhaustive()
    }
}

static SESSION_IDS: AtomicU64 = AtomicU64::new(0);
