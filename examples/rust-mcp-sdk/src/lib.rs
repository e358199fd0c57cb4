//! A file server that uses mcp-roots-guard with rust-mcp-sdk.
//!
//! rust-mcp-sdk reads standard input itself and handles each message in a separate task. A call can
//! therefore begin before the handler of an earlier `list_changed` runs. [`ObservedTransport`]
//! wraps the SDK's transport and records the change before the SDK sees the next message.

mod handler;
mod transport;

use std::sync::Arc;

use rust_mcp_sdk::error::SdkResult;
use rust_mcp_sdk::mcp_server::{McpServerOptions, ServerHandler, server_runtime};
use rust_mcp_sdk::schema::{
    Implementation, InitializeResult, ProtocolVersion, ServerCapabilities, ServerCapabilitiesTools,
};
use rust_mcp_sdk::{McpServer as _, ToMcpServerHandler as _};

pub use self::handler::{FileTools, read_file};
pub use self::transport::{ClientTransport, ObservedTransport};

/// Serves one client until its stream ends.
pub async fn serve(transport: impl ClientTransport, handler: impl ServerHandler) -> SdkResult<()> {
    let server_details = InitializeResult {
        server_info: Implementation {
            name: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            title: None,
            description: None,
            icons: Vec::new(),
            website_url: None,
        },
        capabilities: ServerCapabilities {
            tools: Some(ServerCapabilitiesTools { list_changed: None }),
            ..ServerCapabilities::default()
        },
        protocol_version: ProtocolVersion::V2025_11_25.into(),
        instructions: None,
        meta: None,
    };
    let server = server_runtime::create_server(McpServerOptions {
        server_details,
        transport,
        handler: handler.to_mcp_server_handler(),
        task_store: None,
        client_task_store: None,
        message_observer: None,
    });
    // Runs the loop that starts the handlers on a worker thread of the runtime, like the handlers.
    let served = tokio::spawn(Arc::clone(&server).start());
    served.await.map_err(std::io::Error::other)?
}
