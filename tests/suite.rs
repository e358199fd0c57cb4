//! The test suite: one binary, so that it can run itself again where a system call is missing.
#![allow(missing_docs)]
#![cfg(target_os = "linux")]

mod tables;
mod tree;
