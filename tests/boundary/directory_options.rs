//! The options of allowed directories: directories that are always in force, the meaning of an
//! empty list, and aliases.

use std::future::pending;
#[cfg(unix)]
use std::time::Duration;

use mcp_roots_guard::limits::ROOT_LIST_ENTRIES;
use mcp_roots_guard::{
    Access, Boundary, BoundaryBuilder, ClientCapabilities, ClientRoots, DirectoryOptions,
    ErrorKind, Guard, GuardBuilder, Intent, ListRootsResult, Replace, Roots, RootsCapability,
    RootsResponse, RootsState, Session, WithoutClientRoots,
};

use crate::support::code;
use crate::support::tree::Tree;

const ANNOUNCING: ClientCapabilities =
    ClientCapabilities::with_roots(RootsCapability::announcing());
const ALLOWED: WithoutClientRoots = WithoutClientRoots::AllowedDirectories;

fn tree() -> Tree {
    Tree::new(
        "file home/work/f; file home/other/f; file external/f; file external/sub/f; file outside/f",
    )
}

fn always(access: Access) -> DirectoryOptions {
    DirectoryOptions::new(access).always(true)
}

/// `external` is always in force, and client roots narrow `home`.
fn home_and_external(tree: &Tree) -> BoundaryBuilder {
    Boundary::builder()
        .directory_with(tree.path("external"), always(Access::ReadOnly))
        .directory(tree.path("home"), Access::ReadWrite)
}

fn list(tree: &Tree, paths: &[&str]) -> ListRootsResult {
    ListRootsResult::from_uris(paths.iter().map(|path| tree.uri(path)))
}

/// The paths of the roots relative to the tree, with a `!` if the root is always in force.
fn names(tree: &Tree, roots: &Roots) -> Vec<String> {
    let name = |root: &mcp_roots_guard::Root| {
        let path = root.path().strip_prefix(tree.path("")).unwrap().display().to_string();
        path.replace('\\', "/") + if root.is_always() { "!" } else { "" }
    };
    roots.roots().map(name).collect()
}

/// The path to which a request resolves, relative to the tree, or the code of the error.
fn resolved(
    tree: &Tree,
    roots: &Roots,
    request: impl AsRef<std::path::Path>,
) -> Result<String, &'static str> {
    let checked = roots.check(request.as_ref(), Intent::Existing).map_err(|error| error.code())?;
    let path = checked.to_unguarded_path();
    Ok(path.strip_prefix(tree.path("")).unwrap().display().to_string().replace('\\', "/"))
}

#[test]
fn always_directories_follow_the_client_roots_in_configuration_order() {
    let tree = tree();
    let boundary = home_and_external(&tree)
        .directory_with(tree.path("outside"), always(Access::ReadWrite))
        .build()
        .unwrap();
    let rows: [(&[&str], &[&str], usize); 9] = [
        (&["home/work"], &["home/work", "external!", "outside!"], 0),
        (&["home/other", "home/work"], &["home/other", "home/work", "external!", "outside!"], 0),
        (&["external/sub"], &["external/sub", "external!", "outside!"], 0),
        (&["home/work", "external"], &["home/work", "external!", "outside!"], 0),
        (&["external", "external"], &["external!", "outside!"], 1),
        (&["outside", "home/work"], &["outside!", "home/work", "external!"], 0),
        (&[""], &["external!", "home", "outside!"], 0),
        (&["none"], &["external!", "outside!"], 1),
        (&[], &["external!", "outside!"], 0),
    ];
    for (listed, expected, rejected) in rows {
        let roots = boundary.resolve(&list(&tree, listed)).unwrap();
        assert_eq!(names(&tree, &roots), expected, "{listed:?}");
        assert_eq!(roots.rejected().len(), rejected, "{listed:?}");
        let base = resolved(&tree, &roots, ".");
        let is_based = !matches!(listed, [] | ["none"]);
        let first = expected[0].trim_end_matches('!').to_owned();
        assert_eq!(base, if is_based { Ok(first) } else { Err("outside_roots") }, "{listed:?}");
        assert_eq!(
            resolved(&tree, &roots, tree.path("external/sub/f")),
            Ok("external/sub/f".into()),
            "{listed:?}"
        );
        let refused = roots.write(tree.path("external/new"), "x").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{listed:?}");
    }
    assert_eq!(
        names(&tree, &boundary.allowed_roots()),
        ["external!", "home", "outside!"],
        "configuration order"
    );
}

#[cfg(unix)]
#[test]
fn a_symlink_from_a_client_root_into_an_always_directory_is_followed() {
    let tree = tree();
    tree.add("link home/work/ext -> $T/external; link home/work/out -> $T/home/other");
    let boundary = home_and_external(&tree).build().unwrap();
    let roots = boundary.resolve(&list(&tree, &["home/work"])).unwrap();
    assert_eq!(names(&tree, &roots), ["home/work", "external!"]);
    assert_eq!(roots.read_to_string("ext/sub/f", 99).unwrap(), "external/sub/f");
    assert_eq!(code(roots.write("ext/new", "x")), Some("read_only"));
    roots.write("new", "x").unwrap();
    assert_eq!(code(roots.read("out/f", 99)), Some("outside_roots"));
}

/// The reason that a relative request is refused depends only on the list.
#[test]
fn relative_requests_without_a_client_root_are_refused_with_the_reason() {
    let tree = tree();
    let boundary = home_and_external(&tree).build().unwrap();
    let refused = |listed: &[&str], request: &str| {
        let roots = boundary.resolve(&list(&tree, listed)).unwrap();
        roots.check(request, Intent::Existing).unwrap_err().to_string()
    };
    assert!(refused(&[], "f").contains("the client listed no directories"));
    assert!(refused(&["outside"], "f").contains("none of the directories that the client listed"));
    let absolute = tree.path("outside/f").to_str().unwrap().to_owned();
    for listed in [&[][..], &["outside"], &["home/work"]] {
        assert!(refused(listed, &absolute).contains("not inside the allowed directories"));
    }
    // The server can choose a directory that is always in force.
    let roots = boundary.resolve(&list(&tree, &[])).unwrap();
    let roots = roots.with_base(tree.path("external")).unwrap();
    assert_eq!(resolved(&tree, &roots, "sub"), Ok("external/sub".into()));
}

#[test]
fn the_empty_list_option_applies_only_to_a_list_without_entries() {
    let tree = tree();
    for with_always in [false, true] {
        let builder = if with_always {
            home_and_external(&tree)
        } else {
            Boundary::builder()
                .directory(tree.path("external"), Access::ReadOnly)
                .directory(tree.path("home"), Access::ReadWrite)
        };
        let external = if with_always { "external!" } else { "external" };
        let none = if with_always { vec![external] } else { Vec::new() };
        let resolve = |builder: BoundaryBuilder, listed: &[&str]| {
            let roots = builder.build().unwrap().resolve(&list(&tree, listed)).unwrap();
            (
                names(&tree, &roots).iter().map(String::as_str).collect::<Vec<_>>().join(" "),
                resolved(&tree, &roots, "."),
            )
        };
        let denied = (none.join(" "), Err("outside_roots"));
        assert_eq!(resolve(builder.clone(), &[]), denied);
        let allowed = builder.clone().empty_list(ALLOWED);
        let all = (format!("{external} home"), Ok("external".into()));
        assert_eq!(resolve(allowed.clone(), &[]), all);
        assert_eq!(resolve(allowed.clone(), &["outside"]), denied);
        // A malformed entry is still an entry.
        let malformed: ListRootsResult = serde_json::from_str(r#"{ "roots": [3] }"#).unwrap();
        let roots = allowed.build().unwrap().resolve(&malformed).unwrap();
        assert_eq!(names(&tree, &roots), none);
    }
    let only = Boundary::builder().client_roots_only();
    assert_eq!(code(only.clone().empty_list(ALLOWED).build()), Some("invalid_options"));
    only.empty_list(WithoutClientRoots::Deny).build().unwrap();
}

/// Every client's tools can write to `shared`, so they could change the targets of its symlinks.
#[cfg(unix)]
#[test]
fn a_symlink_in_a_writable_always_directory_grants_nothing() {
    let tree = tree();
    tree.add("file shared/sub/f; link shared/l -> $T/home; link shared/sub/l -> $T/home/work");
    tree.add("link external/l -> $T/home/work");
    let boundary = home_and_external(&tree)
        .directory_with(tree.path("shared"), always(Access::ReadWrite))
        .build()
        .unwrap();
    let forced: &[&str] = &["external!", "shared!"];
    let rows: [(&[&str], &[&str], Option<&str>); 5] = [
        (&["shared/l"], forced, Some("through_link")),
        (&["shared/sub/l"], forced, Some("through_link")),
        (&["shared", "shared/l/work"], &["shared!", "external!"], Some("through_link")),
        // No tool can write to `external`.
        (&["external/l"], &["home/work", "external!", "shared!"], None),
        (&["shared/sub"], &["shared/sub", "external!", "shared!"], None),
    ];
    for (listed, expected, rejected) in rows {
        let roots = boundary.resolve(&list(&tree, listed)).unwrap();
        assert_eq!(names(&tree, &roots), expected, "{listed:?}");
        let codes: Vec<_> = roots.rejected().iter().map(|entry| entry.error().code()).collect();
        assert_eq!(codes, rejected.into_iter().collect::<Vec<_>>(), "{listed:?}");
    }
}

fn session(builder: GuardBuilder, declared: ClientCapabilities) -> Session {
    builder.build().unwrap().session(declared).unwrap()
}

/// Tries each state of a client, with and without a directory that is always in force.
#[tokio::test(start_paused = true)]
async fn an_always_directory_is_in_force_in_every_state_of_the_client() {
    let tree = tree();
    let listing = |listed: &[&str]| RootsResponse::List(list(&tree, listed));
    let page = |cursor: &str| {
        let next_cursor = Some(cursor.to_owned());
        RootsResponse::List(ListRootsResult { next_cursor, ..ListRootsResult::default() })
    };
    let many = ListRootsResult::from_uris(vec!["file:///"; ROOT_LIST_ENTRIES + 1]);
    let large = ListRootsResult::from_uris(["x".repeat(9 << 20)]);
    let undeclared = ClientCapabilities::without_roots();
    let failed = RootsState::Failed(ErrorKind::RootsFailed);
    let declared = ANNOUNCING;
    let rows = [
        ("listed", declared, Some(listing(&["home/work"])), "", RootsState::Available),
        ("empty", declared, Some(listing(&[])), "outside_roots", RootsState::Empty),
        ("rejected", declared, Some(listing(&["outside"])), "outside_roots", RootsState::Empty),
        ("failed", declared, Some(RootsResponse::Failed("no".into())), "roots_failed", failed),
        ("no answer", declared, None, "roots_timed_out", failed),
        (
            "unsupported",
            declared,
            Some(RootsResponse::Unsupported),
            "roots_unsupported",
            RootsState::Failed(ErrorKind::RootsUnsupported),
        ),
        ("undeclared", undeclared, None, "roots_unsupported", RootsState::Unsupported),
        ("too many", declared, Some(RootsResponse::List(many)), "too_many_roots", failed),
        (
            "too large",
            declared,
            Some(RootsResponse::List(large)),
            "too_large",
            RootsState::Failed(ErrorKind::LimitExceeded),
        ),
        ("repeated", declared, Some(page("x")), "repeated_cursor", failed),
    ];
    for (name, declared, answer, refusal, state) in rows {
        for with_always in [false, true] {
            let builder = if with_always {
                home_and_external(&tree)
            } else {
                Boundary::builder().directory(tree.path("home"), Access::ReadWrite)
            };
            let guard = Guard::builder(builder.build().unwrap())
                .without_client_roots(WithoutClientRoots::Deny);
            let session = session(guard, declared);
            let mut asked = 0;
            // The second call uses the cached list, or is refused during the back-off.
            for _ in 0..2 {
                let source = |_: Option<String>| {
                    asked += 1;
                    let answer = answer.clone();
                    async move {
                        match answer {
                            Some(answer) => answer,
                            None => pending().await,
                        }
                    }
                };
                let roots = session.roots(source).await;
                assert_eq!(session.state(), state, "{name}");
                if !with_always && !matches!(refusal, "" | "outside_roots") {
                    assert_eq!(code(roots), Some(refusal), "{name}");
                    continue;
                }
                let roots = roots.unwrap();
                let relative = roots.check(".", Intent::Existing);
                assert_eq!(code(relative).unwrap_or_default(), refusal, "{name}");
                let external = roots.check(tree.path("external/f"), Intent::Existing);
                if !with_always {
                    assert_eq!(code(external), Some("outside_roots"), "{name}");
                    continue;
                }
                assert_eq!(code(session.still_allows(&external.unwrap())), None, "{name}");
                let other = code(roots.check(tree.path("home/other"), Intent::Existing));
                assert_eq!(other, Some("outside_roots"), "{name}");
            }
            let pages = if name == "repeated" { 2 } else { 1 };
            let expected = if declared == undeclared { 0 } else { pages };
            assert_eq!(asked, expected, "{name}: the back-off and the cache are unchanged");
        }
    }
}

#[tokio::test]
async fn a_proof_in_an_always_directory_stays_allowed_while_the_list_is_stale() {
    let tree = tree();
    let guard = Guard::builder(home_and_external(&tree).build().unwrap());
    let session = session(guard, ANNOUNCING);
    let answer = RootsResponse::List(list(&tree, &["home/work"]));
    let source = |_: Option<String>| std::future::ready(answer.clone());
    let roots = session.roots(source).await.unwrap();
    let [work, external] = [tree.path("home/work/f"), tree.path("external/f")]
        .map(|path| roots.check(path, Intent::Existing).unwrap());
    let still = || [&work, &external].map(|proof| code(session.still_allows(proof)));
    assert_eq!(still(), [None, None]);
    session.list_changed();
    assert_eq!(still(), [Some("roots_stale"), None]);
    let fail = |_: Option<String>| std::future::ready(RootsResponse::Failed(String::new()));
    let failed = session.roots(fail).await.unwrap();
    assert_eq!(names(&tree, &failed), ["external!"]);
    assert_eq!(still(), [Some("roots_stale"), None]);
    // The failure was not cached, so the client is asked again after a change.
    session.list_changed();
    let roots = session.roots(source).await.unwrap();
    assert_eq!(names(&tree, &roots), ["home/work", "external!"]);
    session.close();
    assert_eq!(still(), [Some("session_closed"); 2]);
    assert_eq!(code(session.roots(source).await), Some("session_closed"));
}

#[tokio::test]
async fn always_directories_are_added_to_a_list_that_comes_with_a_request() {
    let tree = tree();
    let guard = Guard::builder(home_and_external(&tree).empty_list(ALLOWED).build().unwrap());
    let session = session(guard, ANNOUNCING);
    let rows: [(&[&str], &[&str]); 3] = [
        (&["home/work"], &["home/work", "external!"]),
        (&["outside"], &["external!"]),
        (&[], &["external!", "home"]),
    ];
    for (listed, expected) in rows {
        let roots = session.roots_from_list(list(&tree, listed)).await.unwrap();
        assert_eq!(names(&tree, &roots), expected);
    }
    let many = ListRootsResult::from_uris(vec!["file:///"; ROOT_LIST_ENTRIES + 1]);
    let roots = session.roots_from_list(many).await.unwrap();
    assert_eq!(names(&tree, &roots), ["external!"]);
    assert_eq!(resolved(&tree, &roots, "."), Err("too_many_roots"));
}

/// The allowed directories are in configuration order.
#[tokio::test]
async fn all_allowed_directories_are_in_force_if_the_client_does_not_narrow_them() {
    let tree = tree();
    let guard = || Guard::builder(home_and_external(&tree).build().unwrap());
    let undeclared = ClientCapabilities::without_roots();
    let rows = [
        (guard(), undeclared),
        (guard().client_roots(ClientRoots::Ignore), ANNOUNCING),
        (Guard::builder(home_and_external(&tree).empty_list(ALLOWED).build().unwrap()), ANNOUNCING),
    ];
    for (builder, declared) in rows {
        let session = session(builder, declared);
        let empty = RootsResponse::List(ListRootsResult::default());
        let source = |_: Option<String>| std::future::ready(empty.clone());
        for _ in 0..2 {
            let roots = session.roots(source).await.unwrap();
            assert_eq!(names(&tree, &roots), ["external!", "home"]);
            assert_eq!(resolved(&tree, &roots, "."), Ok("external".into()));
        }
        assert_ne!(session.state(), RootsState::Empty);
    }
}

/// A deployment creates a missing directory, and replaces it.
#[cfg(unix)]
#[tokio::test]
async fn an_always_directory_that_is_created_or_replaced_is_resolved_again() {
    let tree = tree();
    let boundary = Boundary::builder()
        .directory(tree.path("home"), Access::ReadWrite)
        .directory_with(tree.path("later"), always(Access::ReadOnly).optional(true))
        .build()
        .unwrap();
    let session = session(Guard::builder(boundary), ANNOUNCING);
    let answer = RootsResponse::List(list(&tree, &["home/work"]));
    let source = |_: Option<String>| std::future::ready(answer.clone());
    assert_eq!(names(&tree, &session.roots(source).await.unwrap()), ["home/work"]);
    for content in ["one", "two"] {
        let _ = std::fs::rename(tree.path("later"), tree.path("was"));
        tree.add(&format!("file later/f = {content}"));
        let start = std::time::Instant::now();
        let read = async || {
            let roots = session.roots(|_: Option<String>| async { unreachable!() }).await.unwrap();
            roots.read_to_string(tree.path("later/f"), 9).ok()
        };
        while read().await.as_deref() != Some(content) {
            assert!(start.elapsed() < Duration::from_secs(60), "{content}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// `workspace` has two aliases, `C:\Proj` and `/host/proj`, which does not exist here. `plain` has
/// none.
#[cfg(unix)]
fn workspace(tree: &Tree) -> BoundaryBuilder {
    tree.add("file workspace/sub/f; file workspace/other/f; file plain/f");
    let options = DirectoryOptions::new(Access::ReadWrite).alias("/host/proj").alias(r"C:\Proj");
    Boundary::builder()
        .directory_with(tree.path("workspace"), options)
        .directory(tree.path("plain"), Access::ReadWrite)
}

#[cfg(unix)]
#[test]
fn an_alias_names_its_directory_in_root_lists_and_requests() {
    let tree = tree();
    let boundary = workspace(&tree).build().unwrap();
    let sub = Ok("workspace/sub/f".to_owned());
    let outside = || Err("outside_roots");
    // Each list names `workspace/sub`.
    let lists = [
        tree.uri("workspace/sub"),
        "file:///host/proj/sub".into(),
        "file:///host/proj/sub/".into(),
        "file:///c%3A/proj/sub".into(),
        "file:///C:/PROJ/sub".into(),
    ];
    let rows = [
        ("f", sub.clone()),
        ("/host/proj/sub/f", sub.clone()),
        ("//host/./proj//sub/f", sub.clone()),
        (r"C:\Proj\sub/f", sub.clone()),
        (r"c:\proj/sub/f", sub.clone()),
        ("C:/PROJ/sub/f", sub.clone()),
        ("/c:/proj/sub/f", sub.clone()),
        ("/host/proj/sub", Ok("workspace/sub".into())),
        ("/host/proj/other/../sub/f", outside()),
        ("/host/proj/sub/../sub/f", sub.clone()),
        ("/host/proj", outside()),
        ("/host/proj/other/f", outside()),
        ("/host/proj2/sub/f", outside()),
        ("/host/Proj/sub/f", outside()),
        ("/host", outside()),
        (r"C:\Proj", outside()),
        // A backslash also separates names after the alias, unless it was decoded from a URI.
        (r"C:\Proj\sub\f", sub.clone()),
        (r"C:\Proj\other\..\sub\f", outside()),
        (r"C:\Proj\sub\..\..\..\outside", outside()),
        (r"/c:/proj/sub\f", outside()),
        (r"C:\Proj\SUB/f", outside()),
        // These are ordinary names on this system.
        (r"C:\Projects\sub/f", Err("not_found")),
        ("C:Proj", Err("not_found")),
        (r"D:\Proj\sub", Err("not_found")),
    ];
    for uri in &lists {
        let list = ListRootsResult::from_uris([uri.clone()]);
        let roots = boundary.resolve(&list).unwrap();
        assert_eq!(names(&tree, &roots), ["workspace/sub"], "{uri}");
        for (request, expected) in &rows {
            assert_eq!(resolved(&tree, &roots, request), *expected, "{uri} {request}");
        }
        for uri in ["file:///c%3A/proj/sub/f", "file:///host/proj/sub/f"] {
            assert_eq!(roots.read_to_string(uri, 99).unwrap(), "workspace/sub/f");
        }
        // A path that begins with an alias can also name a new file.
        roots.write(r"C:\Proj\sub/new", "x").unwrap();
        assert_eq!(std::fs::read(tree.path("workspace/sub/new")).unwrap(), b"x");
    }
    let allowed = boundary.allowed_roots();
    assert_eq!(resolved(&tree, &allowed, r"C:\Proj\"), Ok("workspace".into()));
    assert_eq!(resolved(&tree, &allowed, r"C:\Proj\sub\f"), sub);
    assert_eq!(resolved(&tree, &allowed, r"/c:/proj/sub\f"), Err("not_found"));
    assert_eq!(
        resolved(&tree, &allowed.with_base(r"C:\Proj").unwrap(), "sub/f"),
        resolved(&tree, &allowed, r"C:\Proj\sub\f")
    );
    let based = allowed.with_base("/host/proj").unwrap();
    assert_eq!(resolved(&tree, &based, "sub/f"), sub);
}

#[cfg(unix)]
#[test]
fn an_alias_of_a_directory_that_is_not_in_force_is_refused_as_outside() {
    let tree = tree();
    let boundary = workspace(&tree).build().unwrap();
    let roots = boundary.resolve(&list(&tree, &["plain"])).unwrap();
    for request in [r"C:\Proj\new", "C:/Proj/new", "/c:/Proj/new", "/host/proj/new"] {
        let refused = roots.check(request, Intent::NewTree).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutsideRoots, "{request}");
        let elsewhere = roots.check("/etc/new", Intent::NewTree).unwrap_err();
        let text = |error: &mcp_roots_guard::Error, request: &str| {
            error.to_string().replace(&format!("{request:?}"), "REQUEST")
        };
        assert_eq!(text(&refused, request), text(&elsewhere, "/etc/new"));
    }
}

/// Otherwise, a tool could create a symlink that only the guard follows.
#[cfg(unix)]
#[test]
fn a_symlink_through_an_alias_is_followed_only_if_the_alias_resolves_here() {
    let tree = tree();
    tree.add("file var/home/me/work/f; file var/home/me/other/f; link home2 -> $T/var/home");
    let alias = tree.path("home2/me");
    let boundary = Boundary::builder()
        .directory_with(
            tree.path("var/home/me"),
            DirectoryOptions::new(Access::ReadWrite).alias(&alias).alias("/host/me").alias("C:/me"),
        )
        .build()
        .unwrap();
    tree.add("link var/home/me/work/here -> $T/home2/me/work/f");
    tree.add("link var/home/me/work/other -> $T/home2/me/other/f");
    tree.add("link var/home/me/work/host -> /host/me/work/f");
    tree.add("link var/home/me/work/drive -> /c:/me/work/f");
    tree.add(r"link var/home/me/work/windows -> C:\me\work/f");
    let target = Ok("var/home/me/work/f".to_owned());
    let lists = [
        tree.uri("home2/me/work"),
        tree.uri("var/home/me/work"),
        "file:///host/me/work".into(),
        "file:///c%3A/me/work".into(),
    ];
    for listed in lists {
        let list = ListRootsResult::from_uris([listed.clone()]);
        let roots = boundary.resolve(&list).unwrap();
        assert_eq!(names(&tree, &roots), ["var/home/me/work"]);
        let rows = [
            ("here", target.clone()),
            ("other", Err("outside_roots")),
            ("host", Err("outside_roots")),
            ("drive", Err("outside_roots")),
            ("windows", Err("not_found")),
        ];
        for (request, expected) in rows {
            assert_eq!(resolved(&tree, &roots, request), expected, "{listed} {request}");
            let read = roots.read(request, 99).map(drop);
            assert_eq!(read.is_ok(), expected.is_ok(), "{listed} {request}");
        }
        assert_eq!(resolved(&tree, &roots, alias.join("work/f")), target);
        assert_eq!(resolved(&tree, &roots, "/host/me/work/f"), target);
    }
    // An entry of a list may begin with any alias, but the target of a symlink in its path may not.
    for name in ["host", "drive"] {
        let listed = format!("var/home/me/work/{name}");
        let roots = boundary.resolve(&list(&tree, &[&listed])).unwrap();
        assert_eq!((names(&tree, &roots).len(), roots.rejected().len()), (0, 1), "{name}");
    }
}

/// The alias resolved to the directory when the server started.
#[cfg(unix)]
#[test]
fn a_directory_is_unavailable_while_its_alias_resolves_elsewhere() {
    let tree = tree();
    tree.add("file var/me/f; file evil/me/f; link home2 -> $T/var");
    let alias = tree.path("home2/me");
    let options = DirectoryOptions::new(Access::ReadOnly).alias(&alias);
    let boundary = Boundary::builder().directory_with(tree.path("var/me"), options);
    let boundary = boundary.build().unwrap();
    let roots = boundary.allowed_roots();
    assert_eq!(roots.read_to_string(alias.join("f"), 99).unwrap(), "var/me/f");
    std::fs::remove_file(tree.path("home2")).unwrap();
    tree.add("link home2 -> $T/evil");
    let start = std::time::Instant::now();
    while !boundary.allowed_roots().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
    }
    let rejected = boundary.allowed_roots();
    assert_eq!(rejected.rejected()[0].error().code(), "alias_conflict");
    std::fs::remove_file(tree.path("home2")).unwrap();
    let start = std::time::Instant::now();
    while boundary.allowed_roots().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
    }
    // Nothing exists at that path now, so the alias is valid only in requests.
    let roots = boundary.allowed_roots();
    assert_eq!(roots.read_to_string(alias.join("f"), 99).unwrap(), "var/me/f");
}

#[cfg(unix)]
#[test]
fn an_alias_that_could_hide_a_path_is_a_configuration_error() {
    let tree = tree();
    tree.add("file me/work/f; file second/f; link linked -> me; dir d; link loop -> loop");
    let alias = |alias: &str| tree.expand(alias);
    let build = |aliases: &[&str], others: &[&str]| {
        let options = DirectoryOptions::new(Access::ReadWrite);
        let options = aliases.iter().fold(options, |options, one| options.alias(alias(one)));
        let builder = Boundary::builder()
            .directory_with(tree.path("me"), options)
            .directory(tree.path("second"), Access::ReadWrite);
        let builder = others.iter().fold(builder, |builder, other| {
            let (path, other) = other.split_once('=').unwrap();
            let options = DirectoryOptions::new(Access::ReadWrite).optional(true);
            builder.directory_with(tree.path(path), options.alias(alias(other)))
        });
        code(builder.build()).unwrap_or("ok")
    };
    let rows: [(&[&str], &[&str], &str); 33] = [
        (&["/host/me"], &[], "ok"),
        (&["$T/me"], &[], "ok"),
        (&["$T/linked"], &[], "ok"),
        (&["$T/d/../linked"], &[], "invalid_alias"),
        (&["/host/me", "/host/me/"], &[], "ok"),
        (&["/host/me", "/host/you"], &["d=/host/d"], "ok"),
        (&["C:/me", "D:/me", r"c:\ME"], &[], "ok"),
        (&["C:/"], &[], "ok"),
        (&["host/me"], &[], "invalid_alias"),
        (&["C:me"], &[], "invalid_alias"),
        (&[""], &[], "invalid_alias"),
        (&["/"], &[], "invalid_alias"),
        (&["/host/../me"], &[], "invalid_alias"),
        (&["/host/./me"], &[], "invalid_alias"),
        (&[r"C:\..\me"], &[], "invalid_alias"),
        (&[r"C:\me\."], &[], "invalid_alias"),
        (&["/host/\0"], &[], "invalid_alias"),
        (&["/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8"], &[], "ok"),
        (&["/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9"], &[], "invalid_alias"),
        (&["$T/d"], &[], "alias_conflict"),
        (&["$T"], &[], "alias_conflict"),
        (&["$T/me/work"], &[], "alias_conflict"),
        (&["$T/me/none"], &[], "alias_conflict"),
        (&["$T/linked/none"], &[], "ok"),
        (&["$T/loop"], &[], "too_many_links"),
        (&["$T/second"], &[], "alias_conflict"),
        (&["$T/second/none"], &[], "alias_conflict"),
        (&["$T/none"], &["none/deep=/host/d"], "alias_conflict"),
        (&["/host/me"], &["d=/host/me"], "alias_conflict"),
        (&["/host/me"], &["d=/host/me/d"], "alias_conflict"),
        (&["/host/me/d"], &["d=/host/me"], "alias_conflict"),
        (&["/host/me", "/host/me/d"], &[], "alias_conflict"),
        (&["C:/me"], &[r"d=c:\ME\d"], "alias_conflict"),
    ];
    for (aliases, others, expected) in rows {
        assert_eq!(build(aliases, others), expected, "{aliases:?} {others:?}");
    }
    // A nested directory can be configured through an alias of the outer one.
    let nested = Boundary::builder()
        .directory_with(
            tree.path("me"),
            DirectoryOptions::new(Access::ReadWrite).alias(tree.path("linked")),
        )
        .directory(tree.path("linked/work"), Access::ReadWrite)
        .build()
        .unwrap()
        .allowed_roots();
    assert_eq!(resolved(&tree, &nested, tree.path("linked/work/f")), Ok("me/work/f".into()));
}

#[cfg(unix)]
#[test]
fn client_path_is_the_path_under_which_the_client_listed_the_root() {
    let tree = tree();
    tree.add("link to-plain -> plain");
    let boundary = workspace(&tree).bare_paths(mcp_roots_guard::Rule::Allow).build().unwrap();
    tree.add("link workspace/to-sub -> sub");
    let canonical = tree.path("workspace/sub").display().to_string();
    let rows = [
        (tree.uri("workspace/sub"), canonical.clone()),
        (tree.uri("workspace/./sub//"), canonical.clone()),
        (tree.uri("workspace/to-sub"), tree.path("workspace/to-sub").display().to_string()),
        ("file:///host/proj/s%75b/".into(), "/host/proj/sub".into()),
        ("/host/proj/sub".into(), "/host/proj/sub".into()),
        ("/host/proj/other/../sub".into(), canonical.clone()),
        ("file:///c%3A/proj/sub".into(), r"c:\proj\sub".into()),
        (r"C:\Proj\sub".into(), r"C:\Proj\sub".into()),
        (r"C:\Proj/sub".into(), r"C:\Proj\sub".into()),
    ];
    for (uri, expected) in rows {
        let roots = boundary.resolve(&ListRootsResult::from_uris([uri.clone()])).unwrap();
        let shown: Vec<_> = roots.roots().map(mcp_roots_guard::Root::client_path).collect();
        assert_eq!(shown, [expected], "{uri}");
        assert!(roots.roots().all(|root| root.display_path() == canonical));
        // The client can use the path that it is shown.
        for shown in &shown {
            assert_eq!(resolved(&tree, &roots, shown), Ok("workspace/sub".into()));
        }
    }
    // If the client lists an ancestor, it does not list the directories themselves.
    let roots = boundary.resolve(&list(&tree, &[""])).unwrap();
    assert!(roots.roots().all(|root| root.client_path() == root.display_path()));
    assert!(boundary.allowed_roots().roots().all(|r| r.client_path() == r.display_path()));
}

/// Roots for the same directory share its handle, but not the path under which it was listed.
#[cfg(unix)]
#[tokio::test]
async fn client_path_is_never_the_path_of_another_client() {
    let tree = tree();
    let guard = Guard::new(workspace(&tree).build().unwrap());
    let uris = [
        ("file:///host/proj/sub".into(), "/host/proj/sub".to_owned()),
        ("file:///c:/Proj/sub".into(), r"c:\Proj\sub".to_owned()),
        (tree.uri("workspace/sub"), tree.path("workspace/sub").display().to_string()),
    ];
    let sessions: Vec<_> = uris.iter().map(|_| guard.session(ANNOUNCING).unwrap()).collect();
    for _ in 0..2 {
        for (session, (uri, expected)) in sessions.iter().zip(&uris) {
            let answer = RootsResponse::List(ListRootsResult::from_uris([uri.clone()]));
            let source = |_: Option<String>| std::future::ready(answer.clone());
            let roots = session.roots(source).await.unwrap();
            assert_eq!(roots.roots().next().unwrap().client_path(), *expected);
        }
    }
}

#[test]
fn a_nested_allowed_directory_cannot_be_removed_through_an_always_directory() {
    let tree = tree();
    let boundary = Boundary::builder()
        .directory_with(tree.path("external"), always(Access::ReadWrite))
        .directory(tree.path("external/sub"), Access::ReadWrite)
        .directory(tree.path("home"), Access::ReadWrite)
        .build()
        .unwrap();
    let listed = boundary.resolve(&list(&tree, &["home/work"])).unwrap();
    let within = listed.within(tree.path("external")).unwrap();
    for roots in [listed, within] {
        assert!(!names(&tree, &roots).contains(&"external/sub".to_owned()));
        let sub = tree.path("external/sub");
        assert_eq!(code(roots.remove_dir_all(&*sub)), Some("root_itself"));
        assert_eq!(
            code(roots.rename(&*sub, &*tree.path("external/moved"), Replace::Never)),
            Some("root_itself")
        );
        assert!(sub.join("f").exists());
    }
}
