//! The effects and refusals of each operation. No operation has an effect before it has verified
//! the object that it acts on.

use std::fs;
use std::io::{BufRead as _, BufReader};
#[cfg(target_os = "linux")]
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use mcp_roots_guard::limits::WALK_DEPTH;
use mcp_roots_guard::{
    Access, Boundary, BoundaryBuilder, ListRootsResult, OpenMode, Precondition, Roots, WalkOptions,
    WriteOptions,
};
#[cfg(target_os = "linux")]
use mcp_roots_guard::{FileType, Result};

#[cfg(target_os = "linux")]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
#[cfg(target_os = "linux")]
use rustix::fs::{CWD, Mode, OFlags, makedev, mknodat, open};

use crate::support::code;
use crate::support::one_step::OneStep as _;
use crate::support::operations::{Attempt, Target, Way, attempts};
use crate::support::tree::{Tree, symlinks_are_visible};
#[cfg(target_os = "linux")]
use crate::support::walked;

fn with_rule(tree: &Tree, rule: fn(BoundaryBuilder) -> BoundaryBuilder) -> Roots {
    let builder = Boundary::builder().directory(tree.path("root"), Access::ReadWrite);
    rule(builder).build().unwrap().allowed_roots()
}

#[test]
fn a_search_of_everything_in_force_visits_each_place_once() {
    let tree = Tree::new("file r/a/f; file r/g; file s/f; dir t");
    #[cfg(unix)]
    tree.add(r"file r/file:/a = x; file r/b\c");
    let list = ["r/a", "s/f", "r", "gone"].map(|path| tree.uri(path));
    let boundary = Boundary::builder().directory(tree.path(""), Access::ReadOnly).build().unwrap();
    let roots = boundary.narrow(&ListRootsResult::from_uris(list).roots).unwrap();
    let outermost = roots.check_all().unwrap();
    let tops: Vec<_> = outermost.iter().map(|it| it.root().path().file_name().unwrap()).collect();
    assert_eq!(tops, ["f", "r"]);
    assert_eq!(code(outermost[0].walk(WalkOptions::default())), Some("not_a_directory"));
    let of_r = tree.roots(["r"]);
    for (roots, mut walk) in [
        (&roots, outermost[1].walk(WalkOptions::default()).unwrap()),
        (&of_r, of_r.walk(".", WalkOptions::default()).unwrap()),
    ] {
        while let Some(entry) = walk.next_entry().unwrap() {
            // The path of an entry is a request.
            let path = entry.path().into_os_string().into_string().unwrap();
            let named = roots.check_entry(path).unwrap();
            assert_eq!(named.place_key(), entry.to_entry().place_key());
        }
    }
    let gone = boundary.narrow(&ListRootsResult::from_uris([tree.uri("gone")]).roots).unwrap();
    assert_eq!(code(gone.check_all()), Some("root_unavailable"));
    let none = boundary.narrow(&ListRootsResult::default().roots).unwrap();
    assert_eq!(code(none.check_all()), Some("outside_roots"));
}

#[test]
fn reads_enforce_their_limit_and_text_must_be_utf8() {
    let tree = Tree::new("file root/f = 12345; dir root/d");
    fs::write(tree.path("root/bytes"), [b'a', 0xff]).unwrap();
    let roots = tree.roots(["root"]);
    let line = BufReader::new(roots.open("bytes").unwrap()).lines().next().unwrap();
    assert_eq!(mcp_roots_guard::Error::from(line.unwrap_err()).code(), "not_utf8");
    assert_eq!(roots.read("f", 5).unwrap(), b"12345");
    assert_eq!(code(roots.read("f", 4)), Some("too_large"));
    assert_eq!(roots.read_to_string("f", u64::MAX).unwrap(), "12345");
    assert_eq!(code(roots.read_to_string("bytes", 9)), Some("not_utf8"));
    assert_eq!(roots.open("bytes").unwrap().read_all(2).unwrap(), [b'a', 0xff]);
    assert_eq!(roots.open("f").unwrap().metadata().len(), 5);
    assert_eq!(code(roots.open("d")), Some("is_a_directory"));
    let checked = roots.check("f").unwrap();
    assert_eq!(checked.read_to_string(9).unwrap(), "12345");
    assert_eq!(checked.open().unwrap().read_all(9).unwrap(), b"12345");
    // A sparse file can claim any size. The limit applies to that size, and reading must not
    // allocate memory for it.
    fs::File::create(tree.path("root/sparse")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(code(roots.read("sparse", 1 << 20)), Some("too_large"));
    assert_eq!(code(roots.open("sparse").unwrap().read_all(0)), Some("too_large"));
    // A file that grows during a read still respects the limit. Files in /proc have size 0.
    #[cfg(target_os = "linux")]
    {
        let process = Roots::from_dirs(
            ["/proc/self/task".to_string().replace("self", &std::process::id().to_string())],
            Access::ReadWrite,
        );
        let name = format!("{}/status", std::process::id());
        assert_eq!(code(process.unwrap().read(name.as_str(), 10)), Some("too_large"));
    }
}

#[test]
fn an_open_mode_that_does_not_suit_what_is_there_is_refused() {
    let tree = Tree::new("file root/f; dir root/d");
    let roots = tree.roots(["root"]);
    for (name, mode, expected) in [
        ("f", OpenMode::CreateNew, "already_exists"),
        ("d", OpenMode::CreateNew, "already_exists"),
        ("d", OpenMode::Truncate, "is_a_directory"),
        ("new", OpenMode::ReadWrite, "not_found"),
        ("none/x", OpenMode::Create, "not_found"),
    ] {
        assert_eq!(code(roots.open_with(name, mode)), Some(expected), "{name} {mode:?}");
    }
    // If a symlink appears where the check found nothing, it is not followed.
    let checked = roots.check("later").unwrap();
    tree.add("file out = o; link root/later -> ../out");
    let refused = if symlinks_are_visible() { "changed" } else { "outside_roots" };
    assert_eq!(code(checked.open_with(OpenMode::Create)), Some(refused));
    assert_eq!(code(checked.write("x")), Some(refused));
    assert_eq!(fs::read(tree.path("out")).unwrap(), b"o");
}

#[cfg(target_os = "linux")]
#[test]
fn a_write_replaces_the_file_atomically_and_keeps_its_mode() {
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
    assert_eq!(
        roots.metadata(&name).unwrap().permission_bits().unwrap() & 0o111,
        0,
        "not executable"
    );
    assert_eq!(code(roots.write("d", "x")), Some("is_a_directory"));
    assert_eq!(code(roots.write(".", "x")), Some("is_a_directory"));
    assert_eq!(code(roots.write("none/x", "x")), Some("not_found"));
}

/// A file is truncated only after it has been verified, so a refused hard link leaves the other
/// name intact.
#[test]
fn a_refused_hard_link_is_not_truncated() {
    let tree = Tree::new("file out/f = whole; dir root; hard root/h = out/f");
    tree.add("file root/spare = content");
    let refuse = with_rule(&tree, BoundaryBuilder::refuse_hard_links);
    let opens = |attempt: &Attempt| {
        let name = attempt.operation.name;
        matches!(attempt.path().target, Target::File | Target::FileOrNew)
            && !["remove", "rename", "change_set"].iter().any(|it| name.starts_with(it))
    };
    for attempt in attempts().filter(opens) {
        let name = attempt.name();
        let refused = code(attempt.run(Way::Directly, &refuse, "h"));
        assert_eq!(refused, Some("hard_linked"), "{name}");
        assert_eq!(fs::read(tree.path("out/f")).unwrap(), b"whole", "{name}");
    }
    let allow = tree.roots(["root"]);
    assert_eq!(allow.read("h", 9).unwrap(), b"whole");
    // An atomic write replaces the name, and the other file keeps its content.
    allow.write("h", "mine").unwrap();
    assert_eq!(fs::read(tree.path("out/f")).unwrap(), b"whole");
}

/// Opening a FIFO for writing would wake a reader that waits for it.
#[cfg(target_os = "linux")]
#[test]
fn opening_a_fifo_for_writing_does_not_wake_its_reader() {
    let tree = Tree::new("fifo root/p");
    let roots = tree.roots(["root"]);
    let path = tree.path("root/p");
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let reader = open(&path, flags, Mode::empty()).unwrap();
    for mode in [OpenMode::ReadWrite, OpenMode::Create, OpenMode::Truncate, OpenMode::Append] {
        assert_eq!(code(roots.open_with("p", mode)), Some("special_file"), "{mode:?}");
    }
    assert_eq!(code(roots.write("p", "x")), Some("special_file"));
    // A reader polls as hung up as soon as a writer has opened the FIFO and closed it (poll(2)).
    let had_writer = || {
        let mut polled = [PollFd::new(&reader, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).unwrap() > 0
    };
    assert!(!had_writer(), "the reader was woken");
    drop(fs::File::options().write(true).open(path).unwrap());
    assert!(had_writer());
}

#[cfg(target_os = "linux")]
#[test]
fn every_operation_that_opens_refuses_special_files_immediately() {
    let tree = Tree::new(
        "fifo root/p; socket root/s; link root/l -> p; file root/spare = content; \
         dir root/spare-dir",
    );
    let mut special = vec!["l", "p", "s"];
    // Only root can create devices: a copy of /dev/null, and one without a driver.
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
        for attempt in attempts().filter(|it| !it.operation.name.contains("rename")) {
            let name = attempt.name();
            let is = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
            let expected = match attempt.path().target {
                _ if is(&["check", "metadata", "symlink_metadata"]) => continue,
                _ if is(&["change_set(remove", "change_set to", "within"]) => Some("special_file"),
                // These remove it.
                _ if is(&["remove_file", "change_set from"]) => continue,
                Target::Symlink if *request == "l" => None,
                Target::Symlink => Some("not_a_symlink"),
                Target::Missing if is(&["change_set(create_dir"]) => Some("already_exists"),
                Target::Missing | Target::MissingTree
                    if !is(&[
                        "copy(",
                        "write_with(WRITTEN, parents",
                        "atomic_file",
                        "change_set(",
                    ]) =>
                {
                    Some("already_exists")
                }
                Target::Directory | Target::Tree | Target::EmptyDirectory => {
                    Some("not_a_directory")
                }
                _ => Some("special_file"),
            };
            let refused = code(attempt.run(Way::Directly, &roots, request));
            assert_eq!(refused, expected, "{name} {request}");
        }
    }
    println!("{special:?}: refused in {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
    let null = Roots::from_dirs(["/dev"], Access::ReadWrite).unwrap().metadata("null").unwrap();
    assert_eq!(null.file_type().to_string(), "device");
    // If the policy allows special files, they are opened without blocking.
    let tree = Tree::new("fifo root/p; link root/l -> p");
    let allow = with_rule(&tree, BoundaryBuilder::allow_special_files);
    assert_eq!(allow.open("p").unwrap().metadata().file_type(), FileType::Fifo);
    assert_eq!(allow.read("p", 9).unwrap(), b"");
    assert_eq!(
        code(allow.open_with("p", OpenMode::Append)),
        Some("special_file"),
        "opening a FIFO without a reader (ENXIO)"
    );
    for name in ["p", "l"] {
        assert_eq!(code(allow.hard_link(name, "new")), Some("special_file"), "{name}");
    }
    // A file that replaces one is private, because the FIFO is not opened to read its access list.
    fs::set_permissions(tree.path("root/p"), fs::Permissions::from_mode(0o666)).unwrap();
    allow.write("p", "text").unwrap();
    let written = fs::metadata(tree.path("root/p")).unwrap();
    assert_eq!((written.len(), written.mode() & 0o7777), (4, 0o600));
}

#[cfg(target_os = "linux")]
#[test]
fn a_listing_describes_each_entry_without_following_symlinks() {
    let tree = Tree::new(
        "file root/d/f = 12345; fifo root/d/p; socket root/d/s; \
         link root/d/l -> ../../out/secret; dir root/d/e; file out/secret = 123; \
         link root/ld -> d",
    );
    let roots = tree.roots(["root"]);
    for request in ["d", "ld", "d/."] {
        let mut entries: Vec<_> = roots.read_dir(request).unwrap().map(Result::unwrap).collect();
        entries.sort_by(|one, other| one.file_name().cmp(other.file_name()));
        let types: Vec<_> = entries
            .iter()
            .map(|entry| (entry.file_name().to_str().unwrap(), entry.file_type()))
            .collect();
        let expected = [
            ("e", FileType::Directory),
            ("f", FileType::File),
            ("l", FileType::Symlink),
            ("p", FileType::Fifo),
            ("s", FileType::Socket),
        ];
        assert_eq!(types, expected, "{request}");
        let [listed, link] = [1, 2].map(|number| entries[number].metadata().unwrap());
        let opened = roots.open("d/f").unwrap();
        for same in [&roots.metadata("d/f").unwrap(), opened.metadata()] {
            let [listed, same] = [&listed, same].map(|it| {
                (it.created(), it.modified(), it.len(), it.permission_bits(), it.hard_links())
            });
            assert_eq!(listed, same, "{request}");
        }
        assert!(listed.len() == 5 && listed.modified().is_some());
        assert_eq!(link.len(), "../../out/secret".len() as u64, "the size of the symlink itself");
    }
    assert_eq!(roots.metadata("ld").unwrap().file_type(), FileType::Directory);
    let link = roots.check_entry("ld").unwrap().metadata().unwrap();
    assert_eq!(link.file_type(), FileType::Symlink);
    assert_eq!(roots.metadata("d/f").unwrap().permission_bits(), Some(0o644));
}

#[cfg(target_os = "linux")]
#[test]
fn a_walk_follows_no_symlink_below_its_directory() {
    let tree = Tree::new(
        "file root/a/b/f; file root/a/z; link root/a/loop -> ..; link root/out -> ../out; \
         file out/secret; fifo root/p; dir root/c",
    );
    let roots = tree.roots(["root"]);
    let paths = |request: &str| -> Vec<_> {
        let entries = walked(roots.walk(request, WalkOptions::default()).unwrap()).into_iter();
        entries.map(|entry| entry.unwrap().relative().display().to_string()).collect()
    };
    assert_eq!(paths("."), ["a", "a/b", "a/b/f", "a/loop", "a/z", "c", "out", "p"]);
    assert_eq!(paths("a/loop/a"), ["b", "b/f", "loop", "z"]);
    // A directory that becomes a symlink before the walk enters it is skipped.
    let mut walk = roots.walk(".", WalkOptions::default()).unwrap();
    assert_eq!(walk.next_entry().unwrap().unwrap().relative().to_str(), Some("a"));
    fs::rename(tree.path("root/a"), tree.path("root/was-a")).unwrap();
    tree.add("link root/a -> ../out");
    assert_eq!(walk.next_entry().unwrap().unwrap().relative().to_str(), Some("c"));
    let deep = "d/".repeat(WALK_DEPTH + 1);
    fs::create_dir_all(tree.path("root/c").join(&deep)).unwrap();
    assert_eq!(code(roots.remove_dir_all("c")), Some("too_deep"));
}

#[test]
fn a_rename_moves_between_roots_and_moves_a_symlink_itself() {
    let tree = Tree::new(
        "file a/f = A; file a/g = G; dir a/d; dir b; link a/l -> f; link a/out -> ../out; dir out",
    );
    let roots = tree.roots(["a", "b"]);
    let at = |path: &str| tree.path(path).to_str().unwrap().to_owned();
    roots.rename("f", at("b/f"), Precondition::Missing).unwrap();
    roots.rename(at("b/f"), "g", Precondition::Any).unwrap();
    assert_eq!(fs::read(tree.path("a/g")).unwrap(), b"A");
    assert_eq!(code(roots.rename("out/none", "x", Precondition::Missing)), Some("outside_roots"));
    // Renaming a symlink moves the symlink, and replacing one replaces the symlink.
    if symlinks_are_visible() {
        roots.rename("l", "d/l", Precondition::Missing).unwrap();
        assert!(fs::symlink_metadata(tree.path("a/d/l")).unwrap().is_symlink());
    } else {
        assert!(roots.rename("l", "d/l", Precondition::Missing).is_err());
        return;
    }
    roots.rename("g", "out", Precondition::Any).unwrap();
    assert!(tree.path("out").is_dir() && fs::read(tree.path("a/out")).unwrap() == b"A");
    let from = roots.check_entry("out").unwrap();
    let to = roots.check_entry("back").unwrap();
    from.rename(&to, Precondition::Missing).unwrap();
    assert_eq!(roots.read("back", 9).unwrap(), b"A");
}

#[test]
fn directories_are_created_with_their_parents_only_if_requested() {
    let tree = Tree::new("file root/f; link root/l -> d; link root/n -> x/y");
    let roots = tree.roots(["root"]);
    roots.create_dir("d/").unwrap();
    assert_eq!(code(roots.create_dir("d")), Some("already_exists"));
    assert_eq!(code(roots.create_dir("none/x")), Some("not_found"));
    assert_eq!(code(roots.create_dir("f/x")), Some("not_a_directory"));
    assert_eq!(code(roots.create_dir(".")), Some("already_exists"));
    if symlinks_are_visible() {
        roots.create_dir_all("l/p/q").unwrap();
        assert!(tree.path("root/d/p/q").is_dir());
        roots.create_dir_all("n/z").unwrap();
        assert!(tree.path("root/x/y/z").is_dir());
    }
    roots.create_dir_all("d/p/q").unwrap();
    roots.create_dir_all("d/p/q").unwrap();
    assert_eq!(code(roots.create_dir_all("f")), Some("already_exists"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_removal_affects_the_entry_itself_and_never_a_root() {
    let tree = Tree::new(
        "file root/f; link root/l -> d; file root/d/in/deep; file root/d/f; \
         link root/d/out -> ../../out; file out/keep; fifo root/d/p; \
         link root/dangling -> none; file root/in/root/f; file root/in/g",
    );
    let roots = tree.roots(["root", "root/in/root"]);
    assert_eq!(code(roots.remove_dir("d")), Some("directory_not_empty"));
    assert_eq!(code(roots.remove_file("d")), Some("is_a_directory"));
    assert_eq!(code(roots.remove_dir("f")), Some("not_a_directory"));
    assert_eq!(code(roots.remove_dir_all("f")), Some("not_a_directory"));
    for request in ["l", "l/"] {
        assert_eq!(code(roots.remove_dir_all(request)), Some("not_a_directory"), "{request}");
        assert_eq!(code(roots.remove_dir(request)), Some("not_a_directory"), "{request}");
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
            roots.rename(&request, "x", Precondition::Missing),
            roots.rename("f", &request, Precondition::Any),
        ] {
            assert_eq!(code(result), Some("root_itself"), "{request}");
        }
    }
    roots.remove_file("in/g").unwrap();
    assert_eq!(code(roots.remove_file("in/g")), Some("not_found"));
    // As in rmdir(2), `.` and `..` do not name an entry. A proof that followed symlinks cannot be
    // used to remove an entry.
    tree.add("file root/p/q/f; link root/lf -> f");
    for request in ["p/q/..", "p/q/.", "p/q/../."] {
        assert_eq!(code(roots.remove_dir_all(request)), Some("dot_name"), "{request}");
        assert_eq!(
            code(roots.rename(request, "x", Precondition::Missing)),
            Some("dot_name"),
            "{request}"
        );
    }
    assert_eq!(code(roots.check("lf").unwrap().entry()), Some("followed_symlink"));
    assert_eq!(fs::read(tree.path("root/f")).unwrap(), b"root/f");
}

#[test]
fn a_read_only_directory_refuses_every_change() {
    let tree = Tree::new("file root/f; dir root/d; file root/spare = content; dir root/spare-dir");
    let boundary =
        Boundary::builder().directory(tree.path("root"), Access::ReadOnly).build().unwrap();
    let roots = boundary.allowed_roots();
    let before = tree.snapshot("root");
    for request in ["f", "d", "new"] {
        for attempt in attempts().filter(|attempt| attempt.operation.changes()) {
            let refused = code(attempt.run(Way::Directly, &roots, request));
            // A missing file cannot be opened, whatever access is granted.
            let is_missing = refused == Some("not_found") && request == "new";
            let name = attempt.name();
            assert!(refused == Some("read_only") || is_missing, "{name} {request}: {refused:?}");
        }
    }
    assert_eq!(tree.snapshot("root"), before);
    assert_eq!(roots.read("f", 9).unwrap(), b"root/f");
    // What must not be changed is copied.
    let to = Tree::new("dir root");
    let copy = to.path("root/copy");
    let builder = Boundary::builder().directory(tree.path("root"), Access::ReadOnly);
    let both = builder.directory(to.path("root"), Access::ReadWrite).build().unwrap();
    both.allowed_roots().copy("f", copy.as_path(), 9, WriteOptions::default()).unwrap();
    assert_eq!(fs::read(copy).unwrap(), b"root/f");
}

/// A filesystem mounted inside a root is served by default, refused by policy, and never entered by
/// a recursive removal.
#[cfg(target_os = "linux")]
#[test]
fn the_operator_controls_mount_crossing_and_mounts_are_never_removed() {
    // /proc and /dev are mounts on every Linux system that runs this test, and the root `/`
    // contains them.
    let builder = Boundary::builder().directory("/", Access::ReadWrite);
    let allow = builder.clone().build().unwrap().allowed_roots();
    let refuse = builder.refuse_mounts().build().unwrap().allowed_roots();
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
            ("check", refuse.check(request).map(drop)),
            ("read_dir", refuse.read_dir(request).map(drop)),
            ("write", refuse.open_with(request, OpenMode::ReadWrite).map(drop)),
        ] {
            assert_eq!(code(result), Some("mount_crossing"), "{operation} {request}");
        }
    }
    let walked: Vec<_> =
        walked(refuse.walk("/", WalkOptions::default().max_depth(2).skip_unreadable()).unwrap())
            .into_iter()
            .map(Result::unwrap)
            .collect();
    let holds = |name: &str| walked.iter().any(|it| it.relative().parent() == Some(name.as_ref()));
    assert!(holds("etc") && !holds("proc"));
    assert_eq!(code(allow.remove_dir_all("/proc")), Some("mount_crossing"));
}

#[test]
fn length_limits_are_exact() {
    use mcp_roots_guard::Location;
    use mcp_roots_guard::limits::{NAME_BYTES, PATH_BYTES, URI_BYTES};
    let tree = Tree::new("dir root/d");
    let roots = tree.roots(["root"]);
    let path = |len: usize| "d/".repeat(len / 2) + &"d"[..len % 2];
    assert!(Location::parse(&path(PATH_BYTES - 1)).is_ok());
    assert_eq!(code(Location::parse(&path(PATH_BYTES))), Some("too_long"));
    assert_eq!(
        code(Location::parse(&("file:///".to_string() + &"x".repeat(URI_BYTES)))),
        Some("too_long")
    );
    assert_eq!(
        code(Location::parse(&("file:///".to_string() + &"./".repeat(URI_BYTES)))),
        Some("too_long"),
        "a URI that normalizes to `/`"
    );
    assert_eq!(code(roots.check("n".repeat(NAME_BYTES).as_str())), None);
    let long = "n".repeat(NAME_BYTES + 1);
    for request in [long.clone(), format!("d/{long}/x"), format!("none/{long}")] {
        assert_eq!(code(roots.check(request.as_str())), Some("too_long"), "{request}");
        assert_eq!(code(roots.check_entry(request.as_str())), Some("too_long"), "{request}");
    }
    let location = Location::parse("d").unwrap();
    assert!(roots.check(&location).unwrap().exists());
}

#[test]
fn a_proof_reports_its_root_and_paths_and_a_refusal_quotes_its_request() {
    let tree = Tree::new("file root/a b/f; file root/g");
    let roots = tree.roots(["root"]);
    let checked = roots.check("a b/../a b/f").unwrap();
    assert_eq!(checked.root().path(), tree.path("root"));
    assert_eq!(checked.relative(), std::path::Path::new("a b/f"));
    let path = tree.path("root").join("a b").join("f");
    assert_eq!(checked.to_unguarded_path(), path);
    assert_eq!(checked.to_unguarded_path().display().to_string(), path.to_str().unwrap());
    assert_eq!(checked.uri(), tree.uri("root/a%20b/f"));
    let missing = roots.read("x\u{80}", 9).unwrap_err();
    assert_eq!(missing.code(), "not_found");
    assert!(missing.to_string().starts_with(r#"read "x\u{80}": "#), "{missing}");
}

/// The object may have been replaced between the check and the open, so the opened object is
/// verified again.
#[cfg(target_os = "linux")]
#[test]
fn a_file_replaced_after_its_check_is_verified_again() {
    let tree = Tree::new("file root/f; file root/h; file root/l; file root/other; file out/kept");
    let roots = with_rule(&tree, BoundaryBuilder::refuse_hard_links);
    for (name, planted, expected) in [
        ("f", "fifo root/f", "special_file"),
        ("h", "hard root/h = out/kept", "hard_linked"),
        ("l", "link root/l -> other", "changed"),
    ] {
        let checked = roots.check(name).unwrap();
        fs::remove_file(tree.path("root").join(name)).unwrap();
        tree.add(planted);
        let opened = [checked.open(), checked.open_with(OpenMode::ReadWrite)];
        assert_eq!(opened.map(code), [Some(expected); 2], "{planted}");
        assert_eq!(code(checked.read(99)), Some(expected), "{planted}");
    }
}

/// A symlink's target is followed exactly as stored, byte for byte.
#[cfg(target_os = "linux")]
#[test]
fn a_symlink_target_that_is_not_utf8_is_followed_exactly() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    let odd = OsStr::from_bytes(b"d\xff");
    fs::write(tree.path("root").join(odd), "odd").unwrap();
    fs::write(tree.path("root/d\u{fffd}"), "as a text").unwrap();
    std::os::unix::fs::symlink(odd, tree.path("root/relative")).unwrap();
    // The kernel cannot follow an absolute symlink beneath the root.
    std::os::unix::fs::symlink(tree.path("root").join(odd), tree.path("root/absolute")).unwrap();
    for link in ["relative", "absolute"] {
        assert_eq!(roots.read(link, 99).unwrap(), b"odd", "{link}");
        assert_eq!(roots.check(link).unwrap().relative(), odd, "{link}");
    }
}
