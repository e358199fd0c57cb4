//! One client's FIFO, slow work or silence does not delay another client.

use std::path::Path;
use std::time::{Duration, Instant};

use mcp_roots_guard::rmcp::ROOTS_KEY;
use serde_json::json;

use crate::raw_client::{Raw, call, cancelled, list, list_changed, stateless, tool_text};
use crate::server::{Server, Tree, reason, refusal};

const CALLS: u32 = 64;

/// The maximum time for an answer on a machine that also runs other tests.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn long_work_does_not_delay_fetching_roots() {
    let tree = Tree::new();
    let guard = tree.builder().work_at_once(1).build().unwrap();
    let (mut slow, mut other) = (Raw::connect(&guard), Raw::connect(&guard));
    slow.initialize(json!({})).await;
    other.initialize(json!({ "roots": { "listChanged": true } })).await;
    for id in 1..=3 {
        slow.send(&call(id, "walk", "")).await;
    }
    assert_eq!(slow.next_report().await.as_deref(), Some("walking"));
    // The client is asked and its list is resolved. Only its work waits for a slot, as do the
    // other walks.
    other.send(&call(1, "write", "new.txt")).await;
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
    // Cancel the waiting walks first, so that they never get a slot.
    for id in [3, 2, 1] {
        slow.send(&cancelled(id)).await;
    }
    assert_eq!(tool_text(&other.receive().await).as_deref(), Ok("written"));
    assert_eq!(slow.next_report().await.as_deref(), Some("stopped: cancelled"));
    assert_eq!(slow.earlier_report().as_deref(), None, "another walk began");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_client_and_fifos_delay_no_other_request() {
    let tree = Tree::new();
    // Windows has no FIFOs.
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
    // Half of the calls wait for a client, which is asked once. The others name a FIFO without a
    // writer.
    for id in 1..=CALLS {
        silent.send(&call(id, "read", "in.txt")).await;
        other.send(&call(id, "read", "a/pipe")).await;
    }
    let question = silent.receive().await;
    assert_eq!(question["method"], "roots/list");
    let ping = json!({ "jsonrpc": "2.0", "id": 1000, "method": "ping" });
    silent.send(&ping).await;
    assert_eq!(silent.receive().await["id"], 1000, "another message arrived first");
    other.send(&ping).await;
    other.send(&call(1001, "read", "b/in.txt")).await;
    let mut answered = 0;
    for _ in 0..CALLS + 2 {
        let answer = other.receive().await;
        match answer["id"].as_u64().unwrap() {
            1000 => {}
            1001 => assert_eq!(tool_text(&answer).as_deref(), Ok("b")),
            _ => {
                assert_eq!(tool_text(&answer), Err(refusal("a/pipe", expected)));
                answered += 1;
            }
        }
    }
    assert_eq!(answered, CALLS);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // The waiting calls are served when the client answers.
    silent
        .send(
            &json!({ "jsonrpc": "2.0", "id": question["id"], "result": list([tree.uri("op/a")]) }),
        )
        .await;
    for _ in 0..CALLS {
        assert_eq!(tool_text(&silent.receive().await).as_deref(), Ok("a"));
    }
}

/// Work waits while all slots of a client are occupied. If the call is cancelled meanwhile, its
/// work must not begin.
#[tokio::test]
async fn work_cancelled_while_queued_never_begins() {
    let tree = Tree::new();
    let guard = tree.builder().work_at_once(1).build().unwrap();
    let (mut raw, mut other) = (Raw::connect(&guard), Raw::connect(&guard));
    raw.initialize(json!({})).await;
    other.initialize(json!({})).await;
    raw.send(&call(1, "walk", "")).await;
    assert_eq!(raw.next_report().await.as_deref(), Some("walking"));
    raw.send(&call(2, "walk", "")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    for id in [2, 1] {
        raw.send(&cancelled(id)).await;
    }
    assert_eq!(raw.next_report().await.as_deref(), Some("stopped: cancelled"));
    // There is one slot, so this read runs after the cancelled walk would have.
    assert_eq!(other.read("b/in.txt", &list::<&str>([])).await.as_deref(), Ok("b"));
    assert_eq!(raw.earlier_report().as_deref(), None);
}

/// The roots are withdrawn while the work waits for a slot.
#[tokio::test]
async fn work_queued_before_its_roots_were_withdrawn_never_begins() {
    let tree = Tree::new();
    let guard = tree.builder().work_at_once(1).build().unwrap();
    let (mut slow, mut other) = (Raw::connect(&guard), Raw::connect(&guard));
    slow.initialize(json!({})).await;
    other.initialize(json!({ "roots": { "listChanged": true } })).await;
    let (a, b) = (list([tree.uri("op/a")]), list([tree.uri("op/b")]));
    assert_eq!(other.read("in.txt", &a).await.as_deref(), Ok("a"));
    slow.send(&call(1, "walk", "")).await;
    assert_eq!(slow.next_report().await.as_deref(), Some("walking"));
    // The client's roots are cached, so the write waits only for a slot.
    other.send(&call(2, "write", "new.txt")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    other.send(&list_changed()).await;
    other.send(&call(3, "read", "in.txt")).await;
    let question = other.receive().await;
    other.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": b })).await;
    slow.send(&cancelled(1)).await;
    // The write is from before the change, and the read from after it.
    for _ in 0..2 {
        let answer = other.receive().await;
        let expected =
            if answer["id"] == 2 { Err(reason("roots_stale").into()) } else { Ok("b".into()) };
        assert_eq!(tool_text(&answer), expected);
    }
    assert!(!Path::new(&tree.path("op/a/new.txt")).exists());
}

/// In the stateless era, a list in a later request withdraws the one that was kept from an earlier
/// request.
#[tokio::test]
async fn work_queued_before_its_client_sent_other_roots_never_begins() {
    let tree = Tree::new();
    let guard =
        tree.builder().work_at_once(1).time_to_live_keyed(Duration::from_secs(60)).build().unwrap();
    let mut slow = Raw::connect(&guard);
    slow.initialize(json!({})).await;
    let (server, reports) = Server::new(&guard);
    let mut other = Raw::to(server, reports, |far| guard.wrap(far).one_client());
    let declared = || json!({ "roots": {} });
    let read_with_list = |id, path| {
        let mut read = call(id, "read", "in.txt");
        read["params"]["inputResponses"] = json!({ ROOTS_KEY: list([tree.uri(path)]) });
        stateless(read, declared())
    };
    other.send(&read_with_list(1, "op/a")).await;
    assert_eq!(tool_text(&other.receive().await).as_deref(), Ok("a"));
    slow.send(&call(1, "walk", "")).await;
    assert_eq!(slow.next_report().await.as_deref(), Some("walking"));
    let listing = json!({ "jsonrpc": "2.0", "id": 2, "method": "resources/list", "params": {} });
    other.send(&stateless(listing, declared())).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    other.send(&read_with_list(3, "op/b")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    slow.send(&cancelled(1)).await;
    for _ in 0..2 {
        let answer = other.receive().await;
        if answer["id"] == 2 {
            assert_eq!(answer["error"]["data"]["kind"], "roots_stale", "{answer}");
        } else {
            assert_eq!(tool_text(&answer).as_deref(), Ok("b"));
        }
    }
}

#[tokio::test]
async fn only_the_client_with_too_many_calls_is_refused() {
    let tree = Tree::new();
    let guard = tree.builder().work_at_once(2).build().unwrap();
    let (mut many, mut other) = (Raw::connect(&guard), Raw::connect(&guard));
    many.initialize(json!({})).await;
    other.initialize(json!({})).await;
    for id in 1..=1 + 1024 + 3 {
        many.send(&call(id, "walk", "")).await;
    }
    for _ in 0..3 {
        assert_eq!(tool_text(&many.receive().await), Err(reason("queue_full").into()));
    }
    assert_eq!(other.read("b/in.txt", &list::<&str>([])).await.as_deref(), Ok("b"));
}
