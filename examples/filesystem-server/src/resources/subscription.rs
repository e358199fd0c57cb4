//! Subscriptions to resources, and the detection of changes.
//!
//! The URI is checked once, in the request that subscribes. Each later look uses the resulting
//! `CheckedPath`, after verifying that the currently known roots still allow it. Once the root is
//! withdrawn, the file is no longer looked at and no notification is sent.
//!
//! A proof holds its snapshot, and each subscription can follow a new list of the client. So the
//! proof is of a snapshot that was narrowed to this one place, and the only snapshot of a list that
//! a session holds is the current one.
//!
//! Files are looked at every [`POLL`], which works on every system and filesystem. A file has changed
//! if its size or times differ, or if it was removed or recreated. A directory has changed if an
//! entry was added or removed. A file that is replaced by a directory, or the reverse, counts as
//! removed. A symlink is followed only when the client subscribes.
//!
//! A filesystem may never answer. Only [`WAITING`] threads wait for one filesystem at a time, so
//! that those that wait for ever leave the others their slots.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, ErrorKind, FileType, Intent, Location, Metadata};
use rmcp::ErrorData;
use tokio::sync::Semaphore;

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
    pub(super) fn add(&self, uri: String, subscription: Subscription) -> Result<(), HandlerError> {
        let mut subscriptions = lock(&self.0);
        if subscriptions.len() >= SUBSCRIPTIONS && !subscriptions.contains_key(&uri) {
            let full = format!(
                "the limit of {SUBSCRIPTIONS} subscriptions is reached: unsubscribe from one first"
            );
            return Err(ErrorData::invalid_params(full, None).into());
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
    pub(super) fn look(
        &self,
        allows: impl Fn(&CheckedPath) -> mcp_roots_guard::Result<()>,
    ) -> Vec<String> {
        let all = lock(&self.0).clone();
        let mut changed = Vec::new();
        for (uri, subscription) in all {
            let Ok(_permit) = subscription.filesystem.try_acquire() else { continue };
            match allows(&subscription.checked).map_err(|error| error.kind()) {
                // Read-only access is enough to watch.
                Ok(()) | Err(ErrorKind::ReadOnly) => {
                    if subscription.has_changed() {
                        changed.push(uri);
                    }
                }
                Err(ErrorKind::RootsStale | ErrorKind::SessionClosed) => {}
                Err(_) => lock(&self.0).retain(|_, kept| !Arc::ptr_eq(kept, &subscription)),
            }
        }
        changed
    }
}

/// A subscription to a file or directory.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) checked: CheckedPath,
    filesystem: Arc<Semaphore>,
    /// `None` if the file did not exist at the last look.
    seen: Mutex<Option<State>>,
}

/// The type, size, and times of modification and creation.
type State = (FileType, u64, Option<SystemTime>, Option<SystemTime>);

impl Subscription {
    /// Subscribes to the file or directory that a URI names.
    pub(super) fn new(
        roots: &RequestRoots,
        uri: &str,
        filesystems: &Filesystems,
    ) -> Result<Self, HandlerError> {
        // Fails with the guard's refusal for what is neither a file nor a directory.
        let location = Location::from_uri(uri)?;
        let checked = roots.within(&location)?.check(&location, Intent::Existing)?;
        let metadata = checked.metadata()?;
        let new = || Arc::new(Semaphore::new(WAITING));
        let filesystem = lock(filesystems).entry(metadata.device()).or_insert_with(new).clone();
        Ok(Self { checked, filesystem, seen: Mutex::new(Some(state(&metadata))) })
    }

    /// Whether the resource has changed since the last look.
    fn has_changed(&self) -> bool {
        let now = self.checked.metadata().ok().as_ref().map(state);
        let before = std::mem::replace(&mut *lock(&self.seen), now);
        before != now
    }
}

fn state(metadata: &Metadata) -> State {
    (metadata.file_type(), metadata.len(), metadata.modified(), metadata.created())
}
