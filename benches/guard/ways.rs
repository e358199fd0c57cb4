//! Implementations of the same work by the guard, bare system calls, `std` and other crates.
//!
//! | subject | implementation | limitation |
//! | --- | --- | --- |
//! | `guard` | [`Roots::open`], [`Roots::check`], [`Roots::open_with`] and [`Roots::remove_file`] | |
//! | `openat2` | `openat2` that follows symlinks, then `fstat` or `readlink` | fails if the path leaves the root and returns |
//! | `openat2-plain` | `openat2` that refuses symlinks: the fastest way to ask the kernel | fails if the path contains a symlink |
//! | `std` | canonicalize, compare, open: the common recipe | vulnerable to races |
//! | `cap-std` | `Dir::open` | does not verify the file type, and returns no path |
//! | `path_jail` | `FdJail::open`, or `Jail::contains` and `Jail::join` for decisions | decisions are vulnerable to races |
//! | `strict-path` | `strict_join`, `open_file` | vulnerable to races |
//! | `soft-canonicalize` | `soft_canonicalize`, compare | vulnerable to races |

use std::fs::{self, File};
use std::hint::black_box;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use mcp_roots_guard::{Access, Boundary, OpenMode, Roots};
use path_jail::Jail;
use path_jail::guard::{FdJail, OpenOptions};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat, statat,
};
use rustix::io::Errno;
use soft_canonicalize::soft_canonicalize;
use strict_path::PathBoundary;

use crate::tree::Tree;

/// The name of a subject, and its implementation.
pub(crate) type Way<'a> = (&'static str, Box<dyn Fn() + 'a>);

/// The expected decision about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// An existing file inside the root.
    Existing,
    /// A file that can be created inside the root.
    New,
    /// A path outside the root.
    Refused,
}

/// Opens a file for reading and closes it. All subjects except `cap-std` and `strict-path` also
/// verify that the file is a regular file.
pub(crate) fn open<'a>(tree: &'a Tree, path: &'a Path) -> Vec<Way<'a>> {
    let request = path.to_str().unwrap();
    let relative = path.strip_prefix(&tree.root).unwrap();
    let roots = Roots::from_dirs([&tree.root], Access::ReadWrite).unwrap();
    let held = File::open(&tree.root).unwrap();
    let dir = Dir::open_ambient_dir(&tree.root, ambient_authority()).unwrap();
    let jail = FdJail::new(&tree.root).unwrap();
    let boundary: PathBoundary = PathBoundary::try_new(&tree.root).unwrap();
    vec![
        ("guard", Box::new(move || drop(roots.open(request).unwrap()))),
        ("openat2", Box::new(move || drop(open_beneath(&held, relative)))),
        ("std", Box::new(move || drop(open_by_name(&tree.root, request)))),
        ("cap-std", Box::new(move || drop(dir.open(relative).unwrap()))),
        (
            "path_jail",
            Box::new(move || {
                let options = OpenOptions::new().read(true).require_regular_file(true);
                drop(jail.open(relative, options).unwrap());
            }),
        ),
        (
            "strict-path",
            Box::new(move || drop(boundary.strict_join(relative).unwrap().open_file().unwrap())),
        ),
    ]
}

/// Creates an empty file, closes it, and removes it.
pub(crate) fn create<'a>(tree: &'a Tree, path: &'a Path) -> Vec<Way<'a>> {
    let request = path.to_str().unwrap();
    let root = tree.root.as_path();
    let relative = path.strip_prefix(root).unwrap();
    let boundary = Boundary::builder().directory(root, Access::ReadWrite).build().unwrap();
    let roots = boundary.allowed_roots();
    let dir = Dir::open_ambient_dir(root, ambient_authority()).unwrap();
    let resolve = move || {
        let place = parent_by_name(request).unwrap();
        assert!(place.starts_with(root));
        place
    };
    vec![
        (
            "guard",
            Box::new(move || {
                drop(roots.open_with(request, OpenMode::CreateNew).unwrap());
                roots.remove_file(request).unwrap();
            }),
        ),
        (
            "std",
            Box::new(move || {
                drop(File::create_new(resolve()).unwrap());
                fs::remove_file(resolve()).unwrap();
            }),
        ),
        (
            "cap-std",
            Box::new(move || {
                let mut options = cap_std::fs::OpenOptions::new();
                drop(dir.open_with(relative, options.write(true).create_new(true)).unwrap());
                dir.remove_file(relative).unwrap();
            }),
        ),
    ]
}

/// Resolves a path, or refuses it because it leaves the root.
pub(crate) fn decide<'a>(tree: &'a Tree, decision: Decision, path: &'a Path) -> Vec<Way<'a>> {
    let request = path.to_str().unwrap();
    let root = tree.root.as_path();
    let relative = path.strip_prefix(root).ok();
    let is_inside = move |found: &PathBuf| found.starts_with(root);
    let roots = Roots::from_dirs([root], Access::ReadWrite).unwrap();
    let held = File::open(root).unwrap();
    let jail = Jail::new(root).unwrap();
    let boundary: PathBoundary = PathBoundary::try_new(root).unwrap();

    let mut ways = vec![seen("guard", decision, move || roots.check(request).ok())];
    let comes_back = decision == Decision::Existing && path.is_symlink();
    if let Some(relative) = relative.filter(|_| !comes_back) {
        if decision == Decision::Existing {
            let held = held.try_clone().unwrap();
            ways.push(seen("openat2-plain", decision, move || plain_beneath(&held, relative)));
        }
        ways.push(seen("openat2", decision, move || name_beneath(&held, relative, decision)));
    }
    if decision == Decision::New {
        ways.push(seen("std", decision, move || parent_by_name(request).filter(is_inside)));
        ways.push(seen("path_jail", decision, move || jail.join(relative?).ok()));
    } else {
        ways.push(seen("std", decision, move || fs::canonicalize(request).ok().filter(is_inside)));
        ways.push(seen("path_jail", decision, move || jail.contains(request).ok()));
    }
    ways.push(seen("soft-canonicalize", decision, move || {
        soft_canonicalize(request).ok().filter(is_inside)
    }));
    ways.push(seen("strict-path", decision, move || {
        boundary.strict_join(relative.unwrap_or(path)).ok()
    }));
    ways
}

/// Returns an implementation for timing. Panics if it does not make the expected decision.
fn seen<'a, T>(
    subject: &'static str,
    decision: Decision,
    work: impl Fn() -> Option<T> + 'a,
) -> Way<'a> {
    assert_eq!(work().is_some(), decision != Decision::Refused, "{subject}: {decision:?}");
    (subject, Box::new(move || drop(black_box(work()))))
}

/// Opens a file with `openat2` and verifies its type with `fstat`.
pub(crate) fn open_beneath(root: &File, path: &Path) -> OwnedFd {
    let file = beneath(root, path, OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
    assert!(FileType::from_raw_mode(fstat(&file).unwrap().st_mode).is_file());
    file
}

/// Resolves a path with `openat2`, `readlink` and `close`. For a new file, resolves the parent and
/// verifies that the name does not exist.
fn name_beneath(root: &File, path: &Path, decision: Decision) -> Option<PathBuf> {
    let name = match decision {
        Decision::New => path.file_name(),
        Decision::Existing | Decision::Refused => None,
    };
    let place = if name.is_some() { path.parent()? } else { path };
    let file = beneath(root, place, OFlags::PATH).ok()?;
    let found =
        readlinkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::with_capacity(256))
            .unwrap();
    let mut found = PathBuf::from(found.into_string().unwrap());
    if let Some(name) = name {
        assert_eq!(statat(&file, name, AtFlags::SYMLINK_NOFOLLOW).unwrap_err(), Errno::NOENT);
        found.push(name);
    }
    Some(found)
}

/// Resolves a path that contains no symlink, with `openat2` and `close`.
fn plain_beneath(root: &File, path: &Path) -> Option<PathBuf> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).ok()?;
    Some(path.to_owned())
}

fn beneath(root: &File, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn open_by_name(root: &Path, request: &str) -> File {
    let path = fs::canonicalize(request).unwrap();
    assert!(path.starts_with(root));
    let file = File::open(path).unwrap();
    assert!(file.metadata().unwrap().is_file());
    file
}

fn parent_by_name(request: &str) -> Option<PathBuf> {
    let path = Path::new(request);
    Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?))
}
