//! What the operator of the server process configures and reads.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "tests prepare files without the guard")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[allow(dead_code)] // Other tests use the other functions.
mod client;
#[path = "../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod tree;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use client::PROGRAM;
use client::http::{Process, call, initialize};
use client::served::ServedDirectory;

fn output(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).env_remove("RUST_LOG").output().unwrap()
}

/// What the server prints on standard output, if it succeeds.
fn printed(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn check_prints_what_is_in_force_and_serves_nothing() {
    let served = ServedDirectory::new();
    let (directory, other) = (served.directory.to_str().unwrap(), served.outside.to_str().unwrap());
    let said = printed(&["--check", directory, "--read-only-dir", other, "--deny", ".env*"]);
    assert!(said.contains(&format!("{directory}\n{other} (read-only)\n")), "{said}");
    for part in ["lists no roots: only the directories that are always", "Denied names: .env*\n"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(said.contains("write_file") && said.ends_with("Transport: stdio\n"), "{said}");
    let said = printed(&["--check", "--read-only", directory, "--disable-tools", "read_file, run"]);
    assert!(!said.contains("write_file") && !said.contains("read_file,"), "{said}");
    assert!(printed(&["--check"]).starts_with("No directories: each client"));
    // What would keep the server from starting is an error.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = output(&["--check", directory, "--http", &address]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains(&address), "{said}");
}

#[test]
fn the_command_line_takes_the_place_of_a_file_and_adds_to_its_lists() {
    let served = ServedDirectory::new();
    let directory = served.directory.to_str().unwrap();
    let file = |name: &str, content: &str| {
        let path = served.outside.join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let first = file("1.toml", "deny = ['.env*']\nempty-list = 'allow'\nno-confine = true\n");
    let second = file("2.toml", "deny = ['secret']\n");
    let said = printed(&["--check", directory, "--config", &first, "--config", &second]);
    assert!(said.contains("Denied names: .env*, secret\n"), "{said}");
    assert!(said.contains("lists no roots: all allowed directories\n"), "{said}");
    let said =
        printed(&["--check", directory, "--config", &first, "--empty-list", "deny", "--deny", "x"]);
    assert!(said.contains("Denied names: .env*, x\n"), "{said}");
    assert!(said.contains("lists no roots: only the directories"), "{said}");
    // Of two opposites, the last counts.
    let confined = output(&["--check", directory, "--config", &first, "--confine"]);
    let said = String::from_utf8(confined.stderr).unwrap();
    assert!(said.contains("confined by Landlock") || !confined.status.success(), "{said}");
    let unconfined = output(&["--check", directory, "--config", &first]);
    assert_eq!(String::from_utf8(unconfined.stderr).unwrap(), "");
}

#[test]
fn manual_page_and_completions_name_each_option() {
    for (kind, option) in [
        ("man", "\\-\\-read\\-only\\-dir"),
        ("complete-bash", "--read-only-dir"),
        ("complete-fish", "read-only-dir"),
        ("complete-powershell", "--read-only-dir"),
        ("complete-zsh", "--read-only-dir"),
    ] {
        assert!(printed(&["--generate", kind]).contains(option), "{kind}");
    }
}

/// A server over HTTP, and the lines that it prints after its address.
fn serve(
    served: &ServedDirectory,
    options: &[&str],
    log: Option<&str>,
) -> (Process, String, impl Iterator<Item = String> + use<>) {
    let mut program = Command::new(PROGRAM);
    program.args(["--http", "127.0.0.1:0", "--no-confine"]).args(options).arg(&served.directory);
    program.env_remove("RUST_LOG").envs(log.map(|log| ("RUST_LOG", log)));
    let mut process = program.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.find_map(|line| Some(line.split_once("http://")?.1.to_owned())).unwrap();
    (Process(process), address.trim_end_matches("/mcp").to_owned(), lines)
}

fn answer(address: &str, request: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

fn post(address: &str, host: &str, session: &str, body: &Value) -> String {
    let body = body.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         {session}\r\n{body}",
        body.len()
    );
    answer(address, &request)
}

#[test]
fn a_refusal_of_the_transport_is_a_line_at_most_once_a_minute() {
    let served = ServedDirectory::new();
    for (options, log) in
        [(&[][..], None), (&["--log-format", "json"][..], None), (&[][..], Some(""))]
    {
        let (mut process, address, lines) = serve(&served, options, log);
        let begin = initialize("2025-11-25", &json!({}));
        let long = "x".repeat(10_000);
        for _ in 0..3 {
            assert!(post(&address, &long, "", &begin).starts_with("HTTP/1.1 403"));
        }
        process.0.kill().unwrap();
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() == 1 && lines[0].contains("--allow-host"), "{lines:?}");
        assert!(lines[0].len() < 500, "{lines:?}");
        if !options.is_empty() {
            let line: Value = serde_json::from_str(&lines[0]).unwrap();
            assert_eq!(line["level"], "WARN");
        }
    }
}

/// A wrong path is not a failure of the system, and no reason for a line.
#[test]
fn a_failure_of_the_system_is_a_line_and_a_wrong_path_is_not() {
    let served = ServedDirectory::new();
    served.put("d/f", "");
    let (mut process, address, lines) = serve(&served, &[], None);
    let begun = post(&address, "localhost", "", &initialize("2025-11-25", &json!({})));
    let session = begun.lines().find(|line| line.starts_with("mcp-session-id")).unwrap();
    let session = format!("{}\r\n", session.trim());
    for (tool, arguments) in [
        ("read_text_file", json!({ "path": "none" })),
        ("read_text_file", json!({ "path": "/etc/passwd" })),
        ("move_file", json!({ "source": "d", "destination": "d/e" })),
    ] {
        let said = post(&address, "localhost", &session, &call(1, tool, &arguments));
        assert!(said.contains(r#""isError":true"#), "{said}");
    }
    fs::rename(&served.directory, served.directory.with_extension("gone")).unwrap();
    std::thread::sleep(3 * mcp_roots_guard::limits::VERIFY_EVERY);
    let read = call(1, "read_text_file", &json!({ "path": "d/f" }));
    let said = post(&address, "localhost", &session, &read);
    assert!(said.contains(r#""isError":true"#), "{said}");
    process.0.kill().unwrap();
    let lines: Vec<_> = lines.collect();
    assert!(lines.len() == 1 && lines[0].contains("a directory is gone"), "{lines:?}");
}

#[test]
fn health_is_answered_only_for_a_known_host() {
    let (_process, address, _lines) = serve(&ServedDirectory::new(), &[], None);
    let get =
        |head: &str| answer(&address, &format!("GET /health {head}Connection: close\r\n\r\n"));
    let said = get("HTTP/1.1\r\nHost: localhost\r\n");
    let counts: Value = serde_json::from_str(said.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(counts["connections"], 1, "{counts}");
    assert_eq!((&counts["requests"], &counts["refused"]), (&json!(0), &json!(0)), "{counts}");
    for head in [
        "HTTP/1.1\r\n",
        "HTTP/1.0\r\nOrigin: https://evil.example\r\n",
        "HTTP/1.1\r\nHost: evil example\r\n",
        "HTTP/1.1\r\nHost: a:b:c\r\nOrigin: https://evil.example\r\n",
        "HTTP/1.1\r\nHost: evil.example\r\n",
        "HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n",
    ] {
        let said = get(head);
        assert!(said.starts_with("HTTP/1.1 4") || said.starts_with("HTTP/1.0 4"), "{head}: {said}");
        assert!(!said.contains("connections"), "{head}: {said}");
    }
}
