//! Windows paths that a client sends to a server on another system.
//!
//! Slashes and backslashes separate names, which are compared ignoring ASCII case. A `file:` URI
//! such as `file:///c%3A/proj` is decoded to a path with a slash before the drive.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// The drive and the names of a path in lowercase, each with the rest of the path after one
/// separator.
pub(crate) fn names(path: &OsStr) -> Option<impl Iterator<Item = (OsString, &OsStr)>> {
    let mut rest = starts_with_drive(path)?;
    Some(std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !is_separator(*byte))?;
        let from = rest.get(start..)?;
        let (name, after) =
            from.split_at(from.iter().position(|byte| is_separator(*byte)).unwrap_or(from.len()));
        rest = after;
        let after = after.get(1..).unwrap_or_default();
        Some((OsString::from_vec(name.to_ascii_lowercase()), OsStr::from_bytes(after)))
    }))
}

/// Replaces the backslashes of a path that begins with a drive. After a slash, as in a decoded URI,
/// they are part of names and stay.
pub(crate) fn with_slashes(path: &OsStr) -> Cow<'_, OsStr> {
    let bytes = path.as_bytes();
    if bytes.starts_with(b"/") || starts_with_drive(path).is_none() || !bytes.contains(&b'\\') {
        return Cow::Borrowed(path);
    }
    let slashes = bytes.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte });
    Cow::Owned(OsString::from_vec(slashes.collect()))
}

/// The path from its drive on. `C:` is a drive only if a slash precedes it or a separator follows
/// it.
pub(crate) fn starts_with_drive(path: &OsStr) -> Option<&[u8]> {
    let path = path.as_bytes();
    let from = path.strip_prefix(b"/").unwrap_or(path);
    match from {
        [letter, b':'] if letter.is_ascii_alphabetic() && from.len() < path.len() => Some(from),
        [letter, b':', next, ..] if letter.is_ascii_alphabetic() && is_separator(*next) => {
            Some(from)
        }
        _ => None,
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\')
}
