//! `bash .ci/fuzz 600 session` runs this target for ten minutes.
//!
//! The module of the same name in `tests/properties/` describes the input and the properties.
#![no_main]
// Some items of the module are used only by the tests of schedules.
#![allow(dead_code)]

#[path = "../../tests/properties/session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| session::hold(bytes));
