//! The `move_file` tool, which renames a file, symlink or directory, and never replaces anything.

use mcp_roots_guard::Precondition;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};

use super::call::{Call, ToolResult, TwoPaths};
use crate::server::Server;

#[tool_router(router = move_file_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Move File",
        description = "Moves or renames a file, or a directory with its contents. Fails if the \
                       destination exists. A symlink is moved without being followed.",
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = false)
    )]
    async fn move_file(Parameters(args): Parameters<TwoPaths>, call: Call) -> ToolResult {
        call.change(move |roots, _| {
            roots.rename(&args.source, &args.destination, Precondition::Missing)?;
            Ok((format!("Moved {} to {}", args.source, args.destination), None))
        })
        .await
    }
}
