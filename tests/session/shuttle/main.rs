//! The model check: runs the real session code under a scheduler that decides which task takes each
//! step.
//!
//! A run has a cast of tasks that request the roots, change the list, close the session, drop their
//! calls, forget snapshots, or wait for changes. The test prints the number of schedules tried. If
//! a schedule breaks a property of [`world`], shuttle prints the schedule, and
//! [`failed_schedule_is_replayed`] replays it. A lost wake-up is reported as a deadlock.
//!
//! Another task can run before a lock is taken and after it is released, at each answer, and before
//! and after each job. The operations of the cache, of notifications and of semaphores count as
//! atomic, because their own crates test them and none runs session code while it holds a lock. Time
//! does not pass, so no deadline expires. Calls that are dropped, at any step, stand for expired
//! deadlines.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p model-check -- --nocapture` runs the model
//! check, and so does .ci/run. `GUARD_MODEL_DEEPER=1` allows one more preemption.
#![cfg(shuttle)]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../../support/shuttle_scheduler.rs"]
mod schedule;
#[path = "../../support/tree.rs"]
#[allow(dead_code)] // The suite uses the other items.
mod tree;
#[path = "../../support/shuttle_world.rs"]
mod world;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use shuttle::scheduler::{ReplayScheduler, Scheduler};
use shuttle::{Config, Runner};

use crate::schedule::Preempting;
use crate::tree::Tree;
use crate::world::World;

/// The tasks of a run, and its initial state.
#[derive(Clone, Copy, Debug)]
struct Cast {
    /// One task for each role, in this order.
    roles: &'static [Role],
    /// Whether a call before the tasks start caches a snapshot.
    is_cached: bool,
    announces: bool,
    /// One in this many requests to the client fails.
    fails: u64,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    /// Makes this many requests, one after another.
    Calls(u32),
    /// Makes a request and drops it after this many polls.
    DropsCall(u32),
    Changes(u32),
    Closes,
    Forgets,
    /// Obtains a proof and checks this many times whether it is still allowed.
    ChecksProof(u32),
    /// Waits for this many changes, or until the session is closed.
    WaitsForChanges(u32),
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
            Self::DropsCall(polls) => {
                Box::pin(async move { world.call_dropped_after(polls).await })
            }
            Self::Changes(times) => {
                Box::pin(async move { (0..times).for_each(|_| world.change()) })
            }
            Self::Closes => Box::pin(async move { world.close() }),
            Self::Forgets => Box::pin(async move { world.guard.invalidate_all() }),
            Self::ChecksProof(times) => Box::pin(async move {
                let Some(roots) = world.call().await else { return };
                if let Some((checked, version)) = world.proof(&roots) {
                    drop(roots);
                    (0..times).for_each(|_| world.check_still_allowed(&checked, version));
                }
            }),
            Self::WaitsForChanges(times) => {
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
    const fn new(roles: &'static [Role]) -> Self {
        Self { roles, is_cached: false, announces: true, fails: 0 }
    }

    const fn cached(self) -> Self {
        Self { is_cached: true, ..self }
    }

    const fn unannounced(self) -> Self {
        Self { announces: false, ..self }
    }

    const fn failing(self, fails: u64) -> Self {
        Self { fails, ..self }
    }

    fn play(self, tree: &Arc<Tree>) {
        let world = World::new(tree, self.announces, self.fails);
        shuttle::future::block_on(async {
            if self.is_cached {
                world.call().await;
            }
            let mut tasks: Vec<_> =
                self.roles.iter().map(|role| role.task(world.clone())).collect();
            let own = tasks.pop();
            let others: Vec<_> = tasks.into_iter().map(shuttle::future::spawn).collect();
            if let Some(own) = own {
                // Choosing the first task costs no preemption.
                shuttle::future::yield_now().await;
                own.await;
            }
            for other in others {
                other.await.unwrap();
            }
            world.check_at_end().await;
        });
    }

    /// Runs the cast under a scheduler.
    fn run(self, scheduler: impl Scheduler + 'static) {
        println!("{self:?}");
        let mut config = Config::new();
        config.stack_size = STACK;
        let (tree, began) = (Arc::new(world::tree()), Instant::now());
        let runs = Runner::new(scheduler, config).run(move || self.play(&tree));
        println!("{runs} runs in {:.1} s", began.elapsed().as_secs_f64());
    }
}

/// The casts. Every schedule with at most this many preemptions is tried. A break of a transition that
/// random schedules of larger casts find is found here, too.
const CASTS: &[(usize, Cast)] = &[
    (5, Cast::new(&[Calls(1), Changes(1)]).cached()),
    (5, Cast::new(&[Calls(1), Closes]).cached()),
    (5, Cast::new(&[Changes(2), WaitsForChanges(1)])),
    (5, Cast::new(&[Calls(1), WaitsForChanges(1)])),
    (5, Cast::new(&[Calls(1), Forgets]).cached()),
    (3, Cast::new(&[Calls(1), Changes(1)])),
    (2, Cast::new(&[Changes(1), Closes, WaitsForChanges(2)])),
    (3, Cast::new(&[Calls(1), Closes])),
    (2, Cast::new(&[Calls(1), Calls(1)])),
    (1, Cast::new(&[Calls(1), Calls(1), Changes(1)])),
    (1, Cast::new(&[Calls(1), Calls(1), Changes(1)]).cached()),
    (1, Cast::new(&[Calls(1), Calls(1), Closes])),
    // The second call is dropped early, while it asks the client, or while its list is resolved.
    (2, Cast::new(&[Calls(1), DropsCall(1)])),
    (2, Cast::new(&[Calls(1), DropsCall(2)])),
    (2, Cast::new(&[Calls(1), DropsCall(3)])),
    (1, Cast::new(&[Calls(1), Calls(1), DropsCall(2)])),
    (1, Cast::new(&[Calls(1), Changes(1), Closes])),
    (1, Cast::new(&[Calls(1), Calls(1), Forgets]).cached()),
    (1, Cast::new(&[ChecksProof(2), Changes(2)]).cached()),
    (1, Cast::new(&[Calls(1), Calls(1), Changes(1)]).unannounced()),
    (1, Cast::new(&[Calls(2), Calls(1), Changes(1)]).failing(2)),
];

/// Replays the cast `GUARD_MODEL_CAST` with the schedule `GUARD_MODEL_SCHEDULE`, as printed by a
/// failure.
#[test]
fn failed_schedule_is_replayed() {
    let (Ok(name), Ok(schedule)) =
        (std::env::var("GUARD_MODEL_CAST"), std::env::var("GUARD_MODEL_SCHEDULE"))
    else {
        return;
    };
    for (_, cast) in CASTS.iter().filter(|(_, cast)| format!("{cast:?}") == name) {
        cast.run(ReplayScheduler::new_from_encoded(&schedule));
    }
}

#[test]
fn every_schedule_with_few_preemptions_is_correct() {
    let deeper = std::env::var("GUARD_MODEL_DEEPER").map_or(0, |deeper| deeper.parse().unwrap());
    for (preemptions, cast) in CASTS {
        let (scheduler, finished) = Preempting::new(preemptions + deeper);
        cast.run(scheduler);
        assert!(finished.load(SeqCst));
    }
}

const STACK: usize = 256 << 10;
