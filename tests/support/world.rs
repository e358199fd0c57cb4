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

use mcp_roots_guard::{Access, Boundary, BoundaryBuilder, DirectoryOptions, Roots};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::model::Name;
use super::protected::{Effect, Rules, ascii_key};

pub(crate) struct World {
    _keep: tempfile::TempDir,
    pub(crate) top: PathBuf,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) guard: Roots,
    /// The protected names, if there are any.
    pub(crate) rules: Option<Rules>,
    has_aliases: bool,
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
        // Use an in-memory filesystem if there is one, because each input builds a tree.
        let made = |place: &Path| tempfile::Builder::new().prefix("guard-").tempdir_in(place);
        let keep = made(Path::new("/dev/shm")).or_else(|_| made(&std::env::temp_dir())).unwrap();
        let top = keep.path().canonicalize().unwrap();
        let [r, ra, oa] = ["r", "r/a", "o/a"].map(|path| top.join(path));
        for directory in [&ra, &oa] {
            fs::create_dir_all(directory).unwrap();
        }
        let roots = match line.first().map_or(0, |byte| byte % 4) {
            0 => vec![r],
            1 => vec![r, oa],
            2 => vec![r, ra],
            _ => vec![ra],
        };
        let mut first = DirectoryOptions::from(Access::ReadWrite);
        if has_aliases {
            symlink(&roots[0], top.join("v")).unwrap();
            first = first.alias(top.join("v")).alias(HOST).alias(WINDOWS);
        }
        let builder = roots[1..]
            .iter()
            .fold(Boundary::builder().directory(&roots[0], first), |builder, root| {
                builder.directory(root, Access::ReadWrite)
            });
        let plain = builder.clone().build().unwrap().allowed_roots();
        let (guard, rules) = match rules(line) {
            None => (plain, None),
            Some(rules) => (protected(builder, &rules), Some(rules)),
        };
        Self { _keep: keep, top, roots, guard, rules, has_aliases }
    }

    /// The request with a path of the first root instead of an alias.
    pub(crate) fn without_alias(&self, request: &str) -> String {
        let root = self.roots[0].to_str().unwrap();
        let host = || after(request, HOST).map(ToOwned::to_owned);
        match self.without_verified_alias(request) {
            _ if !self.has_aliases => request.to_owned(),
            Some(request) => request,
            None => match host().or_else(|| after_windows(request)) {
                Some(rest) => format!("{root}/{rest}"),
                None => request.to_owned(),
            },
        }
    }

    /// A path that begins with the alias that is a symlink, with the first root's path instead.
    fn without_verified_alias(&self, path: &str) -> Option<String> {
        let alias = self.top.join("v");
        let rest = after(path, alias.to_str().unwrap()).filter(|_| self.has_aliases)?;
        Some(format!("{}/{rest}", self.roots[0].to_str().unwrap()))
    }

    /// The type of the entry at a path, where a symlink's target does not begin with an alias.
    pub(crate) fn look_through_aliases(&self, path: &Path) -> Name {
        match Self::look(path) {
            Name::Link(target) => {
                Name::Link(self.without_verified_alias(&target).unwrap_or(target))
            }
            name => name,
        }
    }

    /// The protection of a path, according to the oracle.
    pub(crate) fn effect(&self, path: &Path) -> Option<Effect> {
        self.rules.as_ref()?.effect(&self.roots, path)
    }

    /// Whether only a new directory may be put at a path.
    pub(crate) fn begins_pattern(&self, path: &Path) -> bool {
        let rules = self.rules.as_ref();
        rules.is_some_and(|rules| rules.begin_at(&self.roots, path))
    }

    pub(crate) fn is_denied(&self, path: &Path) -> bool {
        self.effect(path) == Some(Effect::Denied)
    }

    /// The paths of all entries at and below a path.
    pub(crate) fn entries(top: &Path) -> Vec<PathBuf> {
        let (mut todo, mut found) = (vec![top.to_owned()], Vec::new());
        while let Some(path) = todo.pop() {
            if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            found.push(path);
        }
        found
    }

    /// Adds the entry that a line describes to the part of the tree below `within`. An entry that
    /// cannot be created is ignored, and nothing is replaced. Returns false if the line describes
    /// no entry.
    pub(crate) fn add(&self, line: &[u8], within: &Path) -> bool {
        let mut fields = line.get(1..).unwrap_or_default().splitn(2, |&byte| byte == b'>');
        let (path, target) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let place = || self.place(path, within);
        let done = match line.first() {
            Some(b'n') => {
                let (&count, target) = path.split_first().unwrap_or((&0, &[]));
                let last = usize::from(count % 48);
                let target =
                    |link| if link == last { self.text(target) } else { format!("n{link}") };
                (1..=last).try_for_each(|link| {
                    symlink(target(link), self.top.join(format!("r/n{}", link - 1)))
                })
            }
            Some(b'd') => place().map_or(Ok(()), fs::create_dir),
            Some(b'f') => place().map_or(Ok(()), |path| fs::write(path, "content")),
            Some(b'l') => place().map_or(Ok(()), |path| symlink(self.text(target), path)),
            Some(b'p') => place().map_or(Ok(()), |path| {
                Ok(mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?)
            }),
            Some(b'h') if self.rules.is_some() => Ok(()),
            Some(b'h') => {
                let existing =
                    self.top.join(self.text(target).trim_start_matches('/')).canonicalize().ok();
                let existing = existing.filter(|existing| self.is_inside(existing));
                place()
                    .zip(existing)
                    .map_or(Ok(()), |(path, existing)| fs::hard_link(existing, path))
            }
            _ => return false,
        };
        // An entry that could not be created is ignored.
        drop(done);
        true
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
            b'A' | b'B' | b'C' | b'N' if self.rules.is_some() => char::from(byte).to_string(),
            b'V' if self.has_aliases => format!("{top}/v"),
            b'H' if self.has_aliases => HOST.to_owned(),
            b'W' if self.has_aliases => WINDOWS.to_owned(),
            b'Z' if self.has_aliases => "\\".to_owned(),
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
        let mut todo = vec![self.top.clone()];
        write!(f, "{:?} {:?}:", self.roots, self.rules.as_ref().map(|rules| &rules.patterns))?;
        while let Some(path) = todo.pop() {
            match Self::look(&path) {
                Name::Link(target) => write!(f, " {} -> {target};", path.display())?,
                Name::Directory => {
                    todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                }
                _ => write!(f, " {};", path.display())?,
            }
        }
        Ok(())
    }
}

/// The protected names that the first line selects.
fn rules(line: &[u8]) -> Option<Rules> {
    let (&effect, patterns) = line.get(1..)?.split_first()?;
    let effect = if effect == b'r' { Effect::ReadOnly } else { Effect::Denied };
    let patterns: Vec<_> = patterns
        .split(|&byte| byte == b',')
        .take(PATTERNS)
        .map(|pattern| pattern.iter().take(LINE_BYTES).map(|&byte| pattern_letter(byte)).collect())
        .filter(|pattern: &String| is_pattern(pattern))
        .map(|pattern| (pattern, effect))
        .collect();
    (!patterns.is_empty()).then_some(Rules { patterns, key: ascii_key })
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

/// The rest of an absolute path after an alias, by whole names. The rest begins after the slash.
fn after<'a>(path: &'a str, alias: &str) -> Option<&'a str> {
    let mut rest = path.strip_prefix('/')?;
    for name in alias.split('/').skip(1) {
        let mut first;
        loop {
            (first, rest) = rest.split_once('/').unwrap_or((rest, ""));
            if !matches!(first, "" | ".") || rest.is_empty() {
                break;
            }
        }
        if first != name {
            return None;
        }
    }
    Some(rest)
}

/// The rest of a request after the alias of Windows. Unless there is a slash before the drive, a
/// backslash in the rest separates names.
fn after_windows(request: &str) -> Option<String> {
    let path = request.strip_prefix('/').unwrap_or(request);
    let rest = path.strip_prefix(WINDOWS)?;
    let after = rest.strip_prefix(['/', '\\']).or(rest.is_empty().then_some(""))?;
    let is_text = path.len() == request.len();
    Some(if is_text { after.replace('\\', "/") } else { after.to_owned() })
}

/// An alias that does not exist on this system.
const HOST: &str = "/guard-host/p";

/// An alias of a Windows client.
const WINDOWS: &str = r"C:\p";

/// The roots with protected names.
fn protected(builder: BoundaryBuilder, rules: &Rules) -> Roots {
    let builder = rules.patterns.iter().fold(builder, |builder, (pattern, effect)| match effect {
        Effect::ReadOnly => builder.protect(pattern.as_str()),
        Effect::Denied => builder.deny(pattern.as_str()),
    });
    builder.build().unwrap().allowed_roots()
}

/// The maximum number of patterns.
const PATTERNS: usize = 4;

/// The characters of paths.
const LETTERS: &[u8] = b"abcn0ro./";

/// The maximum number of lines, and the maximum length of a line. The rest of the input is ignored.
pub(crate) const LINES: usize = 32;
pub(crate) const LINE_BYTES: usize = 48;
