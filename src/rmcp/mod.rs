//! The adapter for [rmcp](https://docs.rs/rmcp), the official Rust SDK (version 3). It requires the
//! feature `rmcp` and, for streamable HTTP, also `rmcp-http`.
//!
//! A server wraps its transport or session manager once ([`Guard::wrap`](crate::Guard::wrap),
//! `Guard::wrap_sessions`). Each handler calls [`Guard::tool`](crate::Guard::tool) or one of its
//! siblings, which obtains the roots in force and runs the handler's work on a thread that may
//! block. No request received after a `notifications/roots/list_changed` uses the previous list.
//!
//! ```no_run
//! use mcp_roots_guard::rmcp::RequestRoots;
//! use mcp_roots_guard::{Access, Boundary, Guard};
//! # use rmcp::handler::server::ServerHandler;
//! use rmcp::model::{CallToolRequestParams, CallToolResponse};
//! use rmcp::service::{RequestContext, RoleServer, ServiceExt};
//! use rmcp::ErrorData;
//!
//! #[derive(Clone)]
//! struct Server {
//!     guard: Guard,
//! }
//!
//! impl ServerHandler for Server {
//!     async fn call_tool(
//!         &self,
//!         call: CallToolRequestParams,
//!         ctx: RequestContext<RoleServer>,
//!     ) -> Result<CallToolResponse, ErrorData> {
//!         let path = call.arguments.as_ref().and_then(|args| args.get("path")?.as_str());
//!         let path = path.unwrap_or_default().to_owned();
//!         // In each tool.
//!         let work = move |roots: RequestRoots| Ok(roots.read_to_string(path, 1 << 20)?);
//!         self.guard.tool(&ctx, &call, work).await
//!     }
//! }
//!
//! # async fn example(transport: (tokio::io::Stdin, tokio::io::Stdout))
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let boundary = Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?;
//! let guard = Guard::new(boundary);
//! // Once per server. The wrapper applies a change before it reads the next request.
//! let server = Server { guard: guard.clone() }.serve(guard.wrap(transport)).await?;
//! server.waiting().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Work and resolution run on threads that the guard owns, so a filesystem that hangs does not
//! block a thread of the runtime. Clients [take turns](crate::GuardBuilder::slots). A client
//! is identified by its [`ClientKey`] or otherwise by its connection. Requests of the stateless era
//! (MCP since revision 2026-07-28) over HTTP have no connection of their own, so those without a
//! key count as one client. Work that is still running when the process exits is interrupted, so
//! wait for the service to end first.
//!
//! # The two eras of the protocol
//!
//! Handlers are the same in both.
//!
//! | | until 2025-11-25 | 2026-07-28 |
//! | --- | --- | --- |
//! | the server needs | [`Guard::wrap`](crate::Guard::wrap) or `Guard::wrap_sessions` | nothing |
//! | if the transport is not wrapped | the request is refused (`no_session`), unless client roots are ignored | the request is served |
//! | capabilities | in `initialize` | in each request |
//! | the list is requested by | `roots/list`, within the request that needs the roots | a result that requires input; the client retries with its list |
//! | a list can be requested in | every request | `tools/call`, `prompts/get`, `resources/read`; the others get [what is in force without it](crate::Guard::request_without_input) |
//! | a list is used | until `list_changed`; without `listChanged`, for one request or [a set time][unannounced] | for that request |
//! | several requests at once | one asks, and the others wait | each asks |
//! | the client did not declare roots | it is never asked; the allowed directories are in force, or nothing ([`ClientRoots::Require`]) | the same; the refusal is the error -32021 |
//! | the client does not answer | the waiting calls fail after [`fetch_limit`], the request `roots/list` is cancelled, and the client is not asked again for a while | the client does not retry its request |
//! | the client answers with an error | the waiting calls fail at once, and the client is not asked again for a while | that request fails |
//!
//! [unannounced]: crate::GuardBuilder::time_to_live_without_notifications
//! [`ClientRoots::Require`]: crate::ClientRoots::Require
//! [`fetch_limit`]: crate::GuardBuilder::fetch_limit

mod key;
mod transport;
#[cfg(feature = "rmcp-http")]
mod http;
#[cfg(not(feature = "rmcp-http"))]
#[path = "no_http.rs"]
mod http;
mod peer;
mod handler_error;
mod input;
mod request;
mod stalled;
mod work;

use guarded_fs::Error;

pub use self::handler_error::HandlerError;
#[cfg(feature = "rmcp-http")]
pub use self::http::GuardedSessions;
use self::http::http_extension;
pub use self::input::{ClientInput, ROOTS_KEY};
pub use self::key::ClientKey;
pub use self::request::RequestRoots;
pub use self::work::Response;
use crate::kinds;

fn cancelled() -> Error {
    Error::new(kinds::CANCELLED, "cancelled", "the request was cancelled")
}
