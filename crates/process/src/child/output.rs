//! The result of a child process.

use std::ffi::OsString;
use std::fmt;
use std::process::ExitStatus;

use guarded_fs::{Error, Result};
use serde::{Serialize, Serializer};

use crate::confine::ConfinementReport;
use crate::kinds;
use crate::limits::CHILD_ERROR;

/// The output of a program, and how it ended.
///
/// The output is incomplete if a limit stopped the program ([`exit_reason`](Self::exit_reason)), or
/// if a process that it left behind still writes: soon after the call has returned, the other end
/// is closed.
#[derive(Clone)]
pub struct ChildOutput {
    pub(super) name: OsString,
    pub(super) ended: ExitReason,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) confined: Option<ConfinementReport>,
}

/// How a program ended. `Display` writes it for a model, such as `exit status: 1`.
///
/// With serde, it is an object with one member: `{"exited": 1}` with the exit status, or
/// `{"signal": 9}` with the number of the signal that ended it; or it is the text `timed_out` or
/// `output_limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitReason {
    /// It exited, or was ended by a signal that this crate did not send.
    Exited(ExitStatus),
    /// It was killed at its [time limit](crate::ChildCommand::time_limit).
    TimedOut,
    /// It was killed because it wrote more than its
    /// [output limit](crate::ChildCommand::output_limit).
    OutputLimit,
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => status.fmt(f),
            Self::TimedOut => f.write_str("stopped at its time limit"),
            Self::OutputLimit => f.write_str("stopped because it wrote more than its limit"),
        }
    }
}

impl Serialize for ExitReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[cfg(unix)]
        if let Self::Exited(status) = self {
            if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(status) {
                return serializer.serialize_newtype_variant("ExitReason", 3, "signal", &signal);
            }
        }
        match self {
            Self::Exited(status) => {
                let code = status.code();
                serializer.serialize_newtype_variant("ExitReason", 0, "exited", &code)
            }
            Self::TimedOut => serializer.serialize_unit_variant("ExitReason", 1, "timed_out"),
            Self::OutputLimit => serializer.serialize_unit_variant("ExitReason", 2, "output_limit"),
        }
    }
}

impl ChildOutput {
    /// How the program ended.
    #[must_use]
    pub fn exit_reason(&self) -> ExitReason {
        self.ended
    }

    /// Whether the program exited with status 0. False if it was stopped by a limit.
    #[must_use]
    pub fn success(&self) -> bool {
        matches!(self.ended, ExitReason::Exited(status) if status.success())
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
    /// - [`PROGRAM_FAILED`](crate::kinds::PROGRAM_FAILED) (`program_failed`) if the program exited
    ///   with another status than 0 or was ended by a signal.
    /// - [`PROGRAM_STOPPED`](crate::kinds::PROGRAM_STOPPED): `program_timed_out`,
    ///   `program_output_too_large`.
    ///
    /// The model sees the text of the error: the program's name, its exit status if it exited, and
    /// the end of its standard error, at most 2 KiB, quoted and escaped. An example is
    /// `run "git": the program failed; exit status: 128, standard error: "fatal: bad revision"`.
    /// If a confined program exits with 126, by which a shell, env(1) and others report a file that
    /// they could not execute, the text also says how to allow that.
    /// If a program can write what its caller must not know, return another error.
    pub fn into_stdout(self) -> Result<Vec<u8>> {
        let error = match self.ended {
            ExitReason::Exited(status) if status.success() => return Ok(self.stdout),
            ExitReason::Exited(_) => {
                Error::new(kinds::PROGRAM_FAILED, "program_failed", "the program failed")
            }
            ExitReason::TimedOut => {
                stopped("program_timed_out", "the program was stopped at its time limit")
            }
            ExitReason::OutputLimit => stopped(
                "program_output_too_large",
                "the program was stopped because it wrote more than its limit",
            ),
        };
        let status = match self.ended {
            ExitReason::Exited(status) => format!("{status}, "),
            ExitReason::TimedOut | ExitReason::OutputLimit => String::new(),
        };
        let stderr = self.stderr.trim_ascii_end();
        let cut = stderr.len().saturating_sub(CHILD_ERROR);
        let end = String::from_utf8_lossy(stderr.get(cut..).unwrap_or_default());
        let error = error
            .with_request("run", &self.name)
            .with_outcome(format!("{status}standard error: {end:?}"));
        let is_not_executed =
            matches!(self.ended, ExitReason::Exited(status) if status.code() == Some(NOT_EXECUTED));
        Err(if self.confined.is_some() && is_not_executed {
            error.with_outcome(NOT_ALLOWED.to_owned())
        } else {
            error
        })
    }
}

/// The exit status of a shell, and of programs that run others, if a file is found but cannot be
/// executed (POSIX, "Exit Status for Commands").
const NOT_EXECUTED: i32 = 126;

/// What a refusal to run a file adds if the program is confined.
pub(super) const NOT_ALLOWED: &str = "it is confined: a program, interpreter (`#!`) or loader \
    outside the roots needs `Confinement::extra` with `ExtraAccess::Execute`, and one in the roots \
    `Confinement::allow_programs_in_roots`";

fn stopped(code: &'static str, text: &'static str) -> Error {
    Error::new(kinds::PROGRAM_STOPPED, code, text)
}

pub(super) struct OutputBuffer {
    pub(super) streams: [Vec<u8>; 2],
    /// `None` if the program has written too much.
    pub(super) left: Option<usize>,
}

impl OutputBuffer {
    /// Keeps bytes of a stream, up to the limit. Returns whether the program may write more.
    pub(super) fn push(&mut self, stream: usize, bytes: &[u8]) -> bool {
        let kept = bytes.len().min(self.left.unwrap_or_default());
        self.left = self.left.and_then(|left| left.checked_sub(bytes.len()));
        if let (Some(stream), Some(kept)) = (self.streams.get_mut(stream), bytes.get(..kept)) {
            stream.extend(kept);
        }
        self.left.is_some()
    }
}

impl fmt::Debug for ChildOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildOutput")
            .field("ended", &self.ended)
            .field("stdout", &self.stdout.len())
            .field("stderr", &self.stderr.len())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn each_exit_reason_has_a_text_and_a_serialized_form() {
        for (reason, text, json) in [
            (ExitReason::Exited(ExitStatus::from_raw(3 << 8)), "exit status: 3", r#"{"exited":3}"#),
            (ExitReason::Exited(ExitStatus::from_raw(9)), "signal: 9", r#"{"signal":9}"#),
            (ExitReason::TimedOut, "stopped at its time limit", r#""timed_out""#),
            (ExitReason::OutputLimit, "stopped because it wrote more", r#""output_limit""#),
        ] {
            assert!(reason.to_string().starts_with(text), "{reason}");
            assert_eq!(serde_json::to_string(&reason).unwrap(), json);
        }
    }
}
