//! The number of system calls that each kind of request makes. Unlike running time, this number is
//! hardly affected by noise, so the test detects small regressions.
//!
//! The test binary runs itself again as a traced child, as in [`crate::fs::syscall_trace`].
#![cfg(target_arch = "x86_64")]

use std::fmt::Write as _;

use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, Error, Guard, Intent, ListRootsResult, OpenOptions,
    Policy, Replace, Roots, RootsCapability, RootsResponse, Rule, WalkOptions, WriteOptions,
};
use nix::libc::{self, c_long};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::unistd::gettid;

use crate::support::tracer::{AS_IT_IS, THREAD, TRACED, mark, openat2_is_there, trace};
use crate::support::tree::Tree;

const TRACED_TEST: &str = "fs::syscall_counts::each_request_has_its_recorded_result";

#[test]
fn each_request_makes_no_more_system_calls_than_recorded() {
    if !openat2_is_there() {
        return println!("skipped: without openat2 the number of calls depends on the path");
    }
    let seen = trace(AS_IT_IS, TRACED_TEST, &["root", "many"], "none");
    let mut wrong = String::new();
    let rows = ROWS
        .iter()
        .flat_map(|(name, .., calls)| DEPTHS.map(|depth| (format!("{name} {depth}"), *calls)));
    // The session comes first, because its names are verified again after half a second.
    let expected = [("session".to_owned(), "")].into_iter().chain(rows);
    let mut made = seen.made.iter().filter(|(row, _)| row != CHECKED);
    for (row, calls) in expected {
        let tries = made.by_ref().take(TRIES).map(|(marked, made)| {
            assert_eq!(*marked, row);
            made.iter().filter_map(|number| name(*number)).collect::<Vec<_>>()
        });
        let fewest = tries.min_by_key(Vec::len).expect("the child marks each row").join(" ");
        println!("{row}: {fewest}");
        match more_than(&fewest, calls) {
            more if !more.is_empty() => {
                writeln!(wrong, "{row}: made {fewest}; expected {calls}").unwrap();
            }
            _ if fewest != calls => println!("no worse than the expected calls: {calls}"),
            _ => {}
        }
    }
    assert!(made.next().is_none(), "the child marked unknown rows");
    assert!(wrong.is_empty(), "{wrong}");
}

/// The calls in `made` that are not in `expected`. Fewer calls are not a failure, because another
/// kernel may need fewer.
fn more_than<'a>(made: &'a str, expected: &str) -> Vec<&'a str> {
    let mut expected: Vec<_> = expected.split(' ').collect();
    let is_more = |call: &&str| match expected.iter().position(|other| other == call) {
        Some(at) => {
            expected.swap_remove(at);
            false
        }
        None => !call.is_empty(),
    };
    made.split(' ').filter(is_more).collect()
}

#[test]
fn only_additional_system_calls_fail_the_comparison() {
    assert_eq!(more_than("openat2 close", "openat2 statx close"), [""; 0]);
    assert_eq!(more_than("", "openat2"), [""; 0]);
    assert_eq!(more_than("openat2 openat2 close", "openat2 close"), ["openat2"]);
    assert_eq!(more_than("openat2 fstat", "openat2 statx"), ["fstat"]);
}

/// The traced child runs this test.
#[test]
fn each_request_has_its_recorded_result() {
    let tree = Tree::new("");
    let traced = std::env::var_os(TRACED).is_some();
    if traced {
        ptrace::traceme().unwrap();
        println!("{THREAD}{} {}", gettid(), tree.path("").display());
    }
    for depth in DEPTHS {
        let at = at(depth);
        tree.add(&format!(
            "file root/{at}/f = content; link root/{at}/l -> f; \
            link root/{at}/back -> $T/root/{at}/f"
        ));
        tree.add(&format!(
            "link root/{at}/out -> /etc/passwd; dir root/{at}/d; link root/{at}/ld -> .; \
             file many/r0/{at}/f; file root/{at}/tree/a/f; file root/{at}/tree/b/f"
        ));
    }
    let one = tree.roots(["root"]);
    let policy = Policy::default().mounts(Rule::Refuse);
    let boundary = Boundary::builder()
        .directory(tree.path("root"), Access::ReadWrite)
        .policy(policy)
        .build()
        .unwrap();
    let unmounted = boundary.allowed_roots();
    let many: Vec<String> = (0..100).map(|number| format!("many/r{number}")).collect();
    for root in &many {
        tree.add(&format!("dir {root}"));
    }
    let uris = many.iter().map(|root| format!("file://{}", tree.path(root).display()));
    let many = Roots::from_list(&ListRootsResult::from_uris(uris)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let guard = Guard::new(Boundary::builder().client_roots_only().build().unwrap());
    let session =
        guard.session(ClientCapabilities::with_roots(RootsCapability::announcing())).unwrap();
    let list = ListRootsResult::from_uris([format!("file://{}", tree.path("root").display())]);
    runtime
        .block_on(session.roots(async |_: Option<String>| RootsResponse::List(list.clone())))
        .unwrap();
    let is = |result: Result<(), Error>, expected: Option<&'static str>, row: &str| {
        assert_eq!(result.map_err(|error| error.code()).err(), expected, "{row}");
    };
    if traced {
        raise(Signal::SIGSTOP).unwrap();
    }
    runtime.block_on(async {
        for _ in 0..TRIES {
            mark("session");
            let roots = session
                .roots(async |_: Option<String>| -> RootsResponse {
                    unreachable!("the roots are cached")
                })
                .await;
            mark(CHECKED);
            roots.unwrap();
        }
    });
    for (name, (roots, path), operation, expected, _) in ROWS {
        for depth in DEPTHS {
            let request = tree.expand(
                &path.replace("AT", &at(depth)).replace("UP", &vec![".."; depth].join("/")),
            );
            let row = format!("{name} {depth}");
            let roots = match roots {
                RootSet::One => &one,
                RootSet::Many => &many,
                RootSet::Unmounted => &unmounted,
            };
            for _ in 0..TRIES {
                mark(&row);
                let result = operation(roots, &request);
                mark(CHECKED);
                is(result, *expected, &row);
            }
        }
    }
    if traced {
        mark("over");
    }
}

/// Each row is attempted this many times, and the attempt with the fewest calls counts.
/// Interference can only add calls. For example, a rename anywhere on the system can make `openat2`
/// restart at `..`, and a pause of half a second makes the guard verify names again.
const TRIES: usize = 20;

/// The mark after each row, before its result is checked.
const CHECKED: &str = "checked";

/// The numbers of directories between the root and the requested file.
const DEPTHS: [usize; 2] = [1, 15];

fn at(depth: usize) -> String {
    vec!["name"; depth].join("/")
}

#[derive(Clone, Copy, PartialEq)]
enum RootSet {
    /// One root.
    One,
    /// One of a hundred roots.
    Many,
    /// One root whose policy refuses mounts.
    Unmounted,
}

type Operation = fn(&Roots, &str) -> Result<(), Error>;

/// The name of the row, the roots and the requested path, the operation, its result, and the system
/// calls that it makes at any depth.
type Row = (&'static str, (RootSet, &'static str), Operation, Option<&'static str>, &'static str);

const OUTSIDE: Option<&'static str> = Some("outside_roots");

const ROWS: &[Row] = &[
    ("open", (RootSet::One, "$T/root/AT/f"), open, None, "openat2 fstat close"),
    ("open in one of many", (RootSet::Many, "$T/many/r0/AT/f"), open, None, "openat2 fstat close"),
    ("open through a symlink", (RootSet::One, "$T/root/AT/l"), open, None, "openat2 fstat close"),
    ("read", (RootSet::One, "$T/root/AT/f"), read, None, "openat2 fstat read read close"),
    ("check", (RootSet::One, "$T/root/AT/f"), check, None, "openat2 close"),
    ("check in one of many", (RootSet::Many, "$T/many/r0/AT/f"), check, None, "openat2 close"),
    ("check a relative path", (RootSet::One, "AT/./f"), check, None, "openat2 close"),
    ("check through a symlink", (RootSet::One, "$T/root/AT/l"), check, None, THROUGH_LINK),
    ("check through ..", (RootSet::One, "$T/root/AT/d/../f"), check, None, "openat2 close"),
    ("check the root by ..", (RootSet::One, "$T/root/AT/UP"), check, None, "openat2 close"),
    ("check an absolute symlink", (RootSet::One, "$T/root/AT/back"), check, None, THROUGH_LINK),
    ("create", (RootSet::One, "$T/root/AT/new"), create, None, "openat2 statx close"),
    (
        "create an existing file",
        (RootSet::One, "$T/root/AT/f"),
        create,
        None,
        "openat2 statx close",
    ),
    (
        "create below a symlinked directory",
        (RootSet::One, "$T/root/AT/ld/new"),
        create,
        None,
        CREATE_BELOW_LINK,
    ),
    (
        "write below a symlinked directory",
        (RootSet::One, "$T/root/AT/ld/f"),
        create,
        None,
        CREATE_BELOW_LINK,
    ),
    (
        "create through ..",
        (RootSet::One, "$T/root/AT/d/../new"),
        create,
        None,
        "openat2 statx close",
    ),
    (
        "create with mounts refused",
        (RootSet::Unmounted, "$T/root/AT/new"),
        create,
        None,
        "openat2 openat2 close",
    ),
    (
        "write with mounts refused",
        (RootSet::Unmounted, "$T/root/AT/f"),
        create,
        None,
        "openat2 openat2 statx close close",
    ),
    (
        "remove a symlink",
        (RootSet::One, "$T/root/AT/l"),
        entry,
        None,
        "openat2 statx fstatfs readlinkat close",
    ),
    ("refuse a path", (RootSet::One, "$T/rooted/AT/f"), check, OUTSIDE, ""),
    ("refuse ..", (RootSet::One, "$T/root/AT/UP/../x"), check, OUTSIDE, "openat2"),
    ("refuse a symlink", (RootSet::One, "$T/root/AT/out"), check, OUTSIDE, LINK_OUT),
    (
        "refuse a missing file",
        (RootSet::One, "$T/root/AT/none"),
        check,
        Some("not_found"),
        NOT_FOUND,
    ),
    ("list a directory", (RootSet::One, "$T/root/AT/d"), list, None, LIST),
    ("walk a tree", (RootSet::One, "$T/root/AT/tree"), walk, None, WALK),
    ("replace a file", (RootSet::One, "$T/root/AT/f"), write, None, REPLACE),
    (
        "create and remove a file",
        (RootSet::One, "$T/root/AT/new"),
        write_and_remove,
        None,
        CREATE_AND_REMOVE,
    ),
    (
        "create and remove an empty file",
        (RootSet::One, "$T/root/AT/new"),
        create_new,
        None,
        CREATE_NEW_AND_REMOVE,
    ),
    ("rename a file and back", (RootSet::One, "$T/root/AT/f"), rename, None, RENAME_TWICE),
    ("copy a file and remove it", (RootSet::One, "$T/root/AT/f"), copy, None, COPY_AND_REMOVE),
    (
        "create and remove a directory",
        (RootSet::One, "$T/root/AT/new"),
        make,
        None,
        MAKE_AND_REMOVE,
    ),
];

/// After the failed look-up, the root's path is looked up and compared with its open directory,
/// because the root itself may be missing.
const NOT_FOUND: &str = "openat2 openat2 fstat fstat close";

/// The look-up that finds the symlink, and then the symlink itself.
const LINK_OUT: &str = "openat2 openat2 readlinkat close";

/// The same, followed by a look-up of the symlink's target.
const THROUGH_LINK: &str = "openat2 openat2 readlinkat close openat2 close";

/// The look-up of the parent finds the symlink. A binary search over sixteen names finds the
/// directory that contains it. The symlink itself and the last name follow.
const CREATE_BELOW_LINK: &str = "openat2 openat2 openat2 openat2 openat2 openat2 \
                                 statx fstatfs readlinkat statx close close close close";

/// The check, and then the directory. The second `getdents64` finds the end.
const LIST: &str = "openat2 close openat2 getdents64 getdents64 close";

/// The check, and then the same four calls for each of the three directories. No entry is described.
const WALK: &str = "openat2 close \
                    openat2 getdents64 getdents64 close \
                    openat2 getdents64 getdents64 close \
                    openat2 getdents64 getdents64 close";

/// The check, the parent, and the old file; the temporary file and its content; the permissions
/// and access lists of both files; the content is synced, the old file looked up again, the new one
/// renamed, and the directory synced.
const REPLACE: &str = "openat2 statx close openat2 statx openat2 write \
                       statx openat2 fstat fstat fgetxattr close fgetxattr fstat fchmod \
                       fsync statx renameat openat2 fsync close close close";

/// The same without an old file, and then the check, the parent and the removal.
const CREATE_AND_REMOVE: &str = "openat2 statx close openat2 statx openat2 write \
                                 fsync renameat2 openat2 fsync close close close \
                                 openat2 statx close openat2 unlinkat close";

/// The check and the file, and then the check, the parent and the removal.
const CREATE_NEW_AND_REMOVE: &str = "openat2 statx close openat2 fstat close \
                                     openat2 statx close openat2 unlinkat close";

/// Two checks, two parents, and the type of the entry, which must not be a directory with a
/// protected name in it, for each rename.
const RENAME_TWICE: &str = "openat2 statx close openat2 statx close \
                            openat2 openat2 statx renameat2 close close \
                            openat2 statx close openat2 statx close \
                            openat2 openat2 statx renameat2 close close";

/// Two checks; the source, the destination's directory, and the temporary file; the content and its
/// end, which std copies after it has described both files; the source's permissions; an empty file
/// that shows which permissions new files have, and its removal; the permissions of the copy;
/// durability and the rename; the removal.
const COPY_AND_REMOVE: &str = "openat2 close openat2 statx close openat2 fstat \
                               openat2 statx openat2 statx statx \
                               copy_file_range copy_file_range fstat fgetxattr \
                               openat2 fstat fgetxattr close unlinkat \
                               fgetxattr fstat fgetxattr fchmod \
                               fsync renameat2 openat2 fsync close close close close \
                               openat2 statx close openat2 unlinkat close";

/// The check, the parent and the directory. Before the removal, the directory is compared with the
/// root, under whatever name it is requested.
const MAKE_AND_REMOVE: &str = "openat2 statx close openat2 mkdirat close \
                               openat2 statx close openat2 statx openat2 fstat close \
                               openat2 fstat close unlinkat close";

fn open(roots: &Roots, request: &str) -> Result<(), Error> {
    roots.open(request).map(drop)
}

fn read(roots: &Roots, request: &str) -> Result<(), Error> {
    roots.read(request, 100).map(drop)
}

fn check(roots: &Roots, request: &str) -> Result<(), Error> {
    roots.check(request, Intent::Existing).map(drop)
}

fn create(roots: &Roots, request: &str) -> Result<(), Error> {
    roots.check(request, Intent::New).map(drop)
}

fn entry(roots: &Roots, request: &str) -> Result<(), Error> {
    roots.check(request, Intent::NoFollow).map(drop)
}

fn list(roots: &Roots, request: &str) -> Result<(), Error> {
    roots.read_dir(request)?.try_for_each(|entry| entry.map(drop))
}

fn walk(roots: &Roots, request: &str) -> Result<(), Error> {
    let mut walk = roots.walk(request, WalkOptions::new())?;
    while walk.next_entry()?.is_some() {}
    Ok(())
}

fn write(roots: &Roots, request: &str) -> Result<(), Error> {
    roots.write(request, "content")
}

fn write_and_remove(roots: &Roots, request: &str) -> Result<(), Error> {
    roots.write(request, "content")?;
    roots.remove_file(request)
}

fn create_new(roots: &Roots, request: &str) -> Result<(), Error> {
    roots.open_with(request, OpenOptions::new().write(true).create_new(true))?;
    roots.remove_file(request)
}

fn rename(roots: &Roots, request: &str) -> Result<(), Error> {
    let other = format!("{request}.renamed");
    roots.rename(request, other.as_str(), Replace::Never)?;
    roots.rename(other.as_str(), request, Replace::Never)
}

fn copy(roots: &Roots, request: &str) -> Result<(), Error> {
    let other = format!("{request}.copied");
    roots.copy(request, other.as_str(), 100, WriteOptions::new())?;
    roots.remove_file(other.as_str())
}

fn make(roots: &Roots, request: &str) -> Result<(), Error> {
    roots.create_dir(request)?;
    roots.remove_dir(request)
}

/// The name of a system call. Calls that only a debug build of `std` or the allocator makes are
/// left out.
fn name(number: c_long) -> Option<String> {
    Some(match number {
        libc::SYS_fcntl | libc::SYS_brk | libc::SYS_mmap | libc::SYS_munmap | libc::SYS_mremap => {
            return None;
        }
        libc::SYS_openat2 => "openat2".into(),
        libc::SYS_fstat => "fstat".into(),
        libc::SYS_statx => "statx".into(),
        libc::SYS_fstatfs => "fstatfs".into(),
        libc::SYS_newfstatat => "fstatat".into(),
        libc::SYS_readlinkat => "readlinkat".into(),
        libc::SYS_read => "read".into(),
        libc::SYS_close => "close".into(),
        libc::SYS_copy_file_range => "copy_file_range".into(),
        libc::SYS_fgetxattr => "fgetxattr".into(),
        libc::SYS_fchmod => "fchmod".into(),
        libc::SYS_fsync => "fsync".into(),
        libc::SYS_getdents64 => "getdents64".into(),
        libc::SYS_mkdirat => "mkdirat".into(),
        libc::SYS_openat => "openat".into(),
        libc::SYS_renameat => "renameat".into(),
        libc::SYS_renameat2 => "renameat2".into(),
        libc::SYS_unlinkat => "unlinkat".into(),
        libc::SYS_write => "write".into(),
        other => other.to_string(),
    })
}
