//! Subscriptions in a session.

use crate::client::cases::check;
use crate::client::served::Served;
use crate::client::{Declares, Era};

#[test]
fn notifications_are_those_in_the_data() {
    let cases = include_str!("../data/subscriptions.txt");
    check(cases, Era::Session, Declares::Nothing);
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
fn number_of_subscriptions_is_limited() {
    let served = Served::new();
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
