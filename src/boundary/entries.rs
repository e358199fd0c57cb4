//! Resolves the entries of a root list.
//!
//! An [`EntryResolver`] resolves entries one at a time beneath the enclosing roots, which are the
//! allowed directories or the filesystem root. The result has one [`Candidate`] for each place that
//! an entry names. A candidate is open but not yet granted, and records the trail of the symlinks
//! that were followed. Nothing outside the enclosing roots is looked up, and the work and time
//! spent on a list are bounded.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use path_clean::PathClean as _;

use crate::boundary::grants::Candidate;
use crate::dir::{Access, Budget, Effort, FileType, Look};
use crate::error::{Code, Result};
use crate::limits::{
    ALIAS_LOOKUPS, LIST_LOOKUPS, NAMES_PER_LOOKUP, ROOT_LOOKUPS, TRAIL_PER_LOOKUP,
};
use crate::path::Location;
use crate::path::index::Origin;
#[cfg(unix)]
use crate::path::names::drive;
use crate::path::names::{components, ends_as_directory};
use crate::roots::{
    Held, Intent, Lookups, Opened, Place, Root, Roots, Throttle, Trail, display_path,
    held_directory, resolve,
};
use crate::workers::Account;

/// An entry of a list, before it is resolved.
pub(crate) struct Entry {
    pub(crate) text: String,
    pub(crate) location: Result<Location>,
    pub(crate) name: Option<String>,
    /// Set for the operator's entries. A client's entry has the access of the enclosing directory.
    pub(crate) access: Option<Access>,
    /// Whether it is an allowed directory that client roots do not narrow.
    pub(crate) is_always: bool,
}

/// Resolves the entries of one list within the list's budget.
pub(crate) struct EntryResolver<'a> {
    enclosing: &'a Roots,
    account: &'a Account,
    /// The number of look-ups charged to the list so far.
    lookups: usize,
    effort: &'a Effort,
}

impl<'a> EntryResolver<'a> {
    pub(crate) fn new(enclosing: &'a Roots, account: &'a Account, effort: &'a Effort) -> Self {
        Self { enclosing, account, lookups: 0, effort }
    }

    /// Returns the places that an entry names beneath the enclosing roots. The result is one place
    /// or, if the entry is an ancestor of enclosing roots, each of these roots.
    ///
    /// # Errors
    ///
    /// The error for an entry that is invalid or cannot be resolved, or
    /// [`TooCostly`](crate::ErrorKind::TooCostly) (`too_costly`) if the budget of the entry or of
    /// the list is exhausted, or if no caller is waiting for the list.
    pub(crate) fn resolve(
        &mut self,
        entry: &Entry,
        budget: &mut Budget<'_>,
    ) -> Result<Vec<Candidate>> {
        let before = budget.spent();
        let found = self.resolve_entry(entry, budget);
        self.lookups += budget.spent() - before;
        let found = found?;
        self.lookups += ROOT_LOOKUPS * found.len();
        self.lookups +=
            found.iter().map(|candidate| candidate.trail.len()).sum::<usize>() / TRAIL_PER_LOOKUP;
        Ok(found)
    }

    fn resolve_entry(&self, entry: &Entry, budget: &mut Budget<'_>) -> Result<Vec<Candidate>> {
        let enclosing = self.enclosing;
        let location = match &entry.location {
            Ok(location) => location.as_os_str(),
            Err(error) => return Err(error.reason().into()),
        };
        if !enclosing.index().is_absolute(location) {
            return Err(Code::NotAbsolute.into());
        }
        // On Windows, the volume may be missing, for example if a disk is unplugged.
        if *self.account == Account::Operator && enclosing.index().begin(location).is_none() {
            return Err(Code::NotFound.into());
        }
        if self.lookups > LIST_LOOKUPS || self.effort.is_spent() {
            return Err(Code::TooCostly.into());
        }
        let before = budget.spent();
        let as_listed = |mut root: Root, spent: usize| {
            root.access = entry.access.unwrap_or(root.access);
            root.is_always = entry.is_always;
            root.name.clone_from(&entry.name);
            if spent - before <= ALIAS_LOOKUPS {
                let alias = alias_of(Path::new(location), &root.canonical);
                if *self.account != Account::Operator {
                    root.listed = alias.as_deref().map(shown);
                }
                // The index already contains the declared aliases.
                let is_declared = enclosing.index().declared(location, Origin::Request).is_some();
                root.aliases
                    .extend(alias.filter(|alias| !is_declared && !root.aliases.contains(alias)));
            }
            root
        };
        if let Some(found) = self.open_without_symlinks(location, budget)? {
            return Ok(vec![Candidate {
                root: as_listed(found, budget.spent()),
                trail: Trail::new(),
            }]);
        }
        let mut lookups = Lookups::new(enclosing, budget);
        let place = resolve(&mut lookups, enclosing.index(), None, location, Intent::Existing);
        let trail = lookups.into_trail();
        match place? {
            Place::Inside { root, path, .. } => {
                let root = as_listed(self.open(enclosing.root(root)?, &path)?, budget.spent());
                Ok(vec![Candidate { root, trail }])
            }
            // A symlink to an ancestor can also be created by a tool, so the trail is kept.
            Place::Above(node) => {
                let roots = enclosing.index().beneath(node);
                let name = if roots.len() == 1 { &entry.name } else { &None };
                let copy = |number: usize| {
                    let outer = enclosing.root(number)?;
                    let mut root = self.open(outer, Path::new(""))?;
                    root.name.clone_from(name);
                    root.aliases.clone_from(&outer.aliases);
                    Ok(Candidate { root, trail: trail.clone() })
                };
                roots.into_iter().map(copy).collect()
            }
        }
    }

    /// Opens the place that an entry names directly, if its path contains no symlink and no `..`.
    /// With `openat2`, the number of system calls does not depend on the depth of the path. Returns
    /// `None` if the resolver must walk the path.
    fn open_without_symlinks(
        &self,
        location: &OsStr,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Root>> {
        let Some((number, rest)) = self.enclosing.index().begin(location) else { return Ok(None) };
        let outer = self.enclosing.root(number)?;
        if outer.is_file() || components(rest).any(|(name, _)| name == "..") {
            return Ok(None);
        }
        if outer.protected.hides_any(rest) {
            return Err(Code::OutsideRoots.into());
        }
        let path: PathBuf =
            components(rest).map(|(name, _)| name).filter(|name| *name != ".").collect();
        budget.spend(1 + path.iter().count() / NAMES_PER_LOOKUP)?;
        let ends_as_directory =
            ends_as_directory(rest) || components(rest).last().is_some_and(|(name, _)| name == ".");
        match self.open(outer, &path) {
            Err(error) if error.reason() == Code::Changed => Ok(None),
            Ok(root) if root.is_file() && ends_as_directory => Err(Code::NotADirectory.into()),
            found => found.map(Some),
        }
    }

    /// Creates a root for the place at `path` in `outer`, which is an enclosing root or was
    /// narrowed from one.
    pub(crate) fn open(&self, outer: &Root, path: &Path) -> Result<Root> {
        let (handle, mounts) = (outer.handle()?, self.enclosing.policy().mounts);
        let place = outer.beneath_handle(path);
        let (handle, leaf) = match handle.dir(&place, mounts) {
            Ok(directory) if outer.leaf.is_none() => (directory, None),
            Err(error) if error.reason() == Code::NotADirectory => {
                let (parent, leaf) = crate::dir::split(&place).ok_or(Code::NotADirectory)?;
                match handle.look(&place, mounts)? {
                    Look::Other(metadata) if metadata.file_type() == FileType::File => {}
                    Look::Other(_) => return Err(Code::SpecialFile.into()),
                    _ => return Err(Code::Changed.into()),
                }
                (handle.dir(parent, mounts)?, Some(leaf.to_owned()))
            }
            // The file root has become a directory.
            Ok(_) => return Err(Code::RootUnavailable.into()),
            Err(error) => return Err(error),
        };
        let canonical = if path.as_os_str().is_empty() {
            outer.canonical.clone()
        } else {
            outer.canonical.join(path)
        };
        let metadata = handle.metadata()?;
        let (identity, birth) = (metadata.identity(), metadata.birth());
        let enclosing = self.enclosing.clone();
        let held = match Opened::hold(
            handle,
            held_directory(&canonical, leaf.is_some()),
            identity,
            self.account,
        ) {
            Some(opened) => Held::Open(opened, enclosing),
            None => Held::OnUse(enclosing),
        };
        let is_gone = AtomicBool::new(false);
        let aliases = system_aliases(&canonical);
        Ok(Root {
            canonical,
            aliases,
            name: None,
            listed: None,
            // Defense: A root inside a read-only directory is read-only.
            access: outer.access,
            is_always: false,
            protected: outer.protected.below(path),
            leaf,
            held,
            identity,
            birth,
            is_gone,
            outdated: Arc::default(),
            aliases_verified: Throttle::new(),
        })
    }
}

/// Returns the listed path, without `//`, `.` or a trailing slash, if it differs from the canonical
/// path. A path with `..` does not name a fixed place, so it has no alias.
pub(crate) fn alias_of(path: &Path, canonical: &Path) -> Option<PathBuf> {
    if path.components().any(|component| component == Component::ParentDir) {
        return None;
    }
    Some(path.clean()).filter(|cleaned| cleaned != canonical)
}

/// Returns a listed path in the notation that its client uses.
pub(crate) fn shown(path: &Path) -> String {
    #[cfg(unix)]
    if let Some(path) = drive::starts_with_drive(path.as_os_str()) {
        return String::from_utf8_lossy(path).replace('/', "\\");
    }
    display_path(path)
}

/// Returns the other paths to a place through the system symlinks of macOS. The symlinks are read
/// once.
#[cfg(target_vendor = "apple")]
fn system_aliases(canonical: &Path) -> Vec<PathBuf> {
    use crate::path::names::apple;
    static LINKS: std::sync::LazyLock<Vec<(PathBuf, PathBuf)>> = std::sync::LazyLock::new(|| {
        let read =
            |link: &str| Some((link.into(), Path::new("/").join(std::fs::read_link(link).ok()?)));
        apple::LINKS.into_iter().filter_map(read).collect()
    });
    apple::aliases(canonical, &LINKS)
}

#[cfg(not(target_vendor = "apple"))]
fn system_aliases(_: &Path) -> Vec<PathBuf> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// A filesystem may reuse the inode number of a removed directory, but not while that directory
    /// is held open.
    #[test]
    fn birth_times_are_compared_unless_both_directories_are_held_open() {
        let directory = tempfile::tempdir().unwrap();
        let enclosing = Roots::from_dirs([directory.path()]).unwrap();
        let effort = Effort::default();
        let root = |birth: Option<u64>, is_held: bool| {
            let location = Location::from_path(directory.path());
            let entry =
                Entry { text: String::new(), location, name: None, access: None, is_always: false };
            let mut found = EntryResolver::new(&enclosing, &Account::Operator, &effort)
                .resolve(&entry, &mut effort.entry())
                .unwrap();
            let mut root = found.remove(0).root;
            root.birth = birth.map(|second| SystemTime::UNIX_EPOCH + Duration::from_secs(second));
            if !is_held {
                root.held = Held::OnUse(enclosing.clone());
            }
            root
        };
        let rows = [
            (Some(1), false, Some(1), false, true),
            (Some(1), false, Some(2), false, false),
            (Some(1), false, Some(2), true, false),
            (Some(1), true, Some(2), true, true),
            (Some(1), false, None, false, true),
        ];
        for (one, one_held, two, two_held, same) in rows {
            let [one, two] = [root(one, one_held), root(two, two_held)];
            assert_eq!(
                one.is_same_object(&two),
                same,
                "{:?} {one_held} {:?} {two_held}",
                one.birth,
                two.birth
            );
        }
        // A root that is opened on use does not match a directory with a different birth time. On
        // Windows, the identity alone is sufficient.
        assert!(root(None, false).verify());
        assert_eq!(root(Some(1), false).verify(), cfg!(windows));
        assert!(root(Some(1), true).verify());
    }
}
