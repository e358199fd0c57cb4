//! The `directory_tree` tool, which returns a directory tree as JSON.
//!
//! A tree that is too large has only the levels that fit. A directory whose entries were left out is
//! marked with `truncated`, and one that could not be listed has an `error`. A symlink is not
//! followed, and has the type `file`.

use mcp_roots_guard::limits::WALK_BYTES;
use mcp_roots_guard::limits::{WALK_DEPTH, WALK_ENTRIES};
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, WalkOptions};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{ANSWER, Call, Progress, ToolResult, Work};
use super::listing::ENTRIES;
use super::steps::Steps;
use super::whole_number::WholeNumber;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DirectoryTree {
    /// A path, or a `file:` URI.
    path: String,
    /// Globs for entries to exclude with everything beneath them; without `*`, a name at any depth.
    #[serde(default)]
    exclude_patterns: Vec<String>,
    /// Number of levels: 1 for the directory's own entries. The default is as many as fit.
    #[serde(default)]
    depth: WholeNumber,
}

#[tool_router(router = directory_tree_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Directory Tree",
        description = "Returns everything beneath a directory as JSON: an array of entries with \
                       name, type (file or directory) and, for directories only, children. A \
                       directory whose children were left out has truncated: true.",
        annotations(read_only_hint = true)
    )]
    async fn directory_tree(Parameters(args): Parameters<DirectoryTree>, call: Call) -> ToolResult {
        call.long(WALK_BYTES, move |roots, progress| tree(roots, progress, &args)).await
    }
}

/// An entry of the tree.
#[derive(serde::Serialize)]
struct Node {
    name: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<Node>>,
    /// Whether the children were left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    /// The reason why the children are missing or incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn tree(roots: &RequestRoots, progress: &Progress, args: &DirectoryTree) -> Work {
    let top = roots.check(&args.path)?;
    let levels = |depth| levels(progress, &top, &args.exclude_patterns, depth);
    let depth = args.depth.get().and_then(|depth| usize::try_from(depth).ok());
    let depth = depth.unwrap_or(usize::MAX);
    if let Some(tree) = levels(depth)? {
        return Ok(tree);
    }
    // The greatest depth that fits is found by halving.
    let (mut tree, mut fits, mut too_deep) = (None, 0, depth.min(WALK_DEPTH));
    while too_deep - fits > 1 {
        let depth = usize::midpoint(fits, too_deep);
        match levels(depth)? {
            None => too_deep = depth,
            fitting => (tree, fits) = (fitting, depth),
        }
    }
    tree.ok_or_else(|| {
        HandlerError::new(format!(
            "the directory has more than {ENTRIES} entries, or they are larger than {ANSWER} \
             bytes: list it in pages with list_directory, or exclude entries with excludePatterns"
        ))
    })
}

/// The tree to a depth, unless it is too large.
fn levels(
    progress: &Progress,
    top: &CheckedPath,
    exclude: &[String],
    depth: usize,
) -> Work<Option<String>> {
    // Excluded entries do not count, but the walk counts them.
    let most = if exclude.is_empty() { ENTRIES } else { WALK_ENTRIES };
    let options = WalkOptions::default().max_depth(depth).max_entries(most);
    let mut steps = Steps::new(top, options, exclude, progress)?;
    // The most recent entry and the directories above it, from the top.
    let mut open = vec![Node::new(String::new(), true, false)];
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
            return Ok(None);
        }
        let level = entry.relative().components().count();
        close(&mut open, level);
        let name = entry.file_name().to_string_lossy().into_owned();
        open.push(Node::new(name, entry.file_type().is_dir(), level >= depth));
    }
    if steps.is_full {
        return Ok(None);
    }
    close(&mut open, 1);
    let nodes = open.pop().and_then(|top| top.children);
    let json = serde_json::to_string_pretty(&nodes).map_err(HandlerError::other)?;
    Ok(Some(json).filter(|json| json.len() <= ANSWER))
}

impl Node {
    fn new(name: String, is_dir: bool, is_last_level: bool) -> Self {
        Self {
            name,
            r#type: if is_dir { "directory" } else { "file" },
            children: is_dir.then(Vec::new),
            truncated: is_dir && is_last_level,
            error: None,
        }
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
