//! An MCP filesystem server guarded by `mcp-roots-guard`.
//!
//! It has the tools of the reference filesystem server and further ones, and serves files as
//! resources, to clients of all protocol revisions. Access is limited to the allowed directories,
//! narrowed by each client's roots. The guard decides about every path in a request, and opens every
//! file that the server itself reads or changes for a client. It does not open:
//!
//! - the server's own files, such as its configuration and its audit log
//! - the files of the programs that `--git` and `--run` permit, which the kernel confines

pub mod audit;
mod config;
pub mod http;
pub mod listen;
pub mod log;
mod memory;
mod names;
mod nothing;
pub mod options;
pub mod own_files;
pub mod programs;
pub mod replaced;
mod resources;
pub mod server;
pub mod stdio;
pub mod threads;
mod tools;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use tools::{allowed_directories, limits};

/// Locks a mutex, and ignores poisoning: a panic leaves the data in a consistent state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
