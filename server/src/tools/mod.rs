//! The tools of the reference filesystem server, with the same names, parameters, annotations and
//! result formats, and tools that run programs. README.md lists the differences in behavior.

mod call;
mod globs;
mod steps;
mod replace;
mod read;
mod write;
mod copy;
mod edit;
mod list;
mod tree;
mod search;
mod expression;
mod page;
mod search_content;
mod info;
mod git;
mod run;

use rmcp::handler::server::router::tool::ToolRouter;

pub(crate) use self::call::ANSWER;
pub use self::info::allowed_directories;

use crate::programs::Programs;
use crate::server::Server;

impl Server {
    /// The tools that change files.
    pub(crate) fn changing_tools() -> ToolRouter<Self> {
        Self::write_tools() + Self::copy_tools() + Self::edit_tools()
    }

    /// The tools that a server with these programs offers.
    pub(crate) fn all_tools(programs: &Programs) -> ToolRouter<Self> {
        let mut tools = Self::read_tools()
            + Self::changing_tools()
            + Self::list_tools()
            + Self::tree_tools()
            + Self::search_tools()
            + Self::search_content_tools()
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
        ("file for read_media_file or as a resource, content for write_file", mib(LIMIT)),
        ("file for edit_file", mib(edit::BYTES)),
        ("edits in a call", edit::EDITS.to_string()),
        ("diff that edit_file returns", format!("{} KiB", edit::DIFF_BYTES >> 10)),
        ("files in read_multiple_files", read::PATHS.to_string()),
        ("entries in a listing or a tree", list::ENTRIES.to_string()),
        ("matches of search_files", search::MATCHES.to_string()),
        ("matches or files on a page of search_content", search_content::MATCHES.to_string()),
        ("page of search_content", format!("{} KiB", page::PAGE_BYTES >> 10)),
        ("lines of context before or after a match", search_content::CONTEXT.to_string()),
        ("bytes that are shown of a matching line", page::LINE.to_string()),
        ("lines that are shown of a match", page::MATCH_LINES.to_string()),
        (
            "line that search_content searches, or file with multiline",
            format!("{} MiB", expression::LONGEST >> 20),
        ),
        ("time of a search_content call", format!("{} seconds", expression::TIME.as_secs())),
        ("entries that a search looks at", search_entries.to_string()),
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
