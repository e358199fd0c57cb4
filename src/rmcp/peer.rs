//! Requests the roots of a client in the session era, within the request that needs them. If no
//! call waits for the response any longer, the `roots/list` is cancelled, and rmcp removes its
//! record of it.

use ::rmcp::model::{
    CancelledNotification, CancelledNotificationParam, CustomRequest, RequestId, ServerRequest,
};
use ::rmcp::service::{Peer, PeerRequestOptions, RoleServer};
use serde_json::json;

use crate::session::{RootsResponse, RootsSource};
use crate::wire::ListRootsResult;

pub(super) struct PeerSource(pub(super) Peer<RoleServer>);

/// Cancels a `roots/list` if it is dropped before the response arrives.
struct CancelOnDrop {
    peer: Peer<RoleServer>,
    /// `None` once the client has responded.
    id: Option<RequestId>,
}

impl RootsSource for PeerSource {
    async fn ask(&mut self, cursor: Option<String>) -> RootsResponse {
        let peer = &self.0;
        let request = list_roots_request(cursor);
        // No time limit is set here, because the session has one for all pages.
        let sent = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => return RootsResponse::Failed(error.to_string()),
        };
        let mut pending = CancelOnDrop { peer: peer.clone(), id: Some(handle.id.clone()) };
        let answered = handle.await_response().await;
        pending.id = None;
        // rmcp does not parse a list with a malformed entry, of which the other entries are valid.
        let list = answered.map(|result| serde_json::to_value(result).unwrap_or_default());
        // An error includes "method not found": a client that declared roots must not gain access
        // by returning an error.
        list.map_or_else(
            |error| RootsResponse::Failed(error.to_string()),
            RootsResponse::from_result,
        )
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let param = CancelledNotificationParam::new(Some(id), Some("no longer needed".into()));
        let (peer, cancelled) = (self.peer.clone(), CancelledNotification::new(param));
        // rmcp remembers a request until it is answered or cancelled.
        runtime.spawn(async move { peer.send_notification(cancelled.into()).await });
    }
}

/// Not rmcp's own request, which has no cursor and which is deprecated.
fn list_roots_request(cursor: Option<String>) -> ServerRequest {
    let params = cursor.map(|cursor| json!({ "cursor": cursor }));
    ServerRequest::CustomRequest(CustomRequest::new(ListRootsResult::METHOD, params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_for_a_further_page_has_a_cursor() {
        let sent = |cursor| serde_json::to_value(list_roots_request(cursor)).unwrap();
        assert_eq!(sent(None)["method"], "roots/list");
        assert_eq!(sent(None).pointer("/params/cursor"), None);
        let next = json!({ "method": "roots/list", "params": { "cursor": "page 2" } });
        assert_eq!(sent(Some("page 2".into())), next);
    }
}
