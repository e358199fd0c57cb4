//! Nobody waits for another's FIFO, or for another's client.

use std::path::Path;
use std::time::{Duration, Instant};

use mcp_roots_guard::rmcp::ROOTS_KEY;
use serde_json::json;

use crate::raw_client::{Raw, call, list, list_changed, stateless, told};
use crate::server::{Server, Tree, reason, refusal};

const CALLS: u32 = 64;

/// As long as an answer may take on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn work_that_takes_long_keeps_nobodys_roots_waiting() {
    let tree = Tree::new();
    let guard = tree.builder().work_at_once(1).build().unwrap();
    let (mut slow, mut other) = (Raw::connect(&guard), Raw::connect(&guard));
    slow.initialize(json!({})).await;
    other.initialize(json!({ "roots": { "listChanged": true } })).await;
    for id in 1..=3 {
        slow.send(&call(id, "walk", "")).await;
    }
    assert_eq!(slow.heard().await.as_deref(), Some("walking"));
    // It is asked, answered and resolved; for its work it waits, and so do the other walks.
    other.send(&call(1, "read", "in.txt")).await;
    let question = other.receive().await;
    other
        .send(
            &json!({ "jsonrpc": "2.0", "id": question["id"], "result": list([tree.uri("op/a")]) }),
        )
        .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    other.send(&ping).await;
    assert_eq!(other.receive().await["id"], 2);
    // Those that wait are first, so that no place is free for them.
    for id in [3, 2, 1] {
        let cancelled = json!({ "requestId": id });
        slow.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }),
        )
        .await;
    }
    assert_eq!(told(&other.receive().await).as_deref(), Ok("a"));
    assert_eq!(slow.heard().await.as_deref(), Some("stopped: cancelled"));
    assert_eq!(slow.told().as_deref(), None, "the others never began");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_client_and_fifos_keep_nobody_waiting() {
    let tree = Tree::new();
    // Windows has none.
    let expected = if cfg!(unix) {
        tree.add("fifo op/a/pipe");
        "special_file"
    } else {
        "not_found"
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
    silent
        .send(
            &json!({ "jsonrpc": "2.0", "id": question["id"], "result": list([tree.uri("op/a")]) }),
        )
        .await;
    for _ in 0..CALLS {
        assert_eq!(told(&silent.receive().await).as_deref(), Ok("a"));
    }
}

/// Where all of a client's places are taken, its work waits; nobody waits for its answer by then.
#[tokio::test]
async fn work_that_is_cancelled_before_its_turn_never_begins() {
    let tree = Tree::new();
    let guard = tree.builder().work_at_once(1).build().unwrap();
    let (mut raw, mut other) = (Raw::connect(&guard), Raw::connect(&guard));
    raw.initialize(json!({})).await;
    other.initialize(json!({})).await;
    raw.send(&call(1, "walk", "")).await;
    assert_eq!(raw.heard().await.as_deref(), Some("walking"));
    raw.send(&call(2, "walk", "")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    for id in [2, 1] {
        let cancelled = json!({ "requestId": id });
        raw.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }),
        )
        .await;
    }
    assert_eq!(raw.heard().await.as_deref(), Some("stopped: cancelled"));
    // Behind the second, as there is one place.
    assert_eq!(other.read("b/in.txt", &list::<&str>([])).await.as_deref(), Ok("b"));
    assert_eq!(raw.told().as_deref(), None);
}

/// Work waits for its place longer than its roots are in force.
#[tokio::test]
async fn work_that_waited_while_its_roots_were_withdrawn_never_begins() {
    let tree = Tree::new();
    let guard = tree.builder().work_at_once(1).build().unwrap();
    let (mut slow, mut other) = (Raw::connect(&guard), Raw::connect(&guard));
    slow.initialize(json!({})).await;
    other.initialize(json!({ "roots": { "listChanged": true } })).await;
    let (a, b) = (list([tree.uri("op/a")]), list([tree.uri("op/b")]));
    assert_eq!(other.read("in.txt", &a).await.as_deref(), Ok("a"));
    slow.send(&call(1, "walk", "")).await;
    assert_eq!(slow.heard().await.as_deref(), Some("walking"));
    // Its roots are kept, so that it waits for nothing but a place.
    other.send(&call(2, "write", "new.txt")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    other.send(&list_changed()).await;
    other.send(&call(3, "read", "in.txt")).await;
    let question = other.receive().await;
    other.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": b })).await;
    assert_only_the_write_is_refused(&mut slow, &mut other, &tree).await;
}

/// Frees the place that `other` waits for: its write of before the change is refused, and its read of
/// after the change is served from the new root.
async fn assert_only_the_write_is_refused(slow: &mut Raw, other: &mut Raw, tree: &Tree) {
    slow.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } })).await;
    for _ in 0..2 {
        let answer = other.receive().await;
        let expected =
            if answer["id"] == 2 { Err(reason("roots_stale").into()) } else { Ok("b".into()) };
        assert_eq!(told(&answer), expected);
    }
    assert!(!Path::new(&tree.path("op/a/new.txt")).exists());
}

/// In the stateless era, what a client told in an earlier request is withdrawn by what it tells in a later one.
#[tokio::test]
async fn work_that_waited_while_its_client_told_other_roots_never_begins() {
    let tree = Tree::new();
    let guard =
        tree.builder().work_at_once(1).time_to_live_keyed(Duration::from_secs(60)).build().unwrap();
    let mut slow = Raw::connect(&guard);
    slow.initialize(json!({})).await;
    let (server, tells) = Server::new(&guard);
    let mut other = Raw::to(server, tells, |far| guard.wrap(far).one_client());
    let declared = || json!({ "roots": {} });
    let telling = |id, path| {
        let mut read = call(id, "read", "in.txt");
        read["params"]["inputResponses"] = json!({ ROOTS_KEY: list([tree.uri(path)]) });
        stateless(read, declared())
    };
    other.send(&telling(1, "op/a")).await;
    assert_eq!(told(&other.receive().await).as_deref(), Ok("a"));
    slow.send(&call(1, "walk", "")).await;
    assert_eq!(slow.heard().await.as_deref(), Some("walking"));
    other.send(&stateless(call(2, "write", "new.txt"), declared())).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    other.send(&telling(3, "op/b")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_only_the_write_is_refused(&mut slow, &mut other, &tree).await;
}

#[tokio::test]
async fn a_client_with_too_many_calls_is_refused_and_no_other_is() {
    let tree = Tree::new();
    let guard = tree.builder().work_at_once(2).build().unwrap();
    let (mut many, mut other) = (Raw::connect(&guard), Raw::connect(&guard));
    many.initialize(json!({})).await;
    other.initialize(json!({})).await;
    for id in 1..=1 + 1024 + 3 {
        many.send(&call(id, "walk", "")).await;
    }
    for _ in 0..3 {
        assert_eq!(told(&many.receive().await), Err(reason("queue_full").into()));
    }
    assert_eq!(other.read("b/in.txt", &list::<&str>([])).await.as_deref(), Ok("b"));
}
