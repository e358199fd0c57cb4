//! The session era: when the client is asked for its roots, and which answers are accepted.

use std::time::{Duration, Instant};

use mcp_roots_guard::{ClientCapabilities, ErrorKind, Guard, Location, RootsState, kinds};
use serde_json::{Value, json};

use crate::raw_client::{
    Raw, call, cancelled, declaring, initialize, list, list_changed, tool_text,
};
use crate::server::{Client, Era, Server, Tree, connect};

const FAILED: &str = "the client's roots could not be obtained";
const NO_SESSION: &str = "the request belongs to no known session";

#[tokio::test]
async fn a_client_that_does_not_announce_changes_is_asked_for_each_call() {
    let tree = Tree::new();
    let client = Client::of([tree.uri("op/a")]).silent();
    let pair = connect(&tree.guard(), &client, Era::Sessions).await;
    assert_eq!(pair.read("in.txt").await.as_deref(), Ok("a"));
    client.set_roots([tree.uri("op/b")]);
    assert_eq!(pair.read("in.txt").await.as_deref(), Ok("b"));
    assert_eq!(client.times_asked(), 2);
}

#[tokio::test]
async fn a_malformed_result_grants_only_its_good_entries() {
    let tree = Tree::new();
    let good = json!({ "uri": tree.uri("op/a"), "name": null, "colour": "red" });
    let failed = || Err(FAILED.to_owned());
    // rmcp parses some of these as results of other methods.
    for (result, expected) in [
        (json!({ "roots": [{}, good, 7] }), Ok("a".to_owned())),
        (json!({ "roots": good }), failed()),
        (json!({}), failed()),
        (json!({ "action": "accept" }), failed()),
        (json!({ "action": "accept", "content": {}, "roots": 1 }), failed()),
    ] {
        let mut raw = Raw::announcing(&tree.guard()).await;
        assert_eq!(raw.read("in.txt", &result).await, expected, "{result}");
    }
}

#[tokio::test]
async fn an_error_from_the_client_grants_nothing() {
    let tree = Tree::new();
    let client = Client::failing();
    let pair = connect(&tree.guard(), &client, Era::Sessions).await;
    for _ in 0..2 {
        assert_eq!(pair.read("a/in.txt").await, Err(FAILED.into()));
    }
    assert_eq!(client.times_asked(), 1, "asked during the back-off");
    // A change ends the back-off, so the client is asked again immediately.
    client.set_roots([tree.uri("op/a")]);
    pair.client.notify_roots_list_changed().await.unwrap();
    assert_eq!(pair.read("in.txt").await.as_deref(), Ok("a"));
}

#[tokio::test]
async fn an_unanswered_request_times_out_and_is_cancelled() {
    let tree = Tree::new();
    let limit = Duration::from_secs(2);
    let guard = tree.builder().fetch_limit(limit).build().unwrap();
    let mut raw = Raw::announcing(&guard).await;
    let began = Instant::now();
    raw.send(&call(1, "read", "a/in.txt")).await;
    let question = raw.receive().await;
    assert_eq!(question["method"], "roots/list");
    // The server serves other requests meanwhile.
    raw.ping().await;
    let mut messages = [raw.receive().await, raw.receive().await];
    messages.sort_by_key(|message| message["method"].is_null());
    assert_eq!(messages[0]["method"], "notifications/cancelled");
    assert_eq!(messages[0]["params"]["requestId"], question["id"]);
    assert_eq!(
        tool_text(&messages[1]),
        Err("the client's roots could not be obtained in time".into())
    );
    let took = began.elapsed();
    assert!(took >= limit && took < 10 * limit, "{took:?}");
    // The late answer is ignored, because it was requested before the change.
    raw.respond(&question, &list([tree.uri("op/a")])).await;
    raw.send(&list_changed()).await;
    assert_eq!(raw.read("in.txt", &list([tree.uri("op/b")])).await.as_deref(), Ok("b"));
}

#[tokio::test]
async fn a_cancelled_call_does_not_wait_for_the_client() {
    let tree = Tree::new();
    let mut raw = Raw::announcing(&tree.guard()).await;
    raw.send(&call(1, "read", "in.txt")).await;
    let question = raw.receive().await;
    raw.send(&cancelled(1)).await;
    let cancellation = raw.receive().await;
    assert_eq!(cancellation["params"]["requestId"], question["id"], "{cancellation}");
    // The next call sends its own request to the client.
    assert_eq!(raw.read("in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
}

#[tokio::test]
async fn a_change_notification_counts_in_any_valid_form() {
    let tree = Tree::new();
    let (a, b) = (list([tree.uri("op/a")]), list([tree.uri("op/b")]));
    let method = "notifications/roots/list_changed";
    for form in [
        list_changed(),
        json!({ "jsonrpc": "2.0", "method": method, "params": {} }),
        json!({ "jsonrpc": "2.0", "method": method, "params": null }),
        json!({
            "jsonrpc": "2.0",
            "method": method,
            "params": { "_meta": { "k": 1 }, "more": [] },
        }),
        json!({ "jsonrpc": "2.0", "id": 77, "method": method }),
    ] {
        let mut raw = Raw::announcing(&tree.guard()).await;
        assert_eq!(raw.read("in.txt", &a).await.as_deref(), Ok("a"));
        raw.send(&form).await;
        if !form["id"].is_null() {
            assert_eq!(raw.receive().await["error"]["code"], -32601);
        }
        assert_eq!(raw.read("in.txt", &b).await.as_deref(), Ok("b"), "{form}");
    }
}

#[tokio::test]
async fn requests_outside_the_wrapped_transport_are_refused() {
    let tree = Tree::new();
    let guard = tree.guard();
    let (server, reports) = Server::new(&guard);
    let mut unwrapped = Raw::to(server, reports, |far| far);
    unwrapped.initialize(json!({})).await;
    assert_eq!(unwrapped.read("a/in.txt", &json!({})).await, Err(NO_SESSION.into()));
    let (server, reports) = Server::new(&guard);
    let other = tree.guard();
    let mut of_another = Raw::to(server, reports, |far| other.wrap(far));
    of_another.initialize(json!({})).await;
    assert_eq!(of_another.read("a/in.txt", &json!({})).await, Err(NO_SESSION.into()));
    // A guard that ignores client roots needs no session.
    let guard = tree.builder_for(mcp_roots_guard::ClientRoots::Ignore).build().unwrap();
    let (server, reports) = Server::new(&guard);
    let mut ignoring = Raw::to(server, reports, |far| far);
    ignoring.initialize(declaring()).await;
    assert_eq!(ignoring.read("a/in.txt", &json!({})).await.as_deref(), Ok("a"));
}

#[tokio::test]
async fn declared_roots_count_and_malformed_roots_are_refused() {
    let tree = Tree::new();
    for (roots, asked) in [
        (json!({}), true),
        (json!({ "listChanged": null }), true),
        (json!({ "x": 1 }), true),
        (Value::Null, false),
    ] {
        let mut raw = Raw::connect(&tree.guard());
        raw.initialize(json!({ "roots": roots })).await;
        let read = raw.read("in.txt", &list([tree.uri("op/a")])).await;
        assert_eq!(read.is_ok(), asked, "{roots}: {read:?}");
    }
    for roots in [json!(false), json!("yes"), json!(0), json!({ "listChanged": "yes" })] {
        let mut raw = Raw::connect(&tree.guard());
        raw.send(&initialize(json!({ "roots": roots }))).await;
        assert!(raw.receive().await["error"].is_object(), "{roots}");
    }
}

#[tokio::test]
async fn a_session_is_closed_even_if_it_is_still_referenced() {
    let tree = Tree::new();
    let guard = tree.guard();
    let (server, reports) = Server::new(&guard);
    let kept_sessions = server.kept_sessions.clone();
    let mut raw = Raw::to(server, reports, |far| guard.wrap(far));
    for _ in 0..2 {
        raw.initialize(declaring()).await;
        raw.send(&call(1, "hold", "")).await;
        raw.receive().await;
    }
    let states = || {
        kept_sessions
            .lock()
            .unwrap()
            .iter()
            .map(mcp_roots_guard::Session::state)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        states(),
        [RootsState::Closed, RootsState::Unknown],
        "after the client initialized again"
    );
    drop(raw);
    wait_until_sessions(&guard, 0).await;
    assert_eq!(states(), [RootsState::Closed; 2]);
}

/// Waits until the guard has at most this many sessions.
pub(crate) async fn wait_until_sessions(guard: &Guard, most: usize) {
    for _ in 0..500 {
        if guard.sessions() <= most {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} sessions remain", guard.sessions());
}

#[tokio::test]
async fn work_outside_a_request_runs_in_a_slot_while_the_session_is_open() {
    let tree = Tree::new();
    let guard = tree.builder().slots(1).build().unwrap();
    let session = || guard.session(ClientCapabilities::WithoutRoots).unwrap();
    let (one, other) = (session(), session());
    let here = std::thread::current().id();
    assert_ne!(one.run(|| Ok(std::thread::current().id())).await.unwrap(), here);
    let kind = |done: mcp_roots_guard::Result<()>| done.unwrap_err().kind();
    assert_eq!(kind(one.run(|| Location::parse("").map(drop)).await), ErrorKind::InvalidPath);
    assert_eq!(kind(one.run(|| panic!("on purpose")).await), ErrorKind::Io);
    // The only slot is occupied until the sender is dropped.
    let (go, waits) = std::sync::mpsc::channel::<()>();
    let occupied = tokio::spawn(async move { other.run(move || Ok(waits.recv().is_err())).await });
    let client = one.clone();
    let waiting = tokio::spawn(async move { client.run(|| unreachable!()).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    one.close();
    drop(go);
    assert!(occupied.await.unwrap().unwrap());
    assert_eq!(kind(waiting.await.unwrap()), kinds::SESSION_CLOSED);
    assert_eq!(kind(one.run(|| unreachable!()).await), kinds::SESSION_CLOSED);
}
