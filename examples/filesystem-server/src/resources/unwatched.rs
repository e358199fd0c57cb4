//! Stands in for the watcher on systems other than Linux. Nothing is watched, and changes are found
//! by polling: those systems watch a path by its name, which somebody may replace with a symlink to
//! a directory outside the roots.

use std::sync::Arc;
use std::time::Duration;

use mcp_roots_guard::CheckedPath;
use tokio::sync::Notify;

/// The polling interval.
pub(super) const POLL: Duration = Duration::from_secs(2);

/// Watches nothing.
#[derive(Debug, Default)]
pub(super) struct Watcher;

/// There is no such value.
#[derive(Debug)]
pub(super) enum Watch {}

#[allow(clippy::unused_self, reason = "on Linux, the watcher has a state")]
impl Watcher {
    pub(super) fn start(&self) {}

    pub(super) fn watch(&self, _: &CheckedPath, _: bool, _: &Arc<Notify>) -> Option<Watch> {
        None
    }

    pub(super) fn places(&self) -> usize {
        0
    }
}
