//! [`Boundary::nothing`] grants nothing, whatever a client lists and whatever the guard's choices.

use std::future::ready;

use mcp_roots_guard::{
    Boundary, ClientCapabilities, ClientRoots, Guard, ListEntry, ListRootsResult, RootsResponse,
    RootsState, Session, WhyNone,
};

use crate::support::code;
use crate::support::tree::Tree;

/// Requests for a file, a directory and what is missing, and relative ones.
const REQUESTS: [&str; 6] = ["$T/op/f", "$T/op", "$T/none", "/", "op/f", "."];

/// What a list with one entry names, with the code of the rejection.
const ENTRIES: [(&str, &str); 7] = [
    ("/", "outside_roots"),
    ("$T", "outside_roots"),
    ("$T/op", "outside_roots"),
    ("$T/op/f", "outside_roots"),
    ("$T/none", "outside_roots"),
    // A text that names no place is rejected for that.
    ("relative", "not_absolute"),
    ("file:///%zz", "bad_escape"),
];

fn assert_refuses_all(tree: &Tree, roots: &mcp_roots_guard::Roots, case: &str) {
    assert_eq!(roots.iter().count(), 0, "{case}");
    for request in REQUESTS.map(|request| tree.expand(request)) {
        let why = format!("{case}: {request}");
        for refused in [
            code(roots.check(&request)),
            code(roots.check_entry(&request)),
            code(roots.within(&request)),
            code(roots.with_base(&request)),
            code(roots.read(&request, 9)),
            code(roots.write(&request, "")),
            code(roots.explain(&request).reading().map_err(mcp_roots_guard::Error::clone)),
        ] {
            assert_eq!(refused, Some("outside_roots"), "{why}");
        }
        let text = roots.check(&request).unwrap_err().to_string();
        assert!(text.contains("no access to files is granted"), "{why}: {text}");
    }
}

#[test]
fn no_list_puts_anything_in_force() {
    let tree = Tree::new("file op/f");
    let boundary = Boundary::nothing();
    assert_eq!(boundary.directories(), []);
    let expanded = ENTRIES.map(|(text, _)| tree.expand(text));
    let all = || expanded.iter().map(ListEntry::from);
    let roots = boundary.narrow(all()).unwrap();
    let rejected: Vec<_> = roots.rejected().iter().map(|it| it.error().code()).collect();
    assert_eq!(rejected, ENTRIES.map(|(_, code)| code));
    assert_refuses_all(&tree, &roots, "a list of all entries");
    for text in &expanded {
        let roots = boundary.narrow([ListEntry::from(text)]).unwrap();
        assert_eq!(roots.why_none(), Some(WhyNone::NothingGranted), "{text}");
        assert_refuses_all(&tree, &roots, text);
    }
    assert_refuses_all(&tree, &boundary.allowed_roots(), "no list");
    assert_refuses_all(&tree, &boundary.narrow([] as [ListEntry<'_>; 0]).unwrap(), "an empty list");
    // The same list puts directories in force where any listed one is.
    let any = Boundary::any_listed().build().unwrap();
    assert!(any.narrow(all()).unwrap().iter().len() > 0);
    assert_ne!(format!("{any:?}"), format!("{boundary:?}"));
}

/// Each choice, for each kind of client and each of its answers.
#[tokio::test]
async fn a_guard_of_nothing_serves_nothing_in_any_state_of_a_client() {
    use ClientRoots::{Ignore, Narrow, NarrowIfListed, Require};
    let tree = Tree::new("file op/f");
    let list = || ListRootsResult::from_uris([tree.uri("op"), "file:///".to_owned()]);
    let declared = [
        ClientCapabilities::WithoutRoots,
        ClientCapabilities::WithRoots,
        ClientCapabilities::WithAnnouncedRoots,
    ];
    let answers = [
        ("a list", RootsResponse::List(list())),
        ("an empty list", RootsResponse::List(ListRootsResult::default())),
        ("a failure", RootsResponse::Failed("no such method".into())),
        ("unsupported", RootsResponse::Unsupported),
    ];
    let mut guards = vec![("default".to_owned(), Guard::new(Boundary::nothing()))];
    for choice in [Ignore, NarrowIfListed, Narrow, Require] {
        let guard = Guard::builder(Boundary::nothing()).client_roots(choice).build().unwrap();
        guards.push((format!("{choice:?}"), guard));
    }
    for (choice, guard) in &guards {
        for declared in &declared {
            for (name, answer) in &answers {
                let case = format!("{choice}, {declared:?}, {name}");
                let begin = || guard.session(*declared).unwrap();
                let session = begin();
                assert_serves_nothing(&tree, &session, &case);
                let fetched = session.roots(|_| ready(answer.clone())).await;
                if let Ok(roots) = fetched {
                    assert_refuses_all(&tree, &roots, &case);
                }
                assert_serves_nothing(&tree, &session, &case);
                session.list_changed();
                assert_serves_nothing(&tree, &session, &case);
                if let Ok(roots) = begin().roots_from_list(list()).await {
                    assert_refuses_all(&tree, &roots, &case);
                }
            }
        }
    }
}

fn assert_serves_nothing(tree: &Tree, session: &Session, case: &str) {
    assert_ne!(session.state(), RootsState::Available, "{case}");
    let known = session.known_roots().unwrap();
    assert_eq!(known.iter().count(), 0, "{case}");
    for request in REQUESTS.map(|request| tree.expand(request)) {
        assert!(known.check(&request).is_err(), "{case}: {request}");
    }
}
