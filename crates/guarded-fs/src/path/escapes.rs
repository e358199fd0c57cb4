//! What `file:` URIs have in common on all systems.

use crate::error::Code;

/// The text after the scheme. Refuses queries, fragments, and everything that a URL parser would
/// silently repair. `allows_backslash` decides by that text.
pub(crate) fn after_scheme(
    text: &str,
    allows_backslash: impl FnOnce(&str) -> bool,
) -> Result<&str, Code> {
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    // WHATWG URL, "basic URL parser", steps 1 to 3, remove surrounding control characters and
    // spaces, and all tabs and newlines.
    let is_dropped = text.ends_with(|c| c <= ' ') || text.contains(['\t', '\n', '\r']);
    match text {
        _ if !scheme.eq_ignore_ascii_case("file") => Err(Code::ForeignScheme),
        _ if text.contains('\0') => Err(Code::Nul),
        _ if is_dropped || (text.contains('\\') && !allows_backslash(rest)) => {
            Err(Code::DroppedCharacter)
        }
        _ if text.contains('#') => Err(Code::Fragment),
        _ if text.contains('?') => Err(Code::Query),
        _ => Ok(rest),
    }
}

/// Splits the text after the scheme into the host, which may be empty, and the path.
pub(crate) fn split_host(rest: &str) -> (&str, &str) {
    let Some(rest) = rest.strip_prefix("//") else { return ("", rest) };
    rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).unwrap_or((rest, ""))
}

/// Decodes each `%XX` once (RFC 3986, 2.1). `%2e` is a dot (6.2.2.3). An escaped NUL or separator
/// is refused, so decoding does not change how the path splits into segments.
pub(crate) fn decode(path: &str, separators: &[u8]) -> Result<Vec<u8>, Code> {
    let mut bytes = path.bytes();
    let mut decoded = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || {
            bytes.next().and_then(|b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok())
        };
        match (digit(), digit()) {
            (Some(high), Some(low)) => match high * 16 + low {
                0 => return Err(Code::Nul),
                byte if separators.contains(&byte) => return Err(Code::EncodedSeparator),
                byte => decoded.push(byte),
            },
            _ => return Err(Code::BadEscape),
        }
    }
    Ok(decoded)
}
