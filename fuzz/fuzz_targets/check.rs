//! `bash .ci/fuzz 600 check`, for ten minutes.
//!
//! What goes in and what is proven stands in the module.
#![no_main]
#![allow(dead_code)]

#[path = "../../tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| invariants::check::hold(bytes));
