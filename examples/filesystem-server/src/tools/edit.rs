//! The tool that edits a file: it replaces texts in it, one after the other, and answers with what
//! changed as a unified diff.
//!
//! Either all edits are in the file afterwards, or none. Lines that no edit touched keep their ends.
//! Edits of the same file are made one after the other. An edit waits for the one before it at most
//! [`WAIT`], and never for one of another file, so a file that hangs costs only those who edit it.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
            roots.ensure_active()?;
            let _alone = Alone::with(name_of(&file), || Ok(roots.ensure_active()?))?;
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
        Some(less) if roots.ensure_active().is_ok() => {
            *left = less;
            Ok(())
        }
        _ => Err(NotFound::Stopped),
    };
    for (number, edit) in (1..).zip(edits) {
        let failed = |why| {
            HandlerError::new(format!(
                "edit {number} of {}: {why}. Nothing was changed",
                edits.len()
            ))
        };
        let [old, new] = [&edit.old_text, &edit.new_text].map(|text| text.replace("\r\n", "\n"));
        if old.is_empty() {
            return Err(failed("oldText is empty; write_file writes a whole file".into()));
        }
        match find_first(text.as_str(), &old, &new, &mut spend) {
            Ok((part, new)) => text.replace(part, &new),
            Err(why) => {
                roots.ensure_active()?;
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
        let most = DIFF_BYTES.saturating_sub(self.0.len()).min(text.len());
        let cut = (0..=most).rfind(|&at| text.is_char_boundary(at)).unwrap_or(0);
        self.0.push_str(text.get(..cut).unwrap_or_default());
        if cut < text.len() { Err(std::fmt::Error) } else { Ok(()) }
    }
}

/// The turn to look at a file for the last time and write it: an edit in between would be lost.
struct Alone(String);

/// The files whose turn somebody has. Their number is that of edits at work at most.
static EDITED: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// Told whenever a turn ends.
static ENDED: Condvar = Condvar::new();

impl Alone {
    /// Waits for the turn, as long as the call may go on.
    fn with(name: String, proceed: impl Fn() -> Work<()>) -> Work<Self> {
        let start = Instant::now();
        let mut edited = lock();
        while edited.contains(&name) {
            proceed()?;
            if start.elapsed() >= WAIT {
                return Err(HandlerError::new(format!(
                    "another edit of the file has not ended in {} seconds; try again later",
                    WAIT.as_secs()
                )));
            }
            edited = ENDED.wait_timeout(edited, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        edited.insert(name.clone());
        Ok(Self(name))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        lock().remove(&self.0);
        ENDED.notify_all();
    }
}

fn lock() -> MutexGuard<'static, HashSet<String>> {
    EDITED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One name for a file: its canonical path. Where systems take names that differ by case for one, so
/// does this. Of a file with several hard links each is replaced by itself, so each has its own turn.
fn name_of(file: &CheckedPath) -> String {
    let name = file.to_string();
    if cfg!(any(windows, target_vendor = "apple")) { name.to_lowercase() } else { name }
}

/// The longest wait for another edit of the same file: many times as long as to read and write one of
/// [`BYTES`] on a slow disk.
const WAIT: Duration = Duration::from_secs(10);

/// How often a waiting edit looks whether its call was cancelled.
const LOOK: Duration = Duration::from_millis(50);

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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(45);

    /// Done in a thread of its own, as it may wait for ever.
    fn within<T: Send + 'static>(
        time: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, answer) = mpsc::channel();
        thread::spawn(move || done.send(work()));
        answer.recv_timeout(time).ok()
    }

    fn turn(name: &str) -> Work<Alone> {
        Alone::with(name.to_owned(), || Ok(()))
    }

    /// The file whose turn is never over is as one on a filesystem that hangs.
    #[test]
    fn an_edit_that_hangs_holds_up_edits_of_its_file_only() {
        let hung = turn("/hung").unwrap();
        let others =
            within(LONG, || (0..2_000).all(|number| turn(&format!("/other/{number}")).is_ok()));
        assert_eq!(others, Some(true));
        // Of the same file: not for ever, and not after its call was cancelled.
        let start = Instant::now();
        let waited =
            within(LONG, || turn("/hung").err().map(|error| error.to_string())).unwrap().unwrap();
        assert!(
            waited.contains("another edit of the file has not ended in 10 seconds"),
            "{waited}"
        );
        assert!(start.elapsed() >= WAIT);
        let cancelled =
            || Alone::with("/hung".to_owned(), || Err(HandlerError::new("cancelled".to_owned())));
        assert!(within(LONG, move || cancelled().is_err()).unwrap());
        let next = thread::spawn(|| turn("/hung").is_ok());
        drop(hung);
        assert!(next.join().unwrap());
        assert!(!lock().contains("/hung"));
    }
}
