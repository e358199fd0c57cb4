//! `subscriptions/listen`, of the stateless era.
//!
//! Goes in: the URIs that a client wants to hear about, in a request that stays open. Comes out: `notifications/resources/updated` in that
//! request's stream. What is true after: the guard was asked for the roots of that request before each look, as if it came anew; all is
//! dropped when it ends.
//!
//! Such a request can not be asked in. It is served by the operator's directories if the client declared no roots, and by what the client
//! told in another request as long as that counts; while nothing does, nothing is said. Nobody tells that roots changed in this era, so
//! `resourcesListChanged` is not accepted.

use std::sync::Arc;

use mcp_roots_guard::rmcp::RequestRoots;
use rmcp::ErrorData;
use rmcp::model::SubscriptionFilter;
use rmcp::service::SubscriptionContext;
use tokio::sync::Notify;

use super::subscription::{Due, Looked, SUBSCRIPTIONS, Subscription, look};
use crate::server::Server;

/// What of a filter is accepted: the first of the resources.
pub(crate) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let uris = requested.resource_subscriptions.iter().flatten().take(SUBSCRIPTIONS);
    SubscriptionFilter::builder().resource_subscriptions(uris).build()
}

/// Serves a `subscriptions/listen` until it is cancelled, or all that it named was withdrawn.
///
/// # Errors
///
/// The refusal of the first resource that is refused.
pub(crate) async fn listen(server: &Server, listening: &SubscriptionContext) -> Result<(), ErrorData> {
    let (ctx, wake) = (listening.request_context(), Arc::new(Notify::new()));
    let mut subscriptions = Vec::new();
    for uri in listening.accepted().resource_subscriptions.iter().flatten() {
        let (watcher, wake, named) = (server.resources.watcher.clone(), wake.clone(), uri.clone());
        let work = move |roots: RequestRoots| Subscription::new(&roots, &named, &watcher, &wake);
        subscriptions.push(Arc::new(server.guard.request(ctx, Some(uri), work).await?));
    }
    let mut due = Due::new();
    while !subscriptions.is_empty() {
        tokio::select! {
            () = listening.cancelled() => break,
            () = wake.notified() => due.wake(),
            woken = due.wait() => {
                let all = subscriptions.clone();
                let work = move |roots: RequestRoots| Ok(look(&all, woken, |checked| roots.still_allows(checked)));
                // An error says that the roots are not known now.
                let Looked { updated, withdrawn } = server.guard.request(ctx, None, work).await.unwrap_or_default();
                subscriptions.retain(|kept| !withdrawn.iter().any(|gone| Arc::ptr_eq(kept, gone)));
                for subscription in updated {
                    if listening.sink().notify_resource_updated(subscription.uri()).await.is_err() {
                        return Ok(());
                    }
                }
                due = Due::new();
            }
        }
    }
    Ok(())
}
