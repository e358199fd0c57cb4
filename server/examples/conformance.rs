//! A server for the MCP conformance suite, over streamable HTTP. It has the tool for the scenario
//! `input-required-result-basic-list-roots`.
//!
//! Run it with `cargo run -p mcp-filesystem-guarded --example conformance -- DIRECTORY...`. It prints
//! its address to standard error. `.ci/interop/clients/run` runs the suite against it.

use std::sync::Arc;

use axum::Router;
use mcp_roots_guard::{Access, Boundary, Guard};
use rmcp::handler::server::tool::InputResponses;
use rmcp::model::CallToolResponse;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, tool, tool_router};
use tokio::net::TcpListener;

#[derive(Clone)]
struct Server {
    guard: Guard,
}

#[tool_router(server_handler)]
impl Server {
    /// Includes rejected entries in the result, because the suite's client lists a directory that
    /// does not exist.
    #[tool(description = "Lists the client's roots that are in force and those that are rejected")]
    async fn test_input_required_result_list_roots(
        &self,
        ctx: RequestContext<RoleServer>,
        answers: InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        let work = |roots: mcp_roots_guard::rmcp::RequestRoots| {
            let granted = roots.iter().map(|root| format!("{}: in force", root.client_path()));
            let rejected = roots
                .rejected()
                .iter()
                .map(|entry| format!("{}: {}", entry.entry(), entry.error()));
            Ok(granted.chain(rejected).collect::<Vec<_>>().join("\n"))
        };
        self.guard.tool(&ctx, answers, work).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let boundary = std::env::args().skip(1).fold(Boundary::builder(), |boundary, directory| {
        boundary.directory(directory, Access::ReadOnly)
    });
    let server = Server { guard: Guard::new(boundary.build()?) };
    let sessions = Arc::new(server.guard.wrap_sessions(LocalSessionManager::default()));
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        sessions,
        StreamableHttpServerConfig::default(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("conformance: http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, Router::new().route_service("/mcp", service)).await?;
    Ok(())
}
