//! Measures how cost grows with the number of roots, patterns, names, entries and clients:
//! `cargo bench -p benches --bench growth`. Prints a line of tab-separated fields for each
//! measurement: question, series, number, nanoseconds. `benches/growth.py` makes
//! docs/growth.md of them. Takes some minutes, 20,000 open files (`ulimit -n`), and half a gigabyte
//! in the temporary directory.
//!
//! A measurement is the median of five batches, which are interleaved: a batch of each measurement
//! of a question follows the other.
#![allow(clippy::unwrap_used)] // A benchmark cannot continue without its files.

use std::fs::{self, File};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use guarded_fs::ErrorKind;
use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, Guard, ListEntry, ListRootsResult, Roots, RootsResponse,
    Session, WalkOptions, kinds,
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const BATCHES: usize = 5;

/// The least time of a batch.
const BATCH: Duration = Duration::from_millis(40);

fn main() {
    // `cargo test` runs this without `--bench`. It then only shows that it works.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let scale = Scale { is_bench };
    roots(scale);
    patterns(scale);
    depth(scale);
    entries(scale);
    clients(scale);
    lists(scale);
}

#[derive(Clone, Copy)]
struct Scale {
    is_bench: bool,
}

impl Scale {
    /// The powers of ten up to this one.
    fn up_to(self, most: usize) -> Vec<usize> {
        let most = if self.is_bench { most } else { 10 };
        std::iter::successors(Some(1), |count| Some(count * 10))
            .take_while(|count| *count <= most)
            .collect()
    }
}

/// A measurement of a question.
struct Subject<'a> {
    series: &'static str,
    number: usize,
    /// What a call does is divided by this.
    per_call: usize,
    call: Box<dyn Fn() + 'a>,
}

impl<'a> Subject<'a> {
    fn new(series: &'static str, number: usize, call: impl Fn() + 'a) -> Self {
        Self { series, number, per_call: 1, call: Box::new(call) }
    }

    /// The time of one call, in nanoseconds.
    fn batch(&self) -> f64 {
        let (began, mut calls) = (Instant::now(), 0_u32);
        while calls == 0 || began.elapsed() < BATCH {
            (self.call)();
            calls += 1;
        }
        let parts = u32::try_from(self.per_call).map(f64::from).unwrap();
        began.elapsed().as_secs_f64() * 1e9 / f64::from(calls) / parts
    }
}

fn measure(question: &str, subjects: &[Subject<'_>]) {
    let mut times = vec![Vec::new(); subjects.len()];
    for _ in 0..BATCHES {
        for (subject, times) in subjects.iter().zip(&mut times) {
            times.push(subject.batch());
        }
    }
    for (subject, mut times) in subjects.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let middle = times.get(times.len() / 2).unwrap();
        println!("{question}\t{}\t{}\t{middle:.0}", subject.series, subject.number);
    }
}

/// Prints the refusal of what exceeds a limit of the guard. No other one says how cost grows.
fn unless_limited<T>(what: &str, done: guarded_fs::Result<T>) -> Option<T> {
    match done {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::TooManyRoots
                    | ErrorKind::TooManyEntries
                    | ErrorKind::TooLarge
                    | kinds::BUSY
            ) =>
        {
            println!("# {what}: \"{error}\"");
            None
        }
        done => Some(done.unwrap()),
    }
}

/// A directory with this many directories, each of which contains a file.
fn directories(count: usize) -> (TempDir, Vec<PathBuf>) {
    let work = tempfile::tempdir().unwrap();
    let top = work.path().canonicalize().unwrap();
    let create = |number| {
        let directory = top.join(format!("root{number}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file.txt"), "content").unwrap();
        directory
    };
    let all = (0..count).map(create).collect();
    (work, all)
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Checks a file in the last of the roots.
fn roots(scale: Scale) {
    let counts = scale.up_to(100_000);
    let (_work, all) = directories(*counts.last().unwrap());
    let mut made = Vec::new();
    for count in counts {
        let some = all.get(..count).unwrap();
        let builder = some.iter().fold(Boundary::builder(), |builder, directory| {
            builder.directory(directory, Access::ReadOnly)
        });
        if let Some(boundary) =
            unless_limited(&format!("{count} allowed directories"), builder.build())
        {
            made.push(("allowed directories", count, boundary.allowed_roots()));
        }
        let whole = Boundary::any_listed().build().unwrap();
        let entries = some.iter().map(|directory| ListEntry::from(directory.to_str().unwrap()));
        let narrowed = whole.narrow(entries);
        if let Some(roots) = unless_limited(&format!("a list of {count} roots"), narrowed) {
            made.push(("roots of a client", count, roots));
        }
    }
    let subject = |(series, count, roots): &(&'static str, usize, Roots)| {
        let file = text(&all.get(count - 1).unwrap().join("file.txt"));
        let roots = roots.clone();
        Subject::new(series, *count, move || drop(black_box(roots.check(&file).unwrap())))
    };
    measure("roots", &made.iter().map(subject).collect::<Vec<_>>());
}

/// Checks a file below a boundary with patterns, none of which matches. One is compared only with
/// names that begin with its first letter.
fn patterns(scale: Scale) {
    let (_work, all) = directories(1);
    let directory = all.first().unwrap();
    let file = text(&directory.join("file.txt"));
    let boundary = |count, first: &str, is_denied: bool| {
        let patterns = (0..count).map(|number| format!("{first}-{number}.*"));
        let builder = Boundary::builder().directory(directory, Access::ReadWrite);
        let builder = patterns.fold(builder, |builder, pattern| {
            if is_denied { builder.deny(&pattern) } else { builder.protect(&pattern) }
        });
        builder.build().unwrap().allowed_roots()
    };
    let counts = scale.up_to(1_000);
    let subjects = counts.into_iter().flat_map(|count| {
        [
            ("check, denied names", "secret", true),
            ("check, protected names", "secret", false),
            ("check, denied names with the file's first letter", "file", true),
        ]
        .map(|(series, first, is_denied)| {
            let (roots, file) = (boundary(count, first, is_denied), file.clone());
            Subject::new(series, count, move || drop(black_box(roots.check(&file).unwrap())))
        })
    });
    measure("patterns", &subjects.collect::<Vec<_>>());
}

/// Checks and opens a file that is as many names below its root.
fn depth(scale: Scale) {
    let (_work, all) = directories(1);
    let top = all.first().unwrap();
    let roots = Roots::from_dirs([top], Access::ReadWrite).unwrap();
    let handle = File::open(top).unwrap();
    let depths: &[usize] = if scale.is_bench { &[1, 4, 16, 64] } else { &[1, 4] };
    let subjects = depths.iter().flat_map(|&depth| {
        let directory = (1..depth).fold(top.clone(), |path, _| path.join("directory"));
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("file.txt");
        fs::write(&file, "content").unwrap();
        let below = file.strip_prefix(top).unwrap().to_owned();
        let (first, second) = (text(&file), text(&file));
        let (roots, again, handle) = (roots.clone(), roots.clone(), &handle);
        [
            Subject::new("check", depth, move || drop(black_box(roots.check(&first).unwrap()))),
            Subject::new("open", depth, move || drop(again.open(&second).unwrap())),
            Subject::new("bare system calls to open", depth, move || open_bare(handle, &below)),
            Subject::new("`std::fs::canonicalize`", depth, move || {
                drop(black_box(file.canonicalize().unwrap()));
            }),
        ]
    });
    measure("depth", &subjects.collect::<Vec<_>>());
}

#[cfg(target_os = "linux")]
fn open_bare(top: &File, file: &Path) {
    use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
    let (flags, beneath) = (OFlags::RDONLY | OFlags::NONBLOCK, ResolveFlags::BENEATH);
    let file = openat2(top, file, flags, Mode::empty(), beneath).unwrap();
    assert!(FileType::from_raw_mode(fstat(&file).unwrap().st_mode).is_file());
}

#[cfg(not(target_os = "linux"))]
fn open_bare(_: &File, _: &Path) {}

/// Walks a directory. The time is that of an entry.
fn entries(scale: Scale) {
    let work = tempfile::tempdir().unwrap();
    let roots = Roots::from_dirs([work.path()], Access::ReadWrite).unwrap();
    let options = WalkOptions::default().max_entries(usize::MAX);
    let mut subjects = Vec::new();
    for count in scale.up_to(1_000_000) {
        let name = format!("entries{count}");
        let directory = work.path().join(&name);
        fs::create_dir(&directory).unwrap();
        for number in 0..count {
            File::create(directory.join(format!("file{number}.txt"))).unwrap();
        }
        let walk = |roots: &Roots| -> guarded_fs::Result<()> {
            let mut walk = roots.walk(&name, options)?;
            let mut seen = 0;
            while walk.next_entry()?.is_some() {
                seen += 1;
            }
            assert_eq!(seen, count);
            Ok(())
        };
        let title = format!("a walk of a directory of {count} entries");
        if unless_limited(&title, walk(&roots)).is_some() {
            let (roots, name) = (roots.clone(), name.clone());
            let call = move || {
                let mut walk = roots.walk(&name, options).unwrap();
                while let Some(entry) = walk.next_entry().unwrap() {
                    black_box(entry);
                }
            };
            subjects.push(Subject { per_call: count, ..Subject::new("walk, sorted", count, call) });
        }
        let call = move || {
            for entry in fs::read_dir(&directory).unwrap() {
                black_box(entry.unwrap());
            }
        };
        let series = "`std::fs::read_dir`, not sorted";
        subjects.push(Subject { per_call: count, ..Subject::new(series, count, call) });
    }
    measure("entries", &subjects);
}

/// Opens a file for one client after another. Each has its own list, of one of 100 directories.
fn clients(scale: Scale) {
    let (_work, all) = directories(100);
    let guard = Guard::new(Boundary::any_listed().build().unwrap());
    let runtime = runtime();
    let begin = |count: usize| -> Vec<(Session, String, PathBuf)> {
        let directories = all.iter().cycle().take(count);
        let begin = |directory: &PathBuf| {
            let session = guard.session(ClientCapabilities::WithAnnouncedRoots).unwrap();
            runtime.block_on(open(&session, directory, &text(&directory.join("file.txt"))));
            (session, text(&directory.join("file.txt")), directory.clone())
        };
        directories.map(begin).collect()
    };
    let most = *scale.up_to(100_000).last().unwrap();
    let sessions = begin(most);
    let another = guard.session(ClientCapabilities::WithAnnouncedRoots);
    drop(unless_limited(&format!("one session more than {most}"), another));
    let subjects = scale.up_to(most).into_iter().map(|count| {
        let (next, sessions) = (std::cell::Cell::new(0), sessions.get(..count).unwrap());
        let runtime = &runtime;
        Subject::new("open", count, move || {
            let (session, file, directory) = sessions.get(next.get()).unwrap();
            next.set((next.get() + 1) % count);
            runtime.block_on(open(session, directory, file));
        })
    });
    measure("clients", &subjects.collect::<Vec<_>>());
}

async fn open(session: &Session, directory: &Path, file: &str) {
    let source = async |_: Option<String>| {
        let uri = format!("file://{}", directory.display());
        RootsResponse::List(ListRootsResult::from_uris([uri]))
    };
    drop(session.roots(source).await.unwrap().open(file).unwrap());
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Narrows by a list. The time is that of an entry.
fn lists(scale: Scale) {
    let counts = scale.up_to(10_000);
    let (_work, all) = directories(*counts.last().unwrap());
    let boundary = Boundary::any_listed().build().unwrap();
    let subjects = counts.into_iter().map(|count| {
        let (boundary, some) = (boundary.clone(), all.get(..count).unwrap());
        let call = move || {
            let entries = some.iter().map(|directory| ListEntry::from(directory.to_str().unwrap()));
            drop(black_box(boundary.narrow(entries).unwrap()));
        };
        Subject { per_call: count, ..Subject::new("narrow", count, call) }
    });
    measure("lists", &subjects.collect::<Vec<_>>());
}
