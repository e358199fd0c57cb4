//! One HTTP client cannot block others. The time limits are much shorter than the server's
//! defaults, and each test waits up to a hundred times as long for a limit to take effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filesystem_server::http::{Limits, serve_http};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::fixture::Fixture;

/// The time limit under test.
const SHORT: Duration = Duration::from_millis(300);

/// The maximum time to wait for [`SHORT`] to take effect.
const LONG: Duration = Duration::from_secs(30);

async fn serve(fixture: &Fixture, change: impl FnOnce(&mut Limits)) -> String {
    let mut limits = Limits::default();
    change(&mut limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(serve_http(listener, fixture.server.clone(), limits, std::future::pending()));
    address
}

fn head(address: &str, method: &str, session: &str, length: usize) -> String {
    let session =
        if session.is_empty() { String::new() } else { format!("mcp-session-id: {session}\r\n") };
    format!(
        "{method} /mcp HTTP/1.1\r\nHost: {address}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         {session}Content-Length: {length}\r\n"
    )
}

/// Reads until the server closes the connection.
async fn end(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut answer))
        .await
        .expect("the connection closes");
    String::from_utf8_lossy(&answer).into_owned()
}

async fn send(address: &str, method: &str, session: &str, body: &Value) -> String {
    let (mut stream, body) = (TcpStream::connect(address).await.unwrap(), body.to_string());
    let head = head(address, method, session, body.len());
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).await.unwrap();
    end(&mut stream).await
}

fn initialize() -> Value {
    let client = json!({ "name": "test", "version": "0" });
    let revision = "2025-11-25";
    let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

fn read(path: &str) -> Value {
    let params = json!({ "name": "read_text_file", "arguments": { "path": path } });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
}

/// Opens a session. Returns its identifier, or the refusal.
async fn open(address: &str) -> Result<String, String> {
    let answer = send(address, "POST", "", &initialize()).await;
    let Some(id) = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")) else {
        return Err(answer);
    };
    let id = id.trim().to_owned();
    send(address, "POST", &id, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
        .await;
    Ok(id)
}

async fn is_served(address: &str, session: &str) -> bool {
    send(address, "POST", session, &read("f")).await.contains("served")
}

/// Waits until a condition holds. Returns whether it did in time.
async fn until(mut is_so: impl AsyncFnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < LONG {
        if is_so().await {
            return true;
        }
        tokio::time::sleep(SHORT / 10).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_with_slow_headers_is_closed() {
    let fixture = Fixture::new();
    fixture.write("f", "served");
    let address = serve(&fixture, |limits| limits.header_time = SHORT).await;
    let session = open(&address).await.unwrap();
    // The connections send no headers, incomplete headers, endless headers, and no second request.
    let mut silent = TcpStream::connect(&address).await.unwrap();
    let mut half = TcpStream::connect(&address).await.unwrap();
    half.write_all(b"POST /mcp HTTP/1.1\r\nHost: x\r\n").await.unwrap();
    let (mut drops, mut drip) = TcpStream::connect(&address).await.unwrap().into_split();
    let dripping = tokio::spawn(async move {
        while drip.write_all(b"A: b\r\n").await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    });
    let mut idle = TcpStream::connect(&address).await.unwrap();
    idle.write_all(format!("{}\r\n", head(&address, "PUT", "", 0)).as_bytes()).await.unwrap();
    assert!(is_served(&address, &session).await);
    assert!(!end(&mut silent).await.contains("200"));
    assert!(!end(&mut half).await.contains("200"));
    assert!(end(&mut idle).await.starts_with("HTTP/1.1 405"));
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(LONG, drops.read_to_end(&mut answer)).await;
    assert!(closed.is_ok(), "a connection with endless headers stayed open");
    tokio::time::timeout(LONG, dripping).await.unwrap().unwrap();
    assert!(is_served(&address, &session).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn body_is_limited_in_time_and_size() {
    let fixture = Fixture::new();
    let address = serve(&fixture, |limits| limits.body_time = SHORT).await;
    let mut slow = TcpStream::connect(&address).await.unwrap();
    slow.write_all(
        format!("{}Connection: close\r\n\r\n{{", head(&address, "POST", "", 9)).as_bytes(),
    )
    .await
    .unwrap();
    assert!(end(&mut slow).await.starts_with("HTTP/1.1 408"));
    let session = open(&address).await.unwrap();
    for (session, most) in [("", 64 << 10), (&*session, 4 << 20)] {
        let mut large = TcpStream::connect(&address).await.unwrap();
        let head = head(&address, "POST", session, most + 1);
        large.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).await.unwrap();
        // The body is refused by its declared length, before it arrives.
        let answer = end(&mut large).await;
        let clear = answer.starts_with("HTTP/1.1 413") && answer.contains(&format!("{most} bytes"));
        assert!(clear, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_that_does_not_read_is_disconnected() {
    let fixture = Fixture::new();
    fixture.write("f", "served");
    // In JSON, each character takes six bytes, more than the system's buffers hold.
    fixture.write("large", "\u{1}".repeat(8 << 20));
    let address = serve(&fixture, |limits| {
        limits.connections = 1;
        limits.write_time = SHORT;
    });
    let address = address.await;
    let session = open(&address).await.unwrap();
    let mut hog = TcpStream::connect(&address).await.unwrap();
    let body = read("large").to_string();
    let head = head(&address, "POST", &session, body.len());
    hog.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
    // The client holds the only connection until it is disconnected.
    let start = Instant::now();
    assert!(
        until(async || is_served(&address, &session).await).await,
        "a stalled client kept its connection"
    );
    assert!(start.elapsed() >= SHORT, "{:?}", start.elapsed());
    drop(hog);
}

/// A client cannot hold a response for long by reading it slowly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_that_reads_slowly_is_disconnected() {
    let fixture = Fixture::new();
    fixture.write("f", "served");
    // In JSON, each character takes six bytes.
    fixture.write("large", "\u{1}".repeat(9 << 20));
    let address = serve(&fixture, |limits| {
        limits.connections = 1;
        limits.write_time = 2 * SHORT;
    });
    let address = address.await;
    let session = open(&address).await.unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let mut slow = socket.connect(address.parse().unwrap()).await.unwrap();
    let body = read("large").to_string();
    let head = head(&address, "POST", &session, body.len());
    slow.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
    let (total, mut bytes) = (Arc::new(AtomicUsize::new(0)), vec![0; 64 << 10]);
    let read = total.clone();
    let reading = tokio::spawn(async move {
        while let Ok(count @ 1..) = slow.read(&mut bytes).await {
            read.fetch_add(count, Ordering::Relaxed);
            tokio::time::sleep(SHORT / 30).await;
        }
    });
    // The client holds the only connection until it is disconnected.
    assert!(
        until(async || is_served(&address, &session).await).await,
        "a slow client kept its connection"
    );
    assert!(total.load(Ordering::Relaxed) < 9 << 20, "the client has read everything");
    reading.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_beyond_the_limit_are_refused_and_others_continue() {
    let fixture = Fixture::new();
    fixture.write("f", "served");
    let address = serve(&fixture, |limits| {
        limits.connections = 4;
        limits.header_time = 4 * LONG;
    });
    let address = address.await;
    let session = open(&address).await.unwrap();
    let mut mine = TcpStream::connect(&address).await.unwrap();
    let mut held = Vec::new();
    // The connections that opened the session may still be closing.
    assert!(
        until(async || {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            let mut nothing = [0; 1];
            match tokio::time::timeout(SHORT, stream.read(&mut nothing)).await {
                Err(_) => held.push(stream),
                Ok(refused) => drop(refused),
            }
            held.len() == 3
        })
        .await
    );
    for _ in 0..40 {
        let answer = send(&address, "POST", &session, &read("f")).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 503"), "{answer}");
    }
    let refused = send(&address, "POST", &session, &read("f")).await;
    assert!(refused.contains("the limit on connections is reached"), "{refused}");
    let body = read("f").to_string();
    let start = head(&address, "POST", &session, body.len());
    mine.write_all(format!("{start}Connection: close\r\n\r\n{body}").as_bytes()).await.unwrap();
    assert!(end(&mut mine).await.contains("served"));
    held.clear();
    assert!(until(async || is_served(&address, &session).await).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_beyond_the_limit_are_refused_and_others_continue() {
    let fixture = Fixture::new();
    fixture.write("f", "served");
    let address = serve(&fixture, |limits| limits.sessions = 3).await;
    // The requests are concurrent, so they race for the remaining sessions.
    let opened = (0..12).map(|_| {
        let address = address.clone();
        tokio::spawn(async move { open(&address).await })
    });
    let (mut sessions, mut refused) = (Vec::new(), Vec::new());
    for opened in opened.collect::<Vec<_>>() {
        match opened.await.unwrap() {
            Ok(session) => sessions.push(session),
            Err(answer) => refused.push(answer),
        }
    }
    assert_eq!((sessions.len(), refused.len()), (3, 9), "{refused:?}");
    for answer in &refused {
        let clear = answer.starts_with("HTTP/1.1 503")
            && answer.contains("the limit of 3 sessions is reached");
        assert!(clear && answer.to_lowercase().contains("retry-after:"), "{answer}");
    }
    for session in &sessions {
        assert!(is_served(&address, session).await);
    }
    // A duplicate `method` does not bypass the limit.
    let hidden = initialize().to_string().replacen('{', r#"{"method":"ping","#, 1);
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let head = head(&address, "POST", "", hidden.len());
    stream.write_all(format!("{head}Connection: close\r\n\r\n{hidden}").as_bytes()).await.unwrap();
    assert!(end(&mut stream).await.starts_with("HTTP/1.1 503"));
    assert!(send(&address, "DELETE", &sessions[0], &Value::Null).await.starts_with("HTTP/1.1 2"));
    assert!(until(async || open(&address).await.is_ok()).await);
    assert!(is_served(&address, &sessions[1]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_session_ends() {
    let fixture = Fixture::new();
    fixture.write("f", "served");
    let address = serve(&fixture, |limits| {
        limits.sessions = 1;
        limits.idle_time = SHORT;
    });
    let address = address.await;
    let session = open(&address).await.unwrap();
    assert!(until(async || open(&address).await.is_ok()).await, "an idle session kept its place");
    assert!(send(&address, "POST", &session, &read("f")).await.starts_with("HTTP/1.1 404"));
}
