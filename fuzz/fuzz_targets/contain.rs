//! `cargo +nightly fuzz run contain --no-trace-compares fuzz/corpus/contain fuzz/seeds/contain -- -max_len=256`
//!
//! What goes in and what is proven stands in the module.
#![no_main]

#[path = "../../tests/invariants/contain.rs"]
mod contain;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contain::hold(bytes));
