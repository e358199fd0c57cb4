//! Finds the repository of a directory, and starts git in it.
//!
//! A repository is data of whoever wrote it, and names places: a `.git` file, `commondir`,
//! `core.worktree`, included files, alternates, symlinks, and the files of the index. Git opens
//! them, and says whether they exist. [`Repository::find`] therefore reads those names through the
//! guard before git runs, and refuses a repository with one that leads outside the roots in force:
//!
//! | a repository can name | defense |
//! | --- | --- |
//! | its git directory (`.git`, a symlink or a file) and common directory (`commondir`) | found and checked here, and passed to git |
//! | its working tree (`core.worktree`) | never used: it is the directory that contains `.git` |
//! | files to include (`include.path`, `includeIf`) | checked, with the files that those include |
//! | directories of objects (`objects/info/alternates`) | checked, with the alternates of those |
//! | anything, by a symlink in its directories | checked |
//! | tables of references (`reftable/tables.list`, `extensions.refStorage`) | only plain names |
//! | other files of its user (`core.excludesFile` and [others](FIXED)) | overridden |
//! | packs, in a multi-pack index, and directories, in an untracked cache | not read |
//! | files in the index, submodules, and any `.git` in its working tree | checked by [`Repository::ensure_work_tree_inside`] |
//!
//! `git_log` needs neither the index nor the working tree, so these are not checked for it.
//!
//! Git gets canonical absolute paths, as it makes every other path one: if a directory is swapped
//! after the check, its confinement holds. Git can then still find out whether a path outside
//! exists, and read in the system's directories.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use mcp_roots_guard::rmcp::HandlerError;
use mcp_roots_guard::{
    CheckedPath, ChildCommand, Error, ErrorKind, ExitReason, FileType, Roots, WalkOptions,
};

use super::call::Work;
use super::git_config::{FIXED, git, is_bare, overrides, refused};
use super::places::{Places, is_same, outside, type_of};
use crate::programs::git_confinement;

/// A repository whose directories are inside the roots in force, and lead nowhere else.
pub(super) struct Repository {
    /// The directory of the request.
    directory: CheckedPath,
    places: Places,
    /// Whether it has no working tree.
    is_bare: bool,
    /// Variables that replace the repository's own.
    overrides: Vec<(String, String)>,
}

impl Repository {
    /// Finds the repository of a directory. It may begin in a parent, but not above the root.
    pub(super) fn find(roots: &Roots, directory: String) -> Work<Self> {
        let directory = roots.check(directory)?;
        directory.metadata()?;
        let places = Places::find(&directory)?;
        let config = places.config(&directory)?;
        places.ensure_inside()?;
        let is_its_own = is_same(&places.common_dir, &places.git_dir);
        let has_none = is_same(&places.work_tree, &places.git_dir);
        let is_bare = has_none || is_its_own && is_bare(&config);
        Ok(Self { directory, places, is_bare, overrides: overrides(&config)? })
    }

    pub(super) fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// A git command that starts in the directory of the request.
    pub(super) fn git(&self) -> Work<ChildCommand> {
        self.git_in(&self.directory)
    }

    /// Refuses a repository if a file that is in its index, or should be, or a nested repository,
    /// leads outside.
    pub(super) fn ensure_work_tree_inside(&self) -> Work<()> {
        let (nested, is_complete) = self.nested()?;
        self.ensure_index_inside(&nested, is_complete)
    }

    /// Finds the directories with a repository in the working tree. Refuses a `.git` that leads
    /// outside in any of its directories, because git finds out whether a directory without tracked
    /// files, or in place of one, is a repository. Returns also whether all could be listed.
    fn nested(&self) -> Work<(BTreeSet<OsString>, bool)> {
        let mut nested = BTreeSet::new();
        let options = WalkOptions::default().max_entries(WORK_TREE).skip_unreadable();
        let mut walk = self.places.work_tree.walk(options)?;
        while let Some(entry) = walk.next_entry().map_err(too_many)? {
            if entry.file_type() != FileType::Directory {
                continue;
            }
            if entry.file_name() == ".git" {
                walk.skip_current_dir();
                continue;
            }
            let directory = entry.follow()?;
            match directory.join_entry(".git") {
                // Defense: No `.git` below a working tree leads outside the roots.
                Ok(git_dir) if git_dir.exists() => {
                    nested.extend(Places::at(&directory)?.map(|_| entry.relative().into()));
                }
                Ok(_) => {}
                // Git cannot look there, either, or the directory was removed.
                Err(error) if is_closed(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if nested.len() > NESTED {
                return Err(refused("it has too many nested repositories"));
            }
        }
        if walk.unreadable().iter().any(|error| error.kind() == ErrorKind::TooDeep) {
            return Err(refused("its working tree is too deep"));
        }
        Ok((nested, walk.unreadable().is_empty()))
    }

    /// The modes and names in the index.
    fn index(&self) -> Work<Vec<u8>> {
        let git = self.git_in(&self.places.work_tree)?.args(LIST).output_limit(INDEX_LIST);
        let listed = git.confined(git_confinement()).output()?;
        if listed.exit_reason() == ExitReason::OutputLimit {
            return Err(HandlerError::new(format!(
                "the names in the index of this repository take more than {} MiB, which is too \
                 much to check: use git_log, which does not need the index",
                INDEX_LIST >> 20
            )));
        }
        Ok(listed.into_stdout()?)
    }

    /// Refuses an index with a name that is not below the working tree, because git does not check
    /// the names in an index that it reads, or with a submodule that leads outside, because git
    /// opens its repository, even to ignore it. It also opens one in place of a file.
    fn ensure_index_inside(&self, nested: &BTreeSet<OsString>, is_complete: bool) -> Work<()> {
        let list = self.index()?;
        let (mut submodules, mut previous) = (0, None);
        for entry in list.split(|&byte| byte == 0).filter(|entry| !entry.is_empty()) {
            let space = entry.iter().position(|&byte| byte == b' ').unwrap_or_default();
            let (mode, name) = entry.split_at(space);
            let name = name.get(1..).unwrap_or_default();
            // Defense: Each name in an index is that of a place below the working tree.
            if !is_plain(mode, name) {
                return Err(refused("its index names a file that is not in the working tree"));
            }
            let name = name.strip_suffix(b"/").unwrap_or(name);
            // The list is sorted, so a directory is usually checked once.
            let parent = name.iter().rposition(|&byte| byte == b'/').and_then(|at| name.get(..at));
            if parent != previous {
                previous = parent;
                if let Some(parent) = parent {
                    self.place_of(parent)?;
                }
            }
            if mode == SUBMODULE || !is_complete || nested.contains(path(name).as_os_str()) {
                submodules += usize::from(self.ensure_submodule_inside(name)?);
            }
            if submodules > SUBMODULES {
                return Err(refused("it has too many submodules"));
            }
        }
        Ok(())
    }

    /// The place to which a directory in the index leads, if it exists.
    fn place_of(&self, name: &[u8]) -> Work<Option<CheckedPath>> {
        let path = path(name);
        match self.places.work_tree.join(&*path) {
            Ok(place) => Ok(Some(place)),
            Err(error) if is_closed(&error) || error.kind() == ErrorKind::NotADirectory => Ok(None),
            Err(error) => Err(outside(&path.to_string_lossy(), error)),
        }
    }

    /// Returns whether there is a repository in this directory.
    fn ensure_submodule_inside(&self, name: &[u8]) -> Work<bool> {
        if let Some(work_tree) = self.place_of(name)?
            && type_of(&work_tree)? == Some(FileType::Directory)
            && let Some(places) = Places::at(&work_tree)?
        {
            places.config(&work_tree)?;
            places.ensure_inside()?;
            return Ok(true);
        }
        Ok(false)
    }

    fn git_in(&self, directory: &CheckedPath) -> Work<ChildCommand> {
        let Places { work_tree, git_dir, common_dir } = &self.places;
        let git = git(directory, &git_dir.to_unguarded_path())?;
        let git = git.env("GIT_COMMON_DIR", common_dir.to_unguarded_path());
        // Defense: No configuration of a repository says where its working tree is.
        let git = git.env("GIT_WORK_TREE", work_tree.to_unguarded_path());
        let own = self.overrides.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let variables: Vec<_> = FIXED.iter().copied().chain(own).collect();
        let git = git.env("GIT_CONFIG_COUNT", variables.len().to_string());
        let numbered = variables.into_iter().enumerate();
        Ok(numbered.fold(git, |git, (number, (name, value))| {
            git.env(format!("GIT_CONFIG_KEY_{number}"), name)
                .env(format!("GIT_CONFIG_VALUE_{number}"), value)
        }))
    }
}

/// Whether the name of an entry in an index is a path below the working tree, and not in a git
/// directory. That of a directory in a sparse index ends in a slash.
fn is_plain(mode: &[u8], name: &[u8]) -> bool {
    let directory = name.strip_suffix(b"/").filter(|_| mode == DIRECTORY);
    let mut names = directory.unwrap_or(name).split(|&byte| byte == b'/');
    !names.any(|name| matches!(name, b"" | b"." | b"..") || name.eq_ignore_ascii_case(b".git"))
}

/// The path with this name in an index.
#[cfg(unix)]
fn path(name: &[u8]) -> Cow<'_, Path> {
    Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name)).into()
}

#[cfg(not(unix))]
fn path(name: &[u8]) -> Cow<'_, Path> {
    std::path::PathBuf::from(String::from_utf8_lossy(name).into_owned()).into()
}

fn is_closed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound)
}

fn too_many(error: Error) -> HandlerError {
    if error.kind() != ErrorKind::TooManyEntries {
        return error.into();
    }
    HandlerError::new(format!(
        "the working tree has more than {WORK_TREE} entries, which is too many to check for nested \
         repositories: use git_log, which does not need the working tree"
    ))
}

/// Lists the modes and names of an index. Of directories in a sparse index, it lists their names.
const LIST: &[&str] = &["ls-files", "--cached", "--sparse", "--format=%(objectmode) %(path)", "-z"];

/// The list of an index, in bytes. That of Linux takes 5 MB.
const INDEX_LIST: usize = 16 << 20;

/// The modes of a submodule and of a directory in an index.
const SUBMODULE: &[u8] = b"160000";
const DIRECTORY: &[u8] = b"040000";

/// More than the largest projects have.
const SUBMODULES: usize = 256;

/// The paths of nested repositories are held in memory, at most 4 KiB each.
const NESTED: usize = 4096;

/// The entries of a working tree: ten times as many as that of Linux has.
const WORK_TREE: usize = 1_000_000;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_of_an_index_are_below_the_working_tree() {
        let file: &[u8] = b"100644";
        let plain: [&[u8]; 5] = [b"a", b"b/c", b"...", b"a/..b/\xff", b".gitignore"];
        assert!(plain.iter().all(|name| is_plain(file, name)));
        let odd: [&[u8]; 7] = [b"", b"/a", b"../b", b"a/../b", b"a/./b", b"a//b", b"a/"];
        assert!(!odd.iter().any(|name| is_plain(file, name)));
        let of_git: [&[u8]; 3] = [b".git", b"a/.GIT/b", b".git/a"];
        assert!(!of_git.iter().any(|name| is_plain(file, name)));
        assert!(is_plain(DIRECTORY, b"a/b/"));
        let odd: [&[u8]; 5] = [b"/", b"a//", b"/a/", b"../", b"a/../b/"];
        assert!(!odd.iter().any(|name| is_plain(DIRECTORY, name)));
    }
}
