//! The tools of the reference filesystem server, with the same names, parameters, annotations and
//! result formats, and tools that run programs. README.md lists the differences in behavior.

mod call;
mod globs;
mod steps;
mod text;
mod replace;
mod read;
mod write;
mod copy;
mod edit;
mod edit_files;
mod patch_format;
mod hunks;
mod patch;
mod append;
mod delete;
mod list;
mod tree;
mod search;
mod info;
mod git;
mod run;

use mcp_roots_guard::limits::CHANGES;
use rmcp::handler::server::router::tool::ToolRouter;

pub(crate) use self::call::ANSWER;
pub use self::info::allowed_directories;

use crate::programs::Programs;
use crate::server::Server;

impl Server {
    /// The tools that change files.
    pub(crate) fn changing_tools() -> ToolRouter<Self> {
        Self::write_tools()
            + Self::append_tools()
            + Self::delete_tools()
            + Self::copy_tools()
            + Self::edit_tools()
            + Self::edit_files_tools()
            + Self::patch_tools()
    }

    /// The tools that a server with these programs offers.
    pub(crate) fn all_tools(programs: &Programs) -> ToolRouter<Self> {
        let mut tools = Self::read_tools()
            + Self::changing_tools()
            + Self::list_tools()
            + Self::tree_tools()
            + Self::search_tools()
            + Self::info_tools();
        if programs.git {
            tools += Self::git_tools();
        }
        if !programs.run.is_empty() {
            tools += Self::run_tools();
        }
        for tool in tools.map.values_mut().map(|route| &mut route.attr) {
            tool.output_schema.get_or_insert_with(call::text_schema);
            if let Some(hints) = &mut tool.annotations {
                hints.open_world_hint = Some(false);
            }
        }
        tools
    }
}

/// The limits of the tools, each with its value, as in README's table.
#[must_use]
pub fn limits(search_entries: usize) -> Vec<(&'static str, String)> {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    vec![
        ("text that a tool returns", mib(TEXT)),
        ("file for read_media_file or as a resource, content to write", mib(LIMIT)),
        ("file to edit or to patch", mib(edit::BYTES)),
        ("edits in a call", edit::EDITS.to_string()),
        ("occurrences that replaceAll replaces", replace::OCCURRENCES.to_string()),
        ("files in edit_files or apply_patch; a moved file counts twice", CHANGES.to_string()),
        ("diff that an edit returns", format!("{} KiB", edit::DIFF_BYTES >> 10)),
        ("files in read_multiple_files", read::PATHS.to_string()),
        ("entries in a listing or a tree", list::ENTRIES.to_string()),
        ("matches of search_files", search::MATCHES.to_string()),
        ("entries that search_files looks at", search_entries.to_string()),
        ("listing, tree, or output of a program", format!("{} MiB", call::ANSWER >> 20)),
        ("patterns in a call", globs::PATTERNS.to_string()),
        ("bytes of one copy_directory", format!("{} GiB", copy::BYTES >> 30)),
    ]
}

/// The maximum number of bytes to read from a file, or write to one. The content, its base64 encoding
/// and the message are in memory at the same time.
pub(crate) const LIMIT: u64 = 10 << 20;

/// The maximum number of bytes of text to read from files, which clients receive twice: as a content
/// block and as structured content. Models rarely read as much.
const TEXT: u64 = 2 << 20;
