//! The guard's question, and its answer, among those of the tool itself.
//!
//! Goes in: what a client sent along with a retried request, all of which it may have made up. Comes out: the root list in it, the
//! rest for the tool, and questions in which the guard's is one among the tool's. What is true after: the guard's answer is read under its
//! own key only, and the tool never sees it.

use ::rmcp::handler::server::tool::{InputResponses as ExtractedResponses, RequestState};
use ::rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, ReadResourceRequestParams,
};
use serde_json::Value;

/// The key of the guard's question in a result's `inputRequests`, and of its answer in the retry's `inputResponses`. A handler's own
/// questions must have others.
pub const ROOTS_KEY: &str = "mcp-roots-guard/roots";

/// What a client sent along with a retried request: answers to what it was asked, and the state that the server gave it.
///
/// Made of a request's parameters, or of what a tool of rmcp's macros extracts: `InputResponses`, and with `RequestState` if it keeps one,
/// which goes back to the client with the guard's question.
#[derive(Clone, Debug, Default)]
pub struct ClientInput {
    roots: Option<Value>,
    others: InputResponses,
    state: Option<String>,
}

impl ClientInput {
    fn new(responses: Option<InputResponses>, state: Option<String>) -> Self {
        let mut others = responses.unwrap_or_default();
        Self { roots: others.remove(ROOTS_KEY), others, state }
    }

    /// The root list in it, unread.
    pub(super) fn take_roots(&mut self) -> Option<Value> {
        self.roots.take()
    }

    /// The answers to what the handler itself asked.
    pub(super) fn into_responses(self) -> InputResponses {
        self.others
    }

    /// The guard's question alone. What the handler had the client keep goes back to it, so that the retry is the same request.
    pub(super) fn question(self) -> InputRequiredResult {
        InputRequiredResult::new(
            Some(InputRequests::from([(ROOTS_KEY.to_owned(), question())])),
            self.state,
        )
    }
}

/// Adds the guard's question to a handler's own.
pub(super) fn add_question(own: &mut InputRequiredResult) {
    own.input_requests.get_or_insert_default().insert(ROOTS_KEY.to_owned(), question());
}

#[expect(
    deprecated,
    reason = "roots are deprecated since 2026-07-28, and what this crate is about"
)]
fn question() -> InputRequest {
    InputRequest::ListRoots(::rmcp::model::ListRootsRequest::default())
}

impl From<ExtractedResponses> for ClientInput {
    fn from(responses: ExtractedResponses) -> Self {
        Self::new(responses.0, None)
    }
}

impl From<(ExtractedResponses, RequestState)> for ClientInput {
    fn from((responses, state): (ExtractedResponses, RequestState)) -> Self {
        Self::new(responses.0, state.0)
    }
}

macro_rules! of_parameters {
    ($($params:ty)*) => { $(
        impl From<&$params> for ClientInput {
            fn from(params: &$params) -> Self {
                Self::new(params.input_responses.clone(), params.request_state.clone())
            }
        }
    )* };
}

of_parameters! { CallToolRequestParams GetPromptRequestParams ReadResourceRequestParams }
