//! Compares the guard with other approaches: the usual recipe with `std`, cap-std, path_jail and
//! strict-path, each with the same requests.
//!
//! Each line of `data/comparison.txt` describes a need or an attack on a small tree, and the
//! observed result of each approach. The test fails if an approach does anything else, better or
//! worse. The published tables are compared with these data, and their versions with the lock
//! files, so they show only tested results.
//!
//! `refused` is any error except that the file does not exist. `no such call` means that an
//! interface has no such call, so nothing is run.

mod approaches;

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
use approaches::{APPROACHES, Approach, Done, Failure, LIMIT, all_of, approach};

/// The result of a read, in the words of the data.
fn result_of_read(read: Done<Vec<u8>>) -> String {
    match read {
        Ok(content) => match String::from_utf8(content).unwrap().as_str() {
            "inside" => "reads".into(),
            "" => "reads nothing".into(),
            content => format!("reads {content}"),
        },
        Err(failure) => result_of_failure(&failure).into(),
    }
}

fn result_of_failure(failure: &Failure) -> &'static str {
    if failure.is_missing { "not found" } else { "refused" }
}

const NO_SUCH_CALL: &str = "no such call";

/// Runs the work of a row with one approach, in a tree of its own, and returns the result.
#[expect(clippy::too_many_lines, reason = "one arm for each approach and verb")]
fn outcome(name: &str, tree: &str, work: &str) -> String {
    let tree = Tree::new(&format!("file root/f = inside; file outside/secret = outside; {tree}"));
    let (verb, request) = work.split_once(' ').unwrap_or((work, ""));
    let request: String = serde_json::from_str(&format!("\"{}\"", tree.expand(request))).unwrap();
    let (root, request) = (tree.path("root"), request.as_str());
    let at = root.join(request);
    let on = |root: &Path| {
        approach(name, root).unwrap_or_else(|failure| panic!("{name}: {}", failure.text))
    };
    let result_of_optional_call =
        |done: Option<Done<Vec<u8>>>| done.map_or(NO_SUCH_CALL.into(), result_of_read);
    match verb {
        "read" => result_of_read(on(&root).read(request)),
        "write" => write(&*on(&root), request, &tree, &at),
        // A reader that opened the file earlier either continues to read the old content or sees
        // the file truncated.
        "overwrite" => {
            let held = File::open(&at).unwrap();
            on(&root)
                .write(request, "written")
                .unwrap_or_else(|failure| panic!("{name}: {}", failure.text));
            assert_eq!(fs::read(&at).unwrap(), b"written");
            if all_of(held).unwrap() == b"inside" { "replaced whole" } else { "cut, then filled" }
                .into()
        }
        // Swaps the file between the check and the use.
        "swap" => {
            let approach = on(&root);
            let Some(checked) = approach.check(request) else { return "one call".into() };
            let checked = checked.unwrap_or_else(|failure| panic!("{name}: {}", failure.text));
            renameat_with(CWD, &at, CWD, root.join("other"), RenameFlags::EXCHANGE).unwrap();
            result_of_read(checked())
        }
        "fifo" => fifo(&*on(&root), request, &at),
        "device" => result_of_read(on(Path::new("/dev")).read(request)),
        "hard" => result_of_optional_call(on(&root).read_unless_hard_linked(request)),
        "virtual" => result_of_read(on(&root).read_virtual(request)),
        "link" => match on(&root).link("f", request) {
            Some(done) => done.map_or_else(
                |failure| result_of_failure(&failure).into(),
                |()| {
                    assert_eq!(fs::read(&at).unwrap(), b"inside");
                    "makes it".into()
                },
            ),
            None => NO_SUCH_CALL.into(),
        },
        // Compares the refusal of a path to an existing file with the refusal of a path to a
        // missing file.
        "oracle" => {
            let approach = on(&root);
            let refusal = || approach.read(request).expect_err("an outside file was read");
            let there = refusal();
            fs::remove_file(tree.path("outside/secret")).unwrap();
            let missing = refusal();
            let is_same = (there.is_missing, there.text) == (missing.is_missing, missing.text);
            if is_same { "the same" } else { "another" }.into()
        }
        "tells" => match on(&root).read(request) {
            Ok(_) => panic!("{name}: an outside file was read"),
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
        // Replaces the root with another directory of the same name.
        "replaced" | "noticed" => {
            let approach = on(&root);
            fs::rename(&root, tree.path("was")).unwrap();
            tree.add("file root/f = the new root");
            fs::write(tree.path("was/f"), "the old root").unwrap();
            if verb == "replaced" {
                return result_of_read(approach.read(request));
            }
            approach
                .is_current()
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
                .map_or_else(|f| result_of_failure(&f), |()| "writes")
                .into()
        }
        // Simulates an old kernel. The filter is permanent, so it is set in a separate thread. A
        // library may have cached in the process whether `openat2` exists.
        "without-openat2" => thread::scope(|scope| {
            let blocked = scope.spawn(|| {
                block(ENOSYS);
                result_of_read(approach(name, &root).and_then(|approach| approach.read(request)))
            });
            blocked.join().unwrap()
        }),
        _ => panic!("{verb}: unknown"),
    }
}

fn write(approach: &dyn Approach, request: &str, tree: &Tree, at: &Path) -> String {
    let (before, was_link) = (tree.snapshot("outside"), at.is_symlink());
    let done = approach.write(request, "written");
    match done {
        _ if tree.snapshot("outside") != before => "writes outside".into(),
        Ok(()) if fs::read(at).unwrap() != b"written" => "writes elsewhere".into(),
        Ok(()) if was_link && !at.is_symlink() => "replaces the link".into(),
        Ok(()) => "writes".into(),
        Err(failure) => result_of_failure(&failure).into(),
    }
}

/// Provides a writer, so that an approach that waits for one is served. Thus no thread remains, and
/// the result does not depend on time.
fn fifo(approach: &dyn Approach, request: &str, at: &Path) -> String {
    let is_done = AtomicBool::new(false);
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(SeqCst) && start.elapsed() < Duration::from_secs(60) {
                // Opening fails with ENXIO while nobody reads (fifo(7)). A reader that does not
                // wait refuses the FIFO whether or not there is a writer.
                let flags = OFlags::NONBLOCK.bits().try_into().unwrap();
                let writer = OpenOptions::new().write(true).custom_flags(flags).open(at);
                if let Ok(mut writer) = writer {
                    let _ = writer.write_all(b"from a writer");
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let read = approach.read(request);
        is_done.store(true, SeqCst);
        match read {
            Ok(content) if content.starts_with(b"from a writer") => "waits for a writer".into(),
            read => result_of_read(read),
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

/// Follows a result that the approach's own documentation states.
const DOCUMENTED: &str = " (documented)";

#[test]
fn each_approach_does_what_the_table_says() {
    let rows = rows();
    let mut failures = Vec::new();
    for row in &rows {
        assert_eq!(row.cells.len(), APPROACHES.len(), "{}", row.name);
        for (name, cell) in APPROACHES.iter().zip(&row.cells) {
            // Without `openat2`, path_jail cannot open a root. A row of its own tests this.
            if is_second_run() && *name == "path_jail" && row.work != "without-openat2 f" {
                continue;
            }
            let seen = outcome(name, row.tree, row.work);
            if seen != cell.trim_end_matches(DOCUMENTED) {
                failures.push(format!("{}: {name}: {seen}; the table says {cell}", row.name));
            }
        }
    }
    println!("{} rows of {} approaches, {} differ", rows.len(), APPROACHES.len(), failures.len());
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(rows.len() > 20, "only {} rows were read", rows.len());
}

/// An approach that checks and opens in one call has no moment between the two, so this test races
/// all of them. Only the guard is required to have no leak. `GUARD_RACE_SECONDS` is divided among
/// all approaches.
#[test]
fn the_guard_leaks_nothing_in_a_race() {
    let seconds = std::env::var("GUARD_RACE_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    let time = seconds.map_or(RACE_TIME, |seconds| Duration::from_secs(seconds) / 5);
    for name in APPROACHES {
        let tree = Tree::new(
            "file root/f = inside; file outside/secret = outside
             link root/other -> ../outside/secret",
        );
        let (one, other) = (tree.path("root/f"), tree.path("root/other"));
        let Ok(approach) = approach(name, &tree.path("root")) else { continue };
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
                leaks += u32::from(approach.read("f").is_ok_and(|content| content == b"outside"));
            }
            is_done.store(true, SeqCst);
            swapper.join().unwrap()
        });
        println!("race: {name}: {leaks} of {reads} reads returned the outside file, {swaps} swaps");
        assert!(
            reads > 0 && swaps > 0 && (name != "guard" || leaks == 0),
            "{name}: {leaks} of {reads}, {swaps} swaps"
        );
    }
}

/// The published tables contain exactly the data.
#[test]
fn the_readme_tables_match_the_data() {
    let rows = rows().into_iter().map(|row| [&[row.name], row.cells.as_slice()].concat());
    assert_eq!(readme("tests/data/comparison.txt").1, rows.collect::<Vec<_>>());
    let servers =
        include_str!("../../.ci/peers/servers.txt").lines().filter(|line| !line.starts_with('#'));
    let servers = servers.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    assert_eq!(readme(".ci/peers/servers.txt").1, servers.collect::<Vec<_>>());
}

/// The tables name the versions that were compared.
#[test]
fn the_readme_names_the_tested_versions() {
    let lock = include_str!("../../Cargo.lock");
    let version = |name: &str| {
        let (_, package) = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).unwrap();
        format!("{name} {}", package.split('"').next().unwrap())
    };
    let peers = ["cap-std", "path_jail", "strict-path"].map(version);
    let approaches = ["guard".to_owned(), "`std`".to_owned()].into_iter().chain(peers);
    assert_eq!(readme("tests/data/comparison.txt").0[1..], approaches.collect::<Vec<_>>());
    let lock: serde_json::Value =
        serde_json::from_str(include_str!("../../.ci/peers/package-lock.json")).unwrap();
    let reference =
        &lock["packages"]["node_modules/@modelcontextprotocol/server-filesystem"]["version"];
    let reference = format!("reference server {}", reference.as_str().unwrap());
    let (_, rust_server) = include_str!("../../.ci/peers/run").split_once("rust_server=").unwrap();
    let rust_server = rust_server.lines().next().unwrap().replace('@', " ");
    let servers = ["`examples/filesystem-server`".to_owned(), reference, rust_server];
    assert_eq!(readme(".ci/peers/servers.txt").0[1..], servers);
}

/// The header and the rows of the table marked with its source. Bold text is returned as plain
/// text.
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
