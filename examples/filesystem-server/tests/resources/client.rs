//! A client with roots, connected through an in-memory pipe.

// Roots and `resources/subscribe` are deprecated in the protocol.
#![allow(deprecated)]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filesystem_server::server::Server;
use rmcp::ErrorData;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ListRootsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, Resource, ResourceUpdatedNotificationParam, Root,
    SubscribeRequestParams, UnsubscribeRequestParams,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt as _, NotificationContext, RequestContext, RoleClient,
    RunningService, ServiceError, ServiceExt as _,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Session,
    Stateless,
}

/// The roots capability that a client declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declares {
    Nothing,
    Roots,
    Changes,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Updated(String),
    ListChanged,
}

pub(crate) struct Client {
    pub(crate) peer: RunningService<RoleClient, Handler>,
    told: UnboundedReceiver<Told>,
}

#[derive(Clone)]
pub(crate) struct Handler {
    declares: Declares,
    roots: Arc<Mutex<Vec<String>>>,
    tell: UnboundedSender<Told>,
}

impl Client {
    pub(crate) async fn new(
        server: &Server,
        era: Era,
        declares: Declares,
        roots: &[&Path],
    ) -> Self {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (server, transport) = (server.clone(), server.guard().wrap_one_client(far));
        tokio::spawn(async move { server.serve(transport).await.unwrap().waiting().await });
        let (tell, told) = unbounded_channel();
        let handler = Handler { declares, roots: Arc::default(), tell };
        handler.set(roots);
        let mode = match era {
            Era::Session => ClientLifecycleMode::Initialize,
            Era::Stateless => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        };
        Self { peer: handler.serve_with_lifecycle(near, mode).await.unwrap(), told }
    }

    /// Changes the roots, and notifies the server.
    pub(crate) async fn change(&self, roots: &[&Path]) {
        self.peer.service().set(roots);
        self.peer.notify_roots_list_changed().await.unwrap();
    }

    /// A page of resources, and the next cursor.
    pub(crate) async fn page(
        &self,
        cursor: Option<String>,
    ) -> Result<(Vec<Resource>, Option<String>), i32> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = self.peer.list_resources(Some(params)).await.map_err(code)?;
        Ok((page.resources, page.next_cursor))
    }

    /// The URIs of all pages.
    pub(crate) async fn uris(&self) -> Vec<String> {
        let (mut uris, mut cursor) = (Vec::new(), None);
        loop {
            let (page, next) = self.page(cursor).await.unwrap();
            uris.extend(page.into_iter().map(|resource| resource.uri));
            match next {
                Some(next) => cursor = Some(next),
                None => return uris,
            }
        }
    }

    pub(crate) async fn read(&self, uri: &str) -> Result<serde_json::Value, ErrorData> {
        match self.peer.read_resource(ReadResourceRequestParams::new(uri)).await {
            Ok(result) => Ok(serde_json::to_value(result).unwrap()),
            Err(ServiceError::McpError(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn subscribe(&self, uri: &str) -> Result<(), i32> {
        self.peer.subscribe(SubscribeRequestParams::new(uri)).await.map_err(code)
    }

    pub(crate) async fn unsubscribe(&self, uri: &str) {
        self.peer.unsubscribe(UnsubscribeRequestParams::new(uri)).await.unwrap();
    }

    /// Waits for the next notification, for less than the server's polling interval.
    pub(crate) async fn told(&mut self) -> Told {
        self.told_within(Duration::from_secs(6)).await
    }

    pub(crate) async fn told_within(&mut self, time: Duration) -> Told {
        tokio::time::timeout(time, self.told.recv()).await.unwrap().unwrap()
    }

    /// Waits for a short time, and panics if a notification arrives.
    pub(crate) async fn quiet(&mut self) {
        if let Ok(told) = tokio::time::timeout(Duration::from_millis(1_200), self.told.recv()).await
        {
            panic!("unexpected notification: {told:?}");
        }
    }
}

impl Handler {
    pub(crate) fn set(&self, roots: &[&Path]) {
        *self.roots.lock().unwrap() = roots.iter().map(|root| uri(root)).collect();
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = match self.declares {
            Declares::Nothing => ClientCapabilities::default(),
            Declares::Roots => ClientCapabilities::builder().enable_roots().build(),
            Declares::Changes => {
                ClientCapabilities::builder().enable_roots().enable_roots_list_changed().build()
            }
        };
        ClientConfig::new(capabilities, Implementation::new("test", "0"))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.lock().unwrap().iter().map(Root::new).collect()))
    }

    async fn on_resource_updated(
        &self,
        param: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.tell.send(Told::Updated(param.uri));
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.tell.send(Told::ListChanged);
    }
}

/// A path as a URI. Only `%` and spaces are escaped.
pub(crate) fn uri(path: &Path) -> String {
    crate::tree::uri(path).replace('%', "%25").replace(' ', "%20")
}

/// Returns the URI of a path that is outside the directories of all servers in these tests.
pub(crate) fn elsewhere(path: &str) -> String {
    format!("file:///{}{path}", if cfg!(windows) { "C:/" } else { "" })
}

pub(crate) fn code(error: ServiceError) -> i32 {
    match error {
        ServiceError::McpError(error) => error.code.0,
        error => panic!("{error}"),
    }
}
