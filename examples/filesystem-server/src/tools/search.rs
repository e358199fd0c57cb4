//! The tool that finds files by name.
//!
//! Goes in: a directory, a glob for the path from there, and what to leave out. Comes out: the full paths that match, a line each. What is
//! true after: all beneath the directory was looked at, or the answer says what was not. A link is found by its own name, and not followed.

use std::path::Path;

use mcp_roots_guard::Intent;
use mcp_roots_guard::limits::WALK_ENTRIES;
use mcp_roots_guard::rmcp::RequestRoots;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Answered, Call, Lines, Work, is_plain, shown, text_schema};
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
        title = "EntryResolver Files",
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
    let top_path = top.root().path().join(top.relative());
    let (mut lines, mut found) = (Lines::default(), 0_usize);
    let (mut unreadable, mut remarks) = (0_usize, Vec::new());
    for step in Steps::new(&top, &args.exclude_patterns, roots, progress)? {
        match step? {
            Step::Entry(entry) if pattern.matches(&entry.path()) => {
                if found == MATCHES {
                    remarks.push(format!(
                        "There are more matches: only {MATCHES} are told; narrow the pattern"
                    ));
                    break;
                }
                found += 1;
                if !lines.push(&named(roots, &top_path.join(entry.path()))) {
                    break;
                }
            }
            Step::Entry(_) => {}
            Step::Unreadable(_) => unreadable += 1,
            Step::Full => remarks
                .push(format!("Only {WALK_ENTRIES} entries were looked at; search further down")),
        }
    }
    if unreadable > 0 {
        remarks.push(format!("Directories that could not be listed: {unreadable}"));
    }
    if found == 0 {
        lines.push("No matches found");
    }
    Ok(lines.finish(remarks))
}

/// A path that another call can name: as it is, or where that can not stand in a line, as a URI.
fn named(roots: &RequestRoots, path: &Path) -> String {
    if is_plain(path.as_os_str()) {
        return path.display().to_string();
    }
    roots.check(path, Intent::NoFollow).map_or_else(|_| shown(path), |checked| checked.uri())
}

/// More paths are no answer to a question.
const MATCHES: usize = 1_000;
