//! The tools that list directories, search, and describe files.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt as _;
use std::path::{MAIN_SEPARATOR, MAIN_SEPARATOR_STR};
use std::time::Duration;

use serde_json::{Value, json};

use super::client::Served;

#[tokio::test]
async fn listing_includes_symlinks_fifos_and_odd_names() {
    let served = Served::new().await;
    served.put("sub/inner", "x");
    served.put("small", "12345");
    served.put("large", "x".repeat(2048));
    let mut missing = served.put_oddities();
    if cfg!(windows) {
        missing.push("line\\nbreak");
    } else {
        served.put("line\nbreak", "");
    }
    let there = |text: &str| {
        let lines = text.lines().filter(|line| !missing.iter().any(|name| line.contains(name)));
        lines.collect::<Vec<_>>().join("\n")
    };
    let names = "[FILE] dangling\n[FILE] fifo\n[FILE] large\n[FILE] \"line\\nbreak\"\n[FILE] out\n\
                 [FILE] outdir\n[FILE] small\n[DIR] sub";
    assert_eq!(served.ok("list_directory", json!({"path": "."})).await, there(names));
    let listed = served.ok("list_directory_with_sizes", json!({"path": "."})).await;
    let expected = "\
[FILE] dangling
[FILE] fifo
[FILE] large                             2.00 KB
[FILE] \"line\\nbreak\"                         0 B
[FILE] out
[FILE] outdir
[FILE] small                                 5 B
[DIR] sub

Total: 7 files, 1 directories
Combined size: 2.00 KB";
    let files = format!("Total: {} files", 7 - missing.len());
    assert_eq!(listed, there(expected).replace("Total: 7 files", &files));
    let by_size =
        served.ok("list_directory_with_sizes", json!({"path": ".", "sortBy": "size"})).await;
    let first: Vec<_> =
        by_size.lines().take(3).map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(
        first,
        ["large", "small", if missing.contains(&"dangling") { "sub" } else { "dangling" }]
    );
    assert!(
        served
            .err("list_directory_with_sizes", json!({"path": ".", "sortBy": "date"}))
            .await
            .contains("unknown variant")
    );
    assert!(
        served.err("list_directory", json!({"path": "small"})).await.contains("not a directory")
    );
    #[cfg(windows)]
    if !crate::tree::symlinks_are_visible() {
        return crate::tree::report_not_shown(
            "lists::listing_includes_symlinks_fifos_and_odd_names",
            "Wine scans the whole directory for each name",
        );
    }
    for number in 0..10_001 {
        fs::write(served.path(&format!("sub/{number}")), "").unwrap();
    }
    let text = served.ok("list_directory", json!({"path": "sub"})).await;
    assert_eq!(text.lines().count(), 10_001);
    assert!(text.ends_with("only 10000 of them are listed"));
    assert!(
        served
            .err("directory_tree", json!({"path": "sub"}))
            .await
            .contains("more than 10000 entries")
    );
}

#[tokio::test]
async fn tree_is_json_without_excluded_entries() {
    let served = Served::new().await;
    served.put("src/a/deep.rs", "");
    served.put("src/b.rs", "");
    served.put("src/z", "");
    served.put("target/debug/x", "");
    fs::create_dir(served.path("empty")).unwrap();
    let missing = served.put_oddities();
    let file = |name: &str| json!({"name": name, "type": "file"});
    let directory = |name: &str, children: Value| {
        let kind = "directory";
        json!({"name": name, "type": kind, "children": children})
    };
    let odd = [
        file("dangling"),
        directory("empty", json!([])),
        file("fifo"),
        file("out"),
        file("outdir"),
    ];
    let odd: Vec<_> =
        odd.into_iter().filter(|node| !missing.contains(&node["name"].as_str().unwrap())).collect();
    let src = directory(
        "src",
        json!([directory("a", json!([file("deep.rs")])), file("b.rs"), file("z")]),
    );
    let target = directory("target", json!([directory("debug", json!([file("x")]))]));
    // Each case has exclusion patterns and the expected entries, without the odd ones.
    let cases = [
        (json!([]), json!([src, target])),
        (json!(["target"]), json!([src])),
        (json!(["debug"]), json!([src, directory("target", json!([]))])),
        (json!(["*.rs", "target/*"]), json!([src, directory("target", json!([]))])),
        (
            json!(["**/*.rs", "target"]),
            json!([directory("src", json!([directory("a", json!([])), file("z")]))]),
        ),
        (json!(["src/{a,z}", "t?rget"]), json!([directory("src", json!([file("b.rs")]))])),
    ];
    for (exclude, left) in cases {
        let text =
            served.ok("directory_tree", json!({"path": ".", "excludePatterns": exclude})).await;
        let tree: Vec<Value> = serde_json::from_str(&text).unwrap();
        let (found_odd, rest) = tree.split_at(odd.len());
        assert_eq!((found_odd, &json!(rest)), (&odd[..], &left), "{exclude}");
        assert!(text.contains("\n  {\n    \"name\": \"empty\""), "{text}");
    }
    assert!(
        served
            .err("directory_tree", json!({"path": ".", "excludePatterns": ["[a"]}))
            .await
            .contains("glob")
    );
}

#[tokio::test]
async fn search_finds_paths_by_glob() {
    let served = Served::new().await;
    for name in
        ["top.rs", "src/a.rs", "src/deep/b.rs", "src/deep/c.txt", ".hidden/d.rs", "target/e.rs"]
    {
        served.put(name, "");
    }
    let missing = served.put_oddities();
    // Pattern, excluded patterns, expected matches.
    let cases: [(&str, Value, &[&str]); 11] = [
        ("*.rs", json!([]), &["top.rs"]),
        (
            "**/*.rs",
            json!([]),
            &[".hidden/d.rs", "src/a.rs", "src/deep/b.rs", "target/e.rs", "top.rs"],
        ),
        ("**/*.rs", json!(["target"]), &[".hidden/d.rs", "src/a.rs", "src/deep/b.rs", "top.rs"]),
        ("**/*.rs", json!(["deep", "*.rs", ".*/**"]), &["src/a.rs", "target/e.rs"]),
        ("**/*.rs", json!(["**/deep/**", "**/target/**"]), &[".hidden/d.rs", "src/a.rs", "top.rs"]),
        ("src/*", json!([]), &["src/a.rs", "src/deep"]),
        ("**/deep", json!([]), &["src/deep"]),
        ("{top,src/a}.rs", json!([]), &["src/a.rs", "top.rs"]),
        ("**/out*", json!([]), &["out", "outdir"]),
        ("**/secret", json!([]), &[]),
        (
            "*",
            json!(["src", "target", ".hidden"]),
            &["dangling", "fifo", "out", "outdir", "top.rs"],
        ),
    ];
    for (pattern, exclude, found) in cases {
        let args = json!({"path": ".", "pattern": pattern, "excludePatterns": exclude});
        let text = served.ok("search_files", args.clone()).await;
        let found = found.iter().filter(|name| !missing.contains(name));
        let expected: Vec<_> = found
            .map(|name| served.path(&name.replace('/', MAIN_SEPARATOR_STR)).display().to_string())
            .collect();
        let expected =
            if expected.is_empty() { "No matches found".into() } else { expected.join("\n") };
        assert_eq!(text, expected, "{args}");
    }
    // Other tools accept the resulting paths.
    let path = served.ok("search_files", json!({"path": "src", "pattern": "deep/*.txt"})).await;
    assert_eq!(served.ok("read_text_file", json!({"path": path})).await, "");
    assert!(
        served.err("search_files", json!({"path": ".", "pattern": "{a"})).await.contains("glob")
    );
    let many = vec!["x"; 101];
    let args = json!({"path": ".", "pattern": "*", "excludePatterns": many});
    assert!(served.err("search_files", args).await.contains("at most 100"));
    for number in 0..1_001 {
        served.put(&format!("many/{number}"), "");
    }
    let text = served.ok("search_files", json!({"path": "many", "pattern": "*"})).await;
    assert_eq!(text.lines().count(), 1_001);
    assert!(text.ends_with("only 1000 are listed; narrow the pattern"), "{text}");
}

#[tokio::test]
async fn search_omits_ignored_files_only_on_request() {
    let served = Served::new().await;
    served.put(".gitignore", "target/\n*.log\n");
    served.put("src/.gitignore", "!keep.log\n");
    for name in ["a.log", "src/a.rs", "src/b.log", "src/keep.log", "target/b.rs"] {
        served.put(name, "");
    }
    let all = ["a.log", "src/a.rs", "src/b.log", "src/keep.log", "target/b.rs"].as_slice();
    // Searched directory, arguments, expected matches.
    let cases = [
        (".", json!({}), all),
        (".", json!({"respectGitignore": false}), all),
        (".", json!({"respectGitignore": true}), &["src/a.rs", "src/keep.log"]),
        // Rules of the directories above apply.
        ("src", json!({"respectGitignore": true}), &["src/a.rs", "src/keep.log"]),
        ("target", json!({}), &["target/b.rs"]),
    ];
    for (path, mut args, found) in cases {
        args["path"] = json!(path);
        args["pattern"] = json!("**/*.{log,rs}");
        let text = served.ok("search_files", args.clone()).await;
        let expected: Vec<_> = found
            .iter()
            .map(|name| served.path(&name.replace('/', MAIN_SEPARATOR_STR)).display().to_string())
            .collect();
        assert_eq!(text, expected.join("\n"), "{args}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn unlistable_directory_is_reported_and_skipped() {
    let served = Served::new().await;
    served.put("closed/x.rs", "");
    served.put("open/y.rs", "");
    fs::set_permissions(served.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(served.path("closed")).is_ok() {
        return; // A privileged user can list any directory.
    }
    let tree = served.ok("directory_tree", json!({"path": "."})).await;
    let tree: Value = serde_json::from_str(&tree).unwrap();
    assert_eq!(tree[0]["children"], json!([]));
    assert!(tree[0]["error"].as_str().unwrap().contains("permission denied"));
    assert_eq!(tree[1]["children"][0]["name"], "y.rs");
    let found = served.ok("search_files", json!({"path": ".", "pattern": "**/*.rs"})).await;
    assert!(found.ends_with("open/y.rs\nDirectories that could not be listed: 1"), "{found}");
    fs::set_permissions(served.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn too_deep_directory_is_reported_and_skipped() {
    #[cfg(windows)]
    if !crate::tree::symlinks_are_visible() {
        return crate::tree::report_not_shown(
            "lists::too_deep_directory_is_reported_and_skipped",
            "Wine does not report a final path of more than 260 characters",
        );
    }
    let served = Served::new().await;
    served.put(&format!("{}x.rs", "d/".repeat(130)), "");
    served.put("y.rs", "");
    // The JSON is nested too deeply to parse here.
    let tree = served.ok("directory_tree", json!({"path": "."})).await;
    assert_eq!(tree.matches("\"children\"").count(), 128);
    assert_eq!(tree.matches("nested more than 128 directories deep").count(), 1);
    assert_eq!(tree.matches("\"error\"").count(), 1);
    assert!(tree.contains("\n    \"name\": \"y.rs\""), "{tree}");
    let found = served.ok("search_files", json!({"path": ".", "pattern": "**/*.rs"})).await;
    let end = format!("{MAIN_SEPARATOR}y.rs\nDirectories that could not be listed: 1");
    assert!(found.ends_with(&end), "{found}");
}

#[tokio::test]
async fn file_info_and_allowed_directories_are_returned() {
    let served = Served::new().await;
    served.put("file", "12345");
    #[cfg(unix)]
    fs::set_permissions(served.path("file"), fs::Permissions::from_mode(0o640)).unwrap();
    let time = std::time::UNIX_EPOCH + Duration::from_millis(1_000_000_000_250);
    let file = fs::File::options().append(true).open(served.path("file")).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time)).unwrap();
    let text = served.ok("get_file_info", json!({"path": "file"})).await;
    let lines: Vec<_> = text.lines().collect();
    let keys: Vec<_> = lines.iter().map(|line| line.split_once(": ").unwrap().0).collect();
    assert_eq!(
        keys,
        ["size", "created", "modified", "accessed", "isDirectory", "isFile", "permissions"]
    );
    let permissions = if cfg!(unix) { "permissions: 640" } else { "permissions: unknown" };
    let others = [
        "size: 5",
        "modified: 2001-09-09T01:46:40.25Z",
        "isDirectory: false",
        "isFile: true",
        permissions,
    ];
    for line in others {
        assert!(lines.contains(&line), "{line}: {text}");
    }
    assert!(served.ok("get_file_info", json!({"path": "."})).await.contains("isDirectory: true"));
    let allowed = served.ok("list_allowed_directories", json!({})).await;
    assert_eq!(allowed, format!("Allowed directories:\n{}", served.directory.display()));
}
