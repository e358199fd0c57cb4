//! The `write_file` tool, which creates a text file or replaces its content.
//!
//! A write either replaces the whole content or changes nothing, except for a root that is a file,
//! which is written in place.

use mcp_roots_guard::{ContentHash, WriteOptions};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Call, ToolResult};
use super::changing::{ensure_small, if_unchanged, put};
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    /// A path, or a `file:` URI. Its directory must exist.
    path: String,
    /// Complete new content of the file.
    content: String,
    /// Refuse if the file has changed since this version was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    version: Option<ContentHash>,
}

#[tool_router(router = write_file_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Write File",
        description = "Creates a file with the given content, or replaces an existing file without \
                       confirmation. To change parts of a file, use edit_file.",
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = true)
    )]
    async fn write_file(Parameters(args): Parameters<WriteFile>, call: Call) -> ToolResult {
        call.change(move |roots, _| {
            let WriteFile { path, content, version } = args;
            ensure_small(&content)?;
            let options = version.map_or_else(WriteOptions::default, if_unchanged);
            let written = format!("Wrote {} bytes to {path}", content.len());
            let version = ContentHash::of(content.as_bytes());
            put(&roots.check(&path)?, &content, options)?;
            Ok((written, Some(version)))
        })
        .await
    }
}
