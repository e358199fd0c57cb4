//! The events of operations. The [crate documentation](crate#events) is their contract. Without the
//! feature `tracing`, the functions do nothing.

use std::ffi::OsStr;
use std::num::NonZeroU64;

use crate::error::{Error, quoted, unquoted};

macro_rules! event {
    ($level:ident, $message:literal, $($field:ident = $value:expr),*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "guarded_fs", $($field = $value,)* $message);
        #[cfg(not(feature = "tracing"))]
        if false { let _ = ($(&$value,)*); }
    };
}

pub(crate) fn refused(session: Option<NonZeroU64>, error: &Error) {
    event!(
        info,
        "refused",
        session = session.map(NonZeroU64::get),
        operation = error.operation().map(|(operation, _)| operation),
        request = error.operation().map(|(_, request)| request),
        destination = error.destination(),
        code = error.code(),
        os_error = error.raw_os_error(),
        error = tracing_display(error),
        detail = error.operator_detail()
    );
}

pub(crate) struct AllowedOperation<'a> {
    pub(crate) operation: &'static str,
    pub(crate) request: &'a OsStr,
    pub(crate) root: String,
    pub(crate) path: String,
    pub(crate) destination: Option<&'a OsStr>,
    pub(crate) destination_path: Option<String>,
}

/// Whether some subscriber may want the event of [`allowed`]. One atomic read.
pub(crate) fn may_log_allowed() -> bool {
    #[cfg(feature = "tracing")]
    return tracing::level_filters::LevelFilter::current() >= tracing::Level::TRACE;
    #[cfg(not(feature = "tracing"))]
    false
}

pub(crate) fn allowed(session: Option<NonZeroU64>, allowed: &AllowedOperation<'_>) {
    event!(
        trace,
        "allowed",
        session = session.map(NonZeroU64::get),
        operation = allowed.operation,
        request = unquoted(&quoted(allowed.request)),
        root = escaped(&allowed.root).as_str(),
        path = escaped(&allowed.path).as_str(),
        destination = allowed.destination.map(quoted).as_deref().map(unquoted),
        destination_path = allowed.destination_path.as_deref().map(escaped).as_deref()
    );
}

/// Escapes text as error texts do, without shortening it.
fn escaped(text: &str) -> String {
    unquoted(&format!("{text:?}")).to_owned()
}

#[cfg(feature = "tracing")]
fn tracing_display(error: &Error) -> impl tracing::Value + '_ {
    tracing::field::display(error)
}

#[cfg(not(feature = "tracing"))]
fn tracing_display(error: &Error) -> &Error {
    error
}
