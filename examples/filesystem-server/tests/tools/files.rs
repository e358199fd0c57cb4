//! The tools that read, write and move files.

use std::fs;
use std::sync::Arc;

use mcp_roots_guard::Access;
use serde_json::{Value, json};

use super::client::{Client, Served, params};
use crate::tree::{link, symlinks_are_visible, uri};

#[tokio::test]
async fn tool_definitions_match_the_reference_server() {
    let served = Served::new().await;
    let tools = served.client.list_all_tools().await.unwrap();
    // Name, parameters (`!` marks required ones), and the hints read-only, destructive, idempotent.
    // The reference server has no `respectGitignore` and no `copy_directory`.
    let expected = [
        ("copy_directory", "destination! source!", (false, Some(false), Some(false))),
        ("create_directory", "path!", (false, Some(false), Some(true))),
        ("directory_tree", "excludePatterns path!", (true, None, None)),
        ("edit_file", "dryRun edits! path!", (false, Some(true), Some(false))),
        ("get_file_info", "path!", (true, None, None)),
        ("list_allowed_directories", "", (true, None, None)),
        ("list_directory", "path!", (true, None, None)),
        ("list_directory_with_sizes", "path! sortBy", (true, None, None)),
        ("move_file", "destination! source!", (false, Some(true), Some(false))),
        ("read_file", "head path! tail", (true, None, None)),
        ("read_media_file", "path!", (true, None, None)),
        ("read_multiple_files", "paths!", (true, None, None)),
        ("read_text_file", "head path! tail", (true, None, None)),
        ("search_files", "excludePatterns path! pattern! respectGitignore", (true, None, None)),
        ("write_file", "content! path!", (false, Some(true), Some(true))),
    ];
    let default = |name: &str, key: &str| {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        tool.input_schema["properties"][key]["default"].clone()
    };
    assert_eq!(default("edit_file", "dryRun"), json!(false));
    assert_eq!(default("list_directory_with_sizes", "sortBy"), json!("name"));
    assert_eq!(default("directory_tree", "excludePatterns"), json!([]));
    assert_eq!(default("search_files", "respectGitignore"), json!(false));
    let mut names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
    names.sort();
    assert_eq!(names, expected.map(|(name, ..)| name));
    for (name, parameters, hints) in expected {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        let required = tool.input_schema.get("required").cloned().unwrap_or(json!([]));
        let properties = tool
            .input_schema
            .get("properties")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let mut found: Vec<_> = properties
            .keys()
            .map(|key| {
                let mark =
                    if required.as_array().unwrap().contains(&json!(key)) { "!" } else { "" };
                format!("{key}{mark}")
            })
            .collect();
        found.sort();
        assert_eq!(found.join(" "), parameters, "{name}");
        let is = tool.annotations.as_ref().unwrap();
        assert_eq!(
            (is.read_only_hint.unwrap(), is.destructive_hint, is.idempotent_hint),
            hints,
            "{name}"
        );
        assert_eq!(is.open_world_hint, Some(false), "{name}");
        assert!(tool.title.is_some() && tool.description.is_some(), "{name}");
        let output = tool.output_schema.as_ref().unwrap();
        let content = if name == "read_media_file" { "array" } else { "string" };
        assert_eq!(output["properties"]["content"]["type"], content, "{name}");
    }
}

#[tokio::test]
async fn text_is_read_in_full_or_by_head_or_tail() {
    let served = Served::new().await;
    served.put("three", "a\nb\nc\n");
    served.put("open", "a\nb");
    served.put("crlf", "a\r\nb\r\nc\r\n");
    served.put("cr", "1\r\n2\r\n3\r");
    served.put("empty", "");
    let cases = [
        ("three", json!({}), "a\nb\nc\n"),
        // The count can be any JSON number with a whole value.
        ("three", json!({"head": 2.0}), "a\nb"),
        ("three", json!({"head": 4_294_967_296_u64}), "a\nb\nc"),
        ("three", json!({"tail": 4_294_967_296_u64}), "a\nb\nc"),
        ("three", json!({"tail": 1e300, "head": 0.0}), "a\nb\nc"),
        ("three", json!({"head": 2}), "a\nb"),
        ("three", json!({"tail": 2}), "b\nc"),
        ("three", json!({"head": 9}), "a\nb\nc"),
        ("three", json!({"tail": 9}), "a\nb\nc"),
        ("three", json!({"tail": 3}), "a\nb\nc"),
        ("three", json!({"head": 0, "tail": 1}), "c"),
        ("three", json!({"head": null}), "a\nb\nc\n"),
        ("open", json!({"tail": 1}), "b"),
        ("open", json!({"head": 1}), "a"),
        ("crlf", json!({"head": 2}), "a\r\nb"),
        ("crlf", json!({"tail": 1}), "c"),
        // A `\r` without `\n` is part of the line.
        ("cr", json!({"tail": 1}), "3\r"),
        ("cr", json!({"head": 3}), "1\r\n2\r\n3\r"),
        ("cr", json!({"tail": 2}), "2\r\n3\r"),
        ("empty", json!({"tail": 1}), ""),
        ("empty", json!({"head": 1}), ""),
    ];
    for tool in ["read_text_file", "read_file"] {
        for (name, mut args, expected) in cases.clone() {
            args["path"] = json!(name);
            assert_eq!(served.ok(tool, args.clone()).await, expected, "{tool} {args}");
        }
    }
    let both = served.err("read_text_file", json!({"path": "three", "head": 1, "tail": 1})).await;
    assert_eq!(both, "head and tail cannot be combined");
    for count in [json!(1.5), json!(-1)] {
        let error = served
            .client
            .call_tool(params("read_text_file", &json!({"path": "three", "head": count})))
            .await;
        assert!(format!("{error:?}").contains("whole number"), "{count}: {error:?}");
    }
    let tools = served.client.list_all_tools().await.unwrap();
    let tool = tools.iter().find(|tool| tool.name == "read_text_file").unwrap();
    assert_eq!(tool.input_schema["properties"]["head"]["type"], json!(["integer", "null"]));
}

#[tokio::test]
async fn head_and_tail_of_a_huge_file_are_read_with_bounded_memory() {
    let served = Served::new().await;
    // The file is sparse and has a size of 1 TiB, which does not fit in memory. On Windows, files
    // are not sparse by default, so the file is smaller.
    served.put("huge", "first\nsecond\n");
    let mut huge = fs::OpenOptions::new().write(true).open(served.path("huge")).unwrap();
    huge.set_len(if cfg!(unix) { 1 << 40 } else { 1 << 26 }).unwrap();
    {
        use std::io::{Seek as _, Write as _};
        huge.seek(std::io::SeekFrom::End(0)).unwrap();
        huge.write_all(b"\nlast but one\nlast\n").unwrap();
    }
    assert_eq!(
        served.ok("read_text_file", json!({"path": "huge", "head": 2})).await,
        "first\nsecond"
    );
    assert_eq!(
        served.ok("read_text_file", json!({"path": "huge", "tail": 2})).await,
        "last but one\nlast"
    );
    let (fewer, line) = ("request fewer lines", "it is a single line");
    served.put("line", "x".repeat((10 << 20) + 1));
    let cases = [
        ("huge", json!({"head": 3}), fewer),
        ("huge", json!({"tail": 3}), fewer),
        ("huge", json!({}), "with head or tail"),
        ("line", json!({"head": 1}), line),
        ("line", json!({"tail": 1}), line),
    ];
    for (name, mut args, advice) in cases {
        args["path"] = json!(name);
        let error = served.err("read_text_file", args.clone()).await;
        let what = if advice == "with head or tail" { "" } else { "the lines are " };
        let start = format!("read \"{name}\": {what}larger than 10485760 bytes; ");
        assert!(error.starts_with(&start) && error.contains(advice), "{args}: {error}");
    }
    // The requested lines do not fit in one block.
    let lines: Vec<String> = (0..100_000).map(|line| format!("line {line}")).collect();
    served.put("long", lines.join("\n"));
    assert_eq!(
        served.ok("read_text_file", json!({"path": "long", "tail": 50_000})).await,
        lines[50_000..].join("\n")
    );
    assert_eq!(
        served.ok("read_text_file", json!({"path": "long", "head": 50_000})).await,
        lines[..50_000].join("\n")
    );
}

#[tokio::test]
async fn every_tool_refuses_outside_paths_and_special_files() {
    let served = Served::new().await;
    served.put("file", "x");
    served.put("binary", b"\xff\xfe");
    let missing = served.put_oddities();
    let secret = served.outside.join("secret").display().to_string();
    // On Windows, a URI needs a drive.
    let passwd = if cfg!(windows) { "file:///C:/etc/passwd" } else { "file:///etc/passwd" };
    let with = |path: &str| {
        let edits = json!([{"oldText": "s", "newText": "t"}]);
        [
            ("read_file", json!({"path": path})),
            ("read_text_file", json!({"path": path})),
            ("read_text_file", json!({"path": path, "head": 1})),
            ("read_text_file", json!({"path": path, "tail": 1})),
            ("read_media_file", json!({"path": path})),
            ("edit_file", json!({"path": path, "edits": edits})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("list_directory", json!({"path": path})),
            ("list_directory_with_sizes", json!({"path": path})),
            ("directory_tree", json!({"path": path})),
            ("search_files", json!({"path": path, "pattern": "**"})),
            ("create_directory", json!({"path": path})),
            ("get_file_info", json!({"path": path})),
            ("move_file", json!({"source": "file", "destination": path})),
            ("move_file", json!({"source": path, "destination": "new"})),
        ]
    };
    let outside = "not inside the allowed directories";
    let is_there = |path: &&str| !missing.contains(&path.split('/').next().unwrap());
    for path in [secret.as_str(), "../secret", "outdir/secret", passwd].into_iter().filter(is_there)
    {
        for (tool, args) in with(path) {
            let error = served.err(tool, args.clone()).await;
            assert!(error.ends_with(outside), "{tool} {args}: {error}");
        }
    }
    // Every tool except `move_file` follows a symlink.
    let through = Some("out").filter(is_there).map(with);
    for (tool, args) in through.into_iter().flatten().filter(|(tool, _)| *tool != "move_file") {
        let error = served.err(tool, args.clone()).await;
        assert!(error.ends_with(outside), "{tool} {args}: {error}");
    }
    for (tool, args) in Some("fifo").filter(is_there).map(with).iter().flat_map(|all| &all[..7]) {
        let error = served.err(tool, args.clone()).await;
        assert!(error.ends_with("not a regular file"), "{tool} {args}: {error}");
    }
    let error = served.err("read_text_file", json!({"path": "binary"})).await;
    assert!(error.contains("not UTF-8") && error.contains("read_media_file"), "{error}");
    for lines in ["head", "tail"] {
        let error = served.err("read_text_file", json!({"path": "binary", lines: 1})).await;
        assert!(error.starts_with("read \"binary\": not UTF-8"), "{lines}: {error}");
    }
    assert_eq!(fs::read(served.outside.join("secret")).unwrap(), b"secret");
    assert!(
        served.err("write_file", json!({"path": "x"})).await.contains("missing field `content`")
    );
}

#[tokio::test]
async fn media_is_returned_in_base64_with_its_type() {
    let served = Served::new().await;
    let uri = uri(&served.path("data"));
    let cases = [
        ("a.png", json!({"type": "image", "data": "//4=", "mimeType": "image/png"})),
        ("a.SVG", json!({"type": "image", "data": "//4=", "mimeType": "image/svg+xml"})),
        ("a.mp3", json!({"type": "audio", "data": "//4=", "mimeType": "audio/mpeg"})),
        (
            "data",
            json!({
                "type": "resource",
                "resource": {"uri": uri, "mimeType": "application/octet-stream", "blob": "//4="},
            }),
        ),
    ];
    for (name, expected) in cases {
        served.put(name, b"\xff\xfe");
        let result = served
            .client
            .call_tool(params("read_media_file", &json!({"path": name})))
            .await
            .unwrap();
        assert_eq!(serde_json::to_value(&result.content).unwrap(), json!([expected]), "{name}");
        assert_eq!(result.structured_content, Some(json!({"content": [expected]})), "{name}");
    }
    // The type depends on the resolved name, not on the name of the symlink.
    if symlinks_are_visible() {
        link("a.png".as_ref(), &served.path("link")).unwrap();
        let result = served
            .client
            .call_tool(params("read_media_file", &json!({"path": "link"})))
            .await
            .unwrap();
        assert!(result.content[0].as_image().is_some());
    }
    fs::File::create(served.path("large")).unwrap().set_len((10 << 20) + 1).unwrap();
    assert!(
        served
            .err("read_media_file", json!({"path": "large"}))
            .await
            .ends_with("larger than 10485760 bytes")
    );
}

#[tokio::test]
async fn unreadable_file_does_not_fail_the_others() {
    let served = Served::new().await;
    served.put("a", "one\n");
    served.put("b", "two");
    let text =
        served.ok("read_multiple_files", json!({"paths": ["a", "missing", "../x", "b"]})).await;
    let parts: Vec<_> = text.split("\n---\n").collect();
    assert_eq!(parts[0], "a:\none\n\n");
    assert_eq!(parts[1], "missing: Error - read \"missing\": no such file or directory");
    assert_eq!(parts[2], "../x: Error - read \"../x\": not inside the allowed directories");
    assert_eq!(parts[3], "b:\ntwo\n");
    // All files together have the same size limit as a single file.
    served.put("large", "x".repeat(6 << 20));
    let text = served.ok("read_multiple_files", json!({"paths": ["large", "large", "b"]})).await;
    assert!(
        text.contains("large: Error")
            && text.contains("fill this result")
            && text.ends_with("b:\ntwo\n")
    );
    // If a file is too large for any call, the advice is different.
    served.put("larger", "x".repeat((10 << 20) + 1));
    let text = served.ok("read_multiple_files", json!({"paths": ["b", "larger"]})).await;
    assert!(text.contains("with head or tail") && !text.contains("another call"), "{text}");
    assert!(served.err("read_multiple_files", json!({"paths": []})).await.contains("at least one"));
    let many = vec!["b"; 101];
    assert!(
        served.err("read_multiple_files", json!({"paths": many})).await.contains("at most 100")
    );
}

#[tokio::test]
async fn files_and_directories_are_created_and_moved_without_overwriting() {
    let served = Served::new().await;
    served.ok("create_directory", json!({"path": "a/b"})).await;
    served.ok("create_directory", json!({"path": "a/b"})).await;
    served.ok("write_file", json!({"path": "a/b/c", "content": "é\r\n"})).await;
    assert_eq!(served.content("a/b/c"), "é\r\n");
    served.ok("write_file", json!({"path": "a/b/c", "content": "new"})).await;
    assert_eq!(served.content("a/b/c"), "new");
    assert!(
        served
            .err("write_file", json!({"path": "no/c", "content": ""}))
            .await
            .contains("parent directory does not exist")
    );
    let large = "x".repeat((10 << 20) + 1);
    assert!(
        served
            .err("write_file", json!({"path": "large", "content": large}))
            .await
            .contains("10485760")
    );
    assert!(!served.path("large").exists());

    served.put("other", "other");
    for destination in ["other", "a", "a/b"] {
        let error =
            served.err("move_file", json!({"source": "a/b/c", "destination": destination})).await;
        assert!(error.contains("already exists"), "{destination}: {error}");
    }
    assert_eq!(served.content("other"), "other");
    if symlinks_are_visible() {
        link("nowhere".as_ref(), &served.path("dangling")).unwrap();
        let error =
            served.err("move_file", json!({"source": "other", "destination": "dangling"})).await;
        assert!(error.contains("exists"), "{error}");
    }
    served.ok("move_file", json!({"source": "a/b", "destination": "moved"})).await;
    assert_eq!(served.content("moved/c"), "new");
    assert!(!served.path("a/b").exists());

    let served = Served::to(Client::default(), Access::ReadOnly).await;
    served.put("file", "x");
    for (tool, args) in [
        ("write_file", json!({"path": "file", "content": "y"})),
        ("edit_file", json!({"path": "file", "edits": [{"oldText": "x", "newText": "y"}]})),
        ("create_directory", json!({"path": "new"})),
        ("move_file", json!({"source": "file", "destination": "new"})),
        ("copy_directory", json!({"source": ".", "destination": "new"})),
    ] {
        let error = served.err(tool, args).await;
        assert!(error.contains("read-only") || error.contains("inside"), "{tool}: {error}");
    }
    assert_eq!(served.content("file"), "x");
}

#[tokio::test]
async fn directory_is_copied_and_what_is_left_out_is_named() {
    let served = Served::new().await;
    served.put("from/a", "a");
    served.put("from/sub/deep/b", "bb");
    fs::create_dir(served.path("from/empty")).unwrap();
    let mut summary = "Copied 2 files, 3 directories and 0 symlinks to to".to_owned();
    if symlinks_are_visible() {
        link("sub/deep/b".as_ref(), &served.path("from/inside")).unwrap();
        link("../../outside".as_ref(), &served.path("from/out")).unwrap();
        summary = summary.replace("0 symlinks", "1 symlinks") + "\nNot copied:\n";
    }
    let copy = |from: &str, to: &str| json!({"source": from, "destination": to});
    let copied = served.ok("copy_directory", copy("from", "to")).await;
    assert!(copied.starts_with(&summary), "{copied}");
    assert_eq!(
        (served.content("to/a"), served.content("to/sub/deep/b")),
        ("a".into(), "bb".into())
    );
    assert!(served.path("to/empty").is_dir() && !served.path("to/out").exists());
    if symlinks_are_visible() {
        assert!(copied.ends_with("not inside the allowed directories"), "{copied}");
        assert_eq!(fs::read_link(served.path("to/inside")).unwrap().to_str(), Some("sub/deep/b"));
    }
    for (from, to, expected) in [
        ("from", "to", "exists"),
        ("from", "from/sub/new", "inside the source"),
        ("from", "none/new", "does not exist"),
        ("from/a", "new", "not a directory"),
        ("none", "new", "no such file"),
        ("from", "../new", "not inside the allowed directories"),
        ("../out", "new", "not inside the allowed directories"),
    ] {
        let error = served.err("copy_directory", copy(from, to)).await;
        assert!(error.contains(expected), "{from} {to}: {error}");
    }
    assert!(!served.path("new").exists() && !served.path("from/sub/new").exists());
}

#[tokio::test]
async fn file_root_is_written_and_edited_in_place() {
    let client = Client { roots: Some(Arc::default()), ..Client::default() };
    let roots = client.roots.clone().unwrap();
    let served = Served::to(client, Access::ReadWrite).await;
    served.put("only.txt", "one");
    served.put("other.txt", "other");
    let (only, other) = (served.path("only.txt"), served.path("other.txt"));
    *roots.lock().unwrap() = vec![uri(&only)];
    let allowed = served.ok("list_allowed_directories", json!({})).await;
    assert_eq!(allowed, format!("Allowed directories:\n{} (a file)", only.display()));
    served.ok("write_file", json!({ "path": only, "content": "two" })).await;
    assert_eq!(served.content("only.txt"), "two");
    served
        .ok(
            "edit_file",
            json!({ "path": only, "edits": [{ "oldText": "two", "newText": "three" }] }),
        )
        .await;
    assert_eq!(served.content("only.txt"), "three");
    served.err("write_file", json!({ "path": other, "content": "x" })).await;
    served.err("write_file", json!({ "path": served.path("new.txt"), "content": "x" })).await;
    assert_eq!(served.content("other.txt"), "other");
    assert!(!served.path("new.txt").exists());
}
