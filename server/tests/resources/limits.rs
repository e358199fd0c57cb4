//! One HTTP client cannot block others. The time limits are much shorter than the server's
//! defaults, and each test waits up to a hundred times as long for a limit to take effect.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::http::{Http, call, end, initialize, serve, until};
use crate::client::served::ServedDirectory;

/// The time limit under test.
const SHORT: Duration = Duration::from_millis(300);

fn served() -> ServedDirectory {
    let served = ServedDirectory::new();
    served.put("f", "served");
    // In JSON, each character takes six bytes, more than the system's buffers hold.
    served.put("large", "\u{1}".repeat(8 << 20));
    served
}

#[test]
fn connection_with_slow_headers_is_closed() {
    let served = served();
    let http = serve(served.server(), |limits| limits.header_time = SHORT);
    let client = http.open().unwrap();
    // The connections send no headers, incomplete headers, endless headers, and no second request.
    let [mut silent, mut half, mut endless, mut idle] = [(); 4].map(|()| http.connect());
    half.write_all(b"POST /mcp HTTP/1.1\r\nHost: x\r\n").unwrap();
    let mut drip = endless.try_clone().unwrap();
    let dripping = std::thread::spawn(move || {
        while drip.write_all(b"A: b\r\n").is_ok() {
            std::thread::sleep(SHORT / 10);
        }
    });
    idle.write_all(format!("{}\r\n", http.head("PUT", 0)).as_bytes()).unwrap();
    assert!(client.is_served());
    assert!(!end(&mut silent).contains("200") && !end(&mut half).contains("200"));
    assert!(end(&mut idle).starts_with("HTTP/1.1 405"));
    end(&mut endless);
    dripping.join().unwrap();
    assert!(client.is_served());
}

#[test]
fn body_is_limited_in_time_size_and_values() {
    let served = served();
    let http = serve(served.server(), |limits| limits.body_time = SHORT);
    let refusal = |head: String| {
        let mut stream = http.connect();
        stream.write_all(format!("{head}Connection: close\r\n\r\n{{").as_bytes()).unwrap();
        end(&mut stream)
    };
    assert!(refusal(http.head("POST", 9)).starts_with("HTTP/1.1 408"));
    let client = http.open().unwrap();
    // The body is refused by its declared length, even if it does not arrive.
    for (client, most) in [(&http, 16 << 10), (&client, 4 << 20)] {
        let answer = refusal(client.head("POST", most + 1));
        let is_clear = answer.starts_with("HTTP/1.1 413");
        assert!(is_clear && answer.contains(&format!("{most} bytes")), "{answer}");
    }
    // What looks like values in a text does not count.
    for (values, refused) in [
        (json!(vec![1; 65_000]), false),
        (json!(vec![1; 66_000]), true),
        (json!(r#"[,{""#.repeat(66_000)), false),
    ] {
        let mut message = call(1, "read_text_file", &json!({ "path": "f" }));
        message["params"]["_meta"] = json!({ "x": values });
        let answer = client.post(&message);
        assert_eq!(answer.starts_with("HTTP/1.1 413"), refused, "{answer}");
        assert_eq!(answer.contains("served"), !refused, "{answer}");
    }
}

/// A client reads the refusal after it has sent everything.
#[test]
fn refusal_of_a_large_body_reaches_the_client() {
    let client = serve(served().server(), |_| ()).open().unwrap();
    let (length, chunk) = (20 << 20, vec![b'x'; 1 << 16]);
    let declared = client.head("POST", length);
    let chunked = client.head("POST", 0).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    for (head, before, end) in [(declared, "", ""), (chunked, "10000\r\n", "\r\n")] {
        let mut stream = client.connect();
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
        for _ in 0..length / chunk.len() {
            stream.write_all(before.as_bytes()).unwrap();
            stream.write_all(&chunk).unwrap();
            stream.write_all(end.as_bytes()).unwrap();
        }
        if !end.is_empty() {
            stream.write_all(b"0\r\n\r\n").unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
}

#[test]
fn client_that_does_not_read_is_disconnected() {
    let served = served();
    let http = serve(served.server(), |limits| {
        (limits.connections, limits.write_time) = (1, SHORT);
    });
    let client = http.open().unwrap();
    let start = Instant::now();
    let read = call(1, "read_media_file", &json!({ "path": "large" })).to_string();
    let hog = client.begin("POST", "", &read);
    // The client holds the only connection until it is disconnected.
    assert!(client.is_served(), "a stalled client kept its connection");
    assert!(start.elapsed() >= SHORT, "{:?}", start.elapsed());
    drop(hog);
}

#[test]
fn connections_beyond_the_limit_wait_and_others_continue() {
    let served = served();
    let http = serve(served.server(), |limits| {
        (limits.connections, limits.header_time) = (3, Duration::from_secs(120));
    });
    let client = http.open().unwrap();
    // Each connection that has been accepted answers.
    let ask = |stream: &mut TcpStream, time| {
        stream.write_all(format!("{}\r\n", http.head("PUT", 0)).as_bytes()).unwrap();
        stream.set_read_timeout(Some(time)).unwrap();
        stream.read(&mut [0; 1 << 10]).is_ok()
    };
    let long = Duration::from_secs(30);
    let mut held: Vec<_> = (0..3).map(|_| http.connect()).collect();
    assert!(held.iter_mut().all(|stream| ask(stream, long)));
    let mut waiting = http.connect();
    assert!(!ask(&mut waiting, SHORT));
    assert!(ask(&mut held[0], long));
    held.pop();
    assert!(ask(&mut waiting, long));
    held.clear();
    assert!(client.is_served());
}

#[test]
fn sessions_beyond_the_limit_are_refused_and_others_continue() {
    let served = served();
    let http = serve(served.server(), |limits| limits.sessions = 3);
    // The requests are concurrent, so they race for the remaining sessions.
    let opened: Vec<_> = std::thread::scope(|scope| {
        let opening: Vec<_> = (0..12).map(|_| scope.spawn(|| http.open())).collect();
        opening.into_iter().map(|opening| opening.join().unwrap()).collect()
    });
    let (sessions, refused): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
    assert_eq!((sessions.len(), refused.len()), (3, 9), "{:?}", refused.len());
    for answer in refused.into_iter().filter_map(Result::err) {
        let is_clear = answer.starts_with("HTTP/1.1 503")
            && answer.contains("the limit of 3 sessions is reached");
        assert!(is_clear && answer.to_lowercase().contains("retry-after:"), "{answer}");
    }
    let sessions: Vec<_> = sessions.into_iter().filter_map(Result::ok).collect();
    assert!(sessions.iter().all(Http::is_served));
    // A duplicate `method` does not hide a message that opens a session.
    let hidden = initialize("2025-11-25", &json!({})).to_string();
    let hidden = hidden.replacen('{', r#"{"method":"ping","#, 1);
    assert!(http.send("POST", "", &hidden).starts_with("HTTP/1.1 400"));
    sessions[0].delete();
    assert!(until(|| http.open().is_ok()));
    assert!(sessions[1].is_served());
}

#[test]
fn idle_session_ends() {
    let served = served();
    let http = serve(served.server(), |limits| {
        (limits.sessions, limits.idle_time) = (1, SHORT);
    });
    let client = http.open().unwrap();
    assert!(until(|| http.open().is_ok()), "an idle session kept its place");
    assert!(client.post(&call(1, "read_file", &Value::Null)).starts_with("HTTP/1.1 404"));
}
