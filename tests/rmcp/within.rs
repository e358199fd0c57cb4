//! A handler narrows the roots in force to the directory that a parameter names, in either era.

use serde_json::{Value, json};

use crate::raw_client::{Raw, announcing, answered, call, list, list_changed, tool_text};
use crate::server::{ERAS, Era, Tree, reason};

/// Reads a file in a workspace, for a client that lists `roots`.
async fn read_in(
    raw: &mut Raw,
    era: Era,
    workspace: &str,
    path: &str,
    roots: &Value,
) -> Result<String, String> {
    let mut request = call(1, "read_in", path);
    request["params"]["arguments"]["workspace"] = json!(workspace);
    let request = if era == Era::Stateless { answered(request, roots) } else { request };
    raw.send(&request).await;
    tool_text(&raw.answer(roots).await)
}

#[tokio::test]
async fn a_workspace_parameter_narrows_the_roots_of_its_request() {
    let tree = Tree::new();
    let [op, a, b, c] = ["op", "op/a", "op/b", "op/c"].map(|path| tree.path(path));
    let in_c = tree.path("op/c/in.txt");
    let refused =
        |what: &str, path: &str| Err(format!("{what} {path:?}: {}", reason("outside_roots")));
    for era in ERAS {
        let mut raw = Raw::connect(&tree.guard());
        if era == Era::Sessions {
            raw.initialize(announcing()).await;
        }
        let roots = list(["op/a", "op/b"].map(|path| tree.uri(path)));
        for (workspace, path, expected) in [
            (&*a, "in.txt", Ok("a".to_owned())),
            (&*b, "in.txt", Ok("b".to_owned())),
            (&*b, "../a/in.txt", refused("read", "../a/in.txt")),
            (&*b, &*in_c, refused("read", &in_c)),
            // The server allows these directories, but the client did not list them.
            (&*c, "in.txt", refused("narrow to", &c)),
            (&*op, "a/in.txt", refused("narrow to", &op)),
            // A relative workspace starts at the first root, which no earlier request has changed.
            (".", "in.txt", Ok("a".to_owned())),
        ] {
            let read = read_in(&mut raw, era, workspace, path, &roots).await;
            assert_eq!(read, expected, "{era:?}: {path} in {workspace}");
        }
        // A workspace is withdrawn with the list that contained it.
        let roots = list([tree.uri("op/b")]);
        if era == Era::Sessions {
            assert_eq!(read_in(&mut raw, era, &a, "in.txt", &roots).await.as_deref(), Ok("a"));
            raw.send(&list_changed()).await;
        }
        let read = read_in(&mut raw, era, &a, "in.txt", &roots).await;
        assert_eq!(read, refused("narrow to", &a), "{era:?}");
    }
}
