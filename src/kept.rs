//! What is kept of clients' snapshots.
//!
//! Goes in: a snapshot, and until when it counts. Comes out: what it weighs. What is true after: what is kept by weight takes no more
//! than [`KEPT_WEIGHT`].

use crate::roots::{Root, Roots, Skipped};
use crate::runtime::Instant;
use crate::wire::RootEntry;

/// A session's snapshot, while it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// The session's epoch in which the list was asked for.
    pub(crate) epoch: u64,
    /// When the list is too old to count.
    pub(crate) until: Instant,
    /// Until when the list is not resolved again for what may be there by now.
    pub(crate) rests: Instant,
    /// Whether an entry was skipped that may be there later; and whether resolving it again failed.
    pub(crate) lacks: bool,
    pub(crate) failed: bool,
    pub(crate) roots: Roots,
}

/// About how many KiB a snapshot takes, with so many bytes besides, if nobody shares it.
pub(crate) fn weight(roots: Option<&Roots>, besides: usize) -> u32 {
    let entry = |entry: &RootEntry| entry.uri.len() + entry.name.as_ref().map_or(0, String::len) + 100;
    let listed = |roots: &Roots| roots.list().map_or(0, |list| list.roots.iter().map(entry).sum::<usize>());
    let root = |root: &Root| 500 + root.spellings().map(|path| 4 * path.as_os_str().len()).sum::<usize>();
    let skipped = |skipped: &Skipped| skipped.entry().len() + 300;
    let bytes = |roots: &Roots| {
        listed(roots) + roots.roots().map(root).sum::<usize>() + roots.skipped().iter().map(skipped).sum::<usize>()
    };
    let bytes = besides + roots.map_or(0, bytes);
    u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX)
}

/// How much is kept of sessions' snapshots, in KiB: room for those of [`SESSIONS`](crate::SESSIONS) with a few roots each, or of some fifty
/// clients with the longest list. The least recently used is forgotten first, and asked for again. Each counts as if nobody shared it,
/// since whoever shares it may be gone first; so clients that list a lot cost others a question. With the feature `rmcp`, as much again for what
/// clients of the stateless era told.
pub(crate) const KEPT_WEIGHT: u64 = 512 * 1024;
