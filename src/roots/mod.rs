//! The roots in force. Every request is decided against [`Roots`], an immutable snapshot.
//!
//! A [`Root`] is the directory or file that was resolved, not its path. The path or an alias may
//! later stop resolving to that object, because the object was replaced or removed, an ancestor was
//! renamed, or a symlink was changed. Roots are verified when a snapshot is taken
//! ([`Roots::verify`]) and when an operation fails. A snapshot, and the aliases of a root after a
//! failure, are verified at most once every [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY). If a
//! verification finds such a change, the root is [unavailable](crate::ErrorKind::RootUnavailable)
//! until its list is resolved again. It never silently becomes another directory.

mod sharing;
mod throttle;
mod trail;
mod handles;
pub(crate) mod resolve;
mod root;
mod rejected;
mod snapshot;
mod lookup;

pub(crate) use self::handles::Opened;
pub(crate) use self::lookup::{
    Located, Lookups, Renamed, resolve_in, resolve_symlink_in, retry_changed,
};
pub use self::rejected::RejectedRoot;
pub use self::resolve::Intent;
pub(crate) use self::resolve::{EntryKind, Found, Lookup, Place, resolve, resolve_symlink};
pub use self::root::Root;
pub(crate) use self::root::{Held, display_path, file_uri, held_directory};
pub(crate) use self::sharing::WeakTable;
#[cfg(feature = "rmcp")]
pub(crate) use self::snapshot::Lease;
pub use self::snapshot::Roots;
pub(crate) use self::snapshot::{DeclaredAlias, Snapshot, Verification};
pub(crate) use self::throttle::Throttle;
pub(crate) use self::trail::{PathHash, Trail, TrailEntry, path_hashes};
