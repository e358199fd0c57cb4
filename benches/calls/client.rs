//! A client that sends calls and measures how long they take.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

/// How protocol revisions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25: the client sends `initialize`, and is asked for its roots.
    Session,
    /// 2026-07-28: each request describes the client. The client declares no roots.
    Stateless,
}

pub(crate) struct Client {
    era: Era,
    read: BufReader<Box<dyn AsyncRead + Unpin>>,
    write: Box<dyn AsyncWrite + Unpin>,
    /// The URI of the client's root.
    root: String,
    id: u64,
    line: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(
        era: Era,
        root: &str,
        read: impl AsyncRead + Unpin + 'static,
        write: impl AsyncWrite + Unpin + 'static,
    ) -> Self {
        let mut client = Self {
            era,
            read: BufReader::with_capacity(1 << 16, Box::new(read)),
            write: Box::new(write),
            root: format!("file://{root}"),
            id: 0,
            line: Vec::new(),
        };
        if era == Era::Session {
            let hello = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "roots": { "listChanged": true } },
                "clientInfo": { "name": "bench", "version": "1" },
            });
            client.send(&request(0, "initialize", &hello)).await;
            client.receive().await;
            let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            client.send(&(initialized.to_string() + "\n")).await;
        }
        client
    }

    /// Makes `count` calls, of which at most `at_once` wait for a response at any time. Returns the
    /// time that all took, and adds that of each call to `latencies`.
    pub(crate) async fn calls(
        &mut self,
        call: &Call,
        count: usize,
        at_once: usize,
        latencies: &mut Vec<Duration>,
    ) -> Duration {
        let start = Instant::now();
        let mut waiting = HashMap::new();
        let mut sent = 0;
        while sent < count || !waiting.is_empty() {
            while sent < count && waiting.len() < at_once {
                self.id += 1;
                sent += 1;
                waiting.insert(self.id, Instant::now());
                let line = request(self.id, "tools/call", &call.parameters(self.era));
                self.send(&line).await;
            }
            let id = self.receive_response(call).await;
            latencies.push(waiting.remove(&id).unwrap().elapsed());
        }
        start.elapsed()
    }

    /// Receives the next response and returns its id. Answers requests for roots.
    async fn receive_response(&mut self, call: &Call) -> u64 {
        loop {
            self.receive().await;
            let text = std::str::from_utf8(&self.line).unwrap();
            // Parsing a large response would take longer than the server.
            let ends = text.get(text.len().saturating_sub(200)..).unwrap();
            if !text.contains("\"roots/list\"") {
                assert_eq!(ends.contains("\"isError\":true"), call.fails, "{ends}");
                let id = text.split("\"id\":").nth(1).unwrap();
                let digits = id.find(|byte: char| !byte.is_ascii_digit()).unwrap();
                return id.get(..digits).unwrap().parse().unwrap();
            }
            let asked: Value = serde_json::from_str(text).unwrap();
            let roots = json!({ "roots": [{ "uri": self.root }] });
            let answer = json!({ "jsonrpc": "2.0", "id": asked.get("id"), "result": roots });
            self.send(&(answer.to_string() + "\n")).await;
        }
    }

    async fn receive(&mut self) {
        self.line.clear();
        let received = self.read.read_until(b'\n', &mut self.line).await.unwrap();
        assert!(received > 0, "the server ended");
    }

    async fn send(&mut self, line: &str) {
        self.write.write_all(line.as_bytes()).await.unwrap();
        self.write.flush().await.unwrap();
    }
}

fn request(id: u64, method: &str, parameters: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }).to_string() + "\n"
}

/// A tool call.
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    pub(crate) path: String,
    /// Whether the call is expected to fail.
    pub(crate) fails: bool,
}

impl Call {
    fn parameters(&self, era: Era) -> Value {
        let arguments = json!({ "path": self.path });
        if era == Era::Session {
            return json!({ "name": self.tool, "arguments": arguments });
        }
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        json!({ "name": self.tool, "arguments": arguments, "_meta": meta })
    }
}
