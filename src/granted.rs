//! The memory of what was granted, so that no list is widened by what a tool wrote.
//!
//! Goes in: the places that a list's entries lead to, each with the links on the way. Comes out: which of them stand. What is true
//! after: no entry stands by a link in a directory that was ever granted, or that the same list grants; a tool could have written it.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::metadata::Identity;
use crate::roots::{Root, Roots, Trail};

/// A place that an entry leads to, not yet granted.
pub(crate) struct Candidate {
    pub(crate) root: Root,
    pub(crate) trail: Trail,
}

/// The directories that were ever granted: a link in one of them may have been written by a tool.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    places: Places,
    bytes: usize,
}

/// Directories, by canonical path and by identity; an ancestor that was renamed changes the one and not the other.
#[derive(Debug, Default)]
struct Places {
    paths: HashSet<PathBuf>,
    identities: HashSet<Identity>,
}

impl Places {
    /// Whether a link on the trail lies in one of these.
    fn hold_link_of(&self, around: &Roots, trail: &Trail) -> bool {
        trail.links.iter().any(|(number, directory)| {
            let Ok(outer) = around.root(*number) else { return true };
            directory.ancestors().any(|ancestor| {
                let top = ancestor.as_os_str().is_empty();
                // An operator directory that was granted as a whole does not make each link in it suspicious: it bounds them.
                if top && !outer.is_top() {
                    return false;
                }
                let identity = trail.directories.get(&(*number, ancestor.to_owned()));
                self.paths.contains(&outer.canonical.join(ancestor))
                    || identity.is_some_and(|identity| self.identities.contains(identity))
            })
        })
    }

    fn insert(&mut self, root: &Root) -> bool {
        self.identities.insert(root.identity);
        self.paths.insert(root.canonical.clone())
    }
}

impl Granted {
    /// Which of a list's candidates stand, and remembers those. One that came through no link does; one through a link does unless
    /// the link lies in what was ever granted, or in what the list itself would grant, whatever the order.
    pub(crate) fn judge<'a>(
        &mut self,
        around: &Roots,
        candidates: impl Iterator<Item = &'a Candidate> + Clone,
    ) -> Vec<bool> {
        let mut linked = Places::default();
        for candidate in candidates.clone().filter(|candidate| !candidate.root.is_file()) {
            if candidate.trail.links.is_empty() {
                self.remember(&candidate.root);
            } else {
                linked.insert(&candidate.root);
            }
        }
        let full = self.bytes > GRANTED_BYTES;
        let stands = |candidate: &Candidate| {
            let suspicious = |places: &Places| places.hold_link_of(around, &candidate.trail);
            candidate.trail.links.is_empty() || !(full || suspicious(&self.places) || suspicious(&linked))
        };
        let stands: Vec<bool> = candidates.clone().map(stands).collect();
        for (candidate, _) in
            candidates.zip(&stands).filter(|(candidate, stands)| **stands && !candidate.root.is_file())
        {
            self.remember(&candidate.root);
        }
        stands
    }

    fn remember(&mut self, root: &Root) {
        if self.bytes <= GRANTED_BYTES && self.places.insert(root) {
            self.bytes += root.canonical.as_os_str().len() + size_of::<PathBuf>() + size_of::<Identity>();
        }
    }
}

/// Memory for the directories that were ever granted: about 100,000. When it is full, no root is granted through a link any more.
const GRANTED_BYTES: usize = 16 << 20;
