//! The kinds of errors that programs and confinement add to [`ErrorKind`].
//!
//! Programs also add codes to the kinds of `guarded-fs`:
//!
//! - `no_such_program` ([`NotFound`](ErrorKind::NotFound)): no directory of `PATH` that clients
//!   cannot write to contains the program, or its interpreter does not exist.
//! - `program_inside_roots` ([`ForbiddenFile`](ErrorKind::ForbiddenFile)): the program is inside a
//!   writable allowed directory, or its path follows a symlink inside one.
//! - `directory_by_path` ([`Unsupported`](ErrorKind::Unsupported)): the working directory can be
//!   set only by its path (`ChildCommand::unguarded_dir`).
//! - `invalid_program` ([`InvalidInput`](ErrorKind::InvalidInput)): the program is neither a name
//!   nor an absolute path.
//! - `panicked` ([`Io`](ErrorKind::Io)): the work panicked.

use guarded_fs::{Error, ErrorKind};

/// A child process exited with a status other than 0, or a signal ended it.
pub const PROGRAM_FAILED: ErrorKind = ErrorKind::Other("program_failed");

/// A child process was killed.
///
/// Codes:
///
/// * `program_timed_out`: It reached its time limit.
/// * `program_output_too_large`: It wrote more than its limit.
pub const PROGRAM_STOPPED: ErrorKind = ErrorKind::Other("program_stopped");

/// The process cannot be confined, and no restriction was applied.
///
/// Codes:
///
/// * `confinement_unavailable`: The system is not Linux, its kernel has no Landlock, or it cannot
///   enforce all restrictions of a program.
/// * `threads_running`: The process has other threads, which this kernel cannot confine, or its
///   number of threads is unknown.
pub const CONFINEMENT_UNAVAILABLE: ErrorKind = ErrorKind::Other("confinement_unavailable");

/// The program cannot run now. The request can be retried later.
///
/// Codes:
///
/// * `busy`: The system cannot create a thread, or the start of the program does not end.
/// * `too_many_children`: The client already runs its share of
///   [`CHILDREN`](crate::limits::CHILDREN).
pub const BUSY: ErrorKind = ErrorKind::Other("busy");

pub(crate) fn busy() -> Error {
    Error::new(BUSY, "busy", "the server is too busy for this now; try again later")
}

pub(crate) fn panicked(what: &str) -> Error {
    Error::new(ErrorKind::Io, "panicked", "the operation failed unexpectedly")
        .with_operator_detail(what)
}

pub(crate) fn cancelled() -> Error {
    Error::new(ErrorKind::Stopped, "cancelled", "nobody waits for the program any more")
}
