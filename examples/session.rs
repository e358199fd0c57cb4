//! Shows a session from start to finish: `cargo run --example session`.
//!
//! A scripted client and a small server exchange JSON-RPC messages, one per line. Neither uses an
//! SDK.
//! The program prints each message. The server requests the roots during the first call that needs
//! them, reuses them in later calls, and discards them when the client announces a change.
#![allow(clippy::indexing_slicing, reason = "indexing a JSON value with a missing key gives null")]

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, Guard, ListRootsResult, Revision, RootsResponse,
    RootsSource, Session,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::{mpsc, oneshot};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome {
    let directory = tempfile::tempdir()?;
    for (path, text) in
        [("site/notes.txt", "hello from site"), ("blog/notes.txt", "hello from blog")]
    {
        fs::create_dir_all(directory.path().join(path).parent().ok_or("no parent")?)?;
        fs::write(directory.path().join(path), text)?;
    }
    let projects = dunce::canonicalize(directory.path())?;
    let guard = Guard::new(Boundary::builder().directory(&projects, Access::ReadWrite).build()?);

    let (client, server) = tokio::io::duplex(1 << 16);
    let server = tokio::spawn(serve(server, guard));
    let projects = projects.to_str().ok_or("the temporary directory's path is not UTF-8")?;
    // Windows accepts slashes in paths, and URIs require them.
    let script = Client::new(client, &projects.replace(std::path::MAIN_SEPARATOR, "/")).run();
    script.await?;
    server.await?
}

/// Runs the server. One loop reads messages, and each tool call runs in its own task.
async fn serve(stream: DuplexStream, guard: Guard) -> Outcome {
    let (input, mut output) = tokio::io::split(stream);
    let (sender, mut outgoing) = mpsc::unbounded_channel::<Value>();
    let writer = tokio::spawn(async move {
        while let Some(message) = outgoing.recv().await {
            output.write_all(format!("{message}\n").as_bytes()).await?;
        }
        Outcome::Ok(())
    });
    let peer = Peer { sender, waiting: Arc::default() };
    let mut session: Option<Session> = None;
    let mut lines = BufReader::new(input).lines();
    while let Some(line) = lines.next_line().await? {
        let message: Value = serde_json::from_str(&line)?;
        match (message["method"].as_str(), &session) {
            // Missing or malformed capabilities are an error. Treating them as "no roots" would
            // grant all allowed directories.
            (Some("initialize"), None) => {
                let declared = message["params"]["capabilities"].clone();
                let Ok(declared) = serde_json::from_value::<ClientCapabilities>(declared) else {
                    peer.refuse(&message, -32602, "params.capabilities is missing or malformed");
                    continue;
                };
                session = Some(guard.session(declared)?);
                peer.answer(
                    &message,
                    &json!({
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "session example", "version": "1"},
                    }),
                );
            }
            // The change is recorded before the next message is read, so no later call uses the old
            // roots.
            (Some(ListRootsResult::CHANGED), Some(session)) => session.list_changed(),
            (Some("tools/call"), Some(session)) => {
                let (session, peer) = (session.clone(), peer.clone());
                tokio::spawn(async move {
                    let path = message["params"]["arguments"]["path"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned();
                    let read = read_file(&session, &peer, path).await;
                    let text = |text| json!({"content": [{"type": "text", "text": text}]});
                    peer.answer(
                        &message,
                        &read.map_or_else(|error| Revision::V2025_06_18.tool_result(&error), text),
                    );
                });
            }
            (None, _) => peer.answered(&message),
            _ => {}
        }
    }
    drop((peer, session));
    writer.await?
}

/// The `read_file` tool: obtains the roots in force, then reads the file on a thread that may
/// block.
async fn read_file(
    session: &Session,
    peer: &Peer,
    path: String,
) -> mcp_roots_guard::Result<String> {
    let roots = session.roots(peer.source()).await?;
    let read = tokio::task::spawn_blocking(move || roots.read_to_string(path.as_str(), 1 << 20));
    read.await.unwrap_or_else(|panicked| Err(std::io::Error::from(panicked).into()))
}

/// The server's handle to its client.
#[derive(Clone)]
struct Peer {
    sender: mpsc::UnboundedSender<Value>,
    waiting: Arc<Mutex<PendingRequests>>,
}

/// Requests from the server that the client has not answered yet.
#[derive(Default)]
struct PendingRequests {
    asked: u64,
    senders: HashMap<u64, oneshot::Sender<Value>>,
}

impl Peer {
    fn source(&self) -> impl RootsSource {
        let peer = self.clone();
        move |cursor: Option<String>| {
            let params = cursor.map_or(json!({}), |cursor| json!({"cursor": cursor}));
            let answer = peer.ask(ListRootsResult::METHOD, &params);
            async move {
                match answer.await {
                    Ok(mut message) if message["error"].is_null() => {
                        RootsResponse::from_result(message["result"].take())
                    }
                    // Any error is a failure, even "Method not found": the client declared roots.
                    Ok(message) => RootsResponse::Failed(message["error"].to_string()),
                    Err(_) => RootsResponse::Failed("the client disconnected".into()),
                }
            }
        }
    }

    fn ask(&self, method: &str, params: &Value) -> oneshot::Receiver<Value> {
        let (sender, answer) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Cancel requests whose caller was dropped or timed out.
        waiting.senders.retain(|id, sender| {
            if sender.is_closed() {
                let _ = self.sender.send(json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": id},
                }));
            }
            !sender.is_closed()
        });
        waiting.asked += 1;
        let id = waiting.asked;
        waiting.senders.insert(id, sender);
        let _ = self
            .sender
            .send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        answer
    }

    fn answered(&self, message: &Value) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = message["id"].as_u64().and_then(|id| waiting.senders.remove(&id)) {
            let _ = sender.send(message.clone());
        }
    }

    fn answer(&self, request: &Value, result: &Value) {
        let _ = self.sender.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    fn refuse(&self, request: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        let _ = self.sender.send(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    }
}

/// The scripted client.
struct Client {
    lines: tokio::io::Lines<BufReader<tokio::io::ReadHalf<DuplexStream>>>,
    output: tokio::io::WriteHalf<DuplexStream>,
    projects: String,
    /// `projects` as a URI.
    uri: String,
    /// The client's answer to `roots/list`.
    roots: Value,
    calls: u64,
}

impl Client {
    fn new(stream: DuplexStream, projects: &str) -> Self {
        let (input, output) = tokio::io::split(stream);
        let lines = BufReader::new(input).lines();
        // A Windows path starts with a drive, which needs a slash before it in a URI.
        let uri = format!("file:///{}", projects.trim_start_matches('/'));
        Self { lines, output, projects: projects.to_owned(), uri, roots: Value::Null, calls: 0 }
    }

    async fn run(mut self) -> Outcome {
        let capabilities = json!({"roots": {"listChanged": true}});
        self.send("initialize", json!({"capabilities": capabilities})).await?;
        self.until_answered().await?;
        let root = |path: &str| json!({"uri": format!("{}/{path}", self.uri)});
        let (site, blog, etc) = (root("site"), root("blog"), json!({"uri": "file:///etc"}));

        println!("\nThe first call needs the roots, so the server requests them during that call.");
        self.roots = json!({"result": {"roots": [site, etc]}});
        self.read("notes.txt").await?;
        println!("\nThe second call uses the cached roots.");
        self.read("notes.txt").await?;
        println!("\nThe client listed /etc, but the server's configuration does not allow it.");
        self.read("/etc/hostname").await?;
        println!("\nThe configuration allows blog, but the client did not list it.");
        self.read("../blog/notes.txt").await?;

        println!(
            "\nThe client's roots change from site to blog. The next call requests them again."
        );
        self.roots = json!({"result": {"roots": [blog]}});
        self.changed().await?;
        self.read("notes.txt").await?;
        println!("\nThe client no longer lists site, so its files are refused.");
        let withdrawn = format!("{}/site/notes.txt", self.projects);
        self.read(&withdrawn).await?;

        println!(
            "\nThe roots change again, and the client answers with an error. The server \
             refuses\nthe call, and does not fall back to the old list."
        );
        self.roots = json!({"error": {"code": -32601, "message": "Method not found"}});
        self.changed().await?;
        self.read("notes.txt").await?;
        println!("\nThe server backs off: it does not request the roots again immediately.");
        self.read("notes.txt").await
    }

    async fn read(&mut self, path: &str) -> Outcome {
        self.send("tools/call", json!({"name": "read_file", "arguments": {"path": path}})).await?;
        self.until_answered().await
    }

    async fn changed(&mut self) -> Outcome {
        self.line(json!({"jsonrpc": "2.0", "method": ListRootsResult::CHANGED})).await
    }

    async fn send(&mut self, method: &str, params: Value) -> Outcome {
        self.calls += 1;
        let id = format!("call {}", self.calls);
        self.line(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await
    }

    async fn line(&mut self, message: Value) -> Outcome {
        println!("client: {}", self.shown(&message));
        Ok(self.output.write_all(format!("{message}\n").as_bytes()).await?)
    }

    /// Reads messages until the call is answered, and answers any `roots/list` request. Fails if
    /// the server closes the connection first.
    async fn until_answered(&mut self) -> Outcome {
        while let Some(line) = self.lines.next_line().await? {
            let message: Value = serde_json::from_str(&line)?;
            println!("server: {}", self.shown(&message));
            if message["method"] != ListRootsResult::METHOD {
                return Ok(());
            }
            let mut answer = self.roots.clone();
            answer["jsonrpc"] = "2.0".into();
            answer["id"] = message["id"].clone();
            self.line(answer).await?;
        }
        Err("the server closed the connection".into())
    }

    /// What the message says, with a short name for the temporary directory: a method and its
    /// arguments, a result, or an error.
    fn shown(&self, message: &Value) -> String {
        let shown = if let Some(method) = message["method"].as_str() {
            match &message["params"]["arguments"]["path"] {
                Value::String(path) => format!("{method}: read_file {path}"),
                _ => method.to_owned(),
            }
        } else if let Some(error) = message["error"]["message"].as_str() {
            format!("protocol error: {error}")
        } else if let Some(roots) = message["result"]["roots"].as_array() {
            let uris: Vec<_> = roots.iter().filter_map(|root| root["uri"].as_str()).collect();
            format!("roots: {}", uris.join(" "))
        } else if let Some(text) = message["result"]["content"][0]["text"].as_str() {
            let is_error = message["result"]["isError"] == true;
            format!("{}: {text}", if is_error { "error" } else { "result" })
        } else {
            "result".to_owned()
        };
        shown.replace(&self.uri, "file:///projects").replace(&self.projects, "/projects")
    }
}
