//! `resources/read`: the content of a file, or the entries of a directory.
//!
//! A UTF-8 file is returned as text, and any other file as base64. A directory is returned as the
//! URIs of its files and subdirectories, one per line, sorted by name. A list that is too long ends
//! with a comment that starts with `#`. Clients must not cache the content, because the next request
//! may have different roots.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, ErrorKind, Location};
use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ResourceContents,
};
use rmcp::service::{RequestContext, RoleServer};

use super::entry::{self, DIRECTORY};
use crate::memory::Room;
use crate::nothing::ensure_any;
use crate::server::Server;
use crate::tools::{ANSWER, LIMIT};

/// Handles `resources/read`.
pub(crate) async fn read(
    server: &Server,
    params: &ReadResourceRequestParams,
    ctx: &RequestContext<RoleServer>,
) -> Result<ReadResourceResponse, ErrorData> {
    let (uri, room) = (params.uri.clone(), Room::of(&ctx.extensions));
    let work = move |roots: RequestRoots| {
        ensure_any(&roots)?;
        room.for_file(&roots, &uri, LIMIT)?;
        let result = ReadResourceResult::new(vec![contents(&roots, &room, uri)?])
            .with_ttl_ms(0)
            .with_cache_scope(CacheScope::Private);
        room.for_result(&result)?;
        Ok(result)
    };
    server.respond(ctx, params, work).await
}

fn contents(
    roots: &RequestRoots,
    room: &Room,
    uri: String,
) -> Result<ResourceContents, HandlerError> {
    let checked = roots.check(&Location::from_uri(&uri)?)?;
    if checked.metadata()?.file_type().is_dir() {
        return Ok(
            ResourceContents::text(directory(roots, &checked)?, uri).with_mime_type(DIRECTORY)
        );
    }
    let content = checked.read(LIMIT)?;
    let guessed = entry::mime_type(entry::path(&checked));
    Ok(match String::from_utf8(content) {
        Ok(text) => {
            ResourceContents::text(text, uri).with_mime_type(guessed.unwrap_or("text/plain"))
        }
        Err(blob) => {
            // The base64 text.
            room.take(2 * blob.as_bytes().len())?;
            ResourceContents::blob(STANDARD.encode(blob.as_bytes()), uri)
                .with_mime_type(guessed.unwrap_or("application/octet-stream"))
        }
    })
}

fn directory(roots: &RequestRoots, checked: &CheckedPath) -> Result<String, HandlerError> {
    let mut lines = String::new();
    for found in entry::children(checked)? {
        roots.ensure_usable()?;
        let is_full = lines.len() >= ANSWER;
        let found = match found {
            Err(error) if error.kind() != ErrorKind::TooManyEntries => return Err(error.into()),
            Ok(found) if !is_full => found,
            _ => {
                // The comment syntax of text/uri-list (RFC 2483).
                lines.push_str("# There are more entries, which are not listed\n");
                break;
            }
        };
        lines.push_str(&found.to_entry().uri());
        lines.push('\n');
    }
    Ok(lines)
}
