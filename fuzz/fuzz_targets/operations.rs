//! `bash .ci/fuzz 600 operations` runs this target for ten minutes.
//!
//! The module of the same name in `tests/properties/` describes the input and the properties.
#![no_main]
#![allow(dead_code)]

#[path = "../../tests/properties/mod.rs"]
mod properties;
#[path = "../../tests/support"]
mod support {
    pub(crate) mod access;
    pub(crate) mod aliases;
    pub(crate) mod kernel;
    pub(crate) mod model;
    pub(crate) mod operations;
    pub(crate) mod proof;
    pub(crate) mod protection;
    pub(crate) mod rfc3986;
    pub(crate) mod seccomp;
    pub(crate) mod tree;
    pub(crate) mod world;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::operations::hold(bytes));
