//! The options for directories, aliases and names, as a client sees their effect.

use std::sync::Arc;

use serde_json::json;

use super::client::{Client, Served};
use crate::tree::uri;

fn client_with_roots() -> Client {
    Client { roots: Some(Arc::default()), ..Client::default() }
}

#[tokio::test]
async fn always_directory_is_in_force_whatever_the_client_lists() {
    let options = ["$D", "--always", "$O", "--read-only-dir", "$O"];
    let served = Served::configured(client_with_roots(), &options).await;
    served.put("work/file", "work");
    served.put("file", "not listed");
    let (work, missing) = (served.path("work"), served.path("missing"));
    let directory = served.directory.display();
    let outside = format!("{} (read-only, always in force)", served.outside.display());
    let secret = served.outside.join("secret");
    // The client's list, the directories in force, the content of the relative path `file`.
    let cases = [
        (vec![&*work], format!("{}\n{outside}", work.display()), Some("work")),
        (vec![&*served.directory], format!("{directory}\n{outside}"), Some("not listed")),
        (vec![&*served.outside, &*work], format!("{outside}\n{}", work.display()), None),
        (vec![], outside.clone(), None),
        (vec![&*missing], outside.clone(), None),
    ];
    for (list, in_force, content) in &cases {
        served.list(list.iter().map(|path| uri(path))).await;
        let allowed = served.ok("list_allowed_directories", json!({})).await;
        assert_eq!(allowed, format!("Allowed directories:\n{in_force}"), "{list:?}");
        assert_eq!(served.ok("read_text_file", json!({ "path": secret })).await, "secret");
        let error = served.err("write_file", json!({ "path": secret, "content": "x" })).await;
        assert!(error.contains("read-only"), "{list:?}: {error}");
        let request = json!({ "path": "file" });
        match content {
            Some(content) => assert_eq!(&served.ok("read_text_file", request).await, content),
            None => drop(served.err("read_text_file", request).await),
        }
        if !list.contains(&&*served.directory) {
            served.err("read_text_file", json!({ "path": served.path("file") })).await;
        }
    }
}

#[tokio::test]
async fn empty_list_means_what_the_option_says() {
    for (options, content) in [
        (&["$D"][..], None),
        (&["$D", "--empty", "deny"], None),
        (&["$D", "--empty", "allow"], Some("inside")),
    ] {
        let served = Served::configured(client_with_roots(), options).await;
        served.put("file", "inside");
        let request = json!({ "path": "file" });
        served.list([]).await;
        match content {
            Some(content) => {
                assert_eq!(served.ok("read_text_file", request.clone()).await, content);
            }
            None => drop(served.err("read_text_file", request.clone()).await),
        }
        // A list with an entry is not empty, even if the entry grants nothing.
        served.list([uri(&served.outside)]).await;
        served.err("read_text_file", request).await;
    }
}

#[tokio::test]
async fn names_that_could_run_code_are_read_only_by_default() {
    let names = [".git/config", ".vscode/tasks.json", ".mcp.json"];
    let served = Served::configured(Client::default(), &["$D"]).await;
    let free = Served::configured(Client::default(), &["$D", "--no-protect"]).await;
    for name in names {
        served.put(name, "old");
        assert_refuses_changes(&served, name).await;
        free.put(name, "old");
        free.ok("write_file", json!({ "path": name, "content": "new" })).await;
        assert_eq!(free.content(name), "new");
    }
    for path in [".git/hooks", ".git/new/hooks", "new/.git/hooks", "new/.GIT"] {
        let error = served.err("create_directory", json!({ "path": path })).await;
        assert!(error.contains("protected"), "{path}: {error}");
    }
    assert!(!served.path("new").exists());
    let client = Served::configured(client_with_roots(), &["$D"]).await;
    client.put(".git/config", "old");
    client.list([uri(&client.path(".git"))]).await;
    let error = client.err("write_file", json!({ "path": "config", "content": "new" })).await;
    assert!(error.contains("protected"), "{error}");
    let allowed = client.ok("list_allowed_directories", json!({})).await;
    assert!(allowed.ends_with(".git (read-only)"), "{allowed}");
    // A directory with the content of a repository cannot become one.
    served.put("prepared/hooks/pre-commit", "#!/bin/sh");
    let paths = json!({ "source": "prepared", "destination": "sub/.git" });
    served.ok("create_directory", json!({ "path": "sub" })).await;
    assert!(served.err("move_file", paths.clone()).await.contains("protected"));
    assert!(served.path("prepared/hooks/pre-commit").exists());
    assert!(served.err("copy_directory", paths).await.contains("protected"));
    // A protected name in a directory is left out of a copy.
    served.put("with/.mcp.json", "old");
    let copy = json!({ "source": "with", "destination": "copied" });
    let copied = served.ok("copy_directory", copy).await;
    assert!(copied.contains("Not copied") && copied.contains("protected"), "{copied}");
    assert!(served.path("copied").is_dir() && !served.path("copied/.mcp.json").exists());
}

#[tokio::test]
async fn option_protect_makes_names_read_only() {
    for options in [
        &["$D", "--protect", "*.lock", "--protect", "/keys"][..],
        &["--no-protect", "--protect", "*.lock", "--protect", "/keys", "$D"],
    ] {
        let served = Served::configured(Client::default(), options).await;
        for name in ["sub/Cargo.lock", "keys/sub/key"] {
            served.put(name, "old");
            assert_refuses_changes(&served, name).await;
        }
        // The pattern with a slash at its beginning applies only to the top.
        served.put("sub/keys/key", "old");
        served.ok("write_file", json!({ "path": "sub/keys/key", "content": "new" })).await;
    }
}

/// Checks that a file whose content is `old` can be read, and that no tool can change it.
async fn assert_refuses_changes(served: &Served, name: &str) {
    assert_eq!(served.ok("read_text_file", json!({ "path": name })).await, "old");
    served.put("source", "new");
    for (tool, args) in [
        ("write_file", json!({ "path": name, "content": "new" })),
        ("edit_file", json!({ "path": name, "edits": [{ "oldText": "old", "newText": "new" }] })),
        ("move_file", json!({ "source": name, "destination": "moved" })),
        ("move_file", json!({ "source": "source", "destination": name })),
    ] {
        let error = served.err(tool, args).await;
        assert!(error.contains("protected"), "{tool} {name}: {error}");
    }
    assert_eq!(served.content(name), "old");
    assert!(served.path("source").exists() && !served.path("moved").exists());
}

#[tokio::test]
async fn option_deny_refuses_names() {
    let options = ["$D", "--deny", ".env*", "--deny", "/private"];
    let served = Served::configured(Client::default(), &options).await;
    for name in ["file", ".env.local", "sub/.ENV", "private/key"] {
        served.put(name, "content");
    }
    // Windows removes `..` from the text, so the last path does not go through the denied name.
    let names = [".env.local", ".env.missing", "sub/.ENV", "private/key", "private/../file"];
    for name in names.into_iter().take(if cfg!(windows) { 4 } else { 5 }) {
        for tool in ["read_text_file", "get_file_info", "list_directory", "write_file"] {
            let error = served.err(tool, json!({ "path": name, "content": "new" })).await;
            assert!(error.contains("protected: the server allows no access"), "{tool}: {error}");
        }
    }
    let listing = served.ok("list_directory", json!({ "path": "." })).await;
    assert_eq!(listing, "[FILE] file\n[DIR] sub");
    let tree = served.ok("directory_tree", json!({ "path": "." })).await;
    let found = served.ok("search_files", json!({ "path": ".", "pattern": "**" })).await;
    for text in [tree, found] {
        assert!(text.contains("file") && text.contains("sub"), "{text}");
        assert!(!text.to_lowercase().contains(".env") && !text.contains("private"), "{text}");
    }
    // The pattern with a slash at its beginning applies only to the top.
    served.put("sub/private/key", "shown");
    assert_eq!(served.ok("read_text_file", json!({ "path": "sub/private/key" })).await, "shown");
}

/// As for a server in a container, and for a client on another system.
#[cfg(unix)]
#[tokio::test]
async fn client_can_use_the_path_under_which_it_knows_a_directory() {
    // The alias, the client's root, the path shown to the client, another path of its file.
    let cases = if cfg!(windows) {
        vec![("/home/me/proj", "/home/me/proj/work", "/home/me/proj/work", "/home/me/proj/work")]
    } else {
        vec![
            ("/nonexistent/proj", "/nonexistent/proj/work", "/nonexistent/proj/work", "."),
            (r"C:\proj", "/c%3A/proj/work", r"c:\proj\work", "C:/proj/work"),
        ]
    };
    for (alias, root, shown, other) in cases {
        let alias = format!("{alias}=$D");
        let served = Served::configured(client_with_roots(), &["$D", "--alias", &alias]).await;
        served.put("work/file", "work");
        served.put("other", "not listed");
        served.list([format!("file://{root}")]).await;
        let allowed = served.ok("list_allowed_directories", json!({})).await;
        assert_eq!(allowed, format!("Allowed directories:\n{shown}"));
        let canonical = served.path("work").display().to_string();
        for directory in [shown, other, &canonical] {
            let request = json!({ "path": format!("{directory}/file") });
            assert_eq!(served.ok("read_text_file", request).await, "work", "{directory}");
        }
        for outside in [shown.replace("work", "other"), served.path("other").display().to_string()]
        {
            let error = served.err("read_text_file", json!({ "path": outside })).await;
            assert!(error.contains("not inside the allowed directories"), "{error}");
        }
    }
}
