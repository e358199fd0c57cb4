//! The content of resources, and refusals.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::served::Served;
use crate::client::{Declares, Era, uri};
use crate::tree::{link, symlinks_are_visible};

#[test]
fn content_is_text_base64_or_directory_entries() {
    let served = Served::new();
    let site = uri(&served.directory);
    served.put("dir/b c", "");
    served.put("dir/sub/d", "");
    if symlinks_are_visible() {
        link("../../outside/secret".as_ref(), &served.path("dir/out")).unwrap();
    }
    let listing = format!("{site}/dir/b%20c\n{site}/dir/sub\n");
    let rows = [
        ("a.rs", "text/x-rust", "text", "fn é() {}"),
        ("b.ts", "text/plain", "text", "let x;"),
        ("plain", "text/plain", "text", "x"),
        ("a.png", "image/png", "blob", "/w=="),
        ("bytes", "application/octet-stream", "blob", "/w=="),
        ("dir", "inode/directory", "text", &listing),
    ];
    for (name, _, kind, content) in &rows[..5] {
        served.put(name, if *kind == "blob" { b"\xff" } else { content.as_bytes() });
    }
    for (era, declares) in [
        (Era::Session, Declares::Changes),
        (Era::Stateless, Declares::Roots),
        (Era::Stateless, Declares::Nothing),
    ] {
        let mut client = served.client_of(era, declares);
        for (name, mime, kind, content) in rows {
            let uri = format!("{site}/{name}");
            let result = client.request("resources/read", json!({ "uri": uri })).unwrap();
            let expected = json!([{ "uri": uri, "mimeType": mime, kind: content }]);
            assert_eq!(result["contents"], expected, "{era:?}");
            assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
        }
    }
}

#[test]
fn refusals_have_the_error_codes_of_the_protocol_revision() {
    let served = Served::new();
    let site = uri(&served.directory);
    let missing = served.put_oddities();
    let large = std::fs::File::create(served.path("large")).unwrap();
    large.set_len((10 << 20) + 1).unwrap();
    let elsewhere = if cfg!(windows) { "file:///C:/etc/passwd" } else { "file:///etc/passwd" };
    let clients = [(Era::Session, Declares::Changes), (Era::Stateless, Declares::Roots)];
    let mut clients = clients.map(|(era, declares)| served.client_of(era, declares));
    // Whether the error names the URI, and the codes in a session and without one.
    for (name, kind, has_uri, codes) in [
        ("$/missing", "not_found", true, [-32002, -32602]),
        ("$/../outside/secret", "outside_roots", true, [-32002, -32602]),
        ("$/out", "outside_roots", true, [-32002, -32602]),
        (elsewhere, "outside_roots", true, [-32002, -32602]),
        ("$/fifo", "special_file", true, [-32002, -32602]),
        ("$%2Fa", "encoded_separator", false, [-32602, -32602]),
        ("https://example.com/", "foreign_scheme", false, [-32602, -32602]),
        ("site/a", "not_absolute", false, [-32602, -32602]),
        ("$/large", "too_large", false, [-32603, -32603]),
    ] {
        if missing.iter().any(|missing| name.ends_with(missing)) {
            continue;
        }
        let uri = name.replace('$', &site);
        for (client, code) in clients.iter_mut().zip(codes) {
            let began = Instant::now();
            let error = client.request("resources/read", json!({ "uri": uri })).unwrap_err();
            assert!(began.elapsed() < Duration::from_secs(5), "{uri}");
            assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(code), &json!(kind)));
            let expected = if has_uri { json!(uri) } else { Value::Null };
            assert_eq!(error["data"]["uri"], expected, "{uri}");
        }
    }
}

/// The first directory has many entries, and each URI in the second has about 800 bytes.
#[test]
fn long_list_of_a_directory_ends_with_a_comment() {
    #[cfg(windows)]
    if !symlinks_are_visible() {
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
