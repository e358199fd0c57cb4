//! The threads of a guard.
//!
//! List resolution, root verification and handlers access filesystems, which can hang. They run on
//! threads that the guard owns, so that a hung filesystem does not block the async runtime.
//! [`Workers`] starts threads on demand and ends idle ones. [`queue`] decides which job runs next.
//! Each [`Account`] has its own queue, and accounts take turns. Resolution and handlers have
//! separate slots, and neither can use the other's. [`devices`] detects operations that hang. Their
//! slots become available to other jobs. If a whole device seems to hang, an account with a hung
//! operation on it is refused further operations on that device.
//!
//! The state of threads and queues is protected by one lock, which is held only briefly. No job is
//! run or dropped under the lock, because a job can own the last handle of a guard, and dropping
//! that takes the lock again.
//!
//! While a queued job can start, at least one thread is about to check the state, or checks it
//! repeatedly. A caller that adds or cancels a job reserves a waiting thread or starts one if a job
//! can start. A thread that takes a job does the same if more jobs can start. Only the first
//! reserved thread is woken. It wakes the next one if more jobs can start, and otherwise releases
//! the others, so many short jobs wake few threads.
//!
//! After some jobs, a thread polls for the next one before it waits ([`polling`]).

#![cfg_attr(
    any(shuttle, not(feature = "rmcp")),
    allow(dead_code, reason = "the model check runs jobs itself, and only the adapter runs work")
)]

mod account;
mod devices;
mod polling;
mod queue;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

pub(crate) use self::account::Account;
#[cfg(not(shuttle))]
pub(crate) use self::account::{Permit, Permits};
use self::devices::Devices;
pub(crate) use self::devices::counted;
use self::polling::Polling;
use self::queue::{Queue, Shares};
use crate::error::{Code, Error, Result};
use crate::limits::{ABANDONED, IDLE, LOOK_EVERY, NEXT_JOB_POLL, POLL_PAUSE, RESOLUTIONS};

/// The threads of one guard. If this is dropped, waiting jobs are dropped, and each thread ends
/// after its current job.
pub(crate) struct Workers {
    pool: Arc<Pool>,
}

/// The purpose of a job. Each purpose has its own slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// To resolve a list, or to verify roots.
    Roots,
    /// To run a handler's work.
    Work,
}

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    state: Mutex<State>,
    woken: Condvar,
    devices: Arc<Devices>,
    /// How long an idle thread waits before it ends.
    idle: Duration,
    /// How long a thread polls for the next job before it waits.
    poll: Duration,
}

struct State {
    roots: Queue<Job>,
    work: Queue<Job>,
    threads: Threads,
    polling: Polling,
    closed: bool,
}

/// The number of threads, in total and in each state. Threads in no other state are running a job,
/// except for one that may poll.
#[derive(Debug, Default)]
struct Threads {
    all: usize,
    /// Threads that are waiting and are not reserved.
    idle: usize,
    /// Waiting threads that are reserved for a job.
    reserved: usize,
    /// Whether one of the reserved threads has been notified and has not resumed yet.
    notified: bool,
    starting: usize,
    /// Whether one of the waiting threads checks the state every [`LOOK_EVERY`].
    has_watcher: bool,
}

/// The thread to wake so that it looks for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Wake {
    Nobody,
    Idle,
    New,
}

/// A job that a caller waits for. Dropping the ticket before the job starts cancels the job.
struct Ticket {
    pool: Arc<Pool>,
    purpose: For,
    account: Account,
    number: u64,
    done: bool,
}

impl Workers {
    /// Creates workers with this many slots for work. Threads are started on demand.
    pub(crate) fn new(slots: usize) -> Self {
        Self::with(slots, RESOLUTIONS, IDLE)
    }

    fn with(work: usize, roots: usize, idle: Duration) -> Self {
        let state = State {
            roots: Queue::new(Shares { slots: roots, extra: ABANDONED, one_per_account: true }),
            work: Queue::new(Shares { slots: work, extra: work, one_per_account: false }),
            threads: Threads::default(),
            polling: Polling::default(),
            closed: false,
        };
        let pool = Pool {
            state: Mutex::new(state),
            woken: Condvar::new(),
            devices: Arc::new(Devices::new(work)),
            idle,
            poll: NEXT_JOB_POLL,
        };
        Self { pool: Arc::new(pool) }
    }

    /// Runs a job when its turn comes, and returns its result or its panic. If the future is
    /// dropped before the job starts, the job never runs.
    ///
    /// # Errors
    ///
    /// [`Busy`](crate::ErrorKind::Busy) (`queue_full`, `busy`).
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        purpose: For,
        account: Account,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<std::thread::Result<T>> {
        let (sender, receiver) = oneshot::channel();
        let job = move || {
            // A result that no caller is waiting for is dropped here, and its destructor may also
            // panic.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let _ = sender.send(catch_unwind(AssertUnwindSafe(job)));
            }));
        };
        let mut ticket = self.pool.add(purpose, account, Box::new(job))?;
        let done = receiver.await;
        ticket.done = done.is_ok();
        done.map_err(|_| Error::new(Code::Busy).detail("the guard was dropped"))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.closed = true;
        let left = (state.roots.take_all(), state.work.take_all());
        drop(state);
        self.pool.woken.notify_all();
        drop(left);
    }
}

/// Shows only the number of threads.
impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.pool.lock();
        f.debug_struct("Workers").field("threads", &state.threads.all).finish_non_exhaustive()
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, purpose: For, account: Account, job: Job) -> Result<Ticket> {
        let mut state = self.lock();
        if self.is_stuck(&mut state, purpose, &account) {
            drop(state);
            drop(job);
            return Err(Error::new(Code::Busy).detail("too many running operations hang"));
        }
        let added = state.queue(purpose).push(&account, job);
        let (wake, number) = match added {
            Ok(number) => (self.thread_for(&mut state, &account), number),
            Err(job) => {
                drop(state);
                drop(job);
                return Err(Code::QueueFull.into());
            }
        };
        drop(state);
        let ticket = Ticket { pool: self.clone(), purpose, account, number, done: false };
        // Without a thread, the job could wait forever. If no thread can be started, returning the
        // error drops the ticket, which cancels the job.
        self.wake(wake)
            .map_err(|error| Error::io(Code::Busy, error).detail("could not start a thread"))?;
        Ok(ticket)
    }

    /// Decides which thread to wake, if any, for a job that this account has added.
    fn thread_for(&self, state: &mut State, account: &Account) -> Wake {
        let waiting = state.roots.waiting() + state.work.waiting();
        if waiting == 1 && state.polling.connection.as_ref() == Some(account) {
            // The thread that polls takes this job.
            return Wake::Nobody;
        }
        let hung = self.hung(state);
        state.choose_thread(hung)
    }

    /// Whether a new job would have to wait for operations that hang, because they prevent all
    /// accounts from starting jobs or fill the share of its own account. This is never the case for
    /// the operator's jobs.
    fn is_stuck(&self, state: &mut State, purpose: For, account: &Account) -> bool {
        if *account == Account::Operator {
            return false;
        }
        let stuck = match purpose {
            For::Roots => 0,
            For::Work => self.devices.stuck(account, Instant::now()),
        };
        let queue = state.queue(purpose);
        queue.is_stuck() || queue.fills_share(account, stuck)
    }

    /// The number of work slots whose operation hangs, or 0 if any slot is free, because the number
    /// is needed only when all slots are occupied.
    fn hung(&self, state: &State) -> usize {
        if state.work.is_full() { self.devices.hung(Instant::now()) } else { 0 }
    }

    fn wake(self: &Arc<Self>, wake: Wake) -> std::io::Result<()> {
        match wake {
            Wake::Nobody => Ok(()),
            Wake::Idle => {
                self.woken.notify_one();
                Ok(())
            }
            Wake::New => {
                let pool = self.clone();
                let thread =
                    std::thread::Builder::new().name(THREAD.into()).spawn(move || pool.serve());
                thread.map(drop).inspect_err(|_| {
                    let mut state = self.lock();
                    state.threads.all -= 1;
                    state.threads.starting -= 1;
                })
            }
        }
    }

    /// Checks the state until a job can start, for at most [`Pool::poll`]. Other threads of the
    /// system run in the meantime. If they run for much longer than that, more threads want to run
    /// than there are processors. One that polls then waits for its turn, and one that sleeps would
    /// be resumed sooner, so no thread polls for [`POLL_PAUSE`].
    fn poll<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        connection: Account,
    ) -> MutexGuard<'a, State> {
        state.polling.connection = Some(connection);
        let start = Instant::now();
        while !state.closed && !state.can_start(self.hung(&state)) && start.elapsed() < self.poll {
            drop(state);
            std::thread::yield_now();
            state = self.lock();
        }
        state.polling.connection = None;
        if start.elapsed() >= 10 * self.poll {
            state.polling.paused_until = Some(Instant::now() + POLL_PAUSE);
        }
        state
    }

    /// The main loop of a thread.
    fn serve(self: Arc<Self>) {
        let mut state = self.lock();
        state.threads.starting -= 1;
        while !state.closed {
            let hung = self.hung(&state);
            if let Some((purpose, job)) = state.next(hung) {
                let wake = state.hand_over(hung);
                let is_work = purpose == For::Work && job.account.is_connection();
                let follows = is_work && state.polling.follows(&job.account, 2 * self.poll);
                drop(state);
                // A failure to start another thread is ignored, because the current job does not
                // need that thread, and this thread checks the state again after the job.
                let _ = self.wake(wake);
                match purpose {
                    For::Roots => (job.run)(),
                    For::Work => devices::run_in_slot(&self.devices, &job.account, job.run),
                }
                state = self.lock();
                state.queue(purpose).finish(&job.account, job.number);
                if is_work {
                    state.polling.last = Some((job.account.clone(), Instant::now()));
                }
                if follows && state.polling.may_start() {
                    state = self.poll(state, job.account);
                }
                continue;
            }
            state.threads.release_reserved();
            let watches = state.is_blocked() && !state.threads.has_watcher;
            let wait = if watches { LOOK_EVERY } else { self.idle };
            state.threads.has_watcher |= watches;
            state.threads.idle += 1;
            let until = Instant::now() + wait;
            let was_woken = loop {
                let left = until.saturating_duration_since(Instant::now());
                state =
                    self.woken.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                if state.threads.reserved > 0 {
                    state.threads.reserved -= 1;
                    state.threads.notified = false;
                    break true;
                }
                if state.closed || Instant::now() >= until {
                    state.threads.idle -= 1;
                    break false;
                }
            };
            if watches {
                state.threads.has_watcher = false;
            } else if !was_woken && !state.can_start(0) && !state.is_blocked() {
                break;
            }
        }
        state.threads.all -= 1;
    }
}

impl State {
    fn queue(&mut self, purpose: For) -> &mut Queue<Job> {
        match purpose {
            For::Roots => &mut self.roots,
            For::Work => &mut self.work,
        }
    }

    fn next(&mut self, hung: usize) -> Option<(For, queue::Next<Job>)> {
        // Jobs for roots start first because they take less time. They do not delay work, which has
        // its own slots.
        let roots = self.roots.next(0).map(|job| (For::Roots, job));
        roots.or_else(|| self.work.next(hung).map(|job| (For::Work, job)))
    }

    fn can_start(&self, hung: usize) -> bool {
        self.roots.can_start(0) || self.work.can_start(hung)
    }

    /// Whether waiting work cannot start only because no slot is free. A slot becomes available if
    /// its operation is found to hang.
    fn is_blocked(&self) -> bool {
        self.work.is_blocked()
    }

    /// Decides which thread to wake, if any, after a thread has taken a job.
    fn hand_over(&mut self, hung: usize) -> Wake {
        if !self.can_start(hung) {
            self.threads.release_reserved();
        }
        if self.threads.expected() == 0 {
            return self.choose_thread(hung);
        }
        self.threads.wake_reserved()
    }

    /// Reserves or starts a thread if a job may have become able to start. Decides which thread to
    /// wake, if any.
    fn choose_thread(&mut self, hung: usize) -> Wake {
        let threads = &self.threads;
        let needs_watcher = self.is_blocked() && !threads.has_watcher && threads.expected() == 0;
        if !self.can_start(hung) && !needs_watcher {
            return Wake::Nobody;
        }
        if self.threads.idle > 0 {
            self.threads.idle -= 1;
            self.threads.reserved += 1;
            return self.threads.wake_reserved();
        }
        // Allow one more thread than the number of jobs that can run, to check for operations that
        // hang.
        if self.threads.all > self.roots.max_running() + self.work.max_running() {
            return Wake::Nobody;
        }
        self.threads.all += 1;
        self.threads.starting += 1;
        Wake::New
    }
}

impl Threads {
    /// The number of threads that will check the state soon.
    fn expected(&self) -> usize {
        self.reserved + self.starting
    }

    /// Decides to wake a reserved thread, unless one has been notified.
    fn wake_reserved(&mut self) -> Wake {
        if self.reserved == 0 || self.notified {
            return Wake::Nobody;
        }
        self.notified = true;
        Wake::Idle
    }

    /// Makes reserved threads idle again, because no job can start. One that has been notified
    /// finds that it is not reserved, and continues to wait.
    fn release_reserved(&mut self) {
        self.idle += std::mem::take(&mut self.reserved);
        self.notified = false;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut state = self.pool.lock();
        let job = state.queue(self.purpose).cancel(&self.account, self.number);
        // An abandoned resolution gives up its slot.
        let hung = self.pool.hung(&state);
        let wake = state.choose_thread(hung);
        drop(state);
        // A failure to start a thread is ignored, because the state is checked again when the next
        // job is added or ends.
        let _ = self.pool.wake(wake);
        // Dropping the job may wait or panic.
        drop(job);
    }
}

/// The name of each thread.
const THREAD: &str = "mcp-roots-guard";

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc;
    use std::task::Poll;

    use super::*;
    use crate::events::SessionId;

    pub(super) fn session(number: u64) -> Account {
        Account::Session(SessionId(number.try_into().unwrap()))
    }

    pub(super) fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    /// Polls a future once, and asserts that it is pending.
    pub(super) fn begins<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(matches!(future.poll(&mut context), Poll::Pending));
    }

    pub(super) fn soon(mut done: impl FnMut() -> bool) -> bool {
        (0..2000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            done()
        })
    }

    struct Panics;

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }

    #[test]
    fn panic_of_a_job_is_returned_to_its_caller_and_its_thread_continues() {
        let workers = Workers::with(1, 1, IDLE);
        runtime().block_on(async {
            for purpose in [For::Work, For::Roots] {
                let panicked =
                    workers.run(purpose, session(1), || panic!("on purpose")).await.unwrap();
                assert!(
                    panicked
                        .is_err_and(|panic| panic.downcast_ref::<&str>() == Some(&"on purpose"))
                );
                assert_eq!(workers.run(purpose, session(1), || 1).await.unwrap().unwrap(), 1);
            }
            // A result that no caller receives is dropped by the thread.
            let (go, waits) = mpsc::channel::<()>();
            {
                let mut job = pin!(workers.run(For::Work, session(1), move || {
                    let _ = waits.recv();
                    Panics
                }));
                begins(job.as_mut());
                assert!(soon(|| workers.pool.lock().work.is_full()));
            }
            drop(go);
            assert_eq!(workers.run(For::Work, session(2), || 2).await.unwrap().unwrap(), 2);
        });
    }

    #[test]
    fn job_that_is_dropped_before_its_turn_never_starts() {
        let workers = Workers::with(1, 1, IDLE);
        let (go, waits) = mpsc::channel::<()>();
        let began = Arc::new(AtomicUsize::new(0));
        let counted = || {
            let began = began.clone();
            move || drop(began.fetch_add(1, SeqCst).to_string())
        };
        let mut first = pin!(workers.run(For::Work, session(1), move || waits.recv().is_err()));
        begins(first.as_mut());
        assert!(soon(|| workers.pool.lock().work.is_full()));
        {
            let mut second = pin!(workers.run(For::Work, session(2), counted()));
            begins(second.as_mut());
            assert_eq!(Arc::strong_count(&began), 2);
        }
        assert_eq!(Arc::strong_count(&began), 1, "the cancelled job is removed from the queue");
        let third = workers.run(For::Work, session(2), counted());
        drop(go);
        assert!(runtime().block_on(first).unwrap().unwrap());
        runtime().block_on(third).unwrap().unwrap();
        assert_eq!(began.load(SeqCst), 1);
    }

    #[test]
    fn threads_start_on_demand_and_end_when_idle_or_when_the_guard_is_dropped() {
        let workers = Workers::with(4, 4, Duration::from_millis(50));
        let pool = workers.pool.clone();
        assert_eq!(pool.lock().threads.all, 0);
        runtime().block_on(async {
            for number in 1..100 {
                assert_eq!(
                    workers.run(For::Work, session(1), move || number).await.unwrap().unwrap(),
                    number
                );
            }
        });
        assert!((1..=4).contains(&pool.lock().threads.all), "{:?}", pool.lock().threads);
        assert!(soon(|| pool.lock().threads.all == 0), "{:?}", pool.lock().threads);
        let workers = Workers::with(4, 4, IDLE);
        let pool = workers.pool.clone();
        assert_eq!(
            runtime().block_on(workers.run(For::Work, session(1), || 1)).unwrap().unwrap(),
            1
        );
        drop(workers);
        assert!(soon(|| pool.lock().threads.all == 0), "{:?}", pool.lock().threads);
    }

    #[test]
    fn dropping_the_guard_drops_waiting_jobs_and_not_running_ones() {
        let workers = Workers::with(1, 1, IDLE);
        let pool = workers.pool.clone();
        let (go, waits) = mpsc::channel::<()>();
        let add = |job: Job| pool.add(For::Work, session(1), job).unwrap();
        let (waiting, began) = (Arc::new(()), Arc::new(()));
        let in_jobs = (waiting.clone(), began.clone());
        let first = add(Box::new(move || {
            let _ = waits.recv();
            drop(in_jobs.1);
        }));
        let second = add(Box::new(move || drop(in_jobs.0)));
        assert!(soon(|| pool.lock().work.is_full()));
        drop(workers);
        assert_eq!((Arc::strong_count(&waiting), Arc::strong_count(&began)), (1, 2));
        drop((first, second, go));
        assert!(soon(|| Arc::strong_count(&began) == 1 && pool.lock().threads.all == 0));
    }

    #[test]
    fn resolution_and_work_have_separate_slots() {
        let workers = Workers::with(2, 2, IDLE);
        let all = Arc::new(std::sync::Barrier::new(5));
        for purpose in [For::Work, For::Roots] {
            for number in [1, 2] {
                let all = all.clone();
                let wait = Box::new(move || drop(all.wait().is_leader().to_string()));
                std::mem::forget(workers.pool.add(purpose, session(number), wait));
            }
        }
        // The barrier opens only if all four jobs run at the same time.
        all.wait();
    }

    /// Only the first of these threads is woken by a caller. Each of them wakes the next one.
    #[test]
    fn reserved_threads_all_start_while_the_jobs_before_them_run() {
        // No thread looks by itself during the test.
        let workers = Workers::with(16, 1, Duration::from_secs(600));
        for _ in 0..20 {
            let all = Arc::new(std::sync::Barrier::new(5));
            let started = Arc::new(AtomicUsize::new(0));
            for number in 1..=4 {
                let (all, started) = (all.clone(), started.clone());
                let wait = Box::new(move || {
                    started.fetch_add(1, SeqCst);
                    all.wait();
                });
                std::mem::forget(workers.pool.add(For::Work, session(number), wait));
            }
            assert!(soon(|| started.load(SeqCst) == 4), "{:?}", workers.pool.lock().threads);
            all.wait();
            assert!(soon(|| {
                let threads = &workers.pool.lock().threads;
                threads.idle == threads.all && threads.reserved == 0
            }));
        }
        assert_eq!(workers.pool.lock().threads.all, 4, "the same threads run all jobs");
    }

    #[test]
    fn no_job_is_lost_among_many_accounts() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
        // Threads start and end constantly, because they end after 200 µs without a job.
        let workers = Arc::new(Workers::with(3, 2, Duration::from_micros(200)));
        let ran = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let clients = (1..=40_u64).map(|client| {
                let (workers, ran) = (workers.clone(), ran.clone());
                runtime.spawn(async move {
                    for round in 0..200 {
                        let purpose =
                            if (client + round) % 3 == 0 { For::Roots } else { For::Work };
                        let ran = ran.clone();
                        let account = session(client % 13 + 1);
                        let job = workers.run(purpose, account, move || {
                            drop(ran.fetch_add(1, SeqCst).to_string());
                        });
                        if (client * round) % 7 == 3 {
                            // The job is dropped after it was polled once.
                            let mut job = pin!(job);
                            let polls = std::sync::atomic::AtomicUsize::new(0);
                            std::future::poll_fn(|context| match job.as_mut().poll(context) {
                                Poll::Pending if polls.fetch_add(1, SeqCst) == 0 => Poll::Ready(()),
                                _ => Poll::Ready(()),
                            })
                            .await;
                        } else {
                            job.await.unwrap().unwrap();
                        }
                    }
                })
            });
            for client in clients.collect::<Vec<_>>() {
                client.await.unwrap();
            }
        });
        let pool = &workers.pool;
        assert!(soon(|| pool.lock().threads.all == 0), "{:?}", pool.lock().threads);
        assert!(ran.load(SeqCst) >= 40 * 200 * 5 / 7);
    }

    /// Starts one job for each account. The jobs hang until the sender is dropped.
    fn hang(
        workers: &Workers,
        purpose: For,
        accounts: std::ops::RangeInclusive<u64>,
    ) -> (mpsc::Sender<()>, Vec<Ticket>) {
        let (go, waits) = mpsc::channel::<()>();
        let waits = Arc::new(Mutex::new(waits));
        let add = |number: u64| {
            let waits = waits.clone();
            // The job's operation is on one of three devices.
            let hangs = move || {
                drop(counted(
                    || Some(number % 3),
                    || Ok(waits.lock().map(|waits| waits.recv().is_ok()).is_ok()),
                ));
            };
            workers.pool.add(purpose, session(number), Box::new(hangs)).unwrap()
        };
        let tickets = accounts.map(add).collect();
        (go, tickets)
    }

    #[test]
    fn other_clients_are_served_while_all_slots_hang() {
        let workers = Workers::with(8, 1, IDLE);
        let (go, _tickets) = hang(&workers, For::Work, 1..=8);
        assert!(soon(|| workers.pool.lock().work.is_full()));
        // The job waits until the other jobs have run long enough to count as hung.
        assert_eq!(
            runtime().block_on(workers.run(For::Work, session(9), || 9)).unwrap().unwrap(),
            9
        );
        let (go_on, _more) = hang(&workers, For::Work, 10..=17);
        assert!(soon(|| workers.pool.lock().work.is_stuck()));
        // Twice as many jobs hang as there are slots. A new job is refused instead of waiting for
        // them.
        let refused = runtime().block_on(workers.run(For::Work, session(18), || 18)).unwrap_err();
        assert_eq!(refused.reason(), Code::Busy);
        drop((go, go_on));
        assert!(soon(|| !workers.pool.lock().work.is_full()));
        assert_eq!(
            runtime().block_on(workers.run(For::Work, session(18), || 18)).unwrap().unwrap(),
            18
        );
    }

    #[test]
    fn waiting_jobs_all_start_once_slots_are_found_to_hang() {
        let workers = Workers::with(8, 1, IDLE);
        let (go, _tickets) = hang(&workers, For::Work, 1..=8);
        assert!(soon(|| workers.pool.lock().work.is_full()));
        // Both jobs wait for a slot, and then for each other.
        let (one, hears_one) = mpsc::channel();
        let (other, hears_other) = mpsc::channel();
        let meet = |say: mpsc::Sender<()>, hear: mpsc::Receiver<()>| {
            move || say.send(()).is_ok() && hear.recv_timeout(Duration::from_secs(20)).is_ok()
        };
        let first = workers.run(For::Work, session(9), meet(one, hears_other));
        let second = workers.run(For::Work, session(10), meet(other, hears_one));
        let (mut first, mut second) = (pin!(first), pin!(second));
        begins(first.as_mut());
        begins(second.as_mut());
        let both = runtime()
            .block_on(async { (first.await.unwrap().unwrap(), second.await.unwrap().unwrap()) });
        assert_eq!(both, (true, true));
        drop(go);
    }

    #[test]
    fn abandoned_resolution_gives_its_slot_to_a_waiting_one() {
        let workers = Workers::with(1, 4, IDLE);
        let (go, tickets) = hang(&workers, For::Roots, 1..=4);
        assert!(soon(|| workers.pool.lock().roots.is_full()));
        let mut waits = pin!(workers.run(For::Roots, session(5), || 5));
        begins(waits.as_mut());
        drop(tickets);
        // No other job is added, so dropping the tickets must wake a thread.
        let served = runtime().block_on(async {
            let mut waits = waits;
            for _ in 0..2000 {
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                if let Poll::Ready(done) = waits.as_mut().poll(&mut context) {
                    return Some(done.unwrap().unwrap());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            None
        });
        assert_eq!(served, Some(5));
        drop(go);
    }
}
