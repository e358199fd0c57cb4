//! The `delete_path` tool, which deletes a file, a symlink or a directory.
//!
//! A symlink is deleted and never followed. A directory is deleted with its entries only on request.
//! If a protected name is among them, nothing is deleted. An allowed directory itself is never
//! deleted. If a recursive deletion is interrupted, what was deleted so far is gone.

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{ContentHash, ErrorKind, FileType, Precondition};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Call, ToolResult, Work};
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeletePath {
    /// A path, or a `file:` URI.
    path: String,
    /// Delete a directory with everything in it.
    #[serde(default)]
    recursive: bool,
    /// Refuse if the file has changed since this version was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    version: Option<ContentHash>,
}

#[tool_router(router = delete_path_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Delete File or Directory",
        description = "Deletes a file, a symlink (not its target) or an empty directory, or with \
                       recursive one with everything in it. It cannot be undone.",
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = false)
    )]
    async fn delete_path(Parameters(args): Parameters<DeletePath>, call: Call) -> ToolResult {
        call.change(move |roots, _| Ok((delete(roots, &args)?, None))).await
    }
}

fn delete(roots: &RequestRoots, args: &DeletePath) -> Work {
    let DeletePath { path, recursive, version } = args;
    if let Some(version) = version {
        if *recursive {
            let why = "a version is that of a file, and only a directory is deleted recursively";
            return Err(HandlerError::new(format!("{why}: omit one of them")));
        }
        let mut changes = roots.change_set();
        changes.remove_file(path, Precondition::Unchanged(*version))?;
        changes.commit()?;
        return Ok(format!("Deleted {path}"));
    }
    let entry = roots.check_entry(path)?;
    let deleted = match entry.metadata()?.file_type() {
        FileType::Directory if *recursive => entry.remove_dir_all(),
        FileType::Directory => entry.remove_dir(),
        _ => entry.remove_file(),
    };
    match deleted {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && !recursive => {
            Err(HandlerError::new(format!("{error}; to delete everything in it, set recursive")))
        }
        deleted => Ok(deleted.map(|()| format!("Deleted {path}"))?),
    }
}
