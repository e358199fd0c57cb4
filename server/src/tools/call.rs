//! The parts of a tool call that all tools share.
//!
//! The work of each tool runs with the roots in force, on a thread that may block. If it fails, the
//! error becomes a tool result that the model can read.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use mcp_roots_guard::ContentHash;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::ErrorData;
use rmcp::handler::server::common::FromContextPart;
use rmcp::handler::server::tool::{InputResponses, ToolCallContext};
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, JsonObject, ProgressNotificationParam,
    ProtocolVersion, object,
};
use rmcp::schemars;
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::memory::Room;
use crate::nothing::ensure_any;
use crate::server::Server;

/// The return type of a tool function.
pub(super) type ToolResult = Result<CallToolResponse, ErrorData>;

/// The return type of a tool's work.
pub(super) type Work<T = String> = Result<T, HandlerError>;

/// A tool call in progress. Each tool function receives it in addition to its parameters.
pub(super) struct Call {
    pub(super) server: Server,
    ctx: RequestContext<RoleServer>,
    answers: InputResponses,
    pub(super) reply: Reply,
}

/// Creates the result of a call.
pub(super) struct Reply {
    pub(super) room: Arc<Room>,
    /// Whether the protocol's revision has audio content.
    pub(super) has_audio: bool,
}

impl Reply {
    /// A result with the text as a content block and as structured content.
    pub(super) fn text(&self, content: String) -> Work<CallToolResult> {
        self.fitting(text_result(content, None))
    }

    /// Like [`text`](Self::text), with the version of a file as structured content.
    pub(super) fn versioned(&self, content: String, version: ContentHash) -> Work<CallToolResult> {
        self.fitting(text_result(content, Some(version)))
    }

    /// The result of a change that was made. It is never refused, or the client would make the
    /// change again.
    pub(super) fn changed(&self, content: String, version: Option<ContentHash>) -> CallToolResult {
        let result = text_result(content, version);
        let _ = self.room.for_result(&result);
        result
    }

    /// The result, if there is room for it.
    pub(super) fn fitting(&self, result: CallToolResult) -> Work<CallToolResult> {
        self.room.for_result(&result)?;
        Ok(result)
    }
}

fn text_result(content: String, version: Option<ContentHash>) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(content.clone())]);
    let version = version.map(|version| ("version", version.to_string()));
    let members = [("content", content)].into_iter().chain(version);
    let members = members.map(|(name, value)| (name.to_owned(), Value::from(value)));
    result.structured_content = Some(members.collect::<JsonObject>().into());
    result
}

impl Call {
    /// Performs the work, and returns its text as the result.
    pub(super) async fn text<W>(self, work: W) -> ToolResult
    where
        W: FnOnce(&RequestRoots, &Room) -> Work + Send + 'static,
    {
        let reply = self.reply;
        let work = move |roots: RequestRoots| {
            ensure_any(&roots)?;
            reply.text(work(&roots, &reply.room)?)
        };
        self.server.respond(&self.ctx, self.answers, work).await
    }

    /// Makes a change, and returns its text and the version that the file has now as the result.
    /// The work prepares both before it makes the change: afterwards, nothing may fail.
    pub(super) async fn change<W>(self, work: W) -> ToolResult
    where
        W: FnOnce(&RequestRoots, &Room) -> Work<(String, Option<ContentHash>)> + Send + 'static,
    {
        let reply = self.reply;
        let work = move |roots: RequestRoots| {
            ensure_any(&roots)?;
            let (content, version) = work(&roots, &reply.room)?;
            Ok(reply.changed(content, version))
        };
        self.server.respond(&self.ctx, self.answers, work).await
    }

    /// Like [`text`](Self::text), for a walk, which takes memory and reports progress.
    pub(super) async fn long<W>(self, memory: usize, work: W) -> ToolResult
    where
        W: FnOnce(&RequestRoots, &Progress) -> Work + Send + 'static,
    {
        self.walk(memory, Reply::text, work).await
    }

    /// Like [`change`](Self::change), for a change of a directory tree, which takes memory and
    /// reports progress.
    pub(super) async fn long_change<W>(self, memory: usize, work: W) -> ToolResult
    where
        W: FnOnce(&RequestRoots, &Progress) -> Work + Send + 'static,
    {
        self.walk(memory, |reply, text| Ok(reply.changed(text, None)), work).await
    }

    async fn walk<W>(
        self,
        memory: usize,
        result: fn(&Reply, String) -> Work<CallToolResult>,
        work: W,
    ) -> ToolResult
    where
        W: FnOnce(&RequestRoots, &Progress) -> Work + Send + 'static,
    {
        let (progress, reports) = watch::channel(0);
        let Self { server, ctx, answers, reply } = self;
        let work = server.respond(&ctx, answers, move |roots| {
            ensure_any(&roots)?;
            let done = {
                let _walking = reply.room.for_walk(memory, &roots)?;
                work(&roots, &progress)?
            };
            result(&reply, done)
        });
        // Boxed because the future is large.
        during(Box::pin(work), reports, &ctx).await
    }

    /// Performs asynchronous work, and returns its text as the result.
    pub(super) async fn asynchronous<W, F>(self, work: W) -> ToolResult
    where
        W: FnOnce(RequestRoots) -> F + Send,
        F: Future<Output = Work> + Send,
    {
        let work = async |roots: RequestRoots| {
            ensure_any(&roots)?;
            self.reply.text(work(roots).await?)
        };
        // Boxed because the future is large.
        Box::pin(self.server.guard.respond(&self.ctx, self.answers, work)).await
    }

    /// Performs the work, and returns the result that it created with the reply.
    pub(super) async fn result<W>(self, work: W) -> ToolResult
    where
        W: FnOnce(&RequestRoots, &Reply) -> Work<CallToolResult> + Send + 'static,
    {
        let reply = self.reply;
        let work = move |roots: RequestRoots| {
            ensure_any(&roots)?;
            work(&roots, &reply)
        };
        self.server.respond(&self.ctx, self.answers, work).await
    }
}

/// Receives the number of entries processed so far.
pub(super) type Progress = watch::Sender<u32>;

/// Sends notifications with increasing numbers until the work is complete, if the request has a
/// progress token, and returns the work's result.
async fn during<T>(
    work: impl Future<Output = T>,
    mut reports: watch::Receiver<u32>,
    ctx: &RequestContext<RoleServer>,
) -> T {
    tokio::pin!(work);
    let Some(token) = ctx.meta.get_progress_token() else { return work.await };
    let notify = async {
        while reports.changed().await.is_ok() {
            let entries = *reports.borrow_and_update();
            let report = ProgressNotificationParam::new(token.clone(), f64::from(entries))
                .with_message(format!("{entries} entries processed"));
            if ctx.peer.notify_progress(report).await.is_err() {
                break;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = notify => {}
    }
    work.await
}

impl FromContextPart<ToolCallContext<'_, Server>> for Call {
    fn from_context_part(call: &mut ToolCallContext<'_, Server>) -> Result<Self, ErrorData> {
        let ctx = RequestContext::from_context_part(call)?;
        let revision = ctx.protocol_version();
        let has_audio = revision.is_none_or(|it| it >= ProtocolVersion::V_2025_03_26);
        let reply = Reply { room: Room::of(&ctx.extensions), has_audio };
        let server = call.service.clone();
        Ok(Self { server, ctx, answers: InputResponses::from_context_part(call)?, reply })
    }
}

/// The arguments of a tool that has no others.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OnePath {
    /// A path, or a `file:` URI.
    pub(super) path: String,
}

/// The arguments of a tool that moves or copies something.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TwoPaths {
    /// What to move or copy: a path, or a `file:` URI.
    pub(super) source: String,
    /// The new path, which must not exist. Its parent must exist.
    pub(super) destination: String,
}

/// The output schema of a tool that has no other.
pub(super) fn text_schema() -> Arc<JsonObject> {
    Arc::new(object(json!({
        "type": "object",
        "properties": { "content": { "type": "string" }, "version": { "type": "string" } },
        "required": ["content"],
    })))
}

/// Returns an error if the count is above the limit.
pub(super) fn at_most(limit: usize, count: usize, what: &str) -> Work<()> {
    if count <= limit {
        return Ok(());
    }
    Err(HandlerError::new(format!(
        "{count} {what}, but at most {limit} are allowed in one call: split the call"
    )))
}

/// A name or path as part of a line of the result. A name with a control character or a leading
/// quote, or one that is not valid UTF-8, is quoted and escaped.
pub(super) fn shown(name: impl AsRef<OsStr>) -> String {
    let name = name.as_ref();
    let lossy = name.to_string_lossy();
    if is_plain(name) { lossy.into_owned() } else { format!("{lossy:?}") }
}

/// Whether a name can be part of a line without quoting.
pub(super) fn is_plain(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| !name.starts_with('"') && !name.contains(char::is_control))
}

/// The lines of a result, up to [`ANSWER`] bytes.
#[derive(Default)]
pub(super) struct Lines {
    text: String,
    is_cut: bool,
}

impl Lines {
    /// Adds a line, unless it or an earlier line did not fit. Returns whether it was added.
    pub(super) fn push(&mut self, line: &str) -> bool {
        self.is_cut |= self.text.len() + line.len() >= ANSWER;
        if !self.is_cut {
            self.text.push_str(line);
            self.text.push('\n');
        }
        !self.is_cut
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The size in bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the lines, a notice if some were dropped, and the remarks.
    pub(super) fn finish(mut self, remarks: impl IntoIterator<Item = String>) -> String {
        if self.is_cut {
            self.text.push_str("The result is truncated\n");
        }
        for remark in remarks {
            self.text.push_str(&remark);
            self.text.push('\n');
        }
        self.text.pop();
        self.text
    }
}

/// The minimum time between progress notifications: about as fast as a person can read them.
const INTERVAL: Duration = Duration::from_millis(250);

/// The maximum size of a result that lists names, in bytes: more than a model can use.
pub(crate) const ANSWER: usize = 1 << 20;
