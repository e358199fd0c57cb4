//! The server as a process of its own, spoken to over stdio.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A server in a process of its own, and a client of it.
pub(crate) struct Server {
    pub(crate) process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    asked: u64,
}

/// It ends with its test, whatever comes of that.
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

/// Whether it ends well, having nobody to serve, and what it says on standard error until then.
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

    /// Of a command that becomes the server.
    pub(crate) fn of(command: Command) -> Self {
        let mut process = start(command);
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut server = Self { process, input, output: BufReader::new(output).lines(), asked: 0 };
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "0" } });
        server.ask("initialize", &hello);
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    pub(crate) fn next(&mut self) -> Value {
        serde_json::from_str(&self.output.next().expect("the server goes on").unwrap()).unwrap()
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        self.send(
            &json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params }),
        );
        loop {
            let message = self.next();
            if message["id"] == self.asked {
                return message["result"].clone();
            }
        }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        result["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{tool}: {result}"))
            .to_owned()
    }

    pub(crate) fn read(&mut self, path: &Path) -> String {
        self.call("read_text_file", &json!({ "path": path }))
    }
}
