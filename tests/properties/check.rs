//! The decision about a request.
//!
//! The input is a small tree ([`world`](crate::support::world)) and requests, one on each line,
//! either absolute or relative to the first root:
//!
//! ```text
//! ?a/../b           decided for every intent
//! Xa/../b           decided for the intent number X % 4
//! ```
//!
//! These properties hold with `openat2` and without:
//!
//! - The guard and the naive rule ([`model`](crate::support::model)) agree on the canonical path,
//!   on its existence and on the kind of a refusal.
//! - The rule agrees with `std::fs::canonicalize` and with the kernel
//!   ([`kernel`](crate::support::kernel)), except where a path leaves the roots, because the guard
//!   never looks outside. The rule recognizes these paths exactly.
//! - Reading through the guard returns the content that `std` reads at the canonical path.
//! - A denied place, and a path through one, is refused as protected. Read-only names do not change
//!   the decision, but a write to one is refused, and no other write is, except one that would create
//!   a file at the beginning of a pattern.
//! - An alias of the first root in a request means the root's path. So does one in a symlink's
//!   target, if the alias resolves to the root. Any other alias there is an ordinary path.
//!
//! Other tests cover file roots, roots that disappear, allowed directories and policies.

use std::fs;
use std::path::Path;

use crate::support::model::Decision;
use crate::support::proof::Intent;
use crate::support::protection::Protection;
use crate::support::world::{LINE_BYTES, LINES, World};
use crate::support::{kernel, model};

/// Checks all properties.
pub(crate) fn hold(bytes: &[u8]) {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let world = World::with_aliases(lines.next().unwrap_or_default());
    for line in lines.take(LINES) {
        let line = line.get(..LINE_BYTES).unwrap_or(line);
        if let Some((&kind, request)) = line.split_first().filter(|_| !world.add(line, &world.top))
        {
            let one = [INTENTS[usize::from(kind) % INTENTS.len()]];
            let intents = if kind == b'?' { &INTENTS[..] } else { &one };
            check(&world, &world.text(request), intents);
        }
    }
}

fn check(world: &World, request: &str, intents: &[Intent]) {
    let decisions = |intents: Vec<Intent>| {
        let (roots, request) = (world.guard.clone(), request.to_owned());
        move || -> Vec<_> {
            let read = roots.read(&request, 1 << 10).map_err(|error| error.code());
            intents
                .into_iter()
                .map(|intent| (model::guard_decision(&roots, &request, intent), read.clone()))
                .collect()
        }
    };
    let (here, blocked) =
        (decisions(intents.to_vec())(), kernel::without_openat2(decisions(intents.to_vec())));
    let sent = request;
    let request = &*world.without_alias(sent);
    let look = |path: &Path| world.look_through_aliases(path);
    for (&intent, (decided, blocked)) in intents.iter().zip(here.into_iter().zip(blocked)) {
        let plain = model::decide(look, &world.roots, request, intent);
        let is_denied = |path: &Path| world.is_denied(path);
        let roots = &world.roots;
        let expected = model::decide_unless_denied(look, is_denied, roots, request, intent);
        // The explanation of a write to a read-only name is the pattern, whatever the text names.
        let is_pattern = |decided: &Decision| {
            let path = decided.as_ref().ok().map(|(path, _)| path);
            intent == Intent::New
                && expected == Err("is_a_directory")
                && path.and_then(|path| world.protection(path)) == Some(Protection::ReadOnly)
        };
        let agrees = |decided: &Decision| *decided == expected || is_pattern(decided);
        assert!(
            agrees(&decided.0),
            "{intent:?} of {sent:?}: {:?}, not {expected:?}, in {world}",
            decided.0
        );
        let blocked_is = &blocked.0;
        assert!(
            agrees(blocked_is),
            "{intent:?} of {request:?} without openat2: {blocked_is:?}, not {expected:?}"
        );
        check_write(world, sent, intent, &expected);
        if expected != plain {
            let is_refused = expected == Err("protected") && decided.1 == Err("protected");
            assert!(is_refused || intent != Intent::Existing, "{request:?} in {world}");
            continue;
        }
        if let Err(why) = kernel::agrees(&expected, &world.roots[0], request, intent) {
            panic!("{intent:?} of {request:?} is {expected:?}, but {why} in {world}");
        }
        if intent == Intent::Existing {
            let really = fs::canonicalize(world.roots[0].join(request));
            let is_alike = match &expected {
                Ok((path, _)) => really.is_ok_and(|real| real == *path),
                Err("outside_roots") => true,
                Err(_) => request.is_empty() || really.is_err(),
            };
            assert!(is_alike, "{request:?} is {expected:?}, but std disagrees in {world}");
            let content = expected.and_then(|(path, _)| match path.metadata().unwrap() {
                metadata if metadata.is_dir() => Err("is_a_directory"),
                metadata if !metadata.is_file() => Err("special_file"),
                _ => Ok(fs::read(path).unwrap()),
            });
            assert_eq!(decided.1, content, "reading {request:?} in {world}");
            assert_eq!(blocked.1, content, "reading {request:?} without openat2 in {world}");
        }
    }
}

/// Checks that only a write to a read-only name, or to a file at the beginning of a pattern, is
/// refused as protected. The request is written only if it names such a place, or an existing file,
/// which then gets the same content.
fn check_write(world: &World, request: &str, intent: Intent, expected: &Decision) {
    let Ok((path, exists)) = expected else { return };
    let is_read_only = world.protection(path) == Some(Protection::ReadOnly);
    let is_refused =
        is_read_only || world.policy.as_ref().is_some_and(|policy| policy.begins_pattern(path));
    if intent == Intent::New && world.policy.is_some() && (is_refused || *exists) {
        // Opening a FIFO would block.
        let content = path.is_file().then(|| fs::read(path).unwrap_or_default());
        if is_refused || content.is_some() {
            let content = content.unwrap_or_default();
            let written = world.guard.write(request, &content).map_err(|error| error.code());
            let named = world.roots[0].join(world.without_alias(request));
            let expected = if !is_refused {
                Ok(())
            } else if !is_read_only
                && (kernel::ends_as_directory(named) || world.roots.contains(path))
            {
                // What a request names, and that a root is a directory, is compared before what
                // could appear there.
                Err("is_a_directory")
            } else {
                Err("protected")
            };
            assert_eq!(written, expected, "{request:?} in {world}");
        }
    }
}

const INTENTS: [Intent; 4] = [Intent::Existing, Intent::New, Intent::NewTree, Intent::NoFollow];
