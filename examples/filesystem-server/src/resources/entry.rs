//! What stands for a file or a directory.
//!
//! Goes in: what the guard checked. Comes out: its name, its MIME type, and what is in it. What is true after: only regular files and
//! directories are told. Links are not: what one leads to inside the roots is told under its own name.

use std::path::Path;

use mcp_roots_guard::{CheckedPath, Intent, Metadata, Result, Roots, WalkEntry, WalkOptions};
use rmcp::model::Resource;

/// The MIME type of a directory, as the protocol has it.
pub(super) const DIRECTORY: &str = "inode/directory";

/// The most entries of one directory that are told: a page of them is for a person or a model to read.
pub(super) const ENTRIES: usize = 10_000;

/// A place as the list tells it.
pub(super) fn resource(checked: &CheckedPath, name: &str, metadata: &Metadata) -> Resource {
    let resource = Resource::new(checked.uri(), name);
    if metadata.is_dir() {
        return resource.with_mime_type(DIRECTORY);
    }
    let resource = resource.with_size(metadata.size());
    match mime_type(path(checked)) {
        Some(mime_type) => resource.with_mime_type(mime_type),
        None => resource,
    }
}

/// The MIME type that a file's name tells, if it tells one.
pub(crate) fn mime_type(path: &Path) -> Option<&'static str> {
    // TypeScript ends with `.ts`, too, and is what a client more likely has.
    mime_guess::from_path(path).first_raw().filter(|guess| *guess != "video/vnd.dlna.mpeg-tts")
}

/// The last name, in which what is no UTF-8 is replaced: to show.
pub(super) fn name(checked: &CheckedPath) -> String {
    let path = path(checked);
    // `/`, or a drive, has none.
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Where the last name stands: for a root, in its own path.
pub(crate) fn path(checked: &CheckedPath) -> &Path {
    let relative = checked.relative();
    if relative.as_os_str().is_empty() { checked.root().path() } else { relative }
}

/// What is in a directory, in the order of names: at most [`ENTRIES`], then an error.
pub(super) fn children(
    directory: &CheckedPath,
) -> Result<impl Iterator<Item = Result<WalkEntry>> + use<>> {
    let walk = directory.walk(WalkOptions::new().max_depth(1).max_entries(ENTRIES))?;
    Ok(walk.filter(|entry| entry.as_ref().map_or(true, |entry| is_told(entry.metadata()))))
}

/// Whether something of this kind is told.
pub(super) fn is_told(metadata: &Metadata) -> bool {
    metadata.is_file() || metadata.is_dir()
}

/// An entry of a checked directory, checked itself. None if it is gone by now, or may not be served.
pub(super) fn child(
    roots: &Roots,
    directory: &CheckedPath,
    entry: impl AsRef<Path>,
) -> Option<CheckedPath> {
    let beneath = directory.root().path().join(directory.relative()).join(entry);
    roots.check(beneath, Intent::Existing).ok()
}
