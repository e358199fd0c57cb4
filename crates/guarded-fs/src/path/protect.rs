//! Protected names: patterns for names below the allowed directories that are read-only or denied.
//!
//! [`ProtectedNames`] compares the operator's patterns with canonical paths, by whole names in a
//! [folded](fold) form: all names are equal that any supported filesystem could treat as one. When
//! in doubt, a name matches.
//!
//! Whoever configures a directory consents to the names that lead to it. A match therefore counts
//! if its last name is below the allowed directory of the innermost root in force that contains the
//! place, wherever the match begins.
//!
//! # Attacks
//!
//! Whether a request names a place directly, through a symlink or an alias, or in any root, only
//! its canonical path is compared, missing names included. `docs/defenses.md` lists the attacks
//! that this stops, and those on read-only directories. Others are:
//!
//! | attack | defense |
//! | --- | --- |
//! | rename or remove a directory that contains `.git` at any depth | it is searched before anything changes; a removal also checks each name |
//! | list only `.git/hooks` as a client root, and write in it | a client root has the allowed directory in which it was resolved, above `.git` |
//! | change `.git` in an allowed directory inside a read-only name (`.codex/worktrees/x/.git`) | only the names that lead to the allowed directory are not compared |
//! | let that directory vanish, or omit it from the list, and write there | the innermost root in force is then the outer one, below which `.codex` counts |
//! | list a denied name as a client root | the entry puts nothing in force, not even an allowed directory below it |
//! | remove or move a directory that contains an allowed one, even a missing one | refused (`root_itself`) |

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use super::folded::{fold, fold_untrimmed, is_ignorable};
use super::names::components;
use crate::error::{Code, Error, Result};
use crate::limits::{NAME_BYTES, PATTERN_NAMES, PROTECTED_PATTERNS};

/// How matching names, and everything below them, are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Protection {
    /// [`BoundaryBuilder::protect`](crate::BoundaryBuilder::protect).
    ReadOnly,
    /// [`BoundaryBuilder::deny`](crate::BoundaryBuilder::deny).
    Denied,
}

/// The names that [`BoundaryBuilder::protect_defaults`](crate::BoundaryBuilder::protect_defaults)
/// makes read-only.
///
/// By changing one of them, a tool that can only edit files could cause a program to run later, or
/// change its own rules:
///
/// - `.git`, `.hg`, `.svn`, `.jj`, `.husky`: hooks, and settings that name programs
///   (`core.fsmonitor`, `core.sshCommand`, filters), which the next version control command runs.
///   In worktrees and submodules, `.git` is a file that names the actual directory. `.gitmodules`
///   names the repositories that the next update fetches.
/// - `.vscode`, `.idea`, `.zed`, `.devcontainer`: programs that an editor starts, such as tasks,
///   debuggers and containers.
/// - `.agents`, `.codex`, `.cursor`, `.gemini`, `.windsurf`, and parts of `.claude`: permissions,
///   hooks and instructions of coding agents. Codex also protects `.git`, `.codex` and `.agents`,
///   and Zed asks before its settings are edited. Clients work in `.claude/worktrees`, so not all
///   of `.claude` is protected.
/// - `.mcp.json`: the MCP servers that a client starts.
/// - `.github/workflows`, `.github/actions`: programs that run with the repository's secrets.
///   GitHub requires a separate permission for a token to change these files.
///
/// The list does not cover every way to run code. For example, git also treats a directory with the
/// entries `HEAD`, `objects` and `refs` as a repository, unless `safe.bareRepository` is `explicit`
/// in its configuration.
///
/// Source code, build scripts and files such as `AGENTS.md` are not included, because editing them
/// is the purpose of these tools. Neither are files with secrets, such as `.env`, because read-only
/// files can be read: [deny](crate::BoundaryBuilder::deny) them if no tool needs them.
pub const PROTECTED_DEFAULTS: &[&str] = &[
    ".git",
    ".gitmodules",
    ".hg",
    ".svn",
    ".jj",
    ".husky",
    ".vscode",
    ".idea",
    ".zed",
    ".devcontainer",
    ".agents",
    ".claude/agents",
    ".claude/commands",
    ".claude/hooks",
    ".claude/plugins",
    ".claude/settings*.json",
    ".claude/skills",
    ".codex",
    ".cursor",
    ".gemini",
    ".windsurf",
    ".mcp.json",
    ".github/actions",
    ".github/workflows",
];

/// The operator's patterns, and the allowed directories below which they match.
#[derive(Debug)]
pub(crate) struct ProtectedNames {
    patterns: Vec<Pattern>,
    can_deny: bool,
    /// For each ASCII byte, whether the first name of a match can begin with it.
    first_bytes: [bool; 128],
    /// The number of names in the longest pattern.
    longest: usize,
    /// The allowed directories, directly below which anchored patterns match.
    directories: FoldedPaths,
}

#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// As the operator wrote it.
    pub(crate) text: Box<str>,
    is_anchored: bool,
    /// The last one may contain wildcards.
    names: Vec<PatternName>,
    pub(crate) protection: Protection,
    /// The exempt names that the last name would match, compared byte for byte.
    exempt: Vec<OsString>,
}

#[derive(Clone, Debug)]
struct PatternName {
    folded: String,
    /// The name in lower case, if it contains wildcards, which also match what folding removes.
    lower: Option<String>,
}

impl PatternName {
    fn matches(&self, (folded, others): &(Cow<'_, str>, Vec<String>)) -> bool {
        let is_match = |lower: &String| {
            others.iter().any(|name| matches(&self.folded, name) || matches(lower, name))
        };
        matches(&self.folded, folded) || self.lower.as_ref().is_some_and(is_match)
    }
}

/// A name in folded form and, if that differs, in the forms compared only with wildcards: folded
/// except for its end, and in lower case, with invisible characters and without.
fn forms(name: &OsStr) -> (Cow<'_, str>, Vec<String>) {
    let folded = fold(name);
    if matches!(folded, Cow::Borrowed(_)) {
        return (folded, Vec::new());
    }
    let lower = lower(&name.to_string_lossy());
    let visible = lower.chars().filter(|character| !is_ignorable(*character)).collect();
    (folded, vec![fold_untrimmed(name).into_owned(), lower, visible])
}

/// In lower case, with as many characters, because `?` matches one.
fn lower(text: &str) -> String {
    let lower = |character: char| {
        let mut lower = character.to_lowercase();
        if lower.len() == 1 { lower.next().unwrap_or(character) } else { character }
    };
    text.chars().map(lower).collect()
}

impl Pattern {
    pub(crate) fn parse_all(
        patterns: &[(String, Protection)],
        exempt: &[OsString],
    ) -> Result<Vec<Self>> {
        let parse = |(number, (text, protection)): (usize, &(String, Protection))| {
            let parsed = if number < PROTECTED_PATTERNS {
                Self::parse(text, *protection)
            } else {
                Err("there are more than 1000 patterns")
            };
            parsed.map_err(|reason| {
                let option = match protection {
                    Protection::ReadOnly => "protect",
                    Protection::Denied => "deny",
                };
                Error::from(Code::InvalidPattern)
                    .with_text(reason)
                    .with_request(option, text.as_ref())
            })
        };
        let mut patterns: Vec<_> = patterns.iter().enumerate().map(parse).collect::<Result<_>>()?;
        for name in exempt {
            let is_name = components(name).map(|(name, _)| name).eq([&**name]);
            let forms = forms(name);
            let is_matched = |pattern: &&mut Self| {
                is_name && pattern.names.last().is_some_and(|last| last.matches(&forms))
            };
            let mut matched = patterns.iter_mut().filter(is_matched).peekable();
            if matched.peek().is_none() {
                let text = "no pattern for protected names matches this name: leave it out";
                return Err(Error::from(Code::InvalidPattern)
                    .with_text(text)
                    .with_request("exempt", name));
            }
            matched.for_each(|pattern| pattern.exempt.push(name.clone()));
        }
        Ok(patterns)
    }

    /// Whether a text is a valid pattern without wildcards.
    pub(crate) fn stands_for_itself(text: &str) -> bool {
        !text.contains(WILDCARDS) && Self::parse(text, Protection::ReadOnly).is_ok()
    }

    fn parse(text: &str, protection: Protection) -> std::result::Result<Self, &'static str> {
        let anchored = text.strip_prefix('/');
        let names: Vec<&str> = anchored.unwrap_or(text).split('/').collect();
        if names.len() > 1 && names.first() == Some(&"**") {
            return Err("a pattern matches at any depth: leave out \"**/\"");
        }
        if names.len() > PATTERN_NAMES {
            return Err("the pattern has more than 16 names");
        }
        if names.iter().rev().skip(1).any(|name| name.contains(WILDCARDS)) {
            return Err("only the last name of a pattern can contain * or ?");
        }
        let parse = |name: &&str| match *name {
            "" => Err("the pattern is empty, or contains an empty name"),
            "." | ".." => Err("the pattern contains . or .."),
            name if name.contains('\0') || cfg!(windows) && name.contains('\\') => {
                Err("the pattern contains a character that no name can contain")
            }
            name if name.len() > NAME_BYTES => {
                Err("a name in the pattern is longer than 255 bytes")
            }
            name => match fold(OsStr::new(name)) {
                folded if folded.is_empty() => {
                    Err("a name in the pattern contains only characters that are ignored")
                }
                folded => Ok(PatternName {
                    folded: folded.into_owned(),
                    lower: name.contains(WILDCARDS).then(|| lower(name)),
                }),
            },
        };
        let names = names.iter().map(parse).collect::<std::result::Result<_, _>>()?;
        Ok(Self {
            text: text.into(),
            is_anchored: anchored.is_some(),
            names,
            protection,
            exempt: Vec::new(),
        })
    }
}

impl ProtectedNames {
    pub(crate) fn new<'a>(
        patterns: &[Pattern],
        directories: impl Iterator<Item = &'a Path>,
    ) -> Option<Arc<Self>> {
        if patterns.is_empty() {
            return None;
        }
        // A pattern that begins with a wildcard or another letter matches names of any first byte.
        let begins_with = |pattern: &Pattern, byte: u8| {
            let first = pattern.names.first().and_then(|name| name.folded.bytes().next());
            first.is_none_or(|first| {
                first == byte || !first.is_ascii() || matches!(first, b'*' | b'?')
            })
        };
        let is_first = |byte: usize| {
            let byte = u8::try_from(byte).unwrap_or_default().to_ascii_lowercase();
            patterns.iter().any(|pattern| begins_with(pattern, byte))
        };
        Some(Arc::new(Self {
            can_deny: patterns.iter().any(|pattern| pattern.protection == Protection::Denied),
            first_bytes: std::array::from_fn(is_first),
            longest: patterns.iter().map(|pattern| pattern.names.len()).max().unwrap_or(0),
            patterns: patterns.to_vec(),
            directories: FoldedPaths::new(directories),
        }))
    }

    pub(crate) fn can_deny(&self) -> bool {
        self.can_deny
    }

    /// The strongest pattern that matches a place, given as parts of its canonical path. The first
    /// `consented` names lead to the allowed directory of its root: a match counts if it ends
    /// later.
    pub(crate) fn of(&self, place: &[&Path], consented: usize) -> Option<&Pattern> {
        // Defense: Only the names that lead to a configured directory are not protected.
        self.strongest(place, consented, |end, length| end <= length)
    }

    /// The strongest pattern with a match that ends at one of the last `names` names of a place,
    /// below its allowed directory, which `is_below` decides by the number of names up to there.
    /// Earlier names are known not to be denied, because a path is entered name by name.
    pub(crate) fn of_last_names(
        &self,
        place: &[&Path],
        names: usize,
        is_below: impl Fn(usize) -> bool,
    ) -> Option<&Pattern> {
        let before = names_of(place).count().saturating_sub(names);
        self.strongest(place, before, |end, length| end <= length && is_below(end))
    }

    /// Whether [`of_last_names`](Self::of_last_names) denies one of the names.
    pub(crate) fn denies_last_names(
        &self,
        place: &[&Path],
        names: usize,
        is_below: impl Fn(usize) -> bool,
    ) -> bool {
        let found = self.can_deny.then(|| self.of_last_names(place, names, is_below)).flatten();
        found.is_some_and(|pattern| pattern.protection == Protection::Denied)
    }

    /// Whether the place begins a pattern that names below it could complete: `.github`, for the
    /// pattern `.github/workflows`.
    pub(crate) fn begin_at(&self, place: &[&Path]) -> bool {
        self.strongest(place, names_of(place).count(), |end, length| end > length).is_some()
    }

    /// The strongest pattern with a match that ends more than `after` names after the beginning of
    /// the path. Only names on the path are compared. `is_counted` gets the number of names up to
    /// the end of the match, and of the path.
    fn strongest(
        &self,
        place: &[&Path],
        after: usize,
        is_counted: impl Fn(usize, usize) -> bool,
    ) -> Option<&Pattern> {
        if !self.may_match(place, after) {
            return None;
        }
        let names: Vec<&OsStr> = names_of(place).collect();
        let directories = OnceCell::new();
        let directories = || directories.get_or_init(|| self.directories.above(&names));
        let earliest = self.earliest(after);
        let mut strongest: Option<&Pattern> = None;
        // A name is folded only if it is compared, and once.
        let compared = names.get(earliest..).unwrap_or_default().iter();
        let folded: Vec<_> = compared.map(|name| (*name, OnceCell::new())).collect();
        let is_match = |wanted: &PatternName, at: usize| match folded.get(at - earliest) {
            Some((name, folded)) => wanted.matches(folded.get_or_init(|| forms(name))),
            None => true,
        };
        let is_exempt = |pattern: &Pattern, end: usize| {
            let last = names.get(end - 1);
            // Defense: A name is exempt only if it is equal byte for byte.
            pattern.exempt.iter().any(|exempt| last.is_some_and(|last| last == exempt))
        };
        let starts = names.iter().enumerate().skip(earliest);
        for (start, _) in starts.filter(|(_, name)| self.may_begin(name)) {
            for pattern in &self.patterns {
                let end = start + pattern.names.len();
                let is_match = end > after
                    && is_counted(end, names.len())
                    && (!pattern.is_anchored || directories().contains(&start))
                    && !is_exempt(pattern, end)
                    && pattern.names.iter().zip(start..).all(|(wanted, at)| is_match(wanted, at));
                if is_match && strongest.is_none_or(|it| it.protection < pattern.protection) {
                    strongest = Some(pattern);
                }
            }
        }
        strongest
    }

    /// The first place where a match can begin that ends after the first `after` names.
    fn earliest(&self, after: usize) -> usize {
        (after + 1).saturating_sub(self.longest)
    }

    /// A quick test, which few paths pass: whether a match can end after the first `after` names of
    /// a path, which may contain `.` and `..`.
    pub(crate) fn may_match(&self, place: &[&Path], after: usize) -> bool {
        names_of(place).skip(self.earliest(after)).any(|name| self.may_begin(name))
    }

    fn may_begin(&self, name: &OsStr) -> bool {
        let first = name.as_encoded_bytes().first().copied().unwrap_or_default();
        !first.is_ascii() || self.first_bytes.get(usize::from(first)) != Some(&false)
    }
}

/// Paths that are compared in folded form, like the names of patterns.
#[derive(Debug)]
pub(crate) struct FoldedPaths {
    paths: HashSet<String>,
    /// The number of names in the longest path.
    deepest: usize,
}

impl FoldedPaths {
    pub(crate) fn new<'a>(paths: impl Iterator<Item = &'a Path>) -> Self {
        let mut deepest = 0;
        let folded = |path: &Path| {
            let names: Vec<_> = names_of(&[path]).map(fold).collect();
            deepest = deepest.max(names.len());
            names.join("/")
        };
        let paths = paths.map(folded).collect();
        Self { paths, deepest }
    }

    /// Whether one of these paths is this one or encloses it.
    pub(crate) fn enclose(&self, path: &Path) -> bool {
        !self.above(&names_of(&[path]).collect::<Vec<_>>()).is_empty()
    }

    /// The number of names in each path that is or encloses this one, in ascending order.
    fn above(&self, names: &[&OsStr]) -> Vec<usize> {
        let mut path = String::new();
        let mut depths = Vec::from_iter(self.paths.contains("").then_some(0));
        for (number, name) in names.iter().enumerate().take(self.deepest) {
            path.push_str(if number == 0 { "" } else { "/" });
            // In doubt, a directory is the one that is writable.
            path.push_str(&fold(name));
            depths.extend(self.paths.contains(&path).then_some(number + 1));
        }
        depths
    }
}

fn names_of<'a>(place: &[&'a Path]) -> impl Iterator<Item = &'a OsStr> {
    place.iter().flat_map(|part| components(part.as_os_str())).map(|(name, _)| name)
}

impl Protection {
    pub(crate) fn refusal(self) -> Error {
        match self {
            Self::ReadOnly => Code::Protected.into(),
            Self::Denied => Error::from(Code::Protected)
                .with_text("protected: the server allows no access to it"),
        }
    }
}

/// Whether a path contains the name of a write's temporary file
/// ([`temporary_name`](crate::dir::temporary_name)).
pub(crate) fn has_temporary_name(path: &OsStr) -> bool {
    const TEMPORARY: &str = ".guarded-fs-????????????????.tmp";
    let is_temporary =
        |name: &OsStr| name.len() >= TEMPORARY.len() && matches(TEMPORARY, &fold(name));
    // This is a quick test, which most paths do not pass.
    let may_have = path.len() >= TEMPORARY.len() && path.as_encoded_bytes().contains(&b'-');
    may_have && components(path).any(|(name, _)| is_temporary(name))
}

/// Whether a folded name matches a folded pattern, in which `*` is any number of characters, and
/// `?` one.
fn matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    // What follows the last `*`, and the first characters of the name that can match it.
    let mut again = None;
    loop {
        let rest = name.clone();
        match (pattern.next(), name.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                name = rest;
                again = Some((pattern.clone(), name.clone()));
            }
            (Some(wanted), Some(one)) if wanted == '?' || wanted == one => {}
            _ => {
                // The last `*` matches one more character.
                let Some((after, from)) = &mut again else { return false };
                if from.next().is_none() {
                    return false;
                }
                (pattern, name) = (after.clone(), from.clone());
            }
        }
    }
}

const WILDCARDS: [char; 2] = ['*', '?'];

#[cfg(test)]
mod tests {
    use super::Protection::{Denied, ReadOnly};
    use super::*;

    fn parsed(patterns: &[(&str, Protection)]) -> Vec<Pattern> {
        let patterns: Vec<_> =
            patterns.iter().map(|(text, protection)| ((*text).into(), *protection)).collect();
        Pattern::parse_all(&patterns, &[]).unwrap()
    }

    fn names(patterns: &[(&str, Protection)]) -> Arc<ProtectedNames> {
        ProtectedNames::new(&parsed(patterns), std::iter::once(Path::new("/"))).unwrap()
    }

    fn at(patterns: &[(&str, Protection)], path: &str) -> Option<Protection> {
        protection(&names(patterns), &[Path::new("/"), Path::new(path)], 0)
    }

    fn protection(names: &ProtectedNames, place: &[&Path], consented: usize) -> Option<Protection> {
        names.of(place, consented).map(|pattern| pattern.protection)
    }

    #[test]
    fn pattern_matches_whole_names_at_and_below_its_place() {
        let rows = [
            (".git", ".git", true),
            (".git", "a/b/.git/hooks/x", true),
            (".git", ".gitignore", false),
            (".git", "git", false),
            ("/secrets", "secrets/a", true),
            ("/secrets", "a/secrets", false),
            (".github/workflows", "a/.github/workflows/x.yml", true),
            (".github/workflows", ".github/x/workflows", false),
            (".github/workflows", ".github", false),
            (".github/workflows", ".github/.github/workflows", true),
            ("a/a/b", "a/a/a/b", true),
            ("/a/b", "a/a/b", false),
            (".env*", ".env", true),
            (".env*", "a/.env.local/b", true),
            (".env*", ".en", false),
            // Literally, although what a filesystem could ignore is removed first.
            (".*", "...", true),
            (".env.*", ".ENV.", true),
            ("*.*", "x. ", true),
            ("a?", "a.", true),
            ("?.key", "\u{df}.key", true),
            ("?.key", "\u{130}.key", true),
            ("?.key", "\u{ad}.key", true),
            (".*", "\u{200b}...", true),
            ("\u{df}.?", "\u{df}.\u{df}", true),
            ("secrets.*", "\u{17f}ecrets.", true),
            ("caf\u{e9}.*", "cafe\u{301}.", true),
            ("cafe\u{301}.*", "caf\u{e9}.", true),
            (".env.*", ".\u{ff45}nv.", true),
            ("a?", "a. ", false),
            ("?", "a", true),
            ("?", "ab", false),
            ("?", "\u{e4}", true),
            ("?", "\u{d55c}", true),
            ("?", "a\u{308}b", false),
            ("*.pem", "k.PEM", true),
            ("*a*b", "xaayb", true),
            ("*a*b", "xaaybc", false),
            ("a/*.json", "a/x.json", true),
            ("a/*.json", "b/x.json", false),
            ("*", "anything", true),
            ("**", "anything", true),
            ("[a-z]", "b", false),
            ("{a,b}", "{A,B}", true),
        ];
        for (pattern, path, matches) in rows {
            let expected = matches.then_some(ReadOnly);
            assert_eq!(at(&[(pattern, ReadOnly)], path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn exempt_name_is_exempt_itself_and_nothing_else() {
        let patterns = [(".env*", Denied), (".git", ReadOnly), ("a/b*", ReadOnly)]
            .map(|(text, protection)| (text.to_owned(), protection));
        let parse = |exempt: &[&str]| {
            let exempt: Vec<_> = exempt.iter().map(OsString::from).collect();
            Pattern::parse_all(&patterns, &exempt)
        };
        let parsed = parse(&[".env.example", ".git", "b.c"]).unwrap();
        let names = ProtectedNames::new(&parsed, [Path::new("/")].into_iter()).unwrap();
        for (path, expected) in [
            (".env.example", None),
            ("a/.env.example/x", None),
            (".ENV.EXAMPLE", Some(Denied)),
            (".env.example.", Some(Denied)),
            (".env.example/.env", Some(Denied)),
            (".env.example/.env.example", None),
            (".env/.env.example", Some(Denied)),
            (".git/config", None),
            (".GIT/config", Some(ReadOnly)),
            ("a/b.c", None),
            ("a/b.d", Some(ReadOnly)),
            ("a/b.d/a/b.c", Some(ReadOnly)),
        ] {
            let place = [Path::new("/"), Path::new(path)];
            assert_eq!(protection(&names, &place, 0), expected, "{path}");
        }
        for unused in ["", ".", "other", "a/b.c", ".env.example/", "/.git", "env.example"] {
            let error = parse(&[".git", unused]).unwrap_err();
            assert_eq!(error.reason(), Code::InvalidPattern, "{unused}");
            assert!(error.to_string().contains(&format!("exempt {unused:?}: ")), "{error}");
        }
    }

    #[test]
    fn wildcards_match_as_a_naive_matcher_does() {
        fn naive(pattern: &[u8], name: &[u8]) -> bool {
            match (pattern.split_first(), name.split_first()) {
                (None, _) => name.is_empty(),
                (Some((b'*', rest)), _) => (0..=name.len()).any(|at| naive(rest, &name[at..])),
                (Some((one, rest)), Some((other, after))) => {
                    (*one == b'?' || one == other) && naive(rest, after)
                }
                (Some(_), None) => false,
            }
        }
        let texts = |letters: &str| {
            let mut texts = vec![String::new()];
            for length in 0..4 {
                let longer = texts.iter().filter(|text| text.len() == length);
                let longer =
                    longer.flat_map(|text| letters.chars().map(move |c| format!("{text}{c}")));
                texts.extend(longer.collect::<Vec<_>>());
            }
            texts
        };
        let names = texts("ab");
        for pattern in texts("ab*?") {
            for name in &names {
                let expected = naive(pattern.as_bytes(), name.as_bytes());
                assert_eq!(matches(&pattern, name), expected, "{pattern:?} {name:?}");
            }
        }
    }

    #[test]
    fn names_are_equal_if_a_filesystem_could_treat_them_as_one() {
        let rows = [
            (".GIT", true),
            (".git.", true),
            (".git. .", true),
            (".g\u{200c}it", true),
            ("\u{feff}.git\u{e0020}", true),
            (".g\u{131}t", true),
            (".git\u{301}", false),
            // Compatibility forms are equal on ZFS (`normalization=formKC`).
            (".\u{ff47}it", true),
            (".git\u{a0}", true),
            (" .git", false),
            (".g\u{456}t", false),
        ];
        for (name, is_equal) in rows {
            let found = at(&[(".git", ReadOnly)], name);
            assert_eq!(found.is_some(), is_equal, "{name:?}");
        }
        assert_eq!(at(&[("caf\u{e9}", Denied)], "CAFE\u{301}"), Some(Denied));
        assert_eq!(at(&[("stra\u{df}e", Denied)], "STRASSE."), Some(Denied));
        assert_eq!(at(&[("k", Denied)], "\u{212a}"), Some(Denied));
    }

    #[cfg(unix)]
    #[test]
    fn name_that_is_not_utf8_is_compared_with_replacement_characters() {
        use std::os::unix::ffi::OsStrExt as _;
        let is_denied = |name| {
            let place = [Path::new("/"), Path::new(OsStr::from_bytes(name))];
            names(&[("a?", Denied)]).denies_last_names(&place, 1, |_| true)
        };
        assert!(is_denied(b"A\xff"));
        assert!(!is_denied(b"\xffA"));
    }

    #[test]
    fn strongest_protection_applies_at_and_below_a_name() {
        let patterns = [("a", ReadOnly), ("b", Denied), ("/a/c", Denied), ("b/a", ReadOnly)];
        let rows = [
            ("a", Some(ReadOnly)),
            ("a/x", Some(ReadOnly)),
            ("a/x/b", Some(Denied)),
            ("a/c/d", Some(Denied)),
            ("x/a/c", Some(ReadOnly)),
            ("b/a/c", Some(Denied)),
            ("x", None),
        ];
        for (path, expected) in rows {
            assert_eq!(at(&patterns, path), expected, "{path}");
        }
    }

    #[test]
    fn a_match_counts_if_its_last_name_is_below_the_allowed_directory() {
        let patterns = parsed(&[("/s/t", ReadOnly), ("n", Denied), ("m/l", ReadOnly)]);
        let directories = ["/r/n", "/r", "/r/a/b", "/q/n/x", "/r-x"].map(Path::new);
        let protected = ProtectedNames::new(&patterns, directories.iter().copied()).unwrap();
        let rows = [
            // An anchored pattern matches directly below each allowed directory.
            ("/r/s/t/u", 1, Some(ReadOnly)),
            ("/r/a/s/t", 1, None),
            ("/r/a/b/s/t", 3, Some(ReadOnly)),
            ("/r/a/b/s/t", 1, Some(ReadOnly)),
            ("/R/A/B/S/T", 1, Some(ReadOnly)),
            ("/r/a/b/c/s/t", 3, None),
            ("/s/t", 0, None),
            ("/q/n/x/s/t", 3, Some(ReadOnly)),
            ("/r-x/a/b/s/t", 1, None),
            // Only the names that lead to the directory are consented.
            ("/r/n", 1, Some(Denied)),
            ("/r/n", 2, None),
            ("/r/n/x", 2, None),
            ("/r/n/n", 2, Some(Denied)),
            ("/q/n/x", 3, None),
            ("/q/n/x/n", 3, Some(Denied)),
            ("/q/n/s/t", 1, Some(Denied)),
            // A match can begin above the directory.
            ("/r/m/l/x", 1, Some(ReadOnly)),
            ("/r/m/l/x", 2, Some(ReadOnly)),
            ("/r/m/l/x", 3, None),
            ("/m/l", 2, None),
        ];
        for (path, consented, expected) in rows {
            let found = protection(&protected, &[Path::new(path)], consented);
            assert_eq!(found, expected, "{path} {consented}");
        }
        let denies = |path, names| {
            let is_below = |end| if end < 3 { end > 1 } else { end > 3 };
            protected.denies_last_names(&[Path::new(path)], names, is_below)
        };
        // Each name is compared as the last one of the place that it leads to.
        let found = ["/r/n/n", "/r/n/x", "/r/x/n", "/r/x/n/n"].map(|path| denies(path, 9));
        assert_eq!(found, [true, true, false, true]);
        assert_eq!([denies("/r/n/x/y", 1), denies("/r/n/x/y", 2)], [false, false]);
    }

    #[test]
    fn folded_paths_enclose_what_a_filesystem_could_find_in_them() {
        let paths = FoldedPaths::new(["/r/A", "/stra\u{df}e"].map(Path::new).into_iter());
        for (path, expected) in [
            ("/r/a", true),
            ("/R/a/b", true),
            ("/r/A./b", true),
            ("/r", false),
            ("/r/ab", false),
            ("/STRASSE/x", true),
            ("/", false),
        ] {
            assert_eq!(paths.enclose(Path::new(path)), expected, "{path}");
        }
        assert!(FoldedPaths::new(std::iter::once(Path::new("/"))).enclose(Path::new("/a")));
        assert!(!FoldedPaths::new(std::iter::empty()).enclose(Path::new("/")));
    }

    #[test]
    fn a_pattern_begins_where_more_names_could_complete_it() {
        let rows = [
            ("a", true),
            ("x/a", false),
            ("a/b", false),
            ("c", true),
            ("x/C.", true),
            ("c/d", true),
            ("c/d/e", false),
            ("c/x", false),
            ("d", false),
            ("f", false),
        ];
        let protected = names(&[("/a/b", Denied), ("c/d/e*", ReadOnly), ("f", ReadOnly)]);
        for (path, expected) in rows {
            assert_eq!(protected.begin_at(&[Path::new("/"), Path::new(path)]), expected, "{path}");
        }
    }

    #[test]
    fn name_of_a_temporary_file_is_recognized_in_every_form() {
        let name = crate::dir::temporary_name().into_string().unwrap();
        for (name, expected) in [
            (name.clone(), true),
            (name.to_uppercase(), true),
            (format!("\u{200b}{name}."), true),
            (format!("x{name}"), false),
            (name.replace(".tmp", "0.tmp"), false),
        ] {
            assert_eq!(has_temporary_name(OsStr::new(&name)), expected, "{name:?}");
            let below = format!("a/{name}/b");
            assert_eq!(has_temporary_name(OsStr::new(&below)), expected, "{below:?}");
        }
    }

    #[test]
    fn invalid_pattern_is_refused_with_its_text() {
        let long = "n".repeat(256);
        let many = vec!["a"; 17].join("/");
        let rows = [
            "", "/", "//a", "a//b", "a/", ".", "a/../b", "a/.", "*/a", "a?/b", "a\0", "...",
            "\u{200b}", &long, &many,
        ];
        for pattern in rows {
            let error = Pattern::parse_all(&[(pattern.into(), Denied)], &[]).unwrap_err();
            assert_eq!(error.reason(), Code::InvalidPattern, "{pattern:?}");
        }
        let error = Pattern::parse_all(&[("a//b".into(), Denied)], &[]).unwrap_err();
        let text = r#"deny "a//b": the pattern is empty, or contains an empty name"#;
        assert_eq!(error.to_string(), text);
        let count = |count| Pattern::parse_all(&vec![("a".into(), Denied); count], &[]).is_ok();
        assert_eq!((count(1_000), count(1_001)), (true, false));
        assert!(Pattern::parse_all(&[(vec!["a"; 16].join("/"), Denied)], &[]).is_ok());
        let defaults: Vec<_> =
            PROTECTED_DEFAULTS.iter().map(|&name| (name.into(), ReadOnly)).collect();
        assert!(Pattern::parse_all(&defaults, &[]).is_ok());
    }
}
