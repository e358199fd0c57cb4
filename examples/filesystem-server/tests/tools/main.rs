//! Tools as seen by a client, with real files.

#![allow(clippy::disallowed_methods, reason = "tests prepare files without the guard")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod cases;
#[path = "../client/mod.rs"]
#[allow(dead_code)] // Other tests use the other functions.
mod client;
mod configured;
mod files;
mod lists;
#[path = "../../../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod tree;
mod walks;
