//! Directories that cannot be listed.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::client::served::Served;

#[test]
fn unlistable_directory_is_reported_and_skipped() {
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
