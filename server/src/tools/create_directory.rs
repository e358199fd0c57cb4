//! The `create_directory` tool, which creates a directory and its missing parents.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};

use super::call::{Call, OnePath, ToolResult};
use crate::server::Server;

#[tool_router(router = create_directory_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Create Directory",
        description = "Creates a directory and its missing parents. Succeeds if the directory \
                       already exists.",
        annotations(read_only_hint = false, destructive_hint = false, idempotent_hint = true)
    )]
    async fn create_directory(Parameters(args): Parameters<OnePath>, call: Call) -> ToolResult {
        call.change(move |roots, _| {
            roots.create_dir_all(&args.path)?;
            Ok((format!("Directory {} exists", args.path), None))
        })
        .await
    }
}
