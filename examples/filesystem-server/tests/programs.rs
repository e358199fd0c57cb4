//! The tools that run programs: git, and those of `--run`.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests prepare files without the guard")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[allow(dead_code)] // Other tests use the other functions.
mod client;
#[path = "../../../tests/support/tree.rs"]
#[allow(dead_code)] // The guard's own tests use the other functions.
mod tree;

use serde_json::json;

use client::served::Served;
use client::{Client, Declares, Era, run};

#[test]
fn programs_have_the_results_in_the_data() {
    client::cases::check(include_str!("data/programs.txt"), Era::Session, Declares::Nothing);
}

#[test]
fn tools_that_run_programs_are_offered_only_on_request() {
    let served = Served::new();
    let directory = served.directory.to_str().unwrap();
    for (options, expected) in [
        (&[][..], &[][..]),
        (&["--tools", "git"], &["git_diff", "git_log", "git_status"]),
        (&["--run", "sh", "--run", "cat", "--run-as-root"], &["run"]),
    ] {
        let mut client = Client::start(&[&[directory], options].concat());
        let tools = client.request("tools/list", json!({})).unwrap();
        let names = tools["tools"].as_array().unwrap().iter();
        let names = names.map(|tool| tool["name"].as_str().unwrap());
        let mut found: Vec<_> =
            names.filter(|name| name.starts_with("git_") || *name == "run").collect();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[test]
fn options_that_cannot_be_met_are_refused() {
    let served = Served::new();
    // A program that clients can write.
    let tool = served.put("tool", "#!/bin/sh\n");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let directory = served.directory.to_str().unwrap();
    for line in include_str!("data/options.txt").lines().filter(|line| !line.starts_with('#')) {
        let (options, text) = line.split_once(" | ").unwrap();
        let options: Vec<_> =
            options.split(' ').map(|option| option.replace("$D", directory)).collect();
        let (success, error) = run(&options.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!success && error.contains(text), "{line}: {error}");
    }
    if rustix::process::geteuid().is_root() {
        let (success, error) = run(&[directory, "--run", "sh"]);
        assert!(!success && error.contains("run the server as another user"), "{error}");
    }
}

#[test]
fn allowed_program_runs_in_a_confined_server() {
    let served = Served::new();
    let directory = served.directory.to_str().unwrap();
    let options = [directory, "--run", "sh", "--run-as-root", "--confine"];
    let secret = served.outside.join("secret");
    let script = format!("cp /usr/bin/id made; ./made -u; cat {}", secret.display());
    let arguments = json!({ "program": "sh", "arguments": ["-c", script], "path": directory });
    let text = Client::start(&options).said("run", &arguments);
    assert!(
        text.contains(&format!("stdout:\n{}\n\nstderr", rustix::process::geteuid().as_raw()))
            && text.contains("Permission denied"),
        "{text}"
    );
}
