//! The tool that edits a file.
//!
//! Goes in: a path, and texts to replace in it, one after the other. Comes out: what changed, as a unified diff. What is true after: all
//! edits are in the file, or none; lines that no edit touched end as they did, new ones as most do; and of two edits of a file at once,
//! one came after the other.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, Intent};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};
use similar::{ChangeTag, TextDiff};

use super::call::{Answered, Call, Work, at_most, shown, text_schema};
use super::replace::{NotFound, replace_first};
use super::write::put;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EditFile {
    /// A path inside the allowed directories, or a `file:` URI.
    path: String,
    /// Made in this order, each on what the one before it left.
    #[schemars(length(max = EDITS))]
    edits: Vec<Edit>,
    /// Only tells what would change.
    #[serde(default)]
    dry_run: bool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Edit {
    /// What to replace: the first place where it is. White space around its lines need not be exact.
    old_text: String,
    /// What to put there.
    new_text: String,
}

#[tool_router(router = edit_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Edit File",
        description = "Replaces parts of a text file and tells the change as a diff. If one edit fails, the file stays as it was. With \
                       dryRun, it does in any case.",
        output_schema = text_schema(),
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = false, open_world_hint = false)
    )]
    async fn edit_file(Parameters(args): Parameters<EditFile>, call: Call) -> Answered {
        call.text(move |roots| edit(roots, &args)).await
    }
}

fn edit(roots: &RequestRoots, args: &EditFile) -> Work {
    at_most(EDITS, args.edits.len(), "edits")?;
    let file = roots.check(&args.path, Intent::Existing)?;
    let _alone = alone(&file);
    let content = file.read_to_string(BYTES)?;
    let old = content.replace("\r\n", "\n");
    let new = edited(roots, &old, &args.edits)?;
    if new == old {
        return Ok(format!("The edits change nothing in {}", args.path));
    }
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(&old, &new);
    if !args.dry_run {
        roots.proceed()?;
        put(&file, &with_line_ends(&diff, &content))?;
    }
    let name = shown(&args.path);
    Ok(fenced(&diff.unified_diff().header(&name, &name).to_string()))
}

fn edited(roots: &RequestRoots, content: &str, edits: &[Edit]) -> Work {
    let (mut content, mut budget) = (content.to_owned(), COMPARED);
    for (number, edit) in (1..).zip(edits) {
        roots.proceed()?;
        let [old, new] = [&edit.old_text, &edit.new_text].map(|text| text.replace("\r\n", "\n"));
        let replaced = match old.as_str() {
            "" => Err("oldText is empty; write_file writes a whole file".into()),
            old => replace_first(&content, old, &new, &mut budget).map_err(|why| advice(&why)),
        };
        let failed = |why| HandlerError::new(format!("edit {number} of {}: {why}. Nothing was changed", edits.len()));
        content = replaced.map_err(failed)?;
        if u64::try_from(content.len()).is_ok_and(|size| size > BYTES) {
            return Err(failed(format!("the file would be larger than {BYTES} bytes")));
        }
    }
    Ok(content)
}

fn advice(why: &NotFound) -> String {
    match why {
        NotFound::Nowhere(None) => "oldText is not in the file; read the file and copy it from there".into(),
        NotFound::Nowhere(Some(line)) => {
            format!("oldText is not in the file; its first line is like line {line}, but not those after it")
        }
        NotFound::TooMuch => {
            "oldText is not exactly in the file, which is too long to look for something like it".into()
        }
    }
}

/// The new text, its lines ended as they were in the content, and new ones as most were.
fn with_line_ends(diff: &TextDiff<'_, '_, str>, content: &str) -> String {
    let lines = || content.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(|line| line.ends_with("\r\n"));
    let most = lines().filter(|crlf| *crlf).count() * 2 > lines().count();
    let mut old = lines();
    let mut text = String::with_capacity(content.len());
    for change in diff.iter_all_changes() {
        let line = change.value();
        let kept = if change.tag() == ChangeTag::Insert || !line.ends_with('\n') { None } else { old.next() };
        match line.strip_suffix('\n') {
            _ if change.tag() == ChangeTag::Delete => {}
            Some(line) if kept.unwrap_or(most) => text.extend([line, "\r\n"]),
            _ => text.push_str(line),
        }
    }
    text
}

/// A diff as a code block, whose fence nothing in it ends.
fn fenced(diff: &str) -> String {
    let cut = diff.floor_char_boundary(DIFF_BYTES);
    let (diff, rest) = diff.split_at(cut);
    let longest = diff.split(|char| char != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let remark = if rest.is_empty() { "" } else { "The diff is longer: what is above is its beginning.\n" };
    let newline = if diff.ends_with('\n') { "" } else { "\n" };
    format!("{fence}diff\n{diff}{newline}{fence}\n{remark}")
}

/// Waits until no other edit of the file is between reading and writing: it would be lost.
fn alone(file: &CheckedPath) -> MutexGuard<'static, ()> {
    static EDITED: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];
    // Files that share a place wait for each other, too.
    let place = BuildHasherDefault::<DefaultHasher>::default().hash_one(file.to_string()) % 64;
    let edited = usize::try_from(place).ok().and_then(|place| EDITED.get(place)).unwrap_or(&EDITED[0]);
    edited.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most bytes of a file that is edited: it is held several times, with a list of its lines.
const BYTES: u64 = 4 << 20;

/// More are a new file.
const EDITS: usize = 500;

/// Lines compared in one call, in the worst case some seconds' worth; texts that are there exactly need none.
const COMPARED: usize = 50_000_000;

/// The time to find the smallest diff in; after that, a larger one does.
const DIFF_TIME: Duration = Duration::from_secs(1);

/// A diff is for a model to look over.
const DIFF_BYTES: usize = 256 << 10;
