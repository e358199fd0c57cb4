//! Subscriptions in a session.

use crate::client::cases::check;
use crate::client::served::Served;
use crate::client::{Declares, Era};

#[test]
fn notifications_are_those_in_the_data() {
    let cases = include_str!("../data/subscriptions.txt");
    check(cases, Era::Session, Declares::Nothing);
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
