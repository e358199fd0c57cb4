//! The tools of the reference filesystem server: its names, parameters, annotations and shape of results.
//!
//! What they do otherwise than the reference:
//!
//! | tool | here | there |
//! | --- | --- | --- |
//! | all | work, and answers, have limits; reaching one is said | few have |
//! | reading text | refuses what is not UTF-8 | replaces what is not |
//! | `read_text_file` with `tail` | a newline at the end of the file ends the last line | begins an empty one |
//! | `read_media_file` | knows many types by extension | knows eleven |
//! | `edit_file` | line ends stay; an empty `oldText` is refused; lines keep their indentation to each other | all become `\n`; put first; not always |
//! | listings | in the order of names; a link has no size | as they come; the size of what it leads to, also outside |
//! | `directory_tree` | a directory that can not be listed says so | fails |
//! | `search_files` | a link is found by its name | only if it leads inside |
//! | `excludePatterns` | one without `*` names an entry wherever it is, for both tools | only for the tree |

mod call;
mod globs;
mod steps;
mod lines;
mod replace;
mod read;
mod media;
mod write;
mod edit;
mod list;
mod tree;
mod search;
mod info;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;

use crate::server::Server;

impl Server {
    pub(crate) fn all_tools() -> ToolRouter<Self> {
        Self::read_tools()
            + Self::media_tools()
            + Self::write_tools()
            + Self::edit_tools()
            + Self::list_tools()
            + Self::tree_tools()
            + Self::search_tools()
            + Self::info_tools()
    }
}

/// The most bytes that a tool reads of a file, writes to one, or answers with.
pub(crate) const LIMIT: u64 = 10 << 20;

/// A tool's answer: the text as a block, and as structured content.
pub(crate) fn text(content: &str) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(content)]);
    result.structured_content = Some(json!({ "content": content }));
    result
}
