//! The result of resolving a list, built entry by entry.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dir::{Access, Policy};
use crate::error::{Code, Error, quoted};
use crate::limits::{ALIASES, ENTRY_CHARS};
use crate::path::Protection;
use crate::path::index::Tree;
use crate::path::names::path_key;
use crate::path::protect::{Pattern, ProtectedNames};
use crate::roots::{DeclaredAlias, RejectedRoot, Root, Roots, Snapshot};

/// The roots and rejected entries of a list, before they become a snapshot.
#[derive(Default)]
pub(super) struct PendingRoots {
    pub(super) roots: Vec<(usize, String, Root)>,
    /// The canonical paths of `roots`, marked with their indices.
    pub(super) tree: Tree,
    pub(super) rejected: Vec<RejectedRoot>,
    /// The patterns for protected names, if there are any.
    protected: Option<Arc<ProtectedNames>>,
    /// Canonical paths of roots whose access conflicts with that of another entry, and the inner
    /// one of the two.
    pub(super) conflicts: HashMap<PathBuf, PathBuf>,
    /// The aliases of the allowed directories.
    pub(super) declared: Vec<DeclaredAlias>,
    /// The canonical paths that missing allowed directories would have.
    pub(super) planned: Vec<PathBuf>,
    /// Whether the same entries may name other roots later, because the filesystem decided about
    /// one: it was resolved through a symlink, or could not be resolved.
    pub(super) is_provisional: bool,
}

impl PendingRoots {
    pub(super) fn reject(&mut self, index: usize, entry: &str, error: Error) {
        let error = error.at("open root", entry.as_ref());
        // A hostile entry may be long, so only a bounded part of it is stored for the log.
        let entry = entry.chars().take(ENTRY_CHARS).collect();
        self.rejected.push(RejectedRoot { index, entry, error });
    }

    pub(super) fn add(&mut self, index: usize, entry: String, root: Root) {
        let earlier = self.tree.marked(&root.canonical);
        let Some((.., earlier)) = earlier.and_then(|number| self.roots.get_mut(number)) else {
            self.tree.insert(&root.canonical, self.roots.len());
            self.roots.push((index, entry, root));
            return;
        };
        if earlier.access != root.access {
            self.conflicts.insert(earlier.canonical.clone(), earlier.canonical.clone());
        }
        earlier.is_always |= root.is_always;
        for alias in root.aliases {
            if earlier.aliases.len() < ALIASES && !earlier.aliases.contains(&alias) {
                earlier.aliases.push(alias);
            }
        }
        // An entry that names several roots is reported as a duplicate only once.
        if self.rejected.last().is_none_or(|last| last.index != index) {
            self.reject(index, &entry, Code::Duplicate.into());
        }
    }

    /// Rejects nested directories with different access, because a symlink could cross from one to
    /// the other. Also rejects a directory that is mounted in two places with different access.
    pub(super) fn drop_conflicts(&mut self) {
        let first = self.roots.first().map(|(.., root)| root.access);
        if self.conflicts.is_empty()
            && self.roots.iter().all(|(.., root)| Some(root.access) == first)
        {
            return;
        }
        let places: Vec<_> =
            self.roots.iter().map(|(.., root)| (root.canonical.clone(), root.access)).collect();
        self.conflicts.extend(conflicts(&places));
        let mut access = HashMap::new();
        for (.., root) in self.roots.iter().filter(|(.., root)| !root.is_file()) {
            let Some(identity) = root.directory.identity() else { continue };
            let earlier = access.entry(identity).or_insert((root.access, &root.canonical));
            if earlier.0 != root.access {
                let inner = &root.canonical;
                self.conflicts.extend([inner, earlier.1].map(|it| (it.clone(), inner.clone())));
            }
        }
        let roots = std::mem::take(&mut self.roots);
        for (index, entry, root) in roots {
            if let Some(inner) = self.conflicts.get(&root.canonical) {
                let error = access_conflict(inner);
                self.reject(index, &entry, error);
            } else {
                self.roots.push((index, entry, root));
            }
        }
    }

    /// Applies the patterns below the allowed directories. An allowed directory that another one
    /// protects is read-only, or rejected if it is denied.
    pub(super) fn protect(&mut self, patterns: &[Pattern]) {
        // A missing directory can appear while the snapshot is in use.
        let planned = self.planned.iter().map(PathBuf::as_path);
        let paths = self.roots.iter().map(|(.., root)| root.path()).chain(planned);
        let Some(protected) = ProtectedNames::new(patterns, paths) else { return };
        for (index, entry, mut root) in std::mem::take(&mut self.roots) {
            match protected.of(&[root.path()]) {
                Some(Protection::Denied) => {
                    self.reject(index, &entry, denied_directory());
                    continue;
                }
                Some(Protection::ReadOnly) => root.access = Access::ReadOnly,
                None => {}
            }
            self.roots.push((index, entry, root));
        }
        self.protected = Some(protected);
        self.rejected.sort_by_key(RejectedRoot::index);
    }

    /// Returns the allowed directories, in the order of the configuration.
    pub(super) fn into_roots(self, policy: Policy, generation: u64) -> Roots {
        let root = |(.., root): (_, _, Root)| Arc::new(Root { mounts: policy.mounts, ..root });
        let roots: Vec<_> = self.roots.into_iter().map(root).collect();
        let declared = (!self.declared.is_empty()).then(|| self.declared.into());
        Roots::from(Snapshot {
            policy,
            protected: self.protected,
            rejected: self.rejected.into(),
            base: (!roots.is_empty()).then_some(0),
            planned: self.planned.into(),
            generation,
            is_provisional: self.is_provisional,
            ..Snapshot::new(roots, declared)
        })
    }

    /// Returns the roots of a client's list, followed by the allowed directories that are always in
    /// force but are not in the list. `allowed` are all allowed directories, and `first` is the
    /// canonical path that the list's first entry names, at which relative requests start.
    pub(super) fn into_client_roots(
        self,
        allowed: &Roots,
        policy: Policy,
        first: Option<PathBuf>,
    ) -> Roots {
        let is_always: HashSet<_> = allowed
            .roots()
            .filter(|root| root.is_always())
            .map(|root| path_key(&root.canonical))
            .collect();
        let mut roots: Vec<_> = self.roots.into_iter().map(|(.., root)| root).collect();
        for root in &mut roots {
            root.is_always = is_always.contains(&path_key(&root.canonical));
            // A root at or below a read-only name is read-only.
            if allowed.protected().is_some_and(|it| it.of(&[root.path()]).is_some()) {
                root.access = Access::ReadOnly;
            }
        }
        let listed = roots.len();
        let always = allowed
            .shared_roots()
            .filter(|root| root.is_always() && self.tree.marked(&root.canonical).is_none());
        let base = first.and_then(|first| self.tree.marked(&first));
        let roots = roots.into_iter().map(Arc::new).chain(always).collect();
        Roots::from(Snapshot {
            policy,
            protected: allowed.shared_protected(),
            rejected: self.rejected.into(),
            allowed: Some(allowed.clone()),
            listed: Some(listed),
            base,
            generation: allowed.generation(),
            is_provisional: self.is_provisional,
            ..Snapshot::new(roots, allowed.declared().cloned())
        })
    }
}

/// The error for an allowed directory that is denied below another one.
pub(super) fn denied_directory() -> Error {
    Error::new(Code::AccessConflict)
        .says("the directory is denied by a protected name in another allowed directory")
}

/// The error for a directory that is, contains, or is inside one with different access. The
/// argument is the inner one.
pub(super) fn access_conflict(inner: &Path) -> Error {
    let inner = quoted(inner.as_os_str());
    Error::new(Code::AccessConflict).with_outcome(format!(
        "the inner directory is {inner}: give both the same access; to make a part of a writable \
         directory read-only, protect its name"
    ))
}

/// Returns the paths that are inside a directory with different access, or contain one. The value
/// is the inner one.
pub(super) fn conflicts(places: &[(PathBuf, Access)]) -> HashMap<PathBuf, PathBuf> {
    let mut tree = Tree::default();
    for (number, (path, _)) in places.iter().enumerate() {
        tree.insert(path, number);
    }
    let mut found = HashMap::new();
    for (path, access) in places {
        for (outer, other) in tree.marks(path).filter_map(|(_, number)| places.get(number)) {
            if other != access {
                found.extend([path, outer].map(|it| (it.clone(), path.clone())));
            }
        }
    }
    found
}
