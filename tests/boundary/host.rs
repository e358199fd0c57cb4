//! Paths of the configuration and the environment: what tools could have put there, and what a rule
//! for such a path would grant.

use std::fs;
use std::os::unix::fs::symlink;

use guarded_fs::host::{self, ProgramPaths};
use mcp_roots_guard::{Access, Boundary, DirectoryOptions, ErrorKind, ListEntry, Roots};

use crate::support::code;
use crate::support::tree::Tree;

fn boundary(tree: &Tree) -> Boundary {
    Boundary::builder()
        .directory(tree.path("work"), Access::ReadWrite)
        .directory(tree.path("docs"), Access::ReadOnly)
        .build()
        .unwrap()
}

/// The roots of all directories, and those of a client that listed another one. Places are writable
/// whether or not they are in force.
fn snapshots(tree: &Tree) -> [Roots; 3] {
    let boundary = boundary(tree);
    let docs = tree.path("docs").display().to_string();
    let listed = boundary.narrow([ListEntry::from(&docs)]).unwrap();
    assert_eq!(listed.iter().len(), 1);
    [boundary.allowed_roots(), listed, boundary.allowed_roots().read_only()]
}

const TREE: &str = "file work/bin/tool = x; file docs/tool = x; file bin/tool = x; \
                    link work/link -> ../bin/tool; link bin/in -> ../work/bin/tool; \
                    link bin/twice -> ../work/link; link docs/link -> ../bin/tool; \
                    link current -> bin";

#[test]
fn what_tools_can_write_or_link_is_recognized() {
    let tree = Tree::new(TREE);
    for roots in snapshots(&tree) {
        let paths = ProgramPaths::new(&roots, []);
        let resolve = |path: &str| paths.resolve(&tree.path(path));
        for (path, canonical, is_writable) in [
            ("bin/tool", "bin/tool", false),
            ("current/tool", "bin/tool", false),
            ("docs/tool", "docs/tool", false),
            // No tool can write in `docs`.
            ("docs/link", "bin/tool", false),
            ("work/bin/tool", "work/bin/tool", true),
            ("bin/in", "work/bin/tool", true),
        ] {
            let found = resolve(path).unwrap();
            assert_eq!(found, tree.path(canonical), "{path}");
            assert_eq!(paths.is_writable(&found), is_writable, "{path}");
        }
        assert_eq!(code(resolve("work/link")), Some("through_link"));
        assert_eq!(code(resolve("bin/twice")), Some("through_link"));
        assert_eq!(code(resolve("bin/none")), Some("not_found"));
        let upper = tree.path("WORK/bin/tool");
        assert!(paths.is_writable(&upper), "a filesystem may treat the names as one");
        let bin = tree.path("bin");
        let with_bin = ProgramPaths::new(&roots, [bin.as_path()]);
        assert!(with_bin.is_writable(&tree.path("bin/tool")));
        assert_eq!(code(with_bin.resolve(&tree.path("bin/in"))), Some("through_link"));
    }
    // Nothing is outside the filesystem root.
    let everything = Roots::from_dirs(["/"], Access::ReadWrite).unwrap();
    let paths = ProgramPaths::new(&everything, []);
    assert!(!paths.is_writable(&paths.resolve(&tree.path("work/link")).unwrap()));
}

#[test]
fn a_rule_for_a_path_around_a_read_only_directory_is_recognized() {
    let tree = Tree::new(TREE);
    for roots in snapshots(&tree) {
        for (path, holds) in [("", true), ("docs", true), ("docs/tool", false), ("bin", false)] {
            let path = tree.path(path);
            let path = path.canonicalize().unwrap();
            let opened = fs::File::open(&path).unwrap();
            let found =
                ProgramPaths::new(&roots, []).read_only_at_or_below(&opened, &path).unwrap();
            assert_eq!(found, holds, "{}", path.display());
        }
    }
}

/// A read-only file has the same content by any of its names, and a missing directory can appear.
#[test]
fn a_rule_for_another_name_of_a_read_only_file_or_for_a_missing_directory_is_recognized() {
    let tree = Tree::new("file etc/conf = c; file other/f = f; dir mnt; link srv -> mnt/data");
    fs::hard_link(tree.path("etc/conf"), tree.path("other/conf")).unwrap();
    let missing = DirectoryOptions::from(Access::ReadOnly).optional();
    let boundary = Boundary::builder()
        .directory(tree.path("etc/conf"), Access::ReadOnly)
        .directory(tree.path("srv/ro"), missing)
        .build()
        .unwrap();
    let roots = boundary.allowed_roots();
    // What the configuration rejects is for the operator.
    let allowed = host::allowed(&boundary, |resolve| resolve());
    assert_eq!((roots.rejected().len(), allowed.roots.rejected().len()), (1, 0));
    assert_eq!(roots.iter().count(), allowed.roots.iter().count());
    for (path, holds) in
        [("other/conf", true), ("other/f", false), ("other", false), ("etc", true), ("mnt", true)]
    {
        let path = tree.path(path);
        let opened = fs::File::open(&path).unwrap();
        let found = ProgramPaths::new(&roots, []).read_only_at_or_below(&opened, &path).unwrap();
        assert_eq!(found, holds, "{}", path.display());
    }
}

/// A program that keeps narrowed roots learns when to narrow again.
#[test]
fn kept_roots_say_when_to_narrow_again() {
    let tree = Tree::new("file a/app/f = a; file b/app/f = b; link current -> a");
    let boundary =
        Boundary::builder().directory(tree.path("current"), Access::ReadOnly).build().unwrap();
    let app = tree.path("current/app").display().to_string();
    let narrow = || host::narrow(&boundary, [ListEntry::from(&app)], &|| false).unwrap();
    let allowed = || host::allowed(&boundary, |resolve| resolve());
    let kept = narrow();
    assert_eq!(kept.roots.read("f", 9).unwrap(), b"a");
    assert_eq!(kept.generation, allowed().generation);
    // The path was resolved through the operator's symlink.
    assert!(allowed().is_provisional);
    fs::remove_file(tree.path("current")).unwrap();
    symlink("b", tree.path("current")).unwrap();
    std::thread::sleep(mcp_roots_guard::limits::VERIFY_EVERY);
    // Nobody waits for the resolution.
    let mut started = None;
    let before = host::allowed(&boundary, |resolve| started = Some(resolve));
    assert_eq!(before.generation, kept.generation);
    assert_eq!(allowed().generation, kept.generation, "the turn is taken");
    started.unwrap()();
    assert_ne!(allowed().generation, kept.generation);
    assert_eq!(narrow().roots.read("f", 9).unwrap(), b"b");
}

#[test]
fn without_a_list_only_the_directories_that_are_always_in_force_are() {
    let tree = Tree::new("file work/f = w; file always/f = a");
    let always = DirectoryOptions::from(Access::ReadOnly).always();
    let boundary = Boundary::builder().directory(tree.path("work"), Access::ReadWrite);
    let boundary = boundary.directory(tree.path("always"), always).build().unwrap();
    let late = mcp_roots_guard::Error::new(ErrorKind::Other("late"), "late", "the list is late");
    // A client's own roots give no more.
    let work = tree.path("work").display().to_string();
    let listed = boundary.narrow([ListEntry::from(&work)]).unwrap();
    let always = host::always_in_force(&listed, &late);
    assert_eq!(code(always.read(tree.path("work/f"), 9)), Some("outside_roots"));
    let roots = host::always_in_force(&boundary.allowed_roots(), &late);
    assert_eq!(roots.read(tree.path("always/f"), 9).unwrap(), b"a");
    assert_eq!(code(roots.read(tree.path("work/f"), 9)), Some("outside_roots"));
    assert_eq!(code(roots.read("f", 9)), Some("late"));
    assert_eq!(roots.failure().map(mcp_roots_guard::Error::code), Some("late"));
}

/// A descriptor for the kernel is that of what has the root's name now, and of nothing else.
#[cfg(target_os = "linux")]
#[test]
fn a_root_is_opened_only_as_what_it_is() {
    use std::os::unix::fs::MetadataExt as _;

    let tree = Tree::new("file work/f = w; file single = s; dir other");
    let paths = ["work", "single"].map(|name| tree.path(name));
    let roots = Roots::from_dirs(&paths, Access::ReadWrite).unwrap();
    for (root, path) in roots.iter().zip(&paths) {
        let opened = fs::File::from(ProgramPaths::new(&roots, []).open_root(root).unwrap());
        assert_eq!(opened.metadata().unwrap().ino(), fs::metadata(path).unwrap().ino());
    }
    // A root that is kept does not belong to other roots.
    let other = Roots::from_dirs([tree.path("other")], Access::ReadWrite).unwrap();
    for root in roots.iter() {
        assert_eq!(
            code(ProgramPaths::new(&other, []).open_root(root)),
            Some("outside_roots"),
            "{root:?}"
        );
    }
    for path in &paths {
        fs::rename(path, path.with_extension("moved")).unwrap();
        symlink(path.with_extension("moved"), path).unwrap();
    }
    for root in roots.iter() {
        assert_eq!(
            code(ProgramPaths::new(&roots, []).open_root(root)),
            Some("root_unavailable"),
            "{root:?}"
        );
    }
}
