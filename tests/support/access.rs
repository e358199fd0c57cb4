//! A naive program that decides what may be done at a place, as an oracle.
//!
//! It knows only the roots in force with their access and allowed directory, all allowed
//! directories, the patterns, the exempt names and prefixes of strings. It does no I/O, and follows
//! a path one name at a time. None of the guard's code is used.

use super::protected::{ascii_key, is_glob_match};

/// An allowed directory. A path is absolute, and `/` is the empty text.
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) path: String,
    pub(crate) is_writable: bool,
    pub(crate) is_always: bool,
    pub(crate) is_file: bool,
    /// An optional directory that does not exist.
    pub(crate) is_missing: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    pub(crate) is_denied: bool,
}

/// A root in force: its path, its allowed directory, and at most this access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) path: String,
    pub(crate) directory: Directory,
    pub(crate) is_writable: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) directories: Vec<Directory>,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) exempt: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Outside,
    Denied,
    Read,
    Write,
}

impl Policy {
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
        let consented = names(&root.directory.path).len();
        let matching = self.patterns.iter().filter(|it| self.counts(it, consented, place));
        match matching.map(|pattern| pattern.is_denied).max() {
            Some(true) => Outcome::Denied,
            None if root.is_writable => Outcome::Write,
            Some(false) | None => Outcome::Read,
        }
    }

    /// Whether a pattern matches names of a place, of which the last is below its allowed directory.
    fn counts(&self, pattern: &Pattern, consented: usize, place: &str) -> bool {
        let is_anchored = pattern.text.starts_with('/');
        let wanted = names(&pattern.text);
        let place = names(place);
        (consented + 1..=place.len()).any(|end| {
            let Some(start) = end.checked_sub(wanted.len()) else { return false };
            let is_equal = |(at, name): (usize, &&str)| match wanted[at] {
                last if at + 1 == wanted.len() => is_last_match(last, name),
                other => ascii_key(other) == ascii_key(name),
            };
            place[start..end].iter().enumerate().all(is_equal)
                && (!is_anchored || self.is_allowed(&place[..start]))
                && !self.exempt.iter().any(|exempt| exempt == place[end - 1])
        })
    }

    fn is_allowed(&self, path: &[&str]) -> bool {
        let key = |path: &[&str]| path.iter().map(|name| ascii_key(name)).collect::<Vec<_>>();
        self.directories.iter().any(|directory| key(&names(&directory.path)) == key(path))
    }

    /// The outcome of a request that starts at a place and goes on along these names and `..`. A
    /// denied place is not passed through.
    pub(crate) fn walk(&self, roots: &[Root], from: &str, path: &str) -> Outcome {
        let mut at = from.to_owned();
        for name in names(path) {
            if name == ".." {
                at.truncate(at.rfind('/').unwrap_or(0));
            } else {
                at = format!("{at}/{name}");
            }
            match self.access(roots, &at) {
                Outcome::Denied => return Outcome::Denied,
                Outcome::Outside if !roots.iter().any(|root| is_in(&root.path, &at)) => {
                    return Outcome::Outside;
                }
                _ => {}
            }
        }
        self.access(roots, &at)
    }

    /// The outcome of an absolute path: it starts at the innermost root that it names.
    pub(crate) fn decide(&self, roots: &[Root], place: &str) -> Outcome {
        let start = innermost(roots, place).map_or("", |root| &root.path);
        self.walk(roots, start, &place[start.len()..])
    }
}

fn is_last_match(wanted: &str, name: &str) -> bool {
    let lower = |text: &str| text.to_ascii_lowercase();
    is_glob_match(&ascii_key(wanted), &ascii_key(name))
        || wanted.contains(['*', '?']) && is_glob_match(&lower(wanted), &lower(name))
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
