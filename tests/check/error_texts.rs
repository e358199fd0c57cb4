//! Error texts, as shown to the model or the operator.

use std::path::Path;

use mcp_roots_guard::limits::{ROOT_LIST_BYTES, URI_BYTES};
use mcp_roots_guard::{
    Access, Boundary, Deadline, DirectoryOptions, Error, ListRootsResult, Location, Overwrite,
    Result, Roots, WalkOptions,
};

use crate::support::tree::Tree;
use crate::support::walked;

fn text<T>(result: Result<T>) -> String {
    result.map_or_else(|error| error.to_string(), |_| panic!("the operation succeeded"))
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
        ("a", "b", Overwrite::Never, "destination already exists"),
        ("a", "d", Overwrite::Always, "destination: is a directory"),
        ("a", "none/x", Overwrite::Never, "destination: the parent directory does not exist"),
        ("a", "b/x", Overwrite::Never, "destination: not a directory"),
        ("a", "../out/x", Overwrite::Never, "destination: not inside the allowed directories"),
        ("a", ro.as_str(), Overwrite::Always, "destination: the directory is read-only"),
        (ro.as_str(), "a", Overwrite::Always, "the directory is read-only"),
        ("none", "x", Overwrite::Never, "no such file or directory"),
        #[cfg(unix)]
        ("full", "full/x/y", Overwrite::Never, "a directory cannot be moved into itself"),
        // The source is checked first.
        ("../out", "b", Overwrite::Never, "not inside the allowed directories"),
    ];
    for (from, to, replace, why) in cases {
        let expected = format!("rename {from:?} to {to:?}: {why}");
        assert_eq!(text(roots.rename(from, to, replace)), expected);
        let checked = |path| roots.check_entry(path).ok();
        if let (Some(from), Some(to)) = (checked(from), checked(to)) {
            assert_eq!(text(from.rename(&to, replace)), expected);
        }
    }
}

/// Nothing is expanded. The text says so where somebody may have expected it.
#[cfg(unix)]
#[test]
fn a_text_that_is_not_expanded_says_what_to_write() {
    let tree = Tree::new("file in/f; dir in/d; link in/ld -> d");
    let roots = Roots::from_dirs([tree.path("in")]).unwrap();
    let none = "no such file or directory";
    for (request, why) in [
        ("~/x", format!("{none}; ~ is not expanded, so write the full path")),
        ("a%20b", format!("{none}; percent escapes are decoded only in file: URIs, and only once")),
        ("50%cent", none.to_owned()),
        ("100%", none.to_owned()),
        ("~x", none.to_owned()),
        ("", "the path is empty; write . for the directory itself".to_owned()),
    ] {
        let text = text(roots.read(request, 9));
        assert!(text.ends_with(&format!("{request:?}: {why}")), "{text}");
    }
    // A `Path` is used unchanged.
    let why = format!("{none}; write a path here instead of a file: URI");
    let text_of = |path: &str| text(roots.read(std::path::Path::new(path), 9));
    assert!(text_of("file:///x").ends_with(&why));
    let entry = |path: &str| text(roots.check_entry(path));
    let why = "not a directory but a symlink; omit the slash to name the symlink itself";
    let parent = "the parent directory does not exist; ~ is not expanded, so write the full path";
    assert_eq!(text(roots.write("~/x", "x")), format!("write \"~/x\": {parent}"));
    assert_eq!(entry("ld/"), format!("check \"ld/\": {why}"));
    assert_eq!(text(roots.write(".", "x")), "write \".\": is a directory");
    let why = "the path ends in a slash or a dot, so it names a directory; write it without that to \
               name a file";
    assert_eq!(text(roots.write("new/", "x")), format!("write \"new/\": {why}"));
    for (directory, why) in [
        ("", "the path of the directory is empty; is a variable unset?"),
        ("~/x", "~ is not expanded, so write the full path"),
        ("file:///srv", "write a path here instead of a file: URI"),
    ] {
        let built = Boundary::builder().directory(directory, Access::ReadOnly).build();
        let text = text(built);
        assert!(text.ends_with(why), "{text}");
    }
}

#[test]
fn an_exceeded_limit_is_named_with_its_number() {
    let tree = Tree::new("file in/f = 123; file in/d/x; file in/d/y");
    let roots = Roots::from_dirs([tree.path("in")]).unwrap();
    assert_eq!(text(roots.read("f", 2)), r#"read "f": larger than 2 bytes"#);
    let open = roots.open("f").unwrap();
    assert_eq!(text(open.read_all(1)), r#"read "f": larger than 1 bytes"#);
    let walk = roots.walk("d", WalkOptions::default().max_entries(1)).unwrap();
    assert_eq!(text(walked(walk).pop().unwrap()), r#"walk "d": more than 1 entries"#);
    let uri = format!("file:///{}", "a".repeat(URI_BYTES));
    assert!(
        text(Location::parse(&uri))
            .ends_with(&format!(": the URI is longer than {URI_BYTES} bytes"))
    );
    let huge = ListRootsResult::from_uris(["x".repeat(ROOT_LIST_BYTES + 1)]);
    assert_eq!(
        text(crate::support::listed(&huge)),
        format!("the root list is larger than {ROOT_LIST_BYTES} bytes")
    );
}

/// `boundary::options` compares the text for every request and every reason but the first one here.
#[test]
fn a_refusal_without_roots_says_only_why_there_are_none() {
    let tree = Tree::new("file in/f");
    let unset = Boundary::without_directories().build().unwrap();
    for (roots, why) in [
        (unset.allowed_roots(), "the server has no directories configured"),
        (
            unset.narrow(&ListRootsResult::default().roots, &Deadline::default()).unwrap(),
            "the client listed no directories",
        ),
    ] {
        assert_eq!(text(roots.read("f", 9)), format!(r#"read "f": {why}"#));
        let renamed = text(roots.rename("a", "b", Overwrite::Never));
        assert_eq!(renamed, format!(r#"rename "a" to "b": {why}"#));
        let base = text(roots.with_base(tree.path("in")));
        assert!(base.ends_with(&format!(": {why}")), "{base}");
        let in_force = tree.roots(["in"]).check("f").unwrap();
        assert_eq!(text(roots.still_allows(&in_force)), why);
    }
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
    let roots = builder.clone().build().unwrap().narrow(&list.roots, &Deadline::default()).unwrap();
    let named = builder
        .name_roots_in_refusals()
        .build()
        .unwrap()
        .narrow(&list.roots, &Deadline::default())
        .unwrap();
    let shown = format!("; allowed: {:?}", tree.path("a"));
    let allowed = format!("it is in the allowed directory {:?}, but not in", tree.path("b"));
    let (b, none) = (tree.path("b/none"), tree.path("c/f"));
    for (request, detail) in [
        (b.to_str().unwrap(), Some(allowed.as_str())),
        ("../b", Some(&allowed)),
        ("l", Some("after following the symlink")),
        ("../none", None),
        (none.to_str().unwrap(), None),
    ] {
        let refused = roots.read(request, 9).unwrap_err();
        let found = refused.operator_detail();
        assert!(found.is_some() == detail.is_some(), "{request}: {found:?}");
        assert!(found.unwrap_or("").starts_with(detail.unwrap_or("")), "{request}: {found:?}");
        let same = format!("read {request:?}: not inside the allowed directories");
        assert_eq!(refused.to_string(), same);
        assert_eq!(text(named.read(request, 9)), same + &shown);
    }
    // What would be writable although it is read-only is named, with the line to write instead.
    let (outer, inner) = (tree.path("ro"), tree.path("ro/in"));
    let refused = |read_only: &Path| {
        let builder = Boundary::builder().directory(&outer, Access::ReadWrite);
        text(builder.directory(read_only, Access::ReadOnly).build().map(drop))
    };
    let why = "a read-only directory would be writable";
    assert_eq!(
        refused(&inner),
        format!(
            "open root {inner:?}: {why}; it is inside the writable directory {outer:?}: leave it \
             out, and make it read-only with .protect(\"/in\")"
        )
    );
    assert_eq!(
        refused(&outer),
        format!(
            "open root {outer:?}: {why}; it is configured as read-only and as writable: leave out one of the two"
        )
    );
    // What `explain` decides is what `check` and the operations decide.
    let explained = |request: &str| {
        let explanation = roots.explain(request);
        let reading = explanation.reading().map_err(Error::code).map(|it| it.display_path());
        let read = roots.check(request).and_then(|it| it.open().map(|_| it.display_path()));
        assert_eq!(reading, read.as_deref().map(Into::into).map_err(Error::code), "{explanation}");
        explanation.to_string()
    };
    let steps = explained("l");
    let lines: Vec<_> = steps.lines().collect();
    assert_eq!(lines[1], r#"in root 0, "l" is a symlink to "../b/f""#);
    assert!(lines[2].starts_with("reading is refused (outside_roots): "), "{steps}");
    assert!(lines[3].starts_with("writing is refused (outside_roots): "), "{steps}");
    assert_eq!(lines[4..], ["to allow it: add an allowed directory that contains the place"]);
    assert!(explained("/none/f").contains("listed \"file:///none\", which was rej"));
    let both = "it can be read and changed\nreading is allowed\nwriting is allowed";
    assert!(explained("f").ends_with(both));
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
    let roots = Roots::from_dirs([tree.path("in")]).unwrap();
    let file = tree.uri("in/a%20b");
    for sent in
        [file.clone(), file.replace("file://", "FILE://localhost"), tree.uri("in/./d/../a%20b")]
    {
        assert_eq!(text(roots.read(&sent, 1)), format!("read {sent:?}: larger than 1 bytes"));
        let open = roots.open(&sent).unwrap();
        assert_eq!(text(open.read_all(1)), format!("read {sent:?}: larger than 1 bytes"));
        let checked = roots.check(&sent).unwrap();
        assert_eq!(text(checked.read_dir()), format!("list {sent:?}: not a directory"));
        // Two locations are equal if they name the same path, however each was written.
        assert_eq!(
            Location::parse(&sent).unwrap(),
            Location::try_from(tree.path("in/a b")).unwrap()
        );
    }
    let directory = tree.uri("in/%64");
    let renamed = text(roots.rename(&file, &directory, Overwrite::Never));
    assert_eq!(renamed, format!("rename {file:?} to {directory:?}: destination already exists"));
    let plain = tree.path("in/a b");
    let plain = plain.to_str().unwrap();
    assert_eq!(text(roots.read(plain, 1)), format!("read {plain:?}: larger than 1 bytes"));
}
