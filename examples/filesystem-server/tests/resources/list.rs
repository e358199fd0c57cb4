//! The resource list and its pages.

use serde_json::{Value, json};

use crate::client::served::Served;
use crate::client::{Client, Declares, Era, uri};
use crate::tree::{link, symlinks_are_visible};

/// A page of resources, and the next cursor.
fn page(client: &mut Client, cursor: &Value) -> (Vec<Value>, Value) {
    let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
    let page = client.request("resources/list", params).unwrap();
    (page["resources"].as_array().unwrap().clone(), page["nextCursor"].clone())
}

/// The URIs of all pages after a cursor.
pub(crate) fn uris(client: &mut Client, mut cursor: Value) -> Vec<String> {
    let mut uris = Vec::new();
    loop {
        let (resources, next) = page(client, &cursor);
        let uri = |resource: &Value| resource["uri"].as_str().unwrap().to_owned();
        uris.extend(resources.iter().map(uri));
        if next.is_null() {
            return uris;
        }
        cursor = next;
    }
}

#[test]
fn list_contains_roots_files_and_directories_but_no_symlinks_or_fifos() {
    let served = Served::new();
    served.put("a.txt", "four");
    served.put("b 100%.json", "{}");
    served.put("sub/c.png", "");
    served.put_oddities();
    if symlinks_are_visible() {
        link("a.txt".as_ref(), &served.path("in")).unwrap();
    }
    let top = uri(&served.directory);
    let directory = |path: &str, name: &str| {
        let uri = format!("{top}{path}");
        json!({ "uri": uri, "name": name, "mimeType": "inode/directory" })
    };
    let file = |path: &str, name: &str, mime: &str, size: u32| json!({ "uri": format!("{top}{path}"), "name": name, "mimeType": mime, "size": size });
    let mut expected = vec![
        directory("", "site"),
        file("/a.txt", "a.txt", "text/plain", 4),
        file("/b%20100%25.json", "b 100%.json", "application/json", 2),
        directory("/sub", "sub"),
        file("/sub/c.png", "c.png", "image/png", 0),
    ];
    if cfg!(unix) {
        #[cfg(unix)]
        {
            let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff.bin");
            std::fs::write(served.directory.join(odd), "x").unwrap();
        }
        expected.push(file("/%FF.bin", "\u{fffd}.bin", "application/octet-stream", 1));
    }
    for (era, declares) in [
        (Era::Session, Declares::Changes),
        (Era::Session, Declares::Nothing),
        (Era::Stateless, Declares::Nothing),
    ] {
        let mut client = served.client_of(era, declares);
        assert_eq!(page(&mut client, &Value::Null), (expected.clone(), Value::Null), "{era:?}");
        for resource in &expected {
            let code = client.code("resources/read", json!({ "uri": resource["uri"] }));
            assert_eq!(code, 0, "{resource}");
        }
        for bad in ["", "x", "L2V0Yw", "%00"] {
            let code = client.code("resources/list", json!({ "cursor": bad }));
            assert_eq!(code, -32602, "{bad}, {era:?}");
        }
    }
}

#[test]
fn pages_list_each_resource_once_in_order_despite_changes() {
    let served = Served::new();
    for number in 0..450 {
        served.put(&format!("{}/{:03}", ["a", "b", "b.x"][number % 3], number), "");
    }
    let mut client = served.with_roots(&[&served.directory]);
    let all = uris(&mut client, Value::Null);
    assert_eq!(all.len(), 454);
    assert!(all.is_sorted_by_key(|uri| uri.split('/').map(str::to_owned).collect::<Vec<_>>()));
    let (first, next) = page(&mut client, &Value::Null);
    assert_eq!(first.len(), 200);
    // The last listed file is removed, and new files are created before and after it.
    let last = first[199]["uri"].as_str().unwrap().rsplit_once("site/").unwrap().1;
    std::fs::remove_file(served.path(last)).unwrap();
    served.put("a/000a", "");
    let new = served.put("c/new", "");
    let rest = uris(&mut client, next);
    assert_eq!(rest[..254], all[200..]);
    assert_eq!(rest[254..], [uri(&served.path("c")), uri(&new)]);
}

#[test]
fn only_roots_in_force_are_listed_and_each_file_once() {
    let served = Served::new();
    for number in 0..250 {
        served.put(&format!("old/{number:03}"), "");
    }
    let new = served.put("young/file", "");
    let (old, young) = (served.path("old"), served.path("young"));
    let mut client = served.with_roots(&[&young, &old]);
    let (first, next) = page(&mut client, &Value::Null);
    let is_old = |resource: &Value| resource["uri"].as_str().unwrap().starts_with(&uri(&old));
    assert!(first.iter().all(is_old) && !next.is_null());
    // A root that is withdrawn between two pages is missing from the second.
    client.change(&[&young]);
    assert_eq!(uris(&mut client, next), [uri(&young), uri(&new)]);
    // A root inside another one, and one that is a file.
    let expected = [uri(&young), uri(&new)];
    client.change(&[&young, &new, &young]);
    assert_eq!(uris(&mut client, Value::Null), expected);
    client.change(&[&new]);
    assert_eq!(uris(&mut client, Value::Null), expected[1..]);
    client.change(&[&served.path("missing")]);
    assert_eq!(uris(&mut client, Value::Null), [""; 0]);
    client.change(&[]);
    assert_eq!(client.request("resources/list", json!({})).unwrap()["resources"], json!([]));
}

#[test]
fn stateless_list_uses_the_roots_from_another_request() {
    let served = Served::new();
    let (file, inner) = (served.put("in/file", ""), served.path("in"));
    let mut client = served.client_with(Era::Stateless, Declares::Roots, &[&inner]);
    let error = client.request("resources/list", json!({})).unwrap_err();
    assert_eq!(error["code"], -32603, "the list request cannot fetch roots");
    let text = error["message"].as_str().unwrap();
    assert!(text.contains("call a tool or read a resource first"), "{text}");
    assert_eq!(client.resource("read", &file), 0);
    assert_eq!(uris(&mut client, Value::Null), [uri(&inner), uri(&file)]);
}
