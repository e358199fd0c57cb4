//! Cancellation and progress of long walks, and their results.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

#[cfg(target_os = "linux")]
use crate::client::Client;
use crate::client::served::ServedDirectory;

/// Creates enough entries that a walk takes longer than sending a message.
fn put_many(directory: &Path, directories: u32) {
    for outer in 0..directories {
        let outer = directory.join(format!("{outer}"));
        fs::create_dir_all(&outer).unwrap();
        for inner in 0..100 {
            fs::write(outer.join(format!("{inner}")), "").unwrap();
        }
    }
}

#[test]
fn long_walk_reports_progress() {
    let served = ServedDirectory::new();
    let mut client = served.client();
    put_many(&served.directory, 50);
    let began = Instant::now();
    client.call("search_files", &json!({"path": ".", "pattern": "none"})).unwrap();
    let most = began.elapsed().as_millis() / 250 + 1;
    let progress: Vec<_> = std::iter::from_fn(|| client.progress(Duration::ZERO)).collect();
    let is_rising = progress.is_sorted_by(|one, next| one < next);
    assert!(is_rising && progress.iter().all(|&seen| seen <= 5_050.0), "{progress:?}");
    let count = progress.len() as u128;
    assert!((1..=most).contains(&count), "{progress:?} in at most {most}");
}

#[test]
fn withdrawn_root_stops_a_walk() {
    let served = ServedDirectory::new();
    let mut client = served.with_roots(&[&served.directory]);
    put_many(&served.directory, 200);
    // The walk may complete before the notification arrives.
    for _ in 0..10 {
        let id = client.begin_call("search_files", &json!({"path": ".", "pattern": "none"}));
        client.progress(Duration::from_secs(2));
        client.notify("roots/list_changed", &json!({}));
        let result = client.end(id).unwrap();
        if result["isError"] == true {
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("changed or expired; try again"), "{text}");
            // The next request uses the new list.
            client.change(&[]);
            let error =
                client.call("search_files", &json!({"path": ".", "pattern": "none"})).unwrap_err();
            assert!(error.contains("the client declared roots and listed none"), "{error}");
            return;
        }
        while client.progress(Duration::ZERO).is_some() {}
    }
    panic!("the walk was not stopped");
}

/// Returns the number of a server's descriptors for files or directories beneath a directory.
#[cfg(target_os = "linux")]
fn open_beneath(client: &Client, directory: &Path) -> usize {
    let links = fs::read_dir(format!("/proc/{}/fd", client.process.id())).unwrap();
    let links = links.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.starts_with(directory)).count()
}

#[cfg(target_os = "linux")]
#[test]
fn cancelled_walk_stops() {
    let served = ServedDirectory::new();
    let mut client = served.client();
    let (many, arguments) = (served.path("many"), json!({"path": "many", "pattern": "none"}));
    put_many(&many, 300);
    let began = Instant::now();
    client.call("search_files", &arguments).unwrap();
    let whole = began.elapsed();
    assert_eq!(open_beneath(&client, &many), 0);
    // The walk may complete before the cancellation arrives.
    for _ in 0..10 {
        while client.progress(Duration::ZERO).is_some() {}
        let id = client.begin_call("search_files", &arguments);
        let walks = client.progress(Duration::from_secs(2)).is_some();
        let running = walks && open_beneath(&client, &many) > 0;
        let cancelled = Instant::now();
        client.notify("cancelled", &json!({ "requestId": id }));
        while open_beneath(&client, &many) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if running && cancelled.elapsed() < whole / 4 {
            return;
        }
    }
    panic!("the walk was not stopped");
}

/// Lines at the end of a large file are found by reading everything before them.
#[cfg(target_os = "linux")]
#[test]
fn cancelled_read_stops() {
    let served = ServedDirectory::new();
    let mut client = served.client();
    let huge = served.put("huge", "");
    fs::File::options().write(true).open(&huge).unwrap().set_len(1 << 40).unwrap();
    let id = client.begin_call("read_text_file", &json!({"path": "huge", "offset": 2}));
    while open_beneath(&client, &huge) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    client.notify("cancelled", &json!({ "requestId": id }));
    let cancelled = Instant::now();
    while open_beneath(&client, &huge) > 0 {
        assert!(cancelled.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn cancelled_search_of_contents_stops_inside_a_file() {
    let served = ServedDirectory::new();
    let mut client = served.client();
    // At almost each byte, the expression is in a state that it has not been in before.
    let mut random = 1_u32;
    let text = std::iter::repeat_with(|| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if (random >> 16).is_multiple_of(4096) {
            '\n'
        } else {
            char::from(b'a' + (random >> 31) as u8)
        }
    });
    let file = served.put("slow", text.take(4 << 20).collect::<String>());
    let arguments = json!({"path": "slow", "pattern": "a.{500}[^ab]"});
    let id = client.begin_call("search_content", &arguments);
    while open_beneath(&client, &file) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(open_beneath(&client, &file) > 0, "the search takes many seconds");
    let cancelled = Instant::now();
    client.notify("cancelled", &json!({ "requestId": id }));
    while open_beneath(&client, &file) > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(cancelled.elapsed() < Duration::from_secs(5), "{:?}", cancelled.elapsed());
}

/// Directories with 3,000 names of a file of 400 KB, so that a search of them takes seconds.
fn put_flat(served: &ServedDirectory, names: &[&str]) {
    for name in names {
        let directory = served.path(name);
        fs::create_dir(&directory).unwrap();
        let first = directory.join("0");
        fs::write(&first, "some hay\n".repeat(45_000)).unwrap();
        for number in 1..3_000 {
            fs::hard_link(&first, directory.join(number.to_string())).unwrap();
        }
    }
}

/// The processor time of the server in milliseconds (proc(5), `utime` and `stime`, which are in
/// hundredths of a second).
#[cfg(target_os = "linux")]
fn processor_time(client: &Client) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", client.process.id())).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap())
}

/// The tool searches one flat directory, so it enters no other that would end it.
#[cfg(target_os = "linux")]
#[test]
fn search_of_a_flat_directory_ends_with_its_request() {
    let served = ServedDirectory::new();
    put_flat(&served, &["old", "new"]);
    let search = json!({ "path": served.path("old"), "pattern": "needle" });
    for end in ["withdrawn", "cancelled"] {
        let mut client = served.with_roots(&[&served.path("old")]);
        client.said("list_directory", &json!({ "path": "." }));
        let id = client.begin_call("search_content", &search);
        client.progress(Duration::from_secs(60)).unwrap();
        let before = processor_time(&client);
        if end == "withdrawn" {
            client.change(&[&served.path("new")]);
        } else {
            client.notify("cancelled", &json!({ "requestId": id }));
        }
        // Messages are handled in order.
        client.request("ping", json!({})).unwrap();
        // All names are of this file.
        fs::write(served.path("old/0"), "a needle\n".repeat(45_000)).unwrap();
        if end == "withdrawn" {
            let result = client.end(id).unwrap();
            let text = result["content"][0]["text"].as_str().unwrap();
            assert_eq!(result["isError"], true, "{text}");
            assert!(text.contains("changed or expired") && !text.contains("a needle"), "{text}");
        }
        std::thread::sleep(Duration::from_secs(1));
        let took = processor_time(&client) - before;
        println!("{end}: the server used {took} ms of processor time afterwards");
        assert!(took < 150, "{end}: {took} ms");
    }
}
