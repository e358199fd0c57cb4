//! What the kernel says, to compare with; and the same process without `openat2`.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use mcp_roots_guard::{ErrorKind, Intent};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
use seccompiler::{SeccompAction, SeccompFilter, TargetArch};

use super::model::Decision;

/// Whether the kernel comes to the same as a decision about a request that starts at `start`: to the same place, or to the same error.
/// What was decided to lie or pass outside it can not tell, but that its own walk beneath `start` did not leave that.
///
/// For [`Intent::New`] the file is really made, and removed again. [`Intent::NewTree`] is compared where all is there.
pub(crate) fn agrees(decided: &Decision, start: &Path, request: &str, intent: Intent) -> Result<(), String> {
    // An absolute request replaces the start.
    let path = start.join(request);
    let expected = match (intent, decided) {
        (_, Err(ErrorKind::Empty)) => return Ok(()),
        (_, Err(ErrorKind::OutsideRoots)) => {
            let beneath = openat2(CWD, start, OFlags::PATH, Mode::empty(), ResolveFlags::empty())
                .and_then(|start| openat2(&start, request, OFlags::PATH, Mode::empty(), ResolveFlags::BENEATH));
            return beneath.map_or(Ok(()), |found| {
                Err(format!("the kernel stays beneath, and comes to {}", name(&found).display()))
            });
        }
        (Intent::Existing, _) | (Intent::New | Intent::NewTree, Ok((_, true))) => {
            open(&path, OFlags::PATH, Mode::empty()).map(|found| name(&found))
        }
        (Intent::New, _) => {
            let made = open(&path, OFlags::CREATE | OFlags::RDONLY | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR);
            let made = made.map(|made| name(&made));
            // Had it been there, no error would have been due.
            let _ = made.as_ref().map(fs::remove_file);
            made
        }
        (Intent::Entry, Err(ErrorKind::NotADirectory))
            if without_dots(request).is_some_and(|name| start.join(name).is_symlink()) =>
        {
            return Ok(());
        }
        (Intent::Entry, Ok((_, false))) => {
            let there = open(&path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty());
            let parent = open(path.parent().unwrap_or(&path), OFlags::PATH, Mode::empty());
            let is_alike = there.err() == Some(Errno::NOENT)
                && parent
                    .is_ok_and(|parent| decided.as_ref().is_ok_and(|(path, _)| path.parent() == Some(&name(&parent))));
            return if is_alike { Ok(()) } else { Err("the kernel does not miss just the last name".into()) };
        }
        (Intent::Entry, _) => open(&path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).map(|found| name(&found)),
        (Intent::NewTree, _) => return Ok(()),
    };
    let is_alike = match (decided, &expected) {
        (Ok((path, _)), Ok(found)) => path == found,
        (Err(kind), Err(errno)) => match *errno {
            Errno::NOENT => *kind == ErrorKind::NotFound,
            Errno::NOTDIR => *kind == ErrorKind::NotADirectory,
            Errno::LOOP => *kind == ErrorKind::TooManyLinks,
            // open(2) with O_CREAT says this of any last name with a slash behind it, and looks no further.
            Errno::ISDIR => intent == Intent::New,
            _ => false,
        },
        _ => false,
    };
    if is_alike { Ok(()) } else { Err(format!("the kernel comes to {expected:?}")) }
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
    BLOCKED.with(|blocked| blocked.send(Box::new(work)).expect("the thread goes on as long as this one"));
    done.recv().expect("the work is done, and does not panic")
}

/// From here on `openat2` fails in this thread, and in what it starts.
pub(crate) fn block(error: u32) {
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let rules = BTreeMap::from([(OPENAT2, Vec::new())]);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error), arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// openat2(2) has one number on every architecture.
const OPENAT2: i64 = 437;

pub(crate) const ENOSYS: u32 = 38;
