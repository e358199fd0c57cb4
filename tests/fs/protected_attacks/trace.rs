//! The system calls of requests for denied names. None of them may look up a denied name.

use std::fs::File;
use std::path::Path;

use mcp_roots_guard::{ListRootsResult, Precondition};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};

use super::on_one_path;
use super::world::{Case, State, World, routes};
use crate::support::operations::Way;
use crate::support::proof::Intent;
use crate::support::protection::Protection;
use crate::support::traced::end_trace;
use crate::support::tracer::{
    AS_IT_IS, LOOKING, WITHOUT_OPENAT2, be_traced_if_child, mark, openat2_is_there, section, trace,
};

const TEST: &str = "fs::protected_attacks::trace::denied_requests_under_a_tracer";

/// The denied names begin with `.hidden-`, which occurs nowhere else in a path.
const CASE: Case = Case { pattern: ".hidden*", place: "sub/.hidden-1" };

fn is_denied(path: &Path) -> bool {
    path.components().any(|name| name.as_os_str().to_str().is_some_and(|it| it.starts_with(".hid")))
}

#[test]
fn no_system_call_looks_up_a_denied_name() {
    let ways: &[&str] = if openat2_is_there() { &[AS_IT_IS, WITHOUT_OPENAT2] } else { &[AS_IT_IS] };
    for how in ways {
        let seen = trace(how, TEST, &["proj", "other"], "none/such", Some(is_denied));
        println!("denied names, {how}: {}", seen.counts());
        assert!(seen.refused.is_empty(), "{how}:\n{}", seen.refused.join("\n"));
        assert!(seen.made.len() > 500 && seen.judged > 500, "{how}: {}", seen.counts());
    }
}

#[test]
fn the_tracer_detects_every_look_up_of_a_denied_name() {
    let seen = trace(LOOKING, TEST, &["proj", "other"], "none/such", Some(is_denied));
    let accesses =
        if openat2_is_there() { LOOK_UPS.len() } else { LOOK_UPS.len() - OPENAT2_LOOK_UPS };
    for number in 0..accesses {
        let detected = seen.refused.iter().any(|line| line.starts_with(&format!("{number}: ")));
        assert!(detected, "look-up {number} was not detected: {}", seen.refused.join("\n"));
    }
}

/// The traced child runs this test. Without a tracer, it verifies that nothing denied is served.
#[test]
fn denied_requests_under_a_tracer() {
    let world = World::new(CASE, State::Directory);
    let how = be_traced_if_child(&world.tree.path(""));
    if how.as_deref() == Some(LOOKING) {
        look_up(&world);
    } else {
        request(&world, how.is_some());
    }
    if how.is_some() {
        end_trace();
    }
}

/// Makes each request in a traced section, and rebuilds the tree between the sections.
fn request(world: &World, traced: bool) {
    let texts: Vec<String> = routes()
        .into_iter()
        .filter(|route| {
            route.exists(world, Some(Protection::Denied)) && !route.name.contains("client root")
        })
        .flat_map(|route| {
            let suffixes = world.state.suffixes().iter();
            suffixes.filter_map(|suffix| route.text(world, suffix)).collect::<Vec<_>>()
        })
        .chain(PASSING.iter().map(|text| (*text).to_owned()))
        .collect();
    for operation in on_one_path() {
        world.rebuild();
        let roots = world.allowed(Some(Protection::Denied));
        section(traced, || {
            for text in &texts {
                mark(&format!("{} {text}", operation.name));
                let done = operation.run(Way::Directly, &roots, &[text]);
                assert!(
                    done.is_err() || operation.paths[0].intent == Intent::NoFollow,
                    "{text}: {done:?}"
                );
            }
        });
    }
    world.rebuild();
    let roots = world.allowed(Some(Protection::Denied));
    let boundary = world.boundary(Some(Protection::Denied), &["proj", "other"]);
    let [free, moved] = ["other/free", "other/moved"].map(|path| world.path(path));
    let list = texts.iter().filter(|text| text.starts_with('/')).cloned();
    let list = ListRootsResult::from_uris(list);
    section(traced, || {
        for text in &texts {
            for replace in [Precondition::Missing, Precondition::Any] {
                mark(&format!("rename {replace:?} from and to {text}"));
                drop(roots.rename(text.as_str(), free.as_str(), replace));
                drop(roots.rename("plain/config", text.as_str(), replace));
            }
        }
        for directory in [".", "sub"] {
            mark(&format!("list and walk {directory}"));
            let listed = roots
                .read_dir(directory)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_owned());
            assert!(!listed.into_iter().any(|name| is_denied(Path::new(&name))));
            let walk = roots.walk(directory, mcp_roots_guard::WalkOptions::default()).unwrap();
            let walked = crate::support::walked(walk);
            assert!(!walked.into_iter().any(|entry| is_denied(&entry.unwrap().relative())));
        }
        mark("resolve client roots");
        assert!(boundary.narrow(&list.roots).unwrap().iter().all(|root| !is_denied(root.path())));
        mark("rename the parent");
        assert!(roots.rename("sub", moved.as_str(), Precondition::Missing).is_err());
        mark("remove the parent");
        assert!(roots.remove_dir_all("sub").is_err());
    });
}

/// Requests that pass through the denied name and leave it again.
const PASSING: [&str; 6] = [
    "sub/.hidden-1/..",
    "sub/.hidden-1/../mine",
    "sub/.hidden-1/../../plain/config",
    "sub/.hidden-1/hooks/../../mine",
    "sub/.HIDDEN-2/../mine",
    "none/.hidden-3/x",
];

const LOOK_UPS: &[fn(&World, &File)] = &[
    |_, root| _ = rustix::fs::statat(root, ".hidden-1", AtFlags::SYMLINK_NOFOLLOW),
    |_, root| _ = rustix::fs::statat(root, ".hidden-2", AtFlags::SYMLINK_NOFOLLOW),
    |_, root| _ = rustix::fs::mkdirat(root, ".hidden-2", Mode::RWXU),
    |_, root| _ = rustix::fs::openat(root, ".hidden-1", OFlags::PATH, Mode::empty()),
    |_, root| _ = rustix::fs::unlinkat(root, ".hidden-1", AtFlags::empty()),
    |world, _| _ = std::fs::metadata(world.place()),
    |_, root| {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        _ = rustix::fs::openat2(root, ".hidden-1/config", OFlags::PATH, Mode::empty(), how);
    },
    |_, root| {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        _ = rustix::fs::openat2(root, ".hidden-1/../mine", OFlags::PATH, Mode::empty(), how);
    },
    |_, root| {
        let how = ResolveFlags::BENEATH;
        _ = rustix::fs::openat2(root, "full/f", OFlags::PATH, Mode::empty(), how);
    },
];

/// The number of look-ups at the end of the list that use `openat2`.
const OPENAT2_LOOK_UPS: usize = 3;

fn look_up(world: &World) {
    let root = File::open(world.tree.path("proj/sub")).unwrap();
    section(true, || {
        for (number, look_up) in LOOK_UPS.iter().enumerate() {
            mark(&number.to_string());
            look_up(world, &root);
        }
    });
}
