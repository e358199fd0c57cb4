//! The templates of file URIs, and `completion/complete` of their `path`.
//!
//! Goes in: what a person typed so far. Comes out: how it may go on, to the next slash. What is true after: only names of roots and
//! names inside them are told, and nothing else was looked at; what is no beginning of a path, or leads out, has no completions.
//!
//! A value is what stands in the URI behind `file:///`, escaped as there, so that a client may put it in as it is. A directory's ends
//! with a slash. What was typed may be escaped or not, and may begin with a slash, which no value has: `file:////` would name a host.

use std::collections::BTreeSet;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{Intent, Location};
use percent_encoding::percent_decode_str;
use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, CompleteRequestParams, CompleteResult, CompletionInfo, ListResourceTemplatesResult,
    Reference, ResourceTemplate,
};
use rmcp::service::{RequestContext, RoleServer};

use super::entry;
use super::list::remedied;
use crate::server::Server;

/// The first is how the protocol writes it, and what clients fill in as text. A client that expands templates as RFC 6570 has it
/// escapes the slashes there, which the guard refuses; for those there is the second.
const TEMPLATES: [(&str, &str); 2] =
    [("file:///{path}", "file"), ("file:///{+path}", "file by RFC 6570")];

/// Answers `resources/templates/list`.
pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = |(uri, name)| {
        let about = "A file or directory in the allowed directories, by its absolute path, percent-encoded.";
        ResourceTemplate::new(uri, name).with_description(about)
    };
    ListResourceTemplatesResult::with_all_items(TEMPLATES.map(template).into())
        .with_ttl_ms(0)
        .with_cache_scope(CacheScope::Private)
}

/// Answers `completion/complete`.
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
            "only the path of a file template can be completed",
            None,
        ));
    }
    let typed = params.argument.value;
    let completed = server.guard.request(ctx, None, move |roots| values(&roots, &typed)).await;
    completed.map_err(|error| remedied(error, ctx))
}

fn values(roots: &RequestRoots, typed: &str) -> Result<CompleteResult, HandlerError> {
    let typed = typed.strip_prefix('/').unwrap_or(typed);
    let mut values = BTreeSet::new();
    for root in roots.roots().filter(|root| root.is_available()) {
        let uri = root.uri();
        // The root `/` has no name; what is in it is told below.
        let Some(value) = uri.strip_prefix(SCHEME).filter(|value| !value.is_empty()) else {
            continue;
        };
        if goes_on(&percent_decode_str(value).collect::<Vec<_>>(), typed) {
            // A drive of Windows ends with a slash already.
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

/// Adds the names in the directory that was typed. True if there are more.
fn beneath(
    roots: &RequestRoots,
    typed: &str,
    values: &mut BTreeSet<String>,
) -> Result<bool, HandlerError> {
    let (directory, name) = typed.split_at(typed.rfind('/').map_or(0, |slash| slash + 1));
    let checked = Location::from_uri(&format!("{SCHEME}{directory}"))
        .and_then(|location| roots.check(&location, Intent::Existing))
        .and_then(|checked| Ok((entry::children(&checked)?, checked)));
    // Half a path is no mistake: whatever the reason, there is nothing to tell.
    let Ok((children, checked)) = checked else { return Ok(false) };
    for found in children {
        roots.ensure_active()?;
        let Ok(found) = found else { return Ok(true) };
        if !goes_on(found.name().as_encoded_bytes(), name) {
            continue;
        }
        let Some(child) = entry::child(roots, &checked, found.name()) else { continue };
        if values.len() > CompletionInfo::MAX_VALUES {
            return Ok(true);
        }
        let uri = child.uri();
        let escaped = uri.rsplit('/').next().unwrap_or_default();
        let end = if found.metadata().is_dir() { "/" } else { "" };
        values.insert(format!("{directory}{escaped}{end}"));
    }
    Ok(false)
}

/// Whether a name begins with what was typed: as it is, with its escapes read, or with the last escape half typed.
fn goes_on(name: &[u8], typed: &str) -> bool {
    let begins = |with: &str| name.strip_prefix(&*percent_decode_str(with).collect::<Vec<_>>());
    if name.starts_with(typed.as_bytes()) || begins(typed).is_some() {
        return true;
    }
    let Some((before, digits)) = typed.rsplit_once('%') else { return false };
    let next = begins(before).and_then(<[u8]>::first);
    digits.len() < 2
        && next.is_some_and(|next| {
            !next.is_ascii_alphanumeric() && escape(*next).starts_with(&digits.to_ascii_uppercase())
        })
}

fn escape(byte: u8) -> String {
    format!("{byte:02X}")
}

const SCHEME: &str = "file:///";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_goes_on_from_what_was_typed() {
        for (name, typed, expected) in [
            ("a b%c", "", true),
            ("a b%c", "a ", true),
            ("a b%c", "a%20b", true),
            ("a b%c", "a%", true),
            ("a b%c", "a%2", true),
            ("a b%c", "a b%", true),
            ("a b%c", "a b%2", true),
            ("a b%c", "a b%25c", true),
            ("a b%c", "a b%c", true),
            ("a%20b", "a%20", true),
            ("a b%c", "a%3", false),
            ("a b%c", "b", false),
            ("ab", "a%6", false),
            ("ab", "a%", false),
            ("ab", "abc", false),
            ("é", "%C3%a", true),
            ("é", "%c3", true),
        ] {
            assert_eq!(goes_on(name.as_bytes(), typed), expected, "{name} {typed}");
        }
    }
}
