//! `resources/list`: the roots in force, and all files and directories beneath them.
//!
//! Goes in: a cursor, or none. Comes out: a page of resources, and the next cursor. What is true after: each resource was allowed by
//! the roots of this request, so a root that was withdrawn between two pages is told no more.
//!
//! The order is that of paths: a root, then what is beneath it, a directory before what is in it. It depends on names alone, so that a
//! page begins behind the last entry of the page before, whatever was added or removed meanwhile; it walks past directories that were
//! told without reading them.

use std::path::Path;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, Intent, Root, WalkOptions};
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
    let after = params.and_then(|params| params.cursor).map(|cursor| Cursor::parse(&cursor)).transpose()?;
    let page = server.guard.request(ctx, None, move |roots| page(&roots, after.as_ref())).await?;
    let mut result =
        ListResourcesResult::with_all_items(page.told).with_ttl_ms(0).with_cache_scope(CacheScope::Private);
    result.next_cursor = page.next.map(|cursor| cursor.to_text());
    Ok(result)
}

/// What is told, and where it goes on.
#[derive(Default)]
struct Page {
    told: Vec<Resource>,
    last: Option<Cursor>,
    next: Option<Cursor>,
}

impl Page {
    /// Adds a resource. False if there is no place for it.
    fn add(&mut self, resource: Resource, root: &Root, entry: &Path) -> bool {
        if self.told.len() >= PAGE {
            self.next = self.last.take();
            return false;
        }
        self.told.push(resource);
        self.last = Some(Cursor { root: root.path().to_owned(), entry: entry.to_owned() });
        true
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

/// Adds a root and what is beneath it, behind the entry that was told last. False if the page is full.
fn tell(
    roots: &RequestRoots,
    order: &[&Root],
    root: &CheckedPath,
    behind: Option<&Path>,
    page: &mut Page,
) -> Result<bool, HandlerError> {
    if behind.is_none() {
        let Ok(metadata) = root.metadata() else { return Ok(true) };
        let name = root.root().name().map_or_else(|| entry::name(root), str::to_owned);
        if !page.add(entry::resource(root, &name, &metadata), root.root(), Path::new("")) {
            return Ok(false);
        }
    }
    if root.root().is_file() {
        return Ok(true);
    }
    let Ok(mut walk) = root.walk(WalkOptions::new()) else { return Ok(true) };
    while let Some(found) = walk.next() {
        roots.proceed()?;
        // A directory that can not be read, or more than a walk tells: the rest is still good.
        let Ok(found) = found else { continue };
        if let Some(behind) = behind.filter(|behind| found.path() <= *behind) {
            if !behind.starts_with(found.path()) {
                walk.skip_current_dir();
            }
            continue;
        }
        // Told as a root, with what is in it.
        let path = root.root().path().join(found.path());
        if order.binary_search_by_key(&&*path, |other| other.path()).is_ok() {
            walk.skip_current_dir();
            continue;
        }
        let told = Some(found.metadata()).filter(|metadata| entry::is_told(metadata));
        let Some((metadata, checked)) = told.zip(entry::child(roots, root, found.path())) else { continue };
        if !page.add(entry::resource(&checked, &entry::name(&checked), metadata), root.root(), found.path()) {
            return Ok(false);
        }
    }
    Ok(true)
}
