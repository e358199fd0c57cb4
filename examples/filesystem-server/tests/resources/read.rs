//! The content of resources, and refusals.

use serde_json::json;

use crate::client::cases::check;
use crate::client::served::Served;
use crate::client::{Declares, Era, uri};

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

/// The first directory has many entries, and each URI in the second has about 800 bytes.
#[test]
fn long_list_of_a_directory_ends_with_a_comment() {
    #[cfg(windows)]
    if !crate::tree::symlinks_are_visible() {
        return crate::tree::report_not_shown(
            "read::long_list_of_a_directory_ends_with_a_comment",
            "Wine scans the whole directory for each name",
        );
    }
    let served = Served::new();
    for number in 0..10_001 {
        served.put(&format!("many/{number}"), "");
    }
    for number in 0..2_000 {
        served.put(&format!("long/{number}{}", "%".repeat(240)), "");
    }
    let mut client = served.client();
    for (name, lines, bytes) in [("many", 10_001, 0), ("long", 0, 1 << 20)] {
        let params = json!({ "uri": uri(&served.path(name)) });
        let result = client.request("resources/read", params).unwrap();
        let text = result["contents"][0]["text"].as_str().unwrap();
        assert!(text.ends_with("# There are more entries, which are not listed\n"), "{name}");
        assert!(lines == 0 || text.lines().count() == lines, "{name}");
        assert!(bytes == 0 || (bytes..bytes + 2_000).contains(&text.len()), "{name}");
    }
}
