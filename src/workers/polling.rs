//! When a thread polls for the next job.
//!
//! Waking a thread takes longer than most jobs. If the client of a connection makes calls in a row,
//! as on stdio, the next call follows soon after the response to the last one. After work that
//! itself followed soon after other work for the same connection, a thread therefore polls for the
//! next job for up to [`NEXT_JOB_POLL`](crate::limits::NEXT_JOB_POLL) before it waits. If that job
//! is for this connection, no other thread is woken.

use std::time::{Duration, Instant};

use super::Account;

/// Whether a thread polls for the next job, and whether one may start to.
#[derive(Debug, Default)]
pub(super) struct Polling {
    /// The connection for whose next job a thread polls. It also looks for the jobs of others.
    pub(super) connection: Option<Account>,
    /// The connection whose work ended last, and when.
    pub(super) last: Option<(Account, Instant)>,
    /// No thread polls before this time, because the processors were busy.
    pub(super) paused_until: Option<Instant>,
}

impl Polling {
    /// Whether work that starts now follows other work for this connection within this time.
    pub(super) fn follows(&self, connection: &Account, time: Duration) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|(account, ended)| account == connection && ended.elapsed() < time)
    }

    /// Whether a thread may start to poll.
    pub(super) fn may_start(&self) -> bool {
        self.connection.is_none() && self.paused_until.is_none_or(|until| until <= Instant::now())
    }
}

/// Only the adapter knows connections of one client.
#[cfg(test)]
#[cfg(feature = "rmcp")]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc;

    use super::super::tests::{begins, runtime, session, soon};
    use super::super::{For, Wake, Workers};
    use super::*;

    /// Longer than a test takes.
    const LONG: Duration = Duration::from_secs(60);

    const CONNECTION: Account = Account::Connection(1);

    /// Workers whose threads poll for the next job for this long.
    fn workers(slots: usize, poll: Duration) -> Workers {
        let mut workers = Workers::with(slots, 1, LONG);
        Arc::get_mut(&mut workers.pool).unwrap().poll = poll;
        workers
    }

    fn run(workers: &Workers, purpose: For, account: Account) {
        runtime().block_on(workers.run(purpose, account, || ())).unwrap().unwrap();
    }

    /// Waits until all threads wait or poll, and returns whether one polls.
    fn is_polling(workers: &Workers) -> bool {
        let settled = || {
            let state = workers.pool.lock();
            let polling = usize::from(state.polling.connection.is_some());
            state.threads.idle + polling == state.threads.all
        };
        assert!(soon(settled));
        workers.pool.lock().polling.connection.is_some()
    }

    #[test]
    fn a_thread_polls_for_the_next_job_after_calls_in_a_row() {
        let workers = workers(2, LONG);
        let polls_after = |purpose, account| {
            run(&workers, purpose, account);
            is_polling(&workers)
        };
        assert!(!polls_after(For::Work, session(1)));
        assert!(!polls_after(For::Work, session(1)), "this is not a connection");
        assert!(!polls_after(For::Roots, CONNECTION));
        assert!(!polls_after(For::Work, CONNECTION), "the one before it was no call");
        assert!(!polls_after(For::Work, Account::Connection(2)));
        assert!(!polls_after(For::Work, CONNECTION), "the one before it was of another client");
        assert!(polls_after(For::Work, CONNECTION));
        assert!(polls_after(For::Work, CONNECTION));
        workers.pool.lock().polling.last =
            Instant::now().checked_sub(2 * LONG).map(|ended| (CONNECTION, ended));
        assert!(!polls_after(For::Work, CONNECTION), "the one before it ended too long ago");
        assert_eq!(workers.pool.lock().threads.all, 1);
    }

    #[test]
    fn a_thread_that_polls_takes_one_job_and_others_are_woken_for_more() {
        let workers = workers(4, LONG);
        for _ in 0..50 {
            while !is_polling(&workers) {
                run(&workers, For::Work, CONNECTION);
            }
            let running = Arc::new(AtomicUsize::new(0));
            // Each job waits until all run, so each needs a thread of its own.
            let job = |client| {
                let running = running.clone();
                workers.run(For::Work, Account::Connection(client), move || {
                    running.fetch_add(1, SeqCst);
                    soon(|| running.load(SeqCst) == 4)
                })
            };
            let (mut one, mut two) = (pin!(job(1)), pin!(job(2)));
            let (mut three, four) = (pin!(job(3)), job(4));
            for begun in [one.as_mut(), two.as_mut(), three.as_mut()] {
                begins(begun);
            }
            let done = async { [four.await, one.await, two.await, three.await] };
            assert!(runtime().block_on(done).into_iter().all(|done| done.unwrap().unwrap()));
        }
        // This fails if several threads poll.
        is_polling(&workers);
    }

    #[test]
    fn jobs_of_others_and_further_jobs_wake_a_thread_while_another_polls() {
        let workers = workers(2, LONG);
        let (go, waits) = mpsc::channel::<()>();
        let mut held = pin!(workers.run(For::Work, session(1), move || waits.recv().is_err()));
        begins(held.as_mut());
        run(&workers, For::Work, session(2));
        drop(go);
        assert!(runtime().block_on(held).unwrap().unwrap());
        run(&workers, For::Work, CONNECTION);
        run(&workers, For::Work, CONNECTION);
        assert!(is_polling(&workers) && workers.pool.lock().threads.idle == 1);
        // Adds jobs and cancels them before a thread can take them.
        let wake_for_last = |accounts: &[Account]| {
            let mut state = workers.pool.lock();
            let push = |account| state.work.push(account, Box::new(|| ())).ok().unwrap();
            let numbers: Vec<u64> = accounts.iter().map(push).collect();
            let wake = workers.pool.thread_for(&mut state, accounts.last().unwrap());
            for (account, number) in accounts.iter().zip(numbers) {
                assert!(state.work.cancel(account, number).is_some());
            }
            state.threads.release_reserved();
            wake
        };
        assert_eq!(wake_for_last(&[CONNECTION]), Wake::Nobody);
        assert_eq!(wake_for_last(&[session(2)]), Wake::Idle);
        assert_eq!(wake_for_last(&[CONNECTION, CONNECTION]), Wake::Idle);
    }

    #[test]
    fn a_thread_that_polls_ends_with_the_guard() {
        let workers = workers(1, LONG);
        run(&workers, For::Work, CONNECTION);
        run(&workers, For::Work, CONNECTION);
        assert!(is_polling(&workers));
        let pool = Arc::downgrade(&workers.pool);
        drop(workers);
        assert!(soon(|| pool.strong_count() == 0));
    }

    #[test]
    fn no_thread_polls_for_a_while_after_polling_took_too_long() {
        // Any time is too long for these.
        let hasty = workers(1, Duration::ZERO);
        let state = hasty.pool.poll(hasty.pool.lock(), CONNECTION);
        assert!(state.polling.paused_until.is_some());
        let workers = workers(1, LONG);
        workers.pool.lock().polling.paused_until = Some(Instant::now() + LONG);
        run(&workers, For::Work, CONNECTION);
        run(&workers, For::Work, CONNECTION);
        assert!(!is_polling(&workers));
        workers.pool.lock().polling.paused_until = Some(Instant::now());
        run(&workers, For::Work, CONNECTION);
        assert!(is_polling(&workers));
    }

    #[test]
    fn a_thread_polls_for_a_limited_time_and_misses_no_job() {
        let workers = workers(2, Duration::from_micros(20));
        for number in 0..2000 {
            workers.pool.lock().polling.paused_until = None;
            run(&workers, For::Work, CONNECTION);
            // The next job is added before, while or after the thread stops polling.
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(number % 40) {}
        }
        assert!(soon(|| workers.pool.lock().threads.idle == 1));
        assert_eq!(workers.pool.lock().threads.all, 1);
    }
}
