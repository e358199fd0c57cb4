//! Protected names: patterns for names that are read-only or hidden below the allowed directories.
//!
//! A [`Patterns`] is the operator's list of patterns. It is compiled, together with the canonical
//! paths of the allowed directories, into an [`Automaton`]. A [`Protected`] is the automaton's
//! state at one place, and each root stores the state at its own canonical path. A step by a name
//! returns the state at the entry with that name. A state contains the strongest protection on the
//! path so far, which never weakens below that place, and the partially matched patterns.
//!
//! This module matches names and does no I/O. It compares each name by [`key`], so that a name is
//! protected if any supported filesystem could treat it as equal to a protected name. When in
//! doubt, a name matches.
//!
//! # Attacks
//!
//! Each attack is refused, whether the request names the place directly, through a symlink, through
//! an alias, in a nested root or client root, in a root that is the protected file or directory
//! itself, or in a snapshot that was narrowed to a directory at or below it. All of these resolve
//! to one canonical path, and the state at that path does not depend on how it was named.
//!
//! | attack on a read-only name `.git` | defense |
//! | --- | --- |
//! | write, append, truncate, or open for writing `.git/config` | `CheckedPath::ensure_writable` steps through the whole canonical path |
//! | create `.git`, `.git/hooks/x`, or `new/.git/x` with its missing parents | the same, because missing names are part of the path |
//! | write `.GIT/config`, `.git./config` or `.g\u{200c}it/config`, which a filesystem could treat as `.git/config` | names are compared by [`key`] |
//! | remove or rename `.git` or an entry in it, or replace either by a rename | `ensure_writable`, for source and destination |
//! | rename a directory to `.git`, or `.git` to another name | the same |
//! | rename `x` to `.github`, if `.github/workflows` is protected and `x/workflows` exists; or `.github` to `x` | the states of source and destination must be equal |
//! | rename or remove a directory that contains `.git` at any depth | the directory is searched before anything changes; a removal also checks each name |
//! | rename the parent directory to `.git` while a file is written in it | the write verifies that the directory is still at its path, before the file is put in place |
//! | list only `.git/hooks` as a client root, and write in it | the root holds the state at its own path |
//!
//! | attack on a hidden name `.env` | defense |
//! | --- | --- |
//! | read, list, describe or change `.env` or anything below it | the resolver refuses the name as outside, before it is looked up |
//! | learn whether `.env` exists, from `.env/..`, `.env/../a`, a symlink to it, a missing name in it, or a name after it | the same at every step, and the refusal is identical to the one for a place outside |
//! | let the kernel follow a symlink into it | if names can be hidden, the kernel does not follow symlinks, and receives only paths without hidden names |
//! | find its name in a listing or a walk | hidden entries are omitted and do not count towards any limit |
//! | list it as a client root | the entry is rejected as outside |
//! | remove its directory recursively | the removal leaves it in place, and ends with `directory_not_empty` |
//! | rename its directory so that an anchored or longer pattern no longer matches | the states of source and destination must be equal |

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::names::{components, path_key};
use crate::error::{Code, Error, Result};
use crate::limits::{NAME_BYTES, PATTERN_NAMES, PROTECTED_PATTERNS};

/// How the names that match a pattern are protected
/// ([`BoundaryBuilder::protect`](crate::BoundaryBuilder::protect)). The protection also applies to
/// everything below such a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protection {
    /// Reading, listing and describing are allowed. Every change is refused
    /// ([`ReadOnly`](crate::ErrorKind::ReadOnly): `protected`).
    ReadOnly,
    /// Every request is refused as if the name were outside the allowed directories
    /// ([`OutsideRoots`](crate::ErrorKind::OutsideRoots)), whether or not it exists. Listings and
    /// walks omit the name.
    Hidden,
}

/// The names that
/// [`BoundaryBuilder::protect_defaults`](crate::BoundaryBuilder::protect_defaults) makes read-only.
///
/// By changing any of them, a tool that can only edit files could cause a program to run later, or
/// change its own rules:
///
/// - `.git`, `.hg`, `.svn`, `.jj`, `.husky`: hooks, and settings that name programs
///   (`core.fsmonitor`, `core.sshCommand`, filters), which the next version control command runs.
///   In worktrees and submodules, `.git` is a file that names the actual directory. `.gitmodules`
///   names the repositories that the next update fetches.
/// - `.vscode`, `.idea`, `.zed`, `.devcontainer`: tasks, debuggers and containers that an editor
///   starts, and the programs that it uses.
/// - `.agents`, `.codex`, `.cursor`, `.gemini`, `.windsurf`, and parts of `.claude`: permissions,
///   hooks and instructions of coding agents. Codex also protects `.git`, `.codex` and `.agents`,
///   and Zed asks before its settings are edited. `.claude` is not protected as a whole, because
///   Claude Code creates worktrees in `.claude/worktrees`, and clients work in them.
/// - `.mcp.json`: the MCP servers that a client starts.
/// - `.github/workflows`, `.github/actions`: programs that run with the repository's secrets. GitHub requires a
///   separate permission for a token to change these files.
///
/// Clients cannot change anything inside one of these directories, for example in a worktree in
/// `.codex`. The list does not cover every way to run code. For example, git also treats a
/// directory with the entries `HEAD`, `objects` and `refs` as a repository, unless
/// `safe.bareRepository` is `explicit` in its configuration.
///
/// Source code, build scripts and files such as `AGENTS.md` are not included, because editing them
/// is the purpose of these tools. Files with secrets, such as `.env`, are not included either,
/// because read-only protection does not prevent reading. Hide them if no tool needs them.
pub const PROTECTED_DEFAULTS: [&str; 24] = [
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

/// Valid patterns, each with its protection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns(Vec<Pattern>);

#[derive(Clone, Debug)]
struct Pattern {
    is_anchored: bool,
    /// The keys of all names except the last.
    parents: Vec<String>,
    /// The key of the last name, which may contain wildcards.
    last: String,
    protection: Protection,
}

impl Patterns {
    /// Parses patterns.
    ///
    /// # Errors
    ///
    /// [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`invalid_pattern`) if a
    /// pattern is invalid. The error names the pattern.
    pub(crate) fn parse(patterns: &[(String, Protection)]) -> Result<Self> {
        let parse = |(number, (text, protection)): (usize, &(String, Protection))| {
            let parsed = if number < PROTECTED_PATTERNS {
                Pattern::parse(text, *protection)
            } else {
                Err("there are more than 1000 patterns")
            };
            parsed.map_err(|reason| {
                Error::new(Code::InvalidPattern).says(reason).at("protect", text.as_ref())
            })
        };
        Ok(Self(patterns.iter().enumerate().map(parse).collect::<Result<_>>()?))
    }

    /// Returns the state at `/` or at a volume, as if it were the only allowed directory.
    pub(crate) fn at_filesystem_root(&self) -> Protected {
        self.at_directories(&[Path::new("")]).pop().unwrap_or_default()
    }

    /// Returns the state at each allowed directory. `directories` must contain the canonical paths
    /// of all of them, because the patterns of a directory also match in the directories nested in
    /// it.
    pub(crate) fn at_directories(&self, directories: &[&Path]) -> Vec<Protected> {
        let mut states = vec![Protected::default(); directories.len()];
        if self.0.is_empty() {
            return states;
        }
        let mut automaton = Automaton::new(&self.0);
        let has_anchored = self.0.iter().any(|pattern| pattern.is_anchored);
        // After sorting, each directory is followed by the directories inside it.
        let mut order: Vec<_> = directories.iter().map(|path| path_key(path)).enumerate().collect();
        order.sort_by(|(_, one), (_, other)| one.cmp(other));
        let mut outermost: Option<(&Path, usize, NodeId)> = None;
        let mut starts = Vec::with_capacity(order.len());
        for (number, path) in &order {
            match outermost {
                Some((outer, start, node)) if path.starts_with(outer) => {
                    let rest = path.strip_prefix(outer).unwrap_or(path);
                    if has_anchored && !rest.as_os_str().is_empty() {
                        automaton.add_directory(node, rest);
                    }
                    starts.push((*number, start, node));
                }
                _ => {
                    let node = automaton.add_node();
                    outermost = Some((path, *number, node));
                    starts.push((*number, *number, node));
                }
            }
        }
        let automaton = Arc::new(automaton);
        for (number, outer, node) in starts {
            let start = Protected::new(automaton.clone(), automaton.start(node));
            let names = |number: usize| directories.get(number).copied().unwrap_or(Path::new(""));
            // The names come from the directory's original path, because `order` contains keys.
            let depth = components(names(outer).as_os_str()).count();
            let rest = components(names(number).as_os_str()).skip(depth);
            let place = rest.fold(start, |place, (name, _)| place.child(name));
            if let Some(state) = states.get_mut(number) {
                *state = place;
            }
        }
        states
    }
}

impl Pattern {
    fn parse(text: &str, protection: Protection) -> std::result::Result<Self, &'static str> {
        let (is_anchored, names) = match text.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let names: Vec<&str> = names.split('/').collect();
        if names.len() > PATTERN_NAMES {
            return Err("the pattern has more than 16 names");
        }
        let (last, parents) = names.split_last().ok_or("the pattern is empty")?;
        if parents.iter().any(|name| name.contains(['*', '?'])) {
            return Err("only the last name of a pattern can contain * or ?");
        }
        let key = |name: &&str| match *name {
            "" => Err("the pattern is empty, or contains an empty name"),
            "." | ".." => Err("the pattern contains . or .."),
            name if name.contains('\0') || cfg!(windows) && name.contains('\\') => {
                Err("the pattern contains a character that no name can contain")
            }
            name if name.len() > NAME_BYTES => {
                Err("a name in the pattern is longer than 255 bytes")
            }
            name => match key(OsStr::new(name)) {
                key if key.is_empty() => {
                    Err("a name in the pattern contains only characters that are ignored")
                }
                key => Ok(key.into_owned()),
            },
        };
        let parents = parents.iter().map(key).collect::<std::result::Result<_, _>>()?;
        Ok(Self { is_anchored, parents, last: key(last)?, protection })
    }
}

/// The patterns as one tree of names, so that all of them are matched at once.
#[derive(Debug, PartialEq, Eq)]
struct Automaton {
    nodes: Vec<Node>,
    /// Whether any pattern hides names.
    hides: bool,
    /// Whether any pattern makes names read-only.
    protects: bool,
    /// The names that could match the first name of an unanchored pattern. For each lowercase first
    /// byte, there is a bit for each length. The last bit also stands for all greater lengths.
    filter: Box<[u64; 128]>,
}

type NodeId = u32;

/// A place in a pattern, after some of its names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Node {
    children: HashMap<Box<str>, NodeId>,
    /// The last names that contain wildcards.
    globs: Vec<(Box<str>, Protection)>,
    /// The protection of the name at this node.
    protection: Option<Protection>,
    /// Whether this is an allowed directory, at which anchored patterns begin.
    is_directory: bool,
}

/// The start of unanchored patterns, which can begin at any name.
const ANYWHERE: NodeId = 0;

/// The start of anchored patterns.
const ANCHORED: NodeId = 1;

impl Automaton {
    fn new(patterns: &[Pattern]) -> Self {
        let mut automaton = Self {
            nodes: vec![Node::default(), Node::default()],
            hides: patterns.iter().any(|pattern| pattern.protection == Protection::Hidden),
            protects: patterns.iter().any(|pattern| pattern.protection == Protection::ReadOnly),
            filter: Box::new([0; 128]),
        };
        for pattern in patterns {
            let start = if pattern.is_anchored { ANCHORED } else { ANYWHERE };
            let parent =
                pattern.parents.iter().fold(start, |node, name| automaton.child(node, name));
            let protection = Some(pattern.protection);
            if pattern.last.contains(['*', '?']) {
                if let Some(node) = automaton.nodes.get_mut(parent as usize) {
                    node.globs.push((pattern.last.as_str().into(), pattern.protection));
                }
            } else {
                let last = automaton.child(parent, &pattern.last);
                if let Some(node) = automaton.nodes.get_mut(last as usize) {
                    node.protection = node.protection.max(protection);
                }
            }
            if !pattern.is_anchored {
                automaton.add_to_filter(pattern.parents.first().unwrap_or(&pattern.last));
            }
        }
        automaton
    }

    fn add_node(&mut self) -> NodeId {
        self.nodes.push(Node::default());
        // Patterns and allowed directories have far fewer names than 2^32.
        NodeId::try_from(self.nodes.len() - 1).unwrap_or(NodeId::MAX)
    }

    /// Returns the child of a node, and creates it if it does not exist.
    fn child(&mut self, node: NodeId, name: &str) -> NodeId {
        let existing = self.nodes.get(node as usize).and_then(|node| node.children.get(name));
        if let Some(existing) = existing {
            return *existing;
        }
        let new = self.add_node();
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.children.insert(name.into(), new);
        }
        new
    }

    /// Adds an allowed directory at a path below the one that begins at `node`.
    fn add_directory(&mut self, node: NodeId, path: &Path) {
        let names = components(path.as_os_str());
        let last = names.fold(node, |node, (name, _)| self.child(node, &key(name)));
        if let Some(last) = self.nodes.get_mut(last as usize) {
            last.is_directory = true;
        }
    }

    fn add_to_filter(&mut self, name: &str) {
        let bit = |length: usize| 1 << length.min(63);
        match name.as_bytes() {
            [b'*' | b'?', ..] => self.filter.fill(u64::MAX),
            [first, ..] if name.contains(['*', '?']) => {
                if let Some(lengths) = self.filter.get_mut(usize::from(*first)) {
                    *lengths = u64::MAX;
                }
            }
            // `may_begin` does not use the filter for names that are not ASCII.
            [first, ..] => {
                if let Some(lengths) = self.filter.get_mut(usize::from(*first)) {
                    *lengths |= bit(name.len());
                }
            }
            [] => {}
        }
    }

    /// The state at an allowed directory. The tree of the directories nested in it starts at
    /// `node`.
    fn start(&self, node: NodeId) -> State {
        let nodes = [ANCHORED, node].into_iter().filter(|node| !self.is_leaf(*node)).collect();
        State { protection: None, nodes }
    }

    fn is_leaf(&self, node: NodeId) -> bool {
        self.nodes
            .get(node as usize)
            .is_none_or(|node| node.children.is_empty() && node.globs.is_empty())
    }

    /// The state at the entry `name` of a place.
    fn step(&self, state: &State, name: &OsStr) -> State {
        if state.nodes.is_empty() && !self.may_begin(name) {
            return State { protection: state.protection, nodes: Vec::new() };
        }
        let bytes = trimmed(name.as_encoded_bytes());
        let mut buffer = [0; NAME_BYTES];
        match buffer.get_mut(..bytes.len()).filter(|_| bytes.is_ascii()) {
            Some(lower) => {
                lower.copy_from_slice(bytes);
                lower.make_ascii_lowercase();
                self.step_by_key(state, std::str::from_utf8(lower).unwrap_or_default())
            }
            None => self.step_by_key(state, &key(name)),
        }
    }

    /// Returns false for most names with which no unanchored pattern can begin.
    fn may_begin(&self, name: &OsStr) -> bool {
        let bytes = trimmed(name.as_encoded_bytes());
        let first = bytes.first().map_or(0, u8::to_ascii_lowercase);
        let lengths = self.filter.get(usize::from(first)).copied().unwrap_or(u64::MAX);
        lengths & (1 << bytes.len().min(63)) != 0 || !bytes.is_ascii()
    }

    /// Whether the state stays the same along this path.
    fn ignores(&self, state: &State, path: &OsStr) -> bool {
        state.nodes.is_empty() && !components(path).any(|(name, _)| self.may_begin(name))
    }

    fn step_by_key(&self, state: &State, key: &str) -> State {
        let mut next = State { protection: state.protection, nodes: Vec::new() };
        for node in std::iter::once(ANYWHERE).chain(state.nodes.iter().copied()) {
            let Some(node) = self.nodes.get(node as usize) else { continue };
            for (glob, protection) in &node.globs {
                if Some(*protection) > next.protection && matches(glob, key) {
                    next.protection = Some(*protection);
                }
            }
            let Some(child) = node.children.get(key) else { continue };
            let Some(found) = self.nodes.get(*child as usize) else { continue };
            next.protection = next.protection.max(found.protection);
            next.nodes.extend(Some(*child).filter(|child| !self.is_leaf(*child)));
            next.nodes.extend(
                Some(ANCHORED).filter(|anchored| found.is_directory && !self.is_leaf(*anchored)),
            );
        }
        if next.protection == Some(Protection::Hidden) {
            // No protection is stronger.
            next.nodes.clear();
        }
        next.nodes.sort_unstable();
        next.nodes.dedup();
        next
    }
}

/// The state of an automaton at a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    /// The strongest protection of the place and the directories that contain it.
    protection: Option<Protection>,
    /// The nodes of the partially matched patterns. [`ANYWHERE`] is omitted, because it is always
    /// one.
    nodes: Vec<NodeId>,
}

/// The protection of a place and of the names below it. By default, nothing is protected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Protected(Option<Arc<Place>>);

#[derive(Debug)]
struct Place {
    automaton: Arc<Automaton>,
    state: State,
}

impl Protected {
    fn new(automaton: Arc<Automaton>, state: State) -> Self {
        Self(Some(Arc::new(Place { automaton, state })))
    }

    /// The protection of this place itself.
    pub(crate) fn protection(&self) -> Option<Protection> {
        self.0.as_ref()?.state.protection
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.protection() == Some(Protection::Hidden)
    }

    /// Whether there are patterns, so that this place or a name below it may be protected.
    pub(crate) fn has_patterns(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a name below this place may be hidden.
    pub(crate) fn can_hide(&self) -> bool {
        self.0.as_ref().is_some_and(|place| place.automaton.hides)
    }

    /// Whether a name below this place may be read-only.
    pub(crate) fn can_protect(&self) -> bool {
        self.0.as_ref().is_some_and(|place| place.automaton.protects)
    }

    /// The protection of the entry `name` of this place.
    pub(crate) fn protection_of(&self, name: &OsStr) -> Option<Protection> {
        let place = self.0.as_ref()?;
        place.automaton.step(&place.state, name).protection
    }

    /// Whether the entry `name` of this place is hidden.
    pub(crate) fn hides(&self, name: &OsStr) -> bool {
        self.can_hide() && self.protection_of(name) == Some(Protection::Hidden)
    }

    /// The state at the entry `name` of this place.
    pub(crate) fn child(&self, name: &OsStr) -> Self {
        self.below(Path::new(name))
    }

    /// The state at a path of plain names below this place.
    pub(crate) fn below(&self, path: &Path) -> Self {
        let Some(place) = &self.0 else { return Self::default() };
        let automaton = &place.automaton;
        if automaton.ignores(&place.state, path.as_os_str()) {
            return self.clone();
        }
        let mut names = components(path.as_os_str());
        let Some((first, _)) = names.next() else { return self.clone() };
        let state = names.fold(automaton.step(&place.state, first), |state, (name, _)| {
            automaton.step(&state, name)
        });
        if state == place.state {
            return self.clone();
        }
        Self::new(automaton.clone(), state)
    }

    /// Whether every name has the same protection below this place as below the other one.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.state == other.state
                    && (Arc::ptr_eq(&one.automaton, &other.automaton)
                        || one.automaton == other.automaton)
            }
            _ => false,
        }
    }

    /// Whether a path from this place goes through a hidden name, assuming that it contains no
    /// symlink. The path may contain `.` and `..`. Names after a `..` that leaves this place are
    /// ignored.
    #[cfg(any(target_os = "linux", test))]
    pub(crate) fn hides_any(&self, path: &OsStr) -> bool {
        let Some(place) = self.0.as_ref().filter(|place| place.automaton.hides) else {
            return false;
        };
        let is_hidden = |state: &State| state.protection == Some(Protection::Hidden);
        if place.automaton.ignores(&place.state, path) {
            return is_hidden(&place.state);
        }
        // The states of the directories on the path, to which `..` returns. The first one is this
        // place.
        let mut above: Vec<State> = Vec::new();
        let climbs = components(path).any(|(name, _)| name == "..");
        let mut here = None;
        for (name, _) in components(path).filter(|(name, _)| *name != ".") {
            if name == ".." {
                let Some(parent) = above.pop() else { return false };
                here = Some(parent);
                continue;
            }
            let next = place.automaton.step(here.as_ref().unwrap_or(&place.state), name);
            if is_hidden(&next) {
                return true;
            }
            let last = here.replace(next);
            if climbs {
                above.push(last.unwrap_or_else(|| place.state.clone()));
            }
        }
        is_hidden(&place.state)
    }
}

/// Whether a name matches a pattern. `*` matches any number of characters. `?` matches one
/// character and the marks that follow it in its decomposition.
fn matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    // The rest of the pattern after the last `*`, and the rest of the name with which it was last
    // tried.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let (before, expected) = (name.clone(), pattern.next());
        match (expected, name.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                name = before;
                retry = Some((pattern.clone(), name.clone()));
                continue;
            }
            (Some('?'), Some(_)) => {
                while name.clone().next().is_some_and(is_mark) {
                    name.next();
                }
                continue;
            }
            (Some(expected), Some(found)) if expected == found => continue,
            _ => {}
        }
        // The `*` matches one more character.
        let Some((rest, tried)) = &mut retry else { return false };
        if tried.next().is_none() {
            return false;
        }
        (pattern, name) = (rest.clone(), tried.clone());
    }
}

/// Whether a character is part of the one before it in a decomposed name: a combining mark, or a
/// vowel or final consonant of a Hangul syllable (The Unicode Standard, 3.12).
fn is_mark(character: char) -> bool {
    is_combining_mark(character) || ('\u{1160}'..='\u{11ff}').contains(&character)
}

/// A key that is equal for all names that a supported filesystem could treat as the same name. It
/// ignores case, Unicode normalization (APFS, HFS+), invisible characters (HFS+), and trailing dots
/// and spaces (Windows, SMB). Replacement characters stand for invalid UTF-8.
fn key(name: &OsStr) -> Cow<'_, str> {
    let name = name.to_string_lossy();
    if name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase())
        && !name.ends_with(['.', ' '])
    {
        return name;
    }
    let visible = name.chars().filter(|character| !is_ignorable(*character));
    // Some letters are equal only in lower case, and others only in upper case, so both are
    // applied. The last step decomposes characters that a change of case composed.
    let lower = visible.nfd().flat_map(char::to_lowercase);
    let folded = lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfd();
    let mut key: String = folded.collect();
    key.truncate(key.trim_end_matches(['.', ' ']).len());
    Cow::Owned(key)
}

fn trimmed(mut name: &[u8]) -> &[u8] {
    while let [rest @ .., b'.' | b' '] = name {
        name = rest;
    }
    name
}

/// Whether a character is invisible by default (`Default_Ignorable_Code_Point` in
/// DerivedCoreProperties.txt, Unicode 16). This includes the characters that HFS+ ignores (Apple
/// Technical Note TN1150, "Unicode Subtleties").
fn is_ignorable(character: char) -> bool {
    let code = u32::from(character);
    IGNORABLE.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

const IGNORABLE: [(u32, u32); 17] = [
    (0xad, 0xad),
    (0x34f, 0x34f),
    (0x61c, 0x61c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x202a, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfff8),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0000, 0xe_0fff),
];

#[cfg(test)]
mod tests {
    use super::Protection::{Hidden, ReadOnly};
    use super::*;

    fn parsed(patterns: &[(&str, Protection)]) -> Patterns {
        let patterns: Vec<_> =
            patterns.iter().map(|(text, protection)| ((*text).into(), *protection)).collect();
        Patterns::parse(&patterns).unwrap()
    }

    fn at(patterns: &[(&str, Protection)], path: &str) -> Option<Protection> {
        parsed(patterns).at_filesystem_root().below(Path::new(path)).protection()
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
            ("[a-z]", "b", false),
            ("{a,b}", "{A,B}", true),
        ];
        for (pattern, path, matches) in rows {
            let expected = matches.then_some(ReadOnly);
            assert_eq!(at(&[(pattern, ReadOnly)], path), expected, "{pattern} {path}");
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
            (".git\u{a0}", false),
            (" .git", false),
            (".g\u{456}t", false),
        ];
        for (name, is_equal) in rows {
            let found = at(&[(".git", ReadOnly)], name);
            assert_eq!(found.is_some(), is_equal, "{name:?}");
        }
        assert_eq!(at(&[("caf\u{e9}", Hidden)], "CAFE\u{301}"), Some(Hidden));
        assert_eq!(at(&[("stra\u{df}e", Hidden)], "STRASSE."), Some(Hidden));
        assert_eq!(at(&[("k", Hidden)], "\u{212a}"), Some(Hidden));
    }

    #[cfg(unix)]
    #[test]
    fn name_that_is_not_utf8_is_compared_with_replacement_characters() {
        use std::os::unix::ffi::OsStrExt as _;
        let hidden = parsed(&[("a?", Hidden)]).at_filesystem_root();
        assert!(hidden.hides(OsStr::from_bytes(b"A\xff")));
        assert!(!hidden.hides(OsStr::from_bytes(b"\xffA")));
    }

    #[test]
    fn strongest_protection_applies_at_and_below_a_name() {
        let patterns = [("a", ReadOnly), ("b", Hidden), ("/a/c", Hidden), ("b/a", ReadOnly)];
        let rows = [
            ("a", Some(ReadOnly)),
            ("a/x", Some(ReadOnly)),
            ("a/x/b", Some(Hidden)),
            ("a/c/d", Some(Hidden)),
            ("x/a/c", Some(ReadOnly)),
            ("b/a/c", Some(Hidden)),
            ("x", None),
        ];
        for (path, expected) in rows {
            assert_eq!(at(&patterns, path), expected, "{path}");
        }
    }

    #[test]
    fn anchored_pattern_matches_from_each_allowed_directory() {
        let patterns = parsed(&[("/s/t", ReadOnly), ("n", Hidden)]);
        let directories = ["/r/n", "/r", "/r/a/b", "/q/n/x", "/r-x"].map(Path::new);
        let states = patterns.at_directories(&directories);
        let rows = [
            (1, "s/t/u", Some(ReadOnly)),
            (1, "a/s/t", None),
            (1, "a/b/s/t", Some(ReadOnly)),
            (1, "A/B/S/T", Some(ReadOnly)),
            (1, "a/b/c/s/t", None),
            (1, "b/s/t", None),
            (2, "s/t", Some(ReadOnly)),
            (2, "n", Some(Hidden)),
            // Only names below an allowed directory are compared.
            (3, "", None),
            (3, "s/t", Some(ReadOnly)),
            (4, "a/b/s/t", None),
            // The directory `n` is hidden below `/r`.
            (0, "", Some(Hidden)),
        ];
        for (number, path, expected) in rows {
            let found = states[number].below(Path::new(path)).protection();
            assert_eq!(found, expected, "{:?} {path}", directories[number]);
        }
    }

    #[test]
    fn state_differs_where_a_rename_would_change_the_protection() {
        let patterns = parsed(&[("/a/b", Hidden), ("c/d/e", ReadOnly), ("f", ReadOnly)]);
        let root = patterns.at_filesystem_root();
        let rows = [
            ("x", "y", true),
            ("x", "x/y/z", true),
            ("a", "x", false),
            ("a/x", "x/y", true),
            ("c", "x", false),
            ("c", "y/c", true),
            ("c/d", "y/c/d", true),
            ("c/d", "y/c", false),
            ("f", "x", false),
        ];
        for (one, other, expected) in rows {
            let [one, other] = [one, other].map(|path| root.below(Path::new(path)));
            assert_eq!(one.is_equivalent(&other), expected, "{one:?} {other:?}");
        }
        assert!(Protected::default().is_equivalent(&Protected::default()));
        assert!(!root.is_equivalent(&Protected::default()));
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
            let error = Patterns::parse(&[(pattern.into(), Hidden)]).unwrap_err();
            assert_eq!(error.reason(), Code::InvalidPattern, "{pattern:?}");
        }
        let error = Patterns::parse(&[("a//b".into(), Hidden)]).unwrap_err();
        let text = r#"protect "a//b": the pattern is empty, or contains an empty name"#;
        assert_eq!(error.to_string(), text);
        let count = |count| Patterns::parse(&vec![("a".into(), Hidden); count]).is_ok();
        assert_eq!((count(1_000), count(1_001)), (true, false));
        assert!(Patterns::parse(&[(vec!["a"; 16].join("/"), Hidden)]).is_ok());
        let defaults = PROTECTED_DEFAULTS.map(|name| (name.into(), ReadOnly));
        assert!(Patterns::parse(&defaults).is_ok());
    }

    #[test]
    fn path_through_a_hidden_name_is_found() {
        let root = parsed(&[(".h", Hidden), ("/a/b", Hidden)]).at_filesystem_root();
        let rows = [
            (".h", true),
            ("x/.h/../y", true),
            ("x/../.h", true),
            ("x/../../.h", false),
            ("a/./b", true),
            ("a/x/../b", true),
            ("x/a/b", false),
            ("", false),
        ];
        for (path, expected) in rows {
            assert_eq!(root.hides_any(OsStr::new(path)), expected, "{path}");
        }
        assert!(!parsed(&[(".h", ReadOnly)]).at_filesystem_root().hides_any(OsStr::new(".h")));
    }

    /// Matches one character at a time, and tries every length for `*`.
    fn naive_glob(pattern: &[char], name: &[char]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((&'*', rest)), _) => (0..=name.len()).any(|from| naive_glob(rest, &name[from..])),
            (Some((&'?', rest)), Some((_, after))) => {
                let marks = after.iter().take_while(|mark| ('\u{300}'..'\u{370}').contains(*mark));
                naive_glob(rest, &after[marks.count()..])
            }
            (Some((one, rest)), Some((other, after))) => one == other && naive_glob(rest, after),
            _ => false,
        }
    }

    /// Tries each pattern at each position of the path, for each directory that encloses it.
    fn naive(
        patterns: &[(String, Protection)],
        directories: &[&str],
        path: &str,
    ) -> Option<Protection> {
        let folded = |name: &str| key(OsStr::new(name)).chars().collect::<Vec<_>>();
        let mut strongest = None;
        for directory in directories {
            let outer: Vec<_> = directory.split('/').collect();
            let names: Vec<&str> = path.split('/').collect();
            let is_outer = |(one, other): (&&str, &&str)| folded(one) == folded(other);
            if names.len() < outer.len() || !outer.iter().zip(&names).all(is_outer) {
                continue;
            }
            let names = &names[outer.len()..];
            for (pattern, protection) in patterns {
                let wanted: Vec<&str> = pattern.trim_start_matches('/').split('/').collect();
                let from = if pattern.starts_with('/') { 0..1 } else { 0..names.len() };
                for start in from.filter(|start| start + wanted.len() <= names.len()) {
                    let found = &names[start..start + wanted.len()];
                    if wanted
                        .iter()
                        .zip(found)
                        .all(|(one, other)| naive_glob(&folded(one), &folded(other)))
                    {
                        strongest = strongest.max(Some(*protection));
                    }
                }
            }
        }
        strongest
    }

    #[test]
    fn automaton_agrees_with_a_naive_matcher() {
        const NAMES: [&str; 12] =
            ["a", "b", "ab", "A", "a.", ".a", "aab", "\u{e9}", "E\u{301}", "a\u{200d}", "c", "abc"];
        const LAST: [&str; 8] = ["a*", "*b", "?", "*", "a?", "*a*", "??*", "b"];
        const DIRECTORIES: [&str; 4] = ["/r", "/r/a", "/r/a/b", "/s"];
        let mut seed = 1_u64;
        let mut pick = |count: usize| {
            // A linear congruential generator (Knuth, MMIX).
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % count
        };
        let mut protected = 0;
        for _ in 0..3_000 {
            let patterns: Vec<_> = (0..=pick(4))
                .map(|_| {
                    let mut names: Vec<_> = (0..pick(3)).map(|_| NAMES[pick(12)]).collect();
                    names.push(if pick(2) == 0 { LAST[pick(8)] } else { NAMES[pick(12)] });
                    let anchor = if pick(3) == 0 { "/" } else { "" };
                    let protection = if pick(2) == 0 { ReadOnly } else { Hidden };
                    (format!("{anchor}{}", names.join("/")), protection)
                })
                .collect();
            let directories = &DIRECTORIES[..=pick(4)];
            let paths: Vec<_> = directories.iter().map(Path::new).collect();
            let states = Patterns::parse(&patterns).unwrap().at_directories(&paths);
            for _ in 0..10 {
                let number = pick(directories.len());
                let names: Vec<_> = (0..pick(5)).map(|_| NAMES[pick(12)]).collect();
                let below = names.join("/");
                let whole = if below.is_empty() {
                    directories[number].to_owned()
                } else {
                    format!("{}/{below}", directories[number])
                };
                let found = states[number].below(Path::new(&below)).protection();
                let expected = naive(&patterns, directories, &whole);
                assert_eq!(found, expected, "{patterns:?} {directories:?} {whole:?}");
                protected += usize::from(found.is_some());
            }
        }
        assert!(protected > 5_000, "{protected}");
    }
}
