//! Runs for ten minutes with `bash .ci/fuzz 600 location`.
//!
//! The module below documents the input format and the tested properties.
#![no_main]

#[path = "../../tests/properties/location.rs"]
mod location;
#[path = "../../tests/support"]
mod support {
    pub(crate) mod rfc3986;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| location::hold(bytes));
