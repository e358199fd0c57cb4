//! Every bound of this crate.

use std::time::Duration;

/// The default for how long a child process may run ([`crate::ChildCommand::time_limit`]): one
/// minute, as long as most clients wait for an answer.
pub const CHILD_TIME: Duration = Duration::from_secs(60);

/// The default for how many bytes a child process may write
/// ([`crate::ChildCommand::output_limit`]): one mebibyte, more than a model can read.
pub const CHILD_OUTPUT: usize = 1 << 20;

/// The maximum number of child processes at once in this server process. A client gets at most two
/// thirds of those that the others leave. Roots without a session count as one client.
pub const CHILDREN: usize = 64;

/// How often a running child process is checked for the end of its request.
pub(crate) const CHILD_TICK: Duration = Duration::from_millis(50);

/// How often an idle child process is looked at, and so how late its exit or its time limit can be
/// noticed.
pub(crate) const CHILD_PAUSE: Duration = Duration::from_millis(20);

/// How soon a child process is looked at again after it has read, written or closed its output. It
/// usually exits then.
pub(crate) const CHILD_SHORT_PAUSE: Duration = Duration::from_millis(1);

/// How many bytes from the end of a failed child process's standard error, where a message is, are
/// in the text of the error, which a model reads.
pub(crate) const CHILD_ERROR: usize = 2048;

/// How long a caller waits for a killed child process to end. One that is traced, or is in an
/// uninterruptible system call, for example on a hung filesystem, ends later.
pub(crate) const CHILD_KILL: Duration = Duration::from_secs(2);

/// How long after its time limit a child process must have ended. If its start hangs in the kernel,
/// the caller gets an error then.
pub(crate) const CHILD_LATE: Duration = Duration::from_secs(10);

/// How long output is read after a child process has ended, if a process that it left behind holds
/// the pipe open.
pub(crate) const CHILD_DRAIN: Duration = Duration::from_millis(500);
