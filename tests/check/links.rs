//! Symlinks, hard links, attributes and directory handles: their effects and refusals.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::{Duration, SystemTime};

use crate::support::code;
use crate::support::one_step::OneStep as _;
use crate::support::tree::Tree;
use mcp_roots_guard::{Access, Attribute, Boundary};

fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// The targets of a symlink at `root/d/l`, and the code with which `symlink` refuses each.
#[cfg(unix)]
const TARGETS: [(&str, Option<&str>); 27] = [
    ("f", None),
    ("./f", None),
    ("../d/f", None),
    ("..", None),
    ("../", None),
    ("../../root/d", None),
    ("$T/root/d/f", None),
    ("$T/other/f", None),
    ("../../other/new", None),
    ("missing", None),
    ("missing/below", None),
    ("l", None),
    ("inner", None),
    ("dangling", None),
    ("~", None),
    ("file:///etc", None),
    ("../..", Some("outside_roots")),
    ("../../outside/secret", Some("outside_roots")),
    ("../../outside/none", Some("outside_roots")),
    ("$T/outside", Some("outside_roots")),
    ("/etc/passwd", Some("outside_roots")),
    ("leaves", Some("outside_roots")),
    ("leaves/secret", Some("outside_roots")),
    ("missing/../f", Some("not_found")),
    ("f/", Some("not_a_directory")),
    ("loop", Some("too_many_links")),
    ("", Some("empty")),
];

#[cfg(unix)]
const LINK_TREE: &str = "file root/d/f; file other/f; link root/d/inner -> f; \
                         link root/d/dangling -> none; link root/d/leaves -> ../../outside; \
                         link root/d/loop -> loop";

#[cfg(unix)]
#[test]
fn symlink_is_created_exactly_if_its_target_is_inside() {
    for (text, expected) in TARGETS {
        // The outcome does not depend on what exists outside.
        for outside in ["file outside/secret", "dir x"] {
            let tree = Tree::new(LINK_TREE);
            tree.add(outside);
            let (roots, text) = (tree.roots(["root", "other"]), tree.expand(text));
            assert_eq!(code(roots.symlink(&text, "d/l")), expected, "{text}");
            let created = fs::read_link(tree.path("root/d/l")).ok();
            let created_text = created.as_ref().map(|text| text.to_str().unwrap());
            assert_eq!(created_text, expected.is_none().then_some(text.as_str()));
        }
    }
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    for (text, expected) in [
        ("n".repeat(256), "too_long"),
        (format!("{}x", "./".repeat(2_048)), "too_long"),
        ("a\0b".into(), "nul"),
    ] {
        assert_eq!(code(roots.symlink(&text, "l")), Some(expected));
    }
    assert_eq!(code(roots.symlink(format!("{}x", "./".repeat(2_047)), "l")), None);
}

#[cfg(unix)]
#[test]
fn symlink_is_never_created_over_an_entry_or_in_a_place_that_cannot_be_changed() {
    let tree = Tree::new(
        "file root/f; dir root/d; link root/l -> f; link root/dangling -> none; file outside/s; \
         link root/out -> ../outside; file only",
    );
    let roots = tree.roots(["root", "only"]);
    let before = tree.snapshot("");
    for (at, expected) in [
        ("f", "already_exists"),
        ("d", "already_exists"),
        ("l", "already_exists"),
        ("dangling", "already_exists"),
        ("out", "already_exists"),
        ("out/new", "outside_roots"),
        ("../outside/new", "outside_roots"),
        (".", "root_itself"),
        ("d/.", "dot_name"),
        ("none/new", "not_found"),
        ("new/", "not_found"),
        ("f/new", "not_a_directory"),
    ] {
        assert_eq!(code(roots.symlink("f", at)), Some(expected), "{at}");
    }
    assert_eq!(code(roots.symlink("f", tree.path("only"))), Some("root_itself"));
    let followed = roots.check("dangling").unwrap();
    assert_eq!(code(followed.entry()), Some("followed_symlink"));
    assert_eq!(tree.snapshot(""), before);
    let refused = roots.symlink("../outside/s", "new").unwrap_err();
    assert_eq!(refused.code(), "outside_roots");
    let start = r#"create symlink "new" to "../outside/s": target: "#;
    assert!(refused.to_string().starts_with(start), "{refused}");
    // symlink(2): what exists matters before where the text would lead.
    for target in ["l", "f/../l", "missing/../l", "../outside/s", ""] {
        assert_eq!(code(roots.symlink(target, "l")), Some("already_exists"), "{target}");
    }
    let refused = roots.symlink("f", "l").unwrap_err();
    assert_eq!(refused.code(), "already_exists");
    assert!(refused.to_string().starts_with(r#"create symlink "l" to "f": "#), "{refused}");
}

/// A single-file root has no place for a symlink.
#[cfg(unix)]
#[test]
fn file_root_has_no_links() {
    let tree = Tree::new("file d/only; file d/other");
    let roots = tree.roots(["d/only"]);
    let only = tree.path("d/only");
    assert_eq!(code(roots.hard_link(&*only, &*only)), Some("root_itself"));
    assert_eq!(code(roots.open_unguarded_dir(&*only)), Some("not_a_directory"));
    assert_eq!(code(roots.set_attribute(&*only, Attribute::Modified(time(5)))), None);
    assert_eq!(fs::metadata(only).unwrap().modified().unwrap(), time(5));
    // In another root, the file is linkable only under names that are not roots.
    let both = tree.roots(["d", "d/only"]);
    assert_eq!(code(both.hard_link("only", "new")), Some("root_itself"));
    assert_eq!(code(both.hard_link("other", "only")), Some("root_itself"));
}

#[cfg(unix)]
#[test]
fn read_link_returns_the_text_wherever_it_leads() {
    for (text, refused) in TARGETS.into_iter().filter(|(text, _)| !text.is_empty()) {
        for outside in ["file outside/secret", "dir x"] {
            let tree = Tree::new(LINK_TREE);
            tree.add(outside);
            let text = tree.expand(text);
            tree.add(&format!("link root/d/l -> {text}"));
            let roots = tree.roots(["root", "other"]);
            let link = roots.read_link("d/l").unwrap();
            assert_eq!(link.to_str(), Some(text.as_str()));
            // A symlink to itself can be created, but then it leads nowhere.
            let leads_inside = refused.is_none() && text != "l";
            // The target is inside exactly if it can be created or exists.
            let found = roots.check("d/l");
            assert_eq!(found.is_ok(), leads_inside, "{text}");
        }
    }
}

#[cfg(unix)]
#[test]
fn read_link_refuses_everything_except_symlinks() {
    let tree = Tree::new("file root/f; dir root/d; socket root/s; link root/l -> f; dir outside");
    tree.add("link root/out -> ../outside; link outside/secret -> x");
    let roots = tree.roots(["root"]);
    for (request, expected) in [
        ("f", "not_a_symlink"),
        ("d", "not_a_symlink"),
        ("s", "not_a_symlink"),
        (".", "not_a_symlink"),
        ("none", "not_found"),
        ("l/", "not_a_directory"),
        ("out/secret", "outside_roots"),
        ("out/none", "outside_roots"),
    ] {
        assert_eq!(code(roots.read_link(request)), Some(expected), "{request}");
    }
    // The proof of an entry is a name: what is read is what is there.
    let entry = roots.check_entry("f").unwrap();
    assert_eq!(code(entry.read_link()), Some("not_a_symlink"));
    fs::remove_file(tree.path("root/f")).unwrap();
    tree.add("link root/f -> d");
    assert_eq!(entry.read_link().unwrap(), std::path::Path::new("d"));
    assert_eq!(code(entry.follow().unwrap().metadata()), Some("changed"));
}

#[test]
fn hard_link_is_a_second_name_of_the_same_file() {
    let tree = Tree::new("file root/a = content; dir root/d");
    let roots = tree.roots(["root"]);
    roots.hard_link("a", "d/b").unwrap();
    roots.hard_link("a", "c").unwrap();
    assert_eq!(roots.metadata("a").unwrap().hard_links(), 3);
    fs::write(tree.path("root/a"), "changed").unwrap();
    for name in ["d/b", "c"] {
        assert_eq!(roots.read(name, 99).unwrap(), b"changed");
    }
}

#[test]
fn hard_link_is_refused_without_an_effect() {
    let tree = Tree::new("file root/a; dir root/d; file root/b; file other/x; file outside/s");
    let roots = tree.roots(["root", "other"]);
    let other = tree.path("other/new");
    let before = tree.snapshot("");
    for (from, to, expected) in [
        ("a", "b", "already_exists"),
        ("a", "a", "already_exists"),
        ("a", "d", "already_exists"),
        ("d", "new", "is_a_directory"),
        ("none", "new", "not_found"),
        ("a", "none/new", "not_found"),
        ("../outside/s", "new", "outside_roots"),
        ("a", "../outside/new", "outside_roots"),
        ("a", other.to_str().unwrap(), "different_roots"),
        (".", "new", "root_itself"),
        ("a", ".", "root_itself"),
    ] {
        assert_eq!(code(roots.hard_link(from, to)), Some(expected), "{from} {to}");
    }
    let refusing = Boundary::builder().directory(tree.path("root"), Access::ReadWrite);
    let refusing = refusing.refuse_hard_links().build().unwrap().allowed_roots();
    assert_eq!(code(refusing.hard_link("a", "new")), Some("hard_linked"));
    assert_eq!(tree.snapshot(""), before);
    let refused = roots.hard_link("a", "b").unwrap_err();
    assert_eq!(refused.code(), "already_exists");
    assert!(refused.to_string().starts_with(r#"hard link "a" to "b": destination "#), "{refused}");
}

#[test]
fn times_are_set_on_files_and_directories() {
    let tree = Tree::new("file root/f; dir root/d");
    let roots = tree.roots(["root"]);
    for (number, request) in ["f", "d", "."].into_iter().enumerate() {
        let (modified, accessed) = (time(1_000 + number as u64), time(2_000));
        roots.set_attribute(request, Attribute::Modified(modified)).unwrap();
        roots.set_attribute(request, Attribute::Accessed(accessed)).unwrap();
        let metadata = fs::metadata(tree.path("root").join(request)).unwrap();
        assert_eq!(metadata.modified().unwrap(), modified, "{request}");
        assert_eq!(metadata.accessed().unwrap(), accessed, "{request}");
    }
}

#[cfg(windows)]
#[test]
fn read_only_attribute_is_set_on_files() {
    let tree = Tree::new("file root/f; dir root/d");
    let roots = tree.roots(["root"]);
    let is_read_only = || fs::metadata(tree.path("root/f")).unwrap().permissions().readonly();
    for (attribute, read_only) in [(Attribute::ReadOnly, true), (Attribute::Writable, false)] {
        roots.set_attribute("f", attribute).unwrap();
        assert_eq!(is_read_only(), read_only);
    }
    let refused = roots.set_attribute("d", Attribute::ReadOnly);
    assert_eq!(code(refused), Some("is_a_directory"));
}

#[cfg(unix)]
#[test]
fn execute_permission_follows_read_permission() {
    let tree = Tree::new("file root/f; dir root/d; link root/l -> f; socket root/s");
    tree.add("file outside; link root/out -> ../outside");
    let roots = tree.roots(["root"]);
    let at = tree.path("root/f");
    let mode = || fs::metadata(&at).unwrap().mode() & 0o7777;
    let (executable, not) = (Attribute::Executable, Attribute::NotExecutable);
    // A unit test has all modes.
    for (before, attribute, after) in [(0o640, executable, 0o750), (0o6755, not, 0o644)] {
        for request in ["f", "l"] {
            fs::set_permissions(&at, fs::Permissions::from_mode(before)).unwrap();
            roots.set_attribute(request, attribute).unwrap();
            assert_eq!(mode(), after, "{before:o}");
        }
    }
    let modes = || {
        ["root/d", "root/s", "outside"].map(|path| {
            let metadata = fs::metadata(tree.path(path)).unwrap();
            (metadata.mode(), metadata.mtime())
        })
    };
    let before = modes();
    for (request, expected) in
        [("d", "is_a_directory"), ("s", "special_file"), ("out", "outside_roots")]
    {
        assert_eq!(code(roots.set_attribute(request, executable)), Some(expected), "{request}");
    }
    assert_eq!(modes(), before);
}

#[test]
fn unguarded_directory_is_the_directory_that_was_checked() {
    let tree = Tree::new("file root/d/f; file root/f");
    let roots = tree.roots(["root"]);
    for request in ["d", "."] {
        let directory = roots.open_unguarded_dir(request).unwrap();
        #[cfg(target_os = "linux")]
        assert!(rustix::fs::Dir::read_from(&directory).unwrap().next().is_some());
        let file = fs::File::from(directory);
        let metadata = file.metadata().unwrap();
        assert!(metadata.is_dir());
        #[cfg(unix)]
        assert_eq!(metadata.ino(), fs::metadata(tree.path("root").join(request)).unwrap().ino());
    }
}
