//! `cargo +nightly fuzz run check fuzz/corpus/check fuzz/seeds/check`
//!
//! What goes in and what is proven stands in the module.
#![no_main]

#[path = "../../tests/invariants/check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::hold(bytes));
