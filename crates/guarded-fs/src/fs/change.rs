//! Renames and removals.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::options::Precondition;
use super::permit::{ChangeKind, ChangePermit, ContentPermit};
use super::version::{Condition, ContentHash, change_if};
use crate::check::{CheckedEntry, Proof};
use crate::dir::{
    Beneath, DirectoryEntry, FileType, Handle, Identity, Permit, Rule, Slot, Stat, TemporaryName,
    split,
};
use crate::error::{Code, Error, Result, quoted};
use crate::limits::{LEAST_BATCH, REMOVED_ENTRIES, REMOVED_NAMES, WALK_DEPTH, WALK_ENTRIES};
use crate::path::IntoLocation;
use crate::roots::{LastName, Roots};

impl Roots {
    /// Renames a file, symlink or directory, within a root or from one root to another. A symlink
    /// is renamed or replaced itself, not its target. If a path ends in a slash, the source must be
    /// a directory. The precondition is one of the destination. To move a file only if it still has
    /// the content that was read, use [`ChangeSet::write_moved`](crate::ChangeSet::write_moved).
    ///
    /// # Errors
    ///
    /// - Those of [`Roots::check`], naming the path that was refused,
    ///   [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Protected`](crate::ErrorKind::Protected) and
    ///   [`RootItself`](crate::ErrorKind::RootItself) for both paths.
    /// - [`Protected`](crate::ErrorKind::Protected) if a directory contains a protected name or a
    ///   pattern begins with the new name; [`TooManyEntries`](crate::ErrorKind::TooManyEntries)
    ///   and [`TooDeep`](crate::ErrorKind::TooDeep) for a directory that cannot be searched.
    /// - Those of [`Precondition`]; [`CrossDevice`](crate::ErrorKind::CrossDevice); operating system
    ///   errors.
    pub fn rename(
        &self,
        from: impl IntoLocation,
        to: impl IntoLocation,
        precondition: Precondition,
    ) -> Result<()> {
        self.run_between("rename", from, to, [LastName::Unfollowed; 2], |from, to| {
            Rename::check(from, to, precondition)?.run()
        })
    }
}

pub(super) fn verify_rename(from: &Proof, to: &Proof, precondition: Precondition) -> Result<()> {
    Rename::check(from, to, precondition)?.verify()
}

struct Rename<'a> {
    from: ChangePermit<'a>,
    to: ChangePermit<'a>,
    precondition: Precondition,
}

impl<'a> Rename<'a> {
    fn check(from: &'a Proof, to: &'a Proof, precondition: Precondition) -> Result<Self> {
        let replaces = precondition != Precondition::Missing;
        // Names decide first, because the tree that is moved is searched for protected names.
        from.ensure_may_change(ChangeKind::MoveFrom)?;
        let ready = to.ensure_may_change(ChangeKind::MoveTo { replaces });
        ready.map_err(Error::of_destination)?;
        let moved_from = from.permit(ChangeKind::MoveFrom)?;
        let moved_to = to.permit(ChangeKind::MoveTo { replaces }).map_err(Error::of_destination)?;
        if from.names_directory() || to.names_directory() {
            match moved_from.look()? {
                Stat::Missing => return Err(Code::NotFound.into()),
                Stat::Other(metadata) if metadata.is_dir() => {}
                _ if from.names_directory() => return Err(Code::NotADirectory.into()),
                _ => return Err(Error::from(Code::NotADirectory).of_destination()),
            }
        }
        let patterns = [from, to].map(|path| path.roots().protected().map(std::ptr::from_ref));
        if patterns[0] != patterns[1] {
            // The proofs are of two snapshots. These names are compared at the new path.
            moved_from.search_as(to)?;
        }
        Ok(Self { from: moved_from, to: moved_to, precondition })
    }

    fn condition(&self) -> Option<Condition<'_>> {
        let Precondition::Unchanged(version) = self.precondition else { return None };
        self.to.condition(Some(version)).map(Condition::of_destination)
    }

    fn crosses_devices(&self) -> Result<bool> {
        let [from, to] = [&self.from, &self.to].map(|it| it.at().directory.identity());
        Ok(from?.device != to?.device)
    }

    /// A destination directory that is not empty is left to the rename itself.
    fn verify(&self) -> Result<()> {
        let is_dir = |look: &Stat| matches!(look, Stat::Other(metadata) if metadata.is_dir());
        let source = self.from.look()?;
        let destination = self.to.look().map_err(Error::of_destination)?;
        let fails = |kind: io::ErrorKind| Err(self.blame(io::Error::from(kind).into()));
        match (&source, &destination) {
            (Stat::Missing, _) => return Err(Code::NotFound.into()),
            _ if self.crosses_devices()? => return fails(io::ErrorKind::CrossesDevices),
            _ if is_dir(&source) && self.is_into_itself() => {
                return fails(io::ErrorKind::InvalidInput);
            }
            (_, Stat::Missing) => {}
            _ if self.precondition == Precondition::Missing => {
                return fails(io::ErrorKind::AlreadyExists);
            }
            _ => match (is_dir(&source), is_dir(&destination)) {
                (true, false) => return fails(io::ErrorKind::NotADirectory),
                (false, true) => return fails(io::ErrorKind::IsADirectory),
                _ => {}
            },
        }
        self.from.ask()?;
        self.to.ask().map_err(Error::of_destination)?;
        self.condition().map_or(Ok(()), |condition| condition.verify())
    }

    fn run(&self) -> Result<()> {
        // This rename would fail. It must not hold a lock, because look-ups on one of the devices can
        // hang.
        let condition = self.condition();
        if condition.is_some() && self.crosses_devices()? {
            return Err(io::Error::from(io::ErrorKind::CrossesDevices).into());
        }
        change_if(condition, || {
            let replace = self.precondition != Precondition::Missing;
            self.from.slot().rename(&self.to.slot(), replace).map_err(|error| self.blame(error))
        })
    }

    fn is_into_itself(&self) -> bool {
        self.to.place().starts_with(self.from.place())
    }

    /// Names the destination in an error that concerns it (rename(2)).
    fn blame(&self, error: Error) -> Error {
        match error.reason() {
            Code::AlreadyExists
            | Code::DirectoryNotEmpty
            | Code::IsADirectory
            | Code::NotADirectory => error.of_destination(),
            Code::Io if error.is_invalid_input() && self.is_into_itself() => {
                error.with_text("a directory cannot be moved into itself")
            }
            _ => error,
        }
    }
}

impl CheckedEntry {
    /// Like [`Roots::rename`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn rename(&self, to: &Self, precondition: Precondition) -> Result<()> {
        rename(&self.0, &to.0, precondition)
    }
}

impl Roots {
    /// Removes a file, a special file, or a symlink, whose target is not affected.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check); [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// [`Protected`](crate::ErrorKind::Protected), [`RootItself`](crate::ErrorKind::RootItself),
    /// [`IsADirectory`](crate::ErrorKind::IsADirectory), [`NotFound`](crate::ErrorKind::NotFound).
    pub fn remove_file(&self, request: impl IntoLocation) -> Result<()> {
        self.operate("remove", request, LastName::Unfollowed, |path| remove_file(path, None))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check); [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// [`Protected`](crate::ErrorKind::Protected), [`RootItself`](crate::ErrorKind::RootItself),
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory) (also for a symlink),
    /// [`DirectoryNotEmpty`](crate::ErrorKind::DirectoryNotEmpty),
    /// [`NotFound`](crate::ErrorKind::NotFound).
    pub fn remove_dir(&self, request: impl IntoLocation) -> Result<()> {
        self.operate("remove", request, LastName::Unfollowed, Proof::remove_dir)
    }

    /// Removes a directory and everything in it, deepest entries first. Symlinks in it are removed
    /// but not followed, and no mounted filesystem is entered. If names are protected, the
    /// directory is searched first, and nothing is removed if it contains such a name. The removal
    /// ends at one created meanwhile. This takes under 20 MB of memory, or 40 MB with the
    /// search.
    ///
    /// Entries removed before an error stay removed, so another call continues after
    /// `too_many_entries`. If another process adds entries meanwhile, their directory remains, and
    /// the error is [`DirectoryNotEmpty`](crate::ErrorKind::DirectoryNotEmpty). This also happens
    /// on systems that keep the name of an open file until it is closed (DeleteFileW before Windows
    /// 10, some network filesystems). If another process moves the directory, it remains, empty.
    ///
    /// # Errors
    ///
    /// - Those of [`remove_dir`](Self::remove_dir);
    ///   [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`mount_crossing`).
    /// - [`TooDeep`](crate::ErrorKind::TooDeep) for more than [`WALK_DEPTH`] levels.
    /// - [`TooManyEntries`](crate::ErrorKind::TooManyEntries) after ten million entries, or for
    ///   more than [`WALK_ENTRIES`] to search.
    /// - [`TooLong`](crate::ErrorKind::TooLong) if a path below the directory is longer than the
    ///   system allows (4,095 bytes on Linux). Remove a directory inside it first.
    pub fn remove_dir_all(&self, request: impl IntoLocation) -> Result<()> {
        self.operate("remove", request, LastName::Unfollowed, Proof::remove_dir_all)
    }
}

impl CheckedEntry {
    /// Like [`Roots::remove_file`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn remove_file(&self) -> Result<()> {
        self.0.run("remove", |path| remove_file(path, None))
    }

    /// Like [`Roots::remove_dir`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn remove_dir(&self) -> Result<()> {
        self.0.run("remove", Proof::remove_dir)
    }

    /// Like [`Roots::remove_dir_all`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn remove_dir_all(&self) -> Result<()> {
        self.0.run("remove", Proof::remove_dir_all)
    }
}

pub(super) fn rename(from: &Proof, to: &Proof, precondition: Precondition) -> Result<()> {
    from.run_to("rename", to, |from, to| Rename::check(from, to, precondition)?.run())
}

pub(super) fn remove_file(path: &Proof, if_unchanged: Option<ContentHash>) -> Result<()> {
    let permit = file_to_remove(path)?;
    change_if(permit.condition(if_unchanged), || permit.slot().remove_file())
}

pub(super) fn verify_removal(path: &Proof, if_unchanged: Option<ContentHash>) -> Result<()> {
    let permit = file_to_remove(path)?;
    match permit.look()? {
        Stat::Missing if if_unchanged.is_none() => Err(Code::NotFound.into()),
        Stat::Other(metadata) if metadata.is_dir() => Err(Code::IsADirectory.into()),
        _ => permit.condition(if_unchanged).map_or(Ok(()), |condition| condition.verify()),
    }
}

fn file_to_remove(path: &Proof) -> Result<ChangePermit<'_>> {
    let permit = path.permit(ChangeKind::RemoveFile)?;
    if path.names_directory() {
        // The path ended in a slash when it was checked, so no file is meant.
        return Err(match permit.look()? {
            Stat::Missing => Code::NotFound.into(),
            Stat::Other(metadata) if metadata.is_dir() => Code::IsADirectory.into(),
            _ => Code::NotADirectory.into(),
        });
    }
    Ok(permit)
}

// These are methods, so that for `CheckedPath::remove_dir_all` rustc does not propose
// `create_dir_all`, and the reverse for a `CheckedEntry`.
impl Proof {
    fn remove_dir(&self) -> Result<()> {
        self.permit(ChangeKind::RemoveDir)?.slot().remove_dir()
    }

    fn remove_dir_all(&self) -> Result<()> {
        let permit = self.permit(ChangeKind::RemoveTree)?;
        self.remove_content(permit.open_tree()?)?;
        // The tree is closed by now, because Windows does not remove an open directory.
        permit.slot().remove_dir()
    }

    fn remove_content(&self, (base, content): (Handle, ContentPermit<'_>)) -> Result<()> {
        let is_protected = |below: &Path, name: &OsStr| self.contains_protected(below, name);
        TreeRemoval { base, is_protected: &is_protected, permit: &content }
            .remove_content(REMOVED_ENTRIES)
    }

    pub(super) fn verify_new_dir(&self) -> Result<Beneath> {
        let permit = self.permit(ChangeKind::CreateDir)?;
        match permit.look()? {
            Stat::Missing => permit.ask().map(|()| permit.into_at()),
            Stat::Link(..) | Stat::Other(_) => Err(Code::AlreadyExists.into()),
        }
    }

    /// Returns the directory that is there.
    pub(super) fn verify_tree_removal(&self) -> Result<(Beneath, Identity)> {
        let permit = self.permit(ChangeKind::RemoveTree)?;
        let tree = permit.open_tree()?.0.identity()?;
        Ok((permit.into_at(), tree))
    }

    /// Renames the directory aside in one step, so that only what removes it sees it until it is
    /// gone. Fails with `changed` if it is another one.
    pub(super) fn rename_aside(&self, tree: Identity) -> Result<TreeAside> {
        let permit = self.permit(ChangeKind::RemoveTree)?;
        // A directory that took the name since the change was added is not removed.
        if permit.open_tree()?.0.identity()? != tree {
            return Err(Code::Changed.into());
        }
        let name = TemporaryName::of_renamed(&permit.slot(), permit.at().directory.clone())?;
        let aside = TreeAside { name, tree };
        // Another process can have exchanged it immediately before.
        match aside.open() {
            Ok(_) => Ok(aside),
            Err(_) => Err(aside.put_back(&permit, Code::Changed.into())),
        }
    }
}

/// A directory that was renamed to be removed.
pub(super) struct TreeAside {
    name: TemporaryName,
    tree: Identity,
}

impl TreeAside {
    /// Opens the directory. Fails with `changed` if another one has its temporary name.
    fn open(&self) -> Result<Handle> {
        let directory = self.name.dir()?;
        if directory.identity()? == self.tree { Ok(directory) } else { Err(Code::Changed.into()) }
    }

    /// Removes the directory, which was at this place. What cannot be removed is put back.
    pub(super) fn remove(&self, place: &Proof) -> Result<()> {
        let removed = self.open().and_then(|tree| {
            place.remove_content((tree, ContentPermit::of(place)))?;
            Ok(self.name.remove_dir()?)
        });
        removed.map_err(|error| match place.permit(ChangeKind::RemoveTree) {
            Ok(permit) => self.put_back(&permit, error),
            Err(_) => self.left(error),
        })
    }

    /// Returns the error, and where the directory is now.
    fn put_back(&self, permit: &ChangePermit<'_>, error: Error) -> Error {
        match self.name.rename(&permit.slot(), false) {
            Ok(()) => error.with_outcome("what was not removed is still there".to_owned()),
            Err(_) => self.left(error),
        }
    }

    fn left(&self, error: Error) -> Error {
        let name = quoted(self.name.name());
        error.into_custom().with_outcome(format!("what was not removed is in {name}, beside it"))
    }
}

struct TreeRemoval<'a> {
    base: Handle,
    /// Whether an entry of a directory, at a path below the base, is protected.
    is_protected: &'a dyn Fn(&Path, &OsStr) -> bool,
    permit: &'a dyn Permit,
}

struct Batch {
    directories: Vec<OsString>,
    /// Whether the listing ended with this batch.
    is_last: bool,
}

impl TreeRemoval<'_> {
    /// Removes everything in the directory, deepest entries first, one batch at a time. Each
    /// directory is opened from the base along a path on which no symlink is followed and no mount
    /// is crossed, so at most two are open, however deep the tree is.
    ///
    /// A directory that was listed to its end is not listed again, so what is added later remains.
    fn remove_content(&self, mut budget: usize) -> Result<()> {
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
                    let removed = self.base.dir(parent, Rule::Refuse).and_then(|parent| {
                        Slot::of_content(&parent, name, self.permit).remove_dir()
                    });
                    ignore_missing(removed)?;
                }
                path.pop();
                levels.pop();
            } else {
                let held: usize = levels.iter().map(|it| it.directories.len()).sum();
                let most = (REMOVED_NAMES.saturating_sub(held) / 2).max(LEAST_BATCH);
                let batch = self.remove_batch(&path, most, &mut budget)?;
                levels.pop();
                levels.push(batch);
            }
        }
        Ok(())
    }

    /// Reads at most `most` entries, and removes those that are not directories.
    fn remove_batch(&self, path: &Path, most: usize, budget: &mut usize) -> Result<Batch> {
        let (directory, mut entries) = match self.base.list(path, Rule::Refuse) {
            // Another process has removed or replaced it.
            Err(error) if error.reason().is_replaced() && !path.as_os_str().is_empty() => {
                return Ok(Batch { directories: Vec::new(), is_last: true });
            }
            listed => listed?,
        };
        let (mut files, mut directories, mut within) = (Vec::new(), Vec::new(), Ok(()));
        let is_last = loop {
            if files.len() + directories.len() >= most {
                break false;
            }
            self.permit.ask()?;
            let Some(entry) = entries.next().transpose()? else { break true };
            let Some(left) = budget.checked_sub(1) else {
                within = Err(Code::TooManyEntries.into());
                break false;
            };
            *budget = left;
            if (self.is_protected)(path, &entry.name) {
                return Err(contains_protected());
            }
            let kind =
                if is_directory(&directory, &entry)? { &mut directories } else { &mut files };
            kind.push(entry.name);
        };
        // Files are removed after the listing, because removing them during it could make the
        // listing skip entries (readdir(3)).
        for name in files {
            let slot = Slot::of_content(&directory, &name, self.permit);
            ignore_missing(slot.remove_file())?;
        }
        within.map(|()| Batch { directories, is_last })
    }
}

fn is_directory(directory: &Handle, entry: &DirectoryEntry) -> Result<bool> {
    match directory.type_of(&entry.name, entry.file_type) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        file_type => Ok(file_type? == FileType::Directory),
    }
}

impl Proof {
    fn contains_protected(&self, path: &Path, name: &OsStr) -> bool {
        let place = [self.root().path(), self.relative(), path, Path::new(name)];
        // It contains no root, so the patterns that count are the same everywhere in it.
        let protected = self.roots().protected();
        protected.is_some_and(|it| it.of_last_names(&place, 1, |_| true).is_some())
    }

    /// Refuses this open directory if it contains a protected name at any depth, or a mount that
    /// the policy refuses. Only names are read.
    pub(super) fn search(&self, base: &Handle) -> Result<()> {
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

    /// Searches the directory at `path`, and returns the names of those in it. `left` is the number
    /// of entries that may still be searched.
    fn search_one(&self, base: &Handle, path: &Path, left: &mut usize) -> Result<Vec<OsString>> {
        let (directory, entries) = match base.list(path, self.roots().policy().mounts) {
            // Another process removed or replaced it.
            Err(error) if error.reason().is_replaced() => return Ok(Vec::new()),
            listed => listed?,
        };
        let mut directories = Vec::new();
        for entry in entries {
            self.roots().ensure_usable()?;
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

/// Another process may have removed the entry.
fn ignore_missing(removed: Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.reason() == Code::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::Always;

    fn remove_content(
        directory: &Path,
        is_protected: impl Fn(&Path, &OsStr) -> bool,
        budget: usize,
    ) -> Result<()> {
        let base = Handle::ambient(directory).unwrap();
        TreeRemoval { base, is_protected: &is_protected, permit: &Always }.remove_content(budget)
    }

    fn nothing(_: &Path, _: &OsStr) -> bool {
        false
    }

    #[test]
    fn a_removal_is_bounded_and_the_next_call_continues() {
        let directory = tempfile::tempdir().unwrap();
        let left = || std::fs::read_dir(directory.path()).unwrap().count();
        for number in 0..25 {
            std::fs::write(directory.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(
            remove_content(directory.path(), nothing, 10).unwrap_err().reason(),
            Code::TooManyEntries
        );
        assert_eq!(left(), 15);
        assert_eq!(
            remove_content(directory.path(), nothing, 10).unwrap_err().reason(),
            Code::TooManyEntries
        );
        remove_content(directory.path(), nothing, 5).unwrap();
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
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for below in 0..12 {
                        let _ = std::fs::remove_dir_all(top.join(below.to_string()));
                    }
                });
                remove_content(&top, nothing, 1000).unwrap();
            });
        }
    }

    #[test]
    fn removal_ends_at_a_protected_name() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("a/.git")).unwrap();
        std::fs::write(directory.path().join("a/.git/config"), "").unwrap();
        let is_git = |_: &Path, name: &OsStr| name == ".git";
        let refused = remove_content(directory.path(), is_git, 10).unwrap_err();
        assert_eq!(refused.reason(), Code::Protected);
        assert!(directory.path().join("a/.git/config").exists());
        remove_content(directory.path(), nothing, 10).unwrap();
    }
}
