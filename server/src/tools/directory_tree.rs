//! The `directory_tree` tool, which returns a directory tree as JSON.
//!
//! The tree is never truncated. A directory that could not be listed has an `error`. A symlink is not
//! followed, and has the type `file`.

use mcp_roots_guard::WalkOptions;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{ANSWER, Call, Progress, ToolResult, Work};
use super::listing::ENTRIES;
use super::steps::Steps;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DirectoryTree {
    /// A path inside the allowed directories, or a `file:` URI.
    path: String,
    /// Globs for entries to exclude, with everything beneath them. A glob without `*` excludes
    /// entries with that name at any depth.
    #[serde(default)]
    exclude_patterns: Vec<String>,
}

#[tool_router(router = directory_tree_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Directory Tree",
        description = "Returns everything beneath a directory as JSON: an array of entries with \
                       name, type (file or directory) and, for directories only, children.",
        annotations(read_only_hint = true)
    )]
    async fn directory_tree(Parameters(args): Parameters<DirectoryTree>, call: Call) -> ToolResult {
        call.long(move |roots, progress| tree(roots, progress, &args)).await
    }
}

/// An entry of the tree.
#[derive(serde::Serialize)]
struct Node {
    name: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<Node>>,
    /// The reason why the children are missing or incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn tree(roots: &RequestRoots, progress: &Progress, args: &DirectoryTree) -> Work {
    let top = roots.check(&args.path)?;
    let options = WalkOptions::default();
    let mut steps = Steps::new(&top, options, &args.exclude_patterns, roots, progress)?;
    // The most recent entry and the directories above it, from the top.
    let mut open = vec![Node::new(String::new(), true)];
    let (mut count, mut unreadable) = (0, 0);
    loop {
        let next = steps.next_entry()?;
        let error = steps.unreadable().get(unreadable);
        if let Some((directory, error)) = open.last_mut().zip(error) {
            directory.error = Some(error.to_string());
            unreadable += 1;
        }
        let Some(entry) = next else { break };
        count += 1;
        if count > ENTRIES {
            break;
        }
        close(&mut open, entry.relative().components().count());
        let name = entry.file_name().to_string_lossy().into_owned();
        open.push(Node::new(name, entry.file_type().is_dir()));
    }
    if steps.is_full || count > ENTRIES {
        return Err(too_large(format!("{ENTRIES} entries")));
    }
    close(&mut open, 1);
    let nodes = open.pop().and_then(|top| top.children);
    let json = serde_json::to_string_pretty(&nodes).map_err(HandlerError::other)?;
    if json.len() > ANSWER {
        return Err(too_large(format!("{ANSWER} bytes")));
    }
    Ok(json)
}

fn too_large(limit: impl std::fmt::Display) -> HandlerError {
    let advice = "request a subdirectory, or exclude entries with excludePatterns";
    HandlerError::new(format!("the tree has more than {limit}: {advice}"))
}

impl Node {
    fn new(name: String, is_directory: bool) -> Self {
        let kind = if is_directory { "directory" } else { "file" };
        Self { name, r#type: kind, children: is_directory.then(Vec::new), error: None }
    }
}

/// Adds entries to the directories above them until `left` are open.
fn close(open: &mut Vec<Node>, left: usize) {
    while open.len() > left
        && let Some(node) = open.pop()
        && let Some(parent) = open.last_mut()
    {
        parent.children.get_or_insert_default().push(node);
    }
}
