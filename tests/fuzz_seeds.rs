//! Replays the committed seeds of each fuzz target, and checks that the target's invariants hold
//! for each file of `fuzz/seeds/TARGET`.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use crate::properties::{check, operations};
#[cfg(unix)]
use crate::properties::{contain, location};
use crate::properties::{windows, wire};

type Hold = fn(&[u8]);

const TARGETS: &[(&str, Hold)] = &[
    #[cfg(unix)]
    ("location", location::hold),
    ("windows", windows::hold),
    #[cfg(target_os = "linux")]
    ("check", check::hold),
    #[cfg(unix)]
    ("contain", contain::hold),
    #[cfg(target_os = "linux")]
    ("operations", operations::hold),
    ("wire", wire::hold),
];

/// The minimum number of seeds for each target. A smaller number means that the seeds were not
/// found.
const SEEDS: usize = 15;

#[test]
fn each_seed_upholds_the_invariants_of_its_target() {
    let mut all_failed = Vec::new();
    for (target, hold) in TARGETS {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
        let seeds: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(seeds.len() >= SEEDS, "only {} seeds in {}", seeds.len(), directory.display());
        // A failing seed has already printed the reason.
        let failed = |path: &&PathBuf| {
            let bytes = fs::read(path).unwrap();
            catch_unwind(|| hold(&bytes)).is_err()
        };
        all_failed.extend(seeds.iter().filter(failed).cloned());
    }
    assert!(all_failed.is_empty(), "{all_failed:?}");
}
