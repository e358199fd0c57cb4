//! Programs that the server cannot reap at once, or at all, and what they cost it.

use mcp_roots_guard::{Channel, Confinement};
use nix::libc;

use super::{command, text};
use crate::support::tree::Tree;

/// A sibling that leaves the group could not be found to reap it.
#[test]
fn confined_program_cannot_create_children_of_the_server() {
    let tree = Tree::new("dir r");
    let roots = tree.roots(["r"]);
    let (call, flags) = (libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD);
    let script = format!(
        "$sibling = syscall({call}, {flags}, 0, 0, 0, 0); exit if $sibling == 0; print $! + 0, q( );
         syscall({}, 0, 0); print $! + 0",
        libc::SYS_clone3,
    );
    let channels = [Channel::Network, Channel::Signals, Channel::UnixSockets];
    let all = channels.into_iter().fold(Confinement::default().programs(), Confinement::allow);
    let run = || command(&roots, ".", "perl").unwrap().args(["-e", &script]);
    for (run, expected) in [
        (run(), format!("0 {}", libc::EINVAL)),
        (
            run().confined(Confinement::default().programs()),
            format!("{} {}", libc::EACCES, libc::ENOSYS),
        ),
        (run().confined(all), format!("{} {}", libc::EACCES, libc::ENOSYS)),
    ] {
        let output = run.output().unwrap();
        assert_eq!(text(output.stdout()), expected, "{}", text(output.stderr()));
    }
}
