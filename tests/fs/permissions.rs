//! Compares the access to a file before and after a write. No user may gain access. The tests
//! verify this by opening the file as each user.
//!
//! Threads change their user, which requires root. Without root the tests are skipped with a
//! message, or fail if `CI` is set.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use mcp_roots_guard::{Access, Durability, Roots, WriteOptions};
use rustix::fs::{XattrFlags, getxattr, removexattr, setxattr};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::TO_CHILD;
use crate::support::kernel::without_openat2;
use crate::support::one_step::OneStep as _;
use crate::support::proof::Intent;

/// A user ID and the group IDs of that user.
pub(crate) type User = (u32, &'static [u32]);

const OWNER: u32 = 5001;
const GROUP: u32 = 5000;
/// The group of a set-group-ID directory, which its new files inherit.
const DIRECTORY_GROUP: u32 = 6000;
/// The user that access list entries name.
const NAMED: u32 = 7001;

const ROOT: User = (0, &[0]);

/// One user for each way of getting access to a file.
pub(crate) const USERS: [User; 7] = [
    (OWNER, &[OWNER]),
    (NAMED, &[NAMED]),
    (NAMED, &[GROUP]),
    (7004, &[GROUP]),
    (7005, &[DIRECTORY_GROUP]),
    (7006, &[DIRECTORY_GROUP, GROUP]),
    (7008, &[7008]),
];

/// Runs a closure as another user, in its own thread.
pub(crate) fn as_user<T: Send>(user: User, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let (uid, groups) = (Uid::from_raw(user.0), user.1);
            let gid = Gid::from_raw(groups[0]);
            set_thread_groups(
                &groups.iter().map(|group| Gid::from_raw(*group)).collect::<Vec<_>>(),
            )
            .unwrap();
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            work()
        });
        worker.join().unwrap()
    })
}

/// Returns whether each user can read the file and whether they can write it, determined by opening
/// it as that user.
fn access(path: &Path) -> Vec<(User, bool, bool)> {
    let opens = |user: User| {
        let open = || {
            (
                OpenOptions::new().read(true).open(path).is_ok(),
                OpenOptions::new().write(true).open(path).is_ok(),
            )
        };
        let (reads, writes) = as_user(user, open);
        (user, reads, writes)
    };
    USERS.map(opens).to_vec()
}

/// An access control list: the tag, ID and permission bits of each entry.
type Acl = &'static [(u16, u32, u16)];

const TAG_OWNER: u16 = 1;
const TAG_USER: u16 = 2;
const TAG_GROUP: u16 = 4;
const TAG_NAMED_GROUP: u16 = 8;
const TAG_MASK: u16 = 0x10;
const TAG_OTHER: u16 = 0x20;
const NO_ID: u32 = u32::MAX;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Sets an access control list as an extended attribute (`struct posix_acl_xattr_header` and
/// `posix_acl_xattr_entry` of linux/posix_acl_xattr.h).
fn set_acl(path: &Path, attribute: &str, acl: Acl) {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, id, bits) in acl {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&bits.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    setxattr(path, attribute, &bytes, XattrFlags::empty()).unwrap();
}

fn acl(path: &Path) -> Option<Vec<u8>> {
    let mut buffer = [0; 1024];
    let len = getxattr(path, ACCESS, &mut buffer).ok()?;
    Some(buffer[..len].to_vec())
}

/// Creates a directory that everybody can write to, on a filesystem with access control lists.
/// Without root, returns `None`, or panics if `CI` is set.
pub(crate) fn directory(on: &str) -> Option<tempfile::TempDir> {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "this test must run in CI, but needs root");
        crate::support::skip::skip("changing the user requires root");
        return None;
    }
    let directory = tempfile::Builder::new().prefix("guard-").tempdir_in(on).unwrap();
    set_mode(directory.path(), 0o777);
    Some(directory)
}

/// Creates a plain directory, one that gives its group to new files, and one that also gives them
/// an access list.
fn directories(beneath: &Path) -> [PathBuf; 3] {
    [("plain", 0o777), ("shared", 0o2777), ("listed", 0o2777)].map(|(name, mode)| {
        let directory = beneath.join(name);
        fs::create_dir(&directory).unwrap();
        chown(&directory, None, Some(DIRECTORY_GROUP)).unwrap();
        set_mode(&directory, mode);
        if name == "listed" {
            set_acl(&directory, DEFAULT, INHERITED);
        }
        directory
    })
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The owner, the group and the mode of a file.
fn ownership(path: &Path) -> (u32, u32, u32) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
}

/// Creates a file that belongs to [`OWNER`] and [`GROUP`].
fn file(directory: &Path, name: &str, mode: u32, acl: Option<Acl>) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, "old").unwrap();
    // Remove the list inherited from the directory.
    let _ = removexattr(&path, ACCESS);
    if let Some(acl) = acl {
        set_acl(&path, ACCESS, acl);
    }
    chown(&path, Some(OWNER), Some(GROUP)).unwrap();
    set_mode(&path, mode);
    path
}

fn write_as(user: User, path: &Path) -> mcp_roots_guard::Result<()> {
    let roots = Roots::from_dirs([path.parent().unwrap()], Access::ReadWrite).unwrap();
    as_user(user, || roots.write(path, "new"))
}

/// Describes the users who gained access. The writer does not count, because it may own the new
/// file.
fn gained(before: &[(User, bool, bool)], after: &[(User, bool, bool)], writer: User) -> String {
    let mut gained = String::new();
    for ((user, read, write), (_, reads, writes)) in before.iter().zip(after) {
        if (user.0 != writer.0 && !read && *reads) || (user.0 != writer.0 && !write && *writes) {
            write!(gained, "{user:?} read {read} -> {reads}, write {write} -> {writes}; ").unwrap();
        }
    }
    gained
}

/// Nobody gains access, whatever new files inherit from the directory and whatever the writer
/// cannot preserve. A refused write changes nothing; root preserves everything. In a set-group-ID
/// directory, a write once gave the file to another group. A write also once dropped an access list
/// that denied a group access.
#[test]
fn a_write_gives_nobody_new_access() {
    const MODES: [u32; 14] = [
        0o600, 0o640, 0o660, 0o644, 0o664, 0o604, 0o666, 0o464, 0o044, 0o066, 0o006, 0o060, 0o200,
        0o000,
    ];
    const LISTS: [Option<Acl>; 3] = [None, Some(GROUP_DENIED), Some(USER_DENIED)];
    let (Some(keep), Some(other)) = (directory("/dev/shm"), directory("/tmp")) else { return };
    let (mut written, mut refused) = (0, 0);
    for directory in [&keep, &other].into_iter().flat_map(|keep| directories(keep.path())) {
        let lists = MODES.into_iter().flat_map(|mode| LISTS.map(|acl| (mode, acl)));
        for (mode, acl, writer) in
            lists.flat_map(|(mode, acl)| WRITERS.map(|writer| (mode, acl, writer)))
        {
            let row = format!("{} {mode:o} {acl:?} by {writer:?}", directory.display());
            let path = file(&directory, "f", mode, acl);
            let before = (access(&path), ownership(&path), self::acl(&path));
            assert_eq!(acl.is_some(), before.2.is_some(), "{row}: access lists must be supported");
            let result = write_as(writer, &path);
            let after = (access(&path), ownership(&path), self::acl(&path));
            assert_eq!(gained(&before.0, &after.0, writer), "", "{row}: now {:?}", after.1);
            assert_eq!(after.2, before.2, "{row}: a list is kept as it is");
            if writer == ROOT || result.is_err() {
                assert_eq!(after, before, "{row}");
            }
            let content = fs::read(&path).unwrap();
            match result.map_err(|error| error.code()) {
                Ok(()) => written += usize::from(content == b"new"),
                Err("permission_denied") => refused += usize::from(content == b"old"),
                Err(other) => panic!("{row}: {other}"),
            }
            fs::remove_file(path).unwrap();
        }
    }
    println!("{written} writes and {refused} refusals gave nobody new access");
    assert_eq!(written + refused, 2 * 3 * 14 * 3 * 5);
    assert!(written > 500 && refused > 500, "{written} {refused}");
}

/// A temporary file that grants access too early can be seen only during an instant, so a member of
/// the group that the list denies tries to open every new file during many writes.
#[test]
fn nobody_can_open_the_temporary_file_who_cannot_open_the_old_one() {
    let Some(keep) = directory("/dev/shm") else { return };
    let path = file(keep.path(), "f", 0o660, Some(GROUP_DENIED));
    let is_done = AtomicBool::new(false);
    let open_all = || {
        let mut tries = 0;
        while !is_done.load(Relaxed) {
            for entry in fs::read_dir(keep.path()).unwrap() {
                let opened = fs::File::open(entry.unwrap().path());
                assert!(opened.is_err(), "{opened:?} after {tries} tries");
                tries += 1;
            }
        }
        println!("tried to open {tries} files");
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| as_user((7004, &[GROUP]), open_all));
        let options = WriteOptions::default().durability(Durability::None);
        let roots = Roots::from_dirs([keep.path()], Access::ReadWrite).unwrap();
        let written = (0..WRITES).try_for_each(|_| roots.write_with(&path, "new", options));
        is_done.store(true, Relaxed);
        written.unwrap();
        other.join().unwrap();
    });
}

/// The copy is made by each user who can read the source, with each way of copying, to a new name
/// and over a file of another mode.
#[test]
fn a_copy_lets_nobody_use_what_the_source_denies() {
    let Some(keep) = directory("/dev/shm") else { return };
    let mut rows = 0;
    for directory in directories(keep.path()) {
        let name = directory.file_name().unwrap().to_str().unwrap();
        fs::create_dir(directory.join("source")).unwrap();
        set_mode(&directory.join("source"), fs::metadata(&directory).unwrap().mode());
        let roots = Roots::from_dirs([&directory], Access::ReadWrite).unwrap();
        for mode in [0o600, 0o640, 0o664, 0o644, 0o604, 0o666, 0o464, 0o044, 0o060, 0o4755] {
            for acl_of in [None, Some(GROUP_DENIED), Some(USER_DENIED), Some(OWNER_NAMED)] {
                for (owner, group) in [(OWNER, GROUP), (7006, DIRECTORY_GROUP)] {
                    let source = file(&directory.join("source"), "f", mode, acl_of);
                    chown(&source, Some(owner), Some(group)).unwrap();
                    set_mode(&source, mode);
                    let allowed = access(&source);
                    for (writer, kind) in WRITERS
                        .into_iter()
                        .flat_map(|writer| (1..5).map(move |kind| (writer, kind)))
                    {
                        let row =
                            format!("{name} {mode:o} {acl_of:?} {owner} by {writer:?} {kind}");
                        let to = directory.join("copy");
                        let old = (kind > 1).then(|| {
                            let list = [None, Some(OWNER_NAMED), None][kind - 2];
                            access(&file(&directory, "copy", [0o666, 0o664, 0o777][kind - 2], list))
                        });
                        let new = WriteOptions::default();
                        let options = if kind == 4 { new.in_place() } else { new.into() };
                        let copied = as_user(writer, || roots.copy("source/f", "copy", 9, options));
                        let copy = to.clone();
                        match copied {
                            Ok(bytes) => {
                                assert_eq!(bytes, 3, "{row}");
                                let (after, now) = (access(&copy), fs::metadata(&copy).unwrap());
                                assert_eq!(now.mode() & 0o7000, 0, "{row}");
                                let more = gained(&allowed, &after, writer);
                                assert_eq!(more, "", "{row}: now {:o}", now.mode());
                                if let Some(old) = old {
                                    assert_eq!(gained(&old, &after, writer), "", "{row}");
                                }
                                rows += 1;
                            }
                            Err(error) => {
                                assert_eq!(error.code(), "permission_denied", "{row}: {error}");
                                assert!(kind < 2 || access(&copy) == old.unwrap(), "{row}");
                            }
                        }
                        let _ = fs::remove_file(&to).or_else(|_| fs::remove_dir_all(&to));
                    }
                    fs::remove_file(&source).unwrap();
                }
            }
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "only the source is left");
    }
    println!("{rows} copies, none let anybody use what the source denies");
    assert!(rows > 2000, "{rows}");
}

/// A copy has the permissions of a new file, as far as the source allows.
#[test]
fn a_copy_has_the_mode_of_the_source_minus_the_umask() {
    let Some(keep) = directory("/tmp") else { return };
    let roots = Roots::from_dirs([keep.path()], Access::ReadWrite).unwrap();
    let new = keep.path().join("new");
    fs::write(&new, "").unwrap();
    let umask = 0o666 & !fs::metadata(&new).unwrap().mode();
    // Each row has the owner of the source, its mode, and the expected mode before the umask.
    for (owner, mode, expected) in [
        (0, 0o777, 0o777),
        (0, 0o640, 0o640),
        (0, 0o4751, 0o751),
        // The owner could only read, and is now one of the others or a member of the group.
        (OWNER, 0o466, 0o444),
        (OWNER, 0o666, 0o666),
        (OWNER, 0o640, 0o640),
    ] {
        let source = file(keep.path(), "f", mode, None);
        chown(&source, Some(owner), Some(0)).unwrap();
        set_mode(&source, mode);
        roots.copy("f", "copy", 9, WriteOptions::default()).unwrap();
        let copy = fs::metadata(keep.path().join("copy")).unwrap();
        let row = format!("{owner} {mode:o}");
        assert_eq!((copy.uid(), copy.mode() & 0o7777), (0, expected & !umask), "{row}");
        fs::remove_file(keep.path().join("copy")).unwrap();
    }
}

/// If the writer cannot preserve the owner or the group, the new file keeps exactly the permissions
/// that every affected user had before. A file whose access list cannot be kept or read is not
/// replaced, and a file written in pieces is refused before it is written.
#[test]
fn permissions_shrink_only_as_far_as_lost_ownership_requires() {
    let Some(keep) = directory("/dev/shm") else { return };
    // Each row lists the writer, the file's mode and access list before the write, and the expected
    // owner, group and mode after it, or a part of the reason for a refusal.
    let rows: [ExpectedOwnership; 11] = [
        // The owner can give the file only to a group that it belongs to.
        ((OWNER, &[OWNER, GROUP]), 0o660, None, Ok((OWNER, GROUP, 0o660))),
        ((OWNER, &[OWNER, GROUP]), 0o664, Some(GROUP_DENIED), Ok((OWNER, GROUP, 0o664))),
        ((OWNER, &[OWNER]), 0o660, None, Ok((OWNER, OWNER, 0o600))),
        ((OWNER, &[OWNER]), 0o664, None, Ok((OWNER, OWNER, 0o644))),
        ((OWNER, &[OWNER]), 0o664, Some(USER_DENIED), Err("list cannot be kept")),
        (MEMBER, 0o664, None, Ok((7009, GROUP, 0o664))),
        (NON_MEMBER, 0o664, None, Ok((7009, 7009, 0o644))),
        // The old owner could only read, and now has the access of other users.
        (MEMBER, 0o466, None, Ok((7009, GROUP, 0o444))),
        (NON_MEMBER, 0o660, None, Err("neither read nor write it")),
        ((NAMED, &[NAMED, GROUP]), 0o664, Some(GROUP_DENIED), Err("list cannot be kept")),
        (ROOT, 0o4755, None, Ok((OWNER, GROUP, 0o755))),
    ];
    for (writer, mode, acl_of, expected) in rows {
        let row = format!("{mode:o} {acl_of:?} by {writer:?}");
        let path = file(keep.path(), "f", mode, acl_of);
        let list = acl(&path);
        let roots = Roots::from_dirs([keep.path()], Access::ReadWrite).unwrap();
        let begun = as_user(writer, || roots.atomic_file(&path, WriteOptions::default()).map(drop));
        for result in [begun, write_as(writer, &path)] {
            match (&result, expected) {
                (Err(error), Err(reason)) => assert!(error.to_string().contains(reason), "{error}"),
                _ => assert_eq!(result.is_ok(), expected.is_ok(), "{row}: {result:?}"),
            }
        }
        let old = (OWNER, GROUP, mode);
        assert_eq!((ownership(&path), acl(&path)), (expected.unwrap_or(old), list), "{row}");
    }
}

/// In a user namespace that does not map a file's owner, the owner appears as the overflow ID,
/// which can belong to another user.
#[test]
fn a_file_with_an_unmapped_owner_is_not_given_to_the_overflow_id() {
    if let Some(path) = std::env::var_os(TO_CHILD) {
        let roots = Roots::from_dirs([path], Access::ReadWrite).unwrap();
        roots.write("f", "new").unwrap();
        return assert_eq!(roots.write("listed", "new").unwrap_err().code(), "permission_denied");
    }
    let Some(keep) = directory("/dev/shm") else { return };
    let path = file(keep.path(), "f", 0o644, None);
    let listed = file(keep.path(), "listed", 0o664, Some(USER_DENIED));
    let list = acl(&listed);
    let this = std::env::current_exe().unwrap();
    let name = "fs::permissions::a_file_with_an_unmapped_owner_is_not_given_to_the_overflow_id";
    let mut inside = Command::new("unshare")
        .args(["--user", "sh", "-c", r#"read -r mapped && exec "$0" --exact "$1""#])
        .args([this.as_os_str(), name.as_ref()])
        .env(TO_CHILD, keep.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/user")).unwrap();
    let process = inside.id().to_string();
    while namespace(&process) == namespace("self") && inside.try_wait().unwrap().is_none() {
        thread::yield_now();
    }
    if inside.try_wait().unwrap().is_some() {
        assert!(std::env::var_os("CI").is_none(), "CI must have user namespaces");
        return crate::support::skip::skip("there are no user namespaces");
    }
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{process}/{map}"), "0 0 1\n65534 100000 1\n").unwrap();
    }
    inside.stdin.take().unwrap().write_all(b"mapped\n").unwrap();
    assert!(inside.wait().unwrap().success());
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(ownership(&path), (0, 0, 0o644));
    // An access list cannot name an unmapped user either.
    assert_eq!((fs::read(&listed).unwrap(), acl(&listed)), (b"old".to_vec(), list));
    // Where every ID is mapped, the overflow ID is an ordinary owner.
    chown(&path, Some(65534), Some(65534)).unwrap();
    write_as(ROOT, &path).unwrap();
    assert_eq!(ownership(&path), (65534, 65534, 0o644));
}

/// A write in place needs only write access to the file. It preserves everything but the content
/// and the set-ID bits.
#[test]
fn a_write_in_place_keeps_owner_mode_attributes_and_links() {
    let Some(keep) = directory("/tmp") else { return };
    let new = WriteOptions::default();
    let (in_place, if_owner_changes) = (new.in_place(), new.in_place_if_owner_changes());
    let rows = [
        (new.into(), ROOT, true),
        (in_place, ROOT, false),
        (if_owner_changes, ROOT, true),
        (in_place, MEMBER, false),
        (if_owner_changes, MEMBER, false),
        (if_owner_changes, (OWNER, &[OWNER, GROUP]), true),
    ];
    for (options, writer, is_new) in rows {
        for content in ["longer than before", "x", ""] {
            let row = format!("{options:?} {content:?} by {writer:?}");
            // Only the owner can clear the set-ID bits.
            let mode = if writer == MEMBER { 0o775 } else { 0o6775 };
            let path = file(keep.path(), "f", mode, Some(OWNER_NAMED));
            setxattr(&path, "user.mark", b"kept", XattrFlags::empty()).unwrap();
            let other = keep.path().join("other");
            fs::hard_link(&path, &other).unwrap();
            let (before, list) = (fs::metadata(&path).unwrap(), acl(&path));
            let roots = Roots::from_dirs([keep.path()], Access::ReadWrite).unwrap();
            as_user(writer, || roots.write_with(&path, content, options)).unwrap();
            let after = fs::metadata(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content, "{row}");
            assert_eq!(after.ino() != before.ino(), is_new, "{row}");
            let is_linked = fs::read_to_string(&other).unwrap() == content;
            assert_eq!(is_linked, !is_new, "{row}");
            // Otherwise, a program that a tool wrote could run as another user.
            assert_eq!(after.mode() & 0o7000, 0, "{row}");
            if !is_new {
                assert_eq!((ownership(&path), acl(&path)), ((OWNER, GROUP, 0o775), list), "{row}");
                assert_eq!(getxattr(&path, "user.mark", &mut [0; 9]).unwrap(), 4, "{row}");
            }
            fs::remove_file(&other).unwrap();
            assert_eq!(fs::read_dir(keep.path()).unwrap().count(), 1, "{row}");
            fs::remove_file(&path).unwrap();
        }
    }
    // A user who can write to the directory but not to the file cannot write in place.
    let path = file(keep.path(), "f", 0o644, None);
    let roots = Roots::from_dirs([keep.path()], Access::ReadWrite).unwrap();
    for options in [in_place, if_owner_changes] {
        let refused = as_user(MEMBER, || roots.write_with(&path, "new", options)).unwrap_err();
        assert_eq!(refused.code(), "permission_denied", "{options:?}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }
}

/// The writers: root, which can give files away; the owner, outside and inside the file's group;
/// another member of the group; and a user outside the group.
const WRITERS: [User; 5] = [ROOT, (OWNER, &[OWNER]), (OWNER, &[OWNER, GROUP]), MEMBER, NON_MEMBER];

/// Enough to catch a list that is in effect when it is set, in a second.
const WRITES: usize = 10_000;

/// Users that own no file: a member of the file's group, and a user outside it.
const MEMBER: User = (7009, &[7009, GROUP]);
const NON_MEMBER: User = (7009, &[7009]);

type ExpectedOwnership = (User, u32, Option<Acl>, Result<(u32, u32, u32), &'static str>);

/// The default list of a directory. It grants full access to a user and a group that no file's list
/// names.
const INHERITED: Acl = &[
    (TAG_OWNER, NO_ID, 7),
    (TAG_USER, 7008, 7),
    (TAG_GROUP, NO_ID, 7),
    (TAG_NAMED_GROUP, DIRECTORY_GROUP, 7),
    (TAG_MASK, NO_ID, 7),
    (TAG_OTHER, NO_ID, 7),
];

/// Denies access to the file's own group, although the group bits of the mode show the mask. Grants
/// access to one user.
const GROUP_DENIED: Acl = &[
    (TAG_OWNER, NO_ID, 6),
    (TAG_USER, NAMED, 6),
    (TAG_GROUP, NO_ID, 0),
    (TAG_MASK, NO_ID, 6),
    (TAG_OTHER, NO_ID, 0),
];

/// Denies access to one user, and lets all others read.
const USER_DENIED: Acl = &[
    (TAG_OWNER, NO_ID, 6),
    (TAG_USER, NAMED, 0),
    (TAG_GROUP, NO_ID, 4),
    (TAG_MASK, NO_ID, 6),
    (TAG_OTHER, NO_ID, 4),
];

/// Contains an additional entry that names the file's owner.
const OWNER_NAMED: Acl = &[
    (TAG_OWNER, NO_ID, 4),
    (TAG_USER, OWNER, 6),
    (TAG_USER, NAMED, 4),
    (TAG_GROUP, NO_ID, 6),
    (TAG_MASK, NO_ID, 6),
    (TAG_OTHER, NO_ID, 4),
];

/// With CAP_CHOWN alone, a writer could give the file away but not change it afterwards. The new
/// file therefore belongs to the writer, as it would without the capability.
#[test]
fn a_writer_with_only_cap_chown_owns_the_new_file() {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities};
    let Some(directory) = directory("/tmp") else { return };
    let path = file(directory.path(), "f", 0o664, None);
    let roots = Roots::from_dirs([directory.path()], Access::ReadWrite).unwrap();
    let writer = (OWNER + 1, GROUP);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(writer.0), Gid::from_raw(writer.1));
            set_keep_capabilities(true).unwrap();
            set_thread_groups(&[gid]).unwrap();
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            let chown = CapabilitySet::CHOWN;
            let sets = CapabilitySets {
                effective: chown,
                permitted: chown,
                inheritable: CapabilitySet::empty(),
            };
            set_capabilities(None, sets).unwrap();
            roots.write("f", "new").unwrap();
        });
    });
    assert_eq!(ownership(&path), (writer.0, GROUP, 0o664));
}

/// The decision is the same with and without `openat2`, which cannot resolve `..` in an
/// unsearchable directory.
#[test]
fn an_unsearchable_directory_hides_only_its_own_entries() {
    const DENIED: Result<(), &'static str> = Err("permission_denied");
    let Some(directory) = directory("/tmp") else { return };
    let top = directory.path().canonicalize().unwrap();
    file(&top, "f", 0o644, None);
    fs::create_dir(top.join("closed")).unwrap();
    fs::write(top.join("closed/f"), "new").unwrap();
    set_mode(&top.join("closed"), 0o600);
    symlink("closed/../f", top.join("link")).unwrap();
    for (request, expected) in [
        ("closed/../f", Ok(())),
        ("link", Ok(())),
        ("closed/f", DENIED),
        ("closed/f/../../f", DENIED),
        ("closed/../none", Err("not_found")),
        ("closed/../f/", Err("not_a_directory")),
        ("closed/../../f", Err("outside_roots")),
    ] {
        let roots = Roots::from_dirs([&top], Access::ReadWrite).unwrap();
        let decide = move || {
            as_user(USERS[0], || {
                let checked = Intent::Existing.decide(&roots, request);
                let checked = checked.map(|checked| checked.canonical().ends_with("f"));
                let read = roots.read(request, 9).map(|content| content == b"old");
                [checked, read.map_err(|error| error.code())]
                    .map(|is_f| is_f.map(|is_f| assert!(is_f)))
            })
        };
        assert_eq!(decide.clone()(), [expected; 2], "{request}");
        assert_eq!(without_openat2(decide), [expected; 2], "{request} without openat2");
    }
}
