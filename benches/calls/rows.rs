//! The rows of the comparison.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::process::Child;
use tokio::runtime::{Builder, Runtime};

use crate::client::{Call, Client, Era};
use crate::server::{WAYS, Way, serve};

/// The argument with which a child process serves over its standard input and output.
const SERVE: &str = "--serve";

pub(crate) fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, way, root] = arguments.as_slice()
        && first == SERVE
    {
        let way = WAYS.into_iter().find(|one| one.name() == way).unwrap();
        return runtime().block_on(async {
            let (read, write) = rmcp::transport::stdio_pipes();
            serve(way, root.into(), read, write).await;
        });
    }
    // `cargo test` runs this without `--bench`. It then only shows that it works.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let is_update = arguments.iter().any(|argument| argument == "--update");
    let work = tempfile::tempdir().unwrap();
    let root = work.path().canonicalize().unwrap().join("root");
    if let Some(at) = arguments.iter().position(|argument| argument == "--beside") {
        let [server, other] = [1, 2].map(|more| arguments.get(at + more).unwrap());
        let table = compare(&prepare(&work), &root, server, other);
        if is_update {
            update("servers.md", BESIDE_MARKS, BESIDE_HEAD, &table);
        }
        return;
    }
    let words: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let calls = prepare(&work);
    let mut table = Vec::new();
    for is_child in [false, true] {
        for era in [Era::Session, Era::Stateless] {
            for at_once in [1, 32] {
                for (name, count, call) in &calls {
                    let transport = if is_child { "stdio" } else { "in process" };
                    let row = format!("{transport}, {era:?}, {at_once} at once, {name}");
                    if words.iter().all(|word| row.contains(*word)) {
                        let (rounds, count) = if is_bench { (ROUNDS, *count) } else { (1, 2) };
                        let numbers = (at_once, rounds, count);
                        let servers = WAYS.map(|way| Server::of(way, is_child, &root));
                        let mut subjects = measure(&servers, era, call, numbers, &root);
                        print(&row, count, &mut subjects);
                        let line = report(&row, &mut subjects);
                        // The page contains what a client sees.
                        if is_child {
                            table.push(line);
                        }
                    }
                }
            }
        }
    }
    if is_update {
        update("speed.md", MARKS, HEAD, &table);
    }
}

/// Compares two servers over their standard input and output.
fn compare(
    rows: &[(&'static str, usize, Call)],
    root: &Path,
    server: &str,
    other: &str,
) -> Vec<String> {
    let servers = [("guard", server), ("other", other)].map(|(name, command)| {
        let mut command: Vec<String> = command.split(' ').map(str::to_owned).collect();
        command.push(root.to_str().unwrap().to_owned());
        Server { name: name.to_owned(), start: Start::Child(command) }
    });
    let mut table = Vec::new();
    for at_once in [1, 32] {
        for (name, count, call) in rows {
            let row = format!("{at_once} at once, {name}");
            let numbers = (at_once, ROUNDS, *count);
            let mut subjects = measure(&servers, Era::Session, call, numbers, root);
            print(&row, *count, &mut subjects);
            let [guard, other]: &mut [Subject; 2] = subjects.as_mut_slice().try_into().unwrap();
            let mut cells = vec![row, speed(guard, other), ratio(guard, other, USED)];
            cells.extend([50, 99].map(|percent| latency(guard, other, percent)));
            table.push(format!("| {} |", cells.join(" | ")));
            println!("{}", table.last().unwrap());
        }
    }
    table
}

const ROUNDS: usize = 15;

fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().build().unwrap()
}

/// Creates the files. Returns the name, the number of calls in a batch, and the call of each row.
fn prepare(work: &TempDir) -> Vec<(&'static str, usize, Call)> {
    let root = work.path().canonicalize().unwrap().join("root");
    let directory = root.join("src/module");
    fs::create_dir_all(&directory).unwrap();
    fs::write(work.path().join("outside.txt"), "outside").unwrap();
    for number in 0..50 {
        fs::write(directory.join(format!("file-{number}.rs")), "").unwrap();
    }
    let file = |name: &str, size: usize| {
        let path = directory.join(name);
        fs::write(&path, "x".repeat(size)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let read = |path| Call { tool: "read_file", path, fails: false };
    let refused = directory.join("../../../outside.txt").to_str().unwrap().to_owned();
    let listed = directory.to_str().unwrap().to_owned();
    vec![
        ("1 KiB", 600, read(file("1k", 1 << 10))),
        ("64 KiB", 200, read(file("64k", 1 << 16))),
        ("1 MiB", 20, read(file("1m", 1 << 20))),
        ("list", 400, Call { tool: "list_directory", path: listed, fails: false }),
        ("refused", 600, Call { tool: "read_file", path: refused, fails: true }),
    ]
}

struct Server {
    name: String,
    start: Start,
}

enum Start {
    /// In this process.
    Here(Way),
    /// A program with its arguments, which serves over its standard input and output.
    Child(Vec<String>),
}

impl Server {
    fn of(way: Way, is_child: bool, root: &Path) -> Self {
        let program = std::env::current_exe().unwrap();
        let [program, root] = [&program, root].map(|path| path.to_str().unwrap().to_owned());
        let start = if is_child {
            Start::Child(vec![program, SERVE.to_owned(), way.name().to_owned(), root])
        } else {
            Start::Here(way)
        };
        Self { name: way.name().to_owned(), start }
    }
}

/// A running server, the client that uses it, and what was measured.
struct Subject {
    name: String,
    client: Client,
    /// The process of the server. `None` if it is this one.
    child: Option<Child>,
    /// The time and the processor time of each batch.
    batches: Vec<(Duration, Duration)>,
    latencies: Vec<Duration>,
}

fn measure(
    servers: &[Server],
    era: Era,
    call: &Call,
    (at_once, rounds, count): (usize, usize, usize),
    root: &Path,
) -> Vec<Subject> {
    let runtime = runtime();
    let mut subjects: Vec<_> =
        servers.iter().map(|server| runtime.block_on(connect(server, era, root))).collect();
    for round in 0..=rounds {
        for at in 0..subjects.len() {
            let number = (round + at) % subjects.len();
            let subject = subjects.get_mut(number).unwrap();
            let before = subject.processor_time();
            let took = runtime.block_on(subject.client.calls(
                call,
                count,
                at_once,
                &mut subject.latencies,
            ));
            let used = subject.processor_time().saturating_sub(before);
            if round == 0 {
                // The first round warms up.
                subject.latencies.clear();
            } else {
                subject.batches.push((took, used));
            }
        }
    }
    for subject in &mut subjects {
        if let Some(child) = &mut subject.child {
            runtime.block_on(child.kill()).unwrap();
        }
        subject.latencies.sort();
    }
    runtime.shutdown_background();
    subjects
}

async fn connect(server: &Server, era: Era, root: &Path) -> Subject {
    let name = root.to_str().unwrap();
    let (client, child) = match &server.start {
        Start::Child(command) => {
            let (program, arguments) = command.split_first().unwrap();
            let mut child = tokio::process::Command::new(program)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let (read, write) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
            (Client::connect(era, name, read, write).await, Some(child))
        }
        Start::Here(way) => {
            let (near, far) = tokio::io::duplex(1 << 16);
            let (read, write) = tokio::io::split(far);
            tokio::spawn(serve(*way, root.to_owned(), read, write));
            let (read, write) = tokio::io::split(near);
            (Client::connect(era, name, read, write).await, None)
        }
    };
    let name = server.name.clone();
    Subject { name, client, child, batches: Vec::new(), latencies: Vec::new() }
}

impl Subject {
    /// The processor time of the server's process so far.
    fn processor_time(&self) -> Duration {
        let clock = match &self.child {
            None => ClockId::CLOCK_PROCESS_CPUTIME_ID,
            Some(child) => {
                let number = child.id().unwrap().try_into().unwrap();
                clock_getcpuclockid(Pid::from_raw(number)).unwrap()
            }
        };
        clock_gettime(clock).unwrap().into()
    }

    fn percentile(&self, percent: usize) -> Duration {
        let at = (self.latencies.len() * percent / 100).min(self.latencies.len() - 1);
        self.latencies.get(at).copied().unwrap()
    }
}

/// Prints the absolute figures of each server.
fn print(row: &str, count: usize, subjects: &mut [Subject]) {
    for subject in subjects {
        let made = u32::try_from(subject.batches.len() * count).map(f64::from).unwrap();
        let total = |part: Part| subject.batches.iter().map(part).sum::<Duration>().as_secs_f64();
        let (per_second, cpu) = (made / total(TOOK), total(USED) / made * 1e6);
        let (half, most) = (subject.percentile(50), subject.percentile(99));
        println!(
            "{row}: {:14} {per_second:8.0} calls/s, p50 {half:9.1?}, p99 {most:9.1?}, CPU {cpu:6.1} µs",
            subject.name,
        );
    }
}

/// Returns the row of the table.
fn report(row: &str, subjects: &mut [Subject]) -> String {
    let [inline, blocking, tool]: &mut [Subject; 3] = subjects.try_into().unwrap();
    let cells = [row.to_owned(), speed(tool, blocking), speed(tool, inline)];
    let line = format!("| {} |", cells.join(" | "));
    println!("{line}");
    line
}

/// The part of a batch that is compared: the time, or the processor time.
type Part = fn(&(Duration, Duration)) -> Duration;
const TOOK: Part = |(took, _)| *took;
const USED: Part = |(_, used)| *used;

/// How much faster a server is than another, with the quartiles of the rounds.
fn speed(guard: &Subject, other: &Subject) -> String {
    let [low, median, high] = quartiles(guard, other, TOOK);
    format!("{median:.2} ({low:.2} to {high:.2})")
}

/// How much shorter a percentile of the calls' latencies is.
fn latency(guard: &Subject, other: &Subject, percent: usize) -> String {
    let [guard, other] = [guard, other].map(|one| one.percentile(percent).as_secs_f64());
    format!("{:.2}", other / guard)
}

fn ratio(guard: &Subject, other: &Subject, part: Part) -> String {
    format!("{:.2}", quartiles(guard, other, part)[1])
}

fn quartiles(guard: &Subject, other: &Subject, part: Part) -> [f64; 3] {
    let pairs = other.batches.iter().zip(&guard.batches);
    let mut ratios: Vec<f64> =
        pairs.map(|(other, guard)| part(other).as_secs_f64() / part(guard).as_secs_f64()).collect();
    ratios.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| ratios.get(ratios.len() * quarter / 4).copied().unwrap())
}

const HEAD: &str = "| call | `tool` ÷ blocking | `tool` ÷ inline |\n| --- | --- | --- |\n";

const BESIDE_HEAD: &str = "| call | speed | CPU | p50 | p99 |\n| --- | --- | --- | --- | --- |\n";

/// Writes a table to a page in `docs`.
fn update(page: &str, marks: [&str; 2], head: &str, rows: &[String]) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(marks[0]).unwrap();
    let (_, after) = rest.split_once(marks[1]).unwrap();
    let table = format!("{head}{}", rows.join("\n"));
    let text = format!("{before}{}\n\n{table}\n\n{}{after}", marks[0], marks[1]);
    fs::write(&page, text).unwrap();
}

const MARKS: [&str; 2] = ["<!-- from the bench calls -->", "<!-- end of calls -->"];
const BESIDE_MARKS: [&str; 2] =
    ["<!-- from the bench calls --beside -->", "<!-- end of beside -->"];
