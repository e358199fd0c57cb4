//! The memory of granted directories, which prevents tools from widening a client's list.
//!
//! A list entry is rejected if it resolves through a symlink in a directory that was ever granted
//! or that the same list grants, because a tool could have created that symlink. [`GrantMemory`]
//! remembers directories by identity and by canonical path. A match on either one is sufficient,
//! because a rename changes the path, and overlayfs can change the identity. If the path of an
//! ancestor is remembered, only the identity of a directory is stored. The identity is still
//! needed, because the directory can be moved out of that ancestor.
//!
//! The memory is bounded. A client whose account is full is refused any directory that would have
//! to be remembered, and other clients are not affected. Once the whole memory is full, client
//! roots are no longer granted through symlinks, but the allowed directories still resolve.

use std::collections::{HashMap, HashSet};
#[cfg(not(shuttle))]
use std::path::PathBuf;

use crate::dir::Identity;
use crate::error::{Code, Error, Result};
use crate::limits::{GRANTED, GRANTED_EACH};
use crate::roots::{PathHash, Root, Roots, Trail, TrailEntry, path_hashes};
use crate::workers::Account;

/// A place that an entry resolved to, before it is granted.
pub(crate) struct Candidate {
    pub(crate) root: Root,
    pub(crate) trail: Trail,
}

/// The directories that were ever granted.
#[derive(Debug, Default)]
pub(crate) struct GrantMemory {
    places: Places,
    /// The number of directories remembered on behalf of each account.
    charged: HashMap<Account, usize>,
}

/// A set of directories, stored by canonical path and by identity.
#[derive(Debug, Default)]
struct Places {
    paths: HashSet<PathHash>,
    identities: HashSet<Identity>,
}

impl Places {
    /// Whether a directory on the trail is in this set.
    fn contains_any(&self, trail: &Trail) -> bool {
        trail.iter().any(|directory| self.contains(directory))
    }

    fn contains(&self, directory: &TrailEntry) -> bool {
        self.paths.contains(&directory.path)
            || directory.identity.is_some_and(|identity| self.identities.contains(&identity))
    }

    /// Returns the hash of a root's path, or `None` if this set contains that path or the path of
    /// an ancestor. Allowed directories are not considered ancestors here, because a trail omits
    /// them.
    fn new_path(&self, enclosing: &Roots, root: &Root) -> Option<PathHash> {
        let operators = if enclosing.is_filesystem_root() {
            Vec::new()
        } else {
            enclosing.index().depths(root.path())
        };
        let mut paths = path_hashes(root.path()).enumerate().peekable();
        while let Some((depth, path)) = paths.next() {
            let is_own = paths.peek().is_none();
            if self.paths.contains(&path) && (is_own || !operators.contains(&depth)) {
                return None;
            }
            if is_own {
                return Some(path);
            }
        }
        None
    }

    fn insert(&mut self, path: Option<PathHash>, identity: Identity) {
        self.paths.extend(path);
        self.identities.insert(identity);
    }

    fn len(&self) -> usize {
        self.identities.len().max(self.paths.len())
    }
}

#[cfg(not(shuttle))]
impl GrantMemory {
    /// Creates a memory in which exactly these directories were granted.
    pub(crate) fn from_directories(
        directories: impl IntoIterator<Item = (PathBuf, Identity)>,
    ) -> Self {
        let mut places = Places::default();
        for (path, identity) in directories {
            places.insert(Some(PathHash::of(&path)), identity);
        }
        Self { places, ..Self::default() }
    }

    pub(crate) fn contains_any(&self, trail: &Trail) -> bool {
        self.places.contains_any(trail)
    }
}

impl GrantMemory {
    /// Decides which of a list's candidates are granted, and remembers the granted ones.
    ///
    /// # Errors
    ///
    /// A candidate is refused with [`RootRejected`](crate::ErrorKind::RootRejected)
    /// (`through_link`) if a directory on its trail was ever granted, or is granted by the same
    /// list, in any order. While the whole memory is full, every client's candidate with a trail is
    /// refused in this way. A candidate is refused with [`TooCostly`](crate::ErrorKind::TooCostly)
    /// (`too_costly`) if it would have to be remembered and the account is full.
    pub(crate) fn admit(
        &mut self,
        enclosing: &Roots,
        account: &Account,
        candidates: &[&Candidate],
    ) -> Vec<Result<()>> {
        let mut linked = Places::default();
        let mut decisions: Vec<Result<()>> = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            if candidate.trail.is_empty() {
                decisions.push(self.remember(enclosing, account, &candidate.root));
            } else {
                if !candidate.root.is_file() {
                    linked
                        .insert(Some(PathHash::of(candidate.root.path())), candidate.root.identity);
                }
                decisions.push(Ok(()));
            }
        }
        let is_full = *account != Account::Operator && self.places.len() >= GRANTED;
        for (candidate, decision) in
            candidates.iter().zip(&mut decisions).filter(|(one, _)| !one.trail.is_empty())
        {
            if is_full
                // Defense: A symlink in a directory that was granted before grants nothing.
                || self.places.contains_any(&candidate.trail)
                || linked.contains_any(&candidate.trail)
            {
                *decision = Err(Code::ThroughLink.into());
            }
        }
        for (candidate, decision) in
            candidates.iter().zip(&mut decisions).filter(|(one, _)| !one.trail.is_empty())
        {
            if decision.is_ok() {
                *decision = self.remember(enclosing, account, &candidate.root);
            }
        }
        decisions
    }

    fn remember(&mut self, enclosing: &Roots, account: &Account, root: &Root) -> Result<()> {
        if root.is_file() {
            return Ok(());
        }
        let is_operator = *account == Account::Operator;
        let path = if is_operator {
            // A trail omits the allowed directories that contain this one.
            let own = PathHash::of(root.path());
            (!self.places.paths.contains(&own)).then_some(own)
        } else {
            self.places.new_path(enclosing, root)
        };
        if path.is_none() && self.places.identities.contains(&root.identity) {
            return Ok(());
        }
        // A full memory rejects every client root that runs through a symlink, so nothing more
        // needs to be remembered.
        if self.places.len() >= if is_operator { 2 * GRANTED } else { GRANTED } {
            return Ok(());
        }
        let limit = if is_operator {
            usize::MAX
        } else if *account == Account::Anonymous {
            GRANTED / 2
        } else {
            GRANTED_EACH
        };
        let charged = self.charged.entry(account.clone()).or_default();
        if *charged >= limit {
            let detail = format!("the client has already been granted {limit} other directories");
            return Err(Error::new(Code::TooCostly).detail(detail));
        }
        *charged += 1;
        self.places.insert(path, root.identity);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::boundary::entries::{Entry, EntryResolver};
    use crate::dir::Effort;
    use crate::path::Location;

    /// Candidates for the directories `a`, `a/b` and `c` beneath an allowed directory, as if each
    /// directory in `linked` had been reached through a symlink.
    fn candidates(linked: &[&str]) -> (tempfile::TempDir, Roots, Vec<Candidate>) {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let names = ["a", "a/b", "c"];
        for name in names {
            std::fs::create_dir(top.join(name)).unwrap();
        }
        let enclosing = Roots::from_dirs([&top]).unwrap();
        let candidate = |name: &&str| {
            let mut candidate = find(&enclosing, &top.join(name));
            if linked.contains(name) {
                candidate.trail =
                    vec![TrailEntry { path: PathHash::of(&top.join("links")), identity: None }];
            }
            candidate
        };
        let candidates = names.iter().map(candidate).collect();
        (directory, enclosing, candidates)
    }

    fn find(enclosing: &Roots, path: &Path) -> Candidate {
        let location = Location::from_path(path);
        let entry =
            Entry { text: String::new(), location, name: None, access: None, is_always: false };
        let effort = Effort::default();
        let found = EntryResolver::new(enclosing, &Account::Anonymous, &effort)
            .resolve(&entry, &mut effort.entry());
        found.unwrap().remove(0)
    }

    fn admit(
        granted: &mut GrantMemory,
        enclosing: &Roots,
        account: &Account,
        candidates: &[Candidate],
    ) -> Vec<Option<Code>> {
        let decisions = granted.admit(enclosing, account, &candidates.iter().collect::<Vec<_>>());
        decisions.into_iter().map(|decision| decision.err().map(|error| error.reason())).collect()
    }

    fn filled(with: usize) -> GrantMemory {
        let mut granted = GrantMemory::default();
        granted.places.paths.extend((0..u64::try_from(with).unwrap()).map(PathHash));
        granted
    }

    #[test]
    fn a_path_below_a_remembered_path_is_not_remembered_again() {
        let (_keep, enclosing, candidates) = candidates(&[]);
        let mut granted = GrantMemory::default();
        for _ in 0..2 {
            assert_eq!(
                admit(&mut granted, &enclosing, &Account::Anonymous, &candidates),
                [None; 3]
            );
            let Places { paths, identities } = &granted.places;
            assert_eq!(
                (paths.len(), identities.len(), granted.charged[&Account::Anonymous]),
                (2, 3, 3)
            );
        }
        // The allowed directory contains all of them, but it is not considered an ancestor.
        let own = find(&enclosing, enclosing.roots().next().unwrap().path());
        let mut granted = GrantMemory::default();
        admit(&mut granted, &enclosing, &Account::Operator, &[own]);
        admit(&mut granted, &enclosing, &Account::Anonymous, &candidates);
        assert_eq!(granted.places.paths.len(), 3);
    }

    #[test]
    fn a_full_memory_rejects_client_roots_through_symlinks() {
        let (_keep, enclosing, candidates) = candidates(&["c"]);
        let mut granted = filled(GRANTED - 2);
        assert_eq!(admit(&mut granted, &enclosing, &Account::Anonymous, &candidates), [None; 3]);
        let mut granted = filled(GRANTED);
        let linked = [None, None, Some(Code::ThroughLink)];
        assert_eq!(admit(&mut granted, &enclosing, &Account::Anonymous, &candidates), linked);
        assert_eq!(granted.places.len(), GRANTED);
        assert_eq!(admit(&mut granted, &enclosing, &Account::Operator, &candidates), [None; 3]);
        assert_eq!(granted.places.len(), GRANTED + 3);
    }
}
