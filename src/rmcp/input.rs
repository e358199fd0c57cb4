//! Combines the guard's request for roots with a handler's own requests for input (stateless era).
//! All input of a client is untrusted.

use ::rmcp::handler::server::tool::{InputResponses as ExtractedResponses, RequestState};
use ::rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, InputRequest, InputRequiredResult,
    InputResponses, ReadResourceRequestParams,
};
use serde_json::Value;

/// The key of the guard's request for roots in a result's `inputRequests`, and of the response in
/// the retry's `inputResponses`. A handler must use other keys for its own requests.
pub const ROOTS_KEY: &str = "mcp-roots-guard/roots";

/// The input that a client sent with a retried request: its input responses, and the state that the
/// server sent to it, which the guard sends back with its request for roots.
///
/// Convert it from a request's parameters, or from the value that rmcp's tool macros extract:
/// `InputResponses`, or `(InputResponses, RequestState)` for a tool with a state.
#[derive(Clone, Debug, Default)]
pub struct ClientInput {
    /// The root list, not yet parsed.
    pub(super) roots: Option<Value>,
    /// The responses to the handler's own requests.
    pub(super) responses: InputResponses,
    state: Option<String>,
    /// The URI that the request names, for its errors.
    pub(super) resource: Option<String>,
}

impl ClientInput {
    fn new(responses: Option<InputResponses>, state: Option<String>) -> Self {
        let mut responses = responses.unwrap_or_default();
        Self { roots: responses.remove(ROOTS_KEY), responses, state, resource: None }
    }

    /// The input of a request that carries none and names a resource by its URI, such as
    /// `resources/subscribe`. For a request that names none, use the default.
    #[must_use]
    pub fn for_resource(uri: &str) -> Self {
        Self { resource: Some(uri.to_owned()), ..Self::default() }
    }

    /// Returns a result that requests only roots, and returns the handler's state to the client.
    pub(super) fn into_roots_request(self) -> InputRequiredResult {
        let mut result = InputRequiredResult::new(None, self.state);
        add_roots_request(&mut result);
        result
    }
}

/// Adds the request for roots to a handler's own requests.
#[expect(
    deprecated,
    reason = "roots are deprecated since 2026-07-28, but this crate enforces them"
)]
pub(super) fn add_roots_request(result: &mut InputRequiredResult) {
    let request = InputRequest::ListRoots(::rmcp::model::ListRootsRequest::default());
    result.input_requests.get_or_insert_default().insert(ROOTS_KEY.to_owned(), request);
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

macro_rules! impl_from_params {
    ($($params:ident $($uri:ident)?,)*) => { $(
        impl From<&$params> for ClientInput {
            fn from(params: &$params) -> Self {
                let input = Self::new(params.input_responses.clone(), params.request_state.clone());
                $(let input = Self { resource: Some(params.$uri.clone()), ..input };)?
                input
            }
        }
    )* };
}

impl_from_params! { CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams uri, }

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn extracted_input_is_split_into_roots_responses_and_state() {
        let responses = || -> ExtractedResponses {
            let sent = json!({ ROOTS_KEY: { "roots": [] }, "name": { "action": "decline" } });
            ExtractedResponses(Some(serde_json::from_value(sent).unwrap()))
        };
        let state = || RequestState(Some("3".into()));
        let without_state = ClientInput::from(responses());
        let with_state = ClientInput::from((responses(), state()));
        assert_eq!(
            (without_state.state.as_deref(), with_state.state.as_deref()),
            (None, Some("3"))
        );
        for input in [without_state, with_state] {
            assert_eq!(input.roots, Some(json!({ "roots": [] })));
            let names: Vec<_> = input.responses.into_keys().collect();
            assert_eq!(names, ["name"], "the handler must not see the client's roots");
        }
    }
}
