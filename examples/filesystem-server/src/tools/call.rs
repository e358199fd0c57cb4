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
    Err(HandlerError::new(format!("{count} {what}, and at most {limit} are taken at once: split the call")))
}

/// A name or path for a line of an answer: what would break the line is escaped.
pub(super) fn shown(name: impl AsRef<OsStr>) -> String {
    let mut shown = String::new();
    for char in name.as_ref().to_string_lossy().chars() {
        if char.is_control() {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}
