//! The `append_file` tool, which adds text at the end of a file.
//!
//! The system adds the text wherever the file ends at that time (`O_APPEND`), so several appends
//! at once do not overwrite each other, and what was in the file stays there. It is not atomic: if
//! the device becomes full, a part of the text has been added, and the error says how much.

use std::fs::File;
use std::io::{ErrorKind, Write as _};

use mcp_roots_guard::OpenMode;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Call, ToolResult, Work};
use super::changing::ensure_small;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct AppendFile {
    /// A path, or a `file:` URI. Its directory must exist.
    path: String,
    /// Text to add, with its line endings.
    content: String,
}

#[tool_router(router = append_file_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Append to File",
        description = "Adds text at the end of a file, which is created if it does not exist.",
        annotations(read_only_hint = false, destructive_hint = false, idempotent_hint = false)
    )]
    async fn append_file(Parameters(args): Parameters<AppendFile>, call: Call) -> ToolResult {
        call.change(move |roots, _| Ok((append(roots, &args)?, None))).await
    }
}

fn append(roots: &RequestRoots, AppendFile { path, content }: &AppendFile) -> Work {
    ensure_small(content)?;
    let mut file = roots.open_with(path, OpenMode::Append)?.into_std();
    let mut left = content.as_bytes();
    let added = add(&mut file, &mut left).and_then(|()| file.sync_all());
    let (size, added_bytes) = (content.len(), content.len() - left.len());
    match added {
        Ok(()) => Ok(format!("Appended {size} bytes to {path}")),
        Err(error) => Err(HandlerError::new(format!(
            "append to {path:?}: {error}; {added_bytes} of {size} bytes were added"
        ))),
    }
}

/// Writes what is left, and removes from it what was written.
fn add(file: &mut File, left: &mut &[u8]) -> std::io::Result<()> {
    while !left.is_empty() {
        match file.write(left) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => *left = left.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
