//! The server process over HTTP, while clients take as much of its memory and time as they can. The
//! server stays below a gigabyte, and another client's calls and sessions continue.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests prepare files without the guard")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[allow(dead_code)] // Other tests use the other functions.
mod client;
#[path = "../../tests/support/hung_filesystem.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod hung_filesystem;
#[path = "../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod tree;

use std::fs;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use client::http::{Http, Process, call, initialize, start, until};
use client::served::ServedDirectory;
use hung_filesystem::{HungFilesystem, in_namespace};

/// The memory that the server may take, in mebibytes.
const MEMORY: u64 = 1_000;

/// The time in which another client's call must be answered. It takes a few milliseconds if nothing
/// else happens, and took more than this in each of these attacks before there were limits.
const WAIT: Duration = Duration::from_secs(5);

/// How long the tests wait for something that must happen, also on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

struct Server {
    process: Process,
    http: Http,
    served: ServedDirectory,
}

impl Server {
    /// Starts a server for a file with this content and for `f`.
    fn new(file: &[u8]) -> Self {
        let served = ServedDirectory::new();
        served.put("f", "served");
        served.put("file", file);
        let (process, http) = start(&served);
        Self { process, http, served }
    }

    /// The most memory that the process had at once, in mebibytes (proc(5), `VmHWM`).
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
    }

    /// Attacks with this many concurrent threads, for as long as another client needs for its calls.
    fn attack(&self, threads: usize, attack: impl Fn(usize) + Send + Sync + 'static) {
        let victim = self.http.open().unwrap();
        let (stop, attack) = (Arc::new(AtomicBool::new(false)), Arc::new(attack));
        for number in 0..threads {
            let (stop, attack) = (stop.clone(), attack.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    attack(number);
                }
            });
        }
        for round in 0..40 {
            let start = Instant::now();
            assert!(victim.is_served());
            let session = self.http.open().unwrap();
            let took = start.elapsed();
            assert!(took < WAIT, "round {round}: a call and a new session took {took:?}");
            session.delete();
            thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(self.memory() < MEMORY, "{} MiB", self.memory());
    }
}

fn values() -> Value {
    json!(vec![json!({}); (4 << 20) / 3 - 1_000])
}

/// Each file becomes a response of 27 MiB, which contains it twice in base64.
#[test]
fn responses_that_nobody_reads_take_bounded_memory() {
    let server = Server::new(&vec![1; 10 << 20]);
    let read = call(1, "read_media_file", &json!({ "path": "file" })).to_string();
    let begin = |_| server.http.open().unwrap().begin("POST", "", &read);
    let unread: Vec<_> = (0..60).map(begin).collect();
    server.attack(0, |_| ());
    // A response is a short refusal or larger than this, so its kind is known when it was read.
    let is_refused = |mut stream: std::net::TcpStream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut response, mut part) = (Vec::new(), [0; 1 << 10]);
        while response.len() < 16 << 10 {
            let text = String::from_utf8_lossy(&response);
            if text.contains("too little memory left for this result") {
                return true;
            }
            let read = stream.read(&mut part);
            let read = read.unwrap_or_else(|error| panic!("{error} after {text}"));
            assert_ne!(read, 0, "the response ended after {text}");
            response.extend_from_slice(&part[..read]);
        }
        false
    };
    let refused = unread.into_iter().map(is_refused).filter(|is_refused| *is_refused).count();
    assert!(refused >= 30, "{refused} of 60 were refused");
}

/// A file of line ends takes 40 times its size in an edit.
#[test]
fn edits_of_many_lines_take_bounded_memory() {
    let server = Server::new(&[&vec![b'\n'; (4 << 20) - 1][..], b"a"].concat());
    let edits = json!([{ "oldText": "a", "newText": "b" }]);
    let arguments = json!({ "path": "file", "dryRun": true, "edits": edits });
    let session = server.http.open().unwrap();
    server.attack(16, move |number| {
        session.post(&call(number, "edit_file", &arguments));
    });
}

/// The names of a directory are read and sorted before the first entry is known.
#[test]
fn walks_take_bounded_memory() {
    let server = Server::new(b"");
    for number in 0..60_000 {
        fs::write(server.served.directory.join(format!("{number:0246}")), "").unwrap();
    }
    let search = json!({ "path": ".", "pattern": "none" });
    let session = server.http.open().unwrap();
    server.attack(64, move |number| {
        session.post(&call(number, "search_files", &search));
    });
}

/// A call continues when its client disconnects, as long as there is memory for it.
#[test]
fn calls_of_disconnected_clients_take_bounded_memory() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root mounts a filesystem");
    }
    in_namespace(|| {
        let files = ServedDirectory::new();
        files.put("f", "served");
        let mount = files.path("mnt");
        fs::create_dir(&mount).unwrap();
        let (process, http) = start(&files);
        let server = Server { process, http, served: files };
        let Some(mut filesystem) = HungFilesystem::mount(&mount) else { return };
        let client = server.http.open().unwrap();
        let abandon = |message: &Value| {
            let mut stream = client.begin("POST", "", &message.to_string());
            // The call has begun when the server sends the headers of its response.
            assert_ne!(stream.read(&mut [0; 16]).unwrap(), 0);
        };
        filesystem.hang();
        // These take all threads of the session, and the others wait.
        for number in (100..).take(mcp_roots_guard::limits::SLOTS / 4) {
            abandon(&call(number, "read_text_file", &json!({ "path": "mnt/in.txt" })));
        }
        assert!(until(|| filesystem.pending() > 0));
        for number in 1_000..1_700 {
            let arguments = json!({ "path": format!("w{number}"), "content": "" });
            let mut write = call(number, "write_file", &arguments);
            // These values take the memory that each request has of its own.
            write["params"]["_meta"] = json!({ "x": vec![1; 1_000] });
            abandon(&write);
        }
        assert!(server.http.open().unwrap().is_served());
        drop(filesystem);
        // The calls of a session begin in turn.
        assert!(client.is_served());
        let written = || fs::read_dir(&server.served.directory).unwrap().count();
        assert!(until(|| written() > 400), "{} were written", written());
        thread::sleep(Duration::from_secs(1));
        assert!(written() < 530, "{} were written", written());
    });
}

#[test]
fn messages_of_many_values_do_not_delay_others() {
    let server = Server::new(b"");
    let session = server.http.open().unwrap();
    let refused = call(1, "read_text_file", &json!({ "path": "f", "x": values() }));
    // These messages have just as many values as are allowed.
    let mut allowed = call(1, "read_text_file", &json!({ "path": "f" }));
    allowed["params"]["_meta"] = json!({ "x": vec![json!({ "a": 1 }); 21_000] });
    assert!(session.post(&allowed).contains("served"));
    // The header of a revision without sessions allows a larger body.
    let stateless = Http { revision: "2026-07-28", ..server.http.clone() };
    let first = initialize("2025-11-25", &json!({ "experimental": { "x": values() } }));
    for answer in [session.post(&refused), stateless.post(&first)] {
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
    server.attack(6, move |number| {
        let _ = match number % 3 {
            0 => session.post(&refused),
            1 => session.post(&allowed),
            _ => stateless.post(&first),
        };
    });
}
