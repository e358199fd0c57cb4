//! A system call that fails leaves each file old or new, whichever call of an operation it is.
//!
//! The test binary runs itself again as a traced child, which makes one operation of the
//! [table](crate::support::operations) after another on a small tree. The tracer lets the call with
//! a given number return an error instead of making it. This is repeated for every call and every
//! error that is plausible for it (`GUARD_FAILURES=all`), or for one of these errors.
//!
//! | after a failed call, an operation | | |
//! | --- | --- | --- |
//! | that takes effect in one step ([`Effect::Atomic`]) | returned an error | the tree is as before |
//! | that makes several changes ([`Effect::InSteps`]) | returned an error | each entry is old or new |
//! | that changes a file in place ([`Effect::InPlace`]) | returned an error | this file can be mixed, or new and empty; every other entry is as before |
//! | any | succeeded anyway | the tree is as without a failure; only permissions that could not be carried over can be narrower |
//! | any | either | no permissions are wider than those before or those without a failure |
//! | any | either | what has a temporary name remains only if the call that failed would have removed it, or if it is what could not be removed of a tree, and the error names it |
//! | any | either | no descriptor remains open |
//!
//! The operation also has to end, without a panic.
//!
//! A write whose directory cannot be synced after the rename returns an error, although its content
//! is complete under its name: the tree is as without a failure. Every other error means that the
//! old file is still there.
#![cfg(target_arch = "x86_64")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::time::SystemTime;

use mcp_roots_guard::{Access, Result, Roots};
use nix::errno::Errno;
use nix::libc::{self, SYS_fchown, SYS_fgetxattr, SYS_fremovexattr, SYS_fsetxattr, c_long};
use nix::unistd::alarm;
use rustix::buffer::spare_capacity;
use rustix::fs::XattrFlags;

use super::crash::is_temporary;
use crate::TO_CHILD;
use crate::support::operations::{self, CONTENT, OPERATIONS, Operation, Target, WRITTEN, Way};
use crate::support::proof::Intent;
use crate::support::traced::{Decision, OneCpu, TracedChild, be_traced, between_stops, stop};
use crate::support::tree::Tree;

const CHILD: &str = "fs::failures::failed_call_leaves_each_file_old_or_new";

/// A file that belongs to somebody else and has an access list is `listed`. If any of that is not
/// carried over, group and others get nothing, because the named user has no permission.
fn tree() -> Tree {
    let tree = Tree::in_memory(&format!(
        "file file = {CONTENT}; file other = {CONTENT}; file listed = {CONTENT}; file tree/sub/f; \
         file tree/g; dir empty; link link -> file"
    ));
    for (name, mode) in [("file", 0o640), ("other", 0o600), ("listed", 0o640)] {
        fs::set_permissions(tree.path(name), Permissions::from_mode(mode)).unwrap();
    }
    // Only root can give files away, and not every filesystem has access lists.
    let _ = chown(tree.path("listed"), Some(1), Some(1));
    let entries = [(1_u16, 6_u16, u32::MAX), (2, 0, 2), (4, 4, u32::MAX), (16, 4, u32::MAX)];
    let entries = entries.into_iter().chain([(32, 0, u32::MAX)]).flat_map(|(tag, bits, id)| {
        [&tag.to_ne_bytes()[..], &bits.to_ne_bytes(), &id.to_ne_bytes()].concat()
    });
    let list: Vec<u8> = 2_u32.to_ne_bytes().into_iter().chain(entries).collect();
    let _ = rustix::fs::setxattr(tree.path("listed"), ACCESS, &list, XattrFlags::empty());
    tree
}

const ACCESS: &str = "system.posix_acl_access";

/// The entries of the tree that suit a path of an operation, at its first or second position.
fn names(target: Target, position: usize) -> &'static [&'static str] {
    match (target, position) {
        (Target::Any, 0) => &["file", "tree"],
        (Target::Any, _) => &["other", "empty"],
        (Target::File, 0) => &["file"],
        (Target::File, _) => &["other"],
        (Target::FileOrNew, 0) => &["file", "listed", "new"],
        (Target::FileOrNew, _) => &["listed", "new"],
        (Target::Directory | Target::Tree, _) => &["tree"],
        (Target::EmptyDirectory, _) => &["empty"],
        (Target::Symlink, _) => &["link"],
        (Target::Missing, _) => &["new"],
        (Target::MissingTree, _) => &["new/sub/f"],
    }
}

fn requests(operation: &Operation) -> Vec<String> {
    let names = |position: usize| names(operation.paths[position].target, position).iter();
    match operation.paths.len() {
        1 => names(0).map(ToString::to_string).collect(),
        _ => names(0).flat_map(|one| names(1).map(move |two| format!("{one} {two}"))).collect(),
    }
}

/// How the effect of an operation appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Atomic,
    InSteps,
    InPlace,
}

fn effect(operation: &Operation) -> Effect {
    let is_in_place = ["open_with", "in_place"].iter().any(|part| operation.name.contains(part));
    match operation.can_be_partial() {
        true => Effect::InSteps,
        false if is_in_place => Effect::InPlace,
        false => Effect::Atomic,
    }
}

#[test]
fn failed_call_leaves_each_file_old_or_new() {
    if std::env::var_os(TO_CHILD).is_some() {
        return obey();
    }
    let is_all = std::env::var("GUARD_FAILURES").is_ok_and(|share| share == "all");
    let mut world = World::start();
    let (mut injected, mut wrong) = (0, Vec::new());
    for (number, operation) in OPERATIONS.iter().enumerate().filter(|(_, row)| row.changes()) {
        let counts = world.fail_each_call(number, operation, effect(operation), is_all);
        println!("{}: {}", operation.name, counts.text());
        assert!(counts.errors > 0, "{}: no request succeeds without a failure", operation.name);
        injected += counts.injected;
        wrong.extend(counts.wrong);
    }
    world.end();
    println!("{injected} failures");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The judge detects what a careless operation leaves, and that a write in place is not atomic.
#[test]
fn the_judge_detects_what_a_failed_call_leaves() {
    let is_in_place =
        |row: &Operation| row.name == "write_with(WRITTEN, WriteOptions::default().in_place())";
    let in_place = OPERATIONS.iter().position(is_in_place).unwrap();
    let mut world = World::start();
    let careless = world.fail_each_call(OPERATIONS.len(), &CARELESS, Effect::Atomic, true);
    let in_place = world.fail_each_call(in_place, &OPERATIONS[in_place], Effect::Atomic, true);
    world.end();
    for (counts, what) in [
        (&careless, "remains"),
        (&careless, "has wider permissions"),
        (&careless, "descriptors"),
        (&careless, "was not synced"),
        (&careless, "is not as before"),
        (&in_place, "is not as before"),
    ] {
        let is_detected = counts.wrong.iter().any(|wrong| wrong.contains(what));
        assert!(is_detected, "{what:?} was not detected:\n{}", counts.wrong.join("\n"));
    }
}

/// Replaces a file as an implementation without care for failures does.
const CARELESS: Operation = Operation {
    letter: b'!',
    name: "careless",
    paths: &[operations::Path { intent: Intent::New, target: Target::File, is_changed: true }],
    directly: Some(|roots, texts, _| {
        let top = roots.iter().next().unwrap().path();
        let (old, new) = (top.join(texts[0]), top.join(".guarded-fs-0123456789abcdef.tmp"));
        let mode = fs::metadata(&old)?.permissions();
        let mut file = ManuallyDrop::new(fs::File::create(&new)?);
        file.write_all(WRITTEN.as_bytes())?;
        let _ = file.set_permissions(mode);
        let _ = file.sync_all();
        drop(ManuallyDrop::into_inner(file));
        fs::remove_file(&old)?;
        fs::rename(new, old)?;
        Ok("done".into())
    }),
    by_proof: None,
};

/// The child: makes each operation that it is asked for.
fn obey() {
    be_traced(Path::new(""));
    let lines = std::io::stdin().lines().map(std::result::Result::unwrap);
    for line in lines.take_while(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let number: usize = words.next().unwrap().parse().unwrap();
        let roots = Roots::from_dirs([words.next().unwrap()], Access::ReadWrite).unwrap();
        let texts: Vec<&str> = words.collect();
        let operation = OPERATIONS.get(number).unwrap_or(&CARELESS);
        // The signal ends the child.
        alarm::set(SECONDS);
        let answer = between_stops(|| answer(operation.run(Way::Directly, &roots, &texts)));
        alarm::cancel();
        println!("{answer}");
    }
    stop();
}

/// The time limit of an operation, which takes milliseconds.
const SECONDS: u32 = 20;

fn answer(result: Result<String>) -> String {
    match result {
        Ok(text) => text,
        Err(error) => format!("{ERROR}{}: {error}", error.code()),
    }
}

const ERROR: &str = "error ";

struct World {
    child: TracedChild,
    _one_cpu: OneCpu,
}

#[derive(Default)]
struct Counts {
    calls: usize,
    injected: usize,
    errors: usize,
    wrong: Vec<String>,
}

fn open_descriptors(child: &TracedChild) -> usize {
    fs::read_dir(child.proc().join("fd")).unwrap().count()
}

/// A system call that fails, as its position among those of the operation. A run can make other
/// calls than the one before, for example if the kernel asks to try again (openat2(2)).
#[derive(Clone, Copy, Debug)]
struct Failure {
    position: usize,
    errno: Errno,
}

/// What one run of an operation left.
struct Run {
    answer: String,
    calls: Vec<c_long>,
    before: Snapshot,
    after: Snapshot,
    /// The number of descriptors that were open before and after.
    descriptors: [usize; 2],
}

impl World {
    fn start() -> Self {
        let one_cpu = OneCpu::new();
        Self { child: TracedChild::start(CHILD, TO_CHILD, ""), _one_cpu: one_cpu }
    }

    fn end(mut self) {
        self.child.send("");
        self.child.wait_for_stop();
        self.child.end();
    }

    fn fail_each_call(
        &mut self,
        number: usize,
        operation: &Operation,
        effect: Effect,
        is_all: bool,
    ) -> Counts {
        let mut counts = Counts::default();
        for request in requests(operation) {
            let right = self.run(number, &request, None);
            if right.answer.starts_with(ERROR) {
                continue; // For example, a file is not renamed to a directory.
            }
            counts.calls += right.calls.len();
            for (position, call) in right.calls.iter().enumerate() {
                let errors = errors(*call);
                let one = &errors[(number + position) % errors.len()];
                for errno in if is_all { errors } else { std::slice::from_ref(one) } {
                    let failure = Failure { position, errno: *errno };
                    let run = self.run(number, &request, Some(failure));
                    counts.injected += 1;
                    counts.errors += usize::from(run.answer != right.answer);
                    let row = format!("{} {request:?}, {failure:?}, {call}", operation.name);
                    let wrong = judge(&run, &right, effect, failure);
                    counts.wrong.extend(wrong.map(|what| format!("{row}: {what}")));
                }
            }
        }
        counts
    }

    /// Runs an operation, in which a call can fail.
    fn run(&mut self, number: usize, request: &str, failure: Option<Failure>) -> Run {
        let tree = tree();
        let before = snapshot(&tree);
        self.child.send(&format!("{number} {} {request}", tree.path("").display()));
        self.child.wait_for_stop();
        let (mut calls, open) = (Vec::new(), open_descriptors(&self.child));
        self.child.trace(|call| {
            if NEVER_FAILED.contains(&call) {
                return Decision::Make;
            }
            calls.push(call);
            assert!(calls.len() < CALLS, "{request} {failure:?}: the operation does not end");
            match failure {
                Some(Failure { position, errno }) if calls.len() == position + 1 => {
                    Decision::Fail(errno)
                }
                _ => Decision::Make,
            }
        });
        let descriptors = [open, open_descriptors(&self.child)];
        let answer = self.child.answer();
        Run { answer, calls, before, after: snapshot(&tree), descriptors }
    }
}

/// An operation takes fewer system calls, also if it is repeated.
const CALLS: usize = 5_000;

/// The content or target of each entry, and who may access it.
type Snapshot = BTreeMap<String, Entry>;

#[derive(Debug)]
struct Entry {
    what: String,
    mode: u32,
    owner: u32,
    /// The group and the access list.
    others: (u32, Option<Vec<u8>>),
}

fn snapshot(tree: &Tree) -> Snapshot {
    let top = tree.path("");
    let entry = |line: String| {
        let (path, what) = line.split_once(": ").unwrap();
        let metadata = fs::symlink_metadata(path).unwrap();
        let is_old = metadata.modified().unwrap() == SystemTime::UNIX_EPOCH;
        let mut list = Vec::with_capacity(256);
        let read = rustix::fs::lgetxattr(path, ACCESS, spare_capacity(&mut list));
        let entry = Entry {
            what: format!("{what}{}", if is_old { " of 1970" } else { "" }),
            mode: metadata.mode() & 0o7777,
            owner: metadata.uid(),
            others: (metadata.gid(), read.is_ok().then_some(list)),
        };
        (Path::new(path).strip_prefix(&top).unwrap().to_str().unwrap().to_owned(), entry)
    };
    tree.snapshot("").into_iter().map(entry).collect()
}

/// Returns what is wrong after a call failed. `right` is the same operation without a failure.
fn judge(run: &Run, right: &Run, effect: Effect, failure: Failure) -> impl Iterator<Item = String> {
    let mut has_failed = run.answer != right.answer;
    let mut wrong = Vec::new();
    if run.descriptors[0] != run.descriptors[1] {
        wrong.push(format!("open descriptors: {:?}", run.descriptors));
    }
    let failed = run.calls.get(failure.position).copied();
    let before = run.calls.get(..failure.position).unwrap_or_default();
    let is_late =
        failed == Some(libc::SYS_fsync) && before.iter().any(|call| RENAMES.contains(call));
    if is_late && failure.errno != Errno::EINTR {
        if !has_failed {
            wrong.push("the directory was not synced".into());
        }
        // A set makes no further change.
        has_failed = effect == Effect::InSteps;
    }
    // The file is synced before any directory. The sync of a file is repeated after EINTR.
    let first_sync = run.calls.iter().position(|call| *call == libc::SYS_fsync);
    if !has_failed && failure.errno != Errno::EINTR && first_sync == Some(failure.position) {
        wrong.push("the content was not synced".into());
    }
    let is_left =
        |(name, _): &(&String, &Entry)| Path::new(name).file_name().is_some_and(is_temporary);
    let left: Vec<_> = run.after.iter().filter(is_left).collect();
    let is_named = |left: &str| run.answer.contains(left);
    for (name, entry) in &left {
        if failed != Some(libc::SYS_unlinkat) && !is_named(name) {
            wrong.push(format!("{name:?} remains"));
        }
        let mut others = run.before.values().chain(right.after.values());
        let is_of = |other: &Entry| other.what == entry.what && entry.is_within(other);
        if entry.what != EMPTY && !others.any(is_of) {
            wrong.push(format!("{name:?} has wider permissions: {entry:?}"));
        }
    }
    // These calls carry permissions over. If one fails, others are narrowed.
    let carries = [SYS_fgetxattr, SYS_fsetxattr, SYS_fremovexattr, SYS_fchown];
    let is_narrowed = failed.is_some_and(|call| carries.contains(&call));
    let names = [&run.before, &run.after, &right.after].into_iter().flat_map(BTreeMap::keys);
    for name in names.collect::<BTreeSet<_>>() {
        // A directory that was created for the temporary file remains with it, and what could not
        // be removed of a tree with its temporary name.
        let is_part = |left: &str| {
            Path::new(left).starts_with(name) || is_named(left) && Path::new(name).starts_with(left)
        };
        if left.iter().any(|(left, _)| is_part(left)) {
            continue;
        }
        let entries = [&run.before, &run.after, &right.after].map(|tree| tree.get(name));
        if let Some(verdict) = judge_entry(entries, effect, has_failed, is_narrowed) {
            wrong.push(format!("{name:?} {verdict}: {entries:?}: {}", run.answer));
        }
    }
    wrong.into_iter()
}

const EMPTY: &str = "file []";

const RENAMES: [c_long; 2] = [libc::SYS_renameat, libc::SYS_renameat2];

/// Takes the entry before the operation, after it, and after it without a failure.
fn judge_entry(
    [before, now, new]: [Option<&Entry>; 3],
    effect: Effect,
    has_failed: bool,
    is_narrowed: bool,
) -> Option<&'static str> {
    let what = |entry: Option<&Entry>| entry.map(|entry| entry.what.clone());
    let is = |other: Option<&Entry>| what(now) == what(other);
    let is_changed_in_place =
        what(before) != what(new) && (now.is_some() || before.is_none() && new.is_some());
    match effect {
        _ if !has_failed && !is(new) => return Some("is not as without the failure"),
        Effect::InSteps if is(new) => {}
        Effect::InPlace if is_changed_in_place => {}
        _ if has_failed && !is(before) => return Some("is not as before"),
        _ => {}
    }
    let (now, mut allowed) = (now?, before.into_iter().chain(new));
    if !allowed.any(|other| now.is_within(other)) {
        return Some("has wider permissions");
    }
    let new = new.filter(|new| !has_failed && !is_narrowed && now.owner == new.owner);
    new.filter(|new| (now.mode, &now.others) != (new.mode, &new.others))
        .map(|_| "has other permissions than without the failure")
}

impl Entry {
    /// Whether it grants nothing that the other entry does not, except to its owner.
    fn is_within(&self, other: &Self) -> bool {
        let at_most = if self.others == other.others { other.mode } else { other.mode & 0o700 };
        self.mode & !at_most == 0
    }
}

impl Counts {
    fn text(&self) -> String {
        let Self { calls, injected, errors, .. } = self;
        let succeeded = injected - errors;
        format!("{calls} calls, {injected} failures, {errors} errors, {succeeded} succeeded")
    }
}

/// The errors that a call can plausibly return.
fn errors(call: c_long) -> &'static [Errno] {
    use Errno::{EACCES, EAGAIN, EDQUOT, EINTR, EIO, EMFILE, ENOSPC};
    match call {
        libc::SYS_openat | libc::SYS_openat2 => {
            &[EIO, EMFILE, EACCES, EINTR, EAGAIN, ENOSPC, EDQUOT]
        }
        // The standard library checks descriptors by this call in debug builds. Without `openat2`,
        // it duplicates some.
        libc::SYS_fcntl => &[EMFILE],
        libc::SYS_close => &[EIO, EINTR],
        // These change nothing, so they need no space.
        libc::SYS_read
        | libc::SYS_fstat
        | libc::SYS_statx
        | libc::SYS_newfstatat
        | libc::SYS_readlinkat
        | libc::SYS_getdents64
        | libc::SYS_lseek
        | libc::SYS_fgetxattr
        | libc::SYS_fstatfs => &[EIO, EACCES, EINTR, EAGAIN],
        _ => &[EIO, ENOSPC, EACCES, EDQUOT, EINTR, EAGAIN],
    }
}

/// Calls that are always made: those that cannot fail, or only because of an error in the program,
/// and those without which no program can go on, such as the allocation of memory, a lock, and the
/// signal that ends the operation.
#[rustfmt::skip]
const NEVER_FAILED: &[c_long] = {
    use libc::*;
    &[
        SYS_brk, SYS_mmap, SYS_mremap, SYS_munmap, SYS_madvise, SYS_mprotect, SYS_futex,
        SYS_getrandom, SYS_clock_gettime, SYS_rt_sigprocmask, SYS_getpid, SYS_gettid, SYS_tgkill,
        SYS_geteuid, SYS_sched_yield,
    ]
};
