//! The session era: when the client is asked for its roots, and which answers are accepted.

use std::time::{Duration, Instant};

use mcp_roots_guard::{ClientCapabilities, ErrorKind, Guard, Location, RootsState};
use serde_json::{Value, json};

use crate::raw_client::{
    Raw, announcing, call, cancelled, declaring, initialize, list, list_changed, tool_text,
};
use crate::server::{Client, Era, RootsAnswer, Server, Tree, connect, refusal};

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
async fn good_entries_survive_malformed_ones() {
    let tree = Tree::new();
    let (uri, path) = (tree.uri("op/a"), tree.path("op/c/in.txt"));
    for bad in [
        json!({}),
        json!({ "uri": 7 }),
        json!({ "uri": "file:///x", "name": 5 }),
        json!(null),
        json!("x"),
        json!([]),
    ] {
        let mut raw = Raw::announcing(&tree.guard()).await;
        let roots = json!({ "roots": [bad, { "uri": uri, "name": null, "colour": "red" }, bad] });
        assert_eq!(raw.read("in.txt", &roots).await.as_deref(), Ok("a"), "{bad}");
        assert_eq!(raw.read(&path, &roots).await, Err(refusal(&path, "outside_roots")), "{bad}");
    }
}

#[tokio::test]
async fn a_result_that_is_not_a_list_grants_nothing() {
    let tree = Tree::new();
    let results = [
        json!({}),
        json!({ "roots": null }),
        declaring(),
        json!({ "roots": "file:///" }),
        json!({ "Roots": [] }),
        json!({ "action": "accept" }),
        json!({ "action": "accept", "content": {}, "roots": 1 }),
        json!({ "role": "user", "model": "m", "content": { "type": "text", "text": "file:///" } }),
        json!([]),
        json!("file:///"),
    ];
    for result in results {
        let guard = tree.builder().fetch_limit(Duration::from_millis(500)).build().unwrap();
        let mut raw = Raw::connect(&guard);
        raw.initialize(declaring()).await;
        let answer = read_ignoring_cancellation(&mut raw, &result).await;
        assert_eq!(answer, Err(FAILED.into()), "{result}");
    }
}

async fn read_ignoring_cancellation(raw: &mut Raw, roots: &Value) -> Result<String, String> {
    raw.send(&call(1, "read", "a/in.txt")).await;
    loop {
        let message = raw.receive().await;
        match message["method"].as_str() {
            Some("roots/list") => {
                raw.respond(&message, roots).await;
            }
            Some("notifications/cancelled") => {}
            _ => return tool_text(&message),
        }
    }
}

#[tokio::test]
async fn an_error_from_the_client_grants_nothing() {
    let tree = Tree::new();
    let client = Client::new(RootsAnswer::Error);
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
async fn withdrawing_a_root_ends_a_walk() {
    let tree = Tree::new();
    let client = Client::of([tree.uri("op/a")]);
    let mut pair = connect(&tree.guard(), &client, Era::Sessions).await;
    let crate::server::Pair { client, reports } = &mut pair;
    let peer = client.peer().clone();
    let withdraw = async {
        assert_eq!(crate::server::next_report(reports).await.as_deref(), Some("walking"));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(reports.try_recv().is_err(), "the walk stopped before the change");
        peer.notify_roots_list_changed().await.unwrap();
    };
    let (walked, ()) = tokio::join!(crate::server::call(client, "walk", ""), withdraw);
    assert_eq!(walked.unwrap(), Err("the client's roots changed or expired; try again".into()));
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
    let guard = tree.builder().client_roots(mcp_roots_guard::ClientRoots::Ignore).build().unwrap();
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
        (json!({ "listChanged": false }), true),
        (json!({ "x": 1 }), true),
        (Value::Null, false),
    ] {
        let mut raw = Raw::connect(&tree.guard());
        raw.initialize(json!({ "roots": roots })).await;
        let read = raw.read("in.txt", &list([tree.uri("op/a")])).await;
        assert_eq!(read.is_ok(), asked, "{roots}: {read:?}");
    }
    for roots in [json!(true), json!("yes"), json!(1), json!({ "listChanged": "yes" })] {
        let mut raw = Raw::connect(&tree.guard());
        raw.send(&initialize(json!({ "roots": roots }))).await;
        assert!(raw.receive().await["error"].is_object(), "{roots}");
    }
}

#[tokio::test]
async fn initializing_again_starts_a_new_session() {
    let tree = Tree::new();
    let guard = tree.guard();
    let mut raw = Raw::announcing(&guard).await;
    assert_eq!(raw.read("in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    raw.initialize(announcing()).await;
    assert_eq!(guard.sessions(), 1);
    assert_eq!(raw.read("in.txt", &list([tree.uri("op/b")])).await.as_deref(), Ok("b"));
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
        [RootsState::Closed, RootsState::Stale],
        "after the client initialized again"
    );
    drop(raw);
    wait_until_no_sessions(&guard).await;
    assert_eq!(states(), [RootsState::Closed; 2]);
}

#[tokio::test]
async fn a_session_ends_with_its_transport() {
    let tree = Tree::new();
    let guard = tree.guard();
    for era in [Era::Sessions, Era::Stateless] {
        let pairs = [
            connect(&guard, &Client::undeclared(), era).await,
            connect(&guard, &Client::undeclared(), era).await,
        ];
        for pair in &pairs {
            pair.read("a/in.txt").await.unwrap();
        }
        assert_eq!(guard.sessions(), if era == Era::Sessions { 2 } else { 0 });
        drop(pairs);
        wait_until_no_sessions(&guard).await;
    }
}

/// Waits until the guard has no sessions.
async fn wait_until_no_sessions(guard: &Guard) {
    for _ in 0..500 {
        if guard.sessions() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} sessions remain", guard.sessions());
}

/// rmcp parses `initialize` before the guard does. Where rmcp accepts the capabilities, it must
/// find roots if and only if this crate does. Otherwise the guard would treat a client that
/// declared roots as one without roots.
#[test]
fn rmcp_and_the_guard_agree_on_declared_roots() {
    use mcp_roots_guard::ClientCapabilities;
    use rmcp::model::{ClientJsonRpcMessage, ClientRequest, InitializeRequest, JsonRpcMessage};
    let as_rmcp_reads = |message: Value| -> Option<InitializeRequest> {
        match serde_json::from_value::<ClientJsonRpcMessage>(message) {
            Ok(JsonRpcMessage::Request(message)) => match message.request {
                ClientRequest::InitializeRequest(request) => Some(request),
                _ => None,
            },
            _ => None,
        }
    };
    let roots =
        [json!(null), json!({}), json!({"listChanged": true}), json!({"listChanged": null})];
    let odd =
        [json!({"listChanged": 5}), json!(true), json!(false), json!(0), json!([]), json!("x")];
    let declared =
        roots.into_iter().chain(odd).map(|roots| json!({ "roots": roots, "sampling": {} }));
    let unreadable = [json!(null), json!(5), json!([]), json!([null]), json!("x"), json!(true)];
    let mut read = 0;
    for capabilities in declared.chain(unreadable).chain([json!({})]) {
        let Some(request) = as_rmcp_reads(initialize(capabilities.clone())) else { continue };
        let ours = serde_json::from_value::<ClientCapabilities>(capabilities.clone());
        let ours = ours.unwrap_or_else(|error| panic!("rmcp reads {capabilities}: {error}"));
        let theirs = request.params.capabilities.roots;
        assert_eq!(theirs.is_some(), ours.roots().is_some(), "{capabilities}");
        read += 1;
    }
    assert!(read >= 5, "rmcp reads {read}");
    let mut without = initialize(json!({}));
    without["params"].as_object_mut().unwrap().remove("capabilities");
    assert!(as_rmcp_reads(without).is_none());
}

#[tokio::test]
async fn work_outside_a_request_runs_in_a_slot_while_the_session_is_open() {
    let tree = Tree::new();
    let guard = tree.builder().work_at_once(1).build().unwrap();
    let session = || guard.session(ClientCapabilities::without_roots()).unwrap();
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
    assert_eq!(kind(waiting.await.unwrap()), ErrorKind::SessionClosed);
    assert_eq!(kind(one.run(|| unreachable!()).await), ErrorKind::SessionClosed);
}
