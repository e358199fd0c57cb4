//! The roots in force. Every request is decided against [`Roots`], an immutable snapshot.
//!
//! A [`Root`] is a name below an [`AllowedDirectory`]. Only the allowed directories are held open,
//! and only they have state: the handle that their path led to when it was last opened. Each
//! operation finds what a root's name leads to, and follows no symlink on the way.

mod throttle;
mod allowed;
mod sharing;
pub(crate) mod resolve;
mod root;
mod rejected;
mod scope;
mod snapshot;
mod lookup;
#[cfg(target_os = "linux")]
mod kernel_walk;

pub(crate) use self::allowed::AllowedDirectory;
pub(crate) use self::lookup::{Links, Lookups, resolve_symlink_in, retry_changed};
pub use self::rejected::RejectedEntry;
pub(crate) use self::resolve::{
    LastName, Lookup, Place, PlaceInRoot, Presence, resolve, resolve_symlink,
};
pub use self::root::Root;
pub(crate) use self::root::{display_path, join, kind_of};
pub use self::scope::{Scope, StopHandle};
pub(crate) use self::sharing::WeakTable;
pub(crate) use self::snapshot::{DeclaredAlias, Snapshot};
pub use self::snapshot::{Roots, WhyNone};
pub(crate) use self::throttle::{Throttle, Turn};
