//! A transport that tells the guard what passes.
//!
//! Goes in: rmcp's transport of one client. Comes out: the same, and each request bears its session. What is true after: a session has
//! begun before the `initialize` that begins it is handled; a change counts before the notification is, and so before every message
//! behind it. A handler can not do that: rmcp starts handlers of messages in tasks of their own, which run in any order.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use ::rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, Extensions, GetExtensions as _,
    InitializeRequest, JsonRpcMessage, ServerJsonRpcMessage,
};
use ::rmcp::service::RoleServer;
use ::rmcp::transport::{IntoTransport, Transport};

use crate::error::Code;
use crate::session::ClientKey;
use crate::session::{Guard, Session};
use crate::wire::{ClientCapabilities, RootsCapability, RootsListChanged};

/// A transport wrapped by [`Guard::wrap`].
pub struct GuardedTransport<T> {
    inner: T,
    guard: Guard,
    /// The session of the client, once it said `initialize`.
    connection: Option<Connection>,
    /// The key that each request gets here.
    key: Option<ClientKey>,
}

/// What a request bears: the order in which requests of this process were received, as handlers start in any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received(u64);

/// What a request of the session era bears. Only this crate can name it, so nobody else can put one there.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) session: Result<Session, Code>,
    /// The key that `initialize` bore.
    pub(super) key: Option<ClientKey>,
}

impl Guard {
    /// Wraps a transport of one client, such as `rmcp::transport::stdio()`: `server.serve(guard.wrap(stdio()))`. For streamable HTTP
    /// there is `Guard::wrap_sessions`.
    ///
    /// A `list_changed` that it receives counts for every request it receives after that. The session is closed with the transport, which
    /// rmcp closes when the calls in flight have ended, or some seconds later.
    ///
    /// One guard for a transport: tools of another find no session.
    pub fn wrap<T, E, A>(
        &self,
        transport: T,
    ) -> GuardedTransport<impl Transport<RoleServer, Error = E> + use<T, E, A>>
    where
        T: IntoTransport<RoleServer, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        GuardedTransport::new(transport.into_transport(), self.clone())
    }
}

impl Received {
    fn now() -> Self {
        static RECEIVED: AtomicU64 = AtomicU64::new(0);
        Self(RECEIVED.fetch_add(1, Ordering::Relaxed))
    }

    /// When a request was received; for one that passed no wrapped transport, now.
    pub(super) fn of(extensions: &Extensions) -> u64 {
        extensions.get().copied().unwrap_or_else(Self::now).0
    }
}

impl<T> GuardedTransport<T> {
    pub(super) const fn new(inner: T, guard: Guard) -> Self {
        Self { inner, guard, connection: None, key: None }
    }

    /// Says that at the other end is one client and always the same, as on stdio: in the stateless era, a list that it told counts
    /// for its other requests too, for [a short time](crate::GuardBuilder::time_to_live_keyed). Not for a proxy of several clients.
    #[must_use]
    pub fn one_client(self) -> Self {
        Self { key: Some(ClientKey::connection()), ..self }
    }

    /// Marks what a message says of the client's roots.
    fn mark(&mut self, message: &mut ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(message) => {
                let request = &mut message.request;
                request.extensions_mut().insert(Received::now());
                if let Some(key) = &self.key {
                    request.extensions_mut().insert(key.clone());
                }
                match request {
                    ClientRequest::InitializeRequest(initialize) => self.begin(initialize),
                    // No request is of that name. But a change that is not heard would leave the old list in force.
                    ClientRequest::CustomRequest(request)
                        if request.method == RootsListChanged::METHOD =>
                    {
                        self.change();
                    }
                    _ => {}
                }
                if let Some(connection) = &self.connection {
                    request.extensions_mut().insert(connection.clone());
                }
            }
            JsonRpcMessage::Notification(message) => {
                if let ClientNotification::RootsListChangedNotification(_) = message.notification {
                    self.change();
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Begins the client's session, and ends one that it began before.
    fn begin(&mut self, initialize: &InitializeRequest) {
        let roots = initialize.params.capabilities.roots.as_ref();
        let declared = roots.map_or(ClientCapabilities::without_roots(), |roots| {
            let list_changed = roots.list_changed == Some(true);
            ClientCapabilities::with_roots(RootsCapability { list_changed })
        });
        let key = ClientKey::of(&initialize.extensions).cloned();
        // Whoever knows another's session can not make it theirs.
        if self.connection.as_ref().is_some_and(|connection| connection.key != key) {
            return;
        }
        self.end();
        let session =
            self.guard.session_with_key(declared, key.as_ref()).map_err(|error| error.reason());
        self.connection = Some(Connection { session, key });
    }

    fn change(&self) {
        if let Some(Connection { session: Ok(session), .. }) = &self.connection {
            session.list_changed();
        }
    }

    fn end(&mut self) {
        if let Some(Connection { session: Ok(session), .. }) = self.connection.take() {
            session.close();
        }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for GuardedTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut message = self.inner.receive().await?;
        // No await from here on: whoever polls this may drop it, and the message would be lost.
        self.mark(&mut message);
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // Requests in flight hold the session, which would stay open with the last of them.
        self.end();
        if let Some(key) = &self.key {
            self.guard.cache().forget(key.account());
        }
        self.inner.close().await
    }
}

/// Its session.
impl<T> fmt::Debug for GuardedTransport<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedTransport")
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}
