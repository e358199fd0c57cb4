//! Resources and HTTP as seen by a client, with real files.

#![allow(clippy::disallowed_methods, reason = "tests prepare files without the guard")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../client/mod.rs"]
#[allow(dead_code)] // Other tests use the other functions.
mod client;
mod http;
#[cfg(target_os = "linux")]
#[path = "../../../tests/support/hung_filesystem.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod hung_filesystem;
#[cfg(target_os = "linux")]
mod hung_mount;
mod limits;
mod list;
mod listen;
mod requests;
mod subscribe;
#[path = "../../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod tree;
