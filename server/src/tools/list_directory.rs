//! The tool `list_directory`.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};

use super::call::{Call, OnePath, ToolResult, shown};
use super::listing::{ListEntry, lines, listing};
use crate::server::Server;

#[tool_router(router = list_directory_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "List Directory",
        description = "Lists the entries of a directory, sorted by name and prefixed with [DIR] or \
                       [FILE].",
        annotations(read_only_hint = true)
    )]
    async fn list_directory(Parameters(args): Parameters<OnePath>, call: Call) -> ToolResult {
        call.text(move |roots, _| {
            let (entries, remarks) = listing(roots, &args.path, false)?;
            let line = |entry: &ListEntry| format!("{} {}", entry.label(), shown(&entry.name));
            Ok(lines(&entries, line).finish(remarks))
        })
        .await
    }
}
