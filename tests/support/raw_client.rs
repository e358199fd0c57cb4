//! A client that writes raw lines. Tests use it to send messages that an SDK would not send, and to
//! send several messages in one write.

use std::time::Duration;

use mcp_roots_guard::Guard;
use mcp_roots_guard::rmcp::ROOTS_KEY;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::{ErrorData, transport::IntoTransport};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc;

use crate::server::{Era, Server};

/// A server with one tool, for a test that needs its own.
struct Tool<F>(Guard, F);

impl<F, R> ServerHandler for Tool<F>
where
    F: Fn(Guard, CallToolRequestParams, RequestContext<RoleServer>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<CallToolResponse, ErrorData>> + Send + 'static,
{
    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        (self.1)(self.0.clone(), call, ctx).await
    }
}

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

    /// Connects to a server whose only tool is this function.
    pub(crate) fn to_tool<F, R>(guard: &Guard, tool: F) -> Self
    where
        F: Fn(Guard, CallToolRequestParams, RequestContext<RoleServer>) -> R
            + Send
            + Sync
            + 'static,
        R: Future<Output = Result<CallToolResponse, ErrorData>> + Send + 'static,
    {
        Self::to(Tool(guard.clone(), tool), mpsc::unbounded_channel().1, |far| guard.wrap(far))
    }

    /// Connects to a new server, and initializes a session of a client that announces changes.
    pub(crate) async fn announcing(guard: &Guard) -> Self {
        let mut raw = Self::connect(guard);
        raw.initialize(announcing()).await;
        raw
    }

    /// Connects to a new server, and initializes a session of a client without roots.
    pub(crate) async fn undeclared(guard: &Guard) -> Self {
        let mut raw = Self::connect(guard);
        raw.initialize(json!({})).await;
        raw
    }

    /// Connects to any server through any transport.
    pub(crate) fn to<T, E, A>(
        server: impl ServerHandler,
        reports: mpsc::UnboundedReceiver<String>,
        wrap: impl FnOnce(DuplexStream) -> T,
    ) -> Self
    where
        T: IntoTransport<RoleServer, E, A>,
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
        self.send(&notification("initialized", json!({}))).await;
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
                Some("roots/list") => self.respond(&message, roots).await,
                Some(other) => panic!("{other}"),
                None => return message,
            }
        }
    }

    /// Sends the result of a request of the server.
    pub(crate) async fn respond(&mut self, request: &Value, result: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    /// Receives a request for the roots and answers it.
    pub(crate) async fn answer_next(&mut self, roots: &Value) {
        let question = self.receive().await;
        assert_eq!(question["method"], "roots/list");
        self.respond(&question, roots).await;
    }

    /// Sends a ping and waits for its response. Messages are read in order, so the server has then
    /// read all earlier ones. Panics if another message arrives first.
    pub(crate) async fn ping(&mut self) {
        self.send(&request(1000, "ping", json!({}))).await;
        assert_eq!(self.receive().await["id"], 1000, "another message arrived first");
    }

    /// Reads a file within a session.
    pub(crate) async fn read(&mut self, path: &str, roots: &Value) -> Result<String, String> {
        self.send(&call(1, "read", path)).await;
        tool_text(&self.answer(roots).await)
    }
}

/// The capabilities of a client that announces changes.
pub(crate) fn announcing() -> Value {
    json!({ "roots": { "listChanged": true } })
}

/// The capabilities of a client that has roots and does not announce changes.
pub(crate) fn declaring() -> Value {
    json!({ "roots": {} })
}

pub(crate) fn request(id: u32, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn notification(name: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": format!("notifications/{name}"), "params": params })
}

pub(crate) fn initialize(capabilities: Value) -> Value {
    let client = json!({ "name": "raw", "version": "1" });
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": client,
    });
    request(0, "initialize", params)
}

pub(crate) fn call(id: u32, tool: &str, path: &str) -> Value {
    request(id, "tools/call", json!({ "name": tool, "arguments": { "path": path } }))
}

/// A request whose response cannot ask for the client's roots.
pub(crate) fn list_resources() -> Value {
    request(5, "resources/list", json!({}))
}

pub(crate) fn cancelled(id: u32) -> Value {
    notification("cancelled", json!({ "requestId": id }))
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

/// Converts a request to one of the stateless era that contains an answer to the guard's question.
pub(crate) fn answered(mut request: Value, answer: &Value) -> Value {
    request["params"]["inputResponses"] = json!({ ROOTS_KEY: answer });
    stateless(request, declaring())
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
