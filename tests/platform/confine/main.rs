//! Tests of process confinement. Each case runs in a child process of this program, because
//! confinement may require a process with one thread, and libtest's programs have several.
//!
//! `cargo test --features process --test confine [WORD]...` runs the cases whose names contain one
//! of the words, and prints their output.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
#[path = "../../support/operations.rs"]
#[allow(dead_code)] // The suite uses the other items.
mod operations;
#[cfg(target_os = "linux")]
#[path = "../../support/proof.rs"]
mod proof;
#[cfg(target_os = "linux")]
#[path = "../../support/seccomp.rs"]
mod seccomp;
#[path = "../../support/tree.rs"]
#[allow(dead_code)] // The suite uses the other items.
mod tree;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use tree::Tree;

/// A case, which runs in the child process with the path of its tree ([`TREE`]).
type Case = fn(&Path);

#[cfg(target_os = "linux")]
use cases::CASES;

/// The only case on systems other than Linux, which do not have Landlock.
#[cfg(not(target_os = "linux"))]
const CASES: &[(&str, Case)] = &[("confinement_is_unavailable_on_other_systems", |top| {
    use mcp_roots_guard::{Access, Boundary, Confinement};
    let boundary =
        Boundary::builder().directory(top.join("rw"), Access::ReadWrite).build().unwrap();
    let refused = Confinement::default().confine_process(&boundary).unwrap_err();
    assert_eq!(refused.code(), "confinement_unavailable");
    assert_eq!(std::fs::read_to_string(top.join("out/secret")).unwrap(), "secret");
})];

/// The tree of each case. `rw` and `ro` are the allowed directories, unless a case uses others.
const TREE: &str = "file rw/f = inside; dir rw/a; dir rw/b; dir rw/sub
    file ro/f = read; dir ro/sub
    file out/secret = secret; dir out/dir
    file extra/f = extra; dir scratch; file single/one = one; file single/other = other";

/// Tells the child the name of its case and the path of its tree.
const TO_CHILD: &str = "GUARD_TEST_CHILD";

fn main() -> ExitCode {
    if let Ok(told) = std::env::var(TO_CHILD) {
        let (name, top) = told.split_once(' ').expect("a name and a path");
        let (_, case) =
            CASES.iter().find(|(case, _)| *case == name).expect("a case of that name exists");
        case(Path::new(top));
        println!("{DONE}");
        return ExitCode::SUCCESS;
    }
    let (mut words, mut rejected, mut lists) = (Vec::new(), Vec::new(), false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--skip" => rejected.extend(arguments.next()),
            "--list" => lists = true,
            "--test-threads" | "--color" | "--format" => drop(arguments.next()),
            // The other options of libtest have no effect here.
            flag if flag.starts_with('-') => {}
            _ => words.push(argument),
        }
    }
    let contains_any =
        |words: &[String], name: &str| words.iter().any(|word| name.contains(word.as_str()));
    let is_wanted = |name: &&str| {
        (words.is_empty() || contains_any(&words, name)) && !contains_any(&rejected, name)
    };
    let wanted: Vec<_> = CASES.iter().map(|(name, _)| *name).filter(is_wanted).collect();
    if lists {
        for name in wanted {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let failed = wanted.iter().filter(|name| !passes(name)).count();
    let (passed, left_out) = (wanted.len() - failed, CASES.len() - wanted.len());
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; \
         0 measured; {left_out} filtered out"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The last line of a child's output. Without it, the case has not passed.
const DONE: &str = "the case ran to its end";

fn passes(name: &str) -> bool {
    let tree = Tree::new(TREE);
    let mut child = Command::new(std::env::current_exe().unwrap());
    let told = format!("{name} {}", tree.path("").display());
    child.env(TO_CHILD, told).stdin(Stdio::null());
    let child = child.output().unwrap();
    let (output, errors) =
        (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    let passed = child.status.success() && output.ends_with(&format!("{DONE}\n"));
    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    for line in output.lines().filter(|line| *line != DONE) {
        println!("    {line}");
    }
    if !passed {
        println!("---- {name} stdout ----\n{}\n{errors}", child.status);
    }
    passed
}
