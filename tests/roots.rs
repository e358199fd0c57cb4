//! Root lists, allowed directories, and what keeps a list from being widened by what a tool wrote.

use std::fs;
use std::path::{Component, PathBuf};
use std::thread::sleep;

use mcp_roots_guard::limits::{HANDLES, ROOT_LIST_ENTRIES, VERIFY_EVERY};
use mcp_roots_guard::{
    Access, Boundary, Intent, ListRootsResult, Policy, Result, Root, Roots, Rule,
};
#[cfg(unix)]
use mcp_roots_guard::{ClientCapabilities, Guard, RootsCapability, RootsResponse};

#[cfg(unix)]
use crate::support::is_second_run;
#[cfg(windows)]
use crate::support::tree::not_shown;
use crate::support::tree::{Tree, link, links_are_seen, uri};

fn list<const N: usize>(tree: &Tree, paths: [&str; N]) -> ListRootsResult {
    ListRootsResult::from_uris(paths.map(|path| tree.uri(path)))
}

/// The top of the file system that a tree is in: `/`, or its drive.
fn top(tree: &Tree) -> std::path::PathBuf {
    tree.path("").ancestors().last().unwrap().to_owned()
}

/// A link where one is seen as such, else what it leads to.
fn linked<'a>(link: &'a str, target: &'a str) -> &'a str {
    if links_are_seen() { link } else { target }
}

/// Lets a link lead elsewhere.
fn link_again(tree: &Tree, path: &str, target: &str) {
    if cfg!(windows) {
        // A link to a directory is one itself there, which no other replaces.
        fs::remove_dir(tree.path(path)).unwrap();
        tree.add(&format!("link {path} -> {target}"));
    } else {
        tree.add(&format!("link next -> {target}"));
        fs::rename(tree.path("next"), tree.path(path)).unwrap();
    }
}

/// The roots' paths from the tree's top, and the kinds of the rejected entries.
fn told(tree: &Tree, roots: &Roots) -> (Vec<String>, Vec<(usize, &'static str)>) {
    let short = |root: &Root| {
        let path =
            root.path().strip_prefix(tree.path("")).unwrap_or(root.path()).display().to_string();
        if cfg!(windows) { path.replace('\\', "/") } else { path }
    };
    let rejected = roots
        .rejected()
        .iter()
        .map(|rejected| (rejected.index(), rejected.error().code()))
        .collect();
    (roots.roots().map(short).collect(), rejected)
}

fn kind<T>(result: Result<T>) -> Option<&'static str> {
    result.err().map(|error| error.code())
}

/// Waits until `now` gives what is expected: what took long to verify is not verified again at once, and how long it took is the
/// machine's.
fn becomes<T: PartialEq + std::fmt::Debug>(mut now: impl FnMut() -> T, expected: &T) {
    let start = std::time::Instant::now();
    while now() != *expected && start.elapsed() < std::time::Duration::from_secs(60) {
        sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(now(), *expected);
}

fn operator(tree: &Tree, directories: &[(&str, Access)]) -> Boundary {
    let add = |builder: mcp_roots_guard::BoundaryBuilder, (path, access): &(&str, Access)| {
        builder.directory(tree.path(path), *access)
    };
    directories.iter().fold(Boundary::builder(), add).build().unwrap()
}

#[test]
fn a_list_as_clients_send_it_keeps_the_good_entries_and_reports_the_bad() {
    let tree = Tree::new("dir a b; file c/file; dir a; dir d; dir e");
    if links_are_seen() {
        tree.add("link l -> a; link loop -> loop");
    }
    #[cfg(unix)]
    tree.add("fifo p");
    let by_system = |unix, windows| if cfg!(windows) { windows } else { unix };
    let mut json = serde_json::json!({"roots": [
        {"uri": tree.uri("a b").replace(' ', "%20"), "name": "A"},
        {"uri": "vscode-remote://ssh-remote/x"},
        {"uri": tree.uri("missing"), "name": null},
        {"uri": tree.uri("c/file")},
        {"uri": tree.uri(linked("l", "a")) + "/"},
        {"uri": tree.uri("d/../d/./"), "extra": true},
        {"uri": tree.uri("p")},
        {"uri": tree.uri("d").replacen("file://", "file://localhost", 1)},
        {"uri": tree.path("d")},
        {"uri": "file://q:\\dev\\x"},
        {"uri": tree.uri("d?x")},
        {"uri": tree.uri("loop")},
        {"uri": tree.uri("x".repeat(300))},
        {"uri": tree.uri("x/".repeat(3000))},
        {"uri": "file://server/share"},
        {"uri": ""},
        {"name": "no uri"},
    ]});
    json["nextCursor"] = "ignored".into();
    let list: ListRootsResult = serde_json::from_value(json).unwrap();
    let roots = Roots::from_list(&list).unwrap();
    let expected = [
        (1, "foreign_scheme"),
        (2, "not_found"),
        (6, by_system("special_file", "not_found")),
        (7, "duplicate"),
        (8, "not_absolute"),
        (9, by_system("dropped_character", "outside_roots")),
        (10, "query"),
        (11, if links_are_seen() { "too_many_links" } else { "not_found" }),
        (12, "too_long"),
        (13, "too_long"),
        // To look for a share is to sign in at its server.
        (14, by_system("foreign_host", "outside_roots")),
        (15, "empty"),
        (16, "malformed"),
    ];
    assert_eq!(
        told(&tree, &roots),
        (vec!["a b".into(), "c/file".into(), "a".into(), "d".into()], expected.to_vec())
    );
    let names: Vec<_> = roots.roots().map(Root::name).collect();
    assert_eq!(names, [Some("A"), None, None, None]);
    let file = roots.roots().nth(1).unwrap();
    assert!(file.is_file() && file.is_available());
    let linked: Vec<_> = roots.roots().nth(2).unwrap().paths().collect();
    let names: &[_] = if links_are_seen() { &["a", "l"] } else { &["a"] };
    assert_eq!(linked, names.iter().map(|name| tree.path(name)).collect::<Vec<_>>());
    assert_eq!(roots.roots().next().unwrap().uri(), tree.uri("a%20b"));
    assert!(roots.rejected()[0].error().to_string().starts_with("open root \"vscode-remote:"));
    assert_eq!(roots.rejected().iter().map(|rejected| rejected.entry().len()).max(), Some(160));
}

#[test]
fn an_empty_list_allows_nothing_and_neither_does_one_with_no_good_entry() {
    let tree = Tree::new("file f");
    for list in
        [ListRootsResult::default(), ListRootsResult::from_uris([tree.uri("no/such/place")])]
    {
        let roots = Roots::from_list(&list).unwrap();
        assert!(roots.is_empty());
        for request in ["f", ".", top(&tree).to_str().unwrap(), tree.path("f").to_str().unwrap()] {
            assert_eq!(kind(roots.read(request, 9)), Some("outside_roots"), "{request}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_utf8_works_as_root_and_request() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;
    let tree = Tree::new("dir x");
    let odd = tree.path(OsStr::from_bytes(b"r\xff\xfe"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join(OsStr::from_bytes(b"f\x80")), "odd").unwrap();
    let roots = Roots::from_list(&ListRootsResult::from_uris([tree.uri("r%FF%fe")])).unwrap();
    assert_eq!(roots.roots().next().unwrap().path(), odd);
    assert_eq!(roots.read(Path::new(OsStr::from_bytes(b"f\x80")), 9).unwrap(), b"odd");
    assert_eq!(roots.read(tree.uri("r%FF%FE/f%80"), 9).unwrap(), b"odd");
    let checked = roots.check(tree.uri("r%FF%FE/f%80"), Intent::Existing).unwrap();
    assert_eq!(checked.uri(), tree.uri("r%FF%FE/f%80"));
}

/// The top of a drive.
#[cfg(windows)]
#[test]
fn the_file_systems_root_is_a_root() {
    let tree = Tree::new("file f");
    let roots = Roots::from_list(&ListRootsResult::from_uris([uri(&top(&tree))])).unwrap();
    assert_eq!(roots.roots().map(Root::path).collect::<Vec<_>>(), [top(&tree)]);
    assert_eq!(roots.read(tree.path("f"), 9).unwrap(), b"f");
    assert_eq!(roots.read(tree.path("f").strip_prefix(top(&tree)).unwrap(), 9).unwrap(), b"f");
    assert_eq!(kind(roots.read(r"Q:\f", 9)), Some("outside_roots"));
    assert_eq!(kind(roots.remove_dir_all(top(&tree))), Some("root_itself"));
}

#[cfg(target_os = "linux")]
#[test]
fn the_file_systems_root_is_a_root_and_its_magic_links_are_refused() {
    let tree = Tree::new("file f");
    let roots = Roots::from_list(&ListRootsResult::from_uris(["file:///"])).unwrap();
    assert_eq!(roots.read(tree.path("f"), 9).unwrap(), b"f");
    assert_eq!(
        roots
            .read(
                tree.path("../../../../../../../").join(tree.path("f").strip_prefix("/").unwrap()),
                9
            )
            .unwrap(),
        b"f"
    );
    // The plain links of a proc file system go with the others, whoever walks.
    let links =
        ["/proc/self/root/etc/passwd", "/proc/self/cwd", "/proc/thread-self/fd/0", "/dev/fd/0"];
    for request in links.into_iter().chain(["/proc/self/status", "/proc/mounts", "proc/self"]) {
        assert_eq!(kind(roots.read(request, 9)), Some("outside_roots"), "{request}");
        assert_eq!(
            kind(roots.check(request, Intent::Existing)),
            Some("outside_roots"),
            "{request}"
        );
    }
    assert_eq!(kind(roots.remove_dir_all("/")), Some("root_itself"));
}

#[test]
fn ten_thousand_entries_hold_few_descriptors_and_work() {
    let tree = Tree::in_memory("dir all");
    // On Windows no more than are surely not all held: it opens each name on the way, and a list has its time.
    let entries = if cfg!(windows) { 2 * HANDLES } else { ROOT_LIST_ENTRIES };
    // Not all in one directory: to look for a name in that takes long where case does not count.
    let place = |n: usize| format!("all/{}/{n}", n / 100);
    let uris: Vec<String> = (0..entries).map(|n| tree.uri(place(n))).collect();
    for n in 0..entries {
        fs::create_dir_all(tree.path(place(n))).unwrap();
    }
    let last = place(entries - 1);
    fs::write(tree.path(&last).join("f"), "last").unwrap();
    let roots = Roots::from_list(&ListRootsResult::from_uris(uris.clone())).unwrap();
    assert_eq!(roots.roots().len(), entries);
    #[cfg(target_os = "linux")]
    {
        // Other tests open and close others at the same time.
        let open = fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let held = open.filter(|path| path.starts_with(tree.path("all"))).count();
        println!("{} roots hold {held} descriptors", roots.roots().len());
        // Other tests may have all of them.
        assert!(held <= HANDLES, "{held} descriptors");
    }
    assert_eq!(roots.read(tree.path(&last).join("f"), 9).unwrap(), b"last");
    // Clients can not hold all that can be held: what the operator names is held beside them.
    tree.add("dir operators");
    let _operator = operator(&tree, &[("operators", Access::ReadOnly)]);
    #[cfg(target_os = "linux")]
    assert_eq!(held(&tree, ["operators"]), [1]);
    // A directory that is held is not renamed on Windows.
    #[cfg(windows)]
    assert!(fs::rename(tree.path("operators"), tree.path("other")).is_err());
    // One that is opened on use is verified then: replaced, it is gone. On Windows it is one that can be renamed: another test may have let
    // go of what it held while these were resolved, so that the last is held, too.
    let is_renamed = |path: &PathBuf| fs::rename(tree.path(path), tree.path("all/old")).is_ok();
    let last = (0..entries).rev().map(|n| PathBuf::from(place(n))).find(is_renamed).unwrap();
    fs::create_dir(tree.path(&last)).unwrap();
    fs::write(tree.path(&last).join("f"), "planted").unwrap();
    assert_eq!(kind(roots.read(tree.path(&last).join("f"), 9)), Some("root_unavailable"));
    let most = uris.into_iter().cycle().take(ROOT_LIST_ENTRIES);
    let one_more = ListRootsResult::from_uris(most.chain(["file:///x".into()]));
    assert_eq!(kind(Roots::from_list(&one_more)), Some("too_many_roots"));
}

/// How often this process holds each of these directories; other tests hold others at the same time.
#[cfg(target_os = "linux")]
fn held<const N: usize>(tree: &Tree, directories: [&str; N]) -> [usize; N] {
    let open = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let open: Vec<_> = open.collect();
    directories.map(|directory| open.iter().filter(|path| **path == tree.path(directory)).count())
}

/// Decision 10: each session resolves for itself, and what is the same directory then is held once.
#[cfg(target_os = "linux")]
#[test]
fn two_thousand_snapshots_of_the_same_directories_hold_each_of_them_once() {
    let tree = Tree::new("file ws/a/f = A; file ws/b/f = B; file ws/c/f = C; link ws/link -> b");
    let directories = ["ws/a", "ws/b", "ws/c"];
    let orders = [directories, ["ws/c", "ws/a", "ws/link"], ["ws/b", "ws/c", "ws/a/f"]];
    let snapshot = |boundary: &Boundary, n: usize| {
        let name = n.to_string();
        let roots =
            orders[n % 3].map(|path| serde_json::json!({"uri": tree.uri(path), "name": name}));
        let list = serde_json::from_value(serde_json::json!({ "roots": roots })).unwrap();
        let roots = boundary.resolve(&list).unwrap();
        assert!(
            roots.roots().len() == 3 && roots.roots().all(|root| root.name() == Some(&name)),
            "{roots:?}"
        );
        roots
    };
    // Other tests may hold all that clients can; what the operator names is held all the same.
    let clients = Boundary::builder().client_roots_only().build().unwrap();
    let first = snapshot(&clients, 0);
    assert!(held(&tree, directories).into_iter().all(|count| count <= 1));
    // Several sessions open them at once.
    drop(first);
    let start = std::sync::Barrier::new(8);
    let session = |thread: usize| {
        start.wait();
        let operators =
            operator(&tree, &["ws", "ws/a", "ws/b", "ws/c"].map(|path| (path, Access::ReadWrite)));
        let snapshots = (0..250).map(|n| snapshot([&clients, &operators][n % 2], 250 * thread + n));
        snapshots.collect::<Vec<_>>()
    };
    let snapshots: Vec<Roots> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || session(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!((snapshots.len(), held(&tree, directories)), (2000, [1, 1, 1]));
    for (path, content) in [("ws/a/f", b"A"), ("ws/b/f", b"B"), ("ws/c/f", b"C")] {
        assert!(
            snapshots.iter().all(|roots| roots.read(tree.path(path), 9).unwrap() == content),
            "{path}"
        );
    }
    drop(snapshots);
    assert_eq!(held(&tree, directories), [0, 0, 0]);
}

/// What has a held directory's path and is another object is held for itself, whatever inode number it got.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_is_replaced_is_not_shared() {
    let tree = Tree::new("file a/f = 0");
    let snapshots: Vec<_> = (0..20)
        .map(|n| {
            let roots = tree.roots(["a"]);
            assert_eq!(roots.read("f", 9).unwrap(), n.to_string().as_bytes());
            if n % 2 == 0 {
                fs::rename(tree.path("a"), tree.path(format!("old{n}"))).unwrap();
            } else {
                fs::remove_dir_all(tree.path("a")).unwrap();
            }
            tree.add(&format!("file a/f = {}", n + 1));
            roots
        })
        .collect();
    assert_eq!(held(&tree, ["a", "old0", "old2"]), [0, 1, 1]);
    // Each serves what it resolved.
    for (n, roots) in snapshots.iter().enumerate().step_by(2) {
        assert_eq!(roots.read("f", 9).unwrap(), n.to_string().as_bytes());
    }
}

#[test]
fn relative_requests_start_at_the_first_root_or_the_one_that_is_named() {
    let tree = Tree::new("file a/f = A; file b/f = B; link l -> b");
    let l = linked("l", "b");
    let roots = Roots::from_dirs([tree.path("a"), tree.path(l)]).unwrap();
    assert_eq!(roots.read("f", 9).unwrap(), b"A");
    assert_eq!(roots.with_base(tree.path("b")).unwrap().read("f", 9).unwrap(), b"B");
    assert_eq!(roots.with_base(tree.path(l)).unwrap().read("f", 9).unwrap(), b"B");
    assert_eq!(kind(roots.with_base(tree.path("c"))), Some("outside_roots"));
    // No root has a relative path, whatever its names.
    let relative: PathBuf =
        tree.path("b").components().filter(|name| matches!(name, Component::Normal(_))).collect();
    assert_eq!(kind(roots.with_base(relative)), Some("outside_roots"));
}

/// Entries of a client's list, from the tree's top; the roots they give; the entries that give none.
type Row = (&'static [&'static str], &'static [&'static str], &'static [(usize, &'static str)]);
const ROWS: [Row; 9] = [
    (&["op/a"], &["op/a"], &[]),
    (&["op"], &["op"], &[]),
    (&["", "/out/../"], &["op", "ro"], &[(1, "duplicate")]),
    (&["out", "op/b"], &["op/b"], &[(0, "outside_roots")]),
    (&["op/out", "out/none"], &[], &[(0, "outside_roots"), (1, "outside_roots")]),
    (&["op/link", "op/ab"], &["op/b", "op/a"], &[]),
    (&["op/a", "op/a/../b/f", "op/none"], &["op/a", "op/b/f"], &[(2, "not_found")]),
    (&["ro", "op/../ro/f"], &["ro", "ro/f"], &[]),
    (&[], &[], &[]),
];

#[test]
fn client_roots_narrow_the_operators_directories_and_never_widen_them() {
    let tree = Tree::new(
        "file op/a/f; file op/b/f; file ro/f; file out/f; link op/link -> b; link op/out -> ../out; link op/ab -> $T/op/a",
    );
    let boundary = operator(&tree, &[("op", Access::ReadWrite), ("ro", Access::ReadOnly)]);
    for (entries, granted, rejected) in ROWS {
        #[cfg(windows)]
        if !links_are_seen() && entries.contains(&"op/link") {
            let why = "a root through a link";
            not_shown(
                "roots::client_roots_narrow_the_operators_directories_and_never_widen_them",
                why,
            );
            continue;
        }
        let list = ListRootsResult::from_uris(
            entries.iter().map(|entry| format!("{}/{entry}", tree.uri("")).replace("//o", "/o")),
        );
        let boundary = operator(&tree, &[("op", Access::ReadWrite), ("ro", Access::ReadOnly)]);
        let roots = boundary.resolve(&list).unwrap();
        let granted: Vec<String> = granted.iter().map(ToString::to_string).collect();
        assert_eq!(told(&tree, &roots), (granted, rejected.to_vec()), "{entries:?}");
    }
    let everything = boundary.resolve(&ListRootsResult::from_uris([uri(&top(&tree))])).unwrap();
    assert_eq!(told(&tree, &everything).0, ["op", "ro"]);
    assert_eq!(kind(everything.write(tree.path("ro/f"), "x")), Some("read_only"));
    let read_only = boundary.resolve(&list(&tree, ["ro/f"])).unwrap();
    assert_eq!(read_only.read(tree.path("ro/f"), 9).unwrap(), b"ro/f");
    assert_eq!(kind(read_only.write(tree.path("ro/f"), "x")), Some("read_only"));
    let narrow = boundary.resolve(&list(&tree, ["op/a"])).unwrap();
    assert_eq!(kind(narrow.read(tree.path("op/b/f"), 9)), Some("outside_roots"));
    assert_eq!(kind(narrow.read("../b/f", 9)), Some("outside_roots"));
}

#[test]
fn a_configuration_that_can_not_hold_is_an_error() {
    let tree = Tree::new("dir a/in; dir b; link a/l -> ../b; link c -> a");
    let build = |directories: &[(&str, Access)]| {
        let add = |builder: mcp_roots_guard::BoundaryBuilder, (path, access): &(&str, Access)| {
            builder.directory(tree.path(path), *access)
        };
        kind(directories.iter().fold(Boundary::builder(), add).build())
    };
    let (rw, ro) = (Access::ReadWrite, Access::ReadOnly);
    assert_eq!(build(&[("a", rw), ("a/in", rw)]), None);
    assert_eq!(build(&[("a", rw), ("a", rw)]), None);
    assert_eq!(build(&[("a", rw), ("a/in", ro)]), Some("access_conflict"));
    assert_eq!(build(&[("a/in", rw), ("a", ro)]), Some("access_conflict"));
    if links_are_seen() {
        assert_eq!(build(&[("a", rw), ("c", ro)]), Some("access_conflict"));
        assert_eq!(build(&[("a", rw), ("a/l", rw)]), Some("through_link"));
        assert_eq!(build(&[("a/l", rw)]), None);
    }
    assert_eq!(build(&[]), Some("no_directories"));
    assert_eq!(kind(Roots::from_dirs::<&str>([])), Some("no_directories"));
    // What was said first would be ignored.
    let alone = Boundary::builder().client_roots_only();
    for both in [
        alone.clone().directory(tree.path("a"), rw),
        alone.clone().optional_directory(tree.path("none"), ro),
        Boundary::builder().directory(tree.path("a"), rw).client_roots_only(),
    ] {
        let refused = both.build().unwrap_err();
        assert_eq!(refused.code(), "invalid_options");
        assert!(
            refused
                .to_string()
                .starts_with("client_roots_only and directories are mutually exclusive"),
            "{refused}"
        );
    }
    assert_eq!(kind(alone.build()), None);
    assert_eq!(build(&[("none", rw)]), Some("not_found"));
    // One that is missing now would be a conflict when it is made, by a tool, say.
    let optional = |outer: Access, path: &str, inner: Access| {
        let builder = Boundary::builder().directory(tree.path("a/in"), outer);
        kind(builder.optional_directory(tree.path(path), inner).build())
    };
    assert_eq!(optional(rw, "a/in/new/ro", ro), Some("access_conflict"));
    if links_are_seen() {
        assert_eq!(optional(rw, "c/in/new", ro), Some("access_conflict"));
    }
    assert_eq!(optional(ro, "a/in/new/rw", rw), Some("access_conflict"));
    assert_eq!(optional(rw, "a/in/new/rw", rw), None);
    assert_eq!(optional(rw, "a/other", ro), None);
    // What it will name can not be told, but where `..` is removed as text.
    let later = if cfg!(windows) { "access_conflict" } else { "not_found" };
    assert_eq!(optional(rw, "miss/../a/in/new", ro), Some(later));
    #[cfg(unix)]
    {
        tree.add("fifo p");
        assert_eq!(build(&[("p", rw)]), Some("special_file"));
    }
    assert_eq!(kind(Roots::from_dirs([tree.path("none")])), Some("not_found"));
    #[cfg(windows)]
    if !links_are_seen() {
        not_shown(
            "roots::a_configuration_that_can_not_hold_is_an_error",
            "the directories through links",
        );
    }
}

#[test]
fn an_optional_directory_is_looked_for_again() {
    let tree = Tree::new("dir a");
    let boundary = Boundary::builder()
        .directory(tree.path("a"), Access::ReadWrite)
        .optional_directory(tree.path("b"), Access::ReadWrite)
        .build()
        .unwrap();
    assert_eq!(told(&tree, &boundary.allowed_roots()), (vec!["a".into()], vec![(1, "not_found")]));
    tree.add("file b/f");
    becomes(|| told(&tree, &boundary.allowed_roots()).0, &vec!["a".into(), "b".into()]);
}

/// Decision 8: a nested root that a tool re-points does not grant what the link points to.
#[test]
fn a_nested_root_that_is_re_pointed_grants_nothing_new() {
    let tree = Tree::new("dir ws/sub; file out/secret");
    let boundary = Boundary::builder().client_roots_only().build().unwrap();
    let both = list(&tree, ["ws", "ws/sub"]);
    let roots = boundary.resolve(&both).unwrap();
    assert_eq!(told(&tree, &roots).0, ["ws", "ws/sub"]);
    // A directory that is held is not removed on Windows.
    #[cfg(windows)]
    {
        assert!(fs::remove_dir(tree.path("ws/sub")).is_err());
        drop(roots);
    }
    fs::remove_dir(tree.path("ws/sub")).unwrap();
    link(&tree.path("out"), &tree.path("ws/sub")).unwrap();
    // What is not seen as a link is refused by the place where it leads.
    let expected = if links_are_seen() { "through_link" } else { "outside_roots" };
    for again in [&both, &list(&tree, ["ws/sub"]), &list(&tree, ["ws/sub", "ws"])] {
        let roots = boundary.resolve(again).unwrap();
        assert!(roots.rejected().iter().any(|rejected| rejected.error().code() == expected));
        assert_ne!(
            roots.read(tree.path("ws/sub/secret"), 99).ok().as_deref(),
            Some(&b"out/secret"[..])
        );
        assert_eq!(kind(roots.read(tree.path("out/secret"), 99)), Some("outside_roots"));
    }
    // The old snapshot notices, too.
    #[cfg(unix)]
    {
        assert!(roots.read(tree.path("ws/sub/secret"), 99).is_err());
        assert_eq!(kind(roots.read(tree.path("ws/sub/x"), 99)), Some("root_unavailable"));
    }
}

/// Decision 8: what is granted does not depend on the order of the list, or on which list came first.
#[test]
fn a_root_through_a_link_of_a_root_is_not_granted_whatever_the_order() {
    #[cfg(windows)]
    if !links_are_seen() {
        return not_shown(
            "roots::a_root_through_a_link_of_a_root_is_not_granted_whatever_the_order",
            "roots through links",
        );
    }
    let tree = Tree::new(
        "dir ws; file out/secret; link ws/planted -> ../out; link fair -> out; link ws/self -> .",
    );
    for entries in [["ws", "ws/planted"], ["ws/planted", "ws"]] {
        let roots = Roots::from_list(&list(&tree, entries)).unwrap();
        assert_eq!(told(&tree, &roots).0, ["ws"], "{entries:?}");
    }
    // Also when the root itself came through a link, which is fair.
    let linked = Tree::new(
        "dir ws; file out/secret; link ws/planted -> ../out; link fair -> ws; link ws/self -> .",
    );
    for entries in [["fair", "ws/planted"], ["ws/planted", "fair"]] {
        let roots = Roots::from_list(&list(&linked, entries)).unwrap();
        assert_eq!(told(&linked, &roots).0, ["ws"], "{entries:?}");
    }
    assert!(Roots::from_list(&list(&linked, ["ws/self"])).unwrap().is_empty());
    // Of an earlier list, that is not in force any more.
    let boundary = Boundary::builder().client_roots_only().build().unwrap();
    assert_eq!(told(&tree, &boundary.resolve(&list(&tree, ["ws"])).unwrap()).0, ["ws"]);
    assert_eq!(
        told(&tree, &boundary.resolve(&list(&tree, ["ws/planted"])).unwrap()),
        (vec![], vec![(0, "through_link")])
    );
    assert_eq!(told(&tree, &boundary.resolve(&list(&tree, ["fair"])).unwrap()).0, ["out"]);
    assert_eq!(
        told(&tree, &boundary.resolve(&list(&tree, ["ws/self"])).unwrap()).0,
        Vec::<String>::new()
    );
    // Known again by identity when an ancestor got another name.
    fs::rename(tree.path("ws"), tree.path("moved")).unwrap();
    assert_eq!(
        told(&tree, &boundary.resolve(&list(&tree, ["moved/planted"])).unwrap()).1,
        [(0, "through_link")]
    );
    // Beneath an allowed directory, too, where the link stays inside; unless the whole directory was granted.
    let tree = Tree::new(
        "dir op/ws; dir op/other; link op/ws/planted -> ../other; link op/plain -> other",
    );
    let boundary = operator(&tree, &[("op", Access::ReadWrite)]);
    assert_eq!(told(&tree, &boundary.resolve(&list(&tree, ["op"])).unwrap()).0, ["op"]);
    assert_eq!(told(&tree, &boundary.resolve(&list(&tree, ["op/plain"])).unwrap()).0, ["op/other"]);
    assert_eq!(
        told(&tree, &boundary.resolve(&list(&tree, ["op/ws", "op/ws/planted"])).unwrap()).0,
        ["op/ws"]
    );
    // A link that leads up, to the allowed directory or around it, widens no less than one that leads aside.
    tree.add("link op/ws/up -> ../..; link op/ws/op -> ..; link op/fair -> ../..");
    link(&top(&tree), &tree.path("op/ws/top")).unwrap();
    for entry in ["op/ws/up", "op/ws/op", "op/ws/top"] {
        let roots = boundary.resolve(&list(&tree, [entry])).unwrap();
        assert_eq!(told(&tree, &roots), (vec![], vec![(0, "through_link")]), "{entry}");
    }
    assert_eq!(told(&tree, &boundary.resolve(&list(&tree, ["op/fair"])).unwrap()).0, ["op"]);
}

/// Without allowed directories `/` is nobody's: who was granted it may have written any link.
/// By two links in places of the same name, each in an allowed directory: the second may be a tool's.
#[test]
fn each_link_on_the_way_is_judged_in_the_root_that_it_is_in() {
    #[cfg(windows)]
    if !links_are_seen() {
        return not_shown(
            "roots::each_link_on_the_way_is_judged_in_the_root_that_it_is_in",
            "roots through links",
        );
    }
    let tree = Tree::new(
        "dir one/x; dir two/x; dir two/secret; link one/x/l -> ../../two/x/l; link two/x/l -> ../secret; link one/x/m -> l;
        dir one/y; dir one/z; link one/x/k -> ../y/k; link one/y/k -> ../z",
    );
    let directories = [("one", Access::ReadWrite), ("two", Access::ReadWrite)];
    for (first, then, expected) in [
        ("two/x", "one/x/l", None),
        ("two/x", "one/x/m", None),
        ("one/x", "one/x/l", None),
        ("one/y", "one/x/k", None),
        ("one/x", "one/x/k", None),
        ("one/z", "one/x/k", Some("one/z")),
        ("two/secret", "one/x/m", Some("two/secret")),
    ] {
        let boundary = operator(&tree, &directories);
        assert_eq!(told(&tree, &boundary.resolve(&list(&tree, [first])).unwrap()).0, [first]);
        let roots = boundary.resolve(&list(&tree, [then])).unwrap();
        let refused = if expected.is_none() { vec![(0, "through_link")] } else { vec![] };
        assert_eq!(
            told(&tree, &roots),
            (expected.into_iter().map(str::to_owned).collect(), refused),
            "{first} {then}"
        );
    }
}

#[test]
fn a_client_that_was_granted_all_takes_the_roots_through_links_from_all() {
    #[cfg(windows)]
    if !links_are_seen() {
        return not_shown(
            "roots::a_client_that_was_granted_all_takes_the_roots_through_links_from_all",
            "roots through links",
        );
    }
    let tree = Tree::new("dir d; link l -> $T/d");
    let boundary = Boundary::builder().client_roots_only().build().unwrap();
    let granted = || told(&tree, &boundary.resolve(&list(&tree, ["l"])).unwrap()).0;
    assert_eq!(granted(), ["d"]);
    boundary.resolve(&ListRootsResult::from_uris([uri(&top(&tree))])).unwrap();
    assert_eq!(granted(), [""; 0]);
}

/// Allowed directories that lie in each other bound what they hold, and nothing granted between or below them does.
#[test]
fn nested_operator_directories_do_not_hide_a_planted_link() {
    #[cfg(windows)]
    if !links_are_seen() {
        return not_shown(
            "roots::nested_operator_directories_do_not_hide_a_planted_link",
            "roots through links",
        );
    }
    let plant = "dir A/p/n/sub; file A/secret/k; link A/p/n/l -> ../../secret; link A/x -> p/n; link A/p/n/ls -> sub";
    let tree = Tree::new(plant);
    let boundary = operator(&tree, &[("A", Access::ReadWrite), ("A/p/n", Access::ReadWrite)]);
    // Nothing granted holds these links but the operator's own directories, whichever of them the entry begins with.
    for (entry, granted) in [("A/p/n/ls", "A/p/n/sub"), ("A/x/ls", "A/p/n/sub")] {
        assert_eq!(
            told(&tree, &boundary.resolve(&list(&tree, [entry])).unwrap()).0,
            [granted],
            "{entry}"
        );
    }
    for entries in [&["A/p", "A/p/n/l"][..], &["A/p/n/l"], &["A/x/l"]] {
        let uris = entries.iter().map(|entry| tree.uri(entry));
        let roots = boundary.resolve(&ListRootsResult::from_uris(uris)).unwrap();
        assert_eq!(
            told(&tree, &roots).1.last().map(|(_, kind)| *kind),
            Some("through_link"),
            "{entries:?}"
        );
        assert_eq!(
            kind(roots.read(tree.path("A/secret/k"), 99)),
            Some("outside_roots"),
            "{entries:?}"
        );
    }
}

/// A directory that was granted below another one can be moved out of it, and the other can be replaced.
/// A symlink in it is still one that a tool could have made.
#[cfg(unix)]
#[test]
fn a_granted_directory_below_another_is_known_again_wherever_it_is() {
    type Step = fn(&Tree, &Boundary);
    let deploy: Step = |tree, boundary| {
        boundary.resolve(&list(tree, ["op/a"])).unwrap();
        fs::rename(tree.path("op/a"), tree.path("op/old")).unwrap();
        tree.add("dir op/a/sub");
        assert_eq!(boundary.resolve(&list(tree, ["op/a/sub"])).unwrap().roots().len(), 1);
        tree.add("link op/a/sub/l -> $T/op/secret");
        fs::rename(tree.path("op/a"), tree.path("op/b")).unwrap();
    };
    let moved: Step = |tree, boundary| {
        assert_eq!(boundary.resolve(&list(tree, ["op/a", "op/a/sub"])).unwrap().roots().len(), 2);
        tree.add("link op/a/sub/l -> $T/op/secret; dir op/b");
        fs::rename(tree.path("op/a/sub"), tree.path("op/b/sub")).unwrap();
    };
    for (what, steps) in [("replaced, then renamed", deploy), ("moved out", moved)] {
        let tree = Tree::new("dir op/a/sub; dir op/secret");
        let boundary = operator(&tree, &[("op", Access::ReadWrite)]);
        steps(&tree, &boundary);
        let roots = boundary.resolve(&list(&tree, ["op/b/sub/l"])).unwrap();
        assert_eq!(told(&tree, &roots), (vec![], vec![(0, "through_link")]), "{what}");
    }
}

/// A client that is granted more directories than are remembered for one client gets no more of them. That
/// costs nobody else anything: not another client's roots through symlinks, not the operator's.
#[cfg(unix)]
#[test]
fn a_client_that_fills_the_memory_of_grants_costs_nobody_else_a_root() {
    let tree = Tree::in_memory(
        "dir rel1; file rel2/f; link current -> rel1; dir data/fair; link data/l -> fair; dir data/mine; link data/m -> mine",
    );
    let boundary = operator(&tree, &[("current", Access::ReadOnly), ("data", Access::ReadWrite)]);
    let guard = Guard::new(boundary.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let [full, fair] = [(), ()].map(|()| {
        guard.session(ClientCapabilities::with_roots(RootsCapability::announcing())).unwrap()
    });
    let tells = |session: &mcp_roots_guard::Session, entries: Vec<String>| {
        session.list_changed();
        let list = ListRootsResult::from_uris(entries);
        runtime
            .block_on(session.roots(move |_: Option<String>| {
                std::future::ready(RootsResponse::List(list.clone()))
            }))
            .unwrap()
    };
    let batches = 3;
    for batch in 0..batches {
        for n in 0..ROOT_LIST_ENTRIES {
            fs::create_dir(tree.path(format!("data/{batch}-{n}"))).unwrap();
        }
        let roots = tells(
            &full,
            (0..ROOT_LIST_ENTRIES).map(|n| tree.uri(format!("data/{batch}-{n}"))).collect(),
        );
        let (granted, kinds) = (roots.roots().len(), told(&tree, &roots).1);
        if batch + 1 < batches {
            assert_eq!(granted, ROOT_LIST_ENTRIES);
        } else {
            assert!(
                granted == 0 && kinds.iter().all(|(_, kind)| *kind == "too_costly"),
                "{granted}"
            );
        }
    }
    // What it was granted before it is still granted.
    assert_eq!(tells(&full, vec![tree.uri("data/0-0"), tree.uri("data/1-9")]).roots().len(), 2);
    assert_eq!(tells(&full, vec![tree.uri("data/l")]).rejected()[0].error().code(), "too_costly");
    let roots = tells(&fair, vec![tree.uri("data/l"), tree.uri("data/2-0")]);
    assert_eq!(
        (told(&tree, &roots).0, roots.rejected().len()),
        (vec!["data/fair".into(), "data/2-0".into()], 0)
    );
    assert_eq!(told(&tree, &boundary.resolve(&list(&tree, ["data/m"])).unwrap()).0, ["data/mine"]);
    fs::remove_file(tree.path("current")).unwrap();
    tree.add("link current -> rel2");
    becomes(
        || boundary.allowed_roots().read(tree.path("current/f"), 9).ok(),
        &Some(b"rel2/f".to_vec()),
    );
}

/// The allowed directory can be a single file, and a client can name it.
#[test]
fn a_client_can_list_the_operators_file() {
    let tree = Tree::new("file d/only = old; file d/other");
    let boundary = operator(&tree, &[("d/only", Access::ReadWrite)]);
    let roots = boundary.resolve(&list(&tree, ["d/only", "d/other", "d"])).unwrap();
    let rejected = vec![(1, "outside_roots"), (2, "duplicate")];
    assert_eq!(told(&tree, &roots), (vec!["d/only".into()], rejected));
    assert_eq!(kind(roots.write(tree.path("d/only"), "new")), Some("root_itself"));
    assert_eq!(roots.read(tree.path("d/only"), 9).unwrap(), b"old");
    sleep(VERIFY_EVERY);
    assert!(roots.verify());
}

/// A request can start in one root and come to another: the names of both count.
#[cfg(unix)]
#[test]
fn the_root_that_a_request_comes_to_is_verified_when_it_fails() {
    let tree = Tree::new("dir a; dir b; link a/l -> ../b");
    let roots = tree.roots(["a", "b"]);
    let checked = roots.check("l/new", Intent::New).unwrap();
    fs::rename(tree.path("b"), tree.path("was")).unwrap();
    tree.add("dir b");
    assert_eq!(kind(checked.read(9)), Some("root_unavailable"));
    assert!(!roots.roots().nth(1).unwrap().is_available());
    // A proof depends on the root that it lies in, and on no other.
    let roots = tree.roots(["a", "b"]);
    tree.add("file b/f = 12345");
    let checked = roots.check("l/f", Intent::Existing).unwrap();
    fs::rename(tree.path("a"), tree.path("a2")).unwrap();
    assert_eq!(kind(checked.read(1)), Some("too_large"));
    fs::rename(tree.path("a2"), tree.path("a")).unwrap();
    let roots = tree.roots(["a", "b"]);
    fs::rename(tree.path("b"), tree.path("was2")).unwrap();
    tree.add("dir b");
    assert_eq!(kind(roots.read("l/none", 9)), Some("root_unavailable"));
    assert_eq!(
        kind(roots.rename("f", "l/f", mcp_roots_guard::Replace::Never)),
        Some("root_unavailable")
    );
    assert_eq!(kind(roots.read("none", 9)), Some("not_found"), "the other root stands");
}

/// A list of long paths, links and aliases takes no memory or time to speak of.
#[cfg(unix)]
#[test]
fn a_hostile_list_is_bounded_in_time() {
    let tree = Tree::in_memory("dir op/x; link op/l -> .; link op/m -> .");
    let deep = "d/".repeat((4000 - tree.path("op").as_os_str().len()) / 2);
    fs::create_dir_all(tree.path("op").join(&deep)).unwrap();
    let boundary = operator(&tree, &[("op", Access::ReadWrite)]);
    let alias = |n: usize| {
        (0..11).map(|bit| if n >> bit & 1 == 0 { "l/" } else { "m/" }).collect::<String>()
    };
    let lists: [(&str, Vec<String>); 3] = [
        (
            "deep",
            (0..if is_second_run() { 300 } else { 1000 })
                .map(|n| format!("op/{}", &deep[..deep.len() - 2 * n]))
                .collect(),
        ),
        ("aliases", (0..2000).map(|n| format!("op/{}x", alias(n))).collect()),
        ("links and deep", (0..250).map(|n| format!("op/{}{deep}", alias(n))).collect()),
    ];
    for (name, entries) in lists {
        let start = std::time::Instant::now();
        let list = ListRootsResult::from_uris(entries.iter().map(|entry| tree.uri(entry)));
        let roots = boundary.resolve(&list).unwrap();
        let resolved = start.elapsed();
        let kinds: std::collections::BTreeSet<_> =
            told(&tree, &roots).1.iter().map(|(_, kind)| *kind).collect();
        let aliases = roots.roots().map(|root| root.paths().count()).max();
        println!(
            "{name}: {} entries in {resolved:?}, then {aliases:?} aliases, {kinds:?}",
            entries.len()
        );
        // Half a minute for a list, and what its last entry takes.
        assert!(resolved.as_secs() < 40, "{name}: {resolved:?}");
        assert_eq!(kinds.contains(&"too_costly"), name == "links and deep", "{name}: {kinds:?}");
        assert!(aliases.is_none_or(|count| count <= 9), "{name}: {aliases:?}");
        let start = std::time::Instant::now();
        for _ in 0..10 {
            assert!(roots.read("none", 9).is_err());
        }
        assert!(start.elapsed().as_secs() < 10, "{name}: ten failures took {:?}", start.elapsed());
    }
}

#[test]
fn no_operator_directory_is_removed_by_a_client_that_lists_the_one_around_it() {
    let tree = Tree::new("file op/in/f; dir op/d");
    let boundary = operator(&tree, &[("op", Access::ReadWrite), ("op/in", Access::ReadWrite)]);
    let roots = boundary.resolve(&list(&tree, ["op"])).unwrap();
    assert_eq!(kind(roots.remove_dir_all("in")), Some("root_itself"));
    assert_eq!(
        kind(roots.rename("in", "out", mcp_roots_guard::Replace::Never)),
        Some("root_itself")
    );
    roots.remove_dir_all("d").unwrap();
}

/// Where it is held, and on Windows: there a root is not replaced at all.
#[cfg(windows)]
#[test]
fn a_root_that_is_held_is_neither_renamed_nor_removed() {
    let tree = Tree::new("file up/root/f = mine; dir up/empty; file up/only");
    let boundary =
        operator(&tree, &[("up/root", Access::ReadWrite), ("up/empty", Access::ReadWrite)]);
    let roots = boundary.allowed_roots();
    for root in ["up/root", "up/empty"] {
        assert!(fs::rename(tree.path(root), tree.path("up/old")).is_err(), "{root}");
    }
    assert!(fs::remove_dir(tree.path("up/empty")).is_err());
    if links_are_seen() {
        assert!(fs::rename(tree.path("up"), tree.path("was")).is_err());
    } else {
        not_shown(
            "roots::a_root_that_is_held_is_neither_renamed_nor_removed",
            "nor what is around it",
        );
    }
    assert_eq!(roots.read("f", 9).unwrap(), b"mine");
    drop((boundary, roots));
    fs::rename(tree.path("up/root"), tree.path("up/old")).unwrap();
    fs::remove_dir(tree.path("up/empty")).unwrap();
}

/// Decision 8: a root that is replaced, removed, or whose ancestor is renamed is unavailable, and never another directory.
#[cfg(unix)]
#[test]
fn a_root_that_is_not_what_its_name_says_is_unavailable_until_resolved_again() {
    type Change = fn(&Tree);
    let changes: [(&str, Change); 5] = [
        ("replaced", |tree| {
            fs::rename(tree.path("up/root"), tree.path("up/old")).unwrap();
            tree.add("file up/root/f = planted");
        }),
        ("replaced by a link", |tree| {
            fs::rename(tree.path("up/root"), tree.path("up/old")).unwrap();
            tree.add("file out/f = planted; link up/root -> ../out");
        }),
        ("removed", |tree| fs::remove_dir_all(tree.path("up/root")).unwrap()),
        ("removed and made again", |tree| {
            fs::remove_dir_all(tree.path("up/root")).unwrap();
            tree.add("file up/root/f = planted");
        }),
        ("ancestor renamed", |tree| {
            fs::rename(tree.path("up"), tree.path("was")).unwrap();
            tree.add("file up/root/f = planted");
        }),
    ];
    for (what, change) in changes {
        let tree = Tree::new("file up/root/f = mine");
        let boundary = operator(&tree, &[("up/root", Access::ReadWrite)]);
        let roots = boundary.allowed_roots();
        change(&tree);
        // Until it is noticed, the object that was resolved is served, and nothing else.
        assert_ne!(roots.read("f", 9).ok().as_deref(), Some(&b"planted"[..]), "{what}");
        // A failing operation notices, and a refusal by names alone does not need to.
        assert_eq!(kind(roots.read("nope", 9)), Some("root_unavailable"), "{what}");
        assert_eq!(kind(roots.read("f", 9)), Some("root_unavailable"), "{what}");
        assert_eq!(kind(roots.write("new", "x")), Some("root_unavailable"), "{what}");
        assert_eq!(kind(roots.read("/etc/passwd", 9)), Some("outside_roots"), "{what}");
        assert!(!roots.roots().next().unwrap().is_available(), "{what}");
        // Another snapshot notices when it is taken: then the name is resolved again, through no link of a former root.
        let fresh = || boundary.allowed_roots();
        match what {
            "removed" => becomes(|| told(&tree, &fresh()), &(vec![], vec![(0, "not_found")])),
            // A link outside every root is the operator's.
            "replaced by a link" => becomes(|| told(&tree, &fresh()).0, &vec!["out".into()]),
            _ => becomes(|| fresh().read("f", 9).ok(), &Some(b"planted".to_vec())),
        }
        // The old snapshot stays as it was.
        assert_eq!(kind(roots.read("f", 9)), Some("root_unavailable"), "{what}");
    }
}

#[test]
fn a_proof_stands_until_its_roots_name_leads_elsewhere_and_no_longer_than_is_said() {
    #[cfg(windows)]
    if !links_are_seen() {
        return not_shown(
            "roots::a_proof_stands_until_its_roots_name_leads_elsewhere_and_no_longer_than_is_said",
            "roots through links",
        );
    }
    let tree = Tree::new("file v1/f; dir v2; link current -> v1");
    let roots = Roots::from_dirs([tree.path("current")]).unwrap();
    let checked = roots.check("f", Intent::Existing).unwrap();
    link_again(&tree, "current", "v2");
    // The link is asked for at most every `VERIFY_EVERY`, and then in the first call.
    roots.still_allows(&checked).unwrap();
    assert!(roots.verify());
    becomes(|| kind(roots.still_allows(&checked)), &Some("root_unavailable"));
    assert!(!roots.verify());
}

#[test]
fn a_root_that_is_gone_and_back_is_served_again_in_the_next_snapshot() {
    #[cfg(windows)]
    if !links_are_seen() {
        return not_shown(
            "roots::a_root_that_is_gone_and_back_is_served_again_in_the_next_snapshot",
            "roots through links",
        );
    }
    let tree = Tree::new("file v1/f = one; file v2/f = two; link current -> v1");
    let boundary = operator(&tree, &[("current", Access::ReadOnly)]);
    let roots = boundary.allowed_roots();
    assert_eq!(roots.read(tree.path("current/f"), 9).unwrap(), b"one");
    let remove = if cfg!(windows) { fs::remove_dir } else { fs::remove_file };
    remove(tree.path("current")).unwrap();
    becomes(|| boundary.allowed_roots().is_empty(), &true);
    tree.add("link current -> v2");
    becomes(
        || boundary.allowed_roots().read(tree.path("current/f"), 9).ok(),
        &Some(b"two".to_vec()),
    );
    let fresh = boundary.allowed_roots();
    assert_eq!(kind(fresh.read(tree.path("v1/f"), 9)), Some("outside_roots"));
    // The snapshot of before is verified by identity: its link leads elsewhere.
    assert_eq!(kind(roots.read("nope", 9)), Some("root_unavailable"));
    // Also where it was never gone, and what it led to still stands.
    link_again(&tree, "current", "v1");
    becomes(|| kind(fresh.read("nope", 9)), &Some("root_unavailable"));
    becomes(
        || boundary.allowed_roots().read(tree.path("current/f"), 9).ok(),
        &Some(b"one".to_vec()),
    );
}

#[test]
fn a_file_root_serves_one_name_and_is_written_in_place() {
    use mcp_roots_guard::OpenOptions;
    use std::io::Write as _;
    let tree = Tree::new("file d/only = old; file d/other");
    let roots = tree.roots(["d/only"]);
    assert_eq!(roots.read(tree.path("d/only"), 9).unwrap(), b"old");
    assert_eq!(kind(roots.write(tree.path("d/only"), "new")), Some("root_itself"));
    assert_eq!(kind(roots.remove_file(tree.path("d/only"))), Some("root_itself"));
    let mut file = roots
        .open_with(tree.path("d/only"), OpenOptions::new().write(true).truncate(true))
        .unwrap();
    file.write_all(b"new").unwrap();
    drop(file);
    assert_eq!(fs::read(tree.path("d/only")).unwrap(), b"new");
    // An editor replaces it by another file: that has the name now. A link has not.
    fs::write(tree.path("d/tmp"), "edited").unwrap();
    fs::rename(tree.path("d/tmp"), tree.path("d/only")).unwrap();
    assert_eq!(roots.read(tree.path("d/only"), 9).unwrap(), b"edited");
    fs::remove_file(tree.path("d/only")).unwrap();
    assert_eq!(kind(roots.read(tree.path("d/only"), 9)), Some("not_found"));
    assert_eq!(kind(roots.create_dir(tree.path("d/only"))), Some("root_itself"));
    assert_eq!(kind(roots.create_dir_all(tree.path("d/only"))), Some("already_exists"));
    // Neither has a directory: what is in that was never granted.
    let checked = roots.check(tree.path("d/only"), Intent::New).unwrap();
    tree.add("file d/only/x");
    assert_eq!(kind(checked.read_dir()), Some("not_a_directory"));
    assert_eq!(kind(checked.read(9)), Some("is_a_directory"));
    for request in ["d/only", "d/only/x", "d/only/none", "d/only/.."] {
        // By its text alone that is another place.
        if cfg!(windows) && request.ends_with("..") {
            assert_eq!(kind(roots.read(tree.path(request), 9)), Some("outside_roots"));
            continue;
        }
        assert_eq!(kind(roots.read(tree.path(request), 9)), Some("root_unavailable"), "{request}");
    }
    fs::remove_dir_all(tree.path("d/only")).unwrap();
    #[cfg(windows)]
    if !links_are_seen() {
        return not_shown(
            "roots::a_file_root_serves_one_name_and_is_written_in_place",
            "a link by its name",
        );
    }
    link("other".as_ref(), &tree.path("d/only")).unwrap();
    for intent in [Intent::Existing, Intent::New, Intent::NewTree, Intent::NoFollow] {
        assert_eq!(
            kind(roots.check(tree.path("d/only"), intent)),
            Some("root_unavailable"),
            "{intent:?}"
        );
    }
}

#[test]
fn the_policy_of_the_boundary_is_the_policy_of_its_roots() {
    let tree = Tree::new("file op/a/f; hard op/a/g = op/a/f");
    let boundary = Boundary::builder()
        .directory(tree.path("op"), Access::ReadWrite)
        .policy(Policy::default().hard_links(Rule::Refuse))
        .build()
        .unwrap();
    let roots = boundary.resolve(&list(&tree, ["op/a"])).unwrap();
    assert_eq!(kind(roots.read("f", 9)), Some("hard_linked"));
    assert_eq!(kind(boundary.allowed_roots().read("a/f", 9)), Some("hard_linked"));
}

/// Decision 8, through a client's root beneath an allowed directory: the name of the directory around it counts, too.
#[cfg(unix)]
#[test]
fn a_client_root_is_unavailable_when_the_operators_directory_is_not_what_its_name_says() {
    let tree = Tree::new("file up/op/a/f = mine; link up/op/l -> a");
    let boundary = operator(&tree, &[("up/op", Access::ReadWrite)]);
    for entry in ["up/op/a", "up/op/l", "up/op", "up"] {
        let roots = boundary.resolve(&list(&tree, [entry])).unwrap();
        fs::rename(tree.path("up"), tree.path("was")).unwrap();
        tree.add("file up/op/a/f = planted");
        assert_eq!(kind(roots.read("nope", 9)), Some("root_unavailable"), "{entry}");
        // Back again it is only what is resolved anew: what is in force is never patched.
        fs::remove_dir_all(tree.path("up")).unwrap();
        fs::rename(tree.path("was"), tree.path("up")).unwrap();
        assert_eq!(kind(roots.read("nope", 9)), Some("root_unavailable"), "{entry}");
        sleep(VERIFY_EVERY);
    }
    assert_eq!(boundary.resolve(&list(&tree, ["up/op/a"])).unwrap().read("f", 9).unwrap(), b"mine");
}

/// What is before a `..` may be a link: as a text it would name another directory than it does.
#[test]
fn a_root_spelled_with_dots_has_no_such_name() {
    let tree =
        Tree::new("file far/in/f; file far/x/f = true; file x/f = as a text; link l -> far/in");
    // On Windows it is a text, to the system itself.
    let rows: [(_, &[u8], _); 2] = [("far/x", b"true", "x/f"), ("x", b"as a text", "far/x/f")];
    let (path, content, outside) = rows[usize::from(cfg!(windows))];
    for root in [format!("{}/l/../x", tree.path("").display()), "x/../l/../x".to_owned()] {
        let roots = Roots::from_dirs([tree.path(root)]).unwrap();
        let aliases: Vec<_> = roots.roots().flat_map(Root::paths).collect();
        assert_eq!(aliases, [tree.path(path)]);
        assert_eq!(roots.read("f", 9).unwrap(), content);
        assert_eq!(kind(roots.read(tree.path(outside), 9)), Some("outside_roots"));
    }
}

/// By names alone: nothing is asked of a root for what is outside it.
#[cfg(unix)]
#[test]
fn what_is_outside_is_outside_whatever_became_of_the_root() {
    let tree = Tree::new("file root/f");
    let roots = tree.roots(["root"]);
    fs::rename(tree.path("root"), tree.path("old")).unwrap();
    assert_eq!(kind(roots.read("../old/f", 9)), Some("outside_roots"));
    assert!(roots.roots().all(Root::is_available), "it was verified");
    assert_eq!(kind(roots.read("nope", 9)), Some("root_unavailable"));
}

/// What is shown to a developer names the place, and what is around it does not.
#[test]
fn what_is_shown_names_the_place() {
    let tree = Tree::new("file top/root/d/f");
    let boundary = operator(&tree, &[("top", Access::ReadOnly)]);
    let roots = boundary.resolve(&list(&tree, ["top/root"])).unwrap();
    let place = tree.path("top").join("root");
    let root = format!("Root {{ path: {place:?}, access: ReadOnly, .. }}");
    assert_eq!(format!("{roots:?}"), format!("[{root}]"));
    let checked = roots.check("d/../d/f", Intent::Existing).unwrap();
    let relative = std::path::Path::new("d").join("f");
    let shown =
        format!("CheckedPath {{ root: {place:?}, relative: {relative:?}, exists: true, .. }}");
    assert_eq!(format!("{checked:?}"), shown);
    assert_eq!(checked.display_path(), place.join(relative).display().to_string());
}

/// A program that verifies its snapshot itself, and takes another when a root is gone.
// What is held open is not moved away on Windows.
#[cfg(unix)]
#[test]
fn a_directory_that_the_caller_found_gone_is_in_the_next_snapshot() {
    let tree = Tree::new("file w/f = old");
    let boundary = operator(&tree, &[("w", Access::ReadOnly)]);
    let mut roots = boundary.allowed_roots();
    fs::rename(tree.path("w"), tree.path("was")).unwrap();
    tree.add("file w/f = new");
    let read = || {
        if !roots.verify() {
            roots = boundary.allowed_roots();
        }
        roots.read("f", 9).ok()
    };
    becomes(read, &Some(b"new".to_vec()));
}
