//! The memory of what was granted, so that no list is widened by what a tool wrote.
//!
//! Goes in: the places that a list's entries lead to, each with the links on the way. Comes out: which of them stand. What is true
//! after: no entry stands by a link in a directory that was ever granted, or that the same list grants; a tool could have written it.

use std::collections::HashSet;
#[cfg(all(target_os = "linux", feature = "landlock"))]
use std::path::PathBuf;

use crate::metadata::Identity;
use crate::policy::Whose;
use crate::roots::{Root, Roots, Trail};
use crate::spellings::Tree;

/// A place that an entry leads to, not yet granted.
pub(crate) struct Candidate {
    pub(crate) root: Root,
    pub(crate) trail: Trail,
}

/// The directories that were ever granted: a link in one of them may have been written by a tool.
#[derive(Debug, Default)]
pub(crate) struct Granted(Places);

/// Directories, by canonical path and by identity; an ancestor that was renamed changes the one and not the other.
#[derive(Debug, Default)]
struct Places {
    paths: Tree,
    identities: HashSet<Identity>,
}

impl Places {
    /// Whether a link on the trail lies in one of these.
    ///
    /// An operator directory that was granted as a whole does not make each link in it suspicious: it bounds them. So what is
    /// remembered at the place of one does not count, and what is remembered above or below it does.
    fn hold_link_of(&self, around: &Roots, trail: &Trail) -> bool {
        trail.iter().any(|link| {
            let Ok(outer) = around.root(link.root) else { return true };
            let directory = outer.path().join(&link.path);
            let whole = if outer.is_top() { Vec::new() } else { around.spellings().depths(&directory) };
            let above = outer.path().iter().count() - 1;
            self.paths.marks(&directory).any(|(depth, _)| !whole.contains(&depth))
                || link.identities.iter().enumerate().any(|(depth, identity)| {
                    !whole.contains(&(above + depth))
                        && identity.is_some_and(|identity| self.identities.contains(&identity))
                })
        })
    }

    fn insert(&mut self, root: &Root) {
        if !root.is_file() {
            self.identities.insert(root.identity);
            self.paths.insert(root.path(), 0);
        }
    }

    fn len(&self) -> usize {
        self.identities.len() + self.paths.len()
    }
}

#[cfg(all(target_os = "linux", feature = "landlock"))]
impl Granted {
    /// As if these directories had been granted, and no others.
    pub(crate) fn only(directories: impl IntoIterator<Item = (PathBuf, Identity)>) -> Self {
        let mut places = Places::default();
        for (path, identity) in directories {
            places.paths.insert(&path, 0);
            places.identities.insert(identity);
        }
        Self(places)
    }

    pub(crate) fn hold_link_of(&self, around: &Roots, trail: &Trail) -> bool {
        self.0.hold_link_of(around, trail)
    }
}

impl Granted {
    /// Which of a list's candidates stand, and remembers those. One that came through no link does; one through a link does unless
    /// the link lies in what was ever granted, or in what the list itself would grant, whatever the order.
    ///
    /// A list that fills the memory costs the lists of clients, and not the operator's.
    pub(crate) fn judge(&mut self, around: &Roots, whose: Whose, candidates: &[&Candidate]) -> Vec<bool> {
        let room = if whose == Whose::Operator { 2 * GRANTED } else { GRANTED };
        let mut linked = Places::default();
        for candidate in candidates {
            if candidate.trail.is_empty() {
                self.remember(&candidate.root, room);
            } else {
                linked.insert(&candidate.root);
            }
        }
        let full = self.0.len() > room;
        let stands = |candidate: &&Candidate| {
            let suspicious = |places: &Places| places.hold_link_of(around, &candidate.trail);
            candidate.trail.is_empty() || !(full || suspicious(&self.0) || suspicious(&linked))
        };
        let stands: Vec<bool> = candidates.iter().map(stands).collect();
        for (candidate, _) in candidates.iter().zip(&stands).filter(|(_, stands)| **stands) {
            self.remember(&candidate.root, room);
        }
        stands
    }

    fn remember(&mut self, root: &Root, limit: usize) {
        if self.0.len() <= limit {
            self.0.insert(root);
        }
    }
}

/// The most names and identities remembered of directories that clients were granted, of some hundred bytes each: at two for each, room
/// for a hundred thousand that lie side by side. When it is full, no client's root is granted through a link any more.
const GRANTED: usize = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_has_a_bound() {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let roots = Roots::from_dirs(directories.each_ref().map(tempfile::TempDir::path)).unwrap();
        let mut granted = Granted::default();
        roots.roots().for_each(|root| granted.remember(root, 0));
        assert_eq!(granted.0.identities.len(), 1, "the first that passes it is the last");
    }
}
