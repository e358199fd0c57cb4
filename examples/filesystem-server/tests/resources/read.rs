//! The content of resources, and refusals.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Declares, Era, elsewhere, uri};
use crate::fixture::Fixture;
use crate::tree::symlinks_are_visible;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_is_text_base64_or_directory_entries() {
    let fixture = Fixture::new();
    let site = uri(&fixture.site());
    fixture.write("a.rs", "fn é() {}");
    fixture.write("a.png", [0x89, 0x50, 0xff]);
    fixture.write("plain", "x");
    fixture.write("b.ts", "let x;");
    fixture.write("bytes", [0xff]);
    fixture.write("dir/b c", "");
    fixture.write("dir/sub/d", "");
    fixture.link("../../secret.txt", "dir/out");
    let listing = format!("{site}/dir/b%20c\n{site}/dir/sub\n");
    for (era, declares) in [
        (Era::Session, Declares::Changes),
        (Era::Stateless, Declares::Roots),
        (Era::Stateless, Declares::Nothing),
    ] {
        let client = fixture.client(era, declares).await;
        for (name, mime, key, content) in [
            ("a.rs", "text/x-rust", "text", "fn é() {}"),
            ("a.png", "image/png", "blob", "iVD/"),
            ("b.ts", "text/plain", "text", "let x;"),
            ("plain", "text/plain", "text", "x"),
            ("bytes", "application/octet-stream", "blob", "/w=="),
            ("dir", "inode/directory", "text", &listing),
        ] {
            let uri = format!("{site}/{name}");
            let result = client.read(&uri).await.unwrap();
            assert_eq!(
                result["contents"],
                json!([{ "uri": uri, "mimeType": mime, key: content }]),
                "{era:?}"
            );
            assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_have_the_error_codes_of_the_protocol_revision() {
    let fixture = Fixture::new();
    let site = uri(&fixture.site());
    #[cfg(unix)]
    fixture.fifo("fifo");
    let large = std::fs::File::create(fixture.site().join("large")).unwrap();
    large.set_len((10 << 20) + 1).unwrap();
    fixture.link("../secret.txt", "out");
    for (uri, kind, session, stateless) in [
        (format!("{site}/missing"), "not_found", -32002, -32602),
        (format!("{site}/../secret.txt"), "outside_roots", -32002, -32602),
        (format!("{site}/out"), "outside_roots", -32002, -32602),
        (elsewhere("etc/passwd"), "outside_roots", -32002, -32602),
        (elsewhere("no/such/thing"), "outside_roots", -32002, -32602),
        (format!("{site}/fifo"), "special_file", -32002, -32602),
        (format!("{site}%2Fa"), "encoded_separator", -32602, -32602),
        ("https://example.com/".into(), "foreign_scheme", -32602, -32602),
        ("site/a".into(), "not_absolute", -32602, -32602),
        (format!("{site}/large"), "too_large", -32603, -32603),
    ] {
        // Windows has no FIFOs, and Wine has no symlinks.
        if !symlinks_are_visible() && uri.ends_with("/out")
            || cfg!(windows) && kind == "special_file"
        {
            continue;
        }
        for (era, declares, code) in [
            (Era::Session, Declares::Changes, session),
            (Era::Stateless, Declares::Roots, stateless),
        ] {
            let client = fixture.client(era, declares).await;
            let began = Instant::now();
            let error = client.read(&uri).await.unwrap_err();
            assert!(began.elapsed() < Duration::from_secs(5), "{uri}");
            let data = error.data.unwrap_or(Value::Null);
            assert_eq!((error.code.0, &data["kind"]), (code, &json!(kind)), "{uri}, {era:?}");
            let has_uri = !matches!(
                kind,
                "encoded_separator" | "foreign_scheme" | "not_absolute" | "too_large"
            );
            assert_eq!(data.get("uri"), has_uri.then_some(&json!(uri)), "{uri}, {era:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_directory_ends_with_a_comment() {
    #[cfg(windows)]
    if !crate::tree::symlinks_are_visible() {
        return crate::tree::report_not_shown(
            "read::truncated_directory_ends_with_a_comment",
            "Wine scans the whole directory for each name",
        );
    }
    let fixture = Fixture::new();
    for number in 0..10_001 {
        fixture.write(&format!("{number}"), "");
    }
    let client = fixture.client(Era::Session, Declares::Changes).await;
    let result = client.read(&uri(&fixture.site())).await.unwrap();
    let lines: Vec<_> = result["contents"][0]["text"].as_str().unwrap().lines().collect();
    assert_eq!(lines.len(), 10_001);
    assert!(lines[10_000].starts_with("# There are more entries"), "{}", lines[10_000]);
}

/// Each URI has about 800 bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_list_of_a_directory_ends_after_a_megabyte() {
    #[cfg(windows)]
    if !crate::tree::symlinks_are_visible() {
        return crate::tree::report_not_shown(
            "read::long_list_of_a_directory_ends_after_a_megabyte",
            "Wine cannot list so many long names",
        );
    }
    let fixture = Fixture::new();
    for number in 0..2_000 {
        fixture.write(&format!("{number}{}", "%".repeat(240)), "");
    }
    let client = fixture.client(Era::Session, Declares::Changes).await;
    let result = client.read(&uri(&fixture.site())).await.unwrap();
    let text = result["contents"][0]["text"].as_str().unwrap();
    assert!(((1 << 20)..(1 << 20) + 2_000).contains(&text.len()), "{}", text.len());
    assert!(text.ends_with("# There are more entries, which are not listed\n"));
}
