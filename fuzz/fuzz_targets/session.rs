//! Runs for ten minutes with `bash .ci/fuzz 600 session`.
//!
//! The module below documents the input format and the tested properties.
#![no_main]
// The schedules in `cargo test` use the other functions of the module.
#![allow(dead_code)]

#[path = "../../tests/properties/session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| session::hold(bytes));
