//! Runs for ten minutes with `bash .ci/fuzz 600 wire`.
//!
//! The module below documents the input format and the tested properties.
#![no_main]

#[path = "../../tests/properties/wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::hold(bytes));
