//! Compares the guard with bare system calls, plain `std` and similar crates.
//!
//! The benchmarks use a temporary directory tree and paths of 2, 8 and 16 names. Results have ids
//! of the form `GROUP/SUBJECT/DEPTH`. Only ratios within one run are meaningful.
//! `benches/report.py` prints them as a table.
//!
//! The guard's time includes parsing the request, an absolute path, but not resolving the roots.
//! Other crates receive the path in the form that they expect, absolute or relative, and perform
//! the work with their fastest suitable function. See [`ways`].
//!
//! | group | measures |
//! | --- | --- |
//! | `open` | open a file for reading, verify that it is a regular file, and close it |
//! | `open-link` | the same through a symlink with a relative target |
//! | `create-file` | create a file and remove it |
//! | `check` | resolve the path of an existing file |
//! | `create` | resolve the path of a file to create |
//! | `refuse-absolute` | refuse an absolute path outside |
//! | `refuse-dots` | refuse a path that leaves the root with `..` |
//! | `refuse-link` | refuse a path through a symlink to a target outside |
//! | `absolute-link` | resolve a path through a symlink with an absolute target inside |
//! | `roots` | `check` with many roots in force |
//! | `session` | `check` with a client's cached roots |
//! | `parse` | parse a request |
//! | `contain` | find the root that contains a path, without system calls |
//! | `load` | `open` with the cached roots of 10,000 clients, on one and two threads |
//!
//! The benchmarks run only on Linux, because the system calls and some of the crates are specific
//! to it.
// A benchmark cannot continue without its files.
#![cfg_attr(target_os = "linux", allow(clippy::unwrap_used))]

#[cfg(target_os = "linux")]
mod groups;
#[cfg(target_os = "linux")]
mod load;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod ways;

#[cfg(target_os = "linux")]
fn main() {
    groups::all();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("these benchmarks run only on Linux");
}
