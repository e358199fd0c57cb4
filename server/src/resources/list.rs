//! `resources/list`: the roots in force, and all files and directories beneath them, in pages.
//!
//! Resources are sorted by path, each directory before its entries. The cursor is the URI of the
//! last resource on a page. A page continues after that path even if files were added or removed in
//! between, and a cursor is only compared with paths, so a forged one can only skip resources. Of
//! the directories listed on previous pages, only the ancestors of that path are read again.

use std::path::{Path, PathBuf};

use mcp_roots_guard::limits::WALK_BYTES;
use mcp_roots_guard::rmcp::{ClientInput, HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, ErrorKind, Location, WalkOptions};
use rmcp::ErrorData;
use rmcp::model::{CacheScope, ListResourcesResult, PaginatedRequestParams, Resource};
use rmcp::service::{RequestContext, RoleServer};

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
    let cursor = params.and_then(|params| params.cursor);
    let after = cursor.map(|cursor| parsed(&cursor)).transpose()?;
    let room = Room::of(&ctx.extensions);
    let work = move |roots: RequestRoots| {
        let mut page = {
            let _walking = room.for_walk(WALK_BYTES, &roots)?;
            page(&roots, after.as_deref())?
        };
        let is_last = page.len() <= PAGE;
        page.truncate(PAGE);
        let next = page.last().filter(|_| !is_last).map(|resource| resource.uri.clone());
        let mut result = ListResourcesResult::with_all_items(page)
            .with_ttl_ms(0)
            .with_cache_scope(CacheScope::Private);
        result.next_cursor = next;
        room.for_result(&result)?;
        Ok(result)
    };
    server.respond(ctx, ClientInput::default(), work).await
}

fn parsed(cursor: &str) -> Result<PathBuf, ErrorData> {
    let location = Location::from_uri(cursor)
        .map_err(|_| ErrorData::invalid_params("the cursor was not issued by this server", None))?;
    Ok(location.as_unchecked_path().to_owned())
}

/// The resources after a path: those of a page and, if there are more, one of the next.
fn page(roots: &RequestRoots, after: Option<&Path>) -> Result<Vec<Resource>, HandlerError> {
    let mut tops = match roots.check_all() {
        Err(error) if is_nothing(error.kind()) => Vec::new(),
        tops => tops?,
    };
    tops.sort_by_cached_key(|top| top.to_unguarded_path());
    let mut page = Vec::new();
    for top in tops {
        add(roots, &top, after, &mut page)?;
    }
    Ok(page)
}

fn is_nothing(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::OutsideRoots | ErrorKind::RootUnavailable)
}

/// Adds a root and everything beneath it that follows a path.
fn add(
    roots: &RequestRoots,
    top: &CheckedPath,
    after: Option<&Path>,
    page: &mut Vec<Resource>,
) -> Result<(), HandlerError> {
    let path = top.to_unguarded_path();
    let follows = |path: &Path| after.is_none_or(|after| path > after);
    let is_above = |path: &Path| after.is_some_and(|after| after.starts_with(path));
    if page.len() > PAGE || !follows(&path) && !is_above(&path) {
        return Ok(());
    }
    let Ok(metadata) = top.metadata() else { return Ok(()) };
    if follows(&path) {
        page.push(entry::resource(top, &entry::name(top), &metadata));
    }
    if top.root().is_file() {
        return Ok(());
    }
    let mut walk = top.walk(WalkOptions::default().skip_unreadable())?;
    while page.len() <= PAGE {
        roots.ensure_usable()?;
        let Some(found) = walk.next_entry()? else { break };
        let path = path.join(found.relative());
        if !follows(&path) {
            if !is_above(&path) {
                walk.skip_current_dir();
            }
            continue;
        }
        if !entry::is_resource(found.file_type()) {
            continue;
        }
        if let (Ok(metadata), Ok(checked)) = (found.metadata(), found.follow()) {
            page.push(entry::resource(&checked, &entry::name(&checked), &metadata));
        }
    }
    Ok(())
}
