//! The heap memory used by walks and recursive removals. The heap is counted for the whole process,
//! so this test has a process of its own.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::alloc::System;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use mcp_roots_guard::limits::WALK_BYTES;
use mcp_roots_guard::{DirEntry, Result, Walk, WalkOptions};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[path = "../support/tree.rs"]
#[allow(dead_code)] // The suite uses the other items.
mod tree;

use tree::Tree;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes allocated and not freed since the region began.
fn heap(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

/// Runs the closure, and returns its result and the peak heap use that another thread measured
/// meanwhile.
fn most_heap<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let region = Region::new(ALLOCATOR);
        let is_over = &over;
        let watcher = scope.spawn(move || {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(heap(&region));
                thread::yield_now();
            }
            most
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        (done, watcher.join().unwrap())
    })
}

/// Creates empty files in a directory whose path may be too long to use.
fn fill(directory: &impl AsFd, count: usize, name: impl Fn(usize) -> String) {
    for number in 0..count {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(openat(directory, name(number), flags, Mode::from_raw_mode(0o600)).unwrap());
    }
}

/// The entries of a walk, with the error that ended it.
fn entries(walk: Walk) -> impl Iterator<Item = Result<DirEntry>> {
    let mut walk = Some(walk);
    std::iter::from_fn(move || {
        let entry = walk.as_mut()?.next_entry().transpose();
        walk = walk.take_if(|_| !matches!(entry, Some(Err(_))));
        entry
    })
}

fn open(directory: &Path) -> OwnedFd {
    openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

#[test]
fn walks_and_removals_use_bounded_memory() {
    let tree = Tree::in_memory("");
    let keep = tree.path("");
    let roots = tree.roots([""]);

    // Create 100,000 entries, the maximum that a walk returns, most of them below a path of 3,765
    // bytes.
    let deep = &vec!["d".repeat(250); 15].join("/");
    fs::create_dir_all(keep.join(deep)).unwrap();
    let directory = open(&keep.join(deep));
    let files = 100_000 - deep.split('/').count();
    fill(&directory, files, |number| format!("file-{number:06}.txt"));
    let walk = |options| entries(roots.walk(".", options).unwrap()).map(Result::unwrap);
    let (entries_read, most) = most_heap(|| walk(WalkOptions::default()).count());
    println!(
        "a walk of {entries_read} entries below {} bytes: at most {most} bytes of heap",
        deep.len()
    );
    assert_eq!(entries_read, 100_000);
    assert!(most < 60 << 20, "{most}");
    // Measure the memory for queued entries after the last directory was listed, and the memory
    // used by a caller that keeps all entries.
    let region = Region::new(ALLOCATOR);
    let mut waiting = walk(WalkOptions::default());
    waiting.by_ref().take(100_000 - files + 1).for_each(drop);
    let each = heap(&region) / files;
    println!("{each} bytes for a queued entry with a name of 15 bytes");
    assert!((30..=80).contains(&each), "{each}");
    let (kept, most) = most_heap(|| walk(WalkOptions::default()).collect::<Vec<_>>().len());
    println!("{kept} entries kept: at most {most} bytes of heap");
    assert!(most < 60 << 20, "{most}");

    // These entries need more bytes than a walk may hold, and their number is not limited.
    let wide = keep.join("wide");
    fs::create_dir(&wide).unwrap();
    let directory = open(&wide);
    let many = WALK_BYTES / 270;
    fill(&directory, many, |number| format!("{number:0255}"));
    let all = WalkOptions::default().max_entries(usize::MAX);
    let (entries_read, most) = most_heap(|| {
        let walk = entries(roots.walk("wide", all).unwrap());
        walk.map(|entry| entry.map(drop)).collect::<Vec<_>>()
    });
    println!("{} of {many} entries: at most {most} bytes of heap", entries_read.len() - 1);
    assert_eq!(entries_read.last().unwrap().as_ref().unwrap_err().code(), "too_many_entries");
    assert!((100_000..many).contains(&entries_read.len()), "{}", entries_read.len());
    assert!(most < 2 * WALK_BYTES, "{most}");

    // The entries of a directory and of the one above it count together.
    let each = many * 3 / 5;
    for path in ["above", "above/0"] {
        let path = keep.join(path);
        fs::create_dir(&path).unwrap();
        let directory = open(&path);
        fill(&directory, each, |number| format!("{number:0255}"));
    }
    let codes: Vec<_> = entries(roots.walk("above", all).unwrap())
        .filter_map(|entry| entry.err().map(|error| error.code()))
        .collect();
    assert_eq!(codes, ["too_many_entries"]);

    // A removal holds one batch of a directory's entries at a time. `GUARD_REMOVED_ENTRIES` sets
    // the number of entries.
    let many =
        std::env::var("GUARD_REMOVED_ENTRIES").map_or(120_000, |count| count.parse().unwrap());
    let flat = keep.join("flat");
    fs::create_dir(&flat).unwrap();
    let directory = open(&flat);
    // Every tenth entry is a directory with a long name, because the removal holds the names of
    // directories.
    fill(&directory, many - many / 10, |number| format!("{number:0255}"));
    for number in 0..many / 10 {
        mkdirat(&directory, format!("d{number:0254}"), Mode::from_raw_mode(0o700)).unwrap();
    }
    let start = Instant::now();
    let (removed, most) = most_heap(|| roots.remove_dir_all("flat"));
    println!("{many} entries removed in {:?}: at most {most} bytes of heap", start.elapsed());
    removed.unwrap();
    assert!(!flat.exists());
    assert!(most < 20 << 20, "{most}");
}
