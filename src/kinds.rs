//! The kinds of errors that sessions add to [`ErrorKind`], and with the feature `process` those of
//! programs and confinement.
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
//! Sessions and the protocol also add codes to the kinds of the core:
//!
//! | code | kind | meaning |
//! | --- | --- | --- |
//! | `ambiguous_uri` | [`InvalidUri`](ErrorKind::InvalidUri) | an entry of a root list is a URI from which URL parsers read another path |
//! | `malformed` | [`RootRejected`](ErrorKind::RootRejected) | an entry of a root list does not match the protocol's schema |
//! | `panicked` | [`Io`](ErrorKind::Io) | the work panicked |
//! | `unknown_revision` | [`InvalidInput`](ErrorKind::InvalidInput) | the text is not a [`Revision`](crate::Revision) |

use guarded_fs::{Error, ErrorKind};
#[cfg(feature = "process")]
#[doc(inline)]
pub use guarded_process::kinds::{CONFINEMENT_UNAVAILABLE, PROGRAM_FAILED, PROGRAM_STOPPED};

/// The client did not declare roots and the server requires them
/// ([`ClientRoots`](crate::ClientRoots)), or the client cannot list any
/// (`RootsResponse::Unsupported`).
pub const ROOTS_UNSUPPORTED: ErrorKind = ErrorKind::Other("roots_unsupported");

/// The client's roots could not be obtained.
///
/// * `roots_failed`: The client's response to `roots/list` was an error or was not a root list.
/// * `roots_timed_out`: The client did not answer in time, or its list took too long to resolve.
/// * `roots_changing`: The client's roots changed every time that they were requested.
/// * `too_many_pages`: More than [`ROOT_LIST_PAGES`](crate::limits::ROOT_LIST_PAGES) pages.
/// * `repeated_cursor`: A `nextCursor` refers to a page that was already read.
pub const ROOTS_FAILED: ErrorKind = ErrorKind::Other("roots_failed");

/// The client's roots changed or were discarded, and have not been requested since; or the request
/// that the roots belong to has ended.
pub const ROOTS_STALE: ErrorKind = ErrorKind::Other("roots_stale");

/// The session was closed.
pub const SESSION_CLOSED: ErrorKind = ErrorKind::Other("session_closed");

/// The request does not belong to a session of this guard: its transport is not wrapped, it has
/// another client's key, or the client sent no `initialize` with readable capabilities.
pub const NO_SESSION: ErrorKind = ErrorKind::Other("no_session");

/// The server cannot accept the request now. The request had no effect and can be retried later.
///
/// * `busy`: All slots are taken by operations that have been running for seconds, and this client
///   holds one of them or no further slot can be lent; or the system cannot create a thread.
/// * `queue_full`: Too many of the client's requests are waiting.
/// * `too_many_sessions`: More than [`SESSIONS`](crate::limits::SESSIONS) sessions at once.
/// * `too_many_children`: The client already runs its share of `limits::CHILDREN` programs (feature
///   `process`).
pub const BUSY: ErrorKind = ErrorKind::Other("busy");

/// The work of the request waits for a filesystem that has not answered for the time that the
/// server chose (`GuardBuilder::stalled_after`). An operation that has begun can still take effect.
pub const STALLED: ErrorKind = ErrorKind::Other("stalled");

/// The request was cancelled, or its client has disconnected.
pub const CANCELLED: ErrorKind = ErrorKind::Other("cancelled");

/// Roots of a session were requested outside a tokio runtime, or in one without a timer.
pub const NO_RUNTIME: ErrorKind = ErrorKind::Other("no_runtime");

pub(crate) fn busy() -> Error {
    Error::new(BUSY, "busy", "the server is too busy for this now; try again later")
}

/// The error for work that panicked. `what` it was is for the operator.
pub(crate) fn panicked(what: &str) -> Error {
    Error::new(ErrorKind::Io, "panicked", "the operation failed unexpectedly")
        .with_operator_detail(what)
}

#[cfg(all(test, feature = "process"))]
mod tests {
    use guarded_process::kinds;

    /// One `match` handles both.
    #[test]
    fn the_kind_that_programs_share_with_sessions_is_the_same() {
        assert_eq!(super::BUSY, kinds::BUSY);
    }
}
