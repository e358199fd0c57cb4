//! Fair use of the threads on which clients' work waits for filesystems.
//!
//! A filesystem can hang, and then so does the thread that waits for it. Each job therefore first
//! takes, in this order:
//!
//! 1. a permit of its client's share, which is a quarter of the slots;
//! 2. the client's one place in the queue for slots, which it leaves when it has a slot, so clients
//!    take turns, however many calls each of them makes;
//! 3. a slot.
//!
//! The share and the slot are held by the job itself and end with it, no matter who still waits for
//! its result. A client that uses only hung filesystems takes at most one of the lent slots, and
//! any other client is served, one job at a time.
//!
//! Resolutions of lists have slots of their own. Work may wait for a resolution, but a resolution
//! never waits for work, and no job waits for a slot, so there is no deadlock.
//!
//! | situation | result |
//! | --- | --- |
//! | one client's jobs take its share | its further calls wait, up to [`QUEUED_EACH`], and then `queue_full` |
//! | all slots are taken, and the oldest job has run for [`PATIENCE`] | its slot is lent to a waiting client without a running job |
//! | as many jobs run as there are slots, and some have lent theirs | a client with a running job is refused another (`busy`) |
//! | twice as many jobs run as there are slots | `busy` |
//! | a call is dropped while it waits | its place, its share and its job are dropped at once |
//! | a call is dropped while its job runs | the job keeps its slot until it ends |
//! | a job panics | its slot is freed, and the call gets the panic |
//! | no thread begins the job within two seconds | the job is withdrawn, and the call is refused (`busy`) |
//! | the guard is dropped while jobs run | they continue, and the process can end |

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Weak};

use guarded_fs::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::events;
use crate::limits::{PATIENCE, QUEUED_EACH, RESOLUTIONS};
use crate::session::errors::{busy, queue_full};
use crate::session::runtime::{Instant, Mutex, MutexGuard, Threads, lock, timeout_at};

pub(crate) struct Slots {
    threads: Threads,
    /// Separate, because an allocator keeps memory for each thread, and a large list needs much.
    resolving: Threads,
    pub(crate) work: Lane,
    resolutions: Lane,
}

/// Slots of one kind.
pub(crate) struct Lane {
    slots: Arc<Semaphore>,
    count: usize,
    /// Whether each client has one slot instead of a quarter of them.
    one_each: bool,
    clients: Mutex<HashMap<Arc<str>, Weak<ClientShare>>>,
    jobs: Arc<Mutex<Jobs>>,
}

/// What one client may use of a lane.
pub(crate) struct ClientShare {
    share: Arc<Semaphore>,
    turn: Semaphore,
    waiting: Semaphore,
    /// When its work last made progress.
    pub(crate) progressed: Mutex<Instant>,
}

/// The jobs that run in a lane, in the order in which they began.
#[derive(Default)]
struct Jobs {
    running: BTreeMap<u64, Job>,
    last: u64,
}

struct Job {
    client: Arc<ClientShare>,
    began: Instant,
    /// `None` if the job has lent its slot.
    slot: Option<OwnedSemaphorePermit>,
}

/// A job's place among the running ones, and its part of the client's share. Dropping it frees
/// both.
struct RunningJob {
    jobs: Arc<Mutex<Jobs>>,
    number: u64,
    _share: OwnedSemaphorePermit,
}

/// A job that a call waits for. Dropping this before the job begins drops the job.
struct Waiter<J>(Arc<Mutex<Option<J>>>);

impl Slots {
    /// Slots for this many jobs of work at once. Without a runtime, the guard has its own threads.
    pub(crate) fn new(work: usize, runtime: Option<&tokio::runtime::Handle>) -> Self {
        let threads = |most| runtime.cloned().map_or_else(|| Threads::own(most), Threads::of);
        // A lent slot takes a second thread. One more resolves the configured paths.
        let (threads, resolving) = (threads(2 * work + 1), threads(2 * RESOLUTIONS));
        let (work, resolutions) = (Lane::new(work, false), Lane::new(RESOLUTIONS, true));
        Self { threads, resolving, work, resolutions }
    }

    /// Runs the work of a handler when its turn comes. Returns its result or its panic. If the
    /// future is dropped before the work begins, the work never runs.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        client: &Arc<str>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<std::thread::Result<T>> {
        run(&self.threads, self.work.take(client).await?, job).await
    }

    /// Like [`work`](Self::work), for the resolution of a list.
    pub(crate) async fn resolve<T: Send + 'static>(
        &self,
        client: &Arc<str>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<std::thread::Result<T>> {
        run(&self.resolving, self.resolutions.take(client).await?, job).await
    }

    /// Runs a job of the server itself, which needs no slot. Nobody waits for it.
    pub(crate) fn start(&self, job: impl FnOnce() + Send + 'static) {
        // If no thread can be started, the job waits for the next one that is.
        drop(self.threads.spawn(job));
    }
}

async fn run<T: Send + 'static>(
    threads: &Threads,
    running: RunningJob,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<std::thread::Result<T>> {
    // Without a timer, the job must not begin.
    timeout_at(Instant::now(), std::future::ready(())).await?;
    let (sender, result) = oneshot::channel();
    let job = events::in_span_of_caller(job);
    let waiting = Waiter(Arc::new(Mutex::new(Some((running, sender, job)))));
    let begins = Waiter(waiting.0.clone());
    let mut ended = pin!(threads.spawn(move || {
        let Some((_running, sender, job)) = begins.take() else { return };
        let done = catch_unwind(AssertUnwindSafe(job));
        // A result that nobody waits for is dropped here, in its slot. Its destructor may block
        // or panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(sender.send(done))));
    })?);
    match timeout_at(Instant::now() + PATIENCE, &mut ended).await? {
        // The closure cannot panic.
        Some(ended) => _ = ended?,
        // Taking the job withdraws it, and drops the sender.
        None if waiting.take().is_some() => {}
        None => _ = ended.await?,
    }
    let withdrawn = |_| busy("no thread was free to begin the job");
    result.await.map_err(withdrawn)
}

impl Lane {
    fn new(count: usize, one_each: bool) -> Self {
        let (slots, clients) = (Arc::new(Semaphore::new(count)), Mutex::default());
        Self { slots, count, one_each, clients, jobs: Arc::default() }
    }

    /// Waits for a slot, and returns the right to run one job.
    async fn take(&self, share: &Arc<str>) -> Result<RunningJob> {
        let client = self.client(share);
        let waiting = client.waiting.try_acquire().map_err(|_| queue_full())?;
        let share = acquired(client.share.clone().acquire_owned().await)?;
        let turn = acquired(client.turn.acquire().await)?;
        let mut queue = pin!(self.slots.clone().acquire_owned());
        let slot = loop {
            if let Ok(slot) = self.slots.clone().try_acquire_owned() {
                break slot;
            }
            let until = match self.lend(&client)? {
                Loan::Slot(slot) => break slot,
                Loan::NotBefore(until) => until,
            };
            if let Some(slot) = timeout_at(until, &mut queue).await? {
                break acquired(slot)?;
            }
        };
        let mut jobs = self.lock();
        // Defense: A client whose jobs hang gets no slot that was lent.
        let is_refused = jobs.running.len() >= self.count && jobs.has_any_of(&client);
        // Two calls may have found at once that one more slot can be lent.
        if is_refused || jobs.running.len() >= 2 * self.count {
            drop(jobs);
            return Err(hanging());
        }
        let number = jobs.begin(client.clone(), slot);
        drop(jobs);
        drop((turn, waiting));
        Ok(RunningJob { jobs: self.jobs.clone(), number, _share: share })
    }

    /// Takes the slot of the oldest job, or returns the time at which to try again.
    fn lend(&self, client: &Arc<ClientShare>) -> Result<Loan> {
        let (now, mut jobs) = (Instant::now(), self.lock());
        let (has_any, running) = (jobs.has_any_of(client), jobs.running.len());
        let oldest = jobs.running.values_mut().find(|job| job.slot.is_some());
        let Some(oldest) = oldest else { return Ok(Loan::NotBefore(now + PATIENCE)) };
        let until = oldest.began + PATIENCE;
        // A slot is lent only to a client that has none.
        match oldest.slot.take_if(|_| now >= until && !has_any && running < 2 * self.count) {
            Some(slot) => Ok(Loan::Slot(slot)),
            None if now < until => Ok(Loan::NotBefore(until)),
            None if running > self.count => Err(hanging()),
            None => Ok(Loan::NotBefore(now + PATIENCE)),
        }
    }

    pub(crate) fn client(&self, share: &Arc<str>) -> Arc<ClientShare> {
        // Stateless requests without a key may come from several clients.
        let is_one = self.one_each && !share.is_empty();
        // Defense: One client has at most a quarter of the slots.
        let size = if is_one { 1 } else { (self.count / 4).max(1) };
        let mut clients = lock(&self.clients);
        if let Some(client) = clients.get(share).and_then(Weak::upgrade) {
            return client;
        }
        if clients.len() == clients.capacity() {
            // Clients of which no call waits or runs are forgotten before the table grows.
            clients.retain(|_, client| client.strong_count() > 0);
            let alive = clients.len();
            clients.shrink_to(2 * alive);
            clients.reserve(alive + 1);
        }
        let client = Arc::new(ClientShare {
            share: Arc::new(Semaphore::new(size)),
            turn: Semaphore::new(1),
            waiting: Semaphore::new(QUEUED_EACH),
            progressed: Mutex::new(Instant::now()),
        });
        clients.insert(share.clone(), Arc::downgrade(&client));
        client
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        lock(&self.jobs)
    }
}

/// A slot that a job has lent, or the time before which no job lends one.
enum Loan {
    Slot(OwnedSemaphorePermit),
    NotBefore(Instant),
}

impl Jobs {
    fn begin(&mut self, client: Arc<ClientShare>, slot: OwnedSemaphorePermit) -> u64 {
        self.last += 1;
        self.running.insert(self.last, Job { client, began: Instant::now(), slot: Some(slot) });
        self.last
    }

    fn has_any_of(&self, client: &Arc<ClientShare>) -> bool {
        self.running.values().any(|job| Arc::ptr_eq(&job.client, client))
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        let ended = lock(&self.jobs).running.remove(&self.number);
        if let Some(job) = &ended {
            *lock(&job.client.progressed) = Instant::now();
        }
        // The slot is freed after the lock, because this wakes the next call in the queue.
        drop(ended);
    }
}

impl<J> Waiter<J> {
    fn take(&self) -> Option<J> {
        lock(&self.0).take()
    }
}

impl<J> Drop for Waiter<J> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

fn acquired<T>(permit: std::result::Result<T, tokio::sync::AcquireError>) -> Result<T> {
    permit.map_err(|_| hanging())
}

fn hanging() -> Error {
    busy("too many running operations hang")
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;

    fn client(number: u64) -> Arc<str> {
        number.to_string().into()
    }

    /// Starts a job of work that hangs until the sender is dropped.
    async fn hang(slots: &Slots, number: u64) -> mpsc::Sender<()> {
        let (go, waits) = mpsc::channel::<()>();
        let running = slots.work.take(&client(number)).await.unwrap();
        let job = move || {
            let _running = running;
            waits.recv().is_ok()
        };
        drop(slots.threads.spawn(job).unwrap());
        go
    }

    async fn run(slots: &Slots, number: u64) -> Result<u64> {
        slots.work(&client(number), move || number).await.map(Result::unwrap)
    }

    /// Waits until no job runs, and checks that every slot was returned.
    async fn all_are_free(slots: &Slots) {
        let until = std::time::Instant::now() + Duration::from_secs(20);
        for lane in [&slots.work, &slots.resolutions] {
            while !lane.lock().running.is_empty() {
                assert!(std::time::Instant::now() < until, "a job does not end");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            while lane.slots.available_permits() < lane.count {
                assert!(std::time::Instant::now() < until, "a slot was not returned");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(lane.slots.available_permits(), lane.count);
        }
    }

    fn waits(call: std::pin::Pin<&mut impl Future>) -> bool {
        call.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    #[tokio::test]
    async fn a_client_takes_its_share_and_no_more() {
        let slots = Slots::new(8, None);
        let hung = [hang(&slots, 1).await, hang(&slots, 1).await];
        let mut third = pin!(run(&slots, 1));
        assert!(waits(third.as_mut()));
        assert_eq!(slots.work.lock().running.len(), 2);
        assert_eq!(run(&slots, 2).await.unwrap(), 2);
        drop(hung);
        assert_eq!(third.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn calls_beyond_the_limit_are_refused_and_leave_room_when_dropped() {
        let slots = Slots::new(4, None);
        let _hung = hang(&slots, 1).await;
        let mut calls: Vec<_> = (0..QUEUED_EACH).map(|_| Box::pin(run(&slots, 1))).collect();
        assert!(calls.iter_mut().all(|call| waits(call.as_mut())));
        assert_eq!(run(&slots, 1).await.unwrap_err().code(), "queue_full");
        assert_eq!(run(&slots, 2).await.unwrap(), 2);
        calls.pop();
        assert!(waits(pin!(run(&slots, 1)).as_mut()));
    }

    #[test]
    fn clients_that_are_gone_are_forgotten() {
        let slots = Slots::new(4, None);
        let kept = slots.work.client(&client(0));
        for number in 1..10_000 {
            drop(slots.work.client(&client(number)));
        }
        assert!(lock(&slots.work.clients).capacity() < 100);
        assert!(Arc::ptr_eq(&kept, &slots.work.client(&client(0))));
    }

    #[tokio::test]
    async fn clients_take_turns() {
        let slots = Slots::new(4, None);
        let mut hung = Vec::new();
        for number in 1..=4 {
            hung.push(hang(&slots, number).await);
        }
        let (slots, order) = (Arc::new(slots), Arc::new(std::sync::Mutex::new(Vec::new())));
        let call = |number| {
            let (slots, order) = (slots.clone(), order.clone());
            tokio::spawn(async move {
                let running = slots.work.take(&client(number)).await.unwrap();
                order.lock().unwrap().push(number);
                drop(running);
            })
        };
        // One client's calls come first.
        let calls = [5, 5, 5, 6, 7].map(call);
        tokio::task::yield_now().await;
        drop(hung.pop());
        for call in calls {
            call.await.unwrap();
        }
        let order = order.lock().unwrap();
        assert_eq!(order.first(), Some(&5));
        assert!(order.iter().position(|it| *it == 7) < order.iter().rposition(|it| *it == 5));
    }

    #[tokio::test]
    async fn clients_without_a_slot_are_served_while_all_slots_hang() {
        let slots = Slots::new(4, None);
        let mut hung = Vec::new();
        for number in 1..=4 {
            hung.push(hang(&slots, number).await);
        }
        let began = std::time::Instant::now();
        assert_eq!(run(&slots, 5).await.unwrap(), 5);
        assert!(began.elapsed() >= PATIENCE * 9 / 10, "a slot was lent early");
        // Afterwards there is no wait.
        let began = std::time::Instant::now();
        assert_eq!(run(&slots, 6).await.unwrap(), 6);
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
        // The share of a client whose job hangs is taken, so its calls wait, and not for a slot.
        assert!(waits(pin!(run(&slots, 1)).as_mut()));
        for number in 7..=9 {
            hung.push(hang(&slots, number).await);
        }
        // As many slots as there are have been lent.
        tokio::time::sleep(PATIENCE).await;
        hung.push(hang(&slots, 10).await);
        tokio::time::sleep(PATIENCE).await;
        assert_eq!(run(&slots, 11).await.unwrap_err().code(), "busy");
        drop(hung);
        all_are_free(&slots).await;
        assert_eq!(run(&slots, 11).await.unwrap(), 11);
    }

    #[tokio::test]
    async fn a_client_with_a_slot_gets_none_while_one_is_lent() {
        let slots = Slots::new(8, None);
        let mut hung = Vec::new();
        for number in [1, 1, 2, 2, 3, 3, 4, 5] {
            hung.push(hang(&slots, number).await);
        }
        // While only clients with a slot wait, no slot is lent, and nobody is refused.
        let mut second = pin!(run(&slots, 4));
        assert!(tokio::time::timeout(PATIENCE * 5 / 4, second.as_mut()).await.is_err());
        hung.remove(0);
        assert_eq!(second.await.unwrap(), 4);
        hung.push(hang(&slots, 1).await);
        hung.push(hang(&slots, 6).await);
        // A slot has been lent to the last client.
        assert_eq!(run(&slots, 5).await.unwrap_err().code(), "busy");
        assert_eq!(run(&slots, 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_before_its_turn_never_runs() {
        let slots = Slots::new(4, None);
        let began = Arc::new(AtomicUsize::new(0));
        let go = hang(&slots, 1).await;
        {
            let count = began.clone();
            let job = async {
                let running = slots.work.take(&client(1)).await.unwrap();
                super::run(&slots.threads, running, move || count.fetch_add(1, SeqCst)).await
            };
            assert!(waits(pin!(job).as_mut()));
        }
        drop(go);
        assert_eq!(run(&slots, 1).await.unwrap(), 1);
        assert_eq!((began.load(SeqCst), Arc::strong_count(&began)), (0, 1));
    }

    /// A borrower returns its slot while a client with a hung job is first in the queue.
    #[tokio::test]
    async fn a_returned_slot_does_not_go_to_a_client_whose_jobs_hang() {
        let slots = Slots::new(8, None);
        let mut hung = Vec::new();
        for number in [1, 1, 2, 2, 3, 3, 4, 5] {
            hung.push(hang(&slots, number).await);
        }
        let mut queued = pin!(run(&slots, 4));
        assert!(waits(queued.as_mut()));
        assert_eq!(run(&slots, 6).await.unwrap(), 6);
        assert_eq!(queued.await.unwrap_err().code(), "busy");
        assert_eq!(run(&slots, 7).await.unwrap(), 7);
    }

    /// Others are refused nothing once fewer jobs run than there are slots.
    #[tokio::test]
    async fn one_hung_job_restricts_only_its_own_client() {
        let slots = Slots::new(8, None);
        let mut hung = Vec::new();
        for number in [1, 1, 2, 2, 3, 3, 4, 4] {
            hung.push(hang(&slots, number).await);
        }
        assert_eq!(run(&slots, 5).await.unwrap(), 5);
        // The first job, which lent its slot, goes on.
        hung.truncate(1);
        while slots.work.lock().running.len() > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let _one = hang(&slots, 6).await;
        assert_eq!(run(&slots, 6).await.unwrap(), 6);
    }

    /// The destructor of a result may block, so it runs before the slot is freed.
    #[tokio::test]
    async fn a_result_that_nobody_waits_for_is_dropped_in_its_slot() {
        struct Blocks(mpsc::Receiver<()>);
        impl Drop for Blocks {
            fn drop(&mut self) {
                let _ = self.0.recv();
            }
        }
        let slots = Slots::new(4, None);
        let (go, blocks) = mpsc::channel::<()>();
        let (begins, began) = mpsc::channel();
        let (ends, end) = mpsc::channel::<()>();
        {
            let account = client(1);
            let job = slots.work(&account, move || {
                begins.send(()).unwrap();
                let _ = end.recv();
                Blocks(blocks)
            });
            let mut job = pin!(job);
            assert!(waits(job.as_mut()));
            began.recv_timeout(Duration::from_secs(20)).unwrap();
        }
        drop(ends);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(slots.work.lock().running.len(), 1);
        drop(go);
        all_are_free(&slots).await;
    }

    /// The given runtime has one blocking thread, which hangs.
    #[test]
    fn a_job_that_no_thread_begins_is_withdrawn() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let slots = Slots::new(4, Some(runtime.handle()));
        let (go, waits) = mpsc::channel::<()>();
        drop(runtime.spawn_blocking(move || waits.recv()));
        let began = Arc::new(AtomicUsize::new(0));
        let count = began.clone();
        let job = async {
            let running = slots.work.take(&client(1)).await?;
            super::run(&slots.threads, running, move || count.fetch_add(1, SeqCst)).await
        };
        assert_eq!(runtime.block_on(job).unwrap_err().code(), "busy");
        drop(go);
        assert_eq!(runtime.block_on(run(&slots, 1)).unwrap(), 1);
        assert_eq!((began.load(SeqCst), Arc::strong_count(&began)), (0, 1));
    }

    #[tokio::test]
    async fn a_panic_is_the_calls_own() {
        let slots = Slots::new(4, None);
        let job = || -> u64 { std::panic::resume_unwind(Box::new("no")) };
        let panic = slots.resolve(&client(1), job).await.unwrap().unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"no"));
        assert_eq!(slots.resolve(&client(1), || 1).await.unwrap().unwrap(), 1);
        assert_eq!(run(&slots, 1).await.unwrap(), 1);
    }

    /// A server whose work hangs must be able to end, and work may own the last clone of the guard.
    #[tokio::test]
    async fn dropping_the_slots_waits_for_no_job() {
        let began = std::time::Instant::now();
        let slots = Slots::new(4, None);
        let _hung = hang(&slots, 1).await;
        drop(slots);
        let slots = Arc::new(Slots::new(4, None));
        let running = slots.work.take(&client(1)).await.unwrap();
        let (go, waits) = mpsc::channel::<()>();
        let (ends, ended) = mpsc::channel();
        let last = slots.clone();
        let job = move || {
            let _ = waits.recv();
            drop((running, last));
            ends.send(()).unwrap();
        };
        drop(slots.threads.spawn(job).unwrap());
        drop(slots);
        drop(go);
        ended.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_slot_is_lost_among_many_clients() {
        let slots = Arc::new(Slots::new(5, None));
        let ran = Arc::new(AtomicUsize::new(0));
        let clients = (1..=40_u64).map(|number| {
            let (slots, ran) = (slots.clone(), ran.clone());
            tokio::spawn(async move {
                for round in 0..200 {
                    let ran = ran.clone();
                    let work = move || ran.fetch_add(1, SeqCst);
                    let account = client(number % 13 + 1);
                    let job = async {
                        if (number + round) % 3 == 0 {
                            return slots.resolve(&account, work).await;
                        }
                        slots.work(&account, work).await
                    };
                    if (number * round) % 7 == 3 {
                        let limit = Duration::from_micros(50 * (round % 5));
                        let _ = tokio::time::timeout(limit, job).await;
                    } else {
                        job.await.unwrap().unwrap();
                    }
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        assert!(ran.load(SeqCst) >= 40 * 200 * 5 / 7);
        all_are_free(&slots).await;
    }
}
