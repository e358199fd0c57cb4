//! `bash .ci/fuzz 600 location`, for ten minutes.
//!
//! What goes in and what is proven stands in the module.
#![no_main]

#[path = "../../tests/invariants/rfc3986.rs"]
mod rfc3986;
#[path = "../../tests/invariants/location.rs"]
mod location;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| location::hold(bytes));
