//! The definitions of all tools, and the tools that read and write files.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};

use serde_json::{Value, json};

use crate::client::served::ServedDirectory;

/// The name of a tool, its parameters with defaults (`!` marks required ones), its hints, and the
/// type of its content.
fn definition(tool: &Value) -> String {
    let (empty, none) = (serde_json::Map::new(), Vec::new());
    let properties = tool["inputSchema"]["properties"].as_object().unwrap_or(&empty);
    let required = tool["inputSchema"]["required"].as_array().unwrap_or(&none);
    let parameter = |(name, schema): (&String, &Value)| match schema.get("default") {
        Some(default) => format!(" {name}={default}"),
        None if required.contains(&json!(name)) => format!(" {name}!"),
        None => format!(" {name}"),
    };
    let parameters: String = properties.iter().map(parameter).collect();
    let hint = |hint: &str| match tool["annotations"][format!("{hint}Hint")].as_bool() {
        Some(true) => format!(" {hint}"),
        Some(false) => format!(" -{hint}"),
        None => String::new(),
    };
    let hints = ["readOnly", "destructive", "idempotent", "openWorld"].map(hint).concat();
    assert!(tool["title"].is_string() && tool["description"].is_string(), "{tool}");
    let content = &tool["outputSchema"]["properties"]["content"]["type"];
    format!("{}:{parameters} |{hints} | {content}", tool["name"].as_str().unwrap())
}

/// The reference server has only `head`, `tail`, `sortBy`, `excludePatterns` and `dryRun` as optional
/// parameters, and no `copy_directory`.
#[test]
fn tool_definitions_match_the_reference_server() {
    let listed = ServedDirectory::new().client().request("tools/list", json!({})).unwrap();
    let mut found: Vec<_> = listed["tools"].as_array().unwrap().iter().map(definition).collect();
    found.sort();
    assert_eq!(found.join("\n") + "\n", include_str!("../data/definitions.txt"));
}

#[test]
fn large_files_are_read_in_part_or_refused() {
    let served = ServedDirectory::new();
    let mut client = served.client();
    // The file is sparse and has a size of 1 TiB, which does not fit in memory. On Windows, files
    // are not sparse by default, so the file is smaller.
    served.put("huge", "first\nsecond\n");
    let mut huge = fs::OpenOptions::new().write(true).open(served.path("huge")).unwrap();
    huge.set_len(if cfg!(unix) { 1 << 40 } else { 1 << 26 }).unwrap();
    huge.seek(SeekFrom::End(0)).unwrap();
    huge.write_all(b"\nlast but one\nlast\n").unwrap();
    served.put("line", "x".repeat((10 << 20) + 1));
    let lines: Vec<String> = (0..100_000).map(|line| format!("line {line}")).collect();
    served.put("long", lines.join("\n"));
    let many: Vec<_> = (1..=500_000).map(|line| format!("line {line}")).collect();
    served.put("many", many.join("\n") + "\n");
    for (arguments, expected) in [
        (json!({"path": "huge", "head": 2}), "first\nsecond"),
        (json!({"path": "huge", "tail": 2}), "last but one\nlast"),
        (json!({"path": "long", "tail": 50_000}), &lines[50_000..].join("\n")),
        (json!({"path": "long", "head": 50_000}), &lines[..50_000].join("\n")),
        (json!({"path": "long", "offset": 50_001}), &lines[50_000..].join("\n")),
        (json!({"path": "huge", "offset": 2, "limit": 1}), "second"),
        (json!({"path": "many", "offset": 400_000, "limit": 2}), "line 400000\nline 400001"),
        (json!({"path": "many", "offset": 400_000, "column": 6, "length": 3}), "400"),
        (json!({"path": "many", "tail": 1, "lineNumbers": true}), "500000\tline 500000"),
        (
            json!({"path": "many", "head": 1, "withVersion": true}),
            "line 1\nversion: none, because the file is larger than 4194304 bytes",
        ),
        (json!({"path": "line", "column": 10 << 20, "length": 9}), "xx"),
    ] {
        assert_eq!(client.call("read_text_file", &arguments).unwrap(), expected, "{arguments}");
    }
    served.put("medium", "x".repeat(5 << 18));
    let (fewer, line) =
        ("larger than 2097152 bytes; request fewer", "column and length read a part");
    served.put("repeated", "x\n".repeat(2 << 20));
    served.put("small", "a\n");
    for (tool, arguments, why) in [
        ("read_text_file", json!({"path": "huge", "head": 3}), fewer),
        ("read_text_file", json!({"path": "huge", "tail": 3}), fewer),
        ("read_text_file", json!({"path": "huge"}), "with offset and limit"),
        ("read_text_file", json!({"path": "line", "head": 1}), line),
        ("read_text_file", json!({"path": "line", "tail": 1}), line),
        ("read_text_file", json!({"path": "huge", "offset": 3, "limit": 1}), line),
        ("read_text_file", json!({"path": "many", "offset": 2}), fewer),
        (
            "read_text_file",
            json!({"path": "many", "offset": 500_001}),
            "last line of the file is 500000",
        ),
        ("read_text_file", json!({"path": "line", "column": 2}), "request a smaller length"),
        (
            "read_text_file",
            json!({"path": "repeated", "lineNumbers": true, "head": 500_000}),
            fewer,
        ),
        ("read_media_file", json!({"path": "line"}), "larger than 10485760 bytes"),
        ("read_multiple_files", json!({"paths": vec!["b"; 101]}), "at most 100"),
    ] {
        let error = client.call(tool, &arguments).unwrap_err();
        assert!(error.contains(why), "{why}: {error}");
    }
    // All files together have the same size limit as a single file.
    let paths = json!({"paths": ["medium", "medium", "line", "small"]});
    let text = client.call("read_multiple_files", &paths).unwrap();
    let parts: Vec<_> = text.split("\n---\n").collect();
    assert!(parts[1].contains("medium: Error") && parts[1].contains("another call"));
    assert!(parts[2].contains("with offset and limit") && parts[3] == "small:\na\n\n");
}

#[test]
fn changes_of_large_files_are_bounded_and_whole() {
    let served = ServedDirectory::new();
    let mut client = served.client();
    served.put("line", "x".repeat((10 << 20) + 1));
    let content = "x".repeat((10 << 20) + 1);
    let more = |old: &str, new: &str| json!([{ "oldText": old, "newText": new }]);
    let all =
        |old: &str, new: &str| json!([{ "oldText": old, "newText": new, "replaceAll": true }]);
    served.put("edited", "a\n");
    // The limit applies to the size of the file to write, in which lines end with `\r\n`.
    served.put("crlf", "\r\n".repeat((2 << 20) - 1) + "a");
    served.put("repeated", "x\n".repeat(2 << 20));
    let mut slow = vec![json!({"oldText": "x", "newText": "x", "occurrence": 1}); 499];
    slow.push(json!({"oldText": "y", "newText": "z"}));
    let edits = vec![json!({"oldText": "a", "newText": "a"}); 501];
    served.put("spaced", "\tx\n".repeat(90_000));
    served.put("most", "x".repeat(4 << 20));
    let patch = |path: &str, hunk: &str| {
        format!("*** Begin Patch\n*** Update File: {path}\n@@\n{hunk}\n*** End Patch")
    };
    let (added, hunk) = ("+x", " x\n".repeat(100_000) + "-y");
    let blank = format!("-{0}w{0}\n+z", " ".repeat(100_000));
    for (tool, arguments, why) in [
        ("write_file", json!({"path": "new", "content": content}), "10485760"),
        ("edit_file", json!({"path": "line", "edits": more("x", "y")}), "larger than"),
        ("edit_file", json!({"path": "edited", "edits": edits}), "at most 500"),
        ("edit_file", json!({"path": "edited", "edits": more("a", &content)}), "would be larger"),
        ("edit_file", json!({"path": "crlf", "edits": more("a", "b\nb")}), "would be larger"),
        ("edit_file", json!({"path": "repeated", "edits": slow}), "split the call"),
        ("edit_file", json!({"path": "repeated", "edits": more("x", "y")}), "2097152 times"),
        ("edit_file", json!({"path": "repeated", "edits": all("x", "y")}), "too many for one edit"),
        ("edit_file", json!({"path": "repeated", "edits": all(" x\n", "y")}), "split the call"),
        ("edit_file", json!({"path": "spaced", "edits": all("x", &content)}), "would be larger"),
        ("edit_file", json!({"path": "spaced", "edits": all(" x", &content)}), "would be larger"),
        (
            "edit_files",
            json!({"files": vec![json!({"path": "edited", "edits": []}); 65]}),
            "most 64",
        ),
        ("edit_files", json!({"files": [{"path": "edited", "edits": edits}]}), "at most 500"),
        ("append_file", json!({"path": "edited", "content": content}), "10485760"),
        ("apply_patch", json!({"patch": content}), "larger than 4194304 bytes"),
        ("apply_patch", json!({"patch": patch("line", "-x\n+y")}), "larger than"),
        ("apply_patch", json!({"patch": patch("most", added)}), "would be larger"),
        ("apply_patch", json!({"patch": patch("repeated", &hunk)}), "too complex"),
        ("apply_patch", json!({"patch": patch("spaced", &blank)}), "are not in the file"),
    ] {
        let error = client.call(tool, &arguments).unwrap_err();
        assert!(error.contains(why), "{why}: {error}");
    }
    assert_eq!((served.content("edited").unwrap(), served.content("new")), ("a\n".into(), None));
    // A long diff is truncated, but the edit is applied completely.
    served.put("old", "a\n".repeat(200_000));
    let (old, new) = ("a\n".repeat(200_000), "b\n".repeat(200_000));
    let diff = client.call("edit_file", &json!({"path": "old", "edits": more(&old, &new)}));
    assert!(diff.unwrap().ends_with("The diff is truncated\n"));
    assert_eq!(served.content("old").unwrap(), new);
}

#[cfg(unix)]
#[test]
fn edits_keep_the_mode_and_concurrent_ones_are_all_applied() {
    let served = ServedDirectory::new();
    let mut client = served.client();
    let lines = |open, close| {
        (0..20).map(|line| format!("{open}{line}{close}")).collect::<Vec<_>>().join("\n")
    };
    let path = served.put("file", lines('<', '>'));
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let permissions = fs::metadata(&path).unwrap().permissions();
    let begun: Vec<_> = (0..20)
        .map(|line| {
            let edits = json!([{"oldText": format!("<{line}>"), "newText": format!("[{line}]")}]);
            client.begin_call("edit_file", &json!({"path": "file", "edits": edits}))
        })
        .collect();
    for id in begun {
        client.end(id).unwrap();
    }
    assert_eq!(served.content("file").unwrap(), lines('[', ']'));
    assert_eq!(fs::metadata(&path).unwrap().permissions(), permissions);
}

/// Models read the first form of a text that they get, so none is sent without its content.
#[test]
fn text_over_the_limit_is_refused_with_the_way_to_read_a_part() {
    let served = ServedDirectory::new();
    let line = "x".repeat(1023) + "\n";
    served.put("most", line.repeat(2048));
    served.put("large", line.repeat(2049));
    let mut client = served.client();
    let read = |arguments: Value| ("read_text_file", arguments);
    let (tool, whole) = read(json!({ "path": "most" }));
    assert_eq!(client.call(tool, &whole).unwrap().len(), 2 << 20);
    for (arguments, advice) in [
        (json!({ "path": "large" }), "offset and limit, head or tail; to find lines"),
        (json!({ "path": "large", "head": 2049 }), "fewer lines with head, tail or limit"),
    ] {
        let refused = client.call("read_text_file", &arguments).unwrap_err();
        assert!(refused.contains("larger than 2097152 bytes"), "{refused}");
        assert!(refused.contains(advice), "{refused}");
    }
    let part = client.call("read_text_file", &json!({ "path": "large", "tail": 2 })).unwrap();
    assert_eq!(part.len(), 2 * 1024 - 1);
    let several = client.said("read_multiple_files", &json!({ "paths": ["most", "large"] }));
    assert!(several.contains("large: Error - larger than 2097152 bytes; to read a part"));
}

/// The schema of 2024-11-05 has no audio content.
#[test]
fn audio_is_a_resource_in_the_first_revision() {
    let served = ServedDirectory::new();
    served.put("a.mp3", "sound");
    for (revision, kind) in [("2024-11-05", "resource"), ("2025-03-26", "audio")] {
        let mut client = served.client();
        client.initialize(revision);
        let call = json!({ "name": "read_media_file", "arguments": { "path": "a.mp3" } });
        let content = client.request("tools/call", call).unwrap()["content"][0].take();
        assert_eq!(content["type"], kind, "{revision}");
        let content = content.get("resource").unwrap_or(&content);
        assert_eq!(content["mimeType"], "audio/mpeg", "{revision}");
    }
}
