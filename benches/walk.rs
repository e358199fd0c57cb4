//! Compares walks of a large tree with other ways to walk it:
//! `cargo bench -p benches --bench walk [-- --update]`. `--update` writes the table to
//! docs/speed.md.
//!
//! Each round measures both walks, in alternating order, so that a change of the machine's speed
//! affects both. The result is the median of the rounds' ratios. It fails if a ratio exceeds its
//! bound. A walk that omits ignored entries is compared with the single-threaded walk of the crate
//! `ignore`, and a walk of all entries with the crate `walkdir`, as it is by default and with the
//! entries of each directory sorted by name, as the guard yields them, and with a recursion through
//! `std::fs::read_dir`. None of these verifies that a directory stays inside a root.
#![allow(clippy::unwrap_used)] // A benchmark cannot continue without its files.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use ignore::WalkBuilder;
use mcp_roots_guard::{Access, Roots, WalkOptions};
use walkdir::WalkDir;

/// The largest allowed ratio to the walk of the crate `ignore`.
const IGNORE_BOUND: f64 = 1.1;
/// The largest allowed ratio to the walks of the crate `walkdir`.
const WALKDIR_BOUND: f64 = 1.0;
/// The largest allowed ratio to the recursion through `std`, which does not sort.
const STD_BOUND: f64 = 1.1;

/// With these numbers, the tree has about 100,000 entries.
const DIRECTORIES: usize = 1_000;
const FILES: usize = 99;
const RULES: &str = "# build\n/target/\n*.o\n*.log\n!keep.log\nnode_modules/\n**/cache/*.tmp\n";

const ROUNDS: usize = 21;

fn main() -> ExitCode {
    let work = tempfile::tempdir().unwrap();
    // `cargo test` runs this without `--bench`. It then only shows that it works.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (directories, rounds) = if is_bench { (DIRECTORIES, ROUNDS) } else { (10, 1) };
    build(work.path(), directories);
    let roots = Roots::from_dirs([work.path()], Access::ReadWrite).unwrap();
    let all = WalkOptions::default().max_entries(usize::MAX);
    let sorted = || WalkDir::new(work.path()).sort_by_file_name();
    let ignored: Work = &|| walk(&roots, all.git_ignore());
    let whole: Work = &|| walk(&roots, all);
    let rows: [(&str, &str, f64, Work, Work); 4] = [
        ("with `git_ignore`", "`ignore`, one thread", IGNORE_BOUND, ignored, &|| {
            walk_with_ignore(work.path())
        }),
        ("all entries", "`walkdir`, sorted by name", WALKDIR_BOUND, whole, &|| {
            walk_with_walkdir(sorted())
        }),
        ("all entries", "`walkdir`, not sorted", WALKDIR_BOUND, whole, &|| {
            walk_with_walkdir(WalkDir::new(work.path()))
        }),
        (
            "all entries",
            "recursion through `std::fs::read_dir`, not sorted",
            STD_BOUND,
            whole,
            &|| recurse(work.path()),
        ),
    ];
    let mut all_met = true;
    let mut table = "| walk | compared with | ratio |\n| --- | --- | --- |".to_owned();
    for (walk, compared, bound, guard, other) in rows {
        assert_eq!(guard(), other(), "{compared}: both walks yield the same number of entries");
        let ratio = ratio(rounds, guard, other);
        let is_met = ratio <= bound || rounds == 1;
        all_met &= is_met;
        let verdict = if is_met { "met   " } else { "BROKEN" };
        let entries = guard();
        println!("{verdict} {ratio:.3}  {walk} ÷ {compared}, {entries} entries, at most {bound}");
        write!(table, "\n| {walk} | {compared} | {ratio:.2} |").unwrap();
    }
    if std::env::args().any(|argument| argument == "--update") {
        update(&table);
    }
    if all_met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes the table to the page.
fn update(table: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/speed.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let text = format!("{before}{}\n\n{table}\n\n{}{after}", MARKS[0], MARKS[1]);
    fs::write(&page, text).unwrap();
}

const MARKS: [&str; 2] = ["<!-- from the bench walk -->", "<!-- end of walk -->"];

/// Returns the number of entries that the walk yields.
type Work<'a> = &'a dyn Fn() -> usize;

/// Builds packages of ten directories. One entry in seven is ignored.
fn build(top: &Path, directories: usize) {
    fs::create_dir(top.join(".git")).unwrap();
    for number in 0..directories {
        let package = top.join(format!("package{}", number / 10));
        let directory = package.join(format!("module{}", number % 10));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..FILES {
            let ending = if file % 7 == 0 { "o" } else { "rs" };
            fs::write(directory.join(format!("file-{file}.{ending}")), "").unwrap();
        }
        if number % 10 == 0 {
            fs::write(package.join(".gitignore"), RULES).unwrap();
        }
    }
}

fn walk(roots: &Roots, options: WalkOptions) -> usize {
    let mut walk = roots.walk(".", options).unwrap();
    let mut count = 0;
    while let Some(entry) = walk.next_entry().unwrap() {
        black_box(entry.path());
        count += 1;
    }
    count
}

fn walk_with_ignore(top: &Path) -> usize {
    let walk = WalkBuilder::new(top)
        .hidden(false)
        .git_global(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    // The first entry is the directory itself.
    walk.map(|entry| drop(black_box(entry.unwrap().into_path()))).count() - 1
}

fn walk_with_walkdir(walk: WalkDir) -> usize {
    // The first entry is the directory itself.
    walk.into_iter().map(|entry| drop(black_box(entry.unwrap().into_path()))).count() - 1
}

fn recurse(directory: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        count += 1;
        let path = black_box(entry.path());
        if entry.file_type().unwrap().is_dir() {
            count += recurse(&path);
        }
    }
    count
}

/// The median ratio between the times of the guard's walk and of the other one.
fn ratio(rounds: usize, guard: Work, other: Work) -> f64 {
    let time = |work: Work| {
        let start = Instant::now();
        black_box(work());
        start.elapsed().as_secs_f64()
    };
    let mut ratios: Vec<f64> = (0..rounds)
        .map(|round| {
            if round % 2 == 0 {
                let guard = time(guard);
                guard / time(other)
            } else {
                let other = time(other);
                time(guard) / other
            }
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(rounds / 2).copied().unwrap()
}
