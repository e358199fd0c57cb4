//! The text of requests and roots: paths, `file:` URIs, and the names in them.
//!
//! Everything here is a pure function of text and does no I/O. [`Location`] is a parsed request,
//! `names` splits a path into names and compares them as each system does, and `index` finds the
//! root that a path is in.

// The modules here refer to it as `super::error`, so that `tests/properties` can build them alone.
#[cfg_attr(not(windows), allow(unused_imports))]
use crate::error;

pub(crate) mod escapes;
pub(crate) mod names;
mod location;
pub(crate) mod index;

pub use location::Location;
