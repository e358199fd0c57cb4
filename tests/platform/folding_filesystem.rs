//! A filesystem in which names that differ only in case are one name, as on macOS and Windows.
//!
//! Names in another case are places of their own for the guard: the outer directory's access
//! counts, and patterns match.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, FileAttr, FileType, Filesystem, MountOption, ReplyAttr, ReplyEntry, Request,
};
use mcp_roots_guard::{Access, Boundary, ErrorKind, ListRootsResult, Precondition, Roots};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::support::code;
use crate::support::tree::Tree;

#[test]
fn names_in_another_case_have_the_access_of_the_outer_directory() {
    let tree = Tree::new("dir at");
    std::thread::scope(|scope| {
        let test = scope.spawn(|| match mounted(&tree.path("at")) {
            Ok(_session) => decide(&tree),
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "FUSE cannot be mounted here: {error}");
                println!("skipped: FUSE cannot be mounted here: {error}");
            }
        });
        test.join().unwrap();
    });
}

/// Mounts the filesystem in a namespace of this thread, so that no mount remains.
fn mounted(at: &Path) -> std::io::Result<BackgroundSession> {
    let none = None::<&Path>;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    fuser::spawn_mount2(Files, at, &[MountOption::FSName("folding".into())])
}

fn decide(tree: &Tree) {
    let (at, ws) = (tree.path("at"), tree.path("at/ws"));
    let boundary = Boundary::builder()
        .directory(&at, Access::ReadOnly)
        .directory(&ws, Access::ReadWrite)
        .deny(".env")
        .build()
        .unwrap();
    let roots = boundary.allowed_roots();
    let access = |roots: &Roots, path: &str| match roots.check(at.join(path)) {
        Ok(checked) if checked.access() == Access::ReadWrite => "write",
        Ok(_) => "read",
        Err(error) => error.code(),
    };
    let decided = ["ws/f", "WS/f", "Ws/F", "notes", ".env", ".ENV", "ws/.Env", "WS/.env"];
    let expected =
        ["write", "read", "read", "read", "protected", "protected", "protected", "protected"];
    assert_eq!(decided.map(|path| access(&roots, path)), expected);
    assert_eq!(code(roots.write("WS/f", "no")), Some("read_only"));
    assert_eq!(code(roots.write("WS/new", "no")), Some("read_only"));
    // Neither a list nor a parameter raises the access.
    let list = ListRootsResult::from_uris([tree.uri("at/WS")]);
    let listed = boundary.narrow(&list.roots).unwrap();
    assert_eq!(
        listed.iter().map(mcp_roots_guard::Root::access).collect::<Vec<_>>(),
        [Access::ReadOnly]
    );
    assert_eq!(access(&roots.within("WS").unwrap(), "WS/f"), "read");
    assert_eq!(access(&roots.within("ws").unwrap(), "ws/f"), "write");
    // A configuration in which the other case would give more access is refused.
    let twice = Boundary::builder()
        .directory(&ws, Access::ReadOnly)
        .directory(tree.path("at/WS"), Access::ReadWrite);
    assert_eq!(twice.build().unwrap_err().kind(), ErrorKind::InvalidConfiguration);
    // A root is not removed or moved under another name.
    let both =
        Boundary::builder().directory(&at, Access::ReadWrite).directory(&ws, Access::ReadWrite);
    let roots = both.build().unwrap().allowed_roots();
    assert_eq!(code(roots.rename("WS", "new", Precondition::Missing)), Some("root_itself"));
    assert_eq!(code(roots.remove_dir_all("Ws")), Some("root_itself"));
}

struct Files;

const DIRECTORIES: u64 = 2;

/// The names in the top directory and in `ws`, and their inodes.
const NAMES: [(u64, &str, u64); 5] =
    [(1, "ws", 2), (1, "notes", 3), (1, ".env", 4), (2, "f", 5), (2, ".env", 6)];

fn attributes(inode: u64) -> FileAttr {
    let is_directory = inode <= DIRECTORIES;
    FileAttr {
        ino: inode,
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_directory { FileType::Directory } else { FileType::RegularFile },
        perm: if is_directory { 0o755 } else { 0o644 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 512,
        flags: 0,
    }
}

impl Filesystem for Files {
    fn lookup(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEntry) {
        let found =
            NAMES.iter().find(|(at, known, _)| *at == parent && name.eq_ignore_ascii_case(known));
        match found {
            Some((.., inode)) => reply.entry(&Duration::ZERO, &attributes(*inode), 0),
            None => reply.error(rustix::io::Errno::NOENT.raw_os_error()),
        }
    }

    fn getattr(&mut self, _: &Request<'_>, inode: u64, _: Option<u64>, reply: ReplyAttr) {
        reply.attr(&Duration::ZERO, &attributes(inode));
    }
}
