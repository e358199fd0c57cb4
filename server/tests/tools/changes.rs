//! Changes of files at the same time as others, and large ones.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::served::ServedDirectory;

#[test]
fn concurrent_appends_are_all_kept() {
    let served = ServedDirectory::new();
    let mut client = served.client();
    let lines: Vec<_> = (0..50).map(|line| format!("{line:0>9}\n")).collect();
    let append = |line: &String| json!({ "path": "log", "content": line });
    let begun: Vec<_> =
        lines.iter().map(|line| client.begin_call("append_file", &append(line))).collect();
    for id in begun {
        assert_ne!(client.end(id).unwrap()["isError"], true);
    }
    let content = served.content("log").unwrap();
    let mut found: Vec<_> = content.split_inclusive('\n').collect();
    found.sort_unstable();
    assert_eq!(found, lines);
}

/// A set of changes of several files is made completely or not at all.
#[test]
fn concurrent_changes_of_several_files_are_all_made() {
    let served = ServedDirectory::new();
    let mut client = served.client();
    let lines = (0..20).map(|line| format!("<{line}>\n")).collect::<Vec<_>>().concat();
    for name in ["a", "b"] {
        served.put(name, &lines);
    }
    let begun: Vec<_> = (0..20)
        .map(|line| {
            let (old, new) = (format!("<{line}>"), format!("[{line}]"));
            let edits = json!([{ "oldText": old, "newText": new }]);
            let files = ["a", "b"].map(|path| json!({ "path": path, "edits": edits }));
            let update = |path| format!("*** Update File: {path}\n-{old}\n+{new}\n");
            let patch = format!("*** Begin Patch\n{}{}*** End Patch", update("b"), update("a"));
            let id = if line % 2 == 0 {
                client.begin_call("edit_files", &json!({ "files": files }))
            } else {
                client.begin_call("apply_patch", &json!({ "patch": patch }))
            };
            (id, new)
        })
        .collect();
    for (id, new) in begun {
        let text = client.end(id).unwrap();
        assert_ne!(text["isError"], true, "{new}: {text}");
    }
    let all = lines.replace('<', "[").replace('>', "]");
    assert_eq!(["a", "b"].map(|name| served.content(name).unwrap()), [all.clone(), all]);
}

/// Another process replaces a directory by a symlink that leads outside, again and again.
#[cfg(unix)]
#[test]
fn no_change_follows_a_directory_that_becomes_a_symlink() {
    let served = ServedDirectory::new();
    let mut client = served.client();
    let [sub, was] = ["sub", "was"].map(|name| served.path(name));
    fs::create_dir(&sub).unwrap();
    let patch = "*** Begin Patch\n*** Add File: sub/new\n+x\n*** Update File: sub/secret\n-secret\n\
                 +x\n*** End Patch";
    let edits = json!([{ "oldText": "secret", "newText": "x" }]);
    let calls = [
        ("append_file", json!({ "path": "sub/secret", "content": "x" })),
        ("edit_files", json!({ "files": [{ "path": "sub/secret", "edits": edits }] })),
        ("apply_patch", json!({ "patch": patch })),
        ("delete_path", json!({ "path": "sub/secret" })),
        ("delete_path", json!({ "path": "sub", "recursive": true })),
    ];
    let (outside, end) = (served.outside.clone(), Instant::now() + Duration::from_secs(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < end {
                let _ = fs::create_dir(&sub);
                let _ = fs::write(sub.join("secret"), "secret");
                let _ = fs::rename(&sub, &was);
                let _ = std::os::unix::fs::symlink(&outside, &sub);
                let _ = fs::remove_file(&sub);
                let _ = fs::remove_dir_all(&was);
            }
        });
        while Instant::now() < end {
            for (tool, arguments) in &calls {
                let _ = client.call(tool, arguments);
            }
        }
    });
    let names = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["secret"]);
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret");
}

/// Each of these would take minutes if its cost rose with the square of the size.
#[test]
fn many_replacements_in_a_large_file_take_seconds() {
    let served = ServedDirectory::new();
    let mut client = served.client();
    let began = Instant::now();
    let count = 100_000;
    let all = json!([{ "oldText": "a", "newText": "b", "replaceAll": true }]);
    for (old, new) in [("a,", "b,"), ("a\r\n", "b\r\n"), ("a,,,,,,,,,,,,,,,,,,,,,,,,\r\n", "b,")] {
        served.put("file", old.repeat(count));
        client.call("edit_file", &json!({ "path": "file", "edits": all })).unwrap();
        assert!(served.content("file").unwrap().starts_with(new));
    }
    served.put("file", " a\n".repeat(count));
    let lines = json!([{ "oldText": "\ta\n", "newText": "\tb\n", "replaceAll": true }]);
    client.call("edit_file", &json!({ "path": "file", "edits": lines })).unwrap();
    assert_eq!(served.content("file").unwrap(), " b\n".repeat(count));
    let hunks = "@@\n- b\n+c\n".repeat(count);
    let patch = format!("*** Begin Patch\n*** Update File: file\n{hunks}*** End Patch");
    client.call("apply_patch", &json!({ "patch": patch })).unwrap();
    assert_eq!(served.content("file").unwrap(), "c\n".repeat(count));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
