//! The snapshots of clients' roots that a guard keeps, and how much memory each takes.
//!
//! The maps of [`Cached`] hold at most [`CACHE_BYTES`](crate::limits::CACHE_BYTES) bytes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use crate::dir::Handle;
use crate::limits::CACHE_ENTRY_BYTES;
use crate::roots::{Held, Opened, RejectedRoot, Root, Roots, Snapshot};
use crate::session::runtime::Instant;
use crate::wire::{ListRootsResult, RootEntry};

/// A session's snapshot, while it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Cached {
    /// The session's epoch in which the list was asked for.
    pub(crate) epoch: u64,
    /// When the list is too old to count.
    pub(crate) until: Instant,
    /// Until when the list is not resolved again for what may be there by now.
    pub(crate) rests: Instant,
    /// Whether an entry was rejected that may be there later; and whether resolving it again failed.
    pub(crate) lacks: bool,
    pub(crate) failed: bool,
    pub(crate) roots: Roots,
}

/// Bytes of heap that a snapshot takes if nobody shares it, and the entry of the map that keeps it.
///
/// Derived from the sizes and capacities of what it consists of; `tests/footprint.rs` compares the
/// result with an allocator's count.
pub(crate) fn weight(roots: Option<&Roots>, besides: usize) -> u32 {
    let bytes = CACHE_ENTRY_BYTES + besides + roots.map_or(0, heap);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn heap(roots: &Roots) -> usize {
    let rejected =
        |rejected: &RejectedRoot| size_of::<RejectedRoot>() + rejected.entry.capacity() + rejected.error.heap();
    let text = |entry: &RootEntry| entry.uri.capacity() + entry.name.as_ref().map_or(0, String::capacity);
    let entry = |entry: &RootEntry| size_of::<RootEntry>() + text(entry);
    let list = |list: &ListRootsResult| {
        let room = list.roots.capacity().saturating_sub(list.roots.len());
        shared::<ListRootsResult>() + room * size_of::<RootEntry>() + list.roots.iter().map(entry).sum::<usize>()
    };
    shared::<Snapshot>()
        + roots.roots().map(root_heap).sum::<usize>()
        + roots.index().heap()
        + roots.rejected().iter().map(rejected).sum::<usize>()
        + roots.list().map_or(0, |shared| list(shared))
}

fn root_heap(root: &Root) -> usize {
    let given = |path: &PathBuf| size_of::<PathBuf>() + path.capacity();
    let held = match &root.held {
        Held::Open(..) => shared::<Opened>() + shared::<Handle>(),
        Held::Top(_) | Held::OnUse(_) => 0,
    };
    // A snapshot has a list of pointers to its roots.
    size_of::<Arc<Root>>()
        + shared::<Root>()
        + root.canonical.capacity()
        + root.given.iter().map(given).sum::<usize>()
        + root.name.as_ref().map_or(0, String::capacity)
        + root.leaf.as_ref().map_or(0, OsString::capacity)
        + held
}

/// What an `Arc` allocates: the value, and two counters.
const fn shared<T>() -> usize {
    2 * size_of::<usize>() + size_of::<T>()
}
