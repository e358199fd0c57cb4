//! The kernel as an oracle, and a way to run code as if the kernel had no `openat2`.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use super::model::Decision;
use super::proof::Intent;
pub(crate) use super::seccomp::block_call;

/// Checks a decision against the kernel. The request is absolute or starts in `root`. The guard and
/// the kernel must resolve it to the same path, or return the same error. If the decision is
/// "outside", `openat2` with `RESOLVE_BENEATH` must also leave the root.
///
/// For [`Intent::New`], this creates the file and removes it again. [`Intent::NewTree`] is compared
/// only where the whole path exists.
pub(crate) fn agrees(
    decided: &Decision,
    root: &Path,
    request: &str,
    intent: Intent,
) -> Result<(), String> {
    // Joining an absolute request discards the root.
    let path = root.join(request);
    let expected = match (intent, decided) {
        (_, Err("empty")) => return Ok(()),
        (_, Err("outside_roots")) => return leaves(root, request, intent),
        (Intent::Existing, _) | (Intent::New | Intent::NewTree, Ok((_, true))) => {
            open(&path, OFlags::PATH, Mode::empty()).map(|found| name(&found))
        }
        (Intent::New, _) => {
            let made = open(
                &path,
                OFlags::CREATE | OFlags::RDONLY | OFlags::NONBLOCK,
                Mode::RUSR | Mode::WUSR,
            );
            let made = made.map(|made| name(&made));
            // The file did not exist before, so it can be removed.
            let _ = made.as_ref().map(fs::remove_file);
            made
        }
        (Intent::NoFollow, Err("not_a_directory"))
            if without_dots(request).is_some_and(|name| root.join(name).is_symlink()) =>
        {
            return Ok(());
        }
        (Intent::NoFollow, Ok((_, false))) => {
            let there = open(&path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty());
            let parent = open(path.parent().unwrap_or(&path), OFlags::PATH, Mode::empty());
            let is_alike = there.err() == Some(Errno::NOENT)
                && parent.is_ok_and(|parent| {
                    decided.as_ref().is_ok_and(|(path, _)| path.parent() == Some(&name(&parent)))
                });
            return if is_alike {
                Ok(())
            } else {
                Err("to the kernel, more than the last name is missing".into())
            };
        }
        (Intent::NoFollow, _) => {
            open(&path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).map(|found| name(&found))
        }
        (Intent::NewTree, _) => return Ok(()),
    };
    let is_alike = match (decided, &expected) {
        (Ok((path, _)), Ok(found)) => path == found,
        (Err(kind), Err(errno)) => match *errno {
            // For open(2), the dot of `a/.` is a name in the directory `a`.
            Errno::NOENT if *kind == "is_a_directory" => ends_as_directory(path),
            Errno::NOENT => *kind == "not_found",
            Errno::NOTDIR => *kind == "not_a_directory",
            Errno::LOOP => *kind == "too_many_links",
            // With O_CREAT, open(2) returns this error for every last name with a trailing slash,
            // without looking it up.
            Errno::ISDIR => intent == Intent::New && *kind != "outside_roots",
            _ => false,
        },
        _ => false,
    };
    if is_alike { Ok(()) } else { Err(format!("the kernel returns {expected:?}")) }
}

/// Checks that the request leaves the root according to the kernel, which resolves it beneath the
/// root. Returns `Ok` without a check for an absolute path that does not start in the root.
fn leaves(root: &Path, request: &str, intent: Intent) -> Result<(), String> {
    let rest = match request.strip_prefix(root.to_str().unwrap_or_default()) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ if request.starts_with('/') => return Ok(()),
        _ => request,
    };
    let last = if intent == Intent::NoFollow { OFlags::NOFOLLOW } else { OFlags::empty() };
    let root = open(root, OFlags::PATH, Mode::empty()).map_err(|error| error.to_string())?;
    let resolve = || {
        openat2(
            &root,
            format!("./{rest}"),
            OFlags::PATH | last,
            Mode::empty(),
            ResolveFlags::BENEATH,
        )
    };
    // Retry after EAGAIN, which means that another test renamed something while the kernel resolved
    // `..` (openat2(2)).
    match (0..1_000)
        .map(|_| resolve())
        .find(|result| !matches!(result, Err(Errno::AGAIN)))
        .unwrap_or(Err(Errno::AGAIN))
    {
        // ELOOP: the kernel reached its limit of symlinks before it left the root. ENOSYS, EPERM:
        // this process may not call `openat2`; see [`block`].
        Err(Errno::XDEV | Errno::LOOP | Errno::NOSYS | Errno::PERM) => Ok(()),
        other => Err(format!(
            "the kernel, resolving beneath the root, returns {:?}",
            other.map(|found| name(&found))
        )),
    }
}

/// The request without trailing slashes and `.` components, or `None` if it has none.
fn without_dots(request: &str) -> Option<&str> {
    let shorter = request.strip_suffix("/.").or(request.strip_suffix('/'))?;
    Some(without_dots(shorter).unwrap_or(shorter))
}

/// Whether a path, or the target of the last symlink on its way, ends in a slash or a dot.
pub(crate) fn ends_as_directory(mut path: PathBuf) -> bool {
    loop {
        if matches!(path.to_str().unwrap().rsplit('/').next(), Some("" | "." | "..")) {
            return true;
        }
        let Ok(target) = fs::read_link(&path) else { return false };
        path = path.parent().unwrap().join(target);
    }
}

/// The path of an open file.
fn name(file: &OwnedFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

/// Runs the closure on a thread that cannot call `openat2`, as on an old kernel.
pub(crate) fn without_openat2<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let blocked = thread::spawn(|| {
        block(ENOSYS);
        work()
    });
    blocked.join().expect("the closure does not panic")
}

/// Makes `openat2` fail with this error in the current thread, and in the threads and processes
/// that it starts.
pub(crate) fn block(error: i32) {
    block_call(OPENAT2, error);
}

/// openat2(2) has the same number on every architecture.
const OPENAT2: i64 = 437;

pub(crate) const ENOSYS: i32 = 38;
