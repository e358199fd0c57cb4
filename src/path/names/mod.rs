//! The names in a path, as the system that it is for reads its text.
//!
//! Goes in: text that is a path of this system; on Windows, in the normal form of `windows::path`. Comes out: whether it is absolute, its
//! names, and which names are one. No I/O is done here, and on Linux no other module is used, so that what proves a module of names in
//! `tests/invariants` can take this file as it is.
//!
//! | | Linux | macOS | Windows |
//! | --- | --- | --- | --- |
//! | names end at | `/` | `/` | `\`, `/` |
//! | an absolute path begins with | `/` | `/` | its volume, `C:\` or `\\server\share\`, which is its first name |
//! | two names are one | if their bytes are the same | also by case folding and normal form (`apple::key`) | also by upper case (`windows::key`) |
//!
//! That two names are one is asked of the names above a root and of its own only: beneath it the file system says what a name is. So
//! where a file system tells such names apart, a request by the other one is taken for the root's, and never leads out of it.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

#[cfg(windows)]
use super::{error::Code, escapes::decode};

#[cfg(any(target_vendor = "apple", test))]
#[cfg_attr(not(target_vendor = "apple"), allow(dead_code))]
pub(crate) mod apple;
#[cfg(windows)]
pub(crate) mod windows;

pub(crate) use system::{below, components, ends_as_directory, is_absolute, key};

/// Whether two paths have the same names, and both are absolute or both are not.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| is_absolute(path.as_os_str());
    one == other || (absolute(one) == absolute(other) && path_key(one) == path_key(other))
}

/// What two absolute paths of the same names have in common. A relative one of these names has it, too.
pub(crate) fn path_key(path: &Path) -> PathBuf {
    components(path.as_os_str()).map(|(name, _)| key(name)).collect()
}

#[cfg(unix)]
mod system {
    use super::{Cow, OsStr, Path};
    use std::os::unix::ffi::OsStrExt as _;

    pub(crate) fn is_absolute(path: &OsStr) -> bool {
        path.as_bytes().starts_with(b"/")
    }

    /// The names of a path between its slashes, `.` and `..` among them, each with the rest that follows it.
    pub(crate) fn components(path: &OsStr) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let mut rest = path.as_bytes();
        std::iter::from_fn(move || {
            let start = rest.iter().position(|&byte| byte != b'/')?;
            let from = rest.get(start..)?;
            let (name, after) = from.split_at(from.iter().position(|&byte| byte == b'/').unwrap_or(from.len()));
            rest = after;
            Some((OsStr::from_bytes(name), OsStr::from_bytes(after)))
        })
    }

    /// What follows `top` in a path, if that comes first as it is written: nothing, or a slash and more.
    pub(crate) fn below<'a>(path: &'a OsStr, top: &Path) -> Option<&'a OsStr> {
        let below = path.as_bytes().strip_prefix(top.as_os_str().as_bytes())?;
        (below.is_empty() || below.starts_with(b"/")).then_some(OsStr::from_bytes(below))
    }

    /// Whether a path asks for a directory, by a slash at its end.
    pub(crate) fn ends_as_directory(path: &OsStr) -> bool {
        path.as_bytes().ends_with(b"/")
    }

    /// What two names that are one have in common.
    #[cfg(not(target_vendor = "apple"))]
    pub(crate) fn key(name: &OsStr) -> Cow<'_, OsStr> {
        Cow::Borrowed(name)
    }

    #[cfg(target_vendor = "apple")]
    pub(crate) fn key(name: &OsStr) -> Cow<'_, OsStr> {
        super::of_text(name, super::apple::key)
    }
}

#[cfg(windows)]
mod system {
    use super::{Cow, OsStr, Path, windows};

    pub(crate) fn is_absolute(path: &OsStr) -> bool {
        path.to_str().is_some_and(windows::is_absolute)
    }

    /// The names of a path, the volume first if it is absolute, `.` and `..` among them, each with the rest that follows it. None of what
    /// is no text: a [`Location`](crate::Location) is one.
    pub(crate) fn components(path: &OsStr) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        windows::components(path.to_str().unwrap_or_default()).map(|(name, rest)| (OsStr::new(name), OsStr::new(rest)))
    }

    /// What follows `top` in a path, if that comes first as it is written: nothing, or a separator and more.
    pub(crate) fn below<'a>(path: &'a OsStr, top: &Path) -> Option<&'a OsStr> {
        let below = path.to_str()?.strip_prefix(top.to_str()?)?;
        (below.is_empty() || below.starts_with('\\')).then_some(OsStr::new(below))
    }

    /// Whether a path asks for a directory, by a separator at its end.
    pub(crate) fn ends_as_directory(path: &OsStr) -> bool {
        path.to_str().is_some_and(|path| path.ends_with(['\\', '/']))
    }

    /// What two names that are one have in common.
    pub(crate) fn key(name: &OsStr) -> Cow<'_, OsStr> {
        super::of_text(name, windows::key)
    }
}

/// A key of what is text; of what is none, itself.
#[cfg(any(windows, target_vendor = "apple"))]
fn of_text(name: &OsStr, key: impl Fn(&str) -> Cow<'_, str>) -> Cow<'_, OsStr> {
    match name.to_str().map(key) {
        Some(Cow::Owned(key)) => Cow::Owned(key.into()),
        _ => Cow::Borrowed(name),
    }
}
