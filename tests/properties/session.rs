//! A client's session, with events in any order.
//!
//! The input is a schedule. The first byte says whether the client announces its changes. Each
//! further byte selects the next event among the [`Step`]s that are possible then. The calls are
//! real and polled by hand, with a source that waits for its answer. Time passes only in
//! [`Step::Wait`]. The client's list has one directory, a different one after each change.
//!
//! These properties hold after each step:
//!
//! - The list that decides a call was requested after the last `list_changed`. If the client does
//!   not announce changes, it was requested after the call began. (For a call that began before
//!   `list_changed`, this is stricter than the crate's guarantee. It holds because changes occur
//!   only between two polls here.)
//! - A call that fails, is dropped, or ends after the session was closed grants nothing. A refusal
//!   has a valid reason.
//! - A call that waits for another call is woken when the session is closed.
//! - At most one request to the client is pending, not counting requests from before a change,
//!   which are dropped when their call continues. No request is sent while a snapshot is cached or
//!   a failure is recent.
//! - The session's state and the validity of proofs match the schedule.
//!
//! Two more properties hold at the end: when each request has been answered, each call ends,
//! although it is polled only when woken. A new call then gets the client's newest list, or is
//! refused for a valid reason.
//!
//! Events within one poll, inside the cache, or on two threads at once are not covered here. The
//! model check (`--cfg shuttle`) covers them with a scheduler that controls locks and atomics.
//! Lists in pages, and roots that disappear and return, are not covered either.

use std::fs;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use mcp_roots_guard::{
    Access, Boundary, CheckedPath, ClientCapabilities, ErrorKind, Guard, Intent, ListRootsResult,
    Result, Root, RootEntry, Roots, RootsCapability, RootsResponse, RootsSource, RootsState,
    Session,
};
use tokio::runtime::{Builder, Runtime};

/// Checks all properties.
pub(crate) fn hold(bytes: &[u8]) {
    if cfg!(windows) {
        // On Windows, a thread that ends must not wait for another thread, but dropping a runtime
        // does.
        return World::new().hold(bytes);
    }
    WORLD.with(|world| world.hold(bytes));
}

thread_local! {
    /// One world is shared by all schedules, because each schedule has its own session.
    /// Thread-local rather than static, so that its directory is removed when the thread ends.
    static WORLD: World = World::new();
}

/// The state shared by all schedules.
pub(crate) struct World {
    /// Blocks the runtime's only blocking thread until the sender is dropped, so that the blocking
    /// work of the calls has to wait.
    hold: Mutex<mpsc::Sender<()>>,
    runtime: Runtime,
    guard: Guard,
    /// The client's list in each version, and a proof based on it.
    versions: Vec<(String, CheckedPath)>,
    runs: AtomicU64,
    _keep: tempfile::TempDir,
}

/// A running schedule.
pub(crate) struct Run<'a> {
    world: &'a World,
    /// Part of each list, so that no two runs share a snapshot.
    number: u64,
    session: Session,
    client: RootsCapability,
    calls: Vec<Call>,
    wire: Arc<Mutex<Wire>>,
    /// The number of changes to the client's list, and the step of the last announcement.
    version: usize,
    changed: usize,
    /// The expected state: the cached version, whether the last request failed, whether its
    /// back-off is in effect, and whether the session is closed.
    cached: Option<usize>,
    failed: bool,
    is_backing_off: bool,
    closed: bool,
    /// The steps so far, to report and replay them.
    steps: Vec<(u8, Step)>,
}

/// An event of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A call begins.
    Begin,
    /// A call continues: it was woken, or it waits for the blocking thread. In the latter case,
    /// this step waits for that thread first.
    Poll(usize),
    /// A call is dropped.
    Drop(usize),
    /// The client answers a request with its current list, or with an error. The answer arrives
    /// when the call continues.
    Answer,
    Refuse,
    /// The client changes its list, and announces the change unless it is silent.
    Change,
    /// All snapshots are forgotten.
    Forget,
    Close,
    /// Time passes, longer than any back-off.
    Wait,
}

struct Call {
    work: Option<Pin<Box<dyn Future<Output = Result<Roots>> + Send>>>,
    woken: Arc<Flag>,
    phase: Phase,
    /// The step in which the call began, and the step of the last change before it.
    began: usize,
    changed: usize,
    version: usize,
    /// The result of the call.
    end: Option<End>,
}

/// The version of the list that decides the call, or the code of its refusal.
type End = std::result::Result<usize, &'static str>;

/// The event that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The client.
    Asks,
    /// The blocking thread, which resolves a received list.
    Resolves,
    /// Another call, which asks the client or resolves its list.
    Waits,
}

/// The requests from the calls to the client.
#[derive(Default)]
struct Wire {
    /// The number of the current step.
    now: usize,
    requests: Vec<Request>,
}

struct Request {
    call: usize,
    asked: usize,
    /// The answered version or error. It arrives when the call is polled.
    answered: Option<std::result::Result<usize, ()>>,
    answer: Option<RootsResponse>,
    waker: Option<Waker>,
    /// The step in which the answer arrived.
    arrived: Option<usize>,
    /// Whether a call waits for the answer.
    is_open: bool,
}

struct Source {
    call: usize,
    wire: Arc<Mutex<Wire>>,
}

/// A pending request to the client. Dropping it marks the request as no longer awaited.
struct PendingRequest<'a> {
    wire: &'a Mutex<Wire>,
    number: usize,
}

/// Records that a call was woken.
#[derive(Default)]
struct Flag(AtomicBool);

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
        // These times are never reached.
        let guard = Guard::builder(boundary)
            .fetch_limit(LONG)
            .time_to_live(LONG)
            .runtime(runtime.handle().clone())
            .build()
            .unwrap();
        let hold = Mutex::new(occupy_blocking_thread(&runtime).0);
        Self { hold, runtime, guard, versions, runs: AtomicU64::new(0), _keep: keep }
    }

    /// Runs the schedule that the bytes describe.
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

    /// Lets the blocking thread do the work queued so far.
    fn run_blocking_work(&self) {
        let (hold, begins) = occupy_blocking_thread(&self.runtime);
        *self.hold.lock().unwrap() = hold;
        begins.recv_timeout(THREAD_DELAY).unwrap();
    }

    /// Starts a run with a new session of the shared guard, on which [`Step::Forget`] affects all
    /// sessions.
    pub(crate) fn run(&self, client: RootsCapability) -> Run<'_> {
        Run {
            world: self,
            number: self.runs.fetch_add(1, SeqCst),
            session: self.guard.session(ClientCapabilities::with_roots(client)).unwrap(),
            client,
            calls: Vec::new(),
            wire: Arc::default(),
            version: 0,
            changed: 0,
            cached: None,
            failed: false,
            is_backing_off: false,
            closed: false,
            steps: Vec::new(),
        }
    }
}

/// Occupies the blocking thread until the sender is dropped. The receiver tells when this begins.
fn occupy_blocking_thread(runtime: &Runtime) -> (mpsc::Sender<()>, mpsc::Receiver<()>) {
    let ((hold, end), (begin, begins)) = (mpsc::channel(), mpsc::channel());
    drop(runtime.spawn_blocking(move || begin.send(()).is_ok() && end.recv().is_ok()));
    (hold, begins)
}

impl Run<'_> {
    /// The possible steps, without those that cannot change anything.
    pub(crate) fn possible(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(12);
        let living = || self.calls.iter().enumerate().filter(|(_, call)| call.work.is_some());
        steps.extend((living().count() < CALLS).then_some(Step::Begin));
        steps.extend(
            living().filter(|(_, call)| call.can_continue()).map(|(number, _)| Step::Poll(number)),
        );
        if self.wire().unanswered().is_some() {
            steps.extend([Step::Answer, Step::Refuse]);
        }
        // Two consecutive changes have the same effect as one.
        let is_new = self.steps.last().is_none_or(|(_, last)| *last != Step::Change);
        steps.extend((is_new && self.version + 1 < VERSIONS).then_some(Step::Change));
        steps.extend(living().map(|(number, _)| Step::Drop(number)));
        steps.extend(self.cached.map(|_| Step::Forget));
        steps.extend(self.is_backing_off.then_some(Step::Wait));
        steps.extend((!self.closed).then_some(Step::Close));
        steps
    }

    /// Takes one of the possible steps.
    pub(crate) fn choose(&mut self, choice: u8) {
        let steps = self.possible();
        self.take(steps[usize::from(choice) % steps.len()]);
    }

    /// Takes this step, which must be possible.
    pub(crate) fn take(&mut self, step: Step) {
        let choice = self.possible().iter().position(|possible| *possible == step);
        let Some(choice) = choice else { self.fails(&format!("{step:?} is not possible")) };
        self.steps.push((u8::try_from(choice).unwrap(), step));
        self.step(step);
    }

    /// Answers each request and polls each call until all have ended. Then makes a new call, and
    /// another after the back-off.
    pub(crate) fn finish(mut self) {
        self.finish_calls();
        let is_backing_off = self.is_backing_off;
        let expected = match (self.closed, is_backing_off) {
            (true, _) => Err("session_closed"),
            (_, true) => Err("roots_failed"),
            (_, false) => Ok(self.version),
        };
        self.check_new_call(expected);
        if is_backing_off {
            self.step(Step::Wait);
            self.check_new_call(Ok(self.version));
        }
    }

    fn check_new_call(&mut self, expected: End) {
        self.step(Step::Begin);
        self.finish_calls();
        let end = self.calls.last().and_then(|call| call.end);
        self.check(end == Some(expected), || {
            format!("a new call ends with {end:?}, not {expected:?}")
        });
    }

    fn finish_calls(&mut self) {
        for _ in 0..ROUNDS {
            if self.wire().unanswered().is_some() {
                self.step(Step::Answer);
            }
            let living = || (0..self.calls.len()).filter(|&call| self.calls[call].work.is_some());
            let woken = living().find(|&call| self.calls[call].woken.is_set());
            let next = woken.or_else(|| living().find(|&call| self.calls[call].can_continue()));
            match (living().next(), next) {
                (None, _) => return,
                (_, Some(call)) => self.step(Step::Poll(call)),
                (Some(call), None) => self.fails(&format!("call {call} is never woken")),
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
            Step::Answer => self.answer(Ok(self.version)),
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
                self.cached = None;
            }
            Step::Close => {
                self.session.close();
                self.closed = true;
                self.forget();
                let mut waits = self
                    .calls
                    .iter()
                    .filter(|call| call.work.is_some() && call.phase == Phase::Waits);
                self.check(waits.all(Call::can_continue), || {
                    "a call still waits after the session was closed".into()
                });
            }
            Step::Wait => {
                self.world.runtime.block_on(tokio::time::advance(BACK_OFF));
                self.is_backing_off = false;
            }
        }
        self.check_state();
    }

    fn forget(&mut self) {
        (self.cached, self.failed, self.is_backing_off) = (None, false, false);
    }

    /// Checks the session's state and proofs against the expected state.
    fn check_state(&self) {
        let state = match (self.closed, self.cached, self.failed) {
            (true, ..) => RootsState::Closed,
            (_, Some(_), _) => RootsState::Available,
            (_, None, true) => RootsState::Failed(ErrorKind::RootsFailed),
            (_, None, false) => RootsState::Stale,
        };
        let entered = self.world.runtime.enter();
        let known = self.session.state();
        self.check(known == state, || format!("the state is {known:?}, not {state:?}"));
        for (version, (_, proof)) in self.world.versions.iter().enumerate().take(self.version + 1) {
            let still_allowed = self.session.still_allows(proof);
            let is_as_cached = still_allowed.is_ok() == (self.cached == Some(version));
            self.check(is_as_cached, || {
                format!(
                    "with version {:?} cached, a proof of version {version} is {still_allowed:?}",
                    self.cached
                )
            });
        }
        drop(entered);
    }

    fn answer(&self, version: std::result::Result<usize, ()>) {
        let mut wire = self.wire();
        let Some(number) = wire.unanswered() else { return };
        let answer = match version {
            Ok(version) => {
                let mut entry = RootEntry::new(&self.world.versions[version].0);
                entry.name = Some(format!("{number} of {}", self.number));
                RootsResponse::List(ListRootsResult {
                    roots: vec![entry],
                    ..ListRootsResult::default()
                })
            }
            Err(()) => RootsResponse::Failed("scheduled failure".into()),
        };
        let request = &mut wire.requests[number];
        (request.answered, request.answer) = (Some(version), Some(answer));
        let waker = request.waker.take();
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
            woken: Arc::default(),
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
        if phase == Phase::Resolves {
            self.world.run_blocking_work();
            if !woken.is_set() {
                // Another call has replaced its fetch.
                self.calls[number].phase = Phase::Waits;
                return;
            }
        }
        let Some(work) = self.calls[number].work.as_mut() else { return };
        woken.0.store(false, SeqCst);
        let asked = self.wire.lock().unwrap().requests.len();
        let entered = self.world.runtime.enter();
        let polled = work.as_mut().poll(&mut Context::from_waker(&Waker::from(woken)));
        drop(entered);
        self.record_failure(number);
        let asks = self.wire().requests.len() - asked;
        let may_ask = asks == 0 || self.cached.is_none() && !self.is_backing_off && !self.closed;
        self.check(may_ask, || format!("call {number} asks although it need not"));
        let counts = |request: &&Request| request.is_open && request.asked > self.changed;
        let open = self.wire().requests.iter().filter(counts).count();
        self.check(open <= 1, || format!("{open} requests at once"));
        match polled {
            Poll::Ready(end) => {
                self.calls[number].work = None;
                self.calls[number].end = Some(self.check_end(number, end));
            }
            Poll::Pending => self.calls[number].phase = self.phase(number),
        }
    }

    /// Records a failure if the call received one in this step and it still counts.
    fn record_failure(&mut self, number: usize) {
        let wire = self.wire();
        let failed = wire
            .arrived(number)
            .is_some_and(|answer| answer.answered == Some(Err(())) && answer.asked > self.changed);
        drop(wire);
        if failed && !self.closed {
            (self.failed, self.is_backing_off) = (true, true);
        }
    }

    /// The event that a pending call waits for.
    fn phase(&self, number: usize) -> Phase {
        let wire = self.wire();
        let arrived = wire.arrived(number).is_some();
        if wire.requests.iter().any(|request| request.call == number && request.is_open) {
            Phase::Asks
        } else if arrived || self.calls[number].phase == Phase::Resolves {
            Phase::Resolves
        } else {
            Phase::Waits
        }
    }

    /// Checks the result of an ended call.
    fn check_end(&mut self, number: usize, end: Result<Roots>) -> End {
        let (call, wire) = (&self.calls[number], self.wire());
        let announces = self.client.list_changed;
        let roots = match end {
            Ok(roots) => roots,
            Err(error) => {
                let refused = |request: &Request| {
                    request.arrived.is_some()
                        && request.answered == Some(Err(()))
                        && request.asked >= call.changed
                };
                let is_valid = match error.code() {
                    "session_closed" => self.closed,
                    "roots_failed" => wire.requests.iter().any(refused),
                    "roots_changing" => announces && self.version - call.version > RETRIES,
                    _ => false,
                };
                drop(wire);
                self.check(is_valid, || format!("call {number} is refused: {error:?}"));
                return Err(error.code());
            }
        };
        drop(wire);
        let granted = || roots.roots().map(Root::uri).collect::<Vec<_>>();
        self.check(!self.closed, || {
            format!("call {number} is granted {:?} after the session was closed", granted())
        });
        let number_of_request = roots
            .roots()
            .next()
            .and_then(|root| root.name()?.split_once(' ')?.0.parse::<usize>().ok());
        let wire = self.wire();
        let request = number_of_request.and_then(|request| wire.requests.get(request));
        let (asked, version) = request
            .and_then(|request| Some((request.asked, request.answered?.ok()?)))
            .unwrap_or_default();
        let leads = request.is_some_and(|request| request.call == number);
        drop(wire);
        let since = if announces { self.changed } else { self.calls[number].began };
        self.check(asked >= since && asked > 0, || {
            format!("call {number} is decided by a list requested in step {asked}")
        });
        let proof = roots.still_allows(&self.world.versions[version].1);
        self.check(proof.is_ok() && roots.roots().len() == 1, || {
            format!("call {number} has {:?}", granted())
        });
        if leads {
            self.forget();
            self.cached = announces.then_some(version);
        }
        Ok(version)
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap()
    }

    fn now(&self) -> usize {
        self.wire().now
    }

    fn check(&self, condition: bool, otherwise: impl FnOnce() -> String) {
        if !condition {
            self.fails(&otherwise());
        }
    }

    /// The schedule so far as input bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let client = u8::from(!self.client.list_changed);
        std::iter::once(client).chain(self.steps.iter().map(|(choice, _)| *choice)).collect()
    }

    fn fails(&self, why: &str) -> ! {
        let steps: Vec<_> = self.steps.iter().map(|(_, step)| step).collect();
        let (now, client, bytes) = (self.now(), self.client, self.bytes());
        panic!("{why}; in step {now} of {client:?}, {steps:?}, input bytes {bytes:?}");
    }
}

impl Call {
    fn can_continue(&self) -> bool {
        self.phase == Phase::Resolves || self.woken.is_set()
    }
}

impl Wire {
    /// The request whose answer the call received in this step.
    fn arrived(&self, call: usize) -> Option<&Request> {
        self.requests
            .iter()
            .find(|request| request.call == call && request.arrived == Some(self.now))
    }

    fn unanswered(&self) -> Option<usize> {
        self.requests.iter().position(|request| request.is_open && request.answered.is_none())
    }
}

impl RootsSource for Source {
    async fn ask(&mut self, _: Option<String>) -> RootsResponse {
        let pending = {
            let mut wire = self.wire.lock().unwrap();
            let (call, asked) = (self.call, wire.now);
            wire.requests.push(Request {
                call,
                asked,
                answered: None,
                answer: None,
                waker: None,
                arrived: None,
                is_open: true,
            });
            PendingRequest { wire: &self.wire, number: wire.requests.len() - 1 }
        };
        poll_fn(|context| {
            let mut wire = pending.wire.lock().unwrap();
            let now = wire.now;
            let request = &mut wire.requests[pending.number];
            request.waker = Some(context.waker().clone());
            request.arrived = request.answer.as_ref().map(|_| now);
            request.answer.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.wire.lock().unwrap().requests[self.number].is_open = false;
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

impl Flag {
    fn is_set(&self) -> bool {
        self.0.load(SeqCst)
    }
}

/// The number of versions of the client's list. When a schedule has used all of them, the list no
/// longer changes.
const VERSIONS: usize = 12;

/// The maximum number of concurrent calls: one that asks, two that wait.
const CALLS: usize = 3;

/// The maximum number of steps in an input.
const STEPS: usize = 64;

/// More rounds than the calls of a schedule need to end.
const ROUNDS: usize = 100;

/// Longer than any delay of a blocking thread, even on a busy machine.
const THREAD_DELAY: Duration = Duration::from_secs(10);

/// Longer than the crate's longest back-off.
const BACK_OFF: Duration = Duration::from_secs(31);

/// Longer than any schedule lasts, including its waits.
const LONG: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How often a call is repeated because the list changed, as in the crate.
const RETRIES: usize = 4;
