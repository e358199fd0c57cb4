//! The `edit_file` tool, which replaces parts of a text file and returns the changes as a unified
//! diff.
//!
//! Either all edits of a call are applied or none. The file is written only if it still has the
//! content that was edited, so no edit of another call is lost. Otherwise, the edits are applied
//! once more, to the new content, unless the call has the version that it expects.

use std::time::{Duration, Instant};

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, ContentHash, PlaceKey};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};
use similar::TextDiff;

use super::Limit;
use super::call::{Call, ToolResult, Work, at_most, shown};
use super::changing::{Failure, change, if_unchanged, put};
use super::replace::{EditRefusal, OCCURRENCES, Which, find};
use super::text::{Text, plain};
use super::whole_number::WholeNumber;
use crate::memory::Room;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EditFile {
    /// A path, or a `file:` URI.
    path: String,
    /// Edits to apply in this order. Each edit applies to the result of the previous one.
    #[schemars(length(max = EDITS))]
    edits: Vec<Edit>,
    /// Return the diff without changing the file.
    #[serde(default)]
    dry_run: bool,
    /// Refuse if the file has changed since this version was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    version: Option<ContentHash>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct Edit {
    /// Text to replace, which must occur once. Leading and trailing white space on each line need
    /// not match exactly.
    old_text: String,
    /// Replacement text.
    new_text: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
    /// Replace only this occurrence, counted from 1.
    #[serde(default)]
    occurrence: WholeNumber,
}

impl Edit {
    /// The occurrences to replace. Some clients send 0 for an omitted argument.
    fn which(&self) -> Result<Which, String> {
        let number = self.occurrence.get().map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        match (self.replace_all, number) {
            (false, None) => Ok(Which::Only),
            (true, None) => Ok(Which::All),
            (false, Some(number)) => Ok(Which::Number(number)),
            _ => Err("replaceAll and occurrence cannot be combined".into()),
        }
    }
}

#[tool_router(router = edit_file_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Edit File",
        description = "Replaces parts of a text file and returns a diff of the changes. If any \
                       edit fails, the file is not changed. With dryRun, it is never changed.",
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = false)
    )]
    async fn edit_file(Parameters(args): Parameters<EditFile>, call: Call) -> ToolResult {
        call.change(move |roots, room| edit(roots, room, &args)).await
    }
}

fn edit(roots: &RequestRoots, room: &Room, args: &EditFile) -> Work<(String, Option<ContentHash>)> {
    let EditFile { path, edits, dry_run, version } = args;
    at_most(EDITS, edits.len(), "edits")?;
    let prepare = || {
        let (part, mut left) = (room.part(), EXAMINED);
        let (file, old) = read_to_edit(roots, room, path)?;
        let version = ensure_version(path, &old, *version)?;
        let new = edited(roots, "", &old, edits, &mut left)?;
        let text = if old == new {
            format!("The edits do not change {path}")
        } else {
            diff(path, &old, &new, DIFF_BYTES, Instant::now() + DIFF_TIME)
        };
        let new = Some(new).filter(|new| !dry_run && *new != old);
        let new_version = new.as_ref().map_or(version, |new| ContentHash::of(new.as_bytes()));
        Ok((part, file, version, new, (text, Some(new_version))))
    };
    change(prepare, |(_part, file, version, new, result)| {
        if let Some(new) = new {
            put(&file, &new, if_unchanged(version))?;
        }
        Ok(result)
    })
}

/// Reads a file, and takes room for what an edit needs.
pub(super) fn read_to_edit(
    roots: &RequestRoots,
    room: &Room,
    path: &str,
) -> Result<(CheckedPath, String), Failure> {
    room.for_file(roots, path, BYTES)?;
    let file = roots.check(path)?;
    let content = file.read_to_string(BYTES)?;
    // More copies, the diff, and what each line takes in the search for it.
    room.take(6 * content.len() + 48 * content.lines().count())?;
    Ok((file, content))
}

/// Adds a file to those that a call changes, each of which it names once.
pub(super) fn add_once(files: &mut Vec<PlaceKey>, file: &CheckedPath, path: &str) -> Work<()> {
    if files.contains(&file.place_key()) {
        return Err(HandlerError::new(format!(
            "{path:?} is in the call twice; put all changes of a file together. No file was changed"
        )));
    }
    files.push(file.place_key());
    Ok(())
}

/// Returns the version of a file's content, or an error if it is not the one that the model read.
pub(super) fn ensure_version(
    path: &str,
    content: &str,
    read: Option<ContentHash>,
) -> Work<ContentHash> {
    let version = ContentHash::of(content.as_bytes());
    if read.is_none_or(|read| read == version) {
        return Ok(version);
    }
    Err(HandlerError::new(format!("{path:?} has changed since it was read; read it again")))
}

/// Spends the budget of a call until the request is cancelled.
pub(super) fn spend(
    roots: &RequestRoots,
    left: &mut usize,
    more: usize,
) -> Result<(), EditRefusal> {
    let less = left.checked_sub(more).filter(|_| roots.ensure_usable().is_ok());
    *left = less.ok_or(EditRefusal::Stopped)?;
    Ok(())
}

/// Applies edits to the content of a file. The text of an error begins with `at`.
pub(super) fn edited(
    roots: &RequestRoots,
    at: &str,
    content: &str,
    edits: &[Edit],
    left: &mut usize,
) -> Work<String> {
    let mut spend = |more| spend(roots, left, more);
    let mut text = Text::new(content);
    for (number, edit) in (1..).zip(edits) {
        let failed = |why| {
            HandlerError::new(format!(
                "{at}edit {number} of {}: {why}. No file was changed",
                edits.len()
            ))
        };
        let (old, new) = (plain(&edit.old_text), plain(&edit.new_text));
        if old.is_empty() {
            return Err(failed("oldText is empty; to write a whole file, use write_file".into()));
        }
        let which = edit.which().map_err(failed)?;
        let found = find(text.plain(), &old, &new, which, &mut spend);
        let replaced = found.map(|parts| text.replace(&parts));
        let is_large = u64::try_from(text.len()).map_or(true, |size| size > BYTES);
        if let Err(why) = replaced.and(if is_large { Err(EditRefusal::TooLarge) } else { Ok(()) }) {
            roots.ensure_usable()?;
            return Err(failed(advice(why, which)));
        }
    }
    Ok(text.content())
}

fn advice(why: EditRefusal, which: Which) -> String {
    match why {
        EditRefusal::Nowhere(None) => {
            "oldText is not in the file; read the file and copy the text from it".into()
        }
        EditRefusal::Nowhere(Some(line)) => format!(
            "oldText is not in the file; its first line matches line {line}, but the following \
             lines do not match"
        ),
        EditRefusal::Count(count, lines) => {
            let more = if lines.len() < count { ", …" } else { "" };
            let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
            let advice = match which {
                Which::Only => "add more lines to oldText, or set occurrence or replaceAll",
                Which::Number(_) => "there is no occurrence with this number",
                Which::All => "these are too many for one edit; write the whole file",
            };
            let lines = lines.join(", ");
            format!("oldText occurs {count} times, at lines {lines}{more}; {advice}")
        }
        EditRefusal::TooLarge => format!("the file would be larger than {BYTES} bytes"),
        EditRefusal::Stopped => "too many edits for a file of this size; split the call, and copy \
                             each oldText exactly"
            .into(),
    }
}

/// The changes as a code block of at most `limit` bytes. After `end`, it can show more than what
/// has changed. Its fence is longer than any sequence of backticks in the diff.
pub(super) fn diff(path: &str, old: &str, new: &str, limit: usize, end: Instant) -> String {
    let (name, old, new) = (shown(path), plain(old), plain(new));
    let diff = TextDiff::configure().deadline(end).diff_lines(&old, &new);
    let mut diff = diff.unified_diff().header(&name, &name).to_string();
    let end = (0..=limit.min(diff.len())).rfind(|&at| diff.is_char_boundary(at)).unwrap_or(0);
    let remark = if end == diff.len() { "" } else { "The diff is truncated\n" };
    diff.truncate(end);
    let longest = diff.split(|char| char != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let newline = if diff.ends_with('\n') { "" } else { "\n" };
    format!("{fence}diff\n{diff}{newline}{fence}\n{remark}")
}

/// The maximum size of a file to edit. Copies of it, and lists of its lines, are held in memory at
/// once.
pub(super) const BYTES: u64 = 4 << 20;

/// The maximum number of edits in a call. To change more, write the whole file.
pub(super) const EDITS: usize = 500;

/// The maximum number of bytes to examine in a call. Examining them takes a few hundred
/// milliseconds.
pub(super) const EXAMINED: usize = 200_000_000;

/// The time after which the diffs of a call may show more than what has changed.
pub(super) const DIFF_TIME: Duration = Duration::from_secs(2);

/// The maximum size of a diff: as much as a model is likely to review.
pub(super) const DIFF_BYTES: usize = 256 << 10;

pub(super) fn limits() -> Vec<Limit> {
    vec![
        ("file to edit or to patch", format!("{} MiB", BYTES >> 20)),
        ("edits in a call", EDITS.to_string()),
        ("occurrences that replaceAll replaces", OCCURRENCES.to_string()),
        ("diff that an edit returns", format!("{} KiB", DIFF_BYTES >> 10)),
    ]
}
