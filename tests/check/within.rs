//! Narrowing roots with `Roots::within` and `Roots::read_only`.

use std::path::Path;

use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, Guard, Intent, ListRootsResult, Overwrite, Roots,
    RootsResponse, Session,
};

use crate::support::code;
use crate::support::one_step::OneStep as _;
use crate::support::tree::{Tree, uri};

fn read(roots: &Roots, request: &str) -> Result<String, &'static str> {
    roots.read_to_string(request, 100).map_err(|error| error.code())
}

#[expect(clippy::unnecessary_wraps, reason = "the expected result of a call that can fail")]
fn inside(text: &str) -> Result<String, &'static str> {
    Ok(text.to_owned())
}

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
        assert!(view.roots().all(|root| root.access() == Access::ReadOnly), "{number}");
        let f = tree.path("w/a/b/f");
        assert_eq!(view.read_to_string(&f, 100).unwrap(), "inside", "{number}");
        assert_eq!(code(view.write(&f, "")), Some("read_only"), "{number}");
        assert_eq!(code(view.remove_file(&f)), Some("read_only"), "{number}");
        // A proof that allowed writing is not valid in the read-only view.
        let proof = roots.check(&f, Intent::Existing).unwrap();
        assert_eq!(code(view.still_allows(&proof)), Some("read_only"), "{number}");
    }
    assert_eq!(read(&views[0], &tree.expand("$T/v/f")), inside("other"));
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
    let roots = boundary.resolve(&listed).unwrap();
    for narrowed in
        [roots.clone(), roots.within(".").unwrap(), roots.within(".").unwrap().within(".").unwrap()]
    {
        for (kept, why) in [("b/c", "an allowed directory"), ("b", "its parent")] {
            let removed = narrowed.remove_dir_all(kept);
            assert_eq!(code(removed), Some("root_itself"), "{why}");
            let moved = narrowed.rename(kept, "moved", Overwrite::Never);
            assert_eq!(code(moved), Some("root_itself"), "{why}");
        }
        assert_eq!(code(narrowed.remove_dir(tree.path("w/a"))), Some("root_itself"));
    }
}

fn session(tree: &Tree) -> Session {
    let boundary = Boundary::builder().directory(tree.path(""), Access::ReadWrite);
    let declared = ClientCapabilities::with_announced_roots();
    Guard::new(boundary.build().unwrap()).session(declared).unwrap()
}

async fn listed(session: &Session, paths: &[impl AsRef<Path>]) -> Roots {
    let list = ListRootsResult::from_uris(paths.iter().map(|path| uri(path.as_ref())));
    let source = move |_: Option<String>| std::future::ready(RootsResponse::List(list.clone()));
    session.roots(source).await.unwrap()
}

#[tokio::test]
async fn a_proof_from_narrowed_roots_is_valid_while_a_root_in_force_contains_its_place() {
    let tree = Tree::new("file a/b/c/f; dir d");
    let session = session(&tree);
    let narrowed = listed(&session, &[tree.path("a")]).await.within("b").unwrap();
    let proofs = [
        narrowed.check("c/f", Intent::Existing).unwrap(),
        narrowed.within("c").unwrap().check("f", Intent::Existing).unwrap(),
        narrowed.within("c/f").unwrap().check(tree.path("a/b/c/f"), Intent::Existing).unwrap(),
    ];
    let rows: [(&[&str], Option<&str>); 6] = [
        (&["a"], None),
        (&[""], None),
        (&["a/b"], None),
        (&["a/b/c/f", "d"], None),
        (&["d"], Some("outside_roots")),
        (&[], Some("outside_roots")),
    ];
    for (paths, expected) in rows {
        session.list_changed();
        for proof in &proofs {
            assert_eq!(code(session.still_allows(proof)), Some("roots_stale"), "{paths:?}");
        }
        listed(&session, &paths.iter().map(|path| tree.path(path)).collect::<Vec<_>>()).await;
        for proof in &proofs {
            assert_eq!(code(session.still_allows(proof)), expected, "{paths:?}");
        }
    }
    session.close();
    assert_eq!(code(session.still_allows(&proofs[0])), Some("session_closed"));
}

/// Narrowed roots are not cached.
#[tokio::test]
async fn narrowing_affects_no_other_request() {
    let tree = Tree::new("file a/f = a; file b/f = b");
    let session = session(&tree);
    let roots = listed(&session, &[tree.path("")]).await;
    let [a, b] = ["a", "b"].map(|path| roots.within(path).unwrap().read_only());
    assert_eq!((read(&a, "f"), read(&b, "f")), (inside("a"), inside("b")));
    let later = listed(&session, &[tree.path("")]).await;
    assert_eq!((read(&later, "a/f"), read(&later, "b/f")), (inside("a"), inside("b")));
    assert_eq!(code(later.write("a/f", "new")), None);
    assert_eq!(read(&a, "../b/f"), Err("outside_roots"));
}
