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
//! | tables of references (`tables.list`, `extensions.refStorage`) | only plain names |
//! | other files of its user (`core.excludesFile` and [others](FIXED)) | overridden |
//! | packs, in a multi-pack index, and directories, in an untracked cache | not read |
//! | files, in the index, and submodules | checked by [`Repository::ensure_index_inside`] |
//! | nested repositories that are not submodules | checked by [`Repository::ensure_work_tree_inside`] |
//!
//! Git gets canonical absolute paths, as it makes every other path one: if a directory is swapped
//! after the check, its confinement holds. Git can then still find out whether a path outside
//! exists, and read in the system's directories.

use std::collections::HashSet;
use std::path::Path;

use mcp_roots_guard::{CheckedPath, ChildCommand, ErrorKind, FileType, Roots, WalkOptions};

use super::call::Work;
use super::git_config::{FIXED, git, is_bare, overrides, refused};
use super::places::{ENTRIES, Places, is_same, outside, too_many, type_of};

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

    /// Lists the index for [`ensure_index_inside`](Self::ensure_index_inside).
    pub(super) fn list_index(&self) -> Work<ChildCommand> {
        let git = self.git_in(&self.places.work_tree)?;
        // Without the option, git would replace a directory that is sparse in the index by its files.
        let list = ["ls-files", "--cached", "--stage", "--sparse", "-z"];
        Ok(git.args(list).output_limit(INDEX_LIST))
    }

    /// Refuses an index with a name that is not below the working tree, because git does not check
    /// the names in an index that it reads, or with a submodule that leads outside, because git
    /// opens its repository, even to ignore it.
    pub(super) fn ensure_index_inside(&self, list: &[u8]) -> Work<()> {
        let (mut submodules, mut directories) = (0, HashSet::new());
        for entry in list.split(|&byte| byte == 0).filter(|entry| !entry.is_empty()) {
            let name = entry.splitn(2, |&byte| byte == b'\t').nth(1).unwrap_or_default();
            // Defense: The names of an index are below the working tree.
            if !is_plain(name) {
                return Err(refused("its index names a file that is not in the working tree"));
            }
            // Git describes a file also if a directory above it was replaced by a symlink.
            let directory = path_of(name).parent().unwrap_or(Path::new(""));
            if directories.insert(directory) {
                match self.places.work_tree.join(Path::new(".").join(directory)) {
                    Err(error) if error.kind() == ErrorKind::OutsideRoots => {
                        return Err(outside(&directory.to_string_lossy(), error));
                    }
                    _ => {}
                }
            }
            if entry.starts_with(SUBMODULE) {
                submodules += 1;
                let name = std::str::from_utf8(name);
                let name = name.map_err(|_| refused("the name of a submodule is not UTF-8"))?;
                self.ensure_nested_inside(Path::new(name))?;
            }
            if submodules > NESTED {
                return Err(refused("it has too many submodules"));
            }
        }
        Ok(())
    }

    /// Refuses a working tree with a nested repository that leads outside, because git status looks
    /// into each, also if it is not in the index.
    pub(super) fn ensure_work_tree_inside(&self) -> Work<()> {
        let mut walk = self.places.work_tree.walk(WalkOptions::default().max_entries(ENTRIES))?;
        let mut nested = 0;
        while let Some(entry) = walk.next_entry().map_err(too_many)? {
            if entry.file_name() != ".git" {
                continue;
            }
            walk.skip_current_dir();
            let relative = entry.relative();
            let directory = relative.parent().unwrap_or(Path::new(""));
            if !directory.as_os_str().is_empty() {
                nested += 1;
                self.ensure_nested_inside(directory)?;
            }
            if nested > NESTED {
                return Err(refused("it contains too many repositories"));
            }
        }
        Ok(())
    }

    /// Refuses a repository in a directory of the working tree if a part of it leads outside,
    /// whether or not it is complete.
    fn ensure_nested_inside(&self, directory: &Path) -> Work<()> {
        let work_tree = self.places.work_tree.join(directory);
        let work_tree = work_tree.map_err(|error| outside("a submodule", error))?;
        if type_of(&work_tree)? == Some(FileType::Directory)
            && let Some(places) = Places::named(&work_tree)?
        {
            places.config(&work_tree)?;
            places.ensure_inside()?;
        }
        Ok(())
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

#[cfg(unix)]
fn path_of(name: &[u8]) -> &Path {
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name);
    Path::new(name)
}

/// Elsewhere, git is not confined, and so not run.
#[cfg(not(unix))]
fn path_of(name: &[u8]) -> &Path {
    Path::new(std::str::from_utf8(name).unwrap_or_default())
}

/// Whether the name of a file in an index, or of a sparse directory, which ends in a slash, is a path
/// below the working tree.
fn is_plain(name: &[u8]) -> bool {
    let name = name.strip_suffix(b"/").unwrap_or(name);
    !name.split(|&byte| byte == b'/').any(|name| matches!(name, b"" | b"." | b".."))
}

/// The list of an index, in bytes. That of Linux takes 9 MB.
pub(super) const INDEX_LIST: usize = 16 << 20;

/// How the list of an index begins the line of a submodule.
const SUBMODULE: &[u8] = b"160000 ";

/// Submodules, or repositories in a working tree: more than the largest projects have.
const NESTED: usize = 256;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_of_an_index_are_below_the_working_tree() {
        let plain: [&[u8]; 5] = [b"a", b"b/c", b"...", b"a/..b/\xff", b"a/"];
        assert!(plain.iter().all(|name| is_plain(name)));
        let odd: [&[u8]; 7] = [b"", b"/a", b"../b", b"a/../b", b"a/./b", b"a//b", b"a//"];
        assert!(!odd.iter().any(|name| is_plain(name)));
    }
}
