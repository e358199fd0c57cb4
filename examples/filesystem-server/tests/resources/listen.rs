//! Stateless subscriptions.

use std::time::Duration;

use rmcp::model::{ServerNotification, SubscriptionFilter};

use crate::client::{Declares, Era, code, elsewhere, uri};
use crate::fixture::Fixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stateless_client_receives_updates_until_its_roots_change() {
    let fixture = Fixture::new();
    let path = fixture.write("a", "");
    let file = uri(&path);
    for declares in [Declares::Nothing, Declares::Roots] {
        let client = fixture.client(Era::Stateless, declares).await;
        // The client sends its roots with this request, if it has any.
        client.read(&file).await.unwrap();
        let filter = SubscriptionFilter::builder()
            .resources_list_changed()
            .resource_subscription(&file)
            .build();
        let mut listening = client.peer.listen(filter).await.unwrap();
        assert_eq!(
            listening.acknowledged().resource_subscriptions.as_deref(),
            Some(&[file.clone()][..])
        );
        assert_eq!(listening.acknowledged().resources_list_changed, None);
        tokio::time::sleep(Duration::from_millis(500)).await;
        std::fs::write(&path, format!("{declares:?}")).unwrap();
        let told = tokio::time::timeout(Duration::from_secs(4), listening.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let ServerNotification::ResourceUpdatedNotification(told) = told else {
            panic!("{told:?}")
        };
        assert_eq!(told.params.uri, file);
        if declares == Declares::Roots {
            // Another request sends different roots. The stream ends, because none of its
            // resources is allowed anymore.
            let other = fixture.write("other/b", "");
            client.peer.service().set(&[other.parent().unwrap()]);
            client.read(&uri(&other)).await.unwrap();
            std::fs::write(&path, "again").unwrap();
            let told =
                tokio::time::timeout(Duration::from_secs(4), listening.next()).await.unwrap();
            assert!(matches!(told, Ok(None)), "{told:?}");
        } else {
            listening.cancel().await.unwrap();
        }
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(fixture.server.tracked(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscription_outside_the_roots_is_refused() {
    let fixture = Fixture::new();
    let client = fixture.client(Era::Stateless, Declares::Nothing).await;
    let filter =
        SubscriptionFilter::builder().resource_subscription(elsewhere("etc/passwd")).build();
    let mut listening = client.peer.listen(filter).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(4), listening.next()).await.unwrap();
    assert_eq!(ended.map_err(code).err(), Some(-32602));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_resource_does_not_affect_other_subscriptions() {
    let fixture = Fixture::new();
    let path = fixture.write("a", "");
    let client = fixture.client(Era::Stateless, Declares::Nothing).await;
    let filter = SubscriptionFilter::builder()
        .resource_subscriptions([uri(&path), elsewhere("etc/passwd")])
        .build();
    let mut listening = client.peer.listen(filter).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    std::fs::write(&path, "1").unwrap();
    let told = tokio::time::timeout(Duration::from_secs(4), listening.next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let ServerNotification::ResourceUpdatedNotification(told) = told else { panic!("{told:?}") };
    assert_eq!(told.params.uri, uri(&path));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_of_a_client_are_limited() {
    let fixture = Fixture::new();
    let filter =
        SubscriptionFilter::builder().resource_subscription(uri(&fixture.write("a", ""))).build();
    let client = fixture.client(Era::Stateless, Declares::Nothing).await;
    let mut kept = Vec::new();
    for _ in 0..16 {
        kept.push(client.peer.listen(filter.clone()).await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut more = client.peer.listen(filter.clone()).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(4), more.next()).await.unwrap();
    assert_eq!(ended.map_err(code).err(), Some(-32602));
    // Another client is not affected.
    let other = fixture.client(Era::Stateless, Declares::Nothing).await;
    let mut listening = other.peer.listen(filter).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(500), listening.next()).await.is_err());
}
