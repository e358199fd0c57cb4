//! The `edit_files` tool, which edits several text files as one change.
//!
//! The edits of all files are applied before the first file is changed. If one fails, no file is
//! changed. If a file is changed in the meantime, the edits are applied once more, to what is there
//! now. The files are then replaced one after another, each completely. If the system refuses one of
//! them then, the error names the files that were changed. If the server is killed meanwhile, the
//! files before that one are new, and the others are old.

use std::fmt::Write as _;
use std::time::Instant;

use mcp_roots_guard::ContentHash;
use mcp_roots_guard::limits::CHANGES;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::Limit;
use super::call::{Call, ToolResult, Work, at_most};
use super::changing::{change, if_unchanged};
use super::edit_file::{
    DIFF_BYTES, DIFF_TIME, EDITS, EXAMINED, Edit, add_once, diff, edited, ensure_version,
    read_to_edit,
};
use crate::memory::Room;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EditFiles {
    /// Different files with their edits.
    #[schemars(length(min = 1, max = CHANGES))]
    files: Vec<FileEdits>,
    /// Return the diffs without changing the files.
    #[serde(default)]
    dry_run: bool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct FileEdits {
    /// As in edit_file.
    path: String,
    /// As in edit_file.
    edits: Vec<Edit>,
    /// As in edit_file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    version: Option<ContentHash>,
}

#[tool_router(router = edit_files_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Edit Files",
        description = "Edits several text files like edit_file, and returns their diffs. If any \
                       edit fails, no file is changed.",
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = false)
    )]
    async fn edit_files(Parameters(args): Parameters<EditFiles>, call: Call) -> ToolResult {
        call.change(move |roots, room| Ok((edit(roots, room, &args)?, None))).await
    }
}

fn edit(roots: &RequestRoots, room: &Room, args: &EditFiles) -> Work {
    if args.files.is_empty() {
        return Err(HandlerError::new("files is empty: at least one file is required"));
    }
    at_most(CHANGES, args.files.len(), "files")?;
    at_most(EDITS, args.files.iter().map(|file| file.edits.len()).sum(), "edits")?;
    let prepare = || {
        let (part, mut left) = (room.part(), EXAMINED);
        let (mut changes, mut files) = (roots.change_set(), Vec::new());
        let (mut result, end) = (String::new(), Instant::now() + DIFF_TIME);
        for FileEdits { path, edits, version } in &args.files {
            let (file, old) = read_to_edit(roots, room, path)?;
            add_once(&mut files, &file, path)?;
            let version = ensure_version(path, &old, *version)?;
            let new = edited(roots, &format!("{path:?}: "), &old, edits, &mut left)?;
            if new != old && !args.dry_run {
                // The set keeps it until the commit.
                room.take(new.len())?;
                changes.write(path, new.as_str(), if_unchanged(version))?;
            }
            if old == new {
                let _ = writeln!(result, "The edits do not change {path}");
            } else {
                result += &diff(path, &old, &new, DIFF_BYTES.saturating_sub(result.len()), end);
            }
        }
        Ok((part, changes, result))
    };
    change(prepare, |(_part, changes, result)| {
        changes.commit()?;
        Ok(result)
    })
}

pub(super) fn limits() -> Vec<Limit> {
    vec![(
        "files in edit_files or apply_patch; a moved and changed one counts twice",
        CHANGES.to_string(),
    )]
}
