//! Resources, and requests whose responses cannot ask for the client's roots.

use std::time::Duration;

use mcp_roots_guard::rmcp::ROOTS_KEY;
use mcp_roots_guard::{Access, Boundary, DirectoryOptions, Guard};
use serde_json::{Value, json};

use crate::raw_client::{Raw, in_era, list, stateless};
use crate::server::{ERAS, Era, Server, Tree};

fn read(uri: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": uri } })
}

/// A connection for requests of this era, from a client with these capabilities. The server keeps
/// stateless lists.
async fn connect(tree: &Tree, era: Era, capabilities: &Value) -> Raw {
    let guard = tree.builder().time_to_live_keyed(Duration::from_secs(600)).build().unwrap();
    let (server, reports) = Server::new(&guard);
    let mut raw = Raw::to(server, reports, |far| guard.wrap(far).one_client());
    if era == Era::Sessions {
        raw.initialize(capabilities.clone()).await;
    }
    raw
}

#[tokio::test]
async fn resource_refusals_have_the_error_codes_of_their_era() {
    let tree = Tree::new();
    let (inside, secret, nothing) =
        (tree.uri("op/a/in.txt"), tree.uri("secret.txt"), tree.uri("op/nothing"));
    for era in ERAS {
        let mut raw = connect(&tree, era, &json!({})).await;
        raw.send(&in_era(era, read(&inside), json!({}))).await;
        let answer = raw.receive().await;
        assert_eq!(answer["result"]["contents"][0]["text"], "a", "{era:?}: {answer}");
        let missing = if era == Era::Sessions { -32002 } else { -32602 };
        for (uri, code, kind) in [
            (&*secret, missing, "outside_roots"),
            (&*nothing, missing, "not_found"),
            ("file:///a?b", -32602, "query"),
            ("https://a/b", -32602, "foreign_scheme"),
        ] {
            raw.send(&in_era(era, read(uri), json!({}))).await;
            let error = raw.receive().await["error"].clone();
            assert_eq!(
                (&error["code"], &error["data"]["kind"]),
                (&json!(code), &json!(kind)),
                "{era:?}: {error}"
            );
            if matches!(kind, "outside_roots" | "not_found") {
                assert_eq!(
                    (&error["message"], &error["data"]["uri"]),
                    (&json!("Resource not found"), &json!(uri))
                );
            }
        }
    }
}

#[tokio::test]
async fn a_resource_request_asks_for_roots_like_a_tool_call() {
    let tree = Tree::new();
    let (inside, sibling) = (tree.uri("op/a/in.txt"), tree.uri("op/c/in.txt"));
    let mut raw = connect(&tree, Era::Stateless, &json!({})).await;
    raw.send(&stateless(read(&inside), json!({ "roots": {} }))).await;
    let question = raw.receive().await["result"].clone();
    assert_eq!(question["inputRequests"], json!({ ROOTS_KEY: { "method": "roots/list" } }));
    for (uri, allowed) in [(&inside, true), (&sibling, false)] {
        let mut request = read(uri);
        request["params"]["inputResponses"] = json!({ ROOTS_KEY: list([tree.uri("op/a")]) });
        raw.send(&stateless(request, json!({ "roots": {} }))).await;
        let answer = raw.receive().await;
        assert_eq!(answer["result"].is_object(), allowed, "{answer}");
    }
}

#[tokio::test]
async fn a_request_that_cannot_ask_for_roots_uses_the_kept_list() {
    let tree = Tree::new();
    let listing = || json!({ "jsonrpc": "2.0", "id": 5, "method": "resources/list", "params": {} });
    let listed =
        |answer: &Value| answer["result"]["resources"][0]["uri"].as_str().map(str::to_owned);
    // In a session, the client is asked as for any other request.
    let mut raw = connect(&tree, Era::Sessions, &json!({ "roots": { "listChanged": true } })).await;
    raw.send(&listing()).await;
    let answer = raw.answer(&list([tree.uri("op/b")])).await;
    assert_eq!(listed(&answer), Some(tree.uri("op/b")));
    // In the stateless era, the request uses the list that the server kept for the client.
    let declared = json!({ "roots": {} });
    let mut raw = connect(&tree, Era::Stateless, &declared).await;
    raw.send(&stateless(listing(), declared.clone())).await;
    let answer = raw.receive().await;
    assert_eq!(answer["error"]["data"]["kind"], "roots_stale", "{answer}");
    let mut request = read(&tree.uri("op/a/in.txt"));
    request["params"]["inputResponses"] = json!({ ROOTS_KEY: list([tree.uri("op/a")]) });
    raw.send(&stateless(request, declared.clone())).await;
    raw.receive().await;
    raw.send(&stateless(listing(), declared)).await;
    assert_eq!(listed(&raw.receive().await), Some(tree.uri("op/a")));
    raw.send(&stateless(listing(), json!({}))).await;
    assert_eq!(listed(&raw.receive().await), Some(tree.uri("op")));
}

/// The client cannot be asked, so only the directory that is always in force is listed.
#[tokio::test]
async fn a_request_that_cannot_ask_for_roots_has_the_always_directories() {
    let tree = Tree::new();
    let always = DirectoryOptions::new(Access::ReadOnly).always(true);
    let boundary = Boundary::builder()
        .directory(tree.path("op/a"), Access::ReadOnly)
        .directory_with(tree.path("op/b"), always)
        .build()
        .unwrap();
    let guard = Guard::new(boundary);
    let (server, reports) = Server::new(&guard);
    let mut raw = Raw::to(server, reports, |far| guard.wrap(far));
    let listing = json!({ "jsonrpc": "2.0", "id": 5, "method": "resources/list", "params": {} });
    raw.send(&stateless(listing, json!({ "roots": {} }))).await;
    let answer = raw.receive().await;
    let resources = answer["result"]["resources"].as_array().unwrap();
    let uris: Vec<_> = resources.iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, [tree.uri("op/b")]);
}
