//! A file server for MCP clients: the tools of the reference filesystem server, and its files as resources, guarded by `mcp-roots-guard`.
//!
//! Goes in: the allowed directories, and requests of clients in either era of the protocol. Comes out: what the files hold, within the
//! directories, narrowed by each client's roots. What is true after: no code here decides whether a path is served, and none opens a
//! file but through the guard.

pub mod http;
pub mod options;
pub mod server;

mod progress;
mod resources;
mod tools;
