//! The entries that git ignores, as described at [`WalkOptions::git_ignore`].
//!
//! The rule files are read beneath open directories, never by name, and matched by the crate
//! `ignore`. Its own walk is not used, because it opens directories by name.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::options::WalkOptions;
use crate::check::Proof;
use crate::dir::{Handle, Policy, Rule, Stat};
use crate::error::{Code, Error, Result};
use crate::limits::IGNORE_BYTES;

pub(super) struct IgnoreRules {
    walked: Proof,
    policy: Policy,
    /// From the root to the current directory.
    levels: Vec<Level>,
    /// The bytes of rule files that this walk may still read.
    left: u64,
    /// What is left of [`IGNORE_SIZE`].
    size_left: u64,
    /// What is left of [`IGNORE_WORK`].
    work_left: u64,
}

struct Level {
    /// Relative to the root.
    path: PathBuf,
    ignore: Option<Gitignore>,
    git_ignore: Option<Gitignore>,
    exclude: Option<Gitignore>,
    weight: u64,
    /// Whether the directory contains `.git`, so that git reads no rules above it.
    is_repository: bool,
}

impl Level {
    fn is_empty(&self) -> bool {
        self.ignore.is_none() && self.git_ignore.is_none() && self.exclude.is_none()
    }
}

impl fmt::Debug for IgnoreRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IgnoreRules")
    }
}

impl WalkOptions {
    /// Omits `.git` and the entries that git ignores. They are neither yielded, entered nor
    /// counted.
    ///
    /// The rules are those of gitignore(5), whether or not there is a repository, in order of
    /// precedence:
    ///
    /// 1. `.ignore` in each directory, before those of its parents.
    /// 2. `.gitignore` likewise, up to the nearest parent that contains `.git`.
    /// 3. `.git/info/exclude` there.
    ///
    /// Files above the root, the user's own configuration, and rule files that are
    /// [denied](crate::BoundaryBuilder::deny) or, as in git, symlinks are never read. A file named
    /// `.git`, as in a worktree, ends the rules above it, but its `exclude` is not read. A symlink
    /// named `.git` does not mark a repository. With [`skip_dot_files`](Self::skip_dot_files), a
    /// name that begins with a dot is included if a rule says so (`!.github`).
    ///
    /// The rule files of a walk may have [`IGNORE_BYTES`] in total. A directory counts as
    /// unreadable if one of its rule files exceeds the rest, is too complex, or cannot be read.
    pub fn git_ignore(mut self) -> Self {
        self.git_ignore = true;
        self
    }
}

impl IgnoreRules {
    /// Reads the rules of the directories above the walked one, up to its root.
    pub(super) fn above(walked: &Proof) -> Result<Self> {
        let mut rules = Self {
            walked: walked.clone(),
            policy: walked.roots().policy(),
            levels: Vec::new(),
            left: IGNORE_BYTES,
            size_left: IGNORE_SIZE,
            work_left: IGNORE_WORK,
        };
        let mut above = Some(walked.clone());
        let mut parents = Vec::new();
        while let Some(parent) = above.as_ref().and_then(|it| it.parent().map(|parent| parent.0)) {
            above = Some(parent.clone());
            parents.push(parent);
        }
        for parent in parents.into_iter().rev() {
            let directory = parent.directory()?;
            rules.read(&directory, parent.relative().to_owned())?;
        }
        Ok(rules)
    }

    /// `path` is relative to the walked directory.
    pub(super) fn enter(&mut self, directory: &Handle, path: &Path) -> Result<()> {
        self.read(directory, self.walked.relative().join(path))
    }

    pub(super) fn leave(&mut self) {
        self.levels.pop();
    }

    /// Whether an entry of the current directory is ignored. `None` if no rule matches it. Fails
    /// with `too_costly` if the rules of this walk took too much work.
    pub(super) fn decide(&mut self, name: &OsStr, is_directory: bool) -> Result<Option<bool>> {
        if name == ".git" {
            return Ok(Some(true));
        }
        if self.levels.iter().all(Level::is_empty) {
            return Ok(None);
        }
        let Some(innermost) = self.levels.last() else { return Ok(None) };
        let path = innermost.path.join(name);
        let work = self.levels.iter().map(|level| {
            let length = path.as_os_str().len().saturating_sub(level.path.as_os_str().len());
            u64::try_from(length).unwrap_or(u64::MAX).saturating_mul(level.weight)
        });
        // Defense: Matching ignore rules takes a bounded amount of work.
        let work_left = self.work_left.checked_sub(work.fold(IGNORE_NAME, u64::saturating_add));
        self.work_left = work_left.unwrap_or_default();
        if work_left.is_none() {
            let text = "its ignore rules take too long to match";
            return Err(Error::from(Code::TooCostly).with_text(text));
        }
        let mut decisions = [None; 3];
        let mut is_in_repository = false;
        for level in self.levels.iter().rev() {
            let of_git = [&level.git_ignore, &level.exclude];
            let of_git = of_git.map(|rules| rules.as_ref().filter(|_| !is_in_repository));
            for (decision, rules) in
                decisions.iter_mut().zip([level.ignore.as_ref(), of_git[0], of_git[1]])
            {
                // The crate removes the path of the rules' directory, which is faster than
                // `Path::strip_prefix`.
                *decision = decision.or_else(|| match rules?.matched(&path, is_directory) {
                    Match::None => None,
                    Match::Ignore(_) => Some(true),
                    Match::Whitelist(_) => Some(false),
                });
            }
            is_in_repository |= level.is_repository;
        }
        Ok(decisions.into_iter().flatten().next())
    }

    /// `path` is relative to the root.
    fn read(&mut self, directory: &Handle, path: PathBuf) -> Result<()> {
        let mut weight = 0;
        let ignore = self.file(directory, ".ignore", &path, &mut weight)?;
        let git_ignore = self.file(directory, ".gitignore", &path, &mut weight)?;
        let is_repository = !self.is_denied(&path, ".git")
            && matches!(directory.look_in(OsStr::new(".git"), Rule::Allow)?, Stat::Other(_));
        let exclude = if is_repository {
            self.file(directory, ".git/info/exclude", &path, &mut weight)?
        } else {
            None
        };
        self.levels.push(Level { path, ignore, git_ignore, exclude, weight, is_repository });
        Ok(())
    }

    fn is_denied(&self, directory: &Path, path: &str) -> bool {
        let (roots, number) = (self.walked.roots(), self.walked.root_number());
        roots.is_denied(number, &directory.join(path), usize::MAX)
    }

    /// Reads one rule file of the directory at `covered`, relative to the root, and adds the weight
    /// of its rules. `None` if it does not exist, is denied, or is no regular file.
    fn file(
        &mut self,
        directory: &Handle,
        path: &str,
        covered: &Path,
        total_weight: &mut u64,
    ) -> Result<Option<Gitignore>> {
        if self.is_denied(covered, path) {
            return Ok(None);
        }
        let file = match directory.open(Path::new(path), self.policy.mounts) {
            Err(error) if is_absent(error.reason()) => return Ok(None),
            file => file?,
        };
        match self.walked.root().verify(&file, self.policy) {
            // Otherwise, the walk would read up to the limit again in each directory.
            Ok(metadata) if metadata.is_file() && metadata.len() > self.left => {
                return Err(too_large());
            }
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Ok(None),
            Err(error) if is_absent(error.reason()) => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut text = Vec::new();
        let read = file.take(self.left.saturating_add(1)).read_to_end(&mut text)?;
        let left = self.left.checked_sub(u64::try_from(read).unwrap_or(u64::MAX));
        self.left = left.ok_or_else(too_large)?;
        let too_complex =
            || Error::from(Code::TooLarge).with_text("its ignore rules are too complex");
        let text = String::from_utf8_lossy(&text);
        let lines = || text.trim_start_matches('\u{feff}').lines();
        self.size_left = self.size_left.checked_sub(size(lines())).ok_or_else(too_complex)?;
        let mut rules = GitignoreBuilder::new(covered);
        for line in lines() {
            // git skips a rule that is not valid, too.
            let _ = rules.add_line(None, line);
            *total_weight = total_weight.saturating_add(weight(line));
        }
        rules.build().map(Some).map_err(|_| too_complex())
    }
}

/// The work of comparing a rule with one byte of a path. Names without a wildcard and file
/// extensions (`*.o`) are looked up together. The others of a file become one regular expression,
/// and comparing one can take time in proportion to its length for each byte.
fn weight(rule: &str) -> u64 {
    let rule = rule.trim_end();
    if rule.is_empty() || rule.starts_with('#') {
        return 0;
    }
    // Exactly what the crate removes, because `/*.o`, `!!*.o` and `*.o//` become expressions.
    let rule = rule.strip_prefix('!').unwrap_or(rule);
    let rule = rule.strip_suffix('/').unwrap_or(rule);
    let rule = rule.strip_prefix("**/").unwrap_or(rule);
    let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'{' | b'\\');
    let ends_name = |byte| is_special(&byte) || matches!(byte, b'.' | b'/');
    let is_extension = |rest: &str| !rest.bytes().any(ends_name);
    match rule.bytes().filter(is_special).count() {
        0 if !rule.trim_matches('/').is_empty() => IGNORE_LOOK_UP,
        1 if rule.strip_prefix("*.").is_some_and(is_extension) => IGNORE_LOOK_UP,
        0 | 1 if !rule.contains(['?', '[', '{', '\\']) => IGNORE_WILDCARD,
        _ => IGNORE_WILDCARD.saturating_mul(u64::try_from(rule.len()).unwrap_or(u64::MAX)),
    }
}

/// The size of the regular expression of a rule file: the number of its rules multiplied by their
/// length. Matching can take memory in proportion, because each state of the expression is stored
/// with a place for each rule.
fn size<'a>(rules: impl Iterator<Item = &'a str>) -> u64 {
    let (mut count, mut length) = (0_u64, 0_u64);
    for rule in rules.filter(|rule| weight(rule) > IGNORE_LOOK_UP) {
        count += 1;
        length += RULE_STATES + u64::try_from(rule.len()).unwrap_or(u64::MAX);
    }
    count.saturating_mul(length)
}

/// The states that each rule takes in addition to its bytes.
const RULE_STATES: u64 = 8;

fn too_large() -> Error {
    Error::over(Code::TooLarge, "its ignore files have more than {} bytes", IGNORE_BYTES)
}

fn is_absent(reason: Code) -> bool {
    matches!(
        reason,
        Code::NotFound
            | Code::NotADirectory
            | Code::IsADirectory
            | Code::Changed
            | Code::SpecialFile
            | Code::MountCrossing
    )
}

/// The maximum work of a walk for matching names, ignored ones included: about half a minute of
/// processor time. A walk of [`WALK_ENTRIES`](crate::limits::WALK_ENTRIES) paths of 60 bytes can
/// have 5,000 rules without a wildcard, or 300 with one.
const IGNORE_WORK: u64 = 32_000_000_000;

/// The work for each name, whatever the rules are: a walk can look at ten million.
const IGNORE_NAME: u64 = IGNORE_WORK / 10_000_000;

/// The weight of a name without a wildcard, or of a file extension.
const IGNORE_LOOK_UP: u64 = 1;

/// The weight of a rule with another wildcard. With several, each byte of it has this weight.
const IGNORE_WILDCARD: u64 = 16;

/// The maximum [size] of the regular expressions of a walk, summed over the files. At up to 32
/// bytes each, matching takes at most about 128 MiB. A file can have 450 rules of 12 bytes with
/// wildcards.
const IGNORE_SIZE: u64 = 4_000_000;
