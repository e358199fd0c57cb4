//! The stateless era: what is asked, what counts of an answer, and for how long.

use std::time::Duration;

use mcp_roots_guard::limits::TIME_TO_LIVE_KEYED;
use mcp_roots_guard::rmcp::ROOTS_KEY;
use mcp_roots_guard::{Access, Boundary, Guard};
use serde_json::{Value, json};

use crate::raw_client::{Raw, call, list, stateless, told};
use crate::server::{Macros, Server, Tree, nothing_listed, refusal};

fn roots() -> Value {
    json!({ "roots": {} })
}

/// A call, with an answer for the guard.
fn answered(path: &str, answer: &Value) -> Value {
    let mut call = call(1, "read", path);
    call["params"]["inputResponses"] = json!({ ROOTS_KEY: answer });
    stateless(call, roots())
}

/// Asks, and expects the guard's question.
async fn is_asked(raw: &mut Raw, path: &str) {
    raw.send(&stateless(call(1, "read", path), roots())).await;
    let result = raw.receive().await["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert_eq!(result["inputRequests"], json!({ ROOTS_KEY: { "method": "roots/list" } }));
}

/// As [`is_asked`], once the roots are verified again: how long they rest is how long it took.
async fn is_asked_soon(raw: &mut Raw, path: &str) {
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        raw.send(&stateless(call(1, "read", path), roots())).await;
        if raw.receive().await["result"]["resultType"] == "input_required" {
            break;
        }
    }
    is_asked(raw, path).await;
}

async fn read(raw: &mut Raw, path: &str, answer: &Value) -> Result<String, String> {
    raw.send(&answered(path, answer)).await;
    told(&raw.receive().await)
}

#[tokio::test]
async fn each_request_is_asked_in_and_each_answer_counts_in_it_alone() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
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
    assert_eq!(read(&mut raw, "a/in.txt", &none).await, Err(nothing_listed("a/in.txt")));
}

#[tokio::test]
async fn an_answer_may_be_made_up_and_is_judged_anew() {
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
    // Under another key it is not the guard's.
    let mut other = call(1, "read", "in.txt");
    other["params"]["inputResponses"] = json!({ "roots": list([tree.uri("op/a")]) });
    raw.send(&stateless(other, roots())).await;
    assert_eq!(raw.receive().await["result"]["resultType"], "input_required");
}

#[tokio::test]
async fn what_a_request_does_not_declare_is_not_asked_and_not_taken() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    let mut told_unasked = answered("c/in.txt", &list([tree.uri("op/a")]));
    told_unasked["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "sampling": {} });
    raw.send(&told_unasked).await;
    assert_eq!(told(&raw.receive().await).as_deref(), Ok("c"));
    // What can not be read is no "no".
    for malformed in
        [json!(null), json!(7), json!([]), json!({ "roots": true }), json!({ "roots": 1 })]
    {
        raw.send(&stateless(call(2, "read", "c/in.txt"), malformed.clone())).await;
        let answer = raw.receive().await;
        assert!(answer["error"].is_object(), "{malformed}: {answer}");
    }
    // Rmcp takes an array for its fields in order, and the guard does not.
    raw.send(&stateless(call(2, "read", "c/in.txt"), json!([null, null, null, null, null]))).await;
    assert_eq!(told(&raw.receive().await), Err("the client's roots could not be obtained".into()));
}

#[tokio::test]
async fn the_tools_state_and_answers_pass_and_the_guards_do_not() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    // The guard asks first: what the tool had the client keep is kept on.
    let mut first = call(1, "ask", "in.txt");
    first["params"]["requestState"] = json!("kept");
    raw.send(&stateless(first, roots())).await;
    let question = raw.receive().await["result"].clone();
    assert_eq!(
        (&question["resultType"], &question["requestState"]),
        (&json!("input_required"), &json!("kept"))
    );
    // The tool asks: the guard's question is beside its own, and the tool's state is there.
    let mut second = call(2, "ask", "in.txt");
    second["params"]["inputResponses"] = json!({ ROOTS_KEY: list([tree.uri("op/a")]) });
    raw.send(&stateless(second, roots())).await;
    let both = raw.receive().await["result"].clone();
    assert_eq!(both["requestState"], "my state");
    assert_eq!(both["inputRequests"][ROOTS_KEY], json!({ "method": "roots/list" }));
    assert_eq!(both["inputRequests"]["mine"]["method"], "elicitation/create");
    // And is answered, without the guard's answer.
    let mut third = call(3, "ask", "in.txt");
    third["params"]["inputResponses"] =
        json!({ ROOTS_KEY: list([tree.uri("op/b")]), "mine": { "action": "accept" } });
    raw.send(&stateless(third, roots())).await;
    assert_eq!(told(&raw.receive().await).as_deref(), Ok(r#"b {"mine":{"action":"accept"}}"#));
}

#[tokio::test]
async fn a_client_that_the_server_knows_is_asked_once_in_a_while() {
    let tree = Tree::new();
    let keyed = |guard: &mcp_roots_guard::Guard| {
        let (server, tells) = Server::new(guard);
        Raw::to(server, tells, |far| guard.wrap(far).one_client())
    };
    let guard = tree.builder().time_to_live_keyed(Duration::from_secs(2)).build().unwrap();
    let (mut one, mut other) = (keyed(&guard), keyed(&guard));
    is_asked(&mut one, "in.txt").await;
    assert_eq!(read(&mut one, "in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    one.send(&stateless(call(2, "read", "in.txt"), roots())).await;
    assert_eq!(told(&one.receive().await).as_deref(), Ok("a"));
    // Nobody else's, and not for a request that declares no roots.
    is_asked(&mut other, "in.txt").await;
    one.send(&stateless(call(3, "read", "c/in.txt"), json!({}))).await;
    assert_eq!(told(&one.receive().await).as_deref(), Ok("c"));
    // A newer answer replaces it, time ends it, and so does forgetting.
    assert_eq!(read(&mut one, "in.txt", &list([tree.uri("op/b")])).await.as_deref(), Ok("b"));
    tokio::time::sleep(Duration::from_millis(2100)).await;
    is_asked(&mut one, "in.txt").await;
    let guard = tree.guard();
    let mut one = keyed(&guard);
    assert_eq!(read(&mut one, "in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    guard.forget_all();
    is_asked(&mut one, "in.txt").await;
    assert_eq!(TIME_TO_LIVE_KEYED, Duration::from_secs(5), "as the README says");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_answers_the_one_that_was_received_last_is_remembered() {
    let tree = Tree::new();
    let guard = tree.builder().time_to_live_keyed(Duration::from_secs(600)).build().unwrap();
    let (server, tells) = Server::new(&guard);
    let mut raw = Raw::to(server, tells, |far| guard.wrap(far).one_client());
    for round in 0..60 {
        // The first takes long to resolve, or their handlers start in another order.
        let many = (0..if round < 10 { 2_000 } else { 0 })
            .map(|n| tree.uri(&format!("op/none{n}")))
            .chain([tree.uri("op/a")]);
        let (mut first, second) =
            (answered("in.txt", &list(many)), answered("in.txt", &list([tree.uri("op/b")])));
        first["id"] = json!(100);
        raw.write(&format!("{first}\n{second}\n")).await;
        let mut both = [told(&raw.receive().await).unwrap(), told(&raw.receive().await).unwrap()];
        both.sort();
        assert_eq!(both, ["a", "b"]);
        raw.send(&stateless(call(3, "read", "in.txt"), roots())).await;
        assert_eq!(told(&raw.receive().await).as_deref(), Ok("b"));
    }
    // One that is refused leaves nothing of the one before.
    assert!(read(&mut raw, "in.txt", &json!({ "roots": 7 })).await.is_err());
    is_asked(&mut raw, "in.txt").await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_a_client_told_is_closed_with_its_connection() {
    let tree = Tree::new();
    let guard = tree.guard();
    let (server, tells) = Server::new(&guard);
    let mut raw = Raw::to(server, tells, |far| guard.wrap(far).one_client());
    assert_eq!(read(&mut raw, "in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    let directory = tree.path("op/a");
    let held = || {
        let links = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| entry.unwrap().path().read_link().ok());
        links.filter(|link| link.to_str() == Some(&directory)).count()
    };
    assert_eq!(held(), 1);
    drop(raw);
    for _ in 0..500 {
        if held() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    assert_eq!(held(), 0);
}

#[tokio::test]
async fn a_directory_that_is_there_by_now_is_asked_for_again() {
    let tree = Tree::new();
    let boundary = Boundary::builder().directory(tree.path("op"), Access::ReadOnly);
    let boundary =
        boundary.optional_directory(tree.path("later"), Access::ReadOnly).build().unwrap();
    let guard =
        Guard::builder(boundary).time_to_live_keyed(Duration::from_secs(600)).build().unwrap();
    let (server, tells) = Server::new(&guard);
    let mut raw = Raw::to(server, tells, |far| guard.wrap(far).one_client());
    let both = list([tree.uri("op/a"), tree.uri("later")]);
    assert_eq!(read(&mut raw, "in.txt", &both).await.as_deref(), Ok("a"));
    std::fs::create_dir(tree.path("later")).unwrap();
    is_asked_soon(&mut raw, "in.txt").await;
}

#[tokio::test]
async fn a_tool_of_macros_gets_its_state_back() {
    let tree = Tree::new();
    let guard = tree.guard();
    let mut raw = Raw::to(Macros(guard.clone()), tokio::sync::mpsc::unbounded_channel().1, |far| {
        guard.wrap(far)
    });
    let mut first = call(1, "read", "in.txt");
    first["params"]["requestState"] = json!("kept");
    raw.send(&stateless(first, roots())).await;
    assert_eq!(raw.receive().await["result"]["requestState"], "kept");
    let mut second = answered("in.txt", &list([tree.uri("op/a")]));
    second["params"]["requestState"] = json!("kept");
    raw.send(&second).await;
    assert_eq!(told(&raw.receive().await).as_deref(), Ok("a kept"));
}

#[tokio::test]
async fn a_prompt_is_asked_in_as_a_tool_is() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    let prompt = |name: &str, responses: Value| {
        let params = json!({ "name": name, "inputResponses": responses });
        stateless(
            json!({ "jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": params }),
            roots(),
        )
    };
    let told = list([tree.uri("op/a")]);
    for name in ["short", "by hand"] {
        raw.send(&prompt(name, json!({}))).await;
        let asked = raw.receive().await;
        assert_eq!(
            asked["result"]["inputRequests"],
            json!({ ROOTS_KEY: { "method": "roots/list" } }),
            "{asked}"
        );
        raw.send(&prompt(name, json!({ ROOTS_KEY: told }))).await;
        let mut answer = raw.receive().await;
        if name != "short" {
            let questions = answer["result"]["inputRequests"].as_object().unwrap();
            assert_eq!(questions.keys().collect::<Vec<_>>(), [ROOTS_KEY, "mine"]);
            raw.send(&prompt(name, json!({ ROOTS_KEY: told, "mine": { "action": "accept" } })))
                .await;
            answer = raw.receive().await;
        }
        assert_eq!(answer["result"]["messages"][0]["content"]["text"], "a", "{answer}");
    }
    raw.send(&prompt("short", json!({ ROOTS_KEY: list([tree.uri("op/none")]) }))).await;
    assert_eq!(raw.receive().await["error"]["data"]["kind"], "outside_roots");
}

// On Windows nobody can take a held directory's name away.
#[cfg(unix)]
#[tokio::test]
async fn a_remembered_root_that_was_replaced_is_asked_for_again() {
    let tree = Tree::new();
    let guard = tree.builder().time_to_live_keyed(Duration::from_secs(600)).build().unwrap();
    let (server, tells) = Server::new(&guard);
    let mut raw = Raw::to(server, tells, |far| guard.wrap(far).one_client());
    assert_eq!(read(&mut raw, "in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    std::fs::rename(tree.path("op/a"), tree.path("gone")).unwrap();
    std::fs::create_dir(tree.path("op/a")).unwrap();
    is_asked_soon(&mut raw, "in.txt").await;
}
