//! The state of sessions, and the notifications that each session receives.

use std::time::Duration;

use crate::client::{Client, Declares, Era, Told, uri};
use crate::fixture::Fixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_roots_change_the_resource_list_but_the_first_roots_do_not() {
    let fixture = Fixture::new();
    let file = fixture.write("in/a", "");
    let mut client = fixture.client(Era::Session, Declares::Changes).await;
    client.uris().await;
    client.quiet().await;
    client.change(&[file.parent().unwrap()]).await;
    assert_eq!(client.told().await, Told::ListChanged);
    assert_eq!(client.uris().await, [file.parent().unwrap(), &file].map(uri));
    client.quiet().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_receive_only_their_own_notifications() {
    let fixture = Fixture::new();
    let (mine, yours) = (fixture.write("mine", ""), fixture.write("yours", ""));
    let mut me = fixture.client(Era::Session, Declares::Changes).await;
    let mut you = fixture.client(Era::Session, Declares::Changes).await;
    me.subscribe(&uri(&mine)).await.unwrap();
    you.subscribe(&uri(&yours)).await.unwrap();
    you.subscribe(&uri(&mine)).await.unwrap();
    me.unsubscribe(&uri(&yours)).await;
    you.unsubscribe(&uri(&mine)).await;
    std::fs::write(&mine, "1").unwrap();
    assert_eq!(me.told().await, Told::Updated(uri(&mine)));
    you.quiet().await;
    std::fs::write(&yours, "1").unwrap();
    assert_eq!(you.told().await, Told::Updated(uri(&yours)));
    you.change(&[&fixture.site()]).await;
    assert_eq!(you.told().await, Told::ListChanged);
    me.quiet().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_sessions_leave_no_state() {
    let fixture = Fixture::new();
    let file = uri(&fixture.write("a", ""));
    for number in 0..1_000 {
        let client =
            Client::new(&fixture.server, Era::Session, Declares::Changes, &[&fixture.site()]).await;
        client.subscribe(&file).await.unwrap();
        let sessions = fixture.server.tracked();
        assert!((1..200).contains(&sessions), "{number}: {sessions}");
        if number % 2 == 0 {
            client.peer.cancel().await.unwrap();
        }
    }
    for _ in 0..500 {
        if fixture.server.tracked() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", fixture.server.tracked());
}
