//! A walk with exclusions, progress reports and cancellation.
//!
//! Entries are sorted by name, each directory before its entries. The walk stops soon after the
//! request is cancelled or its roots are withdrawn.

use std::time::{Duration, Instant};

use mcp_roots_guard::{CheckedPath, DirEntry, Error, ErrorKind, Walk, WalkOptions};

use super::call::{Progress, Work};
use super::globs::Globs;

/// A walk in progress.
pub(super) struct Steps<'a> {
    walk: Walk,
    excluded: Globs,
    seen: u32,
    looked: Option<Instant>,
    /// Whether the walk ended because there are more than
    /// [`WALK_ENTRIES`](mcp_roots_guard::limits::WALK_ENTRIES) entries.
    pub(super) is_full: bool,
    progress: &'a Progress,
}

impl<'a> Steps<'a> {
    /// Starts a walk beneath a directory. A directory that cannot be listed does not end it.
    pub(super) fn new(
        top: &CheckedPath,
        options: WalkOptions,
        exclude: &[String],
        progress: &'a Progress,
    ) -> Work<Self> {
        let excluded = Globs::excluding(exclude)?;
        let walk = top.walk(options.skip_unreadable())?;
        // A call can walk several times.
        let seen = *progress.borrow();
        Ok(Self { walk, excluded, seen, looked: None, is_full: false, progress })
    }

    /// The next entry that is not excluded.
    pub(super) fn next_entry(&mut self) -> Work<Option<DirEntry>> {
        loop {
            let entry = match self.walk.next_entry() {
                Err(error) if error.kind() == ErrorKind::TooManyEntries => {
                    self.is_full = true;
                    return Ok(None);
                }
                next => next?,
            };
            let Some(entry) = entry else { return Ok(None) };
            self.seen = self.seen.saturating_add(1);
            if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
                self.looked = Some(Instant::now());
                self.progress.send_replace(self.seen);
            }
            if self.excluded.is_empty() || !self.excluded.matches(&entry.relative()) {
                return Ok(Some(entry));
            }
            self.walk.skip_current_dir();
        }
    }

    /// Does not enter the directory that was returned last.
    pub(super) fn skip_current_dir(&mut self) {
        self.walk.skip_current_dir();
    }

    /// Why directories could not be listed completely. A directory's error is added by the step
    /// after the one that returned it.
    pub(super) fn unreadable(&self) -> &[Error] {
        self.walk.unreadable()
    }
}

/// The interval between reports of progress.
const LOOK: Duration = Duration::from_millis(10);
