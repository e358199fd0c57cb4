//! Changes of the tree between two system calls of an operation, at each of its calls.
//!
//! The test binary runs itself again as a traced child. At the call with a given number, the tracer
//! changes the tree. This is repeated for every call up to the operation's last look before it makes
//! its change. What happens after that look is a documented limit.
#![cfg(target_arch = "x86_64")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use mcp_roots_guard::{Access, Error, Precondition, Result, Roots, WriteOptions};
use nix::libc::{self, c_long};

use super::permissions::{User, as_user};
use crate::TO_CHILD;
use crate::support::traced::{Decision, TracedChild, be_traced, between_stops};
use crate::support::tracer::openat2_is_there;
use crate::support::tree::Tree;

const CHILD: &str = "fs::interleaving::a_directory_that_moves_before_a_change_is_not_changed";

const TREE: &str = "dir root/d/empty; file root/d/f = old; file root/d/g = other; file root/a = a; \
                    dir out";

type Operation = (&'static str, fn(&Roots) -> Result<()>);

/// Each changes an entry of `root/d`.
const CHANGES: &[Operation] = &[
    ("create_dir", |roots| roots.create_dir("d/new")),
    ("create_dir_all", |roots| roots.create_dir_all("d/new/sub")),
    ("symlink", |roots| roots.check_entry("d/new")?.symlink("f")),
    ("hard_link", |roots| roots.check_entry("d/f")?.hard_link(&roots.check_entry("d/new")?)),
    ("remove_file", |roots| roots.remove_file("d/f")),
    ("remove_dir", |roots| roots.remove_dir("d/empty")),
    ("remove_dir_all", |roots| roots.remove_dir_all("d/empty")),
    ("rename from", |roots| roots.rename("d/f", "f", Precondition::Missing)),
    ("rename to", |roots| roots.rename("a", "d/f", Precondition::Any)),
    ("write", |roots| roots.write("d/f", "new")),
    ("write new", |roots| roots.write("d/new", "new")),
    ("copy", |roots| roots.copy("a", "d/f", 9, WriteOptions::default()).map(drop)),
    ("change set", |roots| {
        let mut changes = roots.change_set();
        changes.remove_file("d/f", Precondition::Any)?;
        changes.commit().map_err(Error::from)
    }),
];

const OTHER: User = (5001, &[5001]);

/// These are made in `root`, where another process changes the file `a` or `b`.
const OTHERS: &[Operation] = &[
    ("write", |roots| roots.write("a", "new")),
    ("write if the owner changes", |roots| {
        roots.write_with("a", "new", WriteOptions::default().in_place_if_owner_changes())
    }),
    ("copy in place", |roots| {
        roots.copy("a", "b", 9, WriteOptions::default().in_place()).map(drop)
    }),
];

/// The calls that change entries of directories.
const CHANGING: [c_long; 6] = [
    libc::SYS_mkdirat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
];

/// The traced child runs this test.
#[test]
fn a_directory_that_moves_before_a_change_is_not_changed() {
    if let Ok(text) = std::env::var(TO_CHILD) {
        return be_child(&text);
    }
    if !openat2_is_there() {
        return;
    }
    for (number, (name, _)) in CHANGES.iter().enumerate() {
        let tree = || Tree::new(TREE);
        let calls = run(number, false, &tree(), usize::MAX, &|_| ()).0;
        let change = calls.iter().position(|call| CHANGING.contains(call)).unwrap();
        let looks = calls[..change].iter().enumerate();
        let mut looks = looks.filter(|(_, call)| **call == libc::SYS_openat2).rev();
        // The directory of the destination is looked at after that of the source.
        let (look, _) = looks.nth(usize::from(*name == "rename from")).unwrap();
        for at in 0..=look {
            let tree = tree();
            let move_out = |top: &Path| fs::rename(top.join("root/d"), top.join("out/d")).unwrap();
            run(number, false, &tree, at, &move_out);
            let names = ["empty", "f", "g"].map(|name| tree.path("out/d").join(name));
            assert!(names.iter().all(|name| name.exists()), "{name}, call {at} of {calls:?}");
            let left = fs::read_dir(tree.path("out/d")).unwrap().count();
            assert_eq!(left, names.len(), "{name}, call {at}");
            assert_eq!(fs::read_to_string(&names[1]).unwrap(), "old", "{name}, call {at}");
        }
        println!("{name}: moved at each of {} calls", look + 1);
    }
}

/// Otherwise, a file that its owner has just made private could be read through its replacement.
#[test]
fn a_file_that_becomes_private_during_a_write_stays_private() {
    let tree = || Tree::new("file root/a = old");
    let calls = run(CHANGES.len(), false, &tree(), usize::MAX, &|_| ()).0;
    // The content and the permissions are synced before the rename.
    let rename = calls.iter().position(|call| CHANGING.contains(call)).unwrap();
    let sync = calls[..rename].iter().rposition(|call| *call == libc::SYS_fsync).unwrap();
    for at in 0..=sync {
        let tree = tree();
        let make_private = |top: &Path| {
            fs::set_permissions(top.join("root/a"), Permissions::from_mode(0o600)).unwrap();
        };
        run(CHANGES.len(), false, &tree, at, &make_private);
        let mode = fs::metadata(tree.path("root/a")).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600, "call {at} of {calls:?}");
    }
}

/// Only root can give a file to somebody else.
#[test]
fn a_file_that_changes_its_owner_during_a_write_keeps_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let tree = || {
        let tree = Tree::new("file root/a = old");
        let top = tree.path("");
        for path in [top.clone(), top.join("root"), top.join("root/a")] {
            fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        }
        chown(top.join("root/a"), Some(OTHER.0), Some(OTHER.0)).unwrap();
        tree
    };
    let number = CHANGES.len() + 1;
    let calls = run(number, true, &tree(), usize::MAX, &|_| ()).0;
    let rename = calls.iter().position(|call| CHANGING.contains(call)).unwrap();
    let sync = calls[..rename].iter().rposition(|call| *call == libc::SYS_fsync).unwrap();
    for at in 0..=sync {
        let tree = tree();
        let give = |top: &Path| chown(top.join("root/a"), Some(1), None).unwrap();
        run(number, true, &tree, at, &give);
        let metadata = fs::metadata(tree.path("root/a")).unwrap();
        assert_eq!(metadata.uid(), 1, "call {at} of {calls:?}");
    }
}

/// Otherwise, a file would be read and written at once.
#[test]
fn a_destination_that_becomes_the_source_is_refused() {
    let tree = || Tree::new("file root/a = old; file root/b = b");
    let number = CHANGES.len() + 2;
    let calls = run(number, false, &tree(), usize::MAX, &|_| ()).0;
    let write = calls.iter().position(|call| *call == libc::SYS_ftruncate).unwrap();
    let open = calls[..write].iter().rposition(|call| *call == libc::SYS_openat2);
    for at in 0..=open.unwrap_or_default() {
        let tree = tree();
        let link = |top: &Path| {
            fs::remove_file(top.join("root/b")).unwrap();
            fs::hard_link(top.join("root/a"), top.join("root/b")).unwrap();
        };
        let (_, answer) = run(number, false, &tree, at, &link);
        assert_eq!(answer, "same_file", "call {at} of {calls:?}");
    }
}

/// Runs an operation in a traced child. At the start of the call with this number, the
/// tree is changed. Returns the calls, and the code of the error.
fn run(
    number: usize,
    is_other: bool,
    tree: &Tree,
    at: usize,
    change: &dyn Fn(&Path),
) -> (Vec<c_long>, String) {
    let top = tree.path("");
    let scenario = format!("{number} {is_other} {}", top.display());
    let mut child = TracedChild::start(CHILD, TO_CHILD, &scenario);
    child.wait_for_stop();
    let mut calls = Vec::new();
    child.trace(|call| {
        if calls.len() == at {
            change(&top);
        }
        calls.push(call);
        Decision::Make
    });
    let answer = child.answer();
    (calls, answer)
}

/// The text has the number of the operation, whether another user than root makes it, and the path
/// of its tree.
fn be_child(text: &str) {
    let mut words = text.splitn(3, ' ');
    let operation: usize = words.next().unwrap().parse().unwrap();
    let is_other = words.next() == Some("true");
    let roots =
        Roots::from_dirs([Path::new(words.next().unwrap()).join("root")], Access::ReadWrite)
            .unwrap();
    let (_, operation) = CHANGES.iter().chain(OTHERS).nth(operation).unwrap();
    let be_traced = || {
        be_traced(roots.iter().next().unwrap().path());
        let result = between_stops(|| operation(&roots));
        println!("{}", result.map_or_else(|error| error.code().to_owned(), |()| "ok".to_owned()));
    };
    if is_other {
        as_user(OTHER, be_traced);
    } else {
        be_traced();
    }
    // The parent process does not read what the test harness prints at the end.
    std::process::exit(0);
}
