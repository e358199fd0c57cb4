//! Runs for ten minutes with `bash .ci/fuzz 600 contain`.
//!
//! The module below documents the input format and the tested properties.
#![no_main]

#[path = "../../tests/properties/contain.rs"]
mod contain;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contain::hold(bytes));
