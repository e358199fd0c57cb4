//! Attacks on protected names: every operation on every kind of pattern. Each of the routes, which
//! are the ways to name the protected place, is taken to the place of one pattern, and some of them
//! to the others.
//!
//! The rows are generated: patterns × states of the place × routes × paths at and below the place ×
//! operations × direct or by a proof. With `GUARD_ATTACKS=all`, every pattern has them all. An
//! oracle that matches strings ([`protected`](crate::support::protected)) decides which places are
//! protected. The same request to roots without protected names shows the result without
//! protection. The tested properties are:
//!
//! - No protected entry is created, changed, renamed or removed. After the operations, each
//!   protected entry has the same type, mode, inode, times and content.
//! - Read-only: each change is refused with `protected`, unless it would fail without the
//!   protection too. Reading has the same result as without it.
//! - Denied: the error is `protected`, with the same text regardless of what exists at the denied
//!   name. Listings and walks are the same as if the name did not exist. The traced system calls
//!   never look the name up.
//! - Names that no pattern matches are served as if there were no protected names.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mcp_roots_guard::{
    Access, Boundary, BoundaryBuilder, Error, ErrorKind, ListEntry, Precondition, Result, Roots,
    WalkOptions,
};

use self::world::{
    Case, PATTERNS, Route, STATES, Snapshot, State, UNPROTECTED, VARIANTS, World, routes,
};
use crate::support::operations::{OPERATIONS, Operation, Way, description};
use crate::support::proof::{INTENTS, Intent};
use crate::support::protection::Protection;
use crate::support::walked;

#[cfg(target_arch = "x86_64")]
mod trace;
#[cfg(target_arch = "x86_64")]
mod nested_trace;
mod world;

const EFFECTS: [Protection; 2] = [Protection::ReadOnly, Protection::Denied];

#[test]
fn no_operation_changes_or_reveals_a_protected_name_in_any_way() {
    let mut judge = Judge::default();
    for (number, case) in PATTERNS.iter().enumerate() {
        let is_some = |name| all() || number == 0 || SOME_ROUTES.contains(&name);
        for route in routes().into_iter().filter(|route| is_some(route.name)) {
            let is_full = all() || number == 0 && FULL_ROUTES.contains(&route.name);
            let (states, calls) =
                if is_full { (&STATES[..], ALL) } else { (&SOME_STATES[..], DIRECTLY) };
            for (effect, state) in pairs(&EFFECTS, states) {
                judge.attack(&World::new(*case, state), effect, route, calls);
            }
        }
    }
    judge.finish("every pattern and route", PATTERNS, 60_000);
}

#[test]
fn other_forms_of_a_protected_name_are_protected() {
    let mut judge = Judge::default();
    for (number, case) in VARIANTS.iter().enumerate() {
        for (at, name) in SOME_ROUTES.iter().enumerate() {
            let routes = routes().into_iter().filter(|route| route.name == *name);
            for route in routes.filter(|_| all() || number % SOME_ROUTES.len() == at) {
                for (effect, state) in pairs(&EFFECTS, &SOME_STATES) {
                    let world = World::new(*case, state);
                    assert!(world.is_protected(Path::new(&world.place())), "{case:?}");
                    judge.attack(&world, effect, route, DIRECTLY);
                }
            }
        }
    }
    judge.finish("other forms of names", VARIANTS, 20_000);
}

#[test]
fn names_that_no_pattern_matches_are_served() {
    let mut judge = Judge::default();
    let states = if all() { &SOME_STATES[..] } else { &[State::Directory] };
    for case in UNPROTECTED {
        for (effect, state) in pairs(&EFFECTS, states) {
            for route in routes().into_iter().filter(|route| route.name == "relative symlink") {
                let world = World::new(*case, state);
                assert!(!world.is_protected(Path::new(&world.place())), "{case:?}");
                judge.attack(&world, effect, route, DIRECTLY);
            }
        }
    }
    judge.finish("unprotected names", UNPROTECTED, 2_000);
    assert!(judge.served > 500, "only {} changes were made", judge.served);
}

/// If the attacks failed even without protected names, the rows above would prove nothing.
#[test]
fn attacks_succeed_without_protected_names() {
    let mut succeeded = Vec::new();
    for route in routes() {
        let (mut rows, mut changed) = (0, 0);
        for state in [State::Directory, State::Missing] {
            let world = World::new(PATTERNS[0], state);
            if !route.exists(&world, None) {
                continue;
            }
            let (mut roots, mut before) = (route.roots(&world, None), world.protected());
            for suffix in state.suffixes() {
                let Some(text) = route.text(&world, suffix) else { continue };
                for operation in on_one_path().filter(|operation| operation.changes()) {
                    rows += 1;
                    if operation.run(Way::Directly, &roots, &[&text]).is_ok() {
                        changed += usize::from(world.protected() != before);
                        world.rebuild();
                        (roots, before) = (route.roots(&world, None), world.protected());
                    }
                }
            }
        }
        assert!(changed > 0, "{}: none of {rows} attacks succeeded", route.name);
        succeeded.push(format!("{} {changed} of {rows}", route.name));
    }
    println!("without protection: {}", succeeded.join(", "));
}

/// The paths of operations on two. `@` stands for the protected place, and `+` for a directory with
/// unprotected entries.
const PATHS: &[(&str, &str)] = &[
    ("@", "+free"),
    ("@/config", "+free"),
    ("@/config", "+mine"),
    ("@/hooks", "+free"),
    ("@/hooks", "+my-dir"),
    ("@/hooks/run", "+free"),
    ("@/empty", "+free"),
    ("+mine", "@"),
    ("+mine", "@/new"),
    ("+mine", "@/config"),
    ("+mine", "@/hooks/run"),
    ("+mine", "@/n1/n2"),
    ("+my-dir", "@"),
    ("+my-dir", "@/empty"),
    ("+my-dir", "@/new"),
    ("+full", "@"),
    ("+full", "@/new"),
    ("+none", "@"),
    ("@/config", "@/new"),
    ("@/config", "@/hooks/run"),
    ("@/hooks", "@/empty"),
    ("@/new", "@/config"),
];

/// Whether every pattern is attacked by every route, in every state and with every proof. By
/// default, the first pattern is, by some routes. The names are compared in the same way in each.
fn all() -> bool {
    std::env::var("GUARD_ATTACKS").is_ok_and(|share| share == "all")
}

/// The states in which the other patterns are attacked by default.
const SOME_STATES: [State; 2] = [State::Directory, State::Missing];

/// The routes by which the first pattern is attacked in every state and with every proof.
const FULL_ROUTES: [&str; 2] = ["relative", "relative symlink"];

/// The routes by which the other patterns are attacked, and each form of a name by one of them.
const SOME_ROUTES: [&str; 3] = ["absolute", "relative symlink", "client root at the parent"];

fn on_one_path() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter().filter(|operation| operation.paths.len() == 1)
}

fn on_two_paths() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter().filter(|operation| operation.paths.len() == 2)
}

const DIRECTLY: &[Way] = &[Way::Directly];

const ALL: &[Way] = &[Way::Directly, Way::Proof];

fn pairs(effects: &[Protection], states: &[State]) -> Vec<(Protection, State)> {
    effects.iter().flat_map(|effect| states.iter().map(|state| (*effect, *state))).collect()
}

/// One request and its expected result.
struct Row {
    what: String,
    changes: bool,
    /// Whether the place that the request names is protected. `None` if it names no place.
    is_protected: Option<bool>,
    /// Whether the request passes through a denied name.
    is_denied: bool,
    /// Whether missing parents are no error.
    creates_parents: bool,
}

#[derive(Default)]
struct Judge {
    rows: usize,
    /// The cases that have a row.
    cases: BTreeSet<Case>,
    /// Changes of read-only names, and requests for denied ones, that were refused.
    protected: usize,
    denied: usize,
    /// Changes that were made to unprotected places.
    served: usize,
    failures: Vec<String>,
}

/// One way to name the place, and the roots with and without protected names.
struct Attack<'a> {
    world: &'a World,
    effect: Protection,
    route: Route,
    roots: Roots,
    twin: Roots,
    before: Snapshot,
}

impl<'a> Attack<'a> {
    fn new(world: &'a World, effect: Protection, route: Route) -> Self {
        let roots = route.roots(world, Some(effect));
        Self {
            world,
            effect,
            route,
            roots,
            twin: route.roots(world, None),
            before: world.protected(),
        }
    }

    fn rebuild(&mut self) {
        self.world.rebuild();
        *self = Self::new(self.world, self.effect, self.route);
    }

    /// Whether the place that a request would name without protection is protected. `None` if it
    /// would name no place.
    fn is_protected(&self, text: &str, intent: Intent) -> Option<bool> {
        let proof = intent.decide(&self.twin, text).ok()?;
        Some(self.world.is_protected(&proof.canonical()))
    }

    /// Whether a request passes through the denied name. Every request of these rows does, unless
    /// it concerns only a symlink at the end of the path.
    fn is_denied(&self, text: &str, intent: Intent) -> bool {
        self.effect == Protection::Denied
            && self.world.is_protected(Path::new(&self.world.place()))
            && !(intent == Intent::NoFollow && SYMLINKS.iter().any(|link| text.ends_with(link)))
    }
}

/// The symlinks that point to the protected place.
const SYMLINKS: [&str; 7] =
    ["to-p", "to-p-abs", "chain", "chain-3", "through", "dangling", "dangling-tree"];

impl Judge {
    fn attack(&mut self, world: &World, effect: Protection, route: Route, calls: &[Way]) {
        if !route.exists(world, Some(effect)) {
            return;
        }
        let mut attack = Attack::new(world, effect, route);
        for suffix in world.state.suffixes() {
            let Some(text) = route.text(world, suffix) else { continue };
            let is_protected = INTENTS.map(|intent| attack.is_protected(&text, intent));
            for operation in on_one_path() {
                for way in calls {
                    let what = format!("{} {way:?} {text:?}", operation.name);
                    let run = |roots: &Roots, text: &str| operation.run(*way, roots, &[text]);
                    let intent = operation.paths[0].intent;
                    let place = INTENTS.iter().position(|it| *it == intent).unwrap();
                    let row = Row {
                        what,
                        changes: operation.changes(),
                        is_protected: is_protected[place],
                        is_denied: attack.is_denied(&text, intent),
                        creates_parents: intent == Intent::NewTree,
                    };
                    self.judge(&mut attack, row, |roots| run(roots, &text));
                }
            }
            if suffix.is_empty() {
                self.two_paths(&mut attack, calls);
            }
            self.compare(&mut attack, &format!("all operations on {text:?}"));
        }
    }

    fn two_paths(&mut self, attack: &mut Attack<'_>, calls: &[Way]) {
        let world = attack.world;
        let Some(helpers) = attack.route.helpers(world) else { return };
        for &(from, to) in PATHS {
            let is_at_place = [from, to].map(|side| side.starts_with('@'));
            let text_of = |side: &str| match side.strip_prefix('@') {
                Some(rest) => attack.route.text(world, rest.trim_start_matches('/')),
                None => Some(side.replace('+', &helpers)),
            };
            let (Some(from), Some(to)) = (text_of(from), text_of(to)) else { continue };
            if from == "." || to == "." {
                continue; // The root itself.
            }
            for operation in on_two_paths() {
                let intents = [0, 1].map(|side| operation.paths[side].intent);
                for way in [Way::Directly, Way::Proof].into_iter().take(calls.len()) {
                    let what = format!("{} {way:?} {from:?} {to:?}", operation.name);
                    let run = |roots: &Roots, from: &str, to: &str| {
                        operation.run(way, roots, &[from, to])
                    };
                    let sides = [&from, &to];
                    let denies = [0, 1].map(|side| {
                        is_at_place[side] && attack.is_denied(sides[side], intents[side])
                    });
                    let both = [0, 1].map(|side| attack.is_protected(sides[side], intents[side]));
                    let intents_of_to = intents[1];
                    let mut intents = intents.into_iter().zip(denies).filter(|(_, denies)| *denies);
                    let is_changed = |side: usize| operation.paths[side].is_changed;
                    let changed = (0..2).any(|side| is_changed(side) && both[side] == Some(true));
                    let is_protected = match both {
                        [None, _] | [_, None] => None,
                        _ => Some(changed || Self::begins_pattern(attack, &to, intents_of_to)),
                    };
                    let row = Row {
                        what,
                        changes: true,
                        is_protected,
                        is_denied: denies.contains(&true),
                        creates_parents: intents.all(|(intent, _)| intent == Intent::NewTree),
                    };
                    self.judge(attack, row, |roots| run(roots, &from, &to));
                }
            }
        }
    }

    /// Whether only a new directory may be put at the place that a request names.
    fn begins_pattern(attack: &Attack<'_>, to: &str, intent: Intent) -> bool {
        let place = intent.check(&attack.twin, to).unwrap().canonical();
        attack.world.policy(attack.effect).begins_pattern(&place)
    }

    fn judge(&mut self, attack: &mut Attack<'_>, row: Row, run: impl Fn(&Roots) -> Result<String>) {
        let Row { what, changes, is_protected, is_denied, creates_parents } = row;
        let what = what.as_str();
        self.rows += 1;
        self.cases.insert(attack.world.case);
        let done = run(&attack.roots);
        if is_denied {
            let code = done.as_ref().map_or_else(Error::code, |_| "ok");
            self.denied += usize::from(code == "protected");
            // If a directory above the denied name is missing, the request may be refused there.
            let parent = attack.world.tree.path("proj").join(attack.world.parent());
            let may_be_missing = !creates_parents && !parent.exists();
            let is_refusal = code == "protected" || code == "not_found" && may_be_missing;
            // The other path can be refused first, as it is without protection.
            let is_other_path =
                || code != "ok" && run(&attack.twin).is_err_and(|error| error.code() == code);
            // The text is the same whatever exists there, and there is no source.
            let says_more = |error: &Error| {
                let text = error.to_string();
                let is_text = text.ends_with("protected: the server allows no access to it");
                code == "protected" && !(is_text && error.source().is_none())
            };
            if !is_refusal && !is_other_path() || done.as_ref().is_err_and(says_more) {
                self.fail(attack, what, &shown(&done));
            }
        } else {
            match &done {
                Err(error) if error.code() == "protected" => {
                    self.protected += 1;
                    let is_fair = changes || what.starts_with("check");
                    if is_protected == Some(false)
                        || !is_fair
                        || error.kind() != ErrorKind::Protected
                    {
                        self.fail(attack, what, &shown(&done));
                    }
                }
                Ok(_) if changes && is_protected == Some(true) => {
                    self.fail(attack, what, &shown(&done));
                }
                _ => {
                    if changes && done.is_ok() {
                        self.served += 1;
                        self.compare(attack, what);
                        attack.rebuild();
                    }
                    let twin = run(&attack.twin);
                    if twin.is_ok() && changes {
                        attack.rebuild();
                    }
                    // A request that the kernel resolves has the system's error as its source, and
                    // one that the resolver refuses has no source.
                    let is_denied = attack.effect == Protection::Denied;
                    let text = |done: &Result<String>| {
                        let mut shown = shown(done);
                        if is_denied {
                            // A symlink to a denied name does not lead inside.
                            shown = shown.replace(" leads outside", " leads inside");
                        }
                        shown.split(" | ").take(3).map(Into::into).collect::<Vec<String>>()
                    };
                    if text(&twin) != text(&done) {
                        let twin = shown(&twin);
                        self.fail(attack, what, &format!("{}\n      twin: {twin}", shown(&done)));
                    }
                    return;
                }
            }
        }
        if changes && done.is_ok() {
            self.compare(attack, what);
            attack.rebuild();
        }
    }

    /// Compares the protected entries with their earlier state.
    fn compare(&mut self, attack: &mut Attack<'_>, what: &str) {
        let after = attack.world.protected();
        if after != attack.before {
            let change = difference(&attack.before, &after);
            self.fail(attack, what, &format!("changed what is protected: {change}"));
            attack.rebuild();
        }
    }

    fn fail(&mut self, attack: &Attack<'_>, what: &str, why: &str) {
        let World { case, state, .. } = attack.world;
        let text =
            format!("{:?} {case:?} {state:?} {}: {what}: {why}", attack.effect, attack.route.name);
        self.failures.push(text);
    }

    fn finish(&self, what: &str, cases: &[Case], least: usize) {
        let Self { rows, cases: done, protected, denied, served, failures } = self;
        println!(
            "{what}: {rows} rows, {protected} refused as protected, {denied} denied, {served} \
              unprotected changes made, {} failures",
            failures.len()
        );
        assert!(
            failures.is_empty(),
            "{} of {rows} rows failed:\n{}",
            failures.len(),
            failures.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n")
        );
        let missing = cases.iter().find(|case| !done.contains(case));
        assert!(*rows >= least && missing.is_none(), "only {rows} rows, none of {missing:?}");
    }
}

/// The number of failures that are shown.
const SHOWN: usize = 60;

fn difference(before: &Snapshot, after: &Snapshot) -> String {
    let mut text = String::new();
    for (path, line) in before.iter().filter(|(path, line)| after.get(*path) != Some(line)) {
        let _ = write!(text, "\n      - {}: {line}", path.display());
    }
    for (path, line) in after.iter().filter(|(path, line)| before.get(*path) != Some(line)) {
        let _ = write!(text, "\n      + {}: {line}", path.display());
    }
    text
}

/// Everything that a caller can learn from a result.
fn shown(done: &Result<String>) -> String {
    match done {
        Ok(text) => format!("ok: {text}"),
        Err(error) => {
            let mut text = format!("{:?} {} | {error} | {error:?}", error.kind(), error.code());
            let mut cause = error.source();
            while let Some(source) = cause {
                let _ = write!(text, " | {source} | {source:?}");
                cause = source.source();
            }
            text
        }
    }
}

/// A directory above a protected name cannot be renamed or removed, and nothing in it is removed
/// before the refusal.
#[test]
fn directory_that_contains_a_protected_name_is_neither_renamed_nor_removed() {
    let mut rows = 0;
    for case in PATTERNS {
        for (effect, state) in pairs(&EFFECTS, &[State::Directory, State::File, State::Link]) {
            let world = World::new(*case, state);
            let roots = world.allowed(Some(effect));
            let (other, before) = (world.path("other"), world.everything());
            for ancestor in world.ancestors() {
                let [free, here] = [format!("{other}/free"), "free".into()];
                let my_dir = format!("{other}/my-dir");
                let attempts = [
                    roots.remove_dir_all(ancestor),
                    roots.rename(ancestor, free.as_str(), Precondition::Missing),
                    roots.rename(ancestor, free.as_str(), Precondition::Any),
                    roots.rename(ancestor, here.as_str(), Precondition::Missing),
                    roots.rename(ancestor, my_dir.as_str(), Precondition::Any),
                    roots.check_entry(ancestor).and_then(|it| it.remove_dir_all()),
                ];
                for (number, attempt) in attempts.into_iter().enumerate() {
                    rows += 1;
                    let what =
                        format!("{effect:?} {case:?} {state:?} {ancestor}: attempt {number}");
                    assert_eq!(attempt.map_err(|error| error.code()), Err("protected"), "{what}");
                    assert_eq!(world.everything(), before, "{what}");
                }
            }
        }
    }
    println!("{rows} attempts on directories that contain a protected name");
    assert!(rows >= 200, "only {rows} rows");
}

/// Listings of directories above a denied name do not depend on what is there.
#[test]
fn listings_above_a_denied_name_do_not_depend_on_it() {
    let mut rows = 0;
    for case in PATTERNS {
        let mut world = World::new(*case, State::Missing);
        let mut first: Option<Vec<String>> = None;
        for (state, mode) in DENIED_STATES {
            world = world.with_state(*state);
            let place = world.tree.path(world.place());
            if *state != State::Missing && *state != State::Link {
                fs::set_permissions(&place, fs::Permissions::from_mode(*mode)).unwrap();
            }
            let answers = above(&world);
            if *state == State::Directory {
                fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
            }
            rows += answers.len();
            for line in &answers {
                assert!(
                    !line.contains(&format!("{}/", world.name())),
                    "{case:?} {state:?}: {line}"
                );
            }
            let first = first.get_or_insert_with(|| answers.clone());
            assert_eq!(&answers, first, "{case:?} {state:?}");
        }
    }
    println!("{rows} listings above denied names");
    assert!(rows >= 200, "only {rows} rows");
}

const DENIED_STATES: &[(State, u32)] = &[
    (State::Missing, 0),
    (State::Directory, 0o755),
    (State::Directory, 0o000),
    (State::File, 0o644),
    (State::File, 0o000),
    (State::Link, 0),
];

/// The results of listings above the denied place.
fn above(world: &World) -> Vec<String> {
    let mut answers = Vec::new();
    let mut directories = vec!["."];
    directories.extend(world.ancestors());
    let roots = world.allowed(Some(Protection::Denied));
    for directory in &directories {
        let listed = roots.read_dir(*directory).and_then(|entries| {
            entries
                .map(|entry| {
                    entry.and_then(|it| {
                        Ok(format!("{:?} {}", it.file_name(), description(&it.metadata()?)))
                    })
                })
                .collect::<Result<Vec<_>>>()
        });
        let mut listed = listed.unwrap();
        listed.sort();
        let name = world.name();
        assert!(!listed.iter().any(|line| line.contains(&format!("{name:?}"))), "{listed:?}");
        answers.push(format!("list {directory}: {listed:?}"));
        let walk = |options: WalkOptions| {
            let lines: Vec<_> = walked(roots.walk(*directory, options).unwrap())
                .into_iter()
                .map(|entry| match entry {
                    Ok(it) => {
                        format!(
                            "{} {}",
                            it.relative().display(),
                            description(&it.metadata().unwrap())
                        )
                    }
                    Err(error) => format!("{} {error}", error.code()),
                })
                .collect();
            format!("walk {directory} {options:?}: {lines:?}")
        };
        // Only visible entries count towards the limits.
        let visible = walked(roots.walk(*directory, WalkOptions::default()).unwrap()).len();
        answers.push(walk(WalkOptions::default()));
        answers.push(walk(WalkOptions::default().max_depth(1)));
        answers.push(walk(WalkOptions::default().max_entries(visible)));
        answers.push(walk(WalkOptions::default().max_entries(visible - 1)));
        let described = roots.metadata(*directory).map(|it| description(&it));
        answers.push(format!("metadata {directory}: {}", shown(&described)));
    }
    answers
}

/// A client root that is denied, or whose path passes through a denied name, is rejected.
#[test]
fn denied_client_root_is_rejected() {
    let mut rows = 0;
    for case in PATTERNS {
        for state in STATES {
            let world = World::new(*case, state);
            let boundary = world.boundary(Some(Protection::Denied), &["proj", "other"]);
            let rejected = |path: &str| {
                let listed = [ListEntry::from(path)];
                let roots = boundary.narrow(listed).unwrap();
                assert!(roots.iter().len() == 0, "{case:?} {state:?}: {path} is in force");
                let [rejected] = roots.rejected() else { panic!("{path}: {:?}", roots.rejected()) };
                rejected.error().code()
            };
            let place = world.place();
            for path in [
                place.clone(),
                format!("{place}/hooks"),
                format!("{place}/config"),
                format!("{place}/none"),
                world.path("proj/to-p"),
                world.path("proj/to-p/hooks"),
                world.path("proj/chain"),
                world.path("proj/through"),
                world.path(&format!("proj/to-parent/{}", world.name())),
                format!("{place}/../plain"),
                format!("{place}/hooks/../.."),
            ] {
                rows += 1;
                let found = rejected(&path);
                if state == State::NoParent && found == "not_found" && world.parent() != "." {
                    continue; // The parent is missing, so the request does not reach the name.
                }
                assert_eq!(found, "protected", "{case:?} {state:?}: {path}");
            }
        }
    }
    println!("{rows} denied client roots");
}

#[test]
fn invalid_pattern_is_an_error_that_names_it() {
    let world = World::new(PATTERNS[0], State::Directory);
    let long = vec!["a"; 17].join("/");
    let bad = [
        "", "/", "//", "a//b", "a/", "/a/", "//a", ".", "..", "a/./b", "a/../b", "../a", "/..",
        "*/a", "a*/b", "a?/b", "a\0b", &long,
    ];
    for pattern in bad {
        let built = Boundary::builder()
            .directory(world.tree.path("proj"), Access::ReadWrite)
            .protect(pattern)
            .build();
        let error = built.expect_err(&format!("{pattern:?} is accepted"));
        let found = (error.kind(), error.code());
        assert_eq!(found, (ErrorKind::InvalidConfiguration, "invalid_pattern"), "{pattern:?}");
        let text = format!("{error} {:?}", error.operator_detail());
        assert!(text.contains(&format!("{pattern:?}").replace('"', "")), "{pattern:?}: {text}");
    }
    let built = |count: usize| {
        let builder = Boundary::builder().directory(world.tree.path("proj"), Access::ReadWrite);
        let names = (0..count).map(|number| format!("name{number}"));
        names.fold(builder, BoundaryBuilder::deny).build()
    };
    assert!(built(1_000).is_ok());
    assert_eq!(built(1_001).unwrap_err().kind(), ErrorKind::InvalidConfiguration);
    let sixteen = vec!["a"; 16].join("/");
    let builder = Boundary::builder().directory(world.tree.path("proj"), Access::ReadWrite);
    assert!(builder.deny(sixteen).build().is_ok());
}
