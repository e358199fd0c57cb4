//! The tools of the reference filesystem server: its names, parameters, annotations and shape of results.
//!
//! What they do otherwise is a table in the README.

mod call;
mod globs;
mod steps;
mod lines;
mod replace;
mod ends;
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

/// The most bytes that are read of a file, written to one, or answered with: all is held in memory, as its base64 is, and as the message is.
pub(crate) const LIMIT: u64 = 10 << 20;

/// A tool's answer: the text as a block, and as structured content.
pub(crate) fn text(content: &str) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(content)]);
    result.structured_content = Some(json!({ "content": content }));
    result
}
