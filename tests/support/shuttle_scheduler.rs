//! A scheduler that tries every schedule with few preemptions.
//!
//! Goes in: how many preemptions, or any number. Comes out: depth first, each schedule that switches so often from a task that could
//! have gone on; a task that waits, ends or yields is left for any other at no cost. What is true after: if it finished, there is no
//! other such schedule. A run that does not repeat itself is told, as the number of choices is compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use shuttle::current::TaskId;
use shuttle::scheduler::{Schedule, Scheduler, Task};

#[derive(Debug)]
pub(crate) struct Preempting {
    most: usize,
    spent: usize,
    /// What was chosen at each step, of how many.
    trail: Vec<(usize, usize)>,
    depth: usize,
    has_begun: bool,
    finished: Arc<AtomicBool>,
}

impl Preempting {
    /// At most so many preemptions. The other half says whether it finished.
    pub(crate) fn new(most: usize) -> (Self, Arc<AtomicBool>) {
        let finished = Arc::new(AtomicBool::new(false));
        let told = finished.clone();
        (Self { most, spent: 0, trail: Vec::new(), depth: 0, has_begun: false, finished }, told)
    }
}

impl Scheduler for Preempting {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.has_begun {
            self.trail.truncate(self.depth);
            while self.trail.last().is_some_and(|(chosen, of)| *chosen + 1 == *of) {
                self.trail.pop();
            }
            let Some((chosen, _)) = self.trail.last_mut() else {
                self.finished.store(true, SeqCst);
                return None;
            };
            *chosen += 1;
        }
        self.has_begun = true;
        (self.depth, self.spent) = (0, 0);
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let goes_on =
            current.filter(|id| !is_yielding && runnable.iter().any(|task| task.id() == *id));
        // Who can go on comes first.
        let others = runnable.iter().map(|task| task.id()).filter(|id| Some(*id) != goes_on);
        let choices: Vec<_> = goes_on.into_iter().chain(others).collect();
        let of = if goes_on.is_some() && self.spent == self.most { 1 } else { choices.len() };
        if self.depth == self.trail.len() {
            self.trail.push((0, of));
        }
        let (chosen, before) = self.trail[self.depth];
        assert_eq!(of, before, "a run that does not repeat itself");
        self.depth += 1;
        self.spent += usize::from(goes_on.is_some() && chosen > 0);
        Some(choices[chosen])
    }

    fn next_u64(&mut self) -> u64 {
        panic!("a random number, which is not in the schedule");
    }
}
