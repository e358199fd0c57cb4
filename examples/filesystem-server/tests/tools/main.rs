//! Each tool, as a client sees it: over a transport in memory, on real files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod client;
mod files;
mod edits;
mod lists;
#[path = "../../../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the rest.
mod tree;
mod walks;
