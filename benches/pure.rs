//! Repeats an operation that makes no system calls, so that its instructions can be counted:
//! `pure NAME COUNT`.
//!
//! `NAME` is an operation in [`WORKS`]. Without these arguments, the program prints the name of
//! each operation and runs it once. `benches/instructions` runs the program under callgrind with
//! two counts. From the difference between the two results, the script computes the cost of the
//! operation alone, which it compares with `benches/instructions.txt`.
#![allow(clippy::unwrap_used)] // The arguments come from the script.

use std::ffi::OsStr;
use std::hint::black_box;
use std::path::Path;

use guarded_fs::internals::{PathIndex, RootKind};
use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, Guard, ListRootsResult, Location, Roots, RootsResponse,
};

type Work = fn(u32);

const WORKS: &[(&str, Work)] = &[
    ("parse-path", |times| repeat(times, || Location::parse(black_box(PATH)).unwrap())),
    ("parse-uri", |times| {
        let uri = format!("file://{PATH}");
        repeat(times, || Location::parse(black_box(&uri)).unwrap());
    }),
    ("contain-1", |times| contain(1, times)),
    ("contain-10000", |times| contain(10_000, times)),
    ("refuse-absolute", |times| {
        let roots = Roots::from_dirs(["/tmp"], Access::ReadWrite).unwrap();
        repeat(times, || roots.check(black_box(PATH)).unwrap_err());
    }),
    ("session", session),
];

/// A path of eight names beneath a root.
const PATH: &str = "/srv/projects/root0/directory1/directory2/directory3/directory4/directory5/\
                    directory6/directory7/file8";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [work, times] => {
            let (_, work) = WORKS.iter().find(|(name, _)| name == work).unwrap();
            work(times.parse().unwrap());
        }
        // `cargo bench` and `cargo test` pass other arguments or none.
        _ => WORKS.iter().for_each(|(name, work)| {
            println!("{name}");
            work(1);
        }),
    }
}

fn repeat<T>(times: u32, work: impl Fn() -> T) {
    for _ in 0..times {
        drop(black_box(work()));
    }
}

/// Finds the root that contains a path, in an index of `roots` roots.
fn contain(roots: u32, times: u32) {
    let mut aliases = PathIndex::default();
    for number in 0..roots {
        aliases.add(Path::new(&format!("/srv/projects/root{number}")), RootKind::Directory);
    }
    repeat(times, || assert!(aliases.strip_root(OsStr::new(black_box(PATH))).is_some()));
}

/// Obtains a client's cached roots.
fn session(times: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let guard = Guard::new(Boundary::any_listed().build().unwrap());
    let session = guard.session(ClientCapabilities::WithAnnouncedRoots).unwrap();
    runtime.block_on(async {
        let listed = async |_: Option<String>| {
            RootsResponse::List(ListRootsResult::from_uris(["file:///tmp"]))
        };
        session.roots(listed).await.unwrap();
        for _ in 0..times {
            let cached =
                async |_: Option<String>| -> RootsResponse { unreachable!("the roots are cached") };
            drop(black_box(session.roots(cached).await.unwrap()));
        }
    });
}
