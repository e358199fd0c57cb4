//! `bash .ci/fuzz 600 wire`, for ten minutes.
//!
//! What goes in and what is proven stands in the module.
#![no_main]

#[path = "../../tests/properties/wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::hold(bytes));
