//! The adapter for [rmcp](https://docs.rs/rmcp), the official Rust SDK (version 3). Feature `rmcp`; for streamable HTTP, `rmcp-http`.
//!
//! Goes in: a transport or a session manager, which are wrapped once, and the requests that handlers serve. Comes out: the roots in force
//! for a request, in either era of the protocol, and its work done where waiting is allowed. What is true after: no request that was
//! received after a `notifications/roots/list_changed` is decided by the list from before it; a client that did not declare roots is never
//! asked; and what a client tells in one request counts in no other, unless the server says who the client is.
//!
//! ```no_run
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
//!         let path = call.arguments.as_ref().and_then(|args| args.get("path")?.as_str()).unwrap_or_default().to_owned();
//!         // In each tool: the roots in force, and the work beneath them.
//!         self.guard.tool(&ctx, &call, move |roots| Ok(roots.read_to_string(path, 1 << 20)?)).await
//!     }
//! }
//!
//! # async fn example(transport: (tokio::io::Stdin, tokio::io::Stdout)) -> Result<(), Box<dyn std::error::Error>> {
//! let guard = Guard::new(Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?);
//! // Once: so that a change counts before the next request, and requests find their session.
//! let server = Server { guard: guard.clone() }.serve(guard.wrap(transport)).await?;
//! server.waiting().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Work and resolving run on threads that the guard owns, so that a filesystem that hangs occupies none of the runtime's. Each client,
//! by its [`ClientKey`] or else its session, waits in a queue of its own; requests of the stateless era without a key share one. Queues are
//! served in turns, and no client's work has more than a quarter of the places ([`GuardBuilder::work_at_once`](crate::GuardBuilder::work_at_once)).
//! Work that is running when the process ends is cut off: wait for the service to end first.
//!
//! | | until 2025-11-25 | 2026-07-28 |
//! | --- | --- | --- |
//! | what the client declared | in `initialize` | in each request |
//! | how it is asked | `roots/list`, within the request that needs it | the request's result is a question; the client sends it again with the answer |
//! | how long an answer counts | until `list_changed`; without `listChanged` not at all, or [a time](crate::GuardBuilder::time_to_live_unannounced) | for that request; with a [`ClientKey`], [a short time](crate::GuardBuilder::time_to_live_keyed) |
//! | what can be asked in | every request | `tools/call`, `prompts/get`, `resources/read` |
//! | needs | [`Guard::wrap`](crate::Guard::wrap), `Guard::wrap_sessions` | nothing: the request has it all |

mod transport;
#[cfg(feature = "rmcp-http")]
mod http;
mod peer;
mod input;
mod request;
mod work;

#[cfg(feature = "rmcp-http")]
pub use self::http::GuardedSessions;
pub use self::input::{ClientInput, ROOTS_KEY};
pub use self::request::{RequestRoots, RootsForRequest};
pub use self::transport::GuardedTransport;
pub use self::work::HandlerError;
pub use crate::session::ClientKey;
