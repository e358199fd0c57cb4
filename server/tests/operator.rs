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
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::io::ioctl_fionbio;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use rustix::process::{Pid, Signal, kill_process};
#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};

use client::PROGRAM;
use client::http::{Process, call, initialize, until};
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
    let tools = said.lines().find(|line| line.starts_with("Tools: ")).unwrap();
    assert!(!tools.contains("write_file") && !tools.contains("read_file,"), "{said}");
    assert!(printed(&["--check"]).starts_with("No directories: each client"));
    let readme = include_str!("../README.md").replace(['`', ','], "");
    for (what, value) in filesystem_server::limits(100_000) {
        let row = format!("| {what} | {value} |\n").replace(',', "");
        assert!(readme.contains(&row), "{row}");
        assert!(said.contains(&format!("Limit: {what}: {value}\n")), "{said}");
    }
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

/// Sends a request, and returns the response.
fn exchange(mut connection: impl Read + Write, request: &str) -> String {
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

fn answer(address: &str, request: &str) -> String {
    exchange(TcpStream::connect(address).unwrap(), request)
}

fn post(address: &str, host: &str, session: &str, body: &Value) -> String {
    answer(address, &message(host, session, body))
}

/// The request that posts a message.
fn message(host: &str, session: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         {session}\r\n{body}",
        body.len()
    )
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

/// Sends a request while the server can open nothing (EMFILE), and returns the response.
#[cfg(target_os = "linux")]
fn exchange_without_files(server: &Process, address: &str, request: &str) -> String {
    // The server must have accepted the connection before, so it sends a response on it first.
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(request.replace("Connection: close\r\n", "").as_bytes()).unwrap();
    let (mut received, mut byte) = (Vec::new(), [0]);
    while !received.ends_with(b"0\r\n\r\n") {
        connection.read_exact(&mut byte).unwrap();
        received.extend(byte);
    }
    let pid = Some(Pid::from_child(&server.0));
    let limit = Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) };
    let earlier = prlimit(pid, Resource::Nofile, limit).unwrap();
    let said = exchange(connection, request);
    prlimit(pid, Resource::Nofile, earlier).unwrap();
    said
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
    let read = call(1, "read_text_file", &json!({ "path": "d/f" }));
    #[cfg(target_os = "linux")]
    {
        let said =
            exchange_without_files(&process, &address, &message("localhost", &session, &read));
        assert!(said.contains(r#""isError":true"#), "{said}");
    }
    fs::rename(&served.directory, served.directory.with_extension("gone")).unwrap();
    std::thread::sleep(3 * mcp_roots_guard::limits::VERIFY_EVERY);
    let said = post(&address, "localhost", &session, &read);
    assert!(said.contains(r#""isError":true"#), "{said}");
    process.0.kill().unwrap();
    let lines: Vec<_> = lines.collect();
    let expected = ["the system fails", "a directory is gone"];
    let expected = if cfg!(target_os = "linux") { &expected[..] } else { &expected[1..] };
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    assert!(lines.iter().zip(expected).all(|(line, kind)| line.contains(kind)), "{lines:?}");
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

/// Starts the program, and waits until it listens on the socket.
fn serve_socket(served: &ServedDirectory, options: &[&str], socket: &Path) -> Process {
    let mut program = Command::new(PROGRAM);
    program.arg("--http").arg(format!("unix:{}", socket.display()));
    program.args(options).arg(&served.directory);
    let mut process = program.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut lines = lines.inspect(|line| println!("{line}"));
    assert!(lines.any(|line| line.contains(": unix:/")), "the server did not start");
    Process(process)
}

fn end(mut process: Process, signal: Signal) -> bool {
    kill_process(Pid::from_child(&process.0), signal).unwrap();
    process.0.wait().unwrap().success()
}

#[test]
fn a_unix_socket_is_served_to_this_user_and_removed_at_the_end() {
    let served = ServedDirectory::new();
    let socket = served.outside.join("s");
    for options in [&[][..], &["--no-confine"]] {
        let process = serve_socket(&served, options, &socket);
        let mode = fs::symlink_metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let request = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let answer = exchange(UnixStream::connect(&socket).unwrap(), request);
        let counts: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(counts["connections"], 1, "{answer}");
        #[cfg(target_os = "linux")]
        assert!(counts["threads"].as_u64().is_some_and(|threads| threads > 1), "{answer}");
        let other = output(&["--http", &format!("unix:{}", socket.display()), "/usr"]);
        assert!(String::from_utf8(other.stderr).unwrap().contains("in use"));
        assert!(end(process, Signal::TERM));
        assert!(fs::symlink_metadata(&socket).is_err());
    }
}

#[test]
fn a_socket_replaces_only_one_on_which_nobody_listens() {
    let served = ServedDirectory::new();
    let socket = served.outside.join("s");
    drop(UnixListener::bind(&socket).unwrap());
    let process = serve_socket(&served, &["--no-confine"], &socket);
    // A file of the same name is not removed.
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "mine").unwrap();
    assert!(end(process, Signal::TERM));
    let address = format!("unix:{}", socket.display());
    let refused = output(&["--http", &address, served.directory.to_str().unwrap()]);
    assert!(String::from_utf8(refused.stderr).unwrap().contains("it is not a socket"));
    assert_eq!(fs::read_to_string(&socket).unwrap(), "mine");
    // One that accepts no connections is not waited for.
    fs::remove_file(&socket).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let waiting: Vec<_> = std::iter::repeat_with(|| connect_without_waiting(&socket))
        .take_while(Option::is_some)
        .take(10_000)
        .collect();
    let refused = output(&["--http", &address, served.directory.to_str().unwrap()]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("in use"), "{} connections: {said}", waiting.len());
    drop(listener);
}

fn connect_without_waiting(path: &Path) -> Option<OwnedFd> {
    let client = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    ioctl_fionbio(&client, true).unwrap();
    connect(&client, &SocketAddrUnix::new(path).unwrap()).ok()?;
    Some(client)
}

#[test]
fn the_servers_own_files_are_refused_where_clients_can_change_them() {
    let served = ServedDirectory::new();
    let directory = served.directory.to_str().unwrap();
    let [socket, log] = ["unix:$D/s", "$D/log"].map(|path| path.replace("$D", directory));
    for options in [["--http", &socket], ["--audit", &log]] {
        let refused = output(&[&["--check", directory][..], &options].concat());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains("clients could change it"), "{said}");
        assert!(!served.path("log").exists(), "a refused log is not created");
        printed(&[&["--check", "--read-only", "--no-confine", directory][..], &options].concat());
        assert!(!served.path("log").exists(), "--check does not create the log");
        let refused = output(&[&["--check"][..], &options].concat());
        assert!(String::from_utf8(refused.stderr).unwrap().contains("requires a directory"));
    }
    let refused = |log: &Path, reason: &str| {
        let refused = output(&["--audit", log.to_str().unwrap(), directory]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains(reason), "{reason}: {said}");
    };
    // A symlink could lead to where clients may write, and so could one that they can replace.
    symlink(served.path("log"), served.outside.join("link")).unwrap();
    refused(&served.outside.join("link"), "link");
    symlink(&served.outside, served.path("out")).unwrap();
    refused(&served.path("out/log"), "clients could change it");
    let shared = served.outside.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o770)).unwrap();
    refused(&shared.join("log"), "other users may write");
    let refused_socket = output(&["--http", &format!("unix:{}/s", shared.display()), directory]);
    assert!(String::from_utf8(refused_socket.stderr).unwrap().contains("other users may write"));
    // Nobody reads this pipe.
    let pipe = served.outside.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = output(&["--audit", pipe.to_str().unwrap(), directory]);
    assert!(String::from_utf8(refused.stderr).unwrap().contains(pipe.to_str().unwrap()));
}

#[test]
fn the_audit_log_has_changes_and_refusals_and_is_opened_again() {
    let served = ServedDirectory::new();
    served.put("f", "content");
    for options in [&[][..], &["--no-confine"]] {
        let [socket, log] = ["s", "log"].map(|name| served.outside.join(name));
        let _ = fs::remove_file(&log);
        let options = [options, &["--audit", log.to_str().unwrap()]].concat();
        let process = serve_socket(&served, &options, &socket);
        let send = |session: &str, body: &Value| {
            let connection = UnixStream::connect(&socket).unwrap();
            exchange(connection, &message("localhost", session, body))
        };
        let begun = send("", &initialize("2025-11-25", &json!({})));
        let session = begun.lines().find(|line| line.starts_with("mcp-session-id")).unwrap();
        let session = format!("{}\r\n", session.trim());
        let lines = || -> Vec<Value> {
            let text = fs::read_to_string(&log).unwrap();
            assert!(!text.contains("content"), "{text}");
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        for (tool, arguments) in [
            ("read_text_file", json!({ "path": "f" })),
            ("write_file", json!({ "path": "new", "content": "content" })),
            ("read_text_file", json!({ "path": "none" })),
            ("read_text_file", json!({ "path": "/etc/passwd" })),
        ] {
            send(&session, &call(1, tool, &arguments));
        }
        let found = lines();
        let mut events: Vec<_> =
            found.iter().map(|line| ["event", "request", "os_error"].map(|it| &line[it])).collect();
        // A tool may try a request twice.
        events.dedup();
        let expected = json!([
            ["session opened", null, null],
            ["allowed", "new", null],
            ["refused", "none", 2],
            ["refused", "/etc/passwd", null],
        ]);
        assert_eq!(json!(events), expected, "{found:?}");
        // The rest of the id is a secret.
        let id = session.trim().split_once(": ").unwrap().1;
        assert_eq!(found[0]["mcp_session_id"], id[..8], "{id}");
        assert!(found.iter().all(|line| line["session"] == found[0]["session"]), "{found:?}");
        assert!(found[0]["time"].as_str().unwrap().ends_with('Z'), "{found:?}");
        assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
        fs::rename(&log, log.with_extension("1")).unwrap();
        kill_process(Pid::from_child(&process.0), Signal::HUP).unwrap();
        assert!(until(|| log.exists()), "it is not opened again");
        send(&session, &call(2, "read_text_file", &json!({ "path": "/etc/shadow" })));
        assert!(lines().iter().all(|line| line["request"] == "/etc/shadow"));
        assert!(!lines().is_empty());
        assert!(end(process, Signal::TERM));
    }
}

#[test]
fn each_demanded_confinement_is_enforced_or_the_server_does_not_start() {
    let served = ServedDirectory::new();
    let directory = served.directory.to_str().unwrap();
    let confined = String::from_utf8(output(&["--check", directory]).stderr).unwrap();
    let gaps = |words: &[&str]| {
        let gaps = confined.lines().filter(|line| line.contains("not enforced:"));
        gaps.filter(|line| words.iter().any(|word| line.contains(word))).count()
    };
    for (demand, words) in [
        ("files", &["files", "devices"][..]),
        ("network", &["TCP", "UDP"]),
        ("sockets", &["Unix sockets"]),
    ] {
        let done = output(&["--check", &format!("--confine={demand}"), directory]);
        let said = String::from_utf8(done.stderr).unwrap();
        let is_possible = confined.contains("confined by Landlock") && gaps(words) == 0;
        assert_eq!(done.status.success(), is_possible, "{demand}: {said}\n{confined}");
        let reasons = [&format!("--confine={demand}: this kernel (Landlock"), "not available"];
        assert!(is_possible || reasons.iter().any(|it| said.contains(*it)), "{said}");
    }
    assert!(!output(&["--check", "--confine=everything", directory]).status.success());
}
