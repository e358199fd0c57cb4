//! Attacks on the entries of listings and walks, on the proofs that are derived from other proofs,
//! and on ignore files.

#[cfg(unix)]
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{MAIN_SEPARATOR, Path};

use mcp_roots_guard::{Access, DirEntry, FileType, Roots, Walk, WalkOptions};
#[cfg(unix)]
use mcp_roots_guard::{CheckedPath, Result};

use crate::support::protection::Protection;
use crate::support::tree::Tree;
use crate::support::{code, protecting};

fn entry(roots: &Roots, directory: &str, path: &str) -> DirEntry {
    let mut walk = roots.walk(directory, WalkOptions::default()).unwrap();
    loop {
        let entry = walk.next_entry().unwrap().unwrap();
        if entry.relative() == Path::new(path) {
            return entry;
        }
    }
}

#[cfg(unix)]
fn is_dir(place: &CheckedPath) -> bool {
    place.metadata().unwrap().file_type().is_dir()
}

fn text(entry: &DirEntry) -> String {
    entry.relative().to_str().unwrap().replace(MAIN_SEPARATOR, "/")
}

/// Returns the paths that a walk yields, and the codes of its errors.
fn paths(mut walk: Walk) -> (Vec<String>, Vec<&'static str>) {
    let mut paths = Vec::new();
    loop {
        match walk.next_entry() {
            Ok(None) => {
                let unreadable = walk.unreadable().iter().map(mcp_roots_guard::Error::code);
                return (paths, unreadable.collect());
            }
            Ok(Some(entry)) => paths.push(text(&entry)),
            Err(error) => {
                // The error is the same in each later call.
                for _ in 0..3 {
                    let again = walk.next_entry().unwrap_err();
                    assert_eq!(again.code(), error.code());
                }
                return (paths, vec![error.code()]);
            }
        }
    }
}

/// Fails if the closure blocks, for example in `open` on a FIFO.
#[cfg(target_os = "linux")]
fn within_seconds<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    done.recv_timeout(std::time::Duration::from_secs(20)).expect("the operation does not block")
}

const TREE: &str = "file r/d/f = old; file r/d/sub/f = sub; file r/x = x; dir r/other; \
                    file out/f = secret; file out/sub/f = secret";

#[cfg(unix)]
#[test]
fn moved_directory_is_read_but_not_changed_through_its_entries() {
    use mcp_roots_guard::{Attribute, OpenMode, Precondition};
    let tree = Tree::new(TREE);
    let roots = tree.roots(["r"]);
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    for (path, content) in [("f", "old"), ("sub/f", "sub")] {
        let moved = entry(&roots, "d", path);
        fs::rename(tree.path("r/d"), tree.path("r/moved")).unwrap();
        let (checked, new) = (moved.follow().unwrap(), moved.to_entry());
        for is_replaced in [false, true] {
            if is_replaced {
                tree.add("file r/d/f = victim; file r/d/sub/f = victim");
            }
            assert_eq!(moved.read_to_string(99).unwrap(), content);
            assert_eq!(moved.metadata().unwrap().len(), 3);
            assert_eq!(checked.access(), Access::ReadWrite);
            let to = roots.check_entry("other/to").unwrap();
            for refused in [
                checked.open_with(OpenMode::ReadWrite).map(drop),
                checked.set_attribute(Attribute::Modified(epoch)),
                checked.entry().unwrap().remove_file(),
                new.remove_file(),
                new.rename(&to, Precondition::Any),
                roots.check_entry("x").unwrap().rename(&new, Precondition::Any),
            ] {
                assert_eq!(code(refused), Some("changed"), "{path}");
            }
        }
        for (at, expected) in [("moved", content), ("d", "victim")] {
            let at = tree.path("r").join(at).join(path);
            assert_eq!(fs::read(at).unwrap(), expected.as_bytes());
        }
        assert_eq!(fs::read(tree.path("r/x")).unwrap(), b"x");
        fs::remove_dir_all(tree.path("r/d")).unwrap();
        // The entries are valid again as soon as the directory is back.
        fs::rename(tree.path("r/moved"), tree.path("r/d")).unwrap();
        new.remove_file().unwrap();
        assert!(!tree.path("r/d").join(path).exists());
    }
}

/// The directory could have been moved to a protected name.
#[cfg(unix)]
#[test]
fn moved_directory_is_not_changed_and_not_read_if_names_are_denied() {
    for protection in [Protection::ReadOnly, Protection::Denied] {
        for to in ["secret", "moved"] {
            let tree = Tree::new(TREE);
            let roots = protecting(&tree, "r", &[("secret", protection)]);
            for path in ["f", "sub/f"] {
                let moved = entry(&roots, "d", path);
                assert_eq!(moved.read_to_string(99).unwrap().len(), 3);
                fs::rename(tree.path("r/d"), tree.path("r").join(to)).unwrap();
                let before = tree.snapshot("r");
                let refused = matches!(protection, Protection::Denied).then_some("changed");
                assert_eq!(code(moved.read_to_string(99)), refused, "{protection:?} {to}");
                assert_eq!(code(moved.metadata()), refused);
                assert_eq!(code(moved.to_entry().remove_file()), Some("changed"));
                assert_eq!(tree.snapshot("r"), before);
                fs::rename(tree.path("r").join(to), tree.path("r/d")).unwrap();
            }
        }
    }
}

#[test]
fn entry_gives_no_more_access_than_a_request() {
    let tree = Tree::new(TREE);
    tree.add("file r/d/ro/f = a; file r/d/ro2 = a; file r/d/no/f = b; file r/no = b");
    let read_only = tree.roots(["r"]).read_only();
    let protected = protecting(&tree, "r", &[("ro*", Protection::ReadOnly)]);
    let nested = tree.roots(["r", "r/d/sub"]);
    let before = tree.snapshot("r");
    for (roots, directory, path, access, expected) in [
        (&read_only, "d", "f", Access::ReadOnly, "read_only"),
        (&read_only, ".", "d", Access::ReadOnly, "read_only"),
        (&protected, "d", "ro/f", Access::ReadOnly, "protected"),
        (&protected, "d", "ro2", Access::ReadOnly, "protected"),
        (&protected, "d", "ro", Access::ReadOnly, "protected"),
        (&nested, ".", "d", Access::ReadWrite, "root_itself"),
        (&nested, ".", "d/sub", Access::ReadWrite, "root_itself"),
    ] {
        let entry = entry(roots, directory, path);
        let checked = entry.to_entry();
        assert_eq!(checked.access(), access, "{path}");
        let removed = match entry.file_type() {
            FileType::Directory => checked.remove_dir_all(),
            _ => checked.remove_file(),
        };
        assert_eq!(code(removed), Some(expected), "{path}");
    }
    let parent = entry(&read_only, "d", "f").to_entry().parent().unwrap();
    assert_eq!(code(parent.entry().unwrap().remove_dir_all()), Some("read_only"));
    assert_eq!(code(parent.join("n").unwrap().write("n")), Some("read_only"));
    assert_eq!(tree.snapshot("r"), before);
    let hidden = protecting(&tree, "r", &[("no", Protection::Denied)]);
    let (found, _) = paths(hidden.walk("d", WalkOptions::default()).unwrap());
    assert_eq!(found, ["f", "ro", "ro/f", "ro2", "sub", "sub/f"]);
    let file = tree.roots(["r/x"]);
    assert_eq!(code(file.read_dir(".")), Some("not_a_directory"));
    assert_eq!(code(file.walk(".", WalkOptions::default())), Some("not_a_directory"));
}

#[cfg(target_os = "linux")]
#[test]
fn replaced_entry_and_entry_of_a_replaced_directory_are_never_followed() {
    const CHANGED: [Option<&str>; 3] = [Some("changed"); 3];
    // What is replaced and by what, and the codes of reading, describing and removing the entry.
    let rows = [
        ("f", "link r/d/f -> $T/out/f", [Some("changed"), None, None]),
        ("f", "link r/d/f -> ../x", [Some("changed"), None, None]),
        ("f", "link r/d/f -> missing", [Some("changed"), None, None]),
        ("f", "fifo r/d/f", [Some("special_file"), None, None]),
        ("f", "socket r/d/f", [Some("special_file"), None, None]),
        ("f", "dir r/d/f", [Some("is_a_directory"), None, Some("is_a_directory")]),
        ("f", "", [Some("not_found"); 3]),
        ("f", "file r/d/f = new", [None; 3]),
        ("sub", "link r/d/sub -> $T/out/sub", CHANGED),
        ("sub", "link r/d/sub -> $T/r/moved", CHANGED),
        ("sub", "link r/d/sub -> ../moved", CHANGED),
        ("sub", "link r/d/sub -> missing", CHANGED),
    ];
    for (name, replacement, [read, described, removed]) in rows {
        let tree = Tree::new(TREE);
        let roots = tree.roots(["r"]);
        let entry = entry(&roots, ".", if name == "f" { "d/f" } else { "d/sub/f" });
        fs::rename(tree.path("r/d").join(name), tree.path("r/moved")).unwrap();
        tree.add(replacement);
        let before = [tree.snapshot("out"), tree.snapshot("r/moved")];
        let listed = entry.clone();
        assert_eq!(
            within_seconds(move || code(listed.follow().unwrap().open())),
            read,
            "{replacement}"
        );
        let listed = entry.clone();
        assert_eq!(within_seconds(move || code(listed.read_to_string(9))), read, "{replacement}");
        assert_eq!(entry.file_type(), FileType::File);
        assert_eq!(code(entry.metadata()), described, "{replacement}");
        assert_eq!(code(entry.to_entry().remove_file()), removed, "{replacement}");
        assert_eq!([tree.snapshot("out"), tree.snapshot("r/moved")], before, "{replacement}");
        assert_eq!(fs::read(tree.path("r/x")).unwrap(), b"x");
        let remains = fs::symlink_metadata(tree.path("r/d").join(name)).is_ok();
        assert_eq!(remains, removed.is_some() && !replacement.is_empty(), "{replacement}");
    }
}

#[cfg(unix)]
#[test]
fn listed_symlink_is_described_and_removed_but_not_opened() {
    let tree = Tree::new("link r/out -> $T/out/f; file out/f; file r/f; link r/in -> f");
    let roots = tree.roots(["r"]);
    for (name, followed) in [("out", Some("outside_roots")), ("in", None)] {
        let entry = entry(&roots, ".", name);
        assert_eq!(entry.file_type(), FileType::Symlink);
        assert!(entry.metadata().unwrap().file_type().is_symlink());
        assert_eq!(code(entry.read(99)), Some("special_file"));
        assert_eq!(code(entry.read_to_string(99)), Some("special_file"));
        assert_eq!(code(entry.follow().and_then(|path| path.open())), followed);
        let root = roots.check(".").unwrap();
        assert_eq!(code(root.join(entry.relative())), followed);
        entry.to_entry().remove_file().unwrap();
    }
    assert!(tree.path("out/f").exists() && tree.path("r/f").exists());
}

/// The request for the whole path is the oracle.
#[cfg(unix)]
#[test]
fn joined_path_is_resolved_like_a_request() {
    let tree = Tree::new(
        "file r/d/a; file r/d/e/b; file r/f; dir r/d/e/g; link r/d/up -> ..; \
         link r/d/out -> $T/out; link r/d/in -> e; link r/l -> d/e; file out/f; file r/n/x; \
         dir r/d/empty",
    );
    let roots = tree.roots(["r", "r/n"]);
    let joined = "a|b|f|x|d/a|./a|e/../a|../a|.|..|../f|../..|../../out|../../out/f|../../r/f|\
                  e/|a/|a/.|in/b|in/|up/f|out|out/f|up/l/b|missing|missing/..|g/../b";
    let mut codes = BTreeSet::new();
    for request in [".", "d", "d/e", "d/in", "l", "f", "$T/r/d", "$T/r/n"] {
        let request = tree.expand(request);
        let first = roots.check(&request).unwrap();
        for joined in joined.split('|') {
            let found = first.join(joined);
            let whole = roots.check(format!("{request}/{joined}"));
            let [found, whole] = [found, whole].map(|found| found.map_err(|error| error.code()));
            let place = |found: &Result<CheckedPath, _>| {
                found.as_ref().map(|it| it.place_key()).map_err(|it| *it)
            };
            assert_eq!(place(&found), place(&whole), "{request} {joined}");
            codes.insert(found.as_ref().err().copied());
            // The second join starts in the place, and not in the first root.
            for found in found.into_iter().filter(|found| found.exists() && is_dir(found)) {
                assert_eq!(found.join(".").unwrap().place_key(), found.place_key());
            }
        }
        for (joined, expected) in [
            ("", "empty"),
            ("/", "not_relative"),
            ("$T/r/f", "not_relative"),
            ("file://$T/r/f", "not_relative"),
            ("a\0", "nul"),
        ] {
            let refused = code(first.join(tree.expand(joined)));
            assert_eq!(refused, Some(expected), "{request} {joined:?}");
        }
    }
    let expected = [None, Some("not_a_directory"), Some("not_found"), Some("outside_roots")];
    assert_eq!(codes, BTreeSet::from(expected));
}

#[cfg(unix)]
#[test]
fn join_keeps_the_roots_of_its_proof() {
    let tree = Tree::new("file a/f = a; file b/f = b; file b/d/f = bd; link alias -> b");
    // In the second root, which is also named by an alias.
    for second in ["b", "alias"] {
        let roots = tree.roots(["a", second]);
        let d = roots.check(tree.path("b/d")).unwrap();
        let joined = d.join("../f").unwrap();
        assert_eq!(joined.read(9).unwrap(), b"b");
        assert_eq!(joined.root().path(), tree.path("b"));
        let d = roots.check(tree.path(second).join("d")).unwrap();
        assert_eq!(d.join("f").unwrap().read(9).unwrap(), b"bd");
    }
    let roots = tree.roots(["a", "b"]);
    // A narrowed root has no parent to go to.
    let d = roots.within(tree.path("b/d")).unwrap();
    let here = d.check(".").unwrap();
    assert_eq!(here.join("f").unwrap().read(9).unwrap(), b"bd");
    assert_eq!(code(here.join("../f")), Some("outside_roots"));
    let read_only = roots.read_only();
    let here = read_only.check(tree.path("b")).unwrap();
    let new = here.join("new").unwrap();
    assert_eq!((new.access(), code(new.write("x"))), (Access::ReadOnly, Some("read_only")));
    // A root that is a file contains nothing.
    let file = tree.roots(["a/f"]);
    let only = file.check(tree.path("a/f")).unwrap();
    for joined in ["x", ".", "..", "../f"] {
        let refused = code(only.join(joined));
        assert!(matches!(refused, Some("not_a_directory" | "outside_roots")), "{refused:?}");
    }
    assert!(only.parent().is_none());
    // The error names the whole path, and the proof of an entry can be joined.
    let d = roots.check(tree.path("b/d")).unwrap();
    let error = d.join("missing").unwrap().metadata().unwrap_err().to_string();
    assert!(error.contains("b/d/missing"), "{error}");
    let entry = entry(&roots, tree.path("b").to_str().unwrap(), "d");
    let joined = entry.follow().unwrap().join("f").unwrap();
    assert_eq!(joined.read(9).unwrap(), b"bd");
    // Protected names apply.
    let roots = protecting(&tree, "b", &[("d", Protection::Denied)]);
    let b = roots.check(".").unwrap();
    assert_eq!(code(b.join("d/f")), Some("protected"));
}

#[cfg(unix)]
#[test]
fn parent_is_the_proof_of_the_containing_directory() {
    let tree = Tree::new("file r/d/e/f = f; link r/l -> d/e/f; dir r/x");
    let roots = tree.roots(["r"]);
    let file = roots.check("d/e/f").unwrap();
    for parent in [file.parent(), roots.check("l").unwrap().parent()] {
        let parent = parent.unwrap();
        assert_eq!(parent.place_key(), roots.check("d/e").unwrap().place_key());
        assert!(parent.exists() && is_dir(&parent));
    }
    let top = file.parent().unwrap().parent().unwrap().parent().unwrap();
    assert!(top.relative().as_os_str().is_empty() && top.parent().is_none());
    assert_eq!(code(top.entry().unwrap().remove_dir_all()), Some("root_itself"));
    // Names that do not exist.
    let new = roots.check("new/a/b").unwrap();
    let exist: Vec<_> = std::iter::successors(Some(new), |place| place.parent())
        .map(|place| place.exists())
        .collect();
    assert_eq!(exist, [false, false, false, true]);
    let new = roots.check("new/a").unwrap();
    assert_eq!(code(new.parent().unwrap().metadata()), Some("not_found"));
    new.parent().unwrap().create_dir().unwrap();
    roots.check("new/a").unwrap().create_dir().unwrap();
    new.parent().unwrap().entry().unwrap().remove_dir_all().unwrap();
}

/// The parents of an entry are the directories between it and the listed one, the listed one
/// itself, and those above it.
#[cfg(unix)]
#[test]
fn each_parent_of_an_entry_can_be_described_and_removed() {
    let tree = Tree::new("file r/a/b/c/d/f");
    let roots = tree.roots(["r"]);
    let entry = entry(&roots, "a/b", "c/d/f").to_entry();
    entry.remove_file().unwrap();
    for path in ["a/b/c/d", "a/b/c", "a/b", "a"] {
        let mut parent = entry.parent().unwrap();
        while parent.relative() != Path::new(path) {
            parent = parent.parent().unwrap();
        }
        assert!(is_dir(&parent), "{path}");
        assert_eq!(parent.read_dir().unwrap().count(), 0, "{path}");
        parent.entry().unwrap().remove_dir().unwrap();
        assert!(!tree.path("r").join(path).exists(), "{path}");
    }
}

/// A server reads a file and then removes it. The target of a symlink must not be removed.
#[cfg(unix)]
#[test]
fn target_of_a_followed_symlink_is_not_removed() {
    const FOLLOWED: &str = "link chain far up d/back dir/back d/../link $T/r/link dir dir/ dir// \
                            slash slash/";
    let tree = Tree::new(
        "file r/f = f; file r/d/g = g; link r/link -> f; link r/chain -> link; link r/dir -> d; \
         link r/far -> $T/r/f; link r/slash -> d/; link r/up -> d/../f; link r/d/back -> ../f; \
         link r/dangling -> missing; link r/tree -> missing/deep; link r/dangling2 -> dangling; \
         dir r/d/e",
    );
    let rows: &[(&str, &[&str])] = &[
        (FOLLOWED, &["followed_symlink"]),
        ("dangling dangling2 tree tree/", &["followed_symlink"]),
        ("dir/. dir/./ dir/././/", &["followed_symlink", "dot_name"]),
        ("dir/e/.. d/. d/e/..", &["dot_name"]),
        (". d/..", &["dot_name", "root_itself"]),
        ("..", &["outside_roots"]),
    ];
    let rows = rows
        .iter()
        .flat_map(|(requests, codes)| requests.split(' ').map(move |request| (request, codes)));
    let roots = tree.roots(["r"]);
    let before = tree.snapshot(".");
    for (request, refused) in rows {
        let request = tree.expand(request);
        let no_follow = |checked: CheckedPath| -> Result<()> {
            let entry = checked.entry()?;
            if is_dir(&checked) { entry.remove_dir_all() } else { entry.remove_file() }
        };
        let direct = roots.check(&request).and_then(no_follow);
        let root = roots.check(".").unwrap();
        let error = direct.unwrap_err();
        assert!(refused.contains(&error.code()), "{request}: {error}");
        if !request.starts_with('/') {
            let error = root.join(&request).and_then(no_follow).unwrap_err();
            assert!(refused.contains(&error.code()), "{request}: {error}");
        }
    }
    assert_eq!(tree.snapshot("."), before);
    // Names that are not symlinks, also below symlinks, are removed.
    for request in ["dir/g", "d/../f", "d/e/", "d//back"] {
        let entry = roots.check_entry(request).unwrap();
        if entry.metadata().unwrap().file_type() == FileType::Directory {
            entry.remove_dir()
        } else {
            entry.remove_file()
        }
        .unwrap();
    }
    assert!(!tree.path("r/d/g").exists() && !tree.path("r/f").exists());
    assert_eq!(fs::read_dir(tree.path("r/d")).unwrap().count(), 0);
    // A name that becomes a symlink after the check is removed itself.
    tree.add("file r/f; file r/keep = k");
    let checked = roots.check("f").unwrap();
    fs::remove_file(tree.path("r/f")).unwrap();
    tree.add("link r/f -> keep");
    checked.entry().unwrap().remove_file().unwrap();
    assert!(!tree.path("r/f").is_symlink() && fs::read(tree.path("r/keep")).unwrap() == b"k");
}

/// Creates directories that are nested this deep. Returns the path of the deepest one.
#[cfg(target_os = "linux")]
fn nested(tree: &Tree, directory: &str, depth: usize) -> String {
    let path = vec!["x"; depth].join("/");
    fs::create_dir_all(tree.path(directory).join(&path)).unwrap();
    path
}

#[cfg(target_os = "linux")]
#[test]
fn too_deep_directory_ends_the_walk_unless_it_is_skipped() {
    use mcp_roots_guard::limits::WALK_DEPTH;
    let tree = Tree::new("file r/d/y; file r/d/a");
    let deepest = nested(&tree, "r/d", WALK_DEPTH + 3);
    let roots = tree.roots(["r"]);
    let options = WalkOptions::default();
    let (found, errors) = paths(roots.walk("d", options).unwrap());
    assert_eq!((found.len(), errors.as_slice()), (WALK_DEPTH + 1, ["too_deep"].as_slice()));
    let mut walk = roots.walk("d", options).unwrap();
    let error = loop {
        match walk.next_entry() {
            Ok(entry) => assert!(entry.is_some()),
            Err(error) => break error.to_string(),
        }
    };
    // The text names the directory in the same way as the errors of its entries.
    let prefix = format!("walk \"d/{}", &deepest[..20]);
    assert!(error.starts_with(&prefix), "{error}");
    let (found, errors) = paths(roots.walk("d", options.skip_unreadable()).unwrap());
    assert_eq!((found.len(), errors.as_slice()), (WALK_DEPTH + 2, ["too_deep"].as_slice()));
    assert_eq!(found.last().unwrap(), "y");
    // A chosen depth is not an error.
    for depth in [WALK_DEPTH, 5, 1] {
        let (found, errors) = paths(roots.walk("d", options.max_depth(depth)).unwrap());
        assert_eq!((found.len(), errors.len()), (depth + 2, 0));
    }
    assert_eq!(paths(roots.walk("d", options.max_depth(0)).unwrap()), (vec![], vec![]));
}

#[cfg(target_os = "linux")]
#[test]
fn unreadable_directory_ends_the_walk_unless_it_is_skipped() {
    use std::os::unix::fs::PermissionsExt as _;

    use crate::fs::permissions::as_user;
    let tree = Tree::new("file r/a/f; file r/b/f; file r/b/closed/f; file r/c");
    let set_mode = |path: &str, mode| {
        fs::set_permissions(tree.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(".", 0o755);
    let roots = tree.roots(["r"]);
    let unprivileged = |work: &(dyn Fn() + Sync)| {
        let is_root = rustix::process::geteuid().is_root();
        if is_root { as_user((5001, &[5001]), work) } else { work() }
    };
    let work = || {
        let options = WalkOptions::default();
        let expected = ["a", "a/f", "b", "b/closed"].map(str::to_owned).to_vec();
        let walk = |options| roots.walk(".", options).unwrap();
        assert_eq!(paths(walk(options)), (expected.clone(), vec!["permission_denied"]));
        let rest = ["b/f", "c"].map(str::to_owned);
        let all = [expected, rest.to_vec()].concat();
        assert_eq!(paths(walk(options.skip_unreadable())), (all, vec!["permission_denied"]));
        let mut walk = roots.walk("b", options.skip_unreadable()).unwrap();
        while walk.next_entry().unwrap().is_some() {}
        let error = walk.unreadable()[0].to_string();
        assert!(error.starts_with("walk \"b/closed\": "), "{error}");
        // The first directory is never skipped.
        let refused = roots.walk("b/closed", options.skip_unreadable());
        assert_eq!(code(refused), Some("permission_denied"));
        assert_eq!(code(roots.read_dir("b/closed")), Some("permission_denied"));
    };
    // Listing a directory needs permission to read it.
    for mode in [0o000, 0o711] {
        set_mode("r/b/closed", mode);
        unprivileged(&work);
    }
    // With a depth of 0, nothing is read.
    unprivileged(&|| {
        let walk = roots.walk("b/closed", WalkOptions::default().max_depth(0));
        assert!(walk.unwrap().next_entry().unwrap().is_none());
    });
}

/// Names with equal beginnings, and names that end early, are in the order of their bytes.
#[test]
fn walk_yields_the_entries_of_each_directory_in_the_order_of_their_names() {
    let tree = Tree::new("dir r/d");
    let text = "a a! ab abcdefg abcdefgh abcdefgh0 abcdefgi abcdefgh\u{e9} \u{e9}";
    let mut names: Vec<_> = text.split(' ').map(OsString::from).collect();
    #[cfg(target_os = "linux")]
    for bytes in [b"ab\xff".as_slice(), b"abcdefgh\xff", b"\xff"] {
        use std::os::unix::ffi::OsStrExt as _;
        names.push(std::ffi::OsStr::from_bytes(bytes).to_owned());
    }
    for name in &names {
        fs::write(tree.path("r/d").join(name), "").unwrap();
    }
    let mut walk = tree.roots(["r"]).walk("d", WalkOptions::default()).unwrap();
    let mut walked = Vec::new();
    while let Some(entry) = walk.next_entry().unwrap() {
        assert_eq!(entry.relative(), Path::new(entry.file_name()));
        assert_eq!(entry.path(), Path::new("d").join(entry.file_name()));
        walked.push(entry.file_name().to_owned());
    }
    names.sort();
    assert_eq!(walked, names);
}

#[test]
fn walk_with_too_many_entries_ends_with_an_error_that_repeats() {
    let tree = Tree::new("file r/a/f; file r/b/f; file r/c");
    let roots = tree.roots(["r"]);
    for skip in [false, true] {
        for (limit, yielded, is_complete) in
            [(0, 0, false), (1, 1, false), (4, 4, false), (5, 5, true), (6, 5, true)]
        {
            let options = WalkOptions::default().max_entries(limit);
            let options = if skip { options.skip_unreadable() } else { options };
            let (found, errors) = paths(roots.walk(".", options).unwrap());
            assert_eq!(found.len(), yielded, "{limit}");
            let expected: &[&str] = if is_complete { &[] } else { &["too_many_entries"] };
            assert_eq!(errors, expected, "{limit}");
        }
    }
    // A finished walk stays finished.
    let mut walk = roots.walk(".", WalkOptions::default()).unwrap();
    while walk.next_entry().unwrap().is_some() {}
    assert!(walk.next_entry().unwrap().is_none());
}

#[test]
fn skipped_and_dotted_directories_are_not_entered() {
    let tree = Tree::new("file r/.h/f; file r/a/.g; file r/a/.b/f; file r/b/f; file r/c");
    let roots = tree.roots(["r"]);
    let options = WalkOptions::default().skip_dot_files().max_entries(4);
    let (found, errors) = paths(roots.walk(".", options).unwrap());
    assert_eq!((found, errors), (["a", "b", "b/f", "c"].map(str::to_owned).to_vec(), vec![]));
    // The walked directory itself may begin with a dot.
    let (found, _) = paths(roots.walk(".h", options).unwrap());
    assert_eq!(found, ["f"]);
    // Skipping affects only the directory that was returned last.
    let mut walk = roots.walk(".", WalkOptions::default()).unwrap();
    walk.skip_current_dir();
    let mut found = Vec::new();
    while let Some(entry) = walk.next_entry().unwrap() {
        found.push(text(&entry));
        if entry.file_name() != "a" {
            walk.skip_current_dir();
            walk.skip_current_dir();
        }
    }
    assert_eq!(found, [".h", "a", "a/.b", "a/.g", "b", "c"]);
}

#[cfg(all(target_os = "linux", feature = "ignore"))]
mod ignored;
