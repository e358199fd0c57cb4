//! Compares a session with a ten-line model, one call after another.
//!
//! The input is a random sequence of [`Step`]s. The model predicts for each call whether a path is
//! allowed, and how many requests the client receives. [`schedules`](crate::session::schedules) covers
//! concurrent calls.
//!
//! `GUARD_SCHEDULES_SEED=7` starts with that seed, which a failure prints.
//! `GUARD_SCHEDULES_SECONDS=600` sets the duration of the run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, Guard, Intent, ListRootsResult, RootsCapability,
    RootsResponse,
};
use tokio::runtime::Builder;

use crate::support::random::{Random, number};
use crate::support::runs_without_openat2;
use crate::support::tree::Tree;

/// Predicts the roots in force and the number of requests that the client receives. Times are in
/// seconds. A list is a bit mask with one bit per directory.
#[derive(Clone, Debug, Default)]
struct Model {
    list: u8,
    fails: bool,
    now: u64,
    time_to_live: u64,
    cached: Option<(u8, u64)>,
    backs_off: (u64, u32),
}

impl Model {
    fn call(&mut self) -> (Option<u8>, usize) {
        match (self.cached, self.backs_off) {
            (Some((list, until)), _) if self.now < until => return (Some(list), 0),
            (_, (until, _)) if self.now < until => return (None, 0),
            (_, (_, times)) if self.fails => {
                self.backs_off = (self.now + 30.min(1 << times), times + 1);
            }
            _ => {
                (self.cached, self.backs_off) =
                    (Some((self.list, self.now + self.time_to_live)), (0, 0));
            }
        }
        ((!self.fails).then_some(self.list), 1)
    }

    fn changed(&mut self) {
        (self.cached, self.backs_off) = (None, (0, 0));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A call checks a file in this directory.
    Check(u8),
    /// The client's list changes, without a notification.
    List(u8),
    /// The session is notified of a change.
    Changed,
    /// Whether the client answers with an error from now on.
    Fails(bool),
    /// This many seconds pass.
    Seconds(u64),
    /// All cached snapshots are dropped.
    Forget,
}

#[test]
fn a_session_behaves_like_its_model() {
    let rows = [
        ("announces", RootsCapability::announcing(), 20),
        ("silent", RootsCapability::silent(), 0),
        ("silent, with a time to live", RootsCapability::silent(), 5),
    ];
    let seconds =
        number("GUARD_SCHEDULES_SECONDS").unwrap_or(if runs_without_openat2() { 1 } else { 4 });
    for (name, client, time_to_live) in rows {
        compare_with_model(name, client, time_to_live, Duration::from_secs(seconds) / 3);
    }
}

fn compare_with_model(name: &str, client: RootsCapability, time_to_live: u64, time: Duration) {
    let tree = Tree::in_memory("file 0/file; file 1/file; file 2/file; file 3/file");
    let boundary = Boundary::builder().directory(tree.path(""), Access::ReadWrite).build().unwrap();
    let seconds = Duration::from_secs(time_to_live);
    let guard = Guard::builder(boundary).fetch_limit(Duration::from_secs(3600));
    let guard = if client.list_changed {
        guard.time_to_live(seconds)
    } else {
        guard.time_to_live_unannounced(seconds)
    };
    let guard = guard.build().unwrap();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let mut random = Random(number("GUARD_SCHEDULES_SEED").unwrap_or_else(Random::seed));
    let (mut steps, mut counts, began) = (0, BTreeMap::<_, u64>::new(), Instant::now());
    while began.elapsed() < time {
        let (seed, session) =
            (random.0, guard.session(ClientCapabilities::with_roots(client)).unwrap());
        let mut model = Model { list: 1, time_to_live, ..Model::default() };
        let mut done = Vec::new();
        for _ in 0..STEPS {
            let step = step(&mut random);
            done.push(step);
            match step {
                Step::List(list) => model.list = list,
                Step::Fails(fails) => model.fails = fails,
                Step::Changed => {
                    session.list_changed();
                    model.changed();
                }
                Step::Seconds(seconds) => {
                    runtime.block_on(tokio::time::advance(Duration::from_secs(seconds)));
                    model.now += seconds;
                }
                Step::Forget => {
                    guard.forget_all();
                    model.cached = None;
                }
                Step::Check(directory) => {
                    let (list, requests) = model.call();
                    let expected = (list.is_some_and(|list| list & 1 << directory != 0), requests);
                    let mut requests = 0;
                    let source = |_| {
                        requests += 1;
                        std::future::ready(if model.fails {
                            RootsResponse::Failed(String::new())
                        } else {
                            response(&tree, model.list)
                        })
                    };
                    let roots = runtime.block_on(session.roots(source));
                    let path = tree.path(format!("{directory}/file"));
                    let allowed = roots
                        .is_ok_and(|roots| roots.check(path.as_path(), Intent::Existing).is_ok());
                    let actual = (allowed, requests);
                    let why = "(allowed, requests) for the last of";
                    assert_eq!(
                        actual, expected,
                        "{why} {done:?}: {name}, GUARD_SCHEDULES_SEED={seed}, {model:?}"
                    );
                    *counts.entry(actual).or_default() += 1;
                }
            }
        }
        steps += STEPS;
    }
    println!("{name}: {steps} steps, calls by (allowed, requests): {counts:?}");
    let all = if time_to_live == 0 { 3 } else { 4 };
    assert_eq!(counts.len(), all, "{name}: {counts:?}");
}

fn step(random: &mut Random) -> Step {
    match random.below(20) {
        0..10 => Step::Check(u8::try_from(random.below(4)).unwrap()),
        10..13 => Step::List(u8::try_from(random.below(16)).unwrap()),
        13..15 => Step::Changed,
        15..17 => Step::Fails(random.below(3) == 0),
        17..19 => Step::Seconds(1 + random.below(8)),
        _ => Step::Forget,
    }
}

fn response(tree: &Tree, list: u8) -> RootsResponse {
    let listed = (0..4).filter(|directory| list & 1 << directory != 0);
    let uris = listed.map(|directory| tree.expand(&format!("file://$T/{directory}")));
    RootsResponse::List(ListRootsResult::from_uris(uris))
}

/// The number of steps of one session.
const STEPS: usize = 200;
