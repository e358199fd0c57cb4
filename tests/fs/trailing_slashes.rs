//! Names that end in a slash or in `/.`: the rows of `tests/data/trailing_slashes.txt`, whose results
//! are compared with those of the system calls.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;

use super::operate::program;
use crate::support::tree::Tree;

const TREE: &str = "dir root/d; file root/f; file root/full/g; link root/ld -> d; \
                    link root/lf -> f; link root/dang -> n; link root/slash -> n/; \
                    link root/dot -> n/.";

/// What the system call does instead, from RESULT of NAMES: REASON.
struct Difference<'a> {
    result: &'a str,
    names: Vec<&'a str>,
}

impl<'a> Difference<'a> {
    fn new(text: &'a str) -> Self {
        let (difference, _reason) = text.split_once(": ").expect("a difference has a reason");
        let (result, names) = difference.split_once(" of ").expect("RESULT of NAMES");
        Self { result, names: names.split(' ').collect() }
    }
}

#[test]
fn what_ends_in_a_slash_is_a_directory() {
    let (mut cases, mut failed, mut of_all) = (0, Vec::new(), Vec::new());
    for row in include_str!("../data/trailing_slashes.txt").lines() {
        if let Some(difference) = row.strip_prefix("all: ") {
            of_all.push(Difference::new(difference));
            continue;
        }
        if row.is_empty() || row.starts_with('#') {
            continue;
        }
        let columns: Vec<_> = row.split(" | ").collect();
        let (operation, names, expected) = (columns[0], columns[1], columns[2]);
        let difference = columns.get(3).copied().map(Difference::new);
        for name in names.split(' ') {
            cases += 1;
            let result = by_guard(operation, name, expected);
            if result != Ok(()) {
                failed.push(format!("{operation} of {name}: {}", result.unwrap_err()));
            }
            let by_system = by_system(operation, name);
            let mut differences = difference.iter().chain(&of_all);
            let same = match differences.find(|difference| difference.names.contains(&name)) {
                Some(difference) => difference.result,
                None if expected.contains(' ') => "ok",
                None => expected,
            };
            if by_system.as_ref().is_some_and(|result| result != same) {
                failed.push(format!("the system call for {operation} of {name}: {by_system:?}"));
            }
        }
    }
    println!("{cases} names that end in a slash, {} failed", failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Performs an operation in a new tree, and compares its result and its effect.
fn by_guard(operation: &str, name: &str, expected: &str) -> Result<(), String> {
    let tree = Tree::new(TREE);
    let before = tree.snapshot("root");
    let arguments = ["--root".to_owned(), tree.expand("$T/root")];
    let request = operation.replace('@', &tree.expand(name)) + "\n";
    let mut response = Vec::new();
    program::run(arguments.map(Into::into).into_iter(), request.as_bytes(), &mut response);
    let response: Value = serde_json::from_slice(&response).unwrap();
    let code = response["error"]["code"].as_str().unwrap_or("ok");
    let Some((kind, paths)) = expected.split_once(' ') else {
        let is_unchanged = tree.snapshot("root") == before;
        let is_same = code == expected && is_unchanged;
        return is_same.then_some(()).ok_or(format!("{response}, unchanged: {is_unchanged}"));
    };
    let is_there = |path: &str| {
        let found = fs::symlink_metadata(tree.path("root").join(path));
        found.map_or("none", |found| if found.is_dir() { "dir" } else { "other" })
    };
    // Of several paths, one is the name's.
    let is_done = paths.split(' ').any(|path| is_there(path) == kind);
    (code == "ok" && is_done).then_some(()).ok_or(format!("{response}, done: {is_done}"))
}

/// The result of the system call that corresponds to an operation, in a new tree. `None` if there is
/// none.
fn by_system(operation: &str, name: &str) -> Option<String> {
    let tree = Tree::new(TREE);
    let request = operation.replace('@', &tree.expand(name));
    let mut request: Value = serde_json::from_str(&request).unwrap();
    if let Some(change) = request.get("changes") {
        request = change[0].clone();
    }
    // `Path::join` would keep the name's slash too, but the text shows it.
    let at = |field: &str| {
        let text = request[field].as_str().unwrap();
        let text = text.strip_prefix("file:").unwrap_or(text);
        if text.starts_with('/') { text.into() } else { tree.expand("$T/root/") + text }
    };
    let open = |path: &str, options: &mut OpenOptions| options.write(true).open(path).map(drop);
    let rename = |flags| Ok(renameat_with(CWD, at("from"), CWD, at("to"), flags)?);
    let done: io::Result<()> = match request["op"].as_str().unwrap() {
        "open" if request["mode"] == "read_write" => open(&at("path"), &mut OpenOptions::new()),
        "write" | "atomic_file" | "open" => {
            let is_new = request["mode"] == "create_new" || request["overwrite"] == "never";
            open(&at("path"), OpenOptions::new().create(true).create_new(is_new))
        }
        "copy" => open(&at("to"), OpenOptions::new().create(true)),
        "create_dir" => fs::create_dir(at("path")),
        "create_dir_all" => fs::create_dir_all(at("path")),
        "symlink" => std::os::unix::fs::symlink("f", at("path")),
        "hard_link" => fs::hard_link(at("from"), at("to")),
        "rename" if request["overwrite"] == "always" => rename(RenameFlags::empty()),
        "rename" => rename(RenameFlags::NOREPLACE),
        "remove_file" => fs::remove_file(at("path")),
        "remove_dir" => fs::remove_dir(at("path")),
        "remove_dir_all" if Path::new(&at("path")).is_dir() => fs::remove_dir_all(at("path")),
        _ => return None,
    };
    Some(match done.map_err(|error| error.kind()) {
        Ok(()) => "ok".into(),
        Err(io::ErrorKind::NotFound) => "not_found".into(),
        Err(io::ErrorKind::IsADirectory) => "is_a_directory".into(),
        Err(io::ErrorKind::NotADirectory) => "not_a_directory".into(),
        Err(io::ErrorKind::AlreadyExists) => "already_exists".into(),
        Err(io::ErrorKind::DirectoryNotEmpty) => "directory_not_empty".into(),
        Err(other) => format!("{other:?}"),
    })
}
