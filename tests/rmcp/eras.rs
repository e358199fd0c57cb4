//! Behavior that both eras share, tested with rmcp's client.

use mcp_roots_guard::ClientRoots;
use rmcp::service::ServiceError;

use crate::server::{Client, ERAS, Era, Tree, connect, refusal};

#[tokio::test]
async fn client_roots_narrow_the_allowed_directories() {
    let tree = Tree::new();
    for era in ERAS {
        let client = Client::of([
            tree.uri("op/a"),
            tree.uri("op/b"),
            tree.uri("."),
            "https://else.where/".into(),
        ]);
        let pair = connect(&tree.guard(), &client, era).await;
        let narrow = Client::of([tree.uri("op/a"), tree.uri("op/b")]);
        let narrow = connect(&tree.guard(), &narrow, era).await;
        for (path, expected) in [
            ("in.txt", Ok("a")),
            ("../b/in.txt", Ok("b")),
            (&tree.path("op/b/in.txt"), Ok("b")),
            (&tree.uri("op/b/in.txt"), Ok("b")),
            ("../c/in.txt", Err("outside_roots")),
            ("out", Err("outside_roots")),
            (&tree.path("secret.txt"), Err("outside_roots")),
            (&tree.path("nothing.txt"), Err("outside_roots")),
            ("nothing.txt", Err("not_found")),
        ] {
            let expected = expected.map(str::to_owned).map_err(|kind| refusal(path, kind));
            assert_eq!(narrow.read(path).await, expected, "{path}, {era:?}");
        }
        // A client whose list includes more than the allowed directories can access only those
        // directories.
        assert_eq!(pair.read("../c/in.txt").await.as_deref(), Ok("c"), "{era:?}");
        let secret = tree.path("secret.txt");
        assert_eq!(pair.read(&secret).await, Err(refusal(&secret, "outside_roots")), "{era:?}");
    }
}

#[tokio::test]
async fn a_client_that_did_not_declare_roots_is_never_asked() {
    let tree = Tree::new();
    for era in ERAS {
        let client = Client::undeclared();
        let pair = connect(&tree.guard(), &client, era).await;
        assert_eq!(pair.read("c/in.txt").await.as_deref(), Ok("c"), "{era:?}");
        let denying = tree.builder_for(ClientRoots::Require);
        let guard = denying.build().unwrap();
        let pair = connect(&guard, &client, era).await;
        let denied = pair.call("read", "c/in.txt").await;
        match era {
            Era::Sessions => {
                let why = "the client offers no roots, and this server requires them";
                assert_eq!(denied.unwrap(), Err(why.into()));
            }
            Era::Stateless => {
                let Err(ServiceError::McpError(error)) = denied else { panic!("{denied:?}") };
                assert_eq!(error.code.0, -32021);
                assert_eq!(
                    error.data.unwrap()["requiredCapabilities"],
                    serde_json::json!({ "roots": {} })
                );
            }
        }
        assert_eq!(client.times_asked(), 0, "{era:?}");
    }
}

#[tokio::test]
async fn handler_errors_are_answered_by_their_kind() {
    let tree = Tree::new();
    for era in ERAS {
        let pair = connect(&tree.guard(), &Client::undeclared(), era).await;
        let call = async |tool, path| pair.call(tool, path).await.unwrap();
        assert_eq!(call("fail", "").await, Err("in my own words".into()), "{era:?}");
        // If the handler's error can have any type, the client still sees a refusal of the guard.
        // It does not see the text of any other error.
        assert_eq!(call("any", "x").await, Err(refusal("x", "not_found")), "{era:?}");
        let failed = "the server failed to do this; its operator can see why".to_owned();
        assert_eq!(call("any", "a/in.txt").await, Err(failed), "{era:?}");
        for (tool, code) in [("bad", -32602), ("panic", -32603), ("unwritten", -32603)] {
            let answer = pair.call(tool, "").await;
            let Err(ServiceError::McpError(error)) = answer else {
                panic!("{tool}, {era:?}: {answer:?}")
            };
            assert_eq!(error.code.0, code, "{tool}, {era:?}");
            assert!(!error.message.contains("purpose"), "{}", error.message);
        }
        assert_eq!(pair.read("a/in.txt").await.as_deref(), Ok("a"), "after a panic, {era:?}");
    }
}
