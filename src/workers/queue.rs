//! Decides which job runs next. Each account has a queue, and accounts take turns.
//!
//! [`Queue`] tracks the waiting and running jobs for slots of one kind. It uses neither threads nor
//! a clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::limits::{QUEUED, QUEUED_EACH};
use crate::workers::Account;

/// The waiting and running jobs for slots of one kind.
#[derive(Debug)]
pub(super) struct Queue<J> {
    shares: Shares,
    accounts: BTreeMap<Account, AccountJobs<J>>,
    /// The accounts with a job that can start as soon as a slot is free, ordered by turn.
    ready: BTreeMap<u64, Account>,
    waiting: usize,
    /// The jobs that run and occupy a slot.
    running: BTreeSet<u64>,
    /// The jobs that run although no caller waits for them. They occupy no slot.
    abandoned: BTreeSet<u64>,
    last_number: u64,
}

/// How slots are shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) slots: usize,
    /// The maximum number of running jobs in addition to `slots`. These jobs are abandoned, or run
    /// while jobs in slots hang.
    pub(super) extra: usize,
    /// If true, each account except [`Account::Anonymous`] has one slot. A job that no caller waits
    /// for occupies no slot, because it ends soon unless it hangs. If false, each account has a
    /// quarter of the slots, and a job occupies its slot until it ends.
    pub(super) one_per_account: bool,
}

/// The jobs of one account.
#[derive(Debug)]
struct AccountJobs<J> {
    waiting: VecDeque<(u64, J)>,
    running: usize,
    turn: Option<u64>,
}

/// A job to start now.
#[derive(Debug)]
pub(super) struct Next<J> {
    pub(super) account: Account,
    pub(super) number: u64,
    pub(super) run: J,
}

impl<J> Queue<J> {
    pub(super) fn new(shares: Shares) -> Self {
        Self {
            shares,
            accounts: BTreeMap::new(),
            ready: BTreeMap::new(),
            waiting: 0,
            running: BTreeSet::new(),
            abandoned: BTreeSet::new(),
            last_number: 0,
        }
    }

    /// Adds a job and returns its number. Returns the job itself if too many jobs are waiting.
    pub(super) fn push(&mut self, account: &Account, job: J) -> Result<u64, J> {
        let waiting = self.accounts.get(account).map_or(0, |jobs| jobs.waiting.len());
        if waiting >= self.max_waiting(account) {
            return Err(job);
        }
        self.last_number += 1;
        let number = self.last_number;
        let jobs = self.accounts.entry(account.clone()).or_insert_with(|| AccountJobs {
            waiting: VecDeque::new(),
            running: 0,
            turn: None,
        });
        jobs.waiting.push_back((number, job));
        self.waiting += 1;
        self.update_turn(account);
        Ok(number)
    }

    /// Takes the next job if a slot is free. `hung` is the number of running jobs that hang and
    /// therefore do not count as occupying a slot.
    pub(super) fn next(&mut self, hung: usize) -> Option<Next<J>> {
        if !self.can_start(hung) {
            return None;
        }
        let (_, account) = self.ready.pop_first()?;
        let jobs = self.accounts.get_mut(&account)?;
        jobs.turn = None;
        let (number, run) = jobs.waiting.pop_front()?;
        jobs.running += 1;
        self.waiting -= 1;
        self.running.insert(number);
        self.update_turn(&account);
        Some(Next { account, number, run })
    }

    /// Removes a job that has ended.
    pub(super) fn finish(&mut self, account: &Account, number: u64) {
        if !self.running.remove(&number) {
            self.abandoned.remove(&number);
        }
        if let Some(jobs) = self.accounts.get_mut(account) {
            jobs.running -= 1;
        }
        self.update_turn(account);
    }

    /// Cancels a job that no caller is waiting for any longer. A job that has not started is
    /// removed and returned. A running job continues, but gives up its slot if
    /// [`Shares::one_per_account`] is set.
    pub(super) fn cancel(&mut self, account: &Account, number: u64) -> Option<J> {
        let jobs = self.accounts.get_mut(account)?;
        if let Ok(at) = jobs.waiting.binary_search_by_key(&number, |(number, _)| *number) {
            let (_, job) = jobs.waiting.remove(at)?;
            self.waiting -= 1;
            self.update_turn(account);
            return Some(job);
        }
        if self.shares.one_per_account && self.running.remove(&number) {
            self.abandoned.insert(number);
        }
        None
    }

    /// Removes all waiting jobs.
    pub(super) fn take_all(&mut self) -> Vec<J> {
        self.ready.clear();
        self.waiting = 0;
        let accounts = std::mem::take(&mut self.accounts);
        accounts.into_values().flat_map(|jobs| jobs.waiting).map(|(_, job)| job).collect()
    }

    /// Whether a waiting job can start.
    pub(super) fn can_start(&self, hung: usize) -> bool {
        match self.ready.first_key_value() {
            None => false,
            // The operator has one job at a time, which never waits for a client's job.
            Some((_, Account::Operator)) => true,
            Some(_) => {
                let free = self.running.len().saturating_sub(hung) < self.shares.slots;
                free && !self.is_stuck()
            }
        }
    }

    /// Whether a waiting job cannot start only because no slot is free.
    pub(super) fn is_blocked(&self) -> bool {
        !self.ready.is_empty() && !self.can_start(0)
    }

    /// The number of jobs that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether all slots are occupied. A job that hangs counts as occupying its slot.
    pub(super) fn is_full(&self) -> bool {
        self.running.len() >= self.shares.slots
    }

    /// Whether no job of any account can start until a running job ends.
    pub(super) fn is_stuck(&self) -> bool {
        self.running.len() + self.abandoned.len() >= self.max_running()
    }

    /// Whether `stuck` running jobs exhaust an account's share.
    pub(super) fn fills_share(&self, account: &Account, stuck: usize) -> bool {
        stuck >= self.share(account)
            && self.accounts.get(account).is_some_and(|jobs| jobs.running >= stuck)
    }

    /// The maximum number of jobs that run at once.
    pub(super) fn max_running(&self) -> usize {
        self.shares.slots + self.shares.extra
    }

    /// The number of an account's jobs that may wait. As the total approaches [`QUEUED`], an
    /// account may have fewer waiting jobs, to leave room for others. Every account may have at
    /// least one until twice [`QUEUED`] jobs are waiting.
    fn max_waiting(&self, account: &Account) -> usize {
        match account {
            // If the operator's job hangs, no caller should wait for another one.
            Account::Operator => usize::from(!self.accounts.contains_key(account)),
            _ => QUEUED_EACH
                .min(QUEUED.saturating_sub(self.waiting))
                .max(usize::from(self.waiting < 2 * QUEUED)),
        }
    }

    /// The number of an account's jobs that may run at once.
    fn share(&self, account: &Account) -> usize {
        match account {
            // This account is shared by many clients.
            Account::Anonymous => (self.shares.slots / 4).max(1),
            _ if self.shares.one_per_account => 1,
            // Defense: One client has at most a quarter of the slots.
            _ => (self.shares.slots / 4).max(1),
        }
    }

    /// Adds an account to the turn order if it can start a job, and removes it from the order if it
    /// cannot. Removes an account without jobs.
    fn update_turn(&mut self, account: &Account) {
        let share = self.share(account);
        let Some(jobs) = self.accounts.get_mut(account) else { return };
        let is_ready = !jobs.waiting.is_empty() && jobs.running < share;
        match (is_ready, jobs.turn) {
            (true, None) => {
                self.last_number += 1;
                // The operator always goes first.
                let turn = if *account == Account::Operator { 0 } else { self.last_number };
                jobs.turn = Some(turn);
                self.ready.insert(turn, account.clone());
            }
            (false, Some(turn)) => {
                jobs.turn = None;
                self.ready.remove(&turn);
            }
            _ => {}
        }
        if jobs.waiting.is_empty() && jobs.running == 0 {
            self.accounts.remove(account);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::SessionId;

    fn session(number: u64) -> Account {
        Account::Session(SessionId(number.try_into().unwrap()))
    }

    fn queue(slots: usize, one_per_account: bool) -> Queue<&'static str> {
        Queue::new(Shares { slots, extra: slots, one_per_account })
    }

    fn started(queue: &mut Queue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.next(0)).map(|next| next.run).collect()
    }

    #[test]
    fn accounts_take_turns_and_each_has_a_quarter_of_the_slots() {
        let mut queue = queue(8, false);
        let mut numbers = Vec::new();
        for (account, jobs) in
            [(1, ["a1", "a2", "a3"]), (2, ["b1", "b2", "b3"]), (3, ["c1", "c2", "c3"])]
        {
            numbers.extend(
                jobs.map(|job| (session(account), queue.push(&session(account), job).unwrap())),
            );
        }
        assert_eq!(started(&mut queue), ["a1", "b1", "c1", "a2", "b2", "c2"]);
        assert!(!queue.is_blocked(), "two slots are free, but every account has its share");
        queue.finish(&numbers[3].0, numbers[3].1);
        assert_eq!(started(&mut queue), ["b3"]);
        // A new account gets a slot.
        queue.push(&session(4), "d1").unwrap();
        assert_eq!(started(&mut queue), ["d1"]);
    }

    #[test]
    fn each_account_has_one_slot_if_there_are_few() {
        for slots in 1..8 {
            let mut queue = queue(slots, false);
            for job in ["a1", "a2"] {
                queue.push(&session(1), job).unwrap();
            }
            assert_eq!(started(&mut queue), ["a1"], "{slots}");
        }
    }

    #[test]
    fn session_resolves_one_list_at_a_time_and_anonymous_clients_several() {
        let mut queue = queue(8, true);
        for account in [session(1), Account::Anonymous, Account::Operator] {
            for job in ["1", "2", "3"] {
                let pushed = queue.push(&account, job);
                assert_eq!(
                    pushed.is_ok(),
                    account != Account::Operator || job == "1",
                    "{account:?}"
                );
            }
        }
        let accounts: Vec<_> =
            std::iter::from_fn(|| queue.next(0)).map(|next| next.account).collect();
        assert_eq!(
            accounts,
            [Account::Operator, session(1), Account::Anonymous, Account::Anonymous]
        );
        assert!(queue.push(&Account::Operator, "while it runs").is_err());
    }

    #[test]
    fn operator_never_waits_for_a_client() {
        let mut queue = queue(2, true);
        for number in 1..=3 {
            queue.push(&session(number), "client").unwrap();
        }
        assert_eq!(started(&mut queue), ["client"; 2]);
        queue.push(&Account::Operator, "operator").unwrap();
        assert_eq!(started(&mut queue), ["operator"]);
    }

    #[test]
    fn cancelled_job_is_removed_at_once_and_its_account_after_its_last_job() {
        let mut queue = queue(1, false);
        let first = queue.push(&session(1), "first").unwrap();
        let running = queue.next(0).unwrap();
        let numbers: Vec<_> = (0..3).map(|_| queue.push(&session(2), "waits").unwrap()).collect();
        assert_eq!(queue.cancel(&session(2), numbers[1]), Some("waits"));
        assert_eq!(queue.cancel(&session(2), numbers[1]), None);
        assert_eq!((queue.waiting, queue.accounts.len(), queue.ready.len()), (2, 2, 1));
        for number in [numbers[0], numbers[2]] {
            queue.cancel(&session(2), number).unwrap();
        }
        assert_eq!((queue.waiting, queue.accounts.len(), queue.ready.len()), (0, 1, 0));
        // A running job keeps its slot.
        assert_eq!(queue.cancel(&session(1), first), None);
        queue.push(&session(2), "next").unwrap();
        assert!(queue.next(0).is_none());
        queue.finish(&running.account, running.number);
        assert_eq!(queue.next(0).unwrap().run, "next");
    }

    #[test]
    fn abandoned_resolution_counts_only_against_its_account() {
        let mut queue = queue(2, true);
        let numbers: Vec<_> =
            (1..=6).map(|number| queue.push(&session(number), "job").unwrap()).collect();
        assert_eq!(started(&mut queue).len(), 2);
        for _ in 0..2 {
            assert_eq!(queue.cancel(&session(1), numbers[0]), None);
        }
        assert_eq!(started(&mut queue).len(), 1, "a job that was cancelled twice is counted once");
        queue.push(&session(1), "another").unwrap();
        queue.cancel(&session(2), numbers[1]);
        queue.cancel(&session(3), numbers[2]);
        assert_eq!(
            started(&mut queue).len(),
            1,
            "the number of abandoned jobs is limited to the number of slots"
        );
        queue.finish(&session(1), numbers[0]);
        assert_eq!(queue.abandoned.len(), 2);
        assert_eq!(started(&mut queue).len(), 1);
    }

    #[test]
    fn work_starts_while_jobs_in_slots_hang() {
        let mut queue = queue(4, false);
        for number in 1..=12 {
            queue.push(&session(number), "job").unwrap();
        }
        assert_eq!(started(&mut queue).len(), 4);
        assert!(queue.is_full() && queue.is_blocked() && queue.next(0).is_none());
        assert_eq!(std::iter::from_fn(|| queue.next(2)).count(), 2);
        assert_eq!(
            std::iter::from_fn(|| queue.next(6)).count(),
            2,
            "at most twice as many jobs run as there are slots"
        );
    }

    #[test]
    fn queues_are_bounded_and_a_new_account_can_always_wait() {
        let mut queue = queue(4, false);
        let fill = |queue: &mut Queue<_>, number| {
            (0..=QUEUED).take_while(|_| queue.push(&session(number), "").is_ok()).count()
        };
        assert_eq!(fill(&mut queue, 1), QUEUED_EACH);
        assert_eq!(queue.push(&session(1), "too many"), Err("too many"));
        for number in 2..200 {
            let filled = fill(&mut queue, number);
            assert!((1..=QUEUED_EACH).contains(&filled), "{number}: {filled}");
        }
        assert!((QUEUED..QUEUED + 200).contains(&queue.waiting), "{}", queue.waiting);
        let others = (200..4 * QUEUED as u64)
            .take_while(|number| queue.push(&session(*number), "").is_ok())
            .count();
        assert_eq!(queue.waiting, 2 * QUEUED);
        assert!(others > QUEUED / 2, "{others}");
    }

    #[test]
    fn turn_order_is_consistent_after_any_sequence_of_steps() {
        // Tries every sequence of a few steps. After each step, the accounts in the turn order must
        // be exactly those that can start a job.
        fn go_on(
            queue: &mut Queue<&'static str>,
            steps: &mut Vec<u64>,
            left: usize,
            visited: &mut usize,
        ) {
            *visited += 1;
            for (account, jobs) in &queue.accounts {
                let ready = !jobs.waiting.is_empty() && jobs.running < queue.share(account);
                assert_eq!(ready, jobs.turn.is_some(), "{steps:?}");
                assert!(!jobs.waiting.is_empty() || jobs.running > 0, "{steps:?}");
            }
            let ready = queue.accounts.values().filter(|jobs| jobs.turn.is_some()).count();
            assert_eq!(ready, queue.ready.len(), "{steps:?}");
            assert_eq!(
                queue.waiting,
                queue.accounts.values().map(|jobs| jobs.waiting.len()).sum::<usize>()
            );
            let running = queue.running.len() + queue.abandoned.len();
            assert_eq!(running, queue.accounts.values().map(|jobs| jobs.running).sum::<usize>());
            if left == 0 {
                return;
            }
            for step in 0..7 {
                let mut next = Queue {
                    shares: queue.shares,
                    accounts: BTreeMap::new(),
                    ready: queue.ready.clone(),
                    waiting: queue.waiting,
                    running: queue.running.clone(),
                    abandoned: queue.abandoned.clone(),
                    last_number: queue.last_number,
                };
                next.accounts = queue
                    .accounts
                    .iter()
                    .map(|(account, jobs)| {
                        (
                            account.clone(),
                            AccountJobs {
                                waiting: jobs.waiting.clone(),
                                running: jobs.running,
                                turn: jobs.turn,
                            },
                        )
                    })
                    .collect();
                let any = |queue: &Queue<_>, of: u64| {
                    let jobs = queue.accounts.get(&session(of))?;
                    jobs.waiting.back().map(|(number, _)| *number)
                };
                let running = |queue: &Queue<_>, first: bool| {
                    let mut numbers: Vec<_> =
                        queue.running.union(&queue.abandoned).copied().collect();
                    numbers.sort_unstable();
                    if first { numbers.first().copied() } else { numbers.last().copied() }
                };
                match step {
                    0 | 1 => drop(next.push(&session(step + 1), "job")),
                    2 => {
                        next.next(0);
                    }
                    3 | 4 => {
                        let Some(number) = any(&next, step - 2) else { continue };
                        assert!(next.cancel(&session(step - 2), number).is_some());
                    }
                    // Finds an account that is running a job, and finishes or cancels the job for
                    // that account.
                    _ => {
                        let Some(number) = running(&next, step == 5) else { continue };
                        let owner = [1, 2].map(session).into_iter().find(|account| {
                            next.accounts.get(account).is_some_and(|jobs| jobs.running > 0)
                        });
                        let Some(owner) = owner else { continue };
                        if step == 6 {
                            assert_eq!(next.cancel(&owner, number), None);
                        } else {
                            next.finish(&owner, number);
                        }
                    }
                }
                steps.push(step);
                go_on(&mut next, steps, left - 1, visited);
                steps.pop();
            }
        }
        for one_per_account in [false, true] {
            let mut visited = 0;
            go_on(&mut queue(3, one_per_account), &mut Vec::new(), 7, &mut visited);
            assert!(visited > 10_000, "{visited}");
        }
    }
}
