//! Stateless subscriptions.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::served::ServedDirectory;
use crate::client::{Client, Declares, Era, uri};

const ELSEWHERE: &str = if cfg!(windows) { "file:///C:/etc/passwd" } else { "file:///etc/passwd" };

fn listen(client: &mut Client, uris: &[&str]) -> u64 {
    let filter = json!({ "resourceSubscriptions": uris, "resourcesListChanged": true });
    client.begin("subscriptions/listen", json!({ "notifications": filter }))
}

#[test]
fn stateless_client_receives_updates_until_it_cancels() {
    for (option, declares) in
        [("--read-only-dir", Declares::Nothing), ("--always-dir", Declares::Roots)]
    {
        let served = ServedDirectory::with(&[option, "$D"]);
        let path = served.put("in/a", "");
        let mut client = served.client_of(Era::Stateless, declares);
        // A refused resource does not affect the others.
        let id = listen(&mut client, &[ELSEWHERE, &uri(&path)]);
        sleep(Duration::from_millis(500));
        std::fs::write(&path, format!("{declares:?}")).unwrap();
        client.is_told(&path);
        client.notify("cancelled", &json!({ "requestId": id }));
        sleep(Duration::from_millis(500));
        std::fs::write(&path, "again").unwrap();
        client.is_quiet();
    }
}

/// The client cannot be asked for its roots, and those of another request do not count.
#[test]
fn subscription_of_a_client_with_roots_is_refused() {
    let served = ServedDirectory::new();
    let path = served.put("in/a", "");
    let mut client = served.client_of(Era::Stateless, Declares::Roots);
    assert_eq!(client.resource("read", &path), 0);
    let id = listen(&mut client, &[&uri(&path)]);
    let error = client.end(id).unwrap_err();
    assert_eq!((&error["code"], &error["data"]["code"]), (&json!(-32602), &json!("outside_roots")));
}

#[test]
fn subscription_outside_the_roots_is_refused() {
    let served = ServedDirectory::new();
    let mut client = served.client_of(Era::Stateless, Declares::Nothing);
    let id = listen(&mut client, &[ELSEWHERE]);
    let error = client.end(id).unwrap_err();
    assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!(ELSEWHERE)));
    assert_eq!(error["data"]["code"], Value::from("outside_roots"));
}
