//! The server process with `--confine`.

#![allow(clippy::disallowed_methods, reason = "tests prepare files without the guard")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[allow(dead_code)] // Other tests use the other functions.
mod client;
#[path = "../../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod tree;

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::json;

use client::{Client, run};

/// Replaces the directory, and waits long enough for the guard to detect the replacement.
fn replace(directory: &Path) {
    fs::rename(directory, directory.with_extension("was")).unwrap();
    fs::create_dir(directory).unwrap();
    fs::write(directory.join("f"), "new").unwrap();
    thread::sleep(3 * mcp_roots_guard::limits::VERIFY_EVERY);
}

#[test]
fn confined_server_works_and_the_kernel_blocks_access_outside() {
    let keep = tempfile::Builder::new().prefix("guard-").tempdir().unwrap();
    let top = dunce::canonicalize(keep.path()).unwrap();
    let (directory, file) = (top.join("d"), top.join("d/f"));
    let named = directory.to_str().unwrap();
    fs::create_dir(&directory).unwrap();
    fs::write(&file, "old").unwrap();
    fs::write(top.join("secret"), "secret").unwrap();

    let (success, said) = run(&["--confine", named]);
    if said.contains("not available here") {
        // The server must fail before it serves any request.
        assert!(
            !success && said == "filesystem-server: process confinement is not available here\n",
            "{said}"
        );
        println!("process confinement is not available here: {said}");
        return;
    }
    let report =
        said.find("filesystem-server: confined by Landlock, version ").map(|at| &said[at..]);
    let report = report.unwrap_or_else(|| panic!("no report: {said}"));
    print!("{report}");
    assert!(
        report.contains(", 1 thread\n")
            && report.contains(&format!("directory, read-write: {named:?}"))
            && (report.contains("\n  denied: signals") || report.contains("signals reach")),
        "{report}"
    );

    let mut server = Client::start(&["--confine", named]);
    assert_eq!(server.read(&file), "old");
    assert!(server.read(&top.join("secret")).contains("not inside the allowed directories"));
    server.said("write_file", &json!({ "path": directory.join("made"), "content": "made" }));
    server.said("create_directory", &json!({ "path": directory.join("sub") }));
    server.said(
        "move_file",
        &json!({ "source": directory.join("made"), "destination": directory.join("sub/moved") }),
    );
    assert_eq!(fs::read_to_string(directory.join("sub/moved")).unwrap(), "made");
    assert!(server.said("directory_tree", &json!({ "path": directory })).contains("moved"));
    // The client receives an update, which shows that the confined process can watch or poll the
    // file.
    assert_eq!(server.resource("subscribe", &file), 0);
    fs::write(&file, "changed").unwrap();
    server.is_told(&file);
    // Every thread is confined.
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process())).unwrap();
    let statuses: Vec<_> = tasks
        .map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap())
        .collect();
    assert!(statuses.len() > 1 && statuses.iter().all(|status| status.contains("NoNewPrivs:\t1")));

    // After a directory is replaced, the guard resolves and serves the new one. The kernel still
    // allows access only to the old one, which shows that the process is confined.
    let mut free = Client::start(&[named]);
    assert_eq!([server.read(&file), free.read(&file)], ["changed", "changed"]);
    replace(&directory);
    assert_eq!(free.read(&file), "new");
    let denied = server.read(&file);
    assert!(denied.contains("permission denied"), "{denied}");
    // A restarted server serves the new directory.
    assert_eq!(Client::start(&["--confine", named]).read(&file), "new");
}

#[test]
fn server_does_not_start_confined_without_directories() {
    let (success, said) = run(&["--confine"]);
    assert!(!success);
    assert!(said.starts_with("filesystem-server: ") && !said.contains("confined by"), "{said}");
}
