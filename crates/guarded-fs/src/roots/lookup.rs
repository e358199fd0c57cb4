//! The resolver's look-ups beneath the handles of a snapshot: [`Lookups`].

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::dir::{Budget, Cursor, Handle, Metadata, Stat};
use crate::error::{Code, Result};
use crate::limits::{CHANGED_RETRIES, CHANGED_RETRY_TIME, ROOT_LIST_ENTRIES};
use crate::path::Location;
use crate::path::index::ROOT_NAMES;
use crate::path::names::below;
use crate::path::protect::FoldedPaths;
use crate::roots::root::join;
use crate::roots::{LastName, Lookup, Place, PlaceInRoot, Roots, resolve, resolve_symlink};

pub(crate) struct Lookups<'a, 'b> {
    roots: &'a Roots,
    budget: &'a mut Budget<'b>,
    /// The root that was looked in last, with its handle.
    opened: Option<(usize, Arc<Handle>, Cursor)>,
    has_looked: bool,
    links: Option<Links>,
}

/// The symlinks followed while resolving a configured path, an entry of a list, or a program.
#[derive(Debug, Default)]
pub(crate) struct Links(Vec<Link>);

#[derive(Debug)]
struct Link {
    /// The canonical path of its directory.
    directory: PathBuf,
    /// When the symlink was last changed (`st_ctime`, inode(7)), or the distant future if the
    /// system does not say.
    changed: SystemTime,
}

impl Links {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a symlink is in one of these directories, or below it.
    pub(crate) fn are_in(&self, directories: &FoldedPaths) -> bool {
        self.0.iter().any(|link| directories.enclose(&link.directory))
    }

    /// The symlinks that may have been changed at this time or later. A time without nanoseconds
    /// may stand for the end of its second.
    pub(crate) fn changed_since(mut self, time: SystemTime) -> Self {
        self.0.retain(|link| {
            let age = link.changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let rest = if age.subsec_nanos() == 0 { 999_999_999 } else { 0 };
            let latest = link.changed.checked_add(Duration::from_nanos(rest));
            latest.is_none_or(|latest| latest >= time)
        });
        self
    }
}

impl<'a, 'b> Lookups<'a, 'b> {
    pub(crate) fn new(roots: &'a Roots, budget: &'a mut Budget<'b>) -> Self {
        Self { roots, budget, opened: None, has_looked: false, links: None }
    }

    pub(crate) fn recording(roots: &'a Roots, budget: &'a mut Budget<'b>) -> Self {
        Self { links: Some(Links::default()), ..Self::new(roots, budget) }
    }

    pub(crate) fn have_looked(&self) -> bool {
        self.has_looked
    }

    pub(crate) fn into_links(self) -> Links {
        self.links.unwrap_or_default()
    }

    /// Does not record a symlink.
    pub(crate) fn look_up(&mut self, number: usize, path: &Path) -> Result<Stat> {
        let (root, mounts) = (self.roots.root(number)?, self.roots.policy().mounts);
        let (_, handle, cursor) = match &mut self.opened {
            Some(opened) if opened.0 == number => opened,
            opened => {
                self.has_looked = true;
                self.budget.spend(1)?;
                opened.insert((number, root.handle()?, Cursor::default()))
            }
        };
        let seen = cursor.look(handle, &root.beneath_handle(path), mounts, self.budget)?;
        // A file root grants access to one file, and is unavailable if a directory now has that
        // name.
        match &seen {
            Stat::Other(metadata) if metadata.is_dir() && root.is_file() => {
                Err(Code::RootUnavailable.into())
            }
            _ => Ok(seen),
        }
    }

    /// Records a symlink. Reading its target and its time takes two calls, so both are read again,
    /// to make sure that they belong to one symlink.
    fn record(
        &mut self,
        number: usize,
        path: &Path,
        text: &OsStr,
        metadata: &Metadata,
    ) -> Result<()> {
        let root = self.roots.root(number)?;
        let directory = join(root.path(), path.parent().unwrap_or(path));
        match self.look_up(number, path)? {
            // Defense: A symlink exchanged between the reads of its target and its time is refused.
            Stat::Link(again, now) if again == text && now.is_same_state(metadata) => {}
            _ => return Err(Code::Changed.into()),
        }
        let unknown = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(u32::MAX));
        let changed = metadata.status_changed().unwrap_or(unknown);
        if let Some(links) = &mut self.links {
            links.0.push(Link { directory, changed });
        }
        Ok(())
    }
}

impl Lookup for Lookups<'_, '_> {
    fn look(&mut self, number: usize, path: &Path) -> Result<Stat> {
        let seen = self.look_up(number, path)?;
        match &seen {
            Stat::Link(text, metadata) if self.links.is_some() => {
                self.record(number, path, text, metadata)?;
            }
            _ => {}
        }
        Ok(seen)
    }

    fn is_denied(&self, number: usize, path: &Path, names: usize) -> bool {
        self.roots.is_denied(number, path, names)
    }
}

// There is room for ten names for each entry of the longest list.
const _: () = assert!(ROOT_NAMES == 10 * ROOT_LIST_ENTRIES);

impl Roots {
    /// Returns the place that a request names. Fails with `OutsideRoots` if it is an ancestor of a
    /// root.
    pub(crate) fn locate(
        &self,
        request: &Location,
        last_name: LastName,
        budget: &mut Budget<'_>,
    ) -> Result<PlaceInRoot> {
        #[cfg(target_os = "linux")]
        if let Some(place) = self.locate_by_kernel(request, last_name) {
            return place;
        }
        self.locate_with(&mut Lookups::new(self, budget), request, last_name)
    }

    /// Like [`locate`](Self::locate), but only by the resolver, with these look-ups.
    pub(crate) fn locate_with(
        &self,
        lookups: &mut impl Lookup,
        request: &Location,
        last_name: LastName,
    ) -> Result<PlaceInRoot> {
        let (base, request) = (self.base(), request.as_os_str());
        if base.is_none() && !self.index().is_absolute(request) {
            return Err(self.without_base());
        }
        place_inside(resolve(lookups, self.index(), base, request, last_name)?)
    }

    /// The root in which a request starts, if it starts in one, and the rest of the request.
    pub(crate) fn start<'a>(&self, request: &'a Location) -> Option<(usize, &'a OsStr)> {
        let request = request.as_os_str();
        if !self.index().is_absolute(request) {
            return Some((self.base()?, request));
        }
        // This is a fast path for the common case of one root that is named by its canonical path.
        let only = self.only_root().filter(|only| only.aliases.is_empty());
        let below = only.and_then(|only| below(request, only.path()));
        below.map(|below| (0, below)).or_else(|| self.index().strip_root(request))
    }
}

/// Resolves the target of a symlink at `link`, whether or not that exists. Fails like
/// [`locate`](Roots::locate).
pub(crate) fn resolve_symlink_in(
    roots: &Roots,
    root: usize,
    link: PathBuf,
    text: OsString,
    budget: &mut Budget<'_>,
) -> Result<PlaceInRoot> {
    let lookups = &mut Lookups::new(roots, budget);
    place_inside(resolve_symlink(lookups, roots.index(), root, link, text)?)
}

fn place_inside(place: Place) -> Result<PlaceInRoot> {
    match place {
        Place::Inside(located) => Ok(located),
        Place::Above(_) => Err(Code::OutsideRoots.into()),
    }
}

/// Repeats `work` while another process keeps changing the path, within [`CHANGED_RETRIES`] and
/// [`CHANGED_RETRY_TIME`].
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
    use crate::dir::Access;

    #[cfg(unix)]
    #[test]
    fn symlink_exchanged_between_the_reads_of_its_target_and_its_time_is_refused() {
        use std::os::unix::fs::symlink;

        let tree = tempfile::tempdir().unwrap();
        let (link, next) = (tree.path().join("link"), tree.path().join("next"));
        symlink("old", &link).unwrap();
        let roots = Roots::from_dirs([tree.path()], Access::ReadWrite).unwrap();
        let mut budget = Budget::new();
        let mut lookups = Lookups::recording(&roots, &mut budget);
        let path = Path::new("link");
        for target in ["old", "new"] {
            let Stat::Link(text, metadata) = lookups.look_up(0, path).unwrap() else { panic!() };
            // The new symlink is another file, also if it has the same target.
            symlink(target, &next).unwrap();
            std::fs::rename(&next, &link).unwrap();
            let recorded = lookups.record(0, path, &text, &metadata);
            assert_eq!(recorded.map_err(|error| error.reason()), Err(Code::Changed), "{target}");
        }
        let Stat::Link(text, metadata) = lookups.look_up(0, path).unwrap() else { panic!() };
        lookups.record(0, path, &text, &metadata).unwrap();
        assert_eq!(lookups.into_links().0.len(), 1);
    }

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
