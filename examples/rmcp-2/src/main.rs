//! A file server on stdio that uses rmcp 2 and only guarded-fs, which knows no SDK:
//! `rmcp-2-server DIRECTORY...`
//!
//! A server with any SDK, of any version, has the same three steps: obtain the roots in force, run the
//! operation on a thread that may block, and return the text of a refusal as a tool error.
//!
//! Client roots narrow the directories of the command line. Each call asks the client for its list,
//! so it uses the current list, and the server keeps no list that could be outdated. mcp-roots-guard
//! is for servers that cannot ask in every call: it caches each client's list until it
//! changes, and gives the calls of many clients fair shares of the threads.

use std::time::Duration;

use guarded_fs::{Access, Boundary, ListEntry, Location, Result, Roots};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{self, ClientResult, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, RoleServer, ServiceExt};
use rmcp::{schemars, tool, tool_router};

struct Server {
    boundary: Boundary,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct ReadFile {
    /// A path inside the allowed directories, or a `file:` URI.
    #[schemars(with = "String")]
    path: Location,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct WriteFile {
    /// A path inside the allowed directories, or a `file:` URI.
    #[schemars(with = "String")]
    path: Location,
    content: String,
}

#[tool_router(server_handler)]
impl Server {
    #[tool(description = "Read a text file of at most 1 MiB", annotations(read_only_hint = true))]
    async fn read_file(
        &self,
        Parameters(args): Parameters<ReadFile>,
        client: Peer<RoleServer>,
    ) -> Result<String, String> {
        self.run(client, move |roots| roots.read_to_string(args.path, FILE_LIMIT)).await
    }

    #[tool(description = "Create a file, or replace its content")]
    async fn write_file(
        &self,
        Parameters(args): Parameters<WriteFile>,
        client: Peer<RoleServer>,
    ) -> Result<String, String> {
        let write = move |roots: Roots| roots.write(args.path, args.content);
        self.run(client, write).await.map(|()| "written".into())
    }
}

impl Server {
    /// Runs an operation with the roots in force, on a thread that may block.
    async fn run<T: Send + 'static>(
        &self,
        client: Peer<RoleServer>,
        operation: impl FnOnce(Roots) -> Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let declared = client.peer_info().is_some_and(|info| info.capabilities.roots.is_some());
        let list = if declared { Some(client_roots(&client).await?) } else { None };
        let boundary = self.boundary.clone();
        let resolve_and_run = move || {
            let roots = match list {
                Some(list) => {
                    let entries = list.iter().map(|uri| ListEntry::uri(uri));
                    boundary.narrow(entries)?
                }
                None => boundary.allowed_roots(),
            };
            operation(roots)
        };
        match tokio::task::spawn_blocking(resolve_and_run).await {
            Ok(result) => result.map_err(|refusal| refusal.to_string()),
            Err(_) => Err("the tool failed".into()),
        }
    }
}

/// Asks the client for its roots. Without an answer in time, the call is refused.
#[expect(deprecated, reason = "rmcp marks Roots as deprecated, but clients still send them")]
async fn client_roots(client: &Peer<RoleServer>) -> Result<Vec<String>, String> {
    let request = ServerRequest::ListRootsRequest(model::ListRootsRequest::default());
    let options = PeerRequestOptions::with_timeout(CLIENT_LIMIT);
    let sent = client.send_request_with_option(request, options);
    match async { sent.await?.await_response().await }.await {
        Ok(ClientResult::ListRootsResult(list)) => {
            Ok(list.roots.into_iter().map(|root| root.uri).collect())
        }
        other => {
            eprintln!("roots/list: {other:?}");
            Err("the client did not list its roots".into())
        }
    }
}

/// The largest file that is read, in bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// How long the client may take to list its roots.
const CLIENT_LIMIT: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let boundary = std::env::args_os()
        .skip(1)
        .fold(Boundary::builder(), |boundary, path| boundary.directory(path, Access::ReadWrite));
    let server = Server { boundary: boundary.build()? };
    server.serve(rmcp::transport::stdio()).await?.waiting().await?;
    Ok(())
}
