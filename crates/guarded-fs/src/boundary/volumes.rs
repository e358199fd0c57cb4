//! The filesystem root or, on Windows, the volumes that the paths name: allowed directories are
//! resolved beneath them, and lists with [`Boundary::any_listed`](super::Boundary::any_listed).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dir::{Access, Handle, Policy, Rule};
use crate::error::{Error, Result};
use crate::path::Location;
use crate::path::index::RootKind;
#[cfg(windows)]
use crate::path::index::Tree;
use crate::path::names::components;
#[cfg(windows)]
use crate::path::names::{is_absolute, is_same};
use crate::path::protect::{Pattern, ProtectedNames};
use crate::roots::{AllowedDirectory, Root, Roots, Snapshot};

/// On Windows, the volumes are opened for each list, and this contains the patterns below them.
pub(super) struct Filesystem(#[cfg(not(windows))] Roots, #[cfg(windows)] Vec<Pattern>);

impl Filesystem {
    /// `protected` applies to lists that are resolved beneath it.
    pub(super) fn new(protected: &[Pattern]) -> Result<Self> {
        #[cfg(not(windows))]
        let inner = filesystem_root(protected)?;
        #[cfg(windows)]
        let inner = protected.to_vec();
        Ok(Self(inner))
    }

    #[cfg(not(windows))]
    pub(super) fn roots(&self, _: impl Iterator<Item = Location>, _: bool) -> Roots {
        self.0.clone()
    }

    #[cfg(windows)]
    pub(super) fn roots(&self, paths: impl Iterator<Item = Location>, by_operator: bool) -> Roots {
        named_volumes(paths, by_operator, &self.0, open_root)
    }
}

/// Opens the volumes that these paths name, and omits those that cannot be opened. A share that
/// only a client names is not opened, because the system would sign in to a host of the client's
/// choice. Nor is a volume that only a symlink names, because a tool could have created the
/// symlink.
#[cfg(windows)]
fn named_volumes(
    locations: impl Iterator<Item = Location>,
    by_operator: bool,
    protected: &[Pattern],
    open: impl Fn(&Path) -> Result<Root>,
) -> Roots {
    let mut seen = Tree::default();
    let mut volumes = Vec::new();
    for location in locations {
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

/// Its policy allows mounts, because the path to a root may cross them.
#[cfg(not(windows))]
pub(crate) fn filesystem_root(protected: &[Pattern]) -> Result<Roots> {
    Ok(tops(vec![open_root(Path::new("/"))?], protected))
}

fn tops(roots: Vec<Root>, protected: &[Pattern]) -> Roots {
    let protected = ProtectedNames::new(protected, roots.iter().map(Root::path));
    let roots = roots.into_iter().map(Arc::new).collect();
    let policy = Policy::default();
    Roots::from(Snapshot { policy, protected, ..Snapshot::new(roots, None) })
}

fn open_root(path: &Path) -> Result<Root> {
    let handle = Handle::ambient(path)
        .map_err(|error| Error::from(error).with_request("open root", path.as_os_str()))?;
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
        client_path: None,
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
    use crate::error::Code;
    use crate::path::Location;

    #[test]
    fn shares_are_opened_only_for_the_operator_and_each_volume_once() {
        let texts = [r"C:\a", r"\\server\share\a", r"c:\b", r"\\SERVER\Share\b", r"Q:\none"];
        let locations = || texts.iter().map(|text| Location::parse(text).unwrap());
        let opened = |by_operator| {
            let paths = RefCell::new(Vec::new());
            let open = |path: &Path| {
                paths.borrow_mut().push(path.to_str().unwrap_or_default().to_owned());
                Err(Code::NotFound.into())
            };
            assert!(named_volumes(locations(), by_operator, &[], open).is_empty());
            paths.into_inner()
        };
        assert_eq!(opened(false), [r"C:\", r"Q:\"]);
        assert_eq!(opened(true), [r"C:\", r"\\server\share\", r"Q:\"]);
    }
}
