//! Finds roots by path: [`PathIndex`]. Whole names are compared: `/srv/app` is not a prefix of
//! `/srv/app-evil`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::names::{alias_names, components, is_absolute, key};

/// The roots' canonical paths and aliases, as trees of names. A look-up costs the same with one
/// root as with ten thousand.
#[derive(Debug, Default)]
pub struct PathIndex {
    /// The canonical paths of roots, and their ancestors.
    canonical: Tree,
    /// The aliases of roots. Ancestors have no meaning here.
    aliases: Tree,
    /// The operator's aliases, each marked with its index in `declared`.
    declared_paths: Tree,
    declared: Vec<AliasTarget>,
    /// The node in `canonical` and the kind of each root.
    roots: Vec<(Node, RootKind)>,
}

/// The kind of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// A directory.
    Directory,
    /// A single file.
    File,
}

#[derive(Clone, Copy, Debug)]
struct AliasTarget {
    /// The node of its place in `canonical`, or `None` if no root is at or below that.
    node: Option<Node>,
    /// Whether it resolves to that place here.
    is_here: bool,
}

/// What a path comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A request or an entry of a root list, which may begin with any alias.
    Request,
    /// The target of a symlink, which may begin only with an alias that resolves on this system.
    Symlink,
}

/// The index of a node in a tree.
pub type Node = u32;

/// Where a path can lead by its names alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// In this root.
    Root(usize),
    /// At an ancestor of roots, known by name.
    Ancestor(Node),
}

/// The node of `/`, or on Windows of the parent of all volumes.
pub const TOP: Node = 0;

/// A tree of names, some of which are marked with the index of a root.
#[derive(Debug, Default)]
pub struct Tree(Vec<Branch>);

#[derive(Debug, Default)]
struct Branch {
    parent: Node,
    root: Option<u32>,
    name: Box<OsStr>,
    /// Most nodes have at most one child.
    first_child: Option<Node>,
    /// Keyed by [`key`].
    #[expect(
        clippy::box_collection,
        reason = "a map is rare, and three times as large as the rest"
    )]
    other_children: Option<Box<HashMap<Box<OsStr>, Node>>>,
}

impl PathIndex {
    /// Adds the next root by its canonical path, which no other root may have.
    pub fn add(&mut self, canonical: &Path, is: RootKind) {
        let node = self.canonical.insert(canonical, self.roots.len());
        self.roots.push((node, is));
    }

    /// Adds an alias of a root, unless `ROOT_NAMES` is reached. The first of two equal aliases
    /// counts.
    pub fn add_alias(&mut self, alias: &Path, root: usize) {
        if self.aliases.0.len() < ROOT_NAMES {
            self.aliases.insert(alias, root);
        }
    }

    /// Adds an operator's alias of a root or an ancestor of roots. Declared aliases must not be
    /// nested.
    pub fn declare(&mut self, alias: &Path, target: &Path, is_here: bool) {
        self.declared_paths.insert(alias, self.declared.len());
        self.declared.push(AliasTarget { node: self.canonical.find(target), is_here });
    }

    /// Releases spare capacity.
    pub fn shrink(&mut self) {
        self.canonical.0.shrink_to_fit();
        self.aliases.0.shrink_to_fit();
        self.declared_paths.0.shrink_to_fit();
        self.declared.shrink_to_fit();
        self.roots.shrink_to_fit();
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.canonical.len() + self.aliases.len() + self.declared_paths.len()
    }

    /// Whether a root is at this canonical path or beneath it.
    pub fn has_root_at_or_below(&self, canonical: &Path) -> bool {
        self.canonical.find(canonical).is_some()
    }

    /// The node of a root.
    pub fn node(&self, root: usize) -> Node {
        self.roots.get(root).map_or(TOP, |(node, _)| *node)
    }

    /// The roots at a node and on a path of plain names below it, compared byte for byte, outermost
    /// first, each with the number of names that lead to it. A file root contains nothing else.
    pub fn roots_on<'a>(
        &'a self,
        start: Node,
        path: &'a Path,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let names = components(path.as_os_str());
        let below = names.scan(start, |node, (name, rest)| {
            *node = self.same_child(*node, name)?;
            Some((*node, rest.is_empty()))
        });
        let nodes = std::iter::once((start, path.as_os_str().is_empty())).chain(below);
        nodes.enumerate().filter_map(|(number, (node, is_last))| {
            let root = self.root_at(node)?;
            (is_last || self.is(root) == RootKind::Directory).then_some((number, root))
        })
    }

    /// The roots below a canonical path, compared byte for byte, in ascending order.
    pub fn roots_below(&self, canonical: &Path) -> Vec<usize> {
        let mut names = components(canonical.as_os_str());
        let node = names.try_fold(TOP, |node, (name, _)| self.same_child(node, name));
        let mut below = node.map_or_else(Vec::new, |node| self.beneath(node));
        below.retain(|root| Some(self.node(*root)) != node);
        below
    }

    fn same_child(&self, node: Node, name: &OsStr) -> Option<Node> {
        let child = self.canonical.child(node, name);
        // Defense: In doubt, the outer root decides, which grants no more than the inner one does.
        child.filter(|child| self.canonical.name(*child) == name)
    }

    /// The roots at a node and beneath it, in ascending order.
    pub fn beneath(&self, node: Node) -> Vec<usize> {
        let mut found = Vec::new();
        let mut todo = vec![node];
        while let Some(branch) = todo.pop().and_then(|node| self.canonical.get(node)) {
            found.extend(branch.root());
            todo.extend(branch.first_child);
            todo.extend(branch.other_children.iter().flat_map(|others| others.values()));
        }
        found.sort_unstable();
        found
    }

    /// The root with the longest path or alias that an absolute path starts with, and the rest.
    pub fn strip_root<'a>(&self, path: &'a OsStr) -> Option<(usize, &'a OsStr)> {
        match self.begin_from(path, Origin::Request) {
            (Position::Root(root), rest) => Some((root, rest)),
            (Position::Ancestor(_), _) => None,
        }
    }

    /// Like [`strip_root`](Self::strip_root), also for a symlink's target. A path that starts in no root
    /// starts at the place of a declared alias, or else at `/`.
    pub fn begin_from<'a>(&self, path: &'a OsStr, origin: Origin) -> (Position, &'a OsStr) {
        match self.declared(path, origin) {
            Some((Some(place), rest)) => self.begin_at(place, None, rest),
            Some((None, _)) => (Position::Ancestor(TOP), path),
            None => self.begin_at(TOP, Some(TOP), path),
        }
    }

    /// The place of the declared alias that a path begins with, and the rest. The place is `None`
    /// if no root is at or below it.
    pub fn declared<'a>(
        &self,
        path: &'a OsStr,
        origin: Origin,
    ) -> Option<(Option<Node>, &'a OsStr)> {
        if self.declared.is_empty() {
            return None;
        }
        let mut node = TOP;
        for (name, rest) in alias_names(path) {
            node = self.declared_paths.child(node, &name)?;
            let found = self.declared_paths.root(node).and_then(|number| self.declared.get(number));
            if let Some(AliasTarget { node, is_here }) = found {
                // Defense: The target of a symlink begins only with an alias that exists here.
                let may_begin = *is_here || origin == Origin::Request;
                return may_begin.then_some((*node, rest));
            }
        }
        None
    }

    /// Whether a request is absolute or begins with a declared alias.
    pub fn is_absolute(&self, request: &OsStr) -> bool {
        is_absolute(request) || self.declared(request, Origin::Request).is_some()
    }

    fn begin_at<'a>(
        &self,
        start: Node,
        mut alias: Option<Node>,
        path: &'a OsStr,
    ) -> (Position, &'a OsStr) {
        let mut best = (self.position(start), path);
        let mut canonical = Some(start);
        for (name, rest) in components(path) {
            match name.as_encoded_bytes() {
                b"." => continue,
                b".." => break,
                _ => {}
            }
            canonical = canonical.and_then(|node| self.canonical.child(node, name));
            alias = alias.and_then(|node| self.aliases.child(node, name));
            let root = canonical
                .and_then(|node| self.canonical.root(node))
                .or(alias.and_then(|node| self.aliases.root(node)));
            best = root.map_or(best, |root| (Position::Root(root), rest));
            if canonical.is_none() && alias.is_none() {
                break;
            }
        }
        best
    }

    /// The root at a node.
    pub fn root_at(&self, node: Node) -> Option<usize> {
        self.canonical.root(node)
    }

    /// The parent of a node. `/`, and on Windows each volume, is its own parent.
    pub fn parent(&self, node: Node) -> Node {
        match self.canonical.get(node) {
            Some(volume) if cfg!(windows) && volume.parent == TOP => node,
            Some(branch) => branch.parent,
            None => TOP,
        }
    }

    /// The child of a node by name.
    pub fn child(&self, node: Node, name: &OsStr) -> Option<Node> {
        self.canonical.child(node, name)
    }

    /// The kind of a root.
    pub fn is(&self, root: usize) -> RootKind {
        self.roots.get(root).map_or(RootKind::File, |(_, is)| *is)
    }

    /// The position of a node.
    pub fn position(&self, node: Node) -> Position {
        self.root_at(node).map_or(Position::Ancestor(node), Position::Root)
    }

    /// The position above a root: an ancestor, or an enclosing root with a path in it.
    pub fn above(&self, root: usize) -> (Position, PathBuf) {
        // The parent of `/` is `/`.
        let above = self.parent(self.node(root));
        let mut names = Vec::new();
        let mut node = above;
        loop {
            match (self.position(node), self.canonical.get(node)) {
                (outer @ Position::Root(_), _) => {
                    return (outer, names.into_iter().rev().collect());
                }
                (_, Some(branch)) if node != TOP => {
                    names.push(&*branch.name);
                    node = branch.parent;
                }
                _ => return (Position::Ancestor(above), PathBuf::new()),
            }
        }
    }
}

impl Branch {
    fn root(&self) -> Option<usize> {
        self.root.map(|root| root as usize)
    }
}

impl Tree {
    /// Marks a path with a root, unless it is already marked.
    pub fn insert(&mut self, path: &Path, root: usize) -> Node {
        if self.0.is_empty() {
            self.0.push(Branch::default());
        }
        let mut node = TOP;
        for (name, _) in components(path.as_os_str()) {
            node = match self.child(node, name) {
                Some(child) => child,
                None => self.grow(node, name),
            };
        }
        if let Some(branch) = self.0.get_mut(node as usize) {
            branch.root = branch.root.or(u32::try_from(root).ok());
        }
        node
    }

    fn grow(&mut self, parent: Node, name: &OsStr) -> Node {
        // A list has at most 10,000 entries of at most 2,048 names each, so the number of nodes is
        // far below 2^32.
        let new = Node::try_from(self.0.len()).unwrap_or(Node::MAX);
        self.0.push(Branch { parent, name: name.into(), ..Branch::default() });
        if let Some(branch) = self.0.get_mut(parent as usize) {
            if branch.first_child.is_none() {
                branch.first_child = Some(new);
            } else {
                branch.other_children.get_or_insert_default().insert(key(name).into(), new);
            }
        }
        new
    }

    /// The roots that mark a path or its ancestors, outermost first, with their depths.
    pub fn marks(&self, path: &Path) -> impl Iterator<Item = (usize, usize)> {
        let below = components(path.as_os_str()).scan(TOP, |node, (name, _)| {
            *node = self.child(*node, name)?;
            Some(*node)
        });
        let nodes = std::iter::once(TOP).chain(below);
        nodes.enumerate().filter_map(|(depth, node)| Some((depth, self.root(node)?)))
    }

    pub fn marked(&self, path: &Path) -> Option<usize> {
        self.find(path).and_then(|node| self.root(node))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn find(&self, path: &Path) -> Option<Node> {
        let found =
            components(path.as_os_str()).try_fold(TOP, |node, (name, _)| self.child(node, name));
        found.filter(|node| self.get(*node).is_some())
    }

    fn get(&self, node: Node) -> Option<&Branch> {
        self.0.get(node as usize)
    }

    fn child(&self, node: Node, name: &OsStr) -> Option<Node> {
        let Branch { first_child, other_children, .. } = self.get(node)?;
        // Defense: A name is a root's only if it is equal as a whole, not in its prefix.
        let first = first_child.filter(|child| key(self.name(*child)) == key(name));
        first.or_else(|| other_children.as_ref()?.get(&*key(name)).copied())
    }

    fn name(&self, node: Node) -> &OsStr {
        self.get(node).map_or(OsStr::new(""), |branch| &branch.name)
    }

    fn root(&self, node: Node) -> Option<usize> {
        self.get(node)?.root()
    }
}

/// The maximum number of names in the paths and aliases of a list's roots: ten for each of the
/// 10,000 entries of the longest list. Names that paths share count once. An entry beyond it is
/// rejected. A root whose alias does not fit is still found by its canonical path.
pub const ROOT_NAMES: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SIBLINGS: usize = 10_000;

    #[test]
    fn name_is_found_among_zero_to_ten_thousand_siblings() {
        let mut tree = Tree::default();
        assert_eq!(
            (tree.find(Path::new("/")), tree.find(Path::new("/a")), tree.len()),
            (None, None, 0)
        );
        for number in 0..SIBLINGS {
            let path = format!("/a/{number}/b");
            assert_eq!(tree.find(Path::new(&path)), None);
            tree.insert(Path::new(&path), number);
            for first in [0, number / 2, number] {
                let marks: Vec<_> = tree.marks(Path::new(&format!("/a/{first}/b/c"))).collect();
                assert_eq!(marks, [(3, first)]);
            }
        }
        // Only a node with several children has a map.
        let children = |path: &str| {
            let branch = tree.find(Path::new(path)).and_then(|node| tree.get(node)).unwrap();
            let others = branch.other_children.as_ref().map(|others| others.len());
            (branch.first_child.is_some(), others)
        };
        assert_eq!(children("/a"), (true, Some(SIBLINGS - 1)));
        assert_eq!((children("/a/7"), children("/a/7/b")), ((true, None), (false, None)));
    }

    #[test]
    fn aliases_beyond_the_limit_are_not_added() {
        let mut aliases = PathIndex::default();
        aliases.add(Path::new("/r"), RootKind::Directory);
        (0..2 * ROOT_NAMES)
            .for_each(|number| aliases.add_alias(Path::new(&format!("/{number}")), 0));
        assert_eq!(aliases.aliases.len(), ROOT_NAMES);
        let begins = |path: &'static str| aliases.strip_root(OsStr::new(path)).is_some();
        assert_eq!([begins("/r/x"), begins("/0/x"), begins("/199999/x")], [true, true, false]);
    }

    #[test]
    fn position_above_a_root_is_in_the_enclosing_root() {
        let mut aliases = PathIndex::default();
        for path in ["/x/y", "/x/y/a/b/c", "/x/z"] {
            aliases.add(Path::new(path), RootKind::Directory);
        }
        assert_eq!(aliases.above(1), (Position::Root(0), PathBuf::from("a/b")));
        let (Position::Ancestor(above), _) = aliases.above(0) else { panic!() };
        assert_eq!(aliases.beneath(above), [0, 1, 2]);
        assert_eq!(aliases.beneath(TOP), [0, 1, 2]);
        let none = PathIndex::default();
        assert_eq!(
            (
                none.strip_root(OsStr::new("/x")),
                none.beneath(TOP).len(),
                none.child(TOP, OsStr::new("x"))
            ),
            (None, 0, None)
        );
    }
}
