//! What the guard costs, beside the same work by the bare system calls, by plain `std` and by its peers.
//!
//! Goes in: a tree in a temporary directory, and requests through 2, 8 and 16 names. Comes out: times under ids `GROUP/SUBJECT/DEPTH`,
//! of which only ratios within one run mean something; `benches/report` makes a table of them. What is proven: nothing but cost.
//!
//! The guard is timed from the request text, an absolute path, through a snapshot of the roots. A peer gets the path in the form it
//! takes, absolute or below its directory, and its fastest call that does the work; see [`ways`].
//!
//! | group | does |
//! | --- | --- |
//! | `open` | opens a file for reading, verifies that it is a regular file, closes it |
//! | `check` | tells where a request really leads |
//! | `create` | tells where a file would be made that does not exist |
//! | `refuse-absolute`, `refuse-dots`, `refuse-link` | refuses a path outside, one with `..`, and one through a link out |
//! | `absolute-link` | tells where a request leads that goes through a link with an absolute text |
//! | `roots` | `check` with so many roots in force |
//! | `session` | `check` with the roots of a client, kept |
//! | `parse` | reads a request text |
//! | `contain` | tells in which of so many roots a path is, by its names alone |
//! | `load` | `open` with the kept roots of 10,000 clients, on one thread and on two |
//!
//! The system calls and the peers are those of Linux; elsewhere there is nothing to compare with.
#![cfg_attr(target_os = "linux", allow(clippy::unwrap_used))] // Without its files there is nothing to measure.

#[cfg(target_os = "linux")]
mod groups;
#[cfg(target_os = "linux")]
mod load;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod ways;

#[cfg(target_os = "linux")]
#[allow(dead_code, unused_imports, reason = "the names of roots without the rest of the crate")]
#[path = "../../src/path/index.rs"]
mod index;

#[cfg(target_os = "linux")]
#[allow(dead_code, unused_imports, reason = "the same")]
#[path = "../../src/path/names/mod.rs"]
mod names;

#[cfg(target_os = "linux")]
fn main() {
    groups::all();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("these measure Linux");
}
