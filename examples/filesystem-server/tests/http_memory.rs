//! The server process over HTTP, while clients take as much of its memory and time as they can. The
//! server stays below a gigabyte, and another client's calls and sessions continue.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests prepare files without the guard")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The memory that the server may take, in mebibytes.
const MEMORY: u64 = 1_000;

/// The time in which another client's call must be answered. It takes a few milliseconds if nothing
/// else happens, and took more than this in each of these attacks before there were limits.
const WAIT: Duration = Duration::from_secs(5);

const REVISION: &str = "2025-11-25";

struct Server {
    process: Child,
    address: String,
    files: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn new() -> Self {
        let files = tempfile::Builder::new().prefix("guard-").tempdir().unwrap();
        fs::write(files.path().join("f"), "served").unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_filesystem-server"))
            .args(["--http", "127.0.0.1:0"])
            .arg(files.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut messages = BufReader::new(process.stderr.take().unwrap());
        messages.read_line(&mut line).unwrap();
        thread::spawn(move || std::io::copy(&mut messages, &mut std::io::sink()));
        let address = line.split(['/', '\n']).find(|part| part.starts_with("127.")).unwrap();
        Self { process, address: address.to_owned(), files }
    }

    fn path(&self, name: &str) -> PathBuf {
        dunce::canonicalize(self.files.path()).unwrap().join(name)
    }

    /// The most memory that the process had at once, in mebibytes (proc(5), `VmHWM`).
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
    }

    /// Sends a request without reading the response.
    fn post(&self, session: &str, revision: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let session = if session.is_empty() {
            String::new()
        } else {
            format!("mcp-session-id: {session}\r\n")
        };
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nmcp-protocol-version: {revision}\r\n{session}\
             Connection: close\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // The server may refuse the body before all of it has arrived.
        let _ = stream.write_all(body.as_bytes());
        stream
    }

    fn send(&self, session: &str, body: &str) -> String {
        let (mut stream, mut answer) = (self.post(session, REVISION, body), Vec::new());
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Opens a session, and returns its identifier.
    fn open(&self) -> String {
        self.open_with(REVISION)
    }

    fn open_with(&self, revision: &str) -> String {
        let body = initialize(&json!({})).replace(REVISION, revision);
        let mut answer = String::new();
        self.post("", revision, &body).read_to_string(&mut answer).unwrap();
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        let id = id.unwrap_or_else(|| panic!("{answer}")).trim().to_owned();
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.send(&id, &initialized.to_string());
        id
    }

    fn read(&self, id: usize, name: &str) -> String {
        call(id, "read_text_file", &json!({ "path": self.path(name) }), &json!({}))
    }

    /// Attacks with this many concurrent threads, for as long as another client needs for its calls.
    fn attack(&self, threads: usize, attack: impl Fn(usize) + Sync) {
        let victim = self.open();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..threads {
                let (stop, attack) = (&stop, &attack);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        attack(number);
                    }
                });
            }
            // Ends the attack if an assertion fails, too.
            let _end = End(&stop);
            for round in 0..40 {
                let start = Instant::now();
                let answer = self.send(&victim, &self.read(round, "f"));
                assert!(answer.contains("served"), "{answer}");
                let session = self.open();
                let took = start.elapsed();
                assert!(took < WAIT, "round {round}: a call and a new session took {took:?}");
                self.post_delete(&session);
                thread::sleep(Duration::from_millis(50));
            }
        });
        assert!(self.memory() < MEMORY, "{} MiB", self.memory());
    }

    fn post_delete(&self, session: &str) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "DELETE /mcp HTTP/1.1\r\nHost: {}\r\nmcp-session-id: {session}\r\n\
             Connection: close\r\n\r\n",
            self.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn call(id: usize, tool: &str, arguments: &Value, meta: &Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

fn initialize(meta: &Value) -> String {
    let client = json!({ "name": "test", "version": "0" });
    let params = json!({
        "protocolVersion": REVISION, "capabilities": {}, "clientInfo": client, "_meta": meta
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

/// As many values as fit in a body of the largest size.
fn values() -> Value {
    json!({ "x": vec![json!({}); (4 << 20) / 3 - 1_000] })
}

/// Each file becomes a response of 60 MiB, because a control character takes six bytes in JSON.
#[test]
fn responses_that_nobody_reads_take_bounded_memory() {
    let server = Server::new();
    fs::write(server.path("control"), vec![1; 10 << 20]).unwrap();
    let sessions: Vec<_> = (0..60).map(|_| server.open()).collect();
    let unread: Vec<_> = (1..)
        .zip(&sessions)
        .map(|(id, session)| server.post(session, REVISION, &server.read(id, "control")))
        .collect();
    server.attack(0, |_| ());
    // The refusals have arrived. Their text says what to do.
    let mut refused = 0;
    for mut stream in unread {
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut answer = vec![0; 16 << 10];
        let mut length = 0;
        while let Ok(read @ 1..) = stream.read(&mut answer[length..]) {
            length += read;
        }
        let answer = String::from_utf8_lossy(&answer[..length]);
        refused += usize::from(answer.contains("too little memory left for this result"));
    }
    assert!(refused >= 30, "{refused} of 60 were refused");
}

/// Structured content exists since 2025-06-18.
#[test]
fn large_text_is_sent_once_in_each_revision() {
    let server = Server::new();
    fs::write(server.path("large"), vec![b'x'; 3 << 20]).unwrap();
    for (revision, is_structured) in
        [("2025-03-26", false), ("2025-06-18", true), ("2025-11-25", true)]
    {
        let session = server.open_with(revision);
        let mut answer = String::new();
        let mut stream = server.post(&session, revision, &server.read(1, "large"));
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.len() < (3 << 20) + 4_096, "{revision}: {}", answer.len());
        assert_eq!(answer.contains("\"structuredContent\""), is_structured, "{revision}");
        assert!(answer.contains(&"x".repeat(3 << 20)), "{revision}");
    }
}

/// A file of line ends takes 40 times its size while an edit of it is compared.
#[test]
fn edits_of_many_lines_take_bounded_memory() {
    let server = Server::new();
    fs::write(server.path("lines"), [&vec![b'\n'; (4 << 20) - 1][..], b"a"].concat()).unwrap();
    let edits = json!([{ "oldText": "a", "newText": "b" }]);
    let arguments = json!({ "path": server.path("lines"), "dryRun": true, "edits": edits });
    let session = server.open();
    server.attack(16, |number| {
        server.send(&session, &call(number, "edit_file", &arguments, &json!({})));
    });
}

#[test]
fn large_messages_that_open_sessions_do_not_delay_others() {
    let server = Server::new();
    let body = initialize(&values());
    server.attack(60, |number| {
        // The header of a revision without sessions allows a larger body.
        let revision = if number % 2 == 0 { REVISION } else { "2026-07-28" };
        let _ = server.post("", revision, &body).read_to_end(&mut Vec::new());
    });
}

#[test]
fn messages_of_many_values_do_not_delay_others() {
    let server = Server::new();
    let session = server.open();
    let body = call(1, "read_text_file", &json!({ "path": server.path("f") }), &values());
    assert!(server.send(&session, &body).starts_with("HTTP/1.1 413"));
    // Half of the messages have just as many values as are allowed.
    let allowed = json!({ "x": vec![json!({ "a": 1 }); 32_000] });
    let allowed = call(1, "read_text_file", &json!({ "path": server.path("f") }), &allowed);
    assert!(server.send(&session, &allowed).contains("served"));
    server.attack(24, |number| {
        server.send(&session, if number % 2 == 0 { &body } else { &allowed });
    });
}
