//! The sessions of streamable HTTP. The transport of each sees only messages that rmcp accepted.

use std::sync::Arc;

use ::rmcp::model::{ClientJsonRpcMessage, Extensions, ServerJsonRpcMessage};
use ::rmcp::transport::common::server_side_http::ServerSseMessage;
use ::rmcp::transport::streamable_http_server::SessionId;
use ::rmcp::transport::streamable_http_server::session::{
    EventStore, RestoreOutcome, SessionManager,
};
use futures_core::Stream;

use super::transport::GuardedTransport;
use crate::session::Guard;

/// Returns the value of this type in the extensions of a request's HTTP request.
pub(super) fn http_extension<T: Clone + Send + Sync + 'static>(
    extensions: &Extensions,
) -> Option<&T> {
    extensions.get::<::http::request::Parts>()?.extensions.get()
}

/// A session manager wrapped by [`Guard::wrap_sessions`].
#[derive(Debug)]
pub struct GuardedSessions<M> {
    inner: M,
    guard: Guard,
}

impl Guard {
    /// Wraps a session manager, such as rmcp's `LocalSessionManager`, for its
    /// `StreamableHttpService`. Each protocol session has its own session of the guard, which ends
    /// with it.
    ///
    /// A `list_changed` applies to every request that the client sends after the POST of the
    /// notification was answered. Two concurrent POSTs have no defined order. rmcp accepts and
    /// ignores a `list_changed` with headers of the stateless era.
    ///
    /// Requests of the stateless era do not pass through the session manager and do not need it.
    /// With rmcp's `legacy_session_mode` off, no request passes through it, and requests of the
    /// session era are refused ([`NO_SESSION`](crate::kinds::NO_SESSION)) unless client roots are
    /// ignored.
    ///
    /// Anyone who knows a session's `mcp-session-id` can send messages in that session. If clients
    /// are authenticated, add the principal to each HTTP request as a
    /// [`ClientKey`](super::ClientKey). A session then serves only requests of the same principal.
    /// Other messages are not checked: a response to `roots/list` has no key, and a `list_changed`
    /// is accepted from any sender. The authentication layer should check the session identifier of
    /// these messages too.
    ///
    /// rmcp's own record of a session's client comes from the last `initialize`. A session that
    /// rmcp restores from a store has the key of the request that restores it, and its list is
    /// requested again.
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
        let transport = GuardedTransport::new(transport, self.guard.clone(), Some(id.clone()));
        Ok((id, transport))
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
        Ok(match self.inner.restore_session(id.clone()).await? {
            RestoreOutcome::Restored(transport) => {
                let guard = self.guard.clone();
                RestoreOutcome::Restored(GuardedTransport::new(transport, guard, Some(id)))
            }
            RestoreOutcome::AlreadyPresent => RestoreOutcome::AlreadyPresent,
            // An outcome that rmcp adds later may contain a transport that is not wrapped.
            _ => RestoreOutcome::NotSupported,
        })
    }

    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        self.inner.event_store()
    }
}

#[cfg(test)]
mod tests {
    use ::rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

    use super::*;
    use guarded_fs::Boundary;

    #[tokio::test]
    async fn an_unknown_session_has_no_stream() {
        let guard = Guard::new(Boundary::any_listed().build().unwrap());
        let sessions = guard.wrap_sessions(LocalSessionManager::default());
        let unknown: SessionId = "unknown".into();
        assert!(!sessions.has_session(&unknown).await.unwrap());
        assert!(sessions.create_standalone_stream(&unknown).await.is_err());
        assert!(sessions.resume(&unknown, "0".into()).await.is_err());

        let (known, _transport) = sessions.create_session().await.unwrap();
        assert!(sessions.has_session(&known).await.unwrap());
        assert!(!sessions.has_session(&unknown).await.unwrap());
    }
}
