//! Every schedule of a session, up to a depth, and long ones at random.
//!
//! Goes in: each way in which so many steps can follow each other, of a new session, and of one that has come somewhere. What is proven, and what a step is,
//! stands in [`session`](crate::properties::session): that holds for each, and what is left open at its end can be finished.
//!
//! The depth is what two slow cores do in some twenty seconds in a debug build. `GUARD_SCHEDULES_DEEPER=1` goes a step further, and takes
//! about five times as long. `GUARD_SCHEDULES_SEED=7` begins the random ones with that seed, which a failure prints;
//! `GUARD_SCHEDULES_SECONDS=600` makes more of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use mcp_roots_guard::RootsCapability;
use mcp_roots_guard::limits::VERIFY_EVERY;

use crate::properties::session::Step::{self, Begin, Poll, RootsResponse};
use crate::properties::session::{Run, World};
use crate::support::is_second_run;
use crate::support::random::{Random, number};

#[test]
fn every_schedule_holds_of_a_client_that_announces_changes() {
    every_schedule(RootsCapability::announcing(), &[], 7);
}

#[test]
fn every_schedule_holds_of_a_silent_client() {
    every_schedule(RootsCapability::silent(), &[], 7);
}

/// A list is kept: what happens from there on.
#[test]
fn every_schedule_holds_once_a_list_is_kept() {
    every_schedule(RootsCapability::announcing(), KEPT, 7);
}

/// A call asks, and two wait for it.
#[test]
fn every_schedule_holds_while_calls_wait() {
    for client in [RootsCapability::announcing(), RootsCapability::silent()] {
        every_schedule(client, &[Begin, Begin, Begin, RootsResponse], 5);
    }
}

/// A list is kept, and its names are verified before it is served again: by a blocking thread, while other things happen.
#[test]
fn every_schedule_holds_while_names_are_verified() {
    let (world, mut due) = (World::new(), Vec::new());
    let begun = || begin(world.run_alone(RootsCapability::announcing()), KEPT);
    every("a list is kept for a while", 5, || {
        if due.is_empty() {
            due.extend((0..AT_A_TIME).map(|_| begun()));
            thread::sleep(VERIFY_EVERY);
        }
        due.pop().unwrap()
    });
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

/// Each way of so many steps, of a run that has begun.
fn every<'a>(after: &str, depth: usize, mut begun: impl FnMut() -> Run<'a>) {
    let deeper =
        number("GUARD_SCHEDULES_DEEPER").map_or(0, |deeper| usize::try_from(deeper).unwrap());
    // On Windows a question to the file system takes longer.
    let is_short = is_second_run() || cfg!(windows);
    let depth = if is_short { depth - 2 } else { depth + deeper };
    let (mut schedules, start) = (0, Instant::now());
    // The choice at each step, and among how many.
    let mut path: Vec<(u8, usize)> = Vec::new();
    loop {
        let mut run = begun();
        for step in 0..depth {
            let choices = run.possible().len();
            if step == path.len() {
                path.push((0, choices));
            }
            assert_eq!(path[step].1, choices, "a run is not the same again: {:?}", run.bytes());
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
    assert!(schedules > FEW, "only {schedules} after {after}");
}

/// As many schedules as fit into a few seconds, longer than all of them could be tried.
#[test]
fn schedules_at_random_hold() {
    let seconds = number("GUARD_SCHEDULES_SECONDS").unwrap_or(if is_second_run() { 1 } else { 5 });
    let (world, began) = (World::new(), Instant::now());
    let mut seeds = Random(number("GUARD_SCHEDULES_SEED").unwrap_or_else(Random::seed));
    let (mut schedules, mut steps) = (0, 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        let mut random = Random(seeds.0);
        let bytes: Vec<u8> =
            (0..8 + random.below(56)).map(|_| random.next().to_be_bytes()[0]).collect();
        let held = catch_unwind(AssertUnwindSafe(|| world.hold(&bytes)));
        assert!(held.is_ok(), "GUARD_SCHEDULES_SEED={}", seeds.0);
        seeds.next();
        schedules += 1;
        steps += bytes.len() - 1;
    }
    println!("{schedules} schedules at random, {steps} steps, {:.1?}", began.elapsed());
    assert!(schedules > 10, "only {schedules}");
}

/// A call was answered, and its list is kept.
const KEPT: &[Step] = &[Begin, RootsResponse, Poll(0), Poll(0)];

/// Runs that wait together until their names are due: not so many that they hold all handles for roots.
const AT_A_TIME: usize = 128;

/// Fewer would mean that there is nothing to choose.
const FEW: u32 = 20;
