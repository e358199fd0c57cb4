//! What configured directories and entries of lists have in common.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use path_clean::PathClean as _;

use crate::dir::Access;
use crate::path::index::{Origin, Tree};
#[cfg(unix)]
use crate::path::names::drive;
use crate::path::protect::FoldedPaths;
use crate::roots::{Root, Roots, display_path};

/// Roots with different canonical paths.
#[derive(Default)]
pub(crate) struct UniqueRoots {
    pub(crate) roots: Vec<Arc<Root>>,
    /// Their canonical paths, marked with their indices.
    pub(crate) tree: Tree,
}

impl UniqueRoots {
    /// A root with the canonical path of an earlier one only adds its aliases. Returns whether any
    /// is new.
    pub(crate) fn add(&mut self, roots: impl IntoIterator<Item = Arc<Root>>) -> bool {
        let before = self.roots.len();
        for root in roots {
            let earlier = self.tree.marked(&root.canonical);
            let Some(earlier) = earlier.and_then(|number| self.roots.get_mut(number)) else {
                self.tree.insert(&root.canonical, self.roots.len());
                self.roots.push(root);
                continue;
            };
            let earlier = Arc::make_mut(earlier);
            // Defense: If two configured paths lead to one directory, the lesser access counts.
            if root.access == Access::ReadOnly {
                earlier.access = Access::ReadOnly;
            }
            earlier.is_always |= root.is_always;
            earlier.add_aliases(root.aliases.iter().cloned());
        }
        self.roots.len() > before
    }

    /// Makes each writable root around a read-only one read-only. When the boundary is built, that
    /// is an error. Later, a symlink in a configured path can be switched.
    pub(super) fn lower_around_read_only(&mut self) {
        let read_only = self.roots.iter().filter(|root| root.access == Access::ReadOnly);
        let around = read_only.flat_map(|root| self.tree.marks(&root.canonical));
        let around: Vec<_> = around.map(|(_, number)| number).collect();
        for number in around {
            if let Some(root) = self.roots.get_mut(number) {
                // Defense: What is configured as read-only is in no writable directory.
                Arc::make_mut(root).access = Access::ReadOnly;
            }
        }
    }
}

impl Roots {
    /// The root that was named by `path`, and those below it. If the path is absolute and not the
    /// canonical one, the client knows the root by it.
    pub(crate) fn listed_as(&self, mut root: Root, path: &Path) -> Vec<Arc<Root>> {
        let is_absolute = self.index().is_absolute(path.as_os_str());
        if let Some(alias) = alias_of(path, &root.canonical).filter(|_| is_absolute) {
            root.client_path = shown(&alias);
            // The index already contains the declared aliases.
            if self.index().declared(alias.as_os_str(), Origin::Request).is_none() {
                root.add_aliases([alias]);
            }
        }
        let below = self.roots_below(&root.canonical).collect::<Vec<_>>();
        std::iter::once(Arc::new(root)).chain(below).collect()
    }
}

/// Where tools and their programs can plant symlinks.
pub(super) fn writable<'a>(roots: impl Iterator<Item = &'a Root>) -> FoldedPaths {
    let writable = roots.filter(|root| root.access == Access::ReadWrite);
    FoldedPaths::new(writable.map(Root::path))
}

/// The aliases of a configured directory, apart from the declared ones.
pub(super) fn aliases_of(configured: &Path, canonical: &Path) -> Vec<PathBuf> {
    let mut aliases = system_aliases(canonical);
    let alias = alias_of(configured, canonical);
    aliases.extend(alias.filter(|alias| !aliases.contains(alias)));
    aliases
}

/// The path without `//`, `.` or a trailing slash, if it is not the canonical one. A path with `..`
/// names no fixed place.
fn alias_of(path: &Path, canonical: &Path) -> Option<PathBuf> {
    if path.components().any(|component| component == Component::ParentDir) {
        return None;
    }
    Some(path.clean()).filter(|cleaned| cleaned != canonical)
}

/// A listed path in its client's notation, unless it is not UTF-8.
pub(crate) fn shown(path: &Path) -> Option<String> {
    #[cfg(unix)]
    if let Some(path) = drive::starts_with_drive(path.as_os_str()) {
        return Some(std::str::from_utf8(path).ok()?.replace('/', "\\"));
    }
    path.to_str().map(|_| display_path(path))
}

/// Paths through the system symlinks of macOS, which are read once.
#[cfg(target_vendor = "apple")]
pub(super) fn system_aliases(canonical: &Path) -> Vec<PathBuf> {
    use crate::path::names::apple;
    static LINKS: std::sync::LazyLock<Vec<(PathBuf, PathBuf)>> = std::sync::LazyLock::new(|| {
        let read =
            |link: &str| Some((link.into(), Path::new("/").join(std::fs::read_link(link).ok()?)));
        apple::LINKS.into_iter().filter_map(read).collect()
    });
    apple::aliases(canonical, &LINKS)
}

#[cfg(not(target_vendor = "apple"))]
pub(super) fn system_aliases(_: &Path) -> Vec<PathBuf> {
    Vec::new()
}
