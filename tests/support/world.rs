//! A small tree and its roots, built from text. Every byte sequence is valid text.
//!
//! ```text
//! 0                 the first line selects the roots: r; r and o/a; r and r/a; r/a
//! 0r/a/b,n*         the roots, and protected names: `r` for read-only, any other byte for denied,
//!                   and then patterns; an invalid one is ignored
//! dr/b  fr/b/c      a directory; a file
//! pr/b              a FIFO
//! hr/b>r/c          a hard link to a file inside the roots
//! lr/a>T/o/../r     a symlink and its target
//! nXtarget          X % 48 chained symlinks r/n0, r/n1, ...; the last one points to the target
//! ```
//!
//! Paths consist of the letters `a b c n 0 r o . /`, and of `T`, which stands for the directory
//! that contains the tree. With protected names, `A`, `B`, `C` and `N` are letters too, and there
//! are no hard links, through which a protected file has an unprotected name.
//!
//! If [`World::with_aliases`] finds that the first byte divided by four is odd, as for `4` to `7`,
//! the first root has three aliases, each with a letter: `V` is a symlink to it, `H` a path that
//! does not exist, and `W` a path of Windows. `Z` is then a backslash.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use mcp_roots_guard::{Access, Boundary, DirectoryOptions, Roots};

use super::access::{Policy, ascii_key};
use super::aliases::{Alias, without_alias};
use super::model::Name;
use super::protection::Protection;
use super::tree::Tree;

pub(crate) struct World {
    tree: Tree,
    pub(crate) top: PathBuf,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) guard: Roots,
    /// The roots with the protected names, if there are any.
    pub(crate) policy: Option<Policy>,
    /// The aliases of the first root.
    aliases: Vec<Alias>,
}

impl World {
    /// Creates the directories `r/a` and `o/a`, and the roots that the first line selects.
    pub(crate) fn new(line: &[u8]) -> Self {
        Self::build(line, false)
    }

    /// Like [`new`](Self::new), with aliases if the first line selects them.
    pub(crate) fn with_aliases(line: &[u8]) -> Self {
        Self::build(line, line.first().is_some_and(|byte| byte / 4 % 2 == 1))
    }

    fn build(line: &[u8], has_aliases: bool) -> Self {
        let tree = Tree::in_memory("dir r/a; dir o/a");
        let [r, ra, oa] = ["r", "r/a", "o/a"].map(|path| tree.path(path));
        let roots = match line.first().map_or(0, |byte| byte % 4) {
            0 => vec![r],
            1 => vec![r, oa],
            2 => vec![r, ra],
            _ => vec![ra],
        };
        let (top, path) = (tree.path(""), roots[0].to_str().unwrap());
        let alias = |(text, is_verified)| Alias { text, path: path.to_owned(), is_verified };
        let verified = top.join("v");
        let aliases = if has_aliases {
            symlink(path, &verified).unwrap();
            let texts = [verified.to_str().unwrap(), HOST, WINDOWS].map(ToOwned::to_owned);
            texts.into_iter().zip([true, false, false]).map(alias).collect()
        } else {
            Vec::new()
        };
        let first = DirectoryOptions::from(Access::ReadWrite);
        let first = aliases.iter().fold(first, |first, alias| first.alias(&alias.text));
        let builder = Boundary::builder().directory(path, first);
        let mut builder = roots[1..]
            .iter()
            .fold(builder, |builder, root| builder.directory(root, Access::ReadWrite));
        let policy = patterns(line).map(|patterns| {
            let directories = roots.iter().map(PathBuf::as_path);
            Policy { patterns, ..Policy::writable(directories) }
        });
        for (pattern, protection) in policy.iter().flat_map(|policy| &policy.patterns) {
            builder = protection.add(builder, pattern);
        }
        let guard = builder.build().unwrap().allowed_roots();
        Self { tree, top, roots, guard, policy, aliases }
    }

    /// The request with a path of the first root instead of an alias.
    pub(crate) fn without_alias(&self, request: &str) -> String {
        without_alias(request, &self.aliases).unwrap_or_else(|| request.to_owned())
    }

    /// The type of the entry at a path, where a symlink's target does not begin with an alias.
    pub(crate) fn look_through_aliases(&self, path: &Path) -> Name {
        Self::look(path).through(&self.aliases)
    }

    /// The protection of a path, according to the oracle.
    pub(crate) fn protection(&self, path: &Path) -> Option<Protection> {
        self.policy.as_ref()?.protection(path)
    }

    pub(crate) fn is_denied(&self, path: &Path) -> bool {
        self.protection(path) == Some(Protection::Denied)
    }

    /// Adds the entry that a line describes to the part of the tree below `within`. An entry that
    /// cannot be created is ignored, and nothing is replaced. Returns false if the line describes
    /// no entry.
    pub(crate) fn add(&self, line: &[u8], within: &Path) -> bool {
        let Some((kind, rest)) = line.split_first() else { return false };
        let mut fields = rest.splitn(2, |&byte| byte == b'>');
        let (path, target) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let target = self.text(target);
        let place = || Some(self.place(path, within)?.display().to_string());
        let lines = match kind {
            b'n' => self.chain(path),
            b'd' => place().map(|path| format!("dir {path}")).into_iter().collect(),
            b'f' => place().map(|path| format!("file {path} = content")).into_iter().collect(),
            b'l' => place().map(|path| format!("link {path} -> {target}")).into_iter().collect(),
            b'p' => place().map(|path| format!("fifo {path}")).into_iter().collect(),
            b'h' => {
                let existing = self.top.join(target.trim_start_matches('/')).canonicalize().ok();
                let existing =
                    existing.filter(|existing| self.policy.is_none() && self.is_inside(existing));
                let hard =
                    |existing: PathBuf| Some(format!("hard {} = {}", place()?, existing.display()));
                existing.and_then(hard).into_iter().collect()
            }
            _ => return false,
        };
        // An entry that could not be created is ignored.
        let _ = lines.iter().try_for_each(|line: &String| self.tree.add_line(line));
        true
    }

    /// A chain of symlinks, of which the last one has this target.
    fn chain(&self, text: &[u8]) -> Vec<String> {
        let (&count, target) = text.split_first().unwrap_or((&0, &[]));
        let last = usize::from(count % 48);
        let target = |link| if link == last { self.text(target) } else { format!("n{link}") };
        (1..=last).map(|link| format!("link r/n{} -> {}", link - 1, target(link))).collect()
    }

    /// Returns the path below `within` at which to create an entry, after creating missing parents.
    /// Returns `None` if an entry already exists there, or if a parent cannot be created or
    /// resolves to a place outside the tree.
    fn place(&self, path: &[u8], within: &Path) -> Option<PathBuf> {
        let path = PathBuf::from(self.text(path));
        let mut names =
            path.components().filter(|name| matches!(name, Component::Normal(_))).peekable();
        let mut place = self.top.clone();
        while let Some(name) = names.next() {
            place.push(name);
            if names.peek().is_some() {
                if place.starts_with(within) {
                    let _ = fs::create_dir(&place);
                }
                place = place.canonicalize().ok().filter(|place| place.starts_with(&self.top))?;
            }
        }
        (place.starts_with(within) && place.symlink_metadata().is_err()).then_some(place)
    }

    /// Decodes a path from the bytes of a line.
    pub(crate) fn text(&self, bytes: &[u8]) -> String {
        let top = self.top.to_str().unwrap();
        let letter = |&byte: &u8| match byte {
            b'T' => top.to_owned(),
            byte if LETTERS.contains(&byte) => char::from(byte).to_string(),
            b'A' | b'B' | b'C' | b'N' if self.policy.is_some() => char::from(byte).to_string(),
            b'V' if !self.aliases.is_empty() => format!("{top}/v"),
            b'H' if !self.aliases.is_empty() => HOST.to_owned(),
            b'W' if !self.aliases.is_empty() => WINDOWS.to_owned(),
            b'Z' if !self.aliases.is_empty() => "\\".to_owned(),
            byte => char::from(LETTERS[usize::from(byte) % LETTERS.len()]).to_string(),
        };
        bytes.iter().map(letter).collect()
    }

    pub(crate) fn is_inside(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// The type of the entry at a path. A symlink is not followed.
    pub(crate) fn look(path: &Path) -> Name {
        match path.symlink_metadata() {
            Err(_) => Name::Missing,
            Ok(metadata) if metadata.is_symlink() => {
                Name::Link(fs::read_link(path).unwrap().to_str().unwrap().into())
            }
            Ok(metadata) if metadata.is_dir() => Name::Directory,
            Ok(_) => Name::Other,
        }
    }
}

/// Shows the roots and the tree on one line.
impl std::fmt::Display for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let patterns = self.policy.as_ref().map(|policy| &policy.patterns);
        write!(f, "{:?} {patterns:?}: {}", self.roots, self.tree.snapshot("").join("; "))
    }
}

/// The protected names that the first line selects.
fn patterns(line: &[u8]) -> Option<Vec<(String, Protection)>> {
    let (&first, patterns) = line.get(1..)?.split_first()?;
    let protection = if first == b'r' { Protection::ReadOnly } else { Protection::Denied };
    let text = |pattern: &[u8]| {
        pattern.iter().take(LINE_BYTES).map(|&byte| pattern_letter(byte)).collect()
    };
    let patterns = patterns.split(|&byte| byte == b',').take(PATTERNS).map(text);
    let patterns = patterns.filter(|it: &String| is_pattern(it)).map(|it| (it, protection));
    Some(patterns.collect::<Vec<_>>()).filter(|patterns| !patterns.is_empty())
}

fn pattern_letter(byte: u8) -> char {
    let is_letter = LETTERS.contains(&byte) || b"ABCN*?".contains(&byte);
    char::from(if is_letter { byte } else { LETTERS[usize::from(byte) % LETTERS.len()] })
}

/// Whether a pattern is valid. No name may consist of dots, and only the last one may be a glob.
fn is_pattern(pattern: &str) -> bool {
    let names: Vec<_> = pattern.strip_prefix('/').unwrap_or(pattern).split('/').collect();
    let (last, others) = names.split_last().expect("a split has at least one part");
    let is_glob = |name: &&str| name.contains(['*', '?']);
    names.len() <= 16
        && !others.iter().any(is_glob)
        && names.iter().all(|name| !ascii_key(name).is_empty())
        && (!is_glob(last) || !last.ends_with('.'))
}

/// An alias that does not exist on this system.
const HOST: &str = "/guard-host/p";

/// An alias of a Windows client.
const WINDOWS: &str = r"C:\p";

/// The maximum number of patterns.
const PATTERNS: usize = 4;

/// The characters of paths.
const LETTERS: &[u8] = b"abcn0ro./";

/// The maximum number of lines, and the maximum length of a line. The rest of the input is ignored.
pub(crate) const LINES: usize = 32;
pub(crate) const LINE_BYTES: usize = 48;
