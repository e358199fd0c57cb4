//! Subscriptions to resources, and the detection of changes.
//!
//! The request that subscribes checks the URI. A subscription keeps only the canonical URI of the
//! place, and each later look checks it in the roots known at that time. A `CheckedPath` would
//! instead keep the snapshot in which it was checked, one for each list. Once the root is
//! withdrawn, the file is no longer looked at and no notification is sent.
//!
//! Files are looked at every [`POLL`], which works on every system and filesystem. A file has
//! changed if its type, size or times differ, or if it was removed or recreated. A directory has
//! changed if an entry was added or removed. A symlink is followed only when the client subscribes.
//! If a symlink later replaces a directory on the path, the file counts as removed, and the
//! subscription ends if the symlink leads outside.
//!
//! A filesystem may never answer. At most [`WAITING`] threads wait for one filesystem at a time, so
//! threads that wait for ever do not take the other clients' slots.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use mcp_roots_guard::rmcp::HandlerError;
use mcp_roots_guard::{CheckedPath, Error, ErrorKind, FileType, Location, Metadata, Result, Roots};
use rmcp::ErrorData;
use tokio::sync::Semaphore;

use super::entry;
use crate::lock;

/// The maximum number of subscriptions in a session or one `subscriptions/listen` request: more
/// files than a person has open. To look at all of them takes less than a millisecond.
pub(super) const SUBSCRIPTIONS: usize = 64;

/// The time between two looks at a file, and so the time in which a change is reported.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// How many threads look at files of one filesystem at a time: a sixteenth of the guard's slots.
/// While a filesystem answers, each of them is done in less than a millisecond.
const WAITING: usize = 16;

/// The permits to wait for each filesystem, by device number. There are as many entries as mounted
/// filesystems that clients have subscribed to.
pub(super) type Filesystems = Mutex<HashMap<u64, Arc<Semaphore>>>;

/// The subscriptions of a session or of one request, by URI.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions(Arc<Mutex<HashMap<String, Arc<Subscription>>>>);

impl Subscriptions {
    /// Adds a subscription, or replaces the one with the same URI. There are at most
    /// [`SUBSCRIPTIONS`].
    pub(super) fn add(
        &self,
        uri: String,
        subscription: Subscription,
    ) -> std::result::Result<(), HandlerError> {
        let mut subscriptions = lock(&self.0);
        if subscriptions.len() >= SUBSCRIPTIONS && !subscriptions.contains_key(&uri) {
            let full = format!(
                "the limit of {SUBSCRIPTIONS} subscriptions is reached: unsubscribe from one first"
            );
            let data = serde_json::json!({ "uri": uri });
            return Err(ErrorData::invalid_params(full, Some(data)).into());
        }
        subscriptions.insert(uri, Arc::new(subscription));
        Ok(())
    }

    pub(super) fn remove(&self, uri: &str) {
        lock(&self.0).remove(uri);
    }

    pub(super) fn contains(&self, uri: &str) -> bool {
        lock(&self.0).contains_key(uri)
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// Looks at the resources that the known roots allow, except those for whose filesystem too many
    /// threads wait. Drops subscriptions that the roots no longer allow, and returns the URIs of
    /// resources that have changed.
    pub(super) fn look(&self, known_roots: impl Fn() -> Result<Roots>) -> Vec<String> {
        let all = lock(&self.0).clone();
        let mut changed = Vec::new();
        for (uri, subscription) in all {
            let Ok(_permit) = subscription.filesystem.try_acquire() else { continue };
            let Ok(roots) = known_roots() else { break };
            let drop = || lock(&self.0).retain(|_, kept| !Arc::ptr_eq(kept, &subscription));
            let now = subscription.look(&roots);
            // What an ended snapshot refuses says nothing about the file.
            if roots.ensure_usable().is_err() {
                continue;
            }
            let is_refused = now.as_ref().is_err_and(is_refusal);
            if is_refused && !subscription.is_inside(&roots) {
                // While the client's roots are unknown, its subscriptions are kept.
                if roots.failure().is_none() {
                    drop();
                }
            } else if subscription.has_changed(now.ok().flatten()) {
                changed.push(uri);
            } else if is_refused {
                // The client was told at the last look.
                drop();
            }
        }
        changed
    }
}

/// A subscription to a file or directory.
#[derive(Debug)]
pub(super) struct Subscription {
    /// The canonical URI.
    place: String,
    filesystem: Arc<Semaphore>,
    /// `None` if the file did not exist at the last look.
    seen: Mutex<Option<State>>,
}

/// The type, size, and times of modification and creation.
type State = (FileType, u64, Option<SystemTime>, Option<SystemTime>);

impl Subscription {
    /// Subscribes to a file or directory.
    pub(super) fn new(checked: &CheckedPath, filesystems: &Filesystems) -> Result<Self> {
        let metadata = checked.metadata()?;
        if !entry::is_resource(metadata.file_type()) {
            // Fails with the guard's refusal of special files.
            checked.open()?;
        }
        let new = || Arc::new(Semaphore::new(WAITING));
        let filesystem = lock(filesystems).entry(metadata.device()).or_insert_with(new).clone();
        Ok(Self { place: checked.uri(), filesystem, seen: Mutex::new(Some(state(&metadata))) })
    }

    /// The state of the resource now, or `None` if its path leads through a symlink.
    fn look(&self, roots: &Roots) -> Result<Option<State>> {
        let checked = roots.check_entry(&Location::from_uri(&self.place)?)?;
        let is_here = checked.uri() == self.place;
        is_here.then(|| checked.metadata()).transpose().map(|found| found.as_ref().map(state))
    }

    /// Whether the resource has changed since the last look.
    fn has_changed(&self, now: Option<State>) -> bool {
        let before = std::mem::replace(&mut *lock(&self.seen), now);
        before != now
    }

    /// Whether the place is in one of the roots by its name.
    fn is_inside(&self, roots: &Roots) -> bool {
        Location::from_uri(&self.place).is_ok_and(|place| {
            let place = place.as_unchecked_path();
            roots.iter().any(|root| place.starts_with(dunce::simplified(root.path())))
        })
    }
}

/// Whether the roots do not allow a place, or a symlink leads there.
fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutsideRoots | ErrorKind::Protected)
}

fn state(metadata: &Metadata) -> State {
    (metadata.file_type(), metadata.len(), metadata.modified(), metadata.created())
}
