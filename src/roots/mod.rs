//! The roots in force.
//!
//! Goes in: directories that were resolved, each with its names, an open handle and its identity. Comes out: [`Roots`], an immutable
//! snapshot against which everything is decided. What is true after: a root stays the directory object it was when it was resolved;
//! when its names no longer say so, and that was noticed, it is unavailable, and never silently something else.
//!
//! | the root's names | noticed | then |
//! | --- | --- | --- |
//! | still lead to the same object | | it serves |
//! | lead elsewhere or nowhere: replaced, removed, an ancestor renamed, a link re-pointed | when a snapshot is taken ([`Roots::verify`]), or when an operation fails (a link at most every [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY)) | [`RootUnavailable`](crate::ErrorKind::RootUnavailable) until resolved again |

mod throttle;
mod trail;
mod handles;
pub(crate) mod resolve;
mod root;
mod snapshot;
mod lookup;

pub(crate) use self::handles::Opened;
pub(crate) use self::lookup::{Lookups, resolve_in, settled};
pub use self::resolve::Intent;
pub(crate) use self::resolve::{EntryKind, Found, Lookup, Place, resolve};
pub use self::root::Root;
pub(crate) use self::root::{Held, directory, display_path, file_uri};
pub use self::snapshot::{RejectedRoot, Roots};
pub(crate) use self::snapshot::{Snapshot, Verification};
pub(crate) use self::throttle::{Stopwatch, Throttle};
pub(crate) use self::trail::{OnTrail, PathHash, Trail, path_hashes};
