//! Runs the tests that resolve paths again without `openat2`, as on an old kernel (ENOSYS) or in a
//! strict container (EPERM).
//!
//! A thread of this process installs a seccomp filter and then starts the suite. A child inherits
//! its parent's filter (seccomp(2)).

use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use crate::support::kernel::{ENOSYS, block};
use crate::support::{OPENAT2_ERROR, runs_without_openat2};

/// An environment variable that can be set by hand, so that the child runs the tests whose names
/// contain its value. The nightly run sets it to nothing, so that each child runs the whole suite.
const ONLY: &str = "GUARD_TEST_ONLY";

const EPERM: i32 = 1;

#[test]
fn the_suite_passes_when_the_kernel_lacks_openat2() {
    run_again(ENOSYS, &RESOLVING);
}

#[test]
fn the_suite_passes_where_a_filter_forbids_openat2() {
    run_again(EPERM, &FALLING_BACK);
}

/// Tests whose outcome depends on how a path is resolved or opened, without those that repeat the
/// same work with other policies.
const RESOLVING: [&str; 18] = [
    "openat2_is_available",
    "boundary::",
    "check::access::",
    "check::checked_path::",
    "check::decisions::",
    "check::exhaustive::",
    "check::links::",
    "check::nested::",
    "check::within::",
    "fs::entries::",
    "fs::open_file::",
    "fs::operate::",
    "fs::operations::",
    "fs::protected::",
    "fs::races::nothing_outside",
    "fs::syscall_trace::",
    "fs::writing::",
    "properties::",
];

/// Both errors lead to the same fallback, so the second run only shows that it is taken.
const FALLING_BACK: [&str; 3] = ["openat2_is_available", "check::decisions::", "fs::operations::"];

/// In the child, this test shows that the filter is active. In the parent, it shows that `openat2`
/// is available.
#[test]
fn openat2_is_available_unless_it_is_blocked() {
    let opened = openat2(CWD, ".", OFlags::PATH, Mode::empty(), ResolveFlags::empty());
    let blocked: Option<i32> =
        std::env::var(OPENAT2_ERROR).ok().map(|error| error.parse().unwrap());
    assert_eq!(opened.err().map(rustix::io::Errno::raw_os_error), blocked);
}

fn run_again(error: i32, tests: &[&str]) {
    if runs_without_openat2() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    match std::env::var(ONLY) {
        Ok(name) => child.arg(name),
        Err(_) => child.args(tests),
    };
    // Tests that this run skips are skipped again.
    let arguments: Vec<_> = std::env::args().collect();
    for pair in arguments.windows(2).filter(|pair| pair[0] == "--skip") {
        child.args(pair);
    }
    let status = thread::spawn(move || {
        block(error);
        child.env(OPENAT2_ERROR, error.to_string()).stdin(Stdio::null());
        child.output().unwrap()
    })
    .join()
    .unwrap();
    let output = String::from_utf8_lossy(&status.stdout);
    let summary =
        output.lines().find(|line| line.starts_with("test result:")).unwrap_or("no result line");
    println!("openat2 fails with errno {error}: {summary}");
    assert!(status.status.success(), "{output}\n{}", String::from_utf8_lossy(&status.stderr));
    assert!(summary.contains(" passed") && !summary.contains("ok. 0 passed"), "{summary}");
}
