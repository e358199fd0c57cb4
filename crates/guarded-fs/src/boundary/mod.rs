//! The roots in force, from the configuration and a root list.
//!
//! The resolver of requests resolves a configured path beneath the filesystem root, and an entry of
//! a list beneath the allowed directories. It stops at the first step to a place that is neither in
//! one of them nor an ancestor of one.
//!
//! - Nothing outside the allowed directories is ever in force. With [`Boundary::any_listed`], that
//!   is the whole filesystem.
//! - A place has the access of the innermost root in force, and an inner directory no less access
//!   than the outer one. So one that is missing, refused or not listed only ever takes access away.
//! - A configured path that runs through a symlink, or was missing, is resolved again. If it then
//!   leads to another canonical path, the generation is raised, and a session resolves its client's
//!   list again.

mod listed;
mod volumes;
mod directory;
mod aliases;
mod resolved;
mod configuration;
mod narrow;
mod builder;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

pub use self::builder::BoundaryBuilder;
use self::configuration::{Configuration, Resolution};
pub use self::directory::DirectoryOptions;
pub(crate) use self::listed::{UniqueRoots, shown};
pub use self::narrow::ListEntry;
pub use self::resolved::ResolvedRoots;
use self::volumes::Filesystem;
#[cfg(unix)]
pub(crate) use self::volumes::filesystem_root;
use crate::dir::{Access, Policy};
use crate::path::protect::Pattern;
#[cfg(doc)]
use crate::roots::RejectedEntry;
use crate::roots::{Roots, Snapshot, Throttle, Turn, WhyNone};

/// The allowed directories of a server, built once and shared by all clients. An untrusted list
/// narrows them, and never widens them ([`narrow`](Self::narrow)).
#[derive(Clone)]
pub struct Boundary {
    inner: Arc<Inner>,
}

struct Inner {
    policy: Policy,
    protected: Vec<Pattern>,
    limit: Limit,
    allowed: Mutex<Arc<Configuration>>,
    /// Limits how often the configured paths are resolved again.
    resolved: Throttle,
    /// A symlink in a writable allowed directory that changed (`st_ctime`, inode(7)) at this time or
    /// later leads to no root, because a tool may have created it to widen a list.
    links_until: SystemTime,
}

/// What a list can put in force at most.
enum Limit {
    /// The allowed directories, whose paths are resolved beneath this.
    Directories(Filesystem),
    /// The whole filesystem.
    AnyListed(Filesystem),
    Nothing,
}

impl fmt::Debug for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner.limit {
            Limit::Directories(_) => f
                .debug_struct("Boundary")
                .field("directories", &self.last_configuration().directories)
                .finish_non_exhaustive(),
            Limit::AnyListed(_) => f.write_str("Boundary::any_listed"),
            Limit::Nothing => f.write_str("Boundary::nothing"),
        }
    }
}

impl Boundary {
    /// Returns a boundary that grants nothing, whatever a list names, for example for a turn of an
    /// agent without access to files. No list makes it look at the filesystem.
    ///
    /// ```
    /// # use guarded_fs::{Boundary, ErrorKind, WhyNone};
    /// let boundary = Boundary::nothing();
    /// let roots = boundary.narrow(["/", "/srv"])?;
    /// assert_eq!(roots.rejected().len(), 2);
    /// assert_eq!(roots.why_none(), Some(WhyNone::NothingGranted));
    /// assert_eq!(roots.open("/etc/passwd").unwrap_err().kind(), ErrorKind::OutsideRoots);
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    #[must_use]
    pub fn nothing() -> Self {
        let roots = Roots::from(Snapshot {
            why_none: Some(WhyNone::NothingGranted),
            ..Snapshot::default()
        });
        let allowed = ResolvedRoots::new(roots.clone(), 0, false);
        let configuration = Configuration { directories: Vec::new(), roots, allowed };
        Self {
            inner: Arc::new(Inner {
                policy: Policy::default(),
                allowed: Mutex::new(Arc::new(configuration)),
                protected: Vec::new(),
                limit: Limit::Nothing,
                resolved: Throttle::new(),
                links_until: SystemTime::UNIX_EPOCH,
            }),
        }
    }

    /// The configured directories with their access, in order and as absolute paths, also optional
    /// ones that are missing. Empty both for [`any_listed`](Self::any_listed), which grants
    /// whatever a list names, and for [`nothing`](Self::nothing).
    ///
    /// The [index](RejectedEntry::index) of an entry that is rejected in
    /// [`allowed_roots`](Self::allowed_roots) is a position in this list.
    #[must_use]
    pub fn directories(&self) -> Vec<(PathBuf, Access)> {
        let last = self.last_configuration();
        last.directories.iter().map(|it| (it.path.clone(), it.options.access)).collect()
    }

    /// Returns the allowed directories as roots, without a client's list.
    ///
    /// An optional directory that was never there is [rejected](Roots::rejected). Any other stays
    /// in force if it is removed: requests are refused with
    /// [`RootUnavailable`](crate::ErrorKind::RootUnavailable) until its path leads to a directory
    /// again.
    ///
    /// A configured path that runs through a symlink, or was missing, is resolved again at most
    /// once every [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY), by one caller at a time.
    #[must_use]
    pub fn allowed_roots(&self) -> Roots {
        self.configuration(|resolve| resolve()).roots.clone()
    }

    pub(crate) fn allowed(&self, start: impl FnOnce(Box<dyn FnOnce() + Send>)) -> ResolvedRoots {
        self.configuration(start).allowed.clone()
    }

    /// If configured paths are due to be resolved again, `start` receives the work.
    fn configuration(&self, start: impl FnOnce(Box<dyn FnOnce() + Send>)) -> Arc<Configuration> {
        let last = self.last_configuration();
        if !last.allowed.is_provisional {
            return last;
        }
        let Some(resolve) = self.due_resolution() else { return last };
        start(resolve);
        self.last_configuration()
    }

    fn due_resolution(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let (turn, boundary) = (self.inner.resolved.take()?, self.clone());
        Some(Box::new(move || boundary.resolve_allowed_again(turn)))
    }

    #[inline]
    fn last_configuration(&self) -> Arc<Configuration> {
        lock(&self.inner.allowed).clone()
    }

    fn resolve_allowed_again(&self, _turn: Turn) {
        let Inner { limit: Limit::Directories(filesystem), policy, protected, .. } = &*self.inner
        else {
            return;
        };
        // Read here, because another caller may have resolved the paths a moment ago.
        let current = self.last_configuration();
        let fresh = Resolution::new(&current.directories, filesystem, policy.mounts)
            .into_configuration(protected, *policy, current.allowed.generation + 1);
        if !fresh.is_same(&current) {
            // The previous roots are dropped after the lock is released, because dropping them may
            // close directories.
            let fresh = Arc::new(fresh);
            let _previous = std::mem::replace(&mut *lock(&self.inner.allowed), fresh);
        }
    }
}

/// Ignores poisoning, because holders only read or swap the value and do no I/O.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
