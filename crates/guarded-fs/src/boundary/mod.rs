//! Computes the roots in force from the configuration and a root list.
//!
//! A [`Boundary`] is the set of allowed directories in the server's configuration, built once. It
//! turns untrusted root lists into [`Roots`]. If there are allowed directories, nothing outside
//! them is ever in force.
//!
//! Entries are resolved by the same resolver as requests, beneath the allowed directories or, if
//! there are none, beneath `/`. Resolution stops at the first step to a place that is neither in an
//! allowed directory nor an ancestor of one. The result is a name, whether or not anything exists
//! there. With allowed directories, each entry has one of these results:
//!
//! | an entry that | grants |
//! | --- | --- |
//! | resolves into an allowed directory, to a directory, a file or nothing | that name, with the access of its place, and the allowed directories below it |
//! | is an ancestor of allowed directories | those directories |
//! | resolves to any other place | nothing: [`OutsideRoots`](crate::ErrorKind::OutsideRoots) |
//! | is denied by a pattern, or leads through a denied name | nothing: [`Protected`](crate::ErrorKind::Protected) |
//! | runs through a symlink in a writable allowed directory that was changed since the process built its first boundary | nothing, because a tool may have created it: [`RootRejected`](crate::ErrorKind::RootRejected), `through_link` |
//! | resolves to the same place as an earlier entry | an alias of that root: [`RootRejected`](crate::ErrorKind::RootRejected), `duplicate` |
//! | leads to a FIFO, socket or device, or cannot be resolved | nothing: the error |
//!
//! Without allowed directories ([`Boundary::without_directories`]), the filesystem root, or each
//! volume that a list names, is the allowed directory of these rules.
//!
//! Allowed directories may be nested, if the inner one has no less access. A place has the access
//! of the innermost root in force, so a directory that is missing, refused or not listed only ever
//! takes access away. An entry that is refused puts nothing in force.
//!
//! Allowed directories that are always in force follow the roots of the list. Relative requests
//! start at the first entry that is not rejected by its text alone. If the filesystem rejects that
//! entry, there is no base.
//!
//! The boundary counts generations. A configured path that was resolved through a symlink, or an
//! optional directory that was missing, is resolved again. If the result is another canonical path,
//! the generation is raised, and a session resolves its client's list again.
//!
//! An allowed directory can have aliases, which are checked and declared in `aliases.rs`.

mod listed;
mod volumes;
mod directory;
mod aliases;
mod configuration;
mod narrow;
mod builder;
mod ambient;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

pub use self::ambient::WritablePlaces;
pub use self::builder::BoundaryBuilder;
use self::configuration::{Configuration, Resolution};
pub use self::directory::DirectoryOptions;
pub(crate) use self::listed::{UniqueRoots, shown};
pub use self::narrow::ListEntry;
use self::volumes::Filesystem;
use crate::dir::{Access, Policy};
use crate::path::protect::Pattern;
#[cfg(doc)]
use crate::roots::RejectedEntry;
use crate::roots::{Roots, Throttle, Turn};

/// The allowed directories of a server. A boundary is built once and shared by all clients.
///
/// ```no_run
/// use guarded_fs::{Access, Boundary, Deadline, ListEntry};
///
/// let boundary = Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?;
/// // An untrusted list narrows the allowed directories, and never widens them.
/// let list = ["file:///srv/projects/site", "file:///etc"].map(ListEntry::uri);
/// let roots = boundary.narrow(list, &Deadline::default())?;
/// assert_eq!(roots.iter().count(), 1);
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[derive(Clone)]
pub struct Boundary {
    inner: Arc<Inner>,
}

struct Inner {
    policy: Policy,
    /// The patterns for protected names.
    protected: Vec<Pattern>,
    filesystem: Filesystem,
    allowed: Mutex<Configuration>,
    /// Limits how often the configured paths are resolved again.
    resolved: Throttle,
    /// A symlink in a writable allowed directory is followed for a list entry only if it was last
    /// changed before this time.
    links_until: SystemTime,
}

impl fmt::Debug for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boundary")
            .field("directories", &lock(&self.inner.allowed).directories)
            .finish_non_exhaustive()
    }
}

impl Boundary {
    /// The configured directories with their access, in the order of the configuration and as
    /// absolute paths. An optional directory is included whether or not it is there. Empty for a
    /// boundary [without directories](Self::without_directories).
    ///
    /// The [index](RejectedEntry::index) of an entry that is rejected in
    /// [`allowed_roots`](Self::allowed_roots) is a position in this list.
    #[must_use]
    pub fn directories(&self) -> Vec<(PathBuf, Access)> {
        let directories = lock(&self.inner.allowed).directories.clone();
        directories.iter().map(|it| (it.path.clone(), it.options.access)).collect()
    }

    fn has_directories(&self) -> bool {
        !lock(&self.inner.allowed).directories.is_empty()
    }

    /// Returns the allowed directories as roots, without a client's list.
    ///
    /// A configured path that runs through a symlink, or was missing, is resolved again at most
    /// once every [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY), by one caller at a time. The
    /// result then contains what the symlink leads to now, or the optional directory that has
    /// appeared. An optional directory that was never there is [rejected](Roots::rejected) and
    /// grants nothing. Any other directory stays in force if it is removed: requests are refused
    /// with [`RootUnavailable`](crate::ErrorKind::RootUnavailable) until its path leads to a
    /// directory again.
    #[must_use]
    pub fn allowed_roots(&self) -> Roots {
        self.allowed_roots_with(|resolve| resolve())
    }

    /// Like [`allowed_roots`](Self::allowed_roots), for an asynchronous program. If the configured
    /// paths are due to be resolved again, `start` receives the work, and starts it on a thread that
    /// may block. The result contains what the paths led to last, unless `start` has already done the
    /// work.
    ///
    /// Nobody else receives the work until it is done or dropped. If it is dropped, the paths are
    /// resolved again half a second later at the earliest.
    ///
    /// ```
    /// # use guarded_fs::{Access, Boundary};
    /// # let work = tempfile::tempdir().unwrap();
    /// let boundary = Boundary::builder().directory(work.path(), Access::ReadOnly).build()?;
    /// let roots = boundary.allowed_roots_with(|resolve| drop(std::thread::spawn(resolve)));
    /// assert_eq!(roots.iter().count(), 1);
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    #[must_use]
    pub fn allowed_roots_with(&self, start: impl FnOnce(Box<dyn FnOnce() + Send>)) -> Roots {
        let roots = self.last_allowed_roots();
        if !roots.is_provisional() {
            return roots;
        }
        let Some(resolve) = self.due_resolution() else { return roots };
        start(resolve);
        self.last_allowed_roots()
    }

    /// The work of resolving the configured paths again, if nobody has it and it is due.
    fn due_resolution(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let (turn, boundary) = (self.inner.resolved.take()?, self.clone());
        Some(Box::new(move || boundary.resolve_allowed_again(turn)))
    }

    #[inline]
    fn last_allowed_roots(&self) -> Roots {
        lock(&self.inner.allowed).roots.clone()
    }

    /// Resolves the configured paths again, in a turn that ends with this call.
    fn resolve_allowed_again(&self, _turn: Turn) {
        // Read here, because another caller may have resolved the paths a moment ago.
        let current = lock(&self.inner.allowed).clone();
        let Inner { filesystem, policy, protected, .. } = &*self.inner;
        let fresh = Resolution::new(&current.directories, filesystem, policy.mounts)
            .into_configuration(protected, *policy, current.roots.generation() + 1);
        if !fresh.is_same(&current) {
            // The previous roots are dropped after the lock is released, because dropping them may
            // close directories.
            let _previous = std::mem::replace(&mut *lock(&self.inner.allowed), fresh);
        }
    }
}

/// Locks the mutex even if it is poisoned, because holders only read or swap the value and do no
/// I/O.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
