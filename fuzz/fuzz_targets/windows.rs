//! Runs for ten minutes with `bash .ci/fuzz 600 windows`.
//!
//! The module below documents the input format and the tested properties.
#![no_main]

#[path = "../../tests/properties/windows.rs"]
mod windows;
#[path = "../../tests/support"]
mod support {
    pub(crate) mod rfc3986;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| windows::hold(bytes));
