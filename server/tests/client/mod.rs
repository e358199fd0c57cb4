//! A client of the program over stdio that writes and reads raw messages, of either era.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use mcp_roots_guard::rmcp::ROOTS_KEY;
use serde_json::{Value, json};

pub(crate) mod cases;
pub(crate) mod http;
pub(crate) mod served;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-filesystem-guarded");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Session,
    Stateless,
}

/// The roots capability that a client declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declares {
    Nothing,
    Roots,
    Changes,
}

pub(crate) struct Client {
    pub(crate) process: Child,
    /// `None` after it was closed.
    input: Option<ChildStdin>,
    received: Receiver<Value>,
    answers: HashMap<u64, Value>,
    told: VecDeque<Value>,
    requests: u64,
    era: Era,
    capabilities: Value,
    /// The URIs of the roots that the client lists.
    pub(crate) roots: Vec<String>,
}

/// Ends the process, even if the test fails.
impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the program until it ends. Returns whether it succeeded, and its standard error.
pub(crate) fn run(arguments: &[&str]) -> (bool, String) {
    let program = Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap();
    (program.status.success(), String::from_utf8(program.stderr).unwrap())
}

impl Client {
    /// Starts the program for a client in a session, without roots.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut program = Command::new(PROGRAM);
        program.args(arguments);
        Self::of(program, Era::Session, Declares::Nothing)
    }

    /// Runs a command that becomes the server.
    pub(crate) fn of(mut command: Command, era: Era, declares: Declares) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        let (sender, received) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        let capabilities = match declares {
            Declares::Nothing => json!({}),
            Declares::Roots => json!({ "roots": {} }),
            Declares::Changes => json!({ "roots": { "listChanged": true } }),
        };
        let (answers, told, roots, requests) = Default::default();
        let mut client =
            Self { process, input, received, answers, told, requests, era, capabilities, roots };
        if era == Era::Session {
            client.initialize("2025-11-25");
        }
        client
    }

    pub(crate) fn initialize(&mut self, revision: &str) {
        let params = json!({
            "protocolVersion": revision,
            "capabilities": self.capabilities,
            "clientInfo": { "name": "test", "version": "0" },
        });
        self.request("initialize", params).unwrap();
        self.notify("initialized", &json!({}));
    }

    pub(crate) fn send(&mut self, message: impl Display) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    pub(crate) fn notify(&mut self, name: &str, params: &Value) {
        let method = format!("notifications/{name}");
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Replaces the list of roots, and notifies the server.
    pub(crate) fn change(&mut self, roots: &[&Path]) {
        self.roots = roots.iter().map(|root| uri(root)).collect();
        self.notify("roots/list_changed", &json!({}));
    }

    /// Sends a request without waiting for its response, and returns its id.
    pub(crate) fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        self.requests += 1;
        params["_meta"]["progressToken"] = json!(self.requests);
        if self.era == Era::Stateless {
            let prefix = "io.modelcontextprotocol";
            params["_meta"][format!("{prefix}/protocolVersion")] = json!("2026-07-28");
            params["_meta"][format!("{prefix}/clientCapabilities")] = self.capabilities.clone();
            params["_meta"][format!("{prefix}/clientInfo")] =
                json!({ "name": "t", "version": "0" });
        }
        let id = self.requests;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Receives a message, and answers requests for the roots. Returns whether one arrived in time.
    fn receive(&mut self, time: Duration) -> bool {
        let Ok(message) = self.received.recv_timeout(time) else { return false };
        if message["method"] == "roots/list" {
            let list = self.list();
            self.send(json!({ "jsonrpc": "2.0", "id": message["id"], "result": list }));
        } else if message.get("method").is_some() {
            self.told.push_back(message);
        } else {
            self.answers.insert(message["id"].as_u64().unwrap_or_default(), message);
        }
        true
    }

    fn list(&self) -> Value {
        let roots: Vec<_> = self.roots.iter().map(|uri| json!({ "uri": uri })).collect();
        json!({ "roots": roots })
    }

    /// Waits for the response to a request, or for one whose id is null if `id` is 0. It contains
    /// either a `result` or an `error`.
    pub(crate) fn end(&mut self, id: u64) -> Result<Value, Value> {
        while !self.answers.contains_key(&id) {
            assert!(self.receive(Duration::from_secs(300)), "no response in time");
        }
        let mut answer = self.answers.remove(&id).unwrap();
        if answer.get("error").is_some() {
            Err(answer["error"].take())
        } else {
            Ok(answer["result"].take())
        }
    }

    pub(crate) fn request(&mut self, method: &str, mut params: Value) -> Result<Value, Value> {
        let id = self.begin(method, params.clone());
        let result = self.end(id)?;
        if result["resultType"] != "input_required" {
            return Ok(result);
        }
        params["inputResponses"] = json!({ ROOTS_KEY: self.list() });
        let id = self.begin(method, params);
        self.end(id)
    }

    pub(crate) fn begin_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.begin("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Calls a tool. Returns its text, or that of its error. The text is also structured content.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<String, String> {
        let result = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = result.map_err(|error| error["message"].as_str().unwrap().to_owned())?;
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
        if result["isError"] == true {
            return Err(text.to_owned());
        }
        assert_eq!(result["structuredContent"]["content"], text, "{tool} {arguments}");
        Ok(text.to_owned())
    }

    /// Calls a tool, and returns its text or that of its error.
    pub(crate) fn said(&mut self, tool: &str, arguments: &Value) -> String {
        self.call(tool, arguments).unwrap_or_else(|error| error)
    }

    pub(crate) fn read(&mut self, path: &Path) -> String {
        self.said("read_text_file", &json!({ "path": path }))
    }

    /// Calls a method of `resources/` with the URI of a path, and returns its error code or 0.
    pub(crate) fn resource(&mut self, method: &str, path: &Path) -> i64 {
        let result = self.request(&format!("resources/{method}"), json!({ "uri": uri(path) }));
        result.map_or_else(|error| error["code"].as_i64().unwrap(), |_| 0)
    }

    /// Waits for a notification in which `find` finds something, and drops those before it.
    fn wait<T>(&mut self, time: Duration, find: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let end = Instant::now() + time;
        loop {
            while let Some(told) = self.told.pop_front() {
                if let Some(found) = find(&told) {
                    return Some(found);
                }
            }
            if !self.receive(end.saturating_duration_since(Instant::now())) {
                return None;
            }
        }
    }

    /// The next notification about resources: the URI of a changed one, or the method.
    pub(crate) fn told(&mut self, time: Duration) -> Option<String> {
        self.wait(time, |told| {
            let method = told["method"].as_str().filter(|method| method.contains("/resources/"))?;
            Some(told["params"]["uri"].as_str().unwrap_or(method).to_owned())
        })
    }

    /// The number in the next progress notification.
    pub(crate) fn progress(&mut self, time: Duration) -> Option<f64> {
        self.wait(time, |told| told["params"]["progress"].as_f64())
    }

    /// Asserts that the next notification is an update of a resource.
    pub(crate) fn is_told(&mut self, path: &Path) {
        assert_eq!(self.told(Duration::from_secs(6)), Some(uri(path)));
    }

    /// Asserts that no notification arrives for longer than the server's polling interval.
    pub(crate) fn is_quiet(&mut self) {
        assert_eq!(self.told(Duration::from_millis(1_200)), None);
    }
}

/// A path as a URI. Only `%` and spaces are escaped.
pub(crate) fn uri(path: &Path) -> String {
    crate::tree::uri(path).replace('%', "%25").replace(' ', "%20")
}
