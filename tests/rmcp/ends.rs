//! The three ends of a request's roots: its work has ended, its client withdrew them, or cancelled
//! it. After each, nothing begins through what was made from them, and work that goes on is over
//! within milliseconds.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{FileType, WalkOptions, WriteOptions};
use rmcp::model::CallToolResult;
use serde_json::json;
use tokio::sync::mpsc;

use crate::ended;
use crate::raw_client::{Raw, call, cancelled, list_changed, request};
use crate::server::Tree;

/// How each end comes, and the code that later refusals have.
const ENDS: [(&str, &str); 3] =
    [("ended", "roots_stale"), ("withdrawn", "roots_stale"), ("cancelled", "cancelled")];

/// Work that goes on until its roots refuse something, after it has called `begun`.
type Work = fn(&RequestRoots, &dyn Fn()) -> Result<(), HandlerError>;

/// A server with one tool, whose work reports what it does. The client declares no roots but for
/// the way "withdrawn".
struct Ending {
    raw: Raw,
    reports: mpsc::UnboundedReceiver<Report>,
    worker: Arc<Worker>,
}

/// The thread that runs the work.
#[derive(Default)]
struct Worker {
    number: AtomicI32,
    /// Its processor time in milliseconds when the handler dropped the work.
    at_end: AtomicU64,
}

impl Worker {
    fn processor_time(&self) -> u64 {
        processor_time(self.number.load(SeqCst))
    }
}

enum Report {
    Begun,
    /// The processor time of that thread in milliseconds, and the error's code.
    Over(u64, String),
}

impl Ending {
    async fn begin(tree: &Tree, end: &str, work: impl Into<Box<dyn WorkFn>>) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        let work = Arc::new(Mutex::new(Some(work.into())));
        let worker = Arc::<Worker>::default();
        let shared = worker.clone();
        let mut raw = Raw::to_tool(&tree.guard(), move |guard, call, ctx| {
            let (sender, work, worker) = (sender.clone(), work.clone(), shared.clone());
            let of_work = worker.clone();
            let work = move |roots: RequestRoots| {
                let work = work.lock().unwrap().take().unwrap();
                of_work.number.store(thread(), SeqCst);
                let begun = || sender.send(Report::Begun).unwrap();
                let over = work(&roots, &begun).unwrap_err().to_string();
                sender.send(Report::Over(processor_time(thread()), over)).unwrap();
                Ok(String::new())
            };
            async move {
                let done = guard.tool(&ctx, &call, work);
                if call.name != "ended" {
                    return done.await;
                }
                // The handler drops its work, which goes on in its slot.
                tokio::select! {
                    done = done => done,
                    () = tokio::time::sleep(Duration::from_millis(300)) => {
                        worker.at_end.store(worker.processor_time(), SeqCst);
                        Ok(CallToolResult::success(Vec::new()).into())
                    }
                }
            }
        });
        let roots = if end == "withdrawn" { json!({"listChanged": true}) } else { json!(null) };
        let capabilities = if roots.is_null() { json!({}) } else { json!({ "roots": roots }) };
        raw.initialize(capabilities).await;
        raw.send(&call(1, end, "")).await;
        if end == "withdrawn" {
            raw.answer_next(&json!({"roots": [{"uri": tree.uri("op")}]})).await;
        }
        Self { raw, reports, worker }
    }

    /// Ends the roots once the work has begun. Returns how many milliseconds of processor time the
    /// work took from then on, and its error.
    async fn end(mut self, end: &str) -> (u64, String) {
        let Some(Report::Begun) = self.reports.recv().await else { panic!("not begun") };
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut before = self.worker.processor_time();
        match end {
            "ended" => {
                self.raw.receive().await;
                before = self.worker.at_end.load(SeqCst);
            }
            "withdrawn" => self.raw.send(&list_changed()).await,
            _ => self.raw.send(&cancelled(1)).await,
        }
        self.raw.send(&request(2, "ping", json!({}))).await;
        let over = tokio::time::timeout(Duration::from_secs(60), self.reports.recv()).await;
        let Ok(Some(Report::Over(after, error))) = over else { panic!("{end}: the work goes on") };
        (after.saturating_sub(before), error)
    }
}

trait WorkFn: FnOnce(&RequestRoots, &dyn Fn()) -> Result<(), HandlerError> + Send {}

impl<F: FnOnce(&RequestRoots, &dyn Fn()) -> Result<(), HandlerError> + Send> WorkFn for F {}

impl From<Work> for Box<dyn WorkFn> {
    fn from(work: Work) -> Self {
        Box::new(work)
    }
}

fn thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// The first number of the file is the time in nanoseconds (Linux's
/// Documentation/scheduler/sched-stats.rst).
fn processor_time(thread: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap();
    stat.split(' ').next().unwrap().parse::<u64>().unwrap() / 1_000_000
}

/// A search as an author would write it, without a call that asks whether it is still wanted.
fn search(roots: &RequestRoots, begun: &dyn Fn()) -> Result<(), HandlerError> {
    begun();
    let mut found = 0;
    loop {
        let mut walk = roots.walk("flat", WalkOptions::default())?;
        while let Some(entry) = walk.next_entry()? {
            if entry.file_type() == FileType::File {
                let content = entry.read(1 << 20)?;
                found += usize::from(content.contains(&b'x'));
            }
        }
        assert_eq!(found, 0);
    }
}

/// As in a search that skips what it cannot read.
fn search_what_can_be_read(roots: &RequestRoots, begun: &dyn Fn()) -> Result<(), HandlerError> {
    begun();
    loop {
        let mut walk = roots.walk("flat", WalkOptions::default().skip_unreadable())?;
        while let Some(entry) = walk.next_entry()? {
            let _ = entry.read(1 << 20);
        }
    }
}

/// Only proofs that were made before.
fn read_proofs(roots: &RequestRoots, begun: &dyn Fn()) -> Result<(), HandlerError> {
    let entries = roots.read_dir("flat")?;
    let proofs = entries.map(|entry| entry?.follow()).collect::<Result<Vec<_>, _>>()?;
    begun();
    loop {
        for proof in &proofs {
            proof.read(1 << 20)?;
        }
    }
}

fn hash(roots: &RequestRoots, begun: &dyn Fn()) -> Result<(), HandlerError> {
    let large = roots.check("large")?;
    begun();
    large.content_hash(u64::MAX)?;
    panic!("a file of ten gigabytes was hashed in 100 ms");
}

fn copy(roots: &RequestRoots, begun: &dyn Fn()) -> Result<(), HandlerError> {
    begun();
    loop {
        let overwrite = WriteOptions::default();
        roots.copy("large", "copy", u64::MAX, overwrite)?;
    }
}

/// The time from the end is also that of the message that brings it, and of an operation that has
/// begun.
const MOST_MILLISECONDS: u64 = 50;

#[tokio::test(flavor = "multi_thread")]
async fn work_is_over_within_milliseconds_of_each_end() {
    let tree = Tree::new();
    tree.add("dir op/flat");
    let sparse = |path: String, size| {
        std::fs::File::create(path).unwrap().set_len(size).unwrap();
    };
    for number in 0..3000 {
        sparse(tree.path(&format!("op/flat/{number}")), 400 << 10);
    }
    sparse(tree.path("op/large"), 10_000_000_000);
    let works: [(&str, Work); 5] = [
        ("search", search),
        ("search of what can be read", search_what_can_be_read),
        ("reads through proofs", read_proofs),
        ("hash", hash),
        ("copy", copy),
    ];
    for (name, work) in works {
        for (end, code) in ENDS {
            let (took, error) = Ending::begin(&tree, end, work).await.end(end).await;
            println!("{name}, {end}: {took} ms of processor time after the end: {error}");
            assert!(took < MOST_MILLISECONDS, "{name}, {end}: {took} ms");
            let reason = if code == "cancelled" { "cancelled" } else { "roots" };
            assert!(error.contains(reason), "{name}, {end}: {error}");
            let left = std::fs::read_dir(tree.path("op")).unwrap();
            let is_temporary = |name: &str| name.starts_with(".guarded-fs-");
            let mut left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert!(!left.any(|name| is_temporary(&name)), "{name}, {end}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_begins_after_each_end() {
    for (end, code) in ENDS {
        let tree = Tree::new();
        let directory = std::path::PathBuf::from(tree.path("op"));
        ended::create(&directory);
        let work = move |roots: &RequestRoots, begun: &dyn Fn()| {
            let attempts = ended::attempts(roots);
            begun();
            while roots.ensure_usable().is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
            ended::assert_all_refused(attempts, &directory, code, "", end);
            Err(HandlerError::new("all was refused"))
        };
        let work: Box<dyn WorkFn> = Box::new(work);
        let (_, done) = Ending::begin(&tree, end, work).await.end(end).await;
        assert_eq!(done, "all was refused", "{end}");
    }
}
