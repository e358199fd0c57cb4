//! `resources/list`: the roots in force, and all files and directories beneath them, in pages.
//!
//! Each resource on a page is allowed by the roots of that request. A root that is withdrawn
//! between two pages is therefore missing from the second.
//!
//! Resources are sorted by path, each directory before its entries. The order depends only on
//! names, so a page continues after the last entry of the previous page even if files are added or
//! removed in between. Of the directories listed on previous pages, only the ancestors of that
//! entry are read again.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mcp_roots_guard::limits::WALK_DEPTH;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, Intent, Metadata, Root};
use rmcp::ErrorData;
use rmcp::model::{CacheScope, ListResourcesResult, PaginatedRequestParams, Resource};
use rmcp::service::{RequestContext, RoleServer};

use super::cursor::Cursor;
use super::entry;
use crate::memory::Room;
use crate::server::Server;

/// The maximum number of resources on a page. A full page is a few tens of kilobytes long.
pub(super) const PAGE: usize = 200;

/// Handles `resources/list`.
pub(crate) async fn list(
    server: &Server,
    params: Option<PaginatedRequestParams>,
    ctx: &RequestContext<RoleServer>,
) -> Result<ListResourcesResult, ErrorData> {
    let after =
        params.and_then(|params| params.cursor).map(|cursor| Cursor::parse(&cursor)).transpose()?;
    let room = Room::of(&ctx.extensions);
    let work = move |roots: RequestRoots| {
        let page = page(&roots, after.as_ref())?;
        room.for_result(&page.resources)?;
        Ok(page)
    };
    let page = server.guard.other_request(ctx, None, work).await;
    let page = page.map_err(|error| remedied(error, ctx))?;
    let mut result = ListResourcesResult::with_all_items(page.resources)
        .with_ttl_ms(0)
        .with_cache_scope(CacheScope::Private);
    result.next_cursor = page.next.map(|cursor| cursor.to_text());
    Ok(result)
}

/// Adds advice to the error if a stateless client's roots are unknown and this request cannot fetch
/// them.
pub(super) fn remedied(mut error: ErrorData, ctx: &RequestContext<RoleServer>) -> ErrorData {
    let is_stateless = ctx.protocol_version().is_some_and(|version| !version.has_initialize());
    let kind = error.data.as_ref().and_then(|data| data.get("kind")).and_then(|kind| kind.as_str());
    if is_stateless && kind == Some("roots_stale") {
        error.message = REMEDY.into();
    }
    error
}

const REMEDY: &str = "the client's roots are unknown, and this request cannot fetch them: call a \
                      tool or read a resource first, then send this request again soon. Over HTTP, \
                      only clients without roots can send it";

/// A page under construction.
#[derive(Default)]
struct Page {
    resources: Vec<Resource>,
    /// The last entry that was reached, whether or not it is a resource.
    at: Option<Cursor>,
    /// The number of entries scanned, except in ancestors of the entry where the page starts.
    scanned: usize,
    next: Option<Cursor>,
}

impl Page {
    fn is_full(&self) -> bool {
        self.resources.len() >= PAGE
    }

    /// Ends the page after the last entry that was reached. Always returns `false`.
    fn end(&mut self) -> bool {
        self.next = self.at.take();
        false
    }

    fn reach(&mut self, root: &Root, entry: &Path) {
        self.at = Some(Cursor { root: root.path().to_owned(), entry: entry.to_owned() });
    }
}

fn page(roots: &RequestRoots, after: Option<&Cursor>) -> Result<Page, HandlerError> {
    let mut page = Page::default();
    let mut order: Vec<_> =
        roots.roots().filter(|root| roots.metadata(root.path()).is_ok()).collect();
    order.sort_unstable_by_key(|root| root.path());
    for root in &order {
        let after = match after {
            Some(cursor) if root.path() < cursor.root => continue,
            Some(cursor) if root.path() == cursor.root => Some(&*cursor.entry),
            _ => None,
        };
        let Ok(checked) = roots.check(root.path(), Intent::Existing) else { continue };
        if !add_root(roots, &order, &checked, after, &mut page)? {
            break;
        }
    }
    Ok(page)
}

/// Adds a root and all entries beneath it, or only those after `after`. Returns `false` if the page
/// is full.
fn add_root(
    roots: &RequestRoots,
    order: &[&Root],
    root: &CheckedPath,
    after: Option<&Path>,
    page: &mut Page,
) -> Result<bool, HandlerError> {
    if after.is_none() {
        let Ok(metadata) = root.metadata() else { return Ok(true) };
        if page.is_full() {
            return Ok(page.end());
        }
        let name = root.root().name().map_or_else(|| entry::name(root), str::to_owned);
        page.resources.push(entry::resource(root, &name, &metadata));
        page.reach(root.root(), Path::new(""));
    }
    if root.root().is_file() {
        return Ok(true);
    }
    if after.is_none() && page.scanned >= SCANNED {
        return Ok(page.end());
    }
    // The current directory and its ancestors, innermost last.
    let mut open = vec![Children::of(roots, root, PathBuf::new(), after, page)?];
    while let Some(directory) = open.last_mut() {
        roots.ensure_active()?;
        let Some(name) = directory.entries.pop_first() else {
            if directory.more {
                return Ok(page.end());
            }
            open.pop();
            continue;
        };
        let entry = directory.path.join(name);
        let path = root.root().path().join(&entry);
        // A nested root is listed separately, with its entries.
        let is_root = order.binary_search_by_key(&&*path, |other| other.path()).is_ok();
        let child = if is_root { None } else { child(root, &entry) };
        let is_listed = after.is_some_and(|after| after.starts_with(&entry));
        if !is_listed {
            if page.is_full() {
                return Ok(page.end());
            }
            if let Some((checked, metadata)) = &child {
                page.resources.push(entry::resource(checked, &entry::name(checked), metadata));
            }
            page.reach(root.root(), &entry);
        }
        // A directory that was replaced with a symlink in the meantime is not entered.
        let inner = child.filter(|(checked, metadata)| {
            metadata.file_type().is_dir() && checked.to_unguarded_path() == path
        });
        if let Some((inner, _)) = inner.filter(|_| open.len() < WALK_DEPTH) {
            if !is_listed && page.scanned >= SCANNED {
                return Ok(page.end());
            }
            open.push(Children::of(roots, &inner, entry, after, page)?);
        }
    }
    Ok(true)
}

/// Checks and describes an entry beneath a root. Returns `None` if it is no longer a file or
/// directory, or is not allowed.
fn child(root: &CheckedPath, entry: &Path) -> Option<(CheckedPath, Metadata)> {
    let checked = root.join(entry, Intent::NoFollow).ok()?;
    let metadata = checked.metadata().ok()?;
    entry::is_resource(metadata.file_type()).then_some((checked, metadata))
}

/// The entries of a directory that are still to be listed or entered.
struct Children {
    /// The path of the directory relative to the root.
    path: PathBuf,
    entries: BTreeSet<OsString>,
    /// Whether the directory has further entries, which follow these in the order.
    more: bool,
}

impl Children {
    /// Reads the first entries that follow `after` or are its ancestors, as many as fit on a page.
    /// If the directory cannot be read, the result is empty. If it has more than
    /// [`DIRECTORY_ENTRIES`] entries, returns an error.
    fn of(
        roots: &RequestRoots,
        directory: &CheckedPath,
        path: PathBuf,
        after: Option<&Path>,
        page: &mut Page,
    ) -> Result<Self, HandlerError> {
        let mut children = Self { path, entries: BTreeSet::new(), more: false };
        let Ok(all) = directory.read_dir() else { return Ok(children) };
        let is_ancestor = after.is_some_and(|after| after.starts_with(&children.path));
        for (count, found) in all.enumerate() {
            roots.ensure_active()?;
            if count >= DIRECTORY_ENTRIES {
                let text = format!(
                    "a directory has more than {DIRECTORY_ENTRIES} entries and cannot be listed"
                );
                return Err(HandlerError::new(text));
            }
            page.scanned += usize::from(!is_ancestor);
            let Ok(found) = found else { continue };
            // On Windows, a name that is not valid Unicode has no URI.
            if cfg!(windows) && found.file_name().to_str().is_none() {
                continue;
            }
            let entry = children.path.join(found.file_name());
            let is_remaining =
                after.is_none_or(|after| entry.as_path() > after || after.starts_with(&entry));
            if is_remaining && entry::is_resource(found.file_type()) {
                children.entries.insert(found.file_name().to_owned());
            }
            // One more than a page, because an ancestor of `after` is entered but not listed again.
            if children.entries.len() > PAGE + 1 {
                children.entries.pop_last();
                children.more = true;
            }
        }
        Ok(children)
    }
}

/// The number of scanned entries after which a page ends before the next directory. Scanning them
/// takes a few tenths of a second.
const SCANNED: usize = 100_000;

/// The maximum number of entries in one directory. Directories are unsorted, so each page with
/// entries of a directory scans all of it.
const DIRECTORY_ENTRIES: usize = 1_000_000;
