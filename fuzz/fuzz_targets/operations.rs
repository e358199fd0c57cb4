//! Runs for ten minutes with `bash .ci/fuzz 600 operations`.
//!
//! The module below documents the input format and the tested properties.
#![no_main]
#![allow(dead_code)]

#[path = "../../tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| invariants::operations::hold(bytes));
