//! A transport of rust-mcp-sdk whose messages are observed before the SDK handles them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mcp_roots_guard::Observer;
use rust_mcp_sdk::schema::RequestId;
use rust_mcp_sdk::schema::schema_utils::{
    ClientMessage, ClientMessages, MessageFromServer, ServerMessage, ServerMessages,
};
use rust_mcp_sdk::{
    IoStream, McpDispatch, MessageDispatcher, SessionId, Transport,
    TransportDispatcher as Dispatcher, TransportResult,
};
use tokio::sync::{RwLock, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

/// A transport of a server.
pub trait ClientTransport:
    Dispatcher<ClientMessages, MessageFromServer, ClientMessage, ServerMessages, ServerMessage>
{
}

impl<T> ClientTransport for T where
    T: Dispatcher<ClientMessages, MessageFromServer, ClientMessage, ServerMessages, ServerMessage>
{
}

/// Passes each message to an [`Observer`] before the SDK receives it. The wrapped transport does
/// everything else.
pub struct ObservedTransport<T> {
    inner: T,
    observer: Observer,
}

impl<T> ObservedTransport<T> {
    pub fn new(inner: T, observer: Observer) -> Self {
        Self { inner, observer }
    }
}

#[async_trait]
impl<T> Transport<ClientMessages, MessageFromServer, ClientMessage, ServerMessages, ServerMessage>
    for ObservedTransport<T>
where
    T: ClientTransport,
{
    async fn start(&self) -> TransportResult<ReceiverStream<ClientMessages>> {
        let mut messages = self.inner.start().await?;
        let observer = self.observer.clone();
        let (sender, observed) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                // A message that cannot be serialized must count as a change. `?` is not a message.
                let json = serde_json::to_vec(&message).unwrap_or_else(|_| b"?".to_vec());
                observer.observe(&json);
                if sender.send(message).await.is_err() {
                    break;
                }
            }
        });
        Ok(ReceiverStream::new(observed))
    }

    fn message_sender(&self) -> Arc<RwLock<Option<MessageDispatcher<ClientMessage>>>> {
        self.inner.message_sender()
    }

    fn error_stream(&self) -> &RwLock<Option<IoStream>> {
        self.inner.error_stream()
    }

    async fn shut_down(&self) -> TransportResult<()> {
        self.inner.shut_down().await
    }

    async fn is_shut_down(&self) -> bool {
        self.inner.is_shut_down().await
    }

    async fn consume_string_payload(&self, payload: &str) -> TransportResult<()> {
        self.inner.consume_string_payload(payload).await
    }

    async fn pending_request_tx(&self, id: &RequestId) -> Option<oneshot::Sender<ClientMessage>> {
        self.inner.pending_request_tx(id).await
    }

    async fn keep_alive(
        &self,
        interval: Duration,
        disconnected: oneshot::Sender<()>,
    ) -> TransportResult<JoinHandle<()>> {
        self.inner.keep_alive(interval, disconnected).await
    }

    async fn session_id(&self) -> Option<SessionId> {
        self.inner.session_id().await
    }
}

#[async_trait]
impl<T: ClientTransport> McpDispatch<ClientMessages, ServerMessages, ClientMessage, ServerMessage>
    for ObservedTransport<T>
{
    async fn send_message(
        &self,
        message: ServerMessages,
        timeout: Option<Duration>,
    ) -> TransportResult<Option<ClientMessages>> {
        self.inner.send_message(message, timeout).await
    }

    async fn send(
        &self,
        message: ServerMessage,
        timeout: Option<Duration>,
    ) -> TransportResult<Option<ClientMessage>> {
        self.inner.send(message, timeout).await
    }

    async fn send_batch(
        &self,
        messages: Vec<ServerMessage>,
        timeout: Option<Duration>,
    ) -> TransportResult<Option<Vec<ClientMessage>>> {
        self.inner.send_batch(messages, timeout).await
    }

    async fn write_str(&self, payload: &str, skip_store: bool) -> TransportResult<()> {
        self.inner.write_str(payload, skip_store).await
    }
}

impl<T: ClientTransport>
    Dispatcher<ClientMessages, MessageFromServer, ClientMessage, ServerMessages, ServerMessage>
    for ObservedTransport<T>
{
}
