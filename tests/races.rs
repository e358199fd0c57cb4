//! Races: every operation runs while another thread swaps names on its path as fast as it can.
//!
//! A name may be swapped with a symlink or a directory between two steps of an operation, or
//! between a check and the use of its proof. These tests show that nothing outside is then read,
//! listed, described, created, changed, renamed or removed. A [`Pair`] describes the swap and the
//! request path through it. A [`Row`] is an operation. Each row runs on each pair for a bounded
//! number of rounds, directly on the roots and with a proof that was made at least one swap
//! earlier.
//!
//! The outside files were never in the root, under any name. A directory that is swapped into the
//! root is inside for as long as it is there, and a directory opened inside remains valid when it
//! is moved out. A pair that swaps such directories therefore counts as outside only what their
//! symlinks or `..` lead to. Outside files are recognized by their content and names, both
//! `SECRET`, and by their modes, which nothing inside has. After each row, everything outside is
//! compared with its original state: names, types, inodes, modes, times and content.
//!
//! The counts show that races happened: every pair has both successes and refusals, every row
//! succeeds at least once, and more than half of the rows are refused at least once. The control
//! also shows it. It is a guard that checks the canonical path and then opens it by name, and its
//! test fails unless the guard leaks.
//!
//! The same rows run on swaps that lead to a protected name inside the root. Nothing under a
//! read-only name may change, and nothing under a hidden name may be seen either. The last test
//! renames a directory to a protected name while files in it are written.
//!
//! For long runs, `GUARD_RACE_SECONDS=600` divides 600 seconds between all rows, without a limit on
//! rounds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::hint::spin_loop;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use mcp_roots_guard::{
    Access, Boundary, CheckedPath, Existing, Intent, ListRootsResult, Metadata, OpenFile,
    OpenOptions, Protection, ReadDir, Replace, Result, Root, Roots, Walk, WalkOptions,
    WriteOptions,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::support::kernel::{ENOSYS, block};
use crate::support::tree::Tree;

/// The swaps. Each one takes two lines:
///
/// ```text
/// name | root | request path (`@` in a row) | file or dir | outside, never inside | swap
///     the tree, rebuilt in the emptied root before each change. `place X` is a directory like
///     the outside one, without secrets. `once ...` is created once; `once dir X` is also emptied
/// ```
///
/// If the request path is a file, `@/data` in a row stands for the path itself. `(X)` repeats X 32
/// times, which makes the path slow to resolve. A name that is swapped with `nothing` is a symlink
/// to the outside, or does not exist.
const PAIRS: &str = "\
directory <-> symlink    | root   | box/a     | dir  | out      | root/box/a <-> root/box/b
    place root/box/a; link root/box/b -> $T/out
the same, inside symlink | root   | in        | dir  | out      | root/box/a <-> root/box/b
    place root/box/a; link root/box/b -> ../../out; link root/in -> $T/root/box/a
file <-> symlink         | root   | box/f     | file | out      | root/box/f <-> root/box/l
    file root/box/f = inside; link root/box/l -> ../../out/data
inside <-> outside       | root   | box/a/b   | dir  | never    | root/box/a <-> peers/peer
    once dir peers/peer; link peers/peer/b -> $T/never; place root/box/a/b
the same, through .. | root | box/a/(c/../)../flip | dir | peers/flip | root/box/a <-> peers/peer
    once dir peers/peer; dir peers/peer/c; dir root/box/a/c; place root/box/flip
ancestor <-> directory   | w/root | .         | dir  | w2/root  | w <-> w2
    place w/root
ancestor <-> symlink     | w/root | $T/w/root | dir  | out/root | w <-> w2
    once link w2 -> out; place w/root
nothing <-> symlink      | root   | box/x     | file | out      | root/box/x <-> nothing
    dir root/box";

/// Swaps that lead to the protected name `.git` inside the root. For these pairs, `outside` is the
/// protected directory.
const PROTECTED_PAIRS: &str = "\
directory <-> symlink    | root   | box/a     | dir  | root/.git | root/box/a <-> root/box/b
    place root/box/a; link root/box/b -> $T/root/.git
the same, inside symlink | root   | in        | dir  | root/.git | root/box/a <-> root/box/b
    place root/box/a; link root/box/b -> ../.git; link root/in -> $T/root/box/a
file <-> symlink         | root   | box/f     | file | root/.git | root/box/f <-> root/box/l
    file root/box/f = inside; link root/box/l -> ../.git/data
nothing <-> symlink      | root   | box/x     | file | root/.git | root/box/x <-> nothing
    dir root/box";

/// What the pairs swap into the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forbidden {
    Outside,
    ReadOnly,
    Hidden,
}

impl Forbidden {
    fn pairs(self) -> Vec<Pair> {
        Pair::all(if self == Self::Outside { PAIRS } else { PROTECTED_PAIRS })
    }

    fn roots(self, tree: &Tree, root: &str) -> Roots {
        let builder = Boundary::builder().directory(tree.path(root), Access::ReadWrite);
        let builder = match self {
            Self::Outside => return tree.roots([root]),
            Self::ReadOnly => builder.protect(".git", Protection::ReadOnly),
            Self::Hidden => builder.protect(".git", Protection::Hidden),
        };
        builder.build().unwrap().allowed_roots()
    }
}

struct Pair {
    name: &'static str,
    root: &'static str,
    path: String,
    is_file: bool,
    outside: &'static str,
    swap: (&'static str, &'static str),
    made: Vec<&'static str>,
}

/// An operation. Its functions return whether the operation accessed anything outside.
struct Row {
    name: String,
    changes: bool,
    requests: Vec<(&'static str, Intent)>,
    direct: DirectCall,
    with_proof: ProofCall,
}

type DirectCall = Box<dyn Fn(&Roots, &[String]) -> Result<bool>>;
type ProofCall = Box<dyn Fn(&[CheckedPath]) -> Result<bool>>;

macro_rules! rows {
    ($($changes:literal $what:literal $intent:ident $request:literal
        $method:ident($($arg:expr),*) $saw:expr;)*) => {
        vec![$(Row {
            name: format!("{} {}{}", stringify!($method), $request, $what),
            changes: $changes,
            requests: vec![($request, Intent::$intent)],
            direct: Box::new(move |roots, requests| {
                roots.$method(requests[0].as_str(), $($arg),*).map($saw)
            }),
            with_proof: Box::new(move |checked| checked[0].$method($($arg),*).map($saw)),
        }),*]
    };
}

fn rows() -> Vec<Row> {
    let new = OpenOptions::new;
    let writing = || OpenOptions::new().write(true);
    let appending = || OpenOptions::new().append(true);
    let mut rows = rows! {
        false ""            Existing "@/data"   read(LIMIT)                    |it| it != b"inside";
        false ""            Existing "@/data"   read_to_string(LIMIT)          |it| it != "inside";
        false ""            Existing "@/data"   open()                         saw_open;
        false " (read)"     Existing "@/data"   open_with(new().read(true))    saw_read;
        false ""            Existing "@/data"   metadata()                     |it| saw(&it);
        false ""            Existing "@"        metadata()                     |it| saw(&it);
        false ""            NoFollow "@/data"   symlink_metadata()             |it| saw(&it);
        false ""            NoFollow "@"        symlink_metadata()             |it| saw(&it);
        false ""            Existing "@"        read_dir()                     saw_list;
        false ""            Existing "@/sub"    read_dir()                     saw_list;
        false ""            Existing "@"        walk(WalkOptions::new())       saw_walk;
        false ""            Existing "box"      walk(WalkOptions::new())       saw_walk;
        true  " (write)"    Existing "@/data"   open_with(writing())           saw_write;
        true  " (append)"   Existing "@/data"   open_with(appending())         saw_write;
        true  " (truncate)" Existing "@/data"   open_with(writing().truncate(true)) saw_write;
        true  " (create)"   New      "@/data"   open_with(writing().create(true)) saw_write;
        true  " (create)"   New      "@/new"    open_with(appending().create(true)) saw_write;
        true  " (new)"      New      "@/new"    open_with(writing().create_new(true)) saw_write;
        true  ""            New      "@/data"   write("written")               |()| false;
        true  ""            New      "@/new"    write("written")               |()| false;
        true  " (in place)" New      "@/data"   write_with("written", in_place()) |()| false;
        true  ""            NewTree  "@/new"    create_dir()                   |()| false;
        true  ""            NewTree  "@/new"    create_dir_all()               |()| false;
        true  ""            NewTree  "@/n1/n2"  create_dir_all()               |()| false;
        true  ""            NoFollow "@/data"   remove_file()                  |()| false;
        true  ""            NoFollow "@"        remove_file()                  |()| false;
        true  ""            NoFollow "@/empty"  remove_dir()                   |()| false;
        true  ""            NoFollow "@/sub"    remove_dir_all()               |()| false;
        true  ""            NoFollow "@"        remove_dir_all()               |()| false;
        true  ""            NoFollow "box"      remove_dir_all()               |()| false;
    };
    rows.extend(
        [
            ("@/data", "got", Replace::Never),
            ("@/data", "mine", Replace::Existing),
            ("@/sub", "@/got", Replace::Never),
            ("@", "got", Replace::Never),
            ("mine", "@/new", Replace::Never),
            ("mine", "@/data", Replace::Existing),
            ("my-dir", "@/empty", Replace::Existing),
        ]
        .map(|(from, to, replace)| Row {
            name: format!("rename {from} {to}"),
            changes: true,
            requests: vec![(from, Intent::NoFollow), (to, Intent::NoFollow)],
            direct: Box::new(move |roots, requests| {
                roots.rename(requests[0].as_str(), requests[1].as_str(), replace).map(|()| false)
            }),
            with_proof: Box::new(move |checked| {
                checked[0].rename(&checked[1], replace).map(|()| false)
            }),
        }),
    );
    rows
}

fn in_place() -> WriteOptions {
    WriteOptions::new().existing(Existing::InPlace)
}

/// Returns whether the metadata describes something outside, which is recognized by the mode that
/// [`mark`] set.
fn saw(metadata: &Metadata) -> bool {
    metadata.mode().is_some_and(is_marked)
}

fn saw_open(file: OpenFile) -> bool {
    saw(file.metadata()) || file.read_all(LIMIT).is_ok_and(|content| content != b"inside")
}

fn saw_read(file: OpenFile) -> bool {
    let (mut file, mut text) = (file.into_std(), String::new());
    is_marked(file.metadata().unwrap().mode())
        || file.read_to_string(&mut text).is_err()
        || text != "inside"
}

fn saw_write(file: OpenFile) -> bool {
    let mut file = file.into_std();
    is_marked(file.metadata().unwrap().mode()) || file.write_all(b"written").is_err()
}

fn saw_list(entries: ReadDir) -> bool {
    entries.flatten().any(|entry| saw(entry.metadata()) || entry.name() == "SECRET")
}

fn saw_walk(walk: Walk) -> bool {
    walk.flatten().any(|entry| saw(entry.metadata()) || entry.path().ends_with("SECRET"))
}

/// The thread that swaps. It can be paused, and a pause always begins after an even number of
/// swaps.
#[derive(Default)]
struct Racer {
    swaps: AtomicU64,
    /// Odd while a pause is requested.
    pause: AtomicU64,
    paused: AtomicU64,
    stop: AtomicBool,
}

impl Racer {
    fn run(&self, mut swap: impl FnMut() -> bool) {
        let (mut is_odd, mut random) = (false, 1_u32);
        while !self.stop.load(SeqCst) {
            let pause = self.pause.load(SeqCst);
            if pause % 2 == 1 {
                let _ = is_odd && swap();
                is_odd = false;
                self.paused.store(pause, SeqCst);
                while self.pause.load(SeqCst) == pause && !self.stop.load(SeqCst) {
                    thread::yield_now();
                }
            } else if swap() {
                is_odd = !is_odd;
                self.swaps.fetch_add(1, SeqCst);
            }
            // Vary the rhythm, because the operation may share a processor with this thread.
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match random >> 16 {
                many if many % 32 == 0 => thread::yield_now(),
                many => (0..many % 256).for_each(|_| spin_loop()),
            }
        }
    }

    fn while_paused<T>(&self, work: impl FnOnce() -> T) -> T {
        let pause = self.pause.fetch_add(1, SeqCst) + 1;
        until(|| self.paused.load(SeqCst) == pause);
        let done = work();
        self.pause.fetch_add(1, SeqCst);
        done
    }

    fn next_swap(&self) {
        let before = self.swaps.load(SeqCst);
        until(|| self.swaps.load(SeqCst) > before);
    }
}

fn until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "no swap happened. Does this filesystem support exchanging names?"
        );
        thread::yield_now();
    }
}

/// Swaps names in another thread while `work` runs. A panic in `work` also ends that thread.
fn racing<T>(swap: impl FnMut() -> bool + Send, work: impl FnOnce(&Racer) -> T) -> T {
    struct Stop<'a>(&'a Racer);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.stop.store(true, SeqCst);
        }
    }
    let racer = &Racer::default();
    thread::scope(|scope| {
        let _stop = Stop(racer);
        scope.spawn(move || racer.run(swap));
        work(racer)
    })
}

impl Pair {
    fn all(pairs: &'static str) -> Vec<Self> {
        let lines: Vec<_> = pairs.lines().collect();
        lines.chunks(2).map(|lines| Self::parse(lines[0], lines[1])).collect()
    }

    fn parse(head: &'static str, made: &'static str) -> Self {
        let fields: Vec<_> = head.split('|').map(str::trim).collect();
        let &[name, root, path, is, outside, swap] = fields.as_slice() else {
            panic!("{head}: expected six fields")
        };
        let path = match path
            .split_once('(')
            .and_then(|(start, rest)| Some((start, rest.split_once(')')?)))
        {
            Some((start, (again, end))) => format!("{start}{}{end}", again.repeat(32)),
            None => path.into(),
        };
        let swap = swap.split_once(" <-> ").expect("NAME <-> NAME");
        Self {
            name,
            root,
            path,
            is_file: is == "file",
            outside,
            swap,
            made: made.trim().split("; ").collect(),
        }
    }

    fn build(&self) -> Tree {
        let tree = Tree::new(&format!("dir {}; {}", self.root, place(self.outside, "SECRET")));
        self.made
            .iter()
            .filter_map(|line| line.strip_prefix("once "))
            .for_each(|line| tree.add(line));
        mark(&tree.path(self.outside));
        self.renew(&tree);
        tree
    }

    /// The directories that are emptied and rebuilt.
    fn fresh(&self) -> impl Iterator<Item = &str> {
        let once = self.made.iter().filter_map(|line| line.strip_prefix("once dir "));
        std::iter::once(self.root).chain(once)
    }

    fn renew(&self, tree: &Tree) {
        for entry in self.fresh().flat_map(|fresh| fs::read_dir(tree.path(fresh)).unwrap()) {
            let path = entry.unwrap().path();
            if path == tree.path(self.outside) {
                continue;
            }
            if path.is_symlink() || path.is_file() {
                fs::remove_file(path)
            } else {
                fs::remove_dir_all(path)
            }
            .unwrap();
        }
        tree.add(&format!("file {0}/mine = inside; dir {0}/my-dir", self.root));
        for line in self.made.iter().filter(|line| !line.starts_with("once ")) {
            tree.add(&line.strip_prefix("place ").map_or((*line).into(), |at| place(at, "inside")));
        }
    }

    fn swap(&self, tree: &Tree) -> Box<dyn FnMut() -> bool + Send> {
        let (one, other) = (tree.path(self.swap.0), tree.path(self.swap.1));
        if self.swap.1 != "nothing" {
            return Box::new(move || {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok()
            });
        }
        // The symlink points to a file, to a directory or to nothing, in turn.
        let mut targets = ["data", "sub", "none"]
            .map(|name| tree.path(self.outside).join(name))
            .into_iter()
            .cycle();
        Box::new(move || {
            fs::remove_file(&one).or_else(|_| symlink(targets.next().unwrap(), &one)).is_ok()
        })
    }

    fn request(&self, tree: &Tree, text: &str) -> String {
        let text = if self.is_file && !text.contains("n1") {
            text.split('/').next().unwrap()
        } else {
            text
        };
        tree.expand(&text.replace('@', &self.path))
    }

    /// Describes everything except the content of the rebuilt directories. The link counts, sizes
    /// and times of directories in which names are swapped are left out, because they change.
    fn outside(&self, tree: &Tree) -> Vec<String> {
        let is_fresh = |path: &Path| self.fresh().any(|fresh| tree.path(fresh) == path);
        let is_busy = |path: &Path| {
            [self.swap.0, self.swap.1].iter().any(|name| tree.path(name).parent() == Some(path))
        };
        let mut lines = Vec::new();
        let mut todo = vec![tree.path("")];
        if self.fresh().any(|fresh| Path::new(self.outside).parent() == Some(Path::new(fresh))) {
            todo.push(tree.path(self.outside));
        }
        while let Some(path) = todo.pop() {
            let is = fs::symlink_metadata(&path).unwrap();
            let mut line = format!("{} {:?} {:o}", path.display(), is.file_type(), is.mode());
            if !is_fresh(&path) {
                let content = match is.file_type() {
                    t if t.is_symlink() => {
                        fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                    }
                    t if t.is_file() => fs::read(&path).unwrap(),
                    _ => Vec::new(),
                };
                let _ = write!(line, " {} {:?}", is.ino(), String::from_utf8_lossy(&content));
                if !is_busy(&path) {
                    let _ = write!(
                        line,
                        " {} {} {}.{}",
                        is.nlink(),
                        is.len(),
                        is.mtime(),
                        is.mtime_nsec()
                    );
                }
                if is.is_dir() {
                    todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                }
            }
            lines.push(line);
        }
        lines.sort();
        lines
    }
}

fn place(at: &str, word: &str) -> String {
    format!(
        "file {at}/data = {word}; file {at}/{word} = {word}; \
         file {at}/sub/{word} = {word}; dir {at}/empty"
    )
}

/// Sets modes that nothing inside the roots has, on a path and everything below it, whatever the
/// umask.
fn mark(path: &PathBuf) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            mark(&entry.unwrap().path());
        }
    }
    let mode = if path.is_dir() { 0o705 } else { 0o604 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn is_marked(mode: u32) -> bool {
    matches!(mode & 0o777, 0o705 | 0o604)
}

#[derive(Debug, Default)]
struct Counts {
    tries: u64,
    successes: u64,
    refusals: BTreeMap<&'static str, u64>,
}

impl Counts {
    fn add(&mut self, done: &Result<bool>) {
        self.tries += 1;
        match done {
            Ok(_) => self.successes += 1,
            Err(error) => *self.refusals.entry(error.code()).or_default() += 1,
        }
    }
}

/// Checks until a check succeeds, waits for at least one swap, and performs the operation.
fn with_proof(row: &Row, roots: &Roots, requests: &[String], racer: &Racer) -> Result<bool> {
    let check = || -> Result<Vec<_>> {
        let each = row.requests.iter().zip(requests);
        each.map(|((_, intent), request)| roots.check(request.as_str(), *intent)).collect()
    };
    let checked = (1..CHECK_ATTEMPTS).map(|_| check()).find(Result::is_ok).unwrap_or_else(check)?;
    racer.next_swap();
    (row.with_proof)(&checked)
}

#[test]
fn nothing_outside_is_read_or_changed_while_names_are_swapped() {
    race(Forbidden::Outside);
}

#[test]
fn nothing_read_only_is_changed_while_names_are_swapped() {
    race(Forbidden::ReadOnly);
}

#[test]
fn nothing_hidden_is_read_or_changed_while_names_are_swapped() {
    race(Forbidden::Hidden);
}

#[expect(clippy::too_many_lines, reason = "one race and its report")]
fn race(forbidden: Forbidden) {
    let (rows, pairs) = (rows(), forbidden.pairs());
    let seconds = std::env::var("GUARD_RACE_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    let (max_rounds, row_time) = match seconds {
        None => (MAX_ROUNDS, ROW_TIME),
        Some(seconds) => (
            u64::MAX,
            Duration::from_secs(seconds) / u32::try_from(2 * rows.len() * pairs.len()).unwrap(),
        ),
    };
    let mut total = (0, 0);
    let mut of_rows: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut leaks = Vec::new();
    for pair in pairs {
        let tree = pair.build();
        let leaked_before = leaks.len();
        let (counts, swaps) = racing(pair.swap(&tree), |racer| {
            let mut counts = Counts::default();
            let mut roots = racer.while_paused(|| forbidden.roots(&tree, pair.root));
            let mut before = racer.while_paused(|| pair.outside(&tree));
            let mut is_fresh = true;
            for row in &rows {
                let requests: Vec<_> =
                    row.requests.iter().map(|(text, _)| pair.request(&tree, text)).collect();
                let mut leak =
                    |what: &str| leaks.push(format!("{}: {}: {what}", pair.name, row.name));
                for is_direct in [true, false] {
                    let start = Instant::now();
                    for round in 0..max_rounds {
                        if round >= MIN_ROUNDS && start.elapsed() > row_time {
                            break;
                        }
                        let is_available = roots.roots().all(Root::is_available);
                        if !is_fresh || !is_available {
                            racer.while_paused(|| {
                                pair.renew(&tree);
                                roots = if is_available {
                                    roots.clone()
                                } else {
                                    forbidden.roots(&tree, pair.root)
                                };
                            });
                        }
                        racer.next_swap();
                        let done = if is_direct {
                            (row.direct)(&roots, &requests)
                        } else {
                            with_proof(row, &roots, &requests, racer)
                        };
                        counts.add(&done);
                        of_rows.entry(&row.name).or_default().add(&done);
                        let is_mount = done.as_ref().is_err_and(|e| e.code() == "mount_crossing");
                        // Nothing is mounted here. Only a recursive removal compares mounts, and a
                        // race can make it report one.
                        if is_mount && !row.name.starts_with("remove_dir_all") {
                            leak("mistook a directory that was moved away for a mount");
                        }
                        // A request that is refused by name alone has no effect.
                        is_fresh = !row.changes
                            || done.as_ref().is_err_and(|e| e.code() == "outside_roots");
                        // What is read-only may be read.
                        if done.unwrap_or(false) && forbidden != Forbidden::ReadOnly {
                            leak(if is_direct {
                                "saw something outside directly"
                            } else {
                                "saw something outside with a proof"
                            });
                        }
                    }
                }
                let after = racer.while_paused(|| {
                    pair.renew(&tree);
                    pair.outside(&tree)
                });
                is_fresh = true;
                if before != after {
                    let lines_only_in = |one: &[String], other: &[String]| {
                        one.iter()
                            .filter(|line| !other.contains(line))
                            .cloned()
                            .collect::<Vec<_>>()
                            .join("\n    ")
                    };
                    leak(&format!(
                        "changed\n    {}\n to {}",
                        lines_only_in(&before, &after),
                        lines_only_in(&after, &before)
                    ));
                    before = after;
                }
            }
            (counts, racer.swaps.load(SeqCst))
        });
        let Counts { tries, successes, refusals } = &counts;
        let leaked = leaks.len() - leaked_before;
        println!(
            "{forbidden:?}: {}: {tries} tries, {swaps} swaps, {successes} successes, \
             {refusals:?}, {leaked} leaks",
            pair.name
        );
        total = (total.0 + tries, total.1 + swaps);
        assert!(
            swaps >= *tries && *successes > 0 && !refusals.is_empty(),
            "{}: no race happened",
            pair.name
        );
    }
    println!("{forbidden:?}: {} tries, {} swaps, {} leaks", total.0, total.1, leaks.len());
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
    let never: Vec<_> = of_rows.iter().filter(|(_, counts)| counts.successes == 0).collect();
    let refused = of_rows.values().filter(|counts| !counts.refusals.is_empty()).count();
    assert!(
        never.is_empty() && refused > rows.len() / 2,
        "rows that never succeeded: {never:?}; rows with refusals: {refused}"
    );
}

/// On the first pair, the control opens the path that it checked, as most servers do. If it does
/// not leak, the swaps in these tests never hit the critical moment.
#[test]
fn a_guard_that_reopens_the_checked_path_leaks() {
    let pair = Forbidden::Outside.pairs().remove(0);
    let tree = pair.build();
    let (root, request) =
        (tree.path("root"), tree.path("root").join(pair.request(&tree, "@/data")));
    let naive = || -> std::io::Result<Vec<u8>> {
        let canonical = request.canonicalize()?;
        if canonical.starts_with(&root) {
            fs::read(canonical)
        } else {
            Err(std::io::ErrorKind::PermissionDenied.into())
        }
    };
    let start = Instant::now();
    let tries = racing(pair.swap(&tree), |_| {
        let leaks = |_: &u32| naive().is_ok_and(|content| content == b"SECRET");
        (1..=2_000_000).take_while(|_| start.elapsed() < Duration::from_secs(20)).find(leaks)
    });
    println!("control: leaked at try {tries:?}");
    assert!(tries.is_some(), "the control did not leak. Does this machine have two processors?");
}

/// The control for the protected names: it looks for the name in the canonical path, and then opens
/// that path.
#[test]
fn a_guard_that_checks_the_canonical_path_for_a_protected_name_changes_it() {
    let pair = Forbidden::ReadOnly.pairs().remove(0);
    let tree = pair.build();
    let request = tree.path("root").join(pair.request(&tree, "@/data"));
    let naive = || -> std::io::Result<()> {
        let canonical = request.canonicalize()?;
        if canonical.iter().any(|name| name == ".git") {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        fs::write(canonical, "written")
    };
    let secret = tree.path("root/.git/data");
    let start = Instant::now();
    let tries = racing(pair.swap(&tree), |_| {
        let changes = |_: &u32| {
            let _ = naive();
            fs::read(&secret).unwrap() != b"SECRET"
        };
        (1..=2_000_000).take_while(|_| start.elapsed() < Duration::from_secs(20)).find(changes)
    });
    println!("control: changed a protected file at try {tries:?}");
    assert!(tries.is_some(), "the control changed nothing. Does this machine have two processors?");
}

/// Writes files in a directory while it is renamed to `.git` and back. A write that checked the
/// directory under its ordinary name must not put its content in place while the directory is
/// protected. The last verification and the rename that follows are two system calls, so this is
/// not impossible, but it must be far rarer than without the verification.
#[test]
fn writes_rarely_reach_a_directory_that_is_renamed_to_a_protected_name() {
    let control = landings(Forbidden::Outside, |counts| counts.landed >= LANDED);
    println!("without protected names: {control:?}");
    assert!(control.landed >= LANDED, "the control landed too rarely: {control:?}");
    let guarded = landings(Forbidden::ReadOnly, |counts| counts.renames >= control.renames);
    println!("with protected names: {guarded:?}");
    assert!(guarded.renames >= control.renames, "{guarded:?}, control {control:?}");
    assert!(guarded.written >= LANDED, "no write succeeded: {guarded:?}");
    assert!(guarded.landed * LESS_OFTEN <= control.landed, "{guarded:?}, control {control:?}");
}

/// How much more rarely a write lands in a protected directory with the verification.
const LESS_OFTEN: u64 = 4;

/// The number of writes that land without the verification. The same number of renames is then
/// made with it.
const LANDED: u64 = 100;

const WRITTEN_BYTES: usize = 1 << 18;

#[derive(Debug, Default)]
struct Landings {
    written: u64,
    refusals: BTreeMap<&'static str, u64>,
    renames: u64,
    /// The number of times that the file changed while its directory was named `.git`.
    landed: u64,
}

/// Writes until enough has happened, or for a minute.
fn landings(forbidden: Forbidden, is_enough: impl Fn(&Landings) -> bool) -> Landings {
    let tree = Tree::in_memory("file root/box/plain/data = old");
    let roots = forbidden.roots(&tree, "root");
    let (plain, git) = (tree.path("root/box/plain"), tree.path("root/box/.git"));
    let stop = AtomicBool::new(false);
    let (renames, landed) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut counts = Landings::default();
    thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let data = git.join("data");
            // The number at the beginning of the content.
            let content = || {
                let (mut file, mut start) = (fs::File::open(&data).unwrap(), [0; 8]);
                let _ = file.read(&mut start).unwrap();
                (file.metadata().unwrap().ino(), start)
            };
            let mut random = 1_u32;
            let mut wait = || {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let end = Instant::now() + Duration::from_micros(u64::from(random >> 16) % 300);
                while Instant::now() < end {
                    spin_loop();
                }
            };
            while !stop.load(SeqCst) {
                fs::rename(&plain, &git).unwrap();
                let before = content();
                wait();
                landed.fetch_add(u64::from(content() != before), SeqCst);
                fs::rename(&git, &plain).unwrap();
                renames.fetch_add(1, SeqCst);
                wait();
            }
        });
        let end = Instant::now() + Duration::from_secs(60);
        let padding = " ".repeat(WRITTEN_BYTES);
        for round in 0_u64.. {
            (counts.renames, counts.landed) = (renames.load(SeqCst), landed.load(SeqCst));
            if is_enough(&counts) || Instant::now() > end {
                break;
            }
            // Writing takes much longer than the last two system calls.
            let content = format!("{round:08}{padding}");
            match roots.write("box/plain/data", &content) {
                Ok(()) => counts.written += 1,
                Err(error) => *counts.refusals.entry(error.code()).or_default() += 1,
            }
        }
        stop.store(true, SeqCst);
        swapper.join().unwrap();
    });
    counts
}

/// Each row runs on each pair, directly and with a proof, for at most `MAX_ROUNDS` rounds. No round
/// starts after `ROW_TIME`. A slow machine still runs `MIN_ROUNDS`, because each row must succeed
/// once.
const MAX_ROUNDS: u64 = 100;
const MIN_ROUNDS: u64 = 4;
const ROW_TIME: Duration = Duration::from_millis(15);

/// The maximum number of attempts to check. Half of all checks fail because of a swap.
const CHECK_ATTEMPTS: usize = 16;

/// All files in these tests are smaller than this.
const LIMIT: u64 = 1 << 10;

/// Without `openat2`, opening a directory fails with `ENOTDIR` (open(2)) if it is briefly a
/// symlink. The guard must not report this as `not_a_directory`, whatever has the name by then.
#[test]
fn a_raced_symlink_is_retried_without_openat2() {
    let tree = Tree::in_memory("file op/a/sub/f; file op/real/sub/f; link op/b -> real");
    let (a, b) = (tree.path("op/a"), tree.path("op/b"));
    let boundary =
        Boundary::builder().directory(tree.path("op"), Access::ReadWrite).build().unwrap();
    let roots = boundary.allowed_roots();
    let list = ListRootsResult::from_uris([tree.uri("op/a/sub")]);
    let stop = AtomicBool::new(false);
    let (mut results, mut swaps) = (BTreeMap::new(), 0_u64);
    thread::scope(|scope| {
        let raced = scope.spawn(|| {
            block(ENOSYS);
            let mut results = BTreeMap::new();
            let end = Instant::now() + Duration::from_secs(60);
            let mut round = 0;
            // On a loaded machine the rounds take long, so stop after a minute.
            while round < 20_000 && Instant::now() < end {
                round += 1;
                let checked = roots
                    .check("a/sub/f", Intent::Existing)
                    .map(drop)
                    .map_err(|error| error.code());
                *results.entry(checked).or_insert(0_u64) += 1;
                let listed = boundary.resolve(&list).unwrap();
                let listed = listed
                    .rejected()
                    .first()
                    .map_or(Ok(()), |rejected| Err(rejected.error().code()));
                *results.entry(listed).or_insert(0) += 1;
            }
            stop.store(true, SeqCst);
            results
        });
        while !stop.load(SeqCst) {
            renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
            swaps += 1;
        }
        results = raced.join().unwrap();
    });
    println!("{swaps} swaps: {results:?}");
    assert!(swaps > 1_000 && results.contains_key(&Ok(())), "{swaps}: {results:?}");
    let expected = [Ok(()), Err("changed"), Err("through_link")];
    assert!(results.keys().all(|result| expected.contains(result)), "{results:?}");
}
