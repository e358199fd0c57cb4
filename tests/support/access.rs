//! A naive program that decides what may be done at a place, as an oracle.
//!
//! It knows only the roots in force with their access and allowed directory, all allowed
//! directories, the patterns, the exempt names and prefixes of strings. It does no I/O, and the
//! naive [resolver](super::model) follows paths. None of the guard's code is used.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::model::{Name, decide_unless_denied};
use super::proof::Intent;
use super::protection::Protection;

/// An allowed directory. A path is absolute, and `/` is the empty text.
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) path: String,
    pub(crate) is_writable: bool,
    pub(crate) is_always: bool,
    pub(crate) is_file: bool,
    /// An optional directory that does not exist.
    pub(crate) is_missing: bool,
}

/// A root in force: its path, its allowed directory, and at most this access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) path: String,
    pub(crate) directory: Directory,
    pub(crate) is_writable: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) directories: Vec<Directory>,
    pub(crate) patterns: Vec<(String, Protection)>,
    pub(crate) exempt: Vec<String>,
    /// Maps each name to the form in which names are compared.
    pub(crate) key: fn(&str) -> String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Outside,
    Denied,
    Read,
    Write,
}

impl Policy {
    pub(crate) fn new(directories: Vec<Directory>) -> Self {
        Self { directories, patterns: Vec::new(), exempt: Vec::new(), key: ascii_key }
    }

    /// All of these directories are writable.
    pub(crate) fn writable<'a>(directories: impl IntoIterator<Item = &'a Path>) -> Self {
        let directory = |path: &Path| {
            let path = path.to_str().unwrap().to_owned();
            Directory { path, is_writable: true, ..Directory::default() }
        };
        Self::new(directories.into_iter().map(directory).collect())
    }

    /// The roots without a list.
    pub(crate) fn everything(&self) -> Vec<Root> {
        let root = |directory: &Directory| Root {
            path: directory.path.clone(),
            directory: directory.clone(),
            is_writable: directory.is_writable,
        };
        self.directories.iter().filter(|directory| !directory.is_missing).map(root).collect()
    }

    /// The roots in force while the client's list is not known.
    pub(crate) fn always(&self) -> Vec<Root> {
        self.everything().into_iter().filter(|root| root.directory.is_always).collect()
    }

    /// Adds the roots that are in force whatever the client lists.
    pub(crate) fn and_always(&self, mut roots: Vec<Root>) -> Vec<Root> {
        for root in self.always() {
            if roots.iter().all(|other| other.path != root.path) {
                roots.push(root);
            }
        }
        roots
    }

    /// What canonical places put in force out of a snapshot.
    pub(crate) fn narrow(&self, snapshot: &[Root], places: &[String]) -> Vec<Root> {
        let mut roots: Vec<Root> = Vec::new();
        let mut add = |root: Root| {
            if roots.iter().all(|other| other.path != root.path) {
                roots.push(root);
            }
        };
        for place in places {
            match (innermost(snapshot, place), self.access(snapshot, place)) {
                (Some(_), Outcome::Denied) => continue,
                (Some(outer), access) => add(Root {
                    path: place.clone(),
                    directory: outer.directory.clone(),
                    is_writable: access == Outcome::Write,
                }),
                (None, _) => {}
            }
            let below = |root: &&Root| is_in(&root.path, place) && root.path != *place;
            snapshot.iter().filter(below).cloned().for_each(&mut add);
        }
        roots
    }

    /// What may be done at a canonical place.
    pub(crate) fn access(&self, roots: &[Root], place: &str) -> Outcome {
        let Some(root) = innermost(roots, place) else { return Outcome::Outside };
        match self.protection_below(&root.directory.path, place) {
            Some(Protection::Denied) => Outcome::Denied,
            None if root.is_writable => Outcome::Write,
            Some(Protection::ReadOnly) | None => Outcome::Read,
        }
    }

    /// The strongest protection of a path if all directories are in force.
    pub(crate) fn protection(&self, path: &Path) -> Option<Protection> {
        let (roots, place) = (self.everything(), path.to_string_lossy());
        self.protection_below(&innermost(&roots, &place)?.path, &place)
    }

    /// The strongest protection of a place by matches that end below an allowed directory.
    pub(crate) fn protection_below(&self, directory: &str, place: &str) -> Option<Protection> {
        let (consented, place) = (names(directory).len(), names(place));
        let ends = consented + 1..=place.len();
        let protections = ends.filter_map(|end| {
            let matching = self.patterns.iter().filter(|it| self.is_match(&it.0, &place[..end]));
            matching.map(|(_, protection)| *protection).max()
        });
        protections.max()
    }

    /// Whether a pattern matches the last of these names.
    fn is_match(&self, pattern: &str, place: &[&str]) -> bool {
        let wanted = names(pattern);
        let Some(start) = place.len().checked_sub(wanted.len()) else { return false };
        let Some((last, others)) = wanted.split_last() else { return false };
        let (above, name) = (&place[start..place.len() - 1], place[place.len() - 1]);
        // A wildcard also matches what the key omits.
        let lower = |text: &str| text.to_ascii_lowercase();
        let is_last = is_glob_match(&(self.key)(last), &(self.key)(name))
            || last.contains(['*', '?']) && is_glob_match(&lower(last), &lower(name));
        let is_there = !pattern.starts_with('/') || self.is_allowed(&place[..start]);
        let is_exempt = self.exempt.iter().any(|exempt| exempt == name);
        is_last && is_there && !is_exempt && self.keys(above) == self.keys(others)
    }

    /// Whether the last names of a path match the beginning of a pattern, which more names below
    /// the path could complete.
    pub(crate) fn begins_pattern(&self, path: &Path) -> bool {
        let place = path.to_string_lossy();
        let place = names(&place);
        self.patterns.iter().any(|(pattern, _)| {
            let wanted = names(pattern);
            (1..wanted.len().min(place.len() + 1)).any(|matched| {
                let (above, last) = place.split_at(place.len() - matched);
                self.keys(last) == self.keys(&wanted[..matched])
                    && (!pattern.starts_with('/') || self.is_allowed(above))
            })
        })
    }

    /// Whether these names lead to an allowed directory.
    fn is_allowed(&self, path: &[&str]) -> bool {
        let is = |directory: &Directory| self.keys(&names(&directory.path)) == self.keys(path);
        self.directories.iter().any(is)
    }

    fn keys(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (self.key)(name)).collect()
    }

    /// The outcome of a path. An absolute one starts at the innermost root that it names, another
    /// one at the first root. A denied place is not passed through.
    pub(crate) fn decide(&self, roots: &[Root], path: &str) -> Outcome {
        let access =
            |place: &Path| self.access(roots, place.to_str().unwrap().trim_end_matches('/'));
        let is_denied = |place: &Path| access(place) == Outcome::Denied;
        let is_directory = |_: &Path| Name::Directory;
        let path = if path.is_empty() { "/" } else { path };
        match decide_unless_denied(is_directory, is_denied, &paths(roots), path, Intent::Existing) {
            Ok((place, _)) => access(&place),
            Err("protected") => Outcome::Denied,
            Err(_) => Outcome::Outside,
        }
    }

    /// The outcome of a relative path that starts at this root.
    pub(crate) fn walk(&self, roots: &[Root], from: &str, path: &str) -> Outcome {
        let mut roots = roots.to_vec();
        roots.sort_by_key(|root| root.path != from);
        self.decide(&roots, path)
    }
}

/// The paths of roots, as the resolver has them.
pub(crate) fn paths(roots: &[Root]) -> Vec<PathBuf> {
    roots.iter().map(|root| Path::new("/").join(&root.path)).collect()
}

/// The innermost root that contains a place, compared byte for byte.
pub(crate) fn innermost<'a>(roots: &'a [Root], place: &str) -> Option<&'a Root> {
    let contains = |root: &&Root| {
        if root.directory.is_file { root.path == place } else { is_in(place, &root.path) }
    };
    roots.iter().filter(contains).max_by_key(|root| root.path.len())
}

pub(crate) fn is_in(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn names(path: &str) -> Vec<&str> {
    path.split('/').filter(|name| !name.is_empty()).collect()
}

/// Whether a glob with `*` and `?` matches a whole name. Computes how much of the name each part of
/// the glob can match, because trying all combinations would take too long.
fn is_glob_match(glob: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let mut matched = BTreeSet::from([0]);
    for wanted in glob.chars() {
        let is_next = |at: &usize| name.get(*at).is_some_and(|&it| wanted == '?' || wanted == it);
        matched = match wanted {
            '*' => matched.first().map_or(0..0, |&first| first..name.len() + 1).collect(),
            _ => matched.into_iter().filter(is_next).map(|at| at + 1).collect(),
        };
    }
    matched.contains(&name.len())
}

/// The key of an ASCII name: its case and its trailing dots and spaces are ignored.
pub(crate) fn ascii_key(name: &str) -> String {
    name.to_ascii_lowercase().trim_end_matches(['.', ' ']).to_owned()
}
