//! Runs a handler's work with the roots in force, and turns its result into rmcp's response.
//!
//! [`Guard::tool`], [`Guard::resource`], [`Guard::prompt`] and [`Guard::request`] take a closure
//! that does I/O beneath the roots. The closure runs on a thread of the guard, and only if the
//! roots could be obtained. Its refusals become the errors that the protocol requires, and a panic
//! fails only that request. [`HandlerError`] determines how much of a failure the model and the
//! operator see.

use std::fmt::{self, Write as _};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use ::rmcp::ErrorData;
use ::rmcp::handler::server::tool::IntoCallToolResult;
use ::rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, InputRequiredResult, ReadResourceRequestParams, ReadResourceResponse,
};
use ::rmcp::service::{RequestContext, RoleServer};

use super::input::{ClientInput, add_roots_request};
use super::request::{EndOnDrop, RequestRoots, RootsForRequest, revision, stateless};
use crate::error::{Code, Error};
use crate::events::{self, SessionId, refused};
use crate::path::Location;
use crate::session::Guard;
use crate::wire::{ErrorBody, Revision};

/// The error of a handler's work. Its `Debug` output shows no more than its text.
///
/// | created from | the model sees | the operator sees the event |
/// | --- | --- | --- |
/// | a refusal ([`Error`]), with `?` | its text | `refused` |
/// | a system error ([`std::io::Error`]), with `?` | the system's message for the error number | |
/// | a text ([`new`](Self::new)) | the text | |
/// | any other error ([`other`](Self::other)) | only that the server failed | `handler failed` |
/// | a protocol error (rmcp's `ErrorData`), with `?` | nothing; the client receives it | |
///
/// The events require the feature `tracing`. `refused` contains the
/// [`operator_detail`](Error::operator_detail), and `handler failed` contains the error with its
/// causes. A protocol error is sent as a JSON-RPC error. If the request is not a tool call, the
/// other texts are also sent as JSON-RPC errors. The error passed to `other` is the
/// [`source`](std::error::Error::source).
pub struct HandlerError(Reason);

#[derive(Debug)]
enum Reason {
    Refused(Error),
    Text(String),
    Protocol(ErrorData),
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Guard {
    /// Runs a tool's work with the roots in force, and returns the response for `call_tool`.
    ///
    /// `input` is the input that the client sent with the call. It is converted from the call's
    /// parameters, or from the value that rmcp's tool macros extract. That value is
    /// `InputResponses`, or `(InputResponses, RequestState)` for a tool with a state.
    ///
    /// `work` runs on a thread of the guard. It first waits for one of
    /// [`WORK`](crate::limits::WORK) slots, of which one client's work takes at most a quarter.
    /// Waiting clients are served in turn. If a client has 1,024 waiting calls, further calls are
    /// refused ([`Busy`](crate::ErrorKind::Busy): `queue_full`). If the client's roots change while
    /// `work` waits, it does not start, and the call is refused
    /// ([`RootsStale`](crate::ErrorKind::RootsStale)).
    ///
    /// If all slots are taken, work that has been running for two seconds lends its slot to a client
    /// that has none. While as much work runs as there are slots, a client with running work gets
    /// none of the lent slots, and its calls are refused ([`Busy`](crate::ErrorKind::Busy): `busy`).
    ///
    /// `work` returns anything that rmcp accepts as a tool's result: text, `Json`, a
    /// `CallToolResult`, or its own request for input (`InputRequiredResult`). The guard adds its
    /// request for roots to such a request, so that the retry needs no further round trip.
    ///
    /// A refusal becomes a tool result with `isError` and a text for the model. If a client of the
    /// stateless era must be asked for its roots, the result asks for them, and `work` does not
    /// run.
    ///
    /// Await this in the handler's own task, because a request to the client from another task
    /// would not belong to any request. If the request is cancelled, this returns at once, and
    /// `work` continues until its next call to [`RequestRoots::ensure_active`]. Long-running
    /// work should call it between steps.
    ///
    /// ```
    /// # use mcp_roots_guard::Guard;
    /// # use mcp_roots_guard::rmcp::RequestRoots;
    /// # use rmcp::handler::server::tool::InputResponses;
    /// # use rmcp::model::CallToolResponse;
    /// # use rmcp::service::{RequestContext, RoleServer};
    /// # struct Server { guard: Guard }
    /// # impl Server {
    /// async fn read(&self, path: String, ctx: RequestContext<RoleServer>, answers: InputResponses)
    /// -> Result<CallToolResponse, rmcp::ErrorData> {
    ///     let work = move |roots: RequestRoots| Ok(roots.read_to_string(&path, 1 << 20)?);
    ///     self.guard.tool(&ctx, answers, work).await
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The protocol error that `work` returned; -32021 if the server requires roots and the client
    /// did not declare them (2026-07-28); -32603 if `work` panicked.
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
        let run = |roots| run_blocking(roots, work);
        respond_to_tool(ctx, self.respond(ctx, input.into(), run).await)
    }

    /// Reads a text file of at most `limit` bytes, and returns the response for `call_tool`. This is
    /// [`tool`](Self::tool) with [`read_to_string`](crate::Roots::read_to_string).
    ///
    /// # Errors
    ///
    /// The errors of [`tool`](Self::tool).
    pub async fn read_text<L>(
        &self,
        ctx: &RequestContext<RoleServer>,
        input: impl Into<ClientInput>,
        request: L,
        limit: u64,
    ) -> Result<CallToolResponse, ErrorData>
    where
        L: TryInto<Location> + Send + 'static,
        Error: From<L::Error>,
    {
        self.tool(ctx, input, move |roots| Ok(roots.read_to_string(request, limit)?)).await
    }

    /// Runs a tool's asynchronous work with the roots in force, like [`tool`](Self::tool).
    ///
    /// `work` runs in the task of the request, and occupies none of the slots that clients share, so
    /// it can wait for other services, for input, or for a [child
    /// process](crate::ChildCommand::output_async). It must not block. Use the filesystem in
    /// [`RequestRoots::run`], which waits for a slot each time and refuses to start when the roots
    /// have changed.
    ///
    /// If the request is cancelled, `work` is dropped at its next `await`. The roots end when `work`
    /// ends, even if it moved them elsewhere.
    ///
    /// ```
    /// # use mcp_roots_guard::Guard;
    /// # use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
    /// # use rmcp::handler::server::tool::InputResponses;
    /// # use rmcp::model::CallToolResponse;
    /// # use rmcp::service::{RequestContext, RoleServer};
    /// # async fn summarize(text: String) -> Result<String, HandlerError> { Ok(text) }
    /// # struct Server { guard: Guard }
    /// # impl Server {
    /// async fn summary(&self, path: String, ctx: RequestContext<RoleServer>, answers: InputResponses)
    /// -> Result<CallToolResponse, rmcp::ErrorData> {
    ///     let work = async move |roots: RequestRoots| {
    ///         let text = roots.run(move |roots| Ok(roots.read_to_string(&path, 1 << 20)?)).await?;
    ///         let summary = summarize(text).await?;
    ///         roots.run(move |roots| Ok(roots.write("summary.txt", &summary)?)).await?;
    ///         Ok("written to summary.txt".to_owned())
    ///     };
    ///     self.guard.tool_async(&ctx, answers, work).await
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`tool`](Self::tool).
    pub async fn tool_async<T, W, F>(
        &self,
        ctx: &RequestContext<RoleServer>,
        input: impl Into<ClientInput>,
        work: W,
    ) -> Result<CallToolResponse, ErrorData>
    where
        T: IntoCallToolResult,
        W: FnOnce(RequestRoots) -> F,
        F: Future<Output = Result<T, HandlerError>> + Send,
    {
        let work = async |roots| Ok(work(roots).await?.into_call_tool_result()?);
        let run = |roots| run_async(roots, work);
        respond_to_tool(ctx, self.respond(ctx, input.into(), run).await)
    }

    /// Runs the work of `resources/read` with the roots in force, like [`tool`](Self::tool).
    ///
    /// # Errors
    ///
    /// A refusal, in the form of [`Error::to_error_body`] for a resource; the protocol error that
    /// `work` returned; -32603 for any other error of `work`, or if it panicked.
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
        let work = move |roots| Ok(work(roots)?.into());
        let done = self.respond(ctx, params.into(), |roots| run_blocking(roots, work)).await;
        done.map_err(|error| error.into_error_data(revision(ctx), Some(&params.uri)))
    }

    /// Runs the asynchronous work of `resources/read` with the roots in force, like
    /// [`tool_async`](Self::tool_async).
    ///
    /// # Errors
    ///
    /// Same as [`resource`](Self::resource).
    pub async fn resource_async<T, W, F>(
        &self,
        ctx: &RequestContext<RoleServer>,
        params: &ReadResourceRequestParams,
        work: W,
    ) -> Result<ReadResourceResponse, ErrorData>
    where
        T: Into<ReadResourceResponse>,
        W: FnOnce(RequestRoots) -> F,
        F: Future<Output = Result<T, HandlerError>> + Send,
    {
        let work = async |roots| Ok(work(roots).await?.into());
        let done = self.respond(ctx, params.into(), |roots| run_async(roots, work)).await;
        done.map_err(|error| error.into_error_data(revision(ctx), Some(&params.uri)))
    }

    /// Runs the work of `prompts/get` with the roots in force, like [`tool`](Self::tool).
    ///
    /// # Errors
    ///
    /// A refusal, in the form of [`Error::to_error_body`] without a resource; otherwise the errors
    /// of [`resource`](Self::resource).
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
        let work = move |roots| Ok(work(roots)?.into());
        let done = self.respond(ctx, params.into(), |roots| run_blocking(roots, work)).await;
        done.map_err(|error| error.into_error_data(revision(ctx), None))
    }

    /// Runs the asynchronous work of `prompts/get` with the roots in force, like
    /// [`tool_async`](Self::tool_async).
    ///
    /// # Errors
    ///
    /// Same as [`prompt`](Self::prompt).
    pub async fn prompt_async<T, W, F>(
        &self,
        ctx: &RequestContext<RoleServer>,
        params: &GetPromptRequestParams,
        work: W,
    ) -> Result<GetPromptResponse, ErrorData>
    where
        T: Into<GetPromptResponse>,
        W: FnOnce(RequestRoots) -> F,
        F: Future<Output = Result<T, HandlerError>> + Send,
    {
        let work = async |roots| Ok(work(roots).await?.into());
        let done = self.respond(ctx, params.into(), |roots| run_async(roots, work)).await;
        done.map_err(|error| error.into_error_data(revision(ctx), None))
    }

    /// Runs the work of any other request, such as `resources/list`, `completion/complete` or a
    /// subscription, with the roots in force. `resource` is the URI that the request names, if any.
    ///
    /// In the stateless era, the client cannot be asked in such a request. For a client that
    /// declared no roots, the allowed directories are in force. For any other client with a
    /// [`ClientKey`](super::ClientKey), the roots in its last list are in force for as long as
    /// [`time_to_live_keyed`](crate::GuardBuilder::time_to_live_keyed) says, which by default is
    /// not at all. If there is no such list, only the directories that are
    /// [always](crate::DirectoryOptions::always) in force are.
    ///
    /// # Errors
    ///
    /// [`RootsStale`](crate::ErrorKind::RootsStale) if the client would have to be asked and no
    /// directory is always in force; otherwise the errors of [`resource`](Self::resource).
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
        let done = self.respond_without_asking(ctx, |roots| run_blocking(roots, work)).await;
        done.map_err(|error| error.into_error_data(revision(ctx), resource))
    }

    /// Runs the asynchronous work of any other request with the roots in force, like
    /// [`tool_async`](Self::tool_async). See [`request`](Self::request) for the roots that are in
    /// force.
    ///
    /// # Errors
    ///
    /// Same as [`request`](Self::request).
    pub async fn request_async<T, W, F>(
        &self,
        ctx: &RequestContext<RoleServer>,
        resource: Option<&str>,
        work: W,
    ) -> Result<T, ErrorData>
    where
        W: FnOnce(RequestRoots) -> F,
        F: Future<Output = Result<T, HandlerError>> + Send,
    {
        let done = self.respond_without_asking(ctx, |roots| run_async(roots, work)).await;
        done.map_err(|error| error.into_error_data(revision(ctx), resource))
    }

    /// Runs the work of a request in which the client cannot be asked in the stateless era.
    async fn respond_without_asking<T, F>(
        &self,
        ctx: &RequestContext<RoleServer>,
        run: impl FnOnce(RequestRoots) -> F,
    ) -> Result<T, HandlerError>
    where
        F: Future<Output = Result<T, HandlerError>>,
    {
        match self.roots_if_asking(ctx, ClientInput::default(), false).await? {
            RootsForRequest::InputRequired(_) => Err(refused(None, Code::RootsStale.into()).into()),
            RootsForRequest::Roots(roots) => run(roots).await,
        }
    }

    /// Runs the work of a request in which the client can be asked, or asks the client.
    async fn respond<R: Response, F>(
        &self,
        ctx: &RequestContext<RoleServer>,
        input: ClientInput,
        run: impl FnOnce(RequestRoots) -> F,
    ) -> Result<R, HandlerError>
    where
        F: Future<Output = Result<R, HandlerError>>,
    {
        let roots = match self.roots_for(ctx, input).await? {
            RootsForRequest::InputRequired(result) => return Ok(result.into()),
            RootsForRequest::Roots(roots) => roots,
        };
        let must_list_again = roots.must_list_again();
        let mut response = run(roots).await?;
        if let (Some(result), true) = (response.input_required(), must_list_again) {
            add_roots_request(result);
        }
        Ok(response)
    }
}

impl RequestRoots {
    /// Runs a piece of asynchronous work that uses the filesystem, on a thread of the guard.
    ///
    /// Use it in [`Guard::tool_async`] and its siblings, whose own work occupies none of the slots
    /// that clients share. Each piece waits for a slot, like the work of [`Guard::tool`]. If the
    /// client's roots have changed since the request obtained them, the piece does not start. In
    /// the stateless era, changes are not announced, but a list that was
    /// [kept](crate::GuardBuilder::time_to_live_keyed) from an earlier request is refused once another
    /// one of the client has been resolved or refused.
    ///
    /// Dropping the future cancels a piece that has not started. One that has started continues,
    /// until its next call to [`ensure_active`](Self::ensure_active).
    ///
    /// # Errors
    ///
    /// - The error that `work` returned.
    /// - [`RootsStale`](crate::ErrorKind::RootsStale),
    ///   [`SessionClosed`](crate::ErrorKind::SessionClosed) or
    ///   [`Cancelled`](crate::ErrorKind::Cancelled) if the request or its roots have ended.
    /// - [`Busy`](crate::ErrorKind::Busy), as for [`Guard::tool`].
    /// - The protocol error -32603 if `work` panicked.
    pub async fn run<T, W>(&self, work: W) -> Result<T, HandlerError>
    where
        T: Send + 'static,
        W: FnOnce(Self) -> Result<T, HandlerError> + Send + 'static,
    {
        run_piece(self.share(), None, work).await
    }
}

/// Turns the result of a tool's work into the response.
fn respond_to_tool(
    ctx: &RequestContext<RoleServer>,
    done: Result<CallToolResponse, HandlerError>,
) -> Result<CallToolResponse, ErrorData> {
    let HandlerError(reason) = match done {
        Ok(response) => return Ok(response),
        Err(error) => error,
    };
    // Defense: The text of a handler's own error does not reach the model.
    let text = match reason {
        Reason::Protocol(error) => return Err(error),
        Reason::Refused(error) if stateless(ctx) && error.reason() == Code::RootsUnsupported => {
            return Err(error.to_error_body(revision(ctx), None).into());
        }
        Reason::Refused(error) => {
            // `to_string` would enlarge the text several times.
            let mut text = String::with_capacity(REFUSAL_BYTES);
            let _ = write!(text, "{error}");
            text
        }
        Reason::Text(text) => text,
        Reason::Other(_) => FAILED.into(),
    };
    Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
}

/// Runs a handler's synchronous work, and waits until it ends or the request is cancelled.
async fn run_blocking<T, W>(roots: RequestRoots, work: W) -> Result<T, HandlerError>
where
    T: Send + 'static,
    W: FnOnce(RequestRoots) -> Result<T, HandlerError> + Send + 'static,
{
    let (session, end) = (roots.session_id(), roots.end_on_drop());
    report(session, run_piece(roots, Some(end), work).await)
}

/// Runs a handler's asynchronous work, until it ends or the request is cancelled.
async fn run_async<T, F>(
    roots: RequestRoots,
    work: impl FnOnce(RequestRoots) -> F,
) -> Result<T, HandlerError>
where
    F: Future<Output = Result<T, HandlerError>>,
{
    let (lease, session) = (roots.lease(), roots.session_id());
    // The work may move the roots elsewhere, but they end when this guard is dropped.
    let _end = roots.end_on_drop();
    roots.ensure_may_start().map_err(|error| refused(session, error))?;
    // Boxed to keep the handler's future small.
    let mut work = Box::pin(async { work(roots).await });
    let polled = poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(Err(panicked())))
    });
    let done = lease.run_until_cancelled(polled).await.unwrap_or_else(|error| Err(error.into()));
    // The destructor of the work may also panic.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
    report(session, dropped.map_err(|_| panicked()).and(done))
}

fn panicked() -> HandlerError {
    ErrorData::internal_error("the handler panicked", None).into()
}

/// Runs work on a thread of the guard when it is the client's turn, and waits until it ends or the
/// request is cancelled. If there is an `end`, the roots end with the work.
async fn run_piece<T, W>(
    roots: RequestRoots,
    end: Option<EndOnDrop>,
    work: W,
) -> Result<T, HandlerError>
where
    T: Send + 'static,
    W: FnOnce(RequestRoots) -> Result<T, HandlerError> + Send + 'static,
{
    let (lease, account) = (roots.lease(), roots.account().clone());
    let (guard, session) = (roots.guard().clone(), roots.session_id());
    let work = move || {
        // The work may move the roots elsewhere, but they end when this guard is dropped.
        let _end = end;
        // While the work waited for a slot, the request may have been cancelled, or the roots
        // changed.
        roots.ensure_may_start().map_err(|error| refused(roots.session_id(), error))?;
        work(roots)
    };
    let done = async {
        // Boxed, to keep every handler's future small.
        let done = Box::pin(guard.slots().work(&account, work)).await;
        let done = done.map_err(|error| refused(session, error))?;
        done.map_err(|_| panicked())?
    };
    lease.run_until_cancelled(done).await?
}

/// Reports an error that only the operator may see.
fn report<T>(session: Option<SessionId>, done: Result<T, HandlerError>) -> Result<T, HandlerError> {
    if let Err(HandlerError(Reason::Other(error))) = &done {
        // The `Display` implementation of the author's error may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| events::failed(session, &**error)));
    }
    done
}

/// A response that may request input from the client.
trait Response: From<InputRequiredResult> + Send + 'static {
    fn input_required(&mut self) -> Option<&mut InputRequiredResult>;
}

macro_rules! responses {
    ($($response:ident)*) => { $(
        impl Response for $response {
            fn input_required(&mut self) -> Option<&mut InputRequiredResult> {
                match self {
                    Self::InputRequired(result) => Some(result),
                    _ => None,
                }
            }
        }
    )* };
}

responses! { CallToolResponse GetPromptResponse ReadResourceResponse }

impl HandlerError {
    /// Creates an error with the handler's own text. The model reads the text, so it must not
    /// contain anything that the client must not know.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Reason::Text(text.into()))
    }

    /// Creates an error from any other error, whose text may contain information that the model
    /// must not read, such as paths, addresses or secrets of a service. The model sees only that
    /// the server failed, and the operator sees the error.
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
        let error = error.into();
        let error = match error.downcast::<Self>() {
            Ok(handler_error) => return *handler_error,
            Err(error) => error,
        };
        let error = match error.downcast::<Error>() {
            Ok(refusal) => return (*refusal).into(),
            Err(error) => error,
        };
        let error = match error.downcast::<std::io::Error>() {
            // An error without a number does not come from the system, so its text can be anything.
            Ok(system)
                if system.raw_os_error().is_some()
                    || system
                        .get_ref()
                        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Error>) =>
            {
                return (*system).into();
            }
            Ok(system) => return Self(Reason::Other(system)),
            Err(error) => error,
        };
        error
            .downcast::<ErrorData>()
            .map_or_else(|error| Self(Reason::Other(error)), |protocol| (*protocol).into())
    }

    /// Converts the error for a request other than a tool call into a JSON-RPC error.
    fn into_error_data(self, revision: Revision, resource: Option<&str>) -> ErrorData {
        match self.0 {
            Reason::Refused(error) => error.to_error_body(revision, resource).into(),
            Reason::Text(text) => ErrorData::internal_error(text, None),
            Reason::Other(_) => ErrorData::internal_error(FAILED, None),
            Reason::Protocol(error) => error,
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
            Reason::Refused(error) => error.fmt(f),
            Reason::Text(text) => f.write_str(text),
            Reason::Protocol(error) => f.write_str(&error.message),
            Reason::Other(_) => f.write_str(FAILED),
        }
    }
}

impl std::error::Error for HandlerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Reason::Refused(error) => error.source(),
            Reason::Other(error) => Some(&**error),
            Reason::Text(_) | Reason::Protocol(_) => None,
        }
    }
}

/// The text that the model sees for an error that only the operator may read. It does not suggest a
/// retry, which would fail in the same way.
const FAILED: &str = "the server failed to do this; its operator can see why";

/// The length in bytes that most refusals do not exceed.
const REFUSAL_BYTES: usize = 192;

impl From<Error> for HandlerError {
    fn from(error: Error) -> Self {
        Self(Reason::Refused(error))
    }
}

impl From<std::io::Error> for HandlerError {
    fn from(error: std::io::Error) -> Self {
        Self(Reason::Refused(Error::unwrapped(error)))
    }
}

impl From<ErrorData> for HandlerError {
    fn from(error: ErrorData) -> Self {
        Self(Reason::Protocol(error))
    }
}

/// For handlers that call [`Guard::roots_for`] and create their own responses.
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

    type Context = RequestContext<RoleServer>;

    /// The size of the future that a method returns, which is part of each handler's future.
    fn size<F>(_: fn(&'static Guard, &'static Context) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn futures_of_handlers_are_small_and_do_not_contain_the_authors() {
        let sizes = [
            size(|guard, ctx| guard.tool(ctx, ClientInput::default(), |_| Ok(String::new()))),
            size(|guard, ctx| guard.read_text(ctx, ClientInput::default(), "path", 1)),
            size(|guard, ctx| {
                guard.tool_async(ctx, ClientInput::default(), async |_| {
                    let held = std::hint::black_box([b'a'; 1 << 14]);
                    tokio::task::yield_now().await;
                    Ok(String::from_utf8_lossy(&held).into_owned())
                })
            }),
        ];
        assert!(sizes.iter().all(|size| *size < 2048), "{sizes:?}");
    }

    /// An error that `?` can convert is converted in the same way from a box. Only the operator
    /// sees any other error.
    #[test]
    fn only_the_operator_sees_an_unknown_error() {
        let data = || ErrorData::invalid_params("no such thing", None);
        let system = || io::Error::from_raw_os_error(28);
        let refusal = || Error::from(Code::OutsideRoots);
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
            matches!(refused.0, Reason::Refused(error) if error.reason() == Code::OutsideRoots)
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
