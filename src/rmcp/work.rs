//! A handler's work, and its answer.
//!
//! Goes in: a closure that does I/O beneath the roots in force. Comes out: what rmcp sends. What is true after: the closure ran where waiting is
//! allowed, and only with roots; its refusals are answered as the protocol wants them, and its panic is an error of that request.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ::rmcp::ErrorData;
use ::rmcp::handler::server::tool::IntoCallToolResult;
use ::rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, InputRequiredResult, ReadResourceRequestParams, ReadResourceResponse,
};
use ::rmcp::service::{RequestContext, RoleServer};

use super::input::{ClientInput, add_question};
use super::request::{RequestRoots, RootsForRequest, refused, revision, stateless};
use crate::error::{Code, Error};
use crate::events;
use crate::session::Guard;
use crate::wire::{ErrorBody, Revision};
use crate::workers::For;

/// Why a handler's work failed. Its `Debug` shows no more than its text.
///
/// | from | the model sees | the operator sees |
/// | --- | --- | --- |
/// | a refusal of the guard ([`Error`]), by `?` | its text | the event `refused`, with [`operator_detail`](Error::operator_detail) |
/// | what the system said ([`std::io::Error`]), by `?` | the system's text for its number | |
/// | [`new`](Self::new): the handler's own words | those | |
/// | [`other`](Self::other): any other error | that the server failed, and nothing of the error | the event `handler failed`, with the error and its causes |
/// | an error of the protocol (rmcp's `ErrorData`), by `?` | it is no tool's result; the client gets the JSON-RPC error | |
///
/// The events need the feature `tracing`. Where the work is no tool's, the client gets the same
/// text as a JSON-RPC error. The error that `other` took is the
/// [`source`](std::error::Error::source).
pub struct HandlerError(Why);

#[derive(Debug)]
enum Why {
    Refused(Error),
    Said(String),
    Protocol(ErrorData),
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Guard {
    /// Does a tool's work with the roots in force, and gives what `call_tool` returns.
    ///
    /// `input` is what the client sent along: the call's parameters, or what a tool of rmcp's
    /// macros extracts: `InputResponses`, and `(InputResponses, RequestState)` for a tool that
    /// keeps a state. `work` runs on a thread of the guard's, and waits for one of
    /// [`WORK`](crate::limits::WORK) places before, of which a client's work has at most a quarter.
    /// Clients that wait are served in turns; one with 1,024 calls waiting is refused more
    /// ([`Busy`](crate::ErrorKind::Busy): `queue_full`). If the client's roots change while it
    /// waits, it is refused ([`RootsStale`](crate::ErrorKind::RootsStale)) and does not begin. An
    /// operation on a device that keeps half of the places and has finished nothing for two seconds
    /// is refused ([`Busy`](crate::ErrorKind::Busy): `busy`).
    ///
    /// `work` It may return whatever rmcp takes for a tool's result: text, `Json`, a
    /// `CallToolResult`, or a question of its own (`InputRequiredResult`), which then holds the guard's too, so that the retry needs no
    /// further round.
    ///
    /// A refusal is a tool's result with `isError`, its text for the model. If the client of the stateless era has to be asked for its
    /// roots, the result is that question, and `work` does not run.
    ///
    /// Await it in the handler's own task: in another, a question to the client belongs to no request. When the request is cancelled it
    /// ends at once, and `work` goes on until it looks: at [`RequestRoots::ensure_active`], between the steps of what takes long.
    ///
    /// ```
    /// # use mcp_roots_guard::Guard;
    /// # use rmcp::handler::server::tool::InputResponses;
    /// # use rmcp::model::CallToolResponse;
    /// # use rmcp::service::{RequestContext, RoleServer};
    /// # struct Server { guard: Guard }
    /// # impl Server {
    /// async fn read(&self, path: String, ctx: RequestContext<RoleServer>, answers: InputResponses)
    /// -> Result<CallToolResponse, rmcp::ErrorData> {
    ///     self.guard.tool(&ctx, answers, move |roots| Ok(roots.read_to_string(&path, 1 << 20)?)).await
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What `work` gives as an error of the protocol; -32021 for a client without roots where they are demanded (2026-07-28); -32603 if
    /// `work` panicked.
    pub async fn tool<T, W>(
        &self,
        ctx: &RequestContext<RoleServer>,
        input: impl Into<ClientInput>,
        work: W,
    ) -> Result<CallToolResponse, ErrorData>
    where
        T: IntoCallToolResult + Send + 'static,
        W: FnOnce(RequestRoots) -> Result<T, HandlerError> + Send + 'static,
    {
        let work = move |roots| Ok(work(roots)?.into_call_tool_result()?);
        let HandlerError(why) = match self.respond(ctx, input.into(), work).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let text = match why {
            Why::Protocol(error) => return Err(error),
            Why::Refused(error) if stateless(ctx) && error.reason() == Code::RootsUnsupported => {
                return Err(error.to_error_body(revision(ctx), None).into());
            }
            Why::Refused(error) => error.to_string(),
            Why::Said(text) => text,
            Why::Other(_) => FAILED.into(),
        };
        Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
    }

    /// Does the work of `resources/read` with the roots in force, as [`tool`](Self::tool) does a tool's.
    ///
    /// # Errors
    ///
    /// Refusals, as [`Error::to_error_body`] has them for a resource; -32603 for what `work` says in its own words, or if it panicked.
    pub async fn resource<T, W>(
        &self,
        ctx: &RequestContext<RoleServer>,
        params: &ReadResourceRequestParams,
        work: W,
    ) -> Result<ReadResourceResponse, ErrorData>
    where
        T: Into<ReadResourceResponse> + Send + 'static,
        W: FnOnce(RequestRoots) -> Result<T, HandlerError> + Send + 'static,
    {
        let done = self.respond(ctx, params.into(), move |roots| Ok(work(roots)?.into())).await;
        done.map_err(|error| error.of_request(revision(ctx), Some(&params.uri)))
    }

    /// Does the work of `prompts/get` with the roots in force, as [`tool`](Self::tool) does a tool's.
    ///
    /// # Errors
    ///
    /// Refusals, as [`Error::to_error_body`] has them without a resource; else those of [`resource`](Self::resource).
    pub async fn prompt<T, W>(
        &self,
        ctx: &RequestContext<RoleServer>,
        params: &GetPromptRequestParams,
        work: W,
    ) -> Result<GetPromptResponse, ErrorData>
    where
        T: Into<GetPromptResponse> + Send + 'static,
        W: FnOnce(RequestRoots) -> Result<T, HandlerError> + Send + 'static,
    {
        let done = self.respond(ctx, params.into(), move |roots| Ok(work(roots)?.into())).await;
        done.map_err(|error| error.of_request(revision(ctx), None))
    }

    /// Does the work of any other request with the roots in force: `resources/list`, `completion/complete`, a subscription. `resource`
    /// is the URI that the request names, if any.
    ///
    /// In the stateless era such a request can not be asked in: what is in force are the allowed directories for a client that declared
    /// no roots, and for another what it told within [a short time](crate::GuardBuilder::time_to_live_keyed), if it has a
    /// [`ClientKey`](super::ClientKey).
    ///
    /// # Errors
    ///
    /// [`RootsStale`](crate::ErrorKind::RootsStale) where the client would have to be asked; else
    /// those of [`resource`](Self::resource).
    pub async fn request<T, W>(
        &self,
        ctx: &RequestContext<RoleServer>,
        resource: Option<&str>,
        work: W,
    ) -> Result<T, ErrorData>
    where
        T: Send + 'static,
        W: FnOnce(RequestRoots) -> Result<T, HandlerError> + Send + 'static,
    {
        let done = match self.roots_for(ctx, ClientInput::default()).await {
            Ok(RootsForRequest::InputRequired(_)) => {
                Err(refused(None, Code::RootsStale.into()).into())
            }
            Ok(RootsForRequest::Roots(roots)) => self.run(roots, work).await,
            Err(error) => Err(error.into()),
        };
        done.map_err(|error| error.of_request(revision(ctx), resource))
    }

    /// Does the work of a request that can be asked in, or asks.
    async fn respond<R: Response>(
        &self,
        ctx: &RequestContext<RoleServer>,
        input: ClientInput,
        work: impl FnOnce(RequestRoots) -> Result<R, HandlerError> + Send + 'static,
    ) -> Result<R, HandlerError> {
        let roots = match self.roots_for(ctx, input).await? {
            RootsForRequest::InputRequired(question) => return Ok(question.into()),
            RootsForRequest::Roots(roots) => roots,
        };
        let must_list_again = roots.must_list_again();
        let mut response = self.run(roots, work).await?;
        if let (Some(own), true) = (response.question(), must_list_again) {
            add_question(own);
        }
        Ok(response)
    }

    /// Runs a handler's work on a thread of the guard's; unless the request is cancelled, to its end.
    async fn run<T, W>(&self, roots: RequestRoots, work: W) -> Result<T, HandlerError>
    where
        T: Send + 'static,
        W: FnOnce(RequestRoots) -> Result<T, HandlerError> + Send + 'static,
    {
        let (cancelled, account, session) =
            (roots.cancellation(), roots.account().clone(), roots.session_id());
        let lease = roots.ends_with_work();
        let work = move || {
            // The work may have kept the roots.
            let _lease = lease;
            // It may write, and has waited: nobody may want it any more, and the roots may be others.
            roots.begin().map_err(|error| refused(roots.session_id(), error))?;
            work(roots)
        };
        let done = async {
            let done = self.workers().run(For::Work, account, work).await;
            let done = done.map_err(|error| refused(None, error))?;
            done.map_err(|_| ErrorData::internal_error("the handler panicked", None))?
        };
        let done = cancelled.run_until_cancelled(done).await;
        let done = done.unwrap_or_else(|| Err(Error::from(Code::Cancelled).into()));
        if let Err(HandlerError(Why::Other(error))) = &done {
            // The author's error says its text, and may panic.
            let _ = catch_unwind(AssertUnwindSafe(|| events::failed(session, &**error)));
        }
        done
    }
}

/// A response that may be a question.
trait Response: From<InputRequiredResult> + Send + 'static {
    fn question(&mut self) -> Option<&mut InputRequiredResult>;
}

macro_rules! responses {
    ($($response:ident)*) => { $(
        impl Response for $response {
            fn question(&mut self) -> Option<&mut InputRequiredResult> {
                match self {
                    Self::InputRequired(question) => Some(question),
                    _ => None,
                }
            }
        }
    )* };
}

responses! { CallToolResponse GetPromptResponse ReadResourceResponse }

impl HandlerError {
    /// A failure in the handler's own words. A model may read it: it must not hold what the client may not know.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Why::Said(text.into()))
    }

    /// Any other error, whose text may hold what the model must not read: paths, addresses, secrets
    /// of a service. The model is told that the server failed, and the operator the error.
    ///
    /// If it is one that converts with `?`, it is that: so a handler can use
    /// `Box<dyn Error + Send + Sync>` for all that may fail, and convert once. It is not found inside
    /// an error of another type, such as anyhow's: downcast to [`Error`] before.
    ///
    /// ```
    /// use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
    ///
    /// fn titles(roots: &RequestRoots, path: &str) -> Result<String, HandlerError> {
    ///     let text = roots.read_to_string(path, 1 << 20)?; // the model is told why not
    ///     let books: Result<Vec<(String, u32)>, _> = serde_json::from_str(&text);
    ///     let books = books.map_err(HandlerError::other)?; // the model is told that the server failed
    ///     let titles: Vec<_> = books.into_iter().map(|(title, _)| title).collect();
    ///     Ok(titles.join(", "))
    /// }
    /// ```
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let error = error.into();
        let error = match error.downcast::<Self>() {
            Ok(own) => return *own,
            Err(error) => error,
        };
        let error = match error.downcast::<Error>() {
            Ok(refusal) => return (*refusal).into(),
            Err(error) => error,
        };
        let error = match error.downcast::<std::io::Error>() {
            // An error without a number is not the system's: its text can be anything.
            Ok(said)
                if said.raw_os_error().is_some()
                    || said
                        .get_ref()
                        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Error>) =>
            {
                return (*said).into();
            }
            Ok(said) => return Self(Why::Other(said)),
            Err(error) => error,
        };
        error
            .downcast::<ErrorData>()
            .map_or_else(|error| Self(Why::Other(error)), |protocol| (*protocol).into())
    }

    /// The error of a request that is no tool's call.
    fn of_request(self, revision: Revision, resource: Option<&str>) -> ErrorData {
        match self.0 {
            Why::Refused(error) => error.to_error_body(revision, resource).into(),
            Why::Said(text) => ErrorData::internal_error(text, None),
            Why::Other(_) => ErrorData::internal_error(FAILED, None),
            Why::Protocol(error) => error,
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerError({self})")
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Why::Refused(error) => error.fmt(f),
            Why::Said(text) => f.write_str(text),
            Why::Protocol(error) => f.write_str(&error.message),
            Why::Other(_) => f.write_str(FAILED),
        }
    }
}

impl std::error::Error for HandlerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Why::Refused(error) => error.source(),
            Why::Other(error) => Some(&**error),
            Why::Said(_) | Why::Protocol(_) => None,
        }
    }
}

/// What a model is told of an error that only the operator may read. Another try would come to the
/// same.
const FAILED: &str = "the server failed to do this; its operator can see why";

impl From<Error> for HandlerError {
    fn from(error: Error) -> Self {
        Self(Why::Refused(error))
    }
}

impl From<std::io::Error> for HandlerError {
    fn from(error: std::io::Error) -> Self {
        Self(Why::Refused(Error::unwrapped(error)))
    }
}

impl From<ErrorData> for HandlerError {
    fn from(error: ErrorData) -> Self {
        Self(Why::Protocol(error))
    }
}

/// For handlers that answer on their own, after [`Guard::roots_for`].
impl From<ErrorBody> for ErrorData {
    fn from(body: ErrorBody) -> Self {
        let code = i32::try_from(body.code).map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
        Self::new(code, body.message, body.data)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::*;

    /// What converts with `?` is the same in a box; all else is for the operator.
    #[test]
    fn any_error_is_told_to_whom_it_is_for() {
        let data = || ErrorData::invalid_params("no such thing", None);
        let said = || io::Error::from_raw_os_error(28);
        let refusal = || Error::from(Code::OutsideRoots);
        let of_request = |error: HandlerError| error.of_request(Revision::V2025_11_25, None);
        for (boxed, plain) in [
            (HandlerError::other(data()), HandlerError::from(data())),
            (HandlerError::other(said()), said().into()),
            (HandlerError::other(refusal()), refusal().into()),
            (HandlerError::other(io::Error::other(refusal())), io::Error::other(refusal()).into()),
            (HandlerError::other(HandlerError::new("words")), HandlerError::new("words")),
        ] {
            assert_eq!(boxed.to_string(), plain.to_string());
            assert!(!matches!(boxed.0, Why::Other(_)), "{boxed:?}");
            assert_eq!(of_request(boxed), of_request(plain));
        }
        let refused = HandlerError::from(io::Error::other(refusal()));
        assert!(matches!(refused.0, Why::Refused(error) if error.reason() == Code::OutsideRoots));
        let secret = "https://user:password@host refused";
        for other in [
            HandlerError::other(secret),
            HandlerError::other(io::Error::other(secret)),
            HandlerError::other(secret.parse::<u8>().unwrap_err()),
        ] {
            assert!(matches!(other.0, Why::Other(_)), "{other:?}");
            let cause = other.source().unwrap().to_string();
            assert!(!other.to_string().contains(&cause), "{other}");
            let sent = of_request(other);
            assert_eq!(
                (sent.code, &*sent.message, sent.data),
                (ErrorCode::INTERNAL_ERROR, FAILED, None)
            );
        }
    }
}
