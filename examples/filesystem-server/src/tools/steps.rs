//! The steps of a walk.
//!
//! Goes in: a directory, and what to leave out. Comes out: its entries in the order of names, a directory before what is in it. What is
//! true after: the walk stopped soon after the request was cancelled or its roots withdrawn, and the client heard how far it came.
//!
//! Links are entries and not followed; a FIFO or a link out is just a name.

use std::time::{Duration, Instant};

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, Error, Walk, WalkEntry, WalkOptions};

use super::call::Work;
use super::globs::Globs;
use crate::progress::Progress;

/// What a walk comes to.
pub(super) enum Step {
    /// An entry that is not left out.
    Entry(WalkEntry),
    /// The directory that came last can not be listed, or only in part.
    Unreadable(Error),
    /// [`WALK_ENTRIES`](mcp_roots_guard::limits::WALK_ENTRIES) were seen, and there are more. The last step.
    Full,
}

/// A walk, step by step.
pub(super) struct Steps<'a> {
    walk: Walk,
    excluded: Globs,
    seen: u32,
    looked: Option<Instant>,
    roots: &'a RequestRoots,
    progress: &'a Progress,
}

impl<'a> Steps<'a> {
    /// A walk of what is beneath a directory.
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

/// How often it is asked whether the walk may go on: often enough to stop at once, and seldom enough to cost nothing.
const LOOK: Duration = Duration::from_millis(10);
