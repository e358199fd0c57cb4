//! What the tests of the suite share: trees of files, a tracer of system calls, the kernel and a naive
//! model as oracles. The other test programs include the files that they need by path.

#[cfg(target_os = "linux")]
pub(crate) mod kernel;
#[cfg(target_os = "linux")]
pub(crate) mod model;
pub(crate) mod random;
pub(crate) mod rfc3986;
#[cfg(target_os = "linux")]
pub(crate) mod tracer;
pub(crate) mod tree;
#[cfg(target_os = "linux")]
pub(crate) mod world;

/// The environment variable that the parent sets for a run of the suite without `openat2`: the
/// error number that the system call returns there.
pub(crate) const OPENAT2_ERROR: &str = "GUARD_TEST_OPENAT2_ERROR";

/// Whether this is a run without `openat2`. Tests that do not depend on the filesystem may then be
/// shorter.
pub(crate) fn is_second_run() -> bool {
    std::env::var_os(OPENAT2_ERROR).is_some()
}
