//! Narrowing roots with `Roots::within` and `Roots::read_only`.

#[cfg(unix)]
use std::fs;
use std::path::Path;

#[cfg(unix)]
use mcp_roots_guard::Protection;
use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, DirectoryOptions, Guard, Intent, ListRootsResult, Policy,
    Replace, Roots, RootsCapability, RootsResponse, Rule, Session,
};

use crate::support::tree::{Tree, uri};

fn code<T>(result: mcp_roots_guard::Result<T>) -> Result<T, &'static str> {
    result.map_err(|error| error.code())
}

fn read(roots: &Roots, request: &str) -> Result<String, &'static str> {
    code(roots.read_to_string(request, 100))
}

#[expect(clippy::unnecessary_wraps, reason = "the expected result of a call that can fail")]
fn inside(text: &str) -> Result<String, &'static str> {
    Ok(text.to_owned())
}

#[test]
fn narrowed_roots_serve_only_their_directory() {
    let tree = Tree::new(
        "file w/a/f = inside; file w/a/d/g = deep; file w/b/f = beside; file w/f = above
         file other/f = other; file f = outside",
    );
    let roots = tree.roots(["w", "other"]);
    for request in ["a", "./a/", "b/../a", "a/d/..", "$T/w/a", "file://$T/w/a"] {
        let narrowed = roots.within(tree.expand(request)).unwrap();
        let paths: Vec<_> = narrowed.roots().map(|root| root.path().to_owned()).collect();
        assert_eq!(paths, [dunce::canonicalize(tree.path("w/a")).unwrap()], "{request}");
        let rows = [
            ("f", inside("inside")),
            ("d/g", inside("deep")),
            ("d/../f", inside("inside")),
            ("../a/f", inside("inside")),
            ("$T/w/a/f", inside("inside")),
            ("file://$T/w/a/d/g", inside("deep")),
            ("none", Err("not_found")),
            ("..", Err("outside_roots")),
            ("../f", Err("outside_roots")),
            ("../none", Err("outside_roots")),
            ("../b/f", Err("outside_roots")),
            // Windows removes `..` from the text.
            ("../b/../a/f", if cfg!(windows) { inside("inside") } else { Err("outside_roots") }),
            ("../../other/f", Err("outside_roots")),
            ("$T/w/f", Err("outside_roots")),
            ("$T/w/none", Err("outside_roots")),
            ("$T/other/f", Err("outside_roots")),
            ("$T/f", Err("outside_roots")),
            ("file://$T/w/b/f", Err("outside_roots")),
        ];
        for (path, expected) in rows {
            assert_eq!(read(&narrowed, &tree.expand(path)), expected, "{request}: {path}");
        }
        assert_eq!(code(narrowed.write(tree.path("w/new"), "")), Err("outside_roots"));
        assert_eq!(code(narrowed.write("../new", "")), Err("outside_roots"));
        let escape = narrowed.rename("f", tree.path("w/moved"), Replace::Never);
        assert_eq!(code(escape), Err("outside_roots"));
    }
    // The original roots are unchanged.
    assert_eq!(read(&roots, "f"), inside("above"));
    assert_eq!(read(&roots, &tree.expand("$T/other/f")), inside("other"));
}

#[test]
fn roots_can_be_narrowed_only_to_an_existing_directory_or_file_inside() {
    let tree = Tree::new("file w/a/f = inside; dir w/b; dir outside");
    let roots = tree.roots(["w"]);
    let rows = [
        ("..", "outside_roots"),
        ("../outside", "outside_roots"),
        ("../none", "outside_roots"),
        // On Windows, `/` is a path on the current drive.
        ("/", if cfg!(windows) { "drive_relative" } else { "outside_roots" }),
        ("$T", "outside_roots"),
        ("$T/outside", "outside_roots"),
        ("$T/none", "outside_roots"),
        ("none", "not_found"),
        ("a/f/", "not_a_directory"),
        ("a/f/x", "not_a_directory"),
        ("a\0", "nul"),
        ("https://a/b", "foreign_scheme"),
    ];
    for (request, expected) in rows {
        let refused = roots.within(tree.expand(request)).map(drop);
        assert_eq!(code(refused), Err(expected), "{request:?}");
    }
    let [exists, missing] = ["../outside", "../none"].map(|path| roots.within(path).unwrap_err());
    assert_eq!(exists.to_string(), r#"narrow to "../outside": not inside the allowed directories"#);
    assert_eq!(missing.to_string(), exists.to_string().replace("outside\"", "none\""));
}

#[test]
fn roots_narrowed_to_a_file_serve_only_that_file() {
    let tree = Tree::new("file w/a/f = inside; file w/a/g = beside");
    let roots = tree.roots(["w"]);
    for roots in [roots.clone(), roots.within("a").unwrap()] {
        let file = roots.within(tree.path("w/a/f")).unwrap();
        assert!(file.roots().all(mcp_roots_guard::Root::is_file));
        assert_eq!(code(file.read_to_string(tree.path("w/a/f"), 100)), inside("inside"));
        assert_eq!(code(file.read_to_string(tree.path("w/a/g"), 100)), Err("outside_roots"));
        assert_eq!(code(file.write(tree.path("w/a/h"), "")), Err("outside_roots"));
        assert_eq!(code(file.within(tree.path("w/a")).map(drop)), Err("outside_roots"));
    }
}

#[test]
fn repeatedly_narrowed_roots_cannot_be_widened_again() {
    let tree = Tree::new("file w/a/b/c/f = deep; file w/a/b/f = middle; file w/a/f = top");
    let middle = tree.roots(["w"]).within("a").unwrap().within("b").unwrap();
    let deep = middle.within("c").unwrap();
    assert_eq!(read(&middle, "f"), inside("middle"));
    assert_eq!(read(&deep, "f"), inside("deep"));
    for wider in ["..", "../../b", "$T/w/a", "$T/w/a/b", "$T/w"] {
        let refused = deep.within(tree.expand(wider)).map(drop);
        assert_eq!(code(refused), Err("outside_roots"), "{wider}");
    }
    // The directory itself can be named again.
    assert_eq!(read(&deep.within(".").unwrap().within("../c").unwrap(), "f"), inside("deep"));
}

#[test]
fn narrowed_roots_keep_access_and_policy() {
    let tree = Tree::new("file r/a/f = inside; file w/a/f = inside; hard w/a/h = r/a/f");
    let boundary = Boundary::builder()
        .directory(tree.path("w"), Access::ReadWrite)
        .directory(tree.path("r"), Access::ReadOnly)
        .policy(Policy::default().hard_links(Rule::Refuse))
        .build()
        .unwrap();
    let roots = boundary.allowed_roots();
    let written =
        |roots: &Roots| code(roots.write("new", "").and_then(|()| roots.remove_file("new")));
    let [of_r, of_w] = ["r/a", "w/a"].map(|path| roots.within(tree.path(path)).unwrap());
    assert_eq!((written(&of_r), written(&of_w)), (Err("read_only"), Ok(())));
    assert_eq!(written(&of_r.within(".").unwrap()), Err("read_only"));
    assert_eq!(read(&of_w, "h"), Err("hard_linked"));
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
        assert_eq!(code(view.read_to_string(&f, 100)), inside("inside"), "{number}");
        assert_eq!(code(view.write(&f, "")), Err("read_only"), "{number}");
        assert_eq!(code(view.remove_file(&f)), Err("read_only"), "{number}");
        // A proof that allowed writing is not valid in the read-only view.
        let proof = roots.check(&f, Intent::Existing).unwrap();
        assert_eq!(code(view.still_allows(&proof)), Err("read_only"), "{number}");
    }
    assert_eq!(read(&views[0], &tree.expand("$T/v/f")), inside("other"));
    assert_eq!(code(narrowed.write("b/f", "new")), Ok(()));
}

/// A root can be named by its alias, and so can a directory inside it.
#[cfg(unix)]
#[test]
fn narrowed_roots_can_be_named_by_the_aliases_of_their_root() {
    let tree = Tree::new("file real/a/f = inside; link named -> real; link real/l -> a");
    let roots = tree.roots(["named"]);
    let rows = [
        ("a", &["named/a", "real/a"][..], &["named/l", "real/l"][..]),
        ("$T/named/a", &["named/a", "real/a"], &["named/l", "real/l"]),
        // A symlink in the root is an alias if it was named by an absolute path.
        ("$T/named/l", &["named/a", "real/a", "named/l"], &["real/l"]),
        ("$T/real/l", &["named/a", "real/a", "real/l"], &["named/l"]),
    ];
    for (request, names, others) in rows {
        let narrowed = roots.within(tree.expand(request)).unwrap();
        for narrowed in [narrowed.clone(), narrowed.within(".").unwrap()] {
            for name in names {
                let path = tree.path(name).join("f");
                assert_eq!(code(narrowed.read_to_string(path, 100)), inside("inside"), "{name}");
            }
            for name in others {
                let refused = narrowed.read_to_string(tree.path(name).join("f"), 100);
                assert_eq!(code(refused), Err("outside_roots"), "{request}: {name}");
            }
            assert!(narrowed.verify());
        }
    }
}

/// Neither a root, nor a directory that contains one, can be removed or renamed through narrowed
/// roots.
#[test]
fn narrowed_roots_cannot_remove_the_roots_that_they_came_from() {
    let tree = Tree::new("dir w/a/b/c; dir w/a/d");
    let allowed = [tree.path("w"), tree.path("w/a/b/c")];
    let boundary = allowed
        .iter()
        .fold(Boundary::builder(), |boundary, path| boundary.directory(path, Access::ReadWrite));
    let boundary = boundary.build().unwrap();
    let listed = ListRootsResult::from_uris([uri(&tree.path("w/a")), uri(&tree.path("w/a/d"))]);
    let roots = boundary.resolve(&listed).unwrap();
    for narrowed in
        [roots.clone(), roots.within(".").unwrap(), roots.within(".").unwrap().within(".").unwrap()]
    {
        for (kept, why) in [("b/c", "an allowed directory"), ("b", "its parent"), ("d", "a root")] {
            let removed = narrowed.remove_dir_all(kept);
            assert_eq!(code(removed), Err("root_itself"), "{why}");
            let moved = narrowed.rename(kept, "moved", Replace::Never);
            assert_eq!(code(moved), Err("root_itself"), "{why}");
        }
        assert_eq!(code(narrowed.remove_dir(tree.path("w/a"))), Err("root_itself"));
    }
}

/// Replaces the directory `w/a` with a symlink to `outside`.
#[cfg(unix)]
fn replace_with_symlink(tree: &Tree) {
    fs::rename(tree.path("w/a"), tree.path("w/was")).unwrap();
    tree.add("link w/a -> ../outside");
}

#[cfg(unix)]
#[tokio::test]
async fn narrowed_roots_do_not_follow_a_directory_that_is_replaced_with_a_symlink() {
    let tree = Tree::new("file w/a/f = inside; file w/a/b/f = deep; file outside/f = SECRET");
    tree.add("file outside/b/f = SECRET; file outside/g = SECRET");
    // Other tests cannot use up the handles of a session.
    let roots = listed(&session(&tree), &[tree.path("w")]).await;
    let narrowed = roots.within("a").unwrap();
    let deep = narrowed.within("b").unwrap();
    replace_with_symlink(&tree);
    // The open directory is still served.
    assert_eq!((read(&narrowed, "f"), read(&deep, "f")), (inside("inside"), inside("deep")));
    // After a failure, the names are verified, and the narrowed root becomes unavailable.
    for roots in [&narrowed, &deep] {
        assert_eq!(read(roots, "g"), Err("root_unavailable"));
        assert_eq!(read(roots, "f"), Err("root_unavailable"));
        assert_eq!(code(roots.within(".").map(drop)), Err("root_unavailable"));
    }
    assert_eq!(code(roots.within("a").map(drop)), Err("outside_roots"));
    assert!(roots.verify(), "the root itself was not replaced");
}

#[cfg(unix)]
#[test]
fn narrowed_roots_become_unavailable_when_the_root_that_contains_them_is_replaced() {
    let tree = Tree::new("file w/a/f = inside; file v/a/f = other");
    let roots = tree.roots(["w"]);
    let narrowed = roots.within("a").unwrap();
    fs::rename(tree.path("w"), tree.path("was")).unwrap();
    fs::rename(tree.path("v"), tree.path("w")).unwrap();
    fs::rename(tree.path("w/a"), tree.path("w/b")).unwrap();
    fs::rename(tree.path("was/a"), tree.path("w/a")).unwrap();
    // The path resolves to the same directory again, but through another root.
    assert_eq!(read(&narrowed, "none"), Err("root_unavailable"));
    assert_eq!(read(&narrowed, "f"), Err("root_unavailable"));
}

/// While roots are narrowed to it, the entry alternates between a directory and a symlink to the
/// outside. The control checks the path and then uses it, and must read the secret.
#[cfg(unix)]
#[test]
fn no_race_narrows_roots_to_a_directory_outside() {
    use std::sync::atomic::{AtomicBool, Ordering};

    const EXPECTED: [&str; 4] = ["outside_roots", "not_found", "changed", "root_unavailable"];
    let tree = Tree::in_memory("file w/a/f = inside; file outside/f = SECRET");
    let roots = tree.roots(["w"]);
    let done = AtomicBool::new(false);
    let [a, was, outside] = ["w/a", "w/was", "outside"].map(|path| tree.path(path));
    let (mut inside, mut refused, mut control) = (0, 0, 0);
    let mut unexpected = None;
    std::thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fs::rename(&a, &was).unwrap();
                std::os::unix::fs::symlink(&outside, &a).unwrap();
                fs::remove_file(&a).unwrap();
                fs::rename(&was, &a).unwrap();
            }
        });
        let start = std::time::Instant::now();
        // On a busy machine, a fixed number of attempts could all see the same state of the entry.
        while (inside < 1_000 || refused < 1_000 || control == 0) && start.elapsed().as_secs() < 600
        {
            if fs::canonicalize(&a).is_ok_and(|path| path == a) {
                let text = fs::read_to_string(a.join("f"));
                control += usize::from(text.is_ok_and(|text| text == "SECRET"));
            }
            match roots.within("a").and_then(|narrowed| narrowed.read_to_string("f", 100)) {
                Ok(text) if text == "inside" => inside += 1,
                Err(error) if EXPECTED.contains(&error.code()) => refused += 1,
                // A panic here would leave the other thread running.
                other => {
                    unexpected = Some(other);
                    break;
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        swaps.join().unwrap();
    });
    assert!(unexpected.is_none(), "{unexpected:?}");
    let counts = format!("{inside} reads, {refused} refusals, {control} secrets by the control");
    assert!(inside >= 1_000 && refused >= 1_000 && control > 0, "{counts}");
}

/// Directories beyond the limit on open handles are opened on each use.
#[cfg(unix)]
#[tokio::test]
async fn directories_without_a_handle_are_verified_on_each_use() {
    const DIRECTORIES: usize = mcp_roots_guard::limits::HANDLES + 20;
    let tree = Tree::in_memory("file outside/f = SECRET");
    for number in 0..DIRECTORIES {
        tree.add(&format!("file w/{number}/d/f = {number}"));
    }
    let roots = listed(&session(&tree), &[tree.path("w")]).await;
    let narrowed: Vec<_> = (0..DIRECTORIES)
        .map(|number| roots.within(format!("{number}")).unwrap().within("d").unwrap())
        .collect();
    for (number, narrowed) in narrowed.iter().enumerate() {
        assert_eq!(read(narrowed, "f"), Ok(number.to_string()));
    }
    for number in 0..DIRECTORIES {
        fs::remove_dir_all(tree.path(format!("w/{number}/d"))).unwrap();
        tree.add(&format!("link w/{number}/d -> ../../outside"));
    }
    for narrowed in &narrowed {
        assert_eq!(read(narrowed, "f"), Err("root_unavailable"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn roots_cannot_be_narrowed_to_a_special_file() {
    let tree = Tree::new("fifo w/fifo; socket w/socket");
    for name in ["fifo", "socket"] {
        assert_eq!(code(tree.roots(["w"]).within(name).map(drop)), Err("special_file"), "{name}");
    }
}

fn session(tree: &Tree) -> Session {
    let boundary = Boundary::builder().directory(tree.path(""), Access::ReadWrite);
    let declared = ClientCapabilities::with_roots(RootsCapability::announcing());
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
    let rows: [(&[&str], Result<(), &str>); 6] = [
        (&["a"], Ok(())),
        (&[""], Ok(())),
        (&["a/b"], Ok(())),
        (&["a/b/c/f", "d"], Ok(())),
        (&["d"], Err("outside_roots")),
        (&[], Err("outside_roots")),
    ];
    for (paths, expected) in rows {
        session.list_changed();
        for proof in &proofs {
            assert_eq!(code(session.still_allows(proof)), Err("roots_stale"), "{paths:?}");
        }
        listed(&session, &paths.iter().map(|path| tree.path(path)).collect::<Vec<_>>()).await;
        for proof in &proofs {
            assert_eq!(code(session.still_allows(proof)), expected, "{paths:?}");
        }
    }
    session.close();
    assert_eq!(code(session.still_allows(&proofs[0])), Err("session_closed"));
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
    assert_eq!(code(later.write("a/f", "new")), Ok(()));
    assert_eq!(read(&a, "../b/f"), Err("outside_roots"));
}

#[cfg(unix)]
#[test]
fn narrowed_roots_keep_the_protection_of_names() {
    let tree = Tree::new(
        "file w/a/.git/hooks/h = hook; file w/a/f = inside; file w/secret/f = SECRET
         file w/.github/workflows/y = job; link w/hooks -> a/.git/hooks",
    );
    let boundary = Boundary::builder()
        .directory(tree.path("w"), Access::ReadWrite)
        .protect(".git", Protection::ReadOnly)
        .protect("/secret", Protection::Hidden)
        .protect(".github/workflows", Protection::ReadOnly)
        .build()
        .unwrap();
    let roots = boundary.allowed_roots();
    // Each of these roots is at a protected name or below one.
    let within = |request: &str| roots.within(request).unwrap();
    let rows = [
        (within("a/.git"), "hooks/h"),
        (within("a/.git/hooks"), "h"),
        (within("hooks"), "h"),
        (within("a").within(".git/hooks").unwrap(), "h"),
        (within("a/.git").within("hooks").unwrap().within(".").unwrap(), "h"),
    ];
    for (number, (narrowed, name)) in rows.iter().enumerate() {
        assert_eq!(read(narrowed, name), inside("hook"), "{number}");
        assert_eq!(code(narrowed.write(*name, "")), Err("protected"), "{number}");
        assert_eq!(code(narrowed.write("new", "")), Err("protected"), "{number}");
        assert_eq!(code(narrowed.remove_file(*name)), Err("protected"), "{number}");
    }
    let file = within("a/.git/hooks/h");
    assert_eq!(code(file.write(tree.path("w/a/.git/hooks/h"), "")), Err("protected"));
    // Here, a pattern has matched partially.
    let github = roots.within(".github").unwrap();
    assert_eq!(code(github.write("workflows/y", "")), Err("protected"));
    assert_eq!(code(github.write("funding", "")), Ok(()));
    let in_a = roots.within("a").unwrap();
    assert_eq!(code(in_a.write(".git/hooks/h", "")), Err("protected"));
    assert_eq!(code(in_a.write("f", "new")), Ok(()));
    // An anchored pattern matches only below the allowed directory.
    assert_eq!(code(in_a.write("secret", "")), Ok(()));
    for hidden in ["secret", "secret/f", "secret/none", "a/../secret"] {
        assert_eq!(code(roots.within(hidden).map(drop)), Err("outside_roots"), "{hidden}");
    }
}

/// Roots can be narrowed to a directory that is always in force. If they are narrowed to a
/// different directory, it is no longer in force.
#[test]
fn a_directory_that_is_always_in_force_is_not_in_force_in_narrowed_roots() {
    let tree = Tree::new("file home/work/f = work; file external/d/f = external");
    let always = DirectoryOptions::new(Access::ReadOnly).always(true);
    let boundary = Boundary::builder()
        .directory(tree.path("home"), Access::ReadWrite)
        .directory_with(tree.path("external"), always)
        .build()
        .unwrap();
    let list = ListRootsResult::from_uris([uri(&tree.path("home/work"))]);
    let roots = boundary.resolve(&list).unwrap();
    let external = tree.expand("$T/external/d");
    assert_eq!(read(&roots, &format!("{external}/f")), inside("external"));
    let work = roots.within(".").unwrap();
    assert_eq!(read(&work, "f"), inside("work"));
    assert_eq!(read(&work, &format!("{external}/f")), Err("outside_roots"));
    let in_external = roots.within(&external).unwrap();
    assert_eq!(read(&in_external, "f"), inside("external"));
    assert_eq!(code(in_external.write("f", "")), Err("read_only"));
    assert_eq!(read(&in_external, &tree.expand("$T/home/work/f")), Err("outside_roots"));
}

/// Requests can name narrowed roots by declared aliases, and `client_path` is the path that the
/// client used.
#[cfg(unix)]
#[test]
fn narrowed_roots_keep_the_declared_aliases() {
    let tree = Tree::new("file w/a/d/f = inside; file w/b/f = beside; link w/l -> a");
    tree.add("link w/a/out -> /host/proj/a/d; link w/a/in -> $T/w/a/d");
    let options = DirectoryOptions::new(Access::ReadWrite).alias("/host/proj").alias(r"C:\proj");
    let boundary = Boundary::builder().directory_with(tree.path("w"), options).build().unwrap();
    let list = ListRootsResult::from_uris(["file:///host/proj"]);
    let roots = boundary.resolve(&list).unwrap();
    let rows = [
        ("a", "/host/proj/a"),
        ("/host/proj/a", "/host/proj/a"),
        ("file:///host/proj/a", "/host/proj/a"),
        ("/host/proj/l", "/host/proj/l"),
        ("file:///c%3A/proj/a", r"c:\proj\a"),
        ("$T/w/l", "$T/w/l"),
        ("$T/w/a", "/host/proj/a"),
    ];
    for (request, shown) in rows {
        let narrowed = roots.within(tree.expand(request)).unwrap();
        let again = narrowed.within(".").unwrap();
        for narrowed in [narrowed, again] {
            let root = narrowed.roots().next().unwrap();
            assert_eq!(root.client_path(), tree.expand(shown), "{request}");
            for name in ["d/f", "/host/proj/a/d/f", r"C:\proj\a/d/f", "in/f"] {
                assert_eq!(read(&narrowed, name), inside("inside"), "{request}: {name}");
            }
            // The alias does not exist on this system, so a symlink through it points outside.
            for name in ["/host/proj/b/f", r"C:\proj\b/f", "/host/proj", "out/f"] {
                assert_eq!(read(&narrowed, name), Err("outside_roots"), "{request}: {name}");
            }
        }
    }
    let deep = roots.within("a").unwrap().within("d").unwrap();
    assert_eq!(deep.roots().next().unwrap().client_path(), "/host/proj/a/d");
}
