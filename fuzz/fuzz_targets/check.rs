//! Runs for ten minutes with `bash .ci/fuzz 600 check`.
//!
//! The module below documents the input format and the tested properties.
#![no_main]
#![allow(dead_code)]

#[path = "../../tests/properties/mod.rs"]
mod properties;
#[path = "../../tests/support"]
mod support {
    pub(crate) mod kernel;
    pub(crate) mod model;
    pub(crate) mod rfc3986;
    pub(crate) mod world;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::check::hold(bytes));
