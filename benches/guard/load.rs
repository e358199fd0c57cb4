//! Benchmarks `open` with the cached roots of many clients, on one and two threads.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use mcp_roots_guard::{
    Boundary, ClientCapabilities, Guard, ListRootsResult, RootsResponse, Session,
};

use crate::tree::{Tree, grow, names};
use crate::ways::open_beneath;

const SESSIONS: usize = 10_000;

/// The number of directories.
const DIRECTORIES: usize = 100;

const DEPTH: usize = 8;

/// Measures the time in which each thread opens one file. Each thread uses half of the clients and
/// directories, even if there is only one thread, so threads share no client, directory or file.
/// The bare system calls use the same directories without clients.
pub(crate) fn load(criterion: &mut Criterion) {
    let tree = Tree::new();
    let directories: Vec<PathBuf> =
        (0..DIRECTORIES).map(|number| tree.root.join(format!("root{number}"))).collect();
    for directory in &directories {
        grow(directory, DEPTH);
    }
    let guard = Guard::new(Boundary::any_listed().build().unwrap());
    let clients: Vec<(Session, String)> = runtime().block_on(async {
        let mut clients = Vec::new();
        for directory in directories.iter().cycle().take(SESSIONS) {
            let session = guard.session(ClientCapabilities::WithAnnouncedRoots).unwrap();
            let list = ListRootsResult::from_uris([format!("file://{}", directory.display())]);
            session
                .roots(async |_: Option<String>| RootsResponse::List(list.clone()))
                .await
                .unwrap();
            clients.push((session, directory.join(names(DEPTH)).to_str().unwrap().to_owned()));
        }
        clients
    });
    let held: Vec<File> =
        directories.iter().map(|directory| File::open(directory).unwrap()).collect();
    let relative = names(DEPTH);

    let mut group = criterion.benchmark_group("load");
    for threads in [1, 2] {
        group.bench_function(BenchmarkId::new("guard", threads), |b| {
            b.iter_custom(|count| {
                at_once(threads, |thread| {
                    let mut mine = clients.iter().skip(thread).step_by(2).cycle();
                    runtime().block_on(async {
                        for _ in 0..count {
                            let (session, request) = mine.next().unwrap();
                            let cached = async |_: Option<String>| -> RootsResponse {
                                unreachable!("the roots are cached")
                            };
                            let roots = session.roots(cached).await.unwrap();
                            drop(roots.open(request.as_str()).unwrap());
                        }
                    });
                })
            });
        });
        group.bench_function(BenchmarkId::new("openat2", threads), |b| {
            b.iter_custom(|count| {
                at_once(threads, |thread| {
                    let mut mine = held.iter().skip(thread).step_by(2).cycle();
                    for _ in 0..count {
                        drop(open_beneath(mine.next().unwrap(), &relative));
                    }
                })
            });
        });
    }
}

/// Runs the work on several threads, which start together. Returns the time from the start of the
/// first thread to the end of the last.
fn at_once(threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    let start = Barrier::new(threads);
    let took: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let one = |thread| {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                let began = Instant::now();
                work(thread);
                (began, Instant::now())
            })
        };
        let all: Vec<_> = (0..threads).map(one).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (first, last) =
        (took.iter().map(|(began, _)| *began).min(), took.iter().map(|(_, ended)| *ended).max());
    last.unwrap() - first.unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}
