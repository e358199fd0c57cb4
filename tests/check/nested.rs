//! Policies of nested directories, as agents write them.

use std::fs;
use std::path::Path;

use mcp_roots_guard::{
    Access, Boundary, BoundaryBuilder, DirectoryOptions, ErrorKind, FileType, ListRootsResult,
    PROTECTED_DEFAULTS, Precondition, Result, Roots, WalkOptions,
};

use crate::support::one_step::OneStep as _;
use crate::support::tree::{Tree, symlinks_are_visible};
use crate::support::{always_in_force, code, walked};

/// The workspace is writable, and everything else in `all` can be read.
fn agent(tree: &Tree) -> BoundaryBuilder {
    let workspace = tree.path("all/ws");
    Boundary::builder()
        .directory(workspace, Access::ReadWrite)
        .directory(tree.path("all"), Access::ReadOnly)
        .protect_defaults()
}

/// Codex's default profile: everything can be read, the workspace can be written except `.git`,
/// `.codex` and `.agents`, and `**/*.env` is hidden.
#[test]
fn the_default_profile_of_codex() {
    let tree = Tree::new(
        "file all/notes; file all/ws/src/a.rs; file all/ws/.git/config; file all/ws/prod.env; \
         file all/ws/src/local.ENV; file all/prod.env; file out/a",
    );
    // The pattern as Codex writes it is refused, and the text says what to write.
    let refused = agent(&tree).deny("**/*.env").build().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "deny \"**/*.env\": a pattern matches at any depth: leave out \"**/\""
    );
    let boundary = agent(&tree).deny("*.env").build().unwrap();
    let roots = boundary.allowed_roots();
    roots.write("src/a.rs", "written").unwrap();
    roots.create_dir_all("target/debug").unwrap();
    let notes = tree.path("all/notes");
    assert_eq!(roots.read_to_string(&notes, 99).unwrap(), "all/notes");
    assert_eq!(roots.read_to_string(".git/config", 99).unwrap(), "all/ws/.git/config");
    let write = |path: &Path| code(roots.write(path, "no"));
    assert_eq!(write(&notes), Some("read_only"));
    assert_eq!(code(roots.write(".git/config", "no")), Some("protected"));
    for name in [".git/hooks/x", ".codex/config.toml", ".agents/x"] {
        assert_eq!(code(roots.create_dir_all(name)), Some("protected"), "{name}");
        assert!(PROTECTED_DEFAULTS.contains(&name.split('/').next().unwrap()));
    }
    for name in ["prod.env", "src/local.ENV", "none.env"] {
        assert_eq!(code(roots.read(name, 99)), Some("protected"), "{name}");
    }
    assert_eq!(code(roots.read(tree.path("all/prod.env"), 99)), Some("protected"));
    assert_eq!(code(roots.read(tree.path("out/a"), 99)), Some("outside_roots"));
    let walk = roots.walk("..", WalkOptions::default()).unwrap();
    let seen = walked(walk).into_iter().map(|entry| entry.unwrap().follow().unwrap());
    let seen: Vec<_> =
        seen.filter(|it| it.metadata().unwrap().file_type() == FileType::File).collect();
    let shown = |it: &mcp_roots_guard::CheckedPath| {
        let path = it.to_unguarded_path().strip_prefix(tree.path("all")).unwrap().to_owned();
        (path.to_str().unwrap().replace('\\', "/"), it.access() == Access::ReadWrite)
    };
    let expected = [("notes", false), ("ws/.git/config", false), ("ws/src/a.rs", true)]
        .map(|(path, it)| (path.to_owned(), it));
    assert_eq!(seen.iter().map(shown).collect::<Vec<_>>(), expected);
}

/// `cwd` and `additionalDirectories` of the Agent Client Protocol.
#[test]
fn an_acp_session_has_exactly_its_directories() {
    let tree =
        Tree::new("file all/ws/app/a; file all/ws/lib/b; file all/ref/c; file out/d; dir all/ws/x");
    let roots = agent(&tree).build().unwrap().allowed_roots();
    let path = |name: &str| tree.path(name);
    // The client repeats `cwd`, and names a directory in it.
    let [app, inner] = ["all/ws/app", "all/ws/app"].map(path);
    let session = roots.within_all([app.clone(), inner, path("all/ref"), app.clone()]).unwrap();
    session.write("a", "written").unwrap();
    assert_eq!(session.read_to_string(path("all/ref/c"), 99).unwrap(), "all/ref/c");
    assert_eq!(code(session.write(path("all/ref/c"), "no")), Some("read_only"));
    assert_eq!(code(session.read(path("all/ws/lib/b"), 99)), Some("outside_roots"));
    assert_eq!(code(session.read("../lib/b", 99)), Some("outside_roots"));
    // The root around others contains them, with their access.
    let around = roots.within_all([path("all"), path("all/ws/app")]).unwrap();
    around.write(path("all/ws/lib/b"), "written").unwrap();
    assert_eq!(code(around.write("ws-not", "no")), Some("read_only"));
    // Any refused entry is an error, which names it.
    for (directory, expected) in [
        (path("out"), "outside_roots"),
        (path("all/none"), "not_found"),
        (path("all/ws/app/a"), "not_a_directory"),
    ] {
        let error = roots.within_all([app.clone(), directory.clone()]).unwrap_err();
        assert_eq!(error.code(), expected);
        assert!(error.to_string().starts_with(&format!("narrow to {directory:?}: ")), "{error}");
    }
    let none: [&str; 0] = [];
    let error = roots.within_all(none).unwrap_err();
    assert_eq!(error.code(), "empty");
    // It never widens what it is narrowed from.
    let read_only = roots.read_only().within_all([&app]).unwrap();
    assert_eq!(code(read_only.write("a", "no")), Some("read_only"));
    assert_eq!(code(session.within_all([path("all/ws")]).map(drop)), Some("outside_roots"));
}

#[test]
fn a_refusal_to_write_names_where_one_may_write() {
    let tree = Tree::new("file all/a; dir all/ws");
    let boundary = agent(&tree).name_roots_in_refusals().build().unwrap();
    let roots = boundary.allowed_roots();
    let refused = |roots: &Roots| {
        let refused = roots.write(tree.path("all/a"), "no").unwrap_err();
        assert_eq!(refused.code(), "read_only");
        refused.to_string()
    };
    let (path, ws) = (tree.path("all/a"), tree.path("all").join("ws"));
    let start = format!("write {path:?}: ");
    assert!(refused(&roots).starts_with(&start), "{}", refused(&roots));
    assert!(refused(&roots).ends_with(&format!("; writable: {ws:?}")), "{}", refused(&roots));
    assert!(refused(&roots.read_only()).ends_with("; writable: nothing"));
    let refused = roots.write(".git/x", "no").unwrap_err().to_string();
    assert!(!refused.contains("writable"), "{refused}");
}

#[test]
fn explain_names_the_root_and_the_pattern_that_decided() {
    let tree = Tree::new("file all/a; file all/ws/b; file all/ws/.git/c; file all/ws/.env");
    let boundary = agent(&tree).deny(".env*").build().unwrap();
    let roots = boundary.allowed_roots();
    let all = tree.path("all");
    let explained = |path: &str| {
        let text = roots.explain(all.join(path)).to_string();
        text.lines().skip(1).map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let lines = explained("a");
    assert!(lines[1].contains(&format!("root 1, {all:?}")), "{lines:?}");
    assert!(lines[3].contains("(read_only)"), "{lines:?}");
    assert!(lines[4].contains("Access::ReadWrite"), "{lines:?}");
    let lines = explained("ws/.git/c");
    assert!(lines[1].contains(r#"the pattern ".git""#), "{lines:?}");
    let lines = explained("ws/.env");
    assert!(lines[0].contains(r#"in root 0, the pattern ".env*""#), "{lines:?}");
    assert!(lines[1].contains("(protected)"), "{lines:?}");
    let allowed = explained("ws/b");
    assert!(!allowed[1..].iter().any(|line| line.contains(['(', '"'])), "{allowed:?}");
    // The pattern that the directory's own name matches does not count in it.
    let builder = agent(&tree).deny("w*").deny("b");
    let roots = builder.build().unwrap().allowed_roots();
    let text = roots.explain("b").to_string();
    assert!(text.contains(r#"the pattern "b""#), "{text}");
}

/// The names that lead to a directory are its own, and what is missing stays missing.
#[test]
fn an_optional_directory_in_a_readable_one_is_not_created_and_grants_its_access_when_it_appears() {
    let tree = Tree::new("file all/ws/a; dir all/x");
    let optional = DirectoryOptions::from(Access::ReadWrite).optional();
    let boundary = Boundary::builder()
        .directory(tree.path("all"), Access::ReadOnly)
        .directory(tree.path("all/gone/deep"), optional)
        .build()
        .unwrap();
    let roots = boundary.allowed_roots();
    let inner = tree.path("all/gone/deep");
    assert_eq!(code(roots.create_dir_all(&inner)), Some("read_only"));
    assert_eq!(code(roots.write("gone", "no")), Some("read_only"));
    fs::create_dir_all(&inner).unwrap();
    std::thread::sleep(mcp_roots_guard::limits::VERIFY_EVERY);
    // The snapshot from before grants no more than it did.
    assert_eq!(code(roots.write(inner.join("f"), "no")), Some("read_only"));
    let roots = boundary.allowed_roots();
    roots.write(inner.join("f"), "yes").unwrap();
    assert_eq!(code(roots.write("gone/f", "no")), Some("read_only"));
    // It is removed again, so its place is unavailable, and still not the outer directory's. On
    // Windows, an open directory cannot be removed.
    if fs::remove_dir_all(&inner).is_err() && cfg!(windows) {
        return;
    }
    std::thread::sleep(mcp_roots_guard::limits::VERIFY_EVERY);
    for path in ["gone/deep", "gone/deep/f"] {
        assert_eq!(code(roots.create_dir_all(path)), Some("root_unavailable"), "{path}");
    }
}

#[cfg(unix)]
#[test]
fn a_deployment_moves_the_writable_directory() {
    let tree = Tree::new("file all/v1/a; file all/v2/a; link current -> $T/all/v1");
    let boundary = Boundary::builder()
        .directory(tree.path("current"), Access::ReadWrite)
        .directory(tree.path("all"), Access::ReadOnly)
        .build()
        .unwrap();
    let writes = |version: &str| {
        code(boundary.allowed_roots().write(tree.path("all").join(version).join("a"), "x"))
    };
    assert_eq!((writes("v1"), writes("v2")), (None, Some("read_only")));
    tree.add("link next -> $T/all/v2");
    fs::rename(tree.path("next"), tree.path("current")).unwrap();
    std::thread::sleep(mcp_roots_guard::limits::VERIFY_EVERY);
    assert_eq!((writes("v1"), writes("v2")), (Some("read_only"), None));
    // The link leads to a directory that is configured for reading: the lesser access counts.
    let boundary = Boundary::builder()
        .directory(tree.path("current"), Access::ReadWrite)
        .directory(tree.path("all/v1"), Access::ReadOnly)
        .build()
        .unwrap();
    tree.add("link next -> $T/all/v1");
    fs::rename(tree.path("next"), tree.path("current")).unwrap();
    std::thread::sleep(mcp_roots_guard::limits::VERIFY_EVERY);
    let roots = boundary.allowed_roots();
    assert_eq!(code(roots.write(tree.path("all/v1/a"), "no")), Some("read_only"));
}

/// A symlink that is switched after the start leads from a read-only place into a writable one. What
/// is configured as read-only is not writable, whatever a client lists.
#[cfg(unix)]
#[test]
fn a_read_only_directory_that_moves_into_a_writable_one_stays_read_only() {
    let tree = Tree::new("dir ws/sub; dir ro; dir other; link l -> $T/ro");
    let boundary = Boundary::builder()
        .directory(tree.path("ws"), DirectoryOptions::from(Access::ReadWrite).always())
        .directory(tree.path("l"), Access::ReadOnly)
        .build()
        .unwrap();
    let switch = |to: &str| {
        tree.add(&format!("link next -> $T/{to}"));
        fs::rename(tree.path("next"), tree.path("l")).unwrap();
        std::thread::sleep(mcp_roots_guard::limits::VERIFY_EVERY);
    };
    let write = |roots: &Roots| code(roots.write(tree.path("ws/sub/f"), "no"));
    switch("ws/sub");
    assert_eq!(write(&boundary.allowed_roots()), Some("read_only"));
    let list = ListRootsResult::from_uris([tree.uri("none")]);
    assert_eq!(write(&boundary.narrow(&list.roots).unwrap()), Some("read_only"));
    // The writable directory is writable again as soon as nothing in it is read-only.
    switch("other");
    assert_eq!(write(&boundary.allowed_roots()), None);
}

/// A directory keeps nothing of a path that led to it and now leads elsewhere.
#[cfg(unix)]
#[test]
fn a_switched_path_takes_its_options_and_its_name_with_it() {
    let tree = Tree::new("file a/x; file b/y; link l -> $T/a");
    let boundary = Boundary::builder()
        .directory(tree.path("a"), Access::ReadWrite)
        .directory(tree.path("l"), DirectoryOptions::from(Access::ReadWrite).always())
        .build()
        .unwrap();
    let always = || {
        let roots = boundary.allowed_roots();
        let always = always_in_force(&roots);
        roots.iter().map(|root| always.contains(root.path())).collect::<Vec<_>>()
    };
    let read = |path: &str| code(boundary.allowed_roots().read(tree.path(path), 9));
    assert_eq!((always(), read("l/x")), (vec![true], None));
    tree.add("link next -> $T/b");
    fs::rename(tree.path("next"), tree.path("l")).unwrap();
    std::thread::sleep(mcp_roots_guard::limits::VERIFY_EVERY);
    assert_eq!((always(), read("l/x"), read("l/y")), (vec![false, true], Some("not_found"), None));
}

#[cfg(unix)]
#[test]
fn the_outermost_roots_include_the_filesystem_root() {
    let tree = Tree::new("dir ws/.hid/in");
    let count = |builder: BoundaryBuilder| {
        builder.build().unwrap().allowed_roots().check_all().unwrap().len()
    };
    let all = || Boundary::builder().directory("/", Access::ReadOnly);
    assert_eq!(count(all()), 1);
    assert_eq!(count(all().directory(tree.path("ws"), Access::ReadWrite)), 1);
    let hidden = all().directory(tree.path("ws/.hid/in"), Access::ReadWrite);
    assert_eq!(count(hidden.deny(".hid")), 2);
}

/// A session may repeat its directories, and the work for all of them together is bounded.
#[test]
fn the_directories_of_a_session_cost_a_bounded_amount_of_work() {
    let tree = Tree::in_memory("dir all");
    let add = |builder: BoundaryBuilder, number: usize| {
        let path = tree.path(format!("all/{number}"));
        fs::create_dir(&path).unwrap();
        builder.directory(path, Access::ReadWrite)
    };
    let builder = Boundary::builder().directory(tree.path("all"), Access::ReadWrite);
    let roots = (0..1_000).fold(builder, add).build().unwrap().allowed_roots();
    let all = tree.path("all");
    let repeated = roots.within_all(std::iter::repeat_n(all.as_path(), 10_000)).unwrap();
    assert_eq!(repeated.iter().count(), 1_001);
    // On Windows, these are one path.
    let spelled = (0..2_000).map(|dots| "./".repeat(dots + 1));
    let narrowed = roots.with_base(&all).unwrap().within_all(spelled);
    assert_eq!(code(narrowed), (!cfg!(windows)).then_some("too_costly"));
    let many = std::iter::repeat_n(all.as_path(), 10_001);
    assert_eq!(code(roots.within_all(many)), Some("too_many_roots"));
}

#[test]
fn a_directory_is_removed_with_its_exempt_names_and_not_with_others() {
    let tree = Tree::new("file ws/one/.env.example; file ws/two/a/.env; dir ws/three");
    let boundary = Boundary::builder()
        .directory(tree.path("ws"), Access::ReadWrite)
        .deny(".env*")
        .exempt(".env.example")
        .build()
        .unwrap();
    let roots = boundary.allowed_roots();
    roots.rename("one", "three/one", Precondition::Missing).unwrap();
    roots.remove_dir_all("three").unwrap();
    assert_eq!(code(roots.remove_dir_all("two")), Some("protected"));
    assert_eq!(code(roots.rename("two", "four", Precondition::Missing)), Some("protected"));
    assert!(tree.path("ws/two/a/.env").exists());
}

/// Both sides of a rename and of a hard link must be writable, and a hard link stays in one root.
#[test]
fn nothing_is_moved_or_linked_between_a_readable_and_a_writable_directory() {
    let tree = Tree::new("file all/a; file all/ws/b; file all/ws2/c; dir all/ws/d");
    let boundary = agent(&tree).directory(tree.path("all/ws2"), Access::ReadWrite).build().unwrap();
    let roots = boundary.allowed_roots();
    let path = |name: &str| tree.path("all").join(name);
    let before = tree.snapshot("all");
    let rename =
        |from: &str, to: &str| code(roots.rename(path(from), path(to), Precondition::Missing));
    let link = |from: &str, to: &str| code(roots.hard_link(path(from), path(to)));
    let done = [
        rename("a", "ws/new"),
        rename("ws/b", "new"),
        rename("ws", "new"),
        link("a", "ws/new"),
        link("ws/b", "new"),
    ];
    let [read_only, root] = ["read_only", "root_itself"].map(Some);
    assert_eq!(done, [read_only, read_only, root, read_only, read_only]);
    assert_eq!(link("ws/b", "ws2/new"), Some("different_roots"));
    assert_eq!(tree.snapshot("all"), before);
    assert_eq!(rename("ws/b", "ws2/b"), None);
    assert_eq!(link("ws2/b", "ws2/again"), None);
}

/// A symlink that others may have planted is in a writable directory, in force or not.
#[cfg(unix)]
#[test]
fn a_link_planted_in_a_writable_directory_around_or_beside_selects_no_root() {
    let tree = Tree::new("dir all/ws; dir all/private; dir all/ref");
    let boundary = agent(&tree).build().unwrap();
    // After the process has built its first boundary.
    tree.add("link all/ws/l -> $T/all/private; link all/l -> $T/all/private");
    let list = |path: &str| {
        let roots = boundary.narrow(&ListRootsResult::from_uris([tree.uri(path)]).roots).unwrap();
        roots.rejected().first().map(|it| it.error().code())
    };
    assert_eq!(list("all/ws/l"), Some("through_link"));
    assert_eq!(list("all/l"), None);
    // Names are compared in folded form.
    tree.add("dir all/WS; link all/WS/l -> $T/all/private");
    assert_eq!(list("all/WS/l"), Some("through_link"));
}

#[test]
fn a_proof_is_judged_by_the_access_of_its_place() -> Result<()> {
    let tree = Tree::new("file all/a; file all/ws/b");
    let boundary = agent(&tree).build()?;
    let roots = boundary.allowed_roots();
    let list = |path: &str| boundary.narrow(&ListRootsResult::from_uris([tree.uri(path)]).roots);
    let [a, b] = [tree.path("all/a"), tree.path("all/ws/b")];
    let [a, b] = [roots.check(&a)?, roots.check(&b)?];
    let all = list("all")?;
    assert_eq!((code(all.still_allows(&a)), code(all.still_allows(&b))), (None, None));
    assert_eq!(code(all.read_only().still_allows(&b)), Some("read_only"));
    assert_eq!(code(all.read_only().still_allows(&a)), None);
    assert_eq!(code(list("all/ws")?.still_allows(&a)), Some("outside_roots"));
    // A proof keeps the access of its snapshot.
    assert_eq!(roots.read_only().check(tree.path("all/ws/b"))?.access(), Access::ReadOnly);
    assert_eq!(b.access(), Access::ReadWrite);
    Ok(())
}

/// What takes the place of an allowed file is not granted, whichever path a client lists.
#[cfg(unix)]
#[test]
fn an_allowed_file_that_became_a_directory_is_unavailable() {
    let tree = Tree::new("file all/f; link all/l -> f");
    let boundary = Boundary::builder()
        .directory(tree.path("all/f"), Access::ReadWrite)
        .directory(tree.path("all"), Access::ReadOnly)
        .build()
        .unwrap();
    fs::remove_file(tree.path("all/f")).unwrap();
    tree.add("file all/f/inside");
    for listed in ["all/f", "all/l"] {
        let list = ListRootsResult::from_uris([tree.uri(listed)]);
        let roots = boundary.narrow(&list.roots).unwrap();
        assert!(roots.read(tree.path("all/f/inside"), 9).is_err(), "{listed}");
        assert!(roots.write(tree.path("all/f/new"), "no").is_err(), "{listed}");
    }
    assert!(!tree.path("all/f/new").exists());
    // So is what takes the place of an inner directory, by its own path and below the outer one.
    let tree = Tree::new("dir all/ws; file all/g; link all/l -> ws");
    let roots = agent(&tree).directory(tree.path("all/g"), Access::ReadWrite);
    let roots = roots.build().unwrap().allowed_roots().with_base(tree.path("all")).unwrap();
    fs::remove_dir(tree.path("all/ws")).unwrap();
    fs::remove_file(tree.path("all/g")).unwrap();
    tree.add("file all/ws; dir all/g");
    for path in ["ws", "l", "g"] {
        assert_eq!(code(roots.check(path)), Some("root_unavailable"), "{path}");
    }
    let own = code(roots.check(tree.path("all/ws")));
    assert_eq!(own, Some("root_unavailable"));
    // Nor is it used as an entry that was listed.
    for entry in roots.read_dir(".").unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() == "ws" {
            let place = entry.follow().unwrap();
            let in_place = mcp_roots_guard::WriteOptions::default().in_place();
            assert_eq!(code(place.read(99)), Some("root_unavailable"));
            assert_eq!(code(place.write_with("no", in_place)), Some("root_unavailable"));
            assert_eq!(code(entry.metadata()), Some("root_unavailable"));
        }
    }
}

/// A configuration in which what is read-only would be writable.
#[test]
fn less_access_inside_is_refused() {
    let tree = Tree::new("dir w/v; dir link-to");
    let build = |pairs: &[(&str, Access)]| {
        let add = |builder: BoundaryBuilder, (path, access): &(&str, Access)| {
            builder.directory(tree.path(path), *access)
        };
        pairs.iter().fold(Boundary::builder(), add).build().map_err(|error| error.kind())
    };
    let [read, write] = [Access::ReadOnly, Access::ReadWrite];
    assert!(build(&[("w", read), ("w/v", write)]).is_ok());
    assert!(build(&[("w/v", write), ("w", read), ("w/v", write)]).is_ok());
    for refused in [
        &[("w", write), ("w/v", read)][..],
        &[("w/v", read), ("w", write)],
        &[("w", read), ("w", write)],
    ] {
        assert_eq!(build(refused).unwrap_err(), ErrorKind::InvalidConfiguration, "{refused:?}");
    }
    // The hint is a line that can be written.
    let refused = |inner: &str| {
        fs::create_dir_all(tree.path(inner)).unwrap();
        let builder = Boundary::builder().directory(tree.path("w"), write);
        builder.directory(tree.path(inner), read).build().unwrap_err().to_string()
    };
    assert!(refused("w/v").ends_with(".protect(\"/v\")"));
    for inner in ["w/[v]*x", &format!("w{}", "/n".repeat(17))] {
        if !cfg!(windows) {
            let text = refused(inner);
            assert!(text.contains("or a filesystem could find it there"), "{text}");
        }
    }
    if symlinks_are_visible() {
        tree.add("link l -> link-to");
        assert!(build(&[("l", read), ("link-to", write)]).is_err());
    }
}
