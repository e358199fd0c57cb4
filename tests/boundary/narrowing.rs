//! Directories from anywhere narrow the allowed ones, as a program without MCP uses them.

use guarded_fs::host;
use mcp_roots_guard::{
    Access, Boundary, Error, ErrorKind, ListEntry, ListRootsResult, RootEntry, Roots, limits,
};

use crate::support::tree::Tree;

fn boundary(tree: &Tree) -> Boundary {
    Boundary::builder().directory(tree.path("op"), Access::ReadWrite).build().unwrap()
}

fn paths(roots: &Roots) -> Vec<String> {
    roots.iter().map(|root| root.path().display().to_string()).collect()
}

/// An entry is a path or a URI, and one that is refused costs only itself.
#[test]
fn a_refused_directory_costs_only_itself() {
    let tree = Tree::new("dir op/a; dir op/b; dir other");
    let (a, b) = (tree.path("op/a").display().to_string(), tree.uri("op/b"));
    let (other, gone) = (tree.path("other").display().to_string(), tree.path("op/gone"));
    let texts = [a.as_str(), other.as_str(), "file:///%zz", b.as_str(), a.as_str(), "relative"];
    let mut entries: Vec<_> = texts.into_iter().map(ListEntry::from).collect();
    // What does not exist yet is a name.
    let gone = gone.display().to_string();
    entries.push(ListEntry::from(&gone));
    let own = Error::new(ErrorKind::Other("own"), "own", "a reason of the caller");
    entries.push(ListEntry::rejected("x", own));
    entries.push(ListEntry::uri(&other));
    let roots = boundary(&tree).narrow(entries).unwrap();
    assert_eq!(paths(&roots), paths_of(&tree, ["op/a", "op/b", "op/gone"]));
    let rejected: Vec<_> =
        roots.rejected().iter().map(|it| (it.index(), it.error().code())).collect();
    let expected = [
        (1, "outside_roots"),
        (2, "bad_escape"),
        (4, "duplicate"),
        (5, "not_absolute"),
        (7, "own"),
        (8, "not_absolute"),
    ];
    assert_eq!(rejected, expected);
    // Without an entry, nothing is in force.
    let none = boundary(&tree).narrow([] as [ListEntry<'_>; 0]).unwrap();
    assert_eq!(paths(&none), Vec::<String>::new());
}

fn paths_of<const N: usize>(tree: &Tree, names: [&str; N]) -> Vec<String> {
    names.map(|name| tree.path(name).display().to_string()).into()
}

/// A client's list is narrowed by the same function.
#[test]
fn a_clients_list_gives_the_same_roots() {
    let tree = Tree::new("dir op/a; dir op/b/c; link op/l -> b; dir other");
    let uris = ["op/l/c", "op/a", "other", "op", "op/missing"].map(|name| tree.uri(name));
    let boundary = boundary(&tree);
    let list = ListRootsResult::from_uris(uris.clone());
    let resolved = host::narrow(&boundary, &list.roots, &|| false).unwrap();
    let (listed, generation) = (resolved.roots, resolved.generation);
    let entries = uris.iter().map(|uri| ListEntry::uri(uri));
    let narrowed = boundary.narrow(entries).unwrap();
    assert_eq!(paths(&narrowed), paths(&listed));
    let rejected = |roots: &Roots| {
        let one = |it: &mcp_roots_guard::RejectedEntry| (it.index(), it.error().code());
        roots.rejected().iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(rejected(&narrowed), rejected(&listed));
    // Without a configured symlink, the allowed directories never change. A symlink of the list and
    // an entry outside can.
    assert_eq!((generation, resolved.is_provisional), (0, true));
    let none: &[RootEntry] = &[];
    let none = host::narrow(&boundary, none, &|| false).unwrap();
    assert!(!none.is_provisional);
    assert!(resolved.weight > none.weight);
}

/// A list from a model can have any length.
#[test]
fn a_list_is_bounded() {
    let tree = Tree::new("dir op");
    let narrow = |entries: &mut dyn Iterator<Item = ListEntry<'static>>| {
        boundary(&tree).narrow(entries).map_err(|error| error.code())
    };
    let endless = &mut std::iter::repeat_with(|| ListEntry::from("x"));
    assert_eq!(narrow(endless).err(), Some("too_many_roots"));
    let long: &'static str = "/x".repeat(limits::ROOT_LIST_BYTES / 4 + 1).leak();
    assert_eq!(narrow(&mut [long; 2].map(ListEntry::from).into_iter()).err(), Some("too_large"));
    let rejected = narrow(&mut [long].map(ListEntry::from).into_iter()).unwrap();
    assert_eq!(rejected.rejected()[0].error().code(), "too_long");
}

#[test]
fn a_list_that_nobody_waits_for_is_not_resolved() {
    let tree = Tree::new("dir op/a");
    let a = tree.path("op/a").display().to_string();
    let error = host::narrow(&boundary(&tree), [ListEntry::from(&a)], &|| true).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::TooCostly, "too_costly"));
}

/// What a program adds to its own errors is shown as the library shows its own.
#[test]
fn errors_of_a_program_have_a_request_and_a_detail() {
    let error = Error::new(ErrorKind::ReadOnly, "turn_reads", "this turn only reads");
    let error = host::with_raw_os_error(error, 30)
        .with_operator_detail("turn 7")
        .with_request("format", "a\n.rs".as_ref());
    assert_eq!(error.to_string(), r#"format "a\n.rs": this turn only reads"#);
    assert_eq!(error.with_request("other", "b".as_ref()).to_string().matches("format").count(), 1);
    let error = Error::new(ErrorKind::ReadOnly, "turn_reads", "this turn only reads");
    let error = host::with_raw_os_error(error, 30)
        .with_operator_detail("turn 7")
        .with_request("format", "a".as_ref());
    let again = error.clone();
    assert_eq!(again.to_string(), error.to_string());
    assert_eq!((again.kind(), again.code()), (error.kind(), error.code()));
    assert_eq!((again.raw_os_error(), again.operator_detail()), (Some(30), Some("turn 7")));
}
