//! `bash .ci/fuzz 600 wire` runs this target for ten minutes.
//!
//! The module of the same name in `tests/properties/` describes the input and the properties.
#![no_main]

#[path = "../../tests/properties/wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::hold(bytes));
