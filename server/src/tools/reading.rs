//! What the tools that read text have in common.

use mcp_roots_guard::{Error, ErrorKind};

/// Adds advice to a refusal.
pub(super) fn advised(error: Error, too_large: &str) -> Error {
    let advice = match error.kind() {
        ErrorKind::TooLarge => too_large,
        ErrorKind::NotUtf8 => AS_IT_IS,
        ErrorKind::IsADirectory => "to list a directory, use list_directory",
        _ => return error,
    };
    error.with_outcome(advice.to_owned())
}

// Advice on refusals.
pub(super) const AS_IT_IS: &str = "to read it in base64, use read_media_file";
pub(super) const WHOLE: &str = "to read a part, use read_text_file with offset and limit, head or \
                                tail; to find lines, use search_content";

/// The maximum number of bytes of text to read from files, which clients receive twice: as a content
/// block and as structured content. Models rarely read as much.
pub(super) const TEXT: u64 = 2 << 20;
