//! What the text of an error tells the model or the operator besides its reason: what was requested,
//! as it was sent, the path at fault, the exceeded limit, and what to do instead. The words of the
//! reasons are in `error/codes.rs` and nowhere else.

use std::path::Path;

use mcp_roots_guard::limits::{ROOT_LIST_BYTES, URI_BYTES};
use mcp_roots_guard::{
    Access, Boundary, DirectoryOptions, Error, ListRootsResult, Location, Precondition, Result,
    Roots, WalkOptions,
};

use crate::support::tree::Tree;
use crate::support::walked;

fn error<T>(result: Result<T>) -> Error {
    result.err().expect("the operation fails")
}

fn text<T>(result: Result<T>) -> String {
    error(result).to_string()
}

/// The reason in a text, which follows what was requested.
fn reason(text: &str, requested: &str) -> String {
    let reason = text.strip_prefix(requested).and_then(|rest| rest.strip_prefix(": "));
    reason.unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// The numbers in a reason.
fn numbers(reason: &str) -> Vec<usize> {
    reason.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn a_failed_rename_names_both_paths_and_the_one_at_fault() {
    let tree = Tree::new("dir in/d; file in/a; file in/b; dir in/full/x; file ro/r; dir out");
    let boundary = Boundary::builder()
        .directory(tree.path("in"), Access::ReadWrite)
        .directory(tree.path("ro"), Access::ReadOnly);
    let roots = boundary.build().unwrap().allowed_roots();
    let ro = tree.path("ro").join("r").into_os_string().into_string().unwrap();
    let cases = [
        ("a", "b", Precondition::Missing, "already_exists", true),
        ("a", "d", Precondition::Any, "is_a_directory", true),
        ("a", "none/x", Precondition::Missing, "not_found", true),
        ("a", "b/x", Precondition::Missing, "not_a_directory", true),
        ("a", "../out/x", Precondition::Missing, "outside_roots", true),
        ("a", ro.as_str(), Precondition::Any, "read_only", true),
        (ro.as_str(), "a", Precondition::Any, "read_only", false),
        ("none", "x", Precondition::Missing, "not_found", false),
        #[cfg(unix)]
        ("full", "full/x/y", Precondition::Missing, "io", false),
        // The source is checked first.
        ("../out", "b", Precondition::Missing, "outside_roots", false),
    ];
    for (from, to, replace, code, is_of_destination) in cases {
        let check = |failed: Error| {
            assert_eq!(failed.code(), code, "{failed}");
            let reason = reason(&failed.to_string(), &format!("rename {from:?} to {to:?}"));
            assert_eq!(reason.starts_with("destination"), is_of_destination, "{failed}");
        };
        check(error(roots.rename(from, to, replace)));
        let checked = |path| roots.check_entry(path).ok();
        if let (Some(from), Some(to)) = (checked(from), checked(to)) {
            check(error(from.rename(&to, replace)));
        }
    }
}

/// Nothing is expanded. Where somebody may have expected it, the reason continues and names what is
/// not expanded.
#[cfg(unix)]
#[test]
fn a_text_that_is_not_expanded_says_what_to_write() {
    let tree = Tree::new("file in/f; dir in/d; link in/ld -> d");
    let roots = Roots::from_dirs([tree.path("in")], Access::ReadWrite).unwrap();
    // What follows the reason of the same error for another request.
    let hint = |failed: Error, requested: &str, other: Error, of_other: &str| {
        assert_eq!(failed.code(), other.code(), "{failed}");
        let plain = reason(&other.to_string(), of_other);
        let whole = reason(&failed.to_string(), requested);
        whole.strip_prefix(&plain).unwrap_or_else(|| panic!("{failed}")).to_owned()
    };
    let missing = || error(roots.read("none", 9));
    for (request, named) in [
        ("~/x", Some("~")),
        ("a%20b", Some("file:")),
        ("50%cent", None),
        ("100%", None),
        ("~x", None),
    ] {
        let failed = error(roots.read(request, 9));
        let hint = hint(failed, &format!("read {request:?}"), missing(), "read \"none\"");
        assert_eq!(hint.is_empty(), named.is_none(), "{request}: {hint}");
        assert!(hint.contains(named.unwrap_or_default()), "{request}: {hint}");
    }
    // A `Path` is used unchanged.
    let failed = error(roots.read(Path::new("file:///x"), 9));
    assert!(hint(failed, "read \"file:///x\"", missing(), "read \"none\"").contains("file:"));
    let (failed, other) = (error(roots.write("~/x", "x")), error(roots.write("none/x", "x")));
    assert!(hint(failed, "write \"~/x\"", other, "write \"none/x\"").contains('~'));
    let (failed, other) = (error(roots.check_entry("ld/")), error(roots.check_entry("f/")));
    assert_ne!(hint(failed, "check \"ld/\"", other, "check \"f/\""), "");
    let (failed, other) = (error(roots.write("new/", "x")), error(roots.write(".", "x")));
    assert_eq!((failed.code(), other.code()), ("is_a_directory", "is_a_directory"));
    assert_ne!(
        reason(&failed.to_string(), "write \"new/\""),
        reason(&other.to_string(), "write \".\"")
    );
    assert_eq!(error(roots.read("", 9)).code(), "empty");
    for (directory, code, named) in
        [("", "empty", ""), ("~/x", "not_found", "~"), ("file:///srv", "not_found", "file:")]
    {
        let failed = error(Boundary::builder().directory(directory, Access::ReadOnly).build());
        assert_eq!(failed.code(), code, "{failed}");
        let text = failed.to_string();
        let reason = text.rsplit_once('"').map_or(text.as_str(), |(_, reason)| reason);
        assert!(reason.contains(named), "{text}");
    }
}

#[test]
fn an_exceeded_limit_is_named_with_its_number() {
    let tree = Tree::new("file in/f = 123; file in/d/x; file in/d/y");
    let roots = Roots::from_dirs([tree.path("in")], Access::ReadWrite).unwrap();
    let of_read = |text: &str| numbers(&reason(text, "read \"f\""));
    assert_eq!(of_read(&text(roots.read("f", 2))), [2]);
    let open = roots.open("f").unwrap();
    assert_eq!(of_read(&text(open.read_all(1))), [1]);
    let walk = roots.walk("d", WalkOptions::default().max_entries(1)).unwrap();
    assert_eq!(numbers(&reason(&text(walked(walk).pop().unwrap()), "walk \"d\"")), [1]);
    let uri = format!("file:///{}", "a".repeat(URI_BYTES));
    assert_eq!(numbers(&text(Location::parse(&uri))).last(), Some(&URI_BYTES));
    let huge = ListRootsResult::from_uris(["x".repeat(ROOT_LIST_BYTES + 1)]);
    assert_eq!(numbers(&text(crate::support::listed(&huge))), [ROOT_LIST_BYTES]);
}

/// `boundary::options` compares the text for every request and every reason but the first one here.
#[test]
fn a_refusal_without_roots_says_only_why_there_are_none() {
    let tree = Tree::new("file in/f");
    let unset = Boundary::any_listed().build().unwrap();
    let unlisted = unset.narrow(&ListRootsResult::default().roots).unwrap();
    let reasons = [unset.allowed_roots(), unlisted].map(|roots| {
        let why = reason(&text(roots.read("f", 9)), "read \"f\"");
        let renamed = text(roots.rename("a", "b", Precondition::Missing));
        assert_eq!(reason(&renamed, "rename \"a\" to \"b\""), why);
        let base = text(roots.with_base(tree.path("in")));
        assert!(base.ends_with(&format!(": {why}")), "{base}");
        let in_force = tree.roots(["in"]).check("f").unwrap();
        assert_eq!(text(roots.still_allows(&in_force)), why);
        why
    });
    assert_ne!(reasons[0], reasons[1]);
}

/// Only the operator learns which directory could be listed or allowed. The text for the sender is
/// the same for every request, and names the roots in force if the operator wants it.
#[cfg(unix)]
#[test]
fn the_operator_learns_why_a_request_is_outside() {
    let tree = Tree::new("file a/f; file b/f; file ro/in/f; link a/l -> ../b/f; fifo a/p");
    let list = ListRootsResult::from_uris([tree.uri("a"), tree.uri("c"), "file:///none".into()]);
    let builder = Boundary::builder().protect("q");
    let builder = ["a", "b", "c"].into_iter().fold(builder, |builder, name| {
        let options = DirectoryOptions::from(Access::ReadWrite);
        let options = if name == "c" { options.optional() } else { options };
        builder.directory(tree.path(name), options)
    });
    let roots = builder.clone().build().unwrap().narrow(&list.roots).unwrap();
    let named = builder.name_roots_in_refusals().build().unwrap().narrow(&list.roots).unwrap();
    let (in_force, allowed) = (format!("{:?}", tree.path("a")), format!("{:?}", tree.path("b")));
    let (b, none) = (tree.path("b/none"), tree.path("c/f"));
    let same = reason(&text(roots.read("../none", 9)), "read \"../none\"");
    for (request, detail) in [
        (b.to_str().unwrap(), Some(allowed.as_str())),
        ("../b", Some(allowed.as_str())),
        ("l", Some("\"../b/f\"")),
        ("../none", None),
        (none.to_str().unwrap(), None),
    ] {
        let refused = roots.read(request, 9).unwrap_err();
        assert_eq!(refused.code(), "outside_roots");
        let found = refused.operator_detail();
        assert!(found.is_some() == detail.is_some(), "{request}: {found:?}");
        assert!(found.unwrap_or("").contains(detail.unwrap_or("")), "{request}: {found:?}");
        assert_eq!(refused.to_string(), format!("read {request:?}: {same}"));
        let longer = reason(&text(named.read(request, 9)), &format!("read {request:?}"));
        let allowed_now = longer.strip_prefix(&same).unwrap();
        assert!(allowed_now.contains(&in_force) && !allowed_now.contains(&allowed), "{longer}");
    }
    // What would be writable although it is read-only is named, with the line to write instead.
    let (outer, inner) = (tree.path("ro"), tree.path("ro/in"));
    let refused = |read_only: &Path| {
        let builder = Boundary::builder().directory(&outer, Access::ReadWrite);
        let failed = error(builder.directory(read_only, Access::ReadOnly).build());
        assert_eq!(failed.code(), "access_conflict");
        reason(&failed.to_string(), &format!("open root {read_only:?}"))
    };
    let instead = refused(&inner);
    assert!(instead.contains(&format!("{outer:?}")), "{instead}");
    assert!(instead.contains(".protect(\"/in\")"), "{instead}");
    assert!(!refused(&outer).contains(".protect("));
    // What `explain` decides is what `check` and the operations decide.
    let explained = |request: &str| {
        let explanation = roots.explain(request);
        let reading = explanation
            .reading()
            .map_err(Error::code)
            .map(|it| it.to_unguarded_path().display().to_string());
        let read = roots
            .check(request)
            .and_then(|it| it.open().map(|_| it.to_unguarded_path().display().to_string()));
        assert_eq!(reading, read.as_deref().map(Into::into).map_err(Error::code), "{explanation}");
        explanation.to_string()
    };
    let steps = explained("l");
    let lines: Vec<_> = steps.lines().collect();
    assert!(lines[1].contains("\"l\"") && lines[1].contains("\"../b/f\""), "{steps}");
    assert!(
        lines[2].contains("(outside_roots)") && lines[3].contains("(outside_roots)"),
        "{steps}"
    );
    assert_eq!(lines.len(), 5, "what would allow it: {steps}");
    assert!(explained("/none/f").contains("\"file:///none\""));
    assert!(!explained("f").contains("(outside_roots)"));
    for (request, reading, writing) in [
        ("q", Some("not_found"), Some("protected")),
        ("p", Some("special_file"), Some("special_file")),
        ("new", Some("not_found"), None),
        ("new/", Some("not_found"), Some("is_a_directory")),
        ("none/new", Some("not_found"), Some("not_found")),
    ] {
        let why = roots.explain(request);
        assert_eq!(why.reading().err().map(Error::code), reading, "{why}");
        assert_eq!(why.writing().err().map(Error::code), writing, "{why}");
    }
}

#[test]
fn a_uri_is_quoted_as_it_was_sent() {
    let tree = Tree::new("file in/a b; dir in/d");
    let roots = Roots::from_dirs([tree.path("in")], Access::ReadWrite).unwrap();
    let file = tree.uri("in/a%20b");
    for sent in
        [file.clone(), file.replace("file://", "FILE://localhost"), tree.uri("in/./d/../a%20b")]
    {
        let read = format!("read {sent:?}");
        assert_eq!(numbers(&reason(&text(roots.read(&sent, 1)), &read)), [1]);
        let open = roots.open(&sent).unwrap();
        assert_eq!(numbers(&reason(&text(open.read_all(1)), &read)), [1]);
        let listed = error(roots.check(&sent).unwrap().read_dir());
        assert_eq!(listed.code(), "not_a_directory");
        reason(&listed.to_string(), &format!("list {sent:?}"));
        // Two locations are equal if they name the same path, however each was written.
        assert_eq!(
            Location::parse(&sent).unwrap(),
            Location::try_from(tree.path("in/a b")).unwrap()
        );
    }
    let directory = tree.uri("in/%64");
    let renamed = text(roots.rename(&file, &directory, Precondition::Missing));
    reason(&renamed, &format!("rename {file:?} to {directory:?}"));
    let plain = tree.path("in/a b");
    let plain = plain.to_str().unwrap();
    assert_eq!(numbers(&reason(&text(roots.read(plain, 1)), &format!("read {plain:?}"))), [1]);
}
