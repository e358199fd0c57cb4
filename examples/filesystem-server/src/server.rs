//! One server for all clients of a transport.

use std::sync::Arc;

use axum::Router;
use mcp_roots_guard::Guard;
use rmcp::handler::server::ServerHandler;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::tool_handler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

/// Serves files through its guard.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) guard: Guard,
    tools: Arc<ToolRouter<Self>>,
}

impl Server {
    /// A server of what the guard grants.
    #[must_use]
    pub fn new(guard: Guard) -> Self {
        Self { guard, tools: Arc::new(Self::all_tools()) }
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Reads and writes files in the allowed directories; list_allowed_directories tells them.",
            )
    }
}

/// The server over streamable HTTP, under `/mcp`.
pub fn http(guard: &Guard) -> Router {
    let sessions = Arc::new(guard.wrap_sessions(LocalSessionManager::default()));
    let server = Server::new(guard.clone());
    let service =
        StreamableHttpService::new(move || Ok(server.clone()), sessions, StreamableHttpServerConfig::default());
    Router::new().route_service("/mcp", service)
}
