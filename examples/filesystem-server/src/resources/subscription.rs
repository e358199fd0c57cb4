//! Subscriptions to a resource, and the detection of changes.
//!
//! The URI is checked once, in the request that subscribes. Each later inspection uses the
//! resulting `CheckedPath`, after verifying that the currently known roots still allow it. Once the
//! root is withdrawn, the file is no longer inspected and no notification is sent.
//!
//! Files are looked at every [`POLL`], and nothing watches them: a look through the guard needs no
//! other access to a file, and is the same on every system and filesystem. A file has changed if its
//! type, size or times differ, or if it was removed or recreated. A directory has changed if an entry
//! was added or removed. A change that keeps a file's size is not noticed if it follows a look within
//! the resolution of file times (10 ms at most on Linux). A symlink is followed only when the client
//! subscribes: if its target is changed later, the subscription still covers the old target.
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
use tokio::sync::Semaphore;

use super::{entry, lock};

/// The maximum number of subscriptions in a session or one `subscriptions/listen` request: more
/// files than a person has open. To look at all of them takes less than a millisecond.
pub(super) const SUBSCRIPTIONS: usize = 64;

/// The time between two looks at a file, and so the time in which a change is reported.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// How many threads look at files of one filesystem at a time: a sixteenth of the guard's slots.
/// While a filesystem answers, each of them is done in less than a millisecond.
const WAITING: usize = 16;

/// A subscription to a file or directory.
#[derive(Debug)]
pub(super) struct Subscription {
    uri: String,
    checked: CheckedPath,
    filesystem: Arc<Semaphore>,
    /// `None` if the file did not exist at the last look.
    seen: Mutex<Option<Found>>,
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
        filesystems: &Filesystems,
    ) -> std::result::Result<Self, HandlerError> {
        let checked = roots.check(&Location::from_uri(uri)?, Intent::Existing)?;
        let metadata = checked.metadata()?;
        if !entry::is_resource(metadata.file_type()) {
            // Fails with the guard's refusal of special files.
            checked.open()?;
        }
        let filesystem = filesystems.of(&metadata);
        let seen = Mutex::new(Some(Found::from(&metadata)));
        Ok(Self { uri: uri.to_owned(), checked, filesystem, seen })
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns an error unless the session's known roots still allow the resource.
    pub(super) fn still_allowed(&self, session: &Session) -> Result<()> {
        session.still_allows(&self.checked)
    }

    /// Whether the resource has changed since the last look.
    fn has_changed(&self) -> bool {
        let now = self.checked.metadata().ok().as_ref().map(Found::from);
        let mut seen = lock(&self.seen);
        let changed = now != *seen;
        *seen = now;
        changed
    }
}

impl From<&Metadata> for Found {
    fn from(metadata: &Metadata) -> Self {
        Self {
            file_type: metadata.file_type(),
            size: metadata.len(),
            modified: metadata.modified(),
            created: metadata.created(),
        }
    }
}

/// The result of looking at several subscriptions.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Subscriptions whose resource has changed.
    pub(super) updated: Vec<Arc<Subscription>>,
    /// Subscriptions that the roots in force no longer allow.
    pub(super) withdrawn: Vec<Arc<Subscription>>,
}

/// Looks at the subscriptions that the known roots allow, or at none if no roots are known, and not
/// at those for whose filesystem too many threads wait. Blocks on file I/O.
pub(super) fn look(
    subscriptions: &[Arc<Subscription>],
    allows: impl Fn(&CheckedPath) -> Result<()>,
) -> Looked {
    let mut looked = Looked::default();
    for subscription in subscriptions {
        let Ok(_permit) = subscription.filesystem.try_acquire() else { continue };
        match allows(&subscription.checked).map_err(|error| error.kind()) {
            // Read-only access is enough to watch.
            Ok(()) | Err(ErrorKind::ReadOnly) => {
                if subscription.has_changed() {
                    looked.updated.push(subscription.clone());
                }
            }
            Err(ErrorKind::RootsStale | ErrorKind::SessionClosed) => {}
            Err(_) => looked.withdrawn.push(subscription.clone()),
        }
    }
    looked
}
