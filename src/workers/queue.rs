//! Decides which job runs next: each account has a queue, and accounts take turns.
//!
//! [`Queue`] holds the jobs that wait for places of one kind. It uses no threads and no clock.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::limits::{QUEUED, QUEUED_EACH};
use crate::workers::Account;

/// The jobs that wait for places of one kind, and those that run.
#[derive(Debug)]
pub(super) struct Queue<J> {
    shares: Shares,
    accounts: HashMap<Account, AccountJobs<J>>,
    /// The accounts with a job that can start as soon as there is a place, by turn.
    ready: BTreeMap<u64, Account>,
    waiting: usize,
    /// The jobs that run and hold a place.
    running: HashSet<u64>,
    /// The jobs that run although no caller waits for them. They hold no place.
    abandoned: HashSet<u64>,
    last_number: u64,
}

/// How places are shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) places: usize,
    /// The number of jobs that may run in addition, while as many hold no place.
    pub(super) extra: usize,
    /// Each account has one place. A job that no caller waits for ends soon, or hangs, and holds no
    /// place. Otherwise an account has a quarter of the places, and each job holds its place.
    pub(super) one_per_account: bool,
}

/// The jobs of one account.
#[derive(Debug)]
struct AccountJobs<J> {
    waiting: VecDeque<(u64, J)>,
    running: usize,
    turn: Option<u64>,
}

/// A job that starts now.
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
            accounts: HashMap::new(),
            ready: BTreeMap::new(),
            waiting: 0,
            running: HashSet::new(),
            abandoned: HashSet::new(),
            last_number: 0,
        }
    }

    /// Adds a job, and returns its number. Returns the job if too many wait.
    pub(super) fn push(&mut self, account: &Account, job: J) -> Result<u64, J> {
        let waiting = self.accounts.get(account).map_or(0, |jobs| jobs.waiting.len());
        // Defence: queue-is-bounded
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

    /// Takes the next job, if there is a place. `hung` is the number of running jobs that hang, and
    /// so hold no place.
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

    /// Removes a job that no caller waits for any more. Returns it if it has not started.
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
        self.accounts.drain().flat_map(|(_, jobs)| jobs.waiting).map(|(_, job)| job).collect()
    }

    /// Whether a waiting job can start.
    pub(super) fn can_start(&self, hung: usize) -> bool {
        match self.ready.first_key_value() {
            None => false,
            // The operator has one job at a time, and it never waits for a client's.
            Some((_, Account::Operator)) => true,
            Some(_) => {
                let free = self.running.len().saturating_sub(hung) < self.shares.places;
                free && !self.is_stuck()
            }
        }
    }

    /// Whether a waiting job needs only a place to start.
    pub(super) fn is_blocked(&self) -> bool {
        !self.ready.is_empty() && !self.can_start(0)
    }

    /// Whether all places are taken, if no job hangs.
    pub(super) fn is_full(&self) -> bool {
        self.running.len() >= self.shares.places
    }

    /// Whether nothing more can start until a job ends, whichever account asks.
    pub(super) fn is_stuck(&self) -> bool {
        self.running.len() + self.abandoned.len() >= self.max_running()
    }

    /// Whether an account may have no more places than `places`, and has them.
    pub(super) fn fills_share(&self, account: &Account, places: usize) -> bool {
        places >= self.share(account)
            && self.accounts.get(account).is_some_and(|jobs| jobs.running >= places)
    }

    /// The most jobs that run at once.
    pub(super) fn max_running(&self) -> usize {
        self.shares.places + self.shares.extra
    }

    /// The number of jobs of an account that may wait. The more wait in total, the fewer of one
    /// account: at most as many as leave room for others, and at least one, unless [`QUEUED`]
    /// accounts wait.
    fn max_waiting(&self, account: &Account) -> usize {
        match account {
            // If this job hangs, no caller should wait for another.
            Account::Operator => usize::from(!self.accounts.contains_key(account)),
            _ => QUEUED_EACH
                .min(QUEUED.saturating_sub(self.waiting))
                .max(usize::from(self.waiting < 2 * QUEUED)),
        }
    }

    /// The number of jobs of an account that may run at once.
    fn share(&self, account: &Account) -> usize {
        match account {
            // This account stands for many clients.
            Account::Anonymous => (self.shares.places / 4).max(1),
            _ if self.shares.one_per_account => 1,
            // Defence: client-has-a-quarter-of-the-places
            _ => (self.shares.places / 4).max(1),
        }
    }

    /// Gives an account a turn if it can start a job, and takes the turn away if not. Removes an
    /// account without jobs.
    fn update_turn(&mut self, account: &Account) {
        let share = self.share(account);
        let Some(jobs) = self.accounts.get_mut(account) else { return };
        let is_ready = !jobs.waiting.is_empty() && jobs.running < share;
        match (is_ready, jobs.turn) {
            (true, None) => {
                self.last_number += 1;
                // The operator is always next.
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

    fn queue(places: usize, one_per_account: bool) -> Queue<&'static str> {
        Queue::new(Shares { places, extra: places, one_per_account })
    }

    fn started(queue: &mut Queue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.next(0)).map(|next| next.run).collect()
    }

    #[test]
    fn accounts_are_served_in_turns_and_each_has_a_quarter() {
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
        assert!(!queue.is_blocked(), "two places are free, but for none of these");
        queue.finish(&numbers[3].0, numbers[3].1);
        assert_eq!(started(&mut queue), ["b3"]);
        // A new account finds a place.
        queue.push(&session(4), "d1").unwrap();
        assert_eq!(started(&mut queue), ["d1"]);
    }

    #[test]
    fn with_few_places_each_account_has_one() {
        for places in 1..8 {
            let mut queue = queue(places, false);
            for job in ["a1", "a2"] {
                queue.push(&session(1), job).unwrap();
            }
            assert_eq!(started(&mut queue), ["a1"], "{places}");
        }
    }

    #[test]
    fn one_list_of_a_client_is_resolved_at_a_time_and_several_of_nobody_in_particular() {
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
    fn the_operator_waits_for_no_client() {
        let mut queue = queue(2, true);
        for number in 1..=3 {
            queue.push(&session(number), "client").unwrap();
        }
        assert_eq!(started(&mut queue), ["client"; 2]);
        queue.push(&Account::Operator, "operator").unwrap();
        assert_eq!(started(&mut queue), ["operator"]);
    }

    #[test]
    fn a_cancelled_job_leaves_at_once_and_its_account_with_the_last() {
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
        // A running job keeps its place.
        assert_eq!(queue.cancel(&session(1), first), None);
        queue.push(&session(2), "next").unwrap();
        assert!(queue.next(0).is_none());
        queue.finish(&running.account, running.number);
        assert_eq!(queue.next(0).unwrap().run, "next");
    }

    #[test]
    fn an_abandoned_resolution_keeps_its_accounts_place_and_no_other() {
        let mut queue = queue(2, true);
        let numbers: Vec<_> =
            (1..=6).map(|number| queue.push(&session(number), "job").unwrap()).collect();
        assert_eq!(started(&mut queue).len(), 2);
        for _ in 0..2 {
            assert_eq!(queue.cancel(&session(1), numbers[0]), None);
        }
        assert_eq!(started(&mut queue).len(), 1, "once, though it was cancelled twice");
        queue.push(&session(1), "another").unwrap();
        queue.cancel(&session(2), numbers[1]);
        queue.cancel(&session(3), numbers[2]);
        assert_eq!(started(&mut queue).len(), 1, "as many in addition as it has places");
        queue.finish(&session(1), numbers[0]);
        assert_eq!(queue.abandoned.len(), 2);
        assert_eq!(started(&mut queue).len(), 1);
    }

    #[test]
    fn work_may_start_while_places_hang() {
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
            "twice as many as there are places"
        );
    }

    #[test]
    fn queues_are_bounded_and_a_newcomer_finds_room() {
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
    fn the_turns_are_whole_whatever_happens() {
        // Tries every order of a few steps. The accounts that can start a job are exactly those
        // with a turn.
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
                    accounts: HashMap::new(),
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
                    // The owner is found by trying. No step finishes a job for another account.
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
