//! Deciding a request.
//!
//! Goes in: a small tree ([`world`](crate::support::world)) and requests, one a line, relative to the first root or absolute:
//!
//! ```text
//! ?a/../b           decided for every intent
//! Xa/../b           decided for one, as X % 4 says
//! ```
//!
//! What is proven, with `openat2` and without: the guard decides as the naive rule does ([`model`](crate::support::model)), place, existence
//! and kind of refusal. That rule comes to what `std` canonicalizes and to where the kernel goes ([`kernel`](crate::support::kernel)), unless
//! the way leaves the roots (DESIGN decision 7), which it recognises exactly. What is read is what `std` reads there. Left out: roots that
//! are files or go away, allowed directories, policies; those are rows and tests of their own.

use std::fs;

use mcp_roots_guard::Intent;

use crate::support::world::{LINE_BYTES, LINES, World};
use crate::support::{kernel, model};

/// All of it.
pub(crate) fn hold(bytes: &[u8]) {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let world = World::new(lines.next().unwrap_or_default());
    for line in lines.take(LINES) {
        let line = line.get(..LINE_BYTES).unwrap_or(line);
        if let Some((&kind, request)) = line.split_first().filter(|_| !world.add(line, &world.top))
        {
            let one = [INTENTS[usize::from(kind) % INTENTS.len()]];
            let intents = if kind == b'?' { &INTENTS[..] } else { &one };
            ask(&world, &world.text(request), intents);
        }
    }
}

fn ask(world: &World, request: &str, intents: &[Intent]) {
    let told = |intents: Vec<Intent>| {
        let (roots, request) = (world.guard.clone(), request.to_owned());
        move || -> Vec<_> {
            let read = roots.read(&request, 1 << 10).map_err(|error| error.code());
            intents
                .into_iter()
                .map(|intent| (model::of_guard(&roots, &request, intent), read.clone()))
                .collect()
        }
    };
    let (here, blocked) =
        (told(intents.to_vec())(), kernel::without_openat2(told(intents.to_vec())));
    for (&intent, (told, blocked)) in intents.iter().zip(here.into_iter().zip(blocked)) {
        let expected = model::decide(World::look, &world.roots, request, intent);
        assert_eq!(told.0, expected, "{intent:?} of {request:?} in {world}");
        assert_eq!(blocked.0, expected, "{intent:?} of {request:?} without openat2 in {world}");
        if let Err(why) = kernel::agrees(&expected, &world.roots[0], request, intent) {
            panic!("{intent:?} of {request:?} is {expected:?} and {why} in {world}");
        }
        if intent == Intent::Existing {
            let really = fs::canonicalize(world.roots[0].join(request));
            let is_alike = match &expected {
                Ok((path, _)) => really.is_ok_and(|real| real == *path),
                Err("outside_roots") => true,
                Err(_) => request.is_empty() || really.is_err(),
            };
            assert!(is_alike, "{request:?} is {expected:?}, and another to std in {world}");
            let content = expected.and_then(|(path, _)| match path.metadata().unwrap() {
                metadata if metadata.is_dir() => Err("is_a_directory"),
                metadata if !metadata.is_file() => Err("special_file"),
                _ => Ok(fs::read(path).unwrap()),
            });
            assert_eq!(told.1, content, "reading {request:?} in {world}");
            assert_eq!(blocked.1, content, "reading {request:?} without openat2 in {world}");
        }
    }
}

const INTENTS: [Intent; 4] = [Intent::Existing, Intent::New, Intent::NewTree, Intent::NoFollow];
