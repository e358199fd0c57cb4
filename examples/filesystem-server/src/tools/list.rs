//! Tools that list one directory.
//!
//! Goes in: a path. Comes out: a line for each entry. What is true after: no entry was opened or followed. What is no directory is a
//! `[FILE]`, also a link, wherever it leads, and a FIFO; only regular files have a size.

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
    /// By name, or the largest first.
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
        description = "Lists what is in a directory, in the order of names, each with [DIR] or [FILE] before it.",
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
        description = "Lists what is in a directory as list_directory does, with the sizes of files and their sum.",
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

/// A directory's entries by name, and what is to be said of those that are missing.
struct Listing {
    entries: Vec<DirEntry>,
    remarks: Vec<String>,
}

impl Listing {
    fn of(roots: &RequestRoots, path: &str) -> Work<Self> {
        let (mut entries, mut unknown, mut remarks) = (Vec::new(), 0_usize, Vec::new());
        for entry in roots.read_dir(path)? {
            if entries.len().saturating_add(unknown) == ENTRIES {
                remarks.push(format!(
                    "There are more entries: only {ENTRIES} are listed, in no particular choice"
                ));
                break;
            }
            match entry {
                Ok(entry) => entries.push(entry),
                Err(_) => unknown += 1,
            }
        }
        if unknown > 0 {
            remarks.push(format!("Entries that can not be described: {unknown}"));
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

/// A size with two decimals in the largest unit that it fills.
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

/// A listing is for a model to read; of a larger directory, search_files finds what is wanted.
const ENTRIES: usize = 10_000;
