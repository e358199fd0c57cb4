//! A naive matcher of protected names, as an oracle.
//!
//! It works on strings: it compares each pattern with each prefix of a path. The guard's code
//! for patterns and names is not used.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// What a pattern does with the names that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    ReadOnly,
    Denied,
}

/// Patterns, and the function that maps each name to the form in which names are compared.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) patterns: Vec<(String, Effect)>,
    pub(crate) key: fn(&str) -> String,
}

impl Rules {
    /// The strongest protection of a path, if all allowed directories are in force. Matches count if
    /// they end below the innermost one that encloses the path.
    pub(crate) fn effect(&self, allowed: &[PathBuf], path: &Path) -> Option<Effect> {
        let around = allowed.iter().filter(|allowed| path.starts_with(allowed));
        let innermost = around.max_by_key(|allowed| names(allowed).len())?;
        self.effect_below(allowed, innermost, path)
    }

    /// The strongest protection of a path by matches that end below one of the allowed directories.
    pub(crate) fn effect_below(
        &self,
        allowed: &[PathBuf],
        top: &Path,
        path: &Path,
    ) -> Option<Effect> {
        let consented = names(top).len();
        let names = names(path);
        let prefixes = (consented + 1..=names.len()).map(|end| &names[..end]);
        let effects = prefixes.flat_map(|prefix| {
            let matching = self.patterns.iter().filter(|it| self.is_match(allowed, &it.0, prefix));
            matching.map(|(_, effect)| *effect)
        });
        effects.max()
    }

    /// Whether a path is an allowed directory. Its names are compared like those of patterns.
    fn is_allowed(&self, allowed: &[PathBuf], path: &[String]) -> bool {
        let key = |path: &[String]| path.iter().map(|name| (self.key)(name)).collect::<Vec<_>>();
        allowed.iter().any(|allowed| key(&names(allowed)) == key(path))
    }

    /// Whether the last names of a path match the beginning of a pattern, which more names below
    /// the path could complete.
    pub(crate) fn begin_at(&self, allowed: &[PathBuf], path: &Path) -> bool {
        let path = names(path);
        let names: Vec<String> = path.iter().map(|name| (self.key)(name)).collect();
        self.patterns.iter().any(|(pattern, _)| {
            let of_pattern = pattern.strip_prefix('/');
            let is_anchored = of_pattern.is_some();
            let of_pattern = of_pattern.unwrap_or(pattern).split('/').map(self.key);
            let wanted: Vec<String> = of_pattern.collect();
            (1..wanted.len()).any(|matched| {
                names.ends_with(&wanted[..matched])
                    && (!is_anchored || self.is_allowed(allowed, &path[..path.len() - matched]))
            })
        })
    }

    /// Whether a pattern matches the last of these names.
    fn is_match(&self, allowed: &[PathBuf], pattern: &str, names: &[String]) -> bool {
        let (is_anchored, pattern) = match pattern.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let wanted: Vec<String> = pattern.split('/').map(self.key).collect();
        let Some(skipped) = names.len().checked_sub(wanted.len()) else { return false };
        let Some((last, others)) = wanted.split_last() else { return false };
        if is_anchored && !self.is_allowed(allowed, &names[..skipped]) {
            return false;
        }
        let (above, name) = names[skipped..].split_at(others.len());
        // A wildcard also matches what the key omits.
        let literal = pattern.rsplit('/').next().filter(|it| it.contains(['*', '?']));
        let lower = |text: &str| text.to_ascii_lowercase();
        above.iter().map(|name| (self.key)(name)).eq(others.iter().cloned())
            && (is_glob_match(last, &(self.key)(&name[0]))
                || literal.is_some_and(|it| is_glob_match(&lower(it), &lower(&name[0]))))
    }
}

fn names(path: &Path) -> Vec<String> {
    let name = |component| match component {
        Component::RootDir => None,
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        other => panic!("{other:?} in {}", path.display()),
    };
    path.components().filter_map(name).collect()
}

/// Whether a glob with `*` and `?` matches a whole name. Computes how much of the name each part of
/// the glob can match, because trying all combinations would take too long.
pub(crate) fn is_glob_match(glob: &str, name: &str) -> bool {
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
