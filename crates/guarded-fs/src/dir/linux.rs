//! System calls on Linux. Most operations take one `openat2` call, and return `None` if it cannot
//! be used.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Instant;

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags, StatxFlags, openat2};
use rustix::io::Errno;

use super::{Follow, Metadata, Mount, OpenHow, Rule, proc_link};
use crate::error::{Code, Result};
use crate::limits::{OPENAT2_RETRIES, OPENAT2_RETRY_TIME};

/// Like cap-std's `Dir::open_ambient_dir`, also with musl, where `std` removes `O_PATH` from its
/// custom flags: a confined process may not open `/` for reading.
pub(super) fn ambient(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
}

pub(super) fn dir(at: &Dir, path: &Path, mounts: Rule) -> Option<io::Result<File>> {
    plain(at, path, OFlags::PATH | OFlags::DIRECTORY, None, mounts)
}

/// Unlike [`dir`], opens a descriptor that can be listed.
pub(super) fn open_dir(at: &Dir, path: &Path, mounts: Rule) -> Option<io::Result<File>> {
    plain(at, path, OFlags::RDONLY | OFlags::DIRECTORY, None, mounts)
}

/// `O_PATH | O_NOFOLLOW` opens a symlink itself, even with `RESOLVE_NO_SYMLINKS` (openat2(2)).
pub(super) fn look(at: &Dir, path: &Path, mounts: Rule) -> Option<io::Result<File>> {
    plain(at, path, OFlags::PATH | OFlags::NOFOLLOW, None, mounts)
}

pub(super) fn open(at: &Dir, path: &Path, how: OpenHow, mounts: Rule) -> Option<io::Result<File>> {
    let mut flags = match (how.read, how.write || how.append) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
    flags.set(OFlags::APPEND, how.append);
    flags.set(OFlags::CREATE | OFlags::EXCL, how.create_new.is_some());
    plain(at, path, flags, how.create_new, mounts)
}

pub(super) fn follow(
    at: &Dir,
    path: &OsStr,
    want: Follow,
    mounts: Rule,
) -> Option<io::Result<File>> {
    let read = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let (flags, links) = match want {
        Follow::NoLink => (OFlags::PATH, ResolveFlags::NO_SYMLINKS),
        Follow::Read => (read, ResolveFlags::empty()),
        Follow::ReadNoLink => (read, ResolveFlags::NO_SYMLINKS),
    };
    call(at, path, flags, None, mounts, links)
}

/// Opens a path of plain names. Also fails with `ELOOP` if another process moves a directory on it
/// out of `at`.
fn plain(
    at: &Dir,
    path: &Path,
    flags: OFlags,
    mode: Option<u32>,
    mounts: Rule,
) -> Option<io::Result<File>> {
    let path = path.as_os_str();
    let opened = call(at, path, flags, mode, mounts, ResolveFlags::NO_SYMLINKS)?;
    Some(opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::XDEV) if mounts == Rule::Allow || has_moved(at, path) => Errno::LOOP.into(),
        _ => error,
    }))
}

/// Calls `openat2`. With `NO_SYMLINKS` in `links`, it fails with `ELOOP` at the first symlink.
/// Otherwise, it follows symlinks inside the directory, and fails with `EXDEV` at one that leaves
/// it. Returns `None` if it is not available, or keeps failing with `EAGAIN` or `EINTR`. A seccomp
/// filter can be installed at any time, so whether it is available is not cached.
fn call(
    at: &Dir,
    path: &OsStr,
    flags: OFlags,
    mode: Option<u32>,
    mounts: Rule,
    links: ResolveFlags,
) -> Option<io::Result<File>> {
    let path = if path.is_empty() { OsStr::new(".") } else { path };
    // Defense: The kernel opens nothing outside the directory, even if a name is swapped.
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    resolve.set(ResolveFlags::NO_XDEV, mounts == Rule::Refuse);
    let mode = mode.map_or(Mode::empty(), Mode::from_raw_mode);
    let mut again: Option<Instant> = None;
    for _ in 0..OPENAT2_RETRIES {
        match openat2(at, path, flags | OFlags::CLOEXEC, mode, resolve | links) {
            // A file was renamed somewhere on the system while the kernel resolved `..`, or a signal
            // interrupted it (openat2(2)).
            Err(Errno::AGAIN | Errno::INTR)
                if again.get_or_insert_with(Instant::now).elapsed() < OPENAT2_RETRY_TIME => {}
            Err(Errno::AGAIN | Errno::INTR) => break,
            // ENOSYS means Linux before 5.6, or a seccomp filter. EPERM means a filter such as the
            // ones that container runtimes install. If EPERM concerns the file itself, the fallback
            // walk through open descriptors also fails with EPERM.
            Err(Errno::NOSYS | Errno::PERM) => return None,
            Err(error) => return Some(Err(error.into())),
            Ok(fd) => return Some(Ok(File::from(fd))),
        }
    }
    None
}

/// Whether `EXDEV` means that another process moved a directory on the path out of `at`. The only
/// other cause is a mount point on the path (`RESOLVE_NO_XDEV`), so the walk is repeated without
/// that flag.
fn has_moved(at: &Dir, path: &OsStr) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let again = call(at, path, flags, None, Rule::Allow, ResolveFlags::NO_SYMLINKS);
    matches!(again, Some(Err(error)) if Errno::from_io_error(&error) == Some(Errno::XDEV))
}

pub(super) fn classify(error: &io::Error) -> Option<Code> {
    match Errno::from_io_error(error)? {
        // A name that was not a symlink a moment ago has become one, or a directory on the path was
        // moved.
        Errno::LOOP => Some(Code::Changed),
        // `plain` has ruled out every cause except RESOLVE_NO_XDEV.
        Errno::XDEV => Some(Code::MountCrossing),
        // open(2) fails with ENXIO for a socket, and when a FIFO without a reader is opened for
        // writing.
        Errno::NXIO => Some(Code::SpecialFile),
        _ => None,
    }
}

fn target(link: &File) -> rustix::io::Result<OsString> {
    let mut buffer = [MaybeUninit::uninit(); MOST_TARGETS];
    let (text, rest) = rustix::fs::readlinkat_raw(link, "", &mut buffer)?;
    let text = if rest.is_empty() {
        rustix::fs::readlinkat(link, "", Vec::new())?.into_bytes()
    } else {
        text.to_vec()
    };
    Ok(OsString::from_vec(text))
}

/// Most targets have no more bytes. A longer one is read twice.
const MOST_TARGETS: usize = 256;

pub(super) fn read_link(link: &File, metadata: &Metadata) -> Result<OsString> {
    if is_in_proc(link, metadata)? {
        return Err(proc_link());
    }
    Ok(target(link).map_err(io::Error::from)?)
}

/// `at` is the symlink or its directory.
pub(super) fn is_in_proc<F: AsFd>(at: &F, symlink: &Metadata) -> Result<bool> {
    Ok(symlink.may_be_in_proc() && is_proc(at)?)
}

/// Whether a file is in a proc filesystem, where the kernel chooses the target of a symlink
/// whatever readlink(2) returns (proc(5); "magic links" in symlink(7)).
pub(crate) fn is_proc<F: AsFd>(at: &F) -> Result<bool> {
    const PROC_SUPER_MAGIC: u64 = 0x9fa0;
    let stat = rustix::fs::fstatfs(at).map_err(io::Error::from)?;
    // The field is signed on some systems. No known type is negative.
    // Defense: Symlinks of proc are refused, because the kernel chooses their targets.
    Ok(u64::try_from(stat.f_type).unwrap_or_default() == PROC_SUPER_MAGIC)
}

/// `AT_NO_AUTOMOUNT`, because a look-up should not trigger a mount, which can block indefinitely.
/// Opening with `O_PATH` does not trigger one either (statx(2), open(2)).
pub(super) fn describe(at: &Dir, name: &OsStr) -> io::Result<Metadata> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    match rustix::fs::statx(at, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, wanted) {
        // `statx` is not available before Linux 4.11, and a seccomp filter can refuse it, as it can
        // refuse `openat2`.
        Err(Errno::NOSYS | Errno::PERM) => {
            Ok(Metadata::of_stat(&rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?))
        }
        stat => Ok(Metadata::of_statx(&stat?)),
    }
}

pub(super) fn mount<F: AsFd>(at: &F) -> Result<Mount> {
    mount_of(at, OsStr::new(""))
}

/// An empty name is the file itself.
pub(super) fn mount_of<F: AsFd>(at: &F, name: &OsStr) -> Result<Mount> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    let stat = rustix::fs::statx(at, name, flags, StatxFlags::MNT_ID).map_err(io::Error::from)?;
    let known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID);
    let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
    Ok((known, if known { stat.stx_mnt_id } else { device }))
}

/// Gives an open file a name, and fails with `EEXIST` if the name exists. Returns `None` if no proc
/// filesystem is mounted at `/proc`, or if the system finds no file (ENOENT, linkat(2)).
pub(super) fn link_file(file: &File, to_dir: &Dir, to: &OsStr) -> Option<io::Result<()>> {
    // A thread can have a descriptor table of its own (unshare(2)).
    let own = ambient(Path::new("/proc/thread-self/fd")).ok()?;
    // Defense: A symlink that a tool put at `/proc` is not taken for the open file.
    let own = Some(own).filter(|own| is_proc(own).is_ok_and(|is_proc| is_proc))?;
    let number = file.as_raw_fd().to_string();
    match rustix::fs::linkat(own, number, to_dir, to, AtFlags::SYMLINK_FOLLOW) {
        Err(Errno::NOENT) => None,
        linked => Some(linked.map_err(Into::into)),
    }
}

/// Renames, and fails with `EEXIST` if the destination exists. Returns `None` if the filesystem
/// cannot check this atomically (EINVAL, EOPNOTSUPP, renameat2(2)), or if the call is not available
/// (ENOSYS, EPERM).
pub(super) fn rename_new(
    from_dir: &Dir,
    from: &OsStr,
    to_dir: &Dir,
    to: &OsStr,
) -> Option<io::Result<()>> {
    match rustix::fs::renameat_with(from_dir, from, to_dir, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => None,
        renamed => Some(renamed.map_err(Into::into)),
    }
}
