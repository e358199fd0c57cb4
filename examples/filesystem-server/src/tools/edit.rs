//! The tool that edits a file.
//!
//! Goes in: a path, and texts to replace in it, one after the other. Comes out: what changed, as a unified diff. What is true after: all
//! edits are in the file, or none; lines that no edit touched end as they did; of two edits of a file at once, one came after the other;
//! and none made another wait for longer than a file takes to be read and written.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, Intent};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};
use similar::TextDiff;

use super::call::{Answered, Call, Work, at_most, shown, text_schema};
use super::ends::Text;
use super::replace::{NotFound, find_first};
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
    let mut left = LOOKED_AT;
    let mut content = file.read_to_string(BYTES)?;
    for _ in 0..TRIES {
        let old = Text::new(&content);
        let new = edited(roots, old.clone(), &args.edits, &mut left)?;
        if new.as_str() == old.as_str() {
            return Ok(format!("The edits change nothing in {}", args.path));
        }
        if !args.dry_run {
            roots.proceed()?;
            let _alone = alone(&file);
            let now = file.read_to_string(BYTES)?;
            if now != content {
                // To read it and split it into lines costs, too.
                let Some(less) = left.checked_sub(8 * now.len()) else { break };
                (left, content) = (less, now);
                continue;
            }
            put(&file, &new.content())?;
        }
        return Ok(told(&shown(&args.path), old.as_str(), new.as_str()));
    }
    Err(HandlerError::new("other edits of the file are under way; try again"))
}

fn edited(roots: &RequestRoots, mut text: Text, edits: &[Edit], left: &mut usize) -> Work<Text> {
    let mut spend = |more| match left.checked_sub(more) {
        Some(less) if roots.proceed().is_ok() => {
            *left = less;
            Ok(())
        }
        _ => Err(NotFound::Stopped),
    };
    for (number, edit) in (1..).zip(edits) {
        let failed = |why| HandlerError::new(format!("edit {number} of {}: {why}. Nothing was changed", edits.len()));
        let [old, new] = [&edit.old_text, &edit.new_text].map(|text| text.replace("\r\n", "\n"));
        if old.is_empty() {
            return Err(failed("oldText is empty; write_file writes a whole file".into()));
        }
        match find_first(text.as_str(), &old, &new, &mut spend) {
            Ok((part, new)) => text.replace(part, &new),
            Err(why) => {
                roots.proceed()?;
                return Err(failed(advice(&why)));
            }
        }
        if u64::try_from(text.size()).is_ok_and(|size| size > BYTES) {
            return Err(failed(format!("the file would be larger than {BYTES} bytes")));
        }
    }
    Ok(text)
}

fn advice(why: &NotFound) -> String {
    match why {
        NotFound::Nowhere(None) => "oldText is not in the file; read the file and copy it from there".into(),
        NotFound::Nowhere(Some(line)) => {
            format!("oldText is not in the file; its first line is like line {line}, but not those after it")
        }
        NotFound::Stopped => {
            "these are too many edits of so large a file; split the call, and copy each oldText exactly".into()
        }
    }
}

/// What changed, as a code block, whose fence nothing in it ends.
fn told(name: &str, old: &str, new: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let mut told = Beginning::default();
    // It fails when it is full.
    let all = write!(told, "{}", diff.unified_diff().header(name, name)).is_ok();
    let Beginning(diff) = told;
    let longest = diff.split(|char| char != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let remark = if all { "" } else { "The diff is longer: what is above is its beginning.\n" };
    let newline = if diff.ends_with('\n') { "" } else { "\n" };
    format!("{fence}diff\n{diff}{newline}{fence}\n{remark}")
}

/// The first [`DIFF_BYTES`] of what is written.
#[derive(Default)]
struct Beginning(String);

impl std::fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let cut = text.floor_char_boundary(DIFF_BYTES.saturating_sub(self.0.len()));
        self.0.push_str(text.get(..cut).unwrap_or_default());
        if cut < text.len() { Err(std::fmt::Error) } else { Ok(()) }
    }
}

/// Waits until no other edit of the file is between the last look and writing: it would be lost.
fn alone(file: &CheckedPath) -> MutexGuard<'static, ()> {
    static EDITED: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];
    // Files that share a place wait for each other, too; nobody can tell which do.
    static PLACES: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let place = PLACES.hash_one(file.to_string()) % 64;
    let edited = usize::try_from(place).ok().and_then(|place| EDITED.get(place)).unwrap_or(&EDITED[0]);
    edited.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most bytes of a file that is edited: it is held several times, with a list of its lines.
const BYTES: u64 = 4 << 20;

/// More are a new file.
const EDITS: usize = 500;

/// Bytes looked at in one call: some hundred milliseconds' worth.
const LOOKED_AT: usize = 200_000_000;

/// Each but the last means that another edit of the file came first.
const TRIES: usize = 64;

/// The time to find the smallest diff in; after that, a larger one does.
const DIFF_TIME: Duration = Duration::from_millis(200);

/// A diff is for a model to look over.
const DIFF_BYTES: usize = 256 << 10;
