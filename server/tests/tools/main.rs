//! Tools as seen by a client, with real files.

#![allow(clippy::disallowed_methods, reason = "tests prepare files without the guard")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../client/mod.rs"]
#[allow(dead_code)] // Other tests use the other functions.
mod client;
mod changes;
mod files;
#[path = "../../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod tree;
mod walks;

use client::{Declares, Era};

#[test]
fn calls_have_the_results_in_the_data() {
    client::cases::check(include_str!("../data/tools.txt"), Era::Session, Declares::Nothing);
}

#[test]
fn patches_have_the_results_in_the_data() {
    client::cases::check(include_str!("../data/patches.txt"), Era::Session, Declares::Nothing);
}
