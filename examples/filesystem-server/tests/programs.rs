//! The tools that run programs: git, and those of `--run`.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests prepare files without the guard")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[allow(dead_code)] // Other tests use the other functions.
mod client;
#[path = "../../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use client::{Client, run};

/// A directory `work` with the repository `repo`, and `secret` beside it.
struct Tree {
    top: PathBuf,
    _keep: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let keep = tempfile::Builder::new().prefix("guard-").tempdir().unwrap();
        let top = dunce::canonicalize(keep.path()).unwrap();
        let tree = Self { top, _keep: keep };
        tree.sh(
            "mkdir -p work/repo outside; echo SECRET >outside/secret; cd work/repo
             git init -q -b main; git config user.name a; git config user.email a@example.com
             echo one >f; git add f; git commit -q -m first; echo two >f; git add f; echo three >f",
        );
        tree
    }

    fn sh(&self, script: &str) {
        let mut shell = Command::new("sh");
        let shell = shell.args(["-ec", script]).current_dir(&self.top);
        let done = shell.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn path(&self, below: &str) -> String {
        self.top.join(below).to_str().unwrap().to_owned()
    }

    fn server(&self, options: &[&str]) -> Client {
        let run_as_root: &[_] = if options.contains(&"--run") { &["--run-as-root"] } else { &[] };
        Client::start(&[&[self.path("work").as_str()], options, run_as_root].concat())
    }
}

fn tools(server: &mut Client) -> Vec<String> {
    let tools = server.request("tools/list", json!({})).unwrap();
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    tools["tools"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn tools_that_run_programs_are_offered_only_on_request() {
    let tree = Tree::new();
    let offered = |options: &[&str]| {
        let names = tools(&mut tree.server(options));
        let runs = |name: &&String| name.starts_with("git_") || *name == "run";
        let mut found: Vec<_> = names.iter().filter(runs).cloned().collect();
        found.sort();
        found
    };
    assert_eq!(offered(&[]), [""; 0]);
    assert_eq!(offered(&["--tools", "git"]), ["git_diff", "git_log", "git_status"]);
    assert_eq!(offered(&["--run", "sh", "--run", "cat"]), ["run"]);
    let work = tree.path("work");
    for (options, text) in [
        (&["--run", "no-such-program", "--run-as-root"][..], "no such program"),
        (&["--run", "sh", "--run-as-root", "--run-extra", "/no/such"], "no such file or directory"),
        (&["--run-as-root"], "--run <PROGRAM>"),
        (&["--run", "sh", "--deny", ".env"], "cannot be used with"),
        (&["--tools", "git", "--deny", ".env"], "cannot be used with"),
        (&["--tools", "svn"], "invalid value"),
    ] {
        let (success, error) = run(&[&[work.as_str()], options].concat());
        assert!(!success && error.contains(text), "{options:?}: {error}");
    }
    // A program that clients can write.
    tree.sh("printf '#!/bin/sh\\n' >work/tool; chmod +x work/tool");
    let (success, error) = run(&[&work, "--run", &tree.path("work/tool"), "--run-as-root"]);
    assert!(!success && error.contains("clients can write to"), "{error}");
    if rustix::process::geteuid().is_root() {
        let (success, error) = run(&[&work, "--run", "sh"]);
        assert!(!success && error.contains("run the server as another user"), "{error}");
    }
}

#[test]
fn git_tools_show_status_changes_and_commits() {
    let tree = Tree::new();
    let mut server = tree.server(&["--tools", "git"]);
    let repository = tree.path("work/repo");
    let mut git = |tool: &str, mut arguments: Value| {
        arguments["path"] = arguments.get("path").cloned().unwrap_or(json!(repository));
        server.said(tool, &arguments)
    };
    let status = git("git_status", json!({}));
    assert!(status.contains("On branch main") && status.contains("modified:   f"), "{status}");
    let diff = git("git_diff", json!({}));
    assert!(diff.contains("-two\n+three"), "{diff}");
    let diff = git("git_diff", json!({ "staged": true }));
    assert!(diff.contains("-one\n+two"), "{diff}");
    let diff = git("git_diff", json!({ "revision": "HEAD" }));
    assert!(diff.contains("-one\n+three"), "{diff}");
    let log = git("git_log", json!({ "maxCount": 1, "revision": "main" }));
    assert!(log.contains("first") && log.contains("Author: a <a@example.com>"), "{log}");
    for (tool, arguments, expected) in [
        ("git_log", json!({ "revision": "--output=stolen" }), "not a revision"),
        ("git_diff", json!({ "revision": "--no-index" }), "not a revision"),
        ("git_diff", json!({ "revision": "no-such" }), "fatal: "),
        ("git_log", json!({ "revision": "f" }), "fatal: "),
        ("git_status", json!({ "path": tree.path("outside") }), "not inside the allowed"),
        (
            "git_status",
            json!({ "path": tree.path("work") }),
            r#"run "git": the program failed; exit status: 128, standard error: "fatal: not a git repository"#,
        ),
        ("git_status", json!({ "path": tree.path("work/repo/f") }), "not a directory"),
    ] {
        let text = git(tool, arguments.clone());
        assert!(text.contains(expected), "{tool} {arguments}: {text}");
    }
    assert!(!Path::new(&tree.path("work/repo/stolen")).exists());
}

/// Each row makes plain git show `SECRET`, which only files outside contain.
#[test]
fn git_reads_nothing_outside() {
    for (setup, tool) in [
        ("git config core.worktree ../../../outside/other", "git_diff"),
        ("rm -r .git; echo 'gitdir: ../../outside/other/.git' >.git", "git_log"),
        ("rm -r .git; ln -s ../../outside/other/.git .git", "git_log"),
        ("rm -r .git; cd ../..; git init -q; git add outside/secret; $commit", "git_log"),
        ("echo ../../../outside/other/.git >.git/commondir", "git_log"),
        (
            "cd .git; echo $PWD/../../../outside/other/.git/objects >objects/info/alternates
             git -C ../../../outside/other rev-parse HEAD >refs/heads/main",
            "git_log",
        ),
        (
            "printf '[log]\\ndate = format:SECRET\\n' >../../outside/config
             git config include.path ../../../outside/config",
            "git_log",
        ),
        (
            "echo 'SECRET <a@example.com>' >../../outside/mailmap
             git config mailmap.file ../../outside/mailmap",
            "git_log",
        ),
        (
            "mkdir .git/rebase-merge; cd .git/rebase-merge; touch interactive git-rebase-todo
             ln -s ../../../../outside/secret done",
            "git_status",
        ),
    ] {
        let tree = Tree::new();
        tree.sh(&format!(
            "commit='git -c user.name=a -c user.email=a@example.com commit -q -m SECRET'
             git init -q -b main outside/other; cd outside/other
             echo SECRET >f; git add f; $commit; cd ../../work/repo\n{setup}"
        ));
        let mut server = tree.server(&["--tools", "git"]);
        let text = server.said(tool, &json!({ "path": tree.path("work/repo") }));
        assert!(!text.contains("SECRET"), "{setup}: {text}");
        let mut plain = Command::new("git");
        let plain = plain.arg(&tool["git_".len()..]).current_dir(tree.path("work/repo"));
        let plain = plain.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        let shown = String::from_utf8_lossy(&plain.stdout);
        assert!(shown.contains("SECRET"), "{setup}: {plain:?}");
    }
}

#[test]
fn git_tools_do_not_update_the_index() {
    for tool in ["git_status", "git_diff", "git_log"] {
        let tree = Tree::new();
        // The recorded times differ from those of the unchanged file.
        tree.sh("cd work/repo; git add f; touch -d 2000-01-01 f");
        let index = || fs::read(tree.path("work/repo/.git/index")).unwrap();
        let before = index();
        let mut server = tree.server(&["--tools", "git"]);
        let text = server.said(tool, &json!({ "path": tree.path("work/repo") }));
        assert!(!text.contains("fatal") && index() == before, "{tool}: {text}");
        tree.sh("cd work/repo; git status");
        assert_ne!(index(), before, "plain git updates the index");
    }
}

#[test]
fn allowed_program_runs_inside_the_roots() {
    let tree = Tree::new();
    for options in [&["--run", "sh"][..], &["--run", "sh", "--confine"]] {
        let mut server = tree.server(options);
        let mut sh = |script: &str, more: Value| {
            let mut arguments =
                json!({ "program": "sh", "arguments": ["-c", script], "path": tree.path("work") });
            for (name, value) in more.as_object().unwrap() {
                arguments[name] = value.clone();
            }
            server.said("run", &arguments)
        };
        let text = sh("pwd; echo made >made; cat made; echo problem >&2; exit 3", json!({}));
        let expected =
            format!("exit status: 3\nstdout:\n{}\nmade\n\nstderr:\nproblem\n", tree.path("work"));
        assert_eq!(text, expected);
        let secret = tree.path("outside/secret");
        let text = sh(&format!("cat {secret}; ls {}", tree.path("outside")), json!({}));
        assert!(!text.contains("SECRET") && text.contains("Permission denied"), "{text}");
        let text = sh(&format!("echo x >{secret}; rm {secret}"), json!({}));
        assert!(text.contains("Permission denied"), "{text}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "SECRET\n");
        let text = sh("echo begun; sleep 1000", json!({ "timeoutSeconds": 1 }));
        assert_eq!(text, "stopped at its time limit\nstdout:\nbegun\n");
        let text = sh("yes", json!({}));
        assert!(text.starts_with("stopped because it wrote too much"), "{}", &text[..60]);
        let text = sh("true", json!({ "timeoutSeconds": 601 }));
        assert_eq!(text, "timeoutSeconds must be from 1 to 600");
        let text = sh("true", json!({ "program": "cat" }));
        assert_eq!(text, "\"cat\" is not one of the allowed programs: sh");
        let text = sh("true", json!({ "path": tree.path("outside") }));
        assert!(text.contains("not inside the allowed directories"), "{text}");
        // A program in the roots runs only through an allowed one, and stays inside, too.
        let script =
            format!("printf '#!/bin/sh\\ncat {secret}\\n' >tool; chmod +x tool; ./tool; echo done");
        let text = sh(&script, json!({}));
        assert!(text.contains("done") && !text.contains("SECRET"), "{text}");
    }
}

#[test]
fn extra_of_programs_is_readable_and_not_writable() {
    let tree = Tree::new();
    let outside = tree.path("outside");
    let mut server = tree.server(&["--run", "sh", "--run-extra", &outside]);
    let script = format!("cat {outside}/secret; echo x >{outside}/new");
    let arguments =
        json!({ "program": "sh", "arguments": ["-c", script], "path": tree.path("work") });
    let text = server.said("run", &arguments);
    assert!(text.contains("SECRET") && text.contains("Permission denied"), "{text}");
    assert!(!Path::new(&outside).join("new").exists());
}
