//! `bash .ci/fuzz 600 contain`, for ten minutes.
//!
//! What goes in and what is proven stands in the module.
#![no_main]

#[path = "../../tests/properties/contain.rs"]
mod contain;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contain::hold(bytes));
