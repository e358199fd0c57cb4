//! The tool `list_directory_with_sizes`.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Call, ToolResult, shown};
use super::listing::{ListEntry, ListingQuery, SortBy};
use super::whole_number::WholeNumber;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListWithSizes {
    /// A path, or a `file:` URI.
    path: String,
    /// Sort by name, or by size with the largest file first.
    #[serde(default)]
    sort_by: SortBy,
    /// Where to continue, as the previous result says.
    cursor: Option<String>,
    /// Maximum number of entries, up to 10,000.
    #[serde(default)]
    limit: WholeNumber,
}

#[tool_router(router = list_directory_with_sizes_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "List Directory with Sizes",
        description = "Lists the entries of a directory like list_directory, with file sizes and \
                       the totals of those listed.",
        annotations(read_only_hint = true)
    )]
    async fn list_directory_with_sizes(
        Parameters(args): Parameters<ListWithSizes>,
        call: Call,
    ) -> ToolResult {
        call.text(move |roots, _| {
            let ListWithSizes { path, sort_by, cursor, limit } = args;
            let page =
                ListingQuery { path, cursor, limit, sort_by, has_sizes: true }.list(roots)?;
            let line = |entry: &ListEntry| {
                let size = entry.size.map(readable).unwrap_or_default();
                let line = format!("{} {:30} {size:>10}", entry.label(), shown(&entry.name));
                line.trim_end().to_owned()
            };
            Ok(page.text(line, totals))
        })
        .await
    }
}

/// The totals of the entries on a page.
fn totals(entries: &[ListEntry], is_whole: bool) -> Vec<String> {
    let directories = entries.iter().filter(|entry| entry.is_dir).count();
    let files = entries.len() - directories;
    let size = entries.iter().filter_map(|entry| entry.size).fold(0, u64::saturating_add);
    let of = if is_whole { "" } else { " of this page" };
    vec![
        String::new(),
        format!("Total{of}: {files} files, {directories} directories"),
        format!("Combined size{of}: {}", readable(size)),
    ]
}

/// Formats a size with two decimals, in the largest unit that is not larger than the size.
fn readable(bytes: u64) -> String {
    let units = [("TB", 1_u64 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        None => format!("{bytes} B"),
        Some((name, unit)) => {
            let hundredths = u128::from(bytes) * 100 / u128::from(unit);
            format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
        }
    }
}
