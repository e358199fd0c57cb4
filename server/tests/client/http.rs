//! A client of streamable HTTP that writes and reads raw requests.

use std::future::pending;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use filesystem_server::http::{Limits, Names, serve_http};
use filesystem_server::server::Server;
use filesystem_server::threads::Threads;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use super::served::ServedDirectory;
use super::{PROGRAM, uri};

/// Serves HTTP with changed limits, and returns the address.
pub(crate) fn serve(server: Server, change: impl FnOnce(&mut Limits)) -> Http {
    let mut limits = Limits::default();
    change(&mut limits);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (names, threads) = (Names::default(), Threads::open());
    let serving = serve_http(listener, server, limits, names, threads, pending());
    thread::spawn(move || runtime.block_on(serving));
    Http::new(address)
}

/// The program, which ends with this.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program for a directory.
pub(crate) fn start(served: &ServedDirectory) -> (Process, Http) {
    start_with(served, &["--http", "127.0.0.1:0"])
}

/// Starts the program for a directory with these options.
pub(crate) fn start_with(served: &ServedDirectory, options: &[&str]) -> (Process, Http) {
    let mut program = Command::new(PROGRAM);
    program.args(options).arg(&served.directory);
    let mut process = program.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut messages = BufReader::new(process.stderr.take().unwrap());
    // The report of the confinement comes first.
    while !line.contains("http://") {
        line.clear();
        assert_ne!(messages.read_line(&mut line).unwrap(), 0, "the server did not start");
    }
    thread::spawn(move || std::io::copy(&mut messages, &mut std::io::sink()));
    let address = line.split(['/', '\n']).find(|part| part.starts_with("127.")).unwrap();
    (Process(process), Http::new(address.to_owned()))
}

/// A client with or without a session.
#[derive(Clone)]
pub(crate) struct Http {
    pub(crate) address: String,
    /// The header of the session, or nothing.
    pub(crate) session: String,
    pub(crate) revision: &'static str,
}

impl Http {
    pub(crate) fn new(address: String) -> Self {
        Self { address, session: String::new(), revision: "2025-11-25" }
    }

    /// The start of a request, up to the last header.
    pub(crate) fn head(&self, method: &str, length: usize) -> String {
        format!(
            "{method} /mcp HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
             mcp-protocol-version: {}\r\n{}",
            self.address, self.revision, self.session
        )
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    /// Sends a request without reading the response.
    pub(crate) fn begin(&self, method: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = self.connect();
        let head = self.head(method, body.len());
        stream.write_all(format!("{head}{headers}\r\n").as_bytes()).unwrap();
        // The server may refuse the body before all of it has arrived.
        let _ = stream.write_all(body.as_bytes());
        stream
    }

    /// Sends a request, and returns the response.
    pub(crate) fn send(&self, method: &str, headers: &str, body: &str) -> String {
        end(&mut self.begin(method, &format!("{headers}Connection: close\r\n"), body))
    }

    pub(crate) fn post(&self, message: &Value) -> String {
        self.send("POST", "", &message.to_string())
    }

    /// Opens a session with these capabilities, or returns the refusal.
    pub(crate) fn open_with(&self, capabilities: &Value) -> Result<Self, String> {
        let answer = self.post(&initialize(self.revision, capabilities));
        let mut lines = answer.lines();
        let Some(session) = lines.find(|line| line.starts_with("mcp-session-id: ")) else {
            return Err(answer);
        };
        let client = Self { session: format!("{session}\r\n"), ..self.clone() };
        client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        Ok(client)
    }

    pub(crate) fn open(&self) -> Result<Self, String> {
        self.open_with(&json!({}))
    }

    /// Calls a tool, and returns the response.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> String {
        self.post(&call(1, tool, arguments))
    }

    /// Reads the file `f`. Returns whether it was served.
    pub(crate) fn is_served(&self) -> bool {
        self.call("read_text_file", &json!({ "path": "f" })).contains("served")
    }

    /// Calls a method of `resources/` with a path, and returns the response.
    pub(crate) fn resource(&self, method: &str, path: &Path) -> String {
        let (method, params) = (format!("resources/{method}"), json!({ "uri": uri(path) }));
        self.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
    }

    /// Begins a stream of notifications.
    pub(crate) fn listen(&self) -> BufReader<TcpStream> {
        let stream = self.begin("GET", "", "");
        stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        BufReader::new(stream)
    }

    pub(crate) fn delete(&self) {
        let answer = self.send("DELETE", "", "");
        // The Python SDK warns about any other status than 200 and 204.
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }
}

/// The next message in a stream that contains a text. `None` if none arrives in time.
pub(crate) fn next(stream: &mut BufReader<TcpStream>, text: &str) -> Option<Value> {
    stream.lines().map_while(Result::ok).find_map(|line| {
        let data = line.strip_prefix("data: ").filter(|data| data.contains(text));
        data.and_then(|data| serde_json::from_str(data).ok())
    })
}

/// The URI of the next update in a stream. `None` if none arrives in time.
pub(crate) fn updated(stream: &mut BufReader<TcpStream>) -> Option<String> {
    next(stream, "resources/updated")?["params"]["uri"].as_str().map(str::to_owned)
}

/// Reads until the server closes the connection.
pub(crate) fn end(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn initialize(revision: &str, capabilities: &Value) -> Value {
    let client = json!({ "name": "test", "version": "0" });
    let params =
        json!({ "protocolVersion": revision, "capabilities": capabilities, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

pub(crate) fn call(id: usize, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

/// Waits until a condition holds. Returns whether it did within half a minute.
pub(crate) fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if is_so() {
            return true;
        }
        thread::sleep(Duration::from_millis(30));
    }
    false
}
