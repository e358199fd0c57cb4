//! The adapter for rmcp, driven by rmcp's own client in both eras, by raw lines for what that refuses to send, and over HTTP.

// Roots are deprecated since 2026-07-28, and what this crate is about.
#![allow(deprecated)]
// What is sent is built where it is sent; rmcp's own futures are large.
#![allow(clippy::needless_pass_by_value, clippy::large_futures)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(target_os = "linux")]
mod dead;
mod eras;
mod fairness;
mod http;
mod leases;
mod ordering;
mod raw;
mod readme;
mod requests;
mod responsive;
mod server;
mod sessions;
mod stateless;
#[path = "../tree.rs"]
#[allow(dead_code)] // The suite uses the rest.
mod tree;
