//! Runs a handler's work with the roots in force, and turns its result into rmcp's response.
//!
//! Every method calls [`Guard::respond`]. [`Response`] gives a refusal the form that the request
//! requires. If the work panics, only its own request fails.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use ::rmcp::ErrorData;
use ::rmcp::handler::server::tool::IntoCallToolResult;
use ::rmcp::model::{
    CallToolResponse, CompleteResult, GetPromptResponse, InputRequiredResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, ReadResourceResponse,
};
use ::rmcp::service::{RequestContext, RoleServer};

use super::handler_error::{HandlerError, Reason};
use super::input::{ClientInput, add_roots_request};
use super::request::{EndOnDrop, RequestRoots, RootsOutcome, revision};
use crate::kinds;
use crate::session::Guard;
use crate::wire::Revision;

impl Guard {
    /// Runs a tool's work with the roots in force, and returns the response for `call_tool`, as in
    /// the [module's example](crate::rmcp).
    ///
    /// `work` runs on a thread of the guard, in one of the
    /// [slots](crate::GuardBuilder::slots) that clients share. If the client's roots change
    /// while it waits for one, it does not start, and the call is refused
    /// ([`ROOTS_STALE`](crate::kinds::ROOTS_STALE)). If a client of the stateless era must be asked
    /// for its roots, the result asks for them, and `work` does not run.
    ///
    /// `work` returns anything that rmcp accepts as a tool's result: text, `Json`, a
    /// `CallToolResult`, or its own request for input (`InputRequiredResult`), to which the guard
    /// adds its request for roots, so that the retry needs no further round trip. A refusal becomes
    /// a tool result with `isError` and a text for the model.
    ///
    /// Await this in the handler's own task: a request to the client from another task would not
    /// belong to this call. If the request is cancelled, this returns at once, and its roots refuse
    /// every operation. `work` continues until it uses them or calls
    /// [`ensure_usable`](crate::Roots::ensure_usable), as long-running work should between steps.
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
        self.respond(ctx, input, |roots| async move { roots.run(work).await }).await
    }

    /// Runs the work of any other request, such as `resources/list`, `completion/complete` or a
    /// subscription, with the roots in force. `resource` is the URI that the request names, if any.
    ///
    /// In the stateless era, the client cannot be asked in such a request, and a list that it sent
    /// with another request does not count. If it declared roots, `work` gets only the directories
    /// that are [always](crate::DirectoryOptions::always) in force; otherwise, the allowed
    /// directories. `work` also runs if there are none: a list or a completion made from
    /// [`Roots::iter`](crate::Roots::iter) is then empty, and a subscription is refused when its
    /// resource is checked. If a list is made from [`Roots::check_all`](crate::Roots::check_all),
    /// return an empty one for the error [`OutsideRoots`](crate::ErrorKind::OutsideRoots).
    ///
    /// # Errors
    ///
    /// Those of [`respond`](Self::respond).
    pub async fn request_without_input<T, W>(
        &self,
        ctx: &RequestContext<RoleServer>,
        resource: Option<&str>,
        work: W,
    ) -> Result<T, ErrorData>
    where
        T: Send + 'static,
        W: FnOnce(RequestRoots) -> Result<T, HandlerError> + Send + 'static,
    {
        let input = resource.map_or_else(ClientInput::default, ClientInput::for_resource);
        let done = self.respond(ctx, input, |roots| async move { roots.run(work).await }).await;
        done.map(|Plain(value)| value)
    }

    /// Runs the asynchronous work of any request with the roots in force, and returns the response.
    ///
    /// The response's type tells what the request is: `CallToolResponse`, `ReadResourceResponse` or
    /// `GetPromptResponse`, or one of those for which the stateless era [cannot ask the
    /// client](Self::request_without_input): `CompleteResult`, `ListResourcesResult`,
    /// `ListResourceTemplatesResult`, `ListPromptsResult`, `ListToolsResult`, or `()` for
    /// subscriptions. `work` returns what the closure of the blocking method returns, or the
    /// response itself.
    ///
    /// `work` runs in the task of the request and occupies no slot, so it can wait for other
    /// services, for input, or for a child process (`ChildCommand::output_async`, feature
    /// `process`). It must not block: use the filesystem in [`RequestRoots::run`]. If the request
    /// is cancelled, `work` is dropped at its next `await`. The roots end when `work` ends, even if
    /// it moved them or a clone elsewhere.
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
    ///     self.guard.respond(&ctx, answers, work).await
    /// }
    /// # }
    /// ```
    ///
    /// Blocking work, such as that of `resources/read`, is one closure:
    ///
    /// ```
    /// # use mcp_roots_guard::rmcp::RequestRoots;
    /// # use mcp_roots_guard::{Guard, Location};
    /// # use rmcp::model::*;
    /// # use rmcp::service::{RequestContext, RoleServer};
    /// # struct Server { guard: Guard }
    /// # impl Server {
    /// async fn read_resource(
    ///     &self,
    ///     params: ReadResourceRequestParams,
    ///     ctx: RequestContext<RoleServer>,
    /// ) -> Result<ReadResourceResponse, rmcp::ErrorData> {
    ///     let uri = params.uri.clone();
    ///     let read = move |roots: RequestRoots| {
    ///         let text = roots.read_to_string(Location::from_uri(&uri)?, 1 << 20)?;
    ///         Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri)]))
    ///     };
    ///     self.guard.respond(&ctx, &params, async |roots| roots.run(read).await).await
    /// }
    /// # }
    /// ```
    ///
    /// A server with many tools can obtain the roots once, in `call_tool`, and hand them to each
    /// tool as an extension: see [the recipe](crate::recipes#a-server-with-many-tools).
    ///
    /// # Errors
    ///
    /// - For a tool, those of [`tool`](Self::tool).
    /// - For any other request, a refusal, in the form of `Revision::error_body`; the protocol error
    ///   that `work` returned; -32603 for any other error of `work`, or if it panicked.
    pub async fn respond<R, T, W, F>(
        &self,
        ctx: &RequestContext<RoleServer>,
        input: impl Into<ClientInput>,
        work: W,
    ) -> Result<R, ErrorData>
    where
        R: Response<T>,
        W: FnOnce(RequestRoots) -> F,
        F: Future<Output = Result<T, HandlerError>> + Send,
    {
        let mut input = input.into();
        let resource = input.resource.take();
        // Boxed to keep the handler's future small.
        let mut responding = Box::pin(async {
            let roots = match self.roots_for(ctx, input, R::ASK).await? {
                RootsOutcome::Roots(roots) => roots,
                RootsOutcome::Question(response) => return Ok(response),
            };
            let session = roots.request.scope.client.id;
            // The work may move the roots elsewhere, but they end when this is dropped.
            let _end = EndOnDrop(roots.request.scope.clone());
            let must_list_again = roots.request.must_list_again;
            let done = work(roots).await.and_then(|value| Ok(R::of(value)?));
            let mut response = done.map_err(|error| error.logged(Some(session)))?;
            if let (Some(question), true) = (response.question(), must_list_again) {
                add_roots_request(question);
            }
            Ok(response)
        });
        let polled = poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| responding.as_mut().poll(context)));
            polled.unwrap_or_else(|payload| {
                // Its destructor may panic, too.
                std::mem::forget(payload);
                Poll::Ready(Err(panicked()))
            })
        });
        let done = ctx.ct.run_until_cancelled(polled).await;
        let done = done.unwrap_or_else(|| Err(super::cancelled().into()));
        done.or_else(|error| R::of_error(error, revision(ctx), resource.as_deref()))
    }
}

fn panicked() -> HandlerError {
    ErrorData::internal_error("the handler panicked", None).into()
}

impl RequestRoots {
    /// Runs a piece of asynchronous work that uses the filesystem, on a thread of the guard.
    ///
    /// Use it in [`Guard::respond`]. Each piece waits for a slot, like the work of [`Guard::tool`],
    /// and does not start if the client's roots have changed since the request obtained them.
    /// Dropping the future cancels a piece that has not started. One that has started continues,
    /// until it next uses the roots.
    ///
    /// # Errors
    ///
    /// - The error that `work` returned.
    /// - [`ROOTS_STALE`](crate::kinds::ROOTS_STALE),
    ///   [`SESSION_CLOSED`](crate::kinds::SESSION_CLOSED) or [`CANCELLED`](crate::kinds::CANCELLED)
    ///   if the request or its roots have ended.
    /// - [`BUSY`](crate::kinds::BUSY) (`queue_full`, `busy`);
    ///   [`STALLED`](crate::kinds::STALLED), if the server [asked for
    ///   it](crate::GuardBuilder::stalled_after).
    /// - The protocol error -32603 if `work` panicked.
    pub async fn run<T, W>(&self, work: W) -> Result<T, HandlerError>
    where
        T: Send + 'static,
        W: FnOnce(Self) -> Result<T, HandlerError> + Send + 'static,
    {
        let (roots, client) = (self.clone(), &self.request.scope.client);
        let work = move || {
            // Defense: Work that waited for a thread begins only with roots in force.
            roots.ensure_usable().map_err(|error| error.logged(&roots))?;
            work(roots)
        };
        let done = self.unless_stalled(client.guard.slots().work(&client.share, work)).await;
        done.map_err(|error| error.logged(self))?.map_err(|_| panicked())?
    }
}

/// A response that can be made from a `T`, of one of the types at [`Guard::respond`]. This trait
/// cannot be implemented outside this crate.
pub trait Response<T>: Sized + sealed::Sealed {
    /// Makes the response that asks the client, if it may be asked in the stateless era.
    #[doc(hidden)]
    const ASK: Option<fn(InputRequiredResult) -> Self> = None;

    #[doc(hidden)]
    fn of(value: T) -> Result<Self, ErrorData>;

    /// The question, if this response asks the client.
    #[doc(hidden)]
    fn question(&mut self) -> Option<&mut InputRequiredResult> {
        None
    }

    #[doc(hidden)]
    fn of_error(
        error: HandlerError,
        revision: Revision,
        resource: Option<&str>,
    ) -> Result<Self, ErrorData> {
        Err(error.into_error_data(revision, resource))
    }
}

mod sealed {
    pub trait Sealed {}
}

/// The response of [`Guard::request_without_input`].
struct Plain<T>(T);

impl<T> sealed::Sealed for Plain<T> {}

impl<T> Response<T> for Plain<T> {
    fn of(value: T) -> Result<Self, ErrorData> {
        Ok(Self(value))
    }
}

macro_rules! cannot_ask {
    ($($response:ty)*) => { $(
        impl sealed::Sealed for $response {}

        impl Response<Self> for $response {
            fn of(value: Self) -> Result<Self, ErrorData> {
                Ok(value)
            }
        }
    )* };
}

cannot_ask! {
    () CompleteResult ListPromptsResult ListResourceTemplatesResult ListResourcesResult
    ListToolsResult
}

macro_rules! can_ask {
    ($response:ident of $value:path, $of:expr $(, $of_error:item)?) => {
        impl sealed::Sealed for $response {}

        impl<T: $value> Response<T> for $response {
            const ASK: Option<fn(InputRequiredResult) -> Self> = Some(Self::InputRequired);

            fn of(value: T) -> Result<Self, ErrorData> {
                $of(value)
            }

            fn question(&mut self) -> Option<&mut InputRequiredResult> {
                match self {
                    Self::InputRequired(question) => Some(question),
                    _ => None,
                }
            }

            $($of_error)?
        }
    };
}

can_ask!(GetPromptResponse of Into<Self>, |value: T| Ok(value.into()));
can_ask!(ReadResourceResponse of Into<Self>, |value: T| Ok(value.into()));
can_ask!(
    CallToolResponse of IntoCallToolResult,
    T::into_call_tool_result,
    /// The model reads why its call failed, except that a client must declare roots.
    fn of_error(error: HandlerError, revision: Revision, _: Option<&str>) -> Result<Self, ErrorData> {
        let undeclared =
            matches!(&error.0, Reason::Refused(it) if it.kind() == kinds::ROOTS_UNSUPPORTED);
        if undeclared && revision.is_stateless() {
            return Err(error.into_error_data(revision, None));
        }
        error.into_call_tool_result()
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    type Context = RequestContext<RoleServer>;

    /// The size of the future that a method returns, which is part of each handler's future.
    fn size<F: Future<Output = Result<CallToolResponse, ErrorData>>>(
        _: fn(&'static Guard, &'static Context) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn futures_of_handlers_are_small_and_do_not_contain_the_authors() {
        let sizes = [
            size(|guard, ctx| guard.tool(ctx, ClientInput::default(), |_| Ok(String::new()))),
            size(|guard, ctx| {
                guard.respond(ctx, ClientInput::default(), async |_| {
                    let held = std::hint::black_box([b'a'; 1 << 14]);
                    tokio::task::yield_now().await;
                    Ok(String::from_utf8_lossy(&held).into_owned())
                })
            }),
        ];
        assert!(sizes.iter().all(|size| *size < 2048), "{sizes:?}");
    }
}
