//! A call of a tool, as far as all tools do the same.
//!
//! Goes in: what rmcp knows of the call, and the tool's work. Comes out: what the tool answers. What is true after: the work ran with the
//! roots in force, where waiting is allowed; its failure is a result that the model can read.

use std::ffi::OsStr;
use std::sync::Arc;

use mcp_roots_guard::Guard;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::ErrorData;
use rmcp::handler::server::common::FromContextPart;
use rmcp::handler::server::tool::{InputResponses, ToolCallContext};
use rmcp::model::{CallToolResponse, CallToolResult, JsonObject, object};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;

use super::text;
use crate::progress::{self, Progress};
use crate::server::Server;

/// What a tool function gives back.
pub(super) type Answered = Result<CallToolResponse, ErrorData>;

/// What a tool's work gives back.
pub(super) type Work<T = String> = Result<T, HandlerError>;

/// A call, to be answered once. A tool function takes it beside its parameters.
pub(super) struct Call {
    guard: Guard,
    ctx: RequestContext<RoleServer>,
    answers: InputResponses,
}

impl Call {
    /// Answers with the text that the work gives.
    pub(super) async fn text<W>(self, work: W) -> Answered
    where
        W: FnOnce(&RequestRoots) -> Work + Send + 'static,
    {
        self.result(move |roots| Ok(text(&work(roots)?))).await
    }

    /// As [`text`](Self::text), for work that takes long and says how far it came.
    pub(super) async fn long<W>(self, work: W) -> Answered
    where
        W: FnOnce(&RequestRoots, &Progress) -> Work + Send + 'static,
    {
        let (progress, reports) = progress::channel();
        let Self { guard, ctx, answers } = self;
        let work = guard.tool(&ctx, answers, move |roots| Ok(text(&work(&roots, &progress)?)));
        // It is large.
        reports.during(Box::pin(work), &ctx).await
    }

    /// Answers with the result that the work gives.
    pub(super) async fn result<W>(self, work: W) -> Answered
    where
        W: FnOnce(&RequestRoots) -> Work<CallToolResult> + Send + 'static,
    {
        self.guard.tool(&self.ctx, self.answers, move |roots| work(&roots)).await
    }
}

impl FromContextPart<ToolCallContext<'_, Server>> for Call {
    fn from_context_part(call: &mut ToolCallContext<'_, Server>) -> Result<Self, ErrorData> {
        Ok(Self {
            guard: call.service.guard.clone(),
            ctx: RequestContext::from_context_part(call)?,
            answers: InputResponses::from_context_part(call)?,
        })
    }
}

/// The shape of what most tools answer.
pub(super) fn text_schema() -> Arc<JsonObject> {
    Arc::new(object(json!({
        "type": "object",
        "properties": { "content": { "type": "string" } },
        "required": ["content"],
    })))
}

/// Refuses more of something than a limit.
pub(super) fn at_most(limit: usize, count: usize, what: &str) -> Work<()> {
    if count <= limit {
        return Ok(());
    }
    Err(HandlerError::new(format!(
        "{count} {what}, and at most {limit} are taken at once: split the call"
    )))
}

/// A name or path for a line of an answer. One that would break the line, or is not UTF-8, is escaped and in quotes, and so is one that
/// begins with a quote: no two look the same, but for what is not UTF-8.
pub(super) fn shown(name: impl AsRef<OsStr>) -> String {
    let name = name.as_ref();
    let lossy = name.to_string_lossy();
    if is_plain(name) { lossy.into_owned() } else { format!("{lossy:?}") }
}

/// Whether a name can stand for itself in a line.
pub(super) fn is_plain(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| !name.starts_with('"') && !name.contains(char::is_control))
}

/// Lines of an answer, as many as are of use.
#[derive(Default)]
pub(super) struct Lines {
    text: String,
    is_cut: bool,
}

impl Lines {
    /// Adds a line; false if there is no room for it.
    pub(super) fn push(&mut self, line: &str) -> bool {
        self.is_cut |= self.text.len() + line.len() >= ANSWER;
        if !self.is_cut {
            self.text.push_str(line);
            self.text.push('\n');
        }
        !self.is_cut
    }

    /// All lines, and what is to be said of those that are missing.
    pub(super) fn finish(mut self, remarks: impl IntoIterator<Item = String>) -> String {
        if self.is_cut {
            self.text.push_str("There is more: the answer is cut\n");
        }
        for remark in remarks {
            self.text.push_str(&remark);
            self.text.push('\n');
        }
        self.text.pop();
        self.text
    }
}

/// The most bytes of an answer that tells names: more than a model can use.
pub(super) const ANSWER: usize = 1 << 20;
