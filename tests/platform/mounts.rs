//! The identities and names of directories on mounts: overlayfs, as used by containers, and bind
//! mounts.
//!
//! Each test mounts in a mount namespace of its own thread, which requires root. Where mounting is
//! not permitted, the test is skipped with a message, or fails if `CI` is set.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::thread;

use mcp_roots_guard::{Access, Boundary, ListRootsResult, Precondition, WalkOptions};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::boundary::planted::{TREE, no_symlink_made_later_is_followed};
use crate::support::one_step::OneStep as _;
use crate::support::tree::Tree;

const NONE: Option<&str> = None;

/// Performs the mounts in a new mount namespace, and then runs the test there. If mounting fails,
/// prints that the test is skipped, or panics if `CI` is set.
fn mounted(
    tree: &Tree,
    mounts: impl FnOnce(&Tree) -> nix::Result<()> + Send,
    test: impl FnOnce(&Tree) + Send,
) {
    let run = || -> nix::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
        mounts(tree)
    };
    let run = || match run() {
        Ok(()) => test(tree),
        Err(error) if std::env::var_os("CI").is_some() => {
            panic!("this test must run in CI, but mounting failed: {error}")
        }
        Err(error) => crate::support::skip::skip(&format!("mounting failed: {error}")),
    };
    thread::scope(|scope| scope.spawn(run).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Mounts an overlay at `merged`, as in a container. A file in `lower` is copied to `upper` when it
/// is written.
fn overlay(tree: &Tree) -> nix::Result<()> {
    let [lower, upper, work] =
        ["lower", "upper", "work"].map(|name| tree.path(name).display().to_string());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work},redirect_dir=on");
    mount(
        Some("overlay"),
        &tree.path("merged"),
        Some("overlay"),
        MsFlags::empty(),
        Some(options.as_str()),
    )
}

/// Where no proc filesystem is mounted, a tool can create files at `/proc`.
#[test]
fn a_hard_link_follows_no_symlink_that_was_put_at_proc() {
    let tree = Tree::new("file root/f = inside; file outside = outside");
    let mounts = |_: &Tree| {
        mount(Some("none"), "/proc", Some("tmpfs"), MsFlags::empty(), NONE)?;
        Ok(())
    };
    mounted(&tree, mounts, |tree| {
        for directory in ["/proc/self/fd", "/proc/thread-self/fd"] {
            fs::create_dir_all(directory).unwrap();
            for number in 0..64 {
                let link = format!("{directory}/{number}");
                std::os::unix::fs::symlink(tree.path("outside"), link).unwrap();
            }
        }
        let roots = tree.roots(["root"]);
        roots.hard_link("f", "g").unwrap();
        assert_eq!(roots.read("g", 99).unwrap(), b"inside");
        assert_eq!(fs::read_dir(tree.path("root")).unwrap().count(), 2);
    });
}

/// For example, in a tree that is prepared for chroot(2).
#[test]
fn a_proc_filesystem_mounted_in_a_root_is_not_served() {
    let tree = Tree::new("dir root/proc; file root/f; dir root/bound");
    let mounts = |tree: &Tree| {
        let to = tree.path("root/proc");
        mount(Some("proc"), &to, Some("proc"), MsFlags::empty(), NONE)?;
        bind(Path::new("/proc/self"), &tree.path("root/bound"))
    };
    mounted(&tree, mounts, |tree| {
        let roots = tree.roots(["root"]);
        assert!(roots.check("proc/1").unwrap().open_unguarded_dir().is_err());
        for path in ["proc/1/status", "proc/cpuinfo", "bound/status"] {
            let refused = roots.read(path, 1 << 20).unwrap_err();
            assert_eq!(refused.code(), "special_file", "{path}");
            let refused = roots.check(path).unwrap().read(1 << 20).unwrap_err();
            assert_eq!(refused.code(), "special_file", "{path}");
        }
        let mut walk = roots.walk(".", WalkOptions::default()).unwrap();
        let mut walked = Vec::new();
        while let Some(entry) = walk.next_entry().unwrap() {
            walked.push(entry.relative().display().to_string());
        }
        assert_eq!(walked, ["bound", "f", "proc"]);
    });
}

fn bind(from: &Path, to: &Path) -> nix::Result<()> {
    mount(Some(from), to, NONE, MsFlags::MS_BIND, NONE)
}

/// The filesystems of containers and of memory.
#[test]
fn no_symlink_made_later_leads_to_a_root_on_overlayfs_and_ramfs() {
    let tree = Tree::in_memory("dir lower; dir upper; dir work; dir merged; dir ram");
    mounted(&tree, overlay, |tree| {
        let inside = || Tree::beneath(&tree.path("merged"), TREE);
        no_symlink_made_later_is_followed("overlayfs", inside);
        let flags = MsFlags::empty();
        mount(Some("ramfs"), &tree.path("ram"), Some("ramfs"), flags, NONE).unwrap();
        no_symlink_made_later_is_followed("ramfs", || Tree::beneath(&tree.path("ram"), TREE));
    });
}

/// `op/alias` is a bind mount of `op/in`, which contains allowed directories and an allowed file.
#[test]
fn an_allowed_directory_cannot_be_removed_through_a_bind_mount() {
    let tree = Tree::in_memory(
        "file op/in/root/f; file op/in/deep/er/root/f; file op/in/only; file op/in/free/f; \
         file op/in/f; dir op/alias; dir op/out",
    );
    let mounts = |tree: &Tree| bind(&tree.path("op/in"), &tree.path("op/alias"));
    mounted(&tree, mounts, |tree| {
        let directories = ["op", "op/in/root", "op/in/deep/er/root", "op/in/only"];
        let roots = tree.roots(directories);
        let boundary = directories
            .iter()
            .fold(Boundary::builder(), |builder, path| {
                builder.directory(tree.path(path), Access::ReadWrite)
            })
            .build()
            .unwrap();
        let of_client =
            boundary.narrow(&ListRootsResult::from_uris([tree.uri("op")]).roots).unwrap();
        let at = |path: &str| tree.path(format!("op/alias/{path}"));
        let before = tree.snapshot("op");
        for roots in [&roots, &of_client] {
            let refused = [
                roots.remove_dir(at("root")),
                roots.remove_dir_all(at("root")),
                roots.remove_dir_all(at("deep")),
                roots.remove_dir_all(at("deep/er")),
                roots.rename(at("root"), at("x"), Precondition::Missing),
                roots.rename(at("deep"), at("x"), Precondition::Missing),
                roots.rename(at("free"), at("root"), Precondition::Any),
                roots.rename(at("only"), at("x"), Precondition::Missing),
                roots.rename(at("f"), at("only"), Precondition::Any),
                roots.remove_file(at("only")),
                roots.write(at("only"), "planted"),
            ];
            for (number, refused) in refused.into_iter().enumerate() {
                assert_eq!(refused.unwrap_err().code(), "root_itself", "{number}");
            }
        }
        assert_eq!(tree.snapshot("op"), before);
        // Entries that contain no root can be renamed and removed, by either name.
        roots.rename(at("free"), at("freed"), Precondition::Missing).unwrap();
        roots.remove_dir_all(tree.path("op/in/freed")).unwrap();
        roots.write(at("f"), "new").unwrap();
        roots.remove_file(at("f")).unwrap();
    });
}

/// With a policy against mounts, a directory on one is no root, and one that contains a mount is not
/// renamed, because a protected name could be in it.
#[test]
fn a_mount_that_appears_at_a_root_or_below_a_renamed_directory_is_refused() {
    let tree = Tree::new("file op/root/sub/f; dir op/x/m; file out/sub/f; dir out/.git");
    mounted(
        &tree,
        |_| Ok(()),
        |tree| {
            let boundary = Boundary::builder().directory(tree.path("op"), Access::ReadWrite);
            let boundary = boundary.refuse_mounts().protect_defaults().build().unwrap();
            let list = ["op", "op/root", "op/root/sub"].map(|path| tree.uri(path));
            let roots = boundary.narrow(&ListRootsResult::from_uris(list).roots).unwrap();
            bind(&tree.path("out"), &tree.path("op/x/m")).unwrap();
            let renamed = roots.rename("x", "y", Precondition::Missing);
            assert_eq!(renamed.unwrap_err().code(), "mount_crossing");
            roots.read("root/sub/f", 99).unwrap();
            bind(&tree.path("out"), &tree.path("op/root")).unwrap();
            for path in ["op/root/sub/f", "op/root/sub", "op/root"] {
                let refused = roots.check(tree.path(path)).unwrap_err();
                assert_eq!(refused.code(), "root_unavailable", "{path}");
            }
        },
    );
}

/// The kernel chooses the target of such a symlink, regardless of its text (proc(5)).
#[test]
fn check_refuses_the_magic_links_of_a_mounted_proc_filesystem() {
    let tree = Tree::new("file root/f = f; dir root/proc; dir proc");
    let proc = |tree: &Tree| {
        bind(Path::new("/proc"), &tree.path("root/proc"))?;
        bind(Path::new("/proc"), &tree.path("proc"))
    };
    mounted(&tree, proc, |tree| {
        let file = fs::File::open(tree.path("root/f")).unwrap();
        let link = format!("{}/fd/{}", std::process::id(), file.as_raw_fd());
        assert_eq!(fs::read_link(tree.path("proc").join(&link)).unwrap(), tree.path("root/f"));
        let roots = tree.roots(["root", "proc"]);
        for below in ["root/proc", "proc"] {
            let request = tree.path(below).join(&link);
            let refused = roots.check(request.as_path()).unwrap_err();
            assert_eq!(refused.code(), "outside_roots", "{below}");
        }
    });
}
