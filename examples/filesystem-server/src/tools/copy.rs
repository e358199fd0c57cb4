//! The `copy_directory` tool, which copies a directory and everything in it.
//!
//! Each directory is created, each file is copied whole, and each symlink is created with the same
//! text if that leads inside. What cannot be copied is named in the result. If the copy is
//! interrupted, what was copied so far remains.

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, DirEntry, FileType, Intent, Result, WalkOptions, WriteOptions};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Answered, Call, Lines, Work, shown, text_schema};
use super::steps::Steps;
use crate::progress::Progress;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct CopyDirectory {
    /// Directory to copy: a path inside the allowed directories, or a `file:` URI.
    source: String,
    /// Path of the copy, which must not exist. Its parent must exist.
    destination: String,
}

#[tool_router(router = copy_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Copy Directory",
        description = "Copies a directory and everything in it to a new directory. Fails if the \
                       destination exists. Symlinks that lead inside the allowed directories are \
                       copied as symlinks. The result names what could not be copied.",
        output_schema = text_schema(),
        annotations(
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn copy_directory(Parameters(args): Parameters<CopyDirectory>, call: Call) -> Answered {
        call.long(move |roots, progress| copy(roots, progress, &args)).await
    }
}

fn copy(roots: &RequestRoots, progress: &Progress, args: &CopyDirectory) -> Work {
    let from = roots.check(&args.source, Intent::Existing)?;
    let to = roots.check(&args.destination, Intent::NewTree)?;
    let inside = roots.within(&args.source)?.still_allows(&to);
    if inside.is_ok() {
        return Err(HandlerError::new("the destination is inside the source"));
    }
    if to.exists() {
        return Err(HandlerError::new("the destination exists; choose another path"));
    }
    if to.parent().is_some_and(|parent| !parent.exists()) {
        return Err(HandlerError::new("the parent of the destination does not exist"));
    }
    let mut steps = Steps::new(&from, WalkOptions::default(), &[], roots, progress)?;
    to.create_dir()?;
    let mut copied = Copied { to, bytes: 0, counts: [0; 3], left_out: Lines::default() };
    loop {
        let entry = match steps.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => return Err(copied.interrupted(&error.to_string())),
        };
        match copied.add(&entry) {
            Ok(()) => {}
            Err(error) if error.code() == "too_large" => {
                return Err(copied.interrupted(&error.to_string()));
            }
            Err(error) => _ = copied.left_out.push(&error.to_string()),
        }
    }
    if steps.is_full {
        return Err(copied.interrupted("the directory has too many entries"));
    }
    for error in steps.unreadable() {
        copied.left_out.push(&error.to_string());
    }
    let [directories, files, symlinks] = copied.counts;
    let summary = format!(
        "Copied {files} files, {directories} directories and {symlinks} symlinks to {}",
        args.destination
    );
    let left_out = copied.left_out.finish([]);
    if left_out.is_empty() {
        Ok(summary)
    } else {
        Ok(format!("{summary}\nNot copied:\n{left_out}"))
    }
}

/// What was copied so far.
struct Copied {
    to: CheckedPath,
    bytes: u64,
    /// The numbers of directories, files and symlinks.
    counts: [u32; 3],
    /// The entries that were not copied, with the reasons.
    left_out: Lines,
}

impl Copied {
    /// Copies an entry. A special file is named as left out.
    fn add(&mut self, entry: &DirEntry) -> Result<()> {
        let place = |intent| self.to.join(entry.relative(), intent);
        let kind = match entry.file_type() {
            FileType::Directory => {
                place(Intent::NewTree)?.create_dir()?;
                0
            }
            FileType::File => {
                let to = place(Intent::New)?;
                let left = BYTES.saturating_sub(self.bytes);
                self.bytes += entry.to_checked().copy(&to, left, WriteOptions::default())?;
                1
            }
            FileType::Symlink => {
                let target = entry.to_checked().read_link()?;
                place(Intent::NoFollow)?.symlink(&target)?;
                2
            }
            _ => {
                self.left_out.push(&format!("special file {}", shown(entry.relative())));
                return Ok(());
            }
        };
        if let Some(count) = self.counts.get_mut(kind) {
            *count += 1;
        }
        Ok(())
    }

    fn interrupted(&self, why: &str) -> HandlerError {
        let copied: u32 = self.counts.iter().sum();
        let to = shown(self.to.display_path());
        HandlerError::new(format!("{why}; {copied} entries were copied and remain in {to}"))
    }
}

/// The maximum number of bytes of one copy. A workspace with its build results is rarely larger.
const BYTES: u64 = 8 << 30;
