//! What the guard costs, beside the same work done by the bare system call and by plain `std`.
//!
//! Goes in: a tree in a temporary directory, and requests through 2, 8 and 16 names. Comes out: times under ids
//! `GROUP/SUBJECT/DEPTH`, so that one run gives ratios. What is proven: nothing but cost. `std` is the usual recipe,
//! which canonicalizes and compares; it is neither safe from races nor silent about what is outside. `openat2` is one
//! call beneath a held directory, which a way that comes back to a root, or a name that does not exist, would defeat.
//!
//! | group | does |
//! | --- | --- |
//! | `open` | opens a file by its absolute path, looks at what was opened, closes it |
//! | `check` | tells where a request really leads |
//! | `refuse` | refuses an absolute path outside, one through `..`, and a link out |
//! | `roots` | checks among so many roots: in the first, which is held open, and in the last, which may not be |
//! | `parse` | reads a request text |
#![allow(clippy::unwrap_used)] // Without its files there is nothing to measure.

use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use mcp_roots_guard::{Intent, ListRootsResult, Location, Roots};
use tempfile::TempDir;

const DEPTHS: [usize; 3] = [2, 8, 16];

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .nresamples(10_000)
        .configure_from_args();
    for group in [open, check, refuse, roots, parse] {
        group(&mut criterion);
    }
    criterion.final_summary();
}

fn open(criterion: &mut Criterion) {
    let tree = Tree::new();
    let roots = Roots::from_dirs([&tree.root]).unwrap();
    let mut group = criterion.benchmark_group("open");
    for depth in DEPTHS {
        let path = tree.root.join(names(depth));
        let request = path.to_str().unwrap();
        group.bench_function(BenchmarkId::new("guard", depth), |b| b.iter(|| roots.open(request).unwrap()));
        #[cfg(target_os = "linux")]
        {
            let root = File::open(&tree.root).unwrap();
            let relative = names(depth);
            group.bench_function(BenchmarkId::new("openat2", depth), |b| b.iter(|| kernel::open(&root, &relative)));
        }
        group.bench_function(BenchmarkId::new("std", depth), |b| b.iter(|| open_by_std(&tree.root, request)));
    }
}

fn check(criterion: &mut Criterion) {
    let tree = Tree::new();
    let roots = Roots::from_dirs([&tree.root]).unwrap();
    let mut group = criterion.benchmark_group("check");
    for depth in DEPTHS {
        let path = tree.root.join(names(depth));
        let request = path.to_str().unwrap();
        group.bench_function(BenchmarkId::new("guard", depth), |b| {
            b.iter(|| roots.check(request, Intent::Existing).unwrap());
        });
        #[cfg(target_os = "linux")]
        {
            let root = File::open(&tree.root).unwrap();
            let relative = names(depth);
            group.bench_function(BenchmarkId::new("openat2", depth), |b| b.iter(|| kernel::name(&root, &relative)));
        }
        group.bench_function(BenchmarkId::new("std", depth), |b| {
            b.iter(|| inside_by_std(&tree.root, request).unwrap());
        });
    }
}

fn refuse(criterion: &mut Criterion) {
    let tree = Tree::new();
    let roots = Roots::from_dirs([&tree.root]).unwrap();
    let mut group = criterion.benchmark_group("refuse");
    for depth in DEPTHS {
        let inside = tree.root.join(names(depth));
        let parent = inside.parent().unwrap();
        let requests = [
            ("absolute", tree.outside.join(names(depth))),
            ("dots", parent.join("../".repeat(depth)).join("outside").join(names(depth))),
            ("link", parent.join("out").join(names(depth))),
        ];
        for (how, path) in requests {
            let request = path.to_str().unwrap();
            assert!(path.exists(), "{request} is to be refused for where it is");
            group.bench_function(BenchmarkId::new(format!("guard-{how}"), depth), |b| {
                b.iter(|| roots.check(request, Intent::Existing).unwrap_err());
            });
            group.bench_function(BenchmarkId::new(format!("std-{how}"), depth), |b| {
                b.iter(|| assert_eq!(inside_by_std(&tree.root, request), None));
            });
        }
    }
}

fn roots(criterion: &mut Criterion) {
    const DEPTH: usize = 8;
    let mut group = criterion.benchmark_group("roots");
    for count in [1, 100, 10_000] {
        let tree = Tree::new();
        let paths: Vec<PathBuf> = (0..count).map(|number| tree.root.join(format!("root{number}"))).collect();
        for path in &paths {
            fs::create_dir(path).unwrap();
        }
        let roots = Roots::from_list(&ListRootsResult::from_uris(
            paths.iter().map(|path| format!("file://{}", path.display())),
        ));
        let roots = roots.unwrap();
        assert_eq!(roots.roots().len(), count);
        let ends = [("first", paths.first().unwrap()), ("last", paths.last().unwrap())];
        for (which, path) in ends.into_iter().take(count) {
            grow(path, DEPTH);
            let path = path.join(names(DEPTH));
            let request = path.to_str().unwrap();
            group.bench_function(BenchmarkId::new(format!("guard-{count}-{which}"), DEPTH), |b| {
                b.iter(|| roots.check(request, Intent::Existing).unwrap());
            });
        }
    }
}

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    for depth in DEPTHS {
        let path = Path::new("/srv/projects").join(names(depth));
        let path = path.to_str().unwrap();
        let uri = format!("file://{path}");
        group.bench_function(BenchmarkId::new("guard-path", depth), |b| b.iter(|| Location::parse(path).unwrap()));
        group.bench_function(BenchmarkId::new("std-path", depth), |b| b.iter(|| PathBuf::from(black_box(path))));
        group.bench_function(BenchmarkId::new("guard-uri", depth), |b| b.iter(|| Location::parse(&uri).unwrap()));
        group.bench_function(BenchmarkId::new("url-uri", depth), |b| {
            b.iter(|| url::Url::parse(&uri).unwrap().to_file_path().unwrap());
        });
    }
}

/// A root and a place outside, with a file at each depth, and beside each file in the root a link out.
struct Tree {
    _keep: TempDir,
    root: PathBuf,
    outside: PathBuf,
}

impl Tree {
    fn new() -> Self {
        let keep = tempfile::tempdir().unwrap();
        let top = keep.path().canonicalize().unwrap();
        let tree = Self { _keep: keep, root: top.join("root"), outside: top.join("outside") };
        for depth in DEPTHS {
            grow(&tree.root, depth);
            grow(&tree.outside, depth);
            symlink(&tree.outside, tree.root.join(names(depth)).with_file_name("out")).unwrap();
        }
        tree
    }
}

/// Makes a file so many names below a directory.
fn grow(directory: &Path, depth: usize) {
    let path = directory.join(names(depth));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "content").unwrap();
}

/// So many names, the last a file's.
fn names(depth: usize) -> PathBuf {
    (1..depth).map(|number| format!("directory{number}")).chain([format!("file{depth}")]).collect()
}

fn inside_by_std(root: &Path, request: &str) -> Option<PathBuf> {
    fs::canonicalize(request).ok().filter(|path| path.starts_with(root))
}

fn open_by_std(root: &Path, request: &str) -> File {
    let file = File::open(inside_by_std(root, request).unwrap()).unwrap();
    assert!(file.metadata().unwrap().is_file());
    file
}

/// What the kernel does for the guard, with nothing around it.
#[cfg(target_os = "linux")]
mod kernel {
    use std::fs::File;
    use std::os::fd::{AsRawFd as _, OwnedFd};
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat};

    pub(super) fn open(root: &File, path: &Path) -> OwnedFd {
        let file = beneath(root, path, OFlags::RDONLY | OFlags::NONBLOCK);
        assert!(FileType::from_raw_mode(fstat(&file).unwrap().st_mode).is_file());
        file
    }

    pub(super) fn name(root: &File, path: &Path) -> std::ffi::CString {
        let file = beneath(root, path, OFlags::PATH);
        readlinkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::with_capacity(256)).unwrap()
    }

    fn beneath(root: &File, path: &Path, flags: OFlags) -> OwnedFd {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).unwrap()
    }
}
