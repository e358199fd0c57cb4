//! Requests and roots as text: paths, `file:` URIs, and the names in them. Nothing here does I/O.
//!
//! [`Location`] is a parsed request. `names` splits and compares names as each system does. `index`
//! finds the root that contains a path, and `protect` the protection of a path.

pub(crate) mod escapes;
pub(crate) mod names;
mod location;
#[allow(unreachable_pub, clippy::must_use_candidate, reason = "for `internals`")]
pub(crate) mod index;
mod folded;
pub(crate) mod protect;

pub use location::{IntoLocation, Location};
pub(crate) use location::{file_uri, unexpanded};
pub use protect::PROTECTED_DEFAULTS;
pub(crate) use protect::Protection;
