//! `bash .ci/fuzz 600 wire` runs this target for ten minutes.
//!
//! The property module describes the input and the properties.
#![no_main]

#[path = "../../tests/properties/wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::hold(bytes));
