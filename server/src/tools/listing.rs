//! Listings of directories, in pages.
//!
//! Entries are neither opened nor followed. An entry that is not a directory is labeled `[FILE]`,
//! even if it is a symlink or FIFO. Only regular files have a size.
//!
//! The cursor of the next page is the position of the last entry of a page. Nothing is kept between
//! two calls: each reads the whole directory, and keeps only the entries of its page. So a page
//! continues after that position even if entries were added or removed in between, and a forged
//! cursor can only skip entries.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsString;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{DirEntry, Error, ErrorKind, Result};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use rmcp::schemars;

use super::call::{Lines, Work};
use super::whole_number::WholeNumber;

/// The entries of a directory to list.
#[derive(Default)]
pub(super) struct ListingQuery {
    pub(super) path: String,
    pub(super) cursor: Option<String>,
    pub(super) limit: WholeNumber,
    pub(super) sort_by: SortBy,
    pub(super) has_sizes: bool,
}

#[derive(Clone, Copy, Default, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum SortBy {
    #[default]
    Name,
    Size,
}

/// The position of an entry: its size, if entries are sorted by size, and its name.
type Position = (Reverse<u64>, Vec<u8>);

/// A page of a listing.
pub(super) struct ListingPage {
    entries: Vec<ListEntry>,
    sort_by: SortBy,
    is_first: bool,
    /// The end of the page, unless it is the last one.
    end: Option<Position>,
    unknown: usize,
}

/// An entry of a listing.
pub(super) struct ListEntry {
    position: Position,
    pub(super) name: OsString,
    pub(super) is_dir: bool,
    /// The size of a regular file, if sizes are listed.
    pub(super) size: Option<u64>,
}

impl ListEntry {
    fn new(position: Position, entry: &DirEntry, has_sizes: bool) -> Result<Self> {
        Ok(Self {
            position,
            name: entry.file_name().to_owned(),
            is_dir: entry.file_type().is_dir(),
            size: if has_sizes { size(entry)? } else { None },
        })
    }

    pub(super) fn label(&self) -> &'static str {
        if self.is_dir { "[DIR]" } else { "[FILE]" }
    }
}

/// The size of a regular file.
fn size(entry: &DirEntry) -> Result<Option<u64>> {
    if !entry.file_type().is_file() {
        return Ok(None);
    }
    let metadata = entry.metadata()?;
    Ok(metadata.file_type().is_file().then_some(metadata.len()))
}

impl ListingQuery {
    /// Lists the entries. One that was removed in the meantime is omitted.
    pub(super) fn list(&self, roots: &RequestRoots) -> Work<ListingPage> {
        let after = self.cursor.as_deref().map(|cursor| self.parsed(cursor)).transpose()?;
        let limit = self.limit.get().and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.map_or(ENTRIES, |limit| limit.min(ENTRIES));
        let (mut page, mut is_last, mut unknown) = (BTreeMap::new(), true, 0_usize);
        let mut count = |error: Error| {
            if error.kind() != ErrorKind::NotFound {
                unknown += 1;
            }
        };
        for entry in roots.read_dir(&self.path)? {
            roots.ensure_usable()?;
            match entry.and_then(|entry| Ok((self.position(&entry)?, entry))) {
                Ok((position, entry)) if after.as_ref().is_none_or(|after| position > *after) => {
                    page.insert(position, entry);
                    if page.len() > limit {
                        page.pop_last();
                        is_last = false;
                    }
                }
                Ok(_) => {}
                Err(error) => count(error),
            }
        }
        let end = page.last_key_value().filter(|_| !is_last).map(|(position, _)| position.clone());
        let mut entries = Vec::new();
        for (position, entry) in page {
            roots.ensure_usable()?;
            match ListEntry::new(position, &entry, self.has_sizes) {
                Ok(entry) => entries.push(entry),
                Err(error) => count(error),
            }
        }
        Ok(ListingPage { entries, sort_by: self.sort_by, is_first: after.is_none(), end, unknown })
    }

    fn position(&self, entry: &DirEntry) -> Result<Position> {
        let size = match self.sort_by {
            SortBy::Name => 0,
            SortBy::Size => size(entry)?.unwrap_or(0),
        };
        Ok((Reverse(size), entry.file_name().as_encoded_bytes().to_vec()))
    }

    /// Parses a cursor: a name, after the size and a slash if entries are sorted by size.
    fn parsed(&self, cursor: &str) -> Work<Position> {
        let (size, name) = match (self.sort_by, cursor.split_once('/')) {
            (SortBy::Name, None) => (Some(0), cursor),
            (SortBy::Size, Some((size, name))) => (size.parse().ok(), name),
            _ => (None, cursor),
        };
        let size = size.ok_or_else(|| {
            HandlerError::new("the cursor is not one of a listing in this order; omit it")
        })?;
        Ok((Reverse(size), percent_decode_str(name).collect()))
    }
}

impl ListingPage {
    /// The page as text: a line for each entry, the totals, and remarks. The totals are told whether
    /// the page is the whole directory.
    pub(super) fn text(
        mut self,
        line: impl Fn(&ListEntry) -> String,
        totals: impl FnOnce(&[ListEntry], bool) -> Vec<String>,
    ) -> String {
        let mut lines = Lines::default();
        let listed = self.entries.iter().take_while(|entry| lines.push(&line(entry))).count();
        if listed < self.entries.len() {
            self.entries.truncate(listed);
            self.end = self.entries.last().map(|entry| entry.position.clone());
        }
        let mut remarks = totals(&self.entries, self.is_first && self.end.is_none());
        if self.unknown > 0 {
            remarks.push(format!("Entries that could not be read: {}", self.unknown));
        }
        if let Some((Reverse(size), name)) = self.end {
            let name = percent_encode(&name, ESCAPED);
            let cursor = match self.sort_by {
                SortBy::Name => name.to_string(),
                SortBy::Size => format!("{size}/{name}"),
            };
            remarks.push(format!("There are more entries: list them with cursor \"{cursor}\""));
        }
        lines.finish(remarks)
    }
}

/// The characters that a model could change when it copies a cursor.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%').add(b'"').add(b'\\').add(b'/').add(b' ');

/// The maximum number of entries on a page of a listing, or in a tree: more than a model can use.
pub(super) const ENTRIES: usize = 10_000;
