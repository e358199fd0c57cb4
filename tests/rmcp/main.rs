//! The adapter for rmcp, driven by rmcp's own client in both eras, by raw lines for what that refuses to send, and over HTTP.

// Roots are deprecated since 2026-07-28, and what this crate is about.
#![allow(deprecated)]
// What is sent is built where it is sent; rmcp's own futures are large.
#![allow(clippy::needless_pass_by_value, clippy::large_futures)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod documentation;
mod eras;
mod fairness;
mod http;
mod ordering;
mod request_lifetime;
mod requests;
mod responsiveness;
mod sessions;
mod stateless;
#[cfg(target_os = "linux")]
#[path = "../support/hung_filesystem.rs"]
mod hung_filesystem;
#[path = "../support/raw_client.rs"]
mod raw_client;
#[path = "../support/rmcp_server.rs"]
mod server;
#[path = "../support/tree.rs"]
#[allow(dead_code)] // The suite uses the rest.
mod tree;
