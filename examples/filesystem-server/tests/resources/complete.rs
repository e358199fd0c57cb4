//! Resource templates, and the completion of their path.

use rmcp::model::{ArgumentInfo, CompleteRequestParams, CompletionInfo, Reference};

use crate::client::{Client, Declares, Era, code, uri};
use crate::fixture::Fixture;

const TEMPLATE: &str = "file:///{path}";

async fn complete(client: &Client, typed: &str) -> CompletionInfo {
    let params = CompleteRequestParams::new(
        Reference::for_resource(TEMPLATE),
        ArgumentInfo::new("path", typed),
    );
    client.peer.complete(params).await.unwrap().completion
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn path_is_completed_only_inside_the_roots() {
    let fixture = Fixture::new();
    fixture.write("a b/100%.txt", "");
    fixture.write("a b/1/x", "");
    fixture.write("ab", "");
    std::fs::create_dir(fixture.top.join("site-evil")).unwrap();
    fixture.link("../secret.txt", "away");
    fixture.link("..", "up");
    let site = uri(&fixture.site())["file:///".len()..].to_owned();
    let top = site.strip_suffix("site").unwrap();
    for (era, declares) in [
        (Era::Session, Declares::Changes),
        (Era::Session, Declares::Nothing),
        (Era::Stateless, Declares::Nothing),
    ] {
        let client = fixture.client(era, declares).await;
        let root = [format!("{site}/")];
        for (typed, expected) in [
            (String::new(), &[""][..]),
            (site[..2].into(), &[""]),
            (top.into(), &[""]),
            (site.clone(), &[""]),
            (format!("{site}/"), &["a%20b/", "ab"]),
            (format!("{site}/a"), &["a%20b/", "ab"]),
            (format!("{site}/a "), &["a%20b/"]),
            (format!("{site}/a%2"), &["a%20b/"]),
            (format!("{site}/a%20b"), &["a%20b/"]),
            (format!("{site}/ab"), &["ab"]),
            (format!("{site}/ab/"), &[]),
            (format!("{site}/x"), &[]),
            (format!("{site}/../"), &[]),
            (format!("{site}/../s"), &[]),
            (format!("{site}/up/"), &[]),
            (format!("{site}-"), &[]),
            ("etc/".into(), &[]),
            ("no/such/".into(), &[]),
            (format!("{site}/%"), &[]),
            (format!("{site}/%zz/"), &[]),
            (format!("{site}/%2F"), &[]),
            (format!("{site}/a?b/"), &[]),
        ] {
            let expected: Vec<_> =
                expected.iter().map(|name| format!("{}{name}", root[0])).collect();
            let found = complete(&client, &typed).await;
            assert_eq!(
                (found.values, found.has_more),
                (expected.clone(), Some(false)),
                "{typed}, {era:?}"
            );
            // A leading slash in the input makes no difference. A completion with a leading slash
            // would result in a URI that names a host.
            assert_eq!(
                complete(&client, &format!("/{typed}")).await.values,
                expected,
                "/{typed}, {era:?}"
            );
        }
        let spaced = complete(&client, &format!("{site}/a b/1")).await.values;
        assert_eq!(spaced, [format!("{site}/a b/1/"), format!("{site}/a b/100%25.txt")]);
        for value in
            complete(&client, &format!("{site}/a%20b/1")).await.values.into_iter().chain(spaced)
        {
            client
                .read(&format!("file:///{value}"))
                .await
                .unwrap_or_else(|error| panic!("{value}: {error}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn number_of_completions_is_limited() {
    let fixture = Fixture::new();
    for number in 0..150 {
        fixture.write(&format!("{number:03}"), "");
    }
    let client = fixture.client(Era::Session, Declares::Changes).await;
    let site = format!("{}/", &uri(&fixture.site())["file:///".len()..]);
    for (typed, count, more) in [("", 100, true), ("0", 100, false), ("1", 50, false)] {
        let found = complete(&client, &format!("{site}{typed}")).await;
        assert_eq!((found.values.len(), found.has_more), (count, Some(more)), "{typed}");
        assert!(found.values.is_sorted());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_path_of_a_listed_template_is_completed() {
    let fixture = Fixture::new();
    let client = fixture.client(Era::Session, Declares::Changes).await;
    let templates = client.peer.list_all_resource_templates().await.unwrap();
    let uris: Vec<_> = templates.into_iter().map(|template| template.uri_template).collect();
    assert_eq!(uris, [TEMPLATE, "file:///{+path}"]);
    for (reference, argument) in [
        (Reference::for_resource("file:///{name}"), "path"),
        (Reference::for_resource(TEMPLATE), "name"),
        (Reference::for_prompt("path"), "path"),
    ] {
        let params = CompleteRequestParams::new(reference, ArgumentInfo::new(argument, ""));
        assert_eq!(
            client.peer.complete(params).await.map_err(code).err(),
            Some(-32602),
            "{argument}"
        );
    }
}
