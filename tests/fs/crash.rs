//! A process that is killed at any system call of a write leaves each file old or new, and no name
//! except the documented temporary file.
//!
//! The test binary runs itself again as a traced child. The tracer counts the system calls of one
//! operation and kills the child at the start of the call with a given number. This is repeated for
//! every number. The same stops show which calls a write makes to be durable.
#![cfg(target_arch = "x86_64")]

use std::fs;
use std::io::Write as _;
use std::path::Path;

use mcp_roots_guard::{Access, ContentHash, Durability, Precondition, Result, Roots, WriteOptions};
use nix::libc::{self, c_long};

use crate::TO_CHILD;
use crate::support::one_step::OneStep as _;
use crate::support::traced::{Decision, TracedChild, be_traced, between_stops};
use crate::support::tree::Tree;

const CHILD: &str = "fs::crash::operations_of_the_killed_child_succeed";

/// An operation, with each file that it changes.
struct Scenario {
    name: &'static str,
    operation: fn(&Roots) -> Result<()>,
    files: &'static [FileStates],
}

/// A path, and its content before and after the operation.
type FileStates = (&'static str, Option<&'static str>, Option<&'static str>);

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "atomic file",
        operation: |roots| {
            let mut file = roots.atomic_file("a", WriteOptions::default())?;
            file.write_all(b"new ")?;
            file.write_all(b"content")?;
            file.commit()
        },
        files: &[("a", Some("old"), Some("new content"))],
    },
    Scenario {
        name: "change set",
        operation: |roots| {
            let mut changes = roots.change_set();
            let if_unchanged = WriteOptions::default()
                .precondition(Precondition::Unchanged(ContentHash::of(b"old")));
            changes.write("a", "new content", if_unchanged)?;
            let options = WriteOptions::default().create_parents();
            changes.write("new/b", "created", options)?;
            changes.remove_file("c", Precondition::Unchanged(ContentHash::of(b"removed")))?;
            changes.rename("d", "e", Precondition::Unchanged(ContentHash::of(b"replaced")))?;
            changes.remove_dir_all("tree")?;
            Ok(changes.commit()?)
        },
        files: &[
            ("a", Some("old"), Some("new content")),
            ("new/b", None, Some("created")),
            ("c", Some("removed"), None),
            ("d", Some("renamed"), None),
            ("e", Some("replaced"), Some("renamed")),
            ("tree/a/f", Some("removed"), None),
        ],
    },
    Scenario {
        name: CONTROL,
        operation: |roots| {
            let options = WriteOptions::default().in_place();
            roots.write_with("a", "n", options)
        },
        files: &[("a", Some("old"), Some("n"))],
    },
    durability("durability: none", |roots| sync(roots, Durability::None)),
    durability("durability: data", |roots| sync(roots, Durability::Data)),
    durability("durability: data and directory", |roots| sync(roots, Durability::DataAndDirectory)),
];

const CONTROL: &str = "write in place";

const fn durability(name: &'static str, operation: fn(&Roots) -> Result<()>) -> Scenario {
    Scenario { name, operation, files: &[("new/sub/f", None, Some("content"))] }
}

fn sync(roots: &Roots, durability: Durability) -> Result<()> {
    let options = WriteOptions::default().create_parents().durability(durability);
    roots.write_with("new/sub/f", "content", options)
}

fn tree(scenario: &Scenario) -> Tree {
    let tree = Tree::new("dir root; file outside = outside");
    for (path, before, _) in scenario.files {
        if let Some(content) = before {
            tree.add(&format!("file root/{path} = {content}"));
        }
    }
    tree
}

/// The traced child runs this test. Without a tracer, it verifies the effect of each operation.
#[test]
fn operations_of_the_killed_child_succeed() {
    if let Ok(text) = std::env::var(TO_CHILD) {
        // The number of the scenario and the path of its tree.
        let (number, top) = text.split_once(' ').unwrap();
        let roots = Roots::from_dirs([Path::new(top).join("root")], Access::ReadWrite).unwrap();
        let operation = SCENARIOS[number.parse::<usize>().unwrap()].operation;
        be_traced(Path::new(top));
        return between_stops(|| operation(&roots)).unwrap();
    }
    for scenario in SCENARIOS {
        let tree = tree(scenario);
        (scenario.operation)(&tree.roots(["root"])).unwrap();
        for (path, _, after) in scenario.files {
            let content = fs::read_to_string(tree.path("root").join(path)).ok();
            assert_eq!(content.as_deref(), *after, "{}: {path}", scenario.name);
        }
    }
}

#[test]
fn killed_process_leaves_each_file_old_or_new() {
    for (number, scenario) in SCENARIOS.iter().enumerate() {
        let total = run(number, &tree(scenario), None).len();
        let mut wrong = Vec::new();
        for call in 0..total {
            let tree = tree(scenario);
            let calls = run(number, &tree, Some(call));
            assert_eq!(calls.len(), call, "{}: the child is killed at each call", scenario.name);
            wrong.extend(judge(&tree, scenario).map(|what| format!("call {call}: {what}")));
        }
        println!("{}: killed at each of {total} calls", scenario.name);
        assert!(total >= 4, "{}", scenario.name);
        if scenario.name == CONTROL {
            assert!(!wrong.is_empty(), "a write in place is expected to leave a mixed file");
        } else {
            assert!(wrong.is_empty(), "{}:\n{}", scenario.name, wrong.join("\n"));
        }
    }
}

#[test]
fn each_durability_syncs_what_it_promises() {
    let syncs: Vec<usize> = SCENARIOS
        .iter()
        .enumerate()
        .filter(|(_, scenario)| scenario.name.starts_with("durability"))
        .map(|(number, scenario)| {
            let calls = run(number, &tree(scenario), None);
            calls.iter().filter(|call| **call == libc::SYS_fsync).count()
        })
        .collect();
    // The file; the file, its directory, and the directories that contain the two new ones.
    assert_eq!(syncs, [0, 1, 4]);
}

/// Runs a scenario in a traced child, and kills it at the start of the call with this number.
/// Returns the calls that it made before.
fn run(scenario: usize, tree: &Tree, killed_at: Option<usize>) -> Vec<c_long> {
    let scenario = format!("{scenario} {}", tree.path("").display());
    let mut child = TracedChild::start(CHILD, TO_CHILD, &scenario);
    child.wait_for_stop();
    let mut calls = Vec::new();
    let is_alive = child.trace(|call| {
        if killed_at == Some(calls.len()) {
            return Decision::Kill;
        }
        calls.push(call);
        Decision::Make
    });
    if is_alive {
        child.end();
    }
    calls
}

/// Returns what is wrong with the tree of a child that was killed.
fn judge(tree: &Tree, scenario: &Scenario) -> Option<String> {
    if fs::read_to_string(tree.path("outside")).unwrap() != "outside" {
        return Some("a file outside the root has changed".into());
    }
    let mut seen_old = false;
    for (path, before, after) in scenario.files {
        let content = fs::read_to_string(tree.path("root").join(path)).ok();
        let is_new = content.as_deref() == *after;
        if !is_new && content.as_deref() != *before {
            return Some(format!("{path} contains {content:?}"));
        }
        // The changes are made in order.
        if is_new && seen_old {
            return Some(format!("{path} is new, but a file before it is old"));
        }
        seen_old |= !is_new;
    }
    let top = tree.path("root");
    let mut directories = vec![top.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(std::result::Result::unwrap) {
            let path = entry.path();
            let relative = path.strip_prefix(&top).unwrap();
            let mut files = scenario.files.iter().map(|(path, ..)| Path::new(path));
            if entry.file_type().unwrap().is_dir() {
                if is_temporary(&entry.file_name()) {
                    // It was being removed, with the file that was in it.
                    continue;
                }
                if !files.any(|file| file.starts_with(relative)) {
                    return Some(format!("the directory {} remains", relative.display()));
                }
                directories.push(path);
            } else if !files.any(|file| file == relative) && !is_temporary(&entry.file_name()) {
                return Some(format!("the file {} remains", relative.display()));
            }
        }
    }
    None
}

/// Whether a name has the form that the documentation of `Roots::write` gives.
pub(super) fn is_temporary(name: &std::ffi::OsStr) -> bool {
    let digits = name
        .to_str()
        .and_then(|name| name.strip_prefix(".guarded-fs-")?.strip_suffix(".tmp"))
        .unwrap_or_default();
    digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}
