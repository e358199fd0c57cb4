//! The `apply_patch` tool, which applies a patch in the format that Codex's models write.
//!
//! Everything is prepared before the first change, and if a part of the patch fails, no file is
//! changed. The changes are then made in the order of the patch, each completely. If the system
//! refuses one of them then, the error names those that were made. If the server is killed
//! meanwhile, the changes before that one were made. A file that is changed and moved is first
//! written under its new name, so it is never lost, with the permissions that it has.
//!
//! Unlike Codex, this never overwrites a file that is not to be updated: one is neither added nor
//! moved where something exists. A file has one section at most.

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{
    ChangeSet, ContentHash, Error, ErrorKind, PlaceKey, Precondition, WriteOptions,
};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Call, Lines, ToolResult, Work, shown};
use super::changing::{Failure, change, if_unchanged};
use super::edit_file::{BYTES, EXAMINED, add_once, read_to_edit, spend};
use super::hunks::patched;
use super::patch_format::{Change, Hunk, Section, parse};
use crate::memory::Room;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct ApplyPatch {
    /// The patch, from *** Begin Patch to *** End Patch.
    #[serde(alias = "input")]
    patch: String,
}

#[tool_router(router = apply_patch_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Apply Patch",
        description = "Adds, updates, moves and deletes text files by a patch in the format of \
                       Codex: *** Begin Patch, sections that begin with *** Add File: PATH (lines \
                       after +), *** Delete File: PATH or *** Update File: PATH (optionally *** \
                       Move to: PATH, then hunks of lines after a space, - or +, each begun by @@ \
                       or @@ LINE ABOVE), and *** End Patch. Lists the changed files. If a part \
                       fails, no file is changed.",
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = false)
    )]
    async fn apply_patch(Parameters(args): Parameters<ApplyPatch>, call: Call) -> ToolResult {
        call.change(move |roots, room| Ok((apply(roots, room, &args.patch)?, None))).await
    }
}

fn apply(roots: &RequestRoots, room: &Room, text: &str) -> Work {
    if u64::try_from(text.len()).map_or(true, |size| size > BYTES) {
        return Err(HandlerError::new(format!("the patch is larger than {BYTES} bytes; split it")));
    }
    // The new files, twice until the commit, and what each line takes.
    room.take(2 * text.len() + 48 * text.lines().count())?;
    let sections = parse(text).map_err(HandlerError::new)?;
    let mut result = Lines::default();
    for Section { path, change } in &sections {
        let (letter, to) = match change {
            Change::Add(_) => ('A', None),
            Change::Delete => ('D', None),
            Change::Update { to, .. } => ('M', *to),
        };
        let to = to.map(|to| format!(" -> {}", shown(to))).unwrap_or_default();
        result.push(&format!("{letter} {}{to}", shown(path)));
    }
    let prepare = || {
        let (part, changes, updated) = (room.part(), roots.change_set(), Vec::new());
        let mut files = Files { roots, room, changes, updated, left: EXAMINED };
        sections.iter().try_for_each(|section| files.add(section))?;
        Ok((part, files.changes))
    };
    change(prepare, |(_part, changes)| Ok(changes.commit()?))?;
    Ok(result.finish([]))
}

/// The files that a patch changes.
struct Files<'a> {
    roots: &'a RequestRoots,
    room: &'a Room,
    changes: ChangeSet,
    updated: Vec<PlaceKey>,
    /// How many bytes may still be examined.
    left: usize,
}

impl Files<'_> {
    fn add(&mut self, section: &Section<'_>) -> Result<(), Failure> {
        self.roots.ensure_usable()?;
        let path = section.path;
        match &section.change {
            Change::Add(content) => {
                self.changes.write(path, content.as_str(), new_file()).map_err(advised)
            }
            Change::Delete => Ok(self.changes.remove_file(path, Precondition::Any)?),
            Change::Update { to: Some(to), hunks } if hunks.is_empty() => {
                self.changes.rename(path, *to, Precondition::Missing).map_err(advised)
            }
            Change::Update { to, hunks } => self.update(path, *to, hunks),
        }
    }

    fn update(&mut self, path: &str, to: Option<&str>, hunks: &[Hunk<'_>]) -> Result<(), Failure> {
        let (file, old) = read_to_edit(self.roots, self.room, path)?;
        add_once(&mut self.updated, &file, path)?;
        let version = ContentHash::of(old.as_bytes());
        let mut spend = |more| spend(self.roots, &mut self.left, more);
        let new = patched(&old, hunks, &mut spend);
        self.roots.ensure_usable()?;
        let refused =
            |why: &str| HandlerError::new(format!("update {path:?}: {why}. No file was changed"));
        let new = new.map_err(|why| refused(&why))?;
        if u64::try_from(new.len()).map_or(true, |size| size > BYTES) {
            return Err(refused(&format!("the file would be larger than {BYTES} bytes")).into());
        }
        // The set keeps it until the commit.
        self.room.take(new.len())?;
        match to {
            Some(to) => {
                let unchanged = Precondition::Unchanged(version);
                self.changes.write_moved(path, unchanged, to, new, new_file()).map_err(advised)
            }
            None => Ok(self.changes.write(path, new, if_unchanged(version))?),
        }
    }
}

fn new_file() -> WriteOptions {
    WriteOptions::default().precondition(Precondition::Missing).create_parents()
}

fn advised(error: Error) -> Failure {
    if error.kind() == ErrorKind::AlreadyExists {
        let advice = "to change it, use *** Update File, or delete it first in another patch";
        return HandlerError::new(format!("{error}; {advice}. No file was changed")).into();
    }
    error.into()
}
