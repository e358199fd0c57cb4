//! Any schedule of a session: which list decides a call, and that each call ends.
//!
//! Goes in: a schedule, as steps or as the bytes of a fuzzer. What is run is the public API: the calls' futures are polled by hand, one at
//! a time. What is checked, at each step and at the end, where all that is asked is answered:
//!
//! - a call that began after a change was notified is not decided by an older list; of a client that notifies nothing, by no list
//!   older than the call;
//! - a proof of a withdrawn list stands no more; a failure is told only where the client failed, and a closed session serves nothing;
//! - a session asks one question at a time, and no call waits for ever: somebody is asked, works, or is woken.
//!
//! A step is one poll, or one call of another method: what it leaves out is what other threads do in the middle of one.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use mcp_roots_guard::{
    Access, Answer, Boundary, CheckedPath, ErrorKind, Guard, Intent, ListRootsResult, Result, Roots, RootsCapability,
    Session,
};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Another call begins, and runs until it waits.
    Begin,
    /// A call runs on: it was woken, or its list is being resolved, which is waited for.
    Poll(usize),
    /// A call is dropped.
    Cancel(usize),
    /// The client answers what it is asked with the roots that it has now.
    Answer,
    /// The client answers with an error.
    Fail,
    /// The client's roots change.
    Change,
    /// The server reads that they changed.
    Notify,
    /// All snapshots are forgotten.
    Evict,
    /// The session is closed.
    Close,
}

/// Whether the client tells of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Announcing,
    Silent,
}

/// What all schedules have in common: directories `0`, `1`, …, which the client's roots change to in turn.
pub(crate) struct Stage {
    runtime: Runtime,
    guard: Guard,
    top: String,
    _keep: tempfile::TempDir,
}

/// One schedule on its way.
struct Play<'a> {
    stage: &'a Stage,
    client: Client,
    session: Session,
    calls: Vec<Option<Call>>,
    asked: Arc<Mutex<Vec<Question>>>,
    /// The client's roots, and the last that the server was told of.
    version: usize,
    notified: usize,
    failed: bool,
    closed: bool,
    evicted: bool,
    proofs: Vec<(usize, CheckedPath)>,
}

struct Question {
    call: usize,
    answer: oneshot::Sender<Answer>,
}

struct Call {
    future: Pin<Box<dyn Future<Output = Result<Roots>> + Send>>,
    /// No list before this one may decide it.
    from: usize,
    began_closed: bool,
    woken: Arc<Woken>,
    /// Its question was answered, and it has not asked again since.
    resolves: bool,
}

/// A waker that can be waited for.
#[derive(Default)]
struct Woken {
    rung: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let _lock = self.lock.lock().unwrap();
        self.rung.store(true, Ordering::SeqCst);
        self.bell.notify_all();
    }
}

impl Woken {
    fn is(&self) -> bool {
        self.rung.load(Ordering::SeqCst)
    }

    fn wait(&self, at_most: Duration) -> bool {
        let lock = self.lock.lock().unwrap();
        let (lock, _) = self.bell.wait_timeout_while(lock, at_most, |()| !self.is()).unwrap();
        drop(lock);
        self.is()
    }
}

/// The most calls and changes of one schedule.
const CALLS: usize = 6;
const VERSIONS: usize = 6;

impl Stage {
    pub(crate) fn new() -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let keep = tempfile::Builder::new().prefix("guard-").tempdir_in(place).unwrap();
        let top = keep.path().canonicalize().unwrap();
        for version in 0..=VERSIONS {
            std::fs::create_dir(top.join(version.to_string())).unwrap();
        }
        let guard = Guard::builder(Boundary::builder().directory(&top, Access::ReadWrite).build().unwrap());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build().unwrap();
        let guard = guard.fetch_limit(Duration::from_hours(1)).build().unwrap();
        Self { runtime, guard, top: top.to_str().unwrap().to_owned(), _keep: keep }
    }

    /// Runs a schedule to its end, and tells what could have come next. Steps that can not happen are left out.
    pub(crate) fn play(&self, client: Client, steps: &[Step]) -> Vec<Step> {
        let mut play = Play::new(self, client);
        for step in steps {
            if play.next().contains(step) {
                play.step(*step);
            }
        }
        let next = play.next();
        play.finish();
        next
    }

    /// Runs the schedule that bytes choose.
    pub(crate) fn play_bytes(&self, bytes: &[u8]) -> Vec<Step> {
        let (&first, rest) = bytes.split_first().unwrap_or((&0, &[]));
        let mut play = Play::new(self, if first & 1 == 0 { Client::Announcing } else { Client::Silent });
        let mut steps = Vec::new();
        for byte in rest.iter().take(64) {
            let next = play.next();
            let step = next[usize::from(*byte) % next.len()];
            play.step(step);
            steps.push(step);
        }
        play.finish();
        steps
    }
}

impl<'a> Play<'a> {
    fn new(stage: &'a Stage, client: Client) -> Self {
        let capability = match client {
            Client::Announcing => RootsCapability::announcing(),
            Client::Silent => RootsCapability::silent(),
        };
        Self {
            stage,
            client,
            session: stage.guard.session(Some(capability)).unwrap(),
            calls: Vec::new(),
            asked: Arc::default(),
            version: 0,
            notified: 0,
            failed: false,
            closed: false,
            evicted: false,
            proofs: Vec::new(),
        }
    }

    fn next(&self) -> Vec<Step> {
        let mut next = Vec::new();
        let alive = || self.calls.iter().enumerate().filter_map(|(number, call)| Some((number, call.as_ref()?)));
        next.extend(alive().filter(|(_, call)| call.resolves || call.woken.is()).map(|(number, _)| Step::Poll(number)));
        if self.is_asked() {
            next.extend([Step::Answer, Step::Fail]);
        }
        next.extend(alive().map(|(number, _)| Step::Cancel(number)));
        if self.calls.len() < CALLS {
            next.push(Step::Begin);
        }
        if self.version < VERSIONS {
            next.push(Step::Change);
        }
        if self.client == Client::Announcing && self.notified < self.version {
            next.push(Step::Notify);
        }
        if !self.evicted {
            next.push(Step::Evict);
        }
        if !self.closed {
            next.push(Step::Close);
        }
        if next.is_empty() {
            next.push(Step::Evict);
        }
        next
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Begin => self.begin(),
            Step::Poll(number) => self.poll(number),
            Step::Cancel(number) => self.calls[number] = None,
            Step::Answer => self.answer(&Answer::List(self.list())),
            Step::Fail => {
                self.failed = true;
                self.answer(&Answer::Failed(String::new()));
            }
            Step::Change => self.version += 1,
            Step::Notify => {
                self.notified = self.version;
                self.session.list_changed();
            }
            Step::Evict => self.stage.guard.forget_all(),
            Step::Close => {
                self.session.close();
                self.closed = true;
            }
        }
        self.evicted = step == Step::Evict;
        for (version, proof) in &self.proofs {
            if *version < self.notified || self.closed {
                assert!(self.session.still_allows(proof).is_err(), "a proof of roots {version} stands");
            }
        }
    }

    fn list(&self) -> ListRootsResult {
        ListRootsResult::from_uris([format!("file://{}/{}", self.stage.top, self.version)])
    }

    fn begin(&mut self) {
        let (number, asked, session) = (self.calls.len(), self.asked.clone(), self.session.clone());
        let source = move |_: Option<String>| {
            let (answer, told) = oneshot::channel();
            let mut asked = asked.lock().unwrap();
            asked.retain(|question| !question.answer.is_closed());
            assert!(asked.is_empty(), "two questions at a time");
            asked.push(Question { call: number, answer });
            async { told.await.unwrap_or(Answer::Failed("gone".into())) }
        };
        let future = Box::pin(async move { session.roots(source).await });
        let from = if self.client == Client::Announcing { self.notified } else { self.version };
        let woken = Arc::<Woken>::default();
        self.calls.push(Some(Call { future, from, began_closed: self.closed, woken, resolves: false }));
        self.poll_now(number);
    }

    fn is_asked(&self) -> bool {
        self.asked.lock().unwrap().iter().any(|question| !question.answer.is_closed())
    }

    fn answer(&mut self, answer: &Answer) {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        for question in asked {
            if question.answer.send(answer.clone()).is_ok()
                && let Some(call) = &mut self.calls[question.call]
            {
                call.resolves = true;
            }
        }
    }

    fn poll(&mut self, number: usize) {
        let Some(call) = &self.calls[number] else { return };
        assert!(call.woken.wait(Duration::from_secs(10)), "call {number} is never woken");
        self.poll_now(number);
    }

    fn poll_now(&mut self, number: usize) {
        let _runtime = self.stage.runtime.enter();
        let Some(call) = &mut self.calls[number] else { return };
        call.woken.rung.store(false, Ordering::SeqCst);
        let waker = Waker::from(call.woken.clone());
        let polled = call.future.as_mut().poll(&mut Context::from_waker(&waker));
        if self.asked.lock().unwrap().iter().any(|question| question.call == number) {
            call.resolves = false;
        }
        let Poll::Ready(decided) = polled else { return };
        let (from, began_closed) = (call.from, call.began_closed);
        self.calls[number] = None;
        match decided {
            Ok(roots) => {
                let root = roots.roots().next().unwrap();
                let version: usize = root.path().file_name().unwrap().to_str().unwrap().parse().unwrap();
                assert!(version >= from, "call {number} began with roots {from} and is decided by {version}");
                assert!(!began_closed, "call {number} began after the session was closed");
                self.proofs.push((version, roots.check(".", Intent::Existing).unwrap()));
            }
            Err(error) => match error.kind() {
                ErrorKind::SessionClosed => assert!(self.closed),
                ErrorKind::RootsFailed => assert!(self.failed),
                ErrorKind::RootsChanging => assert!(self.notified > 4),
                kind => panic!("call {number}: {kind}"),
            },
        }
    }

    /// Answers whatever is asked until all calls have ended; then a new one gets the client's roots.
    fn finish(mut self) {
        if self.client == Client::Announcing && self.notified < self.version {
            self.step(Step::Notify);
        }
        self.drain();
        let (version, failed) = (self.version, self.failed);
        self.begin();
        self.drain();
        if !(self.closed || failed) {
            assert_eq!(self.proofs.last().map(|(version, _)| *version), Some(version), "the new call's roots");
        }
    }

    fn drain(&mut self) {
        for _ in 0..1000 {
            self.answer(&Answer::List(self.list()));
            let alive: Vec<_> = (0..self.calls.len()).filter(|number| self.calls[*number].is_some()).collect();
            let Some(&first) = alive.first() else { return };
            let is_ready =
                |number: &usize| self.calls[*number].as_ref().is_some_and(|call| call.woken.is() || call.resolves);
            let ready = alive.iter().copied().find(is_ready).unwrap_or(first);
            self.poll(ready);
        }
        panic!("the calls do not end");
    }
}
