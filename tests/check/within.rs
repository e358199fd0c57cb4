//! Narrowing roots with `Roots::within` and `Roots::read_only`.

use mcp_roots_guard::{Access, Boundary, ListRootsResult, Precondition};

use crate::support::code;
use crate::support::tree::{Tree, uri};

#[test]
fn read_only_roots_stay_read_only_when_they_are_narrowed() {
    let tree = Tree::new("file w/a/b/f = inside; file v/f = other");
    let roots = tree.roots(["w", "v"]);
    let narrowed = roots.within("a").unwrap();
    let views = [
        roots.read_only(),
        roots.read_only().read_only(),
        roots.read_only().within("a").unwrap(),
        roots.read_only().within("a").unwrap().within("b").unwrap(),
        narrowed.read_only(),
        narrowed.read_only().within("b").unwrap(),
    ];
    for (number, view) in views.iter().enumerate() {
        assert!(view.iter().all(|root| root.access() == Access::ReadOnly), "{number}");
        let f = tree.path("w/a/b/f");
        assert_eq!(view.read_to_string(&f, 100).unwrap(), "inside", "{number}");
        assert_eq!(code(view.write(&f, "")), Some("read_only"), "{number}");
        assert_eq!(code(view.remove_file(&f)), Some("read_only"), "{number}");
        // A proof that allowed writing is not valid in the read-only view.
        let proof = roots.check(&f).unwrap();
        assert_eq!(code(view.still_allows(&proof)), Some("read_only"), "{number}");
    }
    assert_eq!(views[0].read(tree.path("v/f"), 9).unwrap(), b"other");
    assert_eq!(code(narrowed.write("b/f", "new")), None);
}

/// Neither an allowed directory, nor a directory that contains one, can be removed or renamed
/// through narrowed roots.
#[test]
fn narrowed_roots_cannot_remove_the_roots_that_they_came_from() {
    let tree = Tree::new("dir w/a/b/c");
    let allowed = [tree.path("w"), tree.path("w/a/b/c")];
    let boundary = allowed
        .iter()
        .fold(Boundary::builder(), |boundary, path| boundary.directory(path, Access::ReadWrite));
    let boundary = boundary.build().unwrap();
    let listed = ListRootsResult::from_uris([uri(&tree.path("w/a"))]);
    let roots = boundary.narrow(&listed.roots).unwrap();
    for narrowed in
        [roots.clone(), roots.within(".").unwrap(), roots.within(".").unwrap().within(".").unwrap()]
    {
        for (kept, why) in [("b/c", "an allowed directory"), ("b", "its parent")] {
            let removed = narrowed.remove_dir_all(kept);
            assert_eq!(code(removed), Some("root_itself"), "{why}");
            let moved = narrowed.rename(kept, "moved", Precondition::Missing);
            assert_eq!(code(moved), Some("root_itself"), "{why}");
        }
        assert_eq!(code(narrowed.remove_dir(tree.path("w/a"))), Some("root_itself"));
    }
}
