//! Races: every operation runs while another thread swaps names on its path as fast as it can.
//!
//! Nothing outside is then read, listed, described, created, changed, renamed or removed. A [`Pair`]
//! describes the swap and the request path through it. A [`Row`] is an operation of the
//! [table](crate::support::operations), the requests, and the way in which it is called. Each pair
//! takes one row in three, and in a long run every row, for a bounded number of rounds.
//!
//! The outside files were never in the root, under any name. A directory that is swapped into the
//! root is inside for as long as it is there, and a directory opened inside remains valid when it
//! is moved out. A pair that swaps such directories therefore counts as outside only what their
//! symlinks or `..` lead to. Outside files are recognized by their content and names, both
//! `SECRET`, and by their modes, which nothing inside has. After each row, everything outside is
//! compared with its original state: names, types, inodes, modes, times and content.
//!
//! The counts show that races happened: every pair has both successes and refusals, every operation
//! succeeds at least once in each way, and more than half of these calls are refused at least once.
//! As long as one of these has not happened, its rows run again, so that it does not depend on the
//! speed of the machine. The controls also show it. They are guards that check the canonical path
//! and then use it by name, and their tests fail unless they leak.
//!
//! The same rows run on swaps that lead to a protected name inside the root, or from a writable
//! directory to the readable one around it. Nothing under a read-only name may change, and nothing under a denied name may be seen either. The last test
//! renames a directory to a protected name while files in it are written.
//!
//! For long runs, `GUARD_RACE_SECONDS=600` divides 600 seconds between all rows, without a limit on
//! rounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::hint::spin_loop;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use mcp_roots_guard::{Access, Boundary, Error, ListRootsResult, Result, Roots};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::support::kernel::{ENOSYS, block};
use crate::support::operations::{
    self, CONTENT, OPERATIONS, Operation, Pause, SECRET, Target, Way, is_marked, mark,
};
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
/// to the outside, or does not exist. `DIRECTORY=ROOT` is a client root in an allowed directory.
/// What is swapped with a name that does not exist is moved there and back.
const PAIRS: &str = "\
directory <-> symlink    | root   | box/a     | dir  | out      | root/box/a <-> root/box/b
    place root/box/a; link root/box/b -> $T/out
the same, inside symlink | root   | in        | dir  | out      | root/box/a <-> root/box/b
    place root/box/a; link root/box/b -> ../../out; link root/in -> $T/root/box/a
file <-> symlink         | root   | box/f     | file | out      | root/box/f <-> root/box/l
    file root/box/f = content; link root/box/l -> ../../out/data
inside <-> outside       | root   | box/a/b   | dir  | never    | root/box/a <-> peers/peer
    once dir peers/peer; link peers/peer/b -> $T/never; place root/box/a/b
the same, through .. | root | box/a/(c/../)../flip | dir | peers/flip | root/box/a <-> peers/peer
    once dir peers/peer; dir peers/peer/c; dir root/box/a/c; place root/box/flip
client root <-> directory | root=root/box/a | . | dir | root/third | root/box/a <-> root/box/b
    place root/box/a; place root/box/b
client root <-> symlink  | root=root/box/a | .  | dir | root/third | root/box/a <-> root/box/b
    place root/box/a; link root/box/b -> $T/root/third
client root's ancestor <-> symlink | root=root/box/a/sub | . | dir | root/third | root/box/a <-> root/b
    place root/box/a/sub; link root/b -> third
client root <-> nothing  | root=root/box/a | .  | dir | root/third | root/box/a <-> root/away
    place root/box/a
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
    file root/box/f = content; link root/box/l -> ../.git/data
nothing <-> symlink      | root   | box/x     | file | root/.git | root/box/x <-> nothing
    dir root/box";

/// Swaps that lead from a writable directory to the readable one around it. `OUTER=INNER` are the
/// two.
const NESTED_PAIRS: &str = "\
inner directory <-> symlink | ro=ro/ws | . | dir | ro/third | ro/ws <-> ro/link
    place ro/ws; link ro/link -> third
directory in it <-> symlink | ro=ro/ws | box/a | dir | ro/third | ro/ws/box/a <-> ro/ws/box/b
    place ro/ws/box/a; link ro/ws/box/b -> ../../third
the same, by the outer path | ro=ro/ws | $T/ro/ws/box/a | dir | ro/third | ro/ws/box/a <-> ro/ws/box/b
    place ro/ws/box/a; link ro/ws/box/b -> $T/ro/third
file <-> symlink         | ro=ro/ws | box/f     | file | ro/third | ro/ws/box/f <-> ro/ws/box/l
    file ro/ws/box/f = content; link ro/ws/box/l -> ../../third/data
nothing <-> symlink      | ro=ro/ws | box/x     | file | ro/third | ro/ws/box/x <-> nothing
    dir ro/ws/box";

/// What the pairs swap into the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forbidden {
    Outside,
    ReadOnly,
    Denied,
    /// A change in a readable directory around a writable one.
    Around,
}

impl Forbidden {
    fn pairs(self) -> Vec<Pair> {
        Pair::all(match self {
            Self::Outside => PAIRS,
            Self::ReadOnly | Self::Denied => PROTECTED_PAIRS,
            Self::Around => NESTED_PAIRS,
        })
    }

    /// Whether it may be read.
    fn is_readable(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Around)
    }

    fn roots(self, tree: &Tree, root: &str, client_root: Option<&str>) -> Roots {
        if let (Self::Around, Some(inner)) = (self, client_root) {
            let builder = Boundary::builder().directory(tree.path(inner), Access::ReadWrite);
            let both = builder.directory(tree.path(root), Access::ReadOnly);
            return both.build().unwrap().allowed_roots();
        }
        let builder = Boundary::builder().directory(tree.path(root), Access::ReadWrite);
        let builder = match self {
            Self::Outside => {
                let boundary = builder.build().unwrap();
                let Some(root) = client_root else { return boundary.allowed_roots() };
                return boundary
                    .narrow(&ListRootsResult::from_uris([tree.uri(root)]).roots)
                    .unwrap();
            }
            Self::ReadOnly => builder.protect(".git"),
            Self::Denied => builder.deny(".git"),
            Self::Around => unreachable!("each pair has an inner directory"),
        };
        builder.build().unwrap().allowed_roots()
    }
}

struct Pair {
    name: &'static str,
    /// The allowed directory.
    root: &'static str,
    client_root: Option<&'static str>,
    path: String,
    is_file: bool,
    outside: &'static str,
    swap: (&'static str, &'static str),
    made: Vec<&'static str>,
}

/// An operation on requests in which `@` stands for the path of the pair, in one way.
struct Row {
    operation: &'static Operation,
    requests: Vec<&'static str>,
    way: Way,
}

/// An operation and the way in which it is called.
type Call = (&'static str, Way);

fn rows() -> Vec<Row> {
    let rows = OPERATIONS.iter().flat_map(|operation| {
        let all = requests(operation.paths);
        operation.ways().flat_map(move |way| {
            let row = move |requests| Row { operation, requests, way };
            all.clone().into_iter().map(row)
        })
    });
    rows.collect()
}

/// Requests through the path of the pair, for one path or for either or both of two.
fn requests(paths: &[operations::Path]) -> Vec<Vec<&'static str>> {
    let raced = |path: &operations::Path| -> &'static [&'static str] {
        match path.target {
            Target::Any => &["@/data", "@/sub", "@"],
            Target::File => &["@/data"],
            Target::FileOrNew => &["@/data", "@/new"],
            Target::Directory => &["@", "@/sub"],
            Target::Tree => &["@", "@/sub", "box"],
            Target::EmptyDirectory => &["@/empty"],
            Target::Symlink => &["@"],
            Target::Missing => &["@/new"],
            Target::MissingTree => &["@/new", "@/n1/n2"],
        }
    };
    let [one, other] = paths else {
        return raced(&paths[0]).iter().map(|request| vec![*request]).collect();
    };
    // Entries outside the path, which the operation moves or copies into it or replaces.
    let sources: &[_] = match one.target {
        Target::Any => &["mine", "my-dir"],
        Target::Tree => &["my-dir"],
        _ => &["mine"],
    };
    let destination = if other.target == Target::File { "my-file" } else { "got" };
    let out = raced(one).iter().map(|from| vec![*from, destination]);
    let into = raced(other).iter();
    let into = into.flat_map(|to| sources.iter().map(|from| vec![*from, *to]));
    let within = vec![raced(one)[0], raced(other).last().copied().unwrap_or("@")];
    out.chain(into).chain([within]).collect()
}

impl Row {
    fn name(&self) -> String {
        format!("{} {:?} {:?}", self.operation.name, self.way, self.requests)
    }

    /// Makes the call. The names are swapped at least once before each step that makes a proof or
    /// uses it, and between the steps of the operation unless one of them removed a swapped name.
    fn run(&self, roots: &Roots, requests: &[&str], racer: &Racer) -> Result<String> {
        let swap: Pause<'_> = &|| racer.next_swap_if_possible();
        if self.way == Way::Directly {
            return self.operation.run_with_pauses(self.way, roots, requests, swap);
        }
        // Half of all checks fail because of a swap.
        let check = || self.operation.proofs(self.way, roots, requests, &|| racer.next_swap());
        let checked = (1..CHECK_ATTEMPTS).map(|_| check()).find(Result::is_ok);
        let checked = checked.unwrap_or_else(check)?;
        racer.next_swap();
        self.operation.by_proof.unwrap()(&checked, swap)
    }

    /// What must succeed at least once.
    fn call(&self) -> Call {
        (self.operation.name, self.way)
    }
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

    /// Waits briefly for a swap. None is possible after a step that removed a swapped name.
    fn next_swap_if_possible(&self) {
        let (before, start) = (self.swaps.load(SeqCst), Instant::now());
        while self.swaps.load(SeqCst) == before && start.elapsed() < Duration::from_millis(1) {
            thread::yield_now();
        }
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
            start.elapsed() < PATIENCE,
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
        let (root, client_root) =
            root.split_once('=').map_or((root, None), |(it, of)| (it, Some(of)));
        Self {
            name,
            root,
            client_root,
            path,
            is_file: is == "file",
            outside,
            swap,
            made: made.trim().split("; ").collect(),
        }
    }

    fn build(&self) -> Tree {
        let tree = Tree::new(&format!("dir {}; {}", self.root, place(self.outside, SECRET)));
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
        let base = self.client_root.filter(|root| !root.starts_with(self.swap.0));
        tree.add(&format!(
            "file {0}/mine = {CONTENT}; file {0}/my-file = {CONTENT}; file {0}/my-dir/f = {CONTENT}",
            base.unwrap_or(self.root)
        ));
        for line in self.made.iter().filter(|line| !line.starts_with("once ")) {
            tree.add(&line.strip_prefix("place ").map_or((*line).into(), |at| place(at, CONTENT)));
        }
    }

    /// Returns an entry in the rebuilt directories that has the content or the mode of something
    /// outside, as the copy of a file outside has.
    fn leaked(&self, tree: &Tree) -> Option<PathBuf> {
        let mut todo: Vec<_> = self.fresh().map(|fresh| tree.path(fresh)).collect();
        while let Some(path) = todo.pop() {
            let is = fs::symlink_metadata(&path).unwrap();
            let has_secret = is.is_file() && fs::read(&path).unwrap() == SECRET.as_bytes();
            if path == tree.path(self.outside) || is.is_symlink() {
                continue;
            }
            if has_secret || is_marked(is.mode()) {
                return Some(path);
            }
            if is.is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        None
    }

    fn swap(&self, tree: &Tree) -> Box<dyn FnMut() -> bool + Send> {
        let (one, other) = (tree.path(self.swap.0), tree.path(self.swap.1));
        if self.swap.1 != "nothing" {
            let is_away = self.swap.1 == "root/away";
            return Box::new(move || {
                let moves = || fs::rename(&one, &other).or_else(|_| fs::rename(&other, &one));
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok()
                    || is_away && moves().is_ok()
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

#[derive(Debug, Default)]
struct Counts {
    tries: u64,
    successes: u64,
    refusals: BTreeMap<&'static str, u64>,
}

impl Counts {
    fn has_both(&self) -> bool {
        self.successes > 0 && !self.refusals.is_empty()
    }

    fn add(&mut self, done: &Result<String>) {
        self.tries += 1;
        match done {
            Ok(_) => self.successes += 1,
            Err(error) => *self.refusals.entry(error.code()).or_default() += 1,
        }
    }
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
fn nothing_around_a_writable_directory_is_changed_while_names_are_swapped() {
    race(Forbidden::Around);
}

#[test]
fn nothing_denied_is_read_or_changed_while_names_are_swapped() {
    race(Forbidden::Denied);
}

fn race(forbidden: Forbidden) {
    let (rows, pairs) = (rows(), forbidden.pairs());
    let mut race = Race::new(forbidden, &rows, pairs.len());
    let mut of_pairs: Vec<_> = pairs.iter().map(|_| (Counts::default(), 0)).collect();
    let is_long = race.max_rounds == u64::MAX;
    let start = Instant::now();
    loop {
        let is_first = race.of_calls.is_empty();
        for (at, (pair, (of_pair, swaps))) in pairs.iter().zip(&mut of_pairs).enumerate() {
            let everything = is_first || !of_pair.has_both();
            let turn = |number: usize| is_long || (number + at) % SHARE == 0;
            let rows = rows.iter().enumerate();
            let rows = rows.filter(|(number, row)| {
                everything && turn(*number) || !is_first && race.is_unshown(row)
            });
            let rows = rows.map(|(_, row)| row);
            race.run(pair, &rows.collect::<Vec<_>>(), of_pair, swaps);
        }
        let is_shown = of_pairs.iter().all(|(of_pair, _)| of_pair.has_both())
            && !rows.iter().any(|row| race.is_unshown(row));
        if is_shown || start.elapsed() > PATIENCE {
            break;
        }
    }
    let mut total = (0, 0);
    for (pair, (counts, swaps)) in pairs.iter().zip(&of_pairs) {
        let Counts { tries, successes, refusals } = counts;
        println!(
            "{forbidden:?}: {}: {tries} tries, {swaps} swaps, {successes} successes, {refusals:?}",
            pair.name
        );
        total = (total.0 + tries, total.1 + swaps);
        assert!(swaps >= tries && counts.has_both(), "{}: no race happened", pair.name);
    }
    let Race { calls, of_calls, leaks, .. } = &race;
    println!("{forbidden:?}: {} tries, {} swaps, {} leaks", total.0, total.1, leaks.len());
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
    let never: Vec<_> = of_calls.iter().filter(|(_, counts)| counts.successes == 0).collect();
    assert!(
        of_calls.len() == *calls && never.is_empty() && race.refused() > calls / 2,
        "never succeeded: {never:?}; of {calls}, {} are counted, {} were refused",
        of_calls.len(),
        race.refused()
    );
}

/// The rows and their results so far.
struct Race {
    forbidden: Forbidden,
    max_rounds: u64,
    row_time: Duration,
    /// The number of different calls in the rows.
    calls: usize,
    of_calls: BTreeMap<Call, Counts>,
    leaks: Vec<String>,
}

impl Race {
    fn new(forbidden: Forbidden, rows: &[Row], pairs: usize) -> Self {
        let seconds = std::env::var("GUARD_RACE_SECONDS").ok();
        let (max_rounds, row_time) = match seconds.map(|seconds| seconds.parse().unwrap()) {
            None => (MAX_ROUNDS, ROW_TIME),
            Some(seconds) => (
                u64::MAX,
                Duration::from_secs(seconds) / u32::try_from(rows.len() * pairs).unwrap(),
            ),
        };
        let calls = rows.iter().map(Row::call).collect::<BTreeSet<_>>().len();
        let (of_calls, leaks) = (BTreeMap::new(), Vec::new());
        Self { forbidden, max_rounds, row_time, calls, of_calls, leaks }
    }

    /// The number of calls that were refused at least once.
    fn refused(&self) -> usize {
        self.of_calls.values().filter(|counts| !counts.refusals.is_empty()).count()
    }

    /// Whether the row must run again: its call has never succeeded, or too few calls were refused
    /// and it is not one of them.
    fn is_unshown(&self, row: &Row) -> bool {
        self.of_calls.get(&row.call()).is_none_or(|counts| {
            counts.successes == 0
                || (counts.refusals.is_empty() && self.refused() <= self.calls / 2)
        })
    }

    /// Runs these rows on the pair, and adds their results to `of_pair`.
    fn run(&mut self, pair: &Pair, rows: &[&Row], of_pair: &mut Counts, swaps: &mut u64) {
        if rows.is_empty() {
            return;
        }
        let tree = pair.build();
        *swaps += racing(pair.swap(&tree), |racer| {
            let mut before = racer.while_paused(|| pair.outside(&tree));
            for row in rows {
                self.run_row(row, pair, (&tree, racer), of_pair);
                let after = racer.while_paused(|| {
                    self.renew(row, pair, &tree);
                    pair.outside(&tree)
                });
                if before != after {
                    let lines_only_in = |one: &[String], other: &[String]| {
                        one.iter()
                            .filter(|line| !other.contains(line))
                            .cloned()
                            .collect::<Vec<_>>()
                            .join("\n    ")
                    };
                    self.leaks.push(format!(
                        "{}: {}: changed\n    {}\n to {}",
                        pair.name,
                        row.name(),
                        lines_only_in(&before, &after),
                        lines_only_in(&after, &before)
                    ));
                    before = after;
                }
            }
            racer.swaps.load(SeqCst)
        });
    }

    /// Rebuilds the tree, after looking for something from outside in it.
    fn renew(&mut self, row: &Row, pair: &Pair, tree: &Tree) {
        // The content of a read-only name may be copied.
        if let Some(leaked) = pair.leaked(tree).filter(|_| !self.forbidden.is_readable()) {
            let Pair { name, .. } = pair;
            self.leaks.push(format!("{name}: {}: copied to {}", row.name(), leaked.display()));
        }
        pair.renew(tree);
    }

    fn run_row(
        &mut self,
        row: &Row,
        pair: &Pair,
        (tree, racer): (&Tree, &Racer),
        of_pair: &mut Counts,
    ) {
        let requests: Vec<_> = row.requests.iter().map(|text| pair.request(tree, text)).collect();
        let requests: Vec<_> = requests.iter().map(String::as_str).collect();
        // A rebuilt tree has other directories, which earlier roots do not serve.
        let forbidden = self.forbidden;
        let roots_now = || forbidden.roots(tree, pair.root, pair.client_root);
        let mut roots = racer.while_paused(roots_now);
        let (mut is_fresh, start) = (true, Instant::now());
        for round in 0..self.max_rounds {
            if round >= MIN_ROUNDS && start.elapsed() > self.row_time {
                break;
            }
            if !is_fresh {
                racer.while_paused(|| self.renew(row, pair, tree));
                // In one round of four, the roots are from before, and find other directories.
                if round % 4 != 3 {
                    roots = racer.while_paused(roots_now);
                }
            }
            racer.next_swap();
            let done = row.run(&roots, &requests, racer);
            of_pair.add(&done);
            self.of_calls.entry(row.call()).or_default().add(&done);
            let code = done.as_ref().map_err(Error::code).err();
            let mut leak =
                |what: &str| self.leaks.push(format!("{}: {}: {what}", pair.name, row.name()));
            // Nothing is mounted here. Only a recursive removal compares mounts, and a race can
            // make it report one.
            if code == Some("mount_crossing") && !row.operation.name.starts_with("remove_dir_all") {
                leak("mistook a directory that was moved away for a mount");
            }
            // A request that is refused by name alone has no effect.
            is_fresh = !row.operation.changes() || code == Some("outside_roots");
            // What is read-only may be read.
            if done.is_ok_and(|seen| operations::is_leak(&seen)) && !self.forbidden.is_readable() {
                leak("saw something outside");
            }
        }
    }
}

/// A control opens the canonical path that it checked, as most servers do. If it does no harm, the
/// swaps in these tests never hit the critical moment.
#[test]
fn a_guard_that_reopens_the_checked_path_leaks() {
    control(Forbidden::Outside, |canonical, tree| {
        let is_inside = canonical.starts_with(tree.path("root"));
        is_inside && fs::read(canonical).is_ok_and(|content| content == b"SECRET")
    });
}

#[test]
fn a_guard_that_checks_the_canonical_path_for_a_protected_name_changes_it() {
    control(Forbidden::ReadOnly, |canonical, tree| {
        let is_protected = canonical.iter().any(|name| name == ".git");
        let _ = !is_protected && fs::write(canonical, "written").is_ok();
        fs::read(tree.path("root/.git/data")).unwrap() != b"SECRET"
    });
}

/// Uses the canonical path of a file on the first pair until that does harm.
fn control(forbidden: Forbidden, does_harm: impl Fn(&Path, &Tree) -> bool) {
    let pair = forbidden.pairs().remove(0);
    let tree = pair.build();
    let request = tree.path("root").join(pair.request(&tree, "@/data"));
    let start = Instant::now();
    let tries = racing(pair.swap(&tree), |_| {
        let harms = |_: &u64| request.canonicalize().is_ok_and(|path| does_harm(&path, &tree));
        (1..u64::MAX).take_while(|_| start.elapsed() < PATIENCE).find(harms)
    });
    println!("{forbidden:?}, control: did harm at try {tries:?}");
    assert!(tries.is_some(), "the control did no harm. Does this machine have two processors?");
}

/// Writes files in a directory while it is renamed to `.git` and back. A write that checked the
/// directory under its ordinary name must not put its content in place while the directory is
/// protected. The last verification and the rename that follows are two system calls, so this is
/// not impossible, but it must be far rarer than without the verification.
#[test]
fn writes_rarely_reach_a_directory_that_is_renamed_to_a_protected_name() {
    // On a loaded machine, the thread can lose the processor between the two calls more often than
    // usual, so a round that does not show the difference is repeated. Without the verification,
    // no round would show it.
    let shows_the_difference = |round| {
        let control = landings(write_unverified, |counts| counts.landed >= LANDED);
        assert!(control.landed >= LANDED, "the control landed too rarely: {control:?}");
        let guarded = |tree: &Tree| {
            let roots = Forbidden::ReadOnly.roots(tree, "root", None);
            move |content: &str| roots.write("box/plain/data", content).map_err(|it| it.code())
        };
        let guarded = landings(guarded, |counts| {
            counts.renames >= control.renames && counts.written >= LANDED
        });
        println!("round {round}: guard {guarded:?}, control {control:?}");
        assert!(guarded.renames >= control.renames, "{guarded:?}, control {control:?}");
        assert!(guarded.written >= LANDED, "no write succeeded: {guarded:?}");
        // Compares the landings per rename.
        guarded.landed * LESS_OFTEN * control.renames <= control.landed * guarded.renames
    };
    assert!((0..ROUNDS).any(shows_the_difference), "the verification made no difference");
}

/// The maximum number of rounds.
const ROUNDS: u32 = 10;

/// How much more rarely a write lands in a protected directory with the verification.
const LESS_OFTEN: u64 = 4;

/// The number of writes that land without the verification. At least the same number of renames is
/// then made with it.
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

/// Writes as the guard does, but without comparing the open directory with its path.
fn write_unverified(tree: &Tree) -> impl Fn(&str) -> Result<(), &'static str> + use<> {
    let path = tree.path("root/box/plain");
    move |content| {
        let opened = fs::File::open(&path).map_err(|_| "not_found")?;
        let directory = cap_std::fs::Dir::from_std_file(opened);
        directory.write("temporary", content).unwrap();
        directory.rename("temporary", &directory, "data").unwrap();
        Ok(())
    }
}

/// Writes until enough has happened, or the patience ends.
fn landings<W: Fn(&str) -> Result<(), &'static str>>(
    writer: impl Fn(&Tree) -> W,
    is_enough: impl Fn(&Landings) -> bool,
) -> Landings {
    let tree = Tree::in_memory("file root/box/plain/data = old");
    let write = writer(&tree);
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
        let end = Instant::now() + PATIENCE;
        let padding = " ".repeat(WRITTEN_BYTES);
        for round in 0_u64.. {
            (counts.renames, counts.landed) = (renames.load(SeqCst), landed.load(SeqCst));
            if is_enough(&counts) || Instant::now() > end {
                break;
            }
            // Writing takes much longer than the last two system calls.
            let content = format!("{round:08}{padding}");
            match write(&content) {
                Ok(()) => counts.written += 1,
                Err(code) => *counts.refusals.entry(code).or_default() += 1,
            }
        }
        stop.store(true, SeqCst);
        swapper.join().unwrap();
    });
    counts
}

/// A row runs on a pair for at most `MAX_ROUNDS` rounds. No round starts after `ROW_TIME`, but
/// a slow machine still runs `MIN_ROUNDS`.
const MAX_ROUNDS: u64 = 8;
const MIN_ROUNDS: u64 = 2;
const ROW_TIME: Duration = Duration::from_millis(4);

/// Each pair takes its turn of one row in three, unless the run is a long one.
const SHARE: usize = 3;

/// How long a test waits for something that must happen. An idle machine needs a few seconds.
const PATIENCE: Duration = Duration::from_secs(600);

/// The maximum number of attempts to check.
const CHECK_ATTEMPTS: usize = 16;

/// Without `openat2`, opening a directory fails with `ENOTDIR` (open(2)) if it is briefly a
/// symlink. The guard must not report this as `not_a_directory`, whatever has the name by then.
#[test]
fn a_raced_symlink_is_retried_without_openat2() {
    let tree = Tree::in_memory("file op/a/sub/f; file op/real/sub/f; link op/b -> real");
    let (a, b) = (tree.path("op/a"), tree.path("op/b"));
    let boundary = Boundary::builder().directory(tree.path("op"), Access::ReadWrite);
    let boundary = boundary.build().unwrap();
    let (roots, list) = (boundary.allowed_roots(), [tree.uri("op/a/sub")]);
    let list = ListRootsResult::from_uris(list);
    let swap = move || renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).is_ok();
    let (swaps, results) = racing(swap, |racer| {
        let raced = || {
            block(ENOSYS);
            let (mut results, start) = (BTreeMap::<_, u64>::new(), Instant::now());
            for round in 0_u32.. {
                let is_shown = racer.swaps.load(SeqCst) > 1_000 && results.contains_key(&Ok(()));
                if is_shown && round >= 2_000 || start.elapsed() > PATIENCE {
                    break;
                }
                let checked = roots.check("a/sub/f").map(drop);
                let listed = boundary.narrow(&list.roots).unwrap();
                let listed = listed.rejected().first().map_or(Ok(()), |it| Err(it.error().code()));
                for result in [checked.map_err(|error| error.code()), listed] {
                    *results.entry(result).or_default() += 1;
                }
            }
            results
        };
        let results = thread::scope(|scope| scope.spawn(raced).join().unwrap());
        (racer.swaps.load(SeqCst), results)
    });
    println!("{swaps} swaps: {results:?}");
    let expected = [Ok(()), Err("changed"), Err("through_link")];
    assert!(swaps > 1_000 && results.contains_key(&Ok(())), "{swaps}: {results:?}");
    assert!(results.keys().all(|result| expected.contains(result)), "{results:?}");
}
