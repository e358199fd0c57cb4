//! Resource templates for `file:` URIs, and `completion/complete` for their `path`.
//!
//! Given the start of a path, completion returns the possible continuations up to the next slash.
//! It looks up and returns only roots and names inside them.
//!
//! A completion is the percent-encoded part of the URI after `file:///`. The input may be
//! percent-encoded or not, and may start with a slash. A completion never starts with one, because
//! `file:////` would name a host.

use std::collections::BTreeSet;

use mcp_roots_guard::Location;
use mcp_roots_guard::rmcp::{ClientInput, HandlerError, RequestRoots};
use percent_encoding::percent_decode_str;
use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, CompleteRequestParams, CompleteResult, CompletionInfo, ListResourceTemplatesResult,
    Reference, ResourceTemplate,
};
use rmcp::service::{RequestContext, RoleServer};

use super::entry;
use crate::server::Server;

/// URI templates and their names: the form in the MCP specification, for clients that insert the
/// path as text, and one for clients that would percent-encode its slashes, as in RFC 6570.
const TEMPLATES: [(&str, &str); 2] =
    [("file:///{path}", "file"), ("file:///{+path}", "file (RFC 6570)")];

/// Handles `resources/templates/list`.
pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = |(uri, name)| {
        let description = "A file or directory inside the allowed directories, identified by its \
                           percent-encoded absolute path.";
        ResourceTemplate::new(uri, name).with_description(description)
    };
    ListResourceTemplatesResult::with_all_items(TEMPLATES.map(template).into())
        .with_ttl_ms(0)
        .with_cache_scope(CacheScope::Private)
}

/// Handles `completion/complete`.
pub(crate) async fn complete(
    server: &Server,
    params: CompleteRequestParams,
    ctx: &RequestContext<RoleServer>,
) -> Result<CompleteResult, ErrorData> {
    let is_ours = match &params.r#ref {
        Reference::Resource(template) => TEMPLATES.iter().any(|(uri, _)| *uri == template.uri),
        _ => false,
    };
    if !is_ours || params.argument.name != "path" {
        return Err(ErrorData::invalid_params(
            "only the argument \"path\" of a file template can be completed",
            None,
        ));
    }
    let typed = params.argument.value;
    let work = move |roots: RequestRoots| values(&roots, &typed);
    server.respond(ctx, ClientInput::default(), work).await
}

fn values(roots: &RequestRoots, typed: &str) -> Result<CompleteResult, HandlerError> {
    let typed = typed.strip_prefix('/').unwrap_or(typed);
    let mut values = BTreeSet::new();
    for root in roots.iter() {
        let Ok(checked) = roots.check(root.path()) else { continue };
        if checked.metadata().is_err() {
            continue;
        }
        let uri = checked.uri();
        // The root `/` has an empty value, which is not a completion. Its entries are added below.
        let Some(value) = uri.strip_prefix(SCHEME).filter(|value| !value.is_empty()) else {
            continue;
        };
        if starts_with(&percent_decode_str(value).collect::<Vec<_>>(), typed) {
            // A Windows drive already ends with a slash.
            let end = if root.is_file() || value.ends_with('/') { "" } else { "/" };
            values.insert(format!("{value}{end}"));
        }
    }
    let more = beneath(roots, typed, &mut values)?;
    let has_more = more || values.len() > CompletionInfo::MAX_VALUES;
    let values = values.into_iter().take(CompletionInfo::MAX_VALUES).collect();
    let info =
        CompletionInfo::with_pagination(values, None, has_more).map_err(HandlerError::new)?;
    Ok(CompleteResult::new(info))
}

/// Adds the matching names in the typed directory. Returns `true` if there may be more matches than
/// were added.
fn beneath(
    roots: &RequestRoots,
    typed: &str,
    values: &mut BTreeSet<String>,
) -> Result<bool, HandlerError> {
    let (directory, name) = typed.split_at(typed.rfind('/').map_or(0, |slash| slash + 1));
    let children = Location::from_uri(&format!("{SCHEME}{directory}"))
        .and_then(|location| roots.check(&location))
        .and_then(|checked| entry::children(&checked));
    // Incomplete input is not an error, so a refusal only means that there are no completions.
    let Ok(children) = children else { return Ok(false) };
    for found in children {
        roots.ensure_usable()?;
        let Ok(found) = found else { return Ok(true) };
        if !starts_with(found.file_name().as_encoded_bytes(), name) {
            continue;
        }
        if values.len() > CompletionInfo::MAX_VALUES {
            return Ok(true);
        }
        let uri = found.to_entry().uri();
        let escaped = uri.rsplit('/').next().unwrap_or_default();
        let end = if found.file_type().is_dir() { "/" } else { "" };
        values.insert(format!("{directory}{escaped}{end}"));
    }
    Ok(false)
}

/// Whether a name starts with the typed text, which may be plain or percent-encoded.
fn starts_with(name: &[u8], typed: &str) -> bool {
    let decoded: Vec<_> = percent_decode_str(typed).collect();
    name.starts_with(typed.as_bytes()) || name.starts_with(&decoded)
}

const SCHEME: &str = "file:///";
