//! `bash .ci/fuzz 600 windows`, for ten minutes.
//!
//! What goes in and what is proven stands in the module.
#![no_main]

#[path = "../../tests/properties/windows.rs"]
mod windows;
#[path = "../../tests/support"]
mod support {
    pub(crate) mod rfc3986;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| windows::hold(bytes));
