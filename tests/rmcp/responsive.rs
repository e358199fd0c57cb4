//! Nobody waits for another's FIFO, or for another's client.

use std::time::{Duration, Instant};

use mcp_roots_guard::ErrorKind;
use serde_json::json;

use crate::raw::{Raw, call, list, told};
use crate::server::{Tree, refusal};

const CALLS: u32 = 64;

/// As long as an answer may take on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn work_that_takes_long_keeps_nobodys_roots_waiting() {
    let tree = Tree::new();
    let guard = tree.builder().work_at_once(2).build().unwrap();
    let (mut slow, mut other) = (Raw::connect(&guard), Raw::connect(&guard));
    slow.initialize(json!({})).await;
    other.initialize(json!({ "roots": { "listChanged": true } })).await;
    for id in 1..=3 {
        slow.send(&call(id, "walk", "")).await;
    }
    for _ in 0..2 {
        assert_eq!(slow.heard().await.as_deref(), Some("walking"));
    }
    // It is asked, answered and resolved; for its work it waits, and so does the third walk.
    other.send(&call(1, "read", "in.txt")).await;
    let question = other.receive().await;
    other.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": list([tree.uri("op/a")]) })).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    other.send(&ping).await;
    assert_eq!(other.receive().await["id"], 2);
    // The one that waits is first, so that no place is free for it.
    for id in [3, 1, 2] {
        let cancelled = json!({ "requestId": id });
        slow.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled })).await;
    }
    assert_eq!(told(&other.receive().await).as_deref(), Ok("a"));
    for _ in 0..2 {
        assert_eq!(slow.heard().await.as_deref(), Some("stopped: cancelled"));
    }
    assert_eq!(slow.told().as_deref(), None, "the third never began");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_client_and_fifos_keep_nobody_waiting() {
    let tree = Tree::new();
    // Windows has none.
    let expected = if cfg!(unix) {
        tree.add("fifo op/a/pipe");
        ErrorKind::SpecialFile
    } else {
        ErrorKind::NotFound
    };
    let guard = tree.guard();
    let (mut silent, mut other) = (Raw::connect(&guard), Raw::connect(&guard));
    silent.initialize(json!({ "roots": { "listChanged": true } })).await;
    other.initialize(json!({})).await;
    let began = Instant::now();
    // Calls that wait for a client, which is asked once, and calls that meet a FIFO nobody writes to.
    for id in 1..=CALLS {
        silent.send(&call(id, "read", "in.txt")).await;
        other.send(&call(id, "read", "a/pipe")).await;
    }
    let question = silent.receive().await;
    assert_eq!(question["method"], "roots/list");
    let ping = json!({ "jsonrpc": "2.0", "id": 1000, "method": "ping" });
    silent.send(&ping).await;
    assert_eq!(silent.receive().await["id"], 1000, "nothing else is answered, or asked");
    other.send(&ping).await;
    other.send(&call(1001, "read", "b/in.txt")).await;
    let mut answered = 0;
    for _ in 0..CALLS + 2 {
        let answer = other.receive().await;
        match answer["id"].as_u64().unwrap() {
            1000 => {}
            1001 => assert_eq!(told(&answer).as_deref(), Ok("b")),
            _ => {
                assert_eq!(told(&answer), Err(refusal("a/pipe", expected)));
                answered += 1;
            }
        }
    }
    assert_eq!(answered, CALLS);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // And whoever waited is served when the client speaks.
    silent.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": list([tree.uri("op/a")]) })).await;
    for _ in 0..CALLS {
        assert_eq!(told(&silent.receive().await).as_deref(), Ok("a"));
    }
}

/// Where all of the runtime's threads are taken, work waits for one; nobody waits for its answer by then.
#[test]
fn work_that_is_cancelled_before_its_turn_never_begins() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let tree = Tree::new();
        let mut raw = Raw::connect(&tree.guard());
        raw.initialize(json!({})).await;
        raw.send(&call(1, "walk", "")).await;
        assert_eq!(raw.heard().await.as_deref(), Some("walking"));
        raw.send(&call(2, "walk", "")).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        for id in [2, 1] {
            let cancelled = json!({ "requestId": id });
            raw.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled })).await;
        }
        assert_eq!(raw.heard().await.as_deref(), Some("stopped: cancelled"));
        // Behind the second, as there is one thread.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        assert_eq!(raw.told().as_deref(), None);
    });
}
