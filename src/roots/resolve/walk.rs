//! The state machine of [`resolve`](super::resolve).

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::{EntryKind, LastName, Lookup, Place, PlaceInRoot, Presence};
use crate::error::{Code, Error, Result, quoted};
use crate::limits::{LINK_HOPS, NAME_BYTES, RESOLVE_STEPS};
use crate::path::Protection;
use crate::path::index::{Above, Node, Origin, PathIndex, RootKind, TOP};
use crate::path::names::{components, ends_as_directory, is_absolute};

pub(super) struct PathWalk<'a, N> {
    lookup: &'a mut N,
    aliases: &'a PathIndex,
    last_name: LastName,
    /// The position, if it is an ancestor of a root. Otherwise, it is `path` in the root `root`.
    above: Option<Node>,
    root: usize,
    path: PathBuf,
    /// What is at the position, or `Missing` if that is not known yet.
    here: EntryKind,
    /// The remaining components. The next one is last.
    todo: Vec<Cow<'a, OsStr>>,
    steps: usize,
    hops: usize,
    /// Whether the last name of the request is a symlink that was followed.
    is_target: bool,
    /// Whether the last component is `.` or `..`.
    is_dot: bool,
    /// The last symlink that was followed, and its target. They are reported only to the operator.
    last_link: Option<(PathBuf, OsString)>,
}

impl<'a, N: Lookup> PathWalk<'a, N> {
    pub(super) fn new(lookup: &'a mut N, aliases: &'a PathIndex, last_name: LastName) -> Self {
        Self {
            lookup,
            aliases,
            last_name,
            above: Some(TOP),
            root: 0,
            path: PathBuf::new(),
            here: EntryKind::Missing,
            todo: Vec::new(),
            steps: 0,
            hops: 0,
            is_target: false,
            is_dot: false,
            last_link: None,
        }
    }

    /// Resolves the path that `start` adds.
    pub(super) fn run(mut self, start: impl FnOnce(&mut Self) -> Result<()>) -> Result<Place> {
        let place = start(&mut self).and_then(|()| self.walk());
        place.map_err(|error| match (self.above, self.last_link) {
            (None, _) => error.in_root(self.root),
            (Some(_), Some((link, text))) => {
                // The symlink appears only in the operator's detail, so the text of the refusal is
                // always the same.
                let (link, text) = (quoted(link.as_os_str()), quoted(&text));
                error.detail(["after following the symlink ", &link, " to ", &text].concat())
            }
            (Some(_), None) => error,
        })
    }

    fn walk(&mut self) -> Result<Place> {
        loop {
            self.count_step()?;
            let Some(name) = self.todo.pop() else { return self.end() };
            if let Some(node) = self.above {
                self.step_above(node, &name)?;
            } else if let Some(place) = self.step(&name)? {
                return Ok(place);
            }
        }
    }

    fn count_step(&mut self) -> Result<()> {
        if self.steps >= RESOLVE_STEPS {
            return Err(Code::TooLong.into());
        }
        self.steps += 1;
        Ok(())
    }

    /// Processes one component at an ancestor of a root.
    fn step_above(&mut self, node: Node, name: &OsStr) -> Result<()> {
        match name.as_encoded_bytes() {
            b"." => return Ok(()),
            b".." => {
                self.above = Some(self.aliases.parent(node));
                return Ok(());
            }
            _ => {}
        }
        let next = self.aliases.child(node, name);
        // Defense: Outside the roots, the resolution stops before it looks anything up.
        self.go_to(next.ok_or(Code::OutsideRoots)?);
        Ok(())
    }

    /// Processes one component inside a root. Returns a place if the walk ends there.
    fn step(&mut self, name: &OsStr) -> Result<Option<Place>> {
        match self.look_here()? {
            EntryKind::Directory => {}
            EntryKind::Missing => return Err(Code::NotFound.into()),
            _ => return Err(self.not_a_directory()),
        }
        self.is_dot = matches!(name.as_encoded_bytes(), b"." | b"..");
        match name.as_encoded_bytes() {
            b"." => return Ok(None),
            b".." => {
                if !self.path.pop() {
                    self.leave_root()?;
                }
                return Ok(None);
            }
            _ => self.path.push(name),
        }
        self.refuse_denied(1)?;
        if name.len() > NAME_BYTES {
            return Err(Code::TooLong.into());
        }
        let text = match self.lookup.look(self.root, &self.path)? {
            EntryKind::Link(text) => text,
            EntryKind::Missing => return self.missing().map(Some),
            found => {
                self.here = found;
                return Ok(None);
            }
        };
        let only_dots_follow = self.only_dots_follow();
        if self.last_name == LastName::Unfollowed && only_dots_follow {
            if self.todo.is_empty() {
                return Ok(Some(self.inside(Presence::Link)));
            }
            // rmdir(2) and rename(2) also refuse `link/`.
            let text = "not a directory but a symlink; omit the slash to name the symlink itself";
            return Err(Error::from(Code::NotADirectory).with_text(text));
        }
        let link = self.path.clone();
        self.path.pop();
        // Defense: Where a symlink led is its target, which is not removed in its place.
        self.is_target |= only_dots_follow;
        self.follow(link, text)?;
        Ok(None)
    }

    fn not_a_directory(&self) -> Error {
        let error = Error::from(Code::NotADirectory);
        if self.path.as_os_str().is_empty() {
            return error.with_text("the allowed path is a single file: use its absolute path");
        }
        error
    }

    /// Refuses the last `names` names of the path if one of them is denied.
    fn refuse_denied(&self, names: usize) -> Result<()> {
        // Defense: A denied name is never looked up.
        if self.lookup.is_denied(self.root, &self.path, names) {
            return Err(Protection::Denied.refusal());
        }
        Ok(())
    }

    /// Starts a walk at the symlink at `link` in a root, as if the walk had just met it.
    pub(super) fn start_at_symlink(
        &mut self,
        root: usize,
        link: PathBuf,
        text: OsString,
    ) -> Result<()> {
        self.enter(root);
        let relative_to = (!is_absolute(&text)).then(|| link.parent().map(Path::to_owned));
        self.follow(link, text)?;
        // The directory that contains the symlink is resolved before the target.
        relative_to.flatten().map_or(Ok(()), |directory| self.push_owned(directory.as_os_str()))
    }

    fn follow(&mut self, link: PathBuf, text: OsString) -> Result<()> {
        self.hops += 1;
        if self.hops > LINK_HOPS {
            return Err(Code::TooManyLinks.into());
        }
        if text.is_empty() {
            return Err(Code::NotFound.into());
        }
        let rest = if is_absolute(&text) { self.begin(&text, Origin::Symlink) } else { &text };
        let pushed = self.push_owned(rest);
        self.last_link = Some((link, text));
        pushed
    }

    /// Ends the walk at a missing name. Fails with `NotFound` if `..` follows.
    fn missing(&mut self) -> Result<Place> {
        let mut count = 1;
        let ended = loop {
            let Some(name) = self.todo.pop() else { break Ok(()) };
            self.is_dot = &*name == ".";
            match name.as_encoded_bytes() {
                b"." => continue,
                b".." => break Err(Code::NotFound),
                _ => self.path.push(&name),
            }
            count += 1;
            if name.len() > NAME_BYTES {
                break Err(Code::TooLong);
            }
        };
        // All of them at once, because a comparison takes time in proportion to the whole path.
        self.refuse_denied(count)?;
        ended?;
        Ok(self.inside(Presence::Missing(count)))
    }

    /// Whether nothing but `.` remains.
    fn only_dots_follow(&self) -> bool {
        self.todo.iter().all(|name| &**name == ".")
    }

    fn end(&mut self) -> Result<Place> {
        if let Some(node) = self.above {
            return Ok(Place::Above(node));
        }
        if self.path.as_os_str().is_empty() {
            self.look_at_root()?;
        } else if self.look_here()? == EntryKind::Missing {
            return self.missing();
        }
        Ok(self.inside(Presence::Exists))
    }

    /// The place at the position.
    fn inside(&mut self, found: Presence) -> Place {
        Place::Inside(PlaceInRoot {
            root: self.root,
            path: std::mem::take(&mut self.path),
            found,
            is_target: self.is_target,
            names_directory: self.is_dot,
        })
    }

    /// Refuses a request that ends at a root if the root's name does not lead to what the root is.
    /// A root's own name is never created.
    fn look_at_root(&mut self) -> Result<()> {
        match (self.lookup.look(self.root, &self.path)?, self.aliases.is(self.root)) {
            (EntryKind::Directory, RootKind::Directory) | (EntryKind::Other, RootKind::File) => {
                Ok(())
            }
            _ => Err(Code::RootUnavailable.into()),
        }
    }

    /// What is at the position. `Missing` if it no longer exists.
    fn look_here(&mut self) -> Result<EntryKind> {
        if self.here == EntryKind::Missing {
            self.here = match self.lookup.look(self.root, &self.path)? {
                // The root was not a symlink when it was resolved.
                EntryKind::Link(_) => return Err(Code::RootUnavailable.into()),
                found => found,
            };
        }
        Ok(self.here.clone())
    }

    /// Starts an absolute path at the root with the longest matching path or alias. If there is
    /// none, starts it at the place of a declared alias, or else at `/`.
    pub(super) fn start(&mut self, path: &'a OsStr) -> Result<()> {
        let rest = self.begin(path, Origin::Request);
        self.push(rest)
    }

    /// Moves to the start of an absolute path. Returns the rest of the path.
    fn begin<'p>(&mut self, path: &'p OsStr, origin: Origin) -> &'p OsStr {
        if let Some((root, rest)) = self.aliases.begin_from(path, origin) {
            self.enter(root);
            return rest;
        }
        let (node, rest) = match self.aliases.declared(path, origin) {
            Some((Some(node), rest)) => (node, rest),
            _ => (TOP, path),
        };
        self.above = Some(node);
        rest
    }

    /// Moves from a root to the position above it.
    fn leave_root(&mut self) -> Result<()> {
        match self.aliases.above(self.root) {
            Above::Root(outer, path) => {
                self.enter(outer);
                if !path.as_os_str().is_empty() {
                    let names = path.iter().count();
                    (self.path, self.here) = (path, EntryKind::Missing);
                    // Defense: The names that lead to a root can be denied in the outer one.
                    self.refuse_denied(names)?;
                }
            }
            Above::Ancestor(node) => self.above = Some(node),
        }
        Ok(())
    }

    pub(super) fn enter(&mut self, root: usize) {
        (self.above, self.root, self.path) = (None, root, PathBuf::new());
        let is_dir = self.aliases.is(root) == RootKind::Directory;
        self.here = if is_dir { EntryKind::Directory } else { EntryKind::Missing };
        self.is_dot = false;
    }

    fn go_to(&mut self, node: Node) {
        match self.aliases.root_at(node) {
            Some(root) => self.enter(root),
            None => self.above = Some(node),
        }
    }

    pub(super) fn push(&mut self, path: &'a OsStr) -> Result<()> {
        self.push_all(path, Cow::Borrowed)
    }

    /// Like [`push`](Self::push), for text that is not part of the request.
    fn push_owned(&mut self, path: &OsStr) -> Result<()> {
        self.push_all(path, |name| Cow::Owned(name.to_owned()))
    }

    /// Adds a path's components before the remaining ones. At an ancestor of a root, no look-up is
    /// needed, so the first components are processed at once.
    fn push_all<'p>(
        &mut self,
        path: &'p OsStr,
        stored: impl Fn(&'p OsStr) -> Cow<'a, OsStr>,
    ) -> Result<()> {
        let mut names = components(path).map(|(name, _)| name);
        while let Some(node) = self.above {
            let Some(name) = names.next() else { break };
            self.count_step()?;
            self.step_above(node, name)?;
        }
        let first = self.todo.len();
        if let Some(name) = names.next() {
            self.todo.reserve(TODO);
            self.todo.extend(std::iter::once(name).chain(names).map(stored));
        }
        // A trailing slash requires a directory, as `.` does.
        if ends_as_directory(path) {
            self.todo.push(Cow::Borrowed(OsStr::new(".")));
        }
        if let Some(pushed) = self.todo.get_mut(first..) {
            pushed.reverse();
        }
        Ok(())
    }
}

/// The number of components that most requests have at most.
const TODO: usize = 24;

#[cfg(test)]
mod tests {
    use super::LastName::{Any, Unfollowed};
    use std::collections::BTreeMap;

    use super::super::resolve;
    use super::*;

    /// Converts a path with slashes to the form of this system. On Windows, an absolute path is on
    /// drive C.
    fn native(path: &str) -> String {
        if !cfg!(windows) {
            return path.to_owned();
        }
        let path = path.replace('/', "\\");
        if path.starts_with('\\') { format!("C:{path}") } else { path }
    }

    /// An in-memory filesystem that records the look-ups.
    struct Memory {
        names: BTreeMap<PathBuf, EntryKind>,
        roots: Vec<PathBuf>,
        asked: Vec<PathBuf>,
        /// The denied name.
        denied: Option<&'static str>,
    }

    impl Lookup for Memory {
        fn look(&mut self, root: usize, path: &Path) -> Result<EntryKind> {
            // The roots that are directories need not be among the names.
            let is_root = path.as_os_str().is_empty();
            let path = if is_root { self.roots[root].clone() } else { self.roots[root].join(path) };
            if is_root && !self.names.contains_key(&path) {
                return Ok(EntryKind::Directory);
            }
            assert!(path.components().all(|name| name.as_os_str() != ".."), "looked up {path:?}");
            self.asked.push(path.clone());
            Ok(self.names.get(&path).cloned().unwrap_or(EntryKind::Missing))
        }

        fn is_denied(&self, _: usize, path: &Path, names: usize) -> bool {
            path.iter().rev().take(names).any(|name| Some(name) == self.denied.map(OsStr::new))
        }
    }

    /// In `names`, `/r/d/` is a directory, `/r/d/f` a file, and `/r/l>d` a symlink to `d`.
    fn memory(roots: &[(&str, RootKind)], names: &[&str]) -> (Memory, PathIndex) {
        let mut aliases = PathIndex::default();
        let mut memory =
            Memory { names: BTreeMap::new(), roots: Vec::new(), asked: Vec::new(), denied: None };
        for (path, is) in roots {
            aliases.add(Path::new(&native(path)), *is);
            memory.roots.push(PathBuf::from(native(path)));
        }
        for name in names {
            let (path, seen) = match name.split_once('>') {
                Some((path, target)) => (path, EntryKind::Link(native(target).into())),
                None if name.ends_with('/') => (name.trim_end_matches('/'), EntryKind::Directory),
                None => (*name, EntryKind::Other),
            };
            memory.names.insert(PathBuf::from(native(path)), seen);
        }
        (memory, aliases)
    }

    fn resolved(
        memory: &mut Memory,
        aliases: &PathIndex,
        request: &str,
        last_name: LastName,
    ) -> String {
        match resolve(memory, aliases, Some(0), OsStr::new(&native(request)), last_name) {
            Ok(Place::Inside(PlaceInRoot { root, path, found, .. })) => {
                format!("{root}:{} {found:?}", path.display().to_string().replace('\\', "/"))
            }
            Ok(Place::Above(_)) => "above".into(),
            Err(error) => error.reason().to_string(),
        }
    }

    #[test]
    fn resolver_follows_its_table_and_looks_up_only_inside_roots() {
        let roots = [
            ("/r", RootKind::Directory),
            ("/r/n", RootKind::Directory),
            ("/x/y/z", RootKind::Directory),
            ("/x/f", RootKind::File),
            ("/r/d/e/m", RootKind::Directory),
            ("/r/gone/m", RootKind::Directory),
        ];
        let names = [
            "/r/d/",
            "/r/d/f",
            "/r/d/e/",
            "/r/l>d/f",
            "/r/up>..",
            "/r/abs>/x/y/z/g",
            "/x/y/z/g",
            "/r/n/",
            "/r/n/a",
            "/x/f",
            "/r/s>s",
        ];
        let (mut memory, aliases) = memory(&roots, &names);
        let rows = [
            ("d/f", Any, "0:d/f Exists"),
            ("l", Any, "0:d/f Exists"),
            ("l", Unfollowed, "0:l Link"),
            ("d/../l", Any, "0:d/f Exists"),
            ("d/f/", Any, "not_a_directory"),
            ("..", Any, "above"),
            ("up", Any, "above"),
            ("up/r/d", Any, "0:d Exists"),
            ("up/x/y/z/g", Any, "2:g Exists"),
            ("../x/y/../f", Any, "3: Exists"),
            ("../x/y/w", Any, "outside_roots"),
            ("../../../r", Any, "0: Exists"),
            ("abs", Any, "2:g Exists"),
            ("/r/n/a", Any, "1:a Exists"),
            ("n/a", Any, "0:n/a Exists"),
            ("/r/n/..", Any, "0: Exists"),
            ("/r/n/../d/f", Any, "0:d/f Exists"),
            ("/r/../r/n/a", Any, "0:n/a Exists"),
            ("/r/../n/a", Any, "outside_roots"),
            ("/r/x/../n/a", Any, "not_found"),
            ("/x/f", Any, "3: Exists"),
            ("/x/f/..", Any, "not_a_directory"),
            ("/x", Any, "above"),
            ("/", Any, "above"),
            ("/q/../r", Any, "outside_roots"),
            ("s", Any, "too_many_links"),
            ("/r/d/e/m/..", Any, "0:d/e Exists"),
            ("/r/d/e/m/../x", Any, "0:d/e/x Missing(1)"),
            ("/r/d/e/m/../../f", Any, "0:d/f Exists"),
            ("/r/gone/m/..", Any, "0:gone Missing(1)"),
            ("/r/gone/m/../x", Any, "not_found"),
            ("m", Any, "0:m Missing(1)"),
            ("m", Unfollowed, "0:m Missing(1)"),
            ("m/o", Unfollowed, "0:m/o Missing(2)"),
            ("m/o/p", Any, "0:m/o/p Missing(3)"),
            ("m/../o", Any, "not_found"),
        ];
        for (request, last_name, expected) in rows {
            let resolved = resolved(&mut memory, &aliases, request, last_name);
            assert_eq!(resolved, expected, "{request} {last_name:?}");
        }
        let outside: Vec<_> =
            memory.asked.iter().filter(|path| aliases.begin(path.as_os_str()).is_none()).collect();
        assert!(outside.is_empty(), "looked up {outside:?}");
    }

    #[test]
    fn denied_name_is_refused_and_never_looked_up() {
        let names = ["/r/d/", "/r/d/f", "/r/h/", "/r/h/f", "/r/d/h/", "/r/l>d/h/../f", "/r/h2/"];
        let (mut memory, aliases) = memory(&[("/r", RootKind::Directory)], &names);
        memory.denied = Some("h");
        let long = format!("h/{}", "n".repeat(256));
        let rows = [
            ("h", Any, "protected"),
            ("h", Unfollowed, "protected"),
            ("h/f", Any, "protected"),
            ("h/..", Any, "protected"),
            ("d/h/../f", Any, "protected"),
            ("d/../h", Any, "protected"),
            ("l", Any, "protected"),
            ("l", Unfollowed, "0:l Link"),
            ("m/h", Any, "protected"),
            ("m/o/h/p", Any, "protected"),
            (&long, Any, "protected"),
            ("h2", Any, "0:h2 Exists"),
        ];
        for (request, last_name, expected) in rows {
            let resolved = resolved(&mut memory, &aliases, request, last_name);
            assert_eq!(resolved, expected, "{request} {last_name:?}");
        }
        let is_denied = |path: &&PathBuf| path.iter().any(|name| name == "h");
        assert_eq!(memory.asked.iter().find(is_denied), None);
    }

    /// As on Linux, at most forty symlinks are followed.
    #[test]
    fn symlinks_and_steps_are_bounded() {
        let links: Vec<String> = (0..50).map(|n| format!("/r/{n}>{}", n + 1)).collect();
        let mut names: Vec<&str> = links.iter().map(String::as_str).collect();
        names.extend(["/r/50", "/r/d/", "/r/d/e/"]);
        let (mut memory, aliases) = memory(&[("/r", RootKind::Directory)], &names);
        assert_eq!(resolved(&mut memory, &aliases, "10", Any), "0:50 Exists");
        assert_eq!(resolved(&mut memory, &aliases, "9", Any), "too_many_links");
        let many = |times: usize| "d/../".repeat(times);
        let deep = |directories: usize| "d/e/../../".repeat(directories);
        assert_eq!(resolved(&mut memory, &aliases, &(deep(2_047) + "d/e"), Any), "0:d/e Exists");
        assert_eq!(resolved(&mut memory, &aliases, &deep(2_048), Any), "too_long");
        let deepest = many(4_094) + "d/../d";
        assert_eq!(resolved(&mut memory, &aliases, &deepest, Any), "0:d Exists");
        assert_eq!(resolved(&mut memory, &aliases, &(many(4_095) + "d/e"), Any), "too_long");
        assert_eq!(resolved(&mut memory, &aliases, &(many(4_095) + "d"), Any), "0:d Exists");
        assert_eq!(resolved(&mut memory, &aliases, &many(4_096), Any), "too_long");
    }

    /// The resolver itself refuses a name that is too long, without a look-up.
    #[test]
    fn name_that_is_too_long_is_not_looked_up() {
        let (mut memory, aliases) = memory(&[("/r", RootKind::Directory)], &["/r/d/"]);
        let (long, longer) = ("n".repeat(255), "n".repeat(256));
        let named = format!("0:{long} Missing(1)");
        assert_eq!(resolved(&mut memory, &aliases, &long, Any), named);
        let asked = memory.asked.len();
        for last_name in [Any, Unfollowed] {
            assert_eq!(resolved(&mut memory, &aliases, &longer, last_name), "too_long");
        }
        assert_eq!(memory.asked.len(), asked);
        for (request, expected) in [
            (format!("m/{long}"), format!("0:m/{long} Missing(2)")),
            (format!("m/{longer}"), "too_long".into()),
        ] {
            assert_eq!(resolved(&mut memory, &aliases, &request, Any), expected);
        }
    }

    #[test]
    fn every_path_is_outside_if_there_are_no_roots() {
        let (mut memory, aliases) = memory(&[], &["/a"]);
        for request in ["/a", "/", "/b/.."] {
            let place = resolve(&mut memory, &aliases, None, OsStr::new(&native(request)), Any);
            assert!(!matches!(place, Ok(Place::Inside(_))), "{request}");
        }
        assert!(resolve(&mut memory, &aliases, None, OsStr::new("a"), Any).is_err());
        assert!(memory.asked.is_empty());
    }

    /// Only the operator learns the target of a symlink.
    #[test]
    fn symlink_to_the_outside_is_shown_only_to_the_operator() {
        let (mut memory, aliases) = memory(&[("/r", RootKind::Directory)], &["/r/l>/etc/shadow"]);
        let error = resolve(&mut memory, &aliases, Some(0), OsStr::new("l"), Any).unwrap_err();
        let target = native("/etc/shadow");
        let detail = format!(r#"after following the symlink "l" to {target:?}"#);
        assert_eq!(error.operator_detail(), Some(detail.as_str()));
        assert_eq!(error.to_string(), "not inside the allowed directories");
    }
}
