//! The `copy_directory` tool, which copies a directory and everything in it.
//!
//! Each directory is created, each file is copied whole, and each symlink is created with the same
//! text if that leads inside. What cannot be copied is named in the result. If the copy is
//! interrupted, what was copied so far remains.

use mcp_roots_guard::limits::WALK_BYTES;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{
    CheckedPath, DirEntry, ErrorKind, FileType, Result, WalkOptions, WriteOptions,
};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};

use super::Limit;
use super::call::{Call, Lines, Progress, ToolResult, TwoPaths, Work, shown};
use super::steps::Steps;
use crate::server::Server;

#[tool_router(router = copy_directory_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Copy Directory",
        description = "Copies a directory and everything in it to a new directory. Fails if the \
                       destination exists. Symlinks that lead inside the allowed directories are \
                       copied as symlinks.",
        annotations(read_only_hint = false, destructive_hint = false, idempotent_hint = false)
    )]
    async fn copy_directory(Parameters(args): Parameters<TwoPaths>, call: Call) -> ToolResult {
        call.long_change(WALK_BYTES, move |roots, progress| copy(roots, progress, &args)).await
    }
}

fn copy(roots: &RequestRoots, progress: &Progress, args: &TwoPaths) -> Work {
    let from = roots.check(&args.source)?;
    let to = roots.check(&args.destination)?;
    if roots.within(&args.source)?.still_allows(&to).is_ok() {
        return Err(HandlerError::new("the destination is inside the source"));
    }
    if to.exists() {
        return Err(HandlerError::new("the destination exists; choose another path"));
    }
    if to.parent().is_some_and(|parent| !parent.exists()) {
        return Err(HandlerError::new("the parent of the destination does not exist"));
    }
    let mut steps = Steps::new(&from, WalkOptions::default(), &[], progress)?;
    to.create_dir()?;
    let [mut files, mut directories, mut symlinks] = [0_u32; 3];
    let (mut left, mut left_out) = (BYTES, Lines::default());
    let ended = loop {
        let entry = match steps.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => {
                break steps.is_full.then(|| "the directory has too many entries".to_owned());
            }
            Err(error) => break Some(error.to_string()),
        };
        let count = match entry.file_type() {
            FileType::Directory => &mut directories,
            FileType::File => &mut files,
            FileType::Symlink => &mut symlinks,
            _ => {
                left_out.push(&format!("special file {}", shown(entry.relative())));
                continue;
            }
        };
        match copy_entry(&entry, &to, left) {
            Ok(bytes) => (*count, left) = (*count + 1, left.saturating_sub(bytes)),
            Err(error) if error.kind() == ErrorKind::TooLarge => break Some(error.to_string()),
            Err(error) => _ = left_out.push(&error.to_string()),
        }
    };
    if let Some(why) = ended {
        let (copied, to) = (files + directories + symlinks, shown(to.client_path()));
        return Err(HandlerError::new(format!(
            "{why}; {copied} entries were copied and remain in {to}"
        )));
    }
    for error in steps.unreadable() {
        left_out.push(&error.to_string());
    }
    let summary = format!(
        "Copied {files} files, {directories} directories and {symlinks} symlinks to {}",
        args.destination
    );
    let left_out = left_out.finish([]);
    let separator = if left_out.is_empty() { "" } else { "\nNot copied:\n" };
    Ok(format!("{summary}{separator}{left_out}"))
}

/// Copies a file, directory or symlink, of which at most `left` bytes, and returns how many.
fn copy_entry(entry: &DirEntry, to: &CheckedPath, left: u64) -> Result<u64> {
    let path = entry.relative();
    match entry.file_type() {
        FileType::Directory => to.join(path)?.create_dir().map(|()| 0),
        FileType::Symlink => {
            let target = entry.to_entry().read_link()?;
            to.join_entry(path)?.symlink(&target).map(|()| 0)
        }
        _ => entry.follow()?.copy(&to.join(path)?, left, WriteOptions::default()),
    }
}

/// The maximum number of bytes of one copy. A workspace with its build results is rarely larger.
const BYTES: u64 = 8 << 30;

pub(super) fn limits() -> Vec<Limit> {
    vec![("bytes of one copy_directory", format!("{} GiB", BYTES >> 30))]
}
