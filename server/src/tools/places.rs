//! The parts of a repository, as its files name them, and whether they are inside the roots in force.

use std::path::{Component, Path, PathBuf};

use mcp_roots_guard::rmcp::HandlerError;
use mcp_roots_guard::{CheckedPath, ErrorKind, FileType, WalkOptions};

use super::call::Work;
use super::git_config::{ensure_unexpanded, is_include, refused, variables};

/// Where the parts of a repository are (gitrepository-layout(5)).
pub(super) struct Places {
    pub(super) work_tree: CheckedPath,
    pub(super) git_dir: CheckedPath,
    /// The git directory itself, except in a linked working tree.
    pub(super) common_dir: CheckedPath,
}

impl Places {
    /// Looks in the directory and its parents, as git does, for `.git`. The directory itself may be
    /// a git directory.
    pub(super) fn find(directory: &CheckedPath) -> Work<Self> {
        let mut place = Some(directory.clone());
        while let Some(work_tree) = place {
            if let Some(found) = Self::at(&work_tree)? {
                return Ok(found);
            }
            if type_of(&work_tree.join(".git")?)? == Some(FileType::File) {
                return Err(refused("its .git file does not name a git directory"));
            }
            if is_same(&work_tree, directory) {
                let (git_dir, common_dir) = (directory.clone(), common_dir(directory)?);
                let itself = Self { work_tree: work_tree.clone(), git_dir, common_dir };
                if itself.is_complete()? {
                    return Ok(itself);
                }
            }
            place = work_tree.parent();
        }
        Err(HandlerError::new(
            "not a git repository: neither this directory nor a parent inside the allowed \
             directories has .git",
        ))
    }

    /// The repository whose working tree is this directory.
    fn at(work_tree: &CheckedPath) -> Work<Option<Self>> {
        let named = Self::named(work_tree)?;
        let is_complete = named.as_ref().map_or(Ok(false), Self::is_complete)?;
        Ok(named.filter(|_| is_complete))
    }

    /// What `.git` in this directory is or names, whether or not that is a repository.
    pub(super) fn named(work_tree: &CheckedPath) -> Work<Option<Self>> {
        let git_dir = work_tree.join(".git").map_err(|error| outside(".git", error))?;
        let git_dir = match type_of(&git_dir)? {
            Some(FileType::Directory) => Some(git_dir),
            Some(FileType::File) => named_by(work_tree, ".git", "gitdir: ")?,
            _ => None,
        };
        let Some(git_dir) = git_dir else { return Ok(None) };
        let (work_tree, common_dir) = (work_tree.clone(), common_dir(&git_dir)?);
        Ok(Some(Self { work_tree, git_dir, common_dir }))
    }

    /// Whether git takes the directories for those of a repository.
    fn is_complete(&self) -> Work<bool> {
        let head = self.git_dir.join_entry("HEAD");
        let mut is_complete = head.is_ok_and(|head| head.exists());
        for name in ["objects", "refs"] {
            let part = self.common_dir.join(name).map_err(|error| outside(name, error))?;
            is_complete &= type_of(&part)? == Some(FileType::Directory);
        }
        Ok(is_complete)
    }

    /// Reads the configuration with all files that it can include, whatever their condition.
    pub(super) fn config(&self, directory: &CheckedPath) -> Work<Vec<(String, String)>> {
        // The last one is read first, and the last value of a variable counts.
        let mut files = vec![
            self.git_dir.to_unguarded_path().join("config.worktree"),
            self.common_dir.to_unguarded_path().join("config"),
        ];
        let mut config = Vec::new();
        let mut count = 0;
        while let Some(path) = files.pop() {
            let file = directory.roots().check(&path).map_err(|error| outside("config", error))?;
            let Some(text) = read(&file)? else { continue };
            count += 1;
            if count > CONFIG_FILES {
                return Err(refused("its configuration includes too many files"));
            }
            for (key, value) in variables(directory, text)? {
                if is_include(&key) {
                    ensure_unexpanded(&key, &value)?;
                    files.push(path.parent().unwrap_or(&path).join(&value));
                }
                if key == "extensions.refstorage" && value.contains('/') {
                    return Err(refused("extensions.refStorage contains a path"));
                }
                config.push((key, value));
            }
        }
        Ok(config)
    }

    /// Refuses a repository if an entry of its directories leads outside the roots in force.
    pub(super) fn ensure_inside(&self) -> Work<()> {
        let roots = self.git_dir.roots();
        let mut objects = vec![self.common_dir.join("objects")?];
        let mut next = 0;
        while let Some(directory) = objects.get(next) {
            let path = directory.to_unguarded_path();
            let listed = text_of(directory, "info/alternates")?;
            let is_path = |line: &&str| !line.is_empty() && !line.starts_with('#');
            for line in listed.split('\n').filter(is_path) {
                if line.starts_with('"') {
                    return Err(refused("objects/info/alternates contains a quoted path"));
                }
                let named = path.join(line);
                // Older versions of git remove `..` as text, and newer ones after a symlink.
                // Defense: An alternate is in the roots in force, however git resolves it.
                for named in [without_dots(&named), named] {
                    let alternate = roots.check(named);
                    let alternate = alternate.map_err(|error| outside("alternates", error))?;
                    let is_there = type_of(&alternate)? == Some(FileType::Directory);
                    if is_there && !objects.iter().any(|it| is_same(it, &alternate)) {
                        objects.push(alternate);
                    }
                }
            }
            next += 1;
            if objects.len() > OBJECT_DIRECTORIES {
                return Err(refused("it has too many alternates"));
            }
        }
        let mut git_dirs = vec![self.common_dir.clone()];
        git_dirs.extend((!is_same(&self.git_dir, &self.common_dir)).then(|| self.git_dir.clone()));
        ensure_links_lead_inside(git_dirs, objects.into_iter().skip(1))
    }
}

/// The common directory of a git directory.
fn common_dir(git_dir: &CheckedPath) -> Work<CheckedPath> {
    let file = git_dir.join("commondir").map_err(|error| outside("commondir", error))?;
    let named = match type_of(&file)? {
        Some(FileType::File) => named_by(git_dir, "commondir", "")?,
        _ => None,
    };
    Ok(named.unwrap_or_else(|| git_dir.clone()))
}

/// The place that a file of the directory names after this text, if it names one. It can be relative
/// to the directory.
fn named_by(directory: &CheckedPath, file: &str, before: &str) -> Work<Option<CheckedPath>> {
    let text = text_of(directory, file)?;
    let named = text.trim_end_matches(['\n', '\r']).strip_prefix(before);
    let Some(named) = named.filter(|named| !named.is_empty()) else { return Ok(None) };
    let path = directory.to_unguarded_path().join(named);
    directory.roots().check(path).map(Some).map_err(|error| outside(file, error))
}

/// Refuses a symlink in these directories, and in those to which their symlinks lead, whose target
/// is outside the roots in force.
fn ensure_links_lead_inside(
    git_dirs: Vec<CheckedPath>,
    objects: impl Iterator<Item = CheckedPath>,
) -> Work<()> {
    let end = git_dirs.len();
    let mut directories: Vec<_> = git_dirs.into_iter().chain(objects).collect();
    let mut next = 0;
    while let Some(directory) = directories.get(next).cloned() {
        next += 1;
        let mut walk = directory.walk(WalkOptions::default().max_entries(ENTRIES))?;
        while let Some(entry) = walk.next_entry().map_err(too_many)? {
            let relative = entry.relative();
            if next <= end && UNUSED.iter().any(|name| relative == Path::new(name)) {
                if entry.file_type() == FileType::Directory {
                    walk.skip_current_dir();
                }
            } else if entry.file_name() == "tables.list" && entry.file_type() == FileType::File {
                if entry.read(FILE_SIZE)?.contains(&b'/') {
                    return Err(refused("reftable/tables.list contains a path"));
                }
            } else if entry.file_type() == FileType::Symlink {
                // Git would follow it.
                let target = match entry.follow() {
                    Ok(target) => target,
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => return Err(outside(&relative.to_string_lossy(), error)),
                };
                let is_new = !directories.iter().any(|it| is_same(it, &target));
                if is_new && type_of(&target)? == Some(FileType::Directory) {
                    directories.push(target);
                }
                if directories.len() > LINKED_DIRECTORIES {
                    return Err(refused("it has too many symlinks"));
                }
            }
        }
    }
    Ok(())
}

/// The refusal of a place says which part of the repository leads to it.
pub(super) fn outside(what: &str, error: mcp_roots_guard::Error) -> HandlerError {
    if error.kind() == ErrorKind::OutsideRoots {
        let what = what.escape_debug();
        return refused(&format!(
            "{what} leads to a place that is not inside the allowed directories"
        ));
    }
    error.into()
}

pub(super) fn type_of(place: &CheckedPath) -> Work<Option<FileType>> {
    match place.metadata() {
        Ok(metadata) => Ok(Some(metadata.file_type())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn read(file: &CheckedPath) -> Work<Option<Vec<u8>>> {
    match file.read(FILE_SIZE) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The text of a file in a git directory, or an empty one if there is none.
fn text_of(directory: &CheckedPath, name: &str) -> Work<String> {
    let content = match directory.join(name) {
        Ok(file) => read(&file)?,
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(outside(name, error)),
    };
    let text = String::from_utf8(content.unwrap_or_default());
    text.map_err(|_| refused(&format!("its file {name} is not UTF-8")))
}

pub(super) fn is_same(one: &CheckedPath, other: &CheckedPath) -> bool {
    one.place_key() == other.place_key()
}

pub(super) fn too_many(error: mcp_roots_guard::Error) -> HandlerError {
    if error.kind() == ErrorKind::TooManyEntries {
        return refused(&format!(
            "it has more than {ENTRIES} entries, too many to verify that none leads outside"
        ));
    }
    error.into()
}

/// The path without `.` and `..`, removed as text.
fn without_dots(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
}

/// Parts of a git directory in which these commands read nothing. Hooks are often symlinks, and the
/// other directories can have very many entries.
const UNUSED: &[&str] = &["annex", "hooks", "lfs", "modules"];

/// Git follows ten levels of files to include, and five of alternates.
const CONFIG_FILES: usize = 32;
const OBJECT_DIRECTORIES: usize = 32;

/// The `repo` tool of Android makes a dozen symlinks in a git directory.
const LINKED_DIRECTORIES: usize = 64;

/// More than the entries of a repository with very many branches and loose objects.
pub(super) const ENTRIES: usize = 400_000;

/// In bytes: more than a configuration with thousands of branches needs.
const FILE_SIZE: u64 = 1 << 20;
