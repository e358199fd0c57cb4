//! A walk with exclusions, progress reports and cancellation.
//!
//! Entries are sorted by name, each directory before its entries. The walk stops soon after the
//! request is cancelled or its roots are withdrawn. Symlinks are not followed, and special files
//! are not opened.

use std::time::{Duration, Instant};

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, Error, Walk, WalkEntry, WalkOptions};

use super::call::Work;
use super::globs::Globs;
use crate::progress::Progress;

/// A step of a walk.
pub(super) enum Step {
    /// An entry that is not excluded.
    Entry(WalkEntry),
    /// The most recent directory could not be listed completely.
    Unreadable(Error),
    /// There are more than [`WALK_ENTRIES`](mcp_roots_guard::limits::WALK_ENTRIES) entries. This is
    /// the last step.
    Full,
}

/// An iterator over the steps of a walk.
pub(super) struct Steps<'a> {
    walk: Walk,
    excluded: Globs,
    seen: u32,
    looked: Option<Instant>,
    roots: &'a RequestRoots,
    progress: &'a Progress,
}

impl<'a> Steps<'a> {
    /// Starts a walk beneath a directory.
    pub(super) fn new(
        top: &CheckedPath,
        exclude: &[String],
        roots: &'a RequestRoots,
        progress: &'a Progress,
    ) -> Work<Self> {
        let excluded = Globs::excluding(exclude)?;
        Ok(Self {
            walk: top.walk(WalkOptions::new())?,
            excluded,
            seen: 0,
            looked: None,
            roots,
            progress,
        })
    }
}

impl Iterator for Steps<'_> {
    type Item = Result<Step, HandlerError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.walk.next()? {
                Ok(entry) => entry,
                Err(error) if error.code() == "too_many_entries" => return Some(Ok(Step::Full)),
                Err(error) => return Some(Ok(Step::Unreadable(error))),
            };
            self.seen = self.seen.saturating_add(1);
            if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
                self.looked = Some(Instant::now());
                if let Err(error) = self.roots.ensure_active() {
                    return Some(Err(error.into()));
                }
                self.progress.reached(self.seen);
            }
            if !self.excluded.matches(&entry.path()) {
                return Some(Ok(Step::Entry(entry)));
            }
            self.walk.skip_current_dir();
        }
    }
}

/// The interval between checks for cancellation. It is short enough for the walk to stop promptly,
/// and long enough for the cost of the checks to be negligible.
const LOOK: Duration = Duration::from_millis(10);
