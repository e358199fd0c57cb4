//! Beside other ways: what the guard, the usual recipe over `std`, cap-std, path_jail and strict-path do with the same request.
//!
//! A line of `data/comparison.txt` is a need or an attack, on a small tree, and what each way was seen to do: a way that does anything else,
//! better or worse, fails the test, so that what the README says of it is what was run. Its tables are compared with the data, and its
//! versions with the lock files.
//!
//! `refused` is any error but that nothing is there. `no such call` is what an interface does not have, and is not run.

mod ways;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use mcp_roots_guard::{Access, Boundary};
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

use crate::support::is_second_run;
use crate::support::kernel::{ENOSYS, block};
use crate::support::tree::Tree;
use ways::{Done, Failure, LIMIT, WAYS, Way, all_of, way};

/// What came of it, in the words of the data.
fn of_read(read: Done<Vec<u8>>) -> String {
    match read {
        Ok(content) => match String::from_utf8(content).unwrap().as_str() {
            "inside" => "reads".into(),
            "" => "reads nothing".into(),
            content => format!("reads {content}"),
        },
        Err(failure) => of_failure(&failure).into(),
    }
}

fn of_failure(failure: &Failure) -> &'static str {
    if failure.is_missing { "not found" } else { "refused" }
}

const NO_SUCH_CALL: &str = "no such call";

/// Does what a row says by one way, and tells what came of it. Each has a tree of its own.
#[expect(clippy::too_many_lines, reason = "one arm for each way and verb")]
fn outcome(name: &str, tree: &str, work: &str) -> String {
    let tree = Tree::new(&format!("file root/f = inside; file outside/secret = outside; {tree}"));
    let (verb, request) = work.split_once(' ').unwrap_or((work, ""));
    let request: String = serde_json::from_str(&format!("\"{}\"", tree.expand(request))).unwrap();
    let (root, request) = (tree.path("root"), request.as_str());
    let at = root.join(request);
    let on =
        |root: &Path| way(name, root).unwrap_or_else(|failure| panic!("{name}: {}", failure.text));
    let of_option = |done: Option<Done<Vec<u8>>>| done.map_or(NO_SUCH_CALL.into(), of_read);
    match verb {
        "read" => of_read(on(&root).read(request)),
        "write" => write(&*on(&root), request, &tree, &at),
        // A reader that has the file open meanwhile reads on in what was, or sees it cut.
        "overwrite" => {
            let held = File::open(&at).unwrap();
            on(&root)
                .write(request, "written")
                .unwrap_or_else(|failure| panic!("{name}: {}", failure.text));
            assert_eq!(fs::read(&at).unwrap(), b"written");
            if all_of(held).unwrap() == b"inside" { "replaced whole" } else { "cut, then filled" }
                .into()
        }
        // Between the check and the use.
        "swap" => {
            let way = on(&root);
            let Some(checked) = way.check(request) else { return "one call".into() };
            let checked = checked.unwrap_or_else(|failure| panic!("{name}: {}", failure.text));
            renameat_with(CWD, &at, CWD, root.join("other"), RenameFlags::EXCHANGE).unwrap();
            of_read(checked())
        }
        "fifo" => fifo(&*on(&root), request, &at),
        "device" => of_read(on(Path::new("/dev")).read(request)),
        "hard" => of_option(on(&root).read_unless_hard_linked(request)),
        "virtual" => of_read(on(&root).read_virtual(request)),
        "link" => match on(&root).link("f", request) {
            Some(done) => done.map_or_else(
                |failure| of_failure(&failure).into(),
                |()| {
                    assert_eq!(fs::read(&at).unwrap(), b"inside");
                    "makes it".into()
                },
            ),
            None => NO_SUCH_CALL.into(),
        },
        // The refusal of what leads to a file, and of what leads to none.
        "oracle" => {
            let way = on(&root);
            let refusal = || way.read(request).expect_err("what is outside was read");
            let there = refusal();
            fs::remove_file(tree.path("outside/secret")).unwrap();
            let missing = refusal();
            let is_same = (there.is_missing, there.text) == (missing.is_missing, missing.text);
            if is_same { "the same" } else { "another" }.into()
        }
        "tells" => match on(&root).read(request) {
            Ok(_) => panic!("{name}: what is outside was read"),
            Err(failure) if failure.text.is_empty() => "up to its author".into(),
            Err(failure) => {
                let top = tree.path("");
                let tells = [top.file_name().unwrap().to_str().unwrap(), "outside/"]
                    .map(|part| failure.text.contains(part));
                if tells.contains(&true) { "paths" } else { "only the request" }.into()
            }
        },
        "attest" => on(&root)
            .attests(request)
            .map_or(NO_SUCH_CALL, |is| if is { "attested" } else { "denied" })
            .into(),
        // The root is replaced by another directory of its name.
        "replaced" | "noticed" => {
            let way = on(&root);
            fs::rename(&root, tree.path("was")).unwrap();
            tree.add("file root/f = the new root");
            fs::write(tree.path("was/f"), "the old root").unwrap();
            if verb == "replaced" {
                return of_read(way.read(request));
            }
            way.is_current()
                .map_or(NO_SUCH_CALL, |is_current| if is_current { "not told" } else { "told" })
                .into()
        }
        "several" | "read-only" if name != "guard" => NO_SUCH_CALL.into(),
        "several" => {
            let roots = tree.roots(["root", "outside"]);
            let read = |path: &str| roots.read(tree.path(path).to_str().unwrap(), LIMIT);
            assert!(read("root/f").is_ok() && read("outside/secret").is_ok());
            "one value".into()
        }
        "read-only" => {
            let boundary = Boundary::builder().directory(&root, Access::ReadOnly).build().unwrap();
            let roots = boundary.allowed_roots();
            assert!(roots.read(request, LIMIT).is_ok());
            roots
                .write(request, "written")
                .map_err(Failure::from)
                .map_or_else(|f| of_failure(&f), |()| "writes")
                .into()
        }
        // As on an old kernel; in a thread, as the filter stays. Whether a value can be made may be remembered from before.
        "without-openat2" => thread::scope(|scope| {
            let blocked = scope.spawn(|| {
                block(ENOSYS);
                of_read(way(name, &root).and_then(|way| way.read(request)))
            });
            blocked.join().unwrap()
        }),
        _ => panic!("{verb}: unknown"),
    }
}

fn write(way: &dyn Way, request: &str, tree: &Tree, at: &Path) -> String {
    let (before, was_link) = (tree.snapshot("outside"), at.is_symlink());
    let done = way.write(request, "written");
    match done {
        _ if tree.snapshot("outside") != before => "writes outside".into(),
        Ok(()) if fs::read(at).unwrap() != b"written" => "writes elsewhere".into(),
        Ok(()) if was_link && !at.is_symlink() => "replaces the link".into(),
        Ok(()) => "writes".into(),
        Err(failure) => of_failure(&failure).into(),
    }
}

/// Who waits for a writer gets one, and what it writes; so no thread stays behind, and no clock decides.
fn fifo(way: &dyn Way, request: &str, at: &Path) -> String {
    let is_done = AtomicBool::new(false);
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(SeqCst) && start.elapsed() < Duration::from_secs(60) {
                // ENXIO until somebody reads (fifo(7)); a reader that does not wait is met, or not, and refuses in any case.
                let flags = OFlags::NONBLOCK.bits().try_into().unwrap();
                let writer = OpenOptions::new().write(true).custom_flags(flags).open(at);
                if let Ok(mut writer) = writer {
                    let _ = writer.write_all(b"what a writer said");
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let read = way.read(request);
        is_done.store(true, SeqCst);
        match read {
            Ok(content) if content.starts_with(b"what a writer said") => {
                "waits for a writer".into()
            }
            read => of_read(read),
        }
    })
}

struct Row {
    name: &'static str,
    tree: &'static str,
    work: &'static str,
    cells: Vec<&'static str>,
}

fn rows() -> Vec<Row> {
    let lines = include_str!("../data/comparison.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows = lines.map(|line| {
        let mut fields = line.split('|').map(str::trim);
        let mut next = || fields.next().unwrap_or_else(|| panic!("{line}: too short"));
        let (name, tree, work) = (next(), next(), next());
        Row { name, tree, work, cells: fields.collect() }
    });
    rows.collect()
}

/// Behind what a way is seen to do: that its own documentation says so.
const SAID: &str = " (documented)";

#[test]
fn each_way_does_what_the_table_says() {
    let rows = rows();
    let mut failures = Vec::new();
    for row in &rows {
        assert_eq!(row.cells.len(), WAYS.len(), "{}", row.name);
        for (name, cell) in WAYS.iter().zip(&row.cells) {
            // Nothing can be made of it where the whole suite has no openat2, which is a row.
            if is_second_run() && *name == "path_jail" && row.work != "without-openat2 f" {
                continue;
            }
            let seen = outcome(name, row.tree, row.work);
            if seen != cell.trim_end_matches(SAID) {
                failures.push(format!("{}: {name}: {seen}; the table says: {cell}", row.name));
            }
        }
    }
    println!("{} rows of {} ways, {} differ", rows.len(), WAYS.len(), failures.len());
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(rows.len() > 20, "only {} rows were read", rows.len());
}

/// Who opens in one call has no moment between check and open, so it is raced instead. Only of the guard is anything demanded.
/// `GUARD_RACE_SECONDS` are shared out among all.
#[test]
fn a_race_is_reported_for_each_way() {
    let seconds = std::env::var("GUARD_RACE_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    let time = seconds.map_or(RACE_TIME, |seconds| Duration::from_secs(seconds) / 5);
    for name in WAYS {
        let tree = Tree::new(
            "file root/f = inside; link root/other -> ../outside/secret; file outside/secret = outside",
        );
        let (one, other) = (tree.path("root/f"), tree.path("root/other"));
        let Ok(way) = way(name, &tree.path("root")) else { continue };
        let is_done = AtomicBool::new(false);
        let (mut reads, mut leaks) = (0_u32, 0_u32);
        let swaps = thread::scope(|scope| {
            let swapper = scope.spawn(|| {
                let mut swaps = 0_u32;
                while !is_done.load(SeqCst) {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                    swaps += 1;
                }
                swaps
            });
            let start = Instant::now();
            while start.elapsed() < time {
                reads += 1;
                leaks += u32::from(way.read("f").is_ok_and(|content| content == b"outside"));
            }
            is_done.store(true, SeqCst);
            swapper.join().unwrap()
        });
        println!("race: {name}: {leaks} of {reads} reads gave what is outside, {swaps} swaps");
        assert!(
            reads > 0 && swaps > 0 && (name != "guard" || leaks == 0),
            "{name}: {leaks} of {reads}, {swaps} swaps"
        );
    }
}

/// The README's tables are the data's, and nothing else.
#[test]
fn the_readme_says_what_the_data_say() {
    let rows = rows().into_iter().map(|row| [&[row.name], row.cells.as_slice()].concat());
    assert_eq!(readme("tests/data/comparison.txt").1, rows.collect::<Vec<_>>());
    let servers = include_str!("../../.ci/interop/servers/servers.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let servers = servers.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    assert_eq!(readme(".ci/interop/servers/servers.txt").1, servers.collect::<Vec<_>>());
}

/// They were compared in the versions that the tables name.
#[test]
fn the_readme_names_the_versions_that_were_run() {
    let lock = include_str!("../../Cargo.lock");
    let version = |name: &str| {
        let (_, package) = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).unwrap();
        format!("{name} {}", package.split('"').next().unwrap())
    };
    let peers = ["cap-std", "path_jail", "strict-path"].map(version);
    let ways = ["guard".to_owned(), "`std`".to_owned()].into_iter().chain(peers);
    assert_eq!(readme("tests/data/comparison.txt").0[1..], ways.collect::<Vec<_>>());
    let lock: serde_json::Value =
        serde_json::from_str(include_str!("../../.ci/interop/servers/package-lock.json")).unwrap();
    let reference =
        &lock["packages"]["node_modules/@modelcontextprotocol/server-filesystem"]["version"];
    let reference = format!("reference server {}", reference.as_str().unwrap());
    let (_, rust_server) =
        include_str!("../../.ci/interop/servers/run").split_once("rust_server=").unwrap();
    let rust_server = rust_server.lines().next().unwrap().replace('@', " ");
    let servers = ["`examples/filesystem-server`".to_owned(), reference, rust_server];
    assert_eq!(readme(".ci/interop/servers/servers.txt").0[1..], servers);
}

/// The heads and the rows of the table that is marked with where it is from; what is strong there is plain here.
fn readme(from: &str) -> (Vec<&'static str>, Vec<Vec<&'static str>>) {
    let readme: &'static str = include_str!("../../README.md");
    let (_, table) = readme.split_once(&format!("<!-- from {from} -->")).expect(from);
    let (table, _) = table.split_once("<!-- end -->").unwrap();
    let mut lines = table.lines().filter(|line| line.starts_with('|')).map(|line| {
        let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('*'));
        cells.collect::<Vec<_>>()
    });
    let heads = lines.next().unwrap();
    (heads, lines.skip(1).collect())
}

const RACE_TIME: Duration = Duration::from_millis(250);
