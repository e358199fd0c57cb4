//! Cancellation, progress and limits of long walks.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mcp_roots_guard::Access;
use rmcp::model::ServerResult;
use serde_json::json;

use super::client::{Client, Served};

/// Creates enough entries that a walk takes longer than sending a message.
fn put_many(directory: &Path, directories: u32) {
    for outer in 0..directories {
        let outer = directory.join(format!("{outer}"));
        fs::create_dir(&outer).unwrap();
        for inner in 0..100 {
            fs::write(outer.join(format!("{inner}")), "").unwrap();
        }
    }
}

fn with_roots() -> Client {
    Client { roots: Some(Arc::default()), ..Client::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_walk_reports_progress() {
    let served = Served::new().await;
    put_many(&served.directory, 50);
    let began = Instant::now();
    served.ok("search_files", json!({"path": ".", "pattern": "none"})).await;
    let most = began.elapsed().as_millis() / 250 + 1;
    let progress = served.client.service().progress.lock().unwrap().clone();
    assert!(
        !progress.is_empty() && progress.len() as u128 <= most,
        "{progress:?} in at most {most}"
    );
    assert!(
        progress.is_sorted_by(|one, next| one < next)
            && progress.iter().all(|&seen| seen <= 5_050.0),
        "{progress:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withdrawn_root_stops_a_walk() {
    let served = Served::to(with_roots(), Access::ReadWrite).await;
    put_many(&served.directory, 200);
    let (tool, args) = ("search_files", json!({"path": ".", "pattern": "none"}));
    // The walk may complete before the notification arrives.
    for _ in 0..10 {
        let handle = served.start(tool, args.clone()).await;
        let _ =
            tokio::time::timeout(Duration::from_secs(2), served.client.service().told.notified())
                .await;
        served.client.notify_roots_list_changed().await.unwrap();
        let ServerResult::CallToolResult(result) = handle.await_response().await.unwrap() else {
            panic!()
        };
        if result.is_error == Some(true) {
            let text = &result.content[0].as_text().unwrap().text;
            assert!(text.contains("changed or expired; try again"), "{text}");
            // The next request uses the new list.
            served.client.service().roots.as_ref().unwrap().lock().unwrap().clear();
            served.client.notify_roots_list_changed().await.unwrap();
            assert!(served.err(tool, args).await.contains("the client listed no directories"));
            assert!(served.client.service().asked.load(Ordering::Relaxed) >= 2);
            return;
        }
    }
    panic!("the walk was not stopped");
}

/// Returns the number of this process's descriptors for files or directories beneath a directory.
#[cfg(target_os = "linux")]
fn open_beneath(directory: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.starts_with(directory)).count()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_walk_stops() {
    let served = Served::new().await;
    let many = served.path("many");
    fs::create_dir(&many).unwrap();
    put_many(&many, 300);
    let many = many.canonicalize().unwrap();
    let (tool, args) = ("search_files", json!({"path": "many", "pattern": "none"}));
    let began = Instant::now();
    served.ok(tool, args.clone()).await;
    let whole = began.elapsed();
    assert_eq!(open_beneath(&many), 0);
    served.client.service().progress.lock().unwrap().clear();
    let told = served.client.service().told.clone();
    while tokio::time::timeout(Duration::ZERO, told.notified()).await.is_ok() {}
    // The walk may complete before the cancellation arrives.
    for _ in 0..10 {
        let handle = served.start(tool, args.clone()).await;
        let walks = tokio::time::timeout(Duration::from_secs(2), told.notified()).await.is_ok();
        let running = walks && open_beneath(&many) > 0;
        let cancelled = Instant::now();
        handle.cancel(None).await.unwrap();
        while open_beneath(&many) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if running && cancelled.elapsed() < whole / 4 {
            return;
        }
    }
    panic!("the walk was not stopped");
}

// The names in this test are not valid on Windows.
#[cfg(unix)]
#[tokio::test]
async fn paths_from_a_search_can_be_read() {
    let served = Served::new().await;
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"bad\xff.txt");
    for (name, content) in
        [("l\nx.txt".as_ref(), "newline"), ("l\\nx.txt".as_ref(), "backslash"), (odd, "bytes")]
    {
        std::fs::write(served.directory.join(name), content).unwrap();
    }
    let found = served.ok("search_files", json!({ "path": ".", "pattern": "*.txt" })).await;
    let mut read = Vec::new();
    for path in found.lines() {
        read.push(served.ok("read_text_file", json!({ "path": path })).await);
    }
    read.sort();
    assert_eq!(read, ["backslash", "bytes", "newline"], "{found}");
}

#[tokio::test]
async fn result_sizes_and_glob_patterns_are_limited() {
    #[cfg(windows)]
    if !crate::tree::symlinks_are_visible() {
        return crate::tree::report_not_shown(
            "walks::result_sizes_and_glob_patterns_are_limited",
            "Wine scans the whole directory for each name",
        );
    }
    let served = Served::new().await;
    for n in 0..6_000 {
        served.put(&format!("{n:0>200}"), "");
    }
    let listed = served.ok("list_directory", json!({ "path": "." })).await;
    assert!(
        listed.len() <= (1 << 20) + 100 && listed.ends_with("\nThe result is truncated"),
        "{}",
        listed.len()
    );
    let sizes = served.ok("list_directory_with_sizes", json!({ "path": "." })).await;
    assert!(
        sizes.len() <= (1 << 20) + 200 && sizes.ends_with("Combined size: 0 B"),
        "{}",
        sizes.len()
    );
    let refused = served.err("directory_tree", json!({ "path": "." })).await;
    assert!(refused.starts_with("the tree has more than 1048576 bytes"), "{refused}");
    let wild: Vec<_> = (0..100).map(|n| format!("*a???{n}")).collect();
    let refused = served
        .err("search_files", json!({ "path": ".", "pattern": "*", "excludePatterns": wild }))
        .await;
    assert!(refused.starts_with("the patterns have more than 256"), "{refused}");
    let long = vec!["x".repeat(2049); 2];
    let refused = served
        .err("search_files", json!({ "path": ".", "pattern": "*", "excludePatterns": long }))
        .await;
    assert!(refused.starts_with("the patterns are longer than 4096"), "{refused}");
}
