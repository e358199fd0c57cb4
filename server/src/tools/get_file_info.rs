//! The tool `get_file_info`, which does not open the file.

use std::time::SystemTime;

use jiff::Timestamp;
use mcp_roots_guard::Metadata;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};

use super::call::{Call, OnePath, ToolResult};
use crate::server::Server;

#[tool_router(router = get_file_info_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Get File Info",
        description = "Returns the size, times (UTC), type and permissions of a file or directory. \
                       Follows symlinks inside the allowed directories.",
        annotations(read_only_hint = true)
    )]
    async fn get_file_info(Parameters(args): Parameters<OnePath>, call: Call) -> ToolResult {
        call.text(move |roots, _| Ok(described(&roots.metadata(&args.path)?))).await
    }
}

fn described(metadata: &Metadata) -> String {
    let permissions = metadata
        .permission_bits()
        .map_or_else(|| UNKNOWN.into(), |mode| format!("{:03o}", mode & 0o777));
    [
        ("size", metadata.len().to_string()),
        ("created", time(metadata.created())),
        ("modified", time(metadata.modified())),
        ("accessed", time(metadata.accessed())),
        ("isDirectory", metadata.file_type().is_dir().to_string()),
        ("isFile", metadata.file_type().is_file().to_string()),
        ("permissions", permissions),
    ]
    .map(|(key, value)| format!("{key}: {value}"))
    .join("\n")
}

/// Formats a time as in RFC 3339. Returns [`UNKNOWN`] if there is no time, or if it is outside the
/// calendar's range, which the owner of a file can cause.
fn time(time: Option<SystemTime>) -> String {
    let time = time.and_then(|time| Timestamp::try_from(time).ok());
    time.map_or_else(|| UNKNOWN.into(), |time| time.to_string())
}

const UNKNOWN: &str = "unknown";
