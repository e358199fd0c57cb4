//! The kinds of errors that sessions, programs and confinement add to [`ErrorKind`].
//!
//! They are constants, so one `match` handles these kinds and those of the core:
//!
//! ```
//! use mcp_roots_guard::{Error, ErrorKind, kinds};
//!
//! fn can_retry_later(error: &Error) -> bool {
//!     matches!(error.kind(), kinds::BUSY | kinds::ROOTS_STALE | ErrorKind::Changed)
//! }
//! ```
//!
//! Sessions, programs and the protocol also add codes to the kinds of the core:
//!
//! | code | kind | meaning |
//! | --- | --- | --- |
//! | `no_such_program` | [`NotFound`](ErrorKind::NotFound) | no directory of `PATH` that clients cannot write to contains the program |
//! | `program_inside_roots` | [`ForbiddenFile`](ErrorKind::ForbiddenFile) | the program is inside a writable allowed directory, or its path follows a symlink inside one |
//! | `program_timed_out` | [`LimitExceeded`](ErrorKind::LimitExceeded) | a child process was killed at its time limit |
//! | `program_output_too_large` | [`LimitExceeded`](ErrorKind::LimitExceeded) | a child process was killed because it wrote more than its limit |
//! | `directory_by_path` | [`Unsupported`](ErrorKind::Unsupported) | the working directory of a child process can be set only by its path (`ChildCommand::unguarded_dir`) |
//! | `invalid_program` | [`InvalidInput`](ErrorKind::InvalidInput) | the program to run is neither a name nor an absolute path |
//! | `malformed` | [`RootRejected`](ErrorKind::RootRejected) | an entry of a root list does not match the protocol's schema |
//! | `panicked` | [`Io`](ErrorKind::Io) | the work panicked |
//! | `unknown_revision` | [`InvalidInput`](ErrorKind::InvalidInput) | the text is not a [`Revision`](crate::Revision) |

use crate::error::{Error, ErrorKind};

/// Either the client did not declare roots and the server requires them
/// ([`ClientRoots`](crate::ClientRoots)), or the client cannot list any
/// (`RootsResponse::Unsupported`).
pub const ROOTS_UNSUPPORTED: ErrorKind = ErrorKind::Other("roots_unsupported");

/// The client's roots could not be obtained.
///
/// Codes:
///
/// * `roots_failed`: The client's response to `roots/list` was an error or was not a root list.
/// * `roots_timed_out`: The client did not answer `roots/list` in time, or its list took too long
///   to resolve.
/// * `roots_changing`: The client's roots changed every time that they were requested.
/// * `too_many_pages`: More than [`ROOT_LIST_PAGES`](crate::limits::ROOT_LIST_PAGES) pages.
/// * `repeated_cursor`: A root list whose `nextCursor` refers to a page that was already read.
pub const ROOTS_FAILED: ErrorKind = ErrorKind::Other("roots_failed");

/// The client's roots changed or were discarded, and have not been requested since; or the request
/// of the roots has ended.
pub const ROOTS_STALE: ErrorKind = ErrorKind::Other("roots_stale");

/// The session was closed.
pub const SESSION_CLOSED: ErrorKind = ErrorKind::Other("session_closed");

/// The request does not belong to a session of this guard: its transport is not wrapped, it has
/// another client's key, or the client sent no `initialize` with readable capabilities.
pub const NO_SESSION: ErrorKind = ErrorKind::Other("no_session");

/// The server cannot accept the request now. The request had no effect and can be retried later.
///
/// Codes:
///
/// * `busy`: All slots are taken by operations that have been running for seconds, and this client
///   holds one of them or no further slot can be lent; or the system cannot create a thread.
/// * `queue_full`: Too many of the client's requests are waiting.
/// * `too_many_sessions`: More than [`SESSIONS`](crate::limits::SESSIONS) sessions at once.
/// * `too_many_children`: The client already runs its share of
///   [`CHILDREN`](crate::limits::CHILDREN) programs.
pub const BUSY: ErrorKind = ErrorKind::Other("busy");

/// The request was cancelled, or its client has disconnected.
pub const CANCELLED: ErrorKind = ErrorKind::Other("cancelled");

/// Roots of a session were requested outside a tokio runtime, or in one without a timer.
pub const NO_RUNTIME: ErrorKind = ErrorKind::Other("no_runtime");

/// A child process exited with another status than 0, or a signal ended it.
pub const PROGRAM_FAILED: ErrorKind = ErrorKind::Other("program_failed");

/// The process cannot be confined, and no restriction was applied.
///
/// Codes:
///
/// * `confinement_unavailable`: The system is not Linux, or its kernel has no Landlock.
/// * `threads_running`: The process has other threads, which this kernel cannot confine, or its
///   number of threads is unknown.
pub const CONFINEMENT_UNAVAILABLE: ErrorKind = ErrorKind::Other("confinement_unavailable");

pub(crate) fn busy() -> Error {
    Error::new(BUSY, "busy", "the server is too busy for this now; try again later")
}

/// The error for work that panicked. `what` it was is for the operator.
pub(crate) fn panicked(what: &str) -> Error {
    Error::new(ErrorKind::Io, "panicked", "the operation failed unexpectedly")
        .with_operator_detail(what)
}

pub(crate) fn cancelled() -> Error {
    Error::new(CANCELLED, "cancelled", "the request was cancelled")
}
