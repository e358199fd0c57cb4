//! Reads that do not wait for a slot: [`RequestRoots::read_to_string_async`].

use std::os::unix::fs::symlink;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{Access, Boundary, Guard, Protection, Result};
use serde_json::json;

use crate::raw_client::{Raw, call, tool_text};
use crate::server::{Tree, path_of};

type Work = fn(RequestRoots, String) -> Pin<Box<dyn Future<Output = Worked> + Send>>;
type Worked = std::result::Result<String, HandlerError>;

/// Runs the work in a tool, with the directory `op` as the only root. Panics if it fails.
async fn run(guard: Guard, argument: &str, work: Work) -> String {
    let mut raw = Raw::to_tool(&guard, move |guard, call, ctx| {
        let argument = path_of(&call);
        async move { guard.tool_async(&ctx, &call, |roots| work(roots, argument)).await }
    });
    raw.initialize(json!({})).await;
    raw.send(&call(1, "any", argument)).await;
    tool_text(&raw.receive().await).unwrap()
}

/// What both ways of reading give for a request.
async fn both(roots: &RequestRoots, request: &str) -> [std::result::Result<String, String>; 2] {
    let shown = |read: Result<String>| {
        read.map_err(|error| format!("{} {error} {:?}", error.code(), error.operator_detail()))
    };
    let path = request.to_owned();
    let in_slot = roots.run(move |roots| Ok(roots.read_to_string(path, LIMIT))).await.unwrap();
    [shown(roots.read_to_string_async(request, LIMIT).await), shown(in_slot)]
}

const LIMIT: u64 = 2 << 20;

/// The result does not depend on whether the request is decided at once.
#[tokio::test(flavor = "multi_thread")]
async fn read_at_once_gives_the_same_result() {
    let tree = Tree::new();
    tree.add(
        "file op/d/e/f = text; file op/empty =; link op/l -> d/e; link op/lf -> d/e/f
         link op/abs -> $T/op/d/e/f; link op/out -> $T/secret.txt; link op/up -> ../secret.txt
         link op/dangling -> nothing; link op/loop -> loop; file op/hidden/f = hidden
         link op/into -> hidden/f; dir op/d/none",
    );
    std::fs::write(tree.path("op/latin"), b"caf\xe9").unwrap();
    std::fs::write(tree.path("op/large"), vec![b'x'; 3 << 20]).unwrap();
    std::fs::write(tree.path("op/middle"), vec![b'x'; 3 << 19]).unwrap();
    nix::unistd::mkfifo(Path::new(&tree.path("op/fifo")), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let boundary = || Boundary::builder().directory(tree.path("op"), Access::ReadWrite);
    let hidden = boundary().protect("hidden", Protection::Hidden);
    for boundary in [boundary(), hidden] {
        let guard = Guard::new(boundary.build().unwrap());
        let text = run(guard, &tree.path(""), |roots, top| {
            Box::pin(async move {
                let mut differ = Vec::new();
                let (mut served, mut refused) = (0, 0);
                for request in REQUESTS {
                    let request = request.replace("$T", &top);
                    let [at_once, in_slot] = both(&roots, &request).await;
                    if at_once != in_slot {
                        differ.push(format!("{request}: {at_once:?}, {in_slot:?}"));
                    }
                    served += usize::from(at_once.is_ok());
                    refused += usize::from(at_once.is_err());
                }
                Ok(format!("{served} served, {refused} refused; {differ:?}"))
            })
        })
        .await;
        assert!(text.ends_with("; []"), "{text}");
        assert!(text.starts_with("15 served, 21") || text.starts_with("12 served, 24"), "{text}");
    }
}

const REQUESTS: [&str; 36] = [
    "d/e/f",
    "/d/e/f",
    "$T/op/d/e/f",
    "./d//e/./f",
    "d/../d/e/f",
    "l/f",
    "lf",
    "abs",
    "empty",
    "middle",
    "l/../e/f",
    "../op/d/e/f",
    "d/../../op/d/e/f",
    "hidden/f",
    "into",
    "hidden/../d/e/f",
    "hidden/../../x",
    "..",
    ".",
    "",
    "d",
    "d/e/f/",
    "d/e/f/..",
    "d/none/x",
    "missing",
    "../secret.txt",
    "d/../../secret.txt",
    "$T/secret.txt",
    "$T/op/../secret.txt",
    "missing/../../secret.txt",
    "lf/../../secret.txt",
    "out",
    "up",
    "latin",
    "large",
    "fifo",
];

#[tokio::test]
async fn text_of_a_file_is_the_result_of_the_tool() {
    let tree = Tree::new();
    tree.add("file op/abc = abc; file op/abcd = abcd");
    let guard = tree.guard();
    let mut raw = Raw::to_tool(&guard, move |guard, call, ctx| async move {
        guard.read_text(&ctx, &call, path_of(&call), 3).await
    });
    raw.initialize(json!({})).await;
    let requests = [
        ("abc", Ok("abc")),
        ("abcd", Err("read \"abcd\": larger than 3 bytes")),
        ("none", Err("read \"none\": no such file or directory")),
        ("../secret.txt", Err("read \"../secret.txt\": not inside the allowed directories")),
    ];
    for (path, expected) in requests {
        raw.send(&call(1, "any", path)).await;
        let text = tool_text(&raw.receive().await);
        assert_eq!(text.as_deref().map_err(String::as_str), expected);
    }
}

/// A file that is in memory is read, and a request that leaves the roots is refused, while all slots
/// are occupied.
#[tokio::test(flavor = "multi_thread")]
async fn read_at_once_waits_for_no_slot() {
    let tree = Tree::new();
    if !is_local(&tree) {
        return;
    }
    let guard = tree.builder().work_at_once(1).build().unwrap();
    let text = run(guard, "", |roots, _| {
        Box::pin(async move {
            let (release, released) = mpsc::channel::<()>();
            let roots = Arc::new(roots);
            let (started, is_started) = tokio::sync::oneshot::channel();
            let occupying = roots.clone();
            let occupying_task = tokio::spawn(async move {
                let wait = move |_| {
                    started.send(()).unwrap();
                    released.recv().map_err(HandlerError::other)
                };
                occupying.run(wait).await
            });
            is_started.await.unwrap();
            let read = roots.read_to_string_async("a/in.txt", 9).await?;
            let refused = roots.read_to_string_async("a/../../secret.txt", 9).await.unwrap_err();
            // This one needs a slot.
            let waits = roots.read_to_string_async("missing", 9);
            let is_waiting = tokio::time::timeout(Duration::from_millis(200), waits).await.is_err();
            release.send(()).unwrap();
            occupying_task.await.unwrap()?;
            Ok(format!("{read}, {}, {is_waiting}", refused.code()))
        })
    })
    .await;
    assert_eq!(text, "a, outside_roots, true");
}

/// Whether temporary files are on a filesystem whose files are read at once. If not, the test is
/// skipped.
fn is_local(tree: &Tree) -> bool {
    let kind = rustix::fs::statfs(tree.path("op").as_str()).unwrap().f_type;
    let local = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
    let is_local = local.contains(&u64::try_from(kind).unwrap());
    if !is_local {
        println!("skipped: temporary files are on a filesystem of type {kind:#x}");
    }
    is_local
}

/// The file is exchanged with a symlink to the outside, and its directory with one to a directory
/// outside. The control resolves the path first.
#[tokio::test(flavor = "multi_thread")]
async fn raced_read_at_once_reads_nothing_outside() {
    let tree = Tree::new();
    tree.add("file op/d/f = inside; file d/f = OUTSIDE");
    let links = [("op/d/f", "f", "../../d/f"), ("op/d", "d", "../d")];
    for (at, name, target) in links {
        let swapped = tree.path(&format!("swapped-{name}"));
        symlink(target, &swapped).unwrap();
        let (at, is_done) = (tree.path(at), Arc::new(AtomicBool::new(false)));
        let stop = is_done.clone();
        let swapping = std::thread::spawn(move || {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let mut swaps = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &at, CWD, &swapped, RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
            }
            // Leaves the file in its place.
            if swaps % 2 == 1 {
                renameat_with(CWD, &at, CWD, &swapped, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let text = run(tree.guard(), &tree.path("op"), |roots, top| {
            Box::pin(async move {
                let [mut read, mut leaked, mut control] = [0; 3];
                let start = Instant::now();
                for round in 0.. {
                    let is_shown = round >= 20_000 && read > 0 && control > 0;
                    if is_shown || start.elapsed() > Duration::from_secs(600) {
                        break;
                    }
                    match roots.read_to_string_async("d/f", 99).await {
                        Ok(text) if text == "inside" => read += 1,
                        Ok(_) => leaked += 1,
                        Err(_) => {}
                    }
                    let path = std::fs::canonicalize(format!("{top}/d/f"));
                    let path = path.ok().filter(|path| path.starts_with(&top));
                    let text = path.and_then(|path| {
                        // The author's own step between the check and the use.
                        std::thread::yield_now();
                        std::fs::read_to_string(format!("{top}/d/f"))
                            .ok()
                            .filter(|_| path.is_absolute())
                    });
                    control += usize::from(text.is_some_and(|text| text == "OUTSIDE"));
                }
                Ok(format!("{read} {leaked} {control}"))
            })
        })
        .await;
        is_done.store(true, Ordering::Relaxed);
        swapping.join().unwrap();
        println!("{name}: read inside, outside, and outside by the control: {text}");
        let counts: Vec<u64> = text.split(' ').map(|count| count.parse().unwrap()).collect();
        assert!(counts[0] > 0 && counts[1] == 0 && counts[2] > 0, "{text}");
    }
}
