//! A transport that reports sessions and changed roots to the guard, before rmcp handles the
//! message.
//!
//! A handler could not do this, because rmcp runs the handlers of messages in separate tasks, in
//! any order.

use std::future::Future;
use std::sync::Arc;

use ::rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, Extensions, GetExtensions as _,
    InitializeRequest, JsonRpcMessage, ServerJsonRpcMessage,
};
use ::rmcp::service::RoleServer;
use ::rmcp::transport::{IntoTransport, Transport};
use guarded_fs::Result;

use super::key::ClientKey;
use crate::session::{Guard, Session};
use crate::wire::{ClientCapabilities, ListRootsResult};

/// A transport wrapped by [`Guard::wrap`]. It is public only as the associated type of a guarded
/// session manager, and has no public name.
#[allow(missing_debug_implementations, unreachable_pub, reason = "the type has no public name")]
pub struct GuardedTransport<T> {
    inner: T,
    guard: Guard,
    /// The client's session, which begins with its `initialize`.
    connection: Option<Arc<Connection>>,
    /// The share that requests without a key are charged to.
    share: Arc<str>,
    /// The `mcp-session-id` of streamable HTTP.
    id: Option<Arc<str>>,
}

/// An extension of each request that came through a wrapped transport. The type is private, so no
/// other code can add or replace one. rmcp copies it for each call, so it is small.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    share: Arc<str>,
    /// `None` before `initialize`, and therefore in the stateless era.
    connection: Option<Arc<Connection>>,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) session: Result<Session>,
    /// The key of the `initialize` request.
    pub(super) key: Option<ClientKey>,
}

impl Guard {
    /// Wraps the transport of one client, such as `rmcp::transport::stdio_pipes()`:
    /// `server.serve(guard.wrap(stdio_pipes()))`. For streamable HTTP, use `Guard::wrap_sessions`.
    /// Requests without a [`ClientKey`] share the slots of one client.
    ///
    /// A `list_changed` applies to every request that the transport receives after it. The session
    /// is closed together with the transport, which rmcp closes when the calls in flight have
    /// ended, or after a few seconds.
    ///
    /// Use the same guard, or its clones, for a transport and its tools. A tool with another guard
    /// finds no session.
    pub fn wrap<T, E, A>(
        &self,
        transport: T,
    ) -> impl Transport<RoleServer, Error = E> + use<T, E, A>
    where
        T: IntoTransport<RoleServer, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        GuardedTransport::new(transport.into_transport(), self.clone(), None)
    }
}

impl Arrival {
    pub(super) fn share(extensions: &Extensions) -> Arc<str> {
        let key = ClientKey::of(extensions).map(ClientKey::share);
        let connection = || extensions.get::<Self>().map(|received| &received.share);
        key.or_else(connection).cloned().unwrap_or_default()
    }

    pub(super) fn connection(extensions: &Extensions) -> Option<&Connection> {
        extensions.get::<Self>()?.connection.as_deref()
    }
}

impl<T> GuardedTransport<T> {
    pub(super) fn new(inner: T, guard: Guard, id: Option<Arc<str>>) -> Self {
        Self { inner, guard, connection: None, share: Guard::next_share(), id }
    }

    /// Adds the extensions to a request, and handles `initialize` and `list_changed`.
    fn observe(&mut self, message: &mut ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(message) => {
                let request = &mut message.request;
                match request {
                    ClientRequest::InitializeRequest(initialize) => self.begin_session(initialize),
                    // This is a notification that was sent with an id. Ignoring it would leave the
                    // old list in force.
                    ClientRequest::CustomRequest(request)
                        if request.method == ListRootsResult::CHANGED =>
                    {
                        self.list_changed();
                    }
                    _ => {}
                }
                let (share, connection) = (self.share.clone(), self.connection.clone());
                request.extensions_mut().insert(Arrival { share, connection });
            }
            JsonRpcMessage::Notification(message) => {
                if let ClientNotification::RootsListChangedNotification(_) = message.notification {
                    self.list_changed();
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Begins the client's session, and closes its previous one.
    fn begin_session(&mut self, initialize: &InitializeRequest) {
        let declared = match &initialize.params.capabilities.roots {
            None => ClientCapabilities::WithoutRoots,
            Some(roots) if roots.list_changed == Some(true) => {
                ClientCapabilities::WithAnnouncedRoots
            }
            Some(_) => ClientCapabilities::WithRoots,
        };
        let key = ClientKey::of(&initialize.extensions).cloned();
        // Knowledge of another client's session identifier must not be enough to take over its
        // session.
        if self.connection.as_ref().is_some_and(|connection| connection.key != key) {
            return;
        }
        self.close_session();
        let share = key.as_ref().map_or(&self.share, ClientKey::share).clone();
        let session = self.guard.session_with_share(declared, share);
        if let Ok(session) = &session {
            // Anyone who knows the whole id can send messages in the session.
            let id = self.id.as_deref().and_then(|id| id.get(..SHOWN_ID.min(id.len())));
            event!(debug, "session opened", session = session.id(), mcp_session_id = id);
        }
        self.connection = Some(Arc::new(Connection { session, key }));
    }

    fn list_changed(&self) {
        if let Some(Connection { session: Ok(session), .. }) = self.connection.as_deref() {
            // Defense: A change counts before the next message is read.
            session.list_changed();
        }
    }

    fn close_session(&mut self) {
        if let Some(Connection { session: Ok(session), .. }) = self.connection.take().as_deref() {
            session.close();
        }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for GuardedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut message = self.inner.receive().await?;
        // There is no await after this, because a future dropped there would lose the message.
        self.observe(&mut message);
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // Requests in flight hold clones of the session and would keep it open.
        self.close_session();
        self.inner.close().await
    }
}

/// rmcp does not close a transport if the connection ends during `initialize`.
impl<T> Drop for GuardedTransport<T> {
    fn drop(&mut self) {
        self.close_session();
    }
}

/// How much of the id of a session over HTTP is logged: enough to find it in a client's log.
const SHOWN_ID: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use guarded_fs::Boundary;

    #[test]
    fn dropped_transport_closes_its_session_although_clones_remain() {
        let guard = Guard::new(Boundary::any_listed().build().unwrap());
        let session = guard.session(ClientCapabilities::WithoutRoots).unwrap();
        let kept = session.clone();
        let mut transport = GuardedTransport::new((), guard.clone(), None);
        transport.connection = Some(Arc::new(Connection { session: Ok(session), key: None }));
        assert_eq!(guard.sessions(), 1);
        drop(transport);
        assert_eq!((guard.sessions(), kept.state()), (0, crate::session::RootsState::Closed));
    }
}
