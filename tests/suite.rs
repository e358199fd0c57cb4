//! The test suite: one binary, so that it can run itself again where a system call is missing.
//!
//! What needs Linux's kernel, its tracing or its filters is of Linux only. `.ci/not-on-windows.txt` names each test that does not run
//! on Windows, and why.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(target_vendor = "apple")]
mod apple;
mod blocked;
#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod cost;
mod files;
mod invariants;
#[cfg(target_os = "linux")]
mod mounts;
mod operations;
#[cfg(target_os = "linux")]
mod peers;
#[cfg(target_os = "linux")]
mod permissions;
mod proofs;
#[cfg(target_os = "linux")]
mod races;
mod reference;
mod roots;
mod schedules;
#[cfg(target_os = "linux")]
mod scope;
mod seeds;
mod session;
#[cfg(windows)]
mod system;
mod tables;
mod texts;
#[cfg(target_os = "linux")]
mod trace;
#[cfg(target_os = "linux")]
mod tracer;
mod tree;
mod windows;
