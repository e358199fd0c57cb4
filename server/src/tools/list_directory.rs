//! The tool `list_directory`.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Call, ToolResult, shown};
use super::listing::ListingQuery;
use super::whole_number::WholeNumber;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListDirectory {
    /// A path, or a `file:` URI.
    path: String,
    /// Where to continue, as the previous result says.
    cursor: Option<String>,
    /// Maximum number of entries, up to 10,000.
    #[serde(default)]
    limit: WholeNumber,
}

#[tool_router(router = list_directory_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "List Directory",
        description = "Lists the entries of a directory, sorted by name and prefixed with [DIR] or \
                       [FILE]. A large directory is listed in pages.",
        annotations(read_only_hint = true)
    )]
    async fn list_directory(Parameters(args): Parameters<ListDirectory>, call: Call) -> ToolResult {
        call.text(move |roots, _| {
            let ListDirectory { path, cursor, limit } = args;
            let page =
                ListingQuery { path, cursor, limit, ..ListingQuery::default() }.list(roots)?;
            Ok(page
                .text(|entry| format!("{} {}", entry.label(), shown(&entry.name)), |_, _| vec![]))
        })
        .await
    }
}
