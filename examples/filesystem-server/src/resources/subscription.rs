//! Subscriptions to a resource, and the detection of changes.
//!
//! The URI is checked once, in the request that subscribes. Each later inspection uses the
//! resulting `CheckedPath`, after verifying that the currently known roots still allow it. Once the
//! root is withdrawn, the file is no longer inspected and no notification is sent.
//!
//! A file has changed if its type, size or times differ, or if it was removed or recreated. A
//! directory has changed if an entry was added or removed. A symlink is followed only when the
//! client subscribes: if its target is changed later, the subscription still covers the old target.
//!
//! A filesystem may never answer. Only [`WAITING`] threads wait for one filesystem at a time, so
//! that those that wait for ever leave the others their slots.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{
    CheckedPath, ErrorKind, FileType, Intent, Location, Metadata, Result, Session,
};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::watch::{POLL, Watch};
use super::{Resources, entry, lock};

/// The maximum number of subscriptions in a session or one `subscriptions/listen` request: more
/// files than a person has open. An event on any of them causes all of them to be inspected.
pub(super) const SUBSCRIPTIONS: usize = 64;

/// The delay between an event and the inspection. It combines a program's consecutive writes into
/// one notification, and limits the rate of notifications for a URI.
const COALESCE: Duration = Duration::from_millis(300);

/// How many threads inspect or begin to watch files of one filesystem at a time: a sixteenth of the
/// guard's slots. While a filesystem answers, each of them is done in less than a millisecond.
const WAITING: usize = 16;

/// The delay before an inspection is tried again for which no thread was available.
const RETRY: Duration = Duration::from_secs(2);

/// The resolution of file times: one kernel tick (10 ms at 100 Hz), with a margin.
const TICK: Duration = Duration::from_millis(20);

/// A subscription to a file or directory.
#[derive(Debug)]
pub(super) struct Subscription {
    uri: String,
    checked: CheckedPath,
    filesystem: Arc<Semaphore>,
    seen: Mutex<Look>,
    /// `None` if changes are found only by polling.
    _watch: Option<Watch>,
}

/// The permits to wait for each filesystem, by device number. There are as many entries as mounted
/// filesystems that clients have subscribed to.
#[derive(Debug, Default)]
pub(super) struct Filesystems(Mutex<HashMap<u64, Arc<Semaphore>>>);

impl Filesystems {
    fn of(&self, metadata: &Metadata) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(WAITING));
        lock(&self.0).entry(metadata.device()).or_insert_with(new).clone()
    }
}

#[derive(Debug)]
struct Look {
    at: SystemTime,
    /// `None` if the file did not exist.
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
    /// Subscribes to the file or directory that a URI names.
    ///
    /// # Errors
    ///
    /// Returns the guard's refusal. A file that is neither a regular file nor a directory is
    /// refused as by [`CheckedPath::open`].
    pub(super) fn new(
        roots: &RequestRoots,
        uri: &str,
        resources: &Resources,
        wake: &Arc<Notify>,
    ) -> std::result::Result<Self, HandlerError> {
        let checked = roots.check(&Location::from_uri(uri)?, Intent::Existing)?;
        let metadata = checked.metadata()?;
        if !entry::is_resource(metadata.file_type()) {
            // Fails with the guard's refusal of special files.
            checked.open()?;
        }
        let filesystem = resources.filesystems.of(&metadata);
        let watch = filesystem
            .try_acquire()
            .ok()
            .and_then(|_permit| resources.watcher.watch(&checked, metadata.is_dir(), wake));
        // Inspected only after the watch exists, so that no change is missed in between.
        let seen = Mutex::new(Look::take(&checked));
        Ok(Self { uri: uri.to_owned(), checked, filesystem, seen, _watch: watch })
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns an error unless the session's known roots still allow the resource.
    pub(super) fn still_allowed(&self, session: &Session) -> Result<()> {
        session.still_allows(&self.checked)
    }

    /// Whether the resource has changed since the last inspection. After an event, also returns
    /// `true` if a change could be too recent to be visible in the file's times.
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
    /// Whether the modification time is within one tick of the inspection. A second change in the
    /// same tick would then have the same modification time.
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

/// The result of inspecting several subscriptions.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Subscriptions whose resource has changed.
    pub(super) updated: Vec<Arc<Subscription>>,
    /// Subscriptions that the roots in force no longer allow.
    pub(super) withdrawn: Vec<Arc<Subscription>>,
    /// Whether a subscription was not inspected, because too many threads wait for its filesystem.
    pub(super) postponed: bool,
}

/// Inspects the subscriptions that the known roots allow, or none if no roots are known. Blocks on
/// file I/O.
pub(super) fn look(
    subscriptions: &[Arc<Subscription>],
    woken: bool,
    allows: impl Fn(&CheckedPath) -> Result<()>,
) -> Looked {
    let mut looked = Looked::default();
    for subscription in subscriptions {
        let Ok(_permit) = subscription.filesystem.try_acquire() else {
            looked.postponed = true;
            continue;
        };
        match allows(&subscription.checked).map_err(|error| error.kind()) {
            // Read-only access is enough to watch.
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

/// The time of the next inspection.
#[derive(Debug)]
pub(super) struct Due {
    at: Instant,
    woken: bool,
}

impl Due {
    /// Schedules the next inspection after one polling interval.
    pub(super) fn new() -> Self {
        Self { at: Instant::now() + POLL, woken: false }
    }

    /// Schedules an inspection again that could not take place.
    pub(super) fn again(woken: bool) -> Self {
        Self { at: Instant::now() + RETRY, woken }
    }

    /// Brings the inspection forward after an event. Further events do not postpone it.
    pub(super) fn wake(&mut self) {
        self.woken = true;
        self.soon();
    }

    /// Brings the inspection forward after a change to the roots.
    pub(super) fn soon(&mut self) {
        self.at = self.at.min(Instant::now() + COALESCE);
    }

    /// Waits until the inspection is due. Returns whether an event caused it.
    pub(super) async fn wait(&self) -> bool {
        tokio::time::sleep_until(self.at).await;
        self.woken
    }
}
