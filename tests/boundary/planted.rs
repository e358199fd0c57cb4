//! A tool cannot widen a client's list: a symlink that it makes, in whatever way, leads to no root.
//!
//! The guard compares the time of a symlink's last change with the start of the process. These
//! tests make symlinks in every way known, on each filesystem that can be had, and in the first
//! milliseconds after the start.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use guarded_fs::internals::trust_links_until;
use mcp_roots_guard::{Access, Boundary, ListRootsResult};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::TO_CHILD;
use crate::support::skip::skip;
use crate::support::tree::Tree;

/// The directory `work` is writable, and `data` is allowed as well. `work/old` and `work/real` are
/// a symlink to `data/proj` and a directory, both older than the server.
pub(crate) const TREE: &str = "file data/proj/f; link work/old -> $T/data/proj; dir work/real; dir work/d; \
                    link work/d/old -> $T/data/proj";

/// A way to make a symlink at `new` in a directory. Returns false if it is not possible here.
type Way = (&'static str, fn(&Path) -> bool);

const WAYS: &[Way] = &[
    ("created", |work| symlink("../data/proj", work.join("new")).is_ok()),
    ("renamed", |work| fs::rename(work.join("old"), work.join("new")).is_ok()),
    ("renamed from another directory", |work| {
        fs::rename(work.join("d/old"), work.join("new")).is_ok()
    }),
    ("exchanged with a directory", |work| {
        fs::rename(work.join("real"), work.join("new")).unwrap();
        let (old, new) = (work.join("old"), work.join("new"));
        renameat_with(CWD, old, CWD, new, RenameFlags::EXCHANGE).is_ok()
    }),
    ("replaced", |work| {
        symlink("real", work.join("new")).unwrap();
        symlink("../data/proj", work.join("next")).unwrap();
        fs::rename(work.join("next"), work.join("new")).is_ok()
    }),
    ("hard-linked", |work| fs::hard_link(work.join("old"), work.join("new")).is_ok()),
    ("copied by a child, with its times", |work| run("cp", &["-a", "old", "new"], work)),
    ("unpacked by a child", |work| {
        fs::create_dir(work.join("pack")).unwrap();
        symlink("../data/proj", work.join("pack/new")).unwrap();
        run("tar", &["-cf", "a.tar", "-C", "pack", "new"], work)
            && run("tar", &["-xf", "a.tar"], work)
    }),
    ("cloned by a child", |work| {
        fs::create_dir(work.join("from")).unwrap();
        symlink("../data/proj", work.join("from/link")).unwrap();
        let git = |arguments: &[&str]| run("git", arguments, &work.join("from"));
        git(&["init", "-q"])
            && git(&["add", "link"])
            && git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"])
            && run("git", &["clone", "-q", "from", "cloned"], work)
            && fs::rename(work.join("cloned/link"), work.join("new")).is_ok()
    }),
    ("with its times set back", |work| {
        symlink("../data/proj", work.join("new")).unwrap();
        run("touch", &["-h", "-d", "2000-01-01", "new"], work)
    }),
];

fn run(program: &str, arguments: &[&str], at: &Path) -> bool {
    let ran = Command::new(program).args(arguments).current_dir(at).output();
    ran.is_ok_and(|output| output.status.success())
}

/// Lists `work/new`, made in each way, on the filesystem of a tree that `build` builds.
pub(crate) fn no_symlink_made_later_is_followed(filesystem: &str, build: impl Fn() -> Tree) {
    let mut made = Vec::new();
    for (what, way) in WAYS {
        let tree = build();
        let boundary = boundary(&tree, SystemTime::now());
        let old = boundary.narrow(&list(&tree, "work/old").roots).unwrap();
        assert_eq!(old.iter().len(), 1, "{filesystem}, {what}: {:?}", old.rejected());
        // Filesystems read a coarse clock, so a change a moment after the start looks older. The
        // guard reads the same clock at its start, and here the start is now.
        sleep(Duration::from_millis(20));
        if !way(&tree.path("work")) {
            skip(&format!("a symlink {what} on {filesystem}"));
            continue;
        }
        assert!(tree.path("work/new/f").exists(), "{filesystem}, {what}: it leads elsewhere");
        let roots = boundary.narrow(&list(&tree, "work/new").roots).unwrap();
        let codes: Vec<_> = roots.rejected().iter().map(|it| it.error().code()).collect();
        assert_eq!((roots.iter().len(), codes), (0, vec!["through_link"]), "{filesystem}, {what}");
        made.push(*what);
    }
    println!("{filesystem}: {} ways refused", made.len());
    assert!(made.len() >= 6, "{filesystem}: only {made:?}");
}

fn boundary(tree: &Tree, start: SystemTime) -> Boundary {
    let allow = |builder: mcp_roots_guard::BoundaryBuilder, path| {
        builder.directory(tree.path(path), Access::ReadWrite)
    };
    let builder = ["work", "data"].into_iter().fold(Boundary::builder(), allow);
    trust_links_until(builder, start).build().unwrap()
}

fn list(tree: &Tree, path: &str) -> ListRootsResult {
    ListRootsResult::from_uris([tree.uri(path)])
}

#[test]
fn no_symlink_made_later_leads_to_a_root() {
    no_symlink_made_later_is_followed("the temporary directory", || Tree::new(TREE));
    no_symlink_made_later_is_followed("tmpfs", || Tree::in_memory(TREE));
}

/// The start is read from the clock that filesystems use, and a symlink of the same tick is
/// refused. Each child builds its first boundary and makes a symlink at once.
#[test]
fn a_symlink_of_the_first_milliseconds_leads_to_no_root() {
    const TEST: &str = "boundary::planted::a_symlink_of_the_first_milliseconds_leads_to_no_root";
    if let Some(top) = std::env::var_os(TO_CHILD) {
        let work = Path::new(&top).join("work");
        let build = Boundary::builder()
            .directory(&work, Access::ReadWrite)
            .directory(Path::new(&top).join("data"), Access::ReadWrite);
        let boundary = build.build().unwrap();
        symlink("../data/proj", work.join("new")).unwrap();
        let uri = format!("file://{}", work.join("new").display());
        let roots = boundary.narrow(&ListRootsResult::from_uris([uri]).roots).unwrap();
        assert_eq!(roots.rejected()[0].error().code(), "through_link");
        return;
    }
    for make in [Tree::new, Tree::in_memory] {
        for _ in 0..10 {
            let tree = make(TREE);
            let child = Command::new(std::env::current_exe().unwrap())
                .args([TEST, "--exact"])
                .env(TO_CHILD, tree.path(""))
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&child.stdout);
            assert!(child.status.success() && text.contains("1 passed"), "{text}");
        }
    }
}
