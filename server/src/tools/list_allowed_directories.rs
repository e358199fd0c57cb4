//! The tool `list_allowed_directories`, which looks at none of them.

use mcp_roots_guard::{Access, Root, Roots};
use rmcp::{tool, tool_router};

use super::call::{Call, ToolResult, shown};
use crate::replaced::ConfinedDirectories;
use crate::server::Server;

#[tool_router(router = list_allowed_directories_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "List Allowed Directories",
        description = "Lists the directories and files that the other tools can access, whether or \
                       not they exist now. Access to a directory includes everything beneath it, \
                       except protected names. What is in several entries has the access of the \
                       innermost one, which is writable unless it is marked read-only. \
                       Relative paths are resolved against the first entry, and refused if the \
                       client lists roots but none of them is available.",
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
        (confined.is_replaced(root.path()), "replaced: the server must be restarted"),
    ];
    let remarks: Vec<_> =
        remarks.into_iter().filter(|(applies, _)| *applies).map(|(_, remark)| remark).collect();
    let path = shown(root.client_path());
    if remarks.is_empty() { path } else { format!("{path} ({})", remarks.join(", ")) }
}
