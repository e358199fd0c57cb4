//! Code that `docs/tools.md` shows. It only has to compile.
#![allow(dead_code, clippy::unused_async)]

use mcp_roots_guard::Guard;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::ErrorData;
use rmcp::handler::server::tool::InputResponses;
use rmcp::model::CallToolResponse;
use rmcp::service::{RequestContext, RoleServer};

async fn summarize(text: String) -> Result<String, HandlerError> {
    Ok(text)
}

async fn summary(
    guard: &Guard,
    ctx: RequestContext<RoleServer>,
    answers: InputResponses,
    path: String,
) -> Result<CallToolResponse, ErrorData> {
    let work = async move |roots: RequestRoots| {
        let text = roots.read_to_string_async(path, 1 << 20).await?;
        let summary = summarize(text).await?;
        roots.run(move |roots| Ok(roots.write("summary.txt", &summary)?)).await?;
        Ok("written to summary.txt".to_owned())
    };
    guard.tool_async(&ctx, answers, work).await
}

#[cfg(feature = "landlock")]
async fn run_tests(roots: RequestRoots) -> Result<mcp_roots_guard::ChildOutput, HandlerError> {
    use std::time::Duration;

    use mcp_roots_guard::{Confinement, Intent};

    let prepare = |roots: RequestRoots| {
        let extras = Confinement::new().programs();
        let make = roots.check(".", Intent::Existing)?.command("make")?.arg("test");
        Ok(make.confined(extras).allow_programs_in_roots())
    };
    let tests = roots.run(prepare).await?;
    let output = tests.time_limit(Duration::from_secs(600)).output_async().await?;
    Ok(output)
}
