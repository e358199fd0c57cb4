//! The tools `list_directory` and `list_directory_with_sizes`.
//!
//! Entries are neither opened nor followed. An entry that is not a directory is labeled `[FILE]`,
//! even if it is a symlink or FIFO. Only regular files have a size.

use std::cmp::Reverse;

use mcp_roots_guard::DirEntry;
use mcp_roots_guard::rmcp::RequestRoots;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Answered, Call, Lines, Work, shown, text_schema};
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct ListDirectory {
    /// A path inside the allowed directories, or a `file:` URI.
    path: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
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

#[tool_router(router = list_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "List Directory",
        description = "Lists the entries of a directory, sorted by name and prefixed with [DIR] or \
                       [FILE].",
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_directory(Parameters(args): Parameters<ListDirectory>, call: Call) -> Answered {
        call.text(move |roots| {
            let Listing { entries, remarks } = Listing::of(roots, &args.path)?;
            let mut lines = Lines::default();
            let _ = entries
                .iter()
                .all(|entry| lines.push(&format!("{} {}", label(entry), shown(entry.name()))));
            Ok(lines.finish(remarks))
        })
        .await
    }

    #[tool(
        title = "List Directory with Sizes",
        description = "Lists the entries of a directory like list_directory, with file sizes and \
                       their total.",
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_directory_with_sizes(
        Parameters(args): Parameters<ListWithSizes>,
        call: Call,
    ) -> Answered {
        call.text(move |roots| {
            let mut listing = Listing::of(roots, &args.path)?;
            if let SortBy::Size = args.sort_by {
                listing.entries.sort_by_key(|entry| Reverse(size(entry)));
            }
            Ok(with_sizes(listing))
        })
        .await
    }
}

/// The entries of a directory sorted by name, and remarks about missing entries.
struct Listing {
    entries: Vec<DirEntry>,
    remarks: Vec<String>,
}

impl Listing {
    fn of(roots: &RequestRoots, path: &str) -> Work<Self> {
        let (mut entries, mut unknown, mut remarks) = (Vec::new(), 0_usize, Vec::new());
        for entry in roots.read_dir(path)? {
            if entries.len().saturating_add(unknown) == ENTRIES {
                remarks.push(format!("There are more entries: only {ENTRIES} of them are listed"));
                break;
            }
            match entry {
                Ok(entry) => entries.push(entry),
                Err(_) => unknown += 1,
            }
        }
        if unknown > 0 {
            remarks.push(format!("Entries that could not be read: {unknown}"));
        }
        entries.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(Self { entries, remarks })
    }
}

fn with_sizes(Listing { entries, remarks }: Listing) -> String {
    let directories = entries.iter().filter(|entry| entry.metadata().is_dir()).count();
    let total = entries.iter().map(size).fold(0, u64::saturating_add);
    let line = |entry: &DirEntry| {
        let size = if entry.metadata().is_file() { readable(size(entry)) } else { String::new() };
        format!("{} {:30} {size:>10}", label(entry), shown(entry.name())).trim_end().to_owned()
    };
    let mut lines = Lines::default();
    let _ = entries.iter().all(|entry| lines.push(&line(entry)));
    let total = format!("Combined size: {}", readable(total));
    let count = format!("Total: {} files, {directories} directories", entries.len() - directories);
    lines.finish([String::new(), count, total].into_iter().chain(remarks))
}

fn label(entry: &DirEntry) -> &'static str {
    if entry.metadata().is_dir() { "[DIR]" } else { "[FILE]" }
}

fn size(entry: &DirEntry) -> u64 {
    if entry.metadata().is_file() { entry.metadata().size() } else { 0 }
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

/// The maximum number of entries in a listing. For a larger directory, `search_files` is more
/// useful.
const ENTRIES: usize = 10_000;
