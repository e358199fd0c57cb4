//! Compares checks and opening with and without protected names:
//! `cargo bench -p benches --bench protected`.
//!
//! Each round measures both boundaries, in alternating order, so that a change of the machine's
//! speed affects both. The result is the median of the rounds' ratios. It fails if a ratio exceeds
//! [`BOUND`].
//!
//! The protected names are read-only names at any depth, denied names at any depth, and names
//! anchored at the allowed directory, and no request uses them.
#![allow(clippy::unwrap_used)] // A benchmark cannot continue without its files.

use std::fs;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use mcp_roots_guard::{Access, Boundary, BoundaryBuilder, Roots};

/// The largest allowed ratio between the times with and without protected names.
const BOUND: f64 = 1.1;

const PATTERNS: usize = 100;
const DEPTHS: [usize; 3] = [2, 8, 16];
const ROUNDS: usize = 401;
const REPEATED: u32 = 200;

type Protect = fn(BoundaryBuilder, usize) -> BoundaryBuilder;

const PROTECTIONS: &[(&str, Protect)] = &[
    ("read-only", |builder, number| builder.protect(format!(".protected{number}"))),
    ("denied", |builder, number| builder.deny(format!(".protected{number}"))),
    ("anchored", |builder, number| builder.protect(format!("/protected{number}/name"))),
    ("globs", |builder, number| builder.protect(format!(".protected{number}*"))),
];

fn main() -> ExitCode {
    let work = tempfile::tempdir().unwrap();
    let mut all_met = true;
    // `cargo test` runs this without `--bench`. It then only shows that it works.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { ROUNDS } else { 1 };
    for (name, protect) in PROTECTIONS {
        let plain = Boundary::builder().directory(work.path(), Access::ReadWrite);
        let protected = (0..PATTERNS).fold(plain.clone(), *protect);
        let [plain, protected] =
            [plain, protected].map(|builder| builder.build().unwrap().allowed_roots());
        for depth in DEPTHS {
            let names: Vec<String> = (1..depth).map(|level| format!("directory{level}")).collect();
            let directory = names.iter().fold(work.path().to_owned(), |path, name| path.join(name));
            fs::create_dir_all(&directory).unwrap();
            let file = directory.join("file");
            fs::write(&file, "").unwrap();
            let [file, new] =
                [file, directory.join("new")].map(|path| path.to_str().unwrap().to_owned());
            let works: [(&str, Work); 3] = [
                ("check", &|roots| drop(roots.check(black_box(&*file)).unwrap())),
                ("create", &|roots| drop(roots.check(black_box(&*new)).unwrap())),
                ("open", &|roots| drop(roots.open(black_box(&*file)).unwrap())),
            ];
            for (work, run) in works {
                let ratio = ratio(rounds, [&plain, &protected], run);
                let is_met = ratio <= BOUND || rounds == 1;
                all_met &= is_met;
                let verdict = if is_met { "met   " } else { "BROKEN" };
                println!("{verdict} {ratio:.3}  {work}/{depth}: {PATTERNS} {name} names ÷ none");
            }
        }
    }
    if all_met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

type Work<'a> = &'a dyn Fn(&Roots);

/// The median ratio between the times of the second and of the first roots.
fn ratio(rounds: usize, roots: [&Roots; 2], run: Work) -> f64 {
    let time = |roots: &Roots| {
        let start = Instant::now();
        (0..REPEATED).for_each(|_| run(roots));
        start.elapsed().as_secs_f64()
    };
    let mut ratios: Vec<f64> = (0..rounds)
        .map(|round| {
            if round % 2 == 0 {
                let plain = time(roots[0]);
                time(roots[1]) / plain
            } else {
                let protected = time(roots[1]);
                protected / time(roots[0])
            }
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(rounds / 2).copied().unwrap()
}
