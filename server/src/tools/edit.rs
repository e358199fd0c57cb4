//! The `edit_file` tool, which replaces parts of a text file and returns the changes as a unified
//! diff.
//!
//! Either all edits of a call are applied or none. A text is searched with `\n` as the only line
//! ending. A line that is not replaced, or is replaced with itself, keeps its ending. A new line has
//! the ending of the lines that it replaces, or if those differ, the most common one. The file is
//! written only if it still has the content that was edited, so no edit of another call is lost.
//! Otherwise, the edits are applied again, to the new content.

use std::ops::Range;
use std::time::Duration;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{ContentHash, ErrorKind, Overwrite, WriteOptions};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};
use similar::TextDiff;

use super::Limit;
use super::call::{Call, ToolResult, Work, at_most, shown};
use super::replace::{NotFound, find_first};
use super::write::put;
use crate::memory::Room;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EditFile {
    /// A path inside the allowed directories, or a `file:` URI.
    path: String,
    /// Edits to apply in this order. Each edit applies to the result of the previous one.
    #[schemars(length(max = EDITS))]
    edits: Vec<Edit>,
    /// Return the diff without changing the file.
    #[serde(default)]
    dry_run: bool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
struct Edit {
    /// Text to replace. Only its first occurrence is replaced. Leading and trailing white space on
    /// each line need not match exactly.
    old_text: String,
    /// Replacement text.
    new_text: String,
}

#[tool_router(router = edit_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Edit File",
        description = "Replaces parts of a text file and returns a diff of the changes. If any \
                       edit fails, the file is not changed. With dryRun, it is never changed.",
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = false)
    )]
    async fn edit_file(Parameters(args): Parameters<EditFile>, call: Call) -> ToolResult {
        call.text(move |roots, room| edit(roots, room, &args)).await
    }
}

fn edit(roots: &RequestRoots, room: &Room, args: &EditFile) -> Work {
    at_most(EDITS, args.edits.len(), "edits")?;
    room.for_file(roots, &args.path, BYTES)?;
    let file = roots.check(&args.path)?;
    let mut left = EXAMINED;
    let mut content = file.read_to_string(BYTES)?;
    // More copies, the diff, and what each line takes in the search for it.
    room.take(6 * content.len() + 48 * content.lines().count())?;
    for _ in 0..TRIES {
        let new = edited(roots, &content, &args.edits, &mut left)?;
        if new == content {
            return Ok(format!("The edits do not change {}", args.path));
        }
        if !args.dry_run {
            roots.ensure_active()?;
            let if_unchanged = WriteOptions::default()
                .overwrite(Overwrite::IfUnchanged(ContentHash::of(content.as_bytes())));
            match put(&file, &new, if_unchanged) {
                Err(error) if error.kind() == ErrorKind::Changed => {
                    content = file.read_to_string(BYTES)?;
                    continue;
                }
                written => written?,
            }
        }
        return Ok(diff(&shown(&args.path), &plain(&content), &plain(&new)));
    }
    Err(HandlerError::new("the file is being edited by other calls; try again"))
}

fn edited(roots: &RequestRoots, content: &str, edits: &[Edit], left: &mut usize) -> Work<String> {
    let mut spend = |more| match left.checked_sub(more) {
        Some(less) if roots.ensure_active().is_ok() => {
            *left = less;
            Ok(())
        }
        _ => Err(NotFound::Stopped),
    };
    let mut content = content.to_owned();
    for (number, edit) in (1..).zip(edits) {
        let failed = |why| {
            HandlerError::new(format!(
                "edit {number} of {}: {why}. The file was not changed",
                edits.len()
            ))
        };
        let (text, old, new) = (plain(&content), plain(&edit.old_text), plain(&edit.new_text));
        if old.is_empty() {
            return Err(failed("oldText is empty; to write a whole file, use write_file".into()));
        }
        match find_first(&text, &old, &new, &mut spend) {
            Ok((part, new)) => {
                let old = text.get(part.clone()).unwrap_or_default();
                replace(&mut content, part, old, &new);
            }
            Err(why) => {
                roots.ensure_active()?;
                return Err(failed(advice(&why)));
            }
        }
        if u64::try_from(content.len()).is_ok_and(|size| size > BYTES) {
            return Err(failed(format!("the file would be larger than {BYTES} bytes")));
        }
    }
    Ok(content)
}

fn advice(why: &NotFound) -> String {
    match why {
        NotFound::Nowhere(None) => {
            "oldText is not in the file; read the file and copy the text from it".into()
        }
        NotFound::Nowhere(Some(line)) => format!(
            "oldText is not in the file; its first line matches line {line}, but the following \
             lines do not match"
        ),
        NotFound::Stopped => "too many edits for a file of this size; split the call, and copy \
                              each oldText exactly"
            .into(),
    }
}

/// The changes as a code block. Its fence is longer than any sequence of backticks in the diff.
fn diff(name: &str, old: &str, new: &str) -> String {
    // After this time, a larger diff is acceptable.
    let diff = TextDiff::configure().timeout(Duration::from_millis(200)).diff_lines(old, new);
    let mut diff = diff.unified_diff().header(name, name).to_string();
    let end = (0..=DIFF_BYTES.min(diff.len())).rfind(|&at| diff.is_char_boundary(at)).unwrap_or(0);
    let remark = if end == diff.len() { "" } else { "The diff is truncated\n" };
    diff.truncate(end);
    let longest = diff.split(|char| char != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let newline = if diff.ends_with('\n') { "" } else { "\n" };
    format!("{fence}diff\n{diff}{newline}{fence}\n{remark}")
}

/// The text with `\n` line endings.
fn plain(content: &str) -> String {
    content.replace("\r\n", "\n")
}

/// Replaces a part with a new text that has `\n` line endings. The part is one of the text with
/// `\n` line endings.
fn replace(content: &mut String, part: Range<usize>, old: &str, new: &str) {
    let (begin, end) = (place(content, part.start), place(content, part.end));
    let rest = content.get(end..).unwrap_or_default();
    // If only a part of the last line is replaced, its line ending follows that part and counts too.
    let ended = match rest.find('\n') {
        Some(newline) if !old.ends_with('\n') => end + newline + 1,
        _ => end,
    };
    let is_crlf = match endings(content.get(begin..ended).unwrap_or_default()) {
        (0, 1..) => false,
        (crlf, all @ 1..) if crlf == all => true,
        _ => {
            let (crlf, all) = endings(content);
            crlf * 2 > all
        }
    };
    let head = same(old.split_inclusive('\n'), new.split_inclusive('\n'));
    let [old, new] = [old, new].map(|text| text.get(head..).unwrap_or_default());
    let tail = same(old.split_inclusive('\n').rev(), new.split_inclusive('\n').rev());
    let new = new.get(..new.len() - tail).unwrap_or_default();
    let new = if is_crlf { new.replace('\n', "\r\n") } else { new.to_owned() };
    let changed = place(content, part.start + head)..place(content, part.end - tail);
    content.replace_range(changed, &new);
}

/// Where a position in the text with `\n` line endings is in the content.
fn place(content: &str, position: usize) -> usize {
    let carriage_returns = content.match_indices("\r\n").enumerate();
    position + carriage_returns.take_while(|(number, (at, _))| at - number < position).count()
}

/// The number of `\r\n` line endings, and of all.
fn endings(text: &str) -> (usize, usize) {
    (text.matches("\r\n").count(), text.matches('\n').count())
}

/// The size of the lines with which both texts start.
fn same<'a>(old: impl Iterator<Item = &'a str>, new: impl Iterator<Item = &'a str>) -> usize {
    old.zip(new).take_while(|(old, new)| old == new).map(|(line, _)| line.len()).sum()
}

/// The maximum size of a file to edit. Copies of it, and lists of its lines, are held in memory at
/// once.
pub(super) const BYTES: u64 = 4 << 20;

/// The maximum number of edits in a call. To change more, write the whole file.
const EDITS: usize = 500;

/// The maximum number of bytes to examine in a call. Examining them takes a few hundred
/// milliseconds.
const EXAMINED: usize = 200_000_000;

/// The maximum number of attempts. An attempt fails if the file changed in the meantime.
const TRIES: usize = 64;

/// The maximum size of a diff: as much as a model is likely to review.
const DIFF_BYTES: usize = 256 << 10;

pub(super) fn limits() -> Vec<Limit> {
    vec![
        ("file for edit_file", format!("{} MiB", BYTES >> 20)),
        ("edits in a call", EDITS.to_string()),
        ("diff that edit_file returns", format!("{} KiB", DIFF_BYTES >> 10)),
    ]
}
