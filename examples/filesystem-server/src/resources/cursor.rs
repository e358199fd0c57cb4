//! The cursor of a paginated list: the last root and entry on a page, as opaque text.
//!
//! A cursor is only compared with the entries of the next page, and never opened or looked up. A
//! forged cursor can therefore skip entries, but has no other effect.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_roots_guard::limits::PATH_BYTES;
use rmcp::ErrorData;

/// The last entry of a page, in list order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The path of the root.
    pub(super) root: PathBuf,
    /// The path relative to the root, or empty for the root itself.
    pub(super) entry: PathBuf,
}

impl Cursor {
    /// Parses a cursor from a client.
    ///
    /// # Errors
    ///
    /// Returns -32602 if the text does not have the form that [`to_text`](Self::to_text) produces.
    pub(super) fn parse(text: &str) -> Result<Self, ErrorData> {
        Self::read(text).ok_or_else(|| {
            ErrorData::invalid_params("the cursor was not issued by this server", None)
        })
    }

    fn read(text: &str) -> Option<Self> {
        let bytes = Some(text).filter(|text| text.len() <= CURSOR_BYTES)?;
        let bytes = URL_SAFE_NO_PAD.decode(bytes).ok()?;
        let mut parts = bytes.split(|&byte| byte == 0).map(path);
        let (Some(root), Some(entry), None) = (parts.next(), parts.next(), parts.next()) else {
            return None;
        };
        let (root, entry) = (root?, entry?);
        (root.is_absolute() && entry.is_relative()).then_some(Self { root, entry })
    }

    /// Encodes the cursor for the client. The two paths are separated by a NUL byte, which a path
    /// cannot contain.
    pub(super) fn to_text(&self) -> String {
        let parts = [&self.root, &self.entry].map(|path| path.as_os_str().as_encoded_bytes());
        URL_SAFE_NO_PAD.encode(parts.join(&0))
    }
}

/// Converts encoded bytes back to a path. Always returns `Some`.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "the signature is the same on all systems")]
fn path(bytes: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    Some(std::ffi::OsStr::from_bytes(bytes).into())
}

/// Converts encoded bytes back to a path. Returns `None` if they are not valid UTF-8. No valid
/// cursor is affected, because a name that is not valid Unicode is never listed.
#[cfg(windows)]
fn path(bytes: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}

/// The maximum length of a cursor: two paths of maximum length, in base64.
const CURSOR_BYTES: usize = 2 * PATH_BYTES / 3 * 4 + 8;

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = if cfg!(windows) { r"C:\srv" } else { "/srv" };

    #[test]
    fn valid_cursors_round_trip_and_others_are_refused() {
        let odd = if cfg!(unix) { path(b"a/\xff b%\n") } else { path("a/é b%\n".as_bytes()) };
        for entry in [PathBuf::new(), "a".into(), odd.unwrap()] {
            let cursor = Cursor { root: ROOT.into(), entry };
            assert_eq!(Cursor::parse(&cursor.to_text()).unwrap(), cursor);
        }
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text.replace("$R", ROOT));
        for bad in [
            String::new(),
            "!".into(),
            encode("$R"),
            encode("srv\0a"),
            encode("$R\0$R"),
            encode("$R\0a\0b"),
            format!("{}=", encode("$R\0a")),
            "A".repeat(CURSOR_BYTES + 1),
        ] {
            assert_eq!(Cursor::parse(&bad).map_err(|error| error.code.0), Err(-32602), "{bad}");
        }
    }
}
