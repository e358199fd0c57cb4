//! The servers that are compared.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{Access, Boundary, Guard};
use rmcp::handler::server::ServerHandler;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::InputResponses;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::{RequestContext, RoleServer, ServiceExt as _};
use rmcp::{ErrorData, schemars, tool, tool_handler, tool_router};
use tokio::io::{AsyncRead, AsyncWrite};

/// How a server uses the filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In the handler itself: `canonicalize`, comparison of the prefix, and read.
    Inline,
    /// The same in `tokio::task::spawn_blocking`.
    Blocking,
    /// With `Guard::tool`.
    Guard,
}

pub(crate) const WAYS: [Way; 3] = [Way::Inline, Way::Blocking, Way::Guard];

impl Way {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Blocking => "spawn_blocking",
            Self::Guard => "guard",
        }
    }
}

/// The largest file that is read.
const LIMIT: u64 = 2 << 20;

/// Serves one client until it disconnects.
pub(crate) async fn serve(
    way: Way,
    root: PathBuf,
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
) {
    let boundary = Boundary::builder().directory(&root, Access::ReadOnly).build().unwrap();
    let guard = Guard::new(boundary);
    if way == Way::Guard {
        let transport = guard.wrap((read, write));
        let server = Guarded { tools: Guarded::tool_router(), guard };
        let server = server.serve(transport).await.unwrap();
        server.waiting().await.unwrap();
    } else {
        let server = Unguarded { tools: Unguarded::tool_router(), way, root }
            .serve((read, write))
            .await
            .unwrap();
        server.waiting().await.unwrap();
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Named {
    path: String,
}

struct Guarded {
    /// rmcp would otherwise create it again for each call.
    tools: ToolRouter<Self>,
    guard: Guard,
}

#[tool_router]
impl Guarded {
    #[tool(description = "Read a text file")]
    async fn read_file(
        &self,
        Parameters(args): Parameters<Named>,
        ctx: RequestContext<RoleServer>,
        answers: InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        let work = move |roots: RequestRoots| Ok(roots.read_to_string(&args.path, LIMIT)?);
        self.guard.tool(&ctx, answers, work).await
    }

    #[tool(description = "List a directory")]
    async fn list_directory(
        &self,
        Parameters(args): Parameters<Named>,
        ctx: RequestContext<RoleServer>,
        answers: InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        let work = move |roots: RequestRoots| {
            let mut names = Vec::new();
            for entry in roots.read_dir(&args.path)? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            Ok::<_, HandlerError>(names.join("\n"))
        };
        self.guard.tool(&ctx, answers, work).await
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Guarded {}

struct Unguarded {
    tools: ToolRouter<Self>,
    way: Way,
    root: PathBuf,
}

#[tool_router]
impl Unguarded {
    #[tool(description = "Read a text file")]
    async fn read_file(&self, Parameters(args): Parameters<Named>) -> CallToolResult {
        self.run(move |root| fs::read_to_string(resolve(root, &args.path)?)).await
    }

    #[tool(description = "List a directory")]
    async fn list_directory(&self, Parameters(args): Parameters<Named>) -> CallToolResult {
        self.run(move |root| {
            let mut names = Vec::new();
            for entry in fs::read_dir(resolve(root, &args.path)?)? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            Ok(names.join("\n"))
        })
        .await
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Unguarded {}

impl Unguarded {
    async fn run(
        &self,
        work: impl FnOnce(&Path) -> io::Result<String> + Send + 'static,
    ) -> CallToolResult {
        let done = if self.way == Way::Inline {
            work(&self.root)
        } else {
            let root = self.root.clone();
            tokio::task::spawn_blocking(move || work(&root)).await.unwrap()
        };
        match done {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
        }
    }
}

/// The usual check, which is separate from the use of the file.
fn resolve(root: &Path, path: &str) -> io::Result<PathBuf> {
    let resolved = fs::canonicalize(path)?;
    if resolved.starts_with(root) {
        Ok(resolved)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "not inside the allowed directories"))
    }
}
