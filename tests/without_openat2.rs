//! Runs the whole suite again where `openat2` is missing, as on an old kernel (ENOSYS) or in a strict container (EPERM).
//!
//! A seccomp filter is put on a thread of this process, which then starts the suite: a child inherits its parent's filter (seccomp(2)).

#[cfg(target_os = "linux")]
use std::process::{Command, Stdio};
#[cfg(target_os = "linux")]
use std::thread;

#[cfg(target_os = "linux")]
use crate::support::kernel::{ENOSYS, block};
#[cfg(target_os = "linux")]
use crate::support::{OPENAT2_ERROR, is_second_run};

/// Can be set by hand: the tests that run in the child, instead of the whole suite.
#[cfg(target_os = "linux")]
const ONLY: &str = "GUARD_TEST_ONLY";

#[cfg(target_os = "linux")]
const EPERM: u32 = 1;

#[cfg(target_os = "linux")]
#[test]
fn the_suite_passes_without_openat2_as_on_an_old_kernel() {
    run_again(ENOSYS);
}

#[cfg(target_os = "linux")]
#[test]
fn the_suite_passes_where_a_filter_forbids_openat2() {
    run_again(EPERM);
}

/// In the child: the filter is really there. In the parent: `openat2` really is.
#[cfg(target_os = "linux")]
#[test]
fn openat2_is_there_unless_it_is_blocked() {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let opened = openat2(CWD, ".", OFlags::PATH, Mode::empty(), ResolveFlags::empty());
    let blocked: Option<i32> =
        std::env::var(OPENAT2_ERROR).ok().map(|error| error.parse().unwrap());
    assert_eq!(opened.err().map(rustix::io::Errno::raw_os_error), blocked);
}

#[cfg(target_os = "linux")]
fn run_again(error: u32) {
    if is_second_run() {
        return;
    }
    let status = thread::spawn(move || {
        block(error);
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .env(OPENAT2_ERROR, error.to_string())
            .args(std::env::var_os(ONLY))
            .stdin(Stdio::null());
        child.output().unwrap()
    })
    .join()
    .unwrap();
    let output = String::from_utf8_lossy(&status.stdout);
    let closing =
        output.lines().find(|line| line.starts_with("test result:")).unwrap_or("no closing line");
    println!("openat2 fails with errno {error}: {closing}");
    assert!(status.status.success(), "{output}\n{}", String::from_utf8_lossy(&status.stderr));
    assert!(closing.contains(" passed") && !closing.contains("ok. 0 passed"), "{closing}");
}
