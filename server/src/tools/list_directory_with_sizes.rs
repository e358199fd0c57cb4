//! The tool `list_directory_with_sizes`.

use std::cmp::Reverse;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Call, ToolResult, shown};
use super::listing::{ListEntry, lines, listing};
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListWithSizes {
    /// A path inside the allowed directories, or a `file:` URI.
    path: String,
    /// Sort by name, or by size with the largest file first.
    #[serde(default)]
    sort_by: SortBy,
}

#[derive(Clone, Copy, Default, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum SortBy {
    #[default]
    Name,
    Size,
}

#[tool_router(router = list_directory_with_sizes_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "List Directory with Sizes",
        description = "Lists the entries of a directory like list_directory, with file sizes and \
                       their total.",
        annotations(read_only_hint = true)
    )]
    async fn list_directory_with_sizes(
        Parameters(args): Parameters<ListWithSizes>,
        call: Call,
    ) -> ToolResult {
        call.text(move |roots, _| {
            let (mut entries, remarks) = listing(roots, &args.path, true)?;
            if let SortBy::Size = args.sort_by {
                entries.sort_by_key(|entry| Reverse(entry.size.unwrap_or(0)));
            }
            let directories = entries.iter().filter(|entry| entry.is_dir).count();
            let files = entries.len() - directories;
            let total = entries.iter().filter_map(|entry| entry.size).fold(0, u64::saturating_add);
            let line = |entry: &ListEntry| {
                let size = entry.size.map(readable).unwrap_or_default();
                let line = format!("{} {:30} {size:>10}", entry.label(), shown(&entry.name));
                line.trim_end().to_owned()
            };
            let count = format!("Total: {files} files, {directories} directories");
            let total = format!("Combined size: {}", readable(total));
            let totals = [String::new(), count, total];
            Ok(lines(&entries, line).finish(totals.into_iter().chain(remarks)))
        })
        .await
    }
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
