//! What one request and one list may cost, whatever a tree contains.
//!
//! A tool can make any tree in its directory, so the trees here are the most expensive ones known.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use mcp_roots_guard::{Access, Boundary, Intent, ListRootsResult};
use nix::time::{ClockId, clock_gettime};

use crate::support::tree::Tree;

/// CPU time of this thread.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

fn costs<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = cpu();
    (work(), cpu().saturating_sub(before))
}

/// `l` leads to a directory that is nearly as deep as a path can name, and there through 39 symlinks of
/// nearly 4,096 bytes, whose texts repeat `unit`. The last one leads to `end`.
fn deep_chain(tree: &Tree, unit: &str, end: &str) {
    let deep = "d/".repeat(1_900);
    let mut at = tree.path("root");
    for name in deep.split_terminator('/').collect::<Vec<_>>().chunks(100) {
        at.extend(name);
        std::fs::create_dir_all(&at).unwrap();
    }
    // Beyond the longest path: relative to an open directory.
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

/// The units of text that make a resolver work: a look-up each, climbing one directory, as many as are
/// held open, and more than that.
fn units() -> [(&'static str, String); 4] {
    let zigzag = |names: usize| "../".repeat(names) + &"d/".repeat(names);
    [
        ("look-ups", "x/../".into()),
        ("one up", zigzag(1)),
        ("eight up", zigzag(8)),
        ("a hundred up", zigzag(100)),
    ]
}

#[test]
fn no_tree_makes_a_request_cost_more_than_its_budget() {
    for (what, unit) in units() {
        for end in ["none", "/etc/passwd", "x/../../../none/y"] {
            let tree = Tree::in_memory("dir root");
            deep_chain(&tree, &unit, end);
            let roots = tree.roots(["root"]);
            // Reading a chain of links that the kernel follows to its end is decided by the kernel.
            let kinds = ["too_costly", "not_found", "not_a_directory", "too_long"];
            let mut most = Duration::ZERO;
            for intent in [Intent::Existing, Intent::New, Intent::NewTree, Intent::NoFollow] {
                let (checked, cost) = costs(|| roots.check("l/.", intent));
                let kind = checked.unwrap_err().code();
                assert!(kinds.contains(&kind), "{what}, {end}: {kind}");
                most = most.max(cost);
            }
            let (read, cost) = costs(|| roots.read("l", 9));
            assert!(kinds.contains(&read.unwrap_err().code()), "{what}, {end}");
            println!("{what}, then {end}: {:?} at most", most.max(cost));
            // In a release build less than 20 ms; this is a debug build, and other tests run beside it.
            assert!(most.max(cost) < 20 * SLOWER, "{what}, {end}: {most:?}, {cost:?}");
        }
    }
}

#[test]
fn no_tree_makes_an_entry_of_a_list_cost_more_than_its_budget() {
    for (what, unit) in units() {
        let tree = Tree::in_memory("dir root");
        deep_chain(&tree, &unit, "x");
        for boundary in [
            Boundary::builder().directory(tree.path("root"), Access::ReadWrite).build().unwrap(),
            Boundary::builder().client_roots_only().build().unwrap(),
        ] {
            let list = ListRootsResult::from_uris([tree.uri("root/l")]);
            let (roots, cost) = costs(|| boundary.resolve(&list).unwrap());
            println!("{what}: {cost:?}");
            assert_eq!(roots.rejected()[0].error().code(), "too_costly", "{what}");
            assert!(cost < 20 * SLOWER, "{what}: {cost:?}");
        }
    }
}

/// Ordinary trees stay far below the budget: a package manager's links, the longest path.
#[test]
fn what_ordinary_trees_cost_is_served() {
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
    assert!(roots.check(&*deep, Intent::Existing).is_ok());
    let boundary =
        Boundary::builder().directory(tree.path("root"), Access::ReadWrite).build().unwrap();
    let listed =
        boundary.resolve(&ListRootsResult::from_uris([tree.uri(format!("root/{deep}"))])).unwrap();
    assert_eq!(listed.roots().len(), 1, "{:?}", listed.rejected());
}

/// How many times slower than a release build on a quiet machine this may be, in milliseconds for each
/// millisecond: debug builds, instrumented ones, loaded machines. Before there was a budget, the first of
/// these trees took 50 times as long as it may.
const SLOWER: Duration = Duration::from_millis(20);
