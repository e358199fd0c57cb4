//! Reading, listing and completing resources.

use serde_json::{Value, json};

use crate::client::cases::check;
use crate::client::served::ServedDirectory;
use crate::client::{Declares, Era, uri};

#[test]
fn lists_and_completions_are_those_in_the_data() {
    for (era, declares) in [
        (Era::Session, Declares::Changes),
        (Era::Session, Declares::Nothing),
        (Era::Stateless, Declares::Nothing),
    ] {
        check(include_str!("../data/lists.txt"), era, declares);
    }
}

#[test]
fn number_of_completions_is_limited() {
    let served = ServedDirectory::new();
    for number in 0..150 {
        served.put(&format!("{number:03}"), "");
    }
    let mut client = served.client();
    let site = format!("{}/", &uri(&served.directory)["file:///".len()..]);
    for (typed, count, more) in [("", 100, true), ("0", 100, false), ("1", 50, false)] {
        let params = json!({
            "ref": { "type": "ref/resource", "uri": "file:///{path}" },
            "argument": { "name": "path", "value": format!("{site}{typed}") },
        });
        let completion = &client.request("completion/complete", params).unwrap()["completion"];
        let values = completion["values"].as_array().unwrap();
        assert_eq!((values.len(), &completion["hasMore"]), (count, &json!(more)), "{typed}");
        assert!(values.is_sorted_by_key(Value::to_string));
    }
}

#[test]
fn content_and_refusals_are_those_in_the_data() {
    for (era, declares) in [
        (Era::Session, Declares::Changes),
        (Era::Stateless, Declares::Roots),
        (Era::Stateless, Declares::Nothing),
    ] {
        check(include_str!("../data/resources.txt"), era, declares);
    }
}
