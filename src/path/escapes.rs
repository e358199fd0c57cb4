//! Percent-decoding of a URI's path.

use super::error::Code;

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
