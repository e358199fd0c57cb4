//! An MCP filesystem server guarded by `mcp-roots-guard`.
//!
//! It has the tools of the reference filesystem server, and serves files as resources, to clients
//! of all protocol revisions. Access is limited to the allowed directories, narrowed by each
//! client's roots. Every decision about a path is made by the guard, and every file is opened
//! through it.

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
mod patience;
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
