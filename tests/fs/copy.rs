//! Copies of files and trees: effects, refusals, limits, and what remains after a failure.
//!
//! `tests/fs/permissions.rs` shows that no copy lets anybody read or write more than its source.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use mcp_roots_guard::limits::COPY_SKIPPED;
#[cfg(target_os = "linux")]
use mcp_roots_guard::limits::WALK_DEPTH;
use mcp_roots_guard::{
    Access, Boundary, CopyOptions, CopyProgress, CopyReport, Durability, ErrorKind, Existing,
    Intent, Protection, Refused, Result, Roots, Version, WriteOptions,
};

use crate::support::random::Random;
#[cfg(windows)]
use crate::support::tree::report_not_shown;
use crate::support::tree::{Tree, symlinks_are_visible};
use crate::support::{code, protecting};

fn copy(roots: &Roots, from: &str, to: &str) -> Result<u64> {
    roots.copy(from, to, 1 << 20, WriteOptions::new())
}

fn copy_tree(roots: &Roots, from: &str, to: &str, options: CopyOptions) -> Result<CopyReport> {
    roots.copy_tree(from, to, options, |_| ControlFlow::Continue(()))
}

fn skip() -> CopyOptions {
    CopyOptions::new().refused(Refused::Skip)
}

/// The skipped paths with their codes, sorted.
fn skipped(report: &CopyReport) -> Vec<String> {
    let skipped = report.skipped().iter();
    let line = |path: &Path, code| format!("{}: {code}", path.display()).replace('\\', "/");
    let mut skipped: Vec<_> =
        skipped.map(|entry| line(entry.path(), entry.error().code())).collect();
    skipped.sort();
    skipped
}

/// No name of a temporary file or directory exists below the path.
fn has_no_temporary_name(tree: &Tree, path: &str) -> bool {
    !tree.snapshot(path).iter().any(|line| line.contains(".mcp-roots-guard-"))
}

#[test]
fn file_is_copied_between_roots_and_through_symlinks() {
    let tree = Tree::new("file a/f = text; dir b; file b/old = old");
    if symlinks_are_visible() {
        tree.add("link a/l -> f; link b/dangling -> new-target");
    }
    let roots = tree.roots(["a", "b"]);
    let at = |path: &str| tree.path(path).to_str().unwrap().to_owned();
    assert_eq!(copy(&roots, "f", &at("b/new")).unwrap(), 4);
    assert_eq!(copy(&roots, "f", &at("b/old")).unwrap(), 4);
    let proofs = (
        roots.check("f", Intent::Existing).unwrap(),
        roots.check(at("b/x/y/z"), Intent::NewTree).unwrap(),
    );
    assert_eq!(proofs.0.copy(&proofs.1, 4, WriteOptions::new()).unwrap(), 4);
    let parents = WriteOptions::new().create_parents(true).durability(Durability::Data);
    assert_eq!(roots.copy("f", at("b/p/q"), 4, parents).unwrap(), 4);
    for copied in ["b/new", "b/old", "b/x/y/z", "b/p/q"] {
        assert_eq!(fs::read(tree.path(copied)).unwrap(), b"text", "{copied}");
    }
    if symlinks_are_visible() {
        copy(&roots, "l", &at("b/dangling")).unwrap();
        assert_eq!(fs::read(tree.path("b/new-target")).unwrap(), b"text");
    }
    assert!(has_no_temporary_name(&tree, "b"));
}

#[test]
fn refused_copy_of_a_file_names_its_reason_and_changes_nothing() {
    let tree = Tree::new(
        "file root/f = text; file root/old = old; dir root/d; file out/secret; \
         hard root/same = root/f; file only = a root that is longer than the new content",
    );
    let roots = tree.roots(["root", "only"]);
    let only = tree.path("only").to_str().unwrap().to_owned();
    let before = [tree.snapshot("root"), tree.snapshot("out")];
    let new = WriteOptions::new;
    let stale = new().if_unchanged(Version::of(b"other"));
    for (from, to, limit, options, expected) in [
        ("none", "new", 9, new(), "not_found"),
        ("d", "new", 9, new(), "is_a_directory"),
        ("../out/secret", "new", 9, new(), "outside_roots"),
        ("f", "../out/new", 9, new(), "outside_roots"),
        ("f", "d", 9, new(), "is_a_directory"),
        ("f", "none/new", 9, new(), "not_found"),
        ("f", "new", 3, new(), "too_large"),
        ("f", "old", 3, new().existing(Existing::InPlace), "too_large"),
        ("f", "old", 9, new().existing(Existing::Refuse), "already_exists"),
        ("f", "old", 9, stale, "modified"),
        ("f", "old", 9, stale.existing(Existing::InPlace), "modified"),
        ("f", &only, 9, new(), "root_itself"),
        ("f", "f", 9, new(), "same_file"),
        ("f", "same", 9, new(), "same_file"),
        ("f", "same", 9, new().existing(Existing::InPlace), "same_file"),
        ("f", "same", 9, new().existing(Existing::InPlaceIfOwnerChanges), "same_file"),
    ] {
        let refused = roots.copy(from, to, limit, options);
        assert_eq!(code(refused), Some(expected), "{from} {to} {options:?}");
        assert_eq!([tree.snapshot("root"), tree.snapshot("out")], before, "{from} {to}");
    }
    let text = copy(&roots, "f", "none/new").unwrap_err().to_string();
    assert_eq!(text, r#"copy "f" to "none/new": destination: no such file or directory"#);
    let refused = copy(&roots, "f", "same").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Overlap);
    // A root that is a file can only be written in place, which removes the rest.
    roots.copy("f", &only, 9, new().existing(Existing::InPlace)).unwrap();
    assert_eq!(fs::read(&only).unwrap(), b"text");
    roots.copy("d/../f", "old", 9, new().if_unchanged(Version::of(b"old"))).unwrap();
    assert_eq!(fs::read(tree.path("root/old")).unwrap(), b"text");
}

#[test]
fn source_that_must_not_be_changed_is_copied_and_destination_that_must_not_is_refused() {
    let tree = Tree::new("file ro/f = text; file ro/t/f; dir rw; file rw/.git/config = kept");
    let boundary = Boundary::builder()
        .directory(tree.path("rw"), Access::ReadWrite)
        .directory(tree.path("ro"), Access::ReadOnly)
        .protect(".git", Protection::ReadOnly)
        .build()
        .unwrap();
    let roots = boundary.allowed_roots();
    let at = |path: &str| tree.path(path).to_str().unwrap().to_owned();
    copy(&roots, &at("ro/f"), "f").unwrap();
    copy(&roots, ".git/config", "config").unwrap();
    let _ = copy_tree(&roots, &at("ro/t"), "t", CopyOptions::new()).unwrap();
    let before = [tree.snapshot("ro"), tree.snapshot("rw")];
    assert_eq!(code(copy(&roots, "f", &at("ro/new"))), Some("read_only"));
    assert_eq!(code(copy(&roots, "f", ".git/config")), Some("protected"));
    assert_eq!(code(copy(&roots, "f", ".git/new")), Some("protected"));
    let tree_to = |to: &str| code(copy_tree(&roots, "t", to, CopyOptions::new()));
    assert_eq!(tree_to(&at("ro/new")), Some("read_only"));
    assert_eq!(tree_to(".git/new"), Some("protected"));
    assert_eq!(tree_to(".git"), Some("protected"));
    assert_eq!([tree.snapshot("ro"), tree.snapshot("rw")], before);
}

const TREE: &str = "file root/t/a = a; file root/t/d/b = bb; file root/t/d/e/c = ccc; \
                    dir root/t/empty";

#[test]
fn tree_is_copied_with_a_report() {
    let tree = Tree::new(TREE);
    tree.add("hard root/t/d/same = root/t/a");
    let roots = tree.roots(["root"]);
    let mut seen = Vec::new();
    let options = CopyOptions::new().create_parents(true).durability(Durability::DataAndDirectory);
    let report = roots.copy_tree("t", "p/q/new", options, |progress: &CopyProgress| {
        seen.push((progress.entries(), progress.bytes(), progress.current().to_owned()));
        ControlFlow::Continue(())
    });
    let report = report.unwrap();
    assert_eq!((report.files(), report.directories(), report.symlinks()), (4, 4, 0));
    assert_eq!((report.bytes(), report.skipped_count()), (7, 0));
    assert_eq!(content(&tree.path("root/t")), content(&tree.path("root/p/q/new")));
    // Hard links become separate files.
    fs::write(tree.path("root/p/q/new/a"), "changed").unwrap();
    assert_eq!(fs::read(tree.path("root/p/q/new/d/same")).unwrap(), b"a");
    assert!(seen.is_sorted_by_key(|(entries, bytes, _)| (*entries, *bytes)), "{seen:?}");
    for path in ["a", "d", "d/b", "d/e", "d/e/c", "d/same", "empty"] {
        assert!(seen.iter().any(|(.., current)| current == Path::new(path)), "{path}");
    }
    assert_eq!(seen.last().map(|(entries, bytes, _)| (*entries, *bytes)), Some((7, 7)));
    assert!(has_no_temporary_name(&tree, "root"));
}

#[test]
fn refused_copy_of_a_tree_names_its_reason_and_leaves_nothing() {
    let tree = Tree::new(TREE);
    tree.add("file root/f; dir root/old; file out/secret");
    let roots = tree.roots(["root", "root/t/empty"]);
    let before = [tree.snapshot("root"), tree.snapshot("out")];
    let new = CopyOptions::new;
    for (from, to, options, expected) in [
        ("none", "new", new(), "not_found"),
        ("f", "new", new(), "not_a_directory"),
        ("../out", "new", new(), "outside_roots"),
        ("t", "../out/new", new(), "outside_roots"),
        ("t", "old", new(), "already_exists"),
        ("t", "f", new(), "already_exists"),
        ("t", "t", new(), "already_exists"),
        ("t", "t/new", new(), "into_itself"),
        ("t", "t/d/e/new", new(), "into_itself"),
        ("t", "t/x/y", new().create_parents(true), "into_itself"),
        (".", "new", new(), "into_itself"),
        ("t", "x/new", new(), "not_found"),
        ("t", "x/y", new().create_parents(true).max_entries(5), "too_many_entries"),
        ("t", "new", new().max_bytes(5), "too_large"),
        ("t", "new", new().max_entries(0), "too_many_entries"),
    ] {
        let refused = copy_tree(&roots, from, to, options);
        assert_eq!(code(refused), Some(expected), "{from} {to} {options:?}");
        assert_eq!([tree.snapshot("root"), tree.snapshot("out")], before, "{from} {to}");
    }
    let exact = new().max_bytes(6).max_entries(6);
    assert_eq!(copy_tree(&roots, "t", "new", exact).unwrap().bytes(), 6);
    let text = copy_tree(&roots, "t", "new2", new().max_bytes(5)).unwrap_err().to_string();
    assert_eq!(text, r#"copy "t" to "new2": larger than 5 bytes"#);
    let text = copy_tree(&roots, "t", "old", new()).unwrap_err().to_string();
    assert_eq!(text, r#"copy "t" to "old": destination already exists"#);
}

/// The copy is cancelled at each call of the progress function.
#[test]
fn cancelled_copy_leaves_nothing() {
    let tree = Tree::new(TREE);
    fs::write(tree.path("root/t/big"), vec![7; 3 << 20]).unwrap();
    let roots = tree.roots(["root"]);
    let before = tree.snapshot("root");
    let mut last = 0;
    for stop_at in 0.. {
        let mut calls = 0;
        let parents = CopyOptions::new().create_parents(true);
        let copied = roots.copy_tree("t", "p/new", parents, |_| {
            calls += 1;
            if calls > stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let Err(error) = copied else { break };
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert_eq!(error.to_string(), r#"copy "t" to "p/new": the copy was cancelled"#);
        assert_eq!(tree.snapshot("root"), before, "{stop_at}");
        last = stop_at;
    }
    // Seven entries and at least three pieces of the large file.
    assert!(last >= 9, "{last}");
}

#[test]
fn symlinks_that_lead_inside_are_copied_as_text() {
    #[cfg(windows)]
    if !symlinks_are_visible() {
        return report_not_shown(
            "fs::copy::symlinks_that_lead_inside_are_copied_as_text",
            "symlinks",
        );
    }
    let tree = Tree::new(TREE);
    tree.add(
        "file out/secret; file root/f; link root/t/inside -> d/b; link root/t/d/up -> ../a; \
         link root/t/dangling -> none; link root/t/d/over -> ../../f; \
         link root/t/absolute -> $T/root/f; link root/t/dir -> d; \
         link root/t/d/out -> ../../../out/secret; link root/t/abs-out -> $T/out/secret; \
         link root/t/loop -> loop2; link root/t/loop2 -> loop; link root/t/d/e/far -> /etc/passwd",
    );
    let roots = tree.roots(["root"]);
    let before = tree.snapshot("root");
    let refused = copy_tree(&roots, "t", "new", CopyOptions::new()).unwrap_err();
    assert_eq!(refused.code(), "outside_roots");
    assert_eq!(tree.snapshot("root"), before);
    let report = copy_tree(&roots, "t", "new", skip()).unwrap();
    // Without one of its symlinks, a loop leads to a missing name.
    let expected = ["abs-out: outside_roots", "d/e/far: outside_roots", "d/out: outside_roots"];
    let [outside @ .., cycle] = &skipped(&report)[..] else { panic!("nothing was skipped") };
    assert_eq!(outside, expected);
    assert!(cycle.starts_with("loop") && cycle.ends_with(": too_many_links"), "{cycle}");
    for (link, text) in [
        ("inside", "d/b"),
        ("d/up", "../a"),
        ("dangling", "none"),
        ("d/over", "../../f"),
        ("absolute", &tree.expand("$T/root/f")),
        ("dir", "d"),
    ] {
        let copied = fs::read_link(tree.path("root/new").join(link)).unwrap();
        assert_eq!(copied, Path::new(text), "{link}");
    }
    assert_eq!((report.files(), report.directories(), report.symlinks()), (3, 4, 7));
    assert_eq!((report.skipped_count(), report.skipped().len()), (4, 4));
    let text = report.skipped()[0].error().to_string();
    assert!(text.starts_with("copy \"t/") && text.contains("target: "), "{text}");
}

#[test]
fn protected_and_hidden_names_are_respected() {
    let tree = Tree::new(
        "file root/t/a; file root/t/.env; file root/t/.git/config; file root/t/d/.env; \
         file root/t/workflows/w; file root/t/key; dir root/.github; dir root/.conf",
    );
    let names = [
        (".env*", Protection::Hidden),
        (".git", Protection::ReadOnly),
        (".github/workflows", Protection::ReadOnly),
        ("/conf/key", Protection::Hidden),
    ];
    let roots = protecting(&tree, "root", &names);
    let before = tree.snapshot("root");
    assert_eq!(code(copy_tree(&roots, "t", "new", CopyOptions::new())), Some("protected"));
    assert_eq!(tree.snapshot("root"), before);
    let report = copy_tree(&roots, "t", "new", skip()).unwrap();
    assert_eq!(skipped(&report), [".git: protected"]);
    assert_eq!(report.files(), 3);
    assert!(!tree.path("root/new/.env").exists() && !tree.path("root/new/d/.env").exists());
    let report = copy_tree(&roots, "t", ".github/new", skip()).unwrap();
    assert_eq!(report.skipped_count(), 1);
    fs::remove_dir_all(tree.path("root/.github/new")).unwrap();
    fs::remove_dir(tree.path("root/.github")).unwrap();
    let report = copy_tree(&roots, "t", ".github", skip()).unwrap();
    assert_eq!(skipped(&report), [".git: protected", "workflows: protected"]);
    let report = copy_tree(&roots, "t", "conf", skip()).unwrap();
    assert_eq!(skipped(&report), [".git: protected", "key: outside_roots"]);
    assert!(!tree.path("root/conf/key").exists());
}

#[test]
fn report_lists_a_bounded_number_of_skipped_entries() {
    let tree = Tree::new("dir root/t");
    for number in 0..COPY_SKIPPED + 5 {
        fs::create_dir_all(tree.path(format!("root/t/{number}/.git"))).unwrap();
    }
    let roots = protecting(&tree, "root", &[(".git", Protection::ReadOnly)]);
    let report = copy_tree(&roots, "t", "new", skip()).unwrap();
    assert_eq!(report.skipped_count(), COPY_SKIPPED + 5);
    assert_eq!(report.skipped().len(), COPY_SKIPPED);
}

#[cfg(target_os = "linux")]
#[test]
fn special_files_are_skipped_and_not_opened() {
    let tree = Tree::new("file root/t/a; fifo root/t/fifo; socket root/t/socket; fifo root/fifo");
    let roots = tree.roots(["root"]);
    let report = copy_tree(&roots, "t", "new", CopyOptions::new()).unwrap();
    assert_eq!(skipped(&report), ["fifo: special_file", "socket: special_file"]);
    assert_eq!(report.files(), 1);
    assert_eq!(code(copy(&roots, "fifo", "f")), Some("special_file"));
    assert_eq!(code(copy(&roots, "t/a", "fifo")), Some("special_file"));
}

#[cfg(target_os = "linux")]
#[test]
fn tree_is_copied_only_to_a_bounded_depth() {
    let tree = Tree::new("dir root");
    let deep = "d/".repeat(WALK_DEPTH - 1);
    fs::create_dir_all(tree.path("root/t").join(&deep)).unwrap();
    let roots = tree.roots(["root"]);
    let report = copy_tree(&roots, "t", "new", CopyOptions::new()).unwrap();
    assert_eq!(report.directories(), WALK_DEPTH);
    fs::create_dir(tree.path("root/t").join(&deep).join("d")).unwrap();
    assert_eq!(code(copy_tree(&roots, "t", "new2", CopyOptions::new())), Some("too_deep"));
    let report = copy_tree(&roots, "t", "new3", skip()).unwrap();
    assert_eq!((report.directories(), report.skipped_count()), (WALK_DEPTH, 1));
    assert!(has_no_temporary_name(&tree, "root"));
}

/// The owner's permissions of these directories do not even allow removing their content.
#[cfg(unix)]
#[test]
fn modes_are_copied_and_a_failed_copy_of_read_only_directories_is_removed() {
    let tree = Tree::new("file root/t/ro/f; file root/t/ro/d/f; file root/t/x = x; dir root/t/s");
    let mode = |path: &str| fs::metadata(tree.path(path)).unwrap().permissions().mode() & 0o7777;
    let set = |path: &str, mode: u32| {
        fs::set_permissions(tree.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let modes = [("x", 0o4755), ("ro/f", 0o444), ("ro/d", 0o500), ("s", 0o1755), ("ro", 0o555)];
    for (path, mode) in modes {
        set(&format!("root/t/{path}"), mode);
    }
    let roots = tree.roots(["root"]);
    let _ = copy_tree(&roots, "t", "new", CopyOptions::new()).unwrap();
    for (path, expected) in modes {
        let expected = expected & 0o1777;
        assert_eq!(mode(&format!("root/new/{path}")), expected, "{path}");
    }
    assert_eq!(copy(&roots, "t/x", "x").unwrap(), 1);
    assert_eq!(mode("root/x"), 0o755);
    // The destination appears during the copy, so the last step fails.
    let to = tree.path("root/new2");
    let copied = roots.copy_tree("t", "new2", CopyOptions::new(), |progress| {
        if progress.entries() == 6 {
            let _ = fs::write(&to, "of another process");
        }
        ControlFlow::Continue(())
    });
    assert_eq!(code(copied), Some("already_exists"));
    assert_eq!(fs::read(&to).unwrap(), b"of another process");
    assert!(has_no_temporary_name(&tree, "root"));
    for top in ["root/t", "root/new"] {
        set(&format!("{top}/ro"), 0o755);
        set(&format!("{top}/ro/d"), 0o755);
    }
}

/// Everything below a path: the relative path, and the mode and content.
fn content(top: &Path) -> BTreeMap<PathBuf, (u32, Option<Vec<u8>>)> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![top.to_owned()]);
    while let Some(path) = todo.pop() {
        let metadata = fs::metadata(&path).unwrap();
        #[cfg(unix)]
        let mode = metadata.permissions().mode() & 0o7777;
        #[cfg(not(unix))]
        let mode = 0;
        let content = metadata.is_file().then(|| fs::read(&path).unwrap());
        if metadata.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(path.strip_prefix(top).unwrap().to_owned(), (mode, content));
    }
    found
}

#[test]
fn random_trees_are_copied_with_their_content_and_modes() {
    let seed = Random::seed();
    let mut random = Random(seed);
    for round in 0..40 {
        let tree = Tree::in_memory("dir root/t");
        let mut directories = vec![tree.path("root/t")];
        for number in 0..random.below(40) {
            let number_of_directories = u64::try_from(directories.len()).unwrap();
            let parent = usize::try_from(random.below(number_of_directories)).unwrap();
            let path = directories[parent].join(number.to_string());
            if random.below(3) == 0 {
                fs::create_dir(&path).unwrap();
                directories.push(path);
            } else {
                let size = [0, 1, 5000, (1 << 20) - 1, 1 << 20, (2 << 20) + 3]
                    [usize::try_from(random.below(6)).unwrap()];
                fs::write(&path, vec![u8::try_from(random.below(256)).unwrap(); size]).unwrap();
                #[cfg(unix)]
                {
                    let mode = 0o400 | u32::try_from(random.below(0o400)).unwrap() & 0o355;
                    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                }
            }
        }
        let roots = tree.roots(["root"]);
        let report = copy_tree(&roots, "t", "new", CopyOptions::new()).unwrap();
        let copied = content(&tree.path("root/new"));
        assert_eq!(copied, content(&tree.path("root/t")), "seed {seed}, round {round}");
        assert_eq!(report.files() + report.directories(), copied.len());
    }
}

/// The progress function stands for another process that changes the source or the copy at a
/// moment that a race could only hit by chance.
#[cfg(target_os = "linux")]
mod changes_during_a_copy {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    /// The temporary directory of the copy that is running.
    fn temporary(tree: &Tree) -> PathBuf {
        let entries = fs::read_dir(tree.path("root")).unwrap().map(|entry| entry.unwrap().path());
        let is_temporary = |path: &PathBuf| {
            path.is_dir()
                && path.file_name().unwrap().to_str().unwrap().starts_with(".mcp-roots-guard-")
        };
        entries.into_iter().find(is_temporary).unwrap()
    }

    /// Copies `root/t` to `root/new`, and calls `change` before the first entry at `path` is
    /// copied.
    fn copy_with(
        tree: &Tree,
        path: &str,
        options: CopyOptions,
        mut change: impl FnMut(),
    ) -> Result<CopyReport> {
        let mut is_done = false;
        tree.roots(["root"]).copy_tree("t", "new", options, |progress| {
            if !is_done && progress.current() == Path::new(path) {
                is_done = true;
                change();
            }
            ControlFlow::Continue(())
        })
    }

    /// The source gets private content while it is copied.
    #[test]
    fn copy_is_private_if_its_source_becomes_private() {
        let tree = Tree::new("dir root");
        let source = tree.path("root/f");
        fs::write(&source, vec![1; 64 << 20]).unwrap();
        fs::set_permissions(&source, fs::Permissions::from_mode(0o644)).unwrap();
        let new = tree.path("root/new");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let is_copied = |entry: fs::DirEntry| {
                    entry.path() != source && entry.metadata().is_ok_and(|file| file.len() > 0)
                };
                while !fs::read_dir(tree.path("root"))
                    .unwrap()
                    .any(|entry| is_copied(entry.unwrap()))
                {
                    std::thread::yield_now();
                }
                assert!(!new.exists(), "the file was copied too early");
                fs::set_permissions(&source, fs::Permissions::from_mode(0o600)).unwrap();
            });
            tree.roots(["root"]).copy("f", "new", u64::MAX, WriteOptions::new()).unwrap();
        });
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn file_that_grows_without_end_is_copied_up_to_the_limit() {
        let tree = Tree::new("dir root/t");
        let big = tree.path("root/t/big");
        fs::write(&big, vec![1; 2 << 20]).unwrap();
        let roots = tree.roots(["root"]);
        let mut last = 0;
        let copied =
            roots.copy_tree("t", "new", CopyOptions::new().max_bytes(9 << 20), |progress| {
                let mut big = fs::File::options().append(true).open(&big).unwrap();
                big.write_all(&vec![2; 1 << 20]).unwrap();
                last = progress.bytes();
                ControlFlow::Continue(())
            });
        assert_eq!(code(copied), Some("too_large"));
        assert_eq!(last, 9 << 20);
        assert!(!tree.path("root/new").exists() && has_no_temporary_name(&tree, "root"));
    }

    #[test]
    fn tree_that_grows_deeper_without_end_is_copied_up_to_the_limit() {
        let tree = Tree::new("dir root/t/d");
        let roots = tree.roots(["root"]);
        let copied = roots.copy_tree("t", "new", CopyOptions::new(), |progress| {
            let _ = fs::create_dir(tree.path("root/t").join(progress.current()).join("d"));
            ControlFlow::Continue(())
        });
        assert_eq!(code(copied), Some("too_deep"));
        assert!(!tree.path("root/new").exists() && has_no_temporary_name(&tree, "root"));
    }

    #[test]
    fn replaced_entries_are_copied_as_they_are_found() {
        let tree = Tree::new("file root/t/f; file root/t/d/f; dir root/t/e; file out/secret");
        let report = copy_with(&tree, "f", skip(), || {
            fs::remove_file(tree.path("root/t/f")).unwrap();
            symlink(tree.path("out/secret"), tree.path("root/t/f")).unwrap();
        });
        assert_eq!(skipped(&report.unwrap()), ["f: outside_roots"]);
        fs::remove_dir_all(tree.path("root/new")).unwrap();
        let report = copy_with(&tree, "f", skip(), || {
            fs::remove_file(tree.path("root/t/f")).unwrap();
            tree.add("fifo root/t/f");
        });
        assert_eq!(skipped(&report.unwrap()), ["f: special_file"]);
        fs::remove_dir_all(tree.path("root/new")).unwrap();
        // Directories are entered after all entries beside them.
        let report = copy_with(&tree, "d", skip(), || {
            fs::remove_dir(tree.path("root/t/e")).unwrap();
            symlink(tree.path("out"), tree.path("root/t/e")).unwrap();
        });
        let report = report.unwrap();
        assert!(report.files() == 1 && !tree.path("root/new/e").exists(), "{report:?}");
        assert!(tree.snapshot("root/new").iter().all(|line| !line.contains("secret")));
    }

    /// The copy never follows a symlink in the temporary directory, and replaces nothing in it.
    #[test]
    fn changed_temporary_directory_fails_the_copy() {
        let tree = Tree::new("file root/t/d/f; file root/t/d/e/f; dir out");
        let before = tree.snapshot("out");
        let copied = copy_with(&tree, "d/e/f", skip(), || {
            let copy = temporary(&tree);
            fs::rename(copy.join("d"), copy.join("away")).unwrap();
            symlink(tree.path("out"), copy.join("d")).unwrap();
        });
        assert_eq!(code(copied), Some("changed"));
        let copied = copy_with(&tree, "d/e/f", skip(), || {
            fs::write(temporary(&tree).join("d/e/f"), "of another process").unwrap();
        });
        assert_eq!(code(copied), Some("already_exists"));
        assert!(!tree.path("root/new").exists() && has_no_temporary_name(&tree, "root"));
        // The whole copy is replaced by another directory, which is not removed.
        let copied = copy_with(&tree, "d/e/f", skip(), || {
            let copy = temporary(&tree);
            fs::rename(&copy, tree.path("root/away")).unwrap();
            fs::create_dir_all(copy.join("of another process")).unwrap();
        });
        assert_eq!(code(copied), Some("changed"));
        assert!(!tree.path("root/new").exists());
        assert_eq!(fs::read_dir(tree.path("root/away")).unwrap().count(), 0);
        assert!(temporary(&tree).join("of another process").exists());
        assert_eq!(tree.snapshot("out"), before);
    }

    /// A directory of the copy is replaced by another one when only the modes are left to be set.
    #[test]
    fn mode_of_another_directory_is_not_changed() {
        let tree = Tree::new("file root/t/d/f; link root/t/l -> d; dir root/victim");
        fs::set_permissions(tree.path("root/victim"), fs::Permissions::from_mode(0o700)).unwrap();
        let victim = fs::File::open(tree.path("root/victim")).unwrap();
        // The symlink is reported when it is found, when it is created and when it is verified.
        let mut reported = 0;
        let roots = tree.roots(["root"]);
        let copied = roots.copy_tree("t", "new", CopyOptions::new(), |progress| {
            reported += usize::from(progress.current() == Path::new("l"));
            if reported == 3 {
                reported += 1;
                let copy = temporary(&tree);
                fs::rename(copy.join("d"), tree.path("root/away")).unwrap();
                fs::rename(tree.path("root/victim"), copy.join("d")).unwrap();
            }
            ControlFlow::Continue(())
        });
        assert_eq!(code(copied), Some("changed"));
        assert_eq!(victim.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(tree.path("root/away/f").exists() && !tree.path("root/new").exists());
    }
}

/// Another thread swaps a directory and a file of the source with symlinks that lead outside.
#[cfg(target_os = "linux")]
#[test]
fn swapped_source_never_leaks_what_is_outside() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::{Duration, Instant};
    let tree = Tree::in_memory(
        "file root/t/f = inside; file root/t/d/f = inside; link root/box/f -> ../../out/f; \
         link root/box/d -> ../../out; file out/f = SECRET",
    );
    let (roots, before) = (tree.roots(["root"]), tree.snapshot("out"));
    let secret = format!("{:?}", b"SECRET".as_slice());
    let is_over = AtomicBool::new(false);
    let [mut copies, mut skips, mut leaks] = [0; 3];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                for name in ["f", "d"] {
                    let [inside, link] =
                        ["root/t", "root/box"].map(|path| tree.path(path).join(name));
                    renameat_with(CWD, &inside, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        let started = Instant::now();
        let is_shown = |copies, skips| copies > 300 && skips > 0;
        while started.elapsed() < Duration::from_secs(2)
            || !is_shown(copies, skips) && started.elapsed() < Duration::from_secs(60)
        {
            let Ok(report) = copy_tree(&roots, "t", "new", skip()) else { continue };
            copies += 1;
            skips += usize::from(report.skipped_count() > 0);
            let is_secret = |line: &String| line.contains(&secret);
            leaks += usize::from(tree.snapshot("root/new").iter().any(is_secret));
            fs::remove_dir_all(tree.path("root/new")).unwrap();
        }
        is_over.store(true, Relaxed);
        assert!(is_shown(copies, skips), "{copies} copies, {skips} with skipped entries");
    });
    assert_eq!(leaks, 0, "of {copies} copies");
    assert_eq!(tree.snapshot("out"), before);
    assert!(has_no_temporary_name(&tree, "root"));
}

#[test]
fn names_in_a_copy_are_hidden_by_its_final_path() {
    #[cfg(windows)]
    if !symlinks_are_visible() {
        return report_not_shown(
            "fs::copy::names_in_a_copy_are_hidden_by_its_final_path",
            "symlinks",
        );
    }
    for pattern in ["*.tmp", ".*"] {
        let tree = Tree::new("file root/a/f = text; link root/a/l -> f");
        let roots = protecting(&tree, "root", &[(pattern, Protection::Hidden)]);
        let copied = copy_tree(&roots, "a", "b", CopyOptions::new()).unwrap();
        assert_eq!((copied.symlinks(), copied.skipped_count()), (1, 0), "{pattern}");
        assert_eq!(roots.read("b/l", 9).unwrap(), b"text");
    }
    let tree = Tree::new("link root/a/l -> secret; link root/a/m -> ../b/secret");
    let roots = protecting(&tree, "root", &[("/b/secret", Protection::Hidden)]);
    let copied = copy_tree(&roots, "a", "b", skip()).unwrap();
    assert_eq!(skipped(&copied), ["l: outside_roots", "m: outside_roots"]);
}

/// The limit on descriptors applies to a process, so this runs in its own.
#[cfg(target_os = "linux")]
#[test]
fn failed_copy_without_descriptors_leaves_no_directory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let name = "fs::copy::failed_copy_without_descriptors_leaves_no_directory";
    if !crate::support::is_own_process(name, &[]) {
        return;
    }
    let tree = Tree::new("file root/a/f; dir root/a/d");
    let roots = tree.roots(["root"]);
    let before = tree.snapshot("root");
    let most = getrlimit(Resource::Nofile);
    let mut failed = 0;
    for free in 0..20 {
        setrlimit(Resource::Nofile, Rlimit { current: Some(100), ..most }).unwrap();
        let mut open: Vec<_> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
        open.truncate(open.len() - free);
        let options = CopyOptions::new().create_parents(true);
        let copied = copy_tree(&roots, "a", "x/y/z", options);
        let parents = WriteOptions::new().create_parents(true);
        let written = roots.copy("a/f", "p/q/f", 9, parents);
        drop(open);
        setrlimit(Resource::Nofile, most).unwrap();
        failed += usize::from(copied.is_err()) + usize::from(written.is_err());
        for (is_done, path) in [(copied.is_ok(), "x"), (written.is_ok(), "p")] {
            if is_done {
                fs::remove_dir_all(tree.path("root").join(path)).unwrap();
            }
        }
        assert_eq!(tree.snapshot("root"), before, "{free} descriptors");
    }
    assert!((8..40).contains(&failed), "{failed}");
}

/// Each chain is created in several rounds, whatever the order of the listing is.
#[cfg(unix)]
#[test]
fn symlinks_that_lead_through_each_other_are_copied_in_any_order() {
    let orders = ["abc", "acb", "bac", "bca", "cab", "cba"];
    for order in orders {
        let [x, y, z]: [char; 3] = order.chars().collect::<Vec<_>>().try_into().unwrap();
        let tree = Tree::new("file root/s/f = text; dir root/s/d/e");
        let link = |text: &str, name| {
            std::os::unix::fs::symlink(text, tree.path("root/s").join(String::from(name))).unwrap();
        };
        link("d", x);
        link(&format!("{x}/../d/e"), y);
        link(&format!("{y}/../../f"), z);
        let roots = tree.roots(["root"]);
        let copied = copy_tree(&roots, "s", "t", CopyOptions::new()).unwrap();
        assert_eq!(copied.symlinks(), 3, "{order}");
        assert_eq!(roots.read(format!("t/{z}").as_str(), 9).unwrap(), b"text");
    }
}

/// Without a limit, 100,000 such symlinks would take several minutes.
#[cfg(unix)]
#[test]
fn symlinks_of_a_tree_take_a_bounded_number_of_look_ups() {
    use std::os::unix::fs::symlink;
    let tree = Tree::new("dir root/s");
    let source = tree.path("root/s");
    fs::create_dir(source.join("d")).unwrap();
    // After each `..`, the next name is looked up again.
    let steps = "d/../".repeat(40);
    for number in 0..38 {
        symlink(format!("{steps}c{}", number + 1), source.join(format!("c{number}"))).unwrap();
    }
    fs::write(source.join("c38"), "").unwrap();
    for number in 0..1_500 {
        symlink("c0", source.join(format!("l{number}"))).unwrap();
    }
    let roots = tree.roots(["root"]);
    let refused = copy_tree(&roots, "s", "t", skip()).unwrap_err();
    assert_eq!(refused.code(), "too_costly");
    let text = "copy \"s\" to \"t\": the symlinks take more than 2000000 look-ups to resolve";
    assert_eq!(refused.to_string(), text);
    assert!(!tree.path("root/t").exists() && has_no_temporary_name(&tree, "root"));
}
