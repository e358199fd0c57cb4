//! Measures a guard with many clients:
//! `cargo bench -p benches --bench clients [-- --update]`. `--update` writes the tables to
//! docs/speed.md.
//!
//! Two threads call `Session::roots` and `Roots::open` for one client after another. Each client
//! has a list of its own. In the first table, each list names one of 100 directories, or a directory
//! of its own; on Linux, the same files are also opened by the bare system calls. In the second table,
//! a client's list is withdrawn before some of its calls, so that these calls request and resolve it
//! again. A source that answers at once stands for the client.
//!
//! The figures of a row are divided by those of one client in the same run.
#![allow(clippy::unwrap_used)] // A benchmark cannot continue without its files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use mcp_roots_guard::{
    Boundary, ClientCapabilities, Guard, ListRootsResult, RootsResponse, Session,
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const THREADS: usize = 2;

/// How many calls each thread makes in a row of the table.
const CALLS: usize = 60_000;

/// The number of rounds. The median of each figure counts.
const ROUNDS: usize = 5;

/// The number of directories that the clients share.
const SHARED: usize = 100;

const COUNTS: [usize; 3] = [1, 100, 10_000];

/// How many calls follow one withdrawal.
const STORMS: [usize; 3] = [100, 10, 1];

fn main() {
    // `cargo test` runs this without `--bench`. It then only shows that it works.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (counts, rounds, calls): (&[usize], _, _) =
        if is_bench { (&COUNTS, ROUNDS, CALLS) } else { (&[1, 10], 1, 100) };
    let work = tempfile::tempdir().unwrap();
    let most = counts.iter().copied().max().unwrap();
    let directories = prepare(&work, most);
    let tables =
        [sessions(&directories, counts, rounds, calls), storms(&directories, most, rounds, calls)];
    if std::env::args().any(|argument| argument == "--update") {
        update(&tables);
    }
}

fn prepare(work: &TempDir, count: usize) -> Vec<PathBuf> {
    let top = work.path().canonicalize().unwrap();
    let create = |number| {
        let directory = top.join(format!("root{number}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file.txt"), "content").unwrap();
        directory
    };
    (0..count.max(SHARED)).map(create).collect()
}

fn sessions(directories: &[PathBuf], counts: &[usize], rounds: usize, calls: usize) -> String {
    let mut table =
        "| clients | directories | calls per second | p50 | p99 | memory of a client |\n\
                     | --- | --- | --- | --- | --- | --- |"
            .to_owned();
    let bare = File::open("/").ok().filter(|_| cfg!(target_os = "linux"));
    let cases = [("100", SHARED, None), ("own", usize::MAX, None)];
    let bare = bare.map(|top| ("own, bare `openat2`", usize::MAX, Some(Arc::new(top))));
    for (name, kept, bare) in cases.into_iter().chain(bare) {
        let mut first = None;
        for &count in counts {
            let before = resident();
            let clients = Clients { bare: bare.clone(), ..Clients::new(directories, kept, count) };
            let memory = resident().saturating_sub(before) / count;
            let figures = clients.measure(rounds, calls, usize::MAX);
            let first = first.get_or_insert_with(|| figures.clone());
            // Below this, the figure is the allocator's granularity.
            let memory = Some(memory).filter(|_| count >= 1_000 && bare.is_none());
            let memory = memory.map_or(String::new(), |memory| format!("{memory} bytes"));
            let row = format!("| {count} | {name} | {} | {memory} |", figures.relative_to(first));
            println!("{row}   {figures:?}");
            table.push('\n');
            table.push_str(&row);
        }
    }
    table
}

fn storms(directories: &[PathBuf], count: usize, rounds: usize, calls: usize) -> String {
    let mut table = "| calls for each withdrawal | calls per second | p50 | p99 |\n\
                     | --- | --- | --- | --- |"
        .to_owned();
    let clients = Clients::new(directories, SHARED, count);
    let calm = clients.measure(rounds, calls, usize::MAX);
    for every in STORMS {
        let figures = clients.measure(rounds, calls / 10, every);
        let row = format!("| {every} | {} |", figures.relative_to(&calm));
        println!("{row}   {figures:?}");
        table.push('\n');
        table.push_str(&row);
    }
    table
}

struct Clients {
    /// Each client's session, the directory in its list, and a file in that directory.
    sessions: Vec<(Session, PathBuf, String)>,
    /// If there is one, the files are opened beneath this directory, without the guard.
    bare: Option<Arc<File>>,
}

#[derive(Clone, Debug)]
struct Figures {
    per_second: f64,
    half: Duration,
    most: Duration,
}

impl Clients {
    fn new(directories: &[PathBuf], kept: usize, count: usize) -> Self {
        let guard = Guard::new(Boundary::any_listed().build().unwrap());
        let declared = || ClientCapabilities::WithAnnouncedRoots;
        let directories = directories.iter().take(kept).cycle().take(count);
        let sessions = directories
            .map(|directory| {
                let file = directory.join("file.txt").to_str().unwrap().to_owned();
                (guard.session(declared()).unwrap(), directory.clone(), file)
            })
            .collect();
        let clients = Self { sessions, bare: None };
        runtime().block_on(async {
            for (session, directory, file) in &clients.sessions {
                call(session, directory, file).await;
            }
        });
        clients
    }

    /// Calls on each thread for its share of the clients, in a fixed order. Before each call whose
    /// number is divisible by `every`, the client's list is withdrawn.
    fn measure(&self, rounds: usize, calls: usize, every: usize) -> Figures {
        let mut all: Vec<Figures> = (0..rounds).map(|_| self.round(calls, every)).collect();
        let mut middle = |figure: fn(&Figures) -> f64| {
            all.sort_by(|one, other| figure(one).total_cmp(&figure(other)));
            figure(all.get(rounds / 2).unwrap())
        };
        Figures {
            per_second: middle(|figures| figures.per_second),
            half: Duration::from_secs_f64(middle(|figures| figures.half.as_secs_f64())),
            most: Duration::from_secs_f64(middle(|figures| figures.most.as_secs_f64())),
        }
    }

    fn round(&self, calls: usize, every: usize) -> Figures {
        let start = Barrier::new(THREADS);
        let one = |thread: usize| {
            let mut took = Vec::with_capacity(calls);
            // A single client is used by all threads.
            let skip = thread.min(self.sessions.len() - 1);
            let mut mine = self.sessions.iter().skip(skip).step_by(THREADS).cycle();
            let runtime = runtime();
            start.wait();
            let began = Instant::now();
            runtime.block_on(async {
                for number in 1..=calls {
                    let (session, directory, file) = mine.next().unwrap();
                    let call_began = Instant::now();
                    if number % every == 0 {
                        session.list_changed();
                    }
                    match &self.bare {
                        Some(top) => open_bare(top, file),
                        None => call(session, directory, file).await,
                    }
                    took.push(call_began.elapsed());
                }
            });
            (began.elapsed(), took)
        };
        let (longest, mut took) = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || one(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).fold(
                (Duration::ZERO, Vec::new()),
                |(longest, mut all), (took, mut each)| {
                    all.append(&mut each);
                    (longest.max(took), all)
                },
            )
        });
        took.sort_unstable();
        let at = |percent: usize| took.get(took.len() * percent / 100).copied().unwrap();
        let count = u32::try_from(took.len()).map(f64::from).unwrap();
        Figures { per_second: count / longest.as_secs_f64(), half: at(50), most: at(99) }
    }
}

impl Figures {
    fn relative_to(&self, other: &Self) -> String {
        let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
        format!(
            "{:.2} | {:.2} | {:.2}",
            self.per_second / other.per_second,
            ratio(self.half, other.half),
            ratio(self.most, other.most)
        )
    }
}

async fn call(session: &Session, directory: &Path, file: &str) {
    let source = async |_: Option<String>| {
        let uri = format!("file://{}", directory.display());
        RootsResponse::List(ListRootsResult::from_uris([uri]))
    };
    drop(session.roots(source).await.unwrap().open(file).unwrap());
}

#[cfg(target_os = "linux")]
fn open_bare(top: &File, file: &str) {
    use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
    let (flags, beneath) = (OFlags::RDONLY | OFlags::NONBLOCK, ResolveFlags::BENEATH);
    let file = openat2(top, file.trim_start_matches('/'), flags, Mode::empty(), beneath).unwrap();
    assert!(FileType::from_raw_mode(fstat(&file).unwrap().st_mode).is_file());
}

#[cfg(not(target_os = "linux"))]
fn open_bare(_: &File, _: &str) {}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// The bytes of memory of this process that are resident (proc(5), statm). Zero elsewhere than on
/// Linux.
fn resident() -> usize {
    const PAGE: usize = 4096;
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .map_or(0, |pages: usize| pages * PAGE)
}

/// Writes the tables to the page.
fn update(tables: &[String]) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/speed.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let tables = tables.join("\n\n");
    let text = format!("{before}{}\n\n{tables}\n\n{}{after}", MARKS[0], MARKS[1]);
    fs::write(&page, text).unwrap();
}

const MARKS: [&str; 2] = ["<!-- from the bench clients -->", "<!-- end of clients -->"];
