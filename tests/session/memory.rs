//! The heap memory of sessions, which hold no directory open. Both are counted for the whole
//! process, so the tests run one at a time, in a process of their own.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::alloc::System;
use std::fs;
use std::path::Path;
use std::time::Instant;

use mcp_roots_guard::limits::SESSIONS;
use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, Guard, ListRootsResult, RootsResponse, RootsSource,
    Session,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of directories that this process holds open.
fn descriptors() -> usize {
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    let targets = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    // Exclude the directory that is being listed.
    targets.filter(|target| target.is_dir() && !target.starts_with("/proc")).count()
}

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

async fn session(guard: &Guard, list: ListRootsResult) -> Session {
    let session = guard.session(ClientCapabilities::WithAnnouncedRoots).unwrap();
    session.roots(source(&list)).await.unwrap();
    session
}

static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The guard's own estimate of the memory for cached snapshots, as its `Debug` output shows it.
fn counted(guard: &Guard) -> usize {
    let shown = format!("{guard:?}");
    let (_, count) = shown.split_once("cached_bytes: ").unwrap();
    count.split(|char: char| !char.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// The limit on cached bytes bounds memory only if the estimate for each snapshot is within a factor
/// of two of its real size.
#[tokio::test]
async fn the_weight_of_a_cached_snapshot_is_close_to_its_size() {
    let _alone = ALONE.lock().await;
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let top = directory.path().canonicalize().unwrap();
    let deep: Vec<_> = (0..4)
        .map(|n| top.join(format!("d{n}/{}", "d/".repeat((4_000 - top.as_os_str().len()) / 2))))
        .collect();
    let many: Vec<_> = (0..10_000).map(|number| uri(&top.join(number.to_string()))).collect();
    for path in (0..10_000).map(|number| top.join(number.to_string())).chain(deep.iter().cloned()) {
        fs::create_dir_all(path).unwrap();
    }
    std::os::unix::fs::symlink(".", top.join("link")).unwrap();
    // Each root has two paths here, because the path that the client sent runs through a symlink.
    let deep_link =
        deep.iter().map(|path| uri(&top.join("link").join(path.strip_prefix(&top).unwrap())));
    let list = |uris: &mut dyn Iterator<Item = String>| ListRootsResult::from_uris(uris);
    let mut named = list(&mut many.iter().take(1_000).cloned());
    named.roots.iter_mut().for_each(|root| root.name = Some("n".repeat(5_000)));
    let linked = (0..1_000).map(|number| uri(&top.join("link/link").join(number.to_string())));
    let missing = many.iter().flat_map(|there| [there.clone(), format!("{there}/none")]);
    let shapes = [
        ("no root", list(&mut std::iter::empty())),
        ("one root", list(&mut many.iter().take(1).cloned())),
        ("three roots", list(&mut many.iter().take(3).cloned())),
        ("10,000 roots", list(&mut many.iter().cloned())),
        ("4 roots 2,000 deep", list(&mut deep.iter().map(|path| uri(path)))),
        ("4 roots 2,000 deep, through a symlink", list(&mut { deep_link })),
        ("1,000 roots through symlinks", list(&mut { linked })),
        (
            "10,000 rejected entries",
            list(&mut (0..10_000).map(|n| format!("x://{n}/{}", "y".repeat(n % 700)))),
        ),
        ("1,000 long names", named),
        ("5,000 roots and 5,000 missing entries", list(&mut { missing }.take(10_000))),
    ];
    let builder = Boundary::builder().directory(&top, Access::ReadOnly);
    let guard = Guard::new(builder.build().unwrap());
    let mut wrong = Vec::new();
    for (shape, list) in shapes {
        // The first session fills tables that are not part of the snapshot.
        let first = session(&guard, list.clone()).await;
        let roots = first.roots(source(&list)).await.unwrap();
        println!("{shape}: {} roots, {} rejected", roots.iter().count(), roots.rejected().len());
        drop((first, roots));
        guard.invalidate_all();
        let region = Region::new(ALLOCATOR);
        let session = session(&guard, list.clone()).await;
        let taken = heap(&region);
        // The cache updates its count during maintenance.
        drop(guard.session(ClientCapabilities::WithoutRoots).unwrap());
        let counted = counted(&guard);
        println!("  {taken} bytes of heap, counted as {counted}: {} %", counted * 100 / taken);
        let is_close = counted <= 2 * taken && taken <= 2 * counted;
        if !is_close && taken.abs_diff(counted) > THREAD {
            wrong.push(shape);
        }
        drop(session);
        guard.invalidate_all();
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[tokio::test]
async fn sessions_use_little_memory_and_no_handles() {
    let _alone = ALONE.lock().await;
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    let workspace: Vec<_> =
        ["app", "lib", "docs/site"].map(|path| top.join("home/user/projects").join(path)).into();
    for path in &workspace {
        fs::create_dir_all(path).unwrap();
    }
    std::os::unix::fs::symlink("projects", top.join("home/user/link")).unwrap();
    let guard = Guard::new(Boundary::builder().directory(&top, Access::ReadWrite).build().unwrap());

    // Ten thousand clients list the same three directories, in different orders and by different
    // paths.
    let before = descriptors();
    let mut sessions = Vec::new();
    for number in 0..10_000 {
        let mut list =
            ListRootsResult::from_uris((0..3).map(|n| uri(&workspace[(n + number) % 3])));
        list.roots[0].name = Some(format!("client {number}"));
        if number % 2 == 0 {
            list.roots[1].uri = uri(&top.join("home/user/link/app"));
        }
        sessions.push(session(&guard, list).await);
    }
    assert_eq!(descriptors(), before, "client roots hold directories open");
    sessions.clear();

    // The maximum number of clients, all with the same workspace.
    sessions.reserve(SESSIONS);
    let (region, start) = (Region::new(ALLOCATOR), Instant::now());
    for _ in 0..SESSIONS {
        sessions.push(session(&guard, ListRootsResult::from_uris([uri(&workspace[0])])).await);
    }
    let each = heap(&region) / SESSIONS;
    println!(
        "{SESSIONS} sessions with the same root: {each} bytes of heap each, {:?} in all",
        start.elapsed()
    );
    assert!(each < 2048, "{each}");
    assert_eq!(descriptors(), before);
    let one_more = guard.session(ClientCapabilities::WithoutRoots);
    assert_eq!(one_more.unwrap_err().code(), "too_many_sessions");
    // Serving a cached snapshot does not itself allocate. Maintenance of the map does, so at least
    // one of the rounds must have few allocations.
    let mut taken = Vec::new();
    for _ in 0..10 {
        let region = Region::new(ALLOCATOR);
        for session in &sessions[..1_000] {
            session
                .roots(async |_: Option<String>| -> RootsResponse {
                    unreachable!("the list is cached")
                })
                .await
                .unwrap();
        }
        taken.push(region.change().allocations);
    }
    println!("allocations of 1,000 calls with cached roots, ten times: {taken:?}");
    assert!(taken.iter().any(|taken| *taken <= 1_000 / MAP_TIDIES), "{taken:?}");
    sessions.pop();
    assert!(guard.session(ClientCapabilities::WithoutRoots).is_ok());
    sessions.clear();
    assert_eq!((guard.sessions(), descriptors()), (0, before));

    // Sessions with different directories.
    let own: Vec<_> = (0..OWN).map(|number| top.join(format!("home/user/own/{number}"))).collect();
    for path in &own {
        fs::create_dir_all(path).unwrap();
    }
    let region = Region::new(ALLOCATOR);
    for path in &own {
        sessions.push(session(&guard, ListRootsResult::from_uris([uri(path)])).await);
    }
    let all = heap(&region);
    assert_eq!(descriptors(), before);
    sessions.clear();
    let session = (all - heap(&region)) / OWN;
    println!("{OWN} sessions with different roots: {session} bytes of heap each");
    assert_eq!(descriptors(), before);
}

/// Somewhat below the number of reads between two collections of the map (crossbeam-epoch,
/// `PINNINGS_BETWEEN_COLLECT`).
const MAP_TIDIES: usize = 120;

/// The number of sessions with different directories.
const OWN: usize = 2_000;

/// More bytes than a thread takes that starts meanwhile.
const THREAD: usize = 4096;

/// Bytes allocated and not freed since the region began.
fn heap(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

fn source(list: &ListRootsResult) -> impl RootsSource + use<> {
    let list = list.clone();
    move |_: Option<String>| std::future::ready(RootsResponse::List(list.clone()))
}
