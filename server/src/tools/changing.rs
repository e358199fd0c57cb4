//! How the tools change files.
//!
//! An edit or patch is prepared from the content of the files, and made only if they still have it.
//! A change of several files verifies all of them before the first is replaced. Until the last is
//! replaced, no other edit or patch should replace one of them, so these take turns.
//!
//! | when the change is made, its files | |
//! | --- | --- |
//! | have the content that was read | it is made in turn |
//! | were changed by another call or program | it is prepared again, from the new content, and made in the same turn |
//! | were changed again | the error of the change, and no file is changed |

use std::time::Duration;

use mcp_roots_guard::rmcp::HandlerError;
use mcp_roots_guard::{
    CheckedPath, CommitError, ContentHash, Error, ErrorKind, Precondition, WriteOptions,
};
use parking_lot::Mutex;

use super::LIMIT;
use super::call::Work;

/// Refuses content that is too large to be read again.
pub(super) fn ensure_small(content: &str) -> Work<()> {
    if u64::try_from(content.len()).is_ok_and(|size| size <= LIMIT) {
        return Ok(());
    }
    Err(HandlerError::new(format!(
        "the content is larger than {LIMIT} bytes, the limit for reading and writing"
    )))
}

/// Options for replacing a file that still has this version.
pub(super) fn if_unchanged(version: ContentHash) -> WriteOptions {
    WriteOptions::default().precondition(Precondition::Unchanged(version))
}

/// Replaces the content of a file, completely or not at all. A root that is a file cannot be
/// replaced, so it is written in place.
pub(super) fn put(file: &CheckedPath, content: &str, options: WriteOptions) -> Result<(), Error> {
    match file.write_with(content, options) {
        Err(error) if error.kind() == ErrorKind::RootItself => {
            file.write_with(content, options.in_place())
        }
        written => written,
    }
}

/// Prepares a change and makes it, as described above.
pub(super) fn change<P, T>(
    mut prepare: impl FnMut() -> Result<P, Failure>,
    make: impl Fn(P) -> Result<T, Failure>,
) -> Work<T> {
    match prepare().and_then(|prepared| in_turn(|| make(prepared))) {
        Err(Failure::Changed(_)) => Ok(in_turn(|| make(prepare()?))?),
        result => Ok(result?),
    }
}

/// Makes a change while no other edit or patch of this process makes one. A filesystem may never
/// answer such a call, so the wait for it is limited, and the change is then made all the same.
fn in_turn<T>(make: impl FnOnce() -> T) -> T {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.try_lock_for(WAIT);
    make()
}

/// Why a change was not prepared or made.
pub(super) enum Failure {
    /// A file is no longer as it was read, and no file was changed.
    Changed(HandlerError),
    Other(HandlerError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Changed => Self::Changed(error.into()),
            _ => Self::Other(error.into()),
        }
    }
}

impl From<CommitError> for Failure {
    fn from(partial: CommitError) -> Self {
        if partial.committed().is_empty() {
            return Error::from(partial).into();
        }
        Self::Other(partial.into())
    }
}

impl From<HandlerError> for Failure {
    fn from(error: HandlerError) -> Self {
        Self::Other(error)
    }
}

impl From<Failure> for HandlerError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Changed(error) | Failure::Other(error) => error,
        }
    }
}

/// How long a change waits for those of other calls, most of which take milliseconds.
const WAIT: Duration = Duration::from_secs(5);
