//! The tools that create, replace and move files and directories.
//!
//! A write either replaces the whole content or changes nothing, except for a root that is a file,
//! which is written in place. A move never replaces an existing file.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, ContentHash, ErrorKind, Overwrite, Result, WriteOptions};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::LIMIT;
use super::call::{Call, OnePath, ToolResult, TwoPaths, Work};
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    /// A path, or a `file:` URI. Its directory must exist.
    path: String,
    /// Complete new content of the file.
    content: String,
    /// Refuse if the file has changed since this version was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    version: Option<ContentHash>,
}

#[tool_router(router = write_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Write File",
        description = "Creates a file with the given content, or replaces an existing file without \
                       confirmation. To change parts of a file, use edit_file.",
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = true)
    )]
    async fn write_file(Parameters(args): Parameters<WriteFile>, call: Call) -> ToolResult {
        call.versioned(move |roots, _| {
            let WriteFile { path, content, version } = args;
            ensure_small(&content)?;
            let options = version.map_or_else(WriteOptions::default, if_unchanged);
            put(&roots.check(&path)?, &content, options)?;
            let written = format!("Wrote {} bytes to {path}", content.len());
            Ok((written, ContentHash::of(content.as_bytes())))
        })
        .await
    }

    #[tool(
        title = "Create Directory",
        description = "Creates a directory and its missing parents. Succeeds if the directory \
                       already exists.",
        annotations(read_only_hint = false, destructive_hint = false, idempotent_hint = true)
    )]
    async fn create_directory(Parameters(args): Parameters<OnePath>, call: Call) -> ToolResult {
        call.text(move |roots, _| {
            roots.create_dir_all(&args.path)?;
            Ok(format!("Directory {} exists", args.path))
        })
        .await
    }

    #[tool(
        title = "Move File",
        description = "Moves or renames a file, or a directory with its contents. Fails if the \
                       destination exists. A symlink is moved without being followed.",
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = false)
    )]
    async fn move_file(Parameters(args): Parameters<TwoPaths>, call: Call) -> ToolResult {
        call.text(move |roots, _| {
            roots.rename(&args.source, &args.destination, Overwrite::Never)?;
            Ok(format!("Moved {} to {}", args.source, args.destination))
        })
        .await
    }
}

/// Refuses content that is too large to be read again.
pub(super) fn ensure_small(content: &str) -> Work<()> {
    if u64::try_from(content.len()).is_ok_and(|size| size <= LIMIT) {
        return Ok(());
    }
    Err(HandlerError::new(format!(
        "the content is larger than {LIMIT} bytes, the limit for reading and writing"
    )))
}

/// Options for replacing a file that still has this version.
pub(super) fn if_unchanged(version: ContentHash) -> WriteOptions {
    WriteOptions::default().overwrite(Overwrite::IfUnchanged(version))
}

/// Replaces the content of a file, completely or not at all. A root that is a file cannot be
/// replaced, so it is written in place.
pub(super) fn put(file: &CheckedPath, content: &str, options: WriteOptions) -> Result<()> {
    match file.write_with(content, options) {
        Err(error) if error.kind() == ErrorKind::RootItself => {
            file.write_with(content, options.in_place())
        }
        written => written,
    }
}

/// Waits until no other call of this process makes changes that must be one. A filesystem may never
/// answer such a call, so the wait is short, and the change is then made all the same.
pub(super) fn turn(roots: &RequestRoots) -> Result<Option<MutexGuard<'static, ()>>> {
    static TURN: Mutex<()> = Mutex::new(());
    let end = Instant::now() + WAIT;
    loop {
        match TURN.try_lock() {
            Ok(turn) => return Ok(Some(turn)),
            Err(TryLockError::Poisoned(turn)) => return Ok(Some(turn.into_inner())),
            Err(TryLockError::WouldBlock) if Instant::now() >= end => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
        }
        roots.ensure_active()?;
        thread::sleep(Duration::from_millis(1));
    }
}

/// How long a change waits for others. They take milliseconds.
const WAIT: Duration = Duration::from_secs(5);
