//! What is done without the kernel, one piece of work so many times, to count its instructions: `pure WORK TIMES`.
//!
//! Goes in: the name of a work of [`WORKS`]; none lists them. Comes out: nothing; `benches/instructions` runs it under callgrind with two
//! numbers of times, so that the difference is the work alone, and compares it with `benches/instructions.txt`.
#![allow(clippy::unwrap_used)] // Its arguments are the script's.

#[allow(dead_code, unused_imports, reason = "the names of roots without the rest of the crate")]
#[path = "../src/path/index.rs"]
mod index;

#[allow(dead_code, unused_imports, reason = "the same")]
#[path = "../src/path/names/mod.rs"]
mod names;

use std::ffi::OsStr;
use std::hint::black_box;
use std::path::Path;

use mcp_roots_guard::{
    Boundary, ClientCapabilities, Guard, Intent, ListRootsResult, Location, Roots, RootsCapability,
    RootsResponse,
};

use crate::index::{PathIndex, RootKind};

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
        let roots = Roots::from_dirs(["/tmp"]).unwrap();
        repeat(times, || roots.check(black_box(PATH), Intent::Existing).unwrap_err());
    }),
    ("session", session),
];

/// Eight names below a root.
const PATH: &str = "/srv/projects/root0/directory1/directory2/directory3/directory4/directory5/directory6/directory7/file8";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [work, times] => {
            let (_, work) = WORKS.iter().find(|(name, _)| name == work).unwrap();
            work(times.parse().unwrap());
        }
        // As `cargo bench` and `cargo test` run it.
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

/// In which of so many roots a path is.
fn contain(roots: u32, times: u32) {
    let mut aliases = PathIndex::default();
    for number in 0..roots {
        aliases.add(Path::new(&format!("/srv/projects/root{number}")), RootKind::Directory);
    }
    repeat(times, || assert!(aliases.begin(OsStr::new(black_box(PATH))).is_some()));
}

/// A client's kept roots.
fn session(times: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let guard = Guard::new(Boundary::builder().client_roots_only().build().unwrap());
    let session =
        guard.session(ClientCapabilities::with_roots(RootsCapability::announcing())).unwrap();
    runtime.block_on(async {
        let told = async |_: Option<String>| {
            RootsResponse::List(ListRootsResult::from_uris(["file:///tmp"]))
        };
        session.roots(told).await.unwrap();
        for _ in 0..times {
            let kept =
                async |_: Option<String>| -> RootsResponse { unreachable!("the roots are kept") };
            drop(black_box(session.roots(kept).await.unwrap()));
        }
    });
}
