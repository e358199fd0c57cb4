//! Data-driven tests of what may be done at a place. Each row of `data/access.txt` is decided by a
//! naive program and by the guard, for every form of request, and at most places by every operation.
//!
//! ```text
//! allow: a:ro a/b f:file deny:.env* keep:.git exempt:.env.example
//!                         a boundary: directories with options (`ro`, `always`, `optional` and
//!                         missing, `file`), denied and read-only patterns, and exempt names
//! list: a/b c             the roots of a client's list
//! failed                  the roots while the client's list is not known
//! within: a               narrows the roots
//! read_only               takes all of them for reading
//! a/b/c => write          what may be done there: outside, denied, read or write
//! ```
//!
//! Paths begin at the top of the tree, unless they begin with `/`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, DirectoryOptions, Guard, ListRootsResult, Roots,
    RootsResponse, Session, WalkOptions,
};

use crate::support::access::{Directory, Outcome, Policy, Root, is_in};
use crate::support::operations::Target::{
    Any, Directory as Dir, EmptyDirectory, File, FileOrNew, Missing, MissingTree, Symlink,
    Tree as Whole,
};
use crate::support::operations::{Attempt, CONTENT, Way, attempts};
use crate::support::proof::Proof;
use crate::support::protection::Protection;
use crate::support::tree::Tree;

struct Case {
    tree: Tree,
    policy: Policy,
    boundary: Boundary,
    expected: Vec<Root>,
    roots: Roots,
    /// Its roots end with it.
    session: Option<Session>,
}

#[test]
fn each_place_has_the_access_of_its_row() {
    let (mut case, mut failures) = (None::<Case>, Vec::new());
    let (mut rows, mut decisions, mut operations) = (0, 0, 0);
    for (number, line) in include_str!("../data/access.txt").lines().enumerate() {
        let line = line.split_once('#').map_or(line, |(line, _)| line).trim();
        let mut fail = |why: String| failures.push(format!("line {}: {line}: {why}", number + 1));
        if let Some(policy) = line.strip_prefix("allow:") {
            case = Some(Case::new(policy));
            continue;
        }
        let Some(case) = case.as_mut().filter(|_| !line.is_empty()) else { continue };
        let Some((place, expected)) = line.split_once(" => ") else {
            case.narrow(line);
            continue;
        };
        rows += 1;
        let expected = match expected {
            "outside" => Outcome::Outside,
            "denied" => Outcome::Denied,
            "read" => Outcome::Read,
            _ => Outcome::Write,
        };
        let place = case.place(place);
        let naive = case.policy.decide(&case.expected, &place);
        if naive != expected {
            fail(format!("the naive program says {naive:?}"));
        }
        for (request, base, expected) in case.forms(&place, naive) {
            decisions += 1;
            let roots = base.map_or(case.roots.clone(), |base| case.roots.with_base(base).unwrap());
            let decided = decide(&roots, &request);
            if decided != expected {
                fail(format!("{request} is {decided:?}, not {expected:?}"));
            }
        }
        operations += case.operate(&place, naive, &mut fail);
        case.walk(&mut fail);
    }
    println!("{rows} rows, {decisions} decisions, {operations} operations");
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(rows > 80 && decisions > 500 && operations > 5_000);
}

pub(crate) fn decide(roots: &Roots, request: &str) -> Outcome {
    match roots.check(request) {
        Ok(checked) if checked.access() == Access::ReadWrite => Outcome::Write,
        Ok(_) => Outcome::Read,
        Err(error) if error.code() == "outside_roots" => Outcome::Outside,
        Err(error) if error.code() == "protected" => Outcome::Denied,
        Err(error) => panic!("{error}"),
    }
}

impl Case {
    fn new(text: &str) -> Self {
        let tree = Tree::in_memory("");
        let (mut policy, mut builder) = (Policy::new(Vec::new()), Boundary::builder());
        for word in text.split_whitespace() {
            let word = word.replace("$T", tree.path("").to_str().unwrap().trim_end_matches('/'));
            let (first, rest) = word.split_once(':').unwrap_or((&word, ""));
            let is_pattern = matches!(first, "deny" | "keep");
            if is_pattern {
                let is_denied = first == "deny";
                let protection = if is_denied { Protection::Denied } else { Protection::ReadOnly };
                builder = protection.add(builder, rest);
                policy.patterns.push((rest.into(), protection));
                continue;
            }
            if first == "exempt" {
                builder = builder.exempt(rest);
                policy.exempt.push(rest.into());
                continue;
            }
            let has = |option: &str| rest.split(':').any(|it| it == option);
            let path = if first.starts_with('/') { first.into() } else { tree.path(first) };
            if has("file") {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, CONTENT).unwrap();
            } else if !has("optional") {
                fs::create_dir_all(&path).unwrap();
            }
            let access = if has("ro") { Access::ReadOnly } else { Access::ReadWrite };
            let mut options = DirectoryOptions::from(access);
            // An alias may not be inside an allowed directory, such as the filesystem root.
            if policy.directories.is_empty()
                && !text.split_whitespace().any(|it| it.starts_with('/'))
            {
                options = options.alias(ALIAS);
            }
            options = if has("always") { options.always() } else { options };
            options = if has("optional") { options.optional() } else { options };
            builder = builder.directory(&path, options);
            let directory = Directory {
                path: path.to_str().unwrap().trim_end_matches('/').to_owned(),
                is_writable: !has("ro"),
                is_always: has("always"),
                is_file: has("file"),
                is_missing: has("optional"),
            };
            if !policy.directories.contains(&directory) {
                policy.directories.push(directory);
            }
        }
        let boundary = builder.build().unwrap();
        let (roots, expected) = (boundary.allowed_roots(), policy.everything());
        Self { tree, policy, boundary, expected, roots, session: None }
    }

    fn place(&self, path: &str) -> String {
        let place = if path.starts_with('/') { path.into() } else { self.tree.path(path) };
        place.to_str().unwrap().trim_end_matches("/.").trim_end_matches('/').to_owned()
    }

    fn narrow(&mut self, line: &str) {
        let (verb, rest) = line.split_once(':').unwrap_or((line, ""));
        let places: Vec<_> = rest.split_whitespace().map(|it| self.place(it)).collect();
        let shown = |place: &String| if place.is_empty() { "/".into() } else { place.clone() };
        let everything = self.policy.everything();
        let is_missing = |place: &String| {
            let missing = self.policy.directories.iter().filter(|directory| directory.is_missing);
            missing.into_iter().any(|directory| is_in(place, &directory.path))
        };
        for place in places.iter().filter(|place| !is_missing(place)).map(Path::new) {
            if place.starts_with(self.tree.path("")) && !place.exists() {
                fs::create_dir_all(place).unwrap();
            }
        }
        match verb {
            "list" => {
                let uris = places.iter().map(|place| format!("file://{}", shown(place)));
                self.roots = self.boundary.narrow(&ListRootsResult::from_uris(uris).roots).unwrap();
                self.expected = self.policy.and_always(self.policy.narrow(&everything, &places));
            }
            "failed" => {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let guard = Guard::new(self.boundary.clone());
                let session = guard.session(ClientCapabilities::WithAnnouncedRoots).unwrap();
                let no_list = RootsResponse::from_result(serde_json::json!({"roots": {}}));
                let roots = session.roots(async |_: Option<String>| no_list.clone());
                self.roots = runtime.block_on(roots).unwrap();
                self.session = Some(session);
                self.expected = self.policy.always();
            }
            "within" => {
                self.roots = self.roots.within(&*shown(&places[0])).unwrap();
                self.expected = self.policy.narrow(&self.expected, &places);
            }
            "read_only" => {
                self.roots = self.roots.read_only();
                self.expected.iter_mut().for_each(|root| root.is_writable = false);
            }
            _ => panic!("{line}"),
        }
        let seen = |root: &mcp_roots_guard::Root| {
            let path = root.path().to_str().unwrap().trim_end_matches('/').to_owned();
            (path, root.access() == Access::ReadWrite)
        };
        let seen: BTreeSet<_> = self.roots.iter().map(seen).collect();
        let expected = self.expected.iter().map(|root| (root.path.clone(), root.is_writable));
        assert_eq!(seen, expected.collect(), "{line}");
    }

    /// Each form of a request for a place, with the root at which it starts if it is relative, and
    /// its outcome.
    fn forms(&self, place: &str, absolute: Outcome) -> Vec<(String, Option<String>, Outcome)> {
        let mut forms = vec![
            (place.to_owned(), None, absolute),
            (format!("file://{place}"), None, absolute),
            (format!("/.{place}"), None, absolute),
        ];
        let first = &self.policy.directories[0].path;
        let has_alias = self.policy.directories.iter().all(|directory| !directory.path.is_empty());
        if let Some(rest) = place.strip_prefix(first).filter(|_| has_alias && is_in(place, first)) {
            forms.push((format!("{ALIAS}{rest}"), None, absolute));
        }
        for root in &self.expected {
            let directory = Path::new(&root.path);
            if root.directory.is_file || !directory.is_dir() {
                continue;
            }
            let base = || Some(if root.path.is_empty() { "/".into() } else { root.path.clone() });
            let climbing = format!("{}{place}", "/..".repeat(root.path.matches('/').count()));
            let climbed = self.policy.walk(&self.expected, &root.path, &climbing[1..]);
            forms.push((climbing[1..].to_owned(), base(), climbed));
            if let Some(rest) = place.strip_prefix(&root.path).filter(|it| it.starts_with('/')) {
                let outcome = self.policy.walk(&self.expected, &root.path, &rest[1..]);
                forms.push((rest[1..].to_owned(), base(), outcome));
            }
            // Links in both directions.
            if !directory.starts_with(self.tree.path("")) {
                continue;
            }
            for (name, target, outcome) in
                [("to-absolute", place, absolute), ("to-relative", &climbing[1..], climbed)]
            {
                let link = directory.join(name);
                let _ = fs::remove_file(&link);
                symlink(target, &link).unwrap();
                forms.push((link.to_str().unwrap().to_owned(), None, outcome));
            }
        }
        forms
    }

    /// Runs every operation at a place, except at a root, which is refused for other reasons.
    fn operate(&self, place: &str, outcome: Outcome, fail: &mut impl FnMut(String)) -> usize {
        let in_tree = Path::new(place).starts_with(self.tree.path(""));
        let holds_root = self.policy.directories.iter().any(|it| is_in(&it.path, place));
        let is_missing = self
            .policy
            .directories
            .iter()
            .any(|it| it.is_missing && is_in(place, &it.path) || is_in(&it.path, place));
        let is_usable = |root: &&Root| {
            root.is_writable
                && Path::new(&root.path).is_dir()
                && Path::new(&root.path).starts_with(self.tree.path(""))
        };
        if !in_tree || holds_root || is_missing {
            return 0;
        }
        let base = self.expected.iter().find(is_usable);
        let roots = base.map(|base| self.roots.with_base(&base.path).unwrap());
        let mut count = 0;
        for attempt in attempts() {
            let needs_base = attempt.operation.paths.len() > 1 || attempt.name() == "symlink";
            if needs_base && base.is_none() {
                continue;
            }
            let roots = roots.as_ref().unwrap_or(&self.roots);
            for way in [Way::Directly, Way::Proof] {
                Self::prepare(place, base.map(|base| &*base.path), &attempt);
                let before = self.tree.snapshot("");
                let done = attempt.run(way, roots, place).map_err(|error| error.code());
                count += 1;
                let is_changed = attempt.path().is_changed;
                let is_expected = match (outcome, done.as_ref().err().copied()) {
                    (Outcome::Outside, code) => code == Some("outside_roots"),
                    (Outcome::Denied, code) => code == Some("protected"),
                    (Outcome::Read, Some("read_only" | "protected")) => is_changed,
                    (Outcome::Read, None) => !is_changed,
                    (Outcome::Write, None) => true,
                    // The base is another root.
                    (Outcome::Write, Some(code)) => code == "different_roots",
                    _ => false,
                };
                if !is_expected {
                    fail(format!("{} {way:?}: {done:?}", attempt.name()));
                }
                if done.is_err() && !attempt.operation.can_be_partial() {
                    let after = self.tree.snapshot("");
                    if before != after {
                        fail(format!("{} {way:?} was refused, and changed", attempt.name()));
                    }
                }
            }
        }
        remove(Path::new(place));
        count
    }

    /// Creates what an attempt needs at the place and in the base.
    fn prepare(place: &str, base: Option<&str>, attempt: &Attempt) {
        let place = Path::new(place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        if let Some(base) = base.map(Path::new) {
            for name in ["fresh", "spare", "spare-dir"] {
                remove(&base.join(name));
            }
            fs::write(base.join("spare"), CONTENT).unwrap();
            fs::create_dir(base.join("spare-dir")).unwrap();
            if attempt.operation.paths.get(1).is_some_and(|path| path.target == File) {
                fs::write(base.join("fresh"), CONTENT).unwrap();
            }
        }
        remove(place);
        match attempt.path().target {
            File | FileOrNew | Any => fs::write(place, CONTENT).unwrap(),
            Dir | Whole | EmptyDirectory => fs::create_dir(place).unwrap(),
            Symlink => symlink("data", place).unwrap(),
            Missing | MissingTree => {}
        }
    }

    /// A walk of each outermost root visits what is not denied, each with its access.
    fn walk(&self, fail: &mut impl FnMut(String)) {
        if self.policy.directories.iter().any(|directory| directory.path.is_empty()) {
            return;
        }
        let mut visited = BTreeSet::new();
        for top in self.roots.check_all().unwrap() {
            visited.insert(top.to_unguarded_path());
            if top.root().is_file() {
                continue;
            }
            let mut walk = top.walk(WalkOptions::default()).unwrap();
            while let Some(entry) = walk.next_entry().unwrap() {
                let checked = Proof::Entry(entry.to_entry());
                let path = checked.canonical();
                let naive = self.policy.access(&self.expected, path.to_str().unwrap());
                let access = match naive {
                    Outcome::Read => Some(Access::ReadOnly),
                    Outcome::Write => Some(Access::ReadWrite),
                    _ => None,
                };
                if Some(checked.access()) != access {
                    fail(format!("walked {}: {naive:?}", path.display()));
                }
                visited.insert(path);
            }
        }
        let (mut todo, mut expected) = (vec![self.tree.path("")], BTreeSet::new());
        while let Some(path) = todo.pop() {
            if path.is_dir() && !path.is_symlink() {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let place = path.to_str().unwrap().trim_end_matches('/');
            if self.policy.access(&self.expected, place) >= Outcome::Read {
                expected.insert(path);
            }
        }
        if visited != expected {
            fail(format!("walked {visited:?} instead of {expected:?}"));
        }
    }
}

fn remove(path: &Path) {
    let _ = if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
}

/// A declared alias of the first directory.
const ALIAS: &str = "/none/such/alias";
