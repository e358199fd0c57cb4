//! Which root a path is in, by names alone.
//!
//! Goes in: roots and questions, a line each; a name may have any byte but a slash and a newline:
//!
//! ```text
//! d/srv/app        a directory that is a root; `f` for a file
//! 0/work/app       another alias of the first root; 1 of the second, and so on
//! ?/srv/./app/x    a question; any other letter will do
//! ```
//!
//! What is proven: each answer of [`PathIndex`] is the one that comes of comparing lists of names, root by root, without any tree:
//! the longest alias that a path starts with, and the rest; what is at, around, beneath and above. No I/O is done.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use aliases::{Above, Node, PathIndex, RootKind, TOP};

/// The crate's own file: what it says is not public.
#[path = "../../src/path/index.rs"]
#[allow(dead_code, unreachable_pub)]
mod aliases;

/// What that uses.
#[path = "../../src/path/names/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports)]
mod names;

/// All of it.
pub(crate) fn hold(bytes: &[u8]) {
    let mut world = World::default();
    let mut questions = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n').take(LINES) {
        match line.split_first() {
            None => {}
            Some((b'd', path)) => world.add(path, RootKind::Directory),
            Some((b'f', path)) => world.add(path, RootKind::File),
            Some((number @ b'0'..=b'9', path)) => world.add_alias(path, usize::from(number - b'0')),
            Some((_, path)) => questions.push(path),
        }
    }
    world.aliases.shrink();
    world.roots_are_told();
    for path in questions {
        assert_eq!(names::is_absolute(OsStr::from_bytes(path)), path.starts_with(b"/"));
        if path.starts_with(b"/") {
            world.begin(path);
        }
        world.place(&names(path));
    }
}

/// The names of a canonical path.
type Names<'a> = Vec<&'a [u8]>;

#[derive(Default)]
struct World<'a> {
    roots: Vec<(Names<'a>, RootKind)>,
    given: Vec<(Names<'a>, usize)>,
    aliases: PathIndex,
}

impl<'a> World<'a> {
    /// No two roots have one canonical path: the caller sees to that.
    fn add(&mut self, path: &'a [u8], is: RootKind) {
        let names = names(path);
        if self.roots.iter().all(|(other, _)| *other != names) {
            self.aliases.add(&path_of(&names), is);
            self.roots.push((names, is));
        }
    }

    /// `/` is the canonical path of what it names, and so no other alias.
    fn add_alias(&mut self, path: &'a [u8], root: usize) {
        let names = names(path);
        if root < self.roots.len() && !names.is_empty() {
            self.aliases.add_alias(&path_of(&names), root);
            self.given.push((names, root));
        }
    }

    /// The root with the longest alias that an absolute path starts with, and the rest of the path. Of two that have the same, the
    /// one whose canonical path it is, or else the first.
    fn begin(&self, path: &[u8]) {
        let canonical = self.roots.iter().enumerate().map(|(root, (names, _))| (root, names));
        let given = self.given.iter().map(|(names, root)| (*root, names));
        let fits = canonical
            .chain(given)
            .filter_map(|(root, names)| Some((names.len(), root, rest_after(names, path)?)));
        let longest = fits.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let begun = self.aliases.begin(OsStr::from_bytes(path));
        let expected = longest.map(|(_, root, rest)| (root, OsStr::from_bytes(rest)));
        assert_eq!(begun, expected, "{} begins in {self}", path.escape_ascii());
    }

    /// What is at a canonical path, around it and beneath it.
    fn place(&self, names: &Names<'_>) {
        let (path, aliases) = (path_of(names), &self.aliases);
        let mut around: Vec<_> =
            (0..self.roots.len()).filter(|&root| names.starts_with(&self.roots[root].0)).collect();
        around.sort_by_key(|&root| self.roots[root].0.len());
        let depths: Vec<_> = around.iter().map(|&root| self.roots[root].0.len()).collect();
        assert_eq!(
            aliases.enclosing_roots(&path),
            around,
            "at and around {} in {self}",
            shown(names)
        );
        assert_eq!(aliases.depths(&path), depths, "depths of {} in {self}", shown(names));
        let beneath: Vec<_> =
            (0..self.roots.len()).filter(|&root| self.roots[root].0.starts_with(names)).collect();
        assert_eq!(aliases.holds(&path), !beneath.is_empty(), "holds {} in {self}", shown(names));
        let node = self.node(names);
        assert_eq!(
            node.is_some(),
            names.is_empty() || !beneath.is_empty(),
            "a way to {} in {self}",
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

    /// The node of some names, one child after the other.
    fn node(&self, names: &[&[u8]]) -> Option<Node> {
        names.iter().try_fold(TOP, |node, name| self.aliases.child(node, OsStr::from_bytes(name)))
    }

    /// What each root is, and is above it.
    fn roots_are_told(&self) {
        for (number, (names, is)) in self.roots.iter().enumerate() {
            assert_eq!(self.aliases.is(number), *is, "{number} in {self}");
            self.place(names);
            let parent = names.split_last().map_or(&[][..], |(_, parent)| parent);
            let around =
                self.roots.iter().enumerate().filter(|(_, (root, _))| parent.starts_with(root));
            let outer = around.max_by_key(|(_, (root, _))| root.len());
            match (self.aliases.above(number), outer) {
                (Above::Root(above, path), Some((expected, (root, _)))) => {
                    let below: PathBuf =
                        parent[root.len()..].iter().map(|name| OsStr::from_bytes(name)).collect();
                    assert_eq!((above, path), (expected, below), "above {number} in {self}");
                }
                (Above::Ancestor(node), None) => {
                    assert_eq!(Some(node), self.node(parent), "above {number} in {self}");
                }
                (above, expected) => {
                    panic!("{above:?}, and not {expected:?}, is above {number} in {self}")
                }
            }
        }
    }
}

/// The roots, and their aliases as they were given.
impl std::fmt::Display for World<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.roots.iter().try_for_each(|(names, is)| write!(f, "{is:?} {}; ", shown(names)))?;
        self.given.iter().try_for_each(|(names, root)| write!(f, "{root} as {}; ", shown(names)))
    }
}

/// A canonical path has neither `.` nor `..`.
fn names(path: &[u8]) -> Names<'_> {
    path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b"." | b"..")).collect()
}

fn shown(names: &[&[u8]]) -> String {
    format!("/{}", names.join(&b'/').escape_ascii())
}

/// What follows these names at the start of a path, with slashes and `.` anywhere between them.
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

/// Roots and questions of one input, together.
const LINES: usize = 24;
