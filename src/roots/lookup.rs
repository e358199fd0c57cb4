//! The resolver's look-ups beneath the handles of a snapshot.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::dir::{Access, Budget, Cursor, Handle, Identity, Look, count_separators};
use crate::error::{Code, Result};
use crate::limits::{CHANGED_RETRIES, CHANGED_RETRY_TIME, ROOT_LIST_ENTRIES};
use crate::path::index::ALIAS_NAMES;
use crate::roots::{
    EntryKind, Found, Intent, Lookup, Place, Root, Roots, Trail, TrailEntry, path_hashes, resolve,
};

/// Performs the resolver's look-ups on the filesystem, beneath the handles of the roots. Records
/// the [`Trail`].
pub(crate) struct Lookups<'a, 'b> {
    roots: &'a Roots,
    budget: &'a mut Budget<'b>,
    opened: Option<(usize, Arc<Handle>, Cursor)>,
    trail: Trail,
    /// The directories from the root to the last name that was looked up, indexed by depth.
    ancestors: Vec<Ancestor>,
}

/// A directory on the path to the last name that was looked up.
#[derive(Clone, Copy, Default)]
struct Ancestor {
    identity: Option<Identity>,
    is_on_trail: bool,
}

impl<'a, 'b> Lookups<'a, 'b> {
    pub(crate) fn new(roots: &'a Roots, budget: &'a mut Budget<'b>) -> Self {
        Self { roots, budget, opened: None, trail: Trail::new(), ancestors: Vec::new() }
    }

    /// Opens the directory of a root, and keeps it open for the next look-up.
    fn open(&mut self, number: usize) -> Result<()> {
        if self.opened.as_ref().is_none_or(|(opened, ..)| *opened != number) {
            let handle = self.roots.root(number)?.handle()?;
            self.ancestors.clear();
            self.opened = Some((number, handle, Cursor::default()));
        }
        Ok(())
    }

    pub(crate) fn into_trail(self) -> Trail {
        self.trail
    }

    fn look_up(&mut self, number: usize, path: &Path) -> Result<Look> {
        let (root, mounts) = (self.roots.root(number)?, self.roots.policy().mounts);
        self.open(number)?;
        let Some((_, handle, cursor)) = &mut self.opened else {
            return Err(Code::RootUnavailable.into());
        };
        let seen = cursor.look(handle, &root.beneath_handle(path), mounts, self.budget)?;
        // A file root grants access to one file, and is unavailable if a directory now has that
        // name.
        match &seen {
            Look::Other(metadata) if metadata.is_dir() && root.is_file() => {
                Err(Code::RootUnavailable.into())
            }
            _ => Ok(seen),
        }
    }

    fn record(&mut self, number: usize, path: &Path, seen: &Look) -> Result<()> {
        let last = path.as_os_str().as_encoded_bytes();
        let depth = if last.is_empty() { 0 } else { 1 + count_separators(last) };
        match seen {
            Look::Other(metadata) => {
                self.ancestors.resize_with(depth, Ancestor::default);
                self.ancestors
                    .push(Ancestor { identity: Some(metadata.identity()), is_on_trail: false });
            }
            Look::Link(..) => {
                self.ancestors.resize_with(depth, Ancestor::default);
                self.extend_trail(self.roots.root(number)?, path.parent().unwrap_or(path));
            }
            Look::Missing => {}
        }
        Ok(())
    }

    /// Adds a directory that contains a symlink, and its ancestors, to the trail.
    ///
    /// The allowed directories themselves are omitted. They are the boundary, so a symlink in one
    /// of them is not suspicious just because the whole directory was granted. A writable directory
    /// that is always in force is not omitted, because every client's tools can create symlinks in
    /// it, even if the client lists only a part of it.
    fn extend_trail(&mut self, root: &Root, directory: &Path) {
        if self.ancestors.last().is_some_and(|last| last.is_on_trail) {
            return;
        }
        let directory = root.canonical.join(directory);
        let allowed = if root.is_filesystem_root() {
            Vec::new()
        } else {
            // Defense: symlink-in-an-always-directory-grants-nothing
            let is_omitted = |root: &Root| !root.is_always() || root.access() == Access::ReadOnly;
            let index = self.roots.index();
            let enclosing = index.depths(&directory).into_iter();
            enclosing
                .zip(index.enclosing_roots(&directory))
                .filter(|(_, number)| self.roots.root(*number).is_ok_and(is_omitted))
                .map(|(depth, _)| depth)
                .collect()
        };
        let above = root.canonical.iter().count().saturating_sub(1);
        let is_first = self.ancestors.first().is_none_or(|root| !root.is_on_trail);
        for (depth, path) in path_hashes(&directory).enumerate() {
            let ancestor = depth.checked_sub(above).and_then(|depth| self.ancestors.get_mut(depth));
            let is_new = match &ancestor {
                Some(ancestor) => !ancestor.is_on_trail,
                None => is_first,
            };
            let identity = ancestor.and_then(|ancestor| {
                ancestor.is_on_trail = true;
                ancestor.identity
            });
            if is_new && !allowed.contains(&depth) {
                self.trail.push(TrailEntry { path, identity });
            }
        }
    }
}

impl Lookup for Lookups<'_, '_> {
    fn look(&mut self, number: usize, path: &Path) -> Result<EntryKind> {
        let seen = self.look_up(number, path)?;
        self.record(number, path, &seen)?;
        Ok(seen.into())
    }
}

impl From<Look> for EntryKind {
    fn from(look: Look) -> Self {
        match look {
            Look::Missing => Self::Missing,
            Look::Link(text, _) => Self::Link(text),
            Look::Other(metadata) if metadata.is_dir() => Self::Directory,
            Look::Other(_) => Self::Other,
        }
    }
}

/// Performs the look-ups for a request, where only the target matters. It records no trail, so it
/// can skip several names at once.
pub(super) struct RequestLookups<'a, 'b>(pub(super) Lookups<'a, 'b>);

impl Lookup for RequestLookups<'_, '_> {
    fn look(&mut self, number: usize, path: &Path) -> Result<EntryKind> {
        self.0.look_up(number, path).map(EntryKind::from)
    }

    #[cfg(target_os = "linux")]
    fn skippable(&mut self, number: usize, path: &Path, unknown: usize) -> Option<Result<usize>> {
        let mounts = self.0.roots.policy().mounts;
        self.0.open(number).ok()?;
        let (_, handle, cursor) = self.0.opened.as_mut()?;
        cursor.skippable(handle, path, unknown, mounts, self.0.budget)
    }
}

// The index has room for ten alias names for each entry of the longest list.
const _: () = assert!(ALIAS_NAMES == 10 * ROOT_LIST_ENTRIES);

/// Resolves a request against a snapshot. Fails with `OutsideRoots` if the request names an
/// ancestor of a root.
pub(crate) fn resolve_in(
    roots: &Roots,
    base: Option<usize>,
    request: &OsStr,
    intent: Intent,
    budget: &mut Budget<'_>,
) -> Result<(usize, PathBuf, Found)> {
    if base.is_none() && !roots.index().is_absolute(request) {
        return Err(roots.without_base());
    }
    match resolve(
        &mut RequestLookups(Lookups::new(roots, budget)),
        roots.index(),
        base,
        request,
        intent,
    )? {
        Place::Inside { root, path, found } => Ok((root, path, found)),
        Place::Above(_) => Err(Code::OutsideRoots.into()),
    }
}

/// Repeats `work` while another process keeps changing the path. The number of repetitions and
/// their total time are bounded.
pub(crate) fn retry_changed<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    let mut done = work();
    let mut first: Option<Instant> = None;
    for _ in 0..CHANGED_RETRIES {
        match done {
            Err(error)
                if error.reason() == Code::Changed
                    && first.get_or_insert_with(Instant::now).elapsed() < CHANGED_RETRY_TIME =>
            {
                done = work();
            }
            done => return done,
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_path_is_retried_a_bounded_number_of_times_and_other_errors_are_not() {
        let tried = |changes: usize, then: Result<()>| {
            let mut times = 0;
            let done = retry_changed(|| {
                times += 1;
                if times <= changes {
                    Err(Code::Changed.into())
                } else {
                    then.as_ref().copied().map_err(|e| e.reason().into())
                }
            });
            (times, done.map_err(|error| error.reason()))
        };
        assert_eq!(tried(0, Ok(())), (1, Ok(())));
        assert_eq!(tried(CHANGED_RETRIES, Ok(())), (1 + CHANGED_RETRIES, Ok(())));
        assert_eq!(tried(CHANGED_RETRIES + 1, Ok(())), (1 + CHANGED_RETRIES, Err(Code::Changed)));
        assert_eq!(tried(1, Err(Code::NotFound.into())), (2, Err(Code::NotFound)));
    }
}
