//! `bash .ci/fuzz 600 location` runs this target for ten minutes.
//!
//! The module of the same name in `tests/properties/` describes the input and the properties.
#![no_main]

#[path = "../../tests/properties/location.rs"]
mod location;
#[path = "../../tests/support"]
mod support {
    pub(crate) mod rfc3986;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| location::hold(bytes));
