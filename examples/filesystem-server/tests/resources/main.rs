//! Files as resources, as a client sees them: over a transport in memory, on real files, in both eras.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod client;
mod complete;
mod fixture;
mod http;
mod limits;
mod list;
mod listen;
mod read;
mod sessions;
mod subscribe;
#[path = "../../../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the rest.
mod tree;
