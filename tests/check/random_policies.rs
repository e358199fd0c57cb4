//! Random policies and places, decided by the guard and by a naive program.

use std::fs;
use std::path::Path;

use mcp_roots_guard::{Access, Boundary, ListRootsResult};

use super::access::decide;
use crate::support::access::{Directory, Policy, ascii_key, is_in};
use crate::support::protection::Protection;
use crate::support::random::Random;
use crate::support::tree::Tree;

/// A number of policies, each with so many places. With `GUARD_POLICIES`, there are more.
const POLICIES: usize = 100;
const PLACES: usize = 2_000;

const NAMES: [&str; 5] = ["a", "A", "b", "a.", "c"];
const PATTERNS: [&str; 10] = ["a", "b", "/a", "/b/c", "a/b", "c/a", "a*", "?", "b/a/c", "/c"];

#[test]
fn random_places_have_the_access_that_a_naive_program_gives_them() {
    let policies = std::env::var("GUARD_POLICIES").map_or(POLICIES, |it| it.parse().unwrap());
    let seed = Random::seed();
    let (mut random, mut outcomes, mut built) = (Random(seed), [0; 4], 0);
    while built < policies {
        let tree = Tree::in_memory("");
        let Some((policy, boundary)) = policy(&mut random, &tree) else { continue };
        built += 1;
        let (mut roots, mut expected) = (boundary.allowed_roots(), policy.everything());
        for _ in 0..2 {
            let places: Vec<_> = (0..=random.below(2)).map(|_| place(&mut random, &tree)).collect();
            for place in &places {
                fs::create_dir_all(place).unwrap();
            }
            match random.below(4) {
                0 => {
                    let uris = places.iter().map(|place| format!("file://{place}"));
                    roots = boundary.narrow(&ListRootsResult::from_uris(uris).roots).unwrap();
                    expected = policy.narrow(&policy.everything(), &places);
                }
                1 => {
                    if let Ok(narrowed) = roots.within(&*places[0]) {
                        (roots, expected) = (narrowed, policy.narrow(&expected, &places[..1]));
                    }
                }
                2 if random.below(4) == 0 => {
                    roots = roots.read_only();
                    for root in &mut expected {
                        root.is_writable = false;
                    }
                }
                _ => {}
            }
        }
        for _ in 0..PLACES {
            let place = place(&mut random, &tree);
            let naive = policy.decide(&expected, &place);
            let decided = decide(&roots, &place);
            let of = || format!("{place} in {policy:#?}, {expected:#?}, seed {seed}");
            assert_eq!(decided, naive, "{}", of());
            outcomes[naive as usize] += 1;
            let around = expected.iter().filter(|root| is_in(&place, &root.path));
            if let Some(root) = around.min_by_key(|root| root.path.len()) {
                let rest = &place[root.path.len()..];
                let request = if rest.is_empty() { "." } else { &rest[1..] };
                let naive = policy.walk(&expected, &root.path, request);
                let decided = decide(&roots.with_base(&root.path).unwrap(), request);
                assert_eq!(decided, naive, "{request} from {}: {}", root.path, of());
            }
        }
    }
    println!("{built} policies, seed {seed}: {outcomes:?}");
    assert!(outcomes.iter().all(|count| *count > built), "{outcomes:?}");
}

/// A policy with one to four directories. Returns `None` for one that is refused, as it must be.
fn policy(random: &mut Random, tree: &Tree) -> Option<(Policy, Boundary)> {
    let (mut policy, mut builder) = (Policy::new(Vec::new()), Boundary::builder());
    for _ in 0..=random.below(4) {
        let (path, is_writable) = (place(random, tree), random.below(2) == 0);
        if policy.directories.iter().any(|directory| directory.path == path) {
            continue;
        }
        fs::create_dir_all(&path).unwrap();
        let access = if is_writable { Access::ReadWrite } else { Access::ReadOnly };
        builder = builder.directory(Path::new(&path), access);
        policy.directories.push(Directory { path, is_writable, ..Directory::default() });
    }
    for _ in 0..random.below(4) {
        let text = one_of(random, &PATTERNS).to_owned();
        let is_denied = random.below(2) == 0;
        let protection = if is_denied { Protection::Denied } else { Protection::ReadOnly };
        builder = protection.add(builder, &text);
        policy.patterns.push((text, protection));
    }
    let exempt = one_of(random, &NAMES);
    if random.below(3) == 0 && builder.clone().exempt(exempt).build().is_ok() {
        builder = builder.exempt(exempt);
        policy.exempt.push(exempt.into());
    }
    let built = builder.build();
    let key = |path: &str| path.split('/').map(ascii_key).collect::<Vec<_>>().join("/");
    let of = |writable| policy.directories.iter().filter(move |it| it.is_writable == writable);
    let conflicts =
        of(false).any(|inner| of(true).any(|outer| is_in(&key(&inner.path), &key(&outer.path))));
    let code = built.as_ref().err().map(mcp_roots_guard::Error::code);
    assert_eq!(code, conflicts.then_some("access_conflict"), "{policy:?}");
    built.ok().map(|boundary| (policy, boundary))
}

/// A path in the tree with at most four names.
fn place(random: &mut Random, tree: &Tree) -> String {
    let top = tree.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    (0..random.below(5)).fold(top, |path, _| path + "/" + one_of(random, &NAMES))
}

fn one_of(random: &mut Random, texts: &[&'static str]) -> &'static str {
    texts[usize::try_from(random.below(texts.len() as u64)).unwrap()]
}
