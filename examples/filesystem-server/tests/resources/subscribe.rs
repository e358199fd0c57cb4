//! Subscriptions in a session, and the notifications that each session receives.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::list::uris;
use crate::client::served::Served;
use crate::client::{Declares, Era, uri};

const LIST_CHANGED: Option<&str> = Some("notifications/resources/list_changed");

/// The time in which a notification arrives.
const SOON: Duration = Duration::from_secs(6);

#[test]
fn client_receives_file_updates_until_it_unsubscribes() {
    let served = Served::new();
    let (path, beside) = (served.put("dir/a b.txt", ""), served.put("dir/beside", ""));
    let mut client = served.with_roots(&[&served.directory]);
    assert_eq!(client.resource("subscribe", &path), 0);
    client.is_quiet();
    std::fs::write(&path, "1").unwrap();
    client.is_told(&path);
    // Editors and this server's tools replace a file by renaming another file over it.
    std::fs::rename(served.put("new", "22"), &path).unwrap();
    client.is_told(&path);
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    client.is_told(&path);
    served.put("dir/a b.txt", "333");
    client.is_told(&path);
    // Changing a sibling or reading the file is not an update.
    std::fs::write(beside, "4").unwrap();
    assert_eq!(client.resource("read", &path), 0);
    client.is_quiet();
    assert_eq!(client.resource("unsubscribe", &path), 0);
    std::fs::write(&path, "55555").unwrap();
    client.is_quiet();
    // Unsubscribing without a subscription succeeds.
    assert_eq!(client.resource("unsubscribe", &served.outside), 0);
}

#[test]
fn frequent_changes_are_combined() {
    let served = Served::new();
    let path = served.put("a", "");
    let mut client = served.client();
    assert_eq!(client.resource("subscribe", &path), 0);
    let (began, mut written) = (Instant::now(), String::new());
    while began.elapsed() < Duration::from_millis(1_500) {
        written.push('x');
        std::fs::write(&path, &written).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let told = std::iter::from_fn(|| client.told(Duration::from_secs(3))).count();
    assert!((1..=7).contains(&told), "{told}");
}

#[test]
fn client_receives_updates_of_directories_and_of_a_file_root() {
    let served = Served::new();
    let inner = served.put("dir/sub/a", "");
    let directory = served.path("dir");
    let mut client = served.with_roots(&[&served.directory]);
    assert_eq!(client.resource("subscribe", &directory), 0);
    client.is_quiet();
    served.put("dir/new", "");
    client.is_told(&directory);
    std::fs::write(&inner, "1").unwrap();
    served.put("dir/sub/b", "");
    client.is_quiet();
    let mut client = served.with_roots(&[&inner]);
    assert_eq!(client.resource("subscribe", &inner), 0);
    std::fs::write(&inner, "22").unwrap();
    client.is_told(&inner);
}

#[test]
fn subscription_is_suspended_while_roots_are_unknown_and_ends_with_its_root() {
    let served = Served::new();
    let (old, kept) = (served.put("old/a", ""), served.put("kept/b", ""));
    let (old_root, kept_root) = (old.parent().unwrap(), kept.parent().unwrap());
    let mut client = served.with_roots(&[old_root, kept_root]);
    assert_eq!(client.resource("subscribe", &old), 0);
    assert_eq!(client.resource("subscribe", &kept), 0);
    client.change(&[kept_root]);
    assert_eq!(client.told(SOON).as_deref(), LIST_CHANGED);
    // While the roots are unknown, neither file is reported.
    std::fs::write(&old, "1").unwrap();
    std::fs::write(&kept, "1").unwrap();
    client.is_quiet();
    // After a request fetches the roots, the change in the remaining root is reported.
    assert_eq!(uris(&mut client, Value::Null), [kept_root, &kept].map(uri));
    // The first list after a change is not another change.
    client.is_told(&kept);
    std::fs::write(&old, "22").unwrap();
    client.is_quiet();
    std::fs::write(&kept, "22").unwrap();
    client.is_told(&kept);
    // When the client lists the root again, its subscription is not restored.
    client.change(&[old_root, kept_root]);
    assert_eq!(client.told(SOON).as_deref(), LIST_CHANGED);
    assert_eq!(client.resource("read", &old), 0);
    std::fs::write(&old, "333").unwrap();
    client.is_quiet();
}

#[cfg(unix)]
#[test]
fn directory_replaced_by_a_symlink_reports_no_changes_outside() {
    let served = Served::new();
    let (path, outside) = (served.put("dir/secret", ""), served.outside.join("secret"));
    let mut client = served.with_roots(&[&served.directory]);
    assert_eq!(client.resource("subscribe", &path), 0);
    client.is_quiet();
    std::fs::rename(served.path("dir"), served.path("away")).unwrap();
    std::os::unix::fs::symlink(&served.outside, served.path("dir")).unwrap();
    // The file was removed.
    client.is_told(&path);
    std::fs::write(outside, "1").unwrap();
    served.put("away/secret", "1");
    client.is_quiet();
}

#[test]
fn subscription_is_refused_for_what_cannot_be_read_and_beyond_the_limit() {
    let served = Served::new();
    let site = uri(&served.directory);
    let missing = served.put_oddities();
    let mut client = served.with_roots(&[&served.directory]);
    for (uri, code) in [
        ("$/missing", -32002),
        ("$/fifo", -32002),
        ("$/../outside/secret", -32002),
        ("https://example.com/", -32602),
    ] {
        // Without FIFOs, the file is missing, which causes the same code.
        let params = json!({ "uri": uri.replace('$', &site) });
        assert_eq!(client.code("resources/subscribe", params), code, "{uri}, {missing:?}");
    }
    // This client does not announce changes, so its roots would be unknown later.
    let mut other = served.client_of(Era::Session, Declares::Roots);
    assert_eq!(other.resource("subscribe", &served.directory), -32603);
    let paths: Vec<_> = (0..65).map(|number| served.put(&format!("{number}"), "")).collect();
    for path in &paths[..64] {
        assert_eq!(client.resource("subscribe", path), 0);
    }
    assert_eq!(client.resource("subscribe", &paths[64]), -32602);
    assert_eq!(client.resource("subscribe", &paths[0]), 0);
    assert_eq!(client.resource("unsubscribe", &paths[0]), 0);
    assert_eq!(client.resource("subscribe", &paths[64]), 0);
}
