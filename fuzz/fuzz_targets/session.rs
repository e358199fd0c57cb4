//! `bash .ci/fuzz 600 session`, for ten minutes.
//!
//! What goes in and what is proven stands in the module.
#![no_main]
// The schedules of `cargo test` use the rest.
#![allow(dead_code)]

#[path = "../../tests/properties/session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| session::hold(bytes));
