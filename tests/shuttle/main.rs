//! The model check: the real code of sessions, under a scheduler that decides who takes each step.
//!
//! Goes in: a cast of tasks that call, change, close, give up, forget and watch. Comes out: the number of schedules they were run in, and
//! for one that breaks a promise ([`world`]) a text that replays it ([`replayed`]). A lost wake-up is a deadlock, which is told.
//!
//! A step is each use of a lock or an atomic of the session's, of the map, and of a notification; each answer; and each piece of work off
//! the workers. The map and the notifications are whole: what happens within them is theirs to show, and neither runs code of the
//! session's under its locks. Memory is in sequence, as it is in the code. No time passes, so that no deadline comes; a call that is
//! given up at any step stands for those. Whether names are verified again depends on the number of the step.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test --release --test shuttle -- --nocapture` runs it, and .ci/run does. `GUARD_MODEL_RUNS=1000000`
//! makes a run of that many schedules of each cast and scheduler.
#![cfg(shuttle)]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../support/shuttle_scheduler.rs"]
mod schedule;
#[path = "../support/shuttle_world.rs"]
mod world;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use shuttle::scheduler::{
    DfsScheduler, PctScheduler, RandomScheduler, ReplayScheduler, Scheduler,
    UncontrolledNondeterminismCheckScheduler,
};
use shuttle::{Config, Runner};
use tempfile::TempDir;

use crate::schedule::Preempting;
use crate::world::{World, proof, top};

/// Who is in a run, and what happened before.
#[derive(Clone, Copy)]
struct Cast {
    name: &'static str,
    /// Each a task, in the order of the names.
    roles: &'static [Role],
    /// A call before them all.
    is_kept: bool,
    announces: bool,
    /// Of how many questions one fails.
    fails: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// So many requests, one after the other.
    Calls(u32),
    /// A request that is dropped after so many polls.
    GivesUp(u32),
    Changes(u32),
    Closes,
    Forgets,
    /// Takes a proof, and asks so often whether it stands.
    Iterates(u32),
    /// Waits for so many changes at most, or for the end.
    Watches(u32),
}

use Role::*;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Role {
    fn task(self, world: Arc<World>) -> Task {
        match self {
            Self::Calls(times) => Box::pin(async move {
                for _ in 0..times {
                    world.call().await;
                }
            }),
            Self::GivesUp(polls) => Box::pin(async move { world.given_up(polls).await }),
            Self::Changes(times) => {
                Box::pin(async move { (0..times).for_each(|_| world.change()) })
            }
            Self::Closes => Box::pin(async move { world.close() }),
            Self::Forgets => Box::pin(async move { world.guard.forget_all() }),
            Self::Iterates(times) => Box::pin(async move {
                if let Some(roots) = world.call().await {
                    let (checked, version) = proof(&roots);
                    drop(roots);
                    (0..times).for_each(|_| world.still(&checked, version));
                }
            }),
            Self::Watches(times) => {
                let mut changes = world.changes();
                Box::pin(async move {
                    for _ in 0..times {
                        if let Err(error) = changes.changed().await {
                            assert_eq!(error.code(), "session_closed");
                            assert_eq!(
                                changes.changed().await.unwrap_err().code(),
                                "session_closed"
                            );
                            return;
                        }
                    }
                })
            }
        }
    }
}

impl Cast {
    const fn new(name: &'static str, roles: &'static [Role]) -> Self {
        Self { name, roles, is_kept: false, announces: true, fails: 0 }
    }

    const fn kept(self) -> Self {
        Self { is_kept: true, ..self }
    }

    const fn unannounced(self) -> Self {
        Self { announces: false, ..self }
    }

    const fn failing(self, fails: u64) -> Self {
        Self { fails, ..self }
    }

    fn play(self, top: &Arc<TempDir>) {
        let world = World::new(top, self.announces, self.fails);
        shuttle::future::block_on(async {
            if self.is_kept {
                world.call().await;
            }
            let mut tasks: Vec<_> =
                self.roles.iter().map(|role| role.task(world.clone())).collect();
            let own = tasks.pop();
            let others: Vec<_> = tasks.into_iter().map(shuttle::future::spawn).collect();
            if let Some(own) = own {
                // Whoever begins costs no preemption.
                shuttle::future::yield_now().await;
                own.await;
            }
            for other in others {
                other.await.unwrap();
            }
            world.end().await;
        });
    }

    /// How many runs it was.
    fn run(self, how: &str, scheduler: impl Scheduler + 'static) -> usize {
        let mut config = Config::new();
        config.stack_size = STACK;
        let top = Arc::new(top());
        let began = Instant::now();
        let told = Told { how, name: self.name, runs: Arc::default() };
        let counted = told.runs.clone();
        Runner::new(scheduler, config).run(move || {
            counted.fetch_add(1, SeqCst);
            self.play(&top);
        });
        let runs = told.runs.load(SeqCst);
        println!("{how}: {}: {runs} runs in {:.1} s", self.name, began.elapsed().as_secs_f64());
        runs
    }
}

/// Tells how many runs it took to fail.
struct Told<'a> {
    how: &'a str,
    name: &'a str,
    runs: Arc<AtomicUsize>,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: {}: failed in run {}", self.how, self.name, self.runs.load(SeqCst));
        }
    }
}

/// Each schedule is tried.
const SMALL: &[Cast] = &[
    Cast::new("a call, a change; kept", &[Calls(1), Changes(1)]).kept(),
    Cast::new("a call, a close; kept", &[Calls(1), Closes]).kept(),
    Cast::new("two changes, watched", &[Changes(2), Watches(1)]),
    Cast::new("a call, all forgotten; kept", &[Calls(1), Forgets]).kept(),
];

/// Each schedule is tried with so few preemptions.
const MIDDLE: &[(usize, Cast)] = &[
    (3, Cast::new("a call, a change", &[Calls(1), Changes(1)])),
    (2, Cast::new("a change, a close, watched", &[Changes(1), Closes, Watches(2)])),
    (3, Cast::new("a call, a close", &[Calls(1), Closes])),
    (2, Cast::new("two calls", &[Calls(1), Calls(1)])),
    (1, Cast::new("two calls, a change", &[Calls(1), Calls(1), Changes(1)])),
    (1, Cast::new("two calls, a change; kept", &[Calls(1), Calls(1), Changes(1)]).kept()),
    (1, Cast::new("two calls, a close", &[Calls(1), Calls(1), Closes])),
    (2, Cast::new("a call, one given up early", &[Calls(1), GivesUp(1)])),
    (2, Cast::new("a call, one given up while asking", &[Calls(1), GivesUp(2)])),
    (2, Cast::new("a call, one given up while resolving", &[Calls(1), GivesUp(3)])),
    (1, Cast::new("two calls, one given up", &[Calls(1), Calls(1), GivesUp(2)])),
    (1, Cast::new("a call, a change, a close", &[Calls(1), Changes(1), Closes])),
    (1, Cast::new("two calls, all forgotten; kept", &[Calls(1), Calls(1), Forgets]).kept()),
    (1, Cast::new("one iterates, two changes; kept", &[Iterates(2), Changes(2)]).kept()),
    (
        1,
        Cast::new(
            "two calls of a client that announces nothing",
            &[Calls(1), Calls(1), Changes(1)],
        )
        .unannounced(),
    ),
    (
        1,
        Cast::new("two calls, each second question fails", &[Calls(2), Calls(1), Changes(1)])
            .failing(2),
    ),
];

/// Too many to try all: by chance.
const LARGE: &[Cast] = &[
    Cast::new(
        "all but a close",
        &[Calls(3), Calls(2), GivesUp(2), GivesUp(4), Iterates(2), Forgets, Watches(1), Changes(3)],
    ),
    Cast::new(
        "all",
        &[Calls(3), Calls(2), GivesUp(3), Iterates(2), Forgets, Changes(3), Watches(5), Closes],
    )
    .kept(),
    Cast::new(
        "three calls, a change, given up",
        &[Calls(1), Calls(1), Calls(1), GivesUp(3), GivesUp(2), Changes(1)],
    ),
    Cast::new(
        "a client that announces nothing",
        &[Calls(2), Calls(2), Calls(1), GivesUp(3), Forgets, Changes(3)],
    )
    .unannounced(),
    Cast::new(
        "each third question fails",
        &[Calls(3), Calls(2), Calls(1), GivesUp(3), Changes(3), Forgets],
    )
    .failing(3),
];

/// `GUARD_MODEL_CAST` in the schedule `GUARD_MODEL_SCHEDULE`, as a failure tells them.
#[test]
fn replayed() {
    let (Ok(name), Ok(schedule)) =
        (std::env::var("GUARD_MODEL_CAST"), std::env::var("GUARD_MODEL_SCHEDULE"))
    else {
        return;
    };
    let casts = SMALL.iter().chain(MIDDLE.iter().map(|(_, cast)| cast)).chain(LARGE);
    for &cast in casts.filter(|cast| cast.name == name) {
        cast.run("replayed", ReplayScheduler::new_from_encoded(&schedule));
    }
}

#[test]
fn all_schedules_of_two() {
    for &cast in SMALL {
        let (scheduler, finished) = Preempting::new(usize::MAX);
        cast.run("all schedules", scheduler);
        assert!(finished.load(SeqCst));
    }
    // Another scheduler finds as many.
    let cast = SMALL[1];
    let again = cast.run("again", Preempting::new(usize::MAX).0);
    assert_eq!(again, cast.run("by shuttle's own search", DfsScheduler::new(None, false)));
}

#[test]
fn all_schedules_with_few_preemptions() {
    for &(preemptions, cast) in MIDDLE {
        let (scheduler, finished) = Preempting::new(preemptions);
        cast.run(&format!("all with {preemptions} preemptions"), scheduler);
        assert!(finished.load(SeqCst));
    }
}

#[test]
fn by_chance() {
    for &cast in LARGE {
        cast.run("random", RandomScheduler::new(most_runs()));
    }
}

#[test]
fn by_priorities() {
    for &cast in LARGE {
        for preemptions in [3, 6] {
            cast.run(
                &format!("priorities, {preemptions} changes"),
                PctScheduler::new(preemptions, most_runs() / 2),
            );
        }
    }
}

/// A schedule replays: what is run does not hang on chance or time.
#[test]
fn runs_repeat() {
    for &cast in LARGE {
        let random = RandomScheduler::new(REPEATED);
        cast.run("each twice", UncontrolledNondeterminismCheckScheduler::new(random));
    }
}

fn most_runs() -> usize {
    std::env::var("GUARD_MODEL_RUNS").map_or(RUNS, |runs| runs.parse().unwrap())
}

const RUNS: usize = 10_000;

const REPEATED: usize = 500;

const STACK: usize = 256 << 10;
