//! Runs for ten minutes with `bash .ci/fuzz 600 location`.
//!
//! The module below documents the input format and the tested properties.
#![no_main]

#[path = "../../tests/invariants/rfc3986.rs"]
mod rfc3986;
#[path = "../../tests/invariants/location.rs"]
mod location;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| location::hold(bytes));
