//! All file operations, in any order, on a tree that changes between them.
//!
//! The input is a small tree ([`world`](crate::support::world)) and operations, one on each line.
//! Further lines of the tree between the operations stand for a process that writes to the roots:
//!
//! ```text
//! XMa>b             operation X on `a` (and on `b`, if it takes two paths), in mode M:
//!                     M % 3     directly; by a new proof; by the operation's oldest proof
//!                     M / 3 % 2 with `openat2`, or without
//! ```
//!
//! The directory `o` is outside the roots. Its names, contents and modes occur nowhere inside. (The
//! root `o/a` is not used here.) Properties:
//!
//! - No operation returns anything from outside.
//! - At the end, everything outside has the same names, types, inodes, link counts, modes, times
//!   and contents as before.
//! - A failed operation on a single name changes nothing.
//! - No operation leaves a temporary name.
//! - No operation blocks on a FIFO.
//! - The roots still exist.
//! - Nothing that is protected, if the first line selects protected names, is created, changed or
//!   removed, and nothing that is hidden is returned.
//!
//! `tests/fs/operations.rs` checks the effects of successful operations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::SystemTime;

use mcp_roots_guard::{
    AtomicFile, Attributes, CheckedPath, CopyOptions, CopyReport, DirEntry, Existing, Intent, Link,
    Metadata, OpenFile, OpenOptions, ReadDir, Refused, Replace, Result, Roots, Version, Walk,
    WalkOptions, WriteOptions,
};

use crate::support::kernel;
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
            [operation, mode, requests @ ..] if !world.add(line, &world.roots[0]) => {
                mark_hidden(&world);
                operate(&world, operation_number(*operation), *mode, requests, &mut proofs);
            }
            _ => {}
        }
    }
    let after =
        (snapshot(&outside), world.roots.iter().map(|root| inode(root)).collect::<Vec<_>>());
    assert_eq!(before, after, "outside or a root has changed in {world}");
    check_walks(&world);
}

/// Gives hidden files the content and the modes of files outside, so that no operation may return
/// them.
fn mark_hidden(world: &World) {
    for path in World::entries(&world.roots[0]).into_iter().filter(|path| world.is_hidden(path)) {
        let kind = path.symlink_metadata().unwrap().file_type();
        let mode = if kind.is_dir() { DIRECTORY_MODE } else { FILE_MODE };
        if kind.is_file() {
            fs::write(&path, SECRET).unwrap();
        }
        if !kind.is_symlink() {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// The protected entries, with their metadata and content.
fn protected(world: &World) -> BTreeMap<String, (String, [i64; 4])> {
    if world.rules.is_none() {
        return BTreeMap::new();
    }
    let mut all = snapshot(&world.top.join("r"));
    all.retain(|path, _| world.effect(&world.top.join("r").join(path)).is_some());
    all
}

/// Checks that a walk yields exactly the entries that are not hidden.
fn check_walks(world: &World) {
    for root in world.roots.iter().filter(|_| world.rules.is_some()) {
        let mut walk = world.guard.walk(root.as_path(), WalkOptions::new()).unwrap();
        let mut walked = Vec::new();
        while let Some(entry) = walk.next_entry().unwrap() {
            walked.push(root.join(entry.path()));
        }
        let mut expected = World::entries(root);
        expected.retain(|path| path != root && !world.is_hidden(path));
        walked.sort();
        expected.sort();
        assert_eq!(walked, expected, "walk of {world}");
    }
}

type Proofs = BTreeMap<usize, Vec<CheckedPath>>;

/// The bytes that an operation returned.
type Returned = Result<Vec<u8>>;

struct Operation {
    name: &'static str,
    /// The intents of its paths, of which there are one or two.
    intents: &'static [Intent],
    directly: fn(&Roots, &[String; 2]) -> Returned,
    by_proof: fn(&[CheckedPath]) -> Returned,
}

macro_rules! operations {
    ($($intent:ident $method:ident($($arg:expr),*) $returned:expr;)*) => {
        &[$(Operation {
            name: stringify!($method($($arg),*)),
            intents: &[Intent::$intent],
            directly: |roots, requests| roots.$method(requests[0].as_str(), $($arg),*).map($returned),
            by_proof: |checked| checked[0].$method($($arg),*).map($returned),
        }),*]
    };
}

macro_rules! two_paths {
    ($($from:ident $to:ident $method:ident($($arg:expr),*) $returned:expr;)*) => {
        &[$(Operation {
            name: stringify!($method($($arg),*)),
            intents: &[Intent::$from, Intent::$to],
            directly: |roots, [from, to]| {
                roots.$method(from.as_str(), to.as_str(), $($arg),*).map($returned)
            },
            by_proof: |checked| checked[0].$method(&checked[1], $($arg),*).map($returned),
        }),*]
    };
}

/// The operations by number. New ones are added at the end of the last table, because the seeds
/// contain the numbers as [letters](OPERATION_LETTERS).
const OPERATIONS: [&[Operation]; 5] = [FIRST, RENAMES, MORE, MORE_WITH_TWO_PATHS, OTHERS];

const FIRST: &[Operation] = operations! {
    Existing read(LIMIT) |content| content;
    Existing read_to_string(LIMIT) String::into_bytes;
    Existing open() opened;
    Existing open_with(OpenOptions::new().read(true)) read;
    Existing metadata() |metadata| described(&metadata);
    NoFollow symlink_metadata() |metadata| described(&metadata);
    Existing read_dir() listed;
    Existing walk(WalkOptions::new()) walked;
    Existing open_with(OpenOptions::new().write(true)) written;
    Existing open_with(OpenOptions::new().append(true)) written;
    Existing open_with(OpenOptions::new().read(true).write(true)) read;
    Existing open_with(OpenOptions::new().write(true).truncate(true)) written;
    New open_with(OpenOptions::new().write(true).create(true)) written;
    New open_with(OpenOptions::new().append(true).create(true)) written;
    New open_with(OpenOptions::new().write(true).create_new(true)) written;
    New open_with(OpenOptions::new().write(true).create(true).truncate(true)) written;
    New write("written") unit;
    NewTree create_dir() unit;
    NewTree create_dir_all() unit;
    NoFollow remove_file() unit;
    NoFollow remove_dir() unit;
    NoFollow remove_dir_all() unit;
};

const RENAMES: &[Operation] = two_paths! {
    NoFollow NoFollow rename(Replace::Never) unit;
    NoFollow NoFollow rename(Replace::Existing) unit;
};

const MORE: &[Operation] = operations! {
    New write_with("written", WriteOptions::new().existing(Existing::InPlace)) unit;
    NewTree write_with("written", WriteOptions::new().create_parents(true)) unit;
    New write_with("written", WriteOptions::new().existing(Existing::Refuse)) unit;
    New write_with("new", WriteOptions::new().if_unchanged(Version::of(b"written"))) unit;
    New atomic_file(WriteOptions::new()) committed;
    Existing version(LIMIT) versioned;
    NoFollow remove_file_if_unchanged(Version::of(b"written")) unit;
    NoFollow read_link() |link| linked(&link);
    Existing set_attributes(Attributes::new().executable(true)) unit;
    Existing set_attributes(Attributes::new().modified(SystemTime::UNIX_EPOCH)) unit;
    Existing open_unguarded_dir() |directory| listed_unguarded(&directory);
};

const MORE_WITH_TWO_PATHS: &[Operation] = two_paths! {
    NoFollow NoFollow rename(Replace::IfUnchanged(Version::of(b"written"))) unit;
    NoFollow NoFollow rename_if_unchanged(Replace::Never, Version::of(b"content")) unit;
    NoFollow NoFollow hard_link() unit;
    Existing New copy(LIMIT, WriteOptions::new()) |_| Vec::new();
    Existing NewTree copy(LIMIT, WriteOptions::new().create_parents(true)) |_| Vec::new();
    Existing New copy_tree(CopyOptions::new(), |_| ControlFlow::Continue(())) |report| copied(&report);
    Existing NewTree copy_tree(skip().create_parents(true), |_| ControlFlow::Continue(())) |report| copied(&report);
};

const OTHERS: &[Operation] = &[
    Operation {
        name: "symlink",
        intents: &[Intent::NoFollow],
        directly: |roots, [at, target]| roots.symlink(target, at.as_str()).map(unit),
        by_proof: |checked| checked[0].symlink("b").map(unit),
    },
    Operation {
        name: "change set, of which a part can be committed",
        intents: &[Intent::New, Intent::NoFollow],
        directly: |roots, [written, removed]| {
            let mut changes = roots.change_set();
            changes.write(written.as_str(), "written", WriteOptions::new())?;
            changes.remove_file(removed.as_str(), None)?;
            Ok(changes.commit().map(unit)?)
        },
        by_proof: |checked| {
            let mut file = checked[0].atomic_file(WriteOptions::new())?;
            file.write_all(b"written")?;
            checked[1].remove_file()?;
            file.commit().map(unit)
        },
    },
    Operation {
        name: "join and read",
        intents: &[Intent::Existing],
        directly: |roots, [directory, file]| {
            let joined = roots.check(directory.as_str(), Intent::Existing)?;
            joined.join(file.as_str(), Intent::Existing)?.read(LIMIT)
        },
        by_proof: |checked| checked[0].join("../b", Intent::Existing)?.read(LIMIT),
    },
    Operation {
        name: "join and write",
        intents: &[Intent::Existing],
        directly: |roots, [directory, file]| {
            let joined = roots.check(directory.as_str(), Intent::Existing)?;
            joined.join(file.as_str(), Intent::New)?.write("written").map(unit)
        },
        by_proof: |checked| checked[0].join("../b", Intent::New)?.write("written").map(unit),
    },
    Operation {
        name: "no_follow and remove",
        intents: &[Intent::Existing],
        directly: |roots, [at, _]| {
            roots.check(at.as_str(), Intent::Existing)?.no_follow()?.remove_file().map(unit)
        },
        by_proof: |checked| checked[0].no_follow()?.remove_file().map(unit),
    },
    Operation {
        name: "no_follow and rename",
        intents: &[Intent::New, Intent::NoFollow],
        directly: |roots, [from, to]| {
            let from = roots.check(from.as_str(), Intent::New)?.no_follow()?;
            from.rename(&roots.check(to.as_str(), Intent::NoFollow)?, Replace::Never).map(unit)
        },
        by_proof: |checked| {
            checked[0].no_follow()?.rename(&checked[1], Replace::Existing).map(unit)
        },
    },
    Operation {
        name: "removal of entries, of which a part can be removed",
        intents: &[Intent::Existing],
        directly: |roots, [at, _]| remove_entries(roots.read_dir(at.as_str())?),
        by_proof: |checked| remove_entries(checked[0].read_dir()?),
    },
    Operation {
        name: "copies of entries, of which a part can be made",
        intents: &[Intent::Existing, Intent::New],
        directly: |roots, [from, to]| {
            let mut walk = roots.walk(from.as_str(), WalkOptions::new())?;
            while let Some(entry) = walk.next_entry()? {
                let to = roots.check(to.as_str(), Intent::New)?;
                entry.to_checked().copy(&to, LIMIT, WriteOptions::new())?;
            }
            Ok(Vec::new())
        },
        by_proof: |checked| {
            for entry in checked[0].read_dir()? {
                entry?.to_checked().copy(&checked[1], LIMIT, WriteOptions::new())?;
            }
            Ok(Vec::new())
        },
    },
    Operation {
        name: "parent and describe",
        intents: &[Intent::New],
        directly: |roots, [at, _]| parent(&roots.check(at.as_str(), Intent::New)?),
        by_proof: |checked| parent(&checked[0]),
    },
];

/// The letters of the operations, in order. Letters that begin a line of the tree are left out.
const OPERATION_LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcegijkmoqrstuvwxyz0123456789";

/// The operation of a letter. Any other byte is taken modulo the number of operations.
fn operation_number(byte: u8) -> usize {
    let count = OPERATIONS.iter().map(|some| some.len()).sum::<usize>();
    let letter = OPERATION_LETTERS.iter().position(|letter| *letter == byte);
    letter.filter(|number| *number < count).unwrap_or(usize::from(byte) % count)
}

fn remove_entries(entries: ReadDir) -> Returned {
    for entry in entries {
        entry?.to_checked().remove_file()?;
    }
    Ok(Vec::new())
}

fn parent(checked: &CheckedPath) -> Returned {
    checked.parent().map_or(Ok(Vec::new()), |parent| {
        parent.symlink_metadata().map(|metadata| described(&metadata))
    })
}

fn skip() -> CopyOptions {
    CopyOptions::new().refused(Refused::Skip)
}

/// The paths of skipped entries. The copy itself is searched for the secret.
fn copied(report: &CopyReport) -> Vec<u8> {
    let skipped = report.skipped().iter().map(|skipped| skipped.path().display().to_string());
    skipped.collect::<String>().into_bytes()
}

/// Returns the secret for the version of the secret.
fn versioned(version: Version) -> Vec<u8> {
    if version == Version::of(SECRET) { SECRET.into() } else { Vec::new() }
}

fn linked(link: &Link) -> Vec<u8> {
    link.text().as_os_str().as_bytes().into()
}

fn listed_unguarded(directory: &OwnedFd) -> Vec<u8> {
    let mode = rustix::fs::fstat(directory).unwrap().st_mode & 0o777;
    if mode == DIRECTORY_MODE { SECRET.into() } else { Vec::new() }
}

fn committed(mut file: AtomicFile) -> Vec<u8> {
    file.write_all(b"written").unwrap();
    // An error here is the file's, which a rename in this process cannot cause.
    file.commit().unwrap();
    Vec::new()
}

fn operate(world: &World, number: usize, mode: u8, requests: &[u8], proofs: &mut Proofs) {
    let operation = OPERATIONS.iter().copied().flatten().nth(number).unwrap();
    let Operation { name, intents, directly, by_proof } = operation;
    let mut texts = requests.splitn(2, |&byte| byte == b'>').map(|text| world.text(text));
    let texts = [texts.next().unwrap_or_default(), texts.next().unwrap_or_default()];
    // A recursive operation that fails may have changed something.
    let may_be_partial = name.contains("_all") || name.contains("of which a part can");
    let before = (!may_be_partial).then(|| snapshot(&world.top.join("r")));
    let protected_before = protected(world);
    let (roots, requests) = (world.guard.clone(), texts.clone());
    let stored = if mode % 3 == 2 { proofs.get(&number).cloned() } else { None };
    let work = move || -> (Returned, Option<Vec<CheckedPath>>) {
        if mode % 3 == 0 {
            return (directly(&roots, &requests), None);
        }
        let new = || {
            let each = intents.iter().zip(&requests);
            each.map(|(intent, request)| roots.check(request.as_str(), *intent)).collect()
        };
        match stored.map_or_else(new, Ok) {
            Ok(checked) => (by_proof(&checked), Some(checked)),
            Err(error) => (Err(error), None),
        }
    };
    let (returned, proof) =
        if (mode / 3) % 2 == 0 { work() } else { kernel::without_openat2(work) };
    if let Some(proof) = proof {
        proofs.entry(number).or_insert(proof);
    }
    let what = || format!("{name} on {texts:?} in {world}");
    if let Ok(returned) = &returned {
        let has_secret = returned.windows(SECRET.len()).any(|some| some == SECRET);
        assert!(!has_secret, "returned {}: {}", returned.escape_ascii(), what());
    }
    let protected_after = protected(world);
    let is_hidden = |path: &String| world.is_hidden(&world.top.join("r").join(path));
    if protected_before.keys().any(is_hidden) {
        // What is hidden may move with a directory that contains it, and is then still hidden.
        let entries = |all: &BTreeMap<String, (String, [i64; 4])>| {
            all.values().cloned().collect::<BTreeSet<_>>()
        };
        let (before, after) = (entries(&protected_before), entries(&protected_after));
        assert_eq!(before, after, "a hidden entry changed: {}", what());
    } else {
        assert_eq!(protected_before, protected_after, "a protected name changed: {}", what());
    }
    if let Some(before) = before.filter(|_| returned.is_err()) {
        let after = snapshot(&world.top.join("r"));
        let alike = before
            .iter()
            .map(|(path, (is, _))| (path, is))
            .eq(after.iter().map(|(path, (is, _))| (path, is)));
        assert!(alike, "{before:?} became {after:?} after a failed {}", what());
    }
    // A copy of something that may not be returned.
    let mut entries = World::entries(&world.top.join("r")).into_iter();
    let leaked = entries.find(|path| {
        let is_file = path.symlink_metadata().unwrap().is_file();
        is_file && !world.is_hidden(path) && fs::read(path).unwrap() == SECRET
    });
    assert_eq!(leaked, None, "copied by {}", what());
    // No line of the input can create such a name.
    let left = snapshot(&world.top.join("r"))
        .into_keys()
        .find(|path| path.rsplit_once('.').is_some_and(|(_, end)| end == "tmp"));
    assert_eq!(left, None, "a temporary name remains after {}", what());
}

fn unit((): ()) -> Vec<u8> {
    Vec::new()
}

/// Returns the secret if the mode is one that only outside entries have, or nothing otherwise. See
/// [`mark`].
fn described(metadata: &Metadata) -> Vec<u8> {
    if metadata.mode().is_some_and(|mode| matches!(mode & 0o777, FILE_MODE | DIRECTORY_MODE)) {
        SECRET
    } else {
        b""
    }
    .into()
}

fn opened(file: OpenFile) -> Vec<u8> {
    [described(file.metadata()), file.read_all(LIMIT).unwrap_or_default()].concat()
}

fn read(mut file: OpenFile) -> Vec<u8> {
    let mut content = Vec::new();
    let _ = file.read_to_end(&mut content);
    content
}

/// Writes to the file. If the file is outside, the final comparison detects the write.
fn written(mut file: OpenFile) -> Vec<u8> {
    file.write_all(b"written").unwrap();
    Vec::new()
}

fn listed(entries: ReadDir) -> Vec<u8> {
    entries.flatten().flat_map(|entry| returned(&entry)).collect()
}

fn walked(mut walk: Walk) -> Vec<u8> {
    let mut all = Vec::new();
    while let Ok(Some(entry)) = walk.next_entry() {
        all.extend(returned(&entry));
    }
    all
}

/// Everything that an entry returns, including its content.
fn returned(entry: &DirEntry) -> Vec<u8> {
    let metadata = entry.metadata().map_or_else(|_| Vec::new(), |metadata| described(&metadata));
    let content = entry.read(LIMIT).unwrap_or_default();
    [entry.path().as_os_str().as_bytes(), b" ", &metadata, &content].concat()
}

/// Sets modes that no entry inside the roots has, on a path and everything below it, whatever the
/// umask.
fn mark(path: &Path) {
    let mode = if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            mark(&entry.unwrap().path());
        }
        DIRECTORY_MODE
    } else {
        FILE_MODE
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
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

/// No path or content from a line can contain this, because its letters are not available there.
const SECRET: &[u8] = b"SECRET";

const FILE_MODE: u32 = 0o604;
const DIRECTORY_MODE: u32 = 0o705;

/// No file in these tests is larger.
const LIMIT: u64 = 1 << 10;
