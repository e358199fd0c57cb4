//! Races: every operation, while another thread exchanges names on its way as fast as it can.
//!
//! What is shown: however a name is swapped against a link or a directory between two steps of an operation, or between
//! a check and what is done by its proof, nothing outside is read, listed or described, and nothing outside is made,
//! changed, renamed or removed. A [`Pair`] says what is swapped and by which way requests come past it; a [`Row`] is an
//! operation. Each row runs on each pair for a bounded number of rounds, at once on the roots, and by a proof that was
//! made at least one swap earlier.
//!
//! What is outside was never in the root, under any name. (A directory that is swapped into the root is inside as long
//! as it is there, and one that was opened inside stays good when it is moved out; so of those two only what they lead
//! to counts: a link, `..`.) It is told by its content and names, both `SECRET`, and by its modes, which nothing inside
//! has; and after each row all of it is compared with what it was: names, types, inodes, modes, times, content.
//!
//! That the race is run at all is shown by the counts (both successes and refusals, of each pair and over the rows),
//! and by the control: a guard that checks the canonical path and opens it by name must leak, and does.
//!
//! `GUARD_RACE_SECONDS=600` shares that time out among all rows, however many rounds it takes: for a long run.

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
    OpenOptions, ReadDir, Replace, Result, Root, Roots, Walk, WalkOptions, WriteOptions,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::support::kernel::{ENOSYS, block};
use crate::support::tree::Tree;

/// What is swapped while requests come past it, two lines each:
///
/// ```text
/// name | the root | the way of requests, `@` in a row | what that is | what is outside, never inside | what is swapped
///     what else is made, before each change anew in the emptied root: `place X` is a directory like the one outside,
///     without secrets; `once ...` is made once, and `once dir X` is emptied, too
/// ```
///
/// Where the way is a file's, `@/data` is `@`. `(X)` is X 32 times, to be long on the way. A name that is swapped with
/// nothing is a link out, or does not exist.
const PAIRS: &str = "\
directory <-> link out            | root   | box/a               | directory | out        | root/box/a <-> root/box/b
    place root/box/a; link root/box/b -> $T/out
the same, through a link inside   | root   | in                  | directory | out        | root/box/a <-> root/box/b
    place root/box/a; link root/box/b -> ../../out; link root/in -> $T/root/box/a
file <-> link out                 | root   | box/f               | file      | out        | root/box/f <-> root/box/l
    file root/box/f = inside; link root/box/l -> ../../out/data
directory inside <-> outside      | root   | box/a/b             | directory | never      | root/box/a <-> peers/peer
    once dir peers/peer; link peers/peer/b -> $T/never; place root/box/a/b
directory inside <-> outside, ..  | root   | box/a/(c/../)../flip | directory | peers/flip | root/box/a <-> peers/peer
    once dir peers/peer; dir peers/peer/c; dir root/box/a/c; place root/box/flip
ancestor <-> directory            | w/root | .                   | directory | w2/root    | w <-> w2
    place w/root
ancestor <-> link                 | w/root | $T/w/root           | directory | out/root   | w <-> w2
    once link w2 -> out; place w/root
nothing <-> link out              | root   | box/x               | file      | out        | root/box/x <-> nothing
    dir root/box";

struct Pair {
    name: &'static str,
    root: &'static str,
    way: String,
    is_file: bool,
    outside: &'static str,
    swap: (&'static str, &'static str),
    made: Vec<&'static str>,
}

/// An operation. It answers whether it saw anything outside.
struct Row {
    name: String,
    changes: bool,
    requests: Vec<(&'static str, Intent)>,
    at_once: AtOnce,
    by_proof: ByProof,
}

type AtOnce = Box<dyn Fn(&Roots, &[String]) -> Result<bool>>;
type ByProof = Box<dyn Fn(&[CheckedPath]) -> Result<bool>>;

macro_rules! rows {
    ($($changes:literal $what:literal $intent:ident $request:literal $method:ident($($arg:expr),*) $saw:expr;)*) => {
        vec![$(Row {
            name: format!("{} {}{}", stringify!($method), $request, $what),
            changes: $changes,
            requests: vec![($request, Intent::$intent)],
            at_once: Box::new(move |roots, requests| roots.$method(requests[0].as_str(), $($arg),*).map($saw)),
            by_proof: Box::new(move |checked| checked[0].$method($($arg),*).map($saw)),
        }),*]
    };
}

fn rows() -> Vec<Row> {
    let new = OpenOptions::new;
    let mut rows = rows! {
        false ""            Existing "@/data"   read(LIMIT)                              |it| it != b"inside";
        false ""            Existing "@/data"   read_to_string(LIMIT)                    |it| it != "inside";
        false ""            Existing "@/data"   open()                                   saw_open;
        false " (read)"     Existing "@/data"   open_with(new().read(true))              saw_read;
        false ""            Existing "@/data"   metadata()                               |it| saw(&it);
        false ""            Existing "@"        metadata()                               |it| saw(&it);
        false ""            NoFollow "@/data"   symlink_metadata()                       |it| saw(&it);
        false ""            NoFollow "@"        symlink_metadata()                       |it| saw(&it);
        false ""            Existing "@"        read_dir()                               saw_list;
        false ""            Existing "@/sub"    read_dir()                               saw_list;
        false ""            Existing "@"        walk(WalkOptions::new())                 saw_walk;
        false ""            Existing "box"      walk(WalkOptions::new())                 saw_walk;
        true  " (write)"    Existing "@/data"   open_with(new().write(true))             saw_write;
        true  " (append)"   Existing "@/data"   open_with(new().append(true))            saw_write;
        true  " (truncate)" Existing "@/data"   open_with(new().write(true).truncate(true)) saw_write;
        true  " (create)"   New      "@/data"   open_with(new().write(true).create(true)) saw_write;
        true  " (create)"   New      "@/new"    open_with(new().append(true).create(true)) saw_write;
        true  " (new)"      New      "@/new"    open_with(new().write(true).create_new(true)) saw_write;
        true  ""            New      "@/data"   write("written")                         |()| false;
        true  ""            New      "@/new"    write("written")                         |()| false;
        true  " (in place)" New      "@/data"   write_with("written", in_place())        |()| false;
        true  ""            NewTree  "@/new"    create_dir()                             |()| false;
        true  ""            NewTree  "@/new"    create_dir_all()                         |()| false;
        true  ""            NewTree  "@/n1/n2"  create_dir_all()                         |()| false;
        true  ""            NoFollow "@/data"   remove_file()                            |()| false;
        true  ""            NoFollow "@"        remove_file()                            |()| false;
        true  ""            NoFollow "@/empty"  remove_dir()                             |()| false;
        true  ""            NoFollow "@/sub"    remove_dir_all()                         |()| false;
        true  ""            NoFollow "@"        remove_dir_all()                         |()| false;
        true  ""            NoFollow "box"      remove_dir_all()                         |()| false;
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
            at_once: Box::new(move |roots, requests| {
                roots.rename(requests[0].as_str(), requests[1].as_str(), replace).map(|()| false)
            }),
            by_proof: Box::new(move |checked| {
                checked[0].rename(&checked[1], replace).map(|()| false)
            }),
        }),
    );
    rows
}

fn in_place() -> WriteOptions {
    WriteOptions::new().existing(Existing::InPlace)
}

/// By its mode; see [`mark`].
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

/// The thread that swaps; it can be held still, an even number of swaps from where it was before.
#[derive(Default)]
struct Racer {
    swaps: AtomicU64,
    /// Odd while it is to be held still.
    hold: AtomicU64,
    held: AtomicU64,
    stop: AtomicBool,
}

impl Racer {
    fn run(&self, mut swap: impl FnMut() -> bool) {
        let (mut is_odd, mut random) = (false, 1_u32);
        while !self.stop.load(SeqCst) {
            let hold = self.hold.load(SeqCst);
            if hold % 2 == 1 {
                let _ = is_odd && swap();
                is_odd = false;
                self.held.store(hold, SeqCst);
                while self.hold.load(SeqCst) == hold && !self.stop.load(SeqCst) {
                    thread::yield_now();
                }
            } else if swap() {
                is_odd = !is_odd;
                self.swaps.fetch_add(1, SeqCst);
            }
            // Not always in step with what it races against, which may have to share a processor with it.
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match random >> 16 {
                many if many % 32 == 0 => thread::yield_now(),
                many => (0..many % 256).for_each(|_| spin_loop()),
            }
        }
    }

    fn held_still<T>(&self, work: impl FnOnce() -> T) -> T {
        let hold = self.hold.fetch_add(1, SeqCst) + 1;
        until(|| self.held.load(SeqCst) == hold);
        let done = work();
        self.hold.fetch_add(1, SeqCst);
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
            "nothing is swapped; can this file system exchange names?"
        );
        thread::yield_now();
    }
}

/// Swaps in a thread while `work` runs, and also ends that thread when it panics.
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
    fn all() -> Vec<Self> {
        let lines: Vec<_> = PAIRS.lines().collect();
        lines.chunks(2).map(|lines| Self::parse(lines[0], lines[1])).collect()
    }

    fn parse(head: &'static str, made: &'static str) -> Self {
        let fields: Vec<_> = head.split('|').map(str::trim).collect();
        let &[name, root, way, is, outside, swap] = fields.as_slice() else {
            panic!("{head}: six fields wanted")
        };
        let way = match way
            .split_once('(')
            .and_then(|(start, rest)| Some((start, rest.split_once(')')?)))
        {
            Some((start, (again, end))) => format!("{start}{}{end}", again.repeat(32)),
            None => way.into(),
        };
        let swap = swap.split_once(" <-> ").expect("NAME <-> NAME");
        Self {
            name,
            root,
            way,
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

    /// The directories that are emptied.
    fn fresh(&self) -> impl Iterator<Item = &str> {
        let once = self.made.iter().filter_map(|line| line.strip_prefix("once dir "));
        std::iter::once(self.root).chain(once)
    }

    fn renew(&self, tree: &Tree) {
        for entry in self.fresh().flat_map(|fresh| fs::read_dir(tree.path(fresh)).unwrap()) {
            let path = entry.unwrap().path();
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
        // To a file, to a directory, to nothing.
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
        tree.expand(&text.replace('@', &self.way))
    }

    /// All that is not in what is emptied. Of directories in which names are swapped, time and size change and do not
    /// count.
    fn outside(&self, tree: &Tree) -> Vec<String> {
        let is_fresh = |path: &Path| self.fresh().any(|fresh| tree.path(fresh) == path);
        let is_busy = |path: &Path| {
            [self.swap.0, self.swap.1].iter().any(|name| tree.path(name).parent() == Some(path))
        };
        let mut lines = Vec::new();
        let mut todo = vec![tree.path("")];
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
        "file {at}/data = {word}; file {at}/{word} = {word}; file {at}/sub/{word} = {word}; dir {at}/empty"
    )
}

/// Gives all beneath a directory modes that nothing inside has, whatever the umask.
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

/// Checks until that succeeds, lets at least one swap come between, and operates.
fn by_proof(row: &Row, roots: &Roots, requests: &[String], racer: &Racer) -> Result<bool> {
    let check = || -> Result<Vec<_>> {
        let each = row.requests.iter().zip(requests);
        each.map(|((_, intent), request)| roots.check(request.as_str(), *intent)).collect()
    };
    let checked = (1..CHECKS).map(|_| check()).find(Result::is_ok).unwrap_or_else(check)?;
    racer.next_swap();
    (row.by_proof)(&checked)
}

#[test]
#[expect(clippy::too_many_lines, reason = "one race, with what it prints")]
fn nothing_outside_is_read_or_changed_while_names_are_swapped() {
    let (rows, pairs) = (rows(), Pair::all());
    let seconds = std::env::var("GUARD_RACE_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    let (most, row_time) = match seconds {
        None => (ROUNDS, ROW_TIME),
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
            let mut roots = racer.held_still(|| tree.roots([pair.root]));
            let mut before = racer.held_still(|| pair.outside(&tree));
            let mut is_fresh = true;
            for row in &rows {
                let requests: Vec<_> =
                    row.requests.iter().map(|(text, _)| pair.request(&tree, text)).collect();
                let mut leak =
                    |what: &str| leaks.push(format!("{}: {}: {what}", pair.name, row.name));
                for is_at_once in [true, false] {
                    let start = Instant::now();
                    for round in 0..most {
                        if round >= FEWEST && start.elapsed() > row_time {
                            break;
                        }
                        let is_available = roots.roots().all(Root::is_available);
                        if !is_fresh || !is_available {
                            racer.held_still(|| {
                                pair.renew(&tree);
                                roots = if is_available {
                                    roots.clone()
                                } else {
                                    tree.roots([pair.root])
                                };
                            });
                        }
                        racer.next_swap();
                        let done = if is_at_once {
                            (row.at_once)(&roots, &requests)
                        } else {
                            by_proof(row, &roots, &requests, racer)
                        };
                        counts.add(&done);
                        of_rows.entry(&row.name).or_default().add(&done);
                        let is_mount = done.as_ref().is_err_and(|e| e.code() == "mount_crossing");
                        // Nothing is mounted here; only a recursive removal asks, and may be told so by a bad moment.
                        if is_mount && !row.name.starts_with("remove_dir_all") {
                            leak("took a directory that was moved away for a mount");
                        }
                        // Outside by name is decided before any effect.
                        is_fresh = !row.changes
                            || done.as_ref().is_err_and(|e| e.code() == "outside_roots");
                        if done.unwrap_or(false) {
                            leak(if is_at_once {
                                "saw what is outside at once"
                            } else {
                                "saw what is outside by a proof"
                            });
                        }
                    }
                }
                let after = racer.held_still(|| {
                    pair.renew(&tree);
                    pair.outside(&tree)
                });
                is_fresh = true;
                if before != after {
                    let of = |one: &[String], other: &[String]| {
                        one.iter()
                            .filter(|line| !other.contains(line))
                            .cloned()
                            .collect::<Vec<_>>()
                            .join("\n    ")
                    };
                    leak(&format!(
                        "changed\n    {}\n to {}",
                        of(&before, &after),
                        of(&after, &before)
                    ));
                    before = after;
                }
            }
            (counts, racer.swaps.load(SeqCst))
        });
        let Counts { tries, successes, refusals } = &counts;
        let leaked = leaks.len() - leaked_before;
        println!(
            "{}: {tries} tries, {swaps} swaps, {successes} successes, {refusals:?}, {leaked} leaks",
            pair.name
        );
        total = (total.0 + tries, total.1 + swaps);
        assert!(
            swaps >= *tries && *successes > 0 && !refusals.is_empty(),
            "{}: nothing was raced",
            pair.name
        );
    }
    println!("races: {} tries, {} swaps, {} leaks", total.0, total.1, leaks.len());
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
    let never: Vec<_> = of_rows.iter().filter(|(_, counts)| counts.successes == 0).collect();
    let refused = of_rows.values().filter(|counts| !counts.refusals.is_empty()).count();
    assert!(
        never.is_empty() && refused > rows.len() / 2,
        "never: {never:?}; {refused} were refused"
    );
}

/// The control: what most servers do, under the first of the pairs. It must leak, or the races here are none.
#[test]
fn a_guard_that_opens_the_checked_name_again_leaks() {
    let pair = Pair::all().remove(0);
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
    assert!(tries.is_some(), "no leak; are there two processors?");
}

/// A row on a pair, either way: no more rounds than these, nor another one after this time, unless
/// there were few, as on a slow machine: each row has to succeed once.
const ROUNDS: u64 = 100;
const FEWEST: u64 = 4;
const ROW_TIME: Duration = Duration::from_millis(15);

/// Half of all checks come at the wrong moment.
const CHECKS: usize = 16;

/// No file here is larger.
const LIMIT: u64 = 1 << 10;

/// Without `openat2` a directory that is a symlink at the wrong moment is refused by the kernel as no
/// directory (`ENOTDIR`, open(2)). That is told apart, and tried again, whatever is there by then.
#[test]
fn without_openat2_a_raced_symlink_is_a_change_and_tried_again() {
    let tree = Tree::in_memory("file op/a/sub/f; file op/real/sub/f; link op/b -> real");
    let (a, b) = (tree.path("op/a"), tree.path("op/b"));
    let boundary =
        Boundary::builder().directory(tree.path("op"), Access::ReadWrite).build().unwrap();
    let roots = boundary.allowed_roots();
    let list = ListRootsResult::from_uris([tree.uri("op/a/sub")]);
    let stop = AtomicBool::new(false);
    let (mut kinds, mut swaps) = (BTreeMap::new(), 0_u64);
    thread::scope(|scope| {
        let raced = scope.spawn(|| {
            block(ENOSYS);
            let mut kinds = BTreeMap::new();
            let end = Instant::now() + Duration::from_secs(60);
            let mut round = 0;
            // Until enough of them met a swap: on a loaded machine that takes a while.
            while round < 20_000 && Instant::now() < end {
                round += 1;
                let checked = roots
                    .check("a/sub/f", Intent::Existing)
                    .map(drop)
                    .map_err(|error| error.code());
                *kinds.entry(checked).or_insert(0_u64) += 1;
                let listed = boundary.resolve(&list).unwrap();
                let listed = listed
                    .rejected()
                    .first()
                    .map_or(Ok(()), |rejected| Err(rejected.error().code()));
                *kinds.entry(listed).or_insert(0) += 1;
            }
            stop.store(true, SeqCst);
            kinds
        });
        while !stop.load(SeqCst) {
            renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
            swaps += 1;
        }
        kinds = raced.join().unwrap();
    });
    println!("{swaps} swaps: {kinds:?}");
    assert!(swaps > 1_000 && kinds.contains_key(&Ok(())), "{swaps}: {kinds:?}");
    let told = [Ok(()), Err("changed"), Err("through_link")];
    assert!(kinds.keys().all(|kind| told.contains(kind)), "{kinds:?}");
}
