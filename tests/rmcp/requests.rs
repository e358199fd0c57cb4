//! Refusals of resources, and requests whose responses cannot ask for the client's roots.

use serde_json::{Value, json};

use crate::raw_client::{Raw, announcing, in_era, list, list_resources, request};
use crate::server::{ERAS, Era, Tree};

fn read(uri: &str) -> Value {
    request(1, "resources/read", json!({ "uri": uri }))
}

/// A connection for requests of this era, from a client with these capabilities.
async fn connect(tree: &Tree, era: Era, capabilities: &Value) -> Raw {
    let mut raw = Raw::connect(&tree.guard());
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
                (&error["code"], &error["data"]["code"]),
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
async fn listing_the_resources_of_a_session_asks_for_roots() {
    let tree = Tree::new();
    let mut raw = connect(&tree, Era::Sessions, &announcing()).await;
    raw.send(&list_resources()).await;
    let answer = raw.answer(&list([tree.uri("op/b")])).await;
    assert_eq!(answer["result"]["resources"][0]["uri"], tree.uri("op/b"));
}
