//! The test suite: one binary, so that it can run itself again where a system call is missing.
#![allow(missing_docs)]
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod blocked;
mod calls;
mod invariants;
mod operations;
mod races;
mod reference;
mod roots;
mod schedules;
mod scope;
mod seeds;
mod session;
mod tables;
mod trace;
mod tracer;
mod tree;
