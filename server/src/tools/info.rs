//! The tools `get_file_info` and `list_allowed_directories`. Neither opens a file.

use std::time::SystemTime;

use jiff::Timestamp;
use mcp_roots_guard::{Access, Metadata, Root, Roots};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};

use super::call::{Call, OnePath, ToolResult, shown};
use crate::replaced::ConfinedDirectories;
use crate::server::Server;

#[tool_router(router = info_tools, vis = "pub(super)")]
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

    #[tool(
        title = "List Allowed Directories",
        description = "Lists the directories and files that the other tools can access, whether or \
                       not they exist now. Access to a directory includes everything beneath it, \
                       except protected names. What is in several entries has the access of the \
                       innermost one, which is writable unless it is marked read-only. \
                       Relative paths are resolved against the first entry, and refused if the \
                       client lists roots but none of them is available. An entry that is always \
                       in force does not depend on the client's roots.",
        annotations(read_only_hint = true)
    )]
    async fn list_allowed_directories(call: Call) -> ToolResult {
        // Nothing is looked at, because a filesystem can hang. So this takes no slot.
        let confined = call.server.confined.clone();
        call.asynchronous(async move |roots| Ok(allowed_directories(&roots, &confined))).await
    }
}

/// The roots, one on each line, as the tool `list_allowed_directories` shows them.
#[must_use]
pub fn allowed_directories(roots: &Roots, confined: &ConfinedDirectories) -> String {
    let paths: Vec<_> = roots.iter().map(|root| allowed(root, confined)).collect();
    if paths.is_empty() {
        return "No directories are allowed".into();
    }
    format!("Allowed directories:\n{}", paths.join("\n"))
}

/// The root's path as its client wrote it, and remarks.
fn allowed(root: &Root, confined: &ConfinedDirectories) -> String {
    let remarks = [
        (root.is_file(), "a file"),
        (root.access() == Access::ReadOnly, "read-only"),
        (root.is_always(), "always in force"),
        (confined.is_replaced(root.path()), "replaced: the server must be restarted"),
    ];
    let remarks: Vec<_> =
        remarks.into_iter().filter(|(applies, _)| *applies).map(|(_, remark)| remark).collect();
    let path = shown(root.client_path());
    if remarks.is_empty() { path } else { format!("{path} ({})", remarks.join(", ")) }
}

fn described(metadata: &Metadata) -> String {
    let permissions =
        metadata.mode().map_or_else(|| UNKNOWN.into(), |mode| format!("{:03o}", mode & 0o777));
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
