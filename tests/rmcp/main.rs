//! The adapter for rmcp, driven by rmcp's own client in both eras, by raw lines for what that refuses to send, and over HTTP.

// Roots are deprecated since 2026-07-28, and what this crate is about.
#![allow(deprecated)]

mod eras;
mod http;
mod ordering;
mod raw;
mod requests;
mod server;
mod sessions;
mod stateless;
