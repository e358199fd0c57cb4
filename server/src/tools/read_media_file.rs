//! The tool `read_media_file`, which reads a file of any type.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, ResourceContents};
use rmcp::{tool, tool_router};
use serde_json::json;

use super::LIMIT;
use super::call::{Call, OnePath, Reply, ToolResult, Work};
use crate::resources::entry::{mime_type, path as path_of};
use crate::server::Server;

#[tool_router(router = read_media_file_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Read Media File",
        description = "Reads a file of any type and returns it in base64 with its MIME type: as \
                       image or audio content, or as an embedded resource for any other type.",
        output_schema = media_schema(),
        annotations(read_only_hint = true)
    )]
    async fn read_media_file(Parameters(args): Parameters<OnePath>, call: Call) -> ToolResult {
        call.result(move |roots, reply| read_media(roots, reply, &args.path)).await
    }
}

fn read_media(roots: &RequestRoots, reply: &Reply, path: &str) -> Work<CallToolResult> {
    reply.room.for_file(roots, path, LIMIT)?;
    let checked = roots.check(path)?;
    let content = checked.read(LIMIT)?;
    // The base64 text, and its copy in the structured content.
    reply.room.take(3 * content.len())?;
    let data = STANDARD.encode(content);
    let mime = mime_type(path_of(&checked)).unwrap_or("application/octet-stream");
    let block = match mime.split('/').next() {
        Some("image") => ContentBlock::image(data, mime),
        Some("audio") if reply.has_audio => ContentBlock::audio(data, mime),
        _ => {
            ContentBlock::resource(ResourceContents::blob(data, checked.uri()).with_mime_type(mime))
        }
    };
    let structured = serde_json::to_value([&block]).map_err(HandlerError::other)?;
    let mut result = CallToolResult::success(vec![block]);
    result.structured_content = Some(json!({ "content": structured }));
    reply.fitting(result)
}

fn media_schema() -> Arc<JsonObject> {
    // The file is a valid object.
    Arc::new(serde_json::from_str(include_str!("media_schema.json")).unwrap_or_default())
}
