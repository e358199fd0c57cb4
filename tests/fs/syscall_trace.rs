//! Proves that the guard never accesses anything outside the roots, and that a refusal never
//! reveals what exists there.
//!
//! *Access:* the test binary runs itself again as a traced child. The child makes every request
//! with every operation, with and without `openat2`, and [`crate::support::tracer`] checks each
//! system call. To prove that the tracer detects violations, the test also runs
//! [`OUTSIDE_ACCESSES`], each of which the tracer must refuse.
//!
//! *Refusals:* the same requests are made at the same path in worlds that differ only outside the
//! roots. Every answer must be identical, byte for byte.
#![cfg(target_arch = "x86_64")]

use std::error::Error as _;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mcp_roots_guard::Error;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::support::one_step::OneStep as _;
use crate::support::operations::{self, Attempt, Operation, Target, Way, attempts};
use crate::support::proof::Intent;
use crate::support::traced::end_trace;
use crate::support::tracer::{
    AS_IT_IS, LOOKING, WITHOUT_OPENAT2, be_traced_if_child, mark, openat2_is_there, section, trace,
};
use crate::support::tree::Tree;

/// The name of the traced test.
const TRACED_TEST: &str = "fs::syscall_trace::requests_that_lead_outside_are_refused";

#[test]
fn no_path_passed_to_the_kernel_is_outside_the_roots() {
    let ways: &[&str] = if openat2_is_there() { &[AS_IT_IS, WITHOUT_OPENAT2] } else { &[AS_IT_IS] };
    for (number, how) in ways.iter().enumerate() {
        let seen = trace(how, TRACED_TEST, &ROOTS, FILE_ROOT, None);
        println!("{how}: {}", seen.counts());
        assert!(seen.refused.is_empty(), "{how}:\n{}", seen.refused.join("\n"));
        // A process that the server starts later inherits no descriptor that the guard opened.
        assert!(seen.inheritable.is_empty(), "{how}:\n{}", seen.inheritable.join("\n"));
        assert!(seen.judged > 5000, "{how}: {}", seen.counts());
        let by_openat2 = number == 0 && openat2_is_there();
        assert_eq!(
            (seen.answered > 5000, seen.edge > 200),
            (by_openat2, by_openat2),
            "{how}: {}",
            seen.counts()
        );
    }
}

#[test]
fn the_tracer_detects_every_access_outside() {
    let seen = trace(LOOKING, TRACED_TEST, &ROOTS, FILE_ROOT, None);
    println!(
        "{} accesses outside: {}\n{}",
        OUTSIDE_ACCESSES.len(),
        seen.counts(),
        seen.refused.join("\n")
    );
    let accesses = if openat2_is_there() {
        OUTSIDE_ACCESSES.len()
    } else {
        OUTSIDE_ACCESSES.len() - OPENAT2_ACCESSES
    };
    for number in 0..accesses {
        assert!(
            seen.refused.iter().any(|line| line.starts_with(&format!("{number}: "))),
            "access {number} was not detected"
        );
    }
    assert!(!seen.inheritable.is_empty(), "the accesses do not ask to be closed on exec");
}

#[test]
fn refusals_do_not_reveal_whether_the_target_exists() {
    let tree = Tree::new("");
    let mut first = None;
    let mut failures = Vec::new();
    for world in WORLDS {
        let answers = ask(&tree, world, &REQUESTS[..2], false);
        let first = first.get_or_insert_with(|| answers.clone());
        for (answer, other) in
            answers.iter().zip(first.iter()).filter(|(answer, other)| answer != other)
        {
            failures.push(format!("{world:?}\n    {}\n    {}", answer.text, other.text));
        }
    }
    println!("{} answers in {} worlds", first.map_or(0, |answers| answers.len()), WORLDS.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The traced child runs this test. Without a tracer, it verifies that requests that lead outside
/// are refused.
#[test]
fn requests_that_lead_outside_are_refused() {
    let tree = Tree::new("");
    let how = be_traced_if_child(&tree.path(""));
    if how.as_deref() == Some(LOOKING) {
        access_outside(&tree);
    } else {
        let answers = ask(&tree, WORLDS.last().unwrap(), &REQUESTS, how.is_some());
        let wrong = |answer: &&Answer| answer.leads_out && answer.code != Some("outside_roots");
        let failures: Vec<_> =
            answers.iter().filter(wrong).map(|answer| answer.text.as_str()).collect();
        let served = answers.iter().filter(|answer| answer.code.is_none()).count();
        // In a traced child, the tracer decides.
        assert!(how.is_some() || failures.is_empty(), "\n{}", failures.join("\n"));
        assert!(served > 300, "only {served} requests succeeded");
    }
    if how.is_some() {
        end_trace();
    }
}

/// The tree inside the roots. Everything else, such as `outside` and `none`, differs between
/// worlds.
const INSIDE: &str = "file root/a/f; file root/a/g; dir root/a/d; file root/spare = content; \
    dir root/spare-dir; file second/g; \
    file data/only; link root/in-rel -> a/f; link root/in-abs -> $T/root/a/f; \
    link root/in-dir -> ../root/a; fifo root/fifo; link root/to-second -> ../second; \
    link root/in-none -> a/none; link root/loop -> loop; link root/a/up -> ../..; \
    link second/back -> ../root/a/d; link root/out-x -> ../outside/x; \
    link root/out-x-abs -> $T/outside/x; link root/out-none -> ../outside/none; \
    link root/out-dir -> ../outside; link root/out-dir-abs -> $T/outside; \
    link root/out-back -> ../outside/back; link root/chain -> chain-2; \
    link root/chain-2 -> a/up/chain-3; link root/chain-dir -> out-dir; link root/top -> /; \
    link root/climb -> ../../../../../../../../etc/passwd; \
    link root/proc-root -> /proc/self/root; link root/cwd -> /proc/self/cwd; \
    link root/proc-again -> proc-root; link root/stdin -> /dev/fd/0; \
    link root/fds -> /proc/self/fd; link root/share -> //server/share; \
    link root/auto -> /net/host/export; link root/misc -> /misc/cd";

/// The tree outside the roots, and those of its paths that have no permissions.
type World = (&'static str, &'static [&'static str]);

const WORLDS: &[World] = &[
    ("", &[]),
    ("dir outside", &[]),
    ("file outside", &[]),
    ("file outside/x", &[]),
    ("file outside/x", &["outside/x"]),
    ("file outside/x", &["outside"]),
    ("dir outside/x", &[]),
    ("dir outside/x/y", &[]),
    ("file outside/x/y", &["outside/x"]),
    ("link outside/x -> x", &[]),
    ("link outside/x -> none; link outside/back -> none", &[]),
    ("link outside -> root", &[]),
    ("link outside/x -> $T/root/a/f; link outside/back -> $T/root/a", &[]),
    ("fifo outside/x; socket outside/none", &[]),
    ("file none/such; file root-2/f; file roo; file data/other; file chain-3/x", &[]),
    (
        "file outside/x; link outside/back -> $T/root/a; file root-2/f; file data/other; \
         link chain-3 -> outside/x",
        &[],
    ),
];

/// Requests, grouped by where they lead.
type Requests = (Leads, &'static str);

#[derive(PartialEq)]
enum Leads {
    Outside,
    /// The last name is a symlink that leads outside.
    OutsideIfFollowed,
    /// Inside the roots, or refused by name alone.
    Inside,
}

const REQUESTS: [Requests; 3] = [
    (
        Leads::Outside,
        "$T/outside/x $T/outside/x/ $T/outside/x/y $T/outside $T/outside/ $T $T/ / // /none/such
        /etc/passwd $T/none/such $T/root/.. $T/root/../outside/x $T/root-2 $T/root-2/f $T/roo
        $T/data/other $T/data /proc/self/root /proc/self/root/ /proc/self/root$T/root/a/f
        /proc/self/cwd /proc/self/cwd/x /proc/self/fd/3 /dev/fd/0 /dev/stdin //server/share/x
        /net/host/export file:///etc/passwd file://$T/outside/x file://localhost$T/outside/x/
        file://$T/root/../outside/x file://$T/root/%2e%2e/none/such .. ../ ../.. ../outside
        ../outside/x ../outside/x/ ../outside/x/.. ../outside/../root/a/f ../none/such ../root-2/f
        ../data/other a/../../outside/x a/up/outside/x in-dir/../../outside/x
        to-second/../outside/x ../../../../../../../../etc/passwd out-dir/x out-dir/x/ out-dir/x/y
        out-dir/none out-dir/.. out-dir/../root/a/f out-dir/back/f out-dir-abs/x out-back/f
        out-back/none chain/x chain-dir/x chain-dir/none top/etc/passwd proc-root/etc/passwd
        proc-root$T/root/a/f proc-again/none cwd/x cwd/../x fds/0 share/x auto/x misc/x/y",
    ),
    (
        Leads::OutsideIfFollowed,
        "a/up a/up/ out-x out-x-abs out-none out-dir out-dir/ out-dir-abs out-dir-abs/. out-back
        out-x/ chain chain-2 chain-dir climb proc-root proc-again proc-again/ cwd stdin fds share
        auto auto/ misc",
    ),
    (
        Leads::Inside,
        "a/f $T/root/a/f $T/root/./a//f file://$T/root/a/f ../root/a/f $T/root/../root/a/f
        ../second/g $T/second/g $T/data/only ../data/only $T/data/only/ in-rel in-abs in-abs/
        in-dir/f in-dir/../spare a/up/root/a/f to-second/g to-second/back to-second/../root/a/f
        a/./d/../f a/f/ a/f/x a/f/.. a/none none a/none/none a/none/../f a/none/../../../outside/x
        in-none loop loop/x fifo fifo/ file://host/x http://localhost/x file:x new a/new
        new-dir/new/new in-dir/new-dir/ in-rel in-dir to-second ../root .. . $T/root a/d a/g a",
    ),
];

/// Each operation on each request, and some by proofs that were made in another way.
fn calls() -> impl Iterator<Item = (Attempt, Way)> {
    let ways = |attempt: &Attempt| match attempt.operation.name {
        "open()" => &[Way::Directly, Way::Proof, Way::Listed][..],
        "metadata()" => &[Way::Directly, Way::Joined, Way::Parent],
        "write(WRITTEN)" => &[Way::Directly, Way::Walked],
        "remove_file()" => &[Way::Directly, Way::Unfollowed],
        _ => &[Way::Directly],
    };
    let of_table = attempts().flat_map(move |attempt| {
        let Attempt { operation, position } = attempt;
        ways(&attempt).iter().map(move |way| (Attempt { operation, position }, *way))
    });
    of_table.chain([(Attempt { operation: &SYMLINK_TO, position: 0 }, Way::Directly)])
}

/// The request is the target of a symlink. The text of a target is never a URI.
const SYMLINK_TO: Operation = Operation {
    letter: b' ',
    name: "symlink to",
    paths: &[operations::Path { intent: Intent::New, target: Target::Any, is_changed: false }],
    directly: Some(|roots, texts, _| match texts[0] {
        uri if uri.contains(':') => Ok(roots.metadata(uri)?.len().to_string()),
        target => roots.symlink(target, "fresh").map(|()| "made".into()),
    }),
    by_proof: None,
};

/// Whether a symlink that the request names is followed.
fn is_followed(attempt: &Attempt, way: Way) -> bool {
    match way {
        Way::Listed | Way::Walked => false,
        Way::Unfollowed | Way::Parent => true,
        _ => attempt.path().intent != Intent::NoFollow,
    }
}

#[derive(Clone, PartialEq)]
struct Answer {
    code: Option<&'static str>,
    text: String,
    leads_out: bool,
}

/// Makes every request with every operation. After an operation that changed something, the tree is
/// rebuilt at the same path.
fn ask(tree: &Tree, world: &World, requests: &[Requests], traced: bool) -> Vec<Answer> {
    let mut answers: Vec<Answer> = Vec::new();
    let mut fresh = false;
    for (attempt, way) in calls() {
        if !fresh {
            build(tree, world);
        }
        let roots = tree.roots(ROOTS);
        let first = answers.len();
        let answer = |(leads_out, request): (bool, String)| {
            let mut text = format!("{} {way:?} {request}", attempt.name());
            mark(&text);
            let result = attempt.run(way, &roots, &request);
            let code = result.as_ref().err().map(Error::code);
            text += result.as_deref().unwrap_or_default();
            if let Err(error) = &result {
                write!(text, ": {} | {error} | {error:?}", error.code()).unwrap();
                let mut cause = error.source();
                while let Some(source) = cause {
                    write!(text, " | {source} | {source:?}").unwrap();
                    cause = source.source();
                }
            }
            Answer { code, text, leads_out }
        };
        let requests = requests.iter().flat_map(|(leads, list)| {
            let leads_out = *leads == Leads::Outside
                || *leads == Leads::OutsideIfFollowed && is_followed(&attempt, way);
            let list = tree.expand(list);
            list.split_whitespace().map(|it| (leads_out, it.to_owned())).collect::<Vec<_>>()
        });
        section(traced, || answers.extend(requests.map(answer)));
        fresh = answers[first..].iter().all(|answer| answer.code.is_some());
    }
    clear(tree);
    answers
}

const ROOTS: [&str; 3] = ["root", "second", FILE_ROOT];
const FILE_ROOT: &str = "data/only";

fn build(tree: &Tree, (outside, locked): &World) {
    clear(tree);
    tree.add(INSIDE);
    tree.add(outside);
    for path in *locked {
        fs::set_permissions(tree.path(path), PermissionsExt::from_mode(0o0)).unwrap();
    }
}

fn clear(tree: &Tree) {
    for path in ["outside", "outside/x"].map(|path| tree.path(path)) {
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_symlink()) {
            fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        }
    }
    for entry in fs::read_dir(tree.path("")).unwrap().map(Result::unwrap) {
        let is_dir = entry.file_type().unwrap().is_dir();
        if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) }
            .unwrap();
    }
}

/// Accesses that a guard must never make, and that the tracer must detect. The arguments are the
/// top of the tree and an open handle to the first root.
const OUTSIDE_ACCESSES: &[fn(&Path, &File)] = &[
    |top, _| _ = fs::metadata(top.join("outside/x")),
    |top, _| _ = fs::symlink_metadata(top.join("outside/none")),
    |top, _| _ = File::open(top.join("outside/x")),
    |top, _| _ = fs::create_dir(top.join("outside/new")),
    |top, _| _ = fs::canonicalize(top.join("root/out-x")),
    |_, _| _ = fs::read_link("/proc/self/root"),
    |top, _| _ = fs::read_link(top.join("root/out-x")),
    |top, _| _ = fs::read_dir(top),
    |top, _| _ = std::env::set_current_dir(top),
    |_, _| _ = fs::metadata("Cargo.toml"),
    |_, root| _ = rustix::fs::statat(root, "..", rustix::fs::AtFlags::SYMLINK_NOFOLLOW),
    |_, root| _ = rustix::fs::statat(root, "out-x", rustix::fs::AtFlags::empty()),
    |_, root| _ = rustix::fs::statat(root, "out-dir/x", rustix::fs::AtFlags::SYMLINK_NOFOLLOW),
    |_, root| {
        _ = rustix::fs::accessat(
            root,
            "out-none",
            rustix::fs::Access::EXISTS,
            rustix::fs::AtFlags::empty(),
        );
    },
    |_, root| _ = rustix::fs::openat(root, "out-x", OFlags::RDONLY, Mode::empty()),
    |_, root| {
        _ = rustix::fs::openat(
            root,
            "..",
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW,
            Mode::empty(),
        );
    },
    |_, root| _ = rustix::fs::renameat(root, "spare", root, "../spare"),
    |_, root| _ = rustix::fs::symlinkat("spare", root, "../new"),
    |_, root| _ = rustix::fs::symlinkat("spare", root, "out-dir/new"),
    |_, root| {
        let times = rustix::fs::Timestamps {
            last_access: rustix::fs::Timespec { tv_sec: 0, tv_nsec: 0 },
            last_modification: rustix::fs::Timespec { tv_sec: 0, tv_nsec: 0 },
        };
        _ = rustix::fs::utimensat(root, "out-x", &times, rustix::fs::AtFlags::empty());
    },
    |top, root| {
        _ = rustix::fs::linkat(
            root,
            "out-x",
            CWD,
            top.join("x"),
            rustix::fs::AtFlags::SYMLINK_FOLLOW,
        );
    },
    |_, root| {
        _ = rustix::fs::openat2(
            root,
            "../none",
            OFlags::PATH,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS,
        );
    },
    |top, _| {
        _ = rustix::fs::openat2(CWD, top, OFlags::PATH, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    },
];

/// The number of accesses at the end of the list that use `openat2`. They have no effect where
/// `openat2` is blocked.
const OPENAT2_ACCESSES: usize = 2;

fn access_outside(tree: &Tree) {
    build(tree, WORLDS.last().unwrap());
    let root = File::open(tree.path("root")).unwrap();
    section(true, || {
        for (number, access) in OUTSIDE_ACCESSES.iter().enumerate() {
            mark(&number.to_string());
            access(&tree.path(""), &root);
        }
    });
}
