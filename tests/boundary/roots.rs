//! Root lists and allowed directories, and the rules that stop a tool from widening a client's
//! list.

use std::fs;
use std::path::{Component, PathBuf};
use std::time::SystemTime;

use guarded_fs::internals::trust_links_until;
#[cfg(unix)]
use mcp_roots_guard::RootsResponse;
use mcp_roots_guard::limits::ROOT_LIST_ENTRIES;
use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, ClientRoots, DirectoryOptions, Guard, ListRootsResult,
    Precondition, Root, Roots,
};

use crate::support::code;
use crate::support::one_step::OneStep as _;
use crate::support::operations::Target::{File, FileOrNew, Missing, MissingTree};
use crate::support::operations::{Attempt, Way, attempts};
use crate::support::tree::{Tree, link, symlinks_are_visible};
#[cfg(windows)]
use crate::support::tree::{report_not_shown, uri};

fn list<const N: usize>(tree: &Tree, paths: [&str; N]) -> ListRootsResult {
    ListRootsResult::from_uris(paths.map(|path| tree.uri(path)))
}

/// The root of the filesystem that contains the tree: the tree's drive.
#[cfg(windows)]
fn top(tree: &Tree) -> std::path::PathBuf {
    tree.path("").ancestors().last().unwrap().to_owned()
}

/// Returns the symlink if this system shows symlinks as symlinks, otherwise its target.
fn link_or_target<'a>(link: &'a str, target: &'a str) -> &'a str {
    if symlinks_are_visible() { link } else { target }
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
    (roots.iter().map(short).collect(), rejected)
}

fn build_boundary(tree: &Tree, directories: &[(&str, Access)]) -> Boundary {
    let add = |builder: mcp_roots_guard::BoundaryBuilder, (path, access): &(&str, Access)| {
        builder.directory(tree.path(path), *access)
    };
    directories.iter().fold(Boundary::builder(), add).build().unwrap()
}

#[test]
fn a_list_grants_its_valid_entries_and_reports_the_others() {
    let tree = Tree::new("dir a b; file c/file; dir a");
    if symlinks_are_visible() {
        tree.add("link l -> a");
    }
    let list = serde_json::json!({"nextCursor": "ignored", "roots": [
        {"uri": tree.uri("a b").replace(' ', "%20"), "name": "A"},
        {"uri": "vscode-remote://ssh-remote/x"},
        {"uri": tree.uri("missing"), "name": null},
        {"uri": tree.uri("c/file"), "extra": true},
        {"uri": tree.uri(link_or_target("l", "a")) + "/"},
        {"uri": tree.uri("x".repeat(300))},
        {"name": "no uri"},
    ]});
    let list: ListRootsResult = serde_json::from_value(list).unwrap();
    let boundary = trust_links_until(Boundary::any_listed(), SystemTime::now());
    let roots = boundary.build().unwrap().narrow(&list.roots).unwrap();
    let rejected = vec![(1, "foreign_scheme"), (5, "too_long"), (6, "malformed")];
    let granted = ["a b", "missing", "c/file", "a"].map(str::to_owned).to_vec();
    assert_eq!(outcome(&tree, &roots), (granted, rejected));
    assert!(roots.iter().nth(2).unwrap().is_file());
    let linked: Vec<_> = roots.iter().nth(3).unwrap().paths().collect();
    let names: &[_] = if symlinks_are_visible() { &["a", "l"] } else { &["a"] };
    assert_eq!(linked, names.iter().map(|name| tree.path(name)).collect::<Vec<_>>());
    assert_eq!(roots.check(tree.path("a b")).unwrap().uri(), tree.uri("a%20b"));
    assert!(roots.rejected()[0].error().to_string().starts_with("open root \"vscode-remote:"));
    assert_eq!(roots.rejected().iter().map(|rejected| rejected.entry().len()).max(), Some(160));
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
    let roots = crate::support::listed(&ListRootsResult::from_uris([tree.uri("r%FF%fe")])).unwrap();
    assert_eq!(roots.iter().next().unwrap().path(), odd);
    assert_eq!(roots.read(Path::new(OsStr::from_bytes(b"f\x80")), 9).unwrap(), b"odd");
    assert_eq!(roots.read(tree.uri("r%FF%FE/f%80"), 9).unwrap(), b"odd");
    let checked = roots.check(tree.uri("r%FF%FE/f%80")).unwrap();
    assert_eq!(checked.uri(), tree.uri("r%FF%FE/f%80"));
}

/// On Windows, the filesystem root is the root of a drive.
#[cfg(windows)]
#[test]
fn the_filesystem_root_can_be_a_root() {
    let tree = Tree::new("file f");
    let roots = crate::support::listed(&ListRootsResult::from_uris([uri(&top(&tree))])).unwrap();
    assert_eq!(roots.iter().map(Root::path).collect::<Vec<_>>(), [top(&tree)]);
    assert_eq!(roots.read(tree.path("f"), 9).unwrap(), b"f");
    assert_eq!(roots.read(tree.path("f").strip_prefix(top(&tree)).unwrap(), 9).unwrap(), b"f");
    assert_eq!(code(roots.read(r"Q:\f", 9)), Some("outside_roots"));
    assert_eq!(code(roots.remove_dir_all(top(&tree))), Some("root_itself"));
}

#[cfg(target_os = "linux")]
#[test]
fn the_filesystem_root_can_be_a_root_and_proc_symlinks_are_refused() {
    let tree = Tree::new("file f");
    let roots = crate::support::listed(&ListRootsResult::from_uris(["file:///"])).unwrap();
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
        assert_eq!(code(roots.check(request)), Some("outside_roots"), "{request}");
        assert_eq!(code(roots.read_link(request)), Some("outside_roots"), "{request}");
    }
    assert_eq!(code(roots.remove_dir_all("/")), Some("root_itself"));
}

/// `/proc/PID/environ` has the server's keys, and other files show its memory.
#[cfg(target_os = "linux")]
#[test]
fn processes_are_not_shown_below_the_filesystem_root() {
    use mcp_roots_guard::{Attribute, OpenMode, WalkOptions, WriteOptions};
    use std::path::Path;

    let (tree, options) = (Tree::new(""), WriteOptions::default());
    let pid = std::process::id();
    let own = |name: &str| format!("/proc/{pid}/{name}");
    let whole = Boundary::builder().directory("/", Access::ReadWrite).build().unwrap();
    let listed = ListRootsResult::from_uris([format!("file:///proc/{pid}")]);
    // Without a configured directory, what the client lists is below `/`.
    for roots in [whole.allowed_roots(), crate::support::listed(&listed).unwrap()] {
        for name in ["environ", "maps", "mem", "cmdline", "status", "task"] {
            let path = own(name);
            let results = [
                code(roots.read(&path, 1 << 20)),
                code(roots.open_with(&path, OpenMode::ReadWrite)),
                code(whole.allowed_roots().copy(&path, tree.path("copy"), 1 << 20, options)),
                code(roots.content_hash(&path, 1 << 20)),
                code(roots.read_dir(&path)),
                code(roots.walk(&path, WalkOptions::default())),
                code(roots.check(&path).and_then(|it| it.set_attribute(Attribute::Executable))),
            ];
            let served = results.iter().filter(|code| {
                !matches!(code, Some("special_file" | "not_a_directory" | "is_a_directory"))
            });
            assert_eq!(served.count(), 0, "{path}: {results:?}");
        }
    }
    let roots = whole.allowed_roots();
    for directory in ["/proc", &own("fd"), &own("map_files")] {
        assert_eq!(code(roots.read_dir(directory)), Some("special_file"), "{directory}");
    }
    let mut walk = roots.walk("/", WalkOptions::default().max_depth(2).skip_unreadable()).unwrap();
    let mut seen = 0;
    while let Some(entry) = walk.next_entry().unwrap() {
        seen += usize::from(entry.relative() == Path::new("proc"));
        assert!(!entry.relative().starts_with("proc/1"), "{entry:?}");
    }
    assert_eq!(seen, 1, "the directory itself is listed");
    // Who allows a directory of a proc filesystem means it.
    let roots = Roots::from_dirs([own("")], Access::ReadWrite).unwrap();
    assert!(roots.read("status", 1 << 20).is_ok());
    assert!(roots.read_dir("fd").is_ok());
}

/// A root is a name, so it costs no descriptor and need not exist.
#[test]
fn ten_thousand_roots_are_served_without_a_descriptor() {
    let tree = Tree::in_memory("dir all");
    // Windows opens each name on a path, and a list has a time limit.
    let entries = if cfg!(windows) { 500 } else { ROOT_LIST_ENTRIES };
    let place = |n: usize| format!("all/{}/{n}", n / 100);
    let uris: Vec<String> = (0..entries).map(|n| tree.uri(place(n))).collect();
    tree.add(&format!("file {}/f = last", place(entries - 1)));
    let roots = crate::support::listed(&ListRootsResult::from_uris(uris.clone())).unwrap();
    assert_eq!(roots.iter().len(), entries);
    #[cfg(target_os = "linux")]
    {
        // Only descriptors in this tree, because other tests open their own at the same time.
        let open = fs::read_dir("/proc/self/fd").unwrap();
        let mut open = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        assert_eq!(open.find(|path| path.starts_with(tree.path("all"))), None);
    }
    let in_last = tree.path(place(entries - 1)).join("f");
    assert_eq!(roots.read(in_last, 9).unwrap(), b"last");
    assert_eq!(code(roots.read(tree.path(place(0)).join("f"), 9)), Some("root_unavailable"));
    let most = uris.into_iter().cycle().take(ROOT_LIST_ENTRIES);
    let one_more = ListRootsResult::from_uris(most.chain(["file:///x".into()]));
    assert_eq!(code(crate::support::listed(&one_more)), Some("too_many_roots"));
}

#[test]
fn relative_requests_start_at_the_first_root_or_a_chosen_base() {
    let tree = Tree::new("file a/f = A; file b/f = B; link l -> b");
    let l = link_or_target("l", "b");
    let roots = Roots::from_dirs([tree.path("a"), tree.path(l)], Access::ReadWrite).unwrap();
    assert_eq!(roots.read("f", 9).unwrap(), b"A");
    assert_eq!(roots.with_base(tree.path("b")).unwrap().read("f", 9).unwrap(), b"B");
    assert_eq!(roots.with_base(tree.path(l)).unwrap().read("f", 9).unwrap(), b"B");
    assert_eq!(code(roots.with_base(tree.path("c"))), Some("outside_roots"));
    // A relative path never names a root, even if its components match.
    let relative: PathBuf =
        tree.path("b").components().filter(|name| matches!(name, Component::Normal(_))).collect();
    assert_eq!(code(roots.with_base(relative)), Some("outside_roots"));
    if cfg!(windows) {
        return; // A path of another system can be an alias only there.
    }
    let options = DirectoryOptions::from(Access::ReadOnly).alias(r"C:\Proj").alias("/host/proj");
    let builder = Boundary::builder().directory(tree.path("a"), Access::ReadOnly);
    let aliased = builder.directory(tree.path("b"), options).build().unwrap().allowed_roots();
    for alias in [r"C:\Proj", "/host/proj"] {
        assert_eq!(aliased.with_base(alias).unwrap().read("f", 9).unwrap(), b"B");
    }
}

/// Any listed directory is in force only if the program says so, and never by an omission. Nor does
/// an option put in force more than what a client lists there.
#[test]
fn any_listed_directory_is_in_force_only_if_the_boundary_says_so() {
    use ClientRoots::{Ignore, Narrow, NarrowIfListed, Require};
    assert_eq!(code(Boundary::builder().build()), Some("no_directories"));
    assert_eq!(code(Roots::from_dirs::<&str>([], Access::ReadOnly)), Some("no_directories"));
    // A directory that can have no such name is none.
    for (name, expected) in [("", "empty"), ("a\0b", "nul"), ("\0", "nul")] {
        assert_eq!(code(Roots::from_dirs([name], Access::ReadWrite)), Some(expected), "{name:?}");
    }

    let any = Boundary::any_listed;
    let optional = DirectoryOptions::from(Access::ReadOnly).optional();
    for (both, option) in [
        (any().directory("a", Access::ReadWrite), "directory"),
        (any().directory("none", optional), "directory"),
    ] {
        let refused = both.build().unwrap_err();
        assert_eq!(refused.code(), "invalid_options");
        assert!(refused.to_string().contains(option), "{refused}");
    }
    let boundary = any().build().unwrap();
    let guard = |client_roots| Guard::builder(boundary.clone()).client_roots(client_roots).build();
    for client_roots in [Narrow, NarrowIfListed, Ignore] {
        let refused = guard(client_roots).unwrap_err();
        assert_eq!(refused.code(), "invalid_options");
        assert!(refused.to_string().contains("client_roots"), "{refused}");
    }
    assert_eq!(code(guard(Require)), None);
    assert_eq!(boundary.allowed_roots().iter().len(), 0);
    assert_eq!(boundary.narrow(&ListRootsResult::default().roots).unwrap().iter().len(), 0);
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
    let lists: [(&str, Vec<String>); 4] = [
        ("many", (0..10_000).map(|n| format!("op/{n}")).collect()),
        ("deep", (0..200).map(|n| format!("op/{}", &deep[..deep.len() - 2 * n])).collect()),
        ("aliases", (0..500).map(|n| format!("op/{}x", alias(n))).collect()),
        ("symlinks and deep", (0..250).map(|n| format!("op/{}{deep}", alias(n))).collect()),
    ];
    for (name, entries) in lists {
        let start = std::time::Instant::now();
        let list = ListRootsResult::from_uris(entries.iter().map(|entry| tree.uri(entry)));
        let roots = boundary.narrow(&list.roots).unwrap();
        let resolved = start.elapsed();
        let codes: std::collections::BTreeSet<_> =
            outcome(&tree, &roots).1.iter().map(|(_, code)| *code).collect();
        let aliases = roots.iter().map(|root| root.paths().count()).max();
        println!(
            "{name}: {} entries in {resolved:?}, then {aliases:?} aliases, {codes:?}",
            entries.len()
        );
        // A list may take half a minute, plus the time of its last entry.
        assert!(resolved.as_secs() < 40, "{name}: {resolved:?}");
        assert_eq!(codes.contains(&"too_costly"), name == "symlinks and deep", "{name}: {codes:?}");
        assert!(aliases.is_none_or(|count| count <= 9), "{name}: {aliases:?}");
        let start = std::time::Instant::now();
        let _ = roots.check_all();
        for _ in 0..10 {
            assert!(roots.read("none", 9).is_err());
        }
        assert!(start.elapsed().as_secs() < 10, "{name}: ten failures took {:?}", start.elapsed());
    }
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

#[test]
fn a_file_root_serves_one_name_and_is_written_in_place() {
    use mcp_roots_guard::OpenMode;
    use std::io::Write as _;
    let tree = Tree::new("file d/only = old; file d/other");
    let roots = tree.roots(["d/only"]);
    assert_eq!(roots.read(tree.path("d/only"), 9).unwrap(), b"old");
    assert_eq!(code(roots.write(tree.path("d/only"), "new")), Some("root_itself"));
    assert_eq!(code(roots.remove_file(tree.path("d/only"))), Some("root_itself"));
    let mut file = roots.open_with(tree.path("d/only"), OpenMode::Truncate).unwrap();
    file.write_all(b"new").unwrap();
    drop(file);
    assert_eq!(fs::read(tree.path("d/only")).unwrap(), b"new");
    // When an editor replaces the file, the new file is served under the same name. A symlink in
    // its place is not served.
    fs::write(tree.path("d/tmp"), "edited").unwrap();
    fs::rename(tree.path("d/tmp"), tree.path("d/only")).unwrap();
    assert_eq!(roots.read(tree.path("d/only"), 9).unwrap(), b"edited");
    fs::remove_file(tree.path("d/only")).unwrap();
    assert_eq!(code(roots.read(tree.path("d/only"), 9)), Some("root_unavailable"));
    assert_eq!(code(roots.create_dir(tree.path("d/only"))), Some("root_unavailable"));
    assert_eq!(code(roots.create_dir_all(tree.path("d/only"))), Some("root_unavailable"));
    // A directory with this name is not served either, because its content was never granted.
    fs::write(tree.path("d/only"), "again").unwrap();
    let checked = roots.check(tree.path("d/only")).unwrap();
    fs::remove_file(tree.path("d/only")).unwrap();
    tree.add("file d/only/x");
    assert_eq!(code(checked.read_dir()), Some("root_unavailable"));
    assert_eq!(code(checked.read(9)), Some("root_unavailable"));
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
    assert_eq!(code(roots.check(tree.path("d/only"))), Some("root_unavailable"));
    assert_eq!(code(roots.check_entry(tree.path("d/only"))), Some("root_unavailable"));
}

#[test]
fn roots_have_the_policy_of_their_boundary() {
    let tree = Tree::new("file op/a/f; hard op/a/g = op/a/f");
    let boundary = Boundary::builder()
        .directory(tree.path("op"), Access::ReadWrite)
        .refuse_hard_links()
        .build()
        .unwrap();
    let roots = boundary.narrow(&list(&tree, ["op/a"]).roots).unwrap();
    let allowed = boundary.allowed_roots();
    for roots in [roots.within(".").unwrap(), allowed.within("a").unwrap(), roots] {
        assert_eq!(code(roots.read("f", 9)), Some("hard_linked"));
    }
    assert_eq!(code(allowed.read("a/f", 9)), Some("hard_linked"));
}

const ANNOUNCING: ClientCapabilities = ClientCapabilities::WithAnnouncedRoots;

/// Roots for the same directory share its handle, but not the path under which it was listed.
#[cfg(unix)]
#[tokio::test]
async fn client_path_is_never_the_path_of_another_client() {
    let tree = Tree::new("dir workspace/sub");
    let options = DirectoryOptions::from(Access::ReadWrite).alias("/host/proj").alias(r"C:\Proj");
    let boundary = Boundary::builder().directory(tree.path("workspace"), options);
    let guard = Guard::new(boundary.build().unwrap());
    let uris = [
        ("file:///host/proj/sub".into(), "/host/proj/sub".to_owned()),
        ("file:///c:/Proj/sub".into(), r"c:\Proj\sub".to_owned()),
        (tree.uri("workspace/sub"), tree.path("workspace/sub").display().to_string()),
    ];
    let sessions = uris.each_ref().map(|_| guard.session(ANNOUNCING).unwrap());
    for _ in 0..2 {
        for (session, (uri, expected)) in sessions.iter().zip(&uris) {
            let answer = RootsResponse::List(ListRootsResult::from_uris([uri.clone()]));
            let source = |_: Option<String>| std::future::ready(answer.clone());
            let roots = session.roots(source).await.unwrap();
            assert_eq!(roots.iter().next().unwrap().client_path(), *expected);
        }
    }
}

#[tokio::test]
async fn an_always_directory_is_served_without_a_list_and_keeps_the_directories_in_it() {
    let tree = Tree::new("file external/sub/f; dir home");
    let always = DirectoryOptions::from(Access::ReadWrite).always();
    let boundary = Boundary::builder()
        .directory(tree.path("external"), always)
        .directory(tree.path("external/sub"), Access::ReadWrite)
        .directory(tree.path("home"), Access::ReadWrite)
        .build()
        .unwrap();
    let session = Guard::new(boundary).session(ANNOUNCING).unwrap();
    let many = ListRootsResult::from_uris(vec!["file:///"; ROOT_LIST_ENTRIES + 1]);
    let roots = session.roots_from_list(many).await.unwrap();
    assert_eq!(outcome(&tree, &roots).0, ["external"]);
    assert_eq!(code(roots.read(".", 9)), Some("too_many_roots"));
    let based = roots.with_base(tree.path("external")).unwrap();
    assert_eq!(based.read("sub/f", 99).unwrap(), b"external/sub/f");
    for roots in [&based, &based.within(".").unwrap()] {
        assert_eq!(code(roots.remove_dir_all("sub")), Some("root_itself"));
        assert_eq!(code(roots.rename("sub", "moved", Precondition::Missing)), Some("root_itself"));
    }
}

/// After this time, each path that may lead elsewhere is looked at again.
fn wait() {
    std::thread::sleep(
        mcp_roots_guard::limits::VERIFY_EVERY + std::time::Duration::from_millis(50),
    );
}

#[cfg(unix)]
#[test]
fn a_planted_symlink_selects_no_directory_while_another_path_is_missing() {
    let tree = Tree::new("dir real/sub; file secret/key; link current -> real");
    let optional = DirectoryOptions::from(Access::ReadWrite).optional();
    let boundary = Boundary::builder()
        .directory(tree.path("current"), Access::ReadWrite)
        .directory(tree.path("real/sub/opt"), optional)
        .build()
        .unwrap();
    fs::remove_file(tree.path("current")).unwrap();
    link(&tree.path("secret"), &tree.path("real/sub/opt")).unwrap();
    wait();
    assert_eq!(outcome(&tree, &boundary.allowed_roots()).0, ["real"]);
}

#[cfg(unix)]
#[test]
fn the_base_does_not_shift_while_the_first_directory_is_missing() {
    let tree = Tree::new("file a/proj/f; file b/proj/f");
    let boundary = build_boundary(&tree, &[("a", Access::ReadWrite), ("b", Access::ReadWrite)]);
    fs::rename(tree.path("a"), tree.path("away")).unwrap();
    wait();
    let roots = boundary.narrow(&list(&tree, ["a/proj", "b/proj"]).roots).unwrap();
    assert_eq!(outcome(&tree, &roots), (vec!["b/proj".into()], vec![(0, "root_unavailable")]));
    assert_eq!(code(roots.write("new", "x")), Some("outside_roots"));
}

/// Nothing can create the name of a missing root, or a name above it.
fn assert_not_created(roots: &Roots, request: &str) {
    let creates = |attempt: &Attempt| {
        let path = attempt.path();
        let is_new = matches!(path.target, Missing | MissingTree | FileOrNew);
        path.is_changed && (is_new || attempt.name().ends_with(" to")) && path.target != File
    };
    for attempt in attempts().filter(creates) {
        let done = attempt.run(Way::Directly, roots, request);
        assert_eq!(code(done), Some("root_itself"), "{} {request}", attempt.name());
    }
}

#[test]
fn the_names_of_a_root_are_not_created() {
    let tree = Tree::new("dir a/sub; file a/spare = content; dir a/spare-dir; link a/data -> sub");
    let boundary = build_boundary(&tree, &[("a", Access::ReadWrite)]);
    let roots = boundary.narrow(&list(&tree, ["a", "a/sub/later/deep"]).roots).unwrap();
    assert_not_created(&roots, "sub/later");
    for path in ["sub/later", "sub/later/x"] {
        assert_eq!(code(roots.create_dir_all(path)), Some("root_itself"), "{path}");
    }
    // A place in the root is that, whichever name the request has for it.
    for path in ["sub/later/deep", "sub/later/deep/x"] {
        assert_eq!(code(roots.create_dir_all(path)), Some("root_unavailable"), "{path}");
        let absolute = tree.path("a").join(path);
        assert_eq!(code(roots.create_dir_all(absolute)), Some("root_unavailable"), "{path}");
    }
    roots.create_dir_all("sub/other/x").unwrap();
    assert!(!tree.path("a/sub/later").exists());
}

/// Otherwise, one client could put the directory in force for all.
#[test]
fn the_names_of_a_missing_optional_directory_are_not_created() {
    let tree = Tree::new("file a/spare = content; dir a/spare-dir; file a/data; dir a/d");
    let optional = DirectoryOptions::from(Access::ReadWrite).optional().always();
    let boundary = Boundary::builder()
        .directory(tree.path("a"), Access::ReadWrite)
        .directory(tree.path("a/x/opt"), optional)
        .build()
        .unwrap();
    let allowed = boundary.allowed_roots();
    let of_client = boundary.narrow(&list(&tree, ["a"]).roots).unwrap();
    for roots in [&allowed, &of_client, &of_client.within(".").unwrap()] {
        assert_not_created(roots, "x");
        for done in
            [roots.create_dir_all("x/opt/y"), roots.rename("spare-dir", "x", Precondition::Missing)]
        {
            assert_eq!(code(done), Some("root_itself"));
        }
        roots.create_dir_all("d/opt").unwrap();
    }
    assert!(!tree.path("a/x").exists());
    tree.add("file a/x/opt/f = there");
    wait();
    assert_eq!(boundary.allowed_roots().read(tree.path("a/x/opt/f"), 9).unwrap(), b"there");
}
