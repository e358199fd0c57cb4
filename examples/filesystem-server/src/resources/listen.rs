//! `subscriptions/listen`: subscriptions without a session.
//!
//! The request names the URIs and stays open. The server sends `notifications/resources/updated` in
//! the response stream. Before it looks at the files, it obtains the roots from the guard again, as
//! for a new request. All subscriptions are dropped when the request ends.
//!
//! The server cannot request roots during this request. If the client declared no roots, the
//! allowed directories apply. Otherwise, the roots from one of its other requests apply while they
//! are valid. While no roots are known, the server sends nothing.
//!
//! Stateless clients do not announce changes to their roots, so `resourcesListChanged` is not
//! accepted. `server/discover` still contains `listChanged`, because it returns the same
//! capabilities as `initialize`.

use mcp_roots_guard::rmcp::RequestRoots;
use rmcp::ErrorData;
use rmcp::model::SubscriptionFilter;
use rmcp::service::SubscriptionContext;
use tokio::time::sleep;

use super::list::remedied;
use super::subscription::{POLL, SUBSCRIPTIONS, Subscription, Subscriptions};
use crate::server::Server;

/// The accepted part of a filter: the first [`SUBSCRIPTIONS`] resources.
pub(crate) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let uris = requested.resource_subscriptions.iter().flatten().take(SUBSCRIPTIONS);
    SubscriptionFilter::builder().resource_subscriptions(uris).build()
}

/// Serves `subscriptions/listen` until it is cancelled or all its resources are withdrawn.
///
/// # Errors
///
/// A refused resource is ignored. If all are refused, returns the first refusal.
pub(crate) async fn listen(
    server: &Server,
    listening: &SubscriptionContext,
) -> Result<(), ErrorData> {
    let ctx = listening.request_context();
    let (subscriptions, mut refused) = (Subscriptions::default(), None);
    for uri in listening.accepted().resource_subscriptions.iter().flatten() {
        let (resources, named) = (server.resources.clone(), uri.clone());
        let all = subscriptions.clone();
        let work = move |roots: RequestRoots| {
            let subscription = Subscription::new(&roots, &named, &resources.filesystems)?;
            all.add(named, subscription)
        };
        if let Err(error) = server.guard.other_request(ctx, Some(uri), work).await {
            refused = refused.or(Some(error));
        }
    }
    if let Some(error) = refused.filter(|_| subscriptions.is_empty()) {
        return Err(remedied(error, ctx));
    }
    while !subscriptions.is_empty() {
        tokio::select! {
            () = listening.cancelled() => break,
            () = sleep(POLL) => {}
        }
        let all = subscriptions.clone();
        let work = move |roots: RequestRoots| Ok(all.look(|checked| roots.still_allows(checked)));
        // If the roots are unknown at this time, nothing is looked at or withdrawn.
        let changed = server.guard.other_request(ctx, None, work).await.unwrap_or_default();
        for uri in changed {
            if listening.sink().notify_resource_updated(uri).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
