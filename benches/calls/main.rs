//! Compares whole MCP calls of guarded servers with those of unguarded ones:
//! `cargo bench -p benches --bench calls [-- [--update] WORD...]`. The words select rows by their
//! names. `--update` writes the rows over stdio to docs/speed.md, or to docs/servers.md with
//! `--beside`.
//!
//! `-- --beside SERVER OTHER [--update]` compares two other servers instead, each given by its
//! command in one argument. Both must have the tools `read_file` and `list_directory` and take
//! the allowed directory as their argument. `.ci/interop/servers/run --bench` compares
//! mcp-filesystem-guarded with the reference server in this way.
//!
//! Each server is built with rmcp and has the same two tools, `read_file` and `list_directory`. They
//! differ only in how they use the filesystem ([`Way`](server::Way)). The client writes JSON-RPC
//! messages itself, so that the time of a client library does not hide the differences. It uses the
//! servers in this process through a pipe in memory, and as child processes through their standard
//! input and output.
//!
//! Each row measures all servers in short batches, in a different order each round, so that a change
//! of the machine's speed affects all of them. Within a round, each time is divided by that of
//! another server. The result is the median of these ratios, with their quartiles.
// A benchmark cannot continue without its files and servers.
#![cfg_attr(target_os = "linux", allow(clippy::unwrap_used))]

#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod rows;
#[cfg(target_os = "linux")]
mod server;

#[cfg(target_os = "linux")]
fn main() {
    rows::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("these benchmarks run only on Linux");
}
