//! Root lists and allowed directories, and the rules that stop a tool from widening a client's
//! list.

use std::fs;
use std::path::{Component, PathBuf};
use std::thread::sleep;

use mcp_roots_guard::limits::{HANDLES, ROOT_LIST_ENTRIES, VERIFY_EVERY};
use mcp_roots_guard::{
    Access, Boundary, DirectoryOptions, Intent, ListRootsResult, Policy, Root, Roots, Rule,
};
#[cfg(unix)]
use mcp_roots_guard::{ClientCapabilities, Guard, RootsCapability, RootsResponse};

use crate::support::code;
#[cfg(unix)]
use crate::support::runs_without_openat2;
#[cfg(windows)]
use crate::support::tree::report_not_shown;
use crate::support::tree::{Tree, link, symlinks_are_visible, uri};

fn list<const N: usize>(tree: &Tree, paths: [&str; N]) -> ListRootsResult {
    ListRootsResult::from_uris(paths.map(|path| tree.uri(path)))
}

/// The root of the filesystem that contains the tree: `/`, or the tree's drive on Windows.
fn top(tree: &Tree) -> std::path::PathBuf {
    tree.path("").ancestors().last().unwrap().to_owned()
}

/// Returns the symlink if this system shows symlinks as symlinks, otherwise its target.
fn link_or_target<'a>(link: &'a str, target: &'a str) -> &'a str {
    if symlinks_are_visible() { link } else { target }
}

/// Points an existing symlink at another target.
fn repoint_symlink(tree: &Tree, path: &str, target: &str) {
    if cfg!(windows) {
        // On Windows a symlink to a directory is itself a directory, which a rename cannot replace.
        fs::remove_dir(tree.path(path)).unwrap();
        tree.add(&format!("link {path} -> {target}"));
    } else {
        tree.add(&format!("link next -> {target}"));
        fs::rename(tree.path("next"), tree.path(path)).unwrap();
    }
}

/// The paths of the roots relative to the tree, and the indices and codes of the rejected entries.
fn outcome(tree: &Tree, roots: &Roots) -> (Vec<String>, Vec<(usize, &'static str)>) {
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

/// Waits until `now` returns the expected value, and fails after a minute. A slow verification is
/// not repeated immediately, and its duration depends on the machine.
fn assert_becomes<T: PartialEq + std::fmt::Debug>(mut now: impl FnMut() -> T, expected: &T) {
    let start = std::time::Instant::now();
    while now() != *expected && start.elapsed() < std::time::Duration::from_secs(60) {
        sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(now(), *expected);
}

fn build_boundary(tree: &Tree, directories: &[(&str, Access)]) -> Boundary {
    let add = |builder: mcp_roots_guard::BoundaryBuilder, (path, access): &(&str, Access)| {
        builder.directory(tree.path(path), *access)
    };
    directories.iter().fold(Boundary::builder(), add).build().unwrap()
}

#[test]
fn a_list_grants_its_valid_entries_and_reports_the_others() {
    let tree = Tree::new("dir a b; file c/file; dir a; dir d; dir e");
    if symlinks_are_visible() {
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
        {"uri": tree.uri(link_or_target("l", "a")) + "/"},
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
        (11, if symlinks_are_visible() { "too_many_links" } else { "not_found" }),
        (12, "too_long"),
        (13, "too_long"),
        // Looking up a share would send credentials to its server.
        (14, by_system("foreign_host", "outside_roots")),
        (15, "empty"),
        (16, "malformed"),
    ];
    assert_eq!(
        outcome(&tree, &roots),
        (vec!["a b".into(), "c/file".into(), "a".into(), "d".into()], expected.to_vec())
    );
    let names: Vec<_> = roots.roots().map(Root::name).collect();
    assert_eq!(names, [Some("A"), None, None, None]);
    let file = roots.roots().nth(1).unwrap();
    assert!(file.is_file() && file.is_available());
    let linked: Vec<_> = roots.roots().nth(2).unwrap().paths().collect();
    let names: &[_] = if symlinks_are_visible() { &["a", "l"] } else { &["a"] };
    assert_eq!(linked, names.iter().map(|name| tree.path(name)).collect::<Vec<_>>());
    assert_eq!(roots.roots().next().unwrap().uri(), tree.uri("a%20b"));
    assert!(roots.rejected()[0].error().to_string().starts_with("open root \"vscode-remote:"));
    assert_eq!(roots.rejected().iter().map(|rejected| rejected.entry().len()).max(), Some(160));
}

#[test]
fn a_list_without_a_valid_entry_grants_nothing() {
    let tree = Tree::new("file f");
    for list in
        [ListRootsResult::default(), ListRootsResult::from_uris([tree.uri("no/such/place")])]
    {
        let roots = Roots::from_list(&list).unwrap();
        assert!(roots.is_empty());
        for request in ["f", ".", top(&tree).to_str().unwrap(), tree.path("f").to_str().unwrap()] {
            assert_eq!(code(roots.read(request, 9)), Some("outside_roots"), "{request}");
        }
    }
}

#[cfg(unix)]
#[test]
fn names_that_are_not_utf8_work_in_roots_and_requests() {
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

/// On Windows, the filesystem root is the root of a drive.
#[cfg(windows)]
#[test]
fn the_filesystem_root_can_be_a_root() {
    let tree = Tree::new("file f");
    let roots = Roots::from_list(&ListRootsResult::from_uris([uri(&top(&tree))])).unwrap();
    assert_eq!(roots.roots().map(Root::path).collect::<Vec<_>>(), [top(&tree)]);
    assert_eq!(roots.read(tree.path("f"), 9).unwrap(), b"f");
    assert_eq!(roots.read(tree.path("f").strip_prefix(top(&tree)).unwrap(), 9).unwrap(), b"f");
    assert_eq!(code(roots.read(r"Q:\f", 9)), Some("outside_roots"));
    assert_eq!(code(roots.remove_dir_all(top(&tree))), Some("root_itself"));
}

#[cfg(target_os = "linux")]
#[test]
fn the_filesystem_root_can_be_a_root_and_proc_symlinks_are_refused() {
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
    // All symlinks in a proc filesystem are refused, including ordinary ones, with and without
    // `openat2`.
    let links =
        ["/proc/self/root/etc/passwd", "/proc/self/cwd", "/proc/thread-self/fd/0", "/dev/fd/0"];
    for request in links.into_iter().chain(["/proc/self/status", "/proc/mounts", "proc/self"]) {
        assert_eq!(code(roots.read(request, 9)), Some("outside_roots"), "{request}");
        assert_eq!(
            code(roots.check(request, Intent::Existing)),
            Some("outside_roots"),
            "{request}"
        );
    }
    assert_eq!(code(roots.remove_dir_all("/")), Some("root_itself"));
}

#[test]
fn ten_thousand_roots_work_with_a_bounded_number_of_descriptors() {
    let tree = Tree::in_memory("dir all");
    // On Windows, use only enough entries that some of them cannot be kept open. A list has a time
    // limit, and Windows opens each name on a path.
    let entries = if cfg!(windows) { 2 * HANDLES } else { ROOT_LIST_ENTRIES };
    // Spread over several directories, because looking up a name in a large case-insensitive
    // directory is slow.
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
        // Count only descriptors in this tree, because other tests open their own at the same time.
        let open = fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let count = open.filter(|path| path.starts_with(tree.path("all"))).count();
        println!("{} roots use {count} descriptors", roots.roots().len());
        // There is no lower bound, because other tests may use all handles.
        assert!(count <= HANDLES, "{count} descriptors");
    }
    assert_eq!(roots.read(tree.path(&last).join("f"), 9).unwrap(), b"last");
    // Clients cannot use up all handles: some are reserved for allowed directories.
    tree.add("dir operators");
    let _operator = build_boundary(&tree, &[("operators", Access::ReadOnly)]);
    #[cfg(target_os = "linux")]
    assert_eq!(descriptors_of(&tree, ["operators"]), [1]);
    // On Windows an open directory cannot be renamed.
    #[cfg(windows)]
    assert!(fs::rename(tree.path("operators"), tree.path("other")).is_err());
    // A root that is opened on use is verified each time, so a replaced directory is unavailable.
    // Choose a directory that is not held open. On Windows, that is one that can be renamed. The
    // last directory may be held open, because another test can release handles during the
    // resolution.
    let is_renamed = |path: &PathBuf| fs::rename(tree.path(path), tree.path("all/old")).is_ok();
    let last = (0..entries).rev().map(|n| PathBuf::from(place(n))).find(is_renamed).unwrap();
    fs::create_dir(tree.path(&last)).unwrap();
    fs::write(tree.path(&last).join("f"), "planted").unwrap();
    assert_eq!(code(roots.read(tree.path(&last).join("f"), 9)), Some("root_unavailable"));
    let most = uris.into_iter().cycle().take(ROOT_LIST_ENTRIES);
    let one_more = ListRootsResult::from_uris(most.chain(["file:///x".into()]));
    assert_eq!(code(Roots::from_list(&one_more)), Some("too_many_roots"));
}

/// The number of descriptors that this process has for each of these directories.
#[cfg(target_os = "linux")]
fn descriptors_of<const N: usize>(tree: &Tree, directories: [&str; N]) -> [usize; N] {
    let open = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let open: Vec<_> = open.collect();
    directories.map(|directory| open.iter().filter(|path| **path == tree.path(directory)).count())
}

/// Each session resolves its own list, but sessions that reach the same directory share one
/// descriptor.
#[cfg(target_os = "linux")]
#[test]
fn two_thousand_snapshots_share_one_descriptor_per_directory() {
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
    // Other tests may use all handles that are available to clients. Allowed directories are held
    // open regardless.
    let clients = Boundary::builder().client_roots_only().build().unwrap();
    let first = snapshot(&clients, 0);
    assert!(descriptors_of(&tree, directories).into_iter().all(|count| count <= 1));
    // Several sessions open the directories at the same time.
    drop(first);
    let start = std::sync::Barrier::new(8);
    let session = |thread: usize| {
        start.wait();
        let operators = build_boundary(
            &tree,
            &["ws", "ws/a", "ws/b", "ws/c"].map(|path| (path, Access::ReadWrite)),
        );
        let snapshots = (0..250).map(|n| snapshot([&clients, &operators][n % 2], 250 * thread + n));
        snapshots.collect::<Vec<_>>()
    };
    let snapshots: Vec<Roots> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || session(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!((snapshots.len(), descriptors_of(&tree, directories)), (2000, [1, 1, 1]));
    for (path, content) in [("ws/a/f", b"A"), ("ws/b/f", b"B"), ("ws/c/f", b"C")] {
        assert!(
            snapshots.iter().all(|roots| roots.read(tree.path(path), 9).unwrap() == content),
            "{path}"
        );
    }
    drop(snapshots);
    assert_eq!(descriptors_of(&tree, directories), [0, 0, 0]);
}

/// A different directory at the same path gets its own descriptor, even if it reuses the inode
/// number.
#[cfg(target_os = "linux")]
#[test]
fn a_replaced_directory_does_not_share_a_descriptor() {
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
    assert_eq!(descriptors_of(&tree, ["a", "old0", "old2"]), [0, 1, 1]);
    // Each snapshot serves the directory that it resolved.
    for (n, roots) in snapshots.iter().enumerate().step_by(2) {
        assert_eq!(roots.read("f", 9).unwrap(), n.to_string().as_bytes());
    }
}

#[test]
fn relative_requests_start_at_the_first_root_or_a_chosen_base() {
    let tree = Tree::new("file a/f = A; file b/f = B; link l -> b");
    let l = link_or_target("l", "b");
    let roots = Roots::from_dirs([tree.path("a"), tree.path(l)]).unwrap();
    assert_eq!(roots.read("f", 9).unwrap(), b"A");
    assert_eq!(roots.with_base(tree.path("b")).unwrap().read("f", 9).unwrap(), b"B");
    assert_eq!(roots.with_base(tree.path(l)).unwrap().read("f", 9).unwrap(), b"B");
    assert_eq!(code(roots.with_base(tree.path("c"))), Some("outside_roots"));
    // A relative path never names a root, even if its components match.
    let relative: PathBuf =
        tree.path("b").components().filter(|name| matches!(name, Component::Normal(_))).collect();
    assert_eq!(code(roots.with_base(relative)), Some("outside_roots"));
}

/// The entries of a client's list relative to the tree, the roots that they grant, and the rejected
/// entries.
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
fn client_roots_narrow_the_allowed_directories_and_never_widen_them() {
    let tree = Tree::new(
        "file op/a/f; file op/b/f; file ro/f; file out/f; link op/link -> b; \
         link op/out -> ../out; link op/ab -> $T/op/a",
    );
    let boundary = build_boundary(&tree, &[("op", Access::ReadWrite), ("ro", Access::ReadOnly)]);
    for (entries, granted, rejected) in ROWS {
        #[cfg(windows)]
        if !symlinks_are_visible() && entries.contains(&"op/link") {
            let why = "a root through a symlink";
            report_not_shown(
                "boundary::roots::client_roots_narrow_the_allowed_directories_and_never_widen_them",
                why,
            );
            continue;
        }
        let list = ListRootsResult::from_uris(
            entries.iter().map(|entry| format!("{}/{entry}", tree.uri("")).replace("//o", "/o")),
        );
        let boundary =
            build_boundary(&tree, &[("op", Access::ReadWrite), ("ro", Access::ReadOnly)]);
        let roots = boundary.resolve(&list).unwrap();
        let granted: Vec<String> = granted.iter().map(ToString::to_string).collect();
        assert_eq!(outcome(&tree, &roots), (granted, rejected.to_vec()), "{entries:?}");
    }
    let everything = boundary.resolve(&ListRootsResult::from_uris([uri(&top(&tree))])).unwrap();
    assert_eq!(outcome(&tree, &everything).0, ["op", "ro"]);
    assert_eq!(code(everything.write(tree.path("ro/f"), "x")), Some("read_only"));
    let read_only = boundary.resolve(&list(&tree, ["ro/f"])).unwrap();
    assert_eq!(read_only.read(tree.path("ro/f"), 9).unwrap(), b"ro/f");
    assert_eq!(code(read_only.write(tree.path("ro/f"), "x")), Some("read_only"));
    let narrow = boundary.resolve(&list(&tree, ["op/a"])).unwrap();
    assert_eq!(code(narrow.read(tree.path("op/b/f"), 9)), Some("outside_roots"));
    assert_eq!(code(narrow.read("../b/f", 9)), Some("outside_roots"));
}

#[test]
fn a_contradictory_configuration_is_an_error() {
    let tree = Tree::new("dir a/in; dir b; link a/l -> ../b; link c -> a");
    let build = |directories: &[(&str, Access)]| {
        let add = |builder: mcp_roots_guard::BoundaryBuilder, (path, access): &(&str, Access)| {
            builder.directory(tree.path(path), *access)
        };
        code(directories.iter().fold(Boundary::builder(), add).build())
    };
    let (rw, ro) = (Access::ReadWrite, Access::ReadOnly);
    assert_eq!(build(&[("a", rw), ("a/in", rw)]), None);
    assert_eq!(build(&[("a", rw), ("a", rw)]), None);
    assert_eq!(build(&[("a", rw), ("a/in", ro)]), Some("access_conflict"));
    assert_eq!(build(&[("a/in", rw), ("a", ro)]), Some("access_conflict"));
    if symlinks_are_visible() {
        assert_eq!(build(&[("a", rw), ("c", ro)]), Some("access_conflict"));
        assert_eq!(build(&[("a", rw), ("a/l", rw)]), Some("through_link"));
        assert_eq!(build(&[("a/l", rw)]), None);
    }
    assert_eq!(build(&[]), Some("no_directories"));
    assert_eq!(code(Roots::from_dirs::<&str>([])), Some("no_directories"));
    // The builder rejects both settings together. Otherwise it would silently ignore one of them.
    let client_roots_only = Boundary::builder().client_roots_only();
    for both in [
        client_roots_only.clone().directory(tree.path("a"), rw),
        client_roots_only
            .clone()
            .directory_with(tree.path("none"), DirectoryOptions::new(ro).optional(true)),
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
    assert_eq!(code(client_roots_only.build()), None);
    assert_eq!(build(&[("none", rw)]), Some("not_found"));
    // A missing directory would conflict once somebody creates it, for example a tool.
    let optional = |outer: Access, path: &str, inner: Access| {
        let builder = Boundary::builder().directory(tree.path("a/in"), outer);
        code(
            builder
                .directory_with(tree.path(path), DirectoryOptions::new(inner).optional(true))
                .build(),
        )
    };
    assert_eq!(optional(rw, "a/in/new/ro", ro), Some("access_conflict"));
    if symlinks_are_visible() {
        assert_eq!(optional(rw, "c/in/new", ro), Some("access_conflict"));
    }
    assert_eq!(optional(ro, "a/in/new/rw", rw), Some("access_conflict"));
    assert_eq!(optional(rw, "a/in/new/rw", rw), None);
    assert_eq!(optional(rw, "a/other", ro), None);
    // The future target of this path is unknown, except where `..` is removed lexically.
    let later = if cfg!(windows) { "access_conflict" } else { "not_found" };
    assert_eq!(optional(rw, "miss/../a/in/new", ro), Some(later));
    #[cfg(unix)]
    {
        tree.add("fifo p");
        assert_eq!(build(&[("p", rw)]), Some("special_file"));
    }
    assert_eq!(code(Roots::from_dirs([tree.path("none")])), Some("not_found"));
    #[cfg(windows)]
    if !symlinks_are_visible() {
        report_not_shown(
            "boundary::roots::a_contradictory_configuration_is_an_error",
            "directories through symlinks",
        );
    }
}

#[test]
fn an_optional_directory_created_later_becomes_available() {
    let tree = Tree::new("dir a");
    let boundary = Boundary::builder()
        .directory(tree.path("a"), Access::ReadWrite)
        .directory_with(tree.path("b"), DirectoryOptions::new(Access::ReadWrite).optional(true))
        .build()
        .unwrap();
    assert_eq!(
        outcome(&tree, &boundary.allowed_roots()),
        (vec!["a".into()], vec![(1, "not_found")])
    );
    tree.add("file b/f");
    assert_becomes(|| outcome(&tree, &boundary.allowed_roots()).0, &vec!["a".into(), "b".into()]);
}

/// If a tool replaces a nested root with a symlink, the target is not granted.
#[test]
fn a_nested_root_replaced_by_a_symlink_grants_nothing_new() {
    let tree = Tree::new("dir ws/sub; file out/secret");
    let boundary = Boundary::builder().client_roots_only().build().unwrap();
    let both = list(&tree, ["ws", "ws/sub"]);
    let roots = boundary.resolve(&both).unwrap();
    assert_eq!(outcome(&tree, &roots).0, ["ws", "ws/sub"]);
    // On Windows an open directory cannot be removed.
    #[cfg(windows)]
    {
        assert!(fs::remove_dir(tree.path("ws/sub")).is_err());
        drop(roots);
    }
    fs::remove_dir(tree.path("ws/sub")).unwrap();
    link(&tree.path("out"), &tree.path("ws/sub")).unwrap();
    // Where the symlink is not recognized, its target is refused instead.
    let expected = if symlinks_are_visible() { "through_link" } else { "outside_roots" };
    for again in [&both, &list(&tree, ["ws/sub"]), &list(&tree, ["ws/sub", "ws"])] {
        let roots = boundary.resolve(again).unwrap();
        assert!(roots.rejected().iter().any(|rejected| rejected.error().code() == expected));
        assert_ne!(
            roots.read(tree.path("ws/sub/secret"), 99).ok().as_deref(),
            Some(&b"out/secret"[..])
        );
        assert_eq!(code(roots.read(tree.path("out/secret"), 99)), Some("outside_roots"));
    }
    // The old snapshot also detects the change.
    #[cfg(unix)]
    {
        assert!(roots.read(tree.path("ws/sub/secret"), 99).is_err());
        assert_eq!(code(roots.read(tree.path("ws/sub/x"), 99)), Some("root_unavailable"));
    }
}

/// The grants depend neither on the order of the entries nor on the order of the lists.
#[test]
fn a_root_through_a_symlink_inside_a_grant_is_refused_in_any_order() {
    #[cfg(windows)]
    if !symlinks_are_visible() {
        return report_not_shown(
            "boundary::roots::a_root_through_a_symlink_inside_a_grant_is_refused_in_any_order",
            "roots through symlinks",
        );
    }
    let tree = Tree::new(
        "dir ws; file out/secret; link ws/planted -> ../out; link fair -> out; link ws/self -> .",
    );
    for entries in [["ws", "ws/planted"], ["ws/planted", "ws"]] {
        let roots = Roots::from_list(&list(&tree, entries)).unwrap();
        assert_eq!(outcome(&tree, &roots).0, ["ws"], "{entries:?}");
    }
    // The same applies when the root itself was reached through a legitimate symlink.
    let linked = Tree::new(
        "dir ws; file out/secret; link ws/planted -> ../out; link fair -> ws; link ws/self -> .",
    );
    for entries in [["fair", "ws/planted"], ["ws/planted", "fair"]] {
        let roots = Roots::from_list(&list(&linked, entries)).unwrap();
        assert_eq!(outcome(&linked, &roots).0, ["ws"], "{entries:?}");
    }
    assert!(Roots::from_list(&list(&linked, ["ws/self"])).unwrap().is_empty());
    // The same applies to the roots of an earlier list that is no longer in force.
    let boundary = Boundary::builder().client_roots_only().build().unwrap();
    assert_eq!(outcome(&tree, &boundary.resolve(&list(&tree, ["ws"])).unwrap()).0, ["ws"]);
    assert_eq!(
        outcome(&tree, &boundary.resolve(&list(&tree, ["ws/planted"])).unwrap()),
        (vec![], vec![(0, "through_link")])
    );
    assert_eq!(outcome(&tree, &boundary.resolve(&list(&tree, ["fair"])).unwrap()).0, ["out"]);
    assert_eq!(
        outcome(&tree, &boundary.resolve(&list(&tree, ["ws/self"])).unwrap()).0,
        Vec::<String>::new()
    );
    // A grant is recognized by identity after an ancestor was renamed.
    fs::rename(tree.path("ws"), tree.path("moved")).unwrap();
    assert_eq!(
        outcome(&tree, &boundary.resolve(&list(&tree, ["moved/planted"])).unwrap()).1,
        [(0, "through_link")]
    );
    // The same applies inside an allowed directory to a symlink that stays inside it, unless the
    // whole directory was granted.
    let tree = Tree::new(
        "dir op/ws; dir op/other; link op/ws/planted -> ../other; link op/plain -> other",
    );
    let boundary = build_boundary(&tree, &[("op", Access::ReadWrite)]);
    assert_eq!(outcome(&tree, &boundary.resolve(&list(&tree, ["op"])).unwrap()).0, ["op"]);
    assert_eq!(
        outcome(&tree, &boundary.resolve(&list(&tree, ["op/plain"])).unwrap()).0,
        ["op/other"]
    );
    assert_eq!(
        outcome(&tree, &boundary.resolve(&list(&tree, ["op/ws", "op/ws/planted"])).unwrap()).0,
        ["op/ws"]
    );
    // A symlink to the allowed directory or to one of its ancestors widens a grant as much as a
    // symlink to a sibling does.
    tree.add("link op/ws/up -> ../..; link op/ws/op -> ..; link op/fair -> ../..");
    link(&top(&tree), &tree.path("op/ws/top")).unwrap();
    for entry in ["op/ws/up", "op/ws/op", "op/ws/top"] {
        let roots = boundary.resolve(&list(&tree, [entry])).unwrap();
        assert_eq!(outcome(&tree, &roots), (vec![], vec![(0, "through_link")]), "{entry}");
    }
    assert_eq!(outcome(&tree, &boundary.resolve(&list(&tree, ["op/fair"])).unwrap()).0, ["op"]);
}

/// Two symlinks with the same name are on the path, each in a different allowed directory. A tool
/// may have created the second one.
#[test]
fn each_symlink_is_judged_by_the_directory_that_contains_it() {
    #[cfg(windows)]
    if !symlinks_are_visible() {
        return report_not_shown(
            "boundary::roots::each_symlink_is_judged_by_the_directory_that_contains_it",
            "roots through symlinks",
        );
    }
    let tree = Tree::new(
        "dir one/x; dir two/x; dir two/secret; link one/x/l -> ../../two/x/l; \
         link two/x/l -> ../secret; link one/x/m -> l;
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
        let boundary = build_boundary(&tree, &directories);
        assert_eq!(outcome(&tree, &boundary.resolve(&list(&tree, [first])).unwrap()).0, [first]);
        let roots = boundary.resolve(&list(&tree, [then])).unwrap();
        let refused = if expected.is_none() { vec![(0, "through_link")] } else { vec![] };
        assert_eq!(
            outcome(&tree, &roots),
            (expected.into_iter().map(str::to_owned).collect(), refused),
            "{first} {then}"
        );
    }
}

#[test]
/// Without allowed directories, a client that was granted `/` may have created any symlink.
fn granting_the_filesystem_root_rules_out_roots_through_symlinks() {
    #[cfg(windows)]
    if !symlinks_are_visible() {
        return report_not_shown(
            "boundary::roots::granting_the_filesystem_root_rules_out_roots_through_symlinks",
            "roots through symlinks",
        );
    }
    let tree = Tree::new("dir d; link l -> $T/d");
    let boundary = Boundary::builder().client_roots_only().build().unwrap();
    let granted = || outcome(&tree, &boundary.resolve(&list(&tree, ["l"])).unwrap()).0;
    assert_eq!(granted(), ["d"]);
    boundary.resolve(&ListRootsResult::from_uris([uri(&top(&tree))])).unwrap();
    assert_eq!(granted(), [""; 0]);
}

/// A symlink inside an allowed directory is treated as the operator's own, unless a grant contains
/// it. Another allowed directory nested in that grant does not change this: a symlink in the nested
/// directory is still not treated as the operator's own.
#[test]
fn nested_allowed_directories_do_not_hide_a_planted_symlink() {
    #[cfg(windows)]
    if !symlinks_are_visible() {
        return report_not_shown(
            "boundary::roots::nested_allowed_directories_do_not_hide_a_planted_symlink",
            "roots through symlinks",
        );
    }
    let plant = "dir A/p/n/sub; file A/secret/k; link A/p/n/l -> ../../secret; link A/x -> p/n; \
        link A/p/n/ls -> sub";
    let tree = Tree::new(plant);
    let boundary = build_boundary(&tree, &[("A", Access::ReadWrite), ("A/p/n", Access::ReadWrite)]);
    // These symlinks are in allowed directories but in no grant, whichever allowed directory the
    // entry starts in.
    for (entry, granted) in [("A/p/n/ls", "A/p/n/sub"), ("A/x/ls", "A/p/n/sub")] {
        assert_eq!(
            outcome(&tree, &boundary.resolve(&list(&tree, [entry])).unwrap()).0,
            [granted],
            "{entry}"
        );
    }
    for entries in [&["A/p", "A/p/n/l"][..], &["A/p/n/l"], &["A/x/l"]] {
        let uris = entries.iter().map(|entry| tree.uri(entry));
        let roots = boundary.resolve(&ListRootsResult::from_uris(uris)).unwrap();
        assert_eq!(
            outcome(&tree, &roots).1.last().map(|(_, code)| *code),
            Some("through_link"),
            "{entries:?}"
        );
        assert_eq!(
            code(roots.read(tree.path("A/secret/k"), 99)),
            Some("outside_roots"),
            "{entries:?}"
        );
    }
}

/// A directory that was granted inside another one can be moved out of it, and the other one can be
/// replaced. A tool could still have created a symlink in the moved directory.
#[cfg(unix)]
#[test]
fn a_nested_grant_is_remembered_after_the_directory_moves() {
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
        let boundary = build_boundary(&tree, &[("op", Access::ReadWrite)]);
        steps(&tree, &boundary);
        let roots = boundary.resolve(&list(&tree, ["op/b/sub/l"])).unwrap();
        assert_eq!(outcome(&tree, &roots), (vec![], vec![(0, "through_link")]), "{what}");
    }
}

/// A client that exhausts its own memory of grants gets no new directories. This affects nobody
/// else: other clients and the operator still get roots through symlinks.
#[cfg(unix)]
#[test]
fn a_client_that_exhausts_its_grant_memory_affects_only_itself() {
    let tree = Tree::in_memory(
        "dir rel1; file rel2/f; link current -> rel1; dir data/fair; link data/l -> fair; \
         dir data/mine; link data/m -> mine",
    );
    let boundary =
        build_boundary(&tree, &[("current", Access::ReadOnly), ("data", Access::ReadWrite)]);
    let guard = Guard::new(boundary.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let [full, fair] = [(), ()].map(|()| {
        guard.session(ClientCapabilities::with_roots(RootsCapability::announcing())).unwrap()
    });
    let fetch = |session: &mcp_roots_guard::Session, entries: Vec<String>| {
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
        let roots = fetch(
            &full,
            (0..ROOT_LIST_ENTRIES).map(|n| tree.uri(format!("data/{batch}-{n}"))).collect(),
        );
        let (granted, codes) = (roots.roots().len(), outcome(&tree, &roots).1);
        if batch + 1 < batches {
            assert_eq!(granted, ROOT_LIST_ENTRIES);
        } else {
            assert!(
                granted == 0 && codes.iter().all(|(_, code)| *code == "too_costly"),
                "{granted}"
            );
        }
    }
    // Directories that were granted earlier are still granted.
    assert_eq!(fetch(&full, vec![tree.uri("data/0-0"), tree.uri("data/1-9")]).roots().len(), 2);
    assert_eq!(fetch(&full, vec![tree.uri("data/l")]).rejected()[0].error().code(), "too_costly");
    let roots = fetch(&fair, vec![tree.uri("data/l"), tree.uri("data/2-0")]);
    assert_eq!(
        (outcome(&tree, &roots).0, roots.rejected().len()),
        (vec!["data/fair".into(), "data/2-0".into()], 0)
    );
    assert_eq!(
        outcome(&tree, &boundary.resolve(&list(&tree, ["data/m"])).unwrap()).0,
        ["data/mine"]
    );
    fs::remove_file(tree.path("current")).unwrap();
    tree.add("link current -> rel2");
    assert_becomes(
        || boundary.allowed_roots().read(tree.path("current/f"), 9).ok(),
        &Some(b"rel2/f".to_vec()),
    );
}

/// An allowed directory can be a single file, and a client can list it.
#[test]
fn a_client_can_list_an_allowed_file() {
    let tree = Tree::new("file d/only = old; file d/other");
    let boundary = build_boundary(&tree, &[("d/only", Access::ReadWrite)]);
    let roots = boundary.resolve(&list(&tree, ["d/only", "d/other", "d"])).unwrap();
    let rejected = vec![(1, "outside_roots"), (2, "duplicate")];
    assert_eq!(outcome(&tree, &roots), (vec!["d/only".into()], rejected));
    assert_eq!(code(roots.write(tree.path("d/only"), "new")), Some("root_itself"));
    assert_eq!(roots.read(tree.path("d/only"), 9).unwrap(), b"old");
    sleep(VERIFY_EVERY);
    assert!(roots.verify());
}

/// A request can start in one root and resolve to another. The names of both roots are verified.
#[cfg(unix)]
#[test]
fn a_failed_request_verifies_the_root_it_resolved_to() {
    let tree = Tree::new("dir a; dir b; link a/l -> ../b");
    let roots = tree.roots(["a", "b"]);
    let checked = roots.check("l/new", Intent::New).unwrap();
    fs::rename(tree.path("b"), tree.path("was")).unwrap();
    tree.add("dir b");
    assert_eq!(code(checked.read(9)), Some("root_unavailable"));
    assert!(!roots.roots().nth(1).unwrap().is_available());
    // A proof depends only on the root that contains it.
    let roots = tree.roots(["a", "b"]);
    tree.add("file b/f = 12345");
    let checked = roots.check("l/f", Intent::Existing).unwrap();
    fs::rename(tree.path("a"), tree.path("a2")).unwrap();
    assert_eq!(code(checked.read(1)), Some("too_large"));
    fs::rename(tree.path("a2"), tree.path("a")).unwrap();
    let roots = tree.roots(["a", "b"]);
    fs::rename(tree.path("b"), tree.path("was2")).unwrap();
    tree.add("dir b");
    assert_eq!(code(roots.read("l/none", 9)), Some("root_unavailable"));
    assert_eq!(
        code(roots.rename("f", "l/f", mcp_roots_guard::Replace::Never)),
        Some("root_unavailable")
    );
    assert_eq!(code(roots.read("none", 9)), Some("not_found"), "the other root is still available");
}

/// Lists of long paths, symlinks and aliases take bounded time.
#[cfg(unix)]
#[test]
fn a_hostile_list_is_bounded_in_time() {
    let tree = Tree::in_memory("dir op/x; link op/l -> .; link op/m -> .");
    let deep = "d/".repeat((4000 - tree.path("op").as_os_str().len()) / 2);
    fs::create_dir_all(tree.path("op").join(&deep)).unwrap();
    let boundary = build_boundary(&tree, &[("op", Access::ReadWrite)]);
    let alias = |n: usize| {
        (0..11).map(|bit| if n >> bit & 1 == 0 { "l/" } else { "m/" }).collect::<String>()
    };
    let lists: [(&str, Vec<String>); 3] = [
        (
            "deep",
            (0..if runs_without_openat2() { 300 } else { 1000 })
                .map(|n| format!("op/{}", &deep[..deep.len() - 2 * n]))
                .collect(),
        ),
        ("aliases", (0..2000).map(|n| format!("op/{}x", alias(n))).collect()),
        ("symlinks and deep", (0..250).map(|n| format!("op/{}{deep}", alias(n))).collect()),
    ];
    for (name, entries) in lists {
        let start = std::time::Instant::now();
        let list = ListRootsResult::from_uris(entries.iter().map(|entry| tree.uri(entry)));
        let roots = boundary.resolve(&list).unwrap();
        let resolved = start.elapsed();
        let codes: std::collections::BTreeSet<_> =
            outcome(&tree, &roots).1.iter().map(|(_, code)| *code).collect();
        let aliases = roots.roots().map(|root| root.paths().count()).max();
        println!(
            "{name}: {} entries in {resolved:?}, then {aliases:?} aliases, {codes:?}",
            entries.len()
        );
        // A list may take half a minute, plus the time of its last entry.
        assert!(resolved.as_secs() < 40, "{name}: {resolved:?}");
        assert_eq!(codes.contains(&"too_costly"), name == "symlinks and deep", "{name}: {codes:?}");
        assert!(aliases.is_none_or(|count| count <= 9), "{name}: {aliases:?}");
        let start = std::time::Instant::now();
        for _ in 0..10 {
            assert!(roots.read("none", 9).is_err());
        }
        assert!(start.elapsed().as_secs() < 10, "{name}: ten failures took {:?}", start.elapsed());
    }
}

#[test]
fn a_client_cannot_remove_an_allowed_directory_nested_in_its_root() {
    let tree = Tree::new("file op/in/f; dir op/d");
    let boundary =
        build_boundary(&tree, &[("op", Access::ReadWrite), ("op/in", Access::ReadWrite)]);
    let roots = boundary.resolve(&list(&tree, ["op"])).unwrap();
    assert_eq!(code(roots.remove_dir_all("in")), Some("root_itself"));
    assert_eq!(
        code(roots.rename("in", "out", mcp_roots_guard::Replace::Never)),
        Some("root_itself")
    );
    roots.remove_dir_all("d").unwrap();
}

/// On Windows, a root that is open cannot be replaced at all.
#[cfg(windows)]
#[test]
fn an_open_root_cannot_be_renamed_or_removed() {
    let tree = Tree::new("file up/root/f = mine; dir up/empty; file up/only");
    let boundary =
        build_boundary(&tree, &[("up/root", Access::ReadWrite), ("up/empty", Access::ReadWrite)]);
    let roots = boundary.allowed_roots();
    for root in ["up/root", "up/empty"] {
        assert!(fs::rename(tree.path(root), tree.path("up/old")).is_err(), "{root}");
    }
    assert!(fs::remove_dir(tree.path("up/empty")).is_err());
    if symlinks_are_visible() {
        assert!(fs::rename(tree.path("up"), tree.path("was")).is_err());
    } else {
        report_not_shown(
            "boundary::roots::an_open_root_cannot_be_renamed_or_removed",
            "renaming a parent of an open root",
        );
    }
    assert_eq!(roots.read("f", 9).unwrap(), b"mine");
    drop((boundary, roots));
    fs::rename(tree.path("up/root"), tree.path("up/old")).unwrap();
    fs::remove_dir(tree.path("up/empty")).unwrap();
}

/// A root is unavailable after it is replaced or removed, or after an ancestor is renamed. It never
/// becomes a different directory.
#[cfg(unix)]
#[test]
fn a_replaced_root_is_unavailable_until_it_is_resolved_again() {
    type Change = fn(&Tree);
    let changes: [(&str, Change); 5] = [
        ("replaced", |tree| {
            fs::rename(tree.path("up/root"), tree.path("up/old")).unwrap();
            tree.add("file up/root/f = planted");
        }),
        ("replaced by a symlink", |tree| {
            fs::rename(tree.path("up/root"), tree.path("up/old")).unwrap();
            tree.add("file out/f = planted; link up/root -> ../out");
        }),
        ("removed", |tree| fs::remove_dir_all(tree.path("up/root")).unwrap()),
        ("removed and created again", |tree| {
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
        let boundary = build_boundary(&tree, &[("up/root", Access::ReadWrite)]);
        let roots = boundary.allowed_roots();
        change(&tree);
        // Until the change is detected, the resolved directory is served, and nothing else.
        assert_ne!(roots.read("f", 9).ok().as_deref(), Some(&b"planted"[..]), "{what}");
        // A failed operation detects the change. A refusal by name alone does not need to.
        assert_eq!(code(roots.read("nope", 9)), Some("root_unavailable"), "{what}");
        assert_eq!(code(roots.read("f", 9)), Some("root_unavailable"), "{what}");
        assert_eq!(code(roots.write("new", "x")), Some("root_unavailable"), "{what}");
        assert_eq!(code(roots.read("/etc/passwd", 9)), Some("outside_roots"), "{what}");
        assert!(!roots.roots().next().unwrap().is_available(), "{what}");
        // A new snapshot detects the change when it is taken. It then resolves the name again, but
        // not through a symlink inside a former root.
        let fresh = || boundary.allowed_roots();
        match what {
            "removed" => {
                assert_becomes(|| outcome(&tree, &fresh()), &(vec![], vec![(0, "not_found")]));
            }
            // A symlink outside all roots is treated as the operator's own.
            "replaced by a symlink" => {
                assert_becomes(|| outcome(&tree, &fresh()).0, &vec!["out".into()]);
            }
            _ => assert_becomes(|| fresh().read("f", 9).ok(), &Some(b"planted".to_vec())),
        }
        // The old snapshot does not change.
        assert_eq!(code(roots.read("f", 9)), Some("root_unavailable"), "{what}");
    }
}

#[test]
fn a_proof_becomes_invalid_after_its_roots_symlink_changes() {
    #[cfg(windows)]
    if !symlinks_are_visible() {
        return report_not_shown(
            "boundary::roots::a_proof_becomes_invalid_after_its_roots_symlink_changes",
            "roots through symlinks",
        );
    }
    let tree = Tree::new("file v1/f; dir v2; link current -> v1");
    let roots = Roots::from_dirs([tree.path("current")]).unwrap();
    let checked = roots.check("f", Intent::Existing).unwrap();
    repoint_symlink(&tree, "current", "v2");
    // The symlink is checked at most once per `VERIFY_EVERY`, and then by the first call.
    roots.still_allows(&checked).unwrap();
    assert!(roots.verify());
    assert_becomes(|| code(roots.still_allows(&checked)), &Some("root_unavailable"));
    assert!(!roots.verify());
}

#[test]
fn a_root_that_returns_is_served_by_the_next_snapshot() {
    #[cfg(windows)]
    if !symlinks_are_visible() {
        return report_not_shown(
            "boundary::roots::a_root_that_returns_is_served_by_the_next_snapshot",
            "roots through symlinks",
        );
    }
    let tree = Tree::new("file v1/f = one; file v2/f = two; link current -> v1");
    let boundary = build_boundary(&tree, &[("current", Access::ReadOnly)]);
    let roots = boundary.allowed_roots();
    assert_eq!(roots.read(tree.path("current/f"), 9).unwrap(), b"one");
    let remove = if cfg!(windows) { fs::remove_dir } else { fs::remove_file };
    remove(tree.path("current")).unwrap();
    assert_becomes(|| boundary.allowed_roots().is_empty(), &true);
    tree.add("link current -> v2");
    assert_becomes(
        || boundary.allowed_roots().read(tree.path("current/f"), 9).ok(),
        &Some(b"two".to_vec()),
    );
    let fresh = boundary.allowed_roots();
    assert_eq!(code(fresh.read(tree.path("v1/f"), 9)), Some("outside_roots"));
    // The earlier snapshot is verified by identity, and its symlink now has another target.
    assert_eq!(code(roots.read("nope", 9)), Some("root_unavailable"));
    // The same applies when the symlink never disappeared and its old target still exists.
    repoint_symlink(&tree, "current", "v1");
    assert_becomes(|| code(fresh.read("nope", 9)), &Some("root_unavailable"));
    assert_becomes(
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
    assert_eq!(code(roots.write(tree.path("d/only"), "new")), Some("root_itself"));
    assert_eq!(code(roots.remove_file(tree.path("d/only"))), Some("root_itself"));
    let mut file = roots
        .open_with(tree.path("d/only"), OpenOptions::new().write(true).truncate(true))
        .unwrap();
    file.write_all(b"new").unwrap();
    drop(file);
    assert_eq!(fs::read(tree.path("d/only")).unwrap(), b"new");
    // When an editor replaces the file, the new file is served under the same name. A symlink in
    // its place is not served.
    fs::write(tree.path("d/tmp"), "edited").unwrap();
    fs::rename(tree.path("d/tmp"), tree.path("d/only")).unwrap();
    assert_eq!(roots.read(tree.path("d/only"), 9).unwrap(), b"edited");
    fs::remove_file(tree.path("d/only")).unwrap();
    assert_eq!(code(roots.read(tree.path("d/only"), 9)), Some("not_found"));
    assert_eq!(code(roots.create_dir(tree.path("d/only"))), Some("root_itself"));
    assert_eq!(code(roots.create_dir_all(tree.path("d/only"))), Some("already_exists"));
    // A directory with this name is not served either, because its content was never granted.
    let checked = roots.check(tree.path("d/only"), Intent::New).unwrap();
    tree.add("file d/only/x");
    assert_eq!(code(checked.read_dir()), Some("not_a_directory"));
    assert_eq!(code(checked.read(9)), Some("is_a_directory"));
    for request in ["d/only", "d/only/x", "d/only/none", "d/only/.."] {
        // On Windows, `..` is removed lexically, so this names another place.
        if cfg!(windows) && request.ends_with("..") {
            assert_eq!(code(roots.read(tree.path(request), 9)), Some("outside_roots"));
            continue;
        }
        assert_eq!(code(roots.read(tree.path(request), 9)), Some("root_unavailable"), "{request}");
    }
    fs::remove_dir_all(tree.path("d/only")).unwrap();
    #[cfg(windows)]
    if !symlinks_are_visible() {
        return report_not_shown(
            "boundary::roots::a_file_root_serves_one_name_and_is_written_in_place",
            "a symlink with its name",
        );
    }
    link("other".as_ref(), &tree.path("d/only")).unwrap();
    for intent in [Intent::Existing, Intent::New, Intent::NewTree, Intent::NoFollow] {
        assert_eq!(
            code(roots.check(tree.path("d/only"), intent)),
            Some("root_unavailable"),
            "{intent:?}"
        );
    }
}

#[test]
fn roots_have_the_policy_of_their_boundary() {
    let tree = Tree::new("file op/a/f; hard op/a/g = op/a/f");
    let boundary = Boundary::builder()
        .directory(tree.path("op"), Access::ReadWrite)
        .policy(Policy::default().hard_links(Rule::Refuse))
        .build()
        .unwrap();
    let roots = boundary.resolve(&list(&tree, ["op/a"])).unwrap();
    assert_eq!(code(roots.read("f", 9)), Some("hard_linked"));
    assert_eq!(code(boundary.allowed_roots().read("a/f", 9)), Some("hard_linked"));
}

/// A client's root inside an allowed directory is also unavailable if that directory is replaced.
#[cfg(unix)]
#[test]
fn a_client_root_is_unavailable_if_its_allowed_directory_is_replaced() {
    let tree = Tree::new("file up/op/a/f = mine; link up/op/l -> a");
    let boundary = build_boundary(&tree, &[("up/op", Access::ReadWrite)]);
    for entry in ["up/op/a", "up/op/l", "up/op", "up"] {
        let roots = boundary.resolve(&list(&tree, [entry])).unwrap();
        fs::rename(tree.path("up"), tree.path("was")).unwrap();
        tree.add("file up/op/a/f = planted");
        assert_eq!(code(roots.read("nope", 9)), Some("root_unavailable"), "{entry}");
        // After the directory returns, it must be resolved again. A snapshot in force never
        // changes.
        fs::remove_dir_all(tree.path("up")).unwrap();
        fs::rename(tree.path("was"), tree.path("up")).unwrap();
        assert_eq!(code(roots.read("nope", 9)), Some("root_unavailable"), "{entry}");
        sleep(VERIFY_EVERY);
    }
    assert_eq!(boundary.resolve(&list(&tree, ["up/op/a"])).unwrap().read("f", 9).unwrap(), b"mine");
}

/// The component before `..` may be a symlink, so removing both lexically could name another
/// directory.
#[test]
fn a_root_path_with_dot_dot_is_not_an_alias() {
    let tree =
        Tree::new("file far/in/f; file far/x/f = true; file x/f = as text; link l -> far/in");
    // Windows itself resolves `..` lexically.
    let rows: [(_, &[u8], _); 2] = [("far/x", b"true", "x/f"), ("x", b"as text", "far/x/f")];
    let (path, content, outside) = rows[usize::from(cfg!(windows))];
    for root in [format!("{}/l/../x", tree.path("").display()), "x/../l/../x".to_owned()] {
        let roots = Roots::from_dirs([tree.path(root)]).unwrap();
        let aliases: Vec<_> = roots.roots().flat_map(Root::paths).collect();
        assert_eq!(aliases, [tree.path(path)]);
        assert_eq!(roots.read("f", 9).unwrap(), content);
        assert_eq!(code(roots.read(tree.path(outside), 9)), Some("outside_roots"));
    }
}

/// A path outside a root is refused by name alone, without looking at the root.
#[cfg(unix)]
#[test]
fn an_outside_path_is_refused_without_verifying_the_root() {
    let tree = Tree::new("file root/f");
    let roots = tree.roots(["root"]);
    fs::rename(tree.path("root"), tree.path("old")).unwrap();
    assert_eq!(code(roots.read("../old/f", 9)), Some("outside_roots"));
    assert!(roots.roots().all(Root::is_available), "the refused request verified the root");
    assert_eq!(code(roots.read("nope", 9)), Some("root_unavailable"));
}

/// Debug output names the root and the place, but not the allowed directory that contains the root.
#[test]
fn debug_output_names_the_root_and_the_place() {
    let tree = Tree::new("file top/root/d/f");
    let boundary = build_boundary(&tree, &[("top", Access::ReadOnly)]);
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

/// A program can verify its snapshot itself, and obtain a new one when a root is missing.
// On Windows an open directory cannot be moved.
#[cfg(unix)]
#[test]
fn a_root_that_fails_verification_returns_in_the_next_snapshot() {
    let tree = Tree::new("file w/f = old");
    let boundary = build_boundary(&tree, &[("w", Access::ReadOnly)]);
    let mut roots = boundary.allowed_roots();
    fs::rename(tree.path("w"), tree.path("was")).unwrap();
    tree.add("file w/f = new");
    let read = || {
        if !roots.verify() {
            roots = boundary.allowed_roots();
        }
        roots.read("f", 9).ok()
    };
    assert_becomes(read, &Some(b"new".to_vec()));
}
