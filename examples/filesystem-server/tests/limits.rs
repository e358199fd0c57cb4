//! The server as a process with limits of the system's.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[allow(dead_code)] // Another test uses the rest.
mod process;

use std::fs;
use std::process::Command;

use serde_json::json;

use process::{PROGRAM, Server};

/// The system would end the process at once, with all its clients (SIGXFSZ).
#[test]
fn a_write_beyond_the_limit_on_the_size_of_files_is_refused_and_the_server_goes_on() {
    let keep = tempfile::Builder::new().prefix("guard-").tempdir().unwrap();
    let directory = dunce::canonicalize(keep.path()).unwrap();
    let (file, other) = (directory.join("f"), directory.join("g"));
    fs::write(&file, "old").unwrap();
    // Some 32 kilobytes: a unit is of 512 bytes or of 1,024.
    let mut limited = Command::new("sh");
    limited.args(["-c", r#"ulimit -f 32 && exec "$0" "$@""#, PROGRAM]).arg(&directory);
    let mut server = Server::of(limited);
    let refused =
        server.call("write_file", &json!({ "path": file, "content": "x".repeat(100_000) }));
    assert!(refused.contains("input or output failed: File too large"), "{refused}");
    assert_eq!(server.read(&file), "old");
    server.call("write_file", &json!({ "path": other, "content": "small" }));
    assert_eq!(server.read(&other), "small");
    let names: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}
