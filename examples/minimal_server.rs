//! A minimal MCP server with one guarded tool, over stdio:
//! `cargo run --example minimal_server --features __rmcp-tests -- DIRECTORY...`
//!
//! To build it as a project of its own, depend on `mcp-roots-guard` (feature `rmcp`), `rmcp`
//! (`macros`, `transport-io`), `serde` (`derive`) and `tokio` (`macros`, `rt-multi-thread`).

use mcp_roots_guard::rmcp::RequestRoots;
use mcp_roots_guard::{Access, Boundary, Guard, Location};
use rmcp::handler::server::tool::InputResponses;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::CallToolResponse;
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::{ErrorData, schemars, tool, tool_router};

struct Server {
    guard: Guard,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct ReadFile {
    /// A path inside the allowed directories, or a `file:` URI.
    path: Location,
}

#[tool_router(server_handler)]
impl Server {
    #[tool(
        description = "Read a text file inside the allowed directories",
        annotations(read_only_hint = true)
    )]
    async fn read_file(
        &self,
        Parameters(args): Parameters<ReadFile>,
        ctx: RequestContext<RoleServer>,
        answers: InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        let work = move |roots: RequestRoots| Ok(roots.read_to_string(&args.path, LIMIT)?);
        self.guard.tool(&ctx, answers, work).await
    }
}

/// The largest file that is read.
const LIMIT: u64 = 1 << 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directories: Vec<String> = std::env::args().skip(1).collect();
    let boundary = directories
        .iter()
        .fold(Boundary::builder(), |boundary, path| boundary.directory(path, Access::ReadOnly));
    let guard = Guard::new(boundary.build()?);
    let server = Server { guard: guard.clone() };
    server.serve(guard.wrap(rmcp::transport::stdio_pipes())).await?.waiting().await?;
    Ok(())
}
