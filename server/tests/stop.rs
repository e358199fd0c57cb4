//! The server process when it is told to stop: it completes the requests in flight, waits for work
//! that has begun, and succeeds. A filesystem that hangs keeps a call in flight.
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

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use client::http::{Http, call, end, next, start, until};
use client::served::ServedDirectory;
use client::{Declares, Era};
use hung_filesystem::{HungFilesystem, in_namespace};

/// Runs a test with a directory that contains `mnt/in.txt`, on a filesystem that hangs.
fn with_hung_file(test: impl FnOnce(&ServedDirectory, HungFilesystem) + Send) {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root mounts a filesystem");
    }
    in_namespace(|| {
        let served = ServedDirectory::new();
        let mount = served.path("mnt");
        std::fs::create_dir(&mount).unwrap();
        // The server can be started, because the filesystem does not hang yet.
        let Some(filesystem) = HungFilesystem::mount(&mount) else { return };
        test(&served, filesystem);
    });
}

/// The arguments of a call that hangs.
fn hung() -> Value {
    json!({ "path": "mnt/in.txt" })
}

fn wait_for_pending(filesystem: &HungFilesystem) {
    assert!(until(|| filesystem.pending() > 0), "the call does not reach the filesystem");
}

fn terminate(process: &Child) {
    kill(Pid::from_raw(process.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
}

/// Whether the process has a handler for `SIGTERM` (proc(5), `SigCgt`).
fn handles_termination(process: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let handled = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(handled.trim(), 16).unwrap() >> (Signal::SIGTERM as i32 - 1) & 1 == 1
}

/// Whether the process ends with success within half a minute.
fn succeeds(process: &mut Child) -> bool {
    until(|| process.try_wait().unwrap().is_some()) && process.wait().unwrap().success()
}

/// A call in a request without a session.
fn stateless(id: usize, tool: &str, arguments: &Value) -> Value {
    let mut message = call(id, tool, arguments);
    let prefix = "io.modelcontextprotocol";
    message["params"]["_meta"] = json!({
        format!("{prefix}/protocolVersion"): "2026-07-28",
        format!("{prefix}/clientCapabilities"): {},
        format!("{prefix}/clientInfo"): { "name": "t", "version": "0" },
    });
    message
}

#[test]
fn stop_completes_a_call_in_a_session() {
    with_hung_file(|served, mut filesystem| {
        let (mut server, http) = start(served);
        let client = http.open().unwrap();
        let mut listening = client.listen();
        filesystem.hang();
        let message = call(1, "read_text_file", &hung()).to_string();
        let mut answer = client.begin("POST", "Connection: close\r\n", &message);
        wait_for_pending(&filesystem);
        terminate(&server.0);
        // The stream of notifications ends, and no connection is accepted.
        assert_eq!(next(&mut listening, "nothing"), None);
        assert!(until(|| TcpStream::connect(&http.address).is_err()));
        // The call is answered, although with an error of the filesystem.
        drop(filesystem);
        let answer = end(&mut answer);
        assert!(answer.contains(r#""id":1,"result":"#), "{answer}");
        assert!(succeeds(&mut server.0));
    });
}

#[test]
fn stop_completes_a_call_without_a_session() {
    with_hung_file(|served, mut filesystem| {
        let (mut server, http) = start(served);
        let client = Http { revision: "2026-07-28", ..http };
        filesystem.hang();
        let message = stateless(1, "read_text_file", &hung()).to_string();
        let headers = "Mcp-Method: tools/call\r\nMcp-Name: read_text_file\r\nConnection: close\r\n";
        let mut answer = client.begin("POST", headers, &message);
        wait_for_pending(&filesystem);
        terminate(&server.0);
        assert!(until(|| TcpStream::connect(&client.address).is_err()));
        drop(filesystem);
        let answer = end(&mut answer);
        assert!(answer.contains(r#""id":1,"result":"#), "{answer}");
        assert!(succeeds(&mut server.0));
    });
}

#[test]
fn stop_answers_a_client_that_has_just_connected() {
    let (mut server, http) = start(&ServedDirectory::new());
    let mut client = TcpStream::connect(&http.address).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    terminate(&server.0);
    assert!(until(|| TcpStream::connect(&http.address).is_err()));
    client
        .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let answer = end(&mut client);
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("stopping"), "{answer}");
    assert!(succeeds(&mut server.0));
}

/// Nobody waits for the result of a call whose client has disconnected, but its work is not cut off.
#[test]
fn stop_waits_for_work_that_has_begun() {
    with_hung_file(|served, mut filesystem| {
        let (mut server, http) = start(served);
        let client = http.open().unwrap();
        filesystem.hang();
        let abandoned = client.begin("POST", "", &call(1, "read_text_file", &hung()).to_string());
        wait_for_pending(&filesystem);
        drop(abandoned);
        terminate(&server.0);
        assert!(until(|| TcpStream::connect(&http.address).is_err()));
        std::thread::sleep(Duration::from_secs(1));
        // A process that has called exit(2) is a zombie, even if a thread of it hangs (proc(5)).
        let status = std::fs::read_to_string(format!("/proc/{}/stat", server.0.id())).unwrap();
        drop(filesystem);
        assert!(!status.contains(") Z "), "the server did not wait");
        assert!(succeeds(&mut server.0));
    });
}

#[test]
fn stop_and_end_of_input_complete_a_call_over_stdio() {
    for (era, is_signal) in [(Era::Session, true), (Era::Stateless, true), (Era::Session, false)] {
        with_hung_file(move |served, mut filesystem| {
            let mut client = served.client_with(era, Declares::Nothing, &[]);
            filesystem.hang();
            let id = client.begin_call("read_text_file", &hung());
            wait_for_pending(&filesystem);
            if is_signal {
                terminate(&client.process);
            } else {
                client.close_input();
            }
            std::thread::sleep(Duration::from_millis(300));
            drop(filesystem);
            let answer = client.end(id).unwrap();
            assert_eq!(answer["isError"], true, "{answer}");
            assert!(succeeds(&mut client.process));
        });
    }
}

#[test]
fn stop_leaves_no_temporary_file() {
    let content = "x".repeat(2 << 20);
    for delay in [0, 5, 20, 80] {
        let served = ServedDirectory::new();
        let mut client = served.client();
        for number in 0..8 {
            client.begin_call(
                "write_file",
                &json!({ "path": format!("f{number}"), "content": content }),
            );
        }
        std::thread::sleep(Duration::from_millis(delay));
        terminate(&client.process);
        assert!(succeeds(&mut client.process));
        for entry in std::fs::read_dir(&served.directory).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            assert!(name.len() == 2 && entry.metadata().unwrap().len() == 2 << 20, "{name}");
        }
    }
}

#[test]
fn server_stops_before_its_client_has_sent_anything() {
    let served = ServedDirectory::new();
    let mut client = served.client_with(Era::Stateless, Declares::Nothing, &[]);
    assert!(until(|| handles_termination(&client.process)));
    let start = Instant::now();
    terminate(&client.process);
    assert!(succeeds(&mut client.process) && start.elapsed() < Duration::from_secs(9));
}
