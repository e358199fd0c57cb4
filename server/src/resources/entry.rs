//! Names, MIME types and directory entries of checked files.
//!
//! Only regular files and directories are resources. A symlink is not listed, because a target
//! inside the roots is listed under its own name.

use std::path::Path;

use mcp_roots_guard::{CheckedPath, DirEntry, FileType, Metadata, Result, WalkOptions};
use rmcp::model::Resource;

/// The MIME type of a directory, as in the MCP specification.
pub(super) const DIRECTORY: &str = "inode/directory";

/// The maximum number of entries listed for one directory. People and models rarely read longer
/// lists.
pub(super) const ENTRIES: usize = 10_000;

/// Describes a checked file or directory for the resource list.
pub(super) fn resource(checked: &CheckedPath, name: &str, metadata: &Metadata) -> Resource {
    let resource = Resource::new(checked.uri(), name);
    if metadata.file_type().is_dir() {
        return resource.with_mime_type(DIRECTORY);
    }
    let resource = resource.with_size(metadata.len());
    match mime_type(path(checked)) {
        Some(mime_type) => resource.with_mime_type(mime_type),
        None => resource,
    }
}

/// The MIME type for the file's extension, if it is known.
pub(crate) fn mime_type(path: &Path) -> Option<&'static str> {
    // An MCP client is more likely to read TypeScript than MPEG video. Both use `.ts`.
    mime_guess::from_path(path).first_raw().filter(|guess| *guess != "video/vnd.dlna.mpeg-tts")
}

/// The file name for display. Invalid UTF-8 is replaced.
pub(super) fn name(checked: &CheckedPath) -> String {
    let path = path(checked);
    // `/` and Windows drives have no file name.
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A path that ends with the file name: relative to the root, or the path of the root itself.
pub(crate) fn path(checked: &CheckedPath) -> &Path {
    let relative = checked.relative();
    if relative.as_os_str().is_empty() { checked.root().path() } else { relative }
}

/// The files and directories in a directory, sorted by name: at most [`ENTRIES`], followed by an
/// error if there are more. An error is repeated for ever.
pub(super) fn children(
    directory: &CheckedPath,
) -> Result<impl Iterator<Item = Result<DirEntry>> + use<>> {
    let mut walk = directory.walk(WalkOptions::default().max_depth(1).max_entries(ENTRIES))?;
    let entries = std::iter::from_fn(move || walk.next_entry().transpose());
    Ok(entries.filter(|entry| entry.as_ref().map_or(true, |entry| is_resource(entry.file_type()))))
}

/// Whether a file of this type is a resource.
pub(super) fn is_resource(file_type: FileType) -> bool {
    matches!(file_type, FileType::File | FileType::Directory)
}
