//! Resolved roots, with what a cache needs: [`ResolvedRoots`].

#[cfg(doc)]
use crate::boundary::Boundary;
use crate::roots::Roots;

/// Roots as a configuration or a list was last resolved, with what a cache needs to keep them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResolvedRoots {
    /// The roots in force.
    pub roots: Roots,
    /// The generation of the allowed directories. It changes when a configured path leads to
    /// another directory, or an optional one appears. Compare it only for equality, within one
    /// [`Boundary`]. When the [allowed roots](crate::host::allowed) have another generation, narrow
    /// again.
    pub generation: u64,
    /// Whether the same list or configuration may give other roots later, because an entry was
    /// resolved through a symlink, or could not be resolved. Narrow again after some seconds.
    pub is_provisional: bool,
    /// An estimate of the heap memory of the roots and their rejected entries in bytes, for a cache
    /// bounded by memory. What other roots share is counted in each, except the patterns and
    /// handles of the [`Boundary`].
    pub weight: usize,
}

impl ResolvedRoots {
    pub(super) fn new(roots: Roots, generation: u64, is_provisional: bool) -> Self {
        let weight = roots.heap_size();
        Self { roots, generation, is_provisional, weight }
    }
}
