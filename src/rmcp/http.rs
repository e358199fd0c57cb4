//! The sessions of streamable HTTP.
//!
//! Goes in: rmcp's session manager. Comes out: the same, with each session's transport wrapped. What is true after: what is true of
//! [`GuardedTransport`], for each session by itself; only messages that rmcp accepted pass through, and a session ends with rmcp's.

use std::sync::Arc;

use ::rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use ::rmcp::transport::common::server_side_http::ServerSseMessage;
use ::rmcp::transport::streamable_http_server::SessionId;
use ::rmcp::transport::streamable_http_server::session::{
    EventStore, RestoreOutcome, SessionManager,
};
use futures_core::Stream;

use super::transport::GuardedTransport;
use crate::session::Guard;

/// A session manager wrapped by [`Guard::wrap_sessions`].
#[derive(Debug)]
pub struct GuardedSessions<M> {
    inner: M,
    guard: Guard,
}

impl Guard {
    /// Wraps a session manager, such as rmcp's `LocalSessionManager`, for its `StreamableHttpService`: each session of the protocol
    /// has one of the guard.
    ///
    /// A `list_changed` counts for every request that the client sends after its POST was answered, but for one with headers of the
    /// stateless era, which rmcp accepts and ignores. Two POSTs in flight at once have no order. Requests of the stateless era do not pass
    /// here, and need nothing of it. With rmcp's `legacy_session_mode` off no request does, and those of the session era are refused
    /// ([`NoSession`](crate::ErrorKind::NoSession)), unless client roots are ignored.
    ///
    /// Whoever knows a session's `mcp-session-id` can speak for it. Where clients are authenticated, give each HTTP request its
    /// principal as a [`ClientKey`](super::ClientKey): requests then count for sessions of the same principal only. What is no
    /// request is not looked at (an answer to `roots/list` bears no key, and a change is heard from whoever tells it): let the layer that
    /// authenticates check the identifier for those, too. Rmcp's own record of a session's client is of its last `initialize`. A session
    /// that rmcp restores from a store is of the key that the restoring request bears, and its client is asked again.
    pub fn wrap_sessions<M: SessionManager>(&self, manager: M) -> GuardedSessions<M> {
        GuardedSessions { inner: manager, guard: self.clone() }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<M: SessionManager> SessionManager for GuardedSessions<M> {
    type Error = M::Error;
    type Transport = GuardedTransport<M::Transport>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.inner.create_session().await?;
        Ok((id, GuardedTransport::new(transport, self.guard.clone())))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_stream(id, message).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.resume(id, last_event_id).await
    }

    async fn restore_session(
        &self,
        id: SessionId,
    ) -> Result<RestoreOutcome<Self::Transport>, Self::Error> {
        Ok(match self.inner.restore_session(id).await? {
            RestoreOutcome::Restored(transport) => {
                RestoreOutcome::Restored(GuardedTransport::new(transport, self.guard.clone()))
            }
            RestoreOutcome::AlreadyPresent => RestoreOutcome::AlreadyPresent,
            // Whatever comes to be added is not known to hold a transport.
            _ => RestoreOutcome::NotSupported,
        })
    }

    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        self.inner.event_store()
    }
}
