//! Aliases of directories.
#![cfg(unix)]

use crate::client::cases::check;
use crate::client::{Declares, Era};

/// The aliases are paths of Unix, and paths of Windows on another system.
#[test]
fn client_can_use_the_path_under_which_it_knows_a_directory() {
    check(include_str!("../data/aliases.txt"), Era::Session, Declares::Nothing);
}
