//! A client that writes raw lines. Tests use it to send messages that an SDK would not send, and to
//! send several messages in one write.

use std::time::Duration;

use mcp_roots_guard::Guard;
use rmcp::service::ServiceExt;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc;

use crate::server::{Era, Server};

pub(crate) struct Raw {
    write: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    reports: mpsc::UnboundedReceiver<String>,
}

impl Raw {
    /// Connects to a new server through the guard's wrapped transport.
    pub(crate) fn connect(guard: &Guard) -> Self {
        let (server, reports) = Server::new(guard);
        Self::to(server, reports, |far| guard.wrap(far))
    }

    /// Connects to any server through any transport.
    pub(crate) fn to<T, E, A>(
        server: impl rmcp::ServerHandler,
        reports: mpsc::UnboundedReceiver<String>,
        wrap: impl FnOnce(DuplexStream) -> T,
    ) -> Self
    where
        T: rmcp::transport::IntoTransport<rmcp::RoleServer, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let (near, far) = tokio::io::duplex(1 << 20);
        let transport = wrap(far);
        tokio::spawn(async move { server.serve(transport).await.unwrap().waiting().await });
        let (read, write) = tokio::io::split(near);
        Self { write, lines: BufReader::new(read).lines(), reports }
    }

    /// Initializes a session with these capabilities.
    pub(crate) async fn initialize(&mut self, capabilities: Value) -> Value {
        self.send(&initialize(capabilities)).await;
        let answer = self.receive().await;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        answer
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write(&format!("{message}\n")).await;
    }

    pub(crate) async fn write(&mut self, lines: &str) {
        self.write.write_all(lines.as_bytes()).await.unwrap();
    }

    /// Waits for the next report of one of the server's tools.
    pub(crate) async fn next_report(&mut self) -> Option<String> {
        crate::server::next_report(&mut self.reports).await
    }

    /// Returns the next report if it has already arrived.
    pub(crate) fn earlier_report(&mut self) -> Option<String> {
        self.reports.try_recv().ok()
    }

    /// Waits for the next message of any kind. Panics if none arrives within 20 seconds.
    pub(crate) async fn receive(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(20), self.lines.next_line()).await;
        let line = line
            .expect("the server sent nothing in time")
            .unwrap()
            .expect("the server closed the connection");
        serde_json::from_str(&line).unwrap()
    }

    /// Waits for a tool's response. Answers each `roots/list` request with this result, and panics
    /// if the server sends another request.
    pub(crate) async fn answer(&mut self, roots: &Value) -> Value {
        loop {
            let message = self.receive().await;
            match message["method"].as_str() {
                Some("roots/list") => {
                    self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": roots }))
                        .await;
                }
                Some(other) => panic!("{other}"),
                None => return message,
            }
        }
    }

    /// Reads a file within a session.
    pub(crate) async fn read(&mut self, path: &str, roots: &Value) -> Result<String, String> {
        self.send(&call(1, "read", path)).await;
        tool_text(&self.answer(roots).await)
    }
}

pub(crate) fn initialize(capabilities: Value) -> Value {
    let client = json!({ "name": "raw", "version": "1" });
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": client,
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

pub(crate) fn call(id: u32, tool: &str, path: &str) -> Value {
    let params = json!({ "name": tool, "arguments": { "path": path } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

pub(crate) fn cancelled(id: u32) -> Value {
    let params = json!({ "requestId": id });
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
}

pub(crate) fn list_changed() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })
}

/// Converts a request to one of the stateless era, from a client with these capabilities.
pub(crate) fn stateless(mut request: Value, capabilities: Value) -> Value {
    request["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
    });
    request
}

/// Returns the request in the form of this era. In the stateless era, it declares these
/// capabilities.
pub(crate) fn in_era(era: Era, request: Value, capabilities: Value) -> Value {
    if era == Era::Stateless { stateless(request, capabilities) } else { request }
}

/// Returns the text of a tool's response, as `Err` if the response is a tool error.
pub(crate) fn tool_text(answer: &Value) -> Result<String, String> {
    let text = answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned();
    if answer["result"]["isError"] == json!(true) { Err(text) } else { Ok(text) }
}

/// A `roots/list` result.
pub(crate) fn list<S: AsRef<str>>(uris: impl IntoIterator<Item = S>) -> Value {
    let entries = uris.into_iter().map(|uri| json!({ "uri": uri.as_ref() }));
    json!({ "roots": entries.collect::<Vec<_>>() })
}
