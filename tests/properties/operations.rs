//! All file operations, in any order, on a tree that changes between them.
//!
//! The input is a small tree ([`world`](crate::support::world)) and operations, one on each line.
//! Further lines of the tree between the operations stand for a process that writes to the roots:
//!
//! ```text
//! XMa>b             the operation with the letter X in the table (`support/operations.rs`) on `a`
//!                   (and on `b`, if it takes two paths; `b` is the target of a new symlink), in
//!                   mode M:
//!                     M % 3     directly; by a new proof; by the operation's oldest proof
//!                     M / 3 % 2 with `openat2`, or without
//!                     M / 6 % 6 how a proof is made, unless that does not suit the operation:
//!                               from a walk of the first directory; as the parent of a new name;
//!                               by a check; by joining the rest to a proof of the first
//!                               directory; from a listing of the parent; by not following a proof
//! ```
//!
//! The directory `o` is outside the roots. Its names, contents and modes occur nowhere inside. (The
//! root `o/a` is not used here.) Properties:
//!
//! - No operation returns anything from outside.
//! - At the end, everything outside has the same names, types, inodes, link counts, modes, times
//!   and contents as before.
//! - An operation that only reads, and a failed operation on a single name, changes nothing.
//! - No operation leaves a temporary name.
//! - No operation blocks on a FIFO.
//! - The roots still exist.
//! - Nothing that is protected, if the first line selects protected names, is created, changed or
//!   removed, and nothing that is denied is returned.
//!
//! `tests/fs/operations.rs` checks the effects of successful operations.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use mcp_roots_guard::{Result, WalkOptions};

use crate::support::kernel;
use crate::support::operations::{
    NO_PAUSE, OPERATIONS, Operation, SECRET, WAYS, Way, is_leak, mark,
};
use crate::support::proof::Proof;
use crate::support::protection::Protection;
use crate::support::tree::entries;
use crate::support::world::{LINE_BYTES, LINES, World};

/// Checks all properties.
pub(crate) fn hold(bytes: &[u8]) {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let roots = lines
        .next()
        .and_then(|line| line.first())
        .map_or(0, |byte| [0, 2, 3][usize::from(*byte % 3)]);
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let world = World::new(&[&[roots], first.get(1..).unwrap_or_default()].concat());
    let outside = world.top.join("o");
    for place in ["o", "o/a"].map(|place| world.top.join(place)) {
        fs::write(place.join("b"), SECRET).unwrap();
        fs::create_dir_all(place.join("SECRET/c")).unwrap();
    }
    mark(&outside);
    let inode = |path: &Path| path.metadata().map(|metadata| metadata.ino()).ok();
    let before =
        (snapshot(&outside), world.roots.iter().map(|root| inode(root)).collect::<Vec<_>>());
    let mut proofs = BTreeMap::new();
    for line in lines.take(LINES) {
        let line = line.get(..LINE_BYTES).unwrap_or(line);
        match line {
            [letter, mode, requests @ ..] if !world.add(line, &world.roots[0]) => {
                mark_denied(&world);
                operate(&world, *letter, *mode, requests, &mut proofs);
            }
            _ => {}
        }
    }
    let after =
        (snapshot(&outside), world.roots.iter().map(|root| inode(root)).collect::<Vec<_>>());
    assert_eq!(before, after, "outside or a root has changed in {world}");
    check_walks(&world);
}

/// Gives denied files the content and the modes of files outside, so that no operation may return
/// them.
fn mark_denied(world: &World) {
    for path in entries(&world.roots[0]).into_iter().filter(|path| world.is_denied(path)) {
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_file() {
            fs::write(&path, SECRET).unwrap();
        }
        if !kind.is_symlink() {
            mark(&path);
        }
    }
}

/// The protected entries, with their metadata and content.
fn protected(world: &World) -> BTreeMap<String, (String, [i64; 4])> {
    if world.policy.is_none() {
        return BTreeMap::new();
    }
    let mut all = snapshot(&world.top.join("r"));
    all.retain(|path, _| world.protection(&world.top.join("r").join(path)).is_some());
    all
}

/// Checks that a walk yields exactly the entries that are not denied. A denied name is omitted also
/// if it is an allowed directory.
fn check_walks(world: &World) {
    let Some(policy) = &world.policy else { return };
    for root in &world.roots {
        let mut walk = world.guard.walk(root.as_path(), WalkOptions::default()).unwrap();
        let mut walked = Vec::new();
        while let Some(entry) = walk.next_entry().unwrap() {
            walked.push(root.join(entry.path()));
        }
        let mut expected = entries(root);
        let is_denied = |path: &Path| {
            let [root, path] = [root, path].map(|it| it.to_str().unwrap());
            policy.protection_below(root, path) == Some(Protection::Denied)
        };
        expected.retain(|path| path != root && !is_denied(path));
        walked.sort();
        expected.sort();
        assert_eq!(walked, expected, "walk of {world}");
    }
}

type Proofs = BTreeMap<u8, Vec<Proof>>;

fn of_letter(letter: u8) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.letter == letter)
}

/// Any other byte is taken modulo the number of operations, but means another operation as soon as
/// one is added.
#[test]
fn each_operation_of_the_seeds_is_in_the_table() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/operations");
    for seed in fs::read_dir(seeds).unwrap().map(|entry| entry.unwrap().path()) {
        for line in fs::read(&seed).unwrap().split(|&byte| byte == b'\n').skip(1) {
            let letter = line.first().filter(|letter| !b"dfhlnp".contains(letter));
            let shown = String::from_utf8_lossy(line);
            assert!(
                letter.is_none_or(|it| of_letter(*it).is_some()),
                "{}: {shown}",
                seed.display()
            );
        }
    }
}

/// The operation of a letter. Any other byte is taken modulo the number of operations.
fn operation(letter: u8) -> &'static Operation {
    of_letter(letter).unwrap_or(&OPERATIONS[usize::from(letter) % OPERATIONS.len()])
}

fn operate(world: &World, letter: u8, mode: u8, requests: &[u8], proofs: &mut Proofs) {
    let operation = operation(letter);
    let mut texts: Vec<String> =
        requests.splitn(2, |&byte| byte == b'>').map(|text| world.text(text)).collect();
    texts.resize(texts.len().max(operation.paths.len()), String::new());
    let before = (!operation.can_be_partial()).then(|| snapshot(&world.top.join("r")));
    let protected_before = protected(world);
    let (roots, requests) = (world.guard.clone(), texts.clone());
    let stored = if mode % 3 == 2 { proofs.get(&operation.letter).cloned() } else { None };
    let way = WAYS[1 + usize::from(mode / 6 % 6)];
    let work = move || -> (Result<String>, Option<Vec<Proof>>) {
        let requests: Vec<_> = requests.iter().map(String::as_str).collect();
        let Some(by_proof) = operation.by_proof.filter(|_| mode % 3 > 0) else {
            return (operation.run(Way::Directly, &roots, &requests), None);
        };
        match stored.map_or_else(|| operation.proofs(way, &roots, &requests, NO_PAUSE), Ok) {
            Ok(checked) => (by_proof(&checked, NO_PAUSE), Some(checked)),
            Err(error) => (Err(error), None),
        }
    };
    let (returned, proof) =
        if (mode / 3) % 2 == 0 { work() } else { kernel::without_openat2(work) };
    if let Some(proof) = proof {
        proofs.entry(operation.letter).or_insert(proof);
    }
    let what = || format!("{} {way:?} {mode} on {texts:?} in {world}", operation.name);
    if let Ok(returned) = &returned {
        assert!(!is_leak(returned), "returned {returned}: {}", what());
    }
    let protected_after = protected(world);
    assert_eq!(protected_before, protected_after, "a protected name changed: {}", what());
    if let Some(before) = before.filter(|_| returned.is_err() || !operation.changes()) {
        let after = snapshot(&world.top.join("r"));
        let alike = before
            .iter()
            .map(|(path, (is, _))| (path, is))
            .eq(after.iter().map(|(path, (is, _))| (path, is)));
        assert!(alike, "{before:?} became {after:?} after {}", what());
    }
    // A copy of something that may not be returned.
    let mut entries = entries(&world.top.join("r")).into_iter();
    let leaked = entries.find(|path| {
        let is_file = path.symlink_metadata().unwrap().is_file();
        is_file && !world.is_denied(path) && fs::read(path).unwrap() == SECRET.as_bytes()
    });
    assert_eq!(leaked, None, "copied by {}", what());
    // No line of the input can create such a name.
    let left = snapshot(&world.top.join("r"))
        .into_keys()
        .find(|path| path.rsplit_once('.').is_some_and(|(_, end)| end == "tmp"));
    assert_eq!(left, None, "a temporary name remains after {}", what());
}

/// Maps the relative path of each entry at or below `top` to its metadata and content, and to its
/// modification and change times.
fn snapshot(top: &Path) -> BTreeMap<String, (String, [i64; 4])> {
    let mut all = BTreeMap::new();
    let mut todo = vec![top.to_owned()];
    while let Some(path) = todo.pop() {
        let is = path.symlink_metadata().unwrap();
        let content = match is.file_type() {
            kind if kind.is_file() => format!("{:?}", fs::read(&path).unwrap()),
            kind if kind.is_symlink() => fs::read_link(&path).unwrap().display().to_string(),
            kind if kind.is_dir() => {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                String::new()
            }
            _ => String::new(),
        };
        let times = [is.mtime(), is.mtime_nsec(), is.ctime(), is.ctime_nsec()];
        let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
        // Sizes are left out, because a directory's size can depend on names that it once had.
        all.insert(name, (format!("{:o} {} {} {content}", is.mode(), is.ino(), is.nlink()), times));
    }
    all
}
