//! Compares the roots in force with a naive model, for many combinations of the options of allowed
//! directories, the states of a client, and its lists.
//!
//! The model ([`boundary_model`](crate::support::boundary_model)) uses only strings and shares no
//! code with the guard. After each step of a client, the test compares the roots in order, their
//! access, [`always_in_force`] and [`Root::client_path`], the rejected entries, the decision on a
//! request for each interesting place, the state of the session, and [`Roots::still_allows`] for
//! a proof in each allowed directory. The decisions on relative requests reveal the base.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use guarded_fs::internals::trust_links_until;
use mcp_roots_guard::{
    Access, Boundary, BoundaryBuilder, CheckedPath, ClientCapabilities, ClientRoots,
    DirectoryOptions, Guard, ListRootsResult, RootEntry, Roots, RootsResponse, Session,
};
use serde_json::json;

use crate::support::access::{Directory, Policy, is_in};
use crate::support::aliases::Alias;
use crate::support::always_in_force;
use crate::support::boundary_model::{
    Answer, Client, Config, Decision, Declared, Entry, InForce, Step,
};
use crate::support::model::Name;
use crate::support::random::Random;
use crate::support::tree::Tree;

/// The tree. `m` is missing.
const TREE: &str = "file p/f; file p/w/f; file p/w/in/f; file q/f; file q/s/f; file o/f; \
    link p/w/lq -> $T/q; link p/lo -> ../o; link p/lw -> w; link p/lu -> $T/u/s; \
    link p/lh -> /srv/host-q; link q/lw -> $T/p/w; link v -> p; link vw -> p/w; link u -> q";

const DIRECTORIES: [&str; 4] = ["p", "p/w", "q", "m"];

/// The aliases of each directory: a symlink, a path that does not exist here, and a Windows path.
const ALIASES: [[&str; 3]; 4] = [
    ["$T/v", "/Users/me/proj", r"C:\proj"],
    ["$T/vw", "/Users/me/inner", r"E:\inner"],
    ["$T/u", "/srv/host-q", r"D:\q"],
    ["$T/vm", "/srv/host-m", r"F:\m"],
];

/// The lists of clients. `!` stands for a malformed entry.
const LISTS: [&[&str]; 45] = [
    &[],
    &["$T/p"],
    &["$T/p/w"],
    &["$T/p/w/in"],
    &["$T/q"],
    &["$T/q/s"],
    &["$T/m"],
    &["$T/o"],
    &["$T"],
    &["/"],
    &["!"],
    &["$T/p/w/lq"],
    &["$T/p/lo"],
    &["$T/p/lw"],
    &["$T/q/lw"],
    &["$T/p/w", "$T/q"],
    &["$T/q", "$T/p/w"],
    &["$T/q/s", "$T/q"],
    &["$T/q", "$T/q/s"],
    &["$T/p/w", "$T/p/w"],
    &["$T/q", "$T/q"],
    &["$T/o", "$T/q", "$T/o"],
    &["$T/p", "$T/p/w"],
    &["$T/p/w", "$T/p/w/lq"],
    &["$T/p/lw", "$T/p/w"],
    &["$T/p/f"],
    &["https://x", "$T/p/w"],
    &["$T/p/none", "$T/q"],
    &["$T", "$T/q"],
    &["!", "$T/q/s"],
    &["$T/v"],
    &["$T/v/w"],
    &["/Users/me/proj"],
    &["/Users/me/proj/w"],
    &["/c%3A/proj"],
    &["/C:/proj/w"],
    &["/Users/me"],
    &["/Users/me/proj-x"],
    &["/Users/me/proj/w", "$T/p/w"],
    &["$T/p/w", "/C:/PROJ/w", "$T/v/w"],
    &["$T/u", "/srv/host-q"],
    &["/d:/q/s", "$T/p/w"],
    &["/Users/me/proj/none"],
    &["/srv/host-q/s"],
    &["$T/vw", "$T/p"],
];

/// The requests. Each names an existing file or directory, or nothing.
const REQUESTS: [&str; 38] = [
    "$T",
    "$T/p",
    "$T/p/f",
    "$T/p/w",
    "$T/p/w/f",
    "$T/p/w/in/f",
    "$T/p/w/none",
    "$T/q/f",
    "$T/q/s/f",
    "$T/o/f",
    "$T/m",
    "$T/p/w/lq/s/f",
    "$T/p/w/in/../lq/f",
    "$T/p/lo/f",
    "$T/p/lw/f",
    "$T/p/lu/f",
    "$T/p/lh/f",
    "$T/q/lw/in/f",
    ".",
    "f",
    "w/f",
    "lq/f",
    "../q/f",
    "../w/f",
    "$T/v/f",
    "/Users/me/proj/f",
    // These begin with aliases.
    "$T/v/w/f",
    "$T/vw/in/f",
    "$T/u/s/f",
    "/Users/me/proj/w/f",
    "/Users/me/proj-x/f",
    "/Users/me/inner/f",
    "/srv/host-q/s/f",
    r"C:\proj/w/f",
    "file:///c%3A/proj/w/f",
    "file:///C:/PROJ/f",
    r"D:\q/s/f",
    r"C:\projects",
];

/// The places of the proofs for [`Roots::still_allows`].
const PLACES: [&str; 6] = ["p", "p/f", "p/w", "p/w/in", "q", "q/s/f"];

/// The minimum number of combinations.
const COMBINATIONS: usize = 20_000;

/// One combination.
#[derive(Clone, Copy, Debug, Default)]
struct Combination {
    /// Indices into [`DIRECTORIES`], in configuration order.
    directories: [Option<usize>; 3],
    read_only: [bool; 3],
    always: [bool; 3],
    /// A bit for each kind of alias.
    aliases: [usize; 3],
    empty_means_allowed: bool,
    /// Whether a client that did not declare roots is refused.
    denies: bool,
    ignores: bool,
    /// What the client declared: no roots, roots with announcements, or roots without them.
    declared: usize,
    script: usize,
    list: usize,
}

impl Combination {
    /// Whether symlinks in writable directories are older than the server: in half of them.
    fn trusts_links(&self) -> bool {
        (self.list + self.script + self.directories[0].unwrap_or(0)) % 2 == 0
    }
}

#[test]
fn roots_in_force_agree_with_a_naive_model() {
    let tree = Tree::in_memory(TREE);
    let names = names(&tree);
    let all = combinations();
    // A seventh of the combinations: 7 divides none of the numbers of values, so no value is always
    // passed over. `GUARD_OPTIONS=all` compares all of them.
    let step = if std::env::var_os("GUARD_OPTIONS").is_some() { 1 } else { 7 };
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .start_paused(true)
                    .build()
                    .unwrap();
                while let Some(one) = all.get(next.fetch_add(step, Ordering::Relaxed)) {
                    if let Err(difference) = runtime.block_on(compare(&tree, &names, one)) {
                        // Only one combination is shown for each kind of difference.
                        let kind = difference.split("\n  step").next().unwrap().to_owned();
                        let mut differences = differences.lock().unwrap();
                        let (count, _) = differences.entry(kind).or_insert((0, difference));
                        *count += 1;
                    }
                }
            });
        }
    });
    println!("{} of {} combinations", all.len() / step, all.len());
    assert!(all.len() >= COMBINATIONS, "only {} combinations", all.len());
    let differences = differences.into_inner().unwrap();
    let shown = differences.into_values().take(25);
    let shown: Vec<_> = shown.map(|(count, text)| format!("{count} times: {text}")).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

/// Five complete products, and random combinations.
fn combinations() -> Vec<Combination> {
    let mut all = Vec::new();
    let default = Combination { declared: 1, ..Combination::default() };
    // With `any_listed`, each list is granted.
    for list in 0..LISTS.len() {
        for declared in 0..3 {
            all.push(Combination { denies: true, declared, list, ..default });
        }
    }
    for directories in arrangements().into_iter().filter(|one| one[0].is_some()) {
        let count = directories.iter().flatten().count();
        for options in 0..1_usize << (2 * count) {
            let bit = |number: usize| options & 1 << number != 0;
            let read_only = [bit(0), bit(1) && count > 1, bit(2) && count > 2];
            let always = [bit(count), bit(count + 1), bit(count + 2)];
            let always = [always[0], always[1] && count > 1, always[2] && count > 2];
            let one = Combination { directories, read_only, always, ..default };
            // Each set of options with each list. With three directories, the access is always the
            // same, and each set is combined with a third of the lists.
            if count < 3 || options % 8 == 0 {
                for list in
                    (0..LISTS.len()).filter(|list| count < 3 || (list + options / 8) % 3 == 0)
                {
                    let even = (all.len() + list) % 2 == 0;
                    let aliases = if even { [7, 7, 7] } else { [0; 3] };
                    all.push(Combination { list, aliases, empty_means_allowed: even, ..one });
                }
            }
            // Each state of a client, if all directories have the same access.
            if count < 3 && read_only[..count].iter().all(|one| *one == read_only[0]) {
                for script in 0..SCRIPTS {
                    for list in [0, 15] {
                        let empty_means_allowed = script % 2 == 0;
                        all.push(Combination { empty_means_allowed, script, list, ..one });
                    }
                }
                for (declared, denies, ignores) in
                    [(0, true, false), (0, false, false), (1, false, true)]
                {
                    all.push(Combination { denies, ignores, declared, ..one });
                }
            }
        }
    }
    // Each set of kinds of aliases, with the lists that use one. If the second directory has only
    // some of the kinds, a quarter of these lists.
    for directories in [[Some(0), None, None], [Some(0), Some(2), None], [Some(1), Some(0), None]] {
        let count = directories.iter().flatten().count();
        for aliases in 0..8 << (3 * (count - 1)) {
            for always in [[false; 3], [true, false, false]] {
                let aliases = [aliases % 8, aliases / 8, 0];
                for list in [2, 8].into_iter().chain(30..LISTS.len()) {
                    if aliases[1] % 7 == 0 || list % 4 == 3 {
                        all.push(Combination { directories, always, aliases, list, ..default });
                    }
                }
            }
        }
    }
    let mut random = Random(18);
    let arrangements = arrangements();
    for _ in 0..7_000 {
        let mut below =
            |bound: usize| usize::try_from(random.below(u64::try_from(bound).unwrap())).unwrap();
        let directories = arrangements[below(arrangements.len())];
        let ignores = below(8) == 0;
        let has = |number: usize| directories[number].is_some();
        let mut flags = || [0, 1, 2].map(|number| below(2) == 1 && has(number));
        // Nested directories must have the same access.
        let (mut read_only, always) = (flags(), flags());
        let nested = |number: usize| directories[number].is_some_and(|one| one < 2);
        let first = read_only[(0..3).find(|&number| nested(number)).unwrap_or(0)];
        (0..3).filter(|&number| nested(number)).for_each(|number| read_only[number] = first);
        let aliases = [0, 1, 2].map(|number| if has(number) { below(8) } else { 0 });
        all.push(Combination {
            directories,
            read_only,
            always,
            aliases,
            empty_means_allowed: has(0) && below(2) == 1,
            denies: !has(0) || !ignores && below(2) == 1,
            ignores: ignores && has(0),
            declared: [0, 1, 1, 1, 1, 2][below(6)],
            script: below(SCRIPTS),
            list: below(LISTS.len()),
        });
    }
    all
}

/// Each sequence of up to three directories.
fn arrangements() -> Vec<[Option<usize>; 3]> {
    let mut all = Vec::new();
    for code in 0..125 {
        let one = [code % 5, code / 5 % 5, code / 25].map(|digit: usize| digit.checked_sub(1));
        let distinct: BTreeSet<_> = one.iter().flatten().collect();
        let count = one.iter().flatten().count();
        if distinct.len() == count && one[..count].iter().all(Option::is_some) {
            all.push(one);
        }
    }
    assert_eq!(all.len(), 1 + 4 + 12 + 24);
    all
}

/// The number of scripts: the states of a client.
const SCRIPTS: usize = 11;

fn script(number: usize, list: &[Entry], good: &[Entry]) -> Vec<Step> {
    let fails = |code, state| Step::Call(Answer::Failed(code, state));
    let (fail, roots_failed) = ("roots_failed", r#"Failed(Other("roots_failed"))"#);
    let call = || Step::Call(Answer::List(list.to_vec()));
    let good = || Step::Call(Answer::List(good.to_vec()));
    let again = || Step::Call(Answer::NotAsked);
    let carries = Step::Carries(list.to_vec());
    match number {
        0 => vec![call()],
        1 => vec![carries.clone(), carries],
        2 => vec![good(), Step::Changed, fails(fail, roots_failed)],
        3 => vec![fails("roots_unsupported", r#"Failed(Other("roots_unsupported"))"#), again()],
        4 => vec![fails("roots_timed_out", roots_failed), again()],
        5 => vec![fails(fail, roots_failed), again(), Step::Seconds(2), call()],
        6 => vec![good(), Step::Changed, call(), Step::Changed],
        7 => vec![good(), Step::Changed, Step::Call(Answer::Changes)],
        8 => vec![call(), Step::Seconds(4000), good()],
        9 => vec![fails(fail, roots_failed), Step::Changed, call()],
        10 => vec![good(), Step::Close, call(), Step::Carries(list.to_vec())],
        _ => unreachable!(),
    }
}

/// Runs one combination. Returns the first difference.
async fn compare(tree: &Tree, names: &Names, combination: &Combination) -> Result<(), String> {
    let config = config(tree, combination);
    let look = |path: &Path| names.get(path).cloned().unwrap_or(Name::Missing);
    let mut model = Client::new(&config, &look);
    let what = || format!("{:?} {:?}", LISTS[combination.list], combination);
    let (guard, expected) = (guard(tree, combination), config_error(&config));
    let (guard, boundary) = match (guard, expected) {
        (Ok(guard), None) => guard,
        (result, expected) => {
            let actual = result.err();
            if actual == expected {
                return Ok(());
            }
            return Err(format!("building: {actual:?}, the model {expected:?}: {}", what()));
        }
    };
    let declared = match config.declared {
        Declared::Nothing => ClientCapabilities::WithoutRoots,
        Declared::Announcing => ClientCapabilities::WithAnnouncedRoots,
        Declared::Silent => ClientCapabilities::WithRoots,
    };
    let session = guard.session(declared).unwrap();
    let proofs = proofs(tree, &boundary);
    let good: Vec<_> = ["$T/q/s", "$T/p"].iter().map(|text| entry(tree, text).1).collect();
    let list: Vec<_> = LISTS[combination.list].iter().map(|text| entry(tree, text).1).collect();
    for (number, step) in script(combination.script, &list, &good).iter().enumerate() {
        let differs = |what_differs: &str, actual: String, expected: String| {
            let at = format!("step {number}, {step:?}, of {}", what());
            Err(format!("{what_differs}: {actual}\n  the model: {expected}\n  {at}"))
        };
        let actual = run(&session, step).await;
        let expected = model.step(step);
        match (&actual, &expected) {
            (Some(Ok(actual)), Some(Ok(expected))) => {
                let (shown, wanted) = (seen(actual), expected.seen());
                if shown != wanted {
                    return differs("roots", format!("{shown:?}"), format!("{wanted:?}"));
                }
                let rejected: Vec<_> = actual
                    .rejected()
                    .iter()
                    .map(|rejected| (rejected.index(), rejected.error().code()))
                    .collect();
                if let Some(wanted) =
                    expected.rejected.as_ref().filter(|wanted| **wanted != rejected)
                {
                    return differs("rejected", format!("{rejected:?}"), format!("{wanted:?}"));
                }
                // Without aliases, most requests that begin with one are not interesting.
                let requests = if combination.aliases == [0; 3] { 26 } else { REQUESTS.len() };
                for request in REQUESTS[..requests].iter().map(|request| tree.expand(request)) {
                    let (made, wanted) = decisions_on(actual, expected, &model, &request);
                    if made != wanted {
                        return differs(&request, format!("{made:?}"), format!("{wanted:?}"));
                    }
                }
            }
            (Some(Err(actual)), Some(Err(expected))) if actual == expected => {}
            (None, None) => {}
            _ => {
                let actual = actual.map(|roots| roots.map(|roots| seen(&roots)));
                return differs("call", format!("{actual:?}"), format!("{expected:?}"));
            }
        }
        let (state, wanted) = (format!("{:?}", session.state()), model.state());
        if state != wanted {
            return differs("state", state, wanted.into());
        }
        for (place, proof) in &proofs {
            let still = session
                .known_roots()
                .and_then(|roots| roots.still_allows(proof))
                .map_err(|error| error.code());
            let wanted = model.still_allows(place);
            if still != wanted {
                let what = format!("still_allows {place}");
                return differs(&what, format!("{still:?}"), format!("{wanted:?}"));
            }
        }
    }
    Ok(())
}

fn decisions_on(
    roots: &Roots,
    expected: &InForce,
    model: &Client<'_>,
    request: &str,
) -> (Decision, Decision) {
    let made = roots.check(request);
    let made = made
        .and_then(|checked| {
            if checked.exists() { Ok(checked) } else { Err(roots.metadata(request).unwrap_err()) }
        })
        .map(|checked| {
            (
                plain_path(&checked.to_unguarded_path().display().to_string()),
                checked.root().access() == Access::ReadOnly,
            )
        })
        .map_err(|error| {
            let text = error.to_string();
            let why = REASONS.iter().find(|reason| text.contains(**reason));
            let Some(why) = why else { return error.code().to_owned() };
            let is_all = text == format!("check {request:?}: {why}");
            assert!(is_all || *why == REASONS[0], "{text}");
            format!("{}: {why}", error.code())
        });
    (made, model.decide(expected, request))
}

/// A path without a trailing slash, as the model writes it.
fn plain_path(path: &str) -> String {
    path.trim_end_matches('/').to_owned()
}

/// The reasons why there are no roots. The text goes on only after the first one.
const REASONS: [&str; 5] = [
    "the first directory that the client listed is not available",
    "the server has no directories configured",
    "the client listed no directories",
    "none of the directories that the client listed is allowed",
    "none of the server's directories is available",
];

async fn run(session: &Session, step: &Step) -> Option<Result<Roots, String>> {
    let list = |entries: &[Entry]| {
        let mut list = ListRootsResult::default();
        list.roots.extend(entries.iter().map(root_entry));
        list
    };
    let roots = match step {
        Step::Changed => {
            session.list_changed();
            return None;
        }
        Step::Seconds(seconds) => {
            tokio::time::advance(Duration::from_secs(*seconds)).await;
            return None;
        }
        Step::Close => {
            session.close();
            return None;
        }
        Step::Carries(entries) => session.roots_from_list(list(entries)).await,
        Step::Call(Answer::List(entries)) => {
            let list = list(entries);
            session.roots(|_| std::future::ready(RootsResponse::List(list.clone()))).await
        }
        Step::Call(Answer::Failed("roots_timed_out", _)) => {
            session.roots(|_| std::future::pending()).await
        }
        Step::Call(Answer::Failed(code, _)) => {
            let answer = match *code {
                "roots_unsupported" => RootsResponse::Unsupported,
                // A result that is not a list.
                _ => RootsResponse::from_result(serde_json::json!({"roots": {}})),
            };
            session.roots(|_| std::future::ready(answer.clone())).await
        }
        Step::Call(Answer::Changes) => {
            let answer = |_| {
                session.list_changed();
                std::future::ready(RootsResponse::List(ListRootsResult::default()))
            };
            session.roots(answer).await
        }
        Step::Call(Answer::NotAsked) => {
            session.roots(|_| async { panic!("the client received a request") }).await
        }
    };
    Some(roots.map_err(|error| error.code().to_owned()))
}

/// As in [`InForce::seen`].
fn seen(roots: &Roots) -> Vec<(String, bool, bool, String)> {
    let always = always_in_force(roots);
    let seen = |root: &mcp_roots_guard::Root| {
        let [path, client_path] =
            [root.path().display().to_string(), root.client_path()].map(|it| plain_path(&it));
        (path, root.access() == Access::ReadOnly, always.contains(root.path()), client_path)
    };
    roots.iter().map(seen).collect()
}

/// A proof for each place that is in an allowed directory.
fn proofs(tree: &Tree, boundary: &Boundary) -> Vec<(String, CheckedPath)> {
    let roots = boundary.allowed_roots();
    let proof = |place: &str| {
        let path = tree.path(place);
        let checked = roots.check(path.as_path()).ok()?;
        Some((path.to_str()?.to_owned(), checked))
    };
    PLACES.iter().filter_map(|place| proof(place)).collect()
}

fn config(tree: &Tree, one: &Combination) -> Config {
    let (mut directories, mut all) = (Vec::new(), Vec::new());
    for number in 0..3 {
        let Some(name) = one.directories[number] else { continue };
        let path = tree.path(DIRECTORIES[name]).to_str().unwrap().to_owned();
        // The symlink to the missing directory does not exist.
        let is_missing = DIRECTORIES[name] == "m";
        all.extend(aliases(tree, name, one.aliases[number]).into_iter().map(|text| {
            let is_verified = !is_missing && Path::new(&text).starts_with(tree.path(""));
            Alias { text, path: path.clone(), is_verified }
        }));
        let (is_writable, is_always) = (!one.read_only[number], one.always[number]);
        directories.push(Directory { path, is_writable, is_always, is_file: false, is_missing });
    }
    Config {
        policy: Policy::new(directories),
        aliases: all,
        client_roots: client_roots(one),
        declared: [Declared::Nothing, Declared::Announcing, Declared::Silent][one.declared],
        trusts_links: one.trusts_links(),
    }
}

fn aliases(tree: &Tree, directory: usize, forms: usize) -> Vec<String> {
    let forms = (0..3).filter(|form| forms & 1 << form != 0);
    forms.map(|form| tree.expand(ALIASES[directory][form])).collect()
}

/// The error of a configuration in which a read-only directory is inside a writable one.
fn config_error(config: &Config) -> Option<&'static str> {
    let is_conflict = |inner: &Directory, outer: &Directory| {
        is_in(&inner.path, &outer.path) && !inner.is_writable && outer.is_writable
    };
    let directories = &config.policy.directories;
    let conflicts =
        directories.iter().any(|inner| directories.iter().any(|outer| is_conflict(inner, outer)));
    conflicts.then_some("access_conflict")
}

fn client_roots(one: &Combination) -> ClientRoots {
    match (one.ignores, one.denies, one.empty_means_allowed) {
        (true, ..) => ClientRoots::Ignore,
        (_, true, _) => ClientRoots::Require,
        (_, _, true) => ClientRoots::NarrowIfListed,
        _ => ClientRoots::Narrow,
    }
}

fn builder(one: &Combination) -> BoundaryBuilder {
    match one.directories[0] {
        None => Boundary::any_listed(),
        Some(_) => Boundary::builder(),
    }
}

fn guard(tree: &Tree, one: &Combination) -> Result<(Guard, Boundary), &'static str> {
    let code = |error: mcp_roots_guard::Error| error.code();
    let until = if one.trusts_links() { SystemTime::now() } else { SystemTime::UNIX_EPOCH };
    let mut builder = trust_links_until(builder(one), until);
    for number in 0..3 {
        let Some(name) = one.directories[number] else { continue };
        let access = if one.read_only[number] { Access::ReadOnly } else { Access::ReadWrite };
        let options = DirectoryOptions::from(access);
        let options = if DIRECTORIES[name] == "m" { options.optional() } else { options };
        let options = if one.always[number] { options.always() } else { options };
        let options = aliases(tree, name, one.aliases[number])
            .into_iter()
            .fold(options, DirectoryOptions::alias);
        builder = builder.directory(tree.path(DIRECTORIES[name]), options);
    }
    let boundary = builder.build().map_err(code)?;
    let mut guard = Guard::builder(boundary.clone()).runtime(tokio::runtime::Handle::current());
    if one.directories[0].is_some() {
        guard = guard.client_roots(client_roots(one));
    }
    Ok((guard.build().map_err(code)?, boundary))
}

/// An entry as the client sends it, and as the model sees it.
fn entry(tree: &Tree, text: &str) -> (RootEntry, Entry) {
    let seen = match text {
        "!" => Entry::Bad("malformed"),
        "https://x" => Entry::Bad("foreign_scheme"),
        path => Entry::Path(tree.expand(path).replace("%3A", ":")),
    };
    (root_entry(&seen), seen)
}

fn root_entry(entry: &Entry) -> RootEntry {
    let json = match entry {
        Entry::Bad("malformed") => json!(7),
        Entry::Bad(_) => json!({ "uri": "https://x" }),
        // Some clients encode the colon of a drive.
        Entry::Path(path) if path.starts_with("/c:") => {
            json!({ "uri": format!("file://{}", path.replacen(':', "%3A", 1)) })
        }
        Entry::Path(path) => json!({ "uri": format!("file://{path}") }),
    };
    // A list keeps an entry that violates the schema.
    serde_json::from_value::<ListRootsResult>(json!({ "roots": [json] })).unwrap().roots[0].clone()
}

/// The entries of [`TREE`], and the directories around them.
type Names = BTreeMap<PathBuf, Name>;

fn names(tree: &Tree) -> Names {
    let mut names = Names::new();
    for line in TREE.split(';').map(str::trim) {
        let (kind, rest) = line.split_once(' ').unwrap();
        let (path, target) = rest.split_once(" -> ").unwrap_or((rest, ""));
        let path = tree.path(path);
        for parent in path.ancestors().skip(1) {
            names.insert(parent.to_owned(), Name::Directory);
        }
        let is_link = kind == "link";
        names.insert(path, if is_link { Name::Link(tree.expand(target)) } else { Name::Other });
    }
    names
}
