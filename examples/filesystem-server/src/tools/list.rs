//! The tools `list_directory` and `list_directory_with_sizes`.
//!
//! Entries are neither opened nor followed. An entry that is not a directory is labeled `[FILE]`,
//! even if it is a symlink or FIFO. Only regular files have a size.

use std::cmp::Reverse;

use mcp_roots_guard::rmcp::RequestRoots;
use mcp_roots_guard::{DirEntry, ErrorKind, FileType, Result};
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
        call.text(move |roots, _| {
            let Listing { entries, remarks } = Listing::of(roots, &args.path, |_| Ok(None))?;
            let mut lines = Lines::default();
            let _ = entries
                .iter()
                .all(|listed| lines.push(&format!("{} {}", listed.label(), listed.name())));
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
        call.text(move |roots, _| {
            let mut listing = Listing::of(roots, &args.path, size)?;
            if let SortBy::Size = args.sort_by {
                listing.entries.sort_by_key(|listed| Reverse(listed.size.unwrap_or(0)));
            }
            Ok(with_sizes(listing))
        })
        .await
    }
}

/// An entry of a listing.
struct Listed {
    entry: DirEntry,
    /// The size of a regular file, if sizes are listed.
    size: Option<u64>,
}

impl Listed {
    fn label(&self) -> &'static str {
        if self.is_dir() { "[DIR]" } else { "[FILE]" }
    }

    fn name(&self) -> String {
        shown(self.entry.file_name())
    }

    fn is_dir(&self) -> bool {
        self.entry.file_type() == FileType::Directory
    }
}

/// The entries of a directory sorted by name, and remarks about missing entries.
struct Listing {
    entries: Vec<Listed>,
    remarks: Vec<String>,
}

impl Listing {
    /// Lists a directory, with the size that `size` returns for each entry. An entry that was
    /// removed in the meantime is omitted.
    fn of(
        roots: &RequestRoots,
        path: &str,
        size: impl Fn(&DirEntry) -> Result<Option<u64>>,
    ) -> Work<Self> {
        let (mut entries, mut unknown, mut remarks) = (Vec::new(), 0_usize, Vec::new());
        for entry in roots.read_dir(path)? {
            if entries.len().saturating_add(unknown) == ENTRIES {
                remarks.push(format!("There are more entries: only {ENTRIES} of them are listed"));
                break;
            }
            match entry.and_then(|entry| Ok(Listed { size: size(&entry)?, entry })) {
                Ok(listed) => entries.push(listed),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => unknown += 1,
            }
        }
        if unknown > 0 {
            remarks.push(format!("Entries that could not be read: {unknown}"));
        }
        entries.sort_by(|one, other| one.entry.file_name().cmp(other.entry.file_name()));
        Ok(Self { entries, remarks })
    }
}

/// Looks up the size of a regular file.
fn size(entry: &DirEntry) -> Result<Option<u64>> {
    if entry.file_type() != FileType::File {
        return Ok(None);
    }
    let metadata = entry.metadata()?;
    Ok((metadata.file_type() == FileType::File).then(|| metadata.len()))
}

fn with_sizes(Listing { entries, remarks }: Listing) -> String {
    let directories = entries.iter().filter(|listed| listed.is_dir()).count();
    let total = entries.iter().filter_map(|listed| listed.size).fold(0, u64::saturating_add);
    let line = |listed: &Listed| {
        let size = listed.size.map(readable).unwrap_or_default();
        format!("{} {:30} {size:>10}", listed.label(), listed.name()).trim_end().to_owned()
    };
    let mut lines = Lines::default();
    let _ = entries.iter().all(|listed| lines.push(&line(listed)));
    let total = format!("Combined size: {}", readable(total));
    let count = format!("Total: {} files, {directories} directories", entries.len() - directories);
    lines.finish([String::new(), count, total].into_iter().chain(remarks))
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
