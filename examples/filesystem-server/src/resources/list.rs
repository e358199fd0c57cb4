//! `resources/list`: the roots in force, and all files and directories beneath them.
//!
//! Goes in: a cursor, or none. Comes out: a page of resources, and the next cursor. What is true after: each resource was allowed by
//! the roots of this request, so a root that was withdrawn between two pages is told no more.
//!
//! The order is that of paths: a root, then what is beneath it, a directory before what is in it. It depends on names alone, so that a
//! page begins behind the last entry of the page before, whatever was added or removed meanwhile; directories that were told are not read
//! again, but for those around that entry.

use std::collections::BTreeMap;
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
use crate::server::Server;

/// The most resources of a page: some tens of kilobytes.
pub(super) const PAGE: usize = 200;

/// Answers `resources/list`.
pub(crate) async fn list(
    server: &Server,
    params: Option<PaginatedRequestParams>,
    ctx: &RequestContext<RoleServer>,
) -> Result<ListResourcesResult, ErrorData> {
    let after =
        params.and_then(|params| params.cursor).map(|cursor| Cursor::parse(&cursor)).transpose()?;
    let page = server.guard.request(ctx, None, move |roots| page(&roots, after.as_ref())).await;
    let page = page.map_err(|error| remedied(error, ctx))?;
    let mut result = ListResourcesResult::with_all_items(page.told)
        .with_ttl_ms(0)
        .with_cache_scope(CacheScope::Private);
    result.next_cursor = page.next.map(|cursor| cursor.to_text());
    Ok(result)
}

/// Says what to do where a client of the stateless era would have to be asked, and can not be.
pub(super) fn remedied(mut error: ErrorData, ctx: &RequestContext<RoleServer>) -> ErrorData {
    let is_stateless = ctx.protocol_version().is_some_and(|version| !version.has_initialize());
    let kind = error.data.as_ref().and_then(|data| data.get("kind")).and_then(|kind| kind.as_str());
    if is_stateless && kind == Some("roots_stale") {
        error.message = REMEDY.into();
    }
    error
}

const REMEDY: &str = "the client's roots are not known, and can not be asked for in this request: call a tool or read a resource first, and \
                      send it again soon; over HTTP it is for clients without roots only";

/// What is told, and where it goes on.
#[derive(Default)]
struct Page {
    told: Vec<Resource>,
    /// What was come to last, told or not.
    at: Option<Cursor>,
    /// Entries that were looked at, but for directories on the way to where it begins.
    looked: usize,
    next: Option<Cursor>,
}

impl Page {
    fn is_full(&self) -> bool {
        self.told.len() >= PAGE
    }

    /// The next page begins behind what was come to last.
    fn end(&mut self) -> bool {
        self.next = self.at.take();
        false
    }

    fn come_to(&mut self, root: &Root, entry: &Path) {
        self.at = Some(Cursor { root: root.path().to_owned(), entry: entry.to_owned() });
    }
}

fn page(roots: &RequestRoots, after: Option<&Cursor>) -> Result<Page, HandlerError> {
    let mut page = Page::default();
    let mut order: Vec<_> = roots.roots().filter(|root| root.is_available()).collect();
    order.sort_unstable_by_key(|root| root.path());
    for root in &order {
        let behind = match after {
            Some(cursor) if root.path() < cursor.root => continue,
            Some(cursor) if root.path() == cursor.root => Some(&*cursor.entry),
            _ => None,
        };
        let Ok(checked) = roots.check(root.path(), Intent::Existing) else { continue };
        if !tell(roots, &order, &checked, behind, &mut page)? {
            break;
        }
    }
    Ok(page)
}

/// Adds a root and what is beneath it, behind the entry that was come to last. False if the page is full.
fn tell(
    roots: &RequestRoots,
    order: &[&Root],
    root: &CheckedPath,
    behind: Option<&Path>,
    page: &mut Page,
) -> Result<bool, HandlerError> {
    if behind.is_none() {
        let Ok(metadata) = root.metadata() else { return Ok(true) };
        if page.is_full() {
            return Ok(page.end());
        }
        let name = root.root().name().map_or_else(|| entry::name(root), str::to_owned);
        page.told.push(entry::resource(root, &name, &metadata));
        page.come_to(root.root(), Path::new(""));
    }
    if root.root().is_file() {
        return Ok(true);
    }
    if behind.is_none() && page.looked >= LOOKED {
        return Ok(page.end());
    }
    // Directories on the way to the one that is told, the innermost last.
    let mut open = vec![Children::of(roots, root, PathBuf::new(), behind, page)?];
    while let Some(directory) = open.last_mut() {
        roots.ensure_active()?;
        let Some((name, metadata)) = directory.entries.pop_first() else {
            if directory.more {
                return Ok(page.end());
            }
            open.pop();
            continue;
        };
        let entry = directory.path.join(name);
        let path = root.root().path().join(&entry);
        // Told as a root, with what is in it.
        let is_root = order.binary_search_by_key(&&*path, |other| other.path()).is_ok();
        let checked = if is_root { None } else { entry::child(roots, root, &entry) };
        let was_told = behind.is_some_and(|behind| behind.starts_with(&entry));
        if !was_told {
            if page.is_full() {
                return Ok(page.end());
            }
            if let Some(checked) = &checked {
                page.told.push(entry::resource(checked, &entry::name(checked), &metadata));
            }
            page.come_to(root.root(), &entry);
        }
        // What became a link meanwhile is not entered.
        let inner =
            checked.filter(|checked| metadata.is_dir() && checked.to_unguarded_path() == path);
        if let Some(inner) = inner.filter(|_| open.len() < WALK_DEPTH) {
            if !was_told && page.looked >= LOOKED {
                return Ok(page.end());
            }
            open.push(Children::of(roots, &inner, entry, behind, page)?);
        }
    }
    Ok(true)
}

/// What of a directory is still to be told or entered.
struct Children {
    /// Its path beneath the root.
    path: PathBuf,
    entries: BTreeMap<OsString, Metadata>,
    /// There are others, later in the order.
    more: bool,
}

impl Children {
    /// The first that are behind the entry where the page begins, or around it: as many as a page holds. None if it can not be read.
    fn of(
        roots: &RequestRoots,
        directory: &CheckedPath,
        path: PathBuf,
        behind: Option<&Path>,
        page: &mut Page,
    ) -> Result<Self, HandlerError> {
        let mut children = Self { path, entries: BTreeMap::new(), more: false };
        let Ok(all) = directory.read_dir() else { return Ok(children) };
        let is_on_the_way = behind.is_some_and(|behind| behind.starts_with(&children.path));
        for (count, found) in all.enumerate() {
            roots.ensure_active()?;
            if count >= DIRECTORY_ENTRIES {
                let text = format!(
                    "a directory has more than {DIRECTORY_ENTRIES} entries: they can not be listed"
                );
                return Err(HandlerError::new(text));
            }
            page.looked += usize::from(!is_on_the_way);
            let Ok(found) = found else { continue };
            // On Windows what is no Unicode has no URI.
            if cfg!(windows) && found.name().to_str().is_none() {
                continue;
            }
            let entry = children.path.join(found.name());
            let is_behind =
                behind.is_none_or(|behind| entry.as_path() > behind || behind.starts_with(&entry));
            if is_behind && entry::is_told(found.metadata()) {
                children.entries.insert(found.name().to_owned(), found.metadata().clone());
            }
            // One may have been told, and is only entered.
            if children.entries.len() > PAGE + 1 {
                children.entries.pop_last();
                children.more = true;
            }
        }
        Ok(children)
    }
}

/// A page ends before the next directory when so many entries were looked at: some tenths of a second.
const LOOKED: usize = 100_000;

/// The most entries of one directory: all are looked at for each page that tells of it, as a directory has no order.
const DIRECTORY_ENTRIES: usize = 1_000_000;
