//! The resource list and its pages.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_roots_guard::{Boundary, ClientRoots, Guard};
use rmcp::service::ServiceError;

use crate::client::{Client, Declares, Era, uri};
use crate::fixture::Fixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_contains_roots_files_and_directories_but_no_symlinks_or_fifos() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "four");
    fixture.write("b 100%.json", "{}");
    fixture.write("sub/c.png", "");
    let site = fixture.site();
    #[cfg(unix)]
    {
        let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff.bin");
        std::fs::write(site.join(odd), "x").unwrap();
        fixture.fifo("fifo");
    }
    fixture.link("a.txt", "in");
    fixture.link("../secret.txt", "out");
    let top = uri(&site);
    let told = |path: &str, name: &str, mime: Option<&str>, size| {
        (format!("{top}{path}"), name.to_owned(), mime.map(str::to_owned), size)
    };
    let expected = [
        told("", "site", Some("inode/directory"), None),
        told("/a.txt", "a.txt", Some("text/plain"), Some(4)),
        told("/b%20100%25.json", "b 100%.json", Some("application/json"), Some(2)),
        told("/sub", "sub", Some("inode/directory"), None),
        told("/sub/c.png", "c.png", Some("image/png"), Some(0)),
        #[cfg(unix)]
        told("/%FF.bin", "\u{fffd}.bin", Some("application/octet-stream"), Some(1)),
    ];
    for (era, declares) in [
        (Era::Session, Declares::Changes),
        (Era::Session, Declares::Nothing),
        (Era::Stateless, Declares::Nothing),
    ] {
        let client = fixture.client(era, declares).await;
        let (page, next) = client.page(None).await.unwrap();
        assert_eq!(next, None);
        let found: Vec<_> =
            page.into_iter().map(|r| (r.uri, r.name, r.mime_type, r.size)).collect();
        assert_eq!(found, expected, "{era:?}, {declares:?}");
        for (uri, ..) in found {
            client.read(&uri).await.unwrap_or_else(|error| panic!("{uri}: {error}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_list_each_resource_once_in_order_despite_changes() {
    let fixture = Fixture::new();
    for number in 0..450 {
        fixture.write(&format!("{}/{:03}", ["a", "b", "b.x"][number % 3], number), "");
    }
    let client = fixture.client(Era::Session, Declares::Changes).await;
    let all = client.uris().await;
    assert_eq!(all.len(), 454);
    assert!(all.is_sorted_by_key(|uri| uri.split('/').map(str::to_owned).collect::<Vec<_>>()));
    let (first, next) = client.page(None).await.unwrap();
    assert_eq!(first.len(), 200);
    // The last listed file is removed, and new files are created before and after it.
    std::fs::remove_file(fixture.site().join(last(&first).rsplit_once("site/").unwrap().1))
        .unwrap();
    fixture.write("a/000a", "");
    let new = fixture.write("c/new", "");
    let (second, next) = client.page(next).await.unwrap();
    let (third, next) = client.page(next).await.unwrap();
    assert_eq!(next, None);
    let rest: Vec<_> = second.into_iter().chain(third).map(|resource| resource.uri).collect();
    assert_eq!(rest[..254], all[200..]);
    assert_eq!(rest[254..], [uri(&fixture.site().join("c")), uri(&new)]);
}

fn last(page: &[rmcp::model::Resource]) -> String {
    page.last().unwrap().uri.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn root_withdrawn_between_pages_is_not_listed() {
    let fixture = Fixture::new();
    for number in 0..250 {
        fixture.write(&format!("old/{number:03}"), "");
    }
    let new = fixture.write("young/file", "");
    let (old, young) = (fixture.site().join("old"), fixture.site().join("young"));
    let client =
        Client::new(&fixture.server, Era::Session, Declares::Changes, &[&young, &old]).await;
    let (first, next) = client.page(None).await.unwrap();
    assert!(first.iter().all(|resource| resource.uri.starts_with(&uri(&old))) && next.is_some());
    client.change(&[&young]).await;
    let (second, next) = client.page(next).await.unwrap();
    let uris: Vec<_> = second.into_iter().map(|resource| resource.uri).collect();
    assert_eq!((uris, next), (vec![uri(&young), uri(&new)], None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_root_is_listed_once() {
    let fixture = Fixture::new();
    let file = fixture.write("in/file", "");
    let (site, inner) = (fixture.site(), fixture.site().join("in"));
    let other = fixture.write("other", "");
    let client =
        Client::new(&fixture.server, Era::Session, Declares::Changes, &[&site, &inner, &other])
            .await;
    let mut uris = client.uris().await;
    uris.sort_unstable();
    assert_eq!(uris, [&*site, &*inner, &*file, &*other].map(uri));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_cursor_is_refused() {
    let fixture = Fixture::new();
    for (era, declares) in [(Era::Session, Declares::Changes), (Era::Stateless, Declares::Nothing)]
    {
        let client = fixture.client(era, declares).await;
        for bad in ["", "x", "L2V0Yw", "%00"] {
            assert_eq!(client.page(Some(bad.into())).await.err(), Some(-32602), "{bad}, {era:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stateless_list_uses_the_roots_from_another_request() {
    let fixture = Fixture::new();
    let file = fixture.write("in/file", "");
    let inner = fixture.site().join("in");
    let client = Client::new(&fixture.server, Era::Stateless, Declares::Roots, &[&inner]).await;
    assert_eq!(client.page(None).await.err(), Some(-32603), "the list request cannot fetch roots");
    let Err(ServiceError::McpError(error)) = client.peer.list_resources(None).await else {
        panic!("the request succeeded without roots")
    };
    assert!(error.message.contains("call a tool or read a resource first"), "{error}");
    client.read(&uri(&file)).await.unwrap();
    assert_eq!(client.uris().await, [uri(&inner), uri(&file)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_is_empty_without_roots() {
    let server = filesystem_server::server::Server::new(Guard::new(
        Boundary::builder().client_roots(ClientRoots::Only).build().unwrap(),
    ));
    let client = Client::new(&server, Era::Session, Declares::Changes, &[]).await;
    assert_eq!(client.uris().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_directory_is_listed_completely() {
    #[cfg(windows)]
    if !crate::tree::symlinks_are_visible() {
        return crate::tree::report_not_shown(
            "list::large_directory_is_listed_completely",
            "Wine scans the whole directory for each name",
        );
    }
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.site().join("many")).unwrap();
    for number in 0..100_300 {
        std::fs::File::create(fixture.site().join(format!("many/{number:06}"))).unwrap();
    }
    let after = fixture.write("zz/after", "");
    let client = fixture.client(Era::Session, Declares::Changes).await;
    let told = |page: Vec<rmcp::model::Resource>| {
        page.into_iter().map(|resource| resource.uri).collect::<Vec<_>>()
    };
    let names = (0..398).map(|number| fixture.site().join(format!("many/{number:06}")));
    let expected: Vec<_> = [fixture.site(), fixture.site().join("many")]
        .into_iter()
        .chain(names)
        .map(|path| uri(&path))
        .collect();
    let (first, next) = client.page(None).await.unwrap();
    assert_eq!(told(first), expected[..200]);
    let (second, next) = client.page(next).await.unwrap();
    assert_eq!(told(second), expected[200..]);
    assert!(next.is_some());
    // The cursor that the preceding page would have returned.
    let cursor = URL_SAFE_NO_PAD.encode(format!("{}\0many/100298", fixture.site().display()));
    let (last, next) = client.page(Some(cursor)).await.unwrap();
    let expected = [fixture.site().join("many/100299"), fixture.site().join("zz"), after];
    assert_eq!((told(last), next), (expected.map(|path| uri(&path)).to_vec(), None));
}
