//! A scheduler that tries every schedule with a limited number of preemptions, depth first.
//!
//! A preemption is a switch away from a task that could continue. Switching away from a task that
//! waits, ends or yields is free. Once the scheduler has finished, no other schedule within the
//! limit exists. It panics if a run is not deterministic, which it detects when the number of
//! choices at a step differs from that of an earlier run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use shuttle::current::TaskId;
use shuttle::scheduler::{Schedule, Scheduler, Task};

#[derive(Debug)]
pub(crate) struct Preempting {
    most: usize,
    spent: usize,
    /// The choice made at each step, and the number of choices there.
    trail: Vec<(usize, usize)>,
    depth: usize,
    has_begun: bool,
    finished: Arc<AtomicBool>,
}

impl Preempting {
    /// Allows at most this many preemptions. The returned flag becomes true when all schedules have
    /// been tried.
    pub(crate) fn new(most: usize) -> (Self, Arc<AtomicBool>) {
        let finished = Arc::new(AtomicBool::new(false));
        let flag = finished.clone();
        (Self { most, spent: 0, trail: Vec::new(), depth: 0, has_begun: false, finished }, flag)
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
        let continuing =
            current.filter(|id| !is_yielding && runnable.iter().any(|task| task.id() == *id));
        // The current task comes first if it can continue.
        let others = runnable.iter().map(|task| task.id()).filter(|id| Some(*id) != continuing);
        let choices: Vec<_> = continuing.into_iter().chain(others).collect();
        let of = if continuing.is_some() && self.spent == self.most { 1 } else { choices.len() };
        if self.depth == self.trail.len() {
            self.trail.push((0, of));
        }
        let (chosen, before) = self.trail[self.depth];
        assert_eq!(of, before, "the run is not deterministic");
        self.depth += 1;
        self.spent += usize::from(continuing.is_some() && chosen > 0);
        Some(choices[chosen])
    }

    fn next_u64(&mut self) -> u64 {
        panic!("random numbers are not part of the schedule");
    }
}
