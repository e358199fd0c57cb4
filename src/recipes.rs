//! Recipes: what a server author writes, for each kind of server. This module has no code.
//!
//! - [Directories from a configuration, no client](#directories-from-a-configuration-no-client)
//! - [A server of the official SDK on stdio](#a-server-of-the-official-sdk-on-stdio)
//! - [The same over HTTP, for many clients](#the-same-over-http-for-many-clients)
//! - [Stateless requests (2026-07-28)](#stateless-requests-2026-07-28)
//! - [A server that only reads](#a-server-that-only-reads)
//! - [Watching and subscriptions](#watching-and-subscriptions)
//! - [Confine the process](#confine-the-process)
//! - [What to log](#what-to-log)
//! - [Give a file to another library](#give-a-file-to-another-library)
//! - [Try to break your own server](#try-to-break-your-own-server)
//!
//! # Directories from a configuration, no client
//!
//! Any program can ask the guard; it needs neither MCP nor a runtime. What may be served is a line of the configuration, and a request is
//! any text. Keep the [`Boundary`](crate::Boundary) and take a snapshot for each request: it costs a clone, and at most twice a second a look whether
//! the directories are still those that their names say.
//!
//! ```
//! use mcp_roots_guard::{Access, Boundary, ErrorKind};
//!
//! # let work = tempfile::tempdir().unwrap();
//! # for (path, text) in [("site/index.html", "<h1>"), ("manuals/guide.txt", "Read me")] {
//! #     std::fs::create_dir_all(work.path().join(path).parent().unwrap()).unwrap();
//! #     std::fs::write(work.path().join(path), text).unwrap();
//! # }
//! # let (site, manuals, later) = (work.path().join("site"), work.path().join("manuals"), work.path().join("later"));
//! // Once. `site`, `manuals` and `later` come from your configuration.
//! let boundary = Boundary::builder()
//!     .directory(&site, Access::ReadWrite) // relative requests start at the first one
//!     .directory(&manuals, Access::ReadOnly)
//!     .optional_directory(&later, Access::ReadWrite) // may be missing now
//!     .build()?;
//!
//! // For each request.
//! let roots = boundary.allowed_roots();
//! assert_eq!(roots.read_to_string("index.html", 1 << 20)?, "<h1>");
//! roots.write("drafts.txt", "soon")?;
//! let guide = manuals.join("guide.txt");
//! assert_eq!(roots.read_to_string(&guide, 1 << 20)?, "Read me");
//! assert_eq!(roots.write(&guide, "").unwrap_err().kind(), ErrorKind::ReadOnly);
//! assert_eq!(roots.read("../secret.txt", 1 << 20).unwrap_err().kind(), ErrorKind::OutsideRoots);
//! # Ok::<(), mcp_roots_guard::Error>(())
//! ```
//!
//! # A server of the official SDK on stdio
//!
//! Feature `rmcp`. Wrap the transport, once, and ask the guard in each tool; `examples/minimal_server.rs` is such a server, whole. Say
//! `one_client`, as behind a pipe there is but one: then what it tells in a stateless request counts for
//! its next ones for five seconds.
//!
#![cfg_attr(feature = "__rmcp-tests", doc = "```no_run")]
#![cfg_attr(not(feature = "__rmcp-tests"), doc = "```text")]
//! use mcp_roots_guard::rmcp::HandlerError;
//! use mcp_roots_guard::{Access, Boundary, Guard};
//! use rmcp::handler::server::tool::InputResponses;
//! use rmcp::handler::server::wrapper::Parameters;
//! use rmcp::model::CallToolResponse;
//! use rmcp::service::{RequestContext, RoleServer, ServiceExt};
//! use rmcp::{ErrorData, schemars, tool, tool_router};
//!
//! struct Server {
//!     guard: Guard,
//! }
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Write {
//!     path: String,
//!     text: String,
//! }
//!
//! #[tool_router(server_handler)]
//! impl Server {
//!     #[tool(description = "Write a text file")]
//!     async fn write_file(
//!         &self,
//!         Parameters(args): Parameters<Write>,
//!         ctx: RequestContext<RoleServer>,
//!         answers: InputResponses,
//!     ) -> Result<CallToolResponse, ErrorData> {
//!         let work = move |roots: mcp_roots_guard::rmcp::RequestRoots| {
//!             if args.text.is_empty() {
//!                 return Err(HandlerError::new("there is nothing to write")); // your own words, for the model
//!             }
//!             roots.write(&args.path, &args.text)?; // a refusal is a tool's result with `isError`
//!             Ok(format!("wrote {} bytes", args.text.len()))
//!         };
//!         self.guard.tool(&ctx, answers, work).await
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let boundary = Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?;
//!     let guard = Guard::new(boundary);
//!     let server = Server { guard: guard.clone() };
//!     server.serve(guard.wrap(rmcp::transport::stdio()).one_client()).await?.waiting().await?;
//!     Ok(())
//! }
//! ```
//!
//! Do not open files in the handler besides: what is not asked of `roots` is not guarded.
//!
//! # The same over HTTP, for many clients
//!
//! Feature `rmcp-http`. Wrap the session manager: each client then has a session of its own, and none sees another's roots. Who a client is
//! only your own code knows: the layer that authenticates puts a `ClientKey` into the request, and a session serves no
//! request that bears another. Never make a key of what a client says of itself, such as a header that nobody verified.
//!
#![cfg_attr(feature = "__rmcp-tests", doc = "```no_run")]
#![cfg_attr(not(feature = "__rmcp-tests"), doc = "```text")]
//! use std::sync::Arc;
//!
//! use mcp_roots_guard::rmcp::ClientKey;
//! use mcp_roots_guard::{Access, Boundary, Guard, WithoutClientRoots};
//! use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
//! use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
//!
//! #[derive(Clone)]
//! struct Server {
//!     guard: Guard,
//! }
//! # impl rmcp::ServerHandler for Server {}
//!
//! // As before: `#[tool_router(server_handler)] impl Server`.
//!
//! /// In the layer that authenticates: `principal` is whom it verified.
//! fn keyed<B>(mut request: http::Request<B>, principal: &str) -> http::Request<B> {
//!     // Where a user runs several programs, name the program, too: equal keys share roots.
//!     request.extensions_mut().insert(ClientKey::principal(principal));
//!     request
//! }
//!
//! # fn service() -> mcp_roots_guard::Result<()> {
//! let boundary = Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?;
//! // For clients that declare no roots: nothing, where each has to name its project. The default is all allowed directories.
//! let guard = Guard::builder(boundary).without_client_roots(WithoutClientRoots::Deny).build()?;
//! let sessions = Arc::new(guard.wrap_sessions(LocalSessionManager::default()));
//! let server = Server { guard };
//! // For a router of your web framework.
//! let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, StreamableHttpServerConfig::default());
//! # let _: StreamableHttpService<Server, _> = service;
//! # let _ = keyed(http::Request::new(()), "alice");
//! # Ok(())
//! # }
//! ```
//!
//! It is a service of tower's kind: with axum it is `Router::new().route_service("/mcp", service)`, and `keyed` is called in a
//! `middleware::from_fn` of the layer that authenticates. `examples/filesystem-server` is such a server, whole. For browsers set
//! `with_allowed_origins`, and listen on loopback unless somebody authenticates. The dependencies:
//!
//! ```toml
//! [dependencies]
//! axum = "0.8"
//! http = "1"
//! mcp-roots-guard = { version = "0.1", features = ["rmcp-http"] }
//! rmcp = { version = "3.9", features = ["transport-streamable-http-server"] }
//! serde = { version = "1", features = ["derive"] }
//! tokio = { version = "1", features = ["macros", "net", "rt-multi-thread"] }
//! ```
//!
//! Users who may not share directories need a guard each: allowed directories are what *any* client of a guard may come to.
//!
//! # Stateless requests (2026-07-28)
//!
//! A server of the SDK writes nothing more: `guard.tool` sees from the request which era it is of. A client that declared roots gets a
//! question as the result, and sends its request again with the answer; a list of resources, a completion and a subscription can not be
//! asked in, and count on what the client told lately under its key.
//!
//! Without the SDK, a root list that came with a request decides that request alone, and nothing that a client sends says that an
//! answer is good: it is resolved within the allowed directories, as any list.
//!
//! ```
//! use mcp_roots_guard::{
//!     Access, Boundary, ClientCapabilities, Error, ErrorBody, ErrorKind, Guard, ListRootsResult,
//!     Revision, Roots, RootsResponse,
//! };
//! use serde_json::{Value, json};
//!
//! /// What a `tools/call` of 2026-07-28 comes to, before the tool does its work.
//! enum Asked {
//!     Roots(Roots),
//!     /// The result to send: the client answers it by the same call again.
//!     Question(Value),
//! }
//!
//! async fn roots(guard: &Guard, params: &Value) -> Result<Asked, Box<dyn std::error::Error>> {
//!     let declared = &params["_meta"][ClientCapabilities::META_KEY];
//!     // Malformed is an error, and not "no roots": that would open more.
//!     let declared: ClientCapabilities = serde_json::from_value(declared.clone())?;
//!     let session = guard.session(declared)?; // for this request alone
//!     if declared == ClientCapabilities::without_roots() {
//!         // Nobody is asked: the allowed directories, or a refusal by `WithoutClientRoots::Deny`.
//!         let unasked = |_: Option<String>| async { RootsResponse::Unsupported };
//!         return Ok(Asked::Roots(session.roots(unasked).await?));
//!     }
//!     match params["inputResponses"].get("roots") {
//!         Some(answer) => {
//!             let list: ListRootsResult = serde_json::from_value(answer.clone())?;
//!             Ok(Asked::Roots(session.roots_from_list(list).await?))
//!         }
//!         None => Ok(Asked::Question(json!({
//!             "resultType": "input_required",
//!             "inputRequests": { "roots": { "method": ListRootsResult::METHOD } },
//!         }))),
//!     }
//! }
//! /// What a tool's call is answered where there are none: a result for the model, or the error
//! /// that the protocol wants where roots are demanded, with its HTTP status.
//! fn refused(error: &Error, revision: Revision) -> Result<Value, (ErrorBody, Option<u16>)> {
//!     if revision.is_stateless() && error.kind() == ErrorKind::RootsUnsupported {
//!         let body = error.to_error_body(revision, None);
//!         let status = body.http_status();
//!         return Err((body, status));
//!     }
//!     Ok(error.to_tool_result(revision))
//! }
//! # let work = tempfile::tempdir().unwrap();
//! # std::fs::create_dir(work.path().join("a")).unwrap();
//! # let uri = if cfg!(windows) { "file:///" } else { "file://" }.to_owned() + &work.path().join("a").to_str().unwrap().replace('\\', "/");
//! # let guard = Guard::new(Boundary::builder().directory(work.path(), Access::ReadWrite).build()?);
//! # let mut params = json!({"_meta": {(ClientCapabilities::META_KEY): {"roots": {}}}});
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! # assert!(matches!(roots(&guard, &params).await?, Asked::Question(_)));
//! # params["inputResponses"] = json!({"roots": {"roots": [{"uri": uri}, {"uri": "file:///etc"}]}});
//! # let Asked::Roots(told) = roots(&guard, &params).await? else { panic!("it was answered") };
//! # assert_eq!((told.roots().count(), told.rejected().len()), (1, 1));
//! # params["_meta"] = json!({(ClientCapabilities::META_KEY): {}});
//! # let Asked::Roots(told) = roots(&guard, &params).await? else { panic!("it has no roots") };
//! # assert_eq!(told.roots().count(), 1);
//! # params["_meta"] = json!({(ClientCapabilities::META_KEY): 5});
//! # assert!(roots(&guard, &params).await.is_err());
//! # let only = Guard::new(Boundary::builder().client_roots_only().build()?);
//! # params["_meta"] = json!({(ClientCapabilities::META_KEY): {}});
//! # let none: Box<Error> = roots(&only, &params).await.err().unwrap().downcast().unwrap();
//! # let (body, status) = refused(&none, Revision::V2026_07_28).unwrap_err();
//! # assert_eq!((body.code, status), (-32021, Some(400)));
//! # assert!(refused(&none, Revision::V2025_11_25).is_ok());
//! # let outside = told.read("../a.txt", 9).unwrap_err();
//! # assert!(refused(&outside, Revision::V2026_07_28).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A server that only reads
//!
//! Say so in the boundary, not in the tools: [`Access::ReadOnly`](crate::Access::ReadOnly) holds for every operation, whatever a tool tries. A client's
//! roots have the access of the allowed directory that they lie in.
//!
//! ```
//! use mcp_roots_guard::{Access, Boundary, ErrorKind, Policy, Replace, Rule};
//!
//! # let work = tempfile::tempdir().unwrap();
//! # std::fs::write(work.path().join("a.txt"), "a").unwrap();
//! let boundary = Boundary::builder()
//!     .directory(work.path(), Access::ReadOnly)
//!     .policy(Policy::default().hard_links(Rule::Refuse)) // nor a file outside by a second name
//!     .build()?;
//! let roots = boundary.allowed_roots();
//! assert_eq!(roots.read("a.txt", 1 << 20)?, b"a");
//! let refused = [
//!     roots.write("a.txt", "b").unwrap_err().kind(),
//!     roots.rename("a.txt", "b.txt", Replace::Never).unwrap_err().kind(),
//!     roots.remove_file("a.txt").unwrap_err().kind(),
//! ];
//! assert_eq!(refused, [ErrorKind::ReadOnly; 3]);
//! # Ok::<(), mcp_roots_guard::Error>(())
//! ```
//!
//! # Watching and subscriptions
//!
//! What outlives its request must not outlive its root. Keep the [`Session`](crate::Session) and the [`CheckedPath`](crate::CheckedPath),
//! not the snapshot; before each notice ask [`still_allows`](crate::Session::still_allows), and be woken by
//! [`changes`](crate::Session::changes). With rmcp the session of a request is [`Guard::session_of`](crate::Guard#method.session_of).
//! `examples/filesystem-server` has subscriptions, whole.
//!
//! ```
//! use mcp_roots_guard::{CheckedPath, ErrorKind, Session};
//!
//! /// Tells the client each time that the file changes, until its root is withdrawn or the client is gone.
//! async fn subscription(session: Session, checked: CheckedPath, mut changed: tokio::sync::mpsc::Receiver<()>) -> ErrorKind {
//!     let mut changes = session.changes();
//!     loop {
//!         tokio::select! {
//!             // The watcher saw something.
//!             Some(()) = changed.recv() => match session.still_allows(&checked) {
//!                 Ok(()) => { /* notifications/resources/updated, with checked.uri() */ }
//!                 // Not known right now, as the client has not told its list anew: say nothing, and stay.
//!                 Err(error) if error.kind() == ErrorKind::RootsStale => {}
//!                 Err(error) => return error.kind(),
//!             },
//!             // The list changed, or the session was closed: do not wait for the file to find out.
//!             gone = changes.changed() => if let Err(error) = gone { return error.kind() },
//!             else => return ErrorKind::Cancelled,
//!         }
//!     }
//! }
//! # use mcp_roots_guard::{Access, Boundary, Guard, Intent};
//! # let work = tempfile::tempdir().unwrap();
//! # std::fs::write(work.path().join("a.txt"), "a").unwrap();
//! # let guard = Guard::new(Boundary::builder().directory(work.path(), Access::ReadWrite).build()?);
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! # let session = guard.session(mcp_roots_guard::ClientCapabilities::without_roots())?;
//! # let checked = guard.boundary().allowed_roots().check("a.txt", Intent::Existing)?;
//! # let (sender, changed) = tokio::sync::mpsc::channel(1);
//! # let client = session.clone();
//! # let task = subscription(session, checked, changed);
//! # sender.send(()).await.unwrap();
//! # let close = async { tokio::task::yield_now().await; client.close() };
//! # assert_eq!(tokio::join!(task, close).0, ErrorKind::SessionClosed);
//! # Ok::<(), mcp_roots_guard::Error>(())
//! # })?;
//! # Ok::<(), mcp_roots_guard::Error>(())
//! ```
//!
//! A walk or a search within one request asks `roots.ensure_active()?` between its steps (feature `rmcp`): it ends when the client cancels, or
//! withdraws its roots.
//!
//! # Confine the process
//!
//! Feature `landlock`, on Linux: the kernel then stops a tool that forgets the guard. It has to come before any thread, and so before the
//! runtime: a plain `fn main` builds the guard, confines, and builds the runtime itself, in place of `#[tokio::main]`. The documentation of
//! `Confinement` has that `main`, and that of `Guard::confine_process` what is left open; log the report that it returns.
//!
//! # What to log
//!
//! A refusal's text is for whoever asked, and tells nothing. Why it was refused is for your log alone: never put
//! [`operator_detail`](crate::Error::operator_detail), [`Roots::rejected`](crate::Roots::rejected) or a [`Root`](crate::Root) into an answer.
//! With the feature `tracing` and a subscriber, each is an event of the target `mcp_roots_guard` already, and bears the session's number:
//! `info` for refusals, `warn` for lists that could not be obtained and entries that grant nothing. Log to standard error: on stdio, standard
//! output is the protocol's.
//!
//! ```
//! use mcp_roots_guard::{Access, Boundary, ListRootsResult};
//!
//! # let work = tempfile::tempdir().unwrap();
//! let boundary = Boundary::builder().directory(work.path(), Access::ReadOnly).build()?;
//! let roots = boundary.resolve(&ListRootsResult::from_uris(["file:///elsewhere", "/no/uri"]))?;
//! for rejected in roots.rejected() {
//!     eprintln!("entry {} grants nothing: {:?}: {}", rejected.index(), rejected.entry(), rejected.error()); // escaped: it is the client's
//! }
//! # assert_eq!(roots.rejected().len(), 2);
//! if let Err(error) = roots.read("notes.txt", 1 << 20) {
//!     eprintln!("refused: {error} ({}): {:?}", error.code(), error.operator_detail());
//! }
//! # Ok::<(), mcp_roots_guard::Error>(())
//! ```
//!
//! # Give a file to another library
//!
//! Give it the open file, never the path: a path can be something else by the time that it is opened. What is opened here was verified.
//! [`to_unguarded_path`](crate::CheckedPath::to_unguarded_path) is for what can take nothing but a name (another program), and whoever uses
//! it bears the race.
//!
//! ```
//! use std::io::{BufRead as _, BufReader};
//!
//! use mcp_roots_guard::{OpenOptions, Roots};
//!
//! # let work = tempfile::tempdir().unwrap();
//! # std::fs::write(work.path().join("table.csv"), "a,b\n1,2\n").unwrap();
//! let roots = Roots::from_dirs([work.path()])?;
//! // An open file reads, writes and seeks.
//! assert_eq!(BufReader::new(roots.open("table.csv")?).lines().count(), 2);
//! // For what takes a file of std's:
//! let log = roots.open_with("log.txt", OpenOptions::new().append(true).create(true))?;
//! let log: std::fs::File = log.into_std();
//! # drop(log);
//! # Ok::<(), mcp_roots_guard::Error>(())
//! ```
//!
//! # Try to break your own server
//!
//! A tool that forgets the guard looks like all others until somebody asks for the wrong file. Plant these in a directory that your server may
//! serve, call each tool with each, and see that no answer has a byte of the file beside it, that none hangs, and that the refusals of a
//! file that is there and one that is not are the same.
//!
//! ```sh
//! mkdir -p work/root && cd work && echo secret >secret.txt
//! ln -s ../secret.txt root/link && ln -s .. root/up && ln -s ../new.txt root/dangling && mkfifo root/fifo
//! # link, up/secret.txt, up/missing.txt, ../secret.txt, dangling (to write), fifo, /etc/passwd, root/../secret.txt,
//! # file:///etc/passwd, file:///%2e%2e/etc/passwd, /proc/self/root/etc/passwd
//! ```
