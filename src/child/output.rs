//! The result of a child process.

use std::fmt;
use std::process::ExitStatus;

use crate::confine::Confined;
use crate::error::{Code, Error, Result};

/// The output of a program, and how the program ended.
///
/// The output is incomplete if the program was stopped by a limit ([`ended`](Self::ended)), or if a
/// process that the program left behind still writes to it. Soon after the call has returned, the
/// other end is closed.
#[derive(Clone)]
pub struct ChildOutput {
    pub(super) ended: Ended,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) confined: Option<Confined>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// It exited, or was ended by a signal that this crate did not send.
    Exited(ExitStatus),
    /// It was killed at its [time limit](crate::ChildCommand::time_limit).
    TimedOut,
    /// It was killed because it wrote more than its
    /// [output limit](crate::ChildCommand::output_limit).
    OutputLimit,
}

impl ChildOutput {
    /// How the program ended.
    #[must_use]
    pub fn ended(&self) -> Ended {
        self.ended
    }

    /// Whether the program exited with status 0. False if it was stopped by a limit.
    #[must_use]
    pub fn success(&self) -> bool {
        matches!(self.ended, Ended::Exited(status) if status.success())
    }

    /// What the program wrote to standard output, up to the output limit.
    #[must_use]
    pub fn stdout(&self) -> &[u8] {
        &self.stdout
    }

    /// What the program wrote to standard error, up to the output limit.
    #[must_use]
    pub fn stderr(&self) -> &[u8] {
        &self.stderr
    }

    /// Returns the standard output of a program that succeeded.
    ///
    /// # Errors
    ///
    /// - [`ProgramFailed`](crate::ErrorKind::ProgramFailed) (`program_failed`) if the program
    ///   exited with another status than 0 or was ended by a signal.
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded): `program_timed_out`,
    ///   `program_output_too_large`.
    pub fn into_stdout(self) -> Result<Vec<u8>> {
        match self.ended {
            Ended::Exited(status) if status.success() => Ok(self.stdout),
            Ended::Exited(status) => {
                Err(match status.code().and_then(|code| u64::try_from(code).ok()) {
                    Some(code) => {
                        Error::over(Code::ProgramFailed, "the program exited with status {}", code)
                    }
                    None => Error::new(Code::ProgramFailed).says("a signal ended the program"),
                })
            }
            Ended::TimedOut => Err(Code::ProgramTimedOut.into()),
            Ended::OutputLimit => Err(Code::ProgramOutputTooLarge.into()),
        }
    }
}

/// Shows the lengths of the output.
impl fmt::Debug for ChildOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildOutput")
            .field("ended", &self.ended)
            .field("stdout", &self.stdout.len())
            .field("stderr", &self.stderr.len())
            .finish_non_exhaustive()
    }
}
