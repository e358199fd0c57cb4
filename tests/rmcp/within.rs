//! A handler narrows the roots in force to the directory that a parameter names, in either era.

use serde_json::{Value, json};

use crate::raw_client::{Raw, announcing, answered, call, list, list_changed, tool_text};
use crate::server::{ERAS, Era, Tree, reason};

/// A client that lists `list`, in one era.
struct Client {
    raw: Raw,
    era: Era,
    list: Value,
}

impl Client {
    async fn new(tree: &Tree, era: Era, names: &[&str]) -> Self {
        let mut raw = Raw::connect(&tree.guard());
        if era == Era::Sessions {
            raw.initialize(announcing()).await;
        }
        Self { raw, era, list: list(names.iter().map(|name| tree.uri(name))) }
    }

    fn request(&self, id: u32, workspace: &str, path: &str) -> Value {
        let mut request = call(id, "read_in", path);
        request["params"]["arguments"]["workspace"] = json!(workspace);
        if self.era == Era::Stateless {
            return answered(request, &self.list);
        }
        request
    }

    /// Reads a file in a workspace.
    async fn read(&mut self, workspace: &str, path: &str) -> Result<String, String> {
        self.raw.send(&self.request(1, workspace, path)).await;
        tool_text(&self.raw.answer(&self.list).await)
    }
}

fn refused(operation: &str, path: &str) -> Result<String, String> {
    Err(format!("{operation} {path:?}: {}", reason("outside_roots")))
}

#[tokio::test]
async fn a_workspace_parameter_narrows_the_roots_of_its_request() {
    let tree = Tree::new();
    for era in ERAS {
        let mut client = Client::new(&tree, era, &["op/a", "op/b"]).await;
        for name in ["a", "b", "a"] {
            let (workspace, other) = (tree.path(&format!("op/{name}")), tree.path("op/c/in.txt"));
            assert_eq!(client.read(&workspace, "in.txt").await.as_deref(), Ok(name), "{era:?}");
            assert_eq!(client.read(&workspace, &other).await, refused("read", &other));
            let sibling = if name == "a" { "../b/in.txt" } else { "../a/in.txt" };
            assert_eq!(client.read(&workspace, sibling).await, refused("read", sibling));
        }
        // A relative workspace starts at the first root, which no earlier request has changed.
        assert_eq!(client.read(".", "in.txt").await.as_deref(), Ok("a"), "{era:?}");
    }
}

#[tokio::test]
async fn a_workspace_outside_the_clients_list_is_refused() {
    let tree = Tree::new();
    for era in ERAS {
        let mut client = Client::new(&tree, era, &["op/a"]).await;
        // The server allows `op/b`, but the client did not list it.
        for workspace in ["op/b", "op", "op/none", "secret.txt", "."].map(|path| tree.path(path)) {
            assert_eq!(
                client.read(&workspace, "in.txt").await,
                refused("narrow to", &workspace),
                "{era:?}"
            );
        }
        assert_eq!(client.read(&tree.path("op/a"), "in.txt").await.as_deref(), Ok("a"));
    }
}

#[tokio::test]
async fn a_workspace_is_withdrawn_with_the_list_that_contained_it() {
    let tree = Tree::new();
    let mut client = Client::new(&tree, Era::Sessions, &["op/a"]).await;
    let workspace = tree.path("op/a");
    assert_eq!(client.read(&workspace, "in.txt").await.as_deref(), Ok("a"));
    client.list = list([tree.uri("op/b")]);
    // Without a notification, the cached list is used.
    assert_eq!(client.read(&workspace, "in.txt").await.as_deref(), Ok("a"));
    client.raw.send(&list_changed()).await;
    assert_eq!(client.read(&workspace, "in.txt").await, refused("narrow to", &workspace));
    assert_eq!(client.read(".", "in.txt").await.as_deref(), Ok("b"));
    // In the stateless era, each list is valid for one request.
    let mut client = Client::new(&tree, Era::Stateless, &["op/a"]).await;
    assert_eq!(client.read(&workspace, "in.txt").await.as_deref(), Ok("a"));
    client.list = list([tree.uri("op/b")]);
    assert_eq!(client.read(&workspace, "in.txt").await, refused("narrow to", &workspace));
}
