//! Every schedule of a session up to a certain depth, and random long schedules.
//!
//! A schedule is a sequence of steps that begins with a new session or continues after given steps.
//! [`session`](crate::properties::session) defines the steps and the properties. These must hold
//! for each schedule, and the calls that are still open at its end must be able to finish.
//!
//! The depth is limited so that two slow cores need about 20 seconds in a debug build.
//! `GUARD_SCHEDULES_DEEPER=1` adds a step and takes about five times as long.
//! `GUARD_SCHEDULES_SEED=7` starts the random schedules with that seed, which a failure prints.
//! `GUARD_SCHEDULES_SECONDS=600` runs random schedules for that long.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use mcp_roots_guard::RootsCapability;

use crate::properties::session::Step::{self, Answer, Begin, Poll};
use crate::properties::session::{Run, World};
use crate::support::random::{Random, number};
use crate::support::runs_without_openat2;

#[test]
fn every_schedule_is_correct_for_a_client_that_announces_changes() {
    every_schedule(RootsCapability::announcing(), &[], 7);
}

#[test]
fn every_schedule_is_correct_for_a_silent_client() {
    every_schedule(RootsCapability::silent(), &[], 7);
}

/// Schedules that start with a cached list.
#[test]
fn every_schedule_is_correct_after_a_list_is_cached() {
    every_schedule(RootsCapability::announcing(), CACHED_LIST, 7);
}

/// One call leads the fetch, and two calls wait for it.
#[test]
fn every_schedule_is_correct_while_calls_wait() {
    for client in [RootsCapability::announcing(), RootsCapability::silent()] {
        every_schedule(client, &[Begin, Begin, Begin, Answer], 5);
    }
}

fn every_schedule(client: RootsCapability, beginning: &[Step], depth: usize) {
    let world = World::new();
    let after =
        format!("{beginning:?}, {}", if client.list_changed { "announces" } else { "silent" });
    every(&after, depth, || begin(world.run(client), beginning));
}

fn begin<'a>(mut run: Run<'a>, beginning: &[Step]) -> Run<'a> {
    beginning.iter().copied().for_each(|step| run.take(step));
    run
}

/// Runs every schedule of `depth` steps, each in a new run. On Windows and without `openat2`,
/// schedules have two steps fewer.
fn every<'a>(after: &str, depth: usize, mut new_run: impl FnMut() -> Run<'a>) {
    let deeper =
        number("GUARD_SCHEDULES_DEEPER").map_or(0, |deeper| usize::try_from(deeper).unwrap());
    // Filesystem calls are slower on Windows and without `openat2`.
    let is_short = runs_without_openat2() || cfg!(windows);
    let depth = if is_short { depth - 2 } else { depth + deeper };
    let (mut schedules, start) = (0, Instant::now());
    // The choice at each step, and the number of choices.
    let mut path: Vec<(u8, usize)> = Vec::new();
    loop {
        let mut run = new_run();
        for step in 0..depth {
            let choices = run.possible().len();
            if step == path.len() {
                path.push((0, choices));
            }
            assert_eq!(
                path[step].1,
                choices,
                "repeating a run gave different choices: {:?}",
                run.bytes()
            );
            run.choose(path[step].0);
        }
        run.finish();
        schedules += 1;
        while path.last().is_some_and(|(choice, of)| usize::from(*choice) + 1 == *of) {
            path.pop();
        }
        let Some((choice, _)) = path.last_mut() else { break };
        *choice += 1;
    }
    println!("{schedules} schedules of {depth} steps after {after}, {:.1?}", start.elapsed());
    assert!(schedules > MIN_SCHEDULES, "only {schedules} after {after}");
}

/// Runs as many random schedules as fit into a few seconds. Schedules of this length are too
/// numerous to try all of them.
#[test]
fn random_schedules_are_correct() {
    let seconds =
        number("GUARD_SCHEDULES_SECONDS").unwrap_or(if runs_without_openat2() { 1 } else { 5 });
    let (world, began) = (World::new(), Instant::now());
    let mut seeds = Random(number("GUARD_SCHEDULES_SEED").unwrap_or_else(Random::seed));
    let (mut schedules, mut steps) = (0, 0);
    // On a loaded machine a schedule can take long, so go on until enough have run.
    while began.elapsed() < Duration::from_secs(seconds) || schedules <= MIN_RANDOM_SCHEDULES {
        let mut random = Random(seeds.0);
        let bytes: Vec<u8> =
            (0..8 + random.below(56)).map(|_| random.next().to_be_bytes()[0]).collect();
        let result = catch_unwind(AssertUnwindSafe(|| world.hold(&bytes)));
        assert!(result.is_ok(), "GUARD_SCHEDULES_SEED={}", seeds.0);
        seeds.next();
        schedules += 1;
        steps += bytes.len() - 1;
    }
    println!("{schedules} random schedules, {steps} steps, {:.1?}", began.elapsed());
}

/// Steps after which a call has received an answer and its list is cached.
const CACHED_LIST: &[Step] = &[Begin, Answer, Poll(0), Poll(0)];

/// The number of random schedules that run even if they take longer than the given time.
const MIN_RANDOM_SCHEDULES: u32 = 10;

/// Fewer schedules would mean that the steps offered no choice.
const MIN_SCHEDULES: u32 = 20;
