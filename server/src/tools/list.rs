//! The tools `list_directory` and `list_directory_with_sizes`.
//!
//! Entries are neither opened nor followed. An entry that is not a directory is labeled `[FILE]`,
//! even if it is a symlink or FIFO. Only regular files have a size.

use std::cmp::Reverse;
use std::ffi::OsString;

use mcp_roots_guard::rmcp::RequestRoots;
use mcp_roots_guard::{DirEntry, ErrorKind, Result};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Call, Lines, OnePath, ToolResult, Work, shown};
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

#[tool_router(router = list_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "List Directory",
        description = "Lists the entries of a directory, sorted by name and prefixed with [DIR] or \
                       [FILE].",
        annotations(read_only_hint = true)
    )]
    async fn list_directory(Parameters(args): Parameters<OnePath>, call: Call) -> ToolResult {
        call.text(move |roots, _| {
            let (entries, remarks) = listing(roots, &args.path, false)?;
            let line = |entry: &ListEntry| format!("{} {}", entry.label(), shown(&entry.name));
            Ok(lines(&entries, line).finish(remarks))
        })
        .await
    }

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

/// An entry of a listing.
struct ListEntry {
    name: OsString,
    is_dir: bool,
    /// The size of a regular file, if sizes are listed.
    size: Option<u64>,
}

impl ListEntry {
    fn new(entry: &DirEntry, has_sizes: bool) -> Result<Self> {
        let is_sized = has_sizes && entry.file_type().is_file();
        let metadata = is_sized.then(|| entry.metadata()).transpose()?;
        let size = metadata.filter(|metadata| metadata.file_type().is_file());
        Ok(Self {
            name: entry.file_name().to_owned(),
            is_dir: entry.file_type().is_dir(),
            size: size.map(|metadata| metadata.len()),
        })
    }

    fn label(&self) -> &'static str {
        if self.is_dir { "[DIR]" } else { "[FILE]" }
    }
}

/// The entries of a directory sorted by name, and remarks about missing ones. An entry that was
/// removed in the meantime is omitted.
fn listing(
    roots: &RequestRoots,
    path: &str,
    has_sizes: bool,
) -> Work<(Vec<ListEntry>, Vec<String>)> {
    let (mut entries, mut unknown, mut remarks) = (Vec::new(), 0_usize, Vec::new());
    for entry in roots.read_dir(path)? {
        roots.ensure_active()?;
        if entries.len().saturating_add(unknown) == ENTRIES {
            remarks.push(format!("There are more entries: only {ENTRIES} of them are listed"));
            break;
        }
        match entry.and_then(|entry| ListEntry::new(&entry, has_sizes)) {
            Ok(listed) => entries.push(listed),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => unknown += 1,
        }
    }
    if unknown > 0 {
        remarks.push(format!("Entries that could not be read: {unknown}"));
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok((entries, remarks))
}

fn lines(entries: &[ListEntry], line: impl Fn(&ListEntry) -> String) -> Lines {
    let mut lines = Lines::default();
    let _ = entries.iter().all(|entry| lines.push(&line(entry)));
    lines
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
pub(super) const ENTRIES: usize = 10_000;
