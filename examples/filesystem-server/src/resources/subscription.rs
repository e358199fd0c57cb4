//! A resource that a client wants to hear about.
//!
//! Goes in: a URI, checked within the request that subscribes. Comes out: whether it is another than at the last look. What is true after: each
//! look is by the proof from that request, which the roots known now are asked about first; so once its root is withdrawn, nothing is
//! looked at and nothing said.
//!
//! A file is another if its kind, size or times are, or if it is gone or back; a directory, if entries came or went. A link is followed
//! once, when it is subscribed to: what it is pointed at later is not noticed.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{
    CheckedPath, ErrorKind, FileType, Intent, Location, Metadata, Result, Session,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::entry;
use super::watch::{Watch, Watcher, lock};

/// The most subscriptions of a session, or in one `subscriptions/listen`: more than a person has open. Each costs a look when any of them
/// wakes.
pub(super) const SUBSCRIPTIONS: usize = 64;

/// How long after a wake-up a look is taken: what a program writes in one go is one change, and no URI is told of more often.
const COALESCE: Duration = Duration::from_millis(300);

/// How often a look is taken without a wake-up: a watch is lost with its directory, or never works on some file systems.
const SWEEP: Duration = Duration::from_secs(10);

/// How coarse the times of files are: a tick of the kernel (10 ms at 100 Hz), and room.
const TICK: Duration = Duration::from_millis(20);

/// What is subscribed to.
#[derive(Debug)]
pub(super) struct Subscription {
    uri: String,
    checked: CheckedPath,
    seen: Mutex<Look>,
    /// None if it is left to the sweep.
    _watch: Option<Watch>,
}

#[derive(Debug)]
struct Look {
    at: SystemTime,
    /// None if there was nothing.
    found: Option<Found>,
}

#[derive(Debug, PartialEq, Eq)]
struct Found {
    file_type: FileType,
    size: u64,
    modified: Option<SystemTime>,
    created: Option<SystemTime>,
}

impl Subscription {
    /// Subscribes to what a URI names.
    ///
    /// # Errors
    ///
    /// Refusals of the guard; what cannot be read either is refused as by [`CheckedPath::open`].
    pub(super) fn new(
        roots: &RequestRoots,
        uri: &str,
        watcher: &Arc<Watcher>,
        wake: &Arc<Notify>,
    ) -> std::result::Result<Self, HandlerError> {
        let checked = roots.check(&Location::from_uri(uri)?, Intent::Existing)?;
        let metadata = checked.metadata()?;
        if !entry::is_told(&metadata) {
            // The guard's policy refuses it.
            checked.open()?;
        }
        let watch = watcher.watch(&checked, metadata.is_dir(), wake);
        // Looked at after it is watched: no change falls in between.
        let seen = Mutex::new(Look::take(&checked));
        Ok(Self { uri: uri.to_owned(), checked, seen, _watch: watch })
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Whether the roots that are known of a session hold it.
    pub(super) fn still_allowed(&self, session: &Session) -> Result<()> {
        session.still_allows(&self.checked)
    }

    /// Whether it is another than at the last look. After a wake-up, also whether it may be without a trace.
    fn has_changed(&self, woken: bool) -> bool {
        let now = Look::take(&self.checked);
        let mut seen = lock(&self.seen);
        let is_racy = || now.found.as_ref().is_some_and(|found| found.is_racy(seen.at));
        let changed = now.found != seen.found || (woken && is_racy());
        *seen = now;
        changed
    }
}

impl Look {
    fn take(checked: &CheckedPath) -> Self {
        let at = SystemTime::now();
        Self { at, found: checked.metadata().ok().as_ref().map(Found::from) }
    }
}

impl Found {
    /// Whether it changed so near to a look that it may have changed again after it, within one tick of the clock.
    fn is_racy(&self, looked: SystemTime) -> bool {
        self.modified.is_some_and(|modified| {
            let apart =
                modified.duration_since(looked).unwrap_or_else(|earlier| earlier.duration());
            apart <= TICK
        })
    }
}

impl From<&Metadata> for Found {
    fn from(metadata: &Metadata) -> Self {
        Self {
            file_type: metadata.file_type(),
            size: metadata.size(),
            modified: metadata.modified(),
            created: metadata.created(),
        }
    }
}

/// What a look at several found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// These are others.
    pub(super) updated: Vec<Arc<Subscription>>,
    /// The roots in force do not hold these.
    pub(super) withdrawn: Vec<Arc<Subscription>>,
}

/// Looks at those that the roots known now hold; at none if they are not known. It does I/O.
pub(super) fn look(
    subscriptions: &[Arc<Subscription>],
    woken: bool,
    allows: impl Fn(&CheckedPath) -> Result<()>,
) -> Looked {
    let mut looked = Looked::default();
    for subscription in subscriptions {
        match allows(&subscription.checked).map_err(|error| error.kind()) {
            // It is only read.
            Ok(()) | Err(ErrorKind::ReadOnly) => {
                if subscription.has_changed(woken) {
                    looked.updated.push(subscription.clone());
                }
            }
            Err(ErrorKind::RootsStale | ErrorKind::SessionClosed) => {}
            Err(_) => looked.withdrawn.push(subscription.clone()),
        }
    }
    looked
}

/// When to look next.
#[derive(Debug)]
pub(super) struct Due {
    at: Instant,
    woken: bool,
}

impl Due {
    /// After a look.
    pub(super) fn new() -> Self {
        Self { at: Instant::now() + SWEEP, woken: false }
    }

    /// After a wake-up: soon, and no later for another.
    pub(super) fn wake(&mut self) {
        self.woken = true;
        self.soon();
    }

    /// After the roots changed.
    pub(super) fn soon(&mut self) {
        self.at = self.at.min(Instant::now() + COALESCE);
    }

    /// Waits for it. True if it is for a wake-up.
    pub(super) async fn wait(&self) -> bool {
        tokio::time::sleep_until(self.at).await;
        self.woken
    }
}
