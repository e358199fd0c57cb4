//! Sessions over streamable HTTP.

use std::io::{BufRead as _, BufReader, Read as _};
use std::time::{Duration, Instant};

use filesystem_server::http::{Limits, Names, serve_http};
use filesystem_server::threads::Threads;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::client::http::{Http, call, initialize, next, serve, start_with, until, updated};
use crate::client::served::ServedDirectory;
use crate::client::uri;

#[test]
fn http_sessions_receive_only_their_own_notifications_and_leave_no_state() {
    let served = ServedDirectory::new();
    let (mine, yours) = (served.put("in/mine", ""), served.put("yours", ""));
    let tracking = served.server();
    let http = serve(tracking.clone(), |_| ());
    let [me, you] = [(); 2].map(|()| http.open().unwrap());
    let [mut told_me, mut told_you] = [&me, &you].map(Http::listen);
    for (client, file) in [(&me, &mine), (&you, &yours), (&you, &mine)] {
        assert!(client.resource("subscribe", file).contains(r#""result":{}"#));
    }
    me.resource("unsubscribe", &yours);
    you.resource("unsubscribe", &mine);
    assert_eq!(tracking.tracked(), 2);
    std::fs::write(&mine, "1").unwrap();
    assert_eq!(updated(&mut told_me), Some(uri(&mine)));
    assert_eq!(updated(&mut told_you), None);
    std::fs::write(&yours, "1").unwrap();
    assert_eq!(updated(&mut told_you), Some(uri(&yours)));
    assert_eq!(updated(&mut told_me), None);
    me.delete();
    you.delete();
    assert!(until(|| tracking.tracked() == 0), "{}", tracking.tracked());
}

/// A response on a resumed stream would belong to no request, and nobody would account for it.
#[test]
fn stream_is_not_resumed_and_the_id_of_a_request_in_progress_is_refused() {
    let served = ServedDirectory::new();
    served.put("f", "served");
    let client = serve(served.server(), |_| ()).open_with(&json!({ "roots": {} })).unwrap();
    let read = call(7, "read_text_file", &json!({ "path": "f" }));
    let mut stream = BufReader::new(client.begin("POST", "", &read.to_string()));
    let question = next(&mut stream, "roots/list").unwrap();
    let mut event = String::new();
    stream.read_line(&mut event).unwrap();
    let again = client.post(&read);
    assert!(again.starts_with("HTTP/1.1 400") && again.contains("in progress"), "{again}");
    let after = format!("Last-Event-ID: {}\r\n", event.trim().strip_prefix("id: ").unwrap());
    let resumed = client.send("GET", &after, "");
    assert!(resumed.starts_with("HTTP/1.1 405"), "{resumed}");
    let roots = json!({ "roots": [{ "uri": uri(&served.directory) }] });
    client.post(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": roots }));
    assert!(next(&mut stream, "served").is_some());
}

/// rmcp would keep a response that is sent after a cancellation, and replay it to a later stream.
#[test]
fn no_response_is_kept_after_a_cancellation() {
    let served = ServedDirectory::new();
    served.put("f", "served");
    let client = serve(served.server(), |_| ()).open().unwrap();
    for number in 0..200 {
        let read = call(number, "read_text_file", &json!({ "path": "f" }));
        let params = json!({ "requestId": number });
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        std::thread::scope(|scope| {
            scope.spawn(|| client.post(&read));
            let answer = client.post(&cancel);
            assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
        });
    }
    assert_eq!(next(&mut client.listen(), "served"), None);
}

#[test]
fn browser_requests_from_other_origins_and_rebound_names_are_refused() {
    let http = serve(ServedDirectory::new().server(), |_| ());
    let body = initialize("2025-11-25", &json!({})).to_string();
    for line in include_str!("../data/origins.txt").lines() {
        let (status, origin) = line.split_once(' ').unwrap();
        let answer = http.send("POST", &format!("Origin: {origin}\r\n"), &body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{origin}: {answer}");
    }
    let mut rebound = http.connect();
    let head = http.head("POST", body.len()).replace(&http.address, "evil.example");
    std::io::Write::write_all(&mut rebound, format!("{head}\r\n{body}").as_bytes()).unwrap();
    let mut status = [0; 12];
    rebound.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 403");
}

/// A proxy passes on the name by which its client knows the server.
#[test]
fn named_hosts_and_origins_are_answered_and_others_are_not() {
    let served = ServedDirectory::new();
    let options = ["--http", "localhost:0", "--allow-host", "files.example.com"];
    let names = ["--allow-host", "one.example:8443", "--allow-origin", "https://app.example.com"];
    let (_process, http) = start_with(&served, &[&options[..], &names[..]].concat());
    let begin = initialize("2025-11-25", &json!({})).to_string();
    for (status, host, origin) in [
        (200, "files.example.com", ""),
        (200, "files.example.com:9000", ""),
        (200, "FILES.example.com", ""),
        (200, "one.example:8443", ""),
        (403, "one.example", ""),
        (403, "one.example:1", ""),
        (403, "evil.example", ""),
        (403, "files.example.com.evil.example", ""),
        (200, "localhost", "https://app.example.com"),
        (200, "files.example.com", "http://localhost:1"),
        (403, "files.example.com", "https://files.example.com"),
        (403, "localhost", "http://app.example.com"),
        (403, "localhost", "https://app.example.com.evil.example"),
    ] {
        let origin =
            if origin.is_empty() { String::new() } else { format!("Origin: {origin}\r\n") };
        let post = http.head("POST", begin.len()).replace(&http.address, host);
        let health = format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for request in [format!("{post}{origin}\r\n{begin}"), format!("{health}{origin}\r\n")] {
            let mut connection = http.connect();
            std::io::Write::write_all(&mut connection, request.as_bytes()).unwrap();
            let mut found = [0; 12];
            connection.read_exact(&mut found).unwrap();
            let expected = format!("HTTP/1.1 {status}");
            assert_eq!(found, expected.as_bytes(), "{host} {origin}");
        }
    }
}

#[test]
fn server_stops_while_a_client_is_listening() {
    let served = ServedDirectory::new();
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let http = Http::new(listener.local_addr().unwrap().to_string());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async { stopped.await.unwrap() };
    let serving = runtime.spawn(serve_http(
        listener,
        served.server(),
        Limits::default(),
        Names::default(),
        Threads::open(),
        stopped,
    ));
    let mut listening = http.open().unwrap().listen();
    assert_eq!(next(&mut listening, "nothing"), None);
    assert!(!serving.is_finished());
    let start = Instant::now();
    stop.send(()).unwrap();
    runtime.block_on(serving).unwrap();
    assert!(start.elapsed() < Duration::from_secs(15));
}
