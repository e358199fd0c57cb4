//! Splits paths into names, and compares names, as each operating system does.
//!
//! Paths have the form of the current system: on Windows, the normal form of `windows::path`.
//!
//! | | Linux | macOS | Windows |
//! | --- | --- | --- | --- |
//! | names are separated by | `/` | `/` | `\`, `/` |
//! | an absolute path begins with | `/` | `/` | a volume, its first name: `C:\` or `\\server\share\` |
//! | names are compared | by bytes | ignoring case and normalization (`apple::key`) | ignoring case (`windows::key`) |
//!
//! Only the names of a root and its ancestors are compared this way. Beneath a root, the filesystem
//! decides which names are equal. If it distinguishes two names that are equal here, a request that
//! uses the other name is treated as a request for the root, and stays inside it.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

#[cfg(any(target_vendor = "apple", test))]
#[cfg_attr(not(target_vendor = "apple"), allow(dead_code))]
pub(crate) mod apple;
#[cfg(unix)]
pub(crate) mod drive;
#[cfg(any(windows, feature = "__internals"))]
pub mod windows;

pub(crate) use system::{below, components, ends_as_directory, is_absolute, key};

/// Whether two paths have equal names and are both absolute or both relative.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| is_absolute(path.as_os_str());
    one == other || (absolute(one) == absolute(other) && path_key(one) == path_key(other))
}

/// A key that is equal for paths with equal names, absolute or relative.
pub(crate) fn path_key(path: &Path) -> PathBuf {
    components(path.as_os_str()).map(|(name, _)| key(name)).collect()
}

/// The names of a path as compared with declared aliases, each with the rest after it. Only a path
/// that is absolute or, on Unix, begins with a Windows drive has any.
pub(crate) fn alias_names(path: &OsStr) -> Box<dyn Iterator<Item = (Cow<'_, OsStr>, &OsStr)> + '_> {
    #[cfg(unix)]
    if let Some(names) = drive::names(path) {
        return Box::new(names.map(|(name, rest)| (Cow::Owned(name), rest)));
    }
    let names = components(path).filter(|(name, _)| *name != ".");
    Box::new(
        names
            .take(if is_absolute(path) { usize::MAX } else { 0 })
            .map(|(name, rest)| (Cow::Borrowed(name), rest)),
    )
}

#[cfg(unix)]
mod system {
    use super::{Cow, OsStr, Path};
    use std::os::unix::ffi::OsStrExt as _;

    pub(crate) fn is_absolute(path: &OsStr) -> bool {
        path.as_bytes().starts_with(b"/")
    }

    /// The names of a path, including `.` and `..`, each with the rest after it.
    pub(crate) fn components(path: &OsStr) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let mut rest = path.as_bytes();
        std::iter::from_fn(move || {
            let start = rest.iter().position(|&byte| byte != b'/')?;
            let from = rest.get(start..)?;
            let (name, after) =
                from.split_at(from.iter().position(|&byte| byte == b'/').unwrap_or(from.len()));
            rest = after;
            Some((OsStr::from_bytes(name), OsStr::from_bytes(after)))
        })
    }

    /// The rest of a path that starts with `base`, compared byte for byte.
    pub(crate) fn below<'a>(path: &'a OsStr, base: &Path) -> Option<&'a OsStr> {
        let below = path.as_bytes().strip_prefix(base.as_os_str().as_bytes())?;
        (below.is_empty() || below.starts_with(b"/")).then_some(OsStr::from_bytes(below))
    }

    /// Whether a path ends in a separator and so names a directory.
    pub(crate) fn ends_as_directory(path: &OsStr) -> bool {
        path.as_bytes().ends_with(b"/")
    }

    /// A key that is equal for equal names.
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

    /// A path that is not valid Unicode has no names, but a [`Location`](crate::Location) never
    /// contains one.
    pub(crate) fn components(path: &OsStr) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        windows::components(path.to_str().unwrap_or_default())
            .map(|(name, rest)| (OsStr::new(name), OsStr::new(rest)))
    }

    pub(crate) fn below<'a>(path: &'a OsStr, base: &Path) -> Option<&'a OsStr> {
        let below = path.to_str()?.strip_prefix(base.to_str()?)?;
        (below.is_empty() || below.starts_with('\\')).then_some(OsStr::new(below))
    }

    pub(crate) fn ends_as_directory(path: &OsStr) -> bool {
        path.to_str().is_some_and(|path| path.ends_with(['\\', '/']))
    }

    pub(crate) fn key(name: &OsStr) -> Cow<'_, OsStr> {
        super::of_text(name, windows::key)
    }
}

/// A name that is not valid Unicode is its own key.
#[cfg(any(windows, target_vendor = "apple"))]
fn of_text(name: &OsStr, key: impl Fn(&str) -> Cow<'_, str>) -> Cow<'_, OsStr> {
    match name.to_str().map(key) {
        Some(Cow::Owned(key)) => Cow::Owned(key.into()),
        _ => Cow::Borrowed(name),
    }
}
