//! Directories that restrict what can be done in them, and filesystems that lack a call.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use mcp_roots_guard::{Access, Error, Precondition, Roots, WalkOptions};
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::permissions::{USERS, as_user, directory, set_mode};
use crate::support::code;
use crate::support::kernel::without_openat2;
use crate::support::one_step::OneStep as _;
use crate::support::seccomp::{block_call, block_calls};
use crate::support::skip::skip;
use crate::support::tree::Tree;

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// In a sticky directory, only the owner of a file can remove its names (unlink(2)), so a temporary
/// name of somebody else's file would stay for ever.
#[test]
fn a_hard_link_adds_one_name_in_a_sticky_directory() {
    let Some(directory) = directory("/tmp") else { return };
    let top = directory.path().canonicalize().unwrap();
    fs::write(top.join("f"), "content").unwrap();
    // The kernel lets a user link a file that he can read and write (proc_sys_fs(5)).
    set_mode(&top.join("f"), 0o666);
    fs::create_dir(top.join("sticky")).unwrap();
    set_mode(&top.join("sticky"), 0o1777);
    let roots = Roots::from_dirs([&top], Access::ReadWrite).unwrap();
    as_user(USERS[0], || roots.hard_link("f", "sticky/g")).unwrap();
    assert_eq!(names(&top.join("sticky")), ["g".to_owned()].into());
    assert_eq!(roots.metadata("f").unwrap().hard_links(), 2);
    // The file is no longer at the name that was checked.
    let [old, new] = ["sticky/g", "h"].map(|name| roots.check_entry(name).unwrap());
    fs::remove_file(top.join("sticky/g")).unwrap();
    assert_eq!(code(old.hard_link(&new)), Some("not_found"));
    assert_eq!(names(&top), ["f".to_owned(), "sticky".to_owned()].into());
}

/// A number of a descriptor means another file in the table of the first thread.
#[test]
fn a_hard_link_is_that_of_the_opened_file_in_a_thread_with_descriptors_of_its_own() {
    let tree = Tree::new("file root/f = inside; file outside = outside");
    let roots = tree.roots(["root"]);
    let (unshared, opened) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        let linked = scope.spawn(|| {
            unshare(CloneFlags::CLONE_FILES).unwrap();
            unshared.wait();
            opened.wait();
            roots.hard_link("f", "g")
        });
        unshared.wait();
        let open = || fs::File::open(tree.path("outside")).unwrap();
        let _kept: Vec<_> = (0..64).map(|_| open()).collect();
        opened.wait();
        linked.join().unwrap().unwrap();
    });
    assert_eq!(roots.read("g", 99).unwrap(), b"inside");
}

/// Without `/proc`, the file is linked by its name, first to a temporary one.
#[test]
fn a_hard_link_without_proc_says_which_temporary_name_stays() {
    let Some(directory) = directory("/tmp") else { return };
    let top = directory.path().canonicalize().unwrap();
    fs::write(top.join("f"), "content").unwrap();
    set_mode(&top.join("f"), 0o666);
    fs::create_dir(top.join("sticky")).unwrap();
    set_mode(&top.join("sticky"), 0o1777);
    let roots = Roots::from_dirs([&top], Access::ReadWrite).unwrap();
    let results = as_user(USERS[0], || {
        let (flags, follow) = (4, u64::try_from(libc::AT_SYMLINK_FOLLOW).unwrap());
        let by_descriptor =
            SeccompCondition::new(flags, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, follow);
        let rule = SeccompRule::new(vec![by_descriptor.unwrap()]).unwrap();
        block_calls(libc::SYS_linkat, libc::ENOENT, vec![rule]);
        ["g", "g", "sticky/g", "sticky/g"].map(|to| roots.hard_link("f", to))
    });
    let codes = [0, 1].map(|at| results[at].as_ref().err().map(Error::code));
    let texts = results.map(|result| result.map_err(|error| error.to_string()));
    assert_eq!(texts[0], Ok(()));
    assert_eq!(codes[1], Some("already_exists"));
    assert_eq!(names(&top), ["f", "g", "sticky"].map(String::from).into());
    let stay = names(&top.join("sticky"));
    assert_eq!((stay.len(), stay.contains("g")), (3, true));
    for (text, made) in [(&texts[2], "the link was created, but"), (&texts[3], "no link was")] {
        let text = text.as_ref().unwrap_err();
        let named = stay.iter().filter(|name| text.contains(&format!("{name:?} remains")));
        assert_eq!((named.count(), text.contains(made)), (1, true), "{text}");
    }
}

/// In such a directory, names can be created, but neither removed nor renamed (ioctl_iflags(2)).
#[test]
fn a_write_that_an_append_only_directory_refuses_leaves_no_content() {
    let Some(directory) = directory("/tmp") else { return };
    let top = directory.path().canonicalize().unwrap();
    let open = fs::File::open(&top).unwrap();
    let Ok(flags) = ioctl_getflags(&open) else { return skip("no append-only directories") };
    if ioctl_setflags(&open, flags | IFlags::APPEND).is_err() {
        return skip("no append-only directories");
    }
    let roots = Roots::from_dirs([&top], Access::ReadWrite).unwrap();
    let refused = roots.write("f", "a secret").unwrap_err();
    let left = names(&top);
    let contents: Vec<_> = left.iter().map(|name| fs::read(top.join(name)).unwrap()).collect();
    ioctl_setflags(&open, flags).unwrap();
    assert_eq!(refused.code(), "permission_denied");
    let text = refused.to_string();
    assert_eq!(contents.concat(), b"");
    assert!(left.iter().all(|name| text.contains(name.as_str())), "{text}: {left:?}");
}

/// Listing needs permission to read the directory, and not to search it (path_resolution(7)).
#[test]
fn a_directory_that_may_only_be_read_is_listed() {
    let Some(directory) = directory("/tmp") else { return };
    let top = directory.path().canonicalize().unwrap();
    for (name, mode) in [("read", 0o744), ("search", 0o711), ("none", 0o700)] {
        fs::create_dir(top.join(name)).unwrap();
        fs::write(top.join(name).join("f"), "").unwrap();
        set_mode(&top.join(name), mode);
    }
    let roots = Roots::from_dirs([&top], Access::ReadWrite).unwrap();
    let list = move || {
        let listed = ["read", "search", "none"].map(|name| {
            let entries = roots
                .read_dir(name)
                .map(|entries| entries.map(|entry| entry.unwrap().relative()).collect::<Vec<_>>());
            entries.map_err(|error| error.code())
        });
        let mut walk = roots.walk(".", WalkOptions::default().skip_unreadable()).unwrap();
        let mut walked = BTreeSet::new();
        while let Some(entry) = walk.next_entry().unwrap() {
            walked.insert(entry.relative().display().to_string());
        }
        (listed, walked)
    };
    let expected = [Ok(vec!["f".into()]), Err("permission_denied"), Err("permission_denied")];
    let walked = ["none", "read", "read/f", "search"].map(String::from).into();
    let by_user = move || as_user(USERS[0], list.clone());
    assert_eq!(by_user(), (expected.clone(), BTreeSet::clone(&walked)));
    assert_eq!(without_openat2(by_user), (expected, walked), "without openat2");
}

/// fsync(2) needs a descriptor, and a directory that may not be read cannot be opened for one.
#[test]
fn a_file_is_written_in_a_directory_that_may_not_be_read() {
    let Some(directory) = directory("/tmp") else { return };
    let top = directory.path().canonicalize().unwrap();
    fs::create_dir(top.join("drop")).unwrap();
    set_mode(&top.join("drop"), 0o733);
    let roots = Roots::from_dirs([&top], Access::ReadWrite).unwrap();
    as_user(USERS[0], || roots.write("drop/f", "content")).unwrap();
    assert_eq!(fs::read(top.join("drop/f")).unwrap(), b"content");
}

/// Some filesystems return EINVAL, and others EOPNOTSUPP, for the flags of renameat2(2).
#[test]
fn a_filesystem_that_refuses_the_flags_of_a_rename_is_looked_at_first() {
    for error in [libc::EINVAL, libc::EOPNOTSUPP] {
        let tree = Tree::new("file root/a; file root/b");
        let roots = tree.roots(["root"]);
        let rename = |to: &str| roots.rename("a", to, Precondition::Missing);
        thread::scope(|scope| {
            let renamed = scope.spawn(|| {
                block_call(libc::SYS_renameat2, error);
                [code(rename("b")), code(rename("c"))]
            });
            assert_eq!(renamed.join().unwrap(), [Some("already_exists"), None], "{error}");
        });
        assert_eq!(names(&tree.path("root")), ["b".to_owned(), "c".to_owned()].into());
    }
}

#[test]
fn directories_are_created_while_another_process_removes_them() {
    let tree = Tree::in_memory("dir root");
    let roots = tree.roots(["root"]);
    let (done, top) = (AtomicBool::new(false), tree.path("root/a"));
    let results = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                let _ = fs::remove_dir(top.join("b/c"));
                let _ = fs::remove_dir(top.join("b"));
                let _ = fs::remove_dir(&top);
            }
        });
        let created = (0..20_000).map(|_| code(roots.create_dir_all("a/b/c"))).collect::<Vec<_>>();
        done.store(true, Relaxed);
        created
    });
    let failed: BTreeSet<_> = results.iter().flatten().collect();
    println!("{} of {} failed: {failed:?}", results.iter().flatten().count(), results.len());
    assert!(failed.iter().all(|code| **code == "changed"), "{failed:?}");
    assert!(results.contains(&None));
}
