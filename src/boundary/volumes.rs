//! The filesystem root, or the volumes on Windows, beneath which the allowed directories are
//! resolved, or a root list if there are no allowed directories.
//!
//! On Windows, these are the volumes that the entries name. A network share is opened only if the
//! operator names it. None of these roots is ever in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(windows)]
use crate::boundary::entries::Entry;
use crate::dir::{Access, Handle, Policy, Rule};
use crate::error::{Error, Result};
use crate::path::index::RootKind;
#[cfg(windows)]
use crate::path::index::Tree;
use crate::path::names::components;
#[cfg(windows)]
use crate::path::names::{is_absolute, is_same};
use crate::path::protect::{Pattern, ProtectedNames};
use crate::roots::{AllowedDirectory, Root, Roots, Snapshot};

/// Opens the volumes that the entries name, and omits volumes that cannot be opened. A share that
/// only a client names is not opened, because the system would sign in to a host of the client's
/// choice. A volume that only a symlink names is not opened either, because a tool could have
/// created the symlink.
#[cfg(windows)]
pub(crate) fn named_volumes(
    entries: &[Entry],
    by_operator: bool,
    protected: &[Pattern],
    open: impl Fn(&Path) -> Result<Root>,
) -> Roots {
    let mut seen = Tree::default();
    let mut volumes = Vec::new();
    for location in entries.iter().filter_map(|entry| entry.location.as_ref().ok()) {
        let location = location.as_os_str();
        let Some((name, _)) = components(location).next().filter(|_| is_absolute(location)) else {
            continue;
        };
        let is_share = name.as_encoded_bytes().starts_with(b"\\\\");
        let mut top = name.to_owned();
        top.push("\\");
        let top = Path::new(&top);
        if (is_share && !by_operator) || seen.marks(top).next().is_some() {
            continue;
        }
        seen.insert(top, volumes.len());
        volumes.extend(open(top).ok());
    }
    tops(volumes, protected)
}

/// Opens the filesystem root. Its policy allows mounts, because the path to a root may cross them.
#[cfg(not(windows))]
///
/// `protected` applies to the names below it if there are no allowed directories.
pub(crate) fn filesystem_root(protected: &[Pattern]) -> Result<Roots> {
    Ok(tops(vec![open_root(Path::new("/"))?], protected))
}

fn tops(roots: Vec<Root>, protected: &[Pattern]) -> Roots {
    let protected = ProtectedNames::new(protected, roots.iter().map(Root::path));
    let roots = roots.into_iter().map(Arc::new).collect();
    let policy = Policy::default();
    Roots::from(Snapshot { policy, protected, ..Snapshot::new(roots, None) })
}

pub(crate) fn open_root(path: &Path) -> Result<Root> {
    let handle = Handle::ambient(path)
        .map_err(|error| Error::from(error).at("open root", path.as_os_str()))?;
    let (canonical, aliases) = (path.to_owned(), Vec::new());
    // A drive letter can be mapped to a directory of another volume, or to a share. The final path
    // is then the canonical one, and the drive is an alias.
    #[cfg(windows)]
    let (canonical, aliases) = match handle.place() {
        Some(place) if !is_same(&place, path) => (place, vec![path.to_owned()]),
        _ => (canonical, aliases),
    };
    Ok(Root {
        directory: AllowedDirectory::at_top(handle, components(canonical.as_os_str()).count())?,
        names: PathBuf::new(),
        kind: RootKind::Directory,
        canonical,
        aliases,
        name: None,
        listed: None,
        access: Access::ReadWrite,
        is_always: false,
        mounts: Rule::Allow,
    })
}

#[cfg(windows)]
#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::Path;

    use super::named_volumes;
    use crate::boundary::entries::Entry;
    use crate::error::Code;
    use crate::path::Location;

    #[test]
    fn shares_are_opened_only_for_the_operator_and_each_volume_once() {
        let texts = [r"C:\a", r"\\server\share\a", r"c:\b", r"\\SERVER\Share\b", r"Q:\none"];
        let entry = |text: &&str| Entry {
            text: (*text).to_owned(),
            location: Location::parse(text),
            name: None,
        };
        let entries: Vec<_> = texts.iter().map(entry).collect();
        let opened = |by_operator| {
            let paths = RefCell::new(Vec::new());
            let open = |path: &Path| {
                paths.borrow_mut().push(path.to_str().unwrap_or_default().to_owned());
                Err(Code::NotFound.into())
            };
            assert!(named_volumes(&entries, by_operator, &[], open).is_empty());
            paths.into_inner()
        };
        assert_eq!(opened(false), [r"C:\", r"Q:\"]);
        assert_eq!(opened(true), [r"C:\", r"\\server\share\", r"Q:\"]);
    }
}
