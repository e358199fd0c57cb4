//! Every operation, in any order, on a tree that changes in between.
//!
//! Goes in: a small tree ([`world`](crate::support::world)), and operations, one a line, with further lines of the tree among them, as a
//! process that writes to the roots would add them:
//!
//! ```text
//! XMa>b             operation X % 24 on `a` (and `b`, where it takes two), in the manner M:
//!                     M % 3     at once; by a new proof; by the oldest proof that there is for it
//!                     M / 3 % 2 with `openat2`, or without
//! ```
//!
//! Outside lies `o`, whose names, content and modes are nowhere inside. (A root `o/a` is not made here.) What is proven: nothing of it is
//! told by any operation, and nothing of it has changed at the end, by name, kind, inode, mode, size, time or content. An operation on one
//! name that fails leaves all as it was; none leaves a temporary name; none blocks on a FIFO; and the roots stay. What an operation that
//! succeeds has done is not judged here, but in `tests/operations.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use mcp_roots_guard::{
    CheckedPath, Existing, Intent, Metadata, OpenFile, OpenOptions, ReadDir, Replace, Result,
    Roots, Walk, WalkOptions, WriteOptions,
};

use crate::support::kernel;
use crate::support::world::{LINE_BYTES, LINES, World};

/// All of it.
pub(crate) fn hold(bytes: &[u8]) {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let roots = lines
        .next()
        .and_then(|line| line.first())
        .map_or(0, |byte| [0, 2, 3][usize::from(*byte % 3)]);
    let world = World::new(&[roots]);
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
            [operation, manner, requests @ ..] if !world.add(line, &world.roots[0]) => {
                operate(&world, usize::from(*operation), *manner, requests, &mut proofs);
            }
            _ => {}
        }
    }
    let after =
        (snapshot(&outside), world.roots.iter().map(|root| inode(root)).collect::<Vec<_>>());
    assert_eq!(before, after, "outside, and the roots, after it all in {world}");
}

type Proofs = BTreeMap<usize, Vec<CheckedPath>>;

/// What an operation has told.
type Told = Result<Vec<u8>>;

struct Operation {
    name: &'static str,
    intent: Intent,
    at_once: fn(&Roots, &[String; 2]) -> Told,
    by_proof: fn(&[CheckedPath]) -> Told,
}

macro_rules! operations {
    ($($intent:ident $method:ident($($arg:expr),*) $told:expr;)*) => {
        &[$(Operation {
            name: stringify!($method($($arg),*)),
            intent: Intent::$intent,
            at_once: |roots, requests| roots.$method(requests[0].as_str(), $($arg),*).map($told),
            by_proof: |checked| checked[0].$method($($arg),*).map($told),
        },)*
        Operation {
            name: "rename, never replacing",
            intent: Intent::NoFollow,
            at_once: |roots, [from, to]| roots.rename(from.as_str(), to.as_str(), Replace::Never).map(nothing),
            by_proof: |checked| checked[0].rename(&checked[1], Replace::Never).map(nothing),
        },
        Operation {
            name: "rename, replacing",
            intent: Intent::NoFollow,
            at_once: |roots, [from, to]| roots.rename(from.as_str(), to.as_str(), Replace::Existing).map(nothing),
            by_proof: |checked| checked[0].rename(&checked[1], Replace::Existing).map(nothing),
        },
        Operation {
            name: "write in place",
            intent: Intent::New,
            at_once: |roots, requests| roots.write_with(requests[0].as_str(), "written", in_place()).map(nothing),
            by_proof: |checked| checked[0].write_with("written", in_place()).map(nothing),
        }]
    };
}

const OPERATIONS: &[Operation] = operations! {
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
    New write("written") nothing;
    NewTree create_dir() nothing;
    NewTree create_dir_all() nothing;
    NoFollow remove_file() nothing;
    NoFollow remove_dir() nothing;
    NoFollow remove_dir_all() nothing;
};

fn in_place() -> WriteOptions {
    WriteOptions::new().existing(Existing::InPlace)
}

fn operate(world: &World, number: usize, manner: u8, requests: &[u8], proofs: &mut Proofs) {
    let number = number % OPERATIONS.len();
    let Operation { name, intent, at_once, by_proof } = OPERATIONS[number];
    let mut texts = requests.splitn(2, |&byte| byte == b'>').map(|text| world.text(text));
    let texts = [texts.next().unwrap_or_default(), texts.next().unwrap_or_default()];
    // What is done to many keeps what it did before it fails.
    let before = (!name.contains("_all")).then(|| snapshot(&world.top.join("r")));
    let (roots, requests) = (world.guard.clone(), texts.clone());
    let kept = if manner % 3 == 2 { proofs.get(&number).cloned() } else { None };
    let work = move || -> (Told, Option<Vec<CheckedPath>>) {
        if manner % 3 == 0 {
            return (at_once(&roots, &requests), None);
        }
        let check =
            || requests.iter().map(|request| roots.check(request.as_str(), intent)).collect();
        // An operation on one needs no second.
        let new = || {
            if name.starts_with("rename") {
                check()
            } else {
                Ok(vec![roots.check(requests[0].as_str(), intent)?])
            }
        };
        match kept.map_or_else(new, Ok) {
            Ok(checked) => (by_proof(&checked), Some(checked)),
            Err(error) => (Err(error), None),
        }
    };
    let (told, proof) = if (manner / 3) % 2 == 0 { work() } else { kernel::without_openat2(work) };
    if let Some(proof) = proof {
        proofs.entry(number).or_insert(proof);
    }
    let what = || format!("{name} on {texts:?} in {world}");
    if let Ok(told) = &told {
        let has_secret = told.windows(SECRET.len()).any(|some| some == SECRET);
        assert!(!has_secret, "told {}: {}", told.escape_ascii(), what());
    }
    if let Some(before) = before.filter(|_| told.is_err()) {
        let after = snapshot(&world.top.join("r"));
        let alike = before
            .iter()
            .map(|(path, (is, _))| (path, is))
            .eq(after.iter().map(|(path, (is, _))| (path, is)));
        assert!(alike, "{before:?} became {after:?} by a failed {}", what());
    }
    // No line can make such a name.
    let left = snapshot(&world.top.join("r"))
        .into_keys()
        .find(|path| path.rsplit_once('.').is_some_and(|(_, end)| end == "tmp"));
    assert_eq!(left, None, "left by {}", what());
}

fn nothing((): ()) -> Vec<u8> {
    Vec::new()
}

/// By its mode; see [`mark`].
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

/// What is outside shows that it was written to.
fn written(mut file: OpenFile) -> Vec<u8> {
    file.write_all(b"written").unwrap();
    Vec::new()
}

fn listed(entries: ReadDir) -> Vec<u8> {
    let told = |entry: mcp_roots_guard::DirEntry| {
        [entry.name().as_bytes(), b" ", &described(entry.metadata())].concat()
    };
    entries.flatten().flat_map(told).collect()
}

fn walked(walk: Walk) -> Vec<u8> {
    let told = |entry: mcp_roots_guard::WalkEntry| {
        [entry.path().as_os_str().as_bytes(), b" ", &described(entry.metadata())].concat()
    };
    walk.flatten().flat_map(told).collect()
}

/// Gives all beneath a directory modes that nothing inside has, whatever the umask.
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

/// All at and beneath a path, by the path from there: what it is and holds, and its times of change.
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
        // A directory's length can tell how many names it had once.
        all.insert(name, (format!("{:o} {} {} {content}", is.mode(), is.ino(), is.nlink()), times));
    }
    all
}

/// In no path or content that a line can make: it is not of its letters.
const SECRET: &[u8] = b"SECRET";

const FILE_MODE: u32 = 0o604;
const DIRECTORY_MODE: u32 = 0o705;

/// No file here is larger.
const LIMIT: u64 = 1 << 10;
