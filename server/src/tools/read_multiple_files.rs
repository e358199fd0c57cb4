//! The tool `read_multiple_files`. All its files together have the limit of a single one.

use mcp_roots_guard::ErrorKind;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::Limit;
use super::call::{Call, ToolResult, Work, at_most};
use super::reading::{TEXT, WHOLE, advised};
use crate::memory::Room;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadMultiple {
    /// Paths inside the allowed directories, or `file:` URIs.
    #[schemars(length(min = 1, max = PATHS))]
    paths: Vec<String>,
}

#[tool_router(router = read_multiple_files_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Read Multiple Files",
        description = "Reads several text files in one call and returns each with its path. If a \
                       file cannot be read, the result has an error in its place, and the other \
                       files are still read.",
        annotations(read_only_hint = true)
    )]
    async fn read_multiple_files(
        Parameters(args): Parameters<ReadMultiple>,
        call: Call,
    ) -> ToolResult {
        call.text(move |roots, room| read_multiple(roots, room, &args.paths)).await
    }
}

fn read_multiple(roots: &RequestRoots, room: &Room, paths: &[String]) -> Work {
    if paths.is_empty() {
        return Err(HandlerError::new("paths is empty: at least one path is required"));
    }
    at_most(PATHS, paths.len(), "paths")?;
    let (mut parts, mut left) = (Vec::new(), TEXT);
    for path in paths {
        roots.ensure_usable()?;
        if let Err(error) = room.for_file(roots, path, left) {
            parts.push(format!("{path}: Error - {error}"));
            continue;
        }
        parts.push(match roots.read_to_string(path, left) {
            Ok(content) => {
                left = left.saturating_sub(u64::try_from(content.len()).unwrap_or(u64::MAX));
                format!("{path}:\n{content}\n")
            }
            Err(error) if error.kind() == ErrorKind::TooLarge && fits(roots, path) => {
                let advice = "the preceding files fill this result; read it in another call";
                format!("{path}: Error - {error}: {advice}")
            }
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                format!("{path}: Error - larger than {TEXT} bytes; {WHOLE}")
            }
            Err(error) => format!("{path}: Error - {}", advised(error, WHOLE)),
        });
    }
    Ok(parts.join("\n---\n"))
}

/// Whether the file is small enough to be read in a separate call.
fn fits(roots: &RequestRoots, path: &str) -> bool {
    roots.metadata(path).is_ok_and(|metadata| metadata.len() <= TEXT)
}

/// The maximum number of paths in a call. For more files, a search is more useful.
const PATHS: usize = 100;

pub(super) fn limits() -> Vec<Limit> {
    vec![("files in read_multiple_files", PATHS.to_string())]
}
