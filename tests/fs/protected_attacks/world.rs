//! A tree with a protected place, and the routes to that place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mcp_roots_guard::{
    Access, Boundary, BoundaryBuilder, DirectoryOptions, ListRootsResult, Protection, Roots, Rule,
};
use unicode_normalization::UnicodeNormalization as _;

use crate::support::operations::CONTENT;
use crate::support::protected::{Effect, Rules, ascii_key};
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
    pub(super) fn rules(&self, effect: Effect) -> Rules {
        Rules { patterns: vec![(self.case.pattern.into(), effect)], key }
    }

    pub(super) fn is_protected(&self, path: &Path) -> bool {
        let allowed = ["proj", "other"].map(|name| self.tree.path(name));
        self.rules(Effect::ReadOnly).effect(allowed.iter().map(PathBuf::as_path), path).is_some()
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

    pub(super) fn builder(&self, effect: Option<Effect>) -> BoundaryBuilder {
        // The world's symlinks are older than the server.
        let trusted = SystemTime::now() + Duration::from_secs(1);
        let builder = Boundary::builder().bare_paths(Rule::Allow).trust_links_until(trusted);
        match effect {
            None => builder,
            Some(Effect::ReadOnly) => builder.protect(self.case.pattern, Protection::ReadOnly),
            Some(Effect::Denied) => builder.protect(self.case.pattern, Protection::Denied),
        }
    }

    pub(super) fn boundary(&self, effect: Option<Effect>, directories: &[&str]) -> Boundary {
        let add = |builder: BoundaryBuilder, directory: &&str| {
            builder.directory(self.tree.path(directory), Access::ReadWrite)
        };
        directories.iter().fold(self.builder(effect), add).build().unwrap()
    }

    pub(super) fn allowed(&self, effect: Option<Effect>) -> Roots {
        self.boundary(effect, &["proj", "other"]).allowed_roots()
    }

    /// The allowed directories narrowed to one place.
    pub(super) fn narrowed(&self, effect: Option<Effect>, place: &str) -> Roots {
        self.allowed(effect).within(place).unwrap()
    }

    /// A boundary in which `proj` has aliases that do not exist here.
    fn aliased(&self, effect: Option<Effect>) -> Boundary {
        let options = DirectoryOptions::new(Access::ReadWrite).alias(HOST).alias(r"C:\Proj");
        let builder = self.builder(effect).directory_with(self.tree.path("proj"), options);
        builder.directory(self.tree.path("other"), Access::ReadWrite).build().unwrap()
    }

    /// The roots of a client that lists these paths.
    pub(super) fn listed(&self, effect: Option<Effect>, paths: &[String]) -> Roots {
        let list = ListRootsResult::from_uris(paths.iter().map(|path| self.path(path)));
        self.boundary(effect, &["proj", "other"]).resolve(&list).unwrap()
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
pub(super) struct Route {
    pub(super) name: &'static str,
    pub(super) roots: fn(&World, Option<Effect>) -> Roots,
    /// Returns the request for a path below the protected place, or `None` if this route has no
    /// such request.
    pub(super) text: fn(&World, &str) -> Option<String>,
    /// Returns the directory of the unprotected entries for renames. `None` if no root contains
    /// any.
    pub(super) helpers: Option<fn(&World) -> String>,
    /// Whether this route exists.
    pub(super) suits: fn(&World, Option<Effect>) -> bool,
}

pub(super) fn join(base: &str, suffix: &str) -> String {
    match (base, suffix) {
        (base, "") => base.into(),
        (".", suffix) => suffix.into(),
        (base, suffix) => format!("{base}/{suffix}"),
    }
}

fn in_other(world: &World) -> String {
    world.path("other/")
}

fn always(_: &World, _: Option<Effect>) -> bool {
    true
}

fn below_directory(world: &World, effect: Option<Effect>) -> bool {
    world.state == State::Directory && effect != Some(Effect::Denied)
}

fn has_parent(world: &World, _: Option<Effect>) -> bool {
    world.state != State::NoParent
}

fn allowed(world: &World, effect: Option<Effect>) -> Roots {
    world.allowed(effect)
}

/// A route with all roots in force.
macro_rules! by_text {
    ($name:literal, $suits:expr, |$world:ident, $suffix:ident| $text:expr) => {
        Route {
            name: $name,
            roots: allowed,
            text: |$world, $suffix| $text,
            helpers: Some(in_other),
            suits: $suits,
        }
    };
}

/// A route with the roots of a client's list, which always contains the directory `other`.
macro_rules! by_list {
    ($name:literal, $suits:expr, |$of:ident| $root:expr, |$world:ident, $suffix:ident| $text:expr) => {
        Route {
            name: $name,
            roots: |$of, effect| $of.listed(effect, &[format!("proj/{}", $root), "other".into()]),
            text: |$world, $suffix| $text,
            helpers: Some(in_other),
            suits: $suits,
        }
    };
}

/// A route in a snapshot that was narrowed to a directory or file.
macro_rules! within {
    ($name:literal, $suits:expr, |$of:ident| $place:expr, |$world:ident, $suffix:ident| $text:expr) => {
        Route {
            name: $name,
            roots: |$of, effect| $of.narrowed(effect, $place.as_ref()),
            text: |$world, $suffix| $text,
            helpers: None,
            suits: $suits,
        }
    };
    ($name:literal, $suits:expr, |$of:ident| $place:expr, |$helped:ident| $helpers:expr,
        |$world:ident, $suffix:ident| $text:expr) => {
        Route {
            name: $name,
            roots: |$of, effect| $of.narrowed(effect, $place.as_ref()),
            text: |$world, $suffix| $text,
            helpers: Some(|$helped| $helpers),
            suits: $suits,
        }
    };
}

pub(super) const ROUTES: &[Route] = &[
    by_text!("relative", always, |world, suffix| Some(join(world.case.place, suffix))),
    by_text!("absolute", always, |world, suffix| Some(join(&world.place(), suffix))),
    by_text!("URI", always, |world, suffix| {
        let path = join(&world.place(), suffix);
        let escaped = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' => (byte as char).into(),
            _ => format!("%{byte:02X}"),
        };
        Some(format!("file://{}", path.bytes().map(escaped).collect::<String>()))
    }),
    by_text!("dots and slashes", always, |world, suffix| {
        Some(format!("./plain/..//{}", join(&world.case.place.replace('/', "//./"), suffix)))
    }),
    by_text!("around through `..`", always, |world, suffix| {
        Some(format!("../proj/plain/../{}", join(world.case.place, suffix)))
    }),
    by_text!("out of the place and back", always, |world, suffix| {
        (world.state == State::Directory)
            .then(|| join(&format!("{}/../{}", world.case.place, world.name()), suffix))
    }),
    by_text!("relative symlink", always, |_world, suffix| Some(join("to-p", suffix))),
    by_text!("absolute symlink", always, |_world, suffix| Some(join("to-p-abs", suffix))),
    by_text!("chain of symlinks", always, |_world, suffix| Some(join("chain", suffix))),
    by_text!("chain through another root", always, |_world, suffix| Some(join("chain-3", suffix))),
    by_text!("symlink to the parent", always, |world, suffix| {
        Some(join(&format!("to-parent/{}", world.name()), suffix))
    }),
    by_text!("symlink in another root", always, |world, suffix| {
        Some(join(&world.path("other/to-p"), suffix))
    }),
    by_text!("symlink in another root to the parent", always, |world, suffix| {
        Some(join(&world.path(&format!("other/to-parent/{}", world.name())), suffix))
    }),
    by_text!(
        "symlink through the place",
        |world, _| world.state == State::Directory,
        |_world, suffix| Some(join("through", suffix))
    ),
    by_text!("dangling symlink", always, |_world, suffix| {
        (suffix == "new").then(|| "dangling".into())
    }),
    by_text!("dangling symlink to a tree", always, |_world, suffix| {
        (suffix == "n1/n2").then(|| "dangling-tree".into())
    }),
    Route {
        name: "allowed directory named through a symlink",
        roots: |world, effect| world.boundary(effect, &["link-proj", "other"]).allowed_roots(),
        text: |world, suffix| {
            Some(join(&world.path(&format!("link-proj/{}", world.case.place)), suffix))
        },
        helpers: Some(in_other),
        suits: always,
    },
    Route {
        name: "nested allowed directory",
        roots: |world, effect| {
            let parent = format!("proj/{}", world.parent());
            world.boundary(effect, &["proj", &parent, "other"]).allowed_roots()
        },
        text: |world, suffix| Some(join(&world.place(), suffix)),
        helpers: Some(in_other),
        suits: |world, _| world.state != State::NoParent && world.parent() != ".",
    },
    Route {
        name: "allowed directory at the place",
        roots: |world, effect| {
            let place = format!("proj/{}", world.case.place);
            world.boundary(effect, &["proj", &place, "other"]).allowed_roots()
        },
        text: |world, suffix| Some(join(&world.place(), suffix)),
        helpers: Some(in_other),
        suits: below_directory,
    },
    Route {
        name: "no allowed directories",
        roots: |world, effect| {
            let list = ["proj", "other"].map(|path| world.path(path));
            let boundary = world.builder(effect).client_roots_only().build().unwrap();
            boundary.resolve(&ListRootsResult::from_uris(list)).unwrap()
        },
        text: |world, suffix| Some(join(&world.place(), suffix)),
        helpers: Some(in_other),
        suits: |world, _| !world.case.pattern.starts_with('/'),
    },
    by_list!(
        "client root at the parent",
        has_parent,
        |world| world.parent(),
        |world, suffix| Some(join(world.name(), suffix))
    ),
    by_list!(
        "client root at the parent, through a symlink",
        has_parent,
        |_world| "to-parent",
        |world, suffix| {
            Some(join(&world.path(&format!("proj/to-parent/{}", world.name())), suffix))
        }
    ),
    by_list!(
        "client root at the place",
        below_directory,
        |world| world.case.place,
        |_world, suffix| Some(join(".", suffix))
    ),
    by_list!(
        "client root at the place, absolute",
        below_directory,
        |world| world.case.place,
        |world, suffix| Some(join(&world.place(), suffix))
    ),
    by_list!(
        "client root at the place, through a symlink",
        below_directory,
        |_world| "to-p",
        |world, suffix| Some(join(&world.path("proj/to-p"), suffix))
    ),
    by_list!(
        "client root inside the place",
        below_directory,
        |world| format!("{}/hooks", world.case.place),
        |_world, suffix| Some(join(".", suffix.strip_prefix("hooks")?.trim_start_matches('/')))
    ),
    by_list!(
        "file root in the place",
        below_directory,
        |world| format!("{}/config", world.case.place),
        |world, suffix| (suffix == "config").then(|| join(&world.place(), suffix))
    ),
    Route {
        name: "alias that does not exist here",
        roots: |world, effect| world.aliased(effect).allowed_roots(),
        text: |world, suffix| Some(join(&format!("{HOST}/{}", world.case.place), suffix)),
        helpers: Some(in_other),
        suits: always,
    },
    Route {
        name: "alias of Windows",
        roots: |world, effect| world.aliased(effect).allowed_roots(),
        text: |world, suffix| Some(join(&format!("c:\\Proj\\{}", world.case.place), suffix)),
        helpers: Some(in_other),
        suits: always,
    },
    Route {
        name: "client root listed by an alias",
        roots: |world, effect| {
            let root = format!("{HOST}/{}", world.parent());
            let list = [root.trim_end_matches("/.").to_owned(), world.path("other")];
            world.aliased(effect).resolve(&ListRootsResult::from_uris(list)).unwrap()
        },
        text: |world, suffix| Some(join(&format!("{HOST}/{}", world.case.place), suffix)),
        helpers: Some(in_other),
        suits: has_parent,
    },
    within!(
        "within the parent",
        has_parent,
        |world| world.parent(),
        |_world| String::new(),
        |world, suffix| Some(join(world.name(), suffix))
    ),
    within!(
        "within the parent, through a symlink",
        has_parent,
        |world| world.path("proj/to-parent"),
        |world| world.path("proj/to-parent/"),
        |world, suffix| {
            Some(join(&world.path(&format!("proj/to-parent/{}", world.name())), suffix))
        }
    ),
    within!("within the place", below_directory, |world| world.case.place, |_world, suffix| Some(
        join(".", suffix)
    )),
    within!(
        "within the place, through a symlink",
        below_directory,
        |world| world.path("proj/to-p"),
        |world, suffix| Some(join(&world.path("proj/to-p"), suffix))
    ),
    within!(
        "within a directory in the place",
        below_directory,
        |world| format!("{}/hooks", world.case.place),
        |_world, suffix| Some(join(".", suffix.strip_prefix("hooks")?.trim_start_matches('/')))
    ),
    within!(
        "within a file in the place",
        below_directory,
        |world| format!("{}/config", world.case.place),
        |world, suffix| (suffix == "config").then(|| join(&world.place(), suffix))
    ),
];

/// An alias of `proj`, like the path of a container mount on the host.
const HOST: &str = "/none/such/host";
