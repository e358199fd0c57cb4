//! A tree with a protected place, and the routes to that place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use guarded_fs::internals::trust_links_until;
use mcp_roots_guard::{Access, Boundary, BoundaryBuilder, DirectoryOptions, ListEntry, Roots};
use unicode_normalization::UnicodeNormalization as _;

use crate::support::access::{Policy, ascii_key};
use crate::support::operations::CONTENT;
use crate::support::protection::Protection;
use crate::support::tree::Tree;

/// A pattern and a path below the allowed directory `proj`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    pub(super) pattern: &'static str,
    pub(super) place: &'static str,
}

/// One row for each kind of pattern.
pub(super) const PATTERNS: &[Case] = &[
    Case { pattern: ".git", place: "sub/.git" },
    Case { pattern: "/.git", place: ".git" },
    Case { pattern: ".env*", place: "sub/.env.local" },
    Case { pattern: "/conf/s?crets", place: "conf/secrets" },
    Case { pattern: ".github/workflows", place: "sub/.github/workflows" },
    Case { pattern: "a/b/c.*", place: "x/a/b/c.d" },
];

/// Other forms of a protected name, which are protected on every system.
pub(super) const VARIANTS: &[Case] = &[
    Case { pattern: ".git", place: "sub/.GIT" },
    Case { pattern: ".Git", place: "sub/.gIt" },
    Case { pattern: ".git", place: "sub/.git." },
    Case { pattern: ".git", place: "sub/.git ... ." },
    Case { pattern: ".git", place: "sub/.git " },
    Case { pattern: ".git", place: "sub/.g\u{200c}it" },
    Case { pattern: ".git", place: "sub/\u{feff}.git" },
    Case { pattern: ".git", place: "sub/.git\u{200b}" },
    Case { pattern: ".git", place: "sub/.gi\u{ad}t" },
    Case { pattern: ".git", place: "sub/.git\u{fe0f}" },
    Case { pattern: ".git", place: "sub/.g\u{e0020}it" },
    Case { pattern: ".git", place: "sub/.g\u{34f}it" },
    Case { pattern: ".git", place: "sub/.git.\u{2060} ." },
    Case { pattern: ".g\u{200d}it", place: "sub/.git" },
    Case { pattern: "caf\u{e9}", place: "sub/cafe\u{301}" },
    Case { pattern: "cafe\u{301}", place: "sub/CAF\u{c9}" },
    Case { pattern: "\u{1e69}", place: "sub/s\u{307}\u{323}" },
    Case { pattern: ".vscode", place: "sub/.v\u{17f}code" },
    Case { pattern: "\u{212a}eys", place: "sub/keys" },
    Case { pattern: "stra\u{df}e", place: "sub/STRASSE" },
    Case { pattern: "\u{3c3}\u{3c2}", place: "sub/\u{3a3}\u{3a3}" },
    Case { pattern: ".env*", place: "sub/.ENV.local." },
    Case { pattern: ".env*", place: "sub/.e\u{200b}nv" },
    Case { pattern: ".env?", place: "sub/.env\u{e9}" },
    Case { pattern: ".env?", place: "sub/.enve\u{301}" },
    Case { pattern: "/conf/s?crets", place: "CONF/S\u{200b}3CRETS" },
    Case { pattern: ".GitHub/workflows", place: "sub/.github./Workflows" },
];

/// Names that a pattern must not match, because matching too much would make ordinary files
/// unusable.
pub(super) const UNPROTECTED: &[Case] = &[
    Case { pattern: ".git", place: "sub/.github" },
    Case { pattern: ".git", place: "sub/git" },
    Case { pattern: ".git", place: "sub/x.git" },
    Case { pattern: "/.git", place: "sub/.git" },
    Case { pattern: ".env*", place: "sub/x.env" },
    Case { pattern: ".env?", place: "sub/.env" },
    Case { pattern: ".env?", place: "sub/.env12" },
    Case { pattern: "/conf/secrets", place: "sub/conf/secrets" },
    Case { pattern: ".github/workflows", place: "sub/.github/x/workflows" },
    Case { pattern: "[ab]", place: "sub/a" },
    Case { pattern: "{a,b}", place: "sub/a" },
];

/// What exists at the protected place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Directory,
    File,
    /// A symlink to the unprotected directory `proj/plain`.
    Link,
    Missing,
    /// The parent is missing too.
    NoParent,
}

pub(super) const STATES: [State; 5] =
    [State::Directory, State::File, State::Link, State::Missing, State::NoParent];

impl State {
    /// The paths below the protected place that are attacked.
    pub(super) fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Directory => {
                &["", "config", "hooks", "hooks/run", "empty", "new", "n1/n2", "to-config"]
            }
            Self::File => &["", "x"],
            Self::Link => &["", "config", "new"],
            Self::Missing | Self::NoParent => &["", "new", "n1/n2"],
        }
    }
}

/// The protected entries below the allowed directories, with their descriptions.
pub(super) type Snapshot = BTreeMap<PathBuf, String>;

pub(super) struct World {
    pub(super) tree: Tree,
    pub(super) case: Case,
    pub(super) state: State,
}

impl World {
    pub(super) fn new(case: Case, state: State) -> Self {
        let world = Self { tree: Tree::in_memory(""), case, state };
        world.rebuild();
        world
    }

    /// Builds the world at the path of another one, so that absolute paths are equal.
    pub(super) fn with_state(self, state: State) -> Self {
        let world = Self { state, ..self };
        world.rebuild();
        world
    }

    /// The parent of the protected place, or `.`.
    pub(super) fn parent(&self) -> &'static str {
        self.case.place.rsplit_once('/').map_or(".", |(parent, _)| parent)
    }

    pub(super) fn name(&self) -> &'static str {
        self.case.place.rsplit_once('/').map_or(self.case.place, |(_, name)| name)
    }

    /// The directories between `proj` and the protected place, outermost first.
    pub(super) fn ancestors(&self) -> Vec<&'static str> {
        self.case.place.match_indices('/').map(|(at, _)| &self.case.place[..at]).collect()
    }

    pub(super) fn path(&self, path: &str) -> String {
        self.tree.path(path).into_os_string().into_string().unwrap()
    }

    pub(super) fn place(&self) -> String {
        self.path(&format!("proj/{}", self.case.place))
    }

    pub(super) fn rebuild(&self) {
        for entry in fs::read_dir(self.tree.path("")).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(entry.path()).unwrap();
            } else {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        let (place, parent) = (self.case.place, self.parent());
        let file = |path: &str, content: &str| {
            let path = self.tree.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let dir = |path: &str| fs::create_dir_all(self.tree.path(path)).unwrap();
        let link = |path: &str, target: &str| symlink(target, self.tree.path(path)).unwrap();
        let help = |at: &str| {
            file(&format!("{at}/mine"), "mine");
            file(&format!("{at}/full/f"), "f");
            dir(&format!("{at}/my-dir"));
        };
        file("outside/x", "x");
        file("proj/plain/config", "plain");
        help("other");
        if self.state != State::NoParent {
            help(&format!("proj/{parent}"));
        }
        let at = |rest: &str| format!("proj/{place}{rest}");
        match self.state {
            State::Directory => {
                file(&at("/config"), CONTENT);
                file(&at("/hooks/run"), CONTENT);
                dir(&at("/empty"));
                link(&at("/to-config"), "config");
            }
            State::File => file(&at(""), CONTENT),
            State::Link => link(&at(""), &self.path("proj/plain")),
            State::Missing | State::NoParent => {}
        }
        link("link-proj", "proj");
        link("other/to-p", &format!("../proj/{place}"));
        link("other/to-parent", &format!("../proj/{parent}"));
        link("proj/to-p", place);
        link("proj/to-p-abs", &self.place());
        link("proj/chain", "chain-2");
        link("proj/chain-2", "./to-p");
        link("proj/chain-3", "../other/to-p");
        link("proj/to-parent", parent);
        link("proj/through", &format!("{place}/hooks/.."));
        link("proj/dangling", &format!("{place}/new"));
        link("proj/dangling-tree", &format!("{place}/n1/n2"));
    }

    /// The oracle for this world's pattern.
    pub(super) fn policy(&self, effect: Protection) -> Policy {
        let allowed = ["proj", "other"].map(|name| self.tree.path(name));
        let policy = Policy::writable(allowed.iter().map(PathBuf::as_path));
        Policy { patterns: vec![(self.case.pattern.into(), effect)], key, ..policy }
    }

    pub(super) fn is_protected(&self, path: &Path) -> bool {
        self.policy(Protection::ReadOnly).protection(path).is_some()
    }

    /// Describes every protected entry: its type, mode, inode, times and content.
    pub(super) fn protected(&self) -> Snapshot {
        let mut todo = vec![self.tree.path("proj"), self.tree.path("other")];
        let mut found = Snapshot::new();
        while let Some(path) = todo.pop() {
            let is = fs::symlink_metadata(&path).unwrap();
            if is.is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            if self.is_protected(&path) {
                let content = match is.file_type() {
                    t if t.is_file() => format!("{:?}", fs::read(&path).unwrap()),
                    t if t.is_symlink() => fs::read_link(&path).unwrap().display().to_string(),
                    _ => String::new(),
                };
                let times = (is.mtime(), is.mtime_nsec(), is.ctime(), is.ctime_nsec());
                let line =
                    format!("{:o} {} {} {times:?} {content}", is.mode(), is.ino(), is.nlink());
                found.insert(path, line);
            }
        }
        found
    }

    /// Every name below the allowed directories, with types and contents.
    pub(super) fn everything(&self) -> BTreeSet<String> {
        let both = ["proj", "other"].map(|top| self.tree.snapshot(top));
        both.into_iter().flatten().collect()
    }

    pub(super) fn builder(&self, effect: Option<Protection>) -> BoundaryBuilder {
        self.patterns(Boundary::builder(), effect)
    }

    fn patterns(&self, builder: BoundaryBuilder, effect: Option<Protection>) -> BoundaryBuilder {
        // The world's symlinks are older than the server.
        let trusted = SystemTime::now() + Duration::from_secs(1);
        let builder = trust_links_until(builder, trusted);
        match effect {
            None => builder,
            Some(Protection::ReadOnly) => builder.protect(self.case.pattern),
            Some(Protection::Denied) => builder.deny(self.case.pattern),
        }
    }

    pub(super) fn boundary(&self, effect: Option<Protection>, directories: &[&str]) -> Boundary {
        let add = |builder: BoundaryBuilder, directory: &&str| {
            builder.directory(self.tree.path(directory), Access::ReadWrite)
        };
        directories.iter().fold(self.builder(effect), add).build().unwrap()
    }

    pub(super) fn allowed(&self, effect: Option<Protection>) -> Roots {
        self.boundary(effect, &["proj", "other"]).allowed_roots()
    }

    /// A boundary in which `proj` has aliases that do not exist here.
    fn aliased(&self, effect: Option<Protection>) -> Boundary {
        let options = DirectoryOptions::from(Access::ReadWrite);
        let options = options.alias("/none/such/host").alias(r"C:\Proj");
        let builder = self.builder(effect).directory(self.tree.path("proj"), options);
        builder.directory(self.tree.path("other"), Access::ReadWrite).build().unwrap()
    }

    /// Replaces the placeholders of a route.
    fn expand(&self, text: &str) -> String {
        let text = text.replace("PLACE", self.case.place).replace("PARENT", self.parent());
        text.replace("NAME", self.name()).replace("$T", self.path("").trim_end_matches('/'))
    }
}

/// The form in which names are compared: case, canonical normalization, default-ignorable code
/// points, and trailing dots and spaces are ignored.
pub(super) fn key(name: &str) -> String {
    if name.is_ascii() {
        return ascii_key(name);
    }
    let is_ignorable = |c: &char| {
        matches!(*c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
    };
    let folded: String = name
        .nfd()
        .filter(|c| !is_ignorable(c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .map(|c| if c == '\u{3c2}' { '\u{3c3}' } else { c })
        .nfc()
        .collect();
    folded.trim_end_matches(['.', ' ']).to_owned()
}

/// A way to name the protected place.
#[derive(Clone, Copy)]
pub(super) struct Route {
    pub(super) name: &'static str,
    roots: &'static str,
    request: &'static str,
    exists: &'static str,
}

/// The routes:
///
/// ```text
/// name | roots | the request that names the place | where the route exists
/// ```
///
/// The roots are allowed directories, or those that a client lists or that a snapshot is narrowed
/// to. The directory `other` is always among them, except if they are narrowed. `PLACE`, its
/// `PARENT` and its `NAME` are paths below `proj`. `hooks => X` requests only what is at or below
/// `hooks` in the place, for which `X` stands.
const ROUTES: &str = r"
relative | allow proj | PLACE | always
absolute | allow proj | $T/proj/PLACE | always
URI | allow proj | file://$T/proj/PLACE | always
dots and slashes | allow proj | ./plain/..//PARENT//./NAME | always
around through `..` | allow proj | ../proj/plain/../PLACE | always
out of the place and back | allow proj | PLACE/../NAME | directory
relative symlink | allow proj | to-p | always
absolute symlink | allow proj | to-p-abs | always
chain of symlinks | allow proj | chain | always
chain through another root | allow proj | chain-3 | always
symlink to the parent | allow proj | to-parent/NAME | always
symlink in another root | allow proj | $T/other/to-p | always
symlink in another root to the parent | allow proj | $T/other/to-parent/NAME | always
symlink through the place | allow proj | through | directory
dangling symlink | allow proj | new => dangling | always
dangling symlink to a tree | allow proj | n1/n2 => dangling-tree | always
allowed directory named through a symlink | allow link-proj | $T/link-proj/PLACE | always
nested allowed directory | allow proj proj/PARENT | $T/proj/PLACE | nested parent
no allowed directories | list proj | $T/proj/PLACE | pattern without anchor
client root at the parent | narrow proj/PARENT | NAME | parent
client root at the parent, by a symlink | narrow proj/to-parent | $T/proj/to-parent/NAME | parent
client root at the place | narrow proj/PLACE | . | readable
client root at the place, absolute | narrow proj/PLACE | $T/proj/PLACE | readable
client root at the place, by a symlink | narrow proj/to-p | $T/proj/to-p | readable
client root inside the place | narrow proj/PLACE/hooks | hooks => . | readable
file root in the place | narrow proj/PLACE/config | config => $T/proj/PLACE/config | readable
alias that does not exist here | alias | /none/such/host/PLACE | always
alias of Windows | alias | c:\Proj\PLACE | always
client root listed by an alias | alias /none/such/host/PARENT | /none/such/host/PLACE | parent
within the parent | within PARENT | NAME | parent
within the parent, by a symlink | within $T/proj/to-parent | $T/proj/to-parent/NAME | parent
within the place | within PLACE | . | readable
within the place, by a symlink | within $T/proj/to-p | $T/proj/to-p | readable
within a directory in the place | within PLACE/hooks | hooks => . | readable
within a file in the place | within PLACE/config | config => $T/proj/PLACE/config | readable
";

pub(super) fn routes() -> Vec<Route> {
    let parse = |line: &'static str| {
        let fields: Vec<_> = line.split(" | ").collect();
        let &[name, roots, request, exists] = fields.as_slice() else { panic!("{line}") };
        Route { name, roots, request, exists }
    };
    ROUTES.trim().lines().map(parse).collect()
}

impl Route {
    pub(super) fn exists(self, world: &World, effect: Option<Protection>) -> bool {
        let (state, is_denied) = (world.state, effect == Some(Protection::Denied));
        match self.exists {
            "always" => true,
            "parent" => state != State::NoParent,
            "nested parent" => state != State::NoParent && world.parent() != ".",
            "directory" => state == State::Directory,
            "readable" => state == State::Directory && !is_denied,
            "pattern without anchor" => !world.case.pattern.starts_with('/'),
            other => panic!("{other}"),
        }
    }

    pub(super) fn roots(self, world: &World, effect: Option<Protection>) -> Roots {
        let (how, paths) = self.roots.split_once(' ').unwrap_or((self.roots, ""));
        let paths = paths.split_whitespace().map(|path| world.expand(path));
        let all: Vec<_> = paths.clone().chain(["other".to_owned()]).collect();
        let listed: Vec<_> = all.iter().map(|path| world.path(path)).collect();
        let list = || listed.iter().map(ListEntry::from);
        match how {
            "allow" => {
                let directories: Vec<_> = all.iter().map(String::as_str).collect();
                world.boundary(effect, &directories).allowed_roots()
            }
            "list" => {
                let boundary = world.patterns(Boundary::any_listed(), effect);
                boundary.build().unwrap().narrow(list()).unwrap()
            }
            "narrow" => world.boundary(effect, &["proj", "other"]).narrow(list()).unwrap(),
            "alias" if all.len() == 1 => world.aliased(effect).allowed_roots(),
            // The path of an alias is not below the tree.
            "alias" => {
                let list = [all[0].trim_end_matches("/.").to_owned(), world.path("other")];
                world.aliased(effect).narrow(list.iter().map(ListEntry::from)).unwrap()
            }
            "within" => world.allowed(effect).within(all[0].as_str()).unwrap(),
            other => panic!("{other}"),
        }
    }

    /// Returns the request for a path below the protected place, or `None` if this route has no
    /// such request.
    pub(super) fn text(self, world: &World, suffix: &str) -> Option<String> {
        let (suffix, base) = match self.request.split_once(" => ") {
            Some((only, base)) => {
                (suffix.strip_prefix(only)?.trim_start_matches('/'), world.expand(base))
            }
            None => (suffix, world.expand(self.request)),
        };
        let text = match (base.as_str(), suffix) {
            (_, "") => base,
            (".", suffix) => suffix.into(),
            (base, suffix) => format!("{base}/{suffix}"),
        };
        let Some(path) = text.strip_prefix("file://") else { return Some(text) };
        let escaped = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' => (byte as char).into(),
            _ => format!("%{byte:02X}"),
        };
        Some(format!("file://{}", path.bytes().map(escaped).collect::<String>()))
    }

    /// Returns the directory of the unprotected entries for renames. `None` if no root contains
    /// any.
    pub(super) fn helpers(self, world: &World) -> Option<String> {
        if self.roots.starts_with("within") {
            return self.request.strip_suffix("NAME").map(|parent| world.expand(parent));
        }
        Some(world.path("other/"))
    }
}
