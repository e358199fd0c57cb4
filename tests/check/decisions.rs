//! Data-driven tests of the decision: each row of `data/check.txt` is a request on a small tree,
//! with the expected result.
//!
//! ```text
//! tree: file root/f; link root/l -> f         a new tree
//! roots: root other                           its roots; the default is `root`
//! open   | l       | allowed root/f           the resolved path, from the top of the tree
//! create | new     | new root/new             allowed, and does not exist yet
//! open   | ../x    | outside_roots            refused with this code
//! ```
//!
//! On Windows, a line `on Windows: DECISION` replaces the decision of the row before it. A `posix
//! tree:` cannot exist on Windows.
//!
//! The intents `open`, `create`, `tree` and `entry` stand for `Existing`, `New`, `NewTree` and
//! `NoFollow`. A request in double quotes is a JSON string. `$T` is the top of the tree.

use std::fs;

use mcp_roots_guard::{Intent, OpenOptions, Roots};

use crate::support::tree::{Tree, symlinks_are_visible};

#[test]
fn each_request_gets_the_decision_in_its_row() {
    let mut failures = Vec::new();
    let mut rows = 0;
    // Whether this system can build the tree and shows its symlinks as symlinks.
    let (mut is_possible, mut skipped) = (true, 0);
    let mut tree = Tree::new("dir root");
    let mut roots = tree.roots(["root"]);
    let mut lines = include_str!("../data/check.txt").lines().map(str::trim).enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let on_windows =
            lines.next_if(|(_, next)| next.starts_with("on Windows:")).filter(|_| cfg!(windows));
        if let Some(text) = line.strip_prefix("posix tree:").or_else(|| line.strip_prefix("tree:"))
        {
            is_possible = !cfg!(windows)
                || line.starts_with("tree:") && (symlinks_are_visible() || !text.contains("link "));
            if !is_possible {
                continue;
            }
            tree = Tree::new("dir root");
            tree.add(text);
            roots = tree.roots(["root"]);
        } else if !is_possible {
            skipped += usize::from(line.contains('|') && !line.starts_with('#'));
        } else if let Some(names) = line.strip_prefix("roots:") {
            let paths = names.split_whitespace().map(|name| tree.path(name));
            roots = Roots::from_dirs(paths).unwrap();
        } else if !line.is_empty() && !line.starts_with('#') {
            rows += 1;
            let expected = on_windows
                .and_then(|(_, text)| text.split_once(": "))
                .map(|(_, expected)| expected);
            if let Err(why) = row(&tree, &roots, line, expected) {
                failures.push(format!("line {}: {line}\n    {why}", number + 1));
            }
        }
    }
    println!("{rows} rows, {} failed", failures.len());
    #[cfg(windows)]
    crate::support::tree::report_not_shown(
        "check::decisions::each_request_gets_the_decision_in_its_row",
        &format!("{skipped} rows of trees that cannot exist on Windows or under Wine"),
    );
    assert!(cfg!(windows) || skipped == 0);
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(rows + skipped > 100, "only {rows} rows were tested");
}

/// Replaces each backslash in a resolved path. The rows use slashes, so on Windows this is a slash.
/// On POSIX systems a backslash is an ordinary character and is kept.
const SEPARATOR: &str = if cfg!(windows) { "/" } else { "\\" };

fn row(tree: &Tree, roots: &Roots, line: &str, on_windows: Option<&str>) -> Result<(), String> {
    let mut fields = line.splitn(2, '|').map(str::trim);
    let intent = fields.next().unwrap_or_default();
    let (request, expected) =
        fields.next().and_then(|rest| rest.rsplit_once('|')).ok_or("expected three fields")?;
    let (request, expected) = (request.trim(), on_windows.unwrap_or(expected.trim()));
    let request = if request.starts_with('"') {
        serde_json::from_str(request).map_err(|error| error.to_string())?
    } else {
        request.to_owned()
    };
    let request = tree.expand(&request);
    let intent = match intent {
        "open" => Intent::Existing,
        "create" => Intent::New,
        "tree" => Intent::NewTree,
        "entry" => Intent::NoFollow,
        _ => return Err(format!("unknown intent {intent}")),
    };
    let decided = match roots.check(request.as_str(), intent) {
        Ok(checked) => {
            let path = checked.to_unguarded_path();
            let path = path
                .strip_prefix(tree.path(""))
                .unwrap_or(&path)
                .display()
                .to_string()
                .replace('\\', SEPARATOR);
            format!("{} {path}", if checked.exists() { "allowed" } else { "new" })
        }
        Err(error) => error.code().to_string(),
    };
    if decided != expected {
        return Err(format!("decided: {decided}"));
    }
    match intent {
        Intent::Existing => opening_agrees(tree, roots, &request, expected),
        _ => Ok(()),
    }
}

/// Opening in one step makes the same decision as the check, and reads the same content as `std`
/// does at the canonical path.
fn opening_agrees(tree: &Tree, roots: &Roots, request: &str, expected: &str) -> Result<(), String> {
    let opened = roots.read(request, 1 << 20);
    match expected.strip_prefix("allowed ") {
        None => {
            let code = opened.err().map(|error| error.code().to_string());
            let written = roots
                .open_with(request, OpenOptions::new().write(true))
                .err()
                .map(|error| error.code().to_string());
            for code in [code, written] {
                if code.as_deref() != Some(expected) {
                    return Err(format!("opening it returned {code:?}"));
                }
            }
        }
        Some(path) => {
            let path = tree.path(path);
            match (opened, fs::symlink_metadata(&path).map_err(|error| error.to_string())?) {
                (Ok(content), metadata)
                    if metadata.is_file() && content == fs::read(&path).unwrap() => {}
                (Err(error), metadata) if metadata.is_dir() && error.code() == "is_a_directory" => {
                }
                (Err(error), _) if error.code() == "special_file" => {}
                (opened, metadata) => {
                    return Err(format!(
                        "opening it returned {opened:?} for {:?}",
                        metadata.file_type()
                    ));
                }
            }
        }
    }
    Ok(())
}
