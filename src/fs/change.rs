//! Renaming and removing.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::beneath::{Handle, split};
use crate::check::CheckedPath;
use crate::error::{Error, ErrorKind, Result};
use crate::location::Location;
use crate::policy::Rule;
use crate::resolve::{Found, Intent};
use crate::roots::Roots;

use super::list::WALK_DEPTH;

/// What a rename does with a destination that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replace {
    /// Refuses it, in the same step (`RENAME_NOREPLACE`, renameat2(2)). Where the file system can not do that, it looks first, and
    /// another process may come between.
    Never,
    /// Takes its place, as rename(2) does: a file of a file or link, a directory of an empty directory.
    Existing,
}

impl Roots {
    /// Renames a file, link or directory, in a root or from one root to another. A link is renamed itself, at either end.
    ///
    /// # Errors
    ///
    /// Those of [`Roots::check`] for both ends, naming the end that was refused; [`ReadOnly`](ErrorKind::ReadOnly) and
    /// [`RootItself`](ErrorKind::RootItself) for both ends; [`AlreadyExists`](ErrorKind::AlreadyExists) unless told to replace;
    /// [`CrossDevice`](ErrorKind::CrossDevice); what the operating system says.
    ///
    /// ```
    /// # use mcp_roots_guard::{ErrorKind, Replace, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// let roots = Roots::from_dirs([work.path()])?;
    /// roots.write("draft.txt", "new")?;
    /// roots.write("final.txt", "old")?;
    /// let kept = roots.rename("draft.txt", "final.txt", Replace::Never);
    /// assert_eq!(kept.unwrap_err().kind(), ErrorKind::AlreadyExists);
    /// roots.rename("draft.txt", "final.txt", Replace::Existing)?;
    /// assert_eq!(roots.read("final.txt", 9)?, b"new");
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn rename<F, T>(&self, from: F, to: T, replace: Replace) -> Result<()>
    where
        F: TryInto<Location>,
        T: TryInto<Location>,
        Error: From<F::Error> + From<T::Error>,
    {
        let (from, to) = (self.location(from)?, self.location(to)?);
        self.answer("rename", &from, || {
            let from = self.decide(&from, Intent::Entry)?;
            let to = self.answer("rename to", &to, || self.decide(&to, Intent::Entry))?;
            from.rename_now(&to, replace)
        })
    }
}

impl CheckedPath {
    /// Renames what was checked for [`Intent::Entry`] to a name that was checked so, too.
    ///
    /// # Errors
    ///
    /// As [`Roots::rename`].
    pub fn rename(&self, to: &CheckedPath, replace: Replace) -> Result<()> {
        self.perform("rename", || self.rename_now(to, replace))
    }

    fn rename_now(&self, to: &CheckedPath, replace: Replace) -> Result<()> {
        self.may_take_away()?;
        to.may_take_away().map_err(|error| error.at("rename to", to.request().as_os_str()))?;
        let (from_directory, from_name) = self.operate(|| self.parent())?;
        let (to_directory, to_name) =
            to.operate(|| to.parent()).map_err(|error| error.at("rename to", to.request().as_os_str()))?;
        let replace = replace == Replace::Existing;
        let renamed = from_directory.rename(&from_name, &to_directory, &to_name, replace);
        self.operate(|| to.operate(|| Ok(renamed?)))
    }

    pub(super) fn remove_file_now(&self) -> Result<()> {
        self.may_take_away()?;
        let (directory, name) = self.parent()?;
        Ok(directory.remove_file(&name)?)
    }

    pub(super) fn remove_dir_now(&self) -> Result<()> {
        self.may_take_away()?;
        let (directory, name) = self.parent()?;
        Ok(directory.remove_dir(&name)?)
    }

    pub(super) fn remove_dir_all_now(&self) -> Result<()> {
        self.may_take_away()?;
        if self.found() == Found::Link {
            return Err(ErrorKind::NotADirectory.into());
        }
        let (directory, name) = self.parent()?;
        // Also the directory itself may be where something is mounted.
        let top = directory.dir(Path::new(&name), Rule::Refuse)?;
        empty(&top)?;
        // Windows removes none that is open.
        drop(top);
        Ok(directory.remove_dir(&name)?)
    }
}

/// Removes all that is in a directory, the deepest first. Each directory is reached from `top` anew by a path in which no link is
/// followed and no mount crossed, so however deep it is, no more than two are open.
fn empty(top: &Handle) -> Result<()> {
    let mut budget = REMOVED_ENTRIES;
    let mut path = PathBuf::new();
    let mut todo = vec![clear(top, &path, &mut budget)?];
    while let Some(directories) = todo.last_mut() {
        if let Some(name) = directories.pop() {
            if todo.len() >= WALK_DEPTH {
                return Err(ErrorKind::TooDeep.into());
            }
            path.push(name);
            todo.push(clear(top, &path, &mut budget)?);
            continue;
        }
        todo.pop();
        if let Some((parent, name)) = split(&path) {
            gone(top.dir(parent, Rule::Refuse)?.remove_dir(name))?;
            path.pop();
        }
    }
    Ok(())
}

/// Removes what is no directory from the one at `path`, and tells the directories that are left.
fn clear(top: &Handle, path: &Path, budget: &mut usize) -> Result<Vec<OsString>> {
    let directory = top.dir(path, Rule::Refuse)?;
    let mut files = Vec::new();
    let mut directories = Vec::new();
    for entry in directory.entries()? {
        let entry = entry?;
        *budget = budget.checked_sub(1).ok_or(ErrorKind::TooManyEntries)?;
        let name = entry.file_name();
        let is_dir = match entry.file_type()? {
            t if t.is_dir() => true,
            t if t.is_file() || t.is_symlink() => false,
            // Not every file system tells it with the name (DT_UNKNOWN, readdir(3)).
            _ => directory.describe(&name).is_ok_and(|metadata| metadata.is_dir()),
        };
        if is_dir { directories.push(name) } else { files.push(name) }
    }
    for name in files {
        gone(directory.remove_file(&name))?;
    }
    Ok(directories)
}

/// Someone else may have removed it.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The most entries one call removes: beyond that, another process is adding them, or it is no work for a tool call.
const REMOVED_ENTRIES: usize = 1_000_000;
