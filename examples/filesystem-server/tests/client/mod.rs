//! A client that writes and reads raw messages, of either era, for a server in this process or
//! another one.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use filesystem_server::server::Server;
use mcp_roots_guard::rmcp::ROOTS_KEY;
use rmcp::service::ServiceExt as _;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

pub(crate) mod cases;
pub(crate) mod http;
pub(crate) mod served;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_filesystem-server");

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
    input: Box<dyn Write + Send>,
    received: Receiver<Value>,
    answers: HashMap<u64, Value>,
    told: VecDeque<Value>,
    requests: u64,
    era: Era,
    capabilities: Value,
    /// The URIs of the roots that the client lists.
    pub(crate) roots: Vec<String>,
    /// How often the server has asked for the roots.
    pub(crate) asked: u32,
    server: End,
}

enum End {
    Process(Child),
    Connection(TcpStream),
}

/// Ends the connection or the process, even if the test fails.
impl Drop for Client {
    fn drop(&mut self) {
        match &mut self.server {
            End::Process(process) => {
                let _ = process.kill();
                let _ = process.wait();
            }
            End::Connection(stream) => _ = stream.shutdown(Shutdown::Both),
        }
    }
}

/// The runtime of the servers in this process.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(runtime);

/// A runtime whose threads have the namespaces of this one.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Starts the program, and returns it with what it wrote to standard error until it ended.
pub(crate) fn run(arguments: &[&str]) -> (bool, String) {
    let program = Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap();
    (program.status.success(), String::from_utf8(program.stderr).unwrap())
}

impl Client {
    /// Connects to a server in this process.
    pub(crate) fn new(server: &Server, era: Era, declares: Declares, roots: &[&Path]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        far.set_nonblocking(true).unwrap();
        let server = server.clone();
        RUNTIME.spawn(async move {
            let far = tokio::net::TcpStream::from_std(far).unwrap();
            let transport = server.guard().wrap(far).one_client();
            server.serve(transport).await.unwrap().waiting().await
        });
        let streams = [near.try_clone().unwrap(), near.try_clone().unwrap()];
        let [input, output] = streams;
        let capabilities = match declares {
            Declares::Nothing => json!({}),
            Declares::Roots => json!({ "roots": {} }),
            Declares::Changes => json!({ "roots": { "listChanged": true } }),
        };
        let mut client = Self::of(Box::new(input), output, End::Connection(near));
        client.roots = roots.iter().map(|root| uri(root)).collect();
        (client.era, client.capabilities) = (era, capabilities);
        if era == Era::Session {
            client.initialize("2025-11-25");
        }
        client
    }

    /// Starts the program as a server for a client without roots.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut program = Command::new(PROGRAM);
        program.args(arguments);
        Self::start_as(program)
    }

    /// Runs a command that becomes the server.
    pub(crate) fn start_as(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut client = Self::of(Box::new(input), output, End::Process(process));
        client.initialize("2025-11-25");
        client
    }

    fn of(input: Box<dyn Write + Send>, output: impl Read + Send + 'static, server: End) -> Self {
        let (sender, received) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        Self {
            input,
            received,
            answers: HashMap::new(),
            told: VecDeque::new(),
            requests: 0,
            era: Era::Session,
            capabilities: json!({}),
            roots: Vec::new(),
            asked: 0,
            server,
        }
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

    /// The process identifier of the server.
    pub(crate) fn process(&self) -> u32 {
        match &self.server {
            End::Process(process) => process.id(),
            End::Connection(_) => std::process::id(),
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    pub(crate) fn notify(&mut self, name: &str, params: &Value) {
        let method = format!("notifications/{name}");
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
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
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Receives a message, and answers requests for the roots. Returns whether one arrived in time.
    fn receive(&mut self, time: Duration) -> bool {
        let Ok(message) = self.received.recv_timeout(time) else { return false };
        if message["method"] == "roots/list" {
            self.asked += 1;
            let list = self.list();
            self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": list }));
        } else if message.get("method").is_some() {
            self.told.push_back(message);
        } else {
            self.answers.insert(message["id"].as_u64().unwrap(), message);
        }
        true
    }

    fn list(&self) -> Value {
        let roots: Vec<_> = self.roots.iter().map(|uri| json!({ "uri": uri })).collect();
        json!({ "roots": roots })
    }

    /// Waits for the response to a request. It contains either a `result` or an `error`.
    pub(crate) fn end(&mut self, id: u64) -> Result<Value, Value> {
        while !self.answers.contains_key(&id) {
            assert!(self.receive(Duration::from_secs(60)), "no response in time");
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
        self.asked += 1;
        params["inputResponses"] = json!({ ROOTS_KEY: self.list() });
        let id = self.begin(method, params);
        self.end(id)
    }

    /// The error code of a request, or 0 if it succeeds.
    pub(crate) fn code(&mut self, method: &str, params: Value) -> i64 {
        self.request(method, params).map_or_else(|error| error["code"].as_i64().unwrap(), |_| 0)
    }

    pub(crate) fn begin_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.begin("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Calls a tool. Returns its text, or that of its error. The text is also structured content,
    /// or only that if it is long.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<String, String> {
        let result = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = result.map_err(|error| error["message"].as_str().unwrap().to_owned())?;
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
        if result["isError"] == true {
            return Err(text.to_owned());
        }
        let content = result["structuredContent"]["content"].as_str().unwrap_or(text);
        let notice = format!("{} bytes of text are in structuredContent", content.len());
        assert!(text == content || text == notice, "{tool} {arguments}: {text}");
        Ok(content.to_owned())
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
        self.code(&format!("resources/{method}"), json!({ "uri": uri(path) }))
    }

    /// The next notification other than progress: the URI of a changed resource, or the method.
    pub(crate) fn told(&mut self, time: Duration) -> Option<String> {
        let end = Instant::now() + time;
        loop {
            while let Some(told) = self.told.pop_front() {
                let method = told["method"].as_str().unwrap();
                let name = told["params"]["uri"].as_str().unwrap_or(method);
                if !matches!(
                    method,
                    "notifications/progress" | "notifications/subscriptions/acknowledged"
                ) {
                    return Some(name.to_owned());
                }
            }
            if !self.receive(end.saturating_duration_since(Instant::now())) {
                return None;
            }
        }
    }

    /// Asserts that the next notification is an update of a resource.
    pub(crate) fn is_told(&mut self, path: &Path) {
        assert_eq!(self.told(Duration::from_secs(6)), Some(uri(path)));
    }

    /// Asserts that no notification arrives for longer than the server's polling interval.
    pub(crate) fn is_quiet(&mut self) {
        assert_eq!(self.told(Duration::from_millis(1_200)), None);
    }

    /// Waits for a progress notification, and returns its number.
    pub(crate) fn progress(&mut self, time: Duration) -> Option<f64> {
        let end = Instant::now() + time;
        while self.told.is_empty() {
            if !self.receive(end.saturating_duration_since(Instant::now())) {
                return None;
            }
        }
        self.told.pop_front().and_then(|told| told["params"]["progress"].as_f64())
    }
}

/// A path as a URI. Only `%` and spaces are escaped.
pub(crate) fn uri(path: &Path) -> String {
    crate::tree::uri(path).replace('%', "%25").replace(' ', "%20")
}
