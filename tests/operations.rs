//! What each operation does and refuses, and that it has no effect before it has verified what it works on.

use std::fs;
use std::io::Write as _;
#[cfg(target_os = "linux")]
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
#[cfg(target_os = "linux")]
use std::sync::mpsc;
#[cfg(target_os = "linux")]
use std::thread;
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use mcp_roots_guard::limits::WALK_DEPTH;
use mcp_roots_guard::{
    Access, Boundary, Error, Existing, Intent, OpenOptions, Policy, Replace, Result, Roots, Rule,
    WalkOptions, WriteOptions,
};
#[cfg(target_os = "linux")]
use mcp_roots_guard::{FileType, Metadata};

#[cfg(target_os = "linux")]
use rustix::fs::{CWD, Mode, makedev, mknodat};

use crate::support::tree::{Tree, links_are_seen};

fn kind<T>(result: Result<T>) -> Option<&'static str> {
    result.err().map(|error| error.code())
}

fn with_policy(tree: &Tree, policy: Policy) -> Roots {
    let boundary = Boundary::builder()
        .directory(tree.path("root"), Access::ReadWrite)
        .policy(policy)
        .build()
        .unwrap();
    boundary.allowed_roots()
}

type Operation = fn(&Roots, &str) -> Result<()>;

/// Every operation that names one place; those that take it away come last.
pub(crate) const OPERATIONS: [(&str, Operation); 23] = [
    ("check open", |roots, request| roots.check(request, Intent::Existing).map(drop)),
    ("check create", |roots, request| roots.check(request, Intent::New).map(drop)),
    ("open", |roots, request| roots.open(request).map(drop)),
    ("read", |roots, request| roots.read(request, 99).map(drop)),
    ("read_to_string", |roots, request| roots.read_to_string(request, 99).map(drop)),
    ("read and write", |roots, request| {
        open(roots, request, OpenOptions::new().read(true).write(true))
    }),
    ("append", |roots, request| open(roots, request, OpenOptions::new().append(true))),
    ("truncate", |roots, request| {
        open(roots, request, OpenOptions::new().write(true).truncate(true))
    }),
    ("create", |roots, request| open(roots, request, OpenOptions::new().write(true).create(true))),
    ("create_new", |roots, request| {
        open(roots, request, OpenOptions::new().write(true).create_new(true))
    }),
    ("write", |roots, request| roots.write(request, "overwritten")),
    ("write in place", |roots, request| {
        roots.write_with(request, "overwritten", WriteOptions::new().existing(Existing::InPlace))
    }),
    ("create_dir", |roots, request| roots.create_dir(request)),
    ("create_dir_all", |roots, request| roots.create_dir_all(request)),
    ("read_dir", |roots, request| roots.read_dir(request).map(drop)),
    ("walk", |roots, request| roots.walk(request, WalkOptions::new()).map(drop)),
    ("metadata", |roots, request| roots.metadata(request).map(drop)),
    ("symlink_metadata", |roots, request| roots.symlink_metadata(request).map(drop)),
    ("rename from", |roots, request| roots.rename(request, "renamed", Replace::Existing)),
    ("rename to", |roots, request| roots.rename("inside", request, Replace::Existing)),
    ("remove_file", |roots, request| roots.remove_file(request)),
    ("remove_dir", |roots, request| roots.remove_dir(request)),
    ("remove_dir_all", |roots, request| roots.remove_dir_all(request)),
];

fn open(roots: &Roots, request: &str, options: OpenOptions) -> Result<()> {
    roots.open_with(request, options).map(drop)
}

#[cfg(target_os = "linux")]
#[test]
fn no_operation_serves_what_is_outside_and_nothing_outside_changes() {
    let tree = Tree::new(
        "file root/inside; dir root/d; file out/secret; dir out/dir; file root-evil/f; link root/l -> ../out; \
         link root/abs -> $T/out/secret; link root/d/up -> ../..; fifo out/fifo; link root/fifo -> ../out/fifo",
    );
    let roots = tree.roots(["root"]);
    let before = [tree.snapshot("out"), tree.snapshot("root-evil")];
    let requests = [
        "../out/secret",
        "../out/new",
        "../out/dir",
        "$T/out/secret",
        "$T/out/new",
        "$T/root-evil/f",
        "l/secret",
        "l/new",
        "l/dir",
        "l/fifo",
        "d/up/out/secret",
        "d/up/new",
        "file://$T/out/secret",
        "..",
        "/",
        "$T",
        "l/../new",
        "d/../l/secret",
    ];
    for request in requests {
        for (name, operation) in OPERATIONS {
            assert_eq!(
                kind(operation(&roots, &tree.expand(request))),
                Some("outside_roots"),
                "{name} {request}"
            );
        }
    }
    // The links themselves are inside, to be described, renamed and removed; what they name is not.
    for request in ["abs", "l", "fifo"] {
        for (name, operation) in
            OPERATIONS.into_iter().filter(|(name, _)| *name != "symlink_metadata").take(17)
        {
            assert_eq!(kind(operation(&roots, request)), Some("outside_roots"), "{name} {request}");
        }
        for (name, operation) in OPERATIONS.into_iter().skip(18) {
            let _ = operation(&roots, request);
            assert_eq!(
                [tree.snapshot("out"), tree.snapshot("root-evil")],
                before,
                "{name} {request}"
            );
        }
    }
    assert_eq!([tree.snapshot("out"), tree.snapshot("root-evil")], before);
}

#[test]
fn reading_has_a_limit_and_text_is_utf8() {
    let tree = Tree::new("file root/f = 12345; dir root/d");
    fs::write(tree.path("root/bytes"), [b'a', 0xff]).unwrap();
    let roots = tree.roots(["root"]);
    assert_eq!(roots.read("f", 5).unwrap(), b"12345");
    assert_eq!(kind(roots.read("f", 4)), Some("too_large"));
    assert_eq!(roots.read_to_string("f", u64::MAX).unwrap(), "12345");
    assert_eq!(kind(roots.read_to_string("bytes", 9)), Some("not_utf8"));
    assert_eq!(roots.open("bytes").unwrap().read_all(2).unwrap(), [b'a', 0xff]);
    assert_eq!(roots.open("f").unwrap().metadata().size(), 5);
    assert_eq!(kind(roots.open("d")), Some("is_a_directory"));
    let checked = roots.check("f", Intent::Existing).unwrap();
    assert_eq!(checked.read_to_string(9).unwrap(), "12345");
    assert_eq!(checked.open().unwrap().read_all_to_string(9).unwrap(), "12345");
    // A sparse file can claim any size: memory is taken for what comes, and here nothing may.
    fs::File::create(tree.path("root/sparse")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(kind(roots.read("sparse", 1 << 20)), Some("too_large"));
    assert_eq!(kind(roots.open("sparse").unwrap().read_all(0)), Some("too_large"));
    // A file that grows while it is read does not pass its limit: /proc files have size 0.
    #[cfg(target_os = "linux")]
    {
        let process = Roots::from_dirs(["/proc/self/task"
            .to_string()
            .replace("self", &std::process::id().to_string())]);
        let name = format!("{}/status", std::process::id());
        assert_eq!(kind(process.unwrap().read(name.as_str(), 10)), Some("too_large"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_described_and_not_opened() {
    let roots = Roots::from_dirs(["/dev"]).unwrap();
    let metadata = roots.metadata("null").unwrap();
    assert_eq!((metadata.file_type(), metadata.file_type().as_str()), (FileType::Device, "device"));
    assert_eq!(kind(roots.read("null", 9)), Some("special_file"));
    assert_eq!(kind(roots.write("null", "")), Some("special_file"));
}

#[test]
fn options_mean_what_they_mean_in_std() {
    let tree = Tree::new("file root/f = 12345; dir root/d");
    let roots = tree.roots(["root"]);
    let new = OpenOptions::new;
    for bad in
        [new(), new().create(true), new().read(true).create(true), new().read(true).truncate(true)]
    {
        assert_eq!(kind(roots.open_with("f", bad)), Some("invalid_options"), "{bad:?}");
    }
    assert_eq!(
        kind(roots.open_with("f", new().append(true).truncate(true))),
        Some("invalid_options")
    );
    let content = || fs::read_to_string(tree.path("root/f")).unwrap();
    roots.open_with("f", new().append(true)).unwrap().write_all(b"6").unwrap();
    assert_eq!(content(), "123456");
    roots.open_with("f", new().write(true)).unwrap().write_all(b"X").unwrap();
    assert_eq!(content(), "X23456");
    roots.open_with("f", new().read(true).write(true).truncate(true)).unwrap();
    assert_eq!(content(), "");
    assert_eq!(
        kind(roots.open_with("f", new().write(true).create_new(true))),
        Some("already_exists")
    );
    assert_eq!(kind(roots.open_with("new", new().write(true))), Some("not_found"));
    roots.open_with("new", new().write(true).create(true)).unwrap().write_all(b"n").unwrap();
    roots.open_with("new", new().write(true).create(true)).unwrap();
    assert_eq!(roots.read("new", 9).unwrap(), b"n");
    roots
        .check("newer", Intent::New)
        .unwrap()
        .open_with(new().write(true).create_new(true))
        .unwrap();
    assert_eq!(kind(roots.open_with("d", new().write(true).create(true))), Some("is_a_directory"));
    assert_eq!(kind(roots.open_with("none/x", new().write(true).create(true))), Some("not_found"));
    // What was checked as missing and appears as a link is not followed.
    let checked = roots.check("later", Intent::New).unwrap();
    tree.add("file out = o; link root/later -> ../out");
    let refused = if links_are_seen() { "changed" } else { "outside_roots" };
    assert_eq!(kind(checked.open_with(new().write(true).create(true))), Some(refused));
    assert_eq!(kind(checked.write("x")), Some(refused));
    assert_eq!(fs::read(tree.path("out")).unwrap(), b"o");
}

#[cfg(target_os = "linux")]
#[test]
fn a_write_is_whole_or_not_at_all_and_keeps_the_mode() {
    let tree = Tree::new("file root/f = old; dir root/d; link root/l -> d/new; link root/lf -> f");
    fs::set_permissions(tree.path("root/f"), fs::Permissions::from_mode(0o4751)).unwrap();
    let roots = tree.roots(["root"]);
    let before = fs::metadata(tree.path("root/f")).unwrap();
    roots.write("f", "new").unwrap();
    let after = fs::metadata(tree.path("root/f")).unwrap();
    assert_eq!(fs::read(tree.path("root/f")).unwrap(), b"new");
    assert_eq!(after.mode() & 0o7777, 0o751);
    assert_ne!(after.ino(), before.ino());
    roots.write("l", "through").unwrap();
    assert_eq!(fs::read(tree.path("root/d/new")).unwrap(), b"through");
    assert!(fs::symlink_metadata(tree.path("root/l")).unwrap().is_symlink());
    roots.write("lf", "again").unwrap();
    assert_eq!(fs::read(tree.path("root/f")).unwrap(), b"again");
    let name = "n".repeat(255);
    roots.write(&name, "long").unwrap();
    assert_eq!(roots.read(&name, 9).unwrap(), b"long");
    assert_eq!(kind(roots.write("d", "x")), Some("is_a_directory"));
    assert_eq!(kind(roots.write(".", "x")), Some("root_itself"));
    assert_eq!(kind(roots.write("none/x", "x")), Some("not_found"));
    // Nothing is left behind, after success or failure.
    let names: Vec<_> =
        roots.walk(".", WalkOptions::new()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names.len(), 6, "{names:?}");
}

/// The file is cut only after it was verified: a refused hard link leaves the other name whole.
#[test]
fn truncating_a_refused_hard_link_leaves_the_other_file_whole() {
    let tree = Tree::new("file out/f = whole; dir root; hard root/h = out/f");
    let refuse = with_policy(&tree, Policy::default().hard_links(Rule::Refuse));
    let opens = [
        "open",
        "read",
        "read_to_string",
        "read and write",
        "append",
        "truncate",
        "create",
        "write",
        "write in place",
    ];
    for (name, operation) in OPERATIONS.into_iter().filter(|(name, _)| opens.contains(name)) {
        assert_eq!(kind(operation(&refuse, "h")), Some("hard_linked"), "{name}");
        assert_eq!(fs::read(tree.path("out/f")).unwrap(), b"whole", "{name}");
    }
    let allow = tree.roots(["root"]);
    assert_eq!(allow.read("h", 9).unwrap(), b"whole");
    // An atomic write takes the name and leaves the other file its content.
    allow.write("h", "mine").unwrap();
    assert_eq!(fs::read(tree.path("out/f")).unwrap(), b"whole");
}

/// Opening a FIFO for writing would let its waiting reader go on.
#[cfg(target_os = "linux")]
#[test]
fn opening_a_fifo_for_writing_does_not_wake_its_reader() {
    let tree = Tree::new("fifo root/p");
    let roots = tree.roots(["root"]);
    let (woken, wakes) = mpsc::channel();
    let path = tree.path("root/p");
    let reader = thread::spawn({
        let path = path.clone();
        move || {
            let content = fs::read(path);
            woken.send(()).unwrap();
            content
        }
    });
    // Give the reader time to wait in its open.
    thread::sleep(Duration::from_millis(200));
    for options in [
        OpenOptions::new().write(true),
        OpenOptions::new().append(true),
        OpenOptions::new().read(true).write(true),
    ] {
        for options in [options, options.create(true)] {
            assert_eq!(kind(roots.open_with("p", options)), Some("special_file"), "{options:?}");
        }
    }
    assert_eq!(
        kind(roots.open_with("p", OpenOptions::new().write(true).truncate(true))),
        Some("special_file")
    );
    assert_eq!(kind(roots.write("p", "x")), Some("special_file"));
    assert!(wakes.recv_timeout(Duration::from_millis(300)).is_err(), "the reader was woken");
    fs::write(path, "let go").unwrap();
    assert_eq!(reader.join().unwrap().unwrap(), b"let go");
}

#[cfg(target_os = "linux")]
#[test]
fn special_files_are_refused_at_once_by_every_operation_that_opens() {
    let tree = Tree::new("fifo root/p; socket root/s; link root/l -> p; file root/inside");
    let mut special = vec!["l", "p", "s"];
    // A device can be made by root alone: /dev/null's twin, and one that no driver has.
    for (name, device) in [("null", makedev(1, 3)), ("nodev", makedev(250, 250))] {
        let device_type = rustix::fs::FileType::CharacterDevice;
        let made = mknodat(
            CWD,
            tree.path("root").join(name),
            device_type,
            Mode::from_raw_mode(0o666),
            device,
        );
        if made.is_ok() {
            special.push(name);
        }
    }
    let roots = tree.roots(["root"]);
    let start = Instant::now();
    for request in &special {
        for (name, operation) in
            OPERATIONS.into_iter().filter(|(name, _)| !name.starts_with("rename"))
        {
            let expected = match name {
                "check open" | "check create" | "metadata" | "symlink_metadata" | "remove_file" => {
                    None
                }
                "create_new" | "create_dir" | "create_dir_all" => Some("already_exists"),
                "read_dir" | "walk" => Some("not_a_directory"),
                "remove_dir" | "remove_dir_all" => Some("not_found"),
                _ => Some("special_file"),
            };
            assert_eq!(kind(operation(&roots, request)), expected, "{name} {request}");
        }
    }
    println!("{special:?}: refused in {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(20), "took {:?}", start.elapsed());
    // By policy they are opened, without blocking.
    let tree = Tree::new("fifo root/p");
    let allow = with_policy(&tree, Policy::default().special_files(Rule::Allow));
    assert_eq!(allow.open("p").unwrap().metadata().file_type(), FileType::Fifo);
    assert_eq!(allow.read("p", 9).unwrap(), b"");
    assert_eq!(
        kind(allow.open_with("p", OpenOptions::new().write(true))),
        Some("special_file"),
        "no reader: ENXIO"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_listing_describes_everything_and_follows_nothing() {
    let tree = Tree::new(
        "file root/d/f = 12345; fifo root/d/p; socket root/d/s; link root/d/l -> ../../out/secret; dir root/d/e; file out/secret = 123; \
         link root/ld -> d",
    );
    let roots = tree.roots(["root"]);
    for request in ["d", "ld", "d/."] {
        let mut entries: Vec<_> = roots.read_dir(request).unwrap().map(Result::unwrap).collect();
        entries.sort_by(|one, other| one.name().cmp(other.name()));
        let told: Vec<_> = entries
            .iter()
            .map(|entry| (entry.name().to_str().unwrap(), entry.metadata().file_type()))
            .collect();
        let expected = [
            ("e", FileType::Directory),
            ("f", FileType::File),
            ("l", FileType::Symlink),
            ("p", FileType::Fifo),
            ("s", FileType::Socket),
        ];
        assert_eq!(told, expected, "{request}");
        assert_eq!(entries[1].metadata().size(), 5);
        assert!(entries[1].metadata().modified().is_some());
        let same = |one: &Metadata, other: &Metadata| {
            (one.created(), one.modified(), one.size(), one.mode(), one.hard_links())
                == (
                    other.created(),
                    other.modified(),
                    other.size(),
                    other.mode(),
                    other.hard_links(),
                )
        };
        assert!(same(entries[1].metadata(), &roots.metadata("d/f").unwrap()), "{:?}", entries[1]);
        assert!(
            same(roots.open("d/f").unwrap().metadata(), entries[1].metadata()),
            "{:?}",
            entries[1]
        );
        assert_eq!(
            entries[2].metadata().size(),
            "../../out/secret".len() as u64,
            "of the link, not of what it names"
        );
    }
    assert_eq!(kind(roots.read_dir("d/f")), Some("not_a_directory"));
    assert_eq!(roots.metadata("ld").unwrap().file_type(), FileType::Directory);
    assert_eq!(roots.symlink_metadata("ld").unwrap().file_type(), FileType::Symlink);
    let is_symlink = |metadata: Result<Metadata>| metadata.unwrap().is_symlink();
    assert_eq!(
        [is_symlink(roots.symlink_metadata("ld")), is_symlink(roots.metadata("ld"))],
        [true, false]
    );
    assert_eq!(kind(roots.metadata("d/l")), Some("outside_roots"));
    assert_eq!(roots.metadata("d/f").unwrap().mode(), Some(0o644));
    // Whoever owns a file may say that it is very old.
    let tree = Tree::in_memory("file root/old");
    let old = rustix::fs::Timespec { tv_sec: i64::MIN, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
    rustix::fs::utimensat(CWD, tree.path("root/old"), &times, rustix::fs::AtFlags::empty())
        .unwrap();
    let roots = tree.roots(["root"]);
    assert_eq!(roots.read_dir(".").unwrap().map(Result::unwrap).count(), 1);
    assert_eq!(roots.walk(".", WalkOptions::new()).unwrap().map(Result::unwrap).count(), 1);
    assert_eq!(roots.read("old", 9).unwrap(), b"root/old");
    assert!(roots.metadata("old").is_ok() && roots.symlink_metadata("old").is_ok());
}

#[cfg(target_os = "linux")]
#[test]
fn a_walk_is_bounded_ordered_and_stays_inside() {
    let tree = Tree::new(
        "file root/a/b/f; file root/a/z; link root/a/loop -> ..; link root/out -> ../out; file out/secret; fifo root/p; dir root/c",
    );
    let roots = tree.roots(["root"]);
    let paths = |request: &str, options: WalkOptions| -> Vec<String> {
        let told = |entry: Result<mcp_roots_guard::WalkEntry>| match entry {
            Ok(entry) => entry.path().display().to_string(),
            Err(error) => error.code().to_string(),
        };
        roots.walk(request, options).unwrap().map(told).collect()
    };
    let all = ["a", "a/b", "a/b/f", "a/loop", "a/z", "c", "out", "p"];
    assert_eq!(paths(".", WalkOptions::new()), all);
    assert_eq!(paths("a/loop/a", WalkOptions::new()), ["b", "b/f", "loop", "z"]);
    assert_eq!(paths(".", WalkOptions::new().max_depth(1)), ["a", "c", "out", "p"]);
    assert_eq!(paths(".", WalkOptions::new().max_depth(0)), [""; 0]);
    assert_eq!(paths(".", WalkOptions::new().max_entries(8)), all);
    let few = paths(".", WalkOptions::new().max_entries(5));
    assert_eq!((few.len(), few.last().unwrap().as_str()), (6, "too_many_entries"));
    assert_eq!(kind(roots.walk("p", WalkOptions::new())), Some("not_a_directory"));
    assert_eq!(kind(roots.walk("out", WalkOptions::new())), Some("outside_roots"));
    let mut walk = roots.walk(".", WalkOptions::new()).unwrap();
    assert_eq!(walk.next().unwrap().unwrap().path().to_str(), Some("a"));
    walk.skip_current_dir();
    assert_eq!(walk.next().unwrap().unwrap().path().to_str(), Some("c"));
    // A directory that becomes a link before it is entered is passed over.
    let mut walk = roots.walk(".", WalkOptions::new()).unwrap();
    assert_eq!(walk.next().unwrap().unwrap().path().to_str(), Some("a"));
    fs::rename(tree.path("root/a"), tree.path("root/was-a")).unwrap();
    tree.add("link root/a -> ../out");
    assert_eq!(walk.next().unwrap().unwrap().path().to_str(), Some("c"));
    // Too deep is said, and is no end.
    let deep = "d/".repeat(WALK_DEPTH + 1);
    fs::create_dir_all(tree.path("root/c").join(&deep)).unwrap();
    let told = paths("c", WalkOptions::new());
    assert_eq!((told.len(), told.last().unwrap().as_str()), (WALK_DEPTH + 1, "too_deep"));
    assert_eq!(kind(roots.remove_dir_all("c")), Some("too_deep"));
}

#[test]
fn a_rename_checks_both_ends_and_replaces_only_when_told() {
    let tree = Tree::new(
        "file a/f = A; file a/g = G; dir a/d; file b/h = H; link a/l -> f; link a/out -> ../out; dir out; dir ro",
    );
    let roots = Boundary::builder()
        .directory(tree.path("a"), Access::ReadWrite)
        .directory(tree.path("b"), Access::ReadWrite)
        .directory(tree.path("ro"), Access::ReadOnly)
        .build()
        .unwrap()
        .allowed_roots();
    let at = |path: &str| tree.path(path).to_str().unwrap().to_owned();
    assert_eq!(kind(roots.rename("f", "g", Replace::Never)), Some("already_exists"));
    assert_eq!(kind(roots.rename("f", at("b/h"), Replace::Never)), Some("already_exists"));
    roots.rename("f", at("b/f"), Replace::Never).unwrap();
    roots.rename(at("b/f"), "g", Replace::Existing).unwrap();
    assert_eq!(fs::read(tree.path("a/g")).unwrap(), b"A");
    assert_eq!(kind(roots.rename("g", "out/g", Replace::Never)), Some("outside_roots"));
    assert_eq!(kind(roots.rename("out/none", "x", Replace::Never)), Some("outside_roots"));
    assert_eq!(kind(roots.rename("none", "x", Replace::Never)), Some("not_found"));
    assert_eq!(kind(roots.rename("g", at("ro/g"), Replace::Never)), Some("read_only"));
    assert_eq!(kind(roots.rename("g", "d", Replace::Existing)), Some("is_a_directory"));
    let error = roots.rename("g", "..", Replace::Never).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"rename "g" to "..": destination: not inside the allowed directories"#
    );
    let error = roots.rename("g", at("ro/g"), Replace::Never).unwrap_err();
    assert!(error.to_string().ends_with(": destination: the directory is read-only"), "{error}");
    // A link is renamed itself, and replaced itself.
    if links_are_seen() {
        roots.rename("l", "d/l", Replace::Never).unwrap();
        assert!(fs::symlink_metadata(tree.path("a/d/l")).unwrap().is_symlink());
    } else {
        assert!(roots.rename("l", "d/l", Replace::Never).is_err());
        return;
    }
    roots.rename("g", "out", Replace::Existing).unwrap();
    assert!(tree.path("out").is_dir() && fs::read(tree.path("a/out")).unwrap() == b"A");
    let from = roots.check("out", Intent::NoFollow).unwrap();
    let to = roots.check("back", Intent::NoFollow).unwrap();
    from.rename(&to, Replace::Never).unwrap();
    assert_eq!(roots.read("back", 9).unwrap(), b"A");
}

#[test]
fn directories_are_made_where_they_may_be() {
    let tree = Tree::new(
        "file root/f; link root/l -> d; link root/o -> ../out; link root/n -> x/y; dir out",
    );
    let roots = tree.roots(["root"]);
    roots.create_dir("d/").unwrap();
    assert_eq!(kind(roots.create_dir("d")), Some("already_exists"));
    assert_eq!(kind(roots.create_dir("none/x")), Some("not_found"));
    assert_eq!(kind(roots.create_dir("f/x")), Some("not_a_directory"));
    assert_eq!(kind(roots.create_dir(".")), Some("already_exists"));
    if links_are_seen() {
        roots.create_dir_all("l/p/q").unwrap();
        assert!(tree.path("root/d/p/q").is_dir());
        roots.create_dir_all("n/z").unwrap();
        assert!(tree.path("root/x/y/z").is_dir());
    }
    roots.create_dir_all("d/p/q").unwrap();
    roots.create_dir_all("d/p/q").unwrap();
    assert_eq!(kind(roots.create_dir_all("f")), Some("already_exists"));
    assert_eq!(kind(roots.create_dir_all("o/x")), Some("outside_roots"));
    // Windows takes `..` as text.
    let above_nothing = if cfg!(windows) { "outside_roots" } else { "not_found" };
    assert_eq!(kind(roots.create_dir_all("new/../../out/x")), Some(above_nothing));
    assert_eq!(tree.snapshot("out").len(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn removing_takes_the_entry_and_never_a_root() {
    let tree = Tree::new(
        "file root/f; link root/l -> d; file root/d/in/deep; file root/d/f; link root/d/out -> ../../out; file out/keep; fifo root/d/p; \
         link root/dangling -> none; file root/in/root/f; file root/in/g",
    );
    let roots = tree.roots(["root", "root/in/root"]);
    assert_eq!(kind(roots.remove_dir("d")), Some("directory_not_empty"));
    assert_eq!(kind(roots.remove_file("d")), Some("is_a_directory"));
    assert_eq!(kind(roots.remove_dir("f")), Some("not_a_directory"));
    assert_eq!(kind(roots.remove_dir_all("f")), Some("not_a_directory"));
    for request in ["l", "l/"] {
        assert_eq!(kind(roots.remove_dir_all(request)), Some("not_a_directory"), "{request}");
        assert_eq!(kind(roots.remove_dir(request)), Some("not_a_directory"), "{request}");
    }
    roots.remove_file("l").unwrap();
    roots.remove_file("dangling").unwrap();
    assert!(tree.path("root/d/f").exists());
    roots.remove_dir_all("d").unwrap();
    assert!(!tree.path("root/d").exists());
    assert_eq!(tree.snapshot("out").len(), 2);
    for request in [".", "in", "in/root", "in/root/..", "$T/root", "$T/root/in/root/."] {
        let request = tree.expand(request);
        for result in [
            roots.remove_dir_all(&request),
            roots.remove_dir(&request),
            roots.remove_file(&request),
            roots.rename(&request, "x", Replace::Never),
            roots.rename("f", &request, Replace::Existing),
        ] {
            assert_eq!(kind(result), Some("root_itself"), "{request}");
        }
    }
    roots.remove_file("in/g").unwrap();
    assert_eq!(kind(roots.remove_file("in/g")), Some("not_found"));
    // `.` and `..` name no entry, as for rmdir(2); and a proof that followed links is none for what takes an entry away.
    tree.add("file root/p/q/f; link root/lf -> f");
    for request in ["p/q/..", "p/q/.", "p/q/../."] {
        assert_eq!(kind(roots.remove_dir_all(request)), Some("dot_name"), "{request}");
        assert_eq!(kind(roots.rename(request, "x", Replace::Never)), Some("dot_name"), "{request}");
    }
    for intent in [Intent::Existing, Intent::New, Intent::NewTree] {
        let checked = roots.check("lf", intent).unwrap();
        assert_eq!(kind(checked.remove_file()), Some("wrong_intent"), "{intent:?}");
    }
    assert_eq!(fs::read(tree.path("root/f")).unwrap(), b"root/f");
}

#[test]
fn a_read_only_directory_is_read_and_nothing_else() {
    let tree = Tree::new("file root/f; dir root/d; file root/inside");
    let boundary =
        Boundary::builder().directory(tree.path("root"), Access::ReadOnly).build().unwrap();
    let roots = boundary.allowed_roots();
    let before = tree.snapshot("root");
    let reads =
        ["check open", "check create", "open", "read", "read_to_string", "read_dir", "walk"];
    for request in ["f", "d", "new"] {
        for (name, operation) in OPERATIONS {
            if !reads.contains(&name) && !name.ends_with("metadata") {
                let told = kind(operation(&roots, request));
                // What does not exist can not be opened, whatever may be written.
                let expected = if told == Some("not_found") && request == "new" {
                    "not_found"
                } else {
                    "read_only"
                };
                assert_eq!(told, Some(expected), "{name} {request}");
            }
        }
    }
    assert_eq!(tree.snapshot("root"), before);
    assert_eq!(roots.read("f", 9).unwrap(), b"root/f");
}

/// A file system mounted inside a root: served by default, refused by policy, never entered by a recursive removal.
#[cfg(target_os = "linux")]
#[test]
fn mounts_are_crossed_by_policy_and_never_removed() {
    // /proc and /dev are mounts on every Linux that runs this; / is a root that holds them.
    let top = |policy| {
        Boundary::builder()
            .directory("/", Access::ReadWrite)
            .policy(policy)
            .build()
            .unwrap()
            .allowed_roots()
    };
    let allow = top(Policy::default());
    let refuse = top(Policy::default().mounts(Rule::Refuse));
    assert!(allow.metadata("/proc/version").is_ok());
    assert!(refuse.metadata("/etc").is_ok());
    let requests = [
        "/proc/version",
        "proc/version",
        "/proc",
        "etc/../proc/version",
        "/proc/sys/kernel",
        "proc/../../etc",
    ];
    for request in requests {
        for (operation, result) in [
            ("metadata", refuse.metadata(request).map(drop)),
            ("open", refuse.open(request).map(drop)),
            ("check", refuse.check(request, Intent::Existing).map(drop)),
            ("read_dir", refuse.read_dir(request).map(drop)),
            ("write", refuse.open_with(request, OpenOptions::new().write(true)).map(drop)),
        ] {
            assert_eq!(kind(result), Some("mount_crossing"), "{operation} {request}");
        }
    }
    let walked: Vec<_> =
        refuse.walk("/", WalkOptions::new().max_depth(2)).unwrap().filter_map(Result::ok).collect();
    assert!(walked.iter().any(|entry| entry.depth() > 1 && entry.path().starts_with("etc")));
    assert!(!walked.iter().any(|entry| entry.depth() > 1 && entry.path().starts_with("proc")));
    assert_eq!(kind(allow.remove_dir_all("/proc")), Some("mount_crossing"));
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_blocks_while_a_path_keeps_changing() {
    let tree = Tree::new("dir root/d; file root/d/f; dir root/e; link root/e/l -> ../d");
    let roots = tree.roots(["root"]);
    let checked = roots.check("d/f", Intent::Existing).unwrap();
    fs::rename(tree.path("root/d"), tree.path("root/was")).unwrap();
    tree.add("link root/d -> was");
    // The proof names plain directories; one of them is a link now. Asking again is the way.
    assert_eq!(kind(checked.read(9)), Some("changed"));
    assert_eq!(roots.read("d/f", 9).unwrap(), b"root/d/f");
}

#[test]
fn lengths_are_bounded_at_their_limits() {
    use mcp_roots_guard::Location;
    use mcp_roots_guard::limits::{NAME_BYTES, PATH_BYTES, URI_BYTES};
    let tree = Tree::new("dir root/d");
    let roots = tree.roots(["root"]);
    let path = |len: usize| "d/".repeat(len / 2) + &"d"[..len % 2];
    assert!(Location::parse(&path(PATH_BYTES - 1)).is_ok());
    assert_eq!(kind(Location::parse(&path(PATH_BYTES))), Some("too_long"));
    assert_eq!(
        kind(Location::parse(&("file:///".to_string() + &"x".repeat(URI_BYTES)))),
        Some("too_long")
    );
    assert_eq!(
        kind(Location::parse(&("file:///".to_string() + &"./".repeat(URI_BYTES)))),
        Some("too_long"),
        "to nothing"
    );
    assert_eq!(kind(roots.check("n".repeat(NAME_BYTES).as_str(), Intent::New)), None);
    let long = "n".repeat(NAME_BYTES + 1);
    for intent in [Intent::Existing, Intent::New, Intent::NewTree, Intent::NoFollow] {
        assert_eq!(kind(roots.check(long.as_str(), intent)), Some("too_long"), "{intent:?}");
        assert_eq!(
            kind(roots.check(format!("d/{long}/x"), intent)),
            Some("too_long"),
            "{intent:?}"
        );
    }
    assert_eq!(kind(roots.check(format!("none/{long}"), Intent::NewTree)), Some("too_long"));
    let location = Location::parse("d").unwrap();
    assert!(roots.check(&location, Intent::Existing).unwrap().exists());
}

#[test]
fn the_proof_tells_its_root_and_paths_and_the_texts_are_pinned() {
    let tree = Tree::new("file root/a b/f; file root/g");
    let roots = tree.roots(["root"]);
    let checked = roots.check("a b/../a b/f", Intent::Existing).unwrap();
    assert_eq!(checked.root().path(), tree.path("root"));
    assert_eq!(checked.relative(), std::path::Path::new("a b/f"));
    let path = tree.path("root").join("a b").join("f");
    assert_eq!(checked.to_unguarded_path(), path);
    assert_eq!(checked.display_path(), path.to_str().unwrap());
    assert_eq!(checked.uri(), tree.uri("root/a%20b/f"));
    let text = |result: Result<()>| result.map_err(|error: Error| error.to_string()).unwrap_err();
    let texts = [
        (text(roots.read("x\u{80}", 9).map(drop)), r#"read "x\u{80}": no such file or directory"#),
        (text(roots.open("..").map(drop)), r#"open "..": not inside the allowed directories"#),
        (text(roots.check("", Intent::New).map(drop)), r#"parse "": the path is empty"#),
        (text(roots.write("a b", "")), r#"write "a b": is a directory"#),
        (
            text(roots.remove_dir_all(".")),
            r#"remove ".": an allowed directory itself cannot be removed, renamed or replaced"#,
        ),
        (text(roots.read("g", 1).map(drop)), r#"read "g": larger than 1 bytes"#),
    ];
    for (told, expected) in texts {
        assert_eq!(told, expected);
    }
}

/// The longest requests through the deepest tree and the most links take no time to speak of, also without `openat2`.
#[cfg(target_os = "linux")]
#[test]
fn the_worst_request_is_bounded_in_time() {
    let tree = Tree::in_memory("dir root");
    let depth = (4000 - tree.path("root").as_os_str().len()) / 2;
    fs::create_dir_all(tree.path("root").join("d/".repeat(depth))).unwrap();
    let zigzag = format!("{}{}", "d/".repeat(800), "../".repeat(800));
    std::os::unix::fs::symlink(zigzag, tree.path("root/l")).unwrap();
    std::os::unix::fs::symlink(
        format!("{}/new", tree.path("root").display()),
        tree.path("root/abs"),
    )
    .unwrap();
    let roots = tree.roots(["root"]);
    let steps = format!("{}{}", "d/".repeat(900), "../d/".repeat(450));
    let requests = [
        (format!("{}new", "d/".repeat(depth)), None),
        // The kernel bounds the links alone.
        (format!("{}new", "l/".repeat(40)), None),
        (format!("../root/{}abs/x", "l/".repeat(39)), Some("too_long")),
        (format!("{steps}new"), None),
    ];
    for (request, expected) in requests {
        let start = Instant::now();
        let decided = kind(roots.check(request.as_str(), Intent::New));
        println!("{} bytes: {decided:?} after {:?}", request.len(), start.elapsed());
        // Without `openat2` each name is a look-up, and those are bounded.
        let bounded = [Some("too_long"), Some("too_costly")];
        assert!(decided == expected || bounded.contains(&decided), "{decided:?}");
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}

/// What was checked can be another thing by the time it is opened, and is verified again.
#[cfg(target_os = "linux")]
#[test]
fn what_has_taken_the_name_of_a_checked_file_is_verified() {
    let tree = Tree::new("file root/f; file root/h; file root/l; file root/other; file out/kept");
    let roots = with_policy(&tree, Policy::default().hard_links(Rule::Refuse));
    for (name, planted, expected) in [
        ("f", "fifo root/f", "special_file"),
        ("h", "hard root/h = out/kept", "hard_linked"),
        ("l", "link root/l -> other", "changed"),
    ] {
        let checked = roots.check(name, Intent::Existing).unwrap();
        fs::remove_file(tree.path("root").join(name)).unwrap();
        tree.add(planted);
        let opened =
            [checked.open().map(drop), checked.open_with(OpenOptions::new().read(true)).map(drop)];
        assert_eq!(opened.map(kind), [Some(expected); 2], "{planted}");
        assert_eq!(kind(checked.read(99)), Some(expected), "{planted}");
    }
}

/// What the server starts later is given nothing that was opened here.
#[cfg(target_os = "linux")]
#[test]
fn no_descriptor_outlives_an_exec() {
    let tree = Tree::new("dir root/d; file root/d/f");
    let roots = tree.roots(["root"]);
    let absolute = tree.path("root/d/../d/f");
    let _held = (
        roots.open("d/f").unwrap(),
        roots.open(absolute).unwrap(),
        roots.open_with("d/f", OpenOptions::new().write(true)).unwrap(),
        roots.open_with("d/new", OpenOptions::new().append(true).create(true)).unwrap(),
        roots.read_dir("d").unwrap(),
    );
    let mut seen = 0;
    for descriptor in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let is_here =
            fs::read_link(descriptor.path()).is_ok_and(|path| path.starts_with(tree.path("root")));
        if is_here {
            seen += 1;
            let info = std::path::Path::new("/proc/self/fdinfo").join(descriptor.file_name());
            let info = fs::read_to_string(info).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
            let is_closed =
                u32::from_str_radix(flags, 8).unwrap() & rustix::fs::OFlags::CLOEXEC.bits() != 0;
            assert!(is_closed, "{:?}: {info}", fs::read_link(descriptor.path()));
        }
    }
    assert!(seen >= 5, "only {seen} descriptors are seen");
}

#[cfg(target_os = "linux")]
#[test]
fn a_new_file_is_no_program() {
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    drop(roots.open_with("opened", OpenOptions::new().write(true).create_new(true)).unwrap());
    roots.write("written", "text").unwrap();
    for name in ["opened", "written"] {
        assert_eq!(tree.path("root").join(name).metadata().unwrap().mode() & 0o111, 0, "{name}");
    }
}

/// Decision 6 for links: their bytes are the bytes that are followed.
#[cfg(target_os = "linux")]
#[test]
fn a_link_whose_text_is_not_utf8_leads_where_it_says() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    let odd = OsStr::from_bytes(b"d\xff");
    fs::write(tree.path("root").join(odd), "odd").unwrap();
    fs::write(tree.path("root/d\u{fffd}"), "as a text").unwrap();
    std::os::unix::fs::symlink(odd, tree.path("root/relative")).unwrap();
    // The kernel's walk can not follow this one beneath the root.
    std::os::unix::fs::symlink(tree.path("root").join(odd), tree.path("root/absolute")).unwrap();
    for link in ["relative", "absolute"] {
        assert_eq!(roots.read(link, 99).unwrap(), b"odd", "{link}");
        assert_eq!(roots.check(link, Intent::New).unwrap().relative(), odd, "{link}");
    }
}

/// A directory with more entries than a removal holds at once. `tests/walk_memory.rs` has the memory.
#[test]
fn a_directory_of_any_number_of_entries_is_removed() {
    let tree = Tree::in_memory("dir root/many; dir root/many/d; dir out; file out/kept");
    // Each has files and directories, some of them full, too.
    let names = |count: usize| 0..if cfg!(windows) { count / 100 } else { count };
    for number in names(25_000) {
        fs::write(tree.path(format!("root/many/f{number}")), "").unwrap();
    }
    for number in names(15_000) {
        fs::create_dir(tree.path(format!("root/many/d/d{number}"))).unwrap();
    }
    for number in names(12_000) {
        fs::write(tree.path(format!("root/many/d/d7/f{number}")), "").unwrap();
    }
    if links_are_seen() {
        tree.add("link root/many/d/d9/out -> ../../../../out");
    }
    tree.roots(["root"]).remove_dir_all("many").unwrap();
    assert_eq!(fs::read_dir(tree.path("root")).unwrap().count(), 0);
    assert_eq!(fs::read(tree.path("out/kept")).unwrap(), b"out/kept");
}

/// What a proof reads depends on its own root alone, as bytes and as text.
#[cfg(unix)]
#[test]
fn a_proof_fails_the_same_way_as_bytes_and_as_text() {
    let tree =
        Tree::new("link a/l -> ../b/f; file b/f = content; link a/m -> ../b/moved; file b/moved");
    let roots = tree.roots(["a", "b"]);
    let checked = ["l", "m"].map(|name| roots.check(name, Intent::Existing).unwrap());
    fs::remove_file(tree.path("b/moved")).unwrap();
    // The root that the request started in.
    fs::rename(tree.path("a"), tree.path("was")).unwrap();
    for (checked, limit, expected) in [
        (&checked[0], 3, Some("too_large")),
        (&checked[0], 9, None),
        (&checked[1], 9, Some("not_found")),
    ] {
        assert_eq!(kind(checked.read(limit)), expected, "{checked}");
        assert_eq!(kind(checked.read_to_string(limit)), expected, "{checked} as text");
    }
}

/// A process that is killed in a write leaves a file of a name that is found again.
#[cfg(target_os = "linux")]
#[test]
fn what_a_killed_write_leaves_has_a_name_that_is_found() {
    const PLACE: &str = "GUARD_TEST_KILLED_IN";
    if let Some(place) = std::env::var_os(PLACE) {
        // Larger than a file may be: the system kills the process in the middle (SIGXFSZ).
        let limit = rustix::process::Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
        let _ = Roots::from_dirs([place]).unwrap().write("f", vec![b'x'; 2 << 20].as_slice());
        return;
    }
    let tree = Tree::new("file root/f = old");
    let this = "operations::what_a_killed_write_leaves_has_a_name_that_is_found";
    let mut killed = std::process::Command::new(std::env::current_exe().unwrap());
    killed
        .args(["--exact", this])
        .env(PLACE, tree.path("root"))
        .stdout(std::process::Stdio::null());
    assert!(!killed.status().unwrap().success());
    assert_eq!(fs::read(tree.path("root/f")).unwrap(), b"old");
    let names = fs::read_dir(tree.path("root"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = names.filter(|name| name != "f").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let digits = left[0]
        .strip_prefix(".mcp-roots-guard-")
        .and_then(|rest| rest.strip_suffix(".tmp"))
        .unwrap();
    assert!(digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digits}");
}
