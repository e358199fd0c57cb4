//! The `edit_file` tool.

#[cfg(unix)]
use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use super::client::Served;

/// Pairs of old and new texts.
type Edits = &'static [(&'static str, &'static str)];

#[tokio::test]
async fn edit_returns_a_diff_and_preserves_line_endings() {
    let served = Served::new().await;
    // Content, edits, expected content.
    let cases: [(&str, Edits, &str); 12] = [
        ("a\nb\nc\n", &[("b", "B")], "a\nB\nc\n"),
        ("a\nb\nc\n", &[("a\nb\n", ""), ("c", "d\ne")], "d\ne\n"),
        ("a\na\n", &[("a", "x")], "x\na\n"),
        // All lines of the file have the same line ending, which may differ from that of the edit.
        ("a\r\nb\r\nc\r\n", &[("a\nb", "x\ny\nz")], "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\n", &[("a\r\nb\r\n", "x\r\n")], "x\r\n"),
        ("a\nb\n", &[("a\r\nb", "x\r\ny")], "x\ny\n"),
        // With mixed endings, untouched lines keep theirs, and new lines have the most common one.
        ("a\r\nb\nc\r\nd\r\n", &[("c", "C\nCC")], "a\r\nb\nC\r\nCC\r\nd\r\n"),
        // If two lines have the same text, the one that is not replaced keeps its ending.
        ("a\r\na\nb\n", &[("a\n", "")], "a\nb\n"),
        ("a\na\r\nb\n", &[("a\n", "")], "a\r\nb\n"),
        ("a\r\n\tb\nc\n", &[("a\n b", "x\n b")], "x\n\tb\nc\n"),
        // The white space differs, and there is no newline at the end.
        ("fn a() {\n    b();\n}", &[("fn a() {\nb();", "fn a() {\nc();")], "fn a() {\n    c();\n}"),
        // Each edit applies to the result of the previous one.
        ("a", &[("a", "b"), ("b", "$&c")], "$&c"),
    ];
    for (content, edits, expected) in cases {
        let edits: Vec<_> =
            edits.iter().map(|(old, new)| json!({"oldText": old, "newText": new})).collect();
        served.put("file", content);
        #[cfg(unix)]
        fs::set_permissions(served.path("file"), fs::Permissions::from_mode(0o640)).unwrap();
        let dry =
            served.ok("edit_file", json!({"path": "file", "edits": edits, "dryRun": true})).await;
        assert_eq!(served.content("file"), content, "dry run of {edits:?}");
        let done = served.ok("edit_file", json!({"path": "file", "edits": edits})).await;
        assert_eq!(served.content("file"), expected, "{content:?} {edits:?}");
        assert_eq!(dry, done);
        #[cfg(unix)]
        assert_eq!(fs::metadata(served.path("file")).unwrap().permissions().mode() & 0o777, 0o640);
    }
    served.put("file", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let diff = served
        .ok("edit_file", json!({"path": "file", "edits": [{"oldText": "5", "newText": "```"}]}))
        .await;
    let expected =
        "````diff\n--- file\n+++ file\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+```\n 6\n 7\n 8\n````\n";
    assert_eq!(diff, expected);
}

#[tokio::test]
async fn failed_edit_reports_the_reason_and_leaves_the_file_unchanged() {
    let served = Served::new().await;
    let edit = |old: &str, new: &str| json!({"oldText": old, "newText": new});
    let many = vec![edit("a", "a"); 501];
    let cases = [
        (json!([edit("a", "x"), edit("zz", "y")]), "edit 2 of 2: oldText is not in the file"),
        (json!([edit("b\nzz", "y")]), "its first line matches line 2"),
        (json!([edit("", "y")]), "oldText is empty"),
        (json!([edit("a", &"x".repeat(5 << 20))]), "would be larger than 4194304 bytes"),
        (json!(many), "at most 500"),
    ];
    for (edits, why) in cases {
        served.put("file", "a\nb\n");
        let error = served.err("edit_file", json!({"path": "file", "edits": edits})).await;
        assert!(error.contains(why), "{why}: {error}");
        assert_eq!(served.content("file"), "a\nb\n", "{why}");
    }
    assert!(
        served
            .ok("edit_file", json!({"path": "file", "edits": []}))
            .await
            .contains("do not change")
    );
    served.put("large", vec![b'\n'; (4 << 20) + 1]);
    assert!(
        served
            .err("edit_file", json!({"path": "large", "edits": [edit("a", "b")]}))
            .await
            .contains("larger than")
    );
    // The limit applies to the size of the file to write, in which lines end with `\r\n`.
    served.put("crlf", "\r\n".repeat((2 << 20) - 1) + "a");
    let larger =
        served.err("edit_file", json!({"path": "crlf", "edits": [edit("a", "b\nb")]})).await;
    assert!(larger.contains("would be larger than 4194304 bytes"), "{larger}");
    // A long diff is truncated, but the edit is applied completely.
    served.put("long", "a\n".repeat(200_000));
    let new = "b\n".repeat(200_000);
    let diff = served
        .ok("edit_file", json!({"path": "long", "edits": [edit(&"a\n".repeat(200_000), &new)]}))
        .await;
    assert!(diff.len() < 300_000 && diff.contains("The diff is truncated"));
    assert_eq!(served.content("long"), new);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_edits_are_all_applied() {
    #[cfg(windows)]
    if !crate::tree::symlinks_are_visible() {
        return crate::tree::report_not_shown(
            "edits::concurrent_edits_are_all_applied",
            "Wine does not replace a file that is open elsewhere",
        );
    }
    let served = Served::new().await;
    let lines = |open, close| {
        (0..20).map(|line| format!("{open}{line}{close}")).collect::<Vec<_>>().join("\n")
    };
    served.put("file", lines('<', '>'));
    let mut handles = Vec::new();
    for line in 0..20 {
        let edits = json!([{"oldText": format!("<{line}>"), "newText": format!("[{line}]")}]);
        handles.push(served.start("edit_file", json!({"path": "file", "edits": edits})).await);
    }
    for handle in handles {
        handle.await_response().await.unwrap();
    }
    assert_eq!(served.content("file"), lines('[', ']'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_that_take_too_long_are_refused() {
    let served = Served::new().await;
    served.put("file", "x\n".repeat(2 << 20));
    let edits = vec![json!({"oldText": "x", "newText": "x"}); 499];
    let edits: Vec<_> =
        edits.into_iter().chain([json!({"oldText": "y", "newText": "z"})]).collect();
    let error = served.err("edit_file", json!({"path": "file", "edits": edits})).await;
    assert!(error.contains("split the call"), "{error}");
    assert_eq!(served.content("file").len(), 4 << 20);
}
