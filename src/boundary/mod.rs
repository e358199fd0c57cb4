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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

pub(crate) use self::ambient::resolve_ambient;
pub use self::builder::BoundaryBuilder;
pub(crate) use self::configuration::Configuration;
use self::configuration::Resolution;
pub use self::directory::DirectoryOptions;
pub(crate) use self::listed::{UniqueRoots, shown};
pub use self::narrow::ListEntry;
use self::volumes::Filesystem;
use crate::dir::Policy;
use crate::path::protect::Pattern;
use crate::roots::{Roots, Throttle, Turn};

/// How a client's roots determine the roots in force. See [`BoundaryBuilder::client_roots`].
///
/// Directories that are [always](DirectoryOptions::always) in force are served in addition. If a
/// client that declared roots does not answer, or answers with an error, its request is refused,
/// unless client roots are ignored.
///
/// A list is empty only if it has no entries. If every entry of a list is rejected, the list grants
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientRoots {
    /// Client roots are never requested. The allowed directories are in force for each client.
    Ignore,
    /// The part of the client's list that is inside the allowed directories is in force. For a
    /// client that declares no roots, or sends an empty list, the allowed directories are.
    NarrowIfListed,
    /// Like [`NarrowIfListed`](Self::NarrowIfListed), but an empty list grants nothing.
    #[default]
    Narrow,
    /// Like [`Narrow`](Self::Narrow), but a client that declares no roots gets nothing either. If no
    /// directory is always in force, each of its requests is refused with
    /// [`ROOTS_UNSUPPORTED`](crate::kinds::ROOTS_UNSUPPORTED).
    Require,
}

/// The allowed directories of a server. A boundary is built once and shared by all clients.
///
/// ```no_run
/// use mcp_roots_guard::{Access, Boundary, ListRootsResult};
///
/// let boundary = Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?;
/// // A client's list narrows the allowed directories, and never widens them.
/// let list = ListRootsResult::from_uris(["file:///srv/projects/site", "file:///etc"]);
/// let roots = boundary.resolve(&list)?;
/// assert_eq!(roots.iter().count(), 1);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Clone)]
pub struct Boundary {
    inner: Arc<Inner>,
}

struct Inner {
    client_roots: ClientRoots,
    bare_paths: bool,
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
    /// How client roots determine the roots in force.
    pub(crate) fn client_roots(&self) -> ClientRoots {
        self.inner.client_roots
    }

    /// Whether an entry of a client's list may be a path instead of a URI.
    pub(crate) fn allows_bare_paths(&self) -> bool {
        self.inner.bare_paths
    }

    pub(crate) fn has_allowed_directories(&self) -> bool {
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
        self.resolve_configuration().roots
    }

    /// Returns the allowed directories. If it is due, their configured paths are resolved again.
    pub(crate) fn resolve_configuration(&self) -> Configuration {
        if let Some(resolve) = self.due_resolution() {
            resolve();
        }
        lock(&self.inner.allowed).clone()
    }

    /// Returns the work of resolving the configured paths again, if this is due. Until the work is
    /// done or dropped, nobody else gets it.
    pub(crate) fn due_resolution(&self) -> Option<impl FnOnce() + Send + use<>> {
        if !lock(&self.inner.allowed).roots.is_provisional() {
            return None;
        }
        let (boundary, turn) = (self.clone(), self.inner.resolved.take()?);
        Some(move || boundary.resolve_allowed_again(turn))
    }

    /// Returns the allowed directories as last resolved, without I/O.
    pub(crate) fn last_allowed_roots(&self) -> Roots {
        lock(&self.inner.allowed).roots.clone()
    }

    /// The number of times that a configured path was found to lead to another canonical path.
    pub(crate) fn generation(&self) -> u64 {
        lock(&self.inner.allowed).generation
    }

    /// Resolves the configured paths again, in a turn that ends with this call.
    fn resolve_allowed_again(&self, _turn: Turn) {
        // Read here, because another caller may have resolved the paths a moment ago.
        let current = lock(&self.inner.allowed).clone();
        let Inner { filesystem, policy, protected, .. } = &*self.inner;
        let fresh = Resolution::new(&current.directories, filesystem, policy.mounts)
            .into_configuration(protected, *policy, current.generation + 1);
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
