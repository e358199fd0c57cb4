//! Compares the guard with the usual recipe over `std`, cap-std, path_jail and strict-path.
//!
//! Each line of `data/comparison.txt` is a request on a small tree, with the expected result of
//! each of these ways. The test fails on any different result, better or worse. Another test
//! compares the tables in `docs` with the data.
//!
//! `refused` is any error except `not found`. `not offered` means that an interface lacks the
//! operation, so nothing is run.

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

use crate::support::kernel::{ENOSYS, block};
use crate::support::runs_without_openat2;
use crate::support::tree::Tree;
use ways::{Done, Failure, LIMIT, WAYS, Way, all_of, way};

/// Describes the result of a read in the terms of the data.
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

const NOT_OFFERED: &str = "not offered";

/// Runs a row's request in one way, on a tree of its own, and returns the result.
fn outcome(name: &str, tree: &str, work: &str) -> String {
    let tree = Tree::new(&format!("file root/f = inside; file outside/secret = outside; {tree}"));
    let (verb, request) = work.split_once(' ').unwrap_or((work, ""));
    let request: String = serde_json::from_str(&format!("\"{}\"", tree.expand(request))).unwrap();
    let (root, request) = (tree.path("root"), request.as_str());
    let at = root.join(request);
    let on =
        |root: &Path| way(name, root).unwrap_or_else(|failure| panic!("{name}: {}", failure.text));
    let of_option = |done: Option<Done<Vec<u8>>>| done.map_or(NOT_OFFERED.into(), of_read);
    match verb {
        "read" => of_read(on(&root).read(request)),
        "write" => write(&*on(&root), request, &tree, &at),
        // Shows whether a reader that has the file open sees the old content or a truncated file.
        "overwrite" => {
            let held = File::open(&at).unwrap();
            on(&root)
                .write(request, "written")
                .unwrap_or_else(|failure| panic!("{name}: {}", failure.text));
            assert_eq!(fs::read(&at).unwrap(), b"written");
            if all_of(held).unwrap() == b"inside" {
                "replaced atomically"
            } else {
                "truncated, then written"
            }
            .into()
        }
        // A symlink replaces the file between check and use.
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
        "link" => match on(&root).link("f", request) {
            Some(done) => done.map_or_else(
                |failure| of_failure(&failure).into(),
                |()| {
                    assert_eq!(fs::read(&at).unwrap(), b"inside");
                    "creates it".into()
                },
            ),
            None => NOT_OFFERED.into(),
        },
        // Compares the error while the target exists with the error after its removal.
        "oracle" => {
            let way = on(&root);
            let refusal = || way.read(request).expect_err("a file outside was read");
            let there = refusal();
            fs::remove_file(tree.path("outside/secret")).unwrap();
            let missing = refusal();
            let is_same = (there.is_missing, there.text) == (missing.is_missing, missing.text);
            if is_same { "same error" } else { "different error" }.into()
        }
        "tells" => match on(&root).read(request) {
            Ok(_) => panic!("{name}: a file outside was read"),
            Err(failure) if failure.text.is_empty() => "depends on the author".into(),
            Err(failure) => {
                let top = tree.path("");
                let reveals = [top.file_name().unwrap().to_str().unwrap(), "outside/"]
                    .map(|part| failure.text.contains(part));
                if reveals.contains(&true) { "reveals paths" } else { "names only the request" }
                    .into()
            }
        },
        // Another directory replaces the root under its name.
        "replaced" => {
            let way = on(&root);
            fs::rename(&root, tree.path("was")).unwrap();
            tree.add("file root/f = the new root");
            fs::write(tree.path("was/f"), "the old root").unwrap();
            // The guard opens an allowed directory again at most this often.
            thread::sleep(2 * mcp_roots_guard::limits::VERIFY_EVERY);
            of_read(way.read(request))
        }
        "read-only" if name != "guard" => NOT_OFFERED.into(),
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
        // Simulates an old kernel. The filter cannot be removed, so it is installed in a separate
        // thread. The way is constructed after the filter, because it may cache that `openat2`
        // exists.
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

/// Reads a FIFO, and provides a writer in case the read blocks. A blocked read then ends without a
/// timeout, and the content that it returns shows that it blocked.
fn fifo(way: &dyn Way, request: &str, at: &Path) -> String {
    let is_done = AtomicBool::new(false);
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(SeqCst) && start.elapsed() < Duration::from_secs(60) {
                // Opening fails with ENXIO until there is a reader (fifo(7)). A way that opens the
                // FIFO without blocking refuses it whether or not the writer has opened it.
                let flags = OFlags::NONBLOCK.bits().try_into().unwrap();
                let writer = OpenOptions::new().write(true).custom_flags(flags).open(at);
                if let Ok(mut writer) = writer {
                    let _ = writer.write_all(b"from the writer");
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let read = way.read(request);
        is_done.store(true, SeqCst);
        match read {
            Ok(content) if content.starts_with(b"from the writer") => "blocks".into(),
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

/// The fields of each line of a table of data.
fn fields(data: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = data.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split('|').map(str::trim).collect())
}

fn rows() -> Vec<Row> {
    let rows = fields(include_str!("../../data/comparison.txt")).map(|line| {
        let mut fields = line.iter().copied();
        let mut next = || fields.next().unwrap_or_else(|| panic!("{line:?}: too short"));
        let (name, tree, work) = (next(), next(), next());
        Row { name, tree, work, cells: fields.collect() }
    });
    rows.collect()
}

/// Marks a result that the way's own documentation describes.
const DOCUMENTED: &str = " (documented)";

#[test]
fn each_way_behaves_as_the_table_says() {
    let rows = rows();
    let mut failures = Vec::new();
    for row in &rows {
        assert_eq!(row.cells.len(), WAYS.len(), "{}", row.name);
        for (name, cell) in WAYS.iter().zip(&row.cells) {
            // path_jail cannot be constructed without openat2, so the second run of the suite
            // skips it, except in the row for that case.
            if runs_without_openat2() && *name == "path_jail" && row.work != "without-openat2 f" {
                continue;
            }
            let seen = outcome(name, row.tree, row.work);
            if seen != cell.trim_end_matches(DOCUMENTED) {
                failures.push(format!("{}: {name}: {seen}; the table says: {cell}", row.name));
            }
        }
    }
    println!("{} rows of {} ways, {} differ", rows.len(), WAYS.len(), failures.len());
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(rows.len() > 20, "only {} rows were read", rows.len());
}

#[test]
fn documented_tables_match_the_data() {
    let rows = rows().into_iter().map(|row| [&[row.name], row.cells.as_slice()].concat());
    assert_eq!(documented("tests/data/comparison.txt"), rows.collect::<Vec<_>>());
    let servers = fields(include_str!("../../../.ci/interop/servers/servers.txt"));
    assert_eq!(documented(".ci/interop/servers/servers.txt"), servers.collect::<Vec<_>>());
    let holes = fields(KNOWN_HOLES).map(|row| [&row[..2], &row[3..]].concat());
    assert_eq!(documented("tests/data/known_holes.txt"), holes.collect::<Vec<_>>());
    let deployments = fields(include_str!("../../data/deployments.txt"));
    assert_eq!(documented("tests/data/deployments.txt"), deployments.collect::<Vec<_>>());
}

const KNOWN_HOLES: &str = include_str!("../../data/known_holes.txt");

/// The code of the rows has the holes, and the guard does not.
#[test]
fn known_holes_are_holes_and_are_closed() {
    for row in fields(KNOWN_HOLES) {
        let [cause, _, tree, work, code, hole, guarded] = row[..] else { panic!("{row:?}") };
        assert_eq!(outcome(code, tree, work), hole, "{cause}: {code}");
        assert_eq!(outcome("guard", tree, work), guarded, "{cause}: guard");
        assert!(hole.ends_with("outside") && guarded == "refused", "{cause}");
    }
}

/// Returns the rows of the table that is marked as generated from `from`, without bold marks.
fn documented(from: &str) -> Vec<Vec<&'static str>> {
    let page = concat!(
        include_str!("../../../docs/comparison.md"),
        include_str!("../../../docs/servers.md"),
        include_str!("../../../docs/known-holes.md"),
        include_str!("../../../docs/deployments.md")
    );
    let (_, table) = page.split_once(&format!("<!-- from {from} -->")).expect(from);
    let (table, _) = table.split_once("<!-- end -->").unwrap();
    let lines = table.lines().filter(|line| line.starts_with('|')).map(|line| {
        let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('*'));
        cells.collect::<Vec<_>>()
    });
    // The first two lines are the header.
    lines.skip(2).collect()
}
