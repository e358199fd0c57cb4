//! Where the parts of a repository are, and whether they lead outside the roots in force.

use std::path::{Component, Path};

use mcp_roots_guard::rmcp::HandlerError;
use mcp_roots_guard::{CheckedPath, DirEntry, ErrorKind, FileType, WalkOptions};

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
            if let Some(places) = Self::at(&work_tree)?
                && places.is_complete()?
            {
                return Ok(places);
            }
            if type_of(&work_tree.join(".git")?)? == Some(FileType::File) {
                return Err(refused("its .git file does not name a git directory"));
            }
            if is_same(&work_tree, directory) && has(directory, "HEAD") {
                let places = Self::of(work_tree.clone(), work_tree.clone())?;
                if places.is_complete()? {
                    return Ok(places);
                }
            }
            place = work_tree.parent();
        }
        Err(HandlerError::new(
            "not a git repository: neither this directory nor a parent inside the allowed \
             directories has .git",
        ))
    }

    /// The places that git looks up if it takes this directory for a working tree, whether or not
    /// they are a complete repository. `None` if `.git` leads to no directory.
    pub(super) fn at(work_tree: &CheckedPath) -> Work<Option<Self>> {
        let git_dir = inside(work_tree, ".git")?;
        let git_dir = match type_of(&git_dir)? {
            Some(FileType::Directory) => git_dir,
            // Defense: No `.git` file names a git directory outside the roots.
            Some(FileType::File) => match named_by(work_tree, ".git", "gitdir: ")? {
                Some(named) if type_of(&named)? == Some(FileType::Directory) => named,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        Self::of(work_tree.clone(), git_dir).map(Some)
    }

    /// Resolves what git looks up to find out whether a directory is a git directory.
    fn of(work_tree: CheckedPath, git_dir: CheckedPath) -> Work<Self> {
        let common_dir = match type_of(&inside(&git_dir, "commondir")?)? {
            // Defense: No `commondir` names a directory outside the roots.
            Some(FileType::File) => named_by(&git_dir, "commondir", "")?
                .ok_or_else(|| refused("its file commondir names no directory"))?,
            _ => git_dir.clone(),
        };
        inside(&git_dir, "HEAD")?;
        inside(&common_dir, "objects")?;
        inside(&common_dir, "refs")?;
        Ok(Self { work_tree, git_dir, common_dir })
    }

    /// Whether git would use this repository.
    fn is_complete(&self) -> Work<bool> {
        let is_directory = |name| {
            type_of(&inside(&self.common_dir, name)?).map(|it| it == Some(FileType::Directory))
        };
        Ok(has(&self.git_dir, "HEAD") && is_directory("objects")? && is_directory("refs")?)
    }

    /// Reads the configuration with all files that it can include, whatever their condition, in the
    /// order in which git reads it.
    pub(super) fn config(&self, directory: &CheckedPath) -> Work<Vec<(String, String)>> {
        let mut config = Config { directory, variables: Vec::new(), files: 0 };
        config.read(&self.common_dir.to_unguarded_path().join("config"))?;
        config.read(&self.git_dir.to_unguarded_path().join("config.worktree"))?;
        Ok(config.variables)
    }

    /// Refuses a repository if an entry of its directories leads outside the roots in force.
    pub(super) fn ensure_inside(&self) -> Work<()> {
        let objects = self.object_directories()?;
        let mut git_dirs = vec![self.common_dir.clone()];
        git_dirs.extend((!is_same(&self.git_dir, &self.common_dir)).then(|| self.git_dir.clone()));
        ensure_links_lead_inside(git_dirs, objects.into_iter().skip(1))
    }

    /// The directory of objects, its alternates, and theirs.
    fn object_directories(&self) -> Work<Vec<CheckedPath>> {
        let mut objects = vec![inside(&self.common_dir, "objects")?];
        let mut next = 0;
        while let Some(directory) = objects.get(next) {
            let path = directory.to_unguarded_path();
            let listed = text_of(directory, "info/alternates")?;
            let is_path = |line: &&str| !line.is_empty() && !line.starts_with('#');
            for line in listed.split('\n').filter(is_path) {
                if line.starts_with('"') {
                    return Err(refused("objects/info/alternates contains a quoted path"));
                }
                // The path of an alternate must mean the same for each version of git.
                if has_parent_after_name(Path::new(line)) {
                    return Err(refused("objects/info/alternates contains `..` after a name"));
                }
                // Defense: No alternate of a repository is outside the roots.
                let alternate = self.git_dir.roots().check(path.join(line));
                let alternate = alternate.map_err(|error| outside("alternates", error))?;
                let is_there = type_of(&alternate)? == Some(FileType::Directory);
                if is_there && !objects.iter().any(|it| is_same(it, &alternate)) {
                    objects.push(alternate);
                }
            }
            next += 1;
            if objects.len() > OBJECT_DIRECTORIES {
                return Err(refused("it has too many alternates"));
            }
        }
        Ok(objects)
    }
}

/// The configuration of a repository, while it is read.
struct Config<'a> {
    directory: &'a CheckedPath,
    variables: Vec<(String, String)>,
    /// The number of files that were read.
    files: usize,
}

impl Config<'_> {
    /// Reads a file, and where it names another, that one.
    fn read(&mut self, path: &Path) -> Work<()> {
        let file = self.directory.roots().check(path);
        let file = file.map_err(|error| outside("config", error))?;
        let Some(text) = read(&file)? else { return Ok(()) };
        self.files += 1;
        if self.files > CONFIG_FILES {
            return Err(refused("its configuration includes too many files"));
        }
        for (key, value) in variables(self.directory, text)? {
            if key == "extensions.refstorage" && value.contains('/') {
                return Err(refused("extensions.refStorage contains a path"));
            }
            // Defense: No file that a configuration includes is outside the roots.
            let included = is_include(&key).then(|| path.parent().unwrap_or(path).join(&value));
            if included.is_some() {
                ensure_unexpanded(&key, &value)?;
            }
            self.variables.push((key, value));
            if let Some(included) = included {
                self.read(&included)?;
            }
        }
        Ok(())
    }
}

/// Whether `..` follows a name in the path. Some versions of git remove both as text, and others
/// resolve the name, which can be a symlink, first.
fn has_parent_after_name(path: &Path) -> bool {
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
    let mut from_name = path.components().skip_while(|part| !is_name(part));
    from_name.any(|part| part == Component::ParentDir)
}

/// The place that a file of the directory names after this text, or `None` if it names none. The
/// name can be relative to the directory.
fn named_by(directory: &CheckedPath, file: &str, before: &str) -> Work<Option<CheckedPath>> {
    let text = text_of(directory, file)?;
    let named = text.trim_end_matches(['\n', '\r']).strip_prefix(before);
    let Some(named) = named.filter(|named| !named.is_empty()) else { return Ok(None) };
    let path = directory.to_unguarded_path().join(named);
    directory.roots().check(path).map(Some).map_err(|error| outside(file, error))
}

/// Refuses a symlink in these directories, and in those to which their symlinks lead, whose target
/// is outside the roots in force, and a list of reftables with a path.
fn ensure_links_lead_inside(
    git_dirs: Vec<CheckedPath>,
    objects: impl Iterator<Item = CheckedPath>,
) -> Work<()> {
    let end = git_dirs.len();
    let mut directories: Vec<_> = git_dirs.into_iter().chain(objects).collect();
    let mut next = 0;
    while let Some(directory) = directories.get(next).cloned() {
        next += 1;
        if type_of(&directory)? != Some(FileType::Directory) {
            continue;
        }
        let mut walk = directory.walk(WalkOptions::default().max_entries(ENTRIES))?;
        while let Some(entry) = walk.next_entry()? {
            let relative = entry.relative();
            if next <= end && UNUSED.iter().any(|name| relative == Path::new(name)) {
                if entry.file_type() == FileType::Directory {
                    walk.skip_current_dir();
                }
                continue;
            }
            let Some(target) = used(&entry)? else { continue };
            let type_of_target = type_of(&target)?;
            // Defense: No list of reftables names a place outside the roots.
            if type_of_target == Some(FileType::File) && entry.file_name() == "tables.list" {
                ensure_only_names(&target)?;
            }
            if type_of_target == Some(FileType::Directory)
                && !directories.iter().any(|it| is_same(it, &target))
            {
                directories.push(target);
            }
            if directories.len() > LINKED_DIRECTORIES {
                return Err(refused("it has too many symlinks"));
            }
        }
    }
    Ok(())
}

pub(super) fn is_same(one: &CheckedPath, other: &CheckedPath) -> bool {
    one.place_key() == other.place_key()
}

/// The target of a symlink, which git would follow, or the list of reftables, which git would open.
/// `None` for any other entry, and for a symlink without a target.
fn used(entry: &DirEntry) -> Work<Option<CheckedPath>> {
    let is_list = entry.file_type() == FileType::File && entry.file_name() == "tables.list";
    // Defense: No symlink in a git directory leads outside the roots.
    if entry.file_type() != FileType::Symlink && !is_list {
        return Ok(None);
    }
    match entry.follow() {
        Ok(target) => Ok(Some(target)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(outside(&entry.relative().to_string_lossy(), error)),
    }
}

fn ensure_only_names(list: &CheckedPath) -> Work<()> {
    if read(list)?.is_some_and(|list| list.contains(&b'/')) {
        return Err(refused("reftable/tables.list contains a path"));
    }
    Ok(())
}

/// The place with this name in the directory, which may be missing.
fn inside(directory: &CheckedPath, name: &str) -> Work<CheckedPath> {
    directory.join(name).map_err(|error| outside(name, error))
}

/// Whether the directory has an entry with this name.
fn has(directory: &CheckedPath, name: &str) -> bool {
    directory.join_entry(name).is_ok_and(|entry| entry.exists())
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

/// Parts of a git directory in which these commands read nothing. Hooks are often symlinks, and the
/// other directories can have very many entries.
const UNUSED: &[&str] = &["annex", "hooks", "lfs", "modules"];

/// Git follows ten levels of files to include, and five of alternates.
const CONFIG_FILES: usize = 32;
const OBJECT_DIRECTORIES: usize = 32;

/// The `repo` tool of Android makes a dozen symlinks in a git directory.
const LINKED_DIRECTORIES: usize = 64;

/// More than the entries of a repository with very many branches and loose objects.
const ENTRIES: usize = 400_000;

/// In bytes: more than a configuration with thousands of branches needs.
const FILE_SIZE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leading_parents_mean_the_same_as_text() {
        let same = ["", "a/b", "../../a", "./../a", "/a/b", "/../a", "..", "a/...", "a/..b"];
        assert!(!same.iter().any(|path| has_parent_after_name(Path::new(path))));
        let other = ["a/..", "../a/../b", "/a/../b", "a/./../b", "a//../b"];
        assert!(other.iter().all(|path| has_parent_after_name(Path::new(path))));
    }
}
