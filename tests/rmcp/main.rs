//! The rmcp adapter, tested with rmcp's own client in both eras of the protocol, with raw lines
//! that rmcp's client would refuse to send, and over HTTP.

// The protocol deprecated roots in revision 2026-07-28, so rmcp marks its types for them as
// deprecated.
#![allow(deprecated)]
// Messages are built where they are sent and passed by value. The futures of rmcp are large.
#![allow(clippy::needless_pass_by_value, clippy::large_futures)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod asynchronous;
#[cfg(target_os = "linux")]
mod ends;
mod eras;
mod fairness;
mod http;
mod ordering;
mod request_lifetime;
mod requests;
mod responsiveness;
mod sessions;
mod stateless;
mod within;
#[cfg(target_os = "linux")]
#[path = "../support/ended.rs"]
mod ended;
#[cfg(target_os = "linux")]
#[path = "../support/hung_filesystem.rs"]
#[allow(dead_code)] // The file server's tests use the other functions.
mod hung_filesystem;
#[path = "../support/one_step.rs"]
mod one_step;
#[path = "../support/operations.rs"]
#[allow(dead_code)] // The suite uses the other items.
mod operations;
#[path = "../support/proof.rs"]
mod proof;
#[path = "../support/raw_client.rs"]
mod raw_client;
#[path = "../support/rmcp_server.rs"]
mod server;
#[path = "../support/tree.rs"]
#[allow(dead_code)] // The suite uses the other items.
mod tree;
