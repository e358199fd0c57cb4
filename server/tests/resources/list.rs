//! The resource list and its pages.

use serde_json::{Value, json};

use crate::client::served::ServedDirectory;
use crate::client::{Client, Declares, Era, uri};

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
fn pages_list_each_resource_once_in_order_despite_changes() {
    let served = ServedDirectory::new();
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

/// The client cannot be asked for its roots, and those of another request do not count.
#[test]
fn stateless_lists_contain_what_is_in_force_without_a_list() {
    for (option, declares, is_listed) in [
        ("--read-only-dir", Declares::Roots, false),
        ("--read-only-dir", Declares::Nothing, true),
        ("--always-dir", Declares::Roots, true),
    ] {
        let served = ServedDirectory::with(&[option, "$D"]);
        let file = served.put("file", "");
        let mut client = served.client_of(Era::Stateless, declares);
        assert_eq!(client.resource("read", &file), 0);
        let all = [uri(&served.directory), uri(&file)];
        let expected = if is_listed { &all[..] } else { &[] };
        assert_eq!(uris(&mut client, Value::Null), expected, "{option} {declares:?}");
        let typed = uri(&file).split_off("file:///".len());
        let complete = json!({
            "ref": { "type": "ref/resource", "uri": "file:///{path}" },
            "argument": { "name": "path", "value": typed.trim_end_matches('e') },
        });
        let completed = client.request("completion/complete", complete).unwrap();
        let expected = if is_listed { json!([typed]) } else { json!([]) };
        assert_eq!(completed["completion"]["values"], expected, "{option} {declares:?}");
    }
}
