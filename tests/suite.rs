//! The test suite. It is a single binary so that it can run itself again without `openat2`.
//!
//! Tests that depend on the Linux kernel, on tracing or on seccomp filters are compiled on Linux
//! only. `.ci/windows/skipped.txt` lists each test that does not run on Windows, with the reason.
#![allow(missing_docs)]
// Some tests exist only on one system.
#![cfg_attr(not(target_os = "linux"), allow(unused_imports, dead_code))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

/// The variable in which a test tells its own child process, which runs the same test, what to do.
/// Its value has the form that the test chooses.
const TO_CHILD: &str = "GUARD_TEST_CHILD";

mod boundary;
mod check;
mod fs;
mod fuzz_seeds;
mod path;
mod platform;
mod properties;
mod session;
mod support;
