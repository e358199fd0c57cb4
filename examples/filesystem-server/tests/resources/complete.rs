//! Resource templates, and the completion of their path.

use serde_json::{Value, json};

use crate::client::served::Served;
use crate::client::{Client, Declares, Era, uri};
use crate::tree::{link, symlinks_are_visible};

const TEMPLATE: &str = "file:///{path}";

fn params(template: &str, argument: &str, typed: &str) -> Value {
    json!({
        "ref": { "type": "ref/resource", "uri": template },
        "argument": { "name": argument, "value": typed },
    })
}

/// The completions, and whether there are more.
fn complete(client: &mut Client, typed: &str) -> (Vec<String>, bool) {
    let params = params(TEMPLATE, "path", typed);
    let mut result = client.request("completion/complete", params).unwrap();
    let completion = result["completion"].take();
    let values = serde_json::from_value(completion["values"].clone()).unwrap();
    (values, completion["hasMore"] == true)
}

#[test]
fn path_is_completed_only_inside_the_roots() {
    let served = Served::new();
    for name in ["a b/100%.txt", "a b/1/x", "ab"] {
        served.put(name, "");
    }
    std::fs::create_dir(served.directory.with_file_name("site-evil")).unwrap();
    if symlinks_are_visible() {
        link("../outside/secret".as_ref(), &served.path("away")).unwrap();
        link("..".as_ref(), &served.path("up")).unwrap();
    }
    let site = uri(&served.directory)["file:///".len()..].to_owned();
    let top = site.strip_suffix("site").unwrap();
    for (era, declares) in [
        (Era::Session, Declares::Changes),
        (Era::Session, Declares::Nothing),
        (Era::Stateless, Declares::Nothing),
    ] {
        let mut client = served.client_of(era, declares);
        for (typed, expected) in [
            ("", &["$/"][..]),
            (&site[..2], &["$/"]),
            (top, &["$/"]),
            ("$", &["$/"]),
            ("$/", &["$/a%20b/", "$/ab"]),
            ("$/a", &["$/a%20b/", "$/ab"]),
            ("$/a ", &["$/a%20b/"]),
            ("$/a%20b", &["$/a%20b/"]),
            ("$/a b/1", &["$/a b/1/", "$/a b/100%25.txt"]),
            ("$/a%20b/1", &["$/a%20b/1/", "$/a%20b/100%25.txt"]),
            ("$/ab", &["$/ab"]),
            ("$/ab/", &[]),
            ("$/x", &[]),
            ("$/../", &[]),
            ("$/../s", &[]),
            ("$/up/", &[]),
            ("$-", &[]),
            ("etc/", &[]),
            ("no/such/", &[]),
            ("$/%", &[]),
            ("$/%zz/", &[]),
            ("$/%2F", &[]),
            ("$/a?b/", &[]),
        ] {
            let typed = typed.replace('$', &site);
            let values: Vec<_> = expected.iter().map(|value| value.replace('$', &site)).collect();
            let expected = (values, false);
            assert_eq!(complete(&mut client, &typed), expected, "{typed}, {era:?}");
            // A leading slash in the input makes no difference. A completion with a leading slash
            // would result in a URI that names a host.
            assert_eq!(complete(&mut client, &format!("/{typed}")), expected, "/{typed}, {era:?}");
            for value in expected.0 {
                let params = json!({ "uri": format!("file:///{value}") });
                assert_eq!(client.code("resources/read", params), 0, "{value}");
            }
        }
    }
}

#[test]
fn number_of_completions_is_limited() {
    let served = Served::new();
    for number in 0..150 {
        served.put(&format!("{number:03}"), "");
    }
    let mut client = served.client();
    let site = format!("{}/", &uri(&served.directory)["file:///".len()..]);
    for (typed, count, more) in [("", 100, true), ("0", 100, false), ("1", 50, false)] {
        let (values, has_more) = complete(&mut client, &format!("{site}{typed}"));
        assert_eq!((values.len(), has_more), (count, more), "{typed}");
        assert!(values.is_sorted());
    }
}

#[test]
fn only_the_path_of_a_listed_template_is_completed() {
    let mut client = Served::new().client();
    let templates = client.request("resources/templates/list", json!({})).unwrap();
    let template = |number: usize| &templates["resourceTemplates"][number]["uriTemplate"];
    assert_eq!([template(0), template(1)], [TEMPLATE, "file:///{+path}"]);
    for (template, argument) in [("file:///{name}", "path"), (TEMPLATE, "name")] {
        let params = params(template, argument, "");
        assert_eq!(client.code("completion/complete", params), -32602, "{argument}");
    }
}
