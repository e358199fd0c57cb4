//! The number of system calls that each kind of request makes, at any depth and with any number of
//! roots. Unlike running time, this number is hardly affected by noise.
//!
//! The test binary runs itself again as a traced child, as in [`crate::fs::syscall_trace`].
#![cfg(target_arch = "x86_64")]

use std::fmt::Write as _;

use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, Guard, ListEntry, ListRootsResult, OpenMode,
    Precondition, Result, Roots, RootsResponse, WalkOptions, WriteOptions,
};
use nix::libc;

use crate::support::code;
use crate::support::traced::{be_traced, end_trace, stop};
use crate::support::tracer::{AS_IT_IS, TRACED, mark, openat2_is_there, trace};
use crate::support::tree::Tree;

const TEST: &str = "fs::syscall_counts::each_request_makes_few_system_calls_at_any_depth";

#[test]
fn each_request_makes_few_system_calls_at_any_depth() {
    if std::env::var_os(TRACED).is_some() {
        return make_requests();
    }
    if !openat2_is_there() {
        return println!("skipped: without openat2 the number of calls depends on the path");
    }
    let seen = trace(AS_IT_IS, TEST, &["root", "many"], "none", None);
    let rows = ROWS.iter().flat_map(|(name, .., [fixed, each])| {
        DEPTHS.map(|at| (format!("{name} {at}"), fixed + each * at))
    });
    // The session comes first, because its names are verified again after half a second.
    let expected = [("session".to_owned(), 0)].into_iter().chain(rows);
    let mut made = seen.made.iter().filter(|(row, _)| row != CHECKED);
    let mut wrong = String::new();
    for (row, most) in expected {
        let tries = made.by_ref().take(TRIES).map(|(marked, made)| {
            assert_eq!(*marked, row);
            made.iter().filter(|call| !IGNORED.contains(call)).count()
        });
        let fewest = tries.min().expect("the child marks each row");
        println!("{row}: {fewest} of at most {most}");
        if fewest > most {
            writeln!(wrong, "{row}: made {fewest} calls instead of at most {most}").unwrap();
        }
    }
    assert!(made.next().is_none(), "the child marked unknown rows");
    assert!(wrong.is_empty(), "{wrong}");
}

/// The traced child runs this.
fn make_requests() {
    let tree = Tree::new("");
    be_traced(&tree.path(""));
    for depth in DEPTHS {
        let entries = "file root/AT/f = content; link root/AT/l -> f; dir root/AT/d; \
                       link root/AT/back -> $T/root/AT/f; link root/AT/out -> /etc/passwd; \
                       link root/AT/ld -> .; file many/r0/AT/f; file root/AT/tree/a/f; \
                       file root/AT/tree/b/f";
        tree.add(&entries.replace("AT", &at(depth)));
    }
    let boundary = Boundary::builder().directory(tree.path("root"), Access::ReadWrite);
    let unmounted = boundary.refuse_mounts().build().unwrap();
    let many = (0..100).map(|number| format!("many/r{number}"));
    let many = many.inspect(|root| tree.add(&format!("dir {root}"))).map(|root| tree.uri(root));
    let many = crate::support::listed(&ListRootsResult::from_uris(many)).unwrap();
    let roots = [tree.roots(["root"]), many, unmounted.allowed_roots()];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let guard = Guard::new(Boundary::any_listed().build().unwrap());
    let announcing = ClientCapabilities::WithAnnouncedRoots;
    let session = guard.session(announcing).unwrap();
    let list = ListRootsResult::from_uris([tree.uri("root")]);
    runtime
        .block_on(session.roots(async |_: Option<String>| RootsResponse::List(list.clone())))
        .unwrap();
    stop();
    for _ in 0..TRIES {
        mark("session");
        let cached = runtime.block_on(session.roots(async |_: Option<String>| -> RootsResponse {
            unreachable!("the roots are cached")
        }));
        mark(CHECKED);
        cached.unwrap();
    }
    for (name, set, path, operation, expected, _) in ROWS {
        for depth in DEPTHS {
            let up = vec![".."; depth].join("/");
            let request = tree.expand(&path.replace("AT", &at(depth)).replace("UP", &up));
            let row = format!("{name} {depth}");
            for _ in 0..TRIES {
                mark(&row);
                let result = operation(&roots[*set], &request);
                mark(CHECKED);
                assert_eq!(code(result), *expected, "{row}");
            }
        }
    }
    stop();
    end_trace();
}

/// Each row is attempted this many times, and the attempt with the fewest calls counts.
/// Interference can only add calls. For example, a rename anywhere on the system can make `openat2`
/// restart at `..`, and a pause of half a second makes the guard verify names again.
const TRIES: usize = 20;

/// The mark after each row, before its result is checked.
const CHECKED: &str = "checked";

/// Calls that only the allocator or a debug build of `std` makes.
const IGNORED: [libc::c_long; 5] =
    [libc::SYS_fcntl, libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap];

/// The numbers of directories between the root and the requested file.
const DEPTHS: [usize; 2] = [1, 15];

fn at(depth: usize) -> String {
    vec!["name"; depth].join("/")
}

/// One root, a hundred roots, and one root whose policy refuses mounts.
const ONE: usize = 0;
const MANY: usize = 1;
const UNMOUNTED: usize = 2;

/// The name of the row, the roots, the requested path, the operation, the code of its error, and
/// the most system calls that it may make: a number, and one for each of the names of the depth.
/// The resolver looks up each name of a path that contains a symlink or leaves the root.
type Row = (
    &'static str,
    usize,
    &'static str,
    fn(&Roots, &str) -> Result<()>,
    Option<&'static str>,
    [usize; 2],
);

const OUTSIDE: Option<&str> = Some("outside_roots");
const NONE: Option<&str> = Some("not_found");

const ROWS: &[Row] = &[
    ("open", ONE, "$T/root/AT/f", open, None, [3, 0]),
    ("open in one of many", MANY, "$T/many/r0/AT/f", open, None, [3, 0]),
    ("open through a symlink", ONE, "$T/root/AT/l", open, None, [3, 0]),
    ("read", ONE, "$T/root/AT/f", |roots, f| roots.read(f, 100).map(drop), None, [5, 0]),
    ("check", ONE, "$T/root/AT/f", check, None, [2, 0]),
    ("check in one of many", MANY, "$T/many/r0/AT/f", check, None, [2, 0]),
    ("check a relative path", ONE, "AT/./f", check, None, [2, 0]),
    ("check through a symlink", ONE, "$T/root/AT/l", check, None, [4, 3]),
    ("check through ..", ONE, "$T/root/AT/d/../f", check, None, [2, 0]),
    ("check the root by ..", ONE, "$T/root/AT/UP", check, None, [2, 0]),
    ("check an absolute symlink", ONE, "$T/root/AT/back", check, None, [4, 6]),
    ("check a missing name", ONE, "$T/root/AT/new", check, None, [4, 0]),
    ("check a missing name below a symlink", ONE, "$T/root/AT/ld/new", check, None, [4, 3]),
    ("check below a symlink", ONE, "$T/root/AT/ld/f", check, None, [4, 3]),
    ("check a missing name through ..", ONE, "$T/root/AT/d/../new", check, None, [4, 0]),
    ("check a missing name, no mounts", UNMOUNTED, "$T/root/AT/new", check, None, [6, 0]),
    ("check with mounts refused", UNMOUNTED, "$T/root/AT/f", check, None, [5, 0]),
    ("check a symlink itself", ONE, "$T/root/AT/l", entry, None, [5, 0]),
    // Three of them open `/`.
    ("list a directory as a root", ONE, "$T/root/AT/d", narrow, None, [6, 0]),
    ("refuse a path", ONE, "$T/rooted/AT/f", check, OUTSIDE, [0, 0]),
    ("refuse ..", ONE, "$T/root/AT/UP/../x", check, OUTSIDE, [1, 3]),
    ("refuse a symlink", ONE, "$T/root/AT/out", check, OUTSIDE, [3, 3]),
    // The root is looked up, too, because it may be missing itself.
    ("refuse a missing file", ONE, "$T/root/AT/none", describe, NONE, [5, 0]),
    ("list a directory", ONE, "$T/root/AT/d", list, None, [6, 0]),
    // Four calls for each of the three directories, and none for an entry.
    ("walk a tree", ONE, "$T/root/AT/tree", walk, None, [14, 0]),
    ("replace a file", ONE, "$T/root/AT/f", write, None, [28, 0]),
    ("create and remove a file", ONE, "$T/root/AT/new", write_and_remove, None, [28, 0]),
    ("create and remove an empty file", ONE, "$T/root/AT/new", create_new, None, [16, 0]),
    ("rename a file and back", ONE, "$T/root/AT/f", rename, None, [40, 0]),
    ("copy a file and remove it", ONE, "$T/root/AT/f", copy, None, [47, 0]),
    ("create and remove a directory", ONE, "$T/root/AT/new", make, None, [27, 0]),
];

fn open(roots: &Roots, request: &str) -> Result<()> {
    roots.open(request).map(drop)
}

fn check(roots: &Roots, request: &str) -> Result<()> {
    roots.check(request).map(drop)
}

fn describe(roots: &Roots, request: &str) -> Result<()> {
    roots.metadata(request).map(drop)
}

fn entry(roots: &Roots, request: &str) -> Result<()> {
    roots.check_entry(request).map(drop)
}

fn narrow(_: &Roots, listed: &str) -> Result<()> {
    let boundary = Boundary::any_listed().build()?;
    boundary.narrow([ListEntry::from(listed)]).map(drop)
}

fn list(roots: &Roots, request: &str) -> Result<()> {
    roots.read_dir(request)?.try_for_each(|entry| entry.map(drop))
}

fn walk(roots: &Roots, request: &str) -> Result<()> {
    let mut walk = roots.walk(request, WalkOptions::default())?;
    while walk.next_entry()?.is_some() {}
    Ok(())
}

fn write(roots: &Roots, request: &str) -> Result<()> {
    roots.write(request, "content")
}

fn write_and_remove(roots: &Roots, request: &str) -> Result<()> {
    roots.write(request, "content")?;
    roots.remove_file(request)
}

fn create_new(roots: &Roots, request: &str) -> Result<()> {
    roots.open_with(request, OpenMode::CreateNew)?;
    roots.remove_file(request)
}

fn rename(roots: &Roots, request: &str) -> Result<()> {
    let other = format!("{request}.renamed");
    roots.rename(request, other.as_str(), Precondition::Missing)?;
    roots.rename(other.as_str(), request, Precondition::Missing)
}

fn copy(roots: &Roots, request: &str) -> Result<()> {
    let other = format!("{request}.copied");
    roots.copy(request, other.as_str(), 100, WriteOptions::default())?;
    roots.remove_file(other.as_str())
}

fn make(roots: &Roots, request: &str) -> Result<()> {
    roots.create_dir(request)?;
    roots.remove_dir(request)
}
