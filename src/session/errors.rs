//! The errors of sessions, with the codes and texts of their [kinds].

use guarded_fs::{Error, ErrorKind};

use crate::kinds;
use crate::limits::FAILURE_CHARS;

pub(crate) fn roots_unsupported() -> Error {
    let text = "the client offers no roots, and this server requires them";
    Error::new(kinds::ROOTS_UNSUPPORTED, "roots_unsupported", text)
}

/// For a client that sent no list, with the reason for the operator.
pub(crate) fn roots_failed(why: &str) -> Error {
    let why = why.chars().take(FAILURE_CHARS).collect::<String>();
    let text = "the client's roots could not be obtained";
    Error::new(kinds::ROOTS_FAILED, "roots_failed", text).with_operator_detail(why)
}

pub(super) fn roots_timed_out() -> Error {
    let text = "the client's roots could not be obtained in time";
    Error::new(kinds::ROOTS_FAILED, "roots_timed_out", text)
}

pub(super) fn roots_changing() -> Error {
    let text = "the client's roots keep changing; try again later";
    Error::new(kinds::ROOTS_FAILED, "roots_changing", text)
}

pub(super) fn too_many_pages() -> Error {
    let text = "the root list has more than 100 pages";
    Error::new(kinds::ROOTS_FAILED, "too_many_pages", text)
}

pub(super) fn repeated_cursor() -> Error {
    Error::new(kinds::ROOTS_FAILED, "repeated_cursor", "the root list repeats a page")
}

pub(super) fn cursor_too_large() -> Error {
    let text = "a cursor of the root list is larger than 80000 bytes";
    Error::new(ErrorKind::TooLarge, "too_large", text)
}

pub(crate) fn roots_stale(text: &'static str) -> Error {
    Error::new(kinds::ROOTS_STALE, "roots_stale", text)
}

pub(super) fn session_closed() -> Error {
    Error::new(kinds::SESSION_CLOSED, "session_closed", "the session is closed")
}

/// With the reason for the operator.
pub(crate) fn no_session(why: &str) -> Error {
    let text = "the request belongs to no known session";
    Error::new(kinds::NO_SESSION, "no_session", text).with_operator_detail(why)
}

/// With the reason for the operator.
pub(super) fn busy(why: &str) -> Error {
    kinds::busy().with_operator_detail(why)
}

pub(super) fn queue_full() -> Error {
    let text = "too many requests of this client are waiting; try again when some are answered";
    Error::new(kinds::BUSY, "queue_full", text)
}

pub(super) fn too_many_sessions() -> Error {
    let text = "the server already has 100000 sessions, which is the maximum; try again later";
    Error::new(kinds::BUSY, "too_many_sessions", text)
}

#[cfg(not(shuttle))]
pub(super) fn no_runtime() -> Error {
    Error::new(kinds::NO_RUNTIME, "no_runtime", "no tokio runtime with a timer is running")
}

/// The usual reason of [`roots_stale`].
pub(crate) const CHANGED: &str = "the client's roots changed or expired; try again";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{ROOT_LIST_BYTES, ROOT_LIST_PAGES, SESSIONS};

    #[test]
    fn text_contains_the_limit() {
        for (error, limit) in [
            (too_many_pages(), ROOT_LIST_PAGES),
            (cursor_too_large(), ROOT_LIST_BYTES / ROOT_LIST_PAGES),
            (too_many_sessions(), SESSIONS),
        ] {
            assert!(error.to_string().contains(&format!(" {limit} ")), "{error}");
        }
    }
}
