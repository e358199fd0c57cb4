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
fn stateless_client_receives_updates_until_its_roots_change() {
    let served = ServedDirectory::new();
    let path = served.put("in/a", "");
    let other = served.put("other/b", "");
    for declares in [Declares::Nothing, Declares::Roots] {
        let mut client = served.client_of(Era::Stateless, declares);
        // The client sends its roots with this request, if it has any.
        assert_eq!(client.resource("read", &path), 0);
        // A refused resource does not affect the others.
        let id = listen(&mut client, &[ELSEWHERE, &uri(&path)]);
        sleep(Duration::from_millis(500));
        std::fs::write(&path, format!("{declares:?}")).unwrap();
        client.is_told(&path);
        if declares == Declares::Roots {
            // Another request sends different roots. The stream ends, because none of its
            // resources is allowed anymore.
            client.roots = vec![uri(other.parent().unwrap())];
            assert_eq!(client.resource("read", &other), 0);
            std::fs::write(&path, "again").unwrap();
            assert!(client.end(id).is_ok());
        } else {
            client.notify("cancelled", &json!({ "requestId": id }));
            sleep(Duration::from_millis(500));
            std::fs::write(&path, "again").unwrap();
        }
        client.is_quiet();
    }
}

#[test]
fn subscription_outside_the_roots_is_refused() {
    let served = ServedDirectory::new();
    let mut client = served.client_of(Era::Stateless, Declares::Nothing);
    let id = listen(&mut client, &[ELSEWHERE]);
    let error = client.end(id).unwrap_err();
    assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!(ELSEWHERE)));
    assert_eq!(error["data"]["kind"], Value::from("outside_roots"));
}
