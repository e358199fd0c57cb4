//! `subscriptions/listen`, of the stateless era.
//!
//! Goes in: the URIs that a client wants to hear about, in a request that stays open. Comes out: `notifications/resources/updated` in that
//! request's stream. What is true after: the guard was asked for the roots of that request before each look, as if it came anew; all is
//! dropped when it ends.
//!
//! Such a request can not be asked in. It is served by the allowed directories if the client declared no roots, and by what the client
//! told in another request as long as that counts; while nothing does, nothing is said. Nobody tells that roots changed in this era, so
//! `resourcesListChanged` is not accepted, although `server/discover`, whose answer is that of `initialize`, has `listChanged`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mcp_roots_guard::rmcp::{ClientKey, RequestRoots};
use rmcp::ErrorData;
use rmcp::model::SubscriptionFilter;
use rmcp::service::SubscriptionContext;
use tokio::sync::Notify;

use super::list::remedied;
use super::subscription::{Due, Looked, SUBSCRIPTIONS, Subscription, look};
use super::watch::lock;
use crate::server::Server;

/// The most requests that listen at once, for all clients: each has up to [`SUBSCRIPTIONS`].
pub(super) const LISTENS: usize = 256;

/// The most of one client, where it can be told from others: more than a program has windows. Over HTTP without keys it can not be.
const LISTENS_OF_ONE: usize = 16;

/// What of a filter is accepted: the first of the resources.
pub(crate) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let uris = requested.resource_subscriptions.iter().flatten().take(SUBSCRIPTIONS);
    SubscriptionFilter::builder().resource_subscriptions(uris).build()
}

/// Serves a `subscriptions/listen` until it is cancelled, or all that it named was withdrawn.
///
/// # Errors
///
/// -32602 if the client listens [`LISTENS_OF_ONE`] times already; -32603 if all clients listen [`LISTENS`] times. What is refused is
/// not told of; if all is, the refusal of the first.
pub(crate) async fn listen(
    server: &Server,
    listening: &SubscriptionContext,
) -> Result<(), ErrorData> {
    let (ctx, wake) = (listening.request_context(), Arc::new(Notify::new()));
    let _place = Place::take(&server.resources.listens, ClientKey::of(&ctx.extensions).cloned())?;
    let (mut subscriptions, mut refused) = (Vec::new(), None);
    for uri in listening.accepted().resource_subscriptions.iter().flatten() {
        let (watcher, wake, named) = (server.resources.watcher.clone(), wake.clone(), uri.clone());
        let work = move |roots: RequestRoots| Subscription::new(&roots, &named, &watcher, &wake);
        match server.guard.request(ctx, Some(uri), work).await {
            Ok(subscription) => subscriptions.push(Arc::new(subscription)),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    if let Some(error) = refused.filter(|_| subscriptions.is_empty()) {
        return Err(remedied(error, ctx));
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

/// How many requests listen, by whose they are.
#[derive(Debug, Default)]
pub(super) struct Listens(Mutex<HashMap<Option<ClientKey>, usize>>);

/// One of them, until it is dropped.
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
            let text =
                format!("a client can listen {LISTENS_OF_ONE} times at once: cancel one first");
            return Err(ErrorData::invalid_params(text, None));
        }
        if counts.values().sum::<usize>() >= LISTENS {
            return Err(ErrorData::internal_error(
                "too many clients listen: try again later",
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
    fn listens_have_a_bound_and_places_come_back() {
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
