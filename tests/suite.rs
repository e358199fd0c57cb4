//! The test suite. It is a single binary so that it can run itself again without `openat2`.
//!
//! Tests that depend on the Linux kernel, on tracing or on seccomp filters are compiled on Linux
//! only. `.ci/windows/skipped.txt` lists each test that does not run on Windows, with the reason.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(target_os = "linux")]
mod boundary_options;
mod checked_path;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod comparison;
mod copy;
#[cfg(target_os = "linux")]
mod crash;
mod decisions;
mod directory_options;
mod entries;
mod error_texts;
#[cfg(target_os = "linux")]
mod exhaustive;
mod fuzz_seeds;
mod links;
#[cfg(target_os = "linux")]
mod lookup_limits;
#[cfg(target_vendor = "apple")]
mod macos_names;
#[cfg(target_os = "linux")]
mod mounts;
mod open_file;
#[cfg(target_os = "linux")]
mod operate;
mod operations;
#[cfg(target_os = "linux")]
mod permissions;
mod properties;
mod protected;
#[cfg(target_os = "linux")]
mod protected_attacks;
#[cfg(target_os = "linux")]
mod races;
mod roots;
mod schedules;
mod session;
mod session_model;
mod support;
#[cfg(target_os = "linux")]
mod syscall_counts;
#[cfg(target_os = "linux")]
mod syscall_trace;
#[cfg(target_os = "linux")]
mod tasks;
#[cfg(windows)]
mod windows_filesystem;
mod windows_names;
mod within;
mod without_openat2;
mod writing;
