//! Sessions over streamable HTTP, with handwritten requests.

use std::path::Path;
use std::time::Duration;

use filesystem_server::http::{Limits, serve_http};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};

use crate::client::uri;
use crate::fixture::Fixture;

fn initialize() -> Value {
    let client = json!({ "name": "test", "version": "0" });
    let revision = "2025-11-25";
    let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

/// A session and its stream of notifications.
pub(crate) struct Session {
    pub(crate) calls: Calls,
    told: Lines<BufReader<TcpStream>>,
}

/// A session without a stream of notifications.
#[derive(Clone)]
pub(crate) struct Calls {
    address: String,
    header: String,
}

impl Calls {
    pub(crate) async fn new(address: &str) -> Self {
        let answer = send(address, "POST", "", &initialize()).await;
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        let header = format!("mcp-session-id: {}\r\n", id.trim());
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        send(address, "POST", &header, &initialized).await;
        Self { address: address.to_owned(), header }
    }

    /// Calls a method of `resources/` with a path, and returns the response.
    pub(crate) async fn call(&self, method: &str, path: &Path) -> String {
        let (method, params) = (format!("resources/{method}"), json!({ "uri": uri(path) }));
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        send(&self.address, "POST", &self.header, &call).await
    }

    pub(crate) async fn subscribe(&self, path: &Path) {
        let answer = self.call("subscribe", path).await;
        assert!(answer.contains(r#""result":{}"#), "{answer}");
    }

    pub(crate) async fn delete(&self) {
        let gone = send(&self.address, "DELETE", &self.header, &Value::Null).await;
        assert!(gone.starts_with("HTTP/1.1 2"), "{gone}");
    }
}

impl Session {
    pub(crate) async fn new(address: &str) -> Self {
        let calls = Calls::new(address).await;
        let stream = request(address, "GET", &calls.header, "").await;
        Self { calls, told: BufReader::new(stream).lines() }
    }

    pub(crate) async fn subscribe(&self, path: &Path) {
        self.calls.subscribe(path).await;
    }

    /// The URI of the next update, or `None` if none arrives in time.
    pub(crate) async fn updated(&mut self) -> Option<String> {
        let next = async {
            loop {
                let line = self.told.next_line().await.unwrap()?;
                let data = line
                    .strip_prefix("data: ")
                    .and_then(|data| serde_json::from_str::<Value>(data).ok());
                if let Some(uri) = data.as_ref().and_then(|data| data["params"]["uri"].as_str()) {
                    return Some(uri.to_owned());
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(3), next).await.ok().flatten()
    }
}

async fn request(address: &str, method: &str, header: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} /mcp HTTP/1.1\r\nHost: {address}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         mcp-protocol-version: 2025-11-25\r\n{header}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Sends a request, and returns the response.
async fn send(address: &str, method: &str, header: &str, body: &Value) -> String {
    let header = format!("{header}Connection: close\r\n");
    let mut stream = request(address, method, &header, &body.to_string()).await;
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer))
        .await
        .unwrap()
        .unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_sessions_receive_only_their_own_notifications() {
    let fixture = Fixture::new();
    let (mine, yours) = (fixture.write("in/mine", ""), fixture.write("yours", ""));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served =
        serve_http(listener, fixture.server.clone(), Limits::default(), std::future::pending());
    tokio::spawn(served);
    let (mut me, mut you) = (Session::new(&address).await, Session::new(&address).await);
    me.subscribe(&mine).await;
    you.subscribe(&yours).await;
    assert_eq!(fixture.server.tracked(), 2);
    std::fs::write(&mine, "1").unwrap();
    assert_eq!(me.updated().await, Some(uri(&mine)));
    assert_eq!(you.updated().await, None);
    std::fs::write(&yours, "1").unwrap();
    assert_eq!(you.updated().await, Some(uri(&yours)));
    assert_eq!(me.updated().await, None);
    me.calls.delete().await;
    for _ in 0..250 {
        if fixture.server.tracked() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", fixture.server.tracked());
}

/// A response on a resumed stream would belong to no request, and nobody would account for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_is_not_resumed_and_the_id_of_a_request_in_progress_is_refused() {
    let fixture = Fixture::new();
    fixture.write("f", "served");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served =
        serve_http(listener, fixture.server.clone(), Limits::default(), std::future::pending());
    tokio::spawn(served);
    let mut initialize = initialize();
    initialize["params"]["capabilities"] = json!({ "roots": {} });
    let answer = send(&address, "POST", "", &initialize).await;
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let header = format!("mcp-session-id: {}\r\n", id.trim());
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    send(&address, "POST", &header, &initialized).await;
    let params = json!({ "name": "read_text_file", "arguments": { "path": "f" } });
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });

    let stream = request(&address, "POST", &header, &call.to_string()).await;
    let mut lines = BufReader::new(stream).lines();
    let mut asked = None;
    while asked.is_none() {
        let line = lines.next_line().await.unwrap().unwrap();
        let message = line.strip_prefix("data: ").map(serde_json::from_str::<Value>);
        asked = message.and_then(Result::ok).filter(|message| message["method"] == "roots/list");
    }
    let event = lines.next_line().await.unwrap().unwrap();
    let event = event.strip_prefix("id: ").unwrap();
    let again = send(&address, "POST", &header, &call).await;
    assert!(again.starts_with("HTTP/1.1 400") && again.contains("in progress"), "{again}");

    let after = format!("{header}Last-Event-ID: {event}\r\n");
    let resumed = send(&address, "GET", &after, &Value::Null).await;
    assert!(resumed.starts_with("HTTP/1.1 405"), "{resumed}");
    let roots = json!({ "roots": [{ "uri": uri(&fixture.site()) }] });
    let list = json!({ "jsonrpc": "2.0", "id": asked.unwrap()["id"], "result": roots });
    send(&address, "POST", &header, &list).await;
    let response = async { while !lines.next_line().await.unwrap().unwrap().contains("served") {} };
    tokio::time::timeout(Duration::from_secs(10), response).await.unwrap();
}

/// rmcp would keep a response that is sent after a cancellation, and replay it to a later stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_response_is_kept_after_a_cancellation() {
    let fixture = Fixture::new();
    fixture.write("f", "served");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served =
        serve_http(listener, fixture.server.clone(), Limits::default(), std::future::pending());
    tokio::spawn(served);
    let answer = send(&address, "POST", "", &initialize()).await;
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let header = format!("mcp-session-id: {}\r\n", id.trim());
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    send(&address, "POST", &header, &initialized).await;
    let params = json!({ "name": "read_text_file", "arguments": { "path": "f" } });
    for number in 0..300 {
        let call =
            json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params });
        let cancelled = json!({ "requestId": number });
        let cancel = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled
        });
        let (_, answer) = tokio::join!(
            send(&address, "POST", &header, &call),
            send(&address, "POST", &header, &cancel)
        );
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    }
    let mut stream = request(&address, "GET", &header, "").await;
    let (mut kept, mut more) = (Vec::new(), [0; 4_096]);
    while let Ok(Ok(read @ 1..)) =
        tokio::time::timeout(Duration::from_millis(500), stream.read(&mut more)).await
    {
        kept.extend_from_slice(&more[..read]);
    }
    let kept = String::from_utf8_lossy(&kept);
    assert!(kept.starts_with("HTTP/1.1 200") && !kept.contains("served"), "{kept}");
}

#[tokio::test]
async fn browser_requests_from_other_origins_are_refused() {
    let fixture = Fixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served =
        serve_http(listener, fixture.server.clone(), Limits::default(), std::future::pending());
    tokio::spawn(served);
    for (origin, served) in [
        ("http://localhost:6274", true),
        ("http://127.0.0.1:1", true),
        ("http://evil.example", false),
        ("http://localhost.evil.example", false),
        ("https://localhost:6274", false),
        ("http://localhost:1.evil.example", false),
        ("null", false),
    ] {
        let answer = send(&address, "POST", &format!("Origin: {origin}\r\n"), &initialize()).await;
        let status = if served { "HTTP/1.1 200" } else { "HTTP/1.1 403" };
        assert!(answer.starts_with(status), "{origin}: {answer}");
    }
}

#[tokio::test]
async fn server_stops_while_a_client_is_listening() {
    let fixture = Fixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async { stopped.await.unwrap() };
    let served =
        tokio::spawn(serve_http(listener, fixture.server.clone(), Limits::default(), stopped));
    let mut session = Session::new(&address).await;
    let listening = async { while session.told.next_line().await.unwrap().is_some() {} };
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!served.is_finished());
        stop.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(15), served).await.unwrap().unwrap().unwrap();
    };
    tokio::join!(listening, stopping);
}
