//! Parsing the text of a request.
//!
//! The input is any bytes. They are parsed as a path and, if they are UTF-8, as a request and as a
//! URI. Properties:
//!
//! - Nothing panics.
//! - A path is accepted byte for byte, or refused for one of three reasons.
//! - A URI is read by the rules of RFC 3986, or refused for the first rule that it breaks.
//! - An accepted URI yields an absolute path with one leading slash and without NUL or dot
//!   segments. The `url` crate reads the same path.
//! - Every such path, written as a URI, is read as the same path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mcp_roots_guard::limits::{PATH_BYTES, URI_BYTES};
use mcp_roots_guard::{Location, Result};
use url::Url;

use crate::support::rfc3986::{decode, is_hex, remove_dots};

/// Checks all properties.
pub(crate) fn hold(bytes: &[u8]) {
    path(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let (parsed, uri) = (Location::parse(text), Location::from_uri(text));
        if is_uri(text) {
            assert_eq!(
                path_or_code(&parsed),
                path_or_code(&uri),
                "{text:?} as a text and as a URI"
            );
            let expected = by_the_rules(text);
            assert_eq!(
                path_or_code(&uri),
                expected.as_deref().map_err(|kind| *kind),
                "{text:?} by the rules"
            );
            if let Ok(location) = &uri {
                uri_path(text, location.as_unchecked_path());
            }
        } else {
            assert_eq!(
                path_or_code(&parsed),
                path_or_code(&Location::try_from(Path::new(text))),
                "{text:?} as a text and as a path"
            );
            let kind = if text.is_empty() { "empty" } else { "not_absolute" };
            assert_eq!(path_or_code(&uri), Err(kind), "{text:?} is not a URI");
        }
    }
}

fn path(bytes: &[u8]) {
    let expected = match bytes {
        [] => Err("empty"),
        _ if bytes.len() >= PATH_BYTES => Err("too_long"),
        _ if bytes.contains(&0) => Err("nul"),
        _ => Ok(bytes),
    };
    let path = Path::new(OsStr::from_bytes(bytes));
    assert_eq!(
        path_or_code(&Location::try_from(path)),
        expected,
        "{} as a path",
        bytes.escape_ascii()
    );
    if expected.is_ok() && path.is_absolute() && !has_dots(path) {
        let read = Location::from_uri(&write_uri(path));
        // A URI with four slashes is always refused.
        let expected = if bytes.starts_with(b"//") { Err("foreign_host") } else { expected };
        assert_eq!(path_or_code(&read), expected, "{} written as a URI", bytes.escape_ascii());
    }
}

fn uri_path(text: &str, path: &Path) {
    let bytes = path.as_os_str().as_bytes();
    let is_plain =
        path.is_absolute() && !bytes.starts_with(b"//") && !bytes.contains(&0) && !has_dots(path);
    assert!(is_plain, "{text:?} is read as {}", bytes.escape_ascii());
    let peer = Url::parse(text).ok().and_then(|url| url.to_file_path().ok()).unwrap_or_default();
    let peer = peer.as_os_str().as_bytes();
    // The `url` crate treats a last segment such as `a:` as a drive and appends a slash, and keeps
    // the first segment if it looks like a drive.
    let is_drive = matches!(bytes, [.., letter, b':' | b'|'] if letter.is_ascii_alphabetic());
    let peer = if is_drive { peer.strip_suffix(b"/").unwrap_or(peer) } else { peer };
    if !has_drive(text) {
        assert_eq!(peer, bytes, "{text:?} as the url crate reads it");
    }
    let again = Location::from_uri(&write_uri(path));
    assert_eq!(
        path_or_code(&again),
        Ok(bytes),
        "{text:?}, read as {} and written again",
        bytes.escape_ascii()
    );
}

/// The path of a URI, or the code of the first rule that it breaks.
fn by_the_rules(text: &str) -> Result<Vec<u8>, &'static str> {
    let (scheme, rest) = text.split_once(':').unwrap();
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    let is_dropped = text.ends_with(|c| c <= ' ') || text.contains(['\t', '\n', '\r', '\\']);
    let escapes = path
        .split('%')
        .skip(1)
        .map(|escape| escape.get(..2).filter(|hex| is_hex(hex)).unwrap_or_default());
    let bad_escape = escapes.into_iter().find_map(|hex| match hex.to_ascii_lowercase().as_str() {
        "" => Some("bad_escape"),
        "00" => Some("nul"),
        "2f" => Some("encoded_separator"),
        _ => None,
    });
    let plain = remove_dots(&path.replace("%2e", ".").replace("%2E", "."));
    let decoded = decode(&plain);
    let rules = [
        (text.len() > URI_BYTES, "too_long"),
        (!scheme.eq_ignore_ascii_case("file"), "foreign_scheme"),
        (text.contains('\0'), "nul"),
        (is_dropped, "dropped_character"),
        (text.contains('#'), "fragment"),
        (text.contains('?'), "query"),
        (!["", "localhost"].contains(&host.to_ascii_lowercase().as_str()), "foreign_host"),
        (!path.starts_with('/'), "not_absolute"),
        (bad_escape.is_some(), bad_escape.unwrap_or("bad_escape")),
        (path.starts_with("//") || plain.starts_with("//"), "foreign_host"),
        (decoded.len() >= PATH_BYTES, "too_long"),
    ];
    rules.into_iter().find(|(breaks, _)| *breaks).map_or(Ok(decoded), |(_, kind)| Err(kind))
}

/// Whether a segment is a letter followed by `:` or `|`.
fn has_drive(text: &str) -> bool {
    let is_drive = |name: &str| match name.as_bytes() {
        [letter, b':' | b'|'] => letter.is_ascii_alphabetic(),
        _ => false,
    };
    text.split('/').any(is_drive)
}

/// The bytes of the path, or the code of the refusal.
fn path_or_code(location: &Result<Location>) -> Result<&[u8], &'static str> {
    match location {
        Ok(location) => Ok(location.as_unchecked_path().as_os_str().as_bytes()),
        Err(error) => Err(error.code()),
    }
}

/// Whether the text counts as a URI: it starts with `file:` in any case, or with a scheme of at
/// least two characters before `://`.
fn is_uri(text: &str) -> bool {
    let is_scheme_character = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    text.to_ascii_lowercase().starts_with("file:")
        || text.split_once("://").is_some_and(|(scheme, _)| {
            scheme.len() > 1
                && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(is_scheme_character)
        })
}

/// Whether a segment is `.` or `..`. `Path::components` cannot be used here, because it drops `.`.
fn has_dots(path: &Path) -> bool {
    path.as_os_str()
        .as_bytes()
        .split(|&byte| byte == b'/')
        .any(|name| name == b"." || name == b"..")
}

/// Percent-encodes every byte except slashes and unreserved characters (RFC 3986, section 2.3).
fn write_uri(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes().iter();
    let written = bytes.map(|&byte| match byte {
        b'/' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    format!("file://{}", written.collect::<String>())
}
