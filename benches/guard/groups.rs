//! The benchmark groups, except `load`.

use std::ffi::OsStr;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use guarded_fs::internals::{PathIndex, RootKind};
use mcp_roots_guard::{
    Boundary, ClientCapabilities, Guard, ListRootsResult, Location, Roots, RootsResponse,
};
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::tree::{DEPTHS, Tree, grow, names};
use crate::ways::{self, Decision, Way};

pub(crate) fn all() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .nresamples(10_000)
        .configure_from_args();
    for group in [open, decide, roots, session, parse, contain, crate::load::load] {
        group(&mut criterion);
    }
    criterion.final_summary();
}

fn open(criterion: &mut Criterion) {
    let tree = Tree::new();
    for depth in DEPTHS {
        measure(criterion, "open", depth, ways::open(&tree, &tree.file(depth)));
        measure(criterion, "open-link", depth, ways::open(&tree, &tree.linked(depth)));
    }
    let tree = Tree::in_memory();
    for depth in DEPTHS {
        measure(criterion, "create-file", depth, ways::create(&tree, &tree.missing(depth)));
    }
}

fn decide(criterion: &mut Criterion) {
    let tree = Tree::new();
    for depth in DEPTHS {
        let decisions = [
            ("check", Decision::Existing, tree.file(depth)),
            ("create", Decision::New, tree.missing(depth)),
            ("refuse-absolute", Decision::Refused, tree.outside(depth)),
            ("refuse-dots", Decision::Refused, tree.dots_out(depth)),
            ("refuse-link", Decision::Refused, tree.link_out(depth)),
            ("absolute-link", Decision::Existing, tree.absolute_link(depth)),
        ];
        for (group, decision, path) in decisions {
            measure(criterion, group, depth, ways::decide(&tree, decision, &path));
        }
    }
}

fn measure(criterion: &mut Criterion, group: &str, depth: usize, ways: Vec<Way>) {
    let mut group = criterion.benchmark_group(group);
    for (subject, work) in ways {
        group.bench_function(BenchmarkId::new(subject, depth), |b| b.iter(&work));
    }
}

/// Measures requests in one of many roots.
fn roots(criterion: &mut Criterion) {
    const DEPTH: usize = 8;
    let mut group = criterion.benchmark_group("roots");
    for count in [1, 10, 100, 1_000, 10_000] {
        let tree = Tree::new();
        let paths: Vec<PathBuf> =
            (0..count).map(|number| tree.root.join(format!("root{number}"))).collect();
        for path in &paths {
            fs::create_dir(path).unwrap();
        }
        let uris = paths.iter().map(|path| format!("file://{}", path.display()));
        let only = Boundary::any_listed().build().unwrap();
        let roots = only.narrow(&ListRootsResult::from_uris(uris).roots).unwrap();
        assert_eq!(roots.iter().len(), count);
        let last = paths.last().unwrap();
        grow(last, DEPTH);
        let path = last.join(names(DEPTH));
        let request = path.to_str().unwrap();
        group.bench_function(BenchmarkId::new("guard", count), |b| {
            b.iter(|| roots.check(request).unwrap());
        });
    }
}

fn session(criterion: &mut Criterion) {
    const DEPTH: usize = 8;
    let tree = Tree::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let guard = Guard::new(Boundary::any_listed().build().unwrap());
    let session = guard.session(ClientCapabilities::WithAnnouncedRoots).unwrap();
    let uri = format!("file://{}", tree.root.display());
    let listed =
        async |_: Option<String>| RootsResponse::List(ListRootsResult::from_uris([uri.clone()]));
    let cached =
        async |_: Option<String>| -> RootsResponse { unreachable!("the roots are cached") };
    let path = tree.file(DEPTH);
    let request = path.to_str().unwrap();
    let roots = runtime.block_on(session.roots(listed)).unwrap();

    let mut group = criterion.benchmark_group("session");
    group.bench_function(BenchmarkId::new("bare", DEPTH), |b| {
        b.iter(|| roots.check(request).unwrap());
    });
    // Enters the runtime once per sample, because a server handles its calls inside the runtime.
    let enter = |count: u64, work: &dyn Fn(Roots)| {
        runtime.block_on(async {
            let start = Instant::now();
            for _ in 0..count {
                work(session.roots(cached).await.unwrap());
            }
            start.elapsed()
        })
    };
    group.bench_function(BenchmarkId::new("warm", DEPTH), |b| {
        b.iter_custom(|count| enter(count, &|roots| drop(roots.check(request).unwrap())));
    });
    group.bench_function(BenchmarkId::new("roots", DEPTH), |b| {
        b.iter_custom(|count| enter(count, &drop));
    });
    // For comparison, measures a look-up in a map with the same configuration as the guard's cache,
    // together with the same check.
    let map: Cache<u64, Arc<()>> = Cache::builder()
        .max_capacity(1 << 20)
        .weigher(|_, _| 1)
        .eviction_policy(EvictionPolicy::lru())
        .time_to_live(Duration::from_hours(1))
        .build();
    map.insert(1, Arc::default());
    group.bench_function(BenchmarkId::new("map", DEPTH), |b| {
        b.iter(|| {
            black_box(map.get(&1));
            roots.check(request).unwrap()
        });
    });
    // What a session adds to a check is much less than the check itself, so both take turns. With
    // fewer samples, each of them is the sum of more differences.
    group.sample_size(10);
    group.bench_function(BenchmarkId::new("added", DEPTH), |b| {
        b.iter_custom(|count| {
            let (warm, bare) = runtime.block_on(async {
                let (mut warm, mut bare) = (Duration::ZERO, Duration::ZERO);
                for number in 0..2 * count {
                    let start = Instant::now();
                    // Each comes first in every other turn: warm, bare, bare, warm.
                    if number % 4 == 0 || number % 4 == 3 {
                        let obtained = session.roots(cached).await.unwrap();
                        drop(obtained.check(request).unwrap());
                        drop(obtained);
                        warm += start.elapsed();
                    } else {
                        drop(roots.check(request).unwrap());
                        bare += start.elapsed();
                    }
                }
                (warm, bare)
            });
            warm.saturating_sub(bare)
        });
    });
}

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    for depth in DEPTHS {
        let path = Path::new("/srv/projects").join(names(depth));
        let path = path.to_str().unwrap();
        let uri = format!("file://{path}");
        group.bench_function(BenchmarkId::new("guard-path", depth), |b| {
            b.iter(|| Location::parse(path).unwrap());
        });
        group.bench_function(BenchmarkId::new("std-path", depth), |b| {
            b.iter(|| PathBuf::from(black_box(path)));
        });
        group.bench_function(BenchmarkId::new("guard-uri", depth), |b| {
            b.iter(|| Location::parse(&uri).unwrap());
        });
        group.bench_function(BenchmarkId::new("url-uri", depth), |b| {
            b.iter(|| url::Url::parse(&uri).unwrap().to_file_path().unwrap());
        });
    }
}

fn contain(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("contain");
    for count in [1, 100, 10_000] {
        let mut aliases = PathIndex::default();
        for number in 0..count {
            aliases.add(Path::new(&format!("/srv/projects/root{number}")), RootKind::Directory);
        }
        let path = Path::new("/srv/projects").join(format!("root{}", count / 2)).join(names(8));
        let roots: Vec<PathBuf> =
            (0..count).map(|number| format!("/srv/projects/root{number}").into()).collect();
        group.bench_function(BenchmarkId::new("guard", count), |b| {
            b.iter(|| aliases.strip_root(OsStr::new(black_box(&path))).unwrap());
        });
        group.bench_function(BenchmarkId::new("std", count), |b| {
            b.iter(|| roots.iter().position(|root| black_box(&path).starts_with(root)).unwrap());
        });
    }
}
