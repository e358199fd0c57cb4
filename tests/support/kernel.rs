//! What the kernel says, to compare with; and the same process without `openat2`.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use mcp_roots_guard::Intent;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
use seccompiler::{SeccompAction, SeccompFilter, TargetArch};

use super::model::Decision;

/// Whether the kernel comes to the same as a decision about a request that starts in `root`, or is absolute: to the same place, or to
/// the same error. What was decided to lie or pass outside must leave the root in the kernel's own walk beneath it, too.
///
/// For [`Intent::New`] the file is really made, and removed again. [`Intent::NewTree`] is compared where all is there.
pub(crate) fn agrees(
    decided: &Decision,
    root: &Path,
    request: &str,
    intent: Intent,
) -> Result<(), String> {
    // An absolute request replaces the root.
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
            // Had it been there, no error would have been due.
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
                Err("the kernel does not miss just the last name".into())
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
            Errno::NOENT => *kind == "not_found",
            Errno::NOTDIR => *kind == "not_a_directory",
            Errno::LOOP => *kind == "too_many_links",
            // open(2) with O_CREAT says this of any last name with a slash behind it, and looks no further.
            Errno::ISDIR => intent == Intent::New && *kind != "outside_roots",
            _ => false,
        },
        _ => false,
    };
    if is_alike { Ok(()) } else { Err(format!("the kernel comes to {expected:?}")) }
}

/// Whether the kernel's walk beneath the root leaves it, where it can be asked: the request begins there.
fn leaves(root: &Path, request: &str, intent: Intent) -> Result<(), String> {
    let rest = match request.strip_prefix(root.to_str().unwrap_or_default()) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ if request.starts_with('/') => return Ok(()),
        _ => request,
    };
    let last = if intent == Intent::NoFollow { OFlags::NOFOLLOW } else { OFlags::empty() };
    let root = open(root, OFlags::PATH, Mode::empty()).map_err(|error| error.to_string())?;
    let ask = || {
        openat2(
            &root,
            format!("./{rest}"),
            OFlags::PATH | last,
            Mode::empty(),
            ResolveFlags::BENEATH,
        )
    };
    // EAGAIN: something was renamed somewhere, by another test, while it passed `..` (openat2(2)).
    match (0..1_000)
        .map(|_| ask())
        .find(|asked| !matches!(asked, Err(Errno::AGAIN)))
        .unwrap_or(Err(Errno::AGAIN))
    {
        // ELOOP: its links are counted before it is seen to leave. ENOSYS, EPERM: it is taken away from this process; see `blocked`.
        Err(Errno::XDEV | Errno::LOOP | Errno::NOSYS | Errno::PERM) => Ok(()),
        told => Err(format!(
            "the kernel's walk beneath the root says {:?}",
            told.map(|found| name(&found))
        )),
    }
}

/// What is before the slash at the end, and any `.` behind it.
fn without_dots(request: &str) -> Option<&str> {
    let shorter = request.strip_suffix("/.").or(request.strip_suffix('/'))?;
    Some(without_dots(shorter).unwrap_or(shorter))
}

/// Where an open file is.
fn name(file: &OwnedFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

type Work = Box<dyn FnOnce() + Send>;

thread_local! {
    static BLOCKED: Sender<Work> = {
        let (sender, works) = channel::<Work>();
        thread::spawn(move || {
            block(ENOSYS);
            for work in works {
                work();
            }
        });
        sender
    };
}

/// Does the work in a thread for which there is no `openat2`, as on an old kernel.
pub(crate) fn without_openat2<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = channel();
    let work = move || drop(sender.send(work()));
    BLOCKED.with(|blocked| {
        blocked.send(Box::new(work)).expect("the thread goes on as long as this one");
    });
    done.recv().expect("the work is done, and does not panic")
}

/// From here on `openat2` fails in this thread, and in what it starts.
pub(crate) fn block(error: u32) {
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let rules = BTreeMap::from([(OPENAT2, Vec::new())]);
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error), arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// openat2(2) has one number on every architecture.
const OPENAT2: i64 = 437;

pub(crate) const ENOSYS: u32 = 38;
