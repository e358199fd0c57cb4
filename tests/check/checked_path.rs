//! When two proofs are equal.

use std::collections::HashSet;
use std::path::Path;

use mcp_roots_guard::{Access, Boundary, CheckedPath, Location, Roots};

use crate::support::tree::Tree;

fn check(roots: &Roots, request: impl AsRef<Path>) -> CheckedPath {
    roots.check(Location::try_from(request.as_ref()).unwrap()).unwrap()
}

fn hash(checked: &CheckedPath) -> u64 {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(checked)
}

#[track_caller]
fn assert_equal(one: &CheckedPath, other: &CheckedPath, equal: bool) {
    assert_eq!((one == other, other == one), (equal, equal), "{one:?} and {other:?}");
    assert!(
        !equal || hash(one) == hash(other),
        "{one:?} and {other:?} are equal but have different hashes"
    );
}

#[test]
fn proofs_of_the_same_place_are_equal() {
    let tree = Tree::new("file root/d/f; dir root/e; file other/d/f");
    let roots = tree.roots(["root", "other"]);
    let proof = check(&roots, "d/f");
    for request in ["d/f", "./d/f", "e/../d/f", "../root/d/f"] {
        assert_equal(&proof, &check(&roots, request), true);
        let entry = roots.check_entry(request).unwrap();
        assert_eq!(entry, proof.entry().unwrap());
        assert_equal(&proof, &entry.follow().unwrap(), true);
    }
    assert_equal(&proof, &check(&roots, tree.path("root/d/f")), true);
    // Proofs are equal even if their snapshots differ in access or in the order of the roots.
    let boundary =
        Boundary::builder().directory(tree.path("root"), Access::ReadOnly).build().unwrap();
    assert_equal(&proof, &check(&boundary.allowed_roots(), "d/f"), true);
    let reversed = tree.roots(["other", "root"]);
    assert_equal(&proof, &check(&reversed, tree.path("root/d/f")), true);
    // They are also equal if the file was created between the two checks.
    let missing = check(&roots, "e/new");
    roots.write("e/new", "").unwrap();
    assert_equal(&missing, &check(&roots, "e/new"), true);
    // The same path in another root is a different place, and so are other paths in the same root.
    assert_equal(&proof, &check(&reversed, "d/f"), false);
    for request in ["d", "e", "."] {
        assert_equal(&proof, &check(&roots, request), false);
    }
}

#[test]
fn proofs_of_a_file_from_different_roots_are_equal() {
    let tree = Tree::new("file root/d/f; file root/d/g");
    let at = tree.path("root/d/f");
    let all = ["root", "root/d", "root/d/f"].map(|root| tree.roots([root]));
    let proofs = all.each_ref().map(|roots| check(roots, &at));
    assert_eq!(proofs.iter().collect::<HashSet<_>>().len(), 1);
    let other = tree.roots(["root/d/g"]);
    assert_equal(&proofs[2], &check(&other, tree.path("root/d/g")), false);
}
