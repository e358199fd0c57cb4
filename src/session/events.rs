//! The events of sessions and handlers, of which the [crate documentation](crate#events) is the
//! contract. A refusal is logged by [`Error::logged`].

use std::num::NonZeroU64;
use std::path::Path;

use crate::Error;

pub(crate) fn fetched(session: NonZeroU64, roots: usize, rejected: usize, pages: usize) {
    event!(
        debug,
        "roots fetched",
        session = session.get(),
        roots = roots,
        rejected = rejected,
        pages = pages
    );
}

pub(crate) fn not_fetched(session: NonZeroU64, error: &Error) {
    event!(
        warn,
        "roots not fetched",
        session = session.get(),
        code = error.code(),
        os_error = error.raw_os_error(),
        detail = error.operator_detail()
    );
}

pub(crate) fn changed(session: NonZeroU64) {
    event!(debug, "roots changed", session = session.get());
}

pub(crate) fn resolved_again(session: NonZeroU64, roots: usize) {
    event!(debug, "roots resolved again", session = session.get(), roots = roots);
}

/// Logs a root of the list that was fetched or resolved again.
pub(crate) fn root_in_force(session: NonZeroU64, index: usize, root: &Path) {
    event!(
        debug,
        "root in force",
        session = session.get(),
        index = index,
        root = escaped(&dunce::simplified(root).display().to_string()).as_str()
    );
}

pub(crate) fn closed(session: NonZeroU64) {
    event!(debug, "session closed", session = session.get());
}

pub(crate) fn rejected(session: NonZeroU64, index: usize, entry: &str, error: &Error) {
    event!(
        warn,
        "entry rejected",
        session = session.get(),
        index = index,
        entry = escaped(entry).as_str(),
        code = error.code(),
        os_error = error.raw_os_error(),
        detail = error.operator_detail()
    );
}

/// Escapes text as error texts do, without shortening it.
fn escaped(text: &str) -> String {
    let quoted = format!("{text:?}");
    quoted[1..quoted.len() - 1].to_owned()
}
