//! Aliases of directories.

/// The aliases are paths of Unix, and paths of Windows on another system.
#[cfg(unix)]
#[test]
fn client_can_use_the_path_under_which_it_knows_a_directory() {
    crate::cases::check(include_str!("../data/aliases.txt"));
}
