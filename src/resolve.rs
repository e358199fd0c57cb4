//! Where a request really leads, without ever looking outside the roots.
//!
//! Goes in: a path as bytes, the roots' names ([`Spellings`]), an [`Intent`], and someone who answers one question ([`Names`]): *what is
//! this name, inside this root?* Comes out: a place inside a root, or a refusal. What is true after: every question that was asked
//! lay inside a root, and named plain components only, so nothing outside was opened, read or even looked up.
//!
//! It is a state machine over {position, components to do, links followed}. A position is inside a root, where names are asked for, or
//! at an ancestor of one, known by name from the roots' canonical paths and never asked for. A component moves it:
//!
//! | at | component | to |
//! | --- | --- | --- |
//! | an ancestor | `..` | its parent |
//! | an ancestor | a name that leads to a root | there, or into the root |
//! | an ancestor | another name | outside: refused |
//! | inside | `..` | the parent; above the root's own top, an ancestor or the root around it |
//! | inside | a directory or file | there |
//! | inside | a link | its text comes before what is to do; an absolute text starts anew at `/` or at a root's spelling |
//! | inside | nothing | refused, or the names that are to be made, by intent |
//! | no directory | anything | refused |

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::location::NAME_BYTES;

/// What a path is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// To use what is there, links followed.
    Existing,
    /// To make or overwrite: the parent exists, the last name may. A last name that is a link stands for what it points to, also if
    /// that does not exist yet.
    New,
    /// As [`New`](Intent::New), and missing parents will be made; only plain names may follow the first that is missing.
    NewTree,
    /// The last name itself, a link not followed, to remove, rename or describe it. It need not exist.
    Entry,
}

/// Answers the resolver's one question.
pub(crate) trait Names {
    /// What is at `path` in root number `root`? `path` is plain names, and no link in it may be followed; the empty path is the root.
    fn look(&mut self, root: usize, path: &Path) -> Result<Seen>;
}

/// What a name is, as far as resolving goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Missing,
    Directory,
    Link(OsString),
    Other,
}

/// Where a request leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Inside a root, by plain names from its top.
    Inside { root: usize, path: PathBuf, found: Found },
    /// At an ancestor of roots.
    Above(Node),
}

/// What is at a place inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Found {
    Exists,
    /// A link, as [`Intent::Entry`] asks for it.
    Link,
    /// So many names at the end of the path do not exist.
    Missing(usize),
}

/// Resolves `request`; a relative one starts in root `base`.
pub(crate) fn resolve(
    names: &mut impl Names,
    spellings: &Spellings,
    base: Option<usize>,
    request: &OsStr,
    intent: Intent,
) -> Result<Place> {
    let mut walk = Walk { names, spellings, intent, at: At::Above(TOP), todo: Vec::new(), hops: 0, link: None };
    if is_absolute(request) {
        walk.start(request);
    } else {
        walk.enter(base.ok_or(ErrorKind::OutsideRoots)?);
        walk.push(request);
    }
    walk.run()
}

struct Walk<'a, N> {
    names: &'a mut N,
    spellings: &'a Spellings,
    intent: Intent,
    at: At,
    /// Components to do, the next one last.
    todo: Vec<OsString>,
    hops: usize,
    /// The last link that was followed, and its text: for the operator.
    link: Option<(PathBuf, OsString)>,
}

enum At {
    Inside { root: usize, path: PathBuf, here: Here },
    Above(Node),
}

/// What is known of the position without asking again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Here {
    Unknown,
    Directory,
    Other,
}

impl<N: Names> Walk<'_, N> {
    fn run(mut self) -> Result<Place> {
        for _ in 0..STEPS {
            let Some(name) = self.todo.pop() else { return self.end() };
            match &mut self.at {
                At::Above(node) => match name.as_encoded_bytes() {
                    b"." => {}
                    b".." => *node = self.spellings.parent(*node),
                    _ => match self.spellings.child(*node, &name) {
                        Some(child) => self.arrive(child),
                        None => return Err(outside(self.link.as_ref())),
                    },
                },
                At::Inside { .. } => {
                    if let Some(place) = self.step(name)? {
                        return Ok(place);
                    }
                }
            }
        }
        Err(ErrorKind::TooLong.into())
    }

    /// One component inside a root. A place, when that ends the walk.
    fn step(&mut self, name: OsString) -> Result<Option<Place>> {
        if self.here()? != Here::Directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        let At::Inside { root, path, here } = &mut self.at else { return Ok(None) };
        match name.as_encoded_bytes() {
            b"." => return Ok(None),
            b".." => {
                if !path.pop() {
                    self.at = self.spellings.around(*root);
                }
                return Ok(None);
            }
            long if long.len() > NAME_BYTES => return Err(ErrorKind::TooLong.into()),
            _ => path.push(&name),
        }
        match self.names.look(*root, path)? {
            Seen::Directory => *here = Here::Directory,
            Seen::Other => *here = Here::Other,
            Seen::Missing => return self.missing().map(Some),
            Seen::Link(_) if self.intent == Intent::Entry && self.todo.is_empty() => {
                return Ok(Some(Place::Inside { root: *root, path: path.clone(), found: Found::Link }));
            }
            // `link/`: rmdir(2) and rename(2) refuse it, too.
            Seen::Link(_) if self.intent == Intent::Entry && self.todo.iter().all(|name| name == ".") => {
                return Err(ErrorKind::NotADirectory.into());
            }
            Seen::Link(text) => {
                let link = path.clone();
                path.pop();
                self.follow(link, text)?;
            }
        }
        Ok(None)
    }

    fn follow(&mut self, link: PathBuf, text: OsString) -> Result<()> {
        self.hops += 1;
        if self.hops > LINK_HOPS {
            return Err(ErrorKind::TooManyLinks.into());
        }
        if text.is_empty() {
            return Err(ErrorKind::NotFound.into());
        }
        if is_absolute(&text) {
            self.start(&text);
        } else {
            self.push(&text);
        }
        self.link = Some((link, text));
        Ok(())
    }

    /// The name just asked for does not exist: the end, if the intent allows what is left to do.
    fn missing(&mut self) -> Result<Place> {
        let At::Inside { root, path, .. } = &mut self.at else { return Err(ErrorKind::NotFound.into()) };
        match self.intent {
            Intent::New | Intent::Entry if self.todo.is_empty() => {}
            Intent::NewTree => {}
            _ => return Err(ErrorKind::NotFound.into()),
        }
        let mut count = 1;
        while let Some(name) = self.todo.pop() {
            match name.as_encoded_bytes() {
                b"." => {}
                b".." => return Err(ErrorKind::NotFound.into()),
                long if long.len() > NAME_BYTES => return Err(ErrorKind::TooLong.into()),
                _ => {
                    path.push(&name);
                    count += 1;
                }
            }
        }
        Ok(Place::Inside { root: *root, path: std::mem::take(path), found: Found::Missing(count) })
    }

    fn end(mut self) -> Result<Place> {
        if let At::Above(node) = self.at {
            return Ok(Place::Above(node));
        }
        if self.here()? == Here::Unknown {
            return self.missing();
        }
        let At::Inside { root, path, .. } = self.at else { return Err(ErrorKind::NotFound.into()) };
        Ok(Place::Inside { root, path, found: Found::Exists })
    }

    /// What the position is; `Unknown` where nothing is there any more.
    fn here(&mut self) -> Result<Here> {
        let At::Inside { root, path, here } = &mut self.at else { return Ok(Here::Directory) };
        if *here == Here::Unknown {
            *here = match self.names.look(*root, path)? {
                Seen::Directory => Here::Directory,
                Seen::Other => Here::Other,
                Seen::Missing if self.todo.is_empty() => Here::Unknown,
                Seen::Missing => return Err(ErrorKind::NotFound.into()),
                // A plain name when the roots were resolved, a link now.
                Seen::Link(_) => return Err(ErrorKind::RootUnavailable.into()),
            };
        }
        Ok(*here)
    }

    /// Begins an absolute path: at the root whose spelling it starts with (the longest), else at `/`.
    fn start(&mut self, path: &OsStr) {
        match self.spellings.begin(path) {
            Some((root, rest)) => {
                self.enter(root);
                self.push(rest);
            }
            None => {
                self.at = At::Above(TOP);
                self.push(path);
            }
        }
    }

    fn enter(&mut self, root: usize) {
        self.at = self.spellings.entered(root);
    }

    fn arrive(&mut self, node: Node) {
        match self.spellings.root_at(node) {
            Some(root) => self.enter(root),
            None => self.at = At::Above(node),
        }
    }

    fn push(&mut self, path: &OsStr) {
        let first = self.todo.len();
        self.todo.extend(components(path).map(|(name, _)| name.to_owned()));
        // A trailing slash asks for a directory, which `.` does, too.
        if path.as_encoded_bytes().ends_with(b"/") {
            self.todo.push(OsString::from("."));
        }
        if let Some(pushed) = self.todo.get_mut(first..) {
            pushed.reverse();
        }
    }
}

/// Nothing tells it from any other refusal of its kind but the operator's detail.
fn outside(link: Option<&(PathBuf, OsString)>) -> Error {
    let error = Error::new(ErrorKind::OutsideRoots);
    match link {
        Some((link, text)) => error.detail(format!("after the link {link:?}, which points to {text:?}")),
        None => error,
    }
}

/// The roots' paths as trees of names, so that a decision costs the same for one root and for ten thousand.
#[derive(Debug, Default)]
pub(crate) struct Spellings {
    /// Canonical paths: names of roots, and of their ancestors.
    canonical: Tree,
    /// Paths as they were given, where those differ: names of roots, and of nothing else.
    given: Tree,
    /// Of each root its node in `canonical`, and whether it is a directory.
    roots: Vec<(Node, RootIs)>,
}

/// What a root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootIs {
    Directory,
    File,
}

/// A node of the canonical tree.
pub(crate) type Node = u32;

/// `/`, in any tree.
const TOP: Node = 0;

#[derive(Debug)]
struct Tree(Vec<Branch>);

#[derive(Debug, Default)]
struct Branch {
    parent: Node,
    name: OsString,
    children: HashMap<OsString, Node>,
    root: Option<usize>,
}

impl Spellings {
    /// Adds the next root by its canonical path. The caller has seen to it that no other has the same.
    pub(crate) fn add(&mut self, canonical: &Path, is: RootIs) {
        let node = self.canonical.insert(canonical, self.roots.len());
        self.roots.push((node, is));
    }

    /// Adds another path of a root, as long as there is room. The first root that has a path keeps it.
    pub(crate) fn add_given(&mut self, given: &Path, root: usize) {
        if self.given.0.len() < GIVEN_NAMES {
            self.given.insert(given, root);
        }
    }

    /// Whether a root is at this canonical path or beneath it.
    pub(crate) fn holds(&self, canonical: &Path) -> bool {
        self.canonical.find(canonical).is_some()
    }

    /// The roots at a node and beneath it, in their order.
    pub(crate) fn beneath(&self, node: Node) -> Vec<usize> {
        let mut found = Vec::new();
        let mut todo = vec![node];
        while let Some(branch) = todo.pop().and_then(|node| self.canonical.get(node)) {
            found.extend(branch.root);
            todo.extend(branch.children.values());
        }
        found.sort_unstable();
        found
    }

    /// The root with the longest spelling that an absolute path starts with, and the rest of the path.
    pub(crate) fn begin<'a>(&self, path: &'a OsStr) -> Option<(usize, &'a OsStr)> {
        let mut best = self.root_at(TOP).map(|root| (root, path));
        let mut canonical = Some(TOP);
        let mut given = Some(TOP);
        for (name, rest) in components(path) {
            match name.as_encoded_bytes() {
                b"." => continue,
                b".." => break,
                _ => {}
            }
            canonical = canonical.and_then(|node| self.canonical.child(node, name));
            given = given.and_then(|node| self.given.child(node, name));
            let root =
                canonical.and_then(|node| self.canonical.root(node)).or(given.and_then(|node| self.given.root(node)));
            best = root.map(|root| (root, rest)).or(best);
            if canonical.is_none() && given.is_none() {
                break;
            }
        }
        best
    }

    fn root_at(&self, node: Node) -> Option<usize> {
        self.canonical.root(node)
    }

    fn parent(&self, node: Node) -> Node {
        self.canonical.get(node).map_or(TOP, |branch| branch.parent)
    }

    fn child(&self, node: Node, name: &OsStr) -> Option<Node> {
        self.canonical.child(node, name)
    }

    fn entered(&self, root: usize) -> At {
        let here = match self.roots.get(root) {
            Some((_, RootIs::Directory)) => Here::Directory,
            _ => Here::Unknown,
        };
        At::Inside { root, path: PathBuf::new(), here }
    }

    /// The position above a root's own top: `/` has itself there; else the root around it, or an ancestor.
    fn around(&self, root: usize) -> At {
        let Some(&(node, _)) = self.roots.get(root) else { return At::Above(TOP) };
        if node == TOP {
            return self.entered(root);
        }
        let above = self.parent(node);
        let mut names = Vec::new();
        let mut node = above;
        loop {
            if let Some(outer) = self.root_at(node) {
                let path: PathBuf = names.iter().rev().collect();
                return if path.as_os_str().is_empty() {
                    self.entered(outer)
                } else {
                    At::Inside { root: outer, path, here: Here::Unknown }
                };
            }
            match self.canonical.get(node) {
                Some(branch) if node != TOP => {
                    names.push(&branch.name);
                    node = branch.parent;
                }
                _ => return At::Above(above),
            }
        }
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self(vec![Branch::default()])
    }
}

impl Tree {
    fn insert(&mut self, path: &Path, root: usize) -> Node {
        let mut node = TOP;
        for (name, _) in components(path.as_os_str()) {
            node = match self.child(node, name) {
                Some(child) => child,
                None => self.grow(node, name),
            };
        }
        if let Some(branch) = self.0.get_mut(node as usize) {
            branch.root.get_or_insert(root);
        }
        node
    }

    fn grow(&mut self, parent: Node, name: &OsStr) -> Node {
        // A list has at most 10,000 entries of at most 2,048 names: far from 2^32.
        let new = Node::try_from(self.0.len()).unwrap_or(Node::MAX);
        if let Some(branch) = self.0.get_mut(parent as usize) {
            branch.children.insert(name.to_owned(), new);
        }
        self.0.push(Branch { parent, name: name.to_owned(), ..Branch::default() });
        new
    }

    fn find(&self, path: &Path) -> Option<Node> {
        components(path.as_os_str()).try_fold(TOP, |node, (name, _)| self.child(node, name))
    }

    fn get(&self, node: Node) -> Option<&Branch> {
        self.0.get(node as usize)
    }

    fn child(&self, node: Node, name: &OsStr) -> Option<Node> {
        self.get(node)?.children.get(name).copied()
    }

    fn root(&self, node: Node) -> Option<usize> {
        self.get(node)?.root
    }
}

pub(crate) fn is_absolute(path: &OsStr) -> bool {
    path.as_encoded_bytes().starts_with(b"/")
}

/// The names of a path between its slashes, `.` and `..` among them, each with the rest that follows it.
pub(crate) fn components(path: &OsStr) -> impl Iterator<Item = (&OsStr, &OsStr)> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut rest = path.as_bytes();
    std::iter::from_fn(move || {
        let start = rest.iter().position(|&byte| byte != b'/')?;
        let from = rest.get(start..)?;
        let (name, after) = from.split_at(from.iter().position(|&byte| byte == b'/').unwrap_or(from.len()));
        rest = after;
        Some((OsStr::from_bytes(name), OsStr::from_bytes(after)))
    })
}

/// The most links followed for one request: MAXSYMLINKS of Linux (path_resolution(7)).
pub const LINK_HOPS: usize = 40;

/// The most components walked for one request, those of links among them: four of the longest paths. Linux bounds the links alone;
/// this bounds the time.
const STEPS: usize = 4 * crate::location::PATH_BYTES / 2;

/// The most names kept for paths as they were given: ten for each of the longest list's entries. A root whose spelling finds no room
/// keeps its canonical path.
const GIVEN_NAMES: usize = 10 * crate::wire::ROOT_LIST_ENTRIES;
