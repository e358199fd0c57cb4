//! A walk with exclusions, progress reports and cancellation.
//!
//! Entries are sorted by name, each directory before its entries. The walk stops soon after the
//! request is cancelled or its roots are withdrawn. Symlinks are not followed, and special files
//! are not opened.

use std::time::{Duration, Instant};

use mcp_roots_guard::rmcp::RequestRoots;
use mcp_roots_guard::{CheckedPath, DirEntry, Result, Walk, WalkOptions};

use super::call::Work;
use super::globs::Globs;
use crate::progress::Progress;

/// A step of a walk.
pub(super) enum Step {
    /// An entry that is not excluded.
    Entry(DirEntry),
    /// The most recent directory could not be listed completely, for this reason.
    Unreadable(String),
    /// There are more than [`WALK_ENTRIES`](mcp_roots_guard::limits::WALK_ENTRIES) entries. This is
    /// the last step.
    Full,
}

/// An iterator over the steps of a walk.
pub(super) struct Steps<'a> {
    walk: Walk,
    /// The result that follows the error of a directory.
    pending: Option<Result<Option<DirEntry>>>,
    is_over: bool,
    excluded: Globs,
    seen: u32,
    looked: Option<Instant>,
    roots: &'a RequestRoots,
    progress: &'a Progress,
}

impl<'a> Steps<'a> {
    /// Starts a walk beneath a directory. A directory that cannot be listed does not end it.
    pub(super) fn new(
        top: &CheckedPath,
        options: WalkOptions,
        exclude: &[String],
        roots: &'a RequestRoots,
        progress: &'a Progress,
    ) -> Work<Self> {
        let excluded = Globs::excluding(exclude)?;
        Ok(Self {
            walk: top.walk(options.skip_unreadable())?,
            pending: None,
            is_over: false,
            excluded,
            seen: 0,
            looked: None,
            roots,
            progress,
        })
    }
}

impl Steps<'_> {
    /// Takes the next result of the walk. If the most recent directory could not be listed, returns
    /// the reason first.
    fn advance(&mut self) -> Result<Result<Option<DirEntry>>, String> {
        if let Some(pending) = self.pending.take() {
            return Ok(pending);
        }
        let known = self.walk.unreadable().len();
        let next = self.walk.next_entry();
        match self.walk.unreadable().get(known) {
            None => Ok(next),
            Some(error) => {
                self.pending = Some(next);
                Err(error.to_string())
            }
        }
    }
}

impl Iterator for Steps<'_> {
    type Item = Work<Step>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            let entry = match self.advance() {
                Err(reason) => return Some(Ok(Step::Unreadable(reason))),
                Ok(Ok(entry)) => entry?,
                Ok(Err(error)) => {
                    self.is_over = true;
                    let is_full = error.code() == "too_many_entries";
                    return Some(if is_full { Ok(Step::Full) } else { Err(error.into()) });
                }
            };
            self.seen = self.seen.saturating_add(1);
            if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
                self.looked = Some(Instant::now());
                if let Err(error) = self.roots.ensure_active() {
                    return Some(Err(error.into()));
                }
                self.progress.reached(self.seen);
            }
            if !self.excluded.matches(&entry.relative()) {
                return Some(Ok(Step::Entry(entry)));
            }
            self.walk.skip_current_dir();
        }
        None
    }
}

/// The interval between checks for cancellation. It is short enough for the walk to stop promptly,
/// and long enough for the cost of the checks to be negligible.
const LOOK: Duration = Duration::from_millis(10);
