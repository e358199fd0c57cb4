//! Tools that read files.

use rmcp::handler::server::tool::InputResponses;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::CallToolResponse;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, schemars, tool, tool_router};

use super::{LIMIT, text};
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct ReadFile {
    /// A path inside the allowed directories, or a `file:` URI.
    path: String,
}

#[tool_router(router = read_tools, vis = "pub(super)")]
impl Server {
    #[tool(description = "Read a file as text. Deprecated: use read_text_file.", annotations(read_only_hint = true))]
    async fn read_file(
        &self,
        Parameters(args): Parameters<ReadFile>,
        ctx: RequestContext<RoleServer>,
        answers: InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        self.guard.tool(&ctx, answers, move |roots| Ok(text(&roots.read_to_string(args.path, LIMIT)?))).await
    }
}
