//! The stateless era: when the client is asked for its roots, which answers are accepted, and how
//! long they are valid.

use std::time::Duration;

use mcp_roots_guard::rmcp::ROOTS_KEY;
use mcp_roots_guard::{Access, Boundary, DirectoryOptions, Guard};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::raw_client::{
    Raw, answered, call, declaring, list, list_resources, request, stateless, tool_text,
};
use crate::server::{Macros, Tree, empty_list_refusal, refusal};

/// Sends a call and expects the guard's question as the response.
async fn is_asked(raw: &mut Raw, path: &str) {
    raw.send(&stateless(call(1, "read", path), declaring())).await;
    let result = raw.receive().await["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert_eq!(result["inputRequests"], json!({ ROOTS_KEY: { "method": "roots/list" } }));
}

/// Sends a request in which the client cannot be asked. Returns the first root in force, or the kind
/// of the refusal.
async fn listed(raw: &mut Raw) -> Result<String, String> {
    raw.send(&stateless(list_resources(), declaring())).await;
    let answer = raw.receive().await;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let uri = text(&answer["result"]["resources"][0]["uri"]);
    uri.ok_or_else(|| text(&answer["error"]["data"]["kind"]).unwrap())
}

fn stale() -> Result<String, String> {
    Err("roots_stale".into())
}

async fn read(raw: &mut Raw, path: &str, answer: &Value) -> Result<String, String> {
    raw.send(&answered(call(1, "read", path), answer)).await;
    tool_text(&raw.receive().await)
}

#[tokio::test]
async fn each_request_asks_for_roots_and_an_answer_counts_only_for_its_request() {
    let tree = Tree::new();
    let guard = tree.guard();
    let mut raw = Raw::connect(&guard);
    for name in ["a", "b"] {
        is_asked(&mut raw, "in.txt").await;
        assert_eq!(
            read(&mut raw, "in.txt", &list([tree.uri(&format!("op/{name}"))])).await.as_deref(),
            Ok(name)
        );
        is_asked(&mut raw, "in.txt").await;
    }
    let (outside, none) = (tree.path("secret.txt"), json!({ "roots": [] }));
    assert_eq!(
        read(&mut raw, &outside, &list([tree.uri(".")])).await,
        Err(refusal(&outside, "outside_roots"))
    );
    assert_eq!(read(&mut raw, "a/in.txt", &none).await, Err(empty_list_refusal("a/in.txt")));
    assert_eq!(guard.sessions(), 0);
}

#[tokio::test]
async fn an_answer_is_validated_like_any_client_input() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    let good = json!({ "uri": tree.uri("op/a") });
    assert_eq!(
        read(&mut raw, "in.txt", &json!({ "roots": [{}, good, 7] })).await.as_deref(),
        Ok("a")
    );
    for bad in [
        json!({}),
        json!(null),
        json!([]),
        json!("x"),
        json!({ "roots": good }),
        json!({ "error": { "code": 1 } }),
    ] {
        let failed = "the client's roots could not be obtained";
        assert_eq!(read(&mut raw, "a/in.txt", &bad).await, Err(failed.into()), "{bad}");
    }
    let many = list(std::iter::repeat_n("file:///x", 10_001));
    assert_eq!(
        read(&mut raw, "a/in.txt", &many).await,
        Err("the root list has more than 10000 entries".into())
    );
    // An answer under another key is not meant for the guard.
    let mut other = call(1, "read", "in.txt");
    other["params"]["inputResponses"] = json!({ "roots": list([tree.uri("op/a")]) });
    raw.send(&stateless(other, declaring())).await;
    assert_eq!(raw.receive().await["result"]["resultType"], "input_required");
}

#[tokio::test]
async fn roots_that_a_request_does_not_declare_are_neither_requested_nor_used() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    let mut unrequested_answer = answered(call(1, "read", "c/in.txt"), &list([tree.uri("op/a")]));
    unrequested_answer["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "sampling": {} });
    raw.send(&unrequested_answer).await;
    assert_eq!(tool_text(&raw.receive().await).as_deref(), Ok("c"));
    // Malformed capabilities do not count as "no roots".
    for malformed in
        [json!(null), json!(7), json!([]), json!({ "roots": true }), json!({ "roots": 1 })]
    {
        raw.send(&stateless(call(2, "read", "c/in.txt"), malformed.clone())).await;
        let answer = raw.receive().await;
        assert!(answer["error"].is_object(), "{malformed}: {answer}");
    }
    // rmcp accepts an array of the fields in order. The guard treats it as malformed.
    raw.send(&stateless(call(2, "read", "c/in.txt"), json!([null, null, null, null, null]))).await;
    assert_eq!(
        tool_text(&raw.receive().await),
        Err("the client's roots could not be obtained".into())
    );
}

#[tokio::test]
async fn the_tool_receives_its_own_state_and_answers_but_not_the_guards() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    // The guard asks first and preserves the tool's request state.
    let mut first = call(1, "ask", "in.txt");
    first["params"]["requestState"] = json!("kept");
    raw.send(&stateless(first, declaring())).await;
    let question = raw.receive().await["result"].clone();
    assert_eq!(
        (&question["resultType"], &question["requestState"]),
        (&json!("input_required"), &json!("kept"))
    );
    // The tool asks. The response contains the guard's question, the tool's question and the tool's
    // state.
    let second = answered(call(2, "ask", "in.txt"), &list([tree.uri("op/a")]));
    raw.send(&second).await;
    let both = raw.receive().await["result"].clone();
    assert_eq!(both["requestState"], "my state");
    assert_eq!(both["inputRequests"][ROOTS_KEY], json!({ "method": "roots/list" }));
    assert_eq!(both["inputRequests"]["mine"]["method"], "elicitation/create");
    // The tool receives its answer, but not the guard's.
    let mut third = answered(call(3, "ask", "in.txt"), &list([tree.uri("op/b")]));
    third["params"]["inputResponses"]["mine"] = json!({ "action": "accept" });
    raw.send(&third).await;
    assert_eq!(tool_text(&raw.receive().await).as_deref(), Ok(r#"b {"mine":{"action":"accept"}}"#));
    // The guard adds nothing for a client that declares no roots.
    raw.send(&stateless(call(4, "ask", "in.txt"), json!({ "elicitation": {} }))).await;
    let only = raw.receive().await["result"]["inputRequests"].clone();
    assert_eq!(only.as_object().unwrap().keys().collect::<Vec<_>>(), ["mine"]);
}

#[tokio::test]
async fn a_kept_list_is_used_until_its_time_to_live_expires() {
    let tree = Tree::new();
    let keep =
        |seconds| tree.builder().time_to_live_keyed(Duration::from_secs(seconds)).build().unwrap();
    let guard = keep(2);
    let (mut one, mut other) = (Raw::one_client(&guard), Raw::one_client(&guard));
    assert_eq!(listed(&mut one).await, stale());
    assert_eq!(read(&mut one, "in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    assert_eq!(listed(&mut one).await, Ok(tree.uri("op/a")));
    // The list applies neither to other clients nor to requests that declare no roots.
    assert_eq!(listed(&mut other).await, stale());
    one.send(&stateless(call(3, "read", "c/in.txt"), json!({}))).await;
    assert_eq!(tool_text(&one.receive().await).as_deref(), Ok("c"));
    // A newer list replaces it.
    assert_eq!(read(&mut one, "in.txt", &list([tree.uri("op/b")])).await.as_deref(), Ok("b"));
    assert_eq!(listed(&mut one).await, Ok(tree.uri("op/b")));
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert_eq!(listed(&mut one).await, stale());
    let guard = keep(600);
    let mut one = Raw::one_client(&guard);
    assert_eq!(read(&mut one, "in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    guard.forget_all();
    assert_eq!(listed(&mut one).await, stale());
    // Without a time to live, nothing is kept, even if the requests come from one client.
    let guard = tree.guard();
    let mut one = Raw::one_client(&guard);
    assert_eq!(read(&mut one, "in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    is_asked(&mut one, "in.txt").await;
    let debug = format!("{guard:?}");
    assert!(debug.contains("cached: 0,"), "{debug}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_answer_received_last_is_remembered() {
    let tree = Tree::new();
    let guard = tree.keeping_guard();
    let mut raw = Raw::one_client(&guard);
    for round in 0..60 {
        // In the first rounds, the first list takes a long time to resolve. In later rounds, the
        // handlers may start in either order.
        let more =
            (0..if round < 10 { 2_000 } else { 0 }).map(|n| tree.uri(&format!("op/none{n}")));
        let many = std::iter::once(tree.uri("op/a")).chain(more);
        let read = |id, list| answered(call(id, "read", "in.txt"), list);
        let (first, second) = (read(100, &list(many)), read(1, &list([tree.uri("op/b")])));
        raw.write(&format!("{first}\n{second}\n")).await;
        let mut both =
            [tool_text(&raw.receive().await).unwrap(), tool_text(&raw.receive().await).unwrap()];
        both.sort();
        assert_eq!(both, ["a", "b"]);
        assert_eq!(listed(&mut raw).await, Ok(tree.uri("op/b")));
    }
    // A refused answer also removes the previous list.
    assert!(read(&mut raw, "in.txt", &json!({ "roots": 7 })).await.is_err());
    assert_eq!(listed(&mut raw).await, stale());
}

/// On one thread, the handlers start in the order of the requests. The second one runs while the
/// first one waits for its list to be resolved.
#[tokio::test]
async fn an_answer_withdraws_the_kept_one_before_it_is_resolved() {
    let tree = Tree::new();
    let mut raw = Raw::one_client(&tree.keeping_guard());
    assert_eq!(read(&mut raw, "in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    let more = (0..5_000).map(|n| tree.uri(&format!("op/none{n}")));
    let many = std::iter::once(tree.uri("op/b")).chain(more);
    let read = answered(call(100, "read", "in.txt"), &list(many));
    let listing = stateless(list_resources(), declaring());
    raw.write(&format!("{read}\n{listing}\n")).await;
    for _ in 0..2 {
        let answer = raw.receive().await;
        if answer["id"] == listing["id"] {
            assert!(!answer.to_string().contains(&tree.uri("op/a")), "{answer}");
        } else {
            assert_eq!(tool_text(&answer).as_deref(), Ok("b"));
        }
    }
}

#[tokio::test]
async fn a_kept_list_is_resolved_again_when_an_optional_directory_appears() {
    let tree = Tree::new();
    let boundary = Boundary::builder().directory(tree.path("op"), Access::ReadOnly);
    let boundary = boundary
        .directory(tree.path("later"), DirectoryOptions::from(Access::ReadOnly).optional())
        .build()
        .unwrap();
    let guard =
        Guard::builder(boundary).time_to_live_keyed(Duration::from_secs(600)).build().unwrap();
    let mut raw = Raw::one_client(&guard);
    let both = list([tree.uri("later"), tree.uri("op/a")]);
    assert_eq!(read(&mut raw, "in.txt", &both).await.as_deref(), Ok("a"));
    assert_eq!(listed(&mut raw).await, Ok(tree.uri("op/a")));
    std::fs::create_dir(tree.path("later")).unwrap();
    let start = std::time::Instant::now();
    while listed(&mut raw).await != Ok(tree.uri("later")) {
        assert!(start.elapsed() < Duration::from_secs(60), "the directory is not in force");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The server keeps lists. A failed answer withdraws the earlier one.
#[tokio::test]
async fn a_failed_answer_leaves_only_the_always_directories_and_is_not_cached() {
    let tree = Tree::new();
    let always = DirectoryOptions::from(Access::ReadOnly).always();
    let boundary = Boundary::builder()
        .directory(tree.path("op/a"), Access::ReadOnly)
        .directory(tree.path("op/b"), always)
        .build()
        .unwrap();
    let guard =
        Guard::builder(boundary).time_to_live_keyed(Duration::from_secs(600)).build().unwrap();
    let mut raw = Raw::one_client(&guard);
    // A client that has not sent a list and cannot be asked has the always directories.
    assert_eq!(listed(&mut raw).await, Ok(tree.uri("op/b")));
    let [a, b] = ["op/a/in.txt", "op/b/in.txt"].map(|path| tree.path(path));
    assert_eq!(read(&mut raw, &a, &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    assert_eq!(listed(&mut raw).await, Ok(tree.uri("op/a")));
    let failed = || Err("read \"in.txt\": the client's roots could not be obtained".to_owned());
    for answer in [json!({}), json!({ "error": { "code": 1 } })] {
        assert_eq!(read(&mut raw, &b, &answer).await.as_deref(), Ok("b"));
        assert_eq!(listed(&mut raw).await, Ok(tree.uri("op/b")));
        assert_eq!(read(&mut raw, &a, &answer).await, Err(refusal(&a, "outside_roots")));
        assert_eq!(read(&mut raw, "in.txt", &answer).await, failed());
        assert_eq!(listed(&mut raw).await, Ok(tree.uri("op/b")));
    }
    let many = list(std::iter::repeat_n("file:///x", 10_001));
    assert_eq!(read(&mut raw, &b, &many).await.as_deref(), Ok("b"));
    assert_eq!(listed(&mut raw).await, Ok(tree.uri("op/b")));
    assert_eq!(read(&mut raw, "in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    assert_eq!(read(&mut raw, &b, &list([tree.uri("op/a")])).await.as_deref(), Ok("b"));
}

#[tokio::test]
async fn a_tool_built_with_macros_receives_its_state() {
    let tree = Tree::new();
    let guard = tree.guard();
    let mut raw =
        Raw::to(Macros(guard.clone()), mpsc::unbounded_channel().1, |far| guard.wrap(far));
    let mut first = call(1, "read", "in.txt");
    first["params"]["requestState"] = json!("kept");
    raw.send(&stateless(first, declaring())).await;
    assert_eq!(raw.receive().await["result"]["requestState"], "kept");
    let mut second = answered(call(1, "read", "in.txt"), &list([tree.uri("op/a")]));
    second["params"]["requestState"] = json!("kept");
    raw.send(&second).await;
    assert_eq!(tool_text(&raw.receive().await).as_deref(), Ok("a kept"));
}

#[tokio::test]
async fn prompts_and_resources_ask_for_roots_like_tool_calls() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    let prompt = |name: &str| ("prompts/get", json!({ "name": name }), "/messages/0/content/text");
    let resource = json!({ "uri": tree.uri("op/a/in.txt") });
    for (method, params, text) in
        [prompt("short"), prompt("by hand"), ("resources/read", resource, "/contents/0/text")]
    {
        let mut send = async |responses: &Value| {
            let mut params = params.clone();
            params["inputResponses"] = responses.clone();
            raw.send(&stateless(request(1, method, params), declaring())).await;
            raw.receive().await
        };
        let asked = send(&json!({})).await;
        let question = json!({ ROOTS_KEY: { "method": "roots/list" } });
        assert_eq!(asked["result"]["inputRequests"], question, "{asked}");
        let mut responses = json!({ ROOTS_KEY: list([tree.uri("op/a")]) });
        let mut answer = send(&responses).await;
        if params["name"] == "by hand" {
            let questions = answer["result"]["inputRequests"].as_object().unwrap();
            assert_eq!(questions.keys().collect::<Vec<_>>(), [ROOTS_KEY, "mine"]);
            responses["mine"] = json!({ "action": "accept" });
            answer = send(&responses).await;
        }
        assert_eq!(answer["result"].pointer(text), Some(&json!("a")), "{answer}");
        responses[ROOTS_KEY] = list([tree.uri("none")]);
        let refused = send(&responses).await;
        assert_eq!(refused["error"]["data"]["kind"], "outside_roots", "{refused}");
    }
}
