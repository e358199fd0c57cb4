//! Upper bounds on the cost of a request or a list, whatever the tree contains.
//!
//! A tool can build any tree in its directory, so these tests use the most expensive trees known.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use mcp_roots_guard::limits::ROOT_LIST_ENTRIES;
use mcp_roots_guard::{Access, Boundary, ListRootsResult};
use nix::time::{ClockId, clock_gettime};

use crate::support::proof::INTENTS;
use crate::support::tree::Tree;

/// The CPU time used by this thread.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

fn cpu_time_of<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = cpu();
    (work(), cpu().saturating_sub(before))
}

/// Creates the symlink `l` to the first of 39 symlinks in a directory that is nearly as deep as a
/// path can name. Each of the 39 has a target of nearly 4,096 bytes that repeats `unit` and then
/// names the next symlink. The last one names `end` instead.
fn deep_chain(tree: &Tree, unit: &str, end: &str) {
    let deep = "d/".repeat(1_900);
    let mut at = tree.path("root");
    for name in deep.split_terminator('/').collect::<Vec<_>>().chunks(100) {
        at.extend(name);
        std::fs::create_dir_all(&at).unwrap();
    }
    // The full paths exceed the longest path that a system call accepts, so the paths are relative
    // to an open directory.
    let directory =
        rustix::fs::open(&at, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    let directory = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&directory));
    let directory = Path::new(&directory);
    std::fs::create_dir(directory.join("x")).unwrap();
    let text = unit.repeat(4_000 / unit.len());
    for link in 0..39 {
        let next = if link < 38 { format!("{text}k{}", link + 1) } else { format!("{text}{end}") };
        symlink(next, directory.join(format!("k{link}"))).unwrap();
    }
    symlink(format!("{deep}k0"), tree.path("root/l")).unwrap();
}

/// Parts of symlink targets that are expensive to resolve when repeated. The first one needs a
/// look-up for each repetition. The others leave and enter directories repeatedly: one directory,
/// as many as the resolver keeps open, or more than that.
fn units() -> [(&'static str, String); 4] {
    let zigzag = |names: usize| "../".repeat(names) + &"d/".repeat(names);
    [
        ("one look-up each", "x/../".into()),
        ("climb one", zigzag(1)),
        ("climb eight", zigzag(8)),
        ("climb a hundred", zigzag(100)),
    ]
}

#[test]
fn no_tree_makes_a_request_cost_more_than_its_budget() {
    for (what, unit) in units() {
        for end in ["none", "/etc/passwd", "x/../../../none/y"] {
            let tree = Tree::in_memory("dir root");
            deep_chain(&tree, &unit, end);
            let roots = tree.roots(["root"]);
            // The kernel decides a read if it can follow the whole chain of symlinks.
            let codes = ["too_costly", "not_found", "not_a_directory", "too_long"];
            let mut most = Duration::ZERO;
            for intent in INTENTS {
                let (decided, cost) = cpu_time_of(|| intent.decide(&roots, "l/."));
                let code = decided.unwrap_err();
                assert!(codes.contains(&code), "{what}, {end}: {code}");
                most = most.max(cost);
            }
            let (read, cost) = cpu_time_of(|| roots.read("l", 9));
            assert!(codes.contains(&read.unwrap_err().code()), "{what}, {end}");
            assert_is_bounded(&format!("{what}, ending in {end}"), most.max(cost));
        }
    }
}

#[test]
fn no_tree_makes_a_list_entry_cost_more_than_its_budget() {
    for (what, unit) in units() {
        let tree = Tree::in_memory("dir root");
        deep_chain(&tree, &unit, "x");
        for boundary in [
            Boundary::builder().directory(tree.path("root"), Access::ReadWrite).build().unwrap(),
            Boundary::any_listed().build().unwrap(),
        ] {
            let list = ListRootsResult::from_uris([tree.uri("root/l")]);
            let (roots, cost) = cpu_time_of(|| boundary.narrow(&list.roots).unwrap());
            assert_is_bounded(what, cost);
            assert_eq!(roots.rejected()[0].error().code(), "too_costly", "{what}");
        }
    }
}

/// Missing names are compared with the patterns at once. Those that exist are compared one by one,
/// each with the path before it.
#[test]
fn no_path_makes_a_comparison_with_denied_names_costly() {
    let tree = Tree::in_memory("dir root");
    deep_chain(&tree, "x/", "x");
    let boundary = Boundary::builder().directory(tree.path("root"), Access::ReadWrite);
    let boundary = boundary.deny("denied").build().unwrap();
    let [there, missing] = ["d/", "n/"].map(|name| {
        let (request, roots) = (name.repeat(1_900), boundary.allowed_roots());
        let (checked, cost) = cpu_time_of(|| roots.check(&*request));
        assert!(checked.is_ok(), "{name}: {checked:?}");
        cost
    });
    assert_is_bounded("names that exist", there);
    assert!(missing * 10 < there, "{missing:?}, {there:?}");
}

/// Otherwise, each removal of a directory would look at millions of names.
#[test]
fn the_names_of_a_list_are_bounded_in_total() {
    let tree = Tree::in_memory("dir root/empty");
    let boundary = Boundary::builder().directory(tree.path("root"), Access::ReadWrite);
    let boundary = boundary.build().unwrap();
    let resolved = |count: usize, paths: &dyn Fn(usize) -> String| {
        let uris = (1..count).map(|number| tree.uri(paths(number)));
        let uris = std::iter::once(tree.uri("root")).chain(uris);
        boundary.narrow(&ListRootsResult::from_uris(uris).roots).unwrap()
    };
    let deep = "/x".repeat(380);
    let roots = resolved(ROOT_LIST_ENTRIES, &|number| format!("root/{number}{deep}"));
    let (kept, rejected) = (roots.iter().len(), roots.rejected());
    assert!((250..300).contains(&kept) && kept + rejected.len() == ROOT_LIST_ENTRIES, "{kept}");
    assert!(rejected.iter().all(|it| it.error().code() == "too_large"), "{:?}", rejected[0]);
    assert!(rejected[0].error().to_string().contains("100000 names"), "{:?}", rejected[0]);
    let (removed, cost) = cpu_time_of(|| roots.remove_dir("empty"));
    assert_is_bounded("a removal", cost);
    removed.unwrap();
    // Names that the paths share count once.
    let roots = resolved(1_000, &|number| format!("root{deep}/{number}"));
    assert_eq!(roots.iter().len(), 1_000);
}

/// Each copy of an allowed directory counts.
#[test]
fn spellings_of_an_ancestor_do_not_make_a_list_costly() {
    let tree = Tree::in_memory("dir root");
    let mut builder = Boundary::builder();
    for number in 0..1_000 {
        let path = tree.path(format!("root/{number}"));
        std::fs::create_dir(&path).unwrap();
        builder = builder.directory(path, Access::ReadOnly);
    }
    let boundary = builder.build().unwrap();
    let uris = (0..1_000).map(|number| tree.uri(format!("root{}", "/".repeat(number))));
    let roots = boundary.narrow(&ListRootsResult::from_uris(uris).roots).unwrap();
    assert_eq!(roots.iter().len(), 1_000);
    let costly = roots.rejected().iter().filter(|it| it.error().code() == "too_costly").count();
    assert_eq!(costly, 1_000 - 400);
}

/// The symlinks of a package manager and a path of nearly maximum length need far less than the
/// budget.
#[test]
fn ordinary_trees_stay_within_the_budget() {
    let tree = Tree::in_memory("file root/store/a@1/node_modules/a/lib/index.js = a");
    for number in 0..30 {
        let to = if number == 0 {
            "store/a@1/node_modules/a".into()
        } else {
            format!("l{}/lib/..", number - 1)
        };
        symlink(to, tree.path(format!("root/l{number}"))).unwrap();
    }
    let roots = tree.roots(["root"]);
    assert_eq!(roots.read("l29/lib/index.js", 9).unwrap(), b"a");
    let deep = "d/".repeat((4_000 - tree.path("root").as_os_str().len()) / 2);
    std::fs::create_dir_all(tree.path("root").join(&deep)).unwrap();
    symlink(".", tree.path("root/here")).unwrap();
    let deep = format!("here/{deep}");
    assert!(roots.check(&*deep).is_ok());
    let boundary =
        Boundary::builder().directory(tree.path("root"), Access::ReadOnly).build().unwrap();
    let listed = boundary
        .narrow(&ListRootsResult::from_uris([tree.uri(format!("root/{deep}"))]).roots)
        .unwrap();
    assert_eq!(listed.iter().len(), 1, "{:?}", listed.rejected());
}

/// Fails if an operation took more CPU time than [`MOST`] times [`ordinary`] requests. A ratio of
/// two measurements of the same build, on the same thread, holds on any machine.
fn assert_is_bounded(what: &str, cost: Duration) {
    let ordinary = ordinary();
    let ratio = cost.as_secs_f64() / ordinary.as_secs_f64();
    println!("{what}: {cost:?}, {ratio:.1} times {ordinary:?}");
    assert!(ratio < MOST, "{what}: {cost:?}, {ratio:.1} times {ordinary:?}");
}

/// The CPU time of 1,000 requests through one symlink. Together, they take about as many look-ups
/// as the budget of one request allows.
fn ordinary() -> Duration {
    let tree = Tree::in_memory("file root/a/f = x; link root/l -> a");
    let roots = tree.roots(["root"]);
    let ((), cost) = cpu_time_of(|| {
        for _ in 0..1_000 {
            roots.check("l/f").unwrap();
        }
    });
    cost
}

/// The highest accepted ratio. A debug build reaches 12, and a release build 2. Before there was a
/// budget, the first of these trees reached about 1,000.
const MOST: f64 = 100.0;
