//! A proof by enumeration for a small scope: every tree and every request.
//!
//! The scope is every tree with a bounded number of entries in the root `r`, and every request with
//! a bounded number of components, for each intent. An entry is one of [`KINDS`], and each
//! directory can contain the names `a` and `b`. A request is relative or absolute, and consists of
//! [`COMPONENTS`]. The directory `o`, which contains `a` and `b`, is outside the root. Each tree is
//! built as real files, in memory if possible.
//!
//! The test proves two claims, both with and without `openat2`. First, the guard and the naive rule
//! ([`model`]) agree on the place, on whether it exists, and on the error code. Second, the rule
//! resolves each request to the same place as the kernel does ([`kernel`]), unless the path leaves
//! the root, and the rule recognizes exactly those paths. Most known defects in path checks can be
//! reproduced with a tree and a request this small.
//!
//! A second test has deeper trees and longer requests: every spelling of a request and of a
//! symlink's target.
//!
//! By default, there are at most two entries and three components: 161 trees and 516 requests.
//! `GUARD_SCOPE=4,4` sets the maximum numbers: 5,401 trees and 3,108 requests.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;

use mcp_roots_guard::Roots;

use crate::support::model::{Decision, Name};
use crate::support::proof::Intent;
use crate::support::runs_without_openat2;
use crate::support::tree::Tree;
use crate::support::{kernel, model};

/// The kinds of entries: `f` is a file, `d` a directory, and anything else a symlink with this
/// target. `$T` is the directory that contains the root.
const KINDS: [&str; 10] =
    ["f", "d", "a", "b/a", "..", "../o", "missing", "$T/r/b", "$T/o/a", "$T/r/../r/a"];

const COMPONENTS: [&str; 6] = ["a", "b", "missing", ".", "..", ""];

const INTENTS: [Intent; 4] = [Intent::Existing, Intent::New, Intent::NewTree, Intent::NoFollow];

/// Paths below `r` with their kinds, parents first.
type Entries = Vec<(String, &'static str)>;

/// Returns all trees with exactly this many entries in one directory.
fn trees(entries: usize) -> Vec<Entries> {
    (0..=entries).flat_map(|of_a| pairs(&named("a", of_a), &named("b", entries - of_a))).collect()
}

/// Returns all trees with exactly this many entries at or below one name.
fn named(name: &str, entries: usize) -> Vec<Entries> {
    match entries {
        0 => vec![Vec::new()],
        1 => KINDS.map(|kind| vec![(name.to_owned(), kind)]).into(),
        _ => {
            let beneath = |tree: Entries| {
                tree.into_iter().map(|(path, kind)| (format!("{name}/{path}"), kind))
            };
            let with_name =
                |tree| std::iter::once((name.to_owned(), "d")).chain(beneath(tree)).collect();
            trees(entries - 1).into_iter().map(with_name).collect()
        }
    }
}

fn pairs(first: &[Entries], second: &[Entries]) -> Vec<Entries> {
    first.iter().flat_map(|one| second.iter().map(|two| [one.as_slice(), two].concat())).collect()
}

/// Returns all requests of one to `components` components, both relative ones and absolute ones
/// below the root's own path. A single empty component is the empty request.
fn requests(components: usize, root: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut longest: Vec<String> = COMPONENTS.map(Into::into).into();
    for _ in 0..components {
        all.extend(longest.iter().cloned());
        let longer = |path: &String| COMPONENTS.map(|name| format!("{path}/{name}"));
        longest = longest.iter().flat_map(longer).collect();
    }
    let absolute: Vec<_> = all.iter().map(|path| format!("{}/{path}", root.display())).collect();
    [all, absolute].concat()
}

#[derive(Default)]
struct Counts {
    pairs: usize,
    decisions: usize,
    by_outcome: BTreeMap<String, usize>,
}

/// Tests every request on each of the trees.
fn prove(trees: &[Entries], components: usize) -> Counts {
    let tree = Tree::in_memory("file o/a; file o/b; dir r");
    let (top, root) = (tree.path(""), tree.path("r"));
    let (roots, requests) = (tree.roots(["r"]), requests(components, &root));
    let mut counts = Counts::default();
    for entries in trees {
        let mut names = BTreeMap::new();
        for (path, kind) in entries {
            let path = root.join(path);
            let name = match *kind {
                "f" => fs::write(&path, "").map(|()| Name::Other),
                "d" => fs::create_dir(&path).map(|()| Name::Directory),
                text => symlink(tree.expand(text), &path).map(|()| Name::Link(tree.expand(text))),
            };
            names.insert(path, name.unwrap());
        }
        assert_eq!(names.len(), entries.len());
        prove_one(&names, &roots, &root, &requests, &mut counts);
        for (path, name) in names.iter().rev() {
            if *name == Name::Directory { fs::remove_dir(path) } else { fs::remove_file(path) }
                .unwrap();
        }
    }
    assert_eq!(
        fs::read_dir(top).unwrap().count(),
        2,
        "a request created something outside the root"
    );
    counts
}

fn prove_one(
    names: &BTreeMap<PathBuf, Name>,
    roots: &Roots,
    root: &Path,
    requests: &[String],
    counts: &mut Counts,
) {
    let decide = {
        let (roots, requests) = (roots.clone(), requests.to_vec());
        move || -> Vec<[Decision; 4]> {
            let all = |request: &String| {
                // Every intent judges one of the two proofs.
                let check =
                    |intent: Intent| intent.check(&roots, request).map_err(|error| error.code());
                let (path, entry) = (check(Intent::Existing), check(Intent::NoFollow));
                INTENTS.map(|intent| {
                    let proof = if intent == Intent::NoFollow { &entry } else { &path };
                    let judged = intent.judge(proof.clone()?, &roots, request)?;
                    Ok((judged.canonical(), judged.exists()))
                })
            };
            requests.iter().map(all).collect()
        }
    };
    let (here, blocked) = (decide.clone()(), kernel::without_openat2(decide));
    let look = |path: &Path| names.get(path).cloned().unwrap_or(Name::Missing);
    let paths = [root.to_owned()];
    for (request, (here, blocked)) in requests.iter().zip(here.iter().zip(&blocked)) {
        counts.pairs += 1;
        for (intent, (decided, blocked)) in INTENTS.into_iter().zip(here.iter().zip(blocked)) {
            let expected = model::decide(look, &paths, request, intent);
            assert_eq!(*decided, expected, "{intent:?} of {request:?} in {names:?}");
            assert_eq!(
                *blocked, expected,
                "{intent:?} of {request:?} without openat2 in {names:?}"
            );
            if let Err(why) = kernel::agrees(&expected, root, request, intent) {
                panic!("{intent:?} of {request:?} is {expected:?}, but {why} in {names:?}");
            }
            counts.decisions += 1;
            let outcome = expected
                .map_or_else(|code| code, |(_, exists)| if exists { "allowed" } else { "new" });
            *counts.by_outcome.entry(outcome.into()).or_default() += 1;
        }
    }
}

/// How a request or a symlink's target can name the entry `NAME` of the root. `$T` is the directory
/// that contains the root.
const SPELLINGS: [&str; 9] = [
    "NAME",
    "./NAME",
    "d/../NAME",
    "../r/NAME",
    "d/../../r/NAME",
    "l/../NAME",
    "$T/r/NAME",
    "$T/./r//d/../NAME",
    "$T/o/../r/NAME",
];

/// What a spelling can end in.
const ENDINGS: [&str; 3] = ["", "/", "/."];

/// Every spelling of a request for a name, which is missing, a file, a directory, or a symlink in
/// every spelling to one of these. The root contains a directory `d` and a symlink `l` to it.
#[test]
fn every_spelling_of_a_request_and_of_a_target_agrees_with_the_kernel() {
    if runs_without_openat2() {
        return;
    }
    let tree = Tree::in_memory("dir o; dir r/d; link r/l -> d");
    let (roots, root) = (tree.roots(["r"]), tree.path("r"));
    let spelled = |name: &str| -> Vec<String> {
        let spelling = |text: &&str| tree.expand(&text.replace("NAME", name));
        let ended = |text: String| ENDINGS.map(|ending| format!("{text}{ending}"));
        SPELLINGS.iter().map(spelling).flat_map(ended).collect()
    };
    let (requests, targets) = (spelled("a"), spelled("b"));
    let mut counts = Counts::default();
    for there in [Name::Missing, Name::Other, Name::Directory] {
        let links = targets.iter().map(|target| Some(Name::Link(target.clone())));
        for link in std::iter::once(None).chain(links) {
            let entries = match link {
                None => vec![("a", there.clone())],
                Some(link) => vec![("a", link), ("b", there.clone())],
            };
            let mut names = BTreeMap::from([
                (root.join("d"), Name::Directory),
                (root.join("l"), Name::Link("d".into())),
            ]);
            for (name, kind) in &entries {
                let path = root.join(name);
                match kind {
                    Name::Missing => continue,
                    Name::Other => fs::write(&path, "").unwrap(),
                    Name::Directory => fs::create_dir(&path).unwrap(),
                    Name::Link(target) => symlink(target, &path).unwrap(),
                }
                names.insert(path, kind.clone());
            }
            prove_one(&names, &roots, &root, &requests, &mut counts);
            for (name, kind) in &entries {
                let path = root.join(name);
                match kind {
                    Name::Missing => {}
                    Name::Directory => fs::remove_dir(path).unwrap(),
                    _ => fs::remove_file(path).unwrap(),
                }
            }
        }
    }
    println!("{} pairs of a tree and a request, {:?}", counts.pairs, counts.by_outcome);
    assert_eq!(counts.pairs, 3 * (1 + targets.len()) * requests.len());
    for outcome in
        ["allowed", "new", "not_found", "not_a_directory", "is_a_directory", "outside_roots"]
    {
        assert!(counts.by_outcome.contains_key(outcome), "no decision is {outcome}");
    }
}

#[test]
fn every_small_request_on_every_small_tree_agrees_with_the_kernel() {
    let scope = std::env::var("GUARD_SCOPE").unwrap_or_else(|_| "2,3".into());
    let scope = scope
        .split_once(',')
        .and_then(|(entries, components)| Some((entries.parse().ok()?, components.parse().ok()?)));
    let (entries, components): (usize, usize) = scope.expect("GUARD_SCOPE=ENTRIES,COMPONENTS");
    assert!(
        (2..=4).contains(&entries) && components >= 2,
        "a smaller scope shows little, and a larger one takes weeks"
    );
    if runs_without_openat2() {
        // The suite's first run already tests both cases, with and without `openat2`.
        return;
    }
    let trees: Vec<_> = (0..=entries).flat_map(trees).collect();
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let all = thread::scope(|scope| {
        let chunks = trees.chunks(trees.len().div_ceil(workers));
        let proven: Vec<_> =
            chunks.map(|trees| scope.spawn(move || prove(trees, components))).collect();
        proven
            .into_iter()
            .map(|proven| proven.join().expect("no assertion failed"))
            .collect::<Vec<_>>()
    });
    let pairs: usize = all.iter().map(|counts| counts.pairs).sum();
    let decisions: usize = all.iter().map(|counts| counts.decisions).sum();
    let mut by_outcome: BTreeMap<String, usize> = BTreeMap::new();
    for (outcome, count) in all.into_iter().flat_map(|counts| counts.by_outcome) {
        *by_outcome.entry(outcome).or_default() += count;
    }
    println!(
        "scope of {entries} entries and {components} components: {} trees, \
         {pairs} pairs of a tree and a request, {decisions} decisions: {by_outcome:?}",
        trees.len()
    );
    // The number of trees with n entries, T(n), can be calculated independently, because a
    // directory has two slots, and a slot is empty or contains one of the kinds or a directory with
    // n - 1 entries below it.
    let of_entries = [1, 20, 140, 680, 4_560];
    let of_components: usize =
        (1..=u32::try_from(components).unwrap()).map(|length| 6_usize.pow(length)).sum();
    assert_eq!(
        trees.len(),
        of_entries.iter().take(entries + 1).sum::<usize>(),
        "the number of trees in the scope"
    );
    assert_eq!(pairs, trees.len() * 2 * of_components);
    for outcome in [
        "allowed",
        "new",
        "empty",
        "outside_roots",
        "not_found",
        "not_a_directory",
        "too_many_links",
    ] {
        assert!(by_outcome.contains_key(outcome), "no decision is {outcome}");
    }
}
