//! What a proof says of itself: which place it names, and what of that is shown.

use std::collections::HashSet;
use std::fs;

use mcp_roots_guard::{Access, Boundary, CheckedPath, Intent, Location, Roots};

use crate::tree::Tree;

fn check(roots: &Roots, request: impl AsRef<std::path::Path>, intent: Intent) -> CheckedPath {
    roots.check(Location::from_path(request.as_ref()).unwrap(), intent).unwrap()
}

fn hash(checked: &CheckedPath) -> u64 {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(checked)
}

#[track_caller]
fn assert_equal(one: &CheckedPath, other: &CheckedPath, equal: bool) {
    assert_eq!((one == other, other == one), (equal, equal), "{one:?} and {other:?}");
    assert!(!equal || hash(one) == hash(other), "{one:?} and {other:?} have different hashes");
}

#[test]
fn proofs_of_one_place_are_equal_however_it_was_asked_for() {
    let tree = Tree::new("file root/d/f; dir root/e; file other/d/f");
    let roots = tree.roots(["root", "other"]);
    let proof = check(&roots, "d/f", Intent::Existing);
    for request in ["d/f", "./d/f", "e/../d/f", "../root/d/f"] {
        for intent in [Intent::Existing, Intent::New, Intent::NewTree, Intent::NoFollow] {
            assert_equal(&proof, &check(&roots, request, intent), true);
        }
    }
    assert_equal(&proof, &check(&roots, tree.path("root/d/f"), Intent::Existing), true);
    // Another snapshot, with other access and in another order.
    let boundary = Boundary::builder().directory(tree.path("root"), Access::ReadOnly).build().unwrap();
    assert_equal(&proof, &check(&boundary.allowed_roots(), "d/f", Intent::Existing), true);
    let turned = tree.roots(["other", "root"]);
    assert_equal(&proof, &check(&turned, tree.path("root/d/f"), Intent::Existing), true);
    // Before it exists and after.
    let missing = check(&roots, "e/new", Intent::New);
    roots.write("e/new", "").unwrap();
    assert_equal(&missing, &check(&roots, "e/new", Intent::Existing), true);
    // The same names in another root, and other names in the same.
    assert_equal(&proof, &check(&turned, "d/f", Intent::Existing), false);
    for request in ["d", "e", "."] {
        assert_equal(&proof, &check(&roots, request, Intent::Existing), false);
    }
}

#[test]
fn a_place_in_two_roots_is_two_places() {
    let tree = Tree::new("file root/d/f; file root/d/g");
    let (outer, inner) = (tree.roots(["root"]), tree.roots(["root/d"]));
    let file = tree.roots(["root/d/f"]);
    let at = tree.path("root/d/f");
    let proofs = [&outer, &inner, &file].map(|roots| check(roots, &at, Intent::Existing));
    assert_eq!(proofs.iter().collect::<HashSet<_>>().len(), 3);
    // File roots in one directory are told apart by their names.
    let other = tree.roots(["root/d/g"]);
    assert_equal(&proofs[2], &check(&other, tree.path("root/d/g"), Intent::Existing), false);
    assert_equal(&proofs[2], &check(&tree.roots(["root/d/f"]), &at, Intent::Existing), true);
}

/// A root is the object that was resolved, not its name.
#[cfg(unix)]
#[test]
fn a_replaced_root_is_another_place() {
    let tree = Tree::new("file root/f; link alias -> root");
    let before = tree.roots(["root"]);
    let proof = check(&before, "f", Intent::Existing);
    assert_equal(&proof, &check(&tree.roots(["alias"]), "f", Intent::Existing), true);
    fs::rename(tree.path("root"), tree.path("old")).unwrap();
    tree.add("file root/f");
    assert_equal(&proof, &check(&tree.roots(["root"]), "f", Intent::Existing), false);
    assert_equal(&proof, &check(&tree.roots(["old"]), "f", Intent::Existing), true);
}

/// By a symlink to the place, its own name is another.
#[cfg(unix)]
#[test]
fn a_symlink_is_followed_by_all_intents_but_its_own() {
    let tree = Tree::new("file root/f; link root/l -> f");
    let roots = tree.roots(["root"]);
    let proof = check(&roots, "f", Intent::Existing);
    assert_equal(&proof, &check(&roots, "l", Intent::Existing), true);
    assert_equal(&proof, &check(&roots, "l", Intent::New), true);
    assert_equal(&proof, &check(&roots, "l", Intent::NoFollow), false);
}
