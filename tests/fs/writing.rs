//! Options of writes, files that are written in pieces, conditional changes, and change sets.

use std::fs;
use std::io::{Seek as _, Write as _};
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::thread;

use mcp_roots_guard::limits::{CHANGE_SET_BYTES, CHANGES, COMPARED_BYTES, WALK_DEPTH};
use mcp_roots_guard::{
    Access, AtomicFile, ChangeSet, CheckedEntry, ContentHash, Durability, Error, ErrorKind,
    OpenMode, Precondition, Result, Roots, WriteMethod, WriteOptions,
};

use crate::support::code;
use crate::support::one_step::OneStep as _;
use crate::support::tree::{Tree, symlinks_are_visible};

fn new() -> WriteOptions {
    WriteOptions::default()
}

fn if_unchanged(content: &str) -> WriteOptions {
    new().precondition(Precondition::Unchanged(ContentHash::of(content.as_bytes())))
}

/// The names in a directory.
fn names(path: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn missing_parents_are_created_only_if_requested() {
    let tree = Tree::new("dir root/there");
    let roots = tree.roots(["root"]);
    assert_eq!(code(roots.write("a/b/f", "x")), Some("not_found"));
    assert_eq!(code(roots.write_with("a/b/f", "x", new())), Some("not_found"));
    assert_eq!(names(tree.path("root")), ["there"]);
    roots.write_with("a/b/f", "1", new().create_parents()).unwrap();
    roots.write_with("a/b/f", "2", new().create_parents()).unwrap();
    roots.write_with("a/c/f", "3", new().create_parents()).unwrap();
    assert_eq!(fs::read(tree.path("root/a/b/f")).unwrap(), b"2");
    assert_eq!(fs::read(tree.path("root/a/c/f")).unwrap(), b"3");
    assert_eq!(names(tree.path("root/a/b")), ["f"]);

    // So does a proof, whatever was missing when it was made.
    let checked = roots.check("p/q/f").unwrap();
    assert_eq!(code(checked.write("4")), Some("not_found"));
    assert!(!tree.path("root/p").exists());
    checked.write_with("4", new().create_parents()).unwrap();
    checked.write("5").unwrap();
    assert_eq!(fs::read(tree.path("root/p/q/f")).unwrap(), b"5");
    let checked = roots.check("r/s/f").unwrap();
    roots.create_dir_all("r/s").unwrap();
    checked.write("6").unwrap();
    assert_eq!(fs::read(tree.path("root/r/s/f")).unwrap(), b"6");
    let (file, directory) = (roots.check("t/f").unwrap(), roots.check("t/d").unwrap());
    roots.create_dir("t").unwrap();
    directory.create_dir().unwrap();
    drop(file.open_with(OpenMode::CreateNew).unwrap());
    let checked = roots.check("there/f").unwrap();
    fs::remove_dir(tree.path("root/there")).unwrap();
    assert_eq!(code(checked.write("6")), Some("not_found"));
    // The directory was there when the path was checked.
    checked.write_with("6", new().create_parents()).unwrap();
    assert_eq!(fs::read(tree.path("root/there/f")).unwrap(), b"6");
    // A request that names a directory does not name a file that is there later.
    let directory = roots.check("new/").unwrap();
    fs::write(tree.path("root/new"), "7").unwrap();
    for refused in [
        code(directory.read(9)),
        code(directory.metadata()),
        code(directory.open_with(OpenMode::ReadWrite)),
        code(directory.content_hash(9)),
    ] {
        assert_eq!(refused, Some("not_a_directory"));
    }
    assert_eq!(code(directory.write("8")), Some("is_a_directory"));
}

#[test]
fn created_parents_of_a_failed_write_are_removed() {
    let tree = Tree::new("dir root; file root/f");
    let roots = tree.roots(["root"]);
    let parents = new().create_parents();
    let begun = || {
        let mut file = roots.atomic_file("a/b/c/new", parents).unwrap();
        file.write_all(b"half").unwrap();
        file
    };
    // Dropped.
    drop(begun());
    assert_eq!(names(tree.path("root")), ["f"]);
    // The version cannot match, because the file does not exist.
    let refused = roots.write_with("a/b/c/new", "x", if_unchanged("").create_parents());
    assert_eq!(code(refused), Some("modified"));
    assert_eq!(names(tree.path("root")), ["f"]);
    // Another process has put something into one of the directories.
    let file = begun();
    tree.add("file root/a/b/kept");
    drop(file);
    assert_eq!(names(tree.path("root/a/b")), ["kept"]);
    // The directories that existed before are kept, even if they are empty.
    fs::remove_file(tree.path("root/a/b/kept")).unwrap();
    drop(begun());
    assert_eq!(names(tree.path("root/a")), ["b"]);
    assert!(names(tree.path("root/a/b")).is_empty());
    // A name that is too long or a file among the parents creates nothing.
    for request in [&format!("x/y/{}", "n".repeat(300)), "f/x/y", "../x/y", "x/../../y/z"] {
        assert!(roots.write_with(request, "x", parents).is_err(), "{request}");
    }
    assert_eq!(names(tree.path("root")), ["a", "f"]);
}

#[cfg(unix)]
#[test]
fn directory_that_replaced_a_created_parent_is_kept() {
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    let file = roots.atomic_file("a/b/f", new().create_parents()).unwrap();
    fs::rename(tree.path("root/a/b"), tree.path("root/moved")).unwrap();
    fs::create_dir(tree.path("root/a/b")).unwrap();
    drop(file);
    assert_eq!(names(tree.path("root/a")), ["b"]);
    assert!(names(tree.path("root/moved")).is_empty());
}

#[test]
fn atomic_file_appears_when_it_is_committed() {
    let tree = Tree::new("file root/f = old; dir root/d");
    let roots = tree.roots(["root"]);
    let read = |name: &str| fs::read_to_string(tree.path("root").join(name)).unwrap();
    let write = |mut file: AtomicFile| {
        file.write_all(b"__ content").unwrap();
        file.rewind().unwrap();
        file.write_all(b"my").unwrap();
        file.flush().unwrap();
        file
    };
    let old = write(roots.atomic_file("f", new()).unwrap());
    assert_eq!(read("f"), "old");
    old.commit().unwrap();
    assert_eq!(read("f"), "my content");
    let absent = write(roots.atomic_file("new", new()).unwrap());
    assert!(!tree.path("root/new").exists());
    absent.commit().unwrap();
    assert_eq!(read("new"), "my content");
    drop(write(roots.atomic_file("f", new()).unwrap()));
    assert_eq!(names(tree.path("root")), ["d", "f", "new"]);
    assert_eq!(code(roots.atomic_file("d", new())), Some("is_a_directory"));
    assert_eq!(code(roots.atomic_file(".", new())), Some("is_a_directory"));
    assert_eq!(code(roots.atomic_file("../x", new())), Some("outside_roots"));
    // A root that is a single file can be written only in place.
    let only = tree.roots(["root/f"]);
    let in_place = new().in_place();
    only.write_with(tree.path("root/../root/f"), "my content", in_place).unwrap();
    assert_eq!(code(only.atomic_file(tree.path("root/f"), new())), Some("root_itself"));
    for options in [new(), if_unchanged("my content")] {
        let in_place = options.in_place();
        only.write_with(tree.path("root/f"), "my content", in_place).unwrap();
    }
    let read_only = roots.read_only();
    assert_eq!(code(read_only.atomic_file("f", new())), Some("read_only"));
}

/// What must be missing is never overwritten, so in place changes nothing about it.
#[test]
fn a_file_that_must_be_missing_is_created_or_refused_in_place_too() {
    let tree = Tree::new("file root/f = old");
    let roots = tree.roots(["root"]);
    let missing = new().precondition(Precondition::Missing);
    for (name, method) in [("1", missing.in_place()), ("2", missing.in_place_if_owner_changes())] {
        assert_eq!(code(roots.write_with("f", "x", method)), Some("already_exists"));
        roots.write_with(name, "x", method).unwrap();
        assert_eq!(roots.read(name, 9).unwrap(), b"x");
        assert_eq!(code(roots.copy(name, "f", 9, method).map(drop)), Some("already_exists"));
    }
    assert_eq!(roots.read("f", 9).unwrap(), b"old");
}

#[test]
fn existing_file_is_refused_if_the_options_say_so() {
    let tree = Tree::new("file root/f = old; dir root/d");
    let roots = tree.roots(["root"]);
    let refuse = new().precondition(Precondition::Missing);
    for request in ["f", "d"] {
        assert_eq!(code(roots.write_with(request, "x", refuse)), Some("already_exists"));
        assert_eq!(code(roots.atomic_file(request, refuse)), Some("already_exists"));
    }
    roots.write_with("new", "x", refuse).unwrap();
    // Another process creates the file before the commit. Without the option, its permissions would
    // be lost.
    for (options, expected) in [(refuse, "already_exists"), (new(), "changed")] {
        let file = roots.atomic_file("later", options).unwrap();
        tree.add("file root/later = theirs");
        assert_eq!(code(file.commit()), Some(expected));
        assert_eq!(fs::read(tree.path("root/later")).unwrap(), b"theirs");
        fs::remove_file(tree.path("root/later")).unwrap();
    }
    #[cfg(unix)]
    {
        let file = roots.atomic_file("f", new()).unwrap();
        fs::remove_file(tree.path("root/f")).unwrap();
        assert_eq!(code(file.commit()), Some("changed"));
    }
    if symlinks_are_visible() {
        tree.add("link root/dangling -> target; link root/out -> ../out");
        roots.write_with("dangling", "x", refuse).unwrap();
        assert_eq!(fs::read(tree.path("root/target")).unwrap(), b"x");
        assert_eq!(code(roots.write_with("dangling", "y", refuse)), Some("already_exists"));
        assert_eq!(code(roots.write_with("out", "y", refuse)), Some("outside_roots"));
        // A symlink that appears before the commit is neither followed nor replaced.
        let file = roots.atomic_file("later", refuse).unwrap();
        tree.add("link root/later -> target");
        assert_eq!(code(file.commit()), Some("already_exists"));
        assert_eq!(fs::read(tree.path("root/target")).unwrap(), b"x");
    }
}

#[cfg(unix)]
#[test]
fn atomic_file_gets_the_permissions_that_the_old_file_has_at_the_commit() {
    let tree = Tree::new("file root/f = old");
    let roots = tree.roots(["root"]);
    let path = tree.path("root/f");
    for (before, at_commit) in [(0o644, 0o600), (0o600, 0o640), (0o666, 0o400)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(before)).unwrap();
        let mut file = roots.atomic_file("f", new()).unwrap();
        file.write_all(b"secret").unwrap();
        let temporary = names(tree.path("root")).remove(0);
        let temporary = fs::metadata(tree.path("root").join(temporary)).unwrap();
        assert_eq!(temporary.mode() & 0o7777, 0o600, "only the owner can read it");
        fs::set_permissions(&path, fs::Permissions::from_mode(at_commit)).unwrap();
        file.commit().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, at_commit);
        assert_eq!(fs::read(&path).unwrap(), b"secret");
    }
}

/// The old file becomes private after the new one has got its permissions, while its content is
/// compared. The new content must be private too.
#[cfg(unix)]
#[test]
fn new_file_is_private_if_the_old_one_becomes_private_during_the_commit() {
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    let path = tree.path("root/f");
    let old = vec![b'x'; 8 << 20];
    fs::write(&path, &old).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let condition = new()
        .precondition(Precondition::Unchanged(ContentHash::of(&old)))
        .durability(Durability::None);
    let mut file = roots.atomic_file("f", condition).unwrap();
    file.write_all(b"secret").unwrap();
    let temporary = tree.path("root").join(names(tree.path("root")).remove(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            // Waits until the new file has the permissions of the old one.
            while fs::metadata(&temporary).is_ok_and(|file| file.mode() & 0o7777 == 0o600) {
                thread::yield_now();
            }
            assert!(temporary.exists(), "the file was committed too early");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        });
        file.commit().unwrap();
    });
    assert_eq!(fs::read(&path).unwrap(), b"secret");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
}

#[cfg(target_os = "linux")]
#[test]
fn conditional_rename_to_another_device_is_refused() {
    let (tree, other) = (Tree::new("file root/f = old"), Tree::in_memory("file root/f = other"));
    if fs::metadata(tree.path("root")).unwrap().dev()
        == fs::metadata(other.path("root")).unwrap().dev()
    {
        return crate::support::skip::skip("temporary files and /dev/shm are on the same device");
    }
    let roots =
        Roots::from_dirs([tree.path("root"), other.path("root")], Access::ReadWrite).unwrap();
    // The files are not compared, because their devices could hang.
    for version in ["other", "new"] {
        let replace = Precondition::Unchanged(ContentHash::of(version.as_bytes()));
        let renamed = roots.rename(tree.path("root/f"), other.path("root/f"), replace);
        assert_eq!(code(renamed), Some("cross_device"), "{version}");
    }
    assert_eq!(fs::read(other.path("root/f")).unwrap(), b"other");
}

/// The size in a version comes from the caller of a tool.
#[test]
fn content_is_compared_only_up_to_a_limit() {
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    let size = COMPARED_BYTES + 1;
    fs::File::create(tree.path("root/sparse")).unwrap().set_len(size).unwrap();
    let zeros = "0".repeat(64);
    let version = |size: u64| format!("{size}-{zeros}").parse::<ContentHash>().unwrap();
    let write = |version| {
        code(roots.write_with(
            "sparse",
            "new",
            new().precondition(Precondition::Unchanged(version)),
        ))
    };
    assert_eq!(write(version(size)), Some("too_large"));
    assert_eq!(code(roots.remove_file_if("sparse", version(size))), Some("too_large"));
    assert_eq!(write(version(size - 1)), Some("modified"));
    assert_eq!(fs::metadata(tree.path("root/sparse")).unwrap().len(), size);
}

#[test]
fn version_is_the_size_and_the_hash_of_the_content() {
    let tree = Tree::new("file root/f = abc; dir root/d");
    let roots = tree.roots(["root"]);
    // FIPS 180-2, appendix B.1.
    let text = "3-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let version = roots.content_hash("f", 3).unwrap();
    assert_eq!(version.to_string(), text);
    assert_eq!(version, ContentHash::of(b"abc"));
    assert_eq!(text.parse::<ContentHash>().unwrap(), version);
    assert_eq!(serde_json::to_string(&version).unwrap(), format!("{text:?}"));
    assert_eq!(serde_json::from_str::<ContentHash>(&format!("{text:?}")).unwrap(), version);
    // The content is hashed in pieces.
    let long: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    fs::write(tree.path("root/long"), &long).unwrap();
    assert_eq!(roots.content_hash("long", 200_000).unwrap(), ContentHash::of(&long));
    assert_eq!(code(roots.content_hash("long", 199_999)), Some("too_large"));
    let refused = roots.content_hash("f", 2).unwrap_err();
    assert!(refused.to_string().starts_with(r#"read "f": "#), "{refused}");
    assert!(refused.to_string().contains(" 2 "), "{refused}");
    // A sparse file can claim any size.
    fs::File::create(tree.path("root/sparse")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(code(roots.content_hash("sparse", 1 << 30)), Some("too_large"));
    assert_eq!(code(roots.content_hash("d", 9)), Some("is_a_directory"));
    assert_eq!(code(roots.content_hash("none", 9)), Some("not_found"));
    assert_eq!(code(roots.content_hash("../x", 9)), Some("outside_roots"));
    // The size of a file in /proc is 0, so only reading it shows that it is larger.
    #[cfg(target_os = "linux")]
    {
        let process =
            Roots::from_dirs([format!("/proc/{}/task", std::process::id())], Access::ReadWrite)
                .unwrap();
        let name = format!("{}/status", std::process::id());
        assert_eq!(code(process.content_hash(name.as_str(), 10)), Some("too_large"));
    }
}

#[test]
fn text_that_is_not_a_version_is_an_error_of_bounded_length() {
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let bad = [
        "",
        "-",
        "HASH",
        "-HASH",
        "3HASH",
        "03-HASH",
        "+3-HASH",
        "-3-HASH",
        " 3-HASH",
        "3-HASH ",
        "3-SHORT",
        "3-HASH0",
        "3-+SHORT",
        "3-UPPER",
        "3-éééééééééééééééééééééééééééééééé",
        "3-éSHORT",
        "18446744073709551616-HASH",
        "NULS",
        "LONG",
    ];
    let (upper, nuls, long) = (hash.to_uppercase(), "\0".repeat(70), "x".repeat(1 << 20));
    let names = [("HASH", hash), ("SHORT", &hash[1..]), ("UPPER", &upper), ("NULS", &nuls)];
    let names = names.into_iter().chain([("LONG", long.as_str())]);
    let expand = |text: &str| {
        names.clone().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    };
    for text in bad.map(expand) {
        let refused = text.parse::<ContentHash>().unwrap_err();
        assert_eq!(
            (refused.kind(), refused.code()),
            (ErrorKind::InvalidVersion, "invalid_version")
        );
        assert!(refused.to_string().len() < 1000, "{refused}");
        let json = serde_json::to_string(&text).unwrap();
        let refused = serde_json::from_str::<ContentHash>(&json).unwrap_err();
        assert!(refused.to_string().len() < 1000, "{refused}");
    }
    for json in ["3", "null", "[]", "{}"] {
        assert!(serde_json::from_str::<ContentHash>(json).is_err(), "{json}");
    }
    let largest = format!("{}-{hash}", u64::MAX);
    assert_eq!(largest.parse::<ContentHash>().unwrap().to_string(), largest);
    assert_eq!(
        "3".parse::<ContentHash>().unwrap_err().to_string(),
        "parse version \"3\": not the version of a file; use the version from an earlier response \
         unchanged"
    );
}

#[test]
fn conditional_change_requires_the_version() {
    let tree = Tree::new("file root/f = 1; file root/g = 2; dir root/d");
    let roots = tree.roots(["root"]);
    let (one, two) = (ContentHash::of(b"1"), ContentHash::of(b"2"));
    let text = |result: Result<()>| result.unwrap_err().to_string();
    let modified = "the file was modified since it was read; read it again";
    let removed = "the file was removed since it was read";

    let modes: [fn(WriteOptions) -> WriteMethod; 3] =
        [WriteMethod::from, WriteOptions::in_place, WriteOptions::in_place_if_owner_changes];
    for in_place in modes {
        let options = in_place(if_unchanged("2"));
        assert_eq!(text(roots.write_with("f", "x", options)), format!("write \"f\": {modified}"));
        assert_eq!(text(roots.write_with("n", "x", options)), format!("write \"n\": {removed}"));
        assert_eq!(code(roots.write_with("d", "x", options)), Some("is_a_directory"));
        let options = in_place(if_unchanged("1"));
        roots.write_with("f", "longer", options).unwrap();
        roots.write_with("f", "1", in_place(if_unchanged("longer"))).unwrap();
    }
    // The file is modified after the write began.
    let file = roots.atomic_file("f", if_unchanged("1")).unwrap();
    tree.add("file root/f = 3");
    assert_eq!(text(file.commit()), format!("write \"f\": {modified}"));
    let file = roots.atomic_file("f", if_unchanged("3")).unwrap();
    tree.add("file root/f = 4; file root/f = 3");
    file.commit().unwrap();
    tree.add("file root/f = 1");

    let refused = [
        (roots.rename("f", "g", Precondition::Unchanged(one)), "g", modified),
        (roots.rename("f", "new", Precondition::Unchanged(one)), "new", removed),
    ];
    for (refused, to, reason) in refused {
        assert_eq!(text(refused), format!("rename \"f\" to {to:?}: destination: {reason}"));
    }
    roots.rename("f", "g", Precondition::Unchanged(two)).unwrap();
    roots.rename("g", "f", Precondition::Missing).unwrap();
    assert_eq!(code(roots.rename("f", "d", Precondition::Unchanged(one))), Some("is_a_directory"));

    assert_eq!(text(roots.remove_file_if("f", two)), format!("remove \"f\": {modified}"));
    assert_eq!(text(roots.remove_file_if("n", two)), format!("remove \"n\": {removed}"));
    assert_eq!(code(roots.remove_file_if("d", two)), Some("is_a_directory"));
    roots.remove_file_if("f", one).unwrap();
    assert_eq!(names(tree.path("root")), ["d"]);
}

#[cfg(unix)]
#[test]
fn condition_on_a_symlink_concerns_its_target() {
    let tree = Tree::new(
        "file root/d/target = 1; link root/link -> d/target; link root/out -> ../outside; \
         file outside = 1",
    );
    let roots = tree.roots(["root"]);
    assert_eq!(code(roots.write_with("link", "x", if_unchanged("2"))), Some("modified"));
    roots.write_with("link", "2", if_unchanged("1")).unwrap();
    assert_eq!(fs::read(tree.path("root/d/target")).unwrap(), b"2");
    assert!(fs::symlink_metadata(tree.path("root/link")).unwrap().is_symlink());
    assert_eq!(roots.content_hash("link", 9).unwrap(), ContentHash::of(b"2"));
    assert_eq!(code(roots.write_with("out", "x", if_unchanged("1"))), Some("outside_roots"));
    // A removal or a rename concerns the symlink itself, which has no content.
    let one = ContentHash::of(b"1");
    for name in ["link", "out"] {
        assert_eq!(code(roots.remove_file_if(name, one)), Some("special_file"));
        let replaced = roots.rename("d/target", name, Precondition::Unchanged(one));
        assert_eq!(code(replaced), Some("special_file"));
    }
    assert_eq!(fs::read(tree.path("outside")).unwrap(), b"1");
}

/// How often each of two threads increments a number. Wine takes several milliseconds for each.
const INCREMENTS: usize = if cfg!(windows) { 100 } else { 2000 };

/// Increments the number in a file in two threads. `write` returns whether it wrote the content.
/// Returns the number in the end.
fn count(write: impl Fn(&Roots, ContentHash, &str) -> Result<bool> + Sync) -> usize {
    let tree = Tree::in_memory("file root/counter = 0");
    let roots = tree.roots(["root"]);
    let increment = || {
        for _ in 0..INCREMENTS {
            loop {
                let content = roots.read_to_string("counter", 99).unwrap();
                let next = content.parse::<usize>().unwrap() + 1;
                let written = write(&roots, ContentHash::of(content.as_bytes()), &next.to_string());
                match written.map_err(|error| error.kind()) {
                    Ok(true) => break,
                    Ok(false) | Err(ErrorKind::Changed) => {}
                    // Windows does not replace a file that the other thread is reading.
                    Err(ErrorKind::PermissionDenied) if cfg!(windows) => {}
                    Err(kind) => panic!("{kind:?}"),
                }
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(increment);
        scope.spawn(increment);
    });
    roots.read_to_string("counter", 99).unwrap().parse().unwrap()
}

#[test]
fn conditional_writes_of_two_threads_lose_no_update() {
    let options = new().durability(Durability::None);
    let written = count(|roots, version, content| {
        roots
            .write_with("counter", content, options.precondition(Precondition::Unchanged(version)))
            .map(|()| true)
    });
    assert_eq!(written, 2 * INCREMENTS);
    // The control: the version is compared, but then the file is written without a condition.
    let written = count(|roots, version, content| {
        let is_unchanged = roots.content_hash("counter", 99)? == version;
        if is_unchanged {
            roots.write_with("counter", content, options)?;
        }
        Ok(is_unchanged)
    });
    assert!(written < 2 * INCREMENTS, "the control is expected to lose updates");
}

#[test]
fn change_set_changes_nothing_until_it_is_committed() {
    let tree = Tree::new(
        "file root/a = 1; file root/b = 2; file root/c = 3; dir root/d; file root/e = 4; \
         file root/tree/a/b = 5",
    );
    #[cfg(unix)]
    fs::set_permissions(tree.path("root/e"), fs::Permissions::from_mode(0o741)).unwrap();
    let roots = tree.roots(["root"]);
    let before = tree.snapshot("root");
    let prepare = || {
        let mut changes = roots.change_set();
        let parents = new().create_parents();
        changes.write("a", "new", if_unchanged("1")).unwrap();
        changes.write("x/y/one", "one", parents).unwrap();
        changes.write("x/y/z/two", "two", parents).unwrap();
        changes.write("x/three", "three", parents).unwrap();
        changes.remove_file("b", is(b"2")).unwrap();
        changes.rename("c", "d/c", Precondition::Missing).unwrap();
        changes.write_moved("e", is(b"4"), "d/new/dir/e", "new", parents).unwrap();
        changes.create_dir("made").unwrap();
        changes.remove_dir_all("tree").unwrap();
        changes
    };
    let changes = prepare();
    // Before the commit, no file is created or changed, not even a temporary one.
    assert_eq!(tree.snapshot("root"), before);
    drop(changes);
    assert_eq!(tree.snapshot("root"), before);
    prepare().commit().unwrap();
    assert_eq!(names(tree.path("root")), ["a", "d", "made", "x"]);
    let read = |name: &str| fs::read_to_string(tree.path("root").join(name)).unwrap();
    assert_eq!(
        ["a", "x/y/one", "x/y/z/two", "x/three", "d/c", "d/new/dir/e"].map(read),
        ["new", "one", "two", "three", "3", "new"]
    );
    #[cfg(unix)]
    assert_eq!(fs::metadata(tree.path("root/d/new/dir/e")).unwrap().mode() & 0o777, 0o741);
    roots.change_set().commit().unwrap();
}

#[test]
fn change_set_verifies_each_change_when_it_is_added() {
    let tree = Tree::new("file root/a = 1; file root/b = 2; dir root/d; file outside");
    let roots = tree.roots(["root"]);
    let before = tree.snapshot("");
    let mut changes = roots.change_set();
    let cases: [(Add, &str); 25] = [
        (|set| set.write("a", "x", if_unchanged("2")), "modified"),
        (|set| set.write("none/x", "x", new()), "not_found"),
        (|set| set.write("../outside", "x", new()), "outside_roots"),
        (|set| set.remove_file("a", Precondition::Missing), "invalid_options"),
        (|set| set.create_dir("a"), "already_exists"),
        (|set| set.create_dir("none/x"), "not_found"),
        (|set| set.create_dir("../x"), "outside_roots"),
        (|set| set.remove_dir_all("a"), "not_a_directory"),
        (|set| set.remove_dir_all("none"), "not_found"),
        (|set| set.remove_dir_all("."), "root_itself"),
        (|set| set.write("n/x", "x", if_unchanged("1").create_parents()), "modified"),
        (|set| set.remove_file("a", is(b"2")), "modified"),
        (|set| set.remove_file("none", Precondition::Any), "not_found"),
        (|set| set.remove_file("d", Precondition::Any), "is_a_directory"),
        (|set| set.remove_file("../outside", Precondition::Any), "outside_roots"),
        (|set| set.rename("a", "b", Precondition::Missing), "already_exists"),
        (|set| set.rename("a", "b", Precondition::Unchanged(ContentHash::of(b"1"))), "modified"),
        (|set| set.rename("none", "x", Precondition::Missing), "not_found"),
        (|set| set.rename("a", "../x", Precondition::Missing), "outside_roots"),
        (|set| set.rename("a", "d", Precondition::Any), "is_a_directory"),
        (|set| set.rename("d", "a", Precondition::Any), "not_a_directory"),
        (|set| set.rename("d", "d/x", Precondition::Missing), "io"),
        (|set| set.write_moved("a", is(b"2"), "n", "x", new()), "modified"),
        (|set| set.write_moved("d", is(b"2"), "n", "x", new()), "is_a_directory"),
        (|set| set.write_moved("a", is(b"1"), "../n", "x", new()), "outside_roots"),
    ];
    for (number, (add, expected)) in cases.into_iter().enumerate() {
        assert_eq!(code(add(&mut changes)), Some(expected), "case {number}");
    }
    assert_eq!(tree.snapshot(""), before);
    // None of them was added, so the set is still empty.
    changes.commit().unwrap();
    assert_eq!(tree.snapshot(""), before);
}

type Add = fn(&mut ChangeSet) -> Result<()>;

fn is(content: &[u8]) -> Precondition {
    Precondition::Unchanged(ContentHash::of(content))
}

fn write_moved(set: &mut ChangeSet) -> Result<()> {
    set.write_moved("a", is(b"1"), "n", "x", new())
}

#[test]
fn change_set_refuses_two_changes_of_one_file() {
    let tree = Tree::new("file root/a = 1; file root/b = 2; file root/d/f = 3; dir root/e");
    let roots = tree.roots(["root"]);
    let cases: &[(Add, Add)] = &[
        (|set| set.write("a", "x", new()), |set| set.write("a", "y", new())),
        (|set| set.write("a", "x", new()), |set| set.write("e/../a", "y", new())),
        (|set| set.write("n", "x", new()), |set| set.write("./n", "y", new())),
        (|set| set.write("a", "x", new()), |set| set.remove_file("a", Precondition::Any)),
        // It is renamed as it is now.
        (
            |set| set.rename("a", "n", Precondition::Missing),
            |set| set.rename("a", "m", Precondition::Missing),
        ),
        (|set| set.remove_file("a", Precondition::Any), |set| set.write("a", "x", new())),
        (write_moved, |set| set.write("a", "y", new())),
        (write_moved, |set| set.write("n", "y", new())),
        (|set| set.remove_file("a", Precondition::Any), write_moved),
        (|set| set.rename("a", "n", Precondition::Missing), |set| set.write("n", "x", new())),
        (|set| set.rename("a", "n", Precondition::Missing), |set| set.write("a", "x", new())),
        (
            |set| set.rename("a", "n", Precondition::Missing),
            |set| set.rename("b", "n", Precondition::Missing),
        ),
        (|set| set.rename("d", "n", Precondition::Missing), |set| set.write("d/f", "x", new())),
        (|set| set.remove_dir_all("d"), |set| set.write("d/f", "x", new())),
        (|set| set.remove_file("d/f", Precondition::Any), |set| set.remove_dir_all("d")),
        (|set| set.create_dir("n"), |set| set.write("n/f", "x", new().create_parents())),
        // The directories on both paths are missing.
        (
            |set| set.write("n/m/f", "x", new().create_parents()),
            |set| set.write("e/../n/m", "x", new().create_parents()),
        ),
        (|set| set.write("d/f", "x", new()), |set| set.rename("d", "n", Precondition::Missing)),
        (
            |set| set.write("n/f", "x", new().create_parents()),
            |set| set.rename("d", "n", Precondition::Any),
        ),
    ];
    let before = tree.snapshot("root");
    for (number, (first, second)) in cases.iter().enumerate() {
        let mut changes = roots.change_set();
        first(&mut changes).unwrap();
        assert_eq!(code(second(&mut changes)), Some("conflicting_changes"), "case {number}");
        drop(changes);
        assert_eq!(tree.snapshot("root"), before, "case {number}");
    }
}

/// Every version and every destination is verified before anything is changed.
#[test]
fn change_set_changes_nothing_if_one_of_its_files_has_changed() {
    type Change = fn(&Tree);
    let changes: [(&str, &str, Change); 7] = [
        ("write \"c\"", "modified", |tree| tree.add("file root/c = theirs")),
        ("write \"c\"", "is_a_directory", |tree| {
            fs::remove_file(tree.path("root/c")).unwrap();
            tree.add("dir root/c");
        }),
        ("write \"a\"", "is_a_directory", |tree| {
            fs::remove_file(tree.path("root/a")).unwrap();
            tree.add("dir root/a");
        }),
        ("write \"new\"", "changed", |tree| tree.add("file root/new = theirs")),
        ("remove \"d\"", "not_found", |tree| fs::remove_file(tree.path("root/d")).unwrap()),
        ("rename \"b\" to \"moved\"", "already_exists", |tree| {
            tree.add("file root/moved = theirs");
        }),
        ("rename \"b\" to \"moved\"", "not_found", |tree| {
            fs::remove_file(tree.path("root/b")).unwrap();
        }),
    ];
    for (requested, code, change) in changes {
        let tree = Tree::new("file root/a = 1; file root/b = 2; file root/c = 3; file root/d = 4");
        let roots = tree.roots(["root"]);
        let mut changes = roots.change_set();
        changes.write("a", "new", new()).unwrap();
        changes.rename("b", "moved", Precondition::Missing).unwrap();
        changes.write("c", "new", if_unchanged("3")).unwrap();
        changes.remove_file("d", Precondition::Any).unwrap();
        changes.write("new", "new", new()).unwrap();
        change(&tree);
        let before = tree.snapshot("root");
        let partial = changes.commit().unwrap_err();
        let shown = partial.to_string();
        assert!(shown.starts_with(&format!("{requested}: ")), "{shown}");
        assert_eq!(partial.error().code(), code, "{shown}");
        assert_eq!((partial.committed().len(), partial.pending().len()), (0, 6));
        // The temporary files are gone.
        assert_eq!(tree.snapshot("root"), before, "{requested}: {code}");
    }
}

/// Files that share directories that do not exist yet do not conflict.
#[test]
fn change_set_creates_the_parents_of_each_file_once() {
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    let mut changes = roots.change_set();
    for name in ["n/m/a", "n/m/b", "n/c", "n/m/o/d"] {
        changes.write(name, name, new().create_parents()).unwrap();
    }
    changes.commit().unwrap();
    for name in ["n/m/a", "n/m/b", "n/c", "n/m/o/d"] {
        assert_eq!(roots.read(name, 99).unwrap(), name.as_bytes());
    }
}

#[test]
fn change_set_keeps_a_bounded_size_of_content() {
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    let half = vec![0; CHANGE_SET_BYTES / 2];
    let mut changes = roots.change_set();
    changes.write("a", half.clone(), new()).unwrap();
    let moved = changes.write_moved("a", Precondition::Any, "b", half.clone(), new());
    assert_eq!(code(moved), Some("not_found"));
    changes.write("b", half, new()).unwrap();
    let refused = changes.write("c", "x", new()).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::TooLarge, "too_large"));
    assert!(refused.to_string().contains(&CHANGE_SET_BYTES.to_string()), "{refused}");
    changes.write("c", "", new()).unwrap();
    changes.commit().unwrap();
    assert_eq!(names(tree.path("root")), ["a", "b", "c"]);
}

/// A reader sees the tree complete or not at all, and what cannot be removed is named.
#[cfg(unix)]
#[test]
fn change_set_removes_a_tree_as_one_change() {
    let tree =
        Tree::new("file root/t/a/b = 1; file root/t/c = 2; file root/f = 3; dir root/full/x");
    let roots = tree.roots(["root"]);
    let mut changes = roots.change_set();
    changes.remove_dir_all("t").unwrap();
    changes.rename("t2", "t3", Precondition::Any).unwrap_err();
    changes.write("f", "new", if_unchanged("3")).unwrap();
    assert!(tree.path("root/t/a/b").exists());
    tree.add("file root/f = theirs");
    let before = tree.snapshot("root");
    let partial = changes.commit().unwrap_err();
    assert_eq!(partial.error().code(), "modified");
    assert_eq!(tree.snapshot("root"), before);

    // Another directory has taken the name.
    let mut changes = roots.change_set();
    changes.remove_dir_all("t").unwrap();
    tree.add("dir root/u");
    fs::rename(tree.path("root/t"), tree.path("root/kept")).unwrap();
    fs::rename(tree.path("root/u"), tree.path("root/t")).unwrap();
    assert_eq!(changes.commit().unwrap_err().error().code(), "changed");
    assert!(tree.path("root/t").exists());
    fs::remove_dir(tree.path("root/t")).unwrap();
    fs::rename(tree.path("root/kept"), tree.path("root/t")).unwrap();

    // What cannot be removed gets its name back.
    let deep = tree.path("root/deep");
    fs::create_dir_all(deep.join(["d"; WALK_DEPTH + 2].join("/"))).unwrap();
    let mut changes = roots.change_set();
    changes.remove_dir_all("deep").unwrap();
    let partial = changes.commit().unwrap_err();
    assert_eq!(partial.error().code(), "too_deep");
    assert!(partial.to_string().contains("; what was not removed is still there"), "{partial}");
    assert_eq!(names(tree.path("root")), ["deep", "f", "full", "t"]);
    fs::remove_dir_all(deep).unwrap();

    // The tree was removed before the change that fails.
    tree.add("dir root/e");
    let mut changes = roots.change_set();
    changes.remove_dir_all("t").unwrap();
    changes.rename("e", "full", Precondition::Any).unwrap();
    let partial = changes.commit().unwrap_err();
    assert_eq!((partial.committed().len(), partial.pending().len()), (1, 2));
    assert_eq!(names(tree.path("root")), ["e", "f", "full"]);
}

#[cfg(unix)]
#[test]
fn partial_commit_says_which_changes_were_made() {
    let tree = Tree::new(
        "file root/a = 1; file root/b = 2; dir root/c; file root/d = 4; \
                          file root/full/f",
    );
    let roots = tree.roots(["root"]);
    let mut changes = roots.change_set();
    changes.write("a", "new", new()).unwrap();
    changes.rename("b", "moved", Precondition::Missing).unwrap();
    // Only the rename itself finds out that the destination is not empty.
    changes.rename("c", "full", Precondition::Any).unwrap();
    changes.remove_file("d", Precondition::Any).unwrap();
    changes.write("dir/e", "new", new().create_parents()).unwrap();
    let partial = changes.commit().unwrap_err();
    assert_eq!(fs::read(tree.path("root/a")).unwrap(), b"new");
    let places = |places: &[CheckedEntry]| -> Vec<String> {
        places.iter().map(|place| place.relative().to_str().unwrap().into()).collect()
    };
    assert_eq!(places(partial.committed()), ["a", "b", "moved"]);
    assert_eq!(places(partial.pending()), ["c", "full", "d", "dir/e"]);
    let text = "rename \"c\" to \"full\": destination: the directory is not empty; 2 of 5 changes \
                were made (\"a\", \"b\" to \"moved\"), and 3 were not (\"c\" to \"full\", \"d\", \
                \"dir/e\")";
    assert_eq!(partial.to_string(), text);
    assert_eq!(partial.error().code(), "directory_not_empty");
    let error = Error::from(partial);
    assert_eq!((error.to_string().as_str(), error.kind()), (text, ErrorKind::DirectoryNotEmpty));
}

#[cfg(unix)]
#[test]
fn change_set_is_bounded_and_its_error_is_short() {
    let tree = Tree::new("dir root/empty; file root/full/f");
    let roots = tree.roots(["root"]);
    let mut changes = roots.change_set();
    for number in 0..CHANGES {
        if number == 32 {
            changes.rename("empty", "full", Precondition::Any).unwrap();
            continue;
        }
        fs::write(tree.path(format!("root/{number}-{}", "n".repeat(200))), "").unwrap();
        changes
            .remove_file(format!("{number}-{}", "n".repeat(200)).as_str(), Precondition::Any)
            .unwrap();
    }
    let refused = changes.write("one-more", "x", new()).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::TooManyChanges, "too_many_changes"));
    let partial = changes.commit().unwrap_err();
    assert_eq!((partial.committed().len(), partial.pending().len()), (32, CHANGES - 31));
    let shown = partial.to_string();
    assert!(shown.contains(" 16 ") && shown.contains(" 32 "), "{shown}");
    assert!(partial.to_string().len() < 10_000);
    assert_eq!(names(tree.path("root")).len(), CHANGES - 31);
}
