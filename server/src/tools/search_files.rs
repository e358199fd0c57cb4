//! The `search_files` tool, which finds files and directories by path.
//!
//! It returns the matching paths, one per line. If it could not search everything beneath the
//! directory, the result says so. A symlink is matched by its own name and not followed.

use mcp_roots_guard::limits::WALK_BYTES;
use mcp_roots_guard::rmcp::RequestRoots;
use mcp_roots_guard::{DirEntry, WalkOptions};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::Limit;
use super::call::{Call, Lines, Progress, ToolResult, Work, is_plain};
use super::globs::Globs;
use super::steps::Steps;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SearchFiles {
    /// Directory to search: a path, or a `file:` URI.
    path: String,
    /// Glob for paths relative to that directory: `*.rs` matches in the directory itself, and
    /// `**/*.rs` matches at any depth.
    pattern: String,
    /// Globs for entries to exclude with everything beneath them; without `*`, a name at any depth.
    #[serde(default)]
    exclude_patterns: Vec<String>,
    /// Omit entries that git ignores.
    #[serde(default)]
    respect_gitignore: bool,
}

#[tool_router(router = search_files_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Search Files",
        description = "Finds files and directories whose path matches a glob, and returns their \
                       full paths. *.ext matches in the directory itself, and **/*.ext matches at \
                       any depth. To search contents, use search_content.",
        annotations(read_only_hint = true)
    )]
    async fn search_files(Parameters(args): Parameters<SearchFiles>, call: Call) -> ToolResult {
        let most = call.server.search_entries;
        call.long(WALK_BYTES, move |roots, progress| search(roots, progress, &args, most)).await
    }
}

fn search(roots: &RequestRoots, progress: &Progress, args: &SearchFiles, most: usize) -> Work {
    let pattern = Globs::one(&args.pattern)?;
    let top = roots.check(&args.path)?;
    let plain = WalkOptions::default().max_entries(most);
    let options = if args.respect_gitignore { plain.git_ignore() } else { plain };
    let mut steps = Steps::new(&top, options, &args.exclude_patterns, progress)?;
    let (mut lines, mut found, mut remarks) = (Lines::default(), 0_usize, Vec::new());
    while let Some(entry) = steps.next_entry()? {
        if !pattern.matches(&entry.relative()) {
            continue;
        }
        if found == MATCHES {
            remarks.push(format!(
                "There are more matches: only {MATCHES} are listed; narrow the pattern"
            ));
            break;
        }
        found += 1;
        if !lines.push(&named(&entry)) {
            break;
        }
    }
    if steps.is_full {
        remarks.push(format!("Only the first {most} entries were searched; search a subdirectory"));
    }
    let unreadable = steps.unreadable().len();
    if unreadable > 0 {
        remarks.push(format!("Directories that could not be listed: {unreadable}"));
    }
    if found == 0 {
        lines.push("No matches found");
    }
    Ok(lines.finish(remarks))
}

/// Formats a path so that it can be passed to another tool: unchanged, or as a URI if it cannot be
/// part of a line.
fn named(entry: &DirEntry) -> String {
    let entry = entry.to_entry();
    let path = entry.to_unguarded_path();
    if is_plain(path.as_os_str()) { path.display().to_string() } else { entry.uri() }
}

/// The maximum number of matches: more would not be useful.
const MATCHES: usize = 1_000;

pub(super) fn limits() -> Vec<Limit> {
    vec![("matches of search_files", MATCHES.to_string())]
}
