//! The state machine of [`resolve`](super::resolve).

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::{LastName, Lookup, Place, PlaceInRoot, Presence};
use crate::dir::Stat;
use crate::error::{Code, Error, Result, quoted};
use crate::limits::{LINK_HOPS, NAME_BYTES, RESOLVE_STEPS};
use crate::path::Protection;
use crate::path::index::{Node, Origin, PathIndex, Position, RootKind, TOP};
use crate::path::names::{components, ends_as_directory, is_absolute};

pub(super) struct PathWalk<'a, N> {
    lookup: &'a mut N,
    aliases: &'a PathIndex,
    last_name: LastName,
    position: Position,
    path: PathBuf,
    /// Whether the position in a root is a directory, if known.
    is_dir: Option<bool>,
    /// The remaining components, the next one last.
    todo: Vec<Cow<'a, OsStr>>,
    steps: usize,
    hops: usize,
    is_target: bool,
    /// Whether the last component was `.` or `..`.
    is_dot: bool,
    /// The last followed symlink and its target, for the operator only.
    last_link: Option<(PathBuf, OsString)>,
}

impl<'a, N: Lookup> PathWalk<'a, N> {
    pub(super) fn new(lookup: &'a mut N, aliases: &'a PathIndex, last_name: LastName) -> Self {
        Self {
            lookup,
            aliases,
            last_name,
            position: Position::Ancestor(TOP),
            path: PathBuf::new(),
            is_dir: None,
            todo: Vec::new(),
            steps: 0,
            hops: 0,
            is_target: false,
            is_dot: false,
            last_link: None,
        }
    }

    pub(super) fn run(mut self, start: impl FnOnce(&mut Self) -> Result<()>) -> Result<Place> {
        let place = start(&mut self).and_then(|()| self.walk());
        place.map_err(|error| match (self.position, self.last_link) {
            (Position::Root(root), _) => error.in_root(root),
            (Position::Ancestor(_), Some((link, text))) => {
                // The symlink appears only in the operator's detail, so the text of the refusal is
                // always the same.
                let (link, text) = (quoted(link.as_os_str()), quoted(&text));
                error.with_operator_detail(
                    ["after following the symlink ", &link, " to ", &text].concat(),
                )
            }
            (Position::Ancestor(_), None) => error,
        })
    }

    fn walk(&mut self) -> Result<Place> {
        let (root, found) = loop {
            self.count_step()?;
            match (self.position, self.todo.pop()) {
                (Position::Ancestor(node), Some(name)) => self.step_above(node, &name)?,
                (Position::Ancestor(node), None) => return Ok(Place::Above(node)),
                (Position::Root(root), Some(name)) => {
                    if let Some(found) = self.step(root, &name)? {
                        break (root, found);
                    }
                }
                (Position::Root(root), None) => break (root, self.end(root)?),
            }
        };
        Ok(Place::Inside(PlaceInRoot {
            root,
            path: std::mem::take(&mut self.path),
            found,
            is_target: self.is_target,
            names_directory: self.is_dot,
        }))
    }

    fn count_step(&mut self) -> Result<()> {
        if self.steps >= RESOLVE_STEPS {
            return Err(Code::TooLong.into());
        }
        self.steps += 1;
        Ok(())
    }

    /// Takes a component at an ancestor of roots.
    fn step_above(&mut self, node: Node, name: &OsStr) -> Result<()> {
        match name.as_encoded_bytes() {
            b"." => {}
            b".." => self.go_to(Position::Ancestor(self.aliases.parent(node))),
            _ => {
                let next = self.aliases.child(node, name);
                // Defense: Outside the roots, the resolution stops before it looks anything up.
                self.go_to(self.aliases.position(next.ok_or(Code::OutsideRoots)?));
            }
        }
        Ok(())
    }

    /// Takes a component inside a root. Returns what is there if the walk ends.
    fn step(&mut self, root: usize, name: &OsStr) -> Result<Option<Presence>> {
        match self.is_dir_here(root)? {
            Some(true) => {}
            Some(false) => return Err(self.not_a_directory()),
            None => return Err(Code::NotFound.into()),
        }
        self.is_dot = matches!(name.as_encoded_bytes(), b"." | b"..");
        match name.as_encoded_bytes() {
            b"." => return Ok(None),
            b".." if self.path.pop() => return Ok(None),
            b".." => return self.leave(root).map(|()| None),
            _ => self.path.push(name),
        }
        self.refuse_denied(root, 1)?;
        if name.len() > NAME_BYTES {
            return Err(Code::TooLong.into());
        }
        match self.lookup.look(root, &self.path)? {
            Stat::Missing => self.missing(root).map(Some),
            Stat::Link(text, _) => self.link(text),
            Stat::Other(found) => {
                self.is_dir = Some(found.is_dir());
                Ok(None)
            }
        }
    }

    fn link(&mut self, text: OsString) -> Result<Option<Presence>> {
        let only_dots_follow = self.todo.iter().all(|name| &**name == ".");
        if self.last_name == LastName::Unfollowed && only_dots_follow {
            if self.todo.is_empty() {
                return Ok(Some(Presence::Link));
            }
            // rmdir(2) and rename(2) also refuse `link/`.
            let text = "not a directory but a symlink; omit the slash to name the symlink itself";
            return Err(Error::from(Code::NotADirectory).with_text(text));
        }
        let link = self.path.clone();
        self.path.pop();
        // Defense: Where a symlink led is its target, which is not removed in its place.
        self.is_target |= only_dots_follow;
        self.follow(link, text).map(|()| None)
    }

    fn not_a_directory(&self) -> Error {
        let error = Error::from(Code::NotADirectory);
        if self.path.as_os_str().is_empty() {
            return error.with_text("the allowed path is a single file: use its absolute path");
        }
        error
    }

    fn refuse_denied(&self, root: usize, names: usize) -> Result<()> {
        // Defense: A denied name is never looked up.
        if self.lookup.is_denied(root, &self.path, names) {
            return Err(Protection::Denied.refusal());
        }
        Ok(())
    }

    /// Starts as if the walk had just met the symlink at `link` in a root.
    pub(super) fn start_at_symlink(
        &mut self,
        root: usize,
        link: PathBuf,
        text: OsString,
    ) -> Result<()> {
        self.go_to(Position::Root(root));
        let is_relative = !is_absolute(&text);
        let mut directory = link.clone();
        directory.pop();
        self.follow(link, text)?;
        // The directory that contains the symlink is resolved before the target.
        if is_relative { self.push_owned(directory.as_os_str()) } else { Ok(()) }
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
    fn missing(&mut self, root: usize) -> Result<Presence> {
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
        self.refuse_denied(root, count)?;
        ended?;
        Ok(Presence::Missing(count))
    }

    fn end(&mut self, root: usize) -> Result<Presence> {
        if self.path.as_os_str().is_empty() {
            return self.look_at_root(root);
        }
        match self.is_dir_here(root)? {
            Some(_) => Ok(Presence::Exists),
            None => self.missing(root),
        }
    }

    /// Refuses a request that ends at a root whose name does not lead to what the root is. A root's
    /// own name is never created.
    fn look_at_root(&mut self, root: usize) -> Result<Presence> {
        let is_dir = self.aliases.is(root) == RootKind::Directory;
        match self.lookup.look(root, &self.path)? {
            Stat::Other(found) if found.is_dir() == is_dir => Ok(Presence::Exists),
            _ => Err(Code::RootUnavailable.into()),
        }
    }

    /// Whether the position is a directory. `None` if it no longer exists.
    fn is_dir_here(&mut self, root: usize) -> Result<Option<bool>> {
        if self.is_dir.is_none() {
            self.is_dir = match self.lookup.look(root, &self.path)? {
                Stat::Missing => None,
                // The root was not a symlink when it was resolved.
                Stat::Link(..) => return Err(Code::RootUnavailable.into()),
                Stat::Other(found) => Some(found.is_dir()),
            };
        }
        Ok(self.is_dir)
    }

    pub(super) fn start(&mut self, path: &'a OsStr) -> Result<()> {
        let rest = self.begin(path, Origin::Request);
        self.push(rest)
    }

    /// Moves to the start of an absolute path. Returns the rest of the path.
    fn begin<'p>(&mut self, path: &'p OsStr, origin: Origin) -> &'p OsStr {
        let (position, rest) = self.aliases.begin_from(path, origin);
        self.go_to(position);
        rest
    }

    fn leave(&mut self, root: usize) -> Result<()> {
        let (above, path) = self.aliases.above(root);
        self.go_to(above);
        if let (Position::Root(outer), names @ 1..) = (above, path.iter().count()) {
            (self.path, self.is_dir) = (path, None);
            // Defense: The names that lead to a root can be denied in the outer one.
            self.refuse_denied(outer, names)?;
        }
        Ok(())
    }

    pub(super) fn go_to(&mut self, position: Position) {
        let is_directory = |root| self.aliases.is(root) == RootKind::Directory;
        self.is_dir =
            matches!(position, Position::Root(root) if is_directory(root)).then_some(true);
        (self.position, self.path, self.is_dot) = (position, PathBuf::new(), false);
    }

    pub(super) fn push(&mut self, path: &'a OsStr) -> Result<()> {
        self.push_all(path, Cow::Borrowed)
    }

    fn push_owned(&mut self, path: &OsStr) -> Result<()> {
        self.push_all(path, |name| Cow::Owned(name.to_owned()))
    }

    /// Adds a path's components before the remaining ones. At an ancestor of a root, the first are
    /// taken at once.
    fn push_all<'p>(
        &mut self,
        path: &'p OsStr,
        stored: impl Fn(&'p OsStr) -> Cow<'a, OsStr>,
    ) -> Result<()> {
        let mut names = components(path).map(|(name, _)| name);
        while let Position::Ancestor(node) = self.position {
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
        self.todo.split_at_mut(first).1.reverse();
        Ok(())
    }
}

/// Most requests have no more components.
const TODO: usize = 24;

#[cfg(test)]
mod tests {
    use super::LastName::{Any, Unfollowed};
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::super::resolve;
    use super::*;
    use crate::dir::{Handle, Metadata};

    /// The form of a path on this system: on Windows, an absolute one is on drive C.
    fn native(path: &str) -> String {
        if !cfg!(windows) {
            return path.to_owned();
        }
        let path = path.replace('/', "\\");
        if path.starts_with('\\') { format!("C:{path}") } else { path }
    }

    /// An in-memory filesystem that records the look-ups.
    struct Memory {
        names: BTreeMap<PathBuf, Stat>,
        roots: Vec<PathBuf>,
        directory: Stat,
        asked: Vec<PathBuf>,
        denied: Option<&'static str>,
    }

    impl Lookup for Memory {
        fn look(&mut self, root: usize, path: &Path) -> Result<Stat> {
            // The roots that are directories need not be among the names.
            let is_root = path.as_os_str().is_empty();
            let path = if is_root { self.roots[root].clone() } else { self.roots[root].join(path) };
            if is_root && !self.names.contains_key(&path) {
                return Ok(self.directory.clone());
            }
            assert!(path.components().all(|name| name.as_os_str() != ".."), "looked up {path:?}");
            self.asked.push(path.clone());
            Ok(self.names.get(&path).cloned().unwrap_or(Stat::Missing))
        }

        fn is_denied(&self, _: usize, path: &Path, names: usize) -> bool {
            path.iter().rev().take(names).any(|name| Some(name) == self.denied.map(OsStr::new))
        }
    }

    /// In `names`, `/r/d/` is a directory, `/r/d/f` a file, and `/r/l>d` a symlink to `d`.
    fn memory(roots: &[(&str, RootKind)], names: &[&str]) -> (Memory, PathIndex) {
        let mut aliases = PathIndex::default();
        let (file, directory) = (tempfile::tempfile().unwrap(), tempfile::tempdir().unwrap());
        let file = Metadata::of_file(&file).unwrap();
        let directory = Handle::ambient(directory.path()).unwrap().metadata().unwrap();
        let mut memory = Memory {
            names: BTreeMap::new(),
            roots: Vec::new(),
            directory: Stat::Other(directory),
            asked: Vec::new(),
            denied: None,
        };
        for (path, is) in roots {
            aliases.add(Path::new(&native(path)), *is);
            memory.roots.push(PathBuf::from(native(path)));
        }
        for name in names {
            let (path, seen) = match name.split_once('>') {
                Some((path, target)) => (path, Stat::Link(native(target).into(), file.clone())),
                None if name.ends_with('/') => {
                    (name.trim_end_matches('/'), memory.directory.clone())
                }
                None => (*name, Stat::Other(file.clone())),
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
        let outside: Vec<_> = memory
            .asked
            .iter()
            .filter(|path| aliases.strip_root(path.as_os_str()).is_none())
            .collect();
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

    #[test]
    fn symlink_to_the_outside_is_shown_only_to_the_operator() {
        let (mut memory, aliases) = memory(&[("/r", RootKind::Directory)], &["/r/l>/etc/shadow"]);
        let error = resolve(&mut memory, &aliases, Some(0), OsStr::new("l"), Any).unwrap_err();
        let target = native("/etc/shadow");
        let detail = error.operator_detail().unwrap();
        assert!(detail.ends_with(&format!(r#""l" to {target:?}"#)), "{detail}");
        assert_eq!(error.to_string(), Code::OutsideRoots.text());
    }
}
