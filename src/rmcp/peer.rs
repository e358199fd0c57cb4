//! Asking a client of the session era.
//!
//! Goes in: the peer of the request that needs the roots. Comes out: a [`RootsResponse`]. What is true after: the question belongs to that
//! request, and one that is not waited for any more is cancelled, so that nothing of it stays behind.

use ::rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientResult, CustomRequest, RequestId,
    ServerRequest,
};
use ::rmcp::service::{Peer, PeerRequestOptions, RoleServer};
use serde_json::json;

use crate::session::{RootsResponse, RootsSource};
use crate::wire::{ListRootsResult, RootEntry};

/// Asks the client at the other end, in the request in flight.
pub(super) struct PeerSource(pub(super) Peer<RoleServer>);

/// A question that is being asked.
struct Asked {
    peer: Peer<RoleServer>,
    id: Option<RequestId>,
}

impl RootsSource for PeerSource {
    async fn ask(&mut self, cursor: Option<String>) -> RootsResponse {
        let peer = &self.0;
        // Rmcp's own way has no time limit; the session's ends this one.
        let sent =
            peer.send_request_with_option(question(cursor), PeerRequestOptions::no_options()).await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => return RootsResponse::Failed(error.to_string()),
        };
        let mut asked = Asked { peer: peer.clone(), id: Some(handle.id.clone()) };
        let answered = handle.await_response().await;
        asked.id = None;
        match answered {
            Ok(result) => answer(result),
            // Whatever the error: a client that declared roots and has none to tell must not gain by that.
            Err(error) => RootsResponse::Failed(error.to_string()),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let param =
            CancelledNotificationParam::new(Some(id), Some("not waited for any more".into()));
        let (peer, cancelled) = (self.peer.clone(), CancelledNotification::new(param));
        // Rmcp keeps what it sent until it is answered, or cancelled.
        runtime.spawn(async move { peer.send_notification(cancelled.into()).await });
    }
}

#[expect(
    deprecated,
    reason = "roots are deprecated since 2026-07-28, and what this crate is about"
)]
fn question(cursor: Option<String>) -> ServerRequest {
    match cursor {
        None => ServerRequest::ListRootsRequest(::rmcp::model::ListRootsRequest::default()),
        Some(cursor) => ServerRequest::CustomRequest(CustomRequest::new(
            ListRootsResult::METHOD,
            Some(json!({ "cursor": cursor })),
        )),
    }
}

#[expect(deprecated, reason = "as above")]
fn answer(result: ClientResult) -> RootsResponse {
    match result {
        ClientResult::ListRootsResult(list) => {
            let entry = |root: ::rmcp::model::Root| {
                let mut entry = RootEntry::new(root.uri);
                entry.name = root.name;
                entry
            };
            let roots = list.roots.into_iter().map(entry).collect();
            RootsResponse::List(ListRootsResult { roots, ..ListRootsResult::default() })
        }
        // What is not quite a root list: an entry in it may be malformed, and the others good.
        ClientResult::CustomResult(result) => RootsResponse::from_result(result.0),
        // Rmcp took it for something else.
        _ => RootsResponse::Failed("the result is no root list".into()),
    }
}
