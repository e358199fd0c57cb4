//! Subscriptions in a session.

use std::time::Duration;

use crate::client::{Client, Declares, Era, Told, elsewhere, uri};
use crate::fixture::Fixture;

fn updated(uri: &str) -> Told {
    Told::Updated(uri.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_receives_file_updates_until_it_unsubscribes() {
    let fixture = Fixture::new();
    let path = fixture.write("a b.txt", "");
    let (file, beside) = (uri(&path), fixture.write("beside", ""));
    let mut client = fixture.client(Era::Session, Declares::Changes).await;
    client.subscribe(&file).await.unwrap();
    client.quiet().await;
    std::fs::write(&path, "1").unwrap();
    assert_eq!(client.told().await, updated(&file));
    // Editors and this server's tools replace a file by renaming another file over it.
    std::fs::write(fixture.site().join("new"), "22").unwrap();
    std::fs::rename(fixture.site().join("new"), &path).unwrap();
    assert_eq!(client.told().await, updated(&file));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(client.told().await, updated(&file));
    std::fs::write(&path, "333").unwrap();
    assert_eq!(client.told().await, updated(&file));
    // Changing a sibling or reading the file is not an update.
    std::fs::write(beside, "4").unwrap();
    client.read(&file).await.unwrap();
    client.quiet().await;
    client.unsubscribe(&file).await;
    std::fs::write(&path, "55555").unwrap();
    client.quiet().await;
    assert_eq!(fixture.server.tracked(), 1);
    // Unsubscribing without a subscription succeeds.
    client.unsubscribe(&elsewhere("etc/passwd")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frequent_changes_are_combined() {
    let fixture = Fixture::new();
    let path = fixture.write("a", "");
    let mut client = fixture.client(Era::Session, Declares::Nothing).await;
    client.subscribe(&uri(&path)).await.unwrap();
    let began = std::time::Instant::now();
    let mut written = String::new();
    while began.elapsed() < Duration::from_millis(1_500) {
        written.push('x');
        std::fs::write(&path, &written).unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut told = 0;
    while tokio::time::timeout(Duration::from_secs(3), client.told()).await.is_ok() {
        told += 1;
    }
    assert!((1..=7).contains(&told), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_receives_updates_when_directory_entries_change() {
    let fixture = Fixture::new();
    let inner = fixture.write("dir/sub/a", "");
    let directory = uri(&fixture.site().join("dir"));
    let mut client = fixture.client(Era::Session, Declares::Changes).await;
    client.subscribe(&directory).await.unwrap();
    client.quiet().await;
    fixture.write("dir/new", "");
    assert_eq!(client.told().await, updated(&directory));
    std::fs::write(inner, "1").unwrap();
    fixture.write("dir/sub/b", "");
    client.quiet().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_that_is_removed_and_created_again_is_reported() {
    let fixture = Fixture::new();
    let path = fixture.write("dir/a", "");
    let mut client = fixture.client(Era::Session, Declares::Changes).await;
    client.subscribe(&uri(&path)).await.unwrap();
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    assert_eq!(client.told().await, updated(&uri(&path)));
    fixture.write("dir/a", "");
    assert_eq!(client.told().await, updated(&uri(&path)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_receives_updates_for_a_file_root() {
    let fixture = Fixture::new();
    let path = fixture.write("dir/only", "");
    let mut client = Client::new(&fixture.server, Era::Session, Declares::Changes, &[&path]).await;
    client.subscribe(&uri(&path)).await.unwrap();
    std::fs::write(&path, "1").unwrap();
    assert_eq!(client.told().await, updated(&uri(&path)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscription_is_suspended_while_roots_are_unknown_and_ends_with_its_root() {
    let fixture = Fixture::new();
    let (old, kept) = (fixture.write("old/a", ""), fixture.write("kept/b", ""));
    let (old_root, kept_root) = (old.parent().unwrap(), kept.parent().unwrap());
    let mut client =
        Client::new(&fixture.server, Era::Session, Declares::Changes, &[old_root, kept_root]).await;
    client.subscribe(&uri(&old)).await.unwrap();
    client.subscribe(&uri(&kept)).await.unwrap();
    client.change(&[kept_root]).await;
    assert_eq!(client.told().await, Told::ListChanged);
    // While the roots are unknown, neither file is reported.
    std::fs::write(&old, "1").unwrap();
    std::fs::write(&kept, "1").unwrap();
    client.quiet().await;
    // After a request fetches the roots, the change in the remaining root is reported.
    client.read(&uri(&kept)).await.unwrap();
    assert_eq!(client.told().await, updated(&uri(&kept)));
    std::fs::write(&old, "22").unwrap();
    client.quiet().await;
    assert_eq!(fixture.server.tracked(), 1);
    std::fs::write(&kept, "22").unwrap();
    assert_eq!(client.told().await, updated(&uri(&kept)));
    // When the client lists the root again, its subscription is not restored.
    client.change(&[old_root, kept_root]).await;
    assert_eq!(client.told().await, Told::ListChanged);
    client.read(&uri(&old)).await.unwrap();
    std::fs::write(&old, "333").unwrap();
    client.quiet().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_replaced_by_a_symlink_reports_no_changes_outside() {
    let fixture = Fixture::new();
    let (path, outside) = (fixture.write("dir/a", ""), fixture.top.join("outside"));
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a"), "").unwrap();
    let mut client = fixture.client(Era::Session, Declares::Changes).await;
    client.subscribe(&uri(&path)).await.unwrap();
    client.quiet().await;
    std::fs::rename(fixture.site().join("dir"), fixture.site().join("away")).unwrap();
    std::os::unix::fs::symlink(&outside, fixture.site().join("dir")).unwrap();
    assert_eq!(client.told().await, updated(&uri(&path)), "the file was removed");
    std::fs::write(outside.join("a"), "1").unwrap();
    std::fs::write(fixture.site().join("away/a"), "1").unwrap();
    client.quiet().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscription_to_an_unreadable_resource_is_refused() {
    let fixture = Fixture::new();
    let site = uri(&fixture.site());
    #[cfg(unix)]
    fixture.fifo("fifo");
    let client = fixture.client(Era::Session, Declares::Changes).await;
    for (uri, code) in [
        (format!("{site}/missing"), -32002),
        (format!("{site}/fifo"), -32002),
        (format!("{site}/../secret.txt"), -32002),
        (elsewhere("etc/passwd"), -32002),
        ("https://example.com/".into(), -32602),
    ] {
        // On a system without FIFOs, the file is missing, which causes the same error code.
        assert_eq!(client.subscribe(&uri).await, Err(code), "{uri}");
    }
    // This client does not announce changes, so its roots would be unknown later.
    let client = fixture.client(Era::Session, Declares::Roots).await;
    assert_eq!(client.subscribe(&site).await, Err(-32603));
    assert_eq!(fixture.server.tracked(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn number_of_subscriptions_is_limited() {
    let fixture = Fixture::new();
    let uris: Vec<_> =
        (0..65).map(|number| uri(&fixture.write(&format!("{number}"), ""))).collect();
    let client = fixture.client(Era::Session, Declares::Changes).await;
    for uri in &uris[..64] {
        client.subscribe(uri).await.unwrap();
    }
    assert_eq!(client.subscribe(&uris[64]).await, Err(-32602));
    client.subscribe(&uris[0]).await.unwrap();
    client.unsubscribe(&uris[0]).await;
    client.subscribe(&uris[64]).await.unwrap();
}
