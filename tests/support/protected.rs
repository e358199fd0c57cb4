//! A naive matcher of protected names, as an oracle.
//!
//! It works on strings: it compares each pattern with each prefix of a path. The guard's code
//! for patterns and names is not used.

use std::collections::BTreeSet;
use std::path::{Component, Path};

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
    /// The strongest protection of a path, given the allowed directories that may enclose it.
    pub(crate) fn effect<'a>(
        &self,
        allowed: impl IntoIterator<Item = &'a Path>,
        path: &Path,
    ) -> Option<Effect> {
        let below = allowed.into_iter().filter_map(|allowed| self.below(allowed, path));
        below.filter_map(|relative| self.effect_below(relative)).max()
    }

    /// The rest of a path after an allowed directory. Its names are compared like those of patterns,
    /// because the filesystem of an enclosing directory could ignore the same differences.
    fn below<'a>(&self, allowed: &Path, path: &'a Path) -> Option<&'a Path> {
        let mut rest = path.components();
        let key = |component: Component<'_>| (self.key)(&component.as_os_str().to_string_lossy());
        let is_enclosing = allowed.components().all(|name| rest.next().map(key) == Some(key(name)));
        is_enclosing.then_some(rest.as_path())
    }

    /// The strongest protection of a path below one allowed directory. A path below a protected
    /// name is protected too.
    fn effect_below(&self, relative: &Path) -> Option<Effect> {
        let names: Vec<String> = relative
            .components()
            .map(|component| match component {
                Component::Normal(name) => name.to_string_lossy().into_owned(),
                other => panic!("{other:?} in {}", relative.display()),
            })
            .collect();
        let prefixes = (1..=names.len()).map(|end| &names[..end]);
        let effects = prefixes.flat_map(|prefix| {
            self.patterns
                .iter()
                .filter(|(pattern, _)| self.is_match(pattern, prefix))
                .map(|(_, effect)| *effect)
        });
        effects.max()
    }

    /// Whether the last names of a path match the beginning of a pattern, which more names below
    /// the path could complete.
    pub(crate) fn begin_at<'a>(
        &self,
        allowed: impl IntoIterator<Item = &'a Path>,
        path: &Path,
    ) -> bool {
        allowed.into_iter().filter_map(|allowed| self.below(allowed, path)).any(|relative| {
            let names: Vec<String> =
                relative.iter().map(|name| (self.key)(&name.to_string_lossy())).collect();
            self.patterns.iter().any(|(pattern, _)| {
                let of_pattern = pattern.strip_prefix('/');
                let is_anchored = of_pattern.is_some();
                let of_pattern = of_pattern.unwrap_or(pattern).split('/').map(self.key);
                let wanted: Vec<String> = of_pattern.collect();
                (1..wanted.len()).any(|matched| {
                    (!is_anchored || names.len() == matched) && names.ends_with(&wanted[..matched])
                })
            })
        })
    }

    /// Whether a pattern matches these names to the end.
    fn is_match(&self, pattern: &str, names: &[String]) -> bool {
        let (is_anchored, pattern) = match pattern.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let wanted: Vec<String> = pattern.split('/').map(self.key).collect();
        let Some(skipped) = names.len().checked_sub(wanted.len()) else { return false };
        let Some((last, others)) = wanted.split_last() else { return false };
        if is_anchored && skipped > 0 {
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
