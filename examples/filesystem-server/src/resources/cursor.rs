//! Where a page ended.
//!
//! Goes in: the root and the entry that were told last. Comes out: a text that says nothing to the client, and back. What is true after:
//! a cursor is only compared with what is told next, and never opened or looked up, so one that was made up skips entries and no more.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_roots_guard::limits::PATH_BYTES;
use rmcp::ErrorData;

/// The last entry of a page, in the order of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The root's path.
    pub(super) root: PathBuf,
    /// The path beneath it; empty for the root itself.
    pub(super) entry: PathBuf,
}

impl Cursor {
    /// Reads what a client sent.
    ///
    /// # Errors
    ///
    /// -32602 for what [`to_text`](Self::to_text) does not write.
    pub(super) fn parse(text: &str) -> Result<Self, ErrorData> {
        Self::read(text).ok_or_else(|| {
            ErrorData::invalid_params("the cursor is none that this server gave", None)
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

    /// The text for the client. A path holds no NUL, so that parts the two.
    pub(super) fn to_text(&self) -> String {
        let parts = [&self.root, &self.entry].map(|path| path.as_os_str().as_encoded_bytes());
        URL_SAFE_NO_PAD.encode(parts.join(&0))
    }
}

/// The path with this encoding.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "as on Windows")]
fn path(bytes: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    Some(std::ffi::OsStr::from_bytes(bytes).into())
}

/// The path with this encoding. One that is no Unicode is never told, so no page ends there.
#[cfg(windows)]
fn path(bytes: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Two paths of the longest, as base64.
const CURSOR_BYTES: usize = 2 * PATH_BYTES / 3 * 4 + 8;

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = if cfg!(windows) { r"C:\srv" } else { "/srv" };

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
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
