//! `bash .ci/fuzz 600 operations`, for ten minutes.
//!
//! What goes in and what is proven stands in the module.
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

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::operations::hold(bytes));
