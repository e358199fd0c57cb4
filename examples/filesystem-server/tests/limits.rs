//! The server process under system resource limits.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "tests prepare files without the guard")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[allow(dead_code)] // Other tests use the other functions.
mod client;
#[path = "../../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod tree;

use std::fs;
use std::process::Command;

use serde_json::json;

use client::served::Served;
use client::{Client, Declares, Era, PROGRAM};

/// By default, the system terminates a process that exceeds the limit (`SIGXFSZ`).
#[test]
fn server_survives_a_write_beyond_the_file_size_limit() {
    let files = Served::new();
    let (file, other) = (files.put("f", "old"), files.path("g"));
    // The limit is 16 or 32 KiB, because the unit of `ulimit -f` is 512 or 1,024 bytes.
    let mut limited = Command::new("sh");
    limited.args(["-c", r#"ulimit -f 32 && exec "$0" "$@""#, PROGRAM]).arg(&files.directory);
    let mut server = Client::of(limited, Era::Session, Declares::Nothing);
    let refused =
        server.said("write_file", &json!({ "path": file, "content": "x".repeat(100_000) }));
    assert!(refused.contains("input or output failed: File too large"), "{refused}");
    assert_eq!(server.read(&file), "old");
    server.said("write_file", &json!({ "path": other, "content": "small" }));
    assert_eq!(server.read(&other), "small");
    assert_eq!(fs::read_dir(&files.directory).unwrap().count(), 2);
}
