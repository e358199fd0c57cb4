//! `bash .ci/fuzz 600 session` runs this target for ten minutes.
//!
//! The property module describes the input and the properties.
#![no_main]
// The tests of schedules use the other items.
#![allow(dead_code)]

#[path = "../../tests/properties/session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| session::hold(bytes));
