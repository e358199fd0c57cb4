//! Subscriptions and list-change notifications for clients with a session.
//!
//! One task follows each session. It sends `notifications/resources/list_changed` and
//! `notifications/resources/updated`, and ends with the session. Its subscriptions are dropped with
//! it, and only the session's own identifier gives access to them.
//!
//! Nothing in this module requests the client's roots. While the roots are unknown, subscriptions
//! are suspended. After a request has fetched the roots, subscriptions outside them are dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mcp_roots_guard::rmcp::RequestRoots;
use mcp_roots_guard::{RootsChanges, RootsState, Session};
use rmcp::ErrorData;
use rmcp::model::{ResourceUpdatedNotificationParam, SubscribeRequestParams};
use rmcp::service::{Peer, RequestContext, RoleServer};
use tokio::time::{MissedTickBehavior, interval};

use super::listen::Listens;
use super::lock;
use super::subscription::{Filesystems, Looked, POLL, SUBSCRIPTIONS, Subscription, look};
use crate::http::SessionPermit;
use crate::server::Server;

/// The resource state of all clients.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    sessions: Mutex<HashMap<u64, Arc<Subscriptions>>>,
    pub(super) filesystems: Filesystems,
    pub(super) listens: Arc<Listens>,
}

/// The subscriptions of a session, by URI.
type Subscriptions = Mutex<HashMap<String, Arc<Subscription>>>;

impl Resources {
    /// Starts following a session. The permit is held until the session ends.
    pub(crate) fn follow(
        self: &Arc<Self>,
        session: &Session,
        peer: &Peer<RoleServer>,
        permit: Option<SessionPermit>,
    ) {
        let following = Following {
            resources: self.clone(),
            changes: session.changes(),
            session: session.clone(),
            peer: peer.clone(),
            subscriptions: Arc::default(),
            _permit: permit,
        };
        lock(&self.sessions).insert(session.id(), following.subscriptions.clone());
        tokio::spawn(following.run());
    }

    /// The number of followed sessions.
    pub(crate) fn tracked(&self) -> usize {
        lock(&self.sessions).len()
    }
}

/// Handles `resources/subscribe`.
///
/// A client that does not announce changes to its roots is refused. Its roots are not cached, so
/// the server could not tell later whether they still allow the resource.
pub(crate) async fn subscribe(
    server: &Server,
    params: SubscribeRequestParams,
    ctx: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    let (resources, uri) = (server.resources.clone(), params.uri.clone());
    let work = move |roots: RequestRoots| {
        let session = roots.session().ok_or_else(no_session)?;
        let subscriptions = lock(&resources.sessions).get(&session.id()).cloned();
        let subscriptions = subscriptions.ok_or_else(no_session)?;
        let subscription = Subscription::new(&roots, &uri, &resources.filesystems)?;
        roots.ensure_active()?;
        subscription.still_allowed(session)?;
        let mut subscriptions = lock(&subscriptions);
        if subscriptions.len() >= SUBSCRIPTIONS && !subscriptions.contains_key(&uri) {
            let full = format!(
                "the limit of {SUBSCRIPTIONS} subscriptions is reached: unsubscribe from one first"
            );
            return Err(ErrorData::invalid_params(full, None).into());
        }
        subscriptions.insert(uri, Arc::new(subscription));
        Ok(())
    };
    server.guard.other_request(ctx, Some(&params.uri), work).await
}

/// The guard's error for a request without a session.
fn no_session() -> ErrorData {
    let data = serde_json::json!({ "kind": "no_session" });
    ErrorData::internal_error("the request belongs to no known session", Some(data))
}

/// Handles `resources/unsubscribe`. It succeeds even if there is no subscription. It accesses no
/// file, so it does not need the roots.
pub(crate) fn unsubscribe(server: &Server, uri: &str, ctx: &RequestContext<RoleServer>) {
    let Ok(session) = server.guard.session_of(&ctx.extensions) else { return };
    if let Some(subscriptions) = lock(&server.resources.sessions).get(&session.id()) {
        lock(subscriptions).remove(uri);
    }
}

/// The task that follows a session.
struct Following {
    resources: Arc<Resources>,
    session: Session,
    changes: RootsChanges,
    peer: Peer<RoleServer>,
    subscriptions: Arc<Subscriptions>,
    _permit: Option<SessionPermit>,
}

impl Following {
    async fn run(mut self) {
        let (mut state, mut polls) = (RootsState::Stale, interval(POLL));
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = self.changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let before = std::mem::replace(&mut state, self.session.state());
                    // The first list of roots, overall or after a change, needs no notification.
                    // The client has no resource list yet, or knows that its list is outdated.
                    if is_known(before) || !is_known(state) {
                        let _ = self.peer.notify_resource_list_changed().await;
                    }
                }
                _ = polls.tick() => self.look().await,
            }
        }
    }

    /// Looks at the subscribed files in a slot of the client, and reports changes.
    async fn look(&self) {
        let all: Vec<_> = lock(&self.subscriptions).values().cloned().collect();
        if all.is_empty() {
            return;
        }
        let session = self.session.clone();
        let looking =
            self.session.run(move || Ok(look(&all, |checked| session.still_allows(checked))));
        let looked = tokio::select! {
            looked = looking => looked,
            // The look may never end.
            () = closed(self.changes.clone()) => return,
        };
        // If the client is busy, the next look finds the changes.
        let Ok(Looked { updated, withdrawn }) = looked else { return };
        for subscription in withdrawn {
            self.drop_if_same(&subscription);
        }
        for subscription in updated {
            let is_wanted = lock(&self.subscriptions).contains_key(subscription.uri());
            if is_wanted && !is_withdrawn(self.session.state()) {
                let _ = self
                    .peer
                    .notify_resource_updated(ResourceUpdatedNotificationParam::new(
                        subscription.uri(),
                    ))
                    .await;
            }
        }
    }

    fn drop_if_same(&self, subscription: &Arc<Subscription>) {
        let mut subscriptions = lock(&self.subscriptions);
        let same = subscriptions
            .get(subscription.uri())
            .is_some_and(|kept| Arc::ptr_eq(kept, subscription));
        if same {
            subscriptions.remove(subscription.uri());
        }
    }
}

/// Cleans up even if the task is aborted or panics.
impl Drop for Following {
    fn drop(&mut self) {
        lock(&self.resources.sessions).remove(&self.session.id());
        lock(&self.subscriptions).clear();
    }
}

/// Waits until the session is closed.
async fn closed(mut changes: RootsChanges) {
    while changes.changed().await.is_ok() {}
}

fn is_known(state: RootsState) -> bool {
    matches!(state, RootsState::Available | RootsState::Empty)
}

/// Whether the known roots may no longer be used, because the client has announced a change and not
/// sent a valid list since, or because the session is closed.
fn is_withdrawn(state: RootsState) -> bool {
    matches!(state, RootsState::Stale | RootsState::Failed(_) | RootsState::Closed)
}
