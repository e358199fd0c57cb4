//! The session of a client, in any order of what can happen to it.
//!
//! Goes in: a schedule. The first byte says whether the client announces its changes, each further one what happens next, among
//! the [`Step`]s that are possible then. The calls are the real ones, polled by hand, with a source that waits for its answer; time
//! stands still, but for [`Step::Wait`]. The client's list is one directory, another after each change. What is proven, after each step:
//!
//! - The list that decides a call was asked for after the last `list_changed`; of a silent client, after the call began. (Of a call
//!   that began before `list_changed` this is more than the crate promises: it holds as a change comes between two polls here.)
//! - A call that fails, is dropped, or ends after the session was closed, grants nothing, and is refused for a reason that there is.
//! - Who waits for another call is woken when the session is closed.
//! - One question is asked at a time (one of before a change is dropped when its call goes on), and none while a snapshot is kept or a
//!   failure is recent.
//! - The session's state, and which proofs still stand, are as the schedule has it.
//!
//! And at its end: once each question is answered, each call ends, being polled only when it was woken; and a new call gets the
//! client's newest list, or is refused for a reason that there is.
//!
//! What this leaves out: what happens within one poll, in the map, or on two threads at once; the model check under a scheduler
//! that owns locks and atomics (`--cfg shuttle`) has that. A client with pages, and roots that come and go, are left out as well.

use std::fs;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use mcp_roots_guard::{
    Access, Boundary, CheckedPath, ClientCapabilities, ErrorKind, Guard, Intent, ListRootsResult,
    Result, Root, RootEntry, Roots, RootsCapability, RootsResponse, RootsSource, RootsState,
    Session,
};
use tokio::runtime::{Builder, Runtime};

/// All of it.
pub(crate) fn hold(bytes: &[u8]) {
    if cfg!(windows) {
        // As a thread ends there, it must wait for no other, which a runtime does that is dropped.
        return World::new().hold(bytes);
    }
    WORLD.with(|world| world.hold(bytes));
}

thread_local! {
    /// Each schedule has a session of its own, so one world serves all. Not a plain static: its directory goes with the thread.
    static WORLD: World = World::new();
}

/// What schedules share.
pub(crate) struct World {
    /// Keeps the runtime's only blocking thread from what calls have given it, until it is dropped.
    hold: Mutex<mpsc::Sender<()>>,
    runtime: Runtime,
    guard: Guard,
    /// The client's list before each change, and a proof by it.
    versions: Vec<(String, CheckedPath)>,
    runs: AtomicU64,
    _keep: tempfile::TempDir,
}

/// A schedule so far.
pub(crate) struct Run<'a> {
    world: &'a World,
    /// It goes into each list, so that no two runs share a snapshot.
    number: u64,
    session: Session,
    client: RootsCapability,
    calls: Vec<Call>,
    wire: Arc<Mutex<Wire>>,
    /// How often the client changed its list, and the step in which it last said so.
    version: usize,
    changed: usize,
    /// What ought to be known: the version that is kept, whether the last question failed, and just now, and the end.
    kept: Option<usize>,
    failed: bool,
    backs_off: bool,
    closed: bool,
    /// What was done, to tell and to repeat.
    steps: Vec<(u8, Step)>,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A call begins.
    Begin,
    /// A call goes on: it was woken, or will be by a blocking thread, which is waited for.
    Poll(usize),
    /// A call is dropped.
    Drop(usize),
    /// The client answers the question with its list as it is now, or with an error. The answer is on its way until the call goes on.
    RootsResponse,
    Refuse,
    /// The client changes its list, and says so, unless it is silent.
    Change,
    /// Snapshots are forgotten.
    Forget,
    Close,
    /// Time passes, more than any back-off.
    Wait,
}

struct Call {
    work: Option<Pin<Box<dyn Future<Output = Result<Roots>> + Send>>>,
    woken: Arc<Flag>,
    phase: Phase,
    /// The step in which it began, and that of the last change before.
    began: usize,
    changed: usize,
    version: usize,
    /// What it came to.
    end: Option<End>,
}

/// The version of the list that decides, or why there is none.
type End = std::result::Result<usize, &'static str>;

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The client.
    Asks,
    /// A blocking thread, which resolves the list that was told, or verifies the names of the one that is kept.
    Resolves,
    Verifies,
    /// Another call, which asks or resolves.
    Waits,
}

/// Between the calls and the client.
#[derive(Default)]
struct Wire {
    /// The number of the step that is done.
    now: usize,
    questions: Vec<Question>,
}

struct Question {
    call: usize,
    asked: usize,
    /// The version that was told, or an error; it is on its way until it is heard.
    told: Option<std::result::Result<usize, ()>>,
    answer: Option<RootsResponse>,
    waker: Option<Waker>,
    /// In which step.
    heard: Option<usize>,
    /// Whether somebody waits for the answer.
    is_open: bool,
}

struct Source {
    call: usize,
    wire: Arc<Mutex<Wire>>,
}

/// A question that is waited for.
struct Asking<'a> {
    wire: &'a Mutex<Wire>,
    number: usize,
}

/// A call was woken; whoever polls it, too.
struct Flag {
    woken: AtomicBool,
    thread: Thread,
}

impl World {
    pub(crate) fn new() -> Self {
        let memory = PathBuf::from("/dev/shm");
        let place = if cfg!(unix) && memory.is_dir() { memory } else { std::env::temp_dir() };
        let keep = tempfile::Builder::new().prefix("guard-").tempdir_in(place).unwrap();
        let boundary =
            Boundary::builder().directory(keep.path(), Access::ReadWrite).build().unwrap();
        let top = boundary.allowed_roots().roots().next().unwrap().uri();
        let version = |version| {
            let name = format!("v{version}");
            let directory = keep.path().join(&name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("file"), "").unwrap();
            let uri = format!("{top}/{name}");
            let roots = boundary.resolve(&ListRootsResult::from_uris([&uri])).unwrap();
            (uri, roots.check("file", Intent::Existing).unwrap())
        };
        let versions = (0..VERSIONS).map(version).collect();
        let mut runtime = Builder::new_current_thread();
        let runtime =
            runtime.enable_time().start_paused(true).max_blocking_threads(1).build().unwrap();
        let guard = guard(boundary);
        let hold = Mutex::new(stop(&runtime));
        Self { hold, runtime, guard, versions, runs: AtomicU64::new(0), _keep: keep }
    }

    /// The schedule that the bytes say.
    pub(crate) fn hold(&self, bytes: &[u8]) {
        let Some((&client, choices)) = bytes.split_first() else { return };
        let mut run = self.run(if client % 2 == 0 {
            RootsCapability::announcing()
        } else {
            RootsCapability::silent()
        });
        for &choice in choices.iter().take(STEPS) {
            run.choose(choice);
        }
        run.finish();
    }

    /// The blocking thread does what it was given so far.
    fn go_on(&self) {
        *self.hold.lock().unwrap() = stop(&self.runtime);
    }

    /// A new session, of a guard that others have, too: [`Step::Forget`] is for all of them.
    pub(crate) fn run(&self, client: RootsCapability) -> Run<'_> {
        self.run_of(&self.guard, client)
    }

    /// A new session, of a guard of its own.
    pub(crate) fn run_alone(&self, client: RootsCapability) -> Run<'_> {
        self.run_of(&guard(self.guard.boundary().clone()), client)
    }

    fn run_of(&self, guard: &Guard, client: RootsCapability) -> Run<'_> {
        Run {
            world: self,
            number: self.runs.fetch_add(1, SeqCst),
            session: guard.session(ClientCapabilities::with_roots(client)).unwrap(),
            client,
            calls: Vec::new(),
            wire: Arc::default(),
            version: 0,
            changed: 0,
            kept: None,
            failed: false,
            backs_off: false,
            closed: false,
            steps: Vec::new(),
        }
    }
}

/// Nothing is too late or too old here.
fn guard(boundary: Boundary) -> Guard {
    Guard::builder(boundary)
        .fetch_limit(LONG)
        .time_to_live(LONG)
        .time_to_idle(LONG)
        .build()
        .unwrap()
}

/// Gives the blocking thread something that takes until the sender is dropped.
fn stop(runtime: &Runtime) -> mpsc::Sender<()> {
    let (hold, end) = mpsc::channel();
    drop(runtime.spawn_blocking(move || end.recv()));
    hold
}

impl Run<'_> {
    /// Steps that are possible now and may matter.
    pub(crate) fn possible(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(12);
        let living = || self.calls.iter().enumerate().filter(|(_, call)| call.work.is_some());
        steps.extend((living().count() < CALLS).then_some(Step::Begin));
        steps.extend(
            living().filter(|(_, call)| call.goes_on()).map(|(number, _)| Step::Poll(number)),
        );
        if self.wire().unanswered().is_some() {
            steps.extend([Step::RootsResponse, Step::Refuse]);
        }
        // Two changes in a row are one.
        let is_new = self.steps.last().is_none_or(|(_, last)| *last != Step::Change);
        steps.extend((is_new && self.version + 1 < VERSIONS).then_some(Step::Change));
        steps.extend(living().map(|(number, _)| Step::Drop(number)));
        steps.extend(self.kept.map(|_| Step::Forget));
        steps.extend(self.backs_off.then_some(Step::Wait));
        steps.extend((!self.closed).then_some(Step::Close));
        steps
    }

    /// Does one of the steps that are possible now.
    pub(crate) fn choose(&mut self, choice: u8) {
        let steps = self.possible();
        self.take(steps[usize::from(choice) % steps.len()]);
    }

    /// Does a step that is possible now.
    pub(crate) fn take(&mut self, step: Step) {
        let choice = self.possible().iter().position(|possible| *possible == step);
        let Some(choice) = choice else { self.fails(&format!("{step:?} is not possible")) };
        self.steps.push((u8::try_from(choice).unwrap(), step));
        self.step(step);
    }

    /// Answers each question, and goes on with each call until all are done; then with a new one, and one after the back-off.
    pub(crate) fn finish(mut self) {
        self.settle();
        let backs_off = self.backs_off;
        let expected = match (self.closed, backs_off) {
            (true, _) => Err("session_closed"),
            (_, true) => Err("roots_failed"),
            (_, false) => Ok(self.version),
        };
        self.ends(expected);
        if backs_off {
            self.step(Step::Wait);
            self.ends(Ok(self.version));
        }
    }

    fn ends(&mut self, expected: End) {
        self.step(Step::Begin);
        self.settle();
        let end = self.calls.last().and_then(|call| call.end);
        self.holds(end == Some(expected), || {
            format!("a new call comes to {end:?} and not {expected:?}")
        });
    }

    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            if self.wire().unanswered().is_some() {
                self.step(Step::RootsResponse);
            }
            let living = || (0..self.calls.len()).filter(|&call| self.calls[call].work.is_some());
            match (living().next(), living().find(|&call| self.calls[call].goes_on())) {
                (None, _) => return,
                (_, Some(call)) => self.step(Step::Poll(call)),
                (Some(call), None) => self.fails(&format!("nobody wakes call {call}")),
            }
        }
        self.fails("calls do not end");
    }

    fn step(&mut self, step: Step) {
        self.wire().now += 1;
        match step {
            Step::Begin => self.begin(),
            Step::Poll(call) => self.poll(call),
            Step::Drop(call) => self.calls[call].work = None,
            Step::RootsResponse => self.answer(Ok(self.version)),
            Step::Refuse => self.answer(Err(())),
            Step::Change => {
                self.version += 1;
                if self.client.list_changed {
                    self.session.list_changed();
                    self.changed = self.now();
                    self.forget();
                }
            }
            Step::Forget => {
                self.session.guard().forget_all();
                self.kept = None;
            }
            Step::Close => {
                self.session.close();
                self.closed = true;
                self.forget();
                let mut waits = self
                    .calls
                    .iter()
                    .filter(|call| call.work.is_some() && call.phase == Phase::Waits);
                self.holds(waits.all(Call::goes_on), || "a call waits on after the end".into());
            }
            Step::Wait => {
                self.world.runtime.block_on(tokio::time::advance(BACK_OFF));
                self.backs_off = false;
            }
        }
        self.stands();
    }

    fn forget(&mut self) {
        (self.kept, self.failed, self.backs_off) = (None, false, false);
    }

    /// What is known of the session is what ought to be known.
    fn stands(&self) {
        let state = match (self.closed, self.kept, self.failed) {
            (true, ..) => RootsState::Closed,
            (_, Some(_), _) => RootsState::Available,
            (_, None, true) => RootsState::Failed(ErrorKind::RootsFailed),
            (_, None, false) => RootsState::Stale,
        };
        let entered = self.world.runtime.enter();
        let known = self.session.state();
        self.holds(known == state, || format!("it is {known:?} and not {state:?}"));
        for (version, (_, proof)) in self.world.versions.iter().enumerate().take(self.version + 1) {
            let stands = self.session.still_allows(proof);
            let as_kept = stands.is_ok() == (self.kept == Some(version));
            self.holds(as_kept, || {
                format!("of version {:?}, a proof by {version} is {stands:?}", self.kept)
            });
        }
        drop(entered);
    }

    fn answer(&self, told: std::result::Result<usize, ()>) {
        let mut wire = self.wire();
        let Some(number) = wire.unanswered() else { return };
        let answer = match told {
            Ok(version) => {
                let mut entry = RootEntry::new(&self.world.versions[version].0);
                entry.name = Some(format!("{number} of {}", self.number));
                RootsResponse::List(ListRootsResult {
                    roots: vec![entry],
                    ..ListRootsResult::default()
                })
            }
            Err(()) => RootsResponse::Failed("by schedule".into()),
        };
        let question = &mut wire.questions[number];
        (question.told, question.answer) = (Some(told), Some(answer));
        let waker = question.waker.take();
        drop(wire);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn begin(&mut self) {
        let source = Source { call: self.calls.len(), wire: self.wire.clone() };
        let session = self.session.clone();
        self.calls.push(Call {
            work: Some(Box::pin(async move { session.roots(source).await })),
            woken: Arc::new(Flag { woken: AtomicBool::new(false), thread: thread::current() }),
            phase: Phase::Waits,
            began: self.now(),
            changed: self.changed,
            version: self.version,
            end: None,
        });
        self.poll(self.calls.len() - 1);
    }

    fn poll(&mut self, number: usize) {
        let call = &mut self.calls[number];
        let (woken, phase) = (call.woken.clone(), call.phase);
        if phase.is_work() {
            self.world.go_on();
            self.holds(woken.comes(), || format!("no thread wakes call {number}"));
        }
        let Some(work) = self.calls[number].work.as_mut() else { return };
        woken.woken.store(false, SeqCst);
        let asked = self.wire.lock().unwrap().questions.len();
        let entered = self.world.runtime.enter();
        let polled = work.as_mut().poll(&mut Context::from_waker(&Waker::from(woken)));
        drop(entered);
        self.heard(number);
        let asks = self.wire().questions.len() - asked;
        let may_ask = asks == 0 || self.kept.is_none() && !self.backs_off && !self.closed;
        self.holds(may_ask, || format!("call {number} asks, and need not"));
        let counts = |question: &&Question| question.is_open && question.asked > self.changed;
        let open = self.wire().questions.iter().filter(counts).count();
        self.holds(open <= 1, || format!("{open} questions at once"));
        match polled {
            Poll::Ready(end) => {
                self.calls[number].work = None;
                self.calls[number].end = Some(self.decided(number, end));
            }
            Poll::Pending => self.calls[number].phase = self.phase(number),
        }
    }

    /// If the call has heard an answer in this step: whether that is a failure which counts.
    fn heard(&mut self, number: usize) {
        let wire = self.wire();
        let failed = wire
            .heard(number)
            .is_some_and(|heard| heard.told == Some(Err(())) && heard.asked > self.changed);
        drop(wire);
        if failed && !self.closed {
            (self.failed, self.backs_off) = (true, true);
        }
    }

    /// What a call waits for that was just polled.
    fn phase(&self, number: usize) -> Phase {
        let wire = self.wire();
        let others = self
            .calls
            .iter()
            .enumerate()
            .filter(|(other, call)| *other != number && call.work.is_some());
        if wire.questions.iter().any(|question| question.call == number && question.is_open) {
            Phase::Asks
        } else if wire.heard(number).is_some() {
            Phase::Resolves
        } else if others
            .into_iter()
            .any(|(_, call)| matches!(call.phase, Phase::Asks | Phase::Resolves))
        {
            Phase::Waits
        } else {
            Phase::Verifies
        }
    }

    /// A call has ended: may it, this way?
    fn decided(&mut self, number: usize, end: Result<Roots>) -> End {
        let (call, wire) = (&self.calls[number], self.wire());
        let announces = self.client.list_changed;
        let roots = match end {
            Ok(roots) => roots,
            Err(error) => {
                let refused = |question: &Question| {
                    question.heard.is_some()
                        && question.told == Some(Err(()))
                        && question.asked >= call.changed
                };
                let is_due = match error.code() {
                    "session_closed" => self.closed,
                    "roots_failed" => wire.questions.iter().any(refused),
                    "roots_changing" => announces && self.version - call.version > CHANGES,
                    _ => false,
                };
                drop(wire);
                self.holds(is_due, || format!("call {number} is refused: {error:?}"));
                return Err(error.code());
            }
        };
        drop(wire);
        let granted = || roots.roots().map(Root::uri).collect::<Vec<_>>();
        self.holds(!self.closed, || {
            format!("call {number} is granted {:?} after the end", granted())
        });
        let told = roots
            .roots()
            .next()
            .and_then(|root| root.name()?.split_once(' ')?.0.parse::<usize>().ok());
        let wire = self.wire();
        let question = told.and_then(|question| wire.questions.get(question));
        let (asked, version) = question
            .and_then(|question| Some((question.asked, question.told?.ok()?)))
            .unwrap_or_default();
        let leads = question.is_some_and(|question| question.call == number);
        drop(wire);
        let since = if announces { self.changed } else { self.calls[number].began };
        self.holds(asked >= since && asked > 0, || {
            format!("call {number} is decided by a list asked for in step {asked}")
        });
        let proof = roots.still_allows(&self.world.versions[version].1);
        self.holds(proof.is_ok() && roots.roots().len() == 1, || {
            format!("call {number} has {:?}", granted())
        });
        if leads {
            self.forget();
            self.kept = announces.then_some(version);
        }
        Ok(version)
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap()
    }

    fn now(&self) -> usize {
        self.wire().now
    }

    fn holds(&self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.fails(&otherwise());
        }
    }

    /// The schedule so far, to repeat it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let client = u8::from(!self.client.list_changed);
        std::iter::once(client).chain(self.steps.iter().map(|(choice, _)| *choice)).collect()
    }

    fn fails(&self, why: &str) -> ! {
        let steps: Vec<_> = self.steps.iter().map(|(_, step)| step).collect();
        let (now, client, bytes) = (self.now(), self.client, self.bytes());
        panic!("{why}; in step {now} of {client:?}, {steps:?}, which is {bytes:?}");
    }
}

impl Call {
    fn goes_on(&self) -> bool {
        self.phase.is_work() || self.woken.woken.load(SeqCst)
    }
}

impl Phase {
    fn is_work(self) -> bool {
        matches!(self, Self::Resolves | Self::Verifies)
    }
}

impl Wire {
    /// What the call has heard in this step.
    fn heard(&self, call: usize) -> Option<&Question> {
        self.questions
            .iter()
            .find(|question| question.call == call && question.heard == Some(self.now))
    }

    fn unanswered(&self) -> Option<usize> {
        self.questions.iter().position(|question| question.is_open && question.told.is_none())
    }
}

impl RootsSource for Source {
    async fn ask(&mut self, _: Option<String>) -> RootsResponse {
        let asking = {
            let mut wire = self.wire.lock().unwrap();
            let (call, asked) = (self.call, wire.now);
            wire.questions.push(Question {
                call,
                asked,
                told: None,
                answer: None,
                waker: None,
                heard: None,
                is_open: true,
            });
            Asking { wire: &self.wire, number: wire.questions.len() - 1 }
        };
        poll_fn(|context| {
            let mut wire = asking.wire.lock().unwrap();
            let now = wire.now;
            let question = &mut wire.questions[asking.number];
            question.waker = Some(context.waker().clone());
            question.heard = question.answer.as_ref().map(|_| now);
            question.answer.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.wire.lock().unwrap().questions[self.number].is_open = false;
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, SeqCst);
        self.thread.unpark();
    }
}

impl Flag {
    /// Waits for it to be set by another thread.
    fn comes(&self) -> bool {
        let until = Instant::now() + THREAD;
        while !self.woken.load(SeqCst) {
            if Instant::now() > until {
                return false;
            }
            thread::park_timeout(THREAD);
        }
        true
    }
}

/// Room for the changes of one schedule.
const VERSIONS: usize = 12;

/// Calls at once: one that asks, two that wait.
const CALLS: usize = 3;

/// Steps of a schedule that comes as bytes.
const STEPS: usize = 64;

/// More than it takes to end so few calls.
const ROUNDS: usize = 100;

/// Longer than a blocking thread is ever late, on a machine that does much else.
const THREAD: Duration = Duration::from_secs(10);

/// Longer than the crate's longest back-off.
const BACK_OFF: Duration = Duration::from_secs(31);

/// Longer than any schedule, however often it waits.
const LONG: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How often a call asks again because the list changed: the crate's own number.
const CHANGES: usize = 4;
