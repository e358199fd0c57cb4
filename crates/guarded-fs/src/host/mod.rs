//! What crates call that hand out roots to clients or run programs. Tools and servers need none of
//! it: what they use is at the crate root.
//!
//! - **Roots for clients.** A crate keeps the [`ResolvedRoots`] of a client's list ([`narrow`]) or
//!   of the configuration ([`allowed`]), and gives each request these roots in a [`Scope`] of its
//!   own ([`in_scope`]). Once the scope is over, nothing begins through them.
//! - **Errors** that the operating system caused: [`with_raw_os_error`].
//! - **Events** for what other code did or refused: [`log_allowed`], [`log_refused`].
//! - **Programs.** [`ProgramPaths`] says whether a tool can have written a program, and what a rule
//!   of the kernel grants.
//!
//! Only the crates of this repository call it, and they require exactly the version of this crate
//! that was released with them. So **any version may change it**.

mod program_paths;

use std::ffi::OsStr;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

pub use self::program_paths::ProgramPaths;
pub use crate::boundary::ResolvedRoots;
use crate::boundary::{Boundary, ListEntry};
use crate::check::Proof;
use crate::error::{Error, Result};
use crate::events;
use crate::roots::Roots;
pub use crate::roots::Scope;

/// Returns the allowed directories for clients, like [`Boundary::allowed_roots`], but without their
/// [rejected](Roots::rejected) entries: these are paths of the configuration, which no client
/// should see.
///
/// If configured paths are due to be resolved again, `start` receives the work. An asynchronous
/// program starts it on a thread that may block. Unless `start` has done it already, the result
/// contains what the paths led to last. Nobody else receives the work until it is done or dropped.
/// If it is dropped, the paths are resolved again half a second later at the earliest.
///
/// ```
/// # use guarded_fs::{Access, Boundary, host};
/// # let work = tempfile::tempdir().unwrap();
/// let boundary = Boundary::builder().directory(work.path(), Access::ReadOnly).build()?;
/// let allowed = host::allowed(&boundary, |resolve| drop(std::thread::spawn(resolve)));
/// assert_eq!(allowed.roots.iter().count(), 1);
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[must_use]
pub fn allowed(boundary: &Boundary, start: impl FnOnce(Box<dyn FnOnce() + Send>)) -> ResolvedRoots {
    boundary.allowed(start)
}

/// Like [`Boundary::narrow`], until `is_over` returns true, for example because nobody waits for the
/// result any longer. It is asked before each look-up. A filesystem that does not answer a look-up
/// can outlast it.
///
/// # Errors
///
/// Those of [`Boundary::narrow`], also once `is_over` returns true.
pub fn narrow<'a>(
    boundary: &Boundary,
    entries: impl IntoIterator<Item: Into<ListEntry<'a>>>,
    is_over: &dyn Fn() -> bool,
) -> Result<ResolvedRoots> {
    boundary.narrow_until(entries, is_over)
}

/// Returns only the directories that are [always](crate::DirectoryOptions::always) in force, for
/// use while the list that narrows the others cannot be obtained. Relative requests are refused
/// with `failure`, the reason.
#[must_use]
pub fn always_in_force(roots: &Roots, failure: &Error) -> Roots {
    roots.always_in_force(failure)
}

/// Returns the same roots in this scope. Roots that already belong to one still do, and the new
/// scope can only end them sooner.
#[inline]
#[must_use]
pub fn in_scope(roots: Roots, scope: Arc<dyn Scope>) -> Roots {
    roots.in_scope(scope)
}

/// What the roots belong to. `None` for roots from configuration.
#[inline]
#[must_use]
pub fn scope(roots: &Roots) -> Option<&dyn Scope> {
    roots.scope()
}

/// Logs, with the event [`allowed`](crate#events), that an operation of the caller's own on this
/// place has succeeded, such as one that another program performs. `request` is what the sender
/// requested. Without the feature `tracing`, this does nothing.
pub fn log_allowed(proof: &Proof, operation: &'static str, request: &OsStr) {
    proof.log_done(operation, request, None);
}

/// Logs a refusal like [`Error::logged`], for a request that got no roots. `session` is the number
/// of the session or request ([`Scope::number`]), if there is one.
#[must_use]
pub fn log_refused(error: Error, session: Option<NonZeroU64>) -> Error {
    events::refused(session, &error);
    error
}

/// Sets the [number](Error::raw_os_error) of the operating system's error that caused this one,
/// unless it is `None`. It also decides the kind of the [`io::Error`] that this error converts to.
#[must_use]
pub fn with_raw_os_error(error: Error, number: impl Into<Option<i32>>) -> Error {
    let cause = number.into().map(io::Error::from_raw_os_error);
    cause.into_iter().fold(error, Error::caused_by)
}
