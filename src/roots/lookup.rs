//! The resolver's look-ups beneath the handles of a snapshot.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf, is_separator};
use std::sync::Arc;
use std::time::Instant;

use crate::dir::{Access, Budget, Cursor, Handle, Identity, Look, common_length, count_separators};
use crate::error::{Code, Result};
use crate::limits::{CHANGED_RETRIES, CHANGED_RETRY_TIME, ROOT_LIST_ENTRIES};
use crate::path::index::ALIAS_NAMES;
use crate::path::protect::Protected;
use crate::roots::{
    EntryKind, Found, Intent, Lookup, Place, Root, Roots, Trail, TrailEntry, path_hashes, resolve,
    resolve_symlink,
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
    visible: Visible,
    renamed: Option<Renamed<'a>>,
}

/// A directory of a root that will be renamed. Its content is hidden or not as it will be under the
/// new name.
#[derive(Clone, Copy)]
pub(crate) struct Renamed<'a> {
    pub(crate) root: usize,
    pub(crate) from: &'a Path,
    pub(crate) to: &'a Path,
}

/// A place in a root of a snapshot.
pub(crate) struct Located {
    pub(crate) root: usize,
    /// The path relative to the root. It consists of plain names.
    pub(crate) path: PathBuf,
    pub(crate) found: Found,
    /// Whether the last name of the request is a symlink that was followed.
    pub(crate) is_target: bool,
}

/// The last path that was found not to be hidden. The states of its names are kept, so that a path
/// near it takes only the steps in which it differs.
#[derive(Default)]
struct Visible {
    root: usize,
    path: PathBuf,
    /// For each name in the path, the length of the path up to and including it, and the protection
    /// there.
    states: Vec<(usize, Protected)>,
}

impl Visible {
    /// Whether a path of plain names in a root goes through a hidden name.
    fn is_hidden(&mut self, number: usize, root: &Protected, path: &Path) -> bool {
        if !root.can_hide() {
            return false;
        }
        let (last, next) =
            (self.path.as_os_str().as_encoded_bytes(), path.as_os_str().as_encoded_bytes());
        let common = if number == self.root { common_length(last, next) } else { 0 };
        let is_shared = |length: usize| {
            length <= common && next.get(length).is_none_or(|byte| is_separator(char::from(*byte)))
        };
        while self.states.last().is_some_and(|(length, _)| !is_shared(*length)) {
            self.states.pop();
        }
        let mut state = self.states.last().map_or(root, |(_, state)| state).clone();
        let mut length = self.states.last().map_or(0, |(length, _)| *length);
        let parent = path.parent().map_or(0, |parent| parent.as_os_str().len());
        // The resolver adds one name at a time, so usually only the last one is new.
        let new = if length == parent { path.file_name().map(Path::new) } else { None };
        let names = new.map_or_else(|| path.iter(), Path::iter);
        for name in names.skip(if new.is_some() { 0 } else { self.states.len() }) {
            state = state.child(name);
            length += usize::from(length > 0) + name.len();
            self.states.push((length, state.clone()));
        }
        self.root = number;
        self.path.clear();
        self.path.push(path);
        state.is_hidden()
    }
}

/// A directory on the path to the last name that was looked up.
#[derive(Clone, Copy, Default)]
struct Ancestor {
    identity: Option<Identity>,
    is_on_trail: bool,
}

impl<'a, 'b> Lookups<'a, 'b> {
    pub(crate) fn new(roots: &'a Roots, budget: &'a mut Budget<'b>) -> Self {
        Self {
            roots,
            budget,
            opened: None,
            trail: Trail::new(),
            ancestors: Vec::new(),
            visible: Visible::default(),
            renamed: None,
        }
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
            let is_omitted = |root: &Root| !root.is_always() || root.access == Access::ReadOnly;
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

    fn is_hidden(&mut self, number: usize, path: &Path) -> bool {
        let Ok(root) = self.roots.root(number) else { return false };
        let renamed = self.renamed.filter(|renamed| renamed.root == number);
        let renamed = renamed.and_then(|Renamed { from, to, .. }| {
            // Joining an empty path would add a trailing slash.
            let rest = path.strip_prefix(from).ok()?;
            Some(to.iter().chain(rest).collect::<PathBuf>())
        });
        self.visible.is_hidden(number, &root.protected, renamed.as_deref().unwrap_or(path))
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

    fn is_hidden(&mut self, number: usize, path: &Path) -> bool {
        self.0.is_hidden(number, path)
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
) -> Result<Located> {
    if base.is_none() && !roots.index().is_absolute(request) {
        return Err(roots.without_base());
    }
    let lookups = &mut RequestLookups(Lookups::new(roots, budget));
    place_inside(resolve(lookups, roots.index(), base, request, intent)?)
}

/// Resolves the target of a symlink at `link` in a root of a snapshot, whether or not the symlink
/// exists. Fails with `OutsideRoots` if the target is an ancestor of a root.
pub(crate) fn resolve_symlink_in(
    roots: &Roots,
    root: usize,
    link: PathBuf,
    text: OsString,
    intent: Intent,
    renamed: Option<Renamed<'_>>,
    budget: &mut Budget<'_>,
) -> Result<Located> {
    let lookups = &mut RequestLookups(Lookups { renamed, ..Lookups::new(roots, budget) });
    place_inside(resolve_symlink(lookups, roots.index(), root, link, text, intent)?)
}

fn place_inside(place: Place) -> Result<Located> {
    match place {
        Place::Inside { root, path, found, is_target } => {
            Ok(Located { root, path, found, is_target })
        }
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
