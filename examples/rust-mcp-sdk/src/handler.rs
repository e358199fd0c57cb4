//! The server's only tool.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_roots_guard::{Error, Observer, RootsResponse, Session};
use rust_mcp_sdk::McpServer;
use rust_mcp_sdk::mcp_server::ServerHandler;
use rust_mcp_sdk::schema::schema_utils::CallToolError;
use rust_mcp_sdk::schema::{CallToolRequestParams, CallToolResult, ContentBlock};
use serde_json::Value;

/// The largest file that the tool returns, in bytes.
const LIMIT: u64 = 1 << 20;

/// The tool `read_file`, which reads a text file in the client's roots.
pub struct FileTools {
    observer: Observer,
}

impl FileTools {
    pub fn new(observer: Observer) -> Self {
        Self { observer }
    }
}

#[async_trait]
impl ServerHandler for FileTools {
    async fn handle_call_tool_request(
        &self,
        call: CallToolRequestParams,
        client: Arc<dyn McpServer>,
    ) -> Result<CallToolResult, CallToolError> {
        let session = self.observer.session().map_err(CallToolError::new)?;
        read_file(session, &call, client).await
    }
}

/// Handles a call of `read_file`.
pub async fn read_file(
    session: Session,
    call: &CallToolRequestParams,
    client: Arc<dyn McpServer>,
) -> Result<CallToolResult, CallToolError> {
    if call.name != "read_file" {
        return Err(CallToolError::unknown_tool(&call.name));
    }
    let path = call.arguments.as_ref().and_then(|arguments| arguments.get("path")?.as_str());
    let path = path.ok_or_else(|| CallToolError::from_message("path is missing"))?.to_owned();
    let text = read(session, path, client).await.map_err(CallToolError::new)?;
    Ok(CallToolResult {
        content: vec![ContentBlock::text_content(text)],
        is_error: None,
        meta: None,
        structured_content: None,
    })
}

async fn read(session: Session, path: String, client: Arc<dyn McpServer>) -> Result<String, Error> {
    let ask = |_: Option<String>| async {
        match client.request_root_list(None).await {
            Ok(list) => {
                RootsResponse::from_result(serde_json::to_value(list).unwrap_or(Value::Null))
            }
            Err(error) => RootsResponse::Failed(error.to_string()),
        }
    };
    let roots = session.roots(ask).await?;
    // Reading blocks, so it must not run on a worker thread of the runtime.
    let read = tokio::task::spawn_blocking(move || roots.read_to_string(&path, LIMIT));
    read.await.map_err(std::io::Error::other)?
}
