//! A call sent immediately after a change never uses the list from before the change. The server is
//! a child process with pipes, as when a client starts it.
//!
//! The control is the same server, except that the handler of the notification records the change.
//! If no call of the control is stale, the test proves nothing, so it fails. With one worker
//! thread, the order of the control's tasks does not depend on the machine: the worker runs the
//! newest task first, and that is the task of the call. About half of the control's calls are then
//! stale, because the call after a stale one always requests the list. With several threads, both
//! orders occur.
#![allow(clippy::disallowed_methods, reason = "the test is a client")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

const LIST_CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;

/// The end of the text of a refusal, if the roots of a call were withdrawn after it began.
const WITHDRAWN: &str = "the client's roots changed or expired; try again";

const ROUNDS: usize = 2_000;

/// If no call is stale, the control with one thread runs for up to this many times the rounds.
const CONTROL_LIMIT: usize = 10;

/// A client and the server that it started.
struct Client {
    server: Child,
    requests: ChildStdin,
    responses: BufReader<ChildStdout>,
}

impl Client {
    fn start(program: &str, directory: &Path, threads: usize) -> Self {
        let mut server = Command::new(program)
            .arg(directory)
            .env("TOKIO_WORKER_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = server.stdin.take().unwrap();
        let responses = BufReader::new(server.stdout.take().unwrap());
        let mut client = Self { server, requests, responses };
        client.write(&[json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {"listChanged": true}},
            "clientInfo": {"name": "test", "version": "1"},
        }})
        .to_string()]);
        client.response(0, Path::new("/"));
        client.write(&[r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned()]);
        client
    }

    /// Writes the messages with one system call.
    fn write(&mut self, messages: &[String]) {
        self.requests.write_all((messages.join("\n") + "\n").as_bytes()).unwrap();
    }

    /// Returns the response to a request. Answers each earlier request for the roots with this
    /// root.
    fn response(&mut self, id: usize, root: &Path) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.responses.read_line(&mut line).unwrap(), 0, "the server has ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == "roots/list" {
                let uri = format!("file://{}", root.display());
                let list = json!({"roots": [{"uri": uri}]});
                self.write(&[
                    json!({"jsonrpc": "2.0", "id": message["id"], "result": list}).to_string()
                ]);
            } else if message["id"] == id {
                return message;
            }
        }
    }

    /// Sends the messages and then a call of `read_file`, and returns the text of the result.
    fn read(&mut self, id: usize, root: &Path, before: &[&str]) -> String {
        let params = json!({"name": "read_file", "arguments": {"path": "name.txt"}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let mut messages: Vec<_> = before.iter().map(ToString::to_string).collect();
        messages.push(call.to_string());
        self.write(&messages);
        let response = self.response(id, root);
        let text = &response["result"]["content"][0]["text"];
        text.as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// In each round, the client replaces its root with another one, announces the change, and reads a
/// file that both roots contain. Returns the number of reads that began with the withdrawn root:
/// they return its file, or are refused if the change is marked before they end. Stops after
/// `enough` rounds if there was at least one such read.
fn stale_rounds(program: &str, threads: usize, enough: usize, rounds: usize) -> (usize, usize) {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let roots = ["a", "b"].map(|name| {
        let root = directory.join(name);
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("name.txt"), name).unwrap();
        root
    });
    let mut client = Client::start(program, &directory, threads);
    assert_eq!(client.read(1, &roots[0], &[]), "a");
    let mut stale = 0;
    for round in 1..=rounds {
        let text = client.read(round + 1, &roots[round % 2], &[LIST_CHANGED]);
        let expected = ["a", "b"][round % 2];
        let is_known = ["a", "b"].contains(&text.as_str()) || text.ends_with(WITHDRAWN);
        assert!(is_known, "{text}");
        stale += usize::from(text != expected);
        if round >= enough && stale > 0 {
            return (stale, round);
        }
    }
    (stale, rounds)
}

#[test]
fn a_call_sent_after_a_change_never_uses_the_previous_list() {
    let mut control_was_stale = false;
    for threads in [1, 4] {
        let guarded = env!("CARGO_BIN_EXE_rust-mcp-sdk-server");
        let (stale, _) = stale_rounds(guarded, threads, ROUNDS, ROUNDS);
        let control = env!("CARGO_BIN_EXE_mark-in-handler");
        let limit = if threads == 1 { CONTROL_LIMIT * ROUNDS } else { ROUNDS };
        let (late, controlled) = stale_rounds(control, threads, ROUNDS, limit);
        println!(
            "{threads} threads: of {ROUNDS} calls sent with a change, {stale} used the old list; \
             {late} of {controlled} if a handler marks the change"
        );
        assert_eq!(stale, 0);
        control_was_stale |= late > 0;
    }
    assert!(control_was_stale, "no call of the control was stale: are handlers now run in order?");
}
