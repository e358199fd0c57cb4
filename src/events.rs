//! Events for the operator's log.
//!
//! With the feature `tracing`, this module emits events with the target `mcp_roots_guard`. Without
//! it, the functions do nothing. Details that are meant only for the operator are in the field
//! `detail`.
//!
//! The field `kind` is the error's [code](Error::code), such as `roots_timed_out`.
//!
//! | message | level | fields |
//! | --- | --- | --- |
//! | `roots fetched` | debug | `session`, `roots`, `rejected`, `pages` |
//! | `roots not fetched` | warn | `session`, `kind`, `detail` |
//! | `roots changed` | debug | `session` |
//! | `roots resolved again` | debug | `session`, `roots` |
//! | `session closed` | debug | `session` |
//! | `entry rejected` | warn | `session`, `index`, `entry`, `kind`, `detail` |
//! | `refused` | info | `session`, `kind`, `error`, `detail` |
//! | `handler failed` | warn | `session`, `error` |

use std::fmt;
use std::num::NonZeroU64;

use crate::error::Error;
use crate::limits::{FAILURE_CAUSES, FAILURE_CHARS};

/// Identifies a client's session in logs. It is unique within this process and is used for nothing
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) NonZeroU64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Emits an event if the feature `tracing` is enabled.
macro_rules! event {
    ($level:ident, $message:literal, $($field:ident = $value:expr),*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "mcp_roots_guard", $($field = $value,)* $message);
        #[cfg(not(feature = "tracing"))]
        { let _ = ($(&$value,)*); }
    };
}

pub(crate) fn fetched(session: SessionId, roots: usize, rejected: usize, pages: usize) {
    event!(
        debug,
        "roots fetched",
        session = session.0,
        roots = roots,
        rejected = rejected,
        pages = pages
    );
}

pub(crate) fn not_fetched(session: SessionId, error: &Error) {
    event!(
        warn,
        "roots not fetched",
        session = session.0,
        kind = error.code(),
        detail = error.operator_detail()
    );
}

pub(crate) fn changed(session: SessionId) {
    event!(debug, "roots changed", session = session.0);
}

pub(crate) fn resolved_again(session: SessionId, roots: usize) {
    event!(debug, "roots resolved again", session = session.0, roots = roots);
}

pub(crate) fn closed(session: SessionId) {
    event!(debug, "session closed", session = session.0);
}

pub(crate) fn rejected(session: SessionId, index: usize, entry: &str, error: &Error) {
    event!(
        warn,
        "entry rejected",
        session = session.0,
        index = index,
        entry = entry,
        kind = error.code(),
        detail = error.operator_detail()
    );
}

/// Logs a refusal and returns it.
pub(crate) fn refused(session: Option<SessionId>, error: Error) -> Error {
    event!(
        info,
        "refused",
        session = session.map(|session| session.0.get()),
        kind = error.code(),
        error = tracing_display(&error),
        detail = error.operator_detail()
    );
    error
}

/// Logs a handler's error and its causes, which are not sent to the client. The number of causes
/// and the length of the text are bounded, because other code creates the error.
pub(crate) fn failed(session: Option<SessionId>, error: &(dyn std::error::Error + 'static)) {
    if cfg!(feature = "tracing") {
        let chain = std::iter::successors(Some(error), |error| error.source()).take(FAILURE_CAUSES);
        let chain = chain.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        let shown: String = chain.chars().take(FAILURE_CHARS).collect();
        event!(
            warn,
            "handler failed",
            session = session.map(|session| session.0.get()),
            error = shown.as_str()
        );
    }
}

#[cfg(feature = "tracing")]
fn tracing_display(error: &Error) -> impl tracing::Value + '_ {
    tracing::field::display(error)
}

#[cfg(not(feature = "tracing"))]
fn tracing_display(error: &Error) -> &Error {
    error
}
