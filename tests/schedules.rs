//! Every schedule of a session up to a depth, and random ones that are longer (`invariants/session.rs` says what is checked).
//!
//! `GUARD_DEPTH=9 cargo test --release schedules` goes deeper; `GUARD_SEED` runs the random ones of another seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::invariants::session::{Client, Stage, Step};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Plays a schedule; one that fails is told.
fn play(stage: &Stage, client: Client, steps: &[Step]) -> Vec<Step> {
    catch_unwind(AssertUnwindSafe(|| stage.play(client, steps)))
        .unwrap_or_else(|_| panic!("{client:?} client, schedule {steps:?}"))
}

#[test]
fn every_schedule_of_a_session() {
    const CALLS: usize = 3;
    const CHANGES: usize = 2;
    let depth = number("GUARD_DEPTH").map_or(6, |depth| usize::try_from(depth).unwrap());
    let (stage, start, mut played) = (Stage::new(), Instant::now(), 0);
    for client in [Client::Announcing, Client::Silent] {
        let mut todo = vec![Vec::new()];
        while let Some(steps) = todo.pop() {
            let next = play(&stage, client, &steps);
            played += 1;
            let count = |step| steps.iter().filter(|done| **done == step).count();
            let (calls, changes) = (count(Step::Begin), count(Step::Change));
            for step in next {
                let bounded = match step {
                    Step::Begin => calls < CALLS,
                    Step::Change => changes < CHANGES,
                    _ => true,
                };
                if steps.len() < depth && bounded {
                    let mut longer = steps.clone();
                    longer.push(step);
                    todo.push(longer);
                }
            }
        }
    }
    println!("{played} schedules, all of up to {depth} steps, {CALLS} calls, {CHANGES} changes: {:?}", start.elapsed());
    assert!(played > 1000);
}

#[test]
fn random_schedules_of_a_session() {
    let stage = Stage::new();
    let seed = number("GUARD_SEED").unwrap_or(0x9e37_79b9_7f4a_7c15) | 1;
    let (start, mut random, mut played, mut steps) = (Instant::now(), seed, 0, 0);
    while start.elapsed() < Duration::from_secs(5) {
        let bytes: Vec<u8> = (0..64)
            .map(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random.to_be_bytes()[0]
            })
            .collect();
        let done = catch_unwind(AssertUnwindSafe(|| stage.play_bytes(&bytes)));
        steps += done.unwrap_or_else(|_| panic!("seed {seed}, schedule {bytes:?}")).len();
        played += 1;
    }
    println!("{played} random schedules of {steps} steps, seed {seed}");
    assert!(played > 100);
}
