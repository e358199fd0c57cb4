//! Copies of files: effects, refusals, limits, and what remains after a failure.
//!
//! `tests/fs/permissions.rs` shows that no copy lets anybody read or write more than its source.

use std::fs;

use mcp_roots_guard::{
    Access, Boundary, ContentHash, DirectoryOptions, Durability, ErrorKind, Precondition, Result,
    Roots, WriteMethod, WriteOptions,
};

use crate::support::code;
use crate::support::tree::{Tree, symlinks_are_visible};

fn copy(roots: &Roots, from: &str, to: &str) -> Result<u64> {
    roots.copy(from, to, 1 << 20, WriteOptions::default())
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
    let proofs = (roots.check("f").unwrap(), roots.check(at("b/x/y/z")).unwrap());
    let parents = WriteOptions::default().create_parents().durability(Durability::Data);
    let refused = proofs.0.copy(&proofs.1, 4, WriteOptions::default());
    assert_eq!(code(refused), Some("not_found"));
    assert_eq!(proofs.0.copy(&proofs.1, 4, parents).unwrap(), 4);
    assert_eq!(roots.copy("f", at("b/p/q"), 4, parents).unwrap(), 4);
    for copied in ["b/new", "b/old", "b/x/y/z", "b/p/q"] {
        assert_eq!(fs::read(tree.path(copied)).unwrap(), b"text", "{copied}");
    }
    if symlinks_are_visible() {
        copy(&roots, "l", &at("b/dangling")).unwrap();
        assert_eq!(fs::read(tree.path("b/new-target")).unwrap(), b"text");
    }
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
    let new = WriteOptions::default;
    let stale = new().precondition(Precondition::Unchanged(ContentHash::of(b"other")));
    let rows: &[(_, _, _, WriteMethod, _)] = &[
        ("none", "new", 9, new().into(), "not_found"),
        ("d", "new", 9, new().into(), "is_a_directory"),
        ("../out/secret", "new", 9, new().into(), "outside_roots"),
        ("f", "../out/new", 9, new().into(), "outside_roots"),
        ("f", "d", 9, new().into(), "is_a_directory"),
        ("f", "none/new", 9, new().into(), "not_found"),
        ("f", "new", 3, new().into(), "too_large"),
        ("f", "old", 3, new().in_place(), "too_large"),
        ("f", "old", 9, new().precondition(Precondition::Missing).into(), "already_exists"),
        ("f", "old", 9, stale.into(), "modified"),
        ("f", "old", 9, stale.in_place(), "modified"),
        ("f", &only, 9, new().into(), "root_itself"),
        ("f", "f", 9, new().into(), "same_file"),
        ("f", "same", 9, new().into(), "same_file"),
        ("f", "same", 9, new().in_place(), "same_file"),
        ("f", "same", 9, new().in_place_if_owner_changes(), "same_file"),
    ];
    for &(from, to, limit, options, expected) in rows {
        let refused = roots.copy(from, to, limit, options);
        assert_eq!(code(refused), Some(expected), "{from} {to} {options:?}");
        assert_eq!([tree.snapshot("root"), tree.snapshot("out")], before, "{from} {to}");
    }
    let text = copy(&roots, "f", "none/new").unwrap_err().to_string();
    assert_eq!(text, r#"copy "f" to "none/new": destination: the parent directory does not exist"#);
    let refused = copy(&roots, "f", "same").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Overlap);
    // A root that is a file can only be written in place, which removes the rest.
    roots.copy("f", &only, 9, new().in_place()).unwrap();
    assert_eq!(fs::read(&only).unwrap(), b"text");
    roots
        .copy(
            "d/../f",
            "old",
            9,
            new().precondition(Precondition::Unchanged(ContentHash::of(b"old"))),
        )
        .unwrap();
    assert_eq!(fs::read(tree.path("root/old")).unwrap(), b"text");
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
        let parents = WriteOptions::default().create_parents();
        let written = roots.copy("a/f", "p/q/f", 9, parents);
        drop(open);
        setrlimit(Resource::Nofile, most).unwrap();
        failed += usize::from(written.is_err());
        if written.is_ok() {
            fs::remove_dir_all(tree.path("root/p")).unwrap();
        }
        assert_eq!(tree.snapshot("root"), before, "{free} descriptors");
    }
    assert!((4..20).contains(&failed), "{failed}");
}

#[test]
fn a_conditional_copy_in_place_blames_the_destination() {
    let tree = Tree::new("file root/a = a; file root/b = b");
    let precondition = Precondition::Unchanged(ContentHash::of(b"old"));
    let options = WriteOptions::default().precondition(precondition).in_place();
    let refused = tree.roots(["root"]).copy("a", "b", 9, options).unwrap_err();
    let expected = r#"copy "a" to "b": destination: the file was modified since it was read"#;
    assert!(refused.to_string().starts_with(expected), "{refused}");
}

/// Its handle would lead to the old file.
#[test]
fn a_configured_file_is_not_replaced_by_a_copy_or_a_write() {
    let tree = Tree::new("file root/f = old; file root/g = new");
    let builder = Boundary::builder().directory(tree.path("root"), Access::ReadWrite);
    let boundary = builder.directory(tree.path("root/f"), Access::ReadWrite).build().unwrap();
    let roots = boundary.allowed_roots();
    assert_eq!(code(roots.write("f", "new")), Some("root_itself"));
    assert_eq!(code(copy(&roots, "g", "f")), Some("root_itself"));
    assert_eq!(code(copy(&roots, "f", "f")), Some("root_itself"));
    let in_place = WriteOptions::default().in_place();
    let onto_itself = roots.copy("f", "f", 99, in_place);
    assert_eq!(code(onto_itself.map(drop)), Some("same_file"));
}

/// What is there decides before the roots: open(2), rename(2).
#[test]
fn a_place_that_holds_a_root_is_refused_as_what_it_is() {
    let tree = Tree::new("file root/f = old; file root/d/in/f = old");
    let boundary = Boundary::builder()
        .directory(tree.path("root"), Access::ReadWrite)
        .directory(tree.path("root/f"), Access::ReadWrite)
        .directory(tree.path("root/d/in"), Access::ReadWrite)
        .directory(tree.path("root/opt/x"), DirectoryOptions::from(Access::ReadWrite).optional());
    let roots = boundary.build().unwrap().allowed_roots();
    // The optional directory can never be there.
    tree.add("file root/opt = old");
    let never = WriteOptions::default().precondition(Precondition::Missing);
    for (path, always, new) in [
        ("f", "root_itself", "already_exists"),
        ("opt", "root_itself", "already_exists"),
        ("d", "is_a_directory", "already_exists"),
        ("d/", "is_a_directory", "is_a_directory"),
        (".", "is_a_directory", "is_a_directory"),
    ] {
        assert_eq!(code(roots.write(path, "new")), Some(always), "{path}");
        assert_eq!(code(roots.write_with(path, "new", never)), Some(new), "{path}");
    }
    assert_eq!(fs::read_to_string(tree.path("root/opt")).unwrap(), "old");
}
