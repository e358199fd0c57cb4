//! Rename and removing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::list::is_replaced;
use super::options::Overwrite;
use super::version::{Condition, ContentHash, change_if};
use crate::check::{CheckedEntry, Proof};
use crate::dir::{DirectoryEntry, FileType, Handle, Rule, Stat, split};
use crate::error::{Code, Error, Result};
use crate::limits::{LEAST_BATCH, REMOVED_ENTRIES, REMOVED_NAMES, WALK_DEPTH, WALK_ENTRIES};
use crate::path::IntoLocation;
use crate::roots::{LastName, Presence, Roots};

impl Roots {
    /// Renames a file, symlink or directory, within a root or from one root to another. If a name
    /// is a symlink, the symlink itself is renamed or replaced, not its target. If a path ends in a
    /// slash, the source must be a directory.
    ///
    /// # Errors
    ///
    /// The errors of [`Roots::check`] for both paths, naming the path that was refused;
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Protected`](crate::ErrorKind::Protected) and
    /// [`RootItself`](crate::ErrorKind::RootItself) for both paths;
    /// [`Protected`](crate::ErrorKind::Protected) if a directory contains a protected name, or if
    /// the new name is the beginning of a pattern;
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if a directory has too many entries to
    /// search for such a name;
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) unless `overwrite` allows it;
    /// [`CrossDevice`](crate::ErrorKind::CrossDevice); operating system errors.
    ///
    /// ```
    /// # use mcp_roots_guard::{ErrorKind, Overwrite, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// let roots = Roots::from_dirs([work.path()])?;
    /// roots.write("draft.txt", "new")?;
    /// roots.write("final.txt", "old")?;
    /// let kept = roots.rename("draft.txt", "final.txt", Overwrite::Never);
    /// assert_eq!(kept.unwrap_err().kind(), ErrorKind::AlreadyExists);
    /// roots.rename("draft.txt", "final.txt", Overwrite::Always)?;
    /// assert_eq!(roots.read("final.txt", 9)?, b"new");
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn rename(
        &self,
        from: impl IntoLocation,
        to: impl IntoLocation,
        overwrite: Overwrite,
    ) -> Result<()> {
        self.run_between("rename", from, to, [LastName::Unfollowed; 2], |from, to| {
            Rename::check(from, to, overwrite)?.run()
        })
    }
}

/// Fails if the source or the destination is not what the rename expects.
pub(super) fn verify_rename(from: &Proof, to: &Proof, overwrite: Overwrite) -> Result<()> {
    Rename::check(from, to, overwrite)?.verify()
}

/// A rename that was checked, with the directories of both names open.
struct Rename<'a> {
    from: &'a Proof,
    to: &'a Proof,
    from_directory: Handle,
    from_name: OsString,
    to_directory: Handle,
    to_name: OsString,
    overwrite: Overwrite,
}

impl<'a> Rename<'a> {
    fn check(from: &'a Proof, to: &'a Proof, overwrite: Overwrite) -> Result<Self> {
        from.ensure_removable()?;
        // Defense: Nothing is moved into a directory that is read-only.
        to.ensure_removable().map_err(Error::of_destination)?;
        to.ensure_may_appear().map_err(Error::of_destination)?;
        let (from_directory, from_name) = from.parent_dir()?;
        let (to_directory, to_name) = to.parent_dir().map_err(Error::of_destination)?;
        if from.names_directory() || to.names_directory() {
            let is_dir = match from_directory.look_in(&from_name, from.roots().policy().mounts)? {
                Stat::Missing => return Err(Code::NotFound.into()),
                Stat::Other(metadata) => metadata.is_dir(),
                Stat::Link(..) => false,
            };
            if !is_dir {
                let error = Error::from(Code::NotADirectory);
                return Err(if from.names_directory() { error } else { error.of_destination() });
            }
        }
        from.ensure_not_root_alias(&from_directory, &from_name)?;
        from.ensure_contains_nothing_protected(&from_directory, &from_name)?;
        let patterns = [from, to].map(|path| path.roots().protected().map(std::ptr::from_ref));
        if patterns[0] != patterns[1] {
            // The proofs are of two snapshots. These names are compared at the new path.
            to.ensure_contains_nothing_protected(&from_directory, &from_name)?;
        }
        if overwrite != Overwrite::Never {
            to.ensure_not_root_alias(&to_directory, &to_name).map_err(Error::of_destination)?;
        }
        Ok(Self { from, to, from_directory, from_name, to_directory, to_name, overwrite })
    }

    fn condition(&self) -> Option<Condition<'_>> {
        let Overwrite::IfUnchanged(version) = self.overwrite else { return None };
        let place = (&self.to_directory, &*self.to_name);
        Condition::new(self.to, place, Some(version)).map(Condition::of_destination)
    }

    /// Fails if the source or the destination is not what the rename expects. A destination
    /// directory that is not empty is left to the rename itself.
    fn verify(&self) -> Result<()> {
        let Self { from, to, from_directory, from_name, to_directory, to_name, .. } = self;
        let mounts = from.roots().policy().mounts;
        let is_dir = |look: &Stat| matches!(look, Stat::Other(metadata) if metadata.is_dir());
        let source = from_directory.look_in(from_name, mounts)?;
        let destination = to_directory.look_in(to_name, mounts).map_err(Error::of_destination)?;
        let fails = |kind: io::ErrorKind| Err(from.blame(to, kind.into()));
        match (&source, &destination) {
            (Stat::Missing, _) => return Err(Code::NotFound.into()),
            _ if from_directory.identity()?.device != to_directory.identity()?.device => {
                return fails(io::ErrorKind::CrossesDevices);
            }
            _ if is_dir(&source) && to.canonical().starts_with(from.canonical()) => {
                return fails(io::ErrorKind::InvalidInput);
            }
            (_, Stat::Missing) => {}
            _ if self.overwrite == Overwrite::Never => return fails(io::ErrorKind::AlreadyExists),
            _ => match (is_dir(&source), is_dir(&destination)) {
                (true, false) => return fails(io::ErrorKind::NotADirectory),
                (false, true) => return fails(io::ErrorKind::IsADirectory),
                _ => {}
            },
        }
        from.ensure_not_moved(from_directory)?;
        to.ensure_not_moved(to_directory).map_err(Error::of_destination)?;
        self.condition().map_or(Ok(()), |condition| condition.verify())
    }

    fn run(&self) -> Result<()> {
        let Self { from, to, from_directory, from_name, to_directory, to_name, .. } = self;
        // This rename would fail. It must not hold a lock, because look-ups on one of the devices can
        // hang.
        let condition = self.condition();
        if condition.is_some()
            && from_directory.identity()?.device != to_directory.identity()?.device
        {
            return Err(io::Error::from(io::ErrorKind::CrossesDevices).into());
        }
        change_if(condition, || {
            from.ensure_not_moved(from_directory)?;
            to.ensure_not_moved(to_directory).map_err(Error::of_destination)?;
            let replace = self.overwrite != Overwrite::Never;
            from_directory
                .rename(from_name, to_directory, to_name, replace)
                .map_err(|error| from.blame(to, error))
        })
    }
}

impl CheckedEntry {
    /// Renames to another checked entry.
    ///
    /// # Errors
    ///
    /// Same as [`Roots::rename`].
    pub fn rename(&self, to: &Self, overwrite: Overwrite) -> Result<()> {
        rename(&self.0, &to.0, overwrite)
    }
}

pub(super) fn rename(from: &Proof, to: &Proof, overwrite: Overwrite) -> Result<()> {
    from.run_to("rename", to, |from, to| Rename::check(from, to, overwrite)?.run())
}

impl Proof {
    /// Decides whether an error of a rename concerns the source or the destination (rename(2)).
    /// Each is a single name in an open directory.
    fn blame(&self, to: &Proof, error: io::Error) -> Error {
        let is_invalid = error.kind() == io::ErrorKind::InvalidInput;
        let error = Error::from(error);
        match error.reason() {
            Code::AlreadyExists
            | Code::DirectoryNotEmpty
            | Code::IsADirectory
            | Code::NotADirectory => error.of_destination(),
            Code::Io if is_invalid && to.canonical().starts_with(self.canonical()) => {
                error.with_text("a directory cannot be moved into itself")
            }
            _ => error,
        }
    }

    /// Refuses to rename or remove a directory that contains a protected name.
    fn ensure_contains_nothing_protected(&self, directory: &Handle, name: &OsStr) -> Result<()> {
        if self.roots().protected().is_none() {
            return Ok(());
        }
        let mounts = self.roots().policy().mounts;
        match directory.look_in(name, mounts)? {
            Stat::Other(metadata) if metadata.is_dir() => {
                self.search(&directory.dir(Path::new(name), mounts)?)
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn remove_file(path: &Proof, if_unchanged: Option<ContentHash>) -> Result<()> {
    let (directory, name) = file_to_remove(path)?;
    change_if(Condition::new(path, (&directory, &name), if_unchanged), || {
        path.ensure_not_moved(&directory)?;
        Ok(directory.remove_file(&name)?)
    })
}

/// Fails if the file is not what the removal expects.
pub(super) fn verify_removal(path: &Proof, if_unchanged: Option<ContentHash>) -> Result<()> {
    let (directory, name) = file_to_remove(path)?;
    match directory.look_in(&name, path.roots().policy().mounts)? {
        Stat::Missing if if_unchanged.is_none() => Err(Code::NotFound.into()),
        Stat::Other(metadata) if metadata.is_dir() => Err(Code::IsADirectory.into()),
        _ => Condition::new(path, (&directory, &name), if_unchanged)
            .map_or(Ok(()), |condition| condition.verify()),
    }
}

fn file_to_remove(path: &Proof) -> Result<(Handle, OsString)> {
    path.ensure_removable()?;
    let (directory, name) = path.parent_dir()?;
    path.ensure_not_file_root_alias(&directory, &name)?;
    if path.names_directory() {
        // The path ended in a slash when it was checked, so no file is meant.
        return Err(match directory.look_in(&name, path.roots().policy().mounts)? {
            Stat::Missing => Code::NotFound.into(),
            Stat::Other(metadata) if metadata.is_dir() => Code::IsADirectory.into(),
            _ => Code::NotADirectory.into(),
        });
    }
    Ok((directory, name))
}

// These are methods, so that for `CheckedPath::remove_dir_all` rustc does not propose
// `create_dir_all`, and the reverse for a `CheckedEntry`.
impl Proof {
    pub(super) fn remove_dir(&self) -> Result<()> {
        self.ensure_removable()?;
        let (directory, name) = self.parent_dir()?;
        self.ensure_not_root_alias(&directory, &name)?;
        self.ensure_not_moved(&directory)?;
        Ok(directory.remove_dir(&name)?)
    }

    pub(super) fn remove_dir_all(&self) -> Result<()> {
        self.ensure_removable()?;
        let (directory, name) = self.parent_dir()?;
        self.ensure_not_root_alias(&directory, &name)?;
        // A filesystem can also be mounted on the directory itself.
        let base = directory.dir(Path::new(&name), Rule::Refuse).map_err(|error| {
            if self.found() == Presence::Link { Code::NotADirectory.into() } else { error }
        })?;
        self.ensure_contains_nothing_protected(&directory, &name)?;
        self.ensure_not_moved(&directory)?;
        let is_protected = |below: &Path, name: &OsStr| self.contains_protected(below, name);
        remove_content(&base, &is_protected, REMOVED_ENTRIES)?;
        // Windows does not remove an open directory.
        drop(base);
        Ok(directory.remove_dir(&name)?)
    }
}

/// Removes everything in a directory, deepest entries first, one batch at a time. Each directory is
/// opened from `base` along a path on which no symlink is followed and no mount is crossed. At most
/// two directories are therefore open, however deep the tree is.
///
/// The removal ends at a protected name, which another process has created since the directory was
/// searched. A directory that was listed to its end is not listed again. If it still contains
/// something, another process has added it, or the system keeps the name of a file that is open
/// (DeleteFileW), and the error is that it is not empty.
fn remove_content(base: &Handle, is_protected: &IsProtected<'_>, mut budget: usize) -> Result<()> {
    let mut path = PathBuf::new();
    // For each depth, the last batch.
    let mut levels: Vec<Batch> = vec![Batch { directories: Vec::new(), is_last: false }];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.directories.pop() {
            if levels.len() >= WALK_DEPTH {
                return Err(Code::TooDeep.into());
            }
            path.push(name);
            levels.push(Batch { directories: Vec::new(), is_last: false });
        } else if level.is_last {
            if let Some((parent, name)) = split(&path) {
                let removed =
                    base.dir(parent, Rule::Refuse).and_then(|it| Ok(it.remove_dir(name)?));
                ignore_missing(removed)?;
            }
            path.pop();
            levels.pop();
        } else {
            let held: usize = levels.iter().map(|it| it.directories.len()).sum();
            let most = (REMOVED_NAMES.saturating_sub(held) / 2).max(LEAST_BATCH);
            let batch = remove_batch(base, &path, is_protected, most, &mut budget)?;
            levels.pop();
            levels.push(batch);
        }
    }
    Ok(())
}

/// Whether an entry of the directory at a path below the one to be removed is protected.
type IsProtected<'a> = dyn Fn(&Path, &OsStr) -> bool + 'a;

/// What remains of a batch of entries after its files were removed.
struct Batch {
    directories: Vec<OsString>,
    /// Whether the listing ended with this batch.
    is_last: bool,
}

/// Reads at most `most` entries of the directory at `path`, and removes those that are not
/// directories.
fn remove_batch(
    base: &Handle,
    path: &Path,
    is_protected: &IsProtected<'_>,
    most: usize,
    budget: &mut usize,
) -> Result<Batch> {
    let (directory, mut entries) = match base.list(path, Rule::Refuse) {
        // Another process has removed or replaced it.
        Err(error) if is_replaced(error.reason()) && !path.as_os_str().is_empty() => {
            return Ok(Batch { directories: Vec::new(), is_last: true });
        }
        listed => listed?,
    };
    let (mut files, mut directories, mut within) = (Vec::new(), Vec::new(), Ok(()));
    let is_last = loop {
        if files.len() + directories.len() >= most {
            break false;
        }
        let Some(entry) = entries.next().transpose()? else { break true };
        let Some(left) = budget.checked_sub(1) else {
            within = Err(Code::TooManyEntries.into());
            break false;
        };
        *budget = left;
        if is_protected(path, &entry.name) {
            return Err(contains_protected());
        }
        let kind = if is_directory(&directory, &entry)? { &mut directories } else { &mut files };
        kind.push(entry.name);
    };
    // Files are removed after the listing, because removing them during it could make the listing
    // skip entries (readdir(3)).
    for name in files {
        ignore_missing(directory.remove_file(&name).map_err(Error::from))?;
    }
    within.map(|()| Batch { directories, is_last })
}

/// Whether an entry of a directory is itself a directory. False if the entry is gone.
fn is_directory(directory: &Handle, entry: &DirectoryEntry) -> Result<bool> {
    match directory.type_of(&entry.name, entry.file_type) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        file_type => Ok(file_type? == FileType::Directory),
    }
}

impl Proof {
    /// Whether the entry `name` of the directory at `path` below this place is protected because of
    /// its name.
    fn contains_protected(&self, path: &Path, name: &OsStr) -> bool {
        let place = [self.root().path(), self.relative(), path, Path::new(name)];
        // It contains no root, so the patterns that count are the same everywhere in it.
        let protected = self.roots().protected();
        protected.is_some_and(|it| it.of_last_names(&place, 1, |_| true).is_some())
    }

    /// Refuses this directory, which is open, if it contains a protected name at any depth, or a
    /// mount that the policy refuses. Only names are read.
    fn search(&self, base: &Handle) -> Result<()> {
        let mut left = WALK_ENTRIES;
        let mut path = PathBuf::new();
        // For each depth, the directories that have not been searched yet.
        let mut levels = vec![self.search_one(base, &path, &mut left)?];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.pop() else {
                levels.pop();
                path.pop();
                continue;
            };
            if levels.len() >= WALK_DEPTH {
                return Err(Code::TooDeep.into());
            }
            path.push(name);
            levels.push(self.search_one(base, &path, &mut left)?);
        }
        Ok(())
    }

    /// Searches the directory at `path`, and returns the names of the directories in it. `left` is
    /// the number of entries that may still be searched.
    fn search_one(&self, base: &Handle, path: &Path, left: &mut usize) -> Result<Vec<OsString>> {
        let (directory, entries) = match base.list(path, self.roots().policy().mounts) {
            // Another process removed or replaced it.
            Err(error) if is_replaced(error.reason()) => return Ok(Vec::new()),
            listed => listed?,
        };
        let mut directories = Vec::new();
        self.roots().ensure_not_ended()?;
        for entry in entries {
            let entry = entry?;
            if self.contains_protected(path, &entry.name) {
                return Err(contains_protected());
            }
            *left = left.checked_sub(1).ok_or_else(|| {
                let text = "the directory has more than {} entries to search for protected names";
                Error::over(Code::TooManyEntries, text, WALK_ENTRIES)
            })?;
            if is_directory(&directory, &entry)? {
                directories.push(entry.name);
            }
        }
        Ok(directories)
    }
}

fn contains_protected() -> Error {
    Error::from(Code::Protected).with_text("protected: the directory contains a protected name")
}

/// Ignores a missing entry, because another process may have removed it.
fn ignore_missing(removed: Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.reason() == Code::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &Path, _: &OsStr) -> bool {
        false
    }

    #[test]
    fn a_removal_is_bounded_and_the_next_call_continues() {
        let directory = tempfile::tempdir().unwrap();
        let handle = Handle::ambient(directory.path()).unwrap();
        let left = || std::fs::read_dir(directory.path()).unwrap().count();
        for number in 0..25 {
            std::fs::write(directory.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(
            remove_content(&handle, &nothing, 10).unwrap_err().reason(),
            Code::TooManyEntries
        );
        assert_eq!(left(), 15);
        assert_eq!(
            remove_content(&handle, &nothing, 10).unwrap_err().reason(),
            Code::TooManyEntries
        );
        remove_content(&handle, &nothing, 5).unwrap();
        assert_eq!(left(), 0);
    }

    /// Windows refuses to remove what another process has open.
    #[cfg(unix)]
    #[test]
    fn removal_continues_if_another_process_removes_a_part() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..40 {
            let top = directory.path().join(round.to_string());
            for below in 0..12 {
                std::fs::create_dir_all(top.join(format!("{below}/a/b/c"))).unwrap();
            }
            let handle = Handle::ambient(&top).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for below in 0..12 {
                        let _ = std::fs::remove_dir_all(top.join(below.to_string()));
                    }
                });
                remove_content(&handle, &nothing, 1000).unwrap();
            });
        }
    }

    /// Another process creates a protected name after the directory was searched.
    #[test]
    fn removal_ends_at_a_protected_name() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("a/.git")).unwrap();
        std::fs::write(directory.path().join("a/.git/config"), "").unwrap();
        let handle = Handle::ambient(directory.path()).unwrap();
        let is_git = |_: &Path, name: &OsStr| name == ".git";
        let refused = remove_content(&handle, &is_git, 10).unwrap_err();
        assert_eq!(refused.reason(), Code::Protected);
        assert!(directory.path().join("a/.git/config").exists());
        remove_content(&handle, &nothing, 10).unwrap();
    }
}
