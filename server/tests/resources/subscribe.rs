//! Subscriptions in a session.

use crate::client::cases::check;
use crate::client::served::ServedDirectory;
use crate::client::{Declares, Era};

#[test]
fn notifications_are_those_in_the_data() {
    let cases = include_str!("../data/subscriptions.txt");
    check(cases, Era::Session, Declares::Nothing);
}

#[test]
fn number_of_subscriptions_is_limited() {
    let served = ServedDirectory::new();
    let paths: Vec<_> = (0..65).map(|number| served.put(&format!("{number}"), "")).collect();
    let mut client = served.client();
    for path in &paths[..64] {
        assert_eq!(client.resource("subscribe", path), 0);
    }
    assert_eq!(client.resource("subscribe", &paths[64]), -32602);
    assert_eq!(client.resource("subscribe", &paths[0]), 0);
    assert_eq!(client.resource("unsubscribe", &paths[0]), 0);
    assert_eq!(client.resource("subscribe", &paths[64]), 0);
    // This client does not announce changes, so its roots would be unknown later.
    let mut other = served.client_of(Era::Session, Declares::Roots);
    assert_eq!(other.resource("subscribe", &served.directory), -32603);
}

/// Each subscription follows a new list, whose snapshot takes 4 MiB.
#[cfg(target_os = "linux")]
#[test]
fn subscriptions_do_not_hold_the_lists_before_the_current_one() {
    let served = ServedDirectory::new();
    let paths: Vec<_> = (0..40).map(|number| served.put(&format!("{number}"), "")).collect();
    let mut client = served.with_roots(&[&served.directory]);
    // Entries that their text alone rejects need no look-ups, so they are quickly resolved.
    client.roots.extend((1..10_000).map(|number| format!("x://{number:0200}")));
    let mut subscribe = |paths: &[std::path::PathBuf]| {
        for path in paths {
            client.notify("roots/list_changed", &serde_json::json!({}));
            assert_eq!(client.resource("subscribe", path), 0);
        }
        memory(client.process.id())
    };
    let (first, last) = (subscribe(&paths[..8]), subscribe(&paths[8..]));
    assert!(last < first + 100, "{first} MiB, and {last} MiB after 32 more lists");
}

/// The memory of a process in mebibytes (proc(5), `VmRSS`).
#[cfg(target_os = "linux")]
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}
