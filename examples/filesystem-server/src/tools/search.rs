//! The tool that finds files by name.
//!
//! Goes in: a directory, a glob for the path from there, and what to leave out. Comes out: the full paths that match, a line each. What is
//! true after: all beneath the directory was looked at, or the answer says what was not. A link is found by its own name, and not followed.

use std::path::Path;

use mcp_roots_guard::rmcp::RequestRoots;
use mcp_roots_guard::{Intent, WALK_ENTRIES};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Answered, Call, Work, shown, text_schema};
use super::globs::Globs;
use super::steps::{Step, Steps};
use crate::progress::Progress;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SearchFiles {
    /// Where to search: a path inside the allowed directories, or a `file:` URI.
    path: String,
    /// A glob for paths relative to that: `*.rs` is in it, `**/*.rs` anywhere beneath it.
    pattern: String,
    /// Globs of what to leave out, with all that is in it. One without * leaves out that name everywhere.
    #[serde(default)]
    exclude_patterns: Vec<String>,
}

#[tool_router(router = search_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Search Files",
        description = "Finds files and directories whose path matches a glob, and tells their full paths. *.ext matches in the directory \
                       itself, **/*.ext also in those beneath it. Contents are not searched.",
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn search_files(Parameters(args): Parameters<SearchFiles>, call: Call) -> Answered {
        call.long(move |roots, progress| search(roots, progress, &args)).await
    }
}

fn search(roots: &RequestRoots, progress: &Progress, args: &SearchFiles) -> Work {
    let pattern = Globs::one(&args.pattern)?;
    let top = roots.check(&args.path, Intent::Existing)?;
    let top_path = top.to_string();
    let (mut lines, mut unreadable, mut remarks) = (Vec::new(), 0_usize, Vec::new());
    for step in Steps::new(&top, &args.exclude_patterns, roots, progress)? {
        match step? {
            Step::Entry(entry) if pattern.matches(entry.path()) => {
                if lines.len() == MATCHES {
                    remarks.push(format!("There are more matches: only {MATCHES} are told; narrow the pattern"));
                    break;
                }
                lines.push(shown(Path::new(&top_path).join(entry.path())));
            }
            Step::Entry(_) => {}
            Step::Unreadable(_) => unreadable += 1,
            Step::Full => remarks.push(format!("Only {WALK_ENTRIES} entries were looked at; search further down")),
        }
    }
    if unreadable > 0 {
        remarks.push(format!("Directories that could not be listed: {unreadable}"));
    }
    if lines.is_empty() {
        lines.push("No matches found".into());
    }
    lines.append(&mut remarks);
    Ok(lines.join("\n"))
}

/// More paths are no answer to a question.
const MATCHES: usize = 1_000;
