//! The control server of the test. It differs in that the SDK's transport is not wrapped, and the
//! handler of the notification records the change. This looks equivalent, but is too late.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use mcp_roots_guard::{Access, Boundary, ClientCapabilities, Guard, Session};
use rust_mcp_sdk::mcp_server::ServerHandler;
use rust_mcp_sdk::schema::schema_utils::CallToolError;
use rust_mcp_sdk::schema::{CallToolRequestParams, CallToolResult, NotificationParams, RpcError};
use rust_mcp_sdk::{McpServer, StdioTransport, TransportOptions};
use rust_mcp_sdk_server::{read_file, serve};

struct MarkInHandler {
    guard: Guard,
    session: OnceLock<Session>,
}

impl MarkInHandler {
    fn session(&self, client: &dyn McpServer) -> &Session {
        self.session.get_or_init(|| {
            let client = client.client_info().expect("the client is initialized");
            let declared = serde_json::to_value(client.capabilities).expect("valid JSON");
            let declared: ClientCapabilities = serde_json::from_value(declared).expect("an object");
            self.guard.session(declared).expect("a session")
        })
    }
}

#[async_trait]
impl ServerHandler for MarkInHandler {
    async fn handle_roots_list_changed_notification(
        &self,
        _: Option<NotificationParams>,
        client: Arc<dyn McpServer>,
    ) -> Result<(), RpcError> {
        self.session(&*client).list_changed();
        Ok(())
    }

    async fn handle_call_tool_request(
        &self,
        call: CallToolRequestParams,
        client: Arc<dyn McpServer>,
    ) -> Result<CallToolResult, CallToolError> {
        let session = self.session(&*client).clone();
        read_file(session, &call, client).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: mark-in-handler DIRECTORY")?;
    let boundary = Boundary::builder().directory(directory, Access::ReadOnly).build()?;
    let handler = MarkInHandler { guard: Guard::new(boundary), session: OnceLock::new() };
    Ok(serve(StdioTransport::new(TransportOptions::default())?, handler).await?)
}
