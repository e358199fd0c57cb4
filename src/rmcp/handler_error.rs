//! The errors of handlers.

use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ::rmcp::ErrorData;
use ::rmcp::handler::server::tool::IntoCallToolResult;
use ::rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ErrorCode};
use guarded_fs::{CommitError, Error};

use crate::limits::FAILURE_CHARS;
use crate::wire::{ErrorBody, Revision};

/// The error of a handler's work. Its `Debug` output shows no more than its text.
///
/// | created from | the model sees | the operator sees the event |
/// | --- | --- | --- |
/// | a refusal ([`Error`]), with `?` | its text | `refused` |
/// | a change set that was made in part ([`CommitError`]), with `?` | which changes were made, and the refusal | `refused` |
/// | a system error ([`std::io::Error`]), with `?` | the system's message for the error number | |
/// | a text ([`new`](Self::new)) | the text | |
/// | any other error ([`other`](Self::other)) | only that the server failed | `handler failed` |
/// | a protocol error (rmcp's `ErrorData`), with `?` | nothing; the client receives it as a JSON-RPC error | |
///
/// The [events](crate#events) require the feature `tracing`. If the request is not a tool call, the
/// other texts are also sent as JSON-RPC errors, and a refusal as
/// [`Revision::error_body`](crate::Revision::error_body) says, which for a resource can be without its
/// text. The error passed to `other` is the [`source`](std::error::Error::source).
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct HandlerError(pub(super) Reason);

#[derive(Debug, thiserror::Error)]
pub(super) enum Reason {
    #[error(transparent)]
    Refused(Error),
    #[error("{0}")]
    Text(String),
    #[error("{}", .0.message)]
    Protocol(ErrorData),
    #[error("{FAILED}")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl HandlerError {
    /// Creates an error with the handler's own text. The model reads it, so it must not contain
    /// anything that the client must not know.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Reason::Text(text.into()))
    }

    /// Creates an error from any other error, whose text may contain what the model must not read,
    /// such as paths, addresses or secrets of a service.
    ///
    /// An error that `?` can convert is converted in the same way, so a handler can use `Box<dyn
    /// Error + Send + Sync>` throughout and convert once. An error wrapped in another type, such as
    /// anyhow's, is not recognized; downcast it to [`Error`] first.
    ///
    /// ```
    /// use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
    ///
    /// fn titles(roots: &RequestRoots, path: &str) -> Result<String, HandlerError> {
    ///     let text = roots.read_to_string(path, 1 << 20)?; // the model sees why it was refused
    ///     let books: Result<Vec<(String, u32)>, _> = serde_json::from_str(&text);
    ///     // The model sees only that the server failed.
    ///     let books = books.map_err(HandlerError::other)?;
    ///     let titles: Vec<_> = books.into_iter().map(|(title, _)| title).collect();
    ///     Ok(titles.join(", "))
    /// }
    /// ```
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        // An error without a number does not come from the system, so its text can be anything.
        let is_known = |error: &io::Error| {
            let inner = error.get_ref();
            error.raw_os_error().is_some()
                || inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Error>)
        };
        (error.into().downcast::<Self>().map(|error| *error))
            .or_else(|error| error.downcast::<Error>().map(|error| (*error).into()))
            .or_else(|error| error.downcast::<ErrorData>().map(|error| (*error).into()))
            .or_else(|error| match error.downcast::<io::Error>() {
                Ok(error) if is_known(&error) => Ok((*error).into()),
                Ok(error) => Err(error.into()),
                Err(error) => Err(error),
            })
            .unwrap_or_else(|error| Self(Reason::Other(error)))
    }

    /// Logs an error that only the operator may see, and replaces it with a fixed text for the
    /// client.
    pub(super) fn logged(self, session: Option<NonZeroU64>) -> Self {
        let Reason::Other(error) = &self.0 else { return self };
        // The `Display` implementation of the author's error may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| log_failed(session, &**error)));
        Self(Reason::Text(FAILED.into()))
    }

    /// For a request other than a tool call.
    pub(super) fn into_error_data(self, revision: Revision, resource: Option<&str>) -> ErrorData {
        match self.0 {
            Reason::Refused(error) => revision.error_body(&error, resource).into(),
            Reason::Protocol(error) => error,
            Reason::Text(_) | Reason::Other(_) => ErrorData::internal_error(self.to_string(), None),
        }
    }
}

/// A tool that received its roots as an extension can return this error.
impl IntoCallToolResult for HandlerError {
    fn into_call_tool_result(self) -> Result<CallToolResponse, ErrorData> {
        match self.logged(None) {
            Self(Reason::Protocol(error)) => Err(error),
            error => Ok(CallToolResult::error(vec![ContentBlock::text(error.to_string())]).into()),
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerError({self})")
    }
}

/// It does not suggest a retry, which would fail in the same way.
const FAILED: &str = "the server failed to do this; its operator can see why";

impl From<Error> for HandlerError {
    fn from(error: Error) -> Self {
        Self(Reason::Refused(error))
    }
}

impl From<CommitError> for HandlerError {
    fn from(partial: CommitError) -> Self {
        Error::from(partial).into()
    }
}

impl From<ErrorData> for HandlerError {
    fn from(error: ErrorData) -> Self {
        Self(Reason::Protocol(error))
    }
}

impl From<io::Error> for HandlerError {
    fn from(error: io::Error) -> Self {
        Self(Reason::Refused(error.into()))
    }
}

impl From<ErrorBody> for ErrorData {
    fn from(body: ErrorBody) -> Self {
        let code = i32::try_from(body.code).map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
        Self::new(code, body.message, body.data)
    }
}

/// The maximum number of causes of a handler's error that are logged. An error can be its own
/// source.
const FAILURE_CAUSES: usize = 16;

/// Logs a handler's error and its causes, bounded, because other code creates the error.
fn log_failed(session: Option<NonZeroU64>, error: &(dyn std::error::Error + 'static)) {
    let chain = std::iter::successors(Some(error), |error| error.source()).take(FAILURE_CAUSES);
    let number = chain.clone().find_map(|it| match it.downcast_ref::<Error>() {
        Some(error) => error.raw_os_error(),
        None => it.downcast_ref::<io::Error>()?.raw_os_error(),
    });
    let chain = chain.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let shown: String = chain.chars().take(FAILURE_CHARS).collect();
    let session = session.map(NonZeroU64::get);
    let error = shown.as_str();
    event!(warn, "handler failed", session = session, os_error = number, error = error);
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;
    use guarded_fs::ErrorKind;

    #[test]
    fn only_the_operator_sees_an_unknown_error() {
        let data = || ErrorData::invalid_params("no such thing", None);
        let system = || io::Error::from_raw_os_error(28);
        let refusal = || Error::new(ErrorKind::OutsideRoots, "outside_roots", "outside");
        let sent = |error: HandlerError| error.into_error_data(Revision::V2025_11_25, None);
        for (boxed, plain) in [
            (HandlerError::other(data()), HandlerError::from(data())),
            (HandlerError::other(system()), system().into()),
            (HandlerError::other(refusal()), refusal().into()),
            (HandlerError::other(io::Error::other(refusal())), io::Error::other(refusal()).into()),
            (HandlerError::other(HandlerError::new("words")), HandlerError::new("words")),
        ] {
            assert_eq!(boxed.to_string(), plain.to_string());
            assert!(!matches!(boxed.0, Reason::Other(_)), "{boxed:?}");
            assert_eq!(sent(boxed), sent(plain));
        }
        let refused = HandlerError::from(io::Error::other(refusal()));
        assert!(
            matches!(refused.0, Reason::Refused(error) if error.kind() == ErrorKind::OutsideRoots)
        );
        let secret = "https://user:password@host refused";
        for other in [
            HandlerError::other(secret),
            HandlerError::other(io::Error::other(secret)),
            HandlerError::other(secret.parse::<u8>().unwrap_err()),
        ] {
            assert!(matches!(other.0, Reason::Other(_)), "{other:?}");
            let cause = other.source().unwrap().to_string();
            assert!(!other.to_string().contains(&cause), "{other}");
            let sent = sent(other);
            assert_eq!(
                (sent.code, &*sent.message, sent.data),
                (ErrorCode::INTERNAL_ERROR, FAILED, None)
            );
        }
    }

    #[test]
    fn the_source_of_a_handler_error_is_the_error_that_caused_it() {
        let refusal = HandlerError::from(Error::from(io::Error::from_raw_os_error(28)));
        let source = refusal.source().unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(source.raw_os_error(), Some(28));
        assert!(HandlerError::new("words").source().is_none());
        assert!(HandlerError::from(ErrorData::invalid_params("no", None)).source().is_none());
    }
}
