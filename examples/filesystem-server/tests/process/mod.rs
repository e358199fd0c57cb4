//! A client for a server in a separate process, over stdio.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A server in a separate process, with its client.
pub(crate) struct Server {
    pub(crate) process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    requests: u64,
}

/// Ends the process when the test ends, even if the test fails.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_filesystem-server");

fn start(mut server: Command) -> Child {
    server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut server = Command::new(PROGRAM);
    server.args(arguments);
    server
}

/// Runs the server without a client. Returns whether the server succeeded, and its standard error
/// output.
pub(crate) fn run(arguments: &[&str]) -> (bool, String) {
    let mut server = start(command(arguments));
    drop(server.stdin.take());
    let ended = server.wait_with_output().unwrap();
    (ended.status.success(), String::from_utf8(ended.stderr).unwrap())
}

impl Server {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        Self::of(command(arguments))
    }

    /// Runs a command that becomes the server.
    pub(crate) fn of(command: Command) -> Self {
        let mut process = start(command);
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut server =
            Self { process, input, output: BufReader::new(output).lines(), requests: 0 };
        let client = json!({ "name": "test", "version": "0" });
        let revision = "2025-11-25";
        let params =
            json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client });
        server.request("initialize", &params);
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    pub(crate) fn next(&mut self) -> Value {
        serde_json::from_str(&self.output.next().expect("the server is running").unwrap()).unwrap()
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.requests += 1;
        self.send(
            &json!({ "jsonrpc": "2.0", "id": self.requests, "method": method, "params": params }),
        );
        loop {
            let message = self.next();
            if message["id"] == self.requests {
                return message["result"].clone();
            }
        }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
        result["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{tool}: {result}"))
            .to_owned()
    }

    pub(crate) fn read(&mut self, path: &Path) -> String {
        self.call("read_text_file", &json!({ "path": path }))
    }
}
