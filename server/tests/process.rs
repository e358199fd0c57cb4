//! The server process: under a limit of the system, confined, and with programs to run.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "tests prepare files without the guard")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[allow(dead_code)] // Other tests use the other functions.
mod client;
#[cfg(target_os = "linux")]
#[path = "process/planted.rs"]
mod planted;
#[cfg(target_os = "linux")]
#[path = "../../tests/support/skip.rs"]
mod skip;
#[path = "../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod tree;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::json;

use client::served::ServedDirectory;
use client::{Client, Declares, Era, PROGRAM, run};

/// By default, the system terminates a process that exceeds the limit (`SIGXFSZ`).
#[test]
fn server_survives_a_write_beyond_the_file_size_limit() {
    let files = ServedDirectory::new();
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
    // An append leaves what was there, and says how much was added.
    let refused =
        server.said("append_file", &json!({ "path": file, "content": "x".repeat(100_000) }));
    let added = server.read(&file).strip_prefix("old").unwrap().len();
    assert!(refused.ends_with(&format!("; {added} of 100000 bytes were added")), "{refused}");
}

/// rmcp drops such a message, and the client would wait for a response.
#[test]
fn message_over_the_limit_is_answered() {
    let files = ServedDirectory::new();
    let mut client = files.client();
    let write = |size| json!({ "path": "f", "content": "x".repeat(size) });
    let refused = client.begin_call("write_file", &write(17 << 20));
    let error = client.end(refused).unwrap_err();
    assert_eq!(error["message"], "the message is larger than 16777216 bytes");
    // Nothing of this is a request.
    client.send("[".repeat(17 << 20));
    assert_eq!(client.end(0).unwrap_err()["code"], -32600);
    assert_eq!(files.content("f"), None);
    client.said("write_file", &write(5));
    assert_eq!(files.content("f").unwrap(), "xxxxx");
}

/// Replaces the directory, and waits long enough for the guard to detect the replacement.
fn replace(directory: &Path) {
    let _ = fs::remove_dir_all(directory.with_extension("was"));
    fs::rename(directory, directory.with_extension("was")).unwrap();
    fs::create_dir(directory).unwrap();
    fs::write(directory.join("f"), "new").unwrap();
    thread::sleep(3 * mcp_roots_guard::limits::VERIFY_EVERY);
}

#[test]
fn confined_server_works_and_the_kernel_blocks_access_outside() {
    let files = ServedDirectory::new();
    let (file, secret) = (files.put("f", "old"), files.outside.join("secret"));
    let directory = &files.directory;
    let named = directory.to_str().unwrap();

    let (success, said) = run(&["--confine", named]);
    if said.contains("not available here") {
        assert!(!success && said.lines().count() == 1, "{said}");
        return println!("process confinement is not available here: {said}");
    }
    let is_reported = said.contains("mcp-filesystem-guarded: confined by Landlock, version ")
        && said.contains(", 1 thread\n")
        && said.contains(&format!("directory, read-write: {named:?}"))
        && (said.contains("\n  denied: signals") || said.contains("signals reach"));
    assert!(is_reported, "{said}");

    let mut server = Client::start(&["--confine", named]);
    assert_eq!(server.read(&file), "old");
    assert!(server.read(&secret).contains("not inside the allowed directories"));
    server.said("write_file", &json!({ "path": "made", "content": "made" }));
    server.said("create_directory", &json!({ "path": "sub" }));
    server.said("move_file", &json!({ "source": "made", "destination": "sub/moved" }));
    assert_eq!(files.content("sub/moved").unwrap(), "made");
    assert!(server.said("directory_tree", &json!({ "path": "." })).contains("moved"));
    assert_eq!(server.resource("subscribe", &file), 0);
    fs::write(&file, "changed").unwrap();
    server.is_told(&file);
    // Every thread is confined.
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process.id())).unwrap();
    for task in tasks {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    }

    // After a directory is replaced, the guard resolves and serves the new one. The kernel still
    // allows access only to the old one, which shows that the process is confined.
    let mut free = Client::start(&["--no-confine", named]);
    assert_eq!([server.read(&file), free.read(&file)], ["changed", "changed"]);
    replace(directory);
    assert_eq!(free.read(&file), "new");
    let denied = server.read(&file);
    assert!(denied.contains("permission denied"), "{denied}");
    assert!(denied.contains("restart the server"), "{denied}");
    let listed = server.said("list_allowed_directories", &json!({}));
    assert!(listed.contains("(replaced: the server must be restarted)"), "{listed}");
    assert!(!free.said("list_allowed_directories", &json!({})).contains("replaced"));
    // A restarted server serves the new directory. It is confined by default.
    let mut restarted = Client::start(&[named]);
    assert_eq!(restarted.read(&file), "new");
    replace(directory);
    let denied = restarted.read(&file);
    assert!(denied.contains("permission denied"), "{denied}");
}

/// The kernel allows reading everywhere, and writing only in the directory.
#[test]
fn everything_can_be_read_and_one_directory_written() {
    let files = ServedDirectory::new();
    let (file, other) = (files.put("f", "old"), files.outside.join("secret"));
    fs::write(&other, "outside").unwrap();
    let options = [files.directory.to_str().unwrap(), "--read-only-dir", "/"];
    let (_, said) = run(&options);
    assert!(!said.contains("may write wherever"), "{said}");
    let mut server = Client::start(&options);
    assert_eq!(server.read(&other), "outside");
    let write = |path| json!({ "path": path, "content": "new" });
    assert!(server.said("write_file", &write(other.to_str().unwrap())).contains("read-only"));
    assert!(server.said("write_file", &write("f")).contains("Wrote"));
    assert_eq!([&file, &other].map(|path| fs::read_to_string(path).unwrap()), ["new", "outside"]);
    let environment = format!("/proc/{}/environ", server.process.id());
    assert!(server.read(Path::new(&environment)).contains("proc filesystem"));
    if said.contains("confined by Landlock") {
        let directory = files.directory.to_str().unwrap();
        assert!(said.contains(&format!("directory, read-write: {directory:?}")), "{said}");
        assert!(said.contains("directory, read-only: \"/\""), "{said}");
    }
    let (_, said) = run(&["/", "--no-confine"]);
    let expected = "clients may write wherever this user may, because / is writable";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn server_does_not_start_confined_without_directories() {
    let none = "no allowed directory is configured (there is nothing to confine the process to)";
    let (success, said) = run(&["--confine"]);
    assert_eq!((success, said), (false, format!("mcp-filesystem-guarded: {none}\n")));
    // By default, it starts. Its client left at once.
    let (_, said) = run(&[]);
    assert!(said.contains("a client can access the roots that it lists"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn programs_have_the_results_in_the_data() {
    client::cases::check(include_str!("data/programs.txt"), Era::Session, Declares::Nothing);
}

#[test]
fn start_says_which_characters_of_a_name_are_ordinary() {
    let served = ServedDirectory::new();
    let options = [
        served.directory.to_str().unwrap(),
        "--deny",
        "a[0-9]",
        "--protect",
        "b,v",
        "--no-confine",
    ];
    let (_, said) = run(&options);
    let expected = r#"[ and , are ordinary characters in the names ["b,v", "a[0-9]"]"#;
    assert!(said.lines().next().unwrap().ends_with(expected), "{said}");
    let (_, said) = run(&[options[0], "--deny", "{a}", "--no-confine"]);
    assert!(!said.contains("ordinary"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn options_that_cannot_be_met_are_refused() {
    let served = ServedDirectory::new();
    // A program that clients can write.
    let tool = served.put("tool", "#!/bin/sh\n");
    served.put("sub/file", "");
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let directory = served.directory.to_str().unwrap();
    std::os::unix::fs::symlink(directory, served.directory.with_extension("link")).unwrap();
    for line in include_str!("data/options.txt").lines().filter(|line| !line.starts_with('#')) {
        let (options, text) = line.split_once(" | ").unwrap();
        let options: Vec<_> =
            options.split(' ').map(|option| option.replace("$D", directory)).collect();
        let (success, error) = run(&options.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!success && error.contains(text), "{line}: {error}");
    }
    let home = std::env::home_dir().unwrap().join("no-such");
    assert!(run(&["~/no-such"]).1.contains(&format!("{home:?}")));
    if rustix::process::geteuid().is_root() {
        let (success, error) = run(&[directory, "--run", "sh"]);
        assert!(!success && error.contains("run the server as another user"), "{error}");
    }
}
