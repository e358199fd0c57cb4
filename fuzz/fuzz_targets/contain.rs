//! `bash .ci/fuzz 600 contain` runs this target for ten minutes.
//!
//! The module of the same name in `tests/properties/` describes the input and the properties.
#![no_main]

#[path = "../../tests/properties/contain.rs"]
mod contain;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contain::hold(bytes));
