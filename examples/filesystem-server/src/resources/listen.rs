//! `subscriptions/listen`: subscriptions without a session.
//!
//! The request names the URIs and stays open. The server sends `notifications/resources/updated` in
//! the response stream. Before it inspects the files, it obtains the roots from the guard again, as
//! for a new request. All subscriptions are dropped when the request ends.
//!
//! The server cannot request roots during this request. If the client declared no roots, the
//! allowed directories apply. Otherwise, the roots from one of its other requests apply while they
//! are valid. While no roots are known, the server sends nothing.
//!
//! Stateless clients do not announce changes to their roots, so `resourcesListChanged` is not
//! accepted. `server/discover` still contains `listChanged`, because it returns the same
//! capabilities as `initialize`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mcp_roots_guard::rmcp::{ClientKey, RequestRoots};
use rmcp::ErrorData;
use rmcp::model::SubscriptionFilter;
use rmcp::service::SubscriptionContext;
use tokio::time::sleep;

use super::list::remedied;
use super::lock;
use super::subscription::{Looked, POLL, SUBSCRIPTIONS, Subscription, look};
use crate::server::Server;

/// The maximum number of concurrent requests for all clients, each with up to [`SUBSCRIPTIONS`].
pub(super) const LISTENS: usize = 256;

/// The maximum number of concurrent requests for one client: more than the number of windows that a
/// program has open. It does not apply to HTTP without client keys, where clients cannot be
/// distinguished.
const LISTENS_OF_ONE: usize = 16;

/// The accepted part of a filter: the first [`SUBSCRIPTIONS`] resources.
pub(crate) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let uris = requested.resource_subscriptions.iter().flatten().take(SUBSCRIPTIONS);
    SubscriptionFilter::builder().resource_subscriptions(uris).build()
}

/// Serves `subscriptions/listen` until it is cancelled or all its resources are withdrawn.
///
/// # Errors
///
/// Returns -32602 if the client already has [`LISTENS_OF_ONE`] requests, and -32603 if all clients
/// together have [`LISTENS`]. A refused resource is ignored. If all are refused, returns the first
/// refusal.
pub(crate) async fn listen(
    server: &Server,
    listening: &SubscriptionContext,
) -> Result<(), ErrorData> {
    let ctx = listening.request_context();
    let _place = Place::take(&server.resources.listens, ClientKey::of(&ctx.extensions).cloned())?;
    let (mut subscriptions, mut refused) = (Vec::new(), None);
    for uri in listening.accepted().resource_subscriptions.iter().flatten() {
        let (resources, named) = (server.resources.clone(), uri.clone());
        let work =
            move |roots: RequestRoots| Subscription::new(&roots, &named, &resources.filesystems);
        match server.guard.other_request(ctx, Some(uri), work).await {
            Ok(subscription) => subscriptions.push(Arc::new(subscription)),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    if let Some(error) = refused.filter(|_| subscriptions.is_empty()) {
        return Err(remedied(error, ctx));
    }
    while !subscriptions.is_empty() {
        tokio::select! {
            () = listening.cancelled() => break,
            () = sleep(POLL) => {
                let all = subscriptions.clone();
                let work = move |roots: RequestRoots| {
                    Ok(look(&all, |checked| roots.still_allows(checked)))
                };
                // If the roots are unknown at this time, nothing is looked at or withdrawn.
                let looked = server.guard.other_request(ctx, None, work).await.unwrap_or_default();
                let Looked { updated, withdrawn } = looked;
                subscriptions.retain(|kept| !withdrawn.iter().any(|gone| Arc::ptr_eq(kept, gone)));
                for subscription in updated {
                    if listening.sink().notify_resource_updated(subscription.uri()).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
    Ok(())
}

/// The number of open requests per client.
#[derive(Debug, Default)]
pub(super) struct Listens(Mutex<HashMap<Option<ClientKey>, usize>>);

/// One open request, counted until it is dropped.
#[derive(Debug)]
struct Place {
    listens: Arc<Listens>,
    key: Option<ClientKey>,
}

impl Place {
    fn take(listens: &Arc<Listens>, key: Option<ClientKey>) -> Result<Self, ErrorData> {
        let mut counts = lock(&listens.0);
        let of_one = counts.get(&key).copied().unwrap_or_default();
        if key.is_some() && of_one >= LISTENS_OF_ONE {
            let text = format!(
                "the limit of {LISTENS_OF_ONE} concurrent subscriptions/listen requests is \
                 reached: cancel one first"
            );
            return Err(ErrorData::invalid_params(text, None));
        }
        if counts.values().sum::<usize>() >= LISTENS {
            return Err(ErrorData::internal_error(
                "too many concurrent subscriptions/listen requests: try again later",
                None,
            ));
        }
        counts.insert(key.clone(), of_one + 1);
        drop(counts);
        Ok(Self { listens: listens.clone(), key })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.listens.0);
        match counts.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_requests_are_bounded_and_released() {
        let listens = Arc::new(Listens::default());
        let mut places: Vec<_> =
            (0..LISTENS).filter_map(|_| Place::take(&listens, None).ok()).collect();
        assert_eq!(places.len(), LISTENS);
        assert_eq!(Place::take(&listens, None).map_err(|error| error.code.0).err(), Some(-32603));
        places.pop();
        assert!(Place::take(&listens, None).is_ok());
        places.clear();
        assert!(lock(&listens.0).is_empty());
    }
}
