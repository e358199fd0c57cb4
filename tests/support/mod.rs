//! Fixtures and oracles that the suite's tests share. The fixtures include file trees and a system
//! call tracer. The oracles are the kernel and naive implementations. The other test binaries
//! include the files they need with `#[path]`.

use mcp_roots_guard::{
    Access, Boundary, DirEntry, Error, ErrorKind, ListRootsResult, Result, Roots, Walk,
};

use protection::Protection;

#[cfg(target_os = "linux")]
pub(crate) mod access;
#[cfg(target_os = "linux")]
pub(crate) mod aliases;
#[cfg(target_os = "linux")]
pub(crate) mod boundary_model;
pub(crate) mod ended;
#[cfg(target_os = "linux")]
pub(crate) mod kernel;
#[cfg(target_os = "linux")]
pub(crate) mod model;
pub(crate) mod one_step;
pub(crate) mod operations;
pub(crate) mod proof;
pub(crate) mod protection;
pub(crate) mod random;
pub(crate) mod rfc3986;
#[cfg(target_os = "linux")]
pub(crate) mod seccomp;
pub(crate) mod skip;
#[cfg(target_os = "linux")]
pub(crate) mod traced;
#[cfg(target_os = "linux")]
pub(crate) mod tracer;
pub(crate) mod tree;
#[cfg(target_os = "linux")]
pub(crate) mod world;

/// The entries of a walk, followed by the error that ended it.
pub(crate) fn walked(mut walk: Walk) -> Vec<Result<DirEntry>> {
    let mut entries = Vec::new();
    while let Some(entry) = walk.next_entry().transpose() {
        let is_over = entry.is_err();
        entries.push(entry);
        if is_over {
            break;
        }
    }
    entries
}

/// The environment variable that makes the suite run without `openat2`. The parent process sets it
/// to the error number that the system call must return.
pub(crate) const OPENAT2_ERROR: &str = "GUARD_TEST_OPENAT2_ERROR";

/// Whether the suite is running without `openat2`. Tests that do not depend on the filesystem may
/// then run a shorter form.
pub(crate) fn runs_without_openat2() -> bool {
    std::env::var_os(OPENAT2_ERROR).is_some()
}

/// The roots of a client's list, all of which is granted.
#[allow(dead_code, reason = "some test programs do not use it")]
pub(crate) fn listed(list: &ListRootsResult) -> Result<Roots> {
    Boundary::any_listed().build()?.narrow(&list.roots)
}

/// The paths of the roots that are always in force.
#[allow(dead_code, reason = "some test programs do not use it")]
pub(crate) fn always_in_force(roots: &Roots) -> std::collections::HashSet<std::path::PathBuf> {
    let failure = Error::new(ErrorKind::Other("test"), "test", "no list");
    guarded_fs::host::always_in_force(roots, &failure)
        .iter()
        .map(|root| root.path().to_owned())
        .collect()
}

/// The code of the error, if any.
pub(crate) fn code<T>(result: mcp_roots_guard::Result<T>) -> Option<&'static str> {
    result.err().map(|error| error.code())
}

/// Set in a process of its own that runs a single test.
#[cfg(target_os = "linux")]
pub(crate) const OWN_PROCESS: &str = "GUARD_TEST_OWN_PROCESS";

/// Runs a test of this binary in a process of its own, with these environment variables. Returns
/// true in that process.
#[cfg(target_os = "linux")]
pub(crate) fn is_own_process(test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os(OWN_PROCESS).is_some() {
        return true;
    }
    let mut process = std::process::Command::new(std::env::current_exe().unwrap());
    process.env(OWN_PROCESS, "1").envs(variables.iter().copied());
    let output = process.args(["--exact", test, "--test-threads=1"]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
    false
}

/// Opens a directory of the tree as a root in which these names are protected.
pub(crate) fn protecting(tree: &tree::Tree, at: &str, names: &[(&str, Protection)]) -> Roots {
    let builder = Boundary::builder().directory(tree.path(at), Access::ReadWrite);
    let protect = |builder: mcp_roots_guard::BoundaryBuilder, name: &(&str, Protection)| {
        name.1.add(builder, name.0)
    };
    names.iter().fold(builder, protect).build().unwrap().allowed_roots()
}
