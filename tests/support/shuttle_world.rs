//! A client that counts the versions of its list, its session, and who uses it.
//!
//! What is true of each call, whatever the schedule: one that began after `list_changed` told of a version is given none before it;
//! an answer is not given if one was told before it arrived; one that began after `close` returned is refused; the client is never asked
//! twice at a time, but for a question of before a change. A call of a client that does not announce
//! changes is given what the client had when the call began, or later.

use std::fs;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use mcp_roots_guard::{
    Access, Boundary, Changes, CheckedPath, ClientCapabilities, Guard, Intent, ListRootsResult,
    Roots, RootsCapability, RootsResponse, RootsSource, RootsState, Session,
};
use shuttle::future::yield_now;
use tempfile::TempDir;

/// Its own state is no step: what is told here was so at the last step.
pub(crate) struct World {
    top: Arc<TempDir>,
    pub(crate) guard: Guard,
    session: Session,
    announces: bool,
    /// The version of the list that the client has now, and the last of which `list_changed` told.
    version: AtomicU64,
    told: AtomicU64,
    /// How often it told.
    notices: AtomicU64,
    is_closing: AtomicBool,
    is_closed: AtomicBool,
    asked: AtomicU64,
    /// The questions that are open, each with the changes before its call.
    asking: Mutex<Vec<(u64, u64)>>,
    asked_at_once: AtomicBool,
    /// Of how many questions one is answered with an error; none if 0.
    fails: u64,
}

impl World {
    pub(crate) fn new(top: &Arc<TempDir>, announces: bool, fails: u64) -> Arc<Self> {
        let boundary =
            Boundary::builder().directory(top.path(), Access::ReadWrite).build().unwrap();
        let guard = Guard::new(boundary);
        let capability =
            if announces { RootsCapability::announcing() } else { RootsCapability::silent() };
        let session = guard.session(ClientCapabilities::with_roots(capability)).unwrap();
        let (version, told, asked) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let [is_closing, is_closed, asked_at_once] =
            std::array::from_fn(|_| AtomicBool::new(false));
        let asking = Mutex::default();

        Arc::new(Self {
            top: top.clone(),
            guard,
            session,
            announces,
            version,
            told,
            notices: AtomicU64::new(0),
            is_closing,
            is_closed,
            asked,
            asking,
            asked_at_once,
            fails,
        })
    }

    /// A request that needs roots.
    pub(crate) async fn call(&self) -> Option<Roots> {
        step();
        let (least, is_closed) = self.now();
        let least = AtomicU64::new(least);
        let given = self.session.roots(self.source(&least, self.changes_so_far())).await;
        match given {
            Ok(roots) => {
                let (given, least) = (version_of(&roots), least.load(SeqCst));
                assert!(given >= least, "given version {given} after {least} was told");
                assert!(!is_closed, "given roots after close returned");
                Some(roots)
            }
            Err(error) => {
                match error.code() {
                    "session_closed" => {
                        assert!(self.is_closing.load(SeqCst), "refused as closed before");
                    }
                    "roots_failed" => {
                        assert!(self.fails > 0 && !is_closed, "failed without a failure");
                    }
                    kind => panic!("{kind}"),
                }
                None
            }
        }
    }

    /// A request that is given up after so many polls, wherever it is then.
    pub(crate) async fn given_up(&self, mut polls: u32) {
        let mut call = pin!(self.call());
        poll_fn(|context| {
            if call.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            polls -= 1;
            context.waker().wake_by_ref();
            if polls == 0 { Poll::Ready(false) } else { Poll::Pending }
        })
        .await;
    }

    /// The client's list changes, and then it says so.
    pub(crate) fn change(&self) {
        step();
        let version = self.version.fetch_add(1, SeqCst) + 1;
        self.session.list_changed();
        self.told.fetch_max(version, SeqCst);
        self.notices.fetch_add(1, SeqCst);
    }

    pub(crate) fn close(&self) {
        step();
        self.is_closing.store(true, SeqCst);
        self.session.close();
        self.is_closed.store(true, SeqCst);
    }

    /// An iteration that asks whether it may go on.
    pub(crate) fn still(&self, checked: &CheckedPath, version: u64) {
        step();
        let (least, is_closed) = self.now();
        match self.session.still_allows(checked).map_err(|error| error.code()) {
            Ok(()) => assert!(
                version >= least && !is_closed,
                "still allowed: {version} after {least} was told"
            ),
            Err("session_closed") => {
                assert!(self.is_closing.load(SeqCst), "refused as closed before");
            }
            Err(kind) => assert!(!is_closed, "{kind} after close returned"),
        }
    }

    pub(crate) fn changes(&self) -> Changes {
        self.session.changes()
    }

    /// When nobody else is left.
    pub(crate) async fn end(&self) {
        assert!(!self.asked_at_once.load(SeqCst), "asked twice at a time");
        if self.is_closed.load(SeqCst) {
            assert!(self.call().await.is_none());
            assert_eq!(self.session.state(), RootsState::Closed);
            assert_eq!(self.guard.sessions(), 0);
            assert!(format!("{:?}", self.guard).contains("cached: 0"), "cached after close");
            return;
        }
        let asked = self.asked.load(SeqCst);
        let kept = self.session.state() == RootsState::Available;
        if let Some(roots) = self.call().await {
            assert_eq!(version_of(&roots), self.version.load(SeqCst), "not what the client has");
            let again = self.asked.load(SeqCst) - asked;
            assert_eq!(again, u64::from(!kept), "kept, and asked again");
        }
        // A stale mark is not lost.
        self.change();
        assert_ne!(self.session.state(), RootsState::Available);
        let given = self.call().await.map(|roots| version_of(&roots));
        assert!(self.fails > 0 || given == Some(self.version.load(SeqCst)), "not told anew");
    }

    fn now(&self) -> (u64, bool) {
        let version = if self.announces { &self.told } else { &self.version };
        (version.load(SeqCst), self.is_closed.load(SeqCst))
    }

    /// Changes that began, and notices that were read.
    fn changes_so_far(&self) -> (u64, u64) {
        (self.version.load(SeqCst), self.notices.load(SeqCst))
    }

    /// Asks the client, which takes a step to be asked and another for its answer to arrive. What was told until then counts.
    fn source<'a>(&'a self, least: &'a AtomicU64, began: (u64, u64)) -> impl RootsSource + 'a {
        move |_: Option<String>| async move {
            // A panic in here would be caught, as the author's.
            let asking = Asking::begin(self, began);
            yield_now().await;
            let number = self.asked.fetch_add(1, SeqCst) + 1;
            let answer = if self.fails > 0 && number % self.fails == 0 {
                RootsResponse::Failed("as it was told to".into())
            } else {
                let uri =
                    format!("file://{}/v{}", self.top.path().display(), self.version.load(SeqCst));
                RootsResponse::List(ListRootsResult::from_uris([uri]))
            };
            yield_now().await;
            drop(asking);
            least.fetch_max(self.told.load(SeqCst), SeqCst);
            answer
        }
    }
}

/// A question, until it is answered or given up, and the changes before its call.
struct Asking<'a>(&'a World, (u64, u64));

impl<'a> Asking<'a> {
    fn begin(world: &'a World, began: (u64, u64)) -> Self {
        let mut asking = world.asking.lock().unwrap();
        // Where something has changed since, a question of before may still be open: whoever asked it goes on later.
        let now @ (version, notices) = world.changes_so_far();
        let is_settled = began == now && version == notices;
        if is_settled && asking.contains(&now) && !world.is_closing.load(SeqCst) {
            world.asked_at_once.store(true, SeqCst);
        }
        asking.push(began);
        Self(world, began)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut asking = self.0.asking.lock().unwrap();
        let open = asking.iter().position(|asked| *asked == self.1).unwrap();
        asking.swap_remove(open);
    }
}

/// Others may run before whoever this is begins: else what comes first would be part of the step before.
fn step() {
    shuttle::thread::sleep(Duration::ZERO);
}

/// What a proof was made by.
pub(crate) fn proof(roots: &Roots) -> (CheckedPath, u64) {
    (roots.check("file", Intent::Existing).unwrap(), version_of(roots))
}

fn version_of(roots: &Roots) -> u64 {
    let root = roots.roots().next().unwrap();
    root.path().file_name().and_then(|name| name.to_str()?.strip_prefix('v')?.parse().ok()).unwrap()
}

/// A directory for each version of a list, with a file in it; in memory where that can be, once for all runs of a cast.
pub(crate) fn top() -> TempDir {
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let top = tempfile::Builder::new()
        .prefix("guard-")
        .tempdir_in(directory.canonicalize().unwrap())
        .unwrap();
    for version in 0..VERSIONS {
        let directory = top.path().join(format!("v{version}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file"), "").unwrap();
    }
    top
}

const VERSIONS: u64 = 8;
