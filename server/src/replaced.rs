//! Directories that were replaced after the kernel confined the server to them. It allows access
//! only to those that were there.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_roots_guard::Roots;
use mcp_roots_guard::rmcp::HandlerError;

use crate::log::rarely;

/// The directories to which the process is confined. None if it is not.
#[derive(Clone, Debug, Default)]
pub struct ConfinedDirectories(Arc<Vec<ConfinedDirectory>>);

#[derive(Debug)]
struct ConfinedDirectory {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    /// Whether a request was denied since another directory took its place.
    is_replaced: AtomicBool,
}

impl ConfinedDirectories {
    /// The allowed directories, as they are now.
    #[must_use]
    pub fn to(allowed: &Roots) -> Self {
        let directory = |path: &Path| ConfinedDirectory {
            path: path.to_owned(),
            identity: identity(path),
            is_replaced: AtomicBool::new(false),
        };
        Self(Arc::new(allowed.iter().map(|root| directory(root.path())).collect()))
    }

    /// Adds to an error that a directory was replaced, if that can be its cause. Other directories
    /// than those of these roots are not mentioned. Call this where blocking is allowed.
    pub(crate) fn explain(&self, error: HandlerError, roots: &Roots) -> HandlerError {
        // The kernel refuses with EACCES (landlock(7)).
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        if cause.is_none_or(|cause| cause.kind() != io::ErrorKind::PermissionDenied) {
            return error;
        }
        let is_in_force =
            |it: &&ConfinedDirectory| roots.iter().any(|root| root.path().starts_with(&it.path));
        let mut directories = self.0.iter().filter(is_in_force);
        let replaced = directories.find(|it| identity(&it.path) != it.identity);
        let Some(replaced) = replaced else { return error };
        replaced.is_replaced.store(true, Ordering::Relaxed);
        let path = replaced.path.display();
        rarely("replaced", format_args!("{path} was replaced, and {RESTART}"));
        HandlerError::new(format!("{error}; a directory was replaced, and {RESTART}"))
    }

    /// Whether a request has found that the directory of this path was replaced. Nothing is looked at.
    pub(crate) fn is_replaced(&self, path: &Path) -> bool {
        let found = |it: &ConfinedDirectory| it.is_replaced.load(Ordering::Relaxed);
        self.0.iter().any(|it| path.starts_with(&it.path) && found(it))
    }
}

/// The device and inode numbers of what is at a path, which the kernel tells a confined process.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    #[expect(clippy::disallowed_methods, reason = "an allowed directory, and not a request's")]
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> Option<(u64, u64)> {
    None
}

const RESTART: &str = "the kernel confines the server to the one before: restart the server";
