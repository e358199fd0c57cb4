//! Finding the root of a path by names alone.
//!
//! The input is roots and queries, one on each line. A name may contain any byte except a slash and
//! a newline:
//!
//! ```text
//! d/srv/app        a directory root; `f` instead of `d` for a file root
//! 0/work/app       another alias of the first root; `1` for the second root, and so on
//! ?/srv/./app/x    a query; any other first letter has the same meaning
//! ```
//!
//! Each answer of [`PathIndex`] must equal the result of comparing lists of names, one root after
//! another: the longest alias at the start of a path and the rest of the path, and the roots at,
//! around, beneath and above it. Neither the index nor this comparison does I/O.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use guarded_fs::internals::{Node, PathIndex, Position, RootKind, TOP};

/// Checks all properties.
pub(crate) fn hold(bytes: &[u8]) {
    let mut world = World::default();
    let mut queries = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n').take(LINES) {
        match line.split_first() {
            None => {}
            Some((b'd', path)) => world.add(path, RootKind::Directory),
            Some((b'f', path)) => world.add(path, RootKind::File),
            Some((number @ b'0'..=b'9', path)) => world.add_alias(path, usize::from(number - b'0')),
            Some((_, path)) => queries.push(path),
        }
    }
    world.aliases.shrink();
    world.check_roots();
    for path in queries {
        if path.starts_with(b"/") {
            world.begin(path);
        }
        world.check_place(&names(path));
    }
}

/// The names in a canonical path.
type Names<'a> = Vec<&'a [u8]>;

#[derive(Default)]
struct World<'a> {
    roots: Vec<(Names<'a>, RootKind)>,
    alias_names: Vec<(Names<'a>, usize)>,
    aliases: PathIndex,
}

impl<'a> World<'a> {
    /// Adds a root. Callers of the index never add two roots with the same canonical path.
    fn add(&mut self, path: &'a [u8], is: RootKind) {
        let names = names(path);
        if self.roots.iter().all(|(other, _)| *other != names) {
            self.aliases.add(&path_of(&names), is);
            self.roots.push((names, is));
        }
    }

    /// Adds an alias. `/` is always a canonical path, so it cannot be another alias.
    fn add_alias(&mut self, path: &'a [u8], root: usize) {
        let names = names(path);
        if root < self.roots.len() && !names.is_empty() {
            self.aliases.add_alias(&path_of(&names), root);
            self.alias_names.push((names, root));
        }
    }

    /// Checks the root of an absolute path: the one with the longest alias at the start of the
    /// path, and the rest of the path. If an alias belongs to several roots, the root with this
    /// canonical path wins, or else the root to which the alias was added first.
    fn begin(&self, path: &[u8]) {
        let canonical = self.roots.iter().enumerate().map(|(root, (names, _))| (root, names));
        let given = self.alias_names.iter().map(|(names, root)| (*root, names));
        let candidates = canonical
            .chain(given)
            .filter_map(|(root, names)| Some((names.len(), root, rest_after(names, path)?)));
        let longest = candidates.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let begun = self.aliases.strip_root(OsStr::from_bytes(path));
        let expected = longest.map(|(_, root, rest)| (root, OsStr::from_bytes(rest)));
        assert_eq!(begun, expected, "the root of {} in {self}", path.escape_ascii());
    }

    /// Checks the roots at a canonical path, around it and beneath it.
    fn check_place(&self, names: &Names<'_>) {
        let (path, aliases) = (path_of(names), &self.aliases);
        let mut around: Vec<_> =
            (0..self.roots.len()).filter(|&root| names.starts_with(&self.roots[root].0)).collect();
        around.sort_by_key(|&root| self.roots[root].0.len());
        // A root that is a file contains nothing else.
        let contain = |root: &usize| {
            self.roots[*root].1 == RootKind::Directory || self.roots[*root].0 == *names
        };
        let containing: Vec<_> = around.iter().copied().filter(contain).collect();
        for (number, outer) in containing.iter().enumerate() {
            let depth = self.roots[*outer].0.len();
            let expected: Vec<_> = containing[number..]
                .iter()
                .map(|&it| (self.roots[it].0.len() - depth, it))
                .collect();
            let below = path_of(&names[depth..]);
            let below = below.strip_prefix("/").unwrap();
            let found: Vec<_> = aliases.roots_on(aliases.node(*outer), below).collect();
            assert_eq!(found, expected, "from {outer} to {} in {self}", shown(names));
        }
        let beneath: Vec<_> =
            (0..self.roots.len()).filter(|&root| self.roots[root].0.starts_with(names)).collect();
        let strictly: Vec<_> =
            beneath.iter().copied().filter(|&root| self.roots[root].0 != *names).collect();
        assert_eq!(aliases.roots_below(&path), strictly, "below {} in {self}", shown(names));
        assert_eq!(
            aliases.has_root_at_or_below(&path),
            !beneath.is_empty(),
            "whether {} contains a root in {self}",
            shown(names)
        );
        let node = self.node(names);
        assert_eq!(
            node.is_some(),
            names.is_empty() || !beneath.is_empty(),
            "the node of {} in {self}",
            shown(names)
        );
        if let Some(node) = node {
            assert_eq!(aliases.beneath(node), beneath, "beneath {} in {self}", shown(names));
            let at = around.last().copied().filter(|&root| self.roots[root].0 == *names);
            assert_eq!(aliases.root_at(node), at, "at {} in {self}", shown(names));
            let parent = names.split_last().map_or(&[][..], |(_, parent)| parent);
            assert_eq!(
                Some(aliases.parent(node)),
                self.node(parent),
                "the parent of {} in {self}",
                shown(names)
            );
        }
    }

    /// The node of these names, found one child at a time.
    fn node(&self, names: &[&[u8]]) -> Option<Node> {
        names.iter().try_fold(TOP, |node, name| self.aliases.child(node, OsStr::from_bytes(name)))
    }

    /// Checks the kind of each root, and the root or ancestor above it.
    fn check_roots(&self) {
        for (number, (names, is)) in self.roots.iter().enumerate() {
            assert_eq!(self.aliases.is(number), *is, "{number} in {self}");
            self.check_place(names);
            let parent = names.split_last().map_or(&[][..], |(_, parent)| parent);
            let around =
                self.roots.iter().enumerate().filter(|(_, (root, _))| parent.starts_with(root));
            let outer = around.max_by_key(|(_, (root, _))| root.len());
            match (self.aliases.above(number), outer) {
                ((Position::Root(above), path), Some((expected, (root, _)))) => {
                    let below: PathBuf =
                        parent[root.len()..].iter().map(|name| OsStr::from_bytes(name)).collect();
                    assert_eq!((above, path), (expected, below), "above {number} in {self}");
                }
                ((Position::Ancestor(node), _), None) => {
                    assert_eq!(Some(node), self.node(parent), "above {number} in {self}");
                }
                (above, expected) => {
                    panic!("{above:?}, not {expected:?}, is above {number} in {self}")
                }
            }
        }
    }
}

/// Shows the roots and their aliases.
impl std::fmt::Display for World<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.roots.iter().try_for_each(|(names, is)| write!(f, "{is:?} {}; ", shown(names)))?;
        self.alias_names
            .iter()
            .try_for_each(|(names, root)| write!(f, "{root} as {}; ", shown(names)))
    }
}

/// The names of a path without `.` and `..`, which a canonical path does not contain.
fn names(path: &[u8]) -> Names<'_> {
    path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b"." | b"..")).collect()
}

fn shown(names: &[&[u8]]) -> String {
    format!("/{}", names.join(&b'/').escape_ascii())
}

/// The rest of a path that starts with these names. Slashes and `.` may occur anywhere between the
/// names.
fn rest_after<'a>(names: &[&[u8]], path: &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = path;
    for name in names {
        while let [b'/', next @ ..] | [b'.', b'/', next @ ..] = rest {
            rest = next;
        }
        rest = rest.strip_prefix(*name).filter(|rest| matches!(rest, [] | [b'/', ..]))?;
    }
    Some(rest)
}

fn path_of(names: &[&[u8]]) -> PathBuf {
    Path::new("/").join(OsStr::from_bytes(&names.join(&b'/')))
}

/// The maximum number of lines in an input.
const LINES: usize = 24;
