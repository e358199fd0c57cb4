//! Runs programs in a checked directory of [`guarded_fs`], and confines them or the whole process.
//!
//! - A [`ChildCommand`] runs a program in a [`CheckedPath`](guarded_fs::CheckedPath), limiting time
//!   and output. **Unless confined, it can do whatever the server's user can.**
//! - A [`Confinement`] restricts such a program to the roots in force, or the whole process to the
//!   allowed directories, on Linux by Landlock (landlock(7)) and seccomp (seccomp(2)).
//!
//! With the feature `tokio`, `ChildCommand::output_async` waits without blocking a thread of a
//! runtime.
//!
//! The only unsafe code, in `child::exec`, is the hook that a new process runs before it executes
//! the program.

#![cfg_attr(doctest, doc = include_str!("../README.md"))]

#[cfg(not(any(unix, windows)))]
compile_error!("guarded-process supports only Unix and Windows");

pub mod limits;
pub mod kinds;
mod confine;
mod child;

pub use child::{CHILD_ENVIRONMENT, ChildCommand, ChildOutput, ExitReason};
pub use confine::{
    Channel, Confinement, ConfinementReport, ExtraAccess, PROGRAM_DIRECTORIES, RUNTIME_FILES,
};
