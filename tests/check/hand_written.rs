//! The diff in `docs/migration.md` and its excerpt in `README.md` consist of the code below.

use std::error::Error;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use mcp_roots_guard::{ErrorKind, Roots};

use crate::support::tree::Tree;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn read_by_hand(directory: &Path, request: &str) -> Result<String> {
    // When the server starts:
    let root = directory.canonicalize()?;
    // In the tool:
    let path = root.join(request).canonicalize()?;
    if !path.starts_with(&root) {
        return Err("access denied".into());
    }
    let text = std::fs::read_to_string(path)?;
    Ok(text)
}

fn read_guarded(directory: &Path, request: &str) -> Result<String> {
    // When the server starts:
    let roots = Roots::from_dirs([directory])?;
    // In the tool:
    let text = roots.read_to_string(request, 1 << 20)?;
    Ok(text)
}

fn write_by_hand(root: &Path, request: &str, content: &str) -> Result<()> {
    let path = root.join(request);
    let parent = path.parent().ok_or("not a file")?.canonicalize()?;
    if !parent.starts_with(root) {
        return Err("access denied".into());
    }
    std::fs::write(path, content)?;
    Ok(())
}

fn write_guarded(roots: &Roots, request: &str, content: &str) -> Result<()> {
    roots.write(request, content)?;
    Ok(())
}

/// Returns the `diff` blocks of a page.
fn diffs(page: &str) -> Vec<&str> {
    page.split("```diff\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Returns the lines that a diff removes or adds (`sign`) or keeps, indented as in a function.
fn side(diff: &str, sign: char) -> String {
    let lines = diff.lines().filter_map(|line| line.strip_prefix([sign, ' ']));
    lines.flat_map(|line| ["    ", line, "\n"]).collect()
}

/// Returns the body of a function in this file, without its last expression.
fn body(name: &str) -> &'static str {
    let (_, function) = include_str!("hand_written.rs").split_once(&format!("fn {name}(")).unwrap();
    let (_, body) = function.split_once("{\n").unwrap();
    &body[..body.find("    Ok(").unwrap()]
}

#[test]
fn the_documented_diffs_are_this_code() {
    let migration = diffs(include_str!("../../docs/migration.md"));
    let functions = [("read_by_hand", "read_guarded"), ("write_by_hand", "write_guarded")];
    for (diff, (before, after)) in migration.iter().zip(functions) {
        assert_eq!(side(diff, '-'), body(before));
        assert_eq!(side(diff, '+'), body(after));
    }
    let readme = diffs(include_str!("../../README.md"));
    assert_eq!((migration.len(), readme.len()), (2, 1));
    assert!(migration[0].contains(readme[0]), "{}", readme[0]);
}

#[test]
fn both_read_inside_and_only_the_guard_refuses_to_write_through_a_dangling_symlink() {
    let tree = Tree::new("file root/a.txt = a; file secret.txt; dir root; link root/new -> ../new");
    let root = tree.path("root");
    for read in [read_by_hand, read_guarded] {
        assert_eq!(read(&root, "a.txt").unwrap(), "a");
        assert!(read(&root, "../secret.txt").is_err());
    }
    let refused = write_guarded(&Roots::from_dirs([&root]).unwrap(), "new", "x").unwrap_err();
    let refused = refused.downcast_ref::<mcp_roots_guard::Error>().unwrap();
    assert_eq!(refused.kind(), ErrorKind::OutsideRoots);
    assert!(!tree.path("new").exists());
    write_by_hand(&root, "new", "x").unwrap();
    assert_eq!(fs::read_to_string(tree.path("new")).unwrap(), "x");
}

#[test]
fn only_the_read_by_hand_returns_a_secret_whose_symlink_replaces_the_file() {
    let tree = Tree::new("file root/a.txt = inside; file secret.txt = SECRET");
    let (root, secret) = (tree.path("root"), tree.path("secret.txt"));
    let (file, spare) = (root.join("a.txt"), root.join("spare"));
    let done = AtomicBool::new(false);
    let (by_hand, guarded) = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                symlink(&secret, &spare).unwrap();
                fs::rename(&spare, &file).unwrap();
                fs::write(&spare, "inside").unwrap();
                fs::rename(&spare, &file).unwrap();
            }
        });
        let by_hand = race(|| read_by_hand(&root, "a.txt"), |seen| seen.secret > 0);
        let guarded = race(
            || read_guarded(&root, "a.txt"),
            |seen| seen.inside.min(seen.refused) > 0 && seen.inside + seen.refused >= 2000,
        );
        done.store(true, Relaxed);
        (by_hand, guarded)
    });
    println!("by hand: {by_hand:?}, guarded: {guarded:?}");
    assert!(by_hand.secret > 0, "{by_hand:?}");
    assert!(guarded.inside > 0 && guarded.refused > 0 && guarded.secret == 0, "{guarded:?}");
}

/// How often a read returned the file, returned the secret, and failed.
#[derive(Debug, Default)]
struct Seen {
    inside: u32,
    secret: u32,
    refused: u32,
}

/// Reads until enough was seen, but at most for a minute.
fn race(read: impl Fn() -> Result<String>, enough: impl Fn(&Seen) -> bool) -> Seen {
    let (start, mut seen) = (Instant::now(), Seen::default());
    while !enough(&seen) && start.elapsed() < Duration::from_secs(60) {
        match read().as_deref() {
            Ok("SECRET") => seen.secret += 1,
            Ok(_) => seen.inside += 1,
            Err(_) => seen.refused += 1,
        }
    }
    seen
}
