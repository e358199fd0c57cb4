//! The names of a Windows path on another system, as a client on Windows sends it.
//!
//! The path begins with a drive. A backslash separates names as a slash does, and names are
//! compared ignoring the case of ASCII letters. A `file:` URI such as `file:///c%3A/proj` is
//! decoded to a path with a slash before the drive.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// The names of a path that begins with a drive, in lower case, each with the rest of the path
/// after it and after one separator. The drive is the first name.
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

/// The path without a slash before the drive, or `None` if it does not begin with a drive. `C:` is
/// a drive only with a slash before or a separator after it.
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
