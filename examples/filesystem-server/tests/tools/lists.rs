//! The tools that list directories, search, and describe files.

use std::fs;
use std::path::MAIN_SEPARATOR;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::client::served::Served;

#[test]
fn listings_include_symlinks_fifos_and_odd_names() {
    let served = Served::new();
    let mut client = served.client();
    let mut missing = served.put_oddities();
    if cfg!(windows) {
        missing.push("line\\nbreak");
    } else {
        served.put("line\nbreak", "");
    }
    served.put("z", "");
    let names = ["dangling", "fifo", "line\\nbreak", "out", "outdir", "z"];
    let there: Vec<_> = names.into_iter().filter(|name| !missing.contains(name)).collect();
    let label = |name: &&str| match *name {
        "line\\nbreak" => "[FILE] \"line\\nbreak\"".to_owned(),
        name => format!("[FILE] {name}"),
    };
    let expected: Vec<_> = there.iter().map(label).collect();
    assert_eq!(client.said("list_directory", &json!({"path": "."})), expected.join("\n"));
    // Only regular files have a size.
    let sizes = client.said("list_directory_with_sizes", &json!({"path": "."}));
    for line in sizes.lines().take(there.len()) {
        let is_file = line.contains("break") || line.starts_with("[FILE] z");
        assert_eq!(line.ends_with(" 0 B"), is_file, "{line}");
    }
    let tree: Vec<Value> =
        serde_json::from_str(&client.said("directory_tree", &json!({"path": "."}))).unwrap();
    assert!(tree.iter().all(|node| node["type"] == "file") && tree.len() == there.len());
    let found = client.said("search_files", &json!({"path": ".", "pattern": "**"}));
    assert_eq!(found.lines().count(), there.len());
}

#[cfg(unix)]
#[test]
fn unlistable_directory_is_reported_and_skipped() {
    use std::os::unix::fs::PermissionsExt as _;
    let served = Served::new();
    let mut client = served.client();
    served.put("closed/x.rs", "");
    served.put("open/y.rs", "");
    fs::set_permissions(served.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(served.path("closed")).is_ok() {
        return; // A privileged user can list any directory.
    }
    let tree = client.said("directory_tree", &json!({"path": "."}));
    let tree: Value = serde_json::from_str(&tree).unwrap();
    assert_eq!(tree[0]["children"], json!([]));
    assert!(tree[0]["error"].as_str().unwrap().contains("permission denied"));
    assert_eq!(tree[1]["children"][0]["name"], "y.rs");
    let found = client.said("search_files", &json!({"path": ".", "pattern": "**/*.rs"}));
    assert!(found.ends_with("open/y.rs\nDirectories that could not be listed: 1"), "{found}");
    fs::set_permissions(served.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn too_deep_directory_is_reported_and_skipped() {
    #[cfg(windows)]
    if !crate::tree::symlinks_are_visible() {
        return crate::tree::report_not_shown(
            "lists::too_deep_directory_is_reported_and_skipped",
            "Wine does not report a final path of more than 260 characters",
        );
    }
    let served = Served::new();
    let mut client = served.client();
    served.put(&format!("{}x.rs", "d/".repeat(130)), "");
    served.put("y.rs", "");
    // The JSON is nested too deeply to parse here.
    let tree = client.said("directory_tree", &json!({"path": "."}));
    assert_eq!(tree.matches("\"children\"").count(), 128);
    assert_eq!(tree.matches("nested more than 128 directories deep").count(), 1);
    assert_eq!(tree.matches("\"error\"").count(), 1);
    assert!(tree.contains("\n    \"name\": \"y.rs\""), "{tree}");
    let found = client.said("search_files", &json!({"path": ".", "pattern": "**/*.rs"}));
    let end = format!("{MAIN_SEPARATOR}y.rs\nDirectories that could not be listed: 1");
    assert!(found.ends_with(&end), "{found}");
}

#[test]
fn file_info_has_times_and_permissions() {
    let served = Served::new();
    let path = served.put("file", "12345");
    let mut expected = vec!["size: 5", "modified: 2001-09-09T01:46:40.25Z", "permissions: unknown"];
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        expected[2] = "permissions: 640";
    }
    let time = UNIX_EPOCH + Duration::from_millis(1_000_000_000_250);
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time)).unwrap();
    let text = served.client().said("get_file_info", &json!({"path": "file"}));
    let keys: Vec<_> = text.lines().map(|line| line.split_once(": ").unwrap().0).collect();
    let all = ["size", "created", "modified", "accessed", "isDirectory", "isFile", "permissions"];
    assert_eq!(keys, all);
    for line in expected.drain(..) {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}

#[test]
fn results_and_patterns_are_limited() {
    #[cfg(windows)]
    if !crate::tree::symlinks_are_visible() {
        return crate::tree::report_not_shown(
            "lists::results_and_patterns_are_limited",
            "Wine scans the whole directory for each name",
        );
    }
    let served = Served::new();
    let mut client = served.client();
    for number in 0..10_001 {
        served.put(&format!("many/{number}"), "");
    }
    for number in 0..6_000 {
        served.put(&format!("long/{number:0>200}"), "");
    }
    let wild: Vec<_> = (0..100).map(|number| format!("*a???{number}")).collect();
    let long = vec!["x".repeat(2049); 2];
    let excluding =
        |excluded: &[String]| json!({"path": "many", "pattern": "*", "excludePatterns": excluded});
    for (tool, arguments, lines, end) in [
        ("list_directory", json!({"path": "many"}), 10_001, "only 10000 of them are listed"),
        ("search_files", json!({"path": "many", "pattern": "*"}), 1_001, "; narrow the pattern"),
        ("directory_tree", json!({"path": "many"}), 1, "exclude entries with excludePatterns"),
        ("list_directory", json!({"path": "long"}), 5_042, "\nThe result is truncated"),
        ("list_directory_with_sizes", json!({"path": "long"}), 4_792, "Combined size: 0 B"),
        ("directory_tree", json!({"path": "long"}), 1, "exclude entries with excludePatterns"),
        ("search_files", excluding(&wild), 1, "more than 256 wildcards (*, ?, [ or {)"),
        ("search_files", excluding(&long), 1, "the patterns are longer than 4096 bytes"),
        ("search_files", excluding(&vec!["x".into(); 101]), 1, "split the call"),
    ] {
        let said = client.said(tool, &arguments);
        assert!(said.ends_with(end), "{end}: {}", said.len());
        assert_eq!(said.lines().count(), lines, "{end}");
        assert!(said.len() <= (1 << 20) + 200, "{end}");
    }
}
