//! Notifications about resources: `resources/subscribe` for clients with a session, and
//! `subscriptions/listen` for others.
//!
//! One task follows each session. It sends `notifications/resources/list_changed` and
//! `notifications/resources/updated`, and ends with the session. Its subscriptions are dropped with
//! it, and only the session's own identifier gives access to them. A request to listen stays open,
//! and its subscriptions are dropped when it ends.
//!
//! Nothing in this module requests the client's roots. While the roots are unknown, subscriptions
//! are suspended. After a request has fetched the roots, subscriptions outside them are dropped. A
//! client without a session can subscribe to what is in the directories that are always in force, or
//! in the allowed directories if it declared no roots. It does not announce changes to its roots, so
//! `resourcesListChanged` is not accepted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mcp_roots_guard::rmcp::{ClientInput, RequestRoots};
use mcp_roots_guard::{Location, Roots, RootsChanges, RootsState, Session};
use rmcp::ErrorData;
use rmcp::model::{ResourceUpdatedNotificationParam, SubscribeRequestParams, SubscriptionFilter};
use rmcp::service::{Peer, RequestContext, RoleServer, SubscriptionContext};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::subscription::{Filesystems, POLL, SUBSCRIPTIONS, Subscription, Subscriptions};
use crate::http::SessionPermit;
use crate::lock;
use crate::server::Server;

/// The resource state of all clients.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    sessions: Mutex<HashMap<u64, Subscriptions>>,
    pub(super) filesystems: Filesystems,
}

impl Resources {
    /// Starts following a session. The permit is held until the session ends.
    pub(crate) fn follow(
        self: &Arc<Self>,
        session: &Session,
        peer: &Peer<RoleServer>,
        permit: Option<SessionPermit>,
    ) {
        let (session, peer) = (session.clone(), peer.clone());
        let subscriptions = Subscriptions::default();
        lock(&self.sessions).insert(session.id(), subscriptions.clone());
        let resources = self.clone();
        let following = Follower { resources, session, peer, subscriptions, _permit: permit };
        tokio::spawn(following.run());
    }

    /// The number of followed sessions.
    pub(crate) fn tracked(&self) -> usize {
        lock(&self.sessions).len()
    }

    fn of(&self, session: &Session) -> Option<Subscriptions> {
        lock(&self.sessions).get(&session.id()).cloned()
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
        let subscriptions = resources.of(session).ok_or_else(no_session)?;
        let checked = roots.check(&Location::from_uri(&uri)?)?;
        session.known_roots()?.still_allows(&checked)?;
        let subscription = Subscription::new(&checked, &resources.filesystems)?;
        roots.ensure_usable()?;
        subscriptions.add(uri, subscription)
    };
    server.respond(ctx, ClientInput::for_resource(&params.uri), work).await
}

/// The guard's error for a request without a session.
fn no_session() -> ErrorData {
    let data = serde_json::json!({ "code": "no_session" });
    ErrorData::internal_error("the request belongs to no known session", Some(data))
}

/// Handles `resources/unsubscribe`. It succeeds even if there is no subscription. It accesses no
/// file, so it does not need the roots.
pub(crate) fn unsubscribe(server: &Server, uri: &str, ctx: &RequestContext<RoleServer>) {
    let session = server.guard.session_of(&ctx.extensions).ok();
    if let Some(subscriptions) = session.and_then(|session| server.resources.of(&session)) {
        subscriptions.remove(uri);
    }
}

/// The accepted part of a filter: the first [`SUBSCRIPTIONS`] resources.
pub(crate) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let uris = requested.resource_subscriptions.iter().flatten().take(SUBSCRIPTIONS);
    SubscriptionFilter::builder().resource_subscriptions(uris).build()
}

/// Serves `subscriptions/listen` until it is cancelled or all its resources are withdrawn. A refused
/// resource is ignored. If all are refused, returns the first refusal.
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
            let checked = roots.check(&Location::from_uri(&named)?)?;
            all.add(named, Subscription::new(&checked, &resources.filesystems)?)
        };
        let added: Result<(), _> = server.respond(ctx, ClientInput::for_resource(uri), work).await;
        if let Err(error) = added {
            refused = refused.or(Some(error));
        }
    }
    if let Some(error) = refused.filter(|_| subscriptions.is_empty()) {
        return Err(error);
    }
    while !subscriptions.is_empty() {
        tokio::select! {
            () = listening.cancelled() => break,
            () = sleep(POLL) => {}
        }
        let all = subscriptions.clone();
        let work = move |roots: RequestRoots| Ok(all.look(|| Ok(Roots::clone(&roots))));
        // If the roots are unknown at this time, nothing is looked at or withdrawn.
        let changed = server.guard.request_without_input(ctx, None, work).await.unwrap_or_default();
        for uri in changed {
            if listening.sink().notify_resource_updated(uri).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The task that follows a session.
struct Follower {
    resources: Arc<Resources>,
    session: Session,
    peer: Peer<RoleServer>,
    subscriptions: Subscriptions,
    _permit: Option<SessionPermit>,
}

impl Follower {
    async fn run(self) {
        let (mut changes, mut polls) = (self.session.changes(), interval(POLL));
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut state = RootsState::Unknown;
        loop {
            tokio::select! {
                result = changes.changed() => {
                    if result.is_err() {
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
        if self.subscriptions.is_empty() {
            return;
        }
        let (session, all) = (self.session.clone(), self.subscriptions.clone());
        let work = move || Ok(all.look(|| session.known_roots()));
        let looked = tokio::select! {
            looked = self.session.run(work) => looked,
            // The look may never end.
            () = closed(self.session.changes()) => return,
        };
        // If the client is busy, the next look finds the changes.
        for uri in looked.unwrap_or_default() {
            if self.subscriptions.contains(&uri) && !is_withdrawn(self.session.state()) {
                let changed = ResourceUpdatedNotificationParam::new(uri);
                let _ = self.peer.notify_resource_updated(changed).await;
            }
        }
    }
}

/// Cleans up even if the task is aborted or panics.
impl Drop for Follower {
    fn drop(&mut self) {
        lock(&self.resources.sessions).remove(&self.session.id());
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
    matches!(state, RootsState::Unknown | RootsState::Failed(_) | RootsState::Closed)
}
