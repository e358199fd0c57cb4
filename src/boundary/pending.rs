//! The result of resolving a list, built entry by entry.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::dir::{Access, Policy};
use crate::error::{Code, Error};
use crate::limits::ENTRY_CHARS;
use crate::path::index::Tree;
use crate::path::names::path_key;
use crate::path::protect::{Pattern, ProtectedNames};
use crate::roots::{DeclaredAlias, RejectedEntry, Root, Roots, Snapshot};

/// The roots and rejected entries of a list, before they become a snapshot.
#[derive(Default)]
pub(super) struct PendingRoots {
    pub(super) roots: Vec<(usize, Root)>,
    /// The canonical paths of `roots`, marked with their indices.
    pub(super) tree: Tree,
    pub(super) rejected: Vec<RejectedEntry>,
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
        self.rejected.push(RejectedEntry { index, entry, error });
    }

    /// Adds the roots of an entry. An entry whose roots were all added before is a duplicate.
    pub(super) fn add(&mut self, index: usize, entry: &str, roots: Vec<Root>) {
        let before = self.roots.len();
        for root in roots {
            let earlier = self.tree.marked(&root.canonical);
            let Some((.., earlier)) = earlier.and_then(|number| self.roots.get_mut(number)) else {
                self.tree.insert(&root.canonical, self.roots.len());
                self.roots.push((index, root));
                continue;
            };
            // Defense: If two configured paths lead to one directory, the lesser access counts.
            if root.access == Access::ReadOnly {
                earlier.access = Access::ReadOnly;
            }
            earlier.is_always |= root.is_always;
            earlier.add_aliases(root.aliases);
        }
        if self.roots.len() == before {
            self.reject(index, entry, Code::Duplicate.into());
        }
    }

    /// Makes each writable root that contains a read-only one read-only. When the boundary is built,
    /// that is an error. Later, a symlink in a configured path can be switched.
    pub(super) fn lower_around_read_only(&mut self) {
        let is_read_only = |(_, root): &&(usize, Root)| root.access == Access::ReadOnly;
        let read_only = self.roots.iter().filter(is_read_only);
        let around = read_only.flat_map(|(_, root)| self.tree.marks(&root.canonical));
        let around: Vec<_> = around.map(|(_, number)| number).collect();
        for number in around {
            if let Some((_, root)) = self.roots.get_mut(number) {
                // Defense: What is configured as read-only is in no writable directory.
                root.access = Access::ReadOnly;
            }
        }
    }

    /// Returns the allowed directories, in the order of the configuration.
    pub(super) fn into_roots(self, patterns: &[Pattern], policy: Policy) -> Roots {
        let root = |(_, root): (_, Root)| Arc::new(Root { mounts: policy.mounts, ..root });
        let roots: Vec<_> = self.roots.into_iter().map(root).collect();
        // A missing directory can appear while the snapshot is in use.
        let planned = self.planned.iter().map(PathBuf::as_path);
        let directories = roots.iter().map(|root| root.path()).chain(planned);
        let protected = ProtectedNames::new(patterns, directories);
        let declared = (!self.declared.is_empty()).then(|| self.declared.into());
        Roots::from(Snapshot {
            policy,
            protected,
            rejected: self.rejected.into(),
            base: (!roots.is_empty()).then_some(0),
            planned: self.planned.into(),
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
            .iter()
            .filter(|root| root.is_always())
            .map(|root| path_key(&root.canonical))
            .collect();
        let mut roots: Vec<_> = self.roots.into_iter().map(|(_, root)| root).collect();
        for root in &mut roots {
            root.is_always = is_always.contains(&path_key(&root.canonical));
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
            is_provisional: self.is_provisional,
            ..Snapshot::new(roots, allowed.declared().cloned())
        })
    }
}
