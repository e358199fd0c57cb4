//! Listings of directories.
//!
//! Entries are neither opened nor followed. An entry that is not a directory is labeled `[FILE]`,
//! even if it is a symlink or FIFO. Only regular files have a size.

use std::ffi::OsString;

use mcp_roots_guard::rmcp::RequestRoots;
use mcp_roots_guard::{DirEntry, ErrorKind, Result};

use super::call::{Lines, Work};

/// An entry of a listing.
pub(super) struct ListEntry {
    pub(super) name: OsString,
    pub(super) is_dir: bool,
    /// The size of a regular file, if sizes are listed.
    pub(super) size: Option<u64>,
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

    pub(super) fn label(&self) -> &'static str {
        if self.is_dir { "[DIR]" } else { "[FILE]" }
    }
}

/// The entries of a directory sorted by name, and remarks about missing ones. An entry that was
/// removed in the meantime is omitted.
pub(super) fn listing(
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

pub(super) fn lines(entries: &[ListEntry], line: impl Fn(&ListEntry) -> String) -> Lines {
    let mut lines = Lines::default();
    let _ = entries.iter().all(|entry| lines.push(&line(entry)));
    lines
}

/// The maximum number of entries in a listing. For a larger directory, `search_files` is more
/// useful.
pub(super) const ENTRIES: usize = 10_000;
