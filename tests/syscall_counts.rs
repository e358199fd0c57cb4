//! How many system calls each kind of request takes: what noise does not move, and so what keeps it fast.
//!
//! The test binary runs again as a traced child, as in [`crate::trace`].
#![cfg(target_arch = "x86_64")]

use std::fmt::Write as _;

use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, Error, Guard, Intent, ListRootsResult, Policy, Roots,
    RootsCapability, RootsResponse, Rule,
};
use nix::libc::{self, c_long};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::unistd::gettid;

use crate::support::tracer::{AS_IT_IS, THREAD, TRACED, mark, openat2_is_there, trace};
use crate::support::tree::Tree;

const BATTERY: &str = "syscall_counts::battery";

#[test]
fn each_request_takes_the_system_calls_that_it_is_known_to() {
    if !openat2_is_there() {
        return println!("without openat2 there are as many as names");
    }
    let seen = trace(AS_IT_IS, BATTERY, &["root", "many"], "none");
    let mut wrong = String::new();
    let works = WORKS
        .iter()
        .flat_map(|(name, .., calls)| DEPTHS.map(|depth| (format!("{name} {depth}"), *calls)));
    // The first, as its names are verified when half a second has passed.
    let expected = [("session".to_owned(), "")].into_iter().chain(works);
    let mut made = seen.made.iter().filter(|(row, _)| row != CHECKED);
    for (row, calls) in expected {
        let tries = made.by_ref().take(TRIES).map(|(marked, made)| {
            assert_eq!(*marked, row);
            made.iter().filter_map(|number| name(*number)).collect::<Vec<_>>()
        });
        let fewest = tries.min_by_key(Vec::len).expect("each row is marked").join(" ");
        println!("{row}: {fewest}");
        match more_than(&fewest, calls) {
            more if !more.is_empty() => {
                writeln!(wrong, "{row}: {fewest}, and not {calls}").unwrap();
            }
            _ if fewest != calls => println!("no worse than written, which is {calls}"),
            _ => {}
        }
    }
    assert!(made.next().is_none(), "there are more rows than are known");
    assert!(wrong.is_empty(), "{wrong}");
}

/// The calls of `made` that `written` lacks. Fewer calls are no failure: another kernel may need fewer.
fn more_than<'a>(made: &'a str, written: &str) -> Vec<&'a str> {
    let mut written: Vec<_> = written.split(' ').collect();
    let is_more = |call: &&str| match written.iter().position(|other| other == call) {
        Some(at) => {
            written.swap_remove(at);
            false
        }
        None => !call.is_empty(),
    };
    made.split(' ').filter(is_more).collect()
}

#[test]
fn only_more_calls_are_wrong() {
    assert_eq!(more_than("openat2 close", "openat2 statx close"), [""; 0]);
    assert_eq!(more_than("", "openat2"), [""; 0]);
    assert_eq!(more_than("openat2 openat2 close", "openat2 close"), ["openat2"]);
    assert_eq!(more_than("openat2 fstat", "openat2 statx"), ["fstat"]);
}

/// What the traced child runs.
#[test]
fn battery() {
    let tree = Tree::new("");
    let traced = std::env::var_os(TRACED).is_some();
    if traced {
        ptrace::traceme().unwrap();
        println!("{THREAD}{} {}", gettid(), tree.path("").display());
    }
    for depth in DEPTHS {
        let at = at(depth);
        tree.add(&format!("file root/{at}/f = content; link root/{at}/l -> f; link root/{at}/back -> $T/root/{at}/f"));
        tree.add(&format!(
            "link root/{at}/out -> /etc/passwd; dir root/{at}/d; link root/{at}/ld -> .; file many/r0/{at}/f"
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
            let kept = session
                .roots(async |_: Option<String>| -> RootsResponse {
                    unreachable!("the roots are kept")
                })
                .await;
            mark(CHECKED);
            kept.unwrap();
        }
    });
    for (name, (roots, path), work, expected, _) in WORKS {
        for depth in DEPTHS {
            let request = tree.expand(
                &path.replace("AT", &at(depth)).replace("UP", &vec![".."; depth].join("/")),
            );
            let row = format!("{name} {depth}");
            let roots = match roots {
                In::One => &one,
                In::Many => &many,
                In::Unmounted => &unmounted,
            };
            for _ in 0..TRIES {
                mark(&row);
                let result = work(roots, &request);
                mark(CHECKED);
                is(result, *expected, &row);
            }
        }
    }
    if traced {
        mark("over");
    }
}

/// How often each row is tried; the fewest calls count. What else goes on only adds some: a rename anywhere while `openat2` passes
/// `..` makes it one more, and a machine that stood still for half a second has the names verified.
const TRIES: usize = 20;

/// The mark after each row: what comes of it is looked at then.
const CHECKED: &str = "checked";

/// Names between the root and the one that is asked for.
const DEPTHS: [usize; 2] = [1, 15];

fn at(depth: usize) -> String {
    vec!["name"; depth].join("/")
}

#[derive(Clone, Copy, PartialEq)]
enum In {
    One,
    Many,
    /// One, whose mounts are refused.
    Unmounted,
}

type Work = fn(&Roots, &str) -> Result<(), Error>;

/// What is asked for in which roots, the work, what comes of it, and the calls that it takes, however deep it is.
type Row = (&'static str, (In, &'static str), Work, Option<&'static str>, &'static str);

const OUTSIDE: Option<&'static str> = Some("outside_roots");

const WORKS: &[Row] = &[
    ("open", (In::One, "$T/root/AT/f"), open, None, "openat2 fstat close"),
    ("open in one of many", (In::Many, "$T/many/r0/AT/f"), open, None, "openat2 fstat close"),
    ("open through a link", (In::One, "$T/root/AT/l"), open, None, "openat2 fstat close"),
    ("read", (In::One, "$T/root/AT/f"), read, None, "openat2 fstat read read close"),
    ("check", (In::One, "$T/root/AT/f"), check, None, "openat2 close"),
    ("check in one of many", (In::Many, "$T/many/r0/AT/f"), check, None, "openat2 close"),
    ("check a relative path", (In::One, "AT/./f"), check, None, "openat2 close"),
    ("check through a link", (In::One, "$T/root/AT/l"), check, None, THROUGH_LINK),
    ("check through ..", (In::One, "$T/root/AT/d/../f"), check, None, "openat2 close"),
    ("check the root by ..", (In::One, "$T/root/AT/UP"), check, None, "openat2 close"),
    ("check an absolute link", (In::One, "$T/root/AT/back"), check, None, THROUGH_LINK),
    ("create", (In::One, "$T/root/AT/new"), create, None, "openat2 statx close"),
    ("create what exists", (In::One, "$T/root/AT/f"), create, None, "openat2 statx close"),
    (
        "create below a linked directory",
        (In::One, "$T/root/AT/ld/new"),
        create,
        None,
        CREATE_BELOW_LINK,
    ),
    (
        "write below a linked directory",
        (In::One, "$T/root/AT/ld/f"),
        create,
        None,
        CREATE_BELOW_LINK,
    ),
    ("create through ..", (In::One, "$T/root/AT/d/../new"), create, None, "openat2 statx close"),
    (
        "create without mounts",
        (In::Unmounted, "$T/root/AT/new"),
        create,
        None,
        "openat2 openat2 close",
    ),
    (
        "write without mounts",
        (In::Unmounted, "$T/root/AT/f"),
        create,
        None,
        "openat2 openat2 statx close close",
    ),
    (
        "remove a link",
        (In::One, "$T/root/AT/l"),
        entry,
        None,
        "openat2 statx fstatfs readlinkat close",
    ),
    ("refuse a path", (In::One, "$T/rooted/AT/f"), check, OUTSIDE, ""),
    ("refuse ..", (In::One, "$T/root/AT/UP/../x"), check, OUTSIDE, "openat2"),
    ("refuse a link", (In::One, "$T/root/AT/out"), check, OUTSIDE, LINK_OUT),
    ("refuse what is not there", (In::One, "$T/root/AT/none"), check, Some("not_found"), NOT_FOUND),
];

/// After the walk the root's own name is compared with its open directory: that something is not there may
/// mean that the root is not.
const NOT_FOUND: &str = "openat2 openat2 fstat fstat close";

/// The walk that meets the link, then the directory that holds it, and the link itself.
const LINK_OUT: &str = "openat2 openat2 statx fstatfs readlinkat close";

/// The same, and a look at the name that the link leads to, in the same directory.
const THROUGH_LINK: &str = "openat2 openat2 statx fstatfs readlinkat statx close";

/// The walk to the parent meets the link; the directory that holds it is found by halves of sixteen
/// names. Then the link itself, and a look at the last name.
const CREATE_BELOW_LINK: &str = "openat2 openat2 openat2 openat2 openat2 openat2 statx fstatfs readlinkat \
                                 statx close close close close";

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

/// None of what a debug build of `std` asks besides, and of what the allocator does.
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
        other => other.to_string(),
    })
}
