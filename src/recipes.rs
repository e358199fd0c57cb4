//! Recipes, one for each question that the other pages leave open.
//!
//! The repository's `docs/tools.md` says how to write tools, and what each operation requires.
//! Two recipes have pages of their own: [Run git in a workspace](git) and
//! [Stop a turn](stop_a_turn).
//!
//! # Configured directories without a client
//!
//! This needs neither MCP nor an async runtime: the crate `guarded-fs` alone is enough, from which
//! the same names are imported. Call [`allowed_roots`](crate::Boundary::allowed_roots) for each
//! request, so that a directory that was replaced or has appeared is served.
//!
//! ```
//! use mcp_roots_guard::{Access, Boundary, DirectoryOptions, ErrorKind};
//!
//! # let work = tempfile::tempdir().unwrap();
//! # for (path, text) in [("site/index.html", "<h1>"), ("manuals/guide.txt", "Read me")] {
//! #     std::fs::create_dir_all(work.path().join(path).parent().unwrap()).unwrap();
//! #     std::fs::write(work.path().join(path), text).unwrap();
//! # }
//! # let [site, manuals, later] = ["site", "manuals", "later"].map(|name| work.path().join(name));
//! // At startup. `site`, `manuals` and `later` come from your configuration.
//! let boundary = Boundary::builder()
//!     .directory(&site, Access::ReadWrite) // base of relative requests
//!     .directory(&manuals, Access::ReadOnly)
//!     // This directory may be missing now.
//!     .directory(&later, DirectoryOptions::from(Access::ReadWrite).optional())
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
//! # Where directories come from
//!
//! These are the sources, in order of trust. The first two grant directories, on the operator's
//! behalf. The others come from other programs and models, and only narrow what is granted: never
//! pass them to `BoundaryBuilder::directory`.
//!
//! | source | who decides | passed to |
//! | --- | --- | --- |
//! | the server's configuration or arguments | the operator | [`BoundaryBuilder::directory`](crate::BoundaryBuilder::directory) |
//! | a variable of the environment, such as `CLAUDE_PROJECT_DIR` | whoever starts the server | the same |
//! | `cwd` and `additionalDirectories` of an ACP session | the editor | [`Roots::within_all`](crate::Roots::within_all) |
//! | the roots that an MCP client lists | the client | `Guard`, or [`Boundary::narrow`](crate::Boundary::narrow) |
//! | a parameter, metadata, or a resource URI | the model, or the client | [`Roots::within`](crate::Roots::within) |
//! | a configuration file in the repository | whoever wrote the repository | [`Boundary::narrow`](crate::Boundary::narrow), with the workspace [always](crate::DirectoryOptions::always) in force |
//!
//! - **The working directory** of the process is not among them. Desktop applications start servers
//!   in the home directory or in `/`, so a server that allows `.` by default allows every file of
//!   its user. Require a directory: an empty path is refused (`empty`), and never means the working
//!   directory.
//! - **A variable** is trusted only if the user's own client starts the server. A server for
//!   several users takes no directory from its environment.
//! - **Relative requests** of a narrowed list start at its first entry, and are refused if that is
//!   rejected. If they must start in the workspace whatever the list says,
//!   [`with_base`](crate::Roots::with_base) of the narrowed roots puts their start there.
//! - **If the project is not known at the start**, allow a directory that contains all projects,
//!   and narrow it for each request.
//!
//! # Read everything, write the workspace
//!
//! A place has the access of the innermost allowed directory that contains it, and patterns
//! restrict that. So an agent's usual policy has a line for each clause: write in the workspace,
//! read everything else, keep `.git` as it is, hide `.env*` except `.env.example`.
//!
//! ```
//! use mcp_roots_guard::{Access, Boundary};
//!
//! # if cfg!(windows) { return Ok(()) }
//! # let top = tempfile::tempdir().unwrap();
//! # let workspace = top.path().join("workspace");
//! # std::fs::create_dir_all(workspace.join(".git")).unwrap();
//! # for (path, text) in [
//! #     ("workspace/.git/config", "[core]"), ("workspace/.env", "KEY=1"), ("prod.env", "KEY=2"),
//! #     ("workspace/.env.example", "KEY="), ("notes.txt", "Read me"),
//! # ] {
//! #     std::fs::write(top.path().join(path), text).unwrap();
//! # }
//! let boundary = Boundary::builder()
//!     .directory(&workspace, Access::ReadWrite) // first, so relative requests start here
//!     .directory("/", Access::ReadOnly)
//!     .protect_defaults() // `.git`, `.vscode` and others are read-only
//!     .deny(".env*")
//!     .deny("*.env") // `**/*.env` in Codex's default profile
//!     .exempt(".env.example")
//!     .name_roots_in_refusals() // a refusal to write names the workspace
//!     .build()?;
//! let roots = boundary.allowed_roots();
//!
//! roots.write("main.rs", "fn main() {}")?;
//! assert_eq!(roots.read_to_string(".env.example", 1 << 10)?, "KEY=");
//! assert_eq!(roots.read_to_string(".git/config", 1 << 10)?, "[core]");
//! let notes = top.path().join("notes.txt"); // outside the workspace
//! assert_eq!(roots.read_to_string(&notes, 1 << 10)?, "Read me");
//!
//! let refused = roots.write(&notes, "").unwrap_err();
//! assert_eq!(refused.code(), "read_only");
//! assert!(refused.to_string().contains("; writable: "));
//! assert_eq!(roots.write(".git/config", "").unwrap_err().code(), "protected");
//! assert_eq!(roots.read(".env", 1 << 10).unwrap_err().code(), "protected");
//! let key = top.path().join("prod.env");
//! assert_eq!(roots.read(&key, 1 << 10).unwrap_err().code(), "protected");
//! # Ok::<(), mcp_roots_guard::Error>(())
//! ```
//!
//! - **Client roots** narrow `/`, too. With
//!   [`DirectoryOptions::always`](crate::DirectoryOptions::always) for `/` alone, everything can be
//!   read in any case, and the workspace is writable only while the client lists it or a directory
//!   above it. If the client's first entry is `file:///`, its relative requests start at `/`.
//! - **Secrets elsewhere.** `/` includes all that the server's user can read, such as private keys
//!   in `.ssh`, except `/proc`, which shows running processes. Deny these names, or run the server
//!   as another user.
//! - **Programs.** `deny` and `protect` do not reach a program that the agent runs, such as a shell:
//!   even a confined one (`ChildCommand::confined`) reads `.env` and changes `.git/hooks`, and `/`
//!   lets it read everything. Check its directory in [`Roots::within`](crate::Roots::within) of the
//!   workspace, which leaves it only that. `crates/process/README.md` has a table of what reaches
//!   file tools and programs.
//! - **Hung mounts** make an operation or a walk that meets them wait as long as the kernel does.
//!   [`refuse_mounts`](crate::BoundaryBuilder::refuse_mounts) refuses every mount below `/`. Then
//!   also allow each filesystem that is needed, such as `/home`.
//! - **Windows.** `/` is the volume of the working directory. Allow each volume (`C:\`).
//!
//! # Files over HTTP: axum
//!
//! Operations block, and so does `allowed_roots`, so both run in `spawn_blocking`. `status` maps
//! every kind of error that a request can cause. All others are failures of the server, and so is a
//! kind of a later release until you give it a status.
//!
//! ```
//! use std::path::PathBuf;
//!
//! use axum::extract::{Path, State};
//! use axum::http::StatusCode;
//! use mcp_roots_guard::{Boundary, ErrorKind};
//! use tokio::task::spawn_blocking;
//!
//! async fn file(
//!     State(boundary): State<Boundary>,
//!     Path(path): Path<PathBuf>, // decoded once, by axum, and never parsed as a URI
//! ) -> Result<Vec<u8>, (StatusCode, String)> {
//!     let read = spawn_blocking(move || boundary.allowed_roots().read(path, 16 << 20)).await;
//!     read.map_err(|panic| (StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()))?
//!         .map_err(|error| (status(error.kind()), error.to_string()))
//! }
//!
//! fn status(kind: ErrorKind) -> StatusCode {
//!     match kind {
//!         ErrorKind::InvalidPath
//!         | ErrorKind::InvalidUri
//!         | ErrorKind::InvalidVersion
//!         | ErrorKind::TooCostly
//!         | ErrorKind::IsADirectory => StatusCode::BAD_REQUEST,
//!         ErrorKind::OutsideRoots
//!         | ErrorKind::PermissionDenied
//!         | ErrorKind::ForbiddenFile
//!         | ErrorKind::Protected
//!         | ErrorKind::ReadOnly
//!         | ErrorKind::RootItself => StatusCode::FORBIDDEN,
//!         ErrorKind::NotFound | ErrorKind::NotADirectory => StatusCode::NOT_FOUND,
//!         ErrorKind::AlreadyExists
//!         | ErrorKind::DirectoryNotEmpty
//!         | ErrorKind::Overlap
//!         | ErrorKind::CrossDevice
//!         | ErrorKind::Changed => StatusCode::CONFLICT,
//!         ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
//!         ErrorKind::TooLong => StatusCode::URI_TOO_LONG,
//!         ErrorKind::NotUtf8 => StatusCode::UNSUPPORTED_MEDIA_TYPE,
//!         ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
//!         ErrorKind::RootUnavailable => StatusCode::SERVICE_UNAVAILABLE,
//!         _ => StatusCode::INTERNAL_SERVER_ERROR,
//!     }
//! }
//!
//! fn router(boundary: Boundary) -> axum::Router {
//!     axum::Router::new().route("/files/{*path}", axum::routing::get(file)).with_state(boundary)
//! }
//! # let work = tempfile::tempdir()?;
//! # std::fs::write(work.path().join("a.txt"), "text")?;
//! # let access = mcp_roots_guard::Access::ReadOnly;
//! # let boundary = Boundary::builder().directory(work.path(), access).build()?;
//! # let _ = router(boundary.clone());
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # for (path, expected) in [
//! #     ("a.txt", 200), ("../secret", 403), ("none", 404), (".", 400), ("a.txt/b", 404),
//! # ] {
//! #     let response = file(State(boundary.clone()), Path(path.into())).await;
//! #     assert_eq!(response.map_or_else(|refused| refused.0.as_u16(), |_| 200), expected, "{path}");
//! # }
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **A client that disconnects.** axum drops the handler's future, but its thread continues: a
//!   read ends at its limit, and a write leaves the whole new file, or the old one.
//! - **Hung filesystems.** A read that hangs occupies one of tokio's blocking threads (512 by
//!   default). Hold a permit of a semaphore in the closure, so that reads leave threads for other
//!   work, or use [`Session::run`](crate::Session#method.run).
//! - **Statuses that reveal nothing.** Whether an error is `OutsideRoots` or `Protected` does not
//!   depend on what exists there. To hide the rule as well, answer `NOT_FOUND` instead of
//!   `FORBIDDEN`.
//!
//! # An agent without MCP
//!
//! An agent with its own tools runs each call on a thread that may block, and returns a refusal to
//! the model as JSON: an [`Error`](crate::Error) serializes as its code and text. When the user
//! interrupts the agent, it drops the call's future.
//!
//! ```
//! use mcp_roots_guard::{Boundary, Result, Roots, WalkOptions};
//! use serde_json::{Value, json};
//!
//! #[derive(serde::Deserialize)]
//! #[serde(tag = "tool", rename_all = "snake_case")]
//! enum Call {
//!     ReadFile { path: String },
//!     WriteFile { path: String, text: String },
//!     CountBytes { path: String },
//! }
//!
//! fn run(roots: &Roots, call: Call) -> Result<Value> {
//!     match call {
//!         Call::ReadFile { path } => Ok(json!(roots.read_to_string(path, 1 << 20)?)),
//!         Call::WriteFile { path, text } => roots.write(path, text).map(|()| json!("written")),
//!         Call::CountBytes { path } => {
//!             let (mut walk, mut bytes) = (roots.walk(path, WalkOptions::default())?, 0);
//!             while let Some(entry) = walk.next_entry()? {
//!                 bytes += entry.metadata()?.len();
//!             }
//!             Ok(json!(bytes))
//!         }
//!     }
//! }
//!
//! /// Runs a call of the model, and returns the result for the model.
//! async fn respond(boundary: Boundary, call: Call) -> Value {
//!     let allowed = tokio::task::spawn_blocking(move || boundary.allowed_roots()).await;
//!     // If this future is dropped, so is the handle, which stops the work.
//!     let (roots, _call) = allowed.expect("it does not panic").stoppable();
//!     match tokio::task::spawn_blocking(move || run(&roots, call)).await {
//!         Ok(Ok(result)) => json!({ "result": result }),
//!         Ok(Err(refusal)) => json!({ "error": refusal }),
//!         Err(_) => json!({ "error": { "code": "internal", "text": "the tool failed" } }),
//!     }
//! }
//! # let work = tempfile::tempdir()?;
//! # let access = mcp_roots_guard::Access::ReadWrite;
//! # let boundary = Boundary::builder().directory(work.path(), access).build()?;
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # for (call, expected) in [
//! #     (json!({"tool": "write_file", "path": "a", "text": "text"}), json!({"result": "written"})),
//! #     (json!({"tool": "count_bytes", "path": "."}), json!({"result": 4})),
//! # ] {
//! #     let call = serde_json::from_value(call).unwrap();
//! #     assert_eq!(respond(boundary.clone(), call).await, expected);
//! # }
//!
//! let call = serde_json::from_str(r#"{ "tool": "read_file", "path": "../secret" }"#).unwrap();
//! let text = r#"read "../secret": not inside the allowed directories"#;
//! assert_eq!(
//!     respond(boundary, call).await,
//!     json!({ "error": { "code": "outside_roots", "text": text } })
//! );
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Dropping the future does not end the thread, but nothing more begins through the call's roots:
//! see [Stop a turn](stop_a_turn). A single operation is bounded by its limit, and finishes. A
//! change that was made stays made without the model's knowledge, so let it read the file again.
//!
//! # A server with many tools
//!
//! With the feature `rmcp`, the server obtains the roots once, in `call_tool`, and each tool
//! receives them as an extension of its request. A tool that asks the client something else finds
//! the answers in [`responses`](crate::rmcp::RequestRoots::responses). The work waits for a slot in
//! [`RequestRoots::run`](crate::rmcp::RequestRoots::run), not in `call_tool`.
//!
#![cfg_attr(feature = "__rmcp-tests", doc = "```")]
#![cfg_attr(not(feature = "__rmcp-tests"), doc = "```ignore")]
//! use mcp_roots_guard::rmcp::{ClientInput, HandlerError, RequestRoots};
//! use mcp_roots_guard::{Guard, Location, WriteOptions};
//! use rmcp::handler::server::router::tool::ToolRouter;
//! use rmcp::handler::server::tool::{Extension, ToolCallContext};
//! use rmcp::handler::server::wrapper::Parameters;
//! use rmcp::model::{CallToolRequestParams, CallToolResponse};
//! use rmcp::service::{RequestContext, RoleServer};
//! use rmcp::{ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
//!
//! struct Server {
//!     guard: Guard,
//!     tools: ToolRouter<Self>,
//! }
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Read {
//!     path: Location,
//! }
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Write {
//!     path: Location,
//!     content: String,
//! }
//!
//! #[tool_router]
//! impl Server {
//!     #[tool(description = "Read a text file")]
//!     async fn read_file(
//!         &self,
//!         Parameters(args): Parameters<Read>,
//!         Extension(roots): Extension<RequestRoots>,
//!     ) -> Result<String, HandlerError> {
//!         roots.run(move |roots| Ok(roots.read_to_string(&args.path, 1 << 20)?)).await
//!     }
//!
//!     #[tool(description = "Write a text file")]
//!     async fn write_file(
//!         &self,
//!         Parameters(args): Parameters<Write>,
//!         Extension(roots): Extension<RequestRoots>,
//!     ) -> Result<String, HandlerError> {
//!         let options = WriteOptions::default().create_parents();
//!         roots.run(move |roots| Ok(roots.write_with(&args.path, &args.content, options)?)).await?;
//!         Ok("written".to_owned())
//!     }
//! }
//!
//! #[tool_handler(router = self.tools)]
//! impl ServerHandler for Server {
//!     async fn call_tool(
//!         &self,
//!         call: CallToolRequestParams,
//!         mut ctx: RequestContext<RoleServer>,
//!     ) -> Result<CallToolResponse, ErrorData> {
//!         let (request, input) = (ctx.clone(), ClientInput::from(&call));
//!         let work = async move |roots: RequestRoots| {
//!             ctx.extensions.insert(roots);
//!             Ok(self.tools.call(ToolCallContext::new(self, call, ctx)).await?)
//!         };
//!         self.guard.respond(&request, input, work).await
//!     }
//! }
//! # use mcp_roots_guard::{Access, Boundary};
//! # use rmcp::ServiceExt;
//! # let work = tempfile::tempdir()?;
//! # let boundary = Boundary::builder().directory(work.path(), Access::ReadWrite).build()?;
//! # let guard = Guard::new(boundary);
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! # let (near, far) = tokio::io::duplex(1 << 16);
//! # let server = Server { guard: guard.clone(), tools: Server::tool_router() };
//! # let transport = guard.wrap(far);
//! # tokio::spawn(async move { server.serve(transport).await.unwrap().waiting().await });
//! # let client = ().serve(near).await?;
//! # for (tool, path, expected, fails) in [
//! #     ("write_file", "new/a.txt", "written", false),
//! #     ("read_file", "new/a.txt", "content", false),
//! #     ("read_file", "../a.txt", "read \"../a.txt\": not inside the allowed directories", true),
//! #     ("write_file", "../a.txt", "write \"../a.txt\": not inside the allowed directories", true),
//! # ] {
//! #     let arguments = serde_json::json!({"path": path, "content": "content"});
//! #     let arguments = arguments.as_object().unwrap().clone();
//! #     let call = CallToolRequestParams::new(tool).with_arguments(arguments);
//! #     let called = client.call_tool(call).await?;
//! #     let text = called.content[0].as_text().unwrap().text.clone();
//! #     assert_eq!((&*text, called.is_error), (expected, Some(fails)));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A server over HTTP for many clients
//!
//! With the feature `rmcp-http`, wrap the session manager: each client then has its own session,
//! and cannot see another client's roots. Only your own code can identify a client: let your
//! authentication layer add a [`ClientKey`](crate::rmcp::ClientKey) to each request. A session
//! refuses a request with another key.
//!
#![cfg_attr(feature = "__rmcp-tests", doc = "```no_run")]
#![cfg_attr(not(feature = "__rmcp-tests"), doc = "```text")]
//! use std::sync::Arc;
//!
//! use mcp_roots_guard::rmcp::ClientKey;
//! use mcp_roots_guard::{Access, Boundary, ClientRoots, Guard};
//! use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
//! use rmcp::transport::streamable_http_server::{
//!     StreamableHttpServerConfig, StreamableHttpService,
//! };
//!
//! #[derive(Clone)]
//! struct Server {
//!     guard: Guard,
//! }
//! # impl rmcp::ServerHandler for Server {}
//!
//! // Implement `#[tool_router(server_handler)] impl Server` as in the README.
//!
//! /// Call this in your authentication layer. `principal` is the verified identity.
//! fn with_key<B>(mut request: http::Request<B>, principal: &str) -> http::Request<B> {
//!     // Requests with equal keys count as one client. If a user runs several programs, include
//!     // the program's name in the key.
//!     request.extensions_mut().insert(ClientKey::principal(principal));
//!     request
//! }
//!
//! # fn service() -> mcp_roots_guard::Result<()> {
//! // Here each client must name its project, so a client without roots is refused. By default
//! // (`ClientRoots::Narrow`), it can access all allowed directories.
//! let boundary = Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?;
//! let guard = Guard::builder(boundary).client_roots(ClientRoots::Require).build()?;
//! let sessions = Arc::new(guard.wrap_sessions(LocalSessionManager::default()));
//! let server = Server { guard };
//! // Mount the service in a router of your web framework.
//! let config = StreamableHttpServerConfig::default();
//! let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
//! # let _: StreamableHttpService<Server, _> = service;
//! # let _ = with_key(http::Request::new(()), "alice");
//! # Ok(())
//! # }
//! ```
//!
//! With axum, use `Router::new().route_service("/mcp", service)`, and call `with_key` in the
//! `middleware::from_fn` that authenticates requests. If browsers access the server, set
//! `with_allowed_origins`. Without authentication, listen only on loopback. `server` in the
//! repository does all of this.
//!
//! *Any* client of a guard can access all of the guard's allowed directories, for example by
//! listing them as roots. If users must not share directories, create a guard for each.
//!
//! # Stateless requests (2026-07-28)
//!
//! A server with rmcp needs no more code, because [`Guard::tool`](crate::Guard#method.tool) detects
//! the era of each request. With another SDK, the list that a request carries is used for that
//! request only. It is not trusted, and is resolved within the allowed directories like any other.
//!
//! ```
//! use mcp_roots_guard::{
//!     Access, Boundary, ClientCapabilities, Error, ErrorBody, Guard, ListRootsResult, Revision,
//!     Roots, RootsResponse, kinds,
//! };
//! use serde_json::{Value, json};
//!
//! /// The roots for a `tools/call` in 2026-07-28, or the result that asks the client for them.
//! enum RootsOrInput {
//!     Roots(Roots),
//!     /// The result to send. The client repeats the call with its list.
//!     InputRequired(Value),
//! }
//! use RootsOrInput::{InputRequired, Roots as InForce};
//!
//! async fn roots(
//!     guard: &Guard,
//!     params: &Value,
//! ) -> Result<RootsOrInput, Box<dyn std::error::Error>> {
//!     let declared = &params["_meta"][ClientCapabilities::META_KEY];
//!     // Malformed capabilities are an error: treating them as "no roots" could grant more access.
//!     let declared: ClientCapabilities = serde_json::from_value(declared.clone())?;
//!     let session = guard.session(declared)?; // only for this request
//!     if declared == ClientCapabilities::WithoutRoots {
//!         // The source is never called: the session returns the allowed directories, or refuses
//!         // with `ClientRoots::Require`.
//!         let source = |_: Option<String>| async { RootsResponse::Unsupported };
//!         return Ok(InForce(session.roots(source).await?));
//!     }
//!     match params["inputResponses"].get("roots") {
//!         Some(response) => {
//!             // If the response is not a list, only directories that are always in force are
//!             // served.
//!             let response = RootsResponse::from_result(response.clone());
//!             let source = |_: Option<String>| std::future::ready(response.clone());
//!             Ok(InForce(session.roots(source).await?))
//!         }
//!         None => Ok(InputRequired(json!({
//!             "resultType": "input_required",
//!             "inputRequests": { "roots": { "method": ListRootsResult::METHOD } },
//!         }))),
//!     }
//! }
//!
//! /// The response to a refused tool call: a result for the model or, if the client lacks required
//! /// roots, the protocol's error with its HTTP status.
//! fn refused(error: &Error, revision: Revision) -> Result<Value, (ErrorBody, Option<u16>)> {
//!     if revision.is_stateless() && error.kind() == kinds::ROOTS_UNSUPPORTED {
//!         let body = revision.error_body(error, None);
//!         let status = body.http_status();
//!         return Err((body, status));
//!     }
//!     Ok(revision.tool_result(error))
//! }
//! # let work = tempfile::tempdir().unwrap();
//! # std::fs::create_dir(work.path().join("a")).unwrap();
//! # let path = work.path().join("a").to_str().unwrap().replace('\\', "/");
//! # let uri = if cfg!(windows) { "file:///" } else { "file://" }.to_owned() + &path;
//! # let boundary = Boundary::builder().directory(work.path(), Access::ReadWrite).build()?;
//! # let guard = Guard::new(boundary);
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
//! # let mut params = json!({"_meta": {(ClientCapabilities::META_KEY): {"roots": {}}}});
//! # runtime.block_on(async {
//! # assert!(matches!(roots(&guard, &params).await?, InputRequired(_)));
//! # let list = json!({"roots": [{"uri": uri}, {"uri": "file:///etc"}]});
//! # params["inputResponses"] = json!({"roots": list});
//! # let InForce(listed) = roots(&guard, &params).await? else { panic!("the list was sent") };
//! # assert_eq!((listed.iter().count(), listed.rejected().len()), (1, 1));
//! # params["_meta"] = json!({(ClientCapabilities::META_KEY): {}});
//! # let InForce(allowed) = roots(&guard, &params).await? else { panic!("it has no roots") };
//! # assert_eq!(allowed.iter().count(), 1);
//! # params["_meta"] = json!({(ClientCapabilities::META_KEY): 5});
//! # assert!(roots(&guard, &params).await.is_err());
//! # let only = Guard::new(Boundary::any_listed().build()?);
//! # params["_meta"] = json!({(ClientCapabilities::META_KEY): {}});
//! # let none: Box<Error> = roots(&only, &params).await.err().unwrap().downcast().unwrap();
//! # let (body, status) = refused(&none, Revision::V2026_07_28).unwrap_err();
//! # assert_eq!((body.code, status), (-32021, Some(400)));
//! # assert!(refused(&none, Revision::V2025_11_25).is_ok());
//! # let outside = allowed.read("../a.txt", 9).unwrap_err();
//! # assert!(refused(&outside, Revision::V2026_07_28).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A directory in a parameter
//!
//! A tool can take its working directory from a parameter or a resource URI, for example because
//! one client works in several projects. The model chooses it, so it is untrusted. In the tool's
//! work, `roots.within(workspace)?` narrows the roots in force to that directory, for this request
//! only: relative paths start there, `..` cannot leave it, and a directory outside the roots in
//! force is refused. [`Roots::within`](crate::Roots::within) has an example.
//!
//! # A directory in metadata: Codex
//!
//! Codex describes its sandbox in the `_meta` of each tool call to a server that declares the
//! experimental capability `codex/sandbox-state-meta`: its working directory (`sandboxCwd`), and
//! the user's choice of permissions (`permissionProfile`). A server that follows both stays inside
//! the sandbox, although Codex does not confine the server itself. With rmcp, the metadata is in
//! `ctx.meta`. It can only narrow the roots in force.
//!
//! The format belongs to Codex and may change. A profile is therefore writable only if each of its
//! entries is known, and otherwise read-only. One that denies reading is refused, because even read
//! access would be too much.
//!
//! ```
//! use std::error::Error;
//!
//! use mcp_roots_guard::{Access, Boundary, Roots};
//! use serde_json::{Value, json};
//!
//! /// Narrows the roots in force to the sandbox of Codex.
//! fn in_sandbox(roots: &Roots, meta: &Value) -> Result<Roots, Box<dyn Error>> {
//!     let state = &meta["codex/sandbox-state-meta"];
//!     // A `file:` URI or, from older versions, a path.
//!     let directory = state["sandboxCwd"].as_str().ok_or("the sandbox is not described")?;
//!     let roots = roots.within(directory)?;
//!     let profile = &state["permissionProfile"];
//!     Ok(if is_writable(profile)? { roots } else { roots.read_only() })
//! }
//!
//! /// Whether a profile allows writing in the sandbox's directory.
//! fn is_writable(profile: &Value) -> Result<bool, Box<dyn Error>> {
//!     let files = &profile["file_system"];
//!     match (profile["type"].as_str(), files["type"].as_str()) {
//!         // The user turned the sandbox off.
//!         (Some("disabled"), _) | (Some("managed"), Some("unrestricted")) => return Ok(true),
//!         (Some("managed"), Some("restricted")) => {}
//!         _ => return Ok(false),
//!     }
//!     let Some(entries) = files["entries"].as_array() else { return Ok(false) };
//!     if entries.iter().any(|entry| entry["access"] != "read" && entry["access"] != "write") {
//!         return Err("the profile denies access that this server cannot deny".into());
//!     }
//!     let entry = |place: Value, access: &str| {
//!         json!({ "path": { "type": "special", "value": place }, "access": access })
//!     };
//!     let directory = entry(json!({ "kind": "project_roots" }), "write");
//!     let part = |name: &str| json!({ "kind": "project_roots", "subpath": name });
//!     // These entries restrict no more than `protect_defaults` and the allowed directories do.
//!     let known = [
//!         entry(json!({ "kind": "root" }), "read"),
//!         entry(json!({ "kind": "tmpdir" }), "write"),
//!         entry(json!({ "kind": "slash_tmp" }), "write"),
//!         entry(part(".git"), "read"),
//!         entry(part(".agents"), "read"),
//!         entry(part(".codex"), "read"),
//!     ];
//!     let is_known = |entry: &Value| *entry == directory || known.contains(entry);
//!     Ok(entries.contains(&directory) && entries.iter().all(is_known))
//! }
//!
//! # let top = tempfile::tempdir().unwrap();
//! # for name in ["work/site/.git", "work/notes", "private"] {
//! #     std::fs::create_dir_all(top.path().join(name)).unwrap();
//! # }
//! # let (work, private) = (top.path().join("work"), top.path().join("private"));
//! # let uri = |path: &std::path::Path| url::Url::from_file_path(path).unwrap().to_string();
//! let boundary =
//!     Boundary::builder().directory(&work, Access::ReadWrite).protect_defaults().build()?;
//! let roots = boundary.allowed_roots();
//! let meta = |directory: &str, profile: Value| {
//!     let state = json!({ "sandboxCwd": directory, "permissionProfile": profile });
//!     json!({ "codex/sandbox-state-meta": state })
//! };
//! let special = |kind: &str, access: &str| {
//!     json!({ "path": { "type": "special", "value": { "kind": kind } }, "access": access })
//! };
//! let managed = |entries: Value| {
//!     let files = json!({ "type": "restricted", "entries": entries });
//!     json!({ "type": "managed", "file_system": files, "network": "restricted" })
//! };
//!
//! let site = uri(&work.join("site"));
//! let workspace = managed(json!([special("root", "read"), special("project_roots", "write")]));
//! let writable = in_sandbox(&roots, &meta(&site, workspace.clone()))?;
//! writable.write("index.html", "<h1>")?;
//! assert_eq!(writable.write(".git/config", "").unwrap_err().code(), "protected");
//! assert_eq!(writable.write("../notes/a.txt", "").unwrap_err().code(), "outside_roots");
//!
//! // An unknown profile, or one with an unknown entry, is read-only.
//! let with_unknown = managed(json!([special("project_roots", "write"), special("new", "read")]));
//! for profile in [json!({ "type": "external" }), json!("new"), with_unknown, Value::Null] {
//!     let readable = in_sandbox(&roots, &meta(&site, profile))?;
//!     assert_eq!(readable.read("index.html", 1 << 20)?, b"<h1>");
//!     assert_eq!(readable.write("index.html", "").unwrap_err().code(), "read_only");
//! }
//!
//! // Metadata never widens the roots.
//! assert!(in_sandbox(&roots, &meta(&uri(&private), workspace)).is_err());
//! assert!(in_sandbox(&roots, &json!({})).is_err());
//! let denied = managed(json!([special("project_roots", "deny")]));
//! assert!(in_sandbox(&roots, &meta(&site, denied)).is_err());
//! # Ok::<(), Box<dyn Error>>(())
//! ```
//!
//! # An ACP session
//!
//! In the Agent Client Protocol, an editor begins a session with a working directory and,
//! optionally, more directories, all of which the agent needs, and outside of which it must not go.
//! [`Roots::within_all`](crate::Roots::within_all) refuses the session if one is missing or
//! outside, with an error that names it. Relative requests start at `cwd`.
//!
//! Both sides use the same function. An agent's boundary is what its own configuration allows. A
//! client's boundary is the folders that its user has opened; in those that it has sent to the
//! agent, it serves `fs/read_text_file` and `fs/write_text_file`.
//!
//! ```
//! use mcp_roots_guard::{Access, Boundary, Location, Result, Roots};
//! use serde_json::json;
//!
//! /// The parameters of `session/new`, `session/load` and `session/resume`.
//! #[derive(serde::Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct Session {
//!     cwd: Location,
//!     #[serde(default)]
//!     additional_directories: Vec<Location>,
//! }
//!
//! impl Session {
//!     /// The roots of the session. Called for each request, so that a switched symlink in a
//!     /// configured path takes effect.
//!     fn roots(&self, boundary: &Boundary) -> Result<Roots> {
//!         let directories = std::iter::once(&self.cwd).chain(&self.additional_directories);
//!         boundary.allowed_roots().within_all(directories)
//!     }
//! }
//!
//! /// A client's `fs/read_text_file`.
//! fn read_text_file(boundary: &Boundary, session: &Session, path: &Location) -> Result<String> {
//!     session.roots(boundary)?.read_to_string(path, 1 << 20)
//! }
//!
//! # let top = tempfile::tempdir().unwrap();
//! # for name in ["work/app", "work/docs", "private"] {
//! #     std::fs::create_dir_all(top.path().join(name)).unwrap();
//! #     std::fs::write(top.path().join(name).join("a.txt"), name).unwrap();
//! # }
//! # let work = top.path().join("work");
//! # let [app, docs] = ["app", "docs"].map(|name| work.join(name));
//! # let private = top.path().join("private");
//! let boundary = Boundary::builder().directory(&work, Access::ReadWrite).build()?;
//! let params = json!({ "cwd": app, "additionalDirectories": [docs, app.join(".")] });
//! let session: Session = serde_json::from_value(params)?;
//! let roots = session.roots(&boundary)?; // refuses `session/new` if this fails
//! roots.write("main.rs", "fn main() {}")?;
//! assert!(app.join("main.rs").exists());
//! let path = docs.join("a.txt").try_into()?;
//! assert_eq!(read_text_file(&boundary, &session, &path)?, "work/docs");
//! let path = work.join("a.txt").try_into()?; // allowed, but not in this session
//! assert_eq!(read_text_file(&boundary, &session, &path).unwrap_err().code(), "outside_roots");
//!
//! let params = json!({ "cwd": app, "additionalDirectories": [private] });
//! let session: Session = serde_json::from_value(params)?;
//! assert_eq!(session.roots(&boundary).unwrap_err().code(), "outside_roots");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - A session for reading only is `session.roots(&boundary)?.read_only()`.
//! - `additionalDirectories` is sent only to an agent that declares this capability.
//! - ACP requires absolute paths. A relative `cwd` would start at the first allowed directory.
//! - MCP servers that the editor names in `session/new` are programs that the agent starts. The
//!   guard does not restrict them.
//!
//! # Search all files
//!
//! An entry of a walk reads its own file, beneath the directory that was listed, so the path is not
//! resolved again. The walk ends with an error if it reaches a limit, so a search cannot silently
//! cover only a part of the workspace.
//!
//! ```
//! use mcp_roots_guard::{Access, ErrorKind, FileType, Result, Roots, WalkOptions};
//!
//! /// Returns the files that contain the text, and whether the search was complete.
//! fn search(roots: &Roots, text: &str, options: WalkOptions) -> Result<(Vec<String>, bool)> {
//!     let (mut found, mut is_complete) = (Vec::new(), true);
//!     // A directory that cannot be listed does not end the search.
//!     let mut walk = roots.walk(".", options.skip_unreadable())?;
//!     loop {
//!         let entry = match walk.next_entry() {
//!             Ok(Some(entry)) => entry,
//!             Ok(None) => return Ok((found, is_complete && walk.unreadable().is_empty())),
//!             Err(error) if error.kind() == ErrorKind::TooManyEntries => return Ok((found, false)),
//!             Err(error) => return Err(error),
//!         };
//!         // A walk lists symlinks and does not follow them.
//!         if entry.file_type() != FileType::File {
//!             continue;
//!         }
//!         match entry.read_to_string(1 << 20) {
//!             Ok(content) if content.contains(text) => {
//!                 found.push(entry.path().display().to_string());
//!             }
//!             Ok(_) => {}
//!             Err(error) if error.kind() == ErrorKind::NotUtf8 => {}
//!             // Too large, unreadable, or removed in the meantime.
//!             Err(_) => is_complete = false,
//!         }
//!     }
//! }
//!
//! # let top = tempfile::tempdir().unwrap();
//! # for (path, content) in [("work/a.txt", "needle"), ("work/b.txt", "hay"), ("key", "needle")] {
//! #     std::fs::create_dir_all(top.path().join(path).parent().unwrap()).unwrap();
//! #     std::fs::write(top.path().join(path), content).unwrap();
//! # }
//! let roots = Roots::from_dirs([top.path().join("work")], Access::ReadOnly)?;
//! # #[cfg(unix)] std::os::unix::fs::symlink("../key", top.path().join("work/key")).unwrap();
//! let all = search(&roots, "needle", WalkOptions::default())?;
//! assert_eq!(all, (vec!["a.txt".to_owned()], true));
//! let first = search(&roots, "needle", WalkOptions::default().max_entries(1))?;
//! assert!(!first.1);
//! let outside = roots.walk("..", WalkOptions::default()).unwrap_err();
//! assert_eq!(outside.kind(), ErrorKind::OutsideRoots);
//! # Ok::<(), mcp_roots_guard::Error>(())
//! ```
//!
//! # A patch of several files, with undo
//!
//! A [`ChangeSet`](crate::ChangeSet) prepares all changes before it makes the first one. With a
//! [`ContentHash`](crate::ContentHash), both the patch and its undo refuse to change a file that
//! somebody else has modified since it was read.
//!
//! ```
//! use std::error::Error;
//!
//! use mcp_roots_guard::{Access, ContentHash, Precondition, Roots, WriteOptions};
//!
//! /// A file before and after the patch.
//! struct Patched {
//!     path: String,
//!     before: String,
//!     after: ContentHash,
//! }
//!
//! /// Replaces a text in each file. Each edit has the path, the old text and the new text.
//! fn apply(roots: &Roots, edits: &[[&str; 3]]) -> Result<Vec<Patched>, Box<dyn Error>> {
//!     let (mut changes, mut patched) = (roots.change_set(), Vec::new());
//!     for [path, old, new] in edits {
//!         let before = roots.read_to_string(*path, 1 << 20)?;
//!         if before.matches(old).count() != 1 {
//!             return Err(format!("{path:?}: the old text must occur exactly once").into());
//!         }
//!         let after = before.replacen(old, new, 1);
//!         let if_unchanged = Precondition::Unchanged(ContentHash::of(before.as_bytes()));
//!         changes.write(*path, &after, WriteOptions::default().precondition(if_unchanged))?;
//!         let after = ContentHash::of(after.as_bytes());
//!         patched.push(Patched { path: (*path).to_owned(), before, after });
//!     }
//!     changes.commit()?; // the error names the changes that were made
//!     Ok(patched)
//! }
//!
//! fn undo(roots: &Roots, patched: &[Patched]) -> Result<(), Box<dyn Error>> {
//!     let mut changes = roots.change_set();
//!     for Patched { path, before, after } in patched {
//!         let if_unchanged = Precondition::Unchanged(*after);
//!         changes.write(path, before, WriteOptions::default().precondition(if_unchanged))?;
//!     }
//!     Ok(changes.commit()?)
//! }
//!
//! # let work = tempfile::tempdir().unwrap();
//! let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
//! roots.write("a.txt", "one two")?;
//! roots.write("b.txt", "three")?;
//! let patched = apply(&roots, &[["a.txt", "two", "2"], ["b.txt", "three", "3"]])?;
//! assert_eq!(roots.read("a.txt", 99)?, b"one 2");
//! assert_eq!(roots.read("b.txt", 99)?, b"3");
//! undo(&roots, &patched)?;
//! assert_eq!(roots.read("a.txt", 99)?, b"one two");
//!
//! // Nothing is changed if a part of the patch cannot be applied, or if a file was modified.
//! assert!(apply(&roots, &[["a.txt", "one", "1"], ["b.txt", "four", "4"]]).is_err());
//! assert!(apply(&roots, &[["a.txt", "one", "1"], ["../c.txt", "c", ""]]).is_err());
//! let patched = apply(&roots, &[["a.txt", "two", "2"], ["b.txt", "three", "3"]])?;
//! roots.write("b.txt", "edited by the user")?;
//! let refused = undo(&roots, &patched).unwrap_err().downcast::<mcp_roots_guard::Error>()?;
//! assert_eq!(refused.code(), "modified");
//! assert_eq!(roots.read("a.txt", 99)?, b"one 2");
//! # Ok::<(), Box<dyn Error>>(())
//! ```
//!
//! # Unpack an archive
//!
//! An archive can contain names such as `../x` and `/etc/passwd`, and symlinks through which a
//! later entry would be written outside ("zip slip"). Narrow the roots to the destination, and
//! write each entry through the narrowed roots.
//!
//! ```
//! use std::io::Write as _;
//! use std::path::Path;
//!
//! use mcp_roots_guard::{Access, Precondition, Result, Roots, WriteOptions};
//!
//! enum Content<'a> {
//!     File(&'a [u8]),
//!     Symlink(&'a str),
//! }
//! use Content::{File, Symlink};
//!
//! /// Unpacks an archive into a new directory. If that fails, nothing is left.
//! fn unpack(roots: &Roots, archive: &[(&str, Content)], directory: &str) -> Result<()> {
//!     roots.create_dir(directory)?;
//!     let unpacked = unpack_into(&roots.within(directory)?, archive);
//!     if unpacked.is_err() {
//!         roots.remove_dir_all(directory)?;
//!     }
//!     unpacked
//! }
//!
//! fn unpack_into(destination: &Roots, archive: &[(&str, Content)]) -> Result<()> {
//!     // An entry never replaces another one.
//!     let options = WriteOptions::default().precondition(Precondition::Missing).create_parents();
//!     for (name, content) in archive {
//!         let name = Path::new(name); // never a URI
//!         match content {
//!             File(content) => {
//!                 let place = destination.check(name)?;
//!                 let mut file = place.atomic_file(options)?;
//!                 // Also count the bytes here, because a small archive can unpack to a huge file.
//!                 for piece in content.chunks(1 << 16) {
//!                     file.write_all(piece)?;
//!                 }
//!                 file.commit()?;
//!             }
//!             Symlink(target) => destination.check_entry(name)?.symlink(target)?,
//!         }
//!     }
//!     Ok(())
//! }
//!
//! # let top = tempfile::tempdir().unwrap();
//! # std::fs::create_dir(top.path().join("work")).unwrap();
//! let roots = Roots::from_dirs([top.path().join("work")], Access::ReadWrite)?;
//! unpack(&roots, &[("src/main.rs", File(b"fn main() {}")), ("readme", File(b""))], "new")?;
//! assert_eq!(roots.read("new/src/main.rs", 99)?, b"fn main() {}");
//!
//! let refused = |archive: &[_]| unpack(&roots, archive, "other").unwrap_err().code();
//! assert_eq!(refused(&[("a", File(b"")), ("../new/readme", File(b"x"))]), "outside_roots");
//! # #[cfg(unix)] {
//! assert_eq!(refused(&[("/etc/passwd", File(b"x"))]), "outside_roots");
//! assert_eq!(refused(&[("up", Symlink("..")), ("up/readme", File(b"x"))]), "outside_roots");
//! # }
//! assert_eq!(refused(&[("a", File(b"1")), ("a", File(b"2"))]), "already_exists");
//! assert_eq!(roots.read("new/readme", 99)?, b"");
//! assert!(!roots.exists("other")?);
//! # Ok::<(), mcp_roots_guard::Error>(())
//! ```
//!
//! [`symlink`](crate::CheckedEntry::symlink) refuses a text that leads outside, because another
//! program would follow it. A tool that meets such a symlink, here or in a tree that it copies, can
//!
//! - leave it out and name it in its result, as `copy_directory` of `server` does;
//! - store the text, or that of [`read_link`](crate::CheckedEntry::read_link), in a file, from
//!   which another tool can create the symlink;
//! - create it beneath [`open_unguarded_dir`](crate::CheckedPath::open_unguarded_dir), and be
//!   responsible for what then follows it.
//!
//! # Run tests with a time limit
//!
//! A test suite runs programs that it has just built, and can hang or print without end. The limits
//! end it with everything that it started, except processes that create their own session. Add the
//! directories of compilers and caches as extras, and a directory for temporary files, because `/tmp`
//! is outside: `.extra(&scratch, ExtraAccess::ReadWrite)`, and `.env("TMPDIR", &scratch)`.
//!
#![cfg_attr(all(target_os = "linux", feature = "process"), doc = "```")]
#![cfg_attr(not(all(target_os = "linux", feature = "process")), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use mcp_roots_guard::{Access, ChildCommand, Confinement, ExitReason, Result, Roots};
//!
//! fn run_tests(roots: &Roots, time: Duration) -> Result<(ExitReason, String)> {
//!     let tests = ChildCommand::new(&roots.check(".")?, "sh")?
//!         .arg("./test.sh")
//!         .confined(Confinement::default().programs().allow_programs_in_roots())
//!         .time_limit(time)
//!         .output_limit(64 << 10);
//!     let output = tests.output()?;
//!     Ok((output.exit_reason(), String::from_utf8_lossy(output.stdout()).into_owned()))
//! }
//!
//! # let work = tempfile::tempdir().unwrap();
//! # let script = work.path().join("test.sh");
//! # std::fs::write(&script, "echo 1 passed").unwrap();
//! let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
//! let (ended, text) = run_tests(&roots, Duration::from_secs(60))?;
//! assert!(matches!(ended, ExitReason::Exited(status) if status.success()));
//! assert_eq!(text, "1 passed\n");
//! # std::fs::write(&script, "echo started; while :; do sleep 1; done").unwrap();
//! let (ended, text) = run_tests(&roots, Duration::from_millis(500))?; // it hangs
//! assert_eq!((ended, text.as_str()), (ExitReason::TimedOut, "started\n"));
//! # std::fs::write(&script, "cat /etc/passwd").unwrap();
//! let (ended, text) = run_tests(&roots, Duration::from_secs(60))?; // it reads outside
//! assert!(matches!(ended, ExitReason::Exited(status) if !status.success()) && text.is_empty());
//! # Ok::<(), mcp_roots_guard::Error>(())
//! ```
//!
//! # A tool that awaits
//!
//! This recipe needs the feature `rmcp`. The work waits for a channel without holding a slot. The
//! write takes one, and is refused if the client's roots have changed in the meantime.
//!
#![cfg_attr(feature = "__rmcp-tests", doc = "```")]
#![cfg_attr(not(feature = "__rmcp-tests"), doc = "```ignore")]
//! use mcp_roots_guard::Guard;
//! use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
//! use rmcp::ErrorData;
//! use rmcp::model::{CallToolRequestParams, CallToolResponse};
//! use rmcp::service::{RequestContext, RoleServer};
//! use tokio::sync::{Mutex, mpsc};
//!
//! struct Server {
//!     guard: Guard,
//!     reports: Mutex<mpsc::Receiver<String>>,
//! }
//!
//! impl Server {
//!     /// Writes the next report to a file.
//!     async fn save_report(
//!         &self,
//!         path: String,
//!         call: &CallToolRequestParams,
//!         ctx: &RequestContext<RoleServer>,
//!     ) -> Result<CallToolResponse, ErrorData> {
//!         let work = async |roots: RequestRoots| {
//!             let report = self.reports.lock().await.recv().await;
//!             let report = report.ok_or_else(|| HandlerError::new("there are no more reports"))?;
//!             roots.run(move |roots| Ok(roots.write(&path, &report)?)).await?;
//!             Ok("saved".to_owned())
//!         };
//!         self.guard.respond(ctx, call, work).await
//!     }
//! }
//! # impl rmcp::ServerHandler for Server {
//! #     fn get_info(&self) -> rmcp::model::ServerConfig {
//! #         let tools = rmcp::model::ServerCapabilities::builder().enable_tools().build();
//! #         rmcp::model::ServerConfig::new(tools)
//! #     }
//! #     async fn call_tool(
//! #         &self,
//! #         call: CallToolRequestParams,
//! #         ctx: RequestContext<RoleServer>,
//! #     ) -> Result<CallToolResponse, ErrorData> {
//! #         let path = call.arguments.as_ref().unwrap()["path"].as_str().unwrap().to_owned();
//! #         self.save_report(path, &call, &ctx).await
//! #     }
//! # }
//! # use mcp_roots_guard::{Access, Boundary};
//! # use rmcp::ServiceExt;
//! # let work = tempfile::tempdir()?;
//! # let boundary = Boundary::builder().directory(work.path(), Access::ReadWrite).build()?;
//! # let guard = Guard::new(boundary);
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! # let (near, far) = tokio::io::duplex(1 << 16);
//! # let (sender, reports) = mpsc::channel(2);
//! # let server = Server { guard: guard.clone(), reports: Mutex::new(reports) };
//! # let transport = guard.wrap(far);
//! # tokio::spawn(async move { server.serve(transport).await.unwrap().waiting().await });
//! # let client = ().serve(near).await?;
//! # for (path, expected) in [("report.txt", "saved"), ("../report.txt", "not inside the allowed")] {
//! #     let arguments = serde_json::json!({"path": path}).as_object().unwrap().clone();
//! #     let call = CallToolRequestParams::new("save_report").with_arguments(arguments);
//! #     let call = client.call_tool(call);
//! #     let report = async { sender.send("all is well".to_owned()).await };
//! #     let (called, sent) = tokio::join!(call, report);
//! #     sent?;
//! #     let called = called?;
//! #     let text = called.content[0].as_text().unwrap().text.clone();
//! #     assert!(text.contains(expected), "{text}");
//! # }
//! # assert_eq!(std::fs::read(work.path().join("report.txt"))?, b"all is well");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Watching and subscriptions
//!
//! A subscription outlives its request but must not outlive its root. Keep the
//! [`Session`](crate::Session), which [`Guard::session_of`](crate::Guard#method.session_of) returns
//! with rmcp, and ask it before each notification. A [`CheckedPath`](crate::CheckedPath) holds its
//! snapshot, so a server with many subscriptions keeps the [`uri`](crate::Proof::uri) of each
//! instead, and checks it in [`known_roots`](crate::Session::known_roots). Look at files in
//! [`Session::run`](crate::Session#method.run), because a filesystem may never answer. `server` has
//! a complete implementation.
//!
//! ```
//! use mcp_roots_guard::{CheckedPath, ErrorKind, Session, kinds};
//!
//! /// Notifies the client of each change to the file, until the file's root is withdrawn or the
//! /// client disconnects.
//! async fn subscription(
//!     session: Session,
//!     checked: CheckedPath,
//!     mut changed: tokio::sync::mpsc::Receiver<()>,
//! ) -> ErrorKind {
//!     let mut changes = session.changes();
//!     let still_allows = || session.known_roots()?.still_allows(&checked);
//!     loop {
//!         tokio::select! {
//!             // The watcher reported a change.
//!             Some(()) = changed.recv() => match still_allows() {
//!                 Ok(()) => { /* notifications/resources/updated, with checked.uri() */ }
//!                 // The client has not sent its new list yet. Send nothing, and keep waiting.
//!                 Err(error) if error.kind() == kinds::ROOTS_STALE => {}
//!                 Err(error) => return error.kind(),
//!             },
//!             // The list changed, or the session was closed.
//!             gone = changes.changed() => if let Err(error) = gone { return error.kind() },
//!             else => return kinds::CANCELLED,
//!         }
//!     }
//! }
//! # use mcp_roots_guard::{Access, Boundary, Guard};
//! # let work = tempfile::tempdir().unwrap();
//! # std::fs::write(work.path().join("a.txt"), "a").unwrap();
//! # let boundary = Boundary::builder().directory(work.path(), Access::ReadWrite).build()?;
//! # let guard = Guard::new(boundary.clone());
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
//! # runtime.block_on(async {
//! # let session = guard.session(mcp_roots_guard::ClientCapabilities::WithoutRoots)?;
//! # let checked = boundary.allowed_roots().check("a.txt")?;
//! # let (sender, changed) = tokio::sync::mpsc::channel(1);
//! # let client = session.clone();
//! # let task = subscription(session, checked, changed);
//! # sender.send(()).await.unwrap();
//! # let close = async { tokio::task::yield_now().await; client.close() };
//! # assert_eq!(tokio::join!(task, close).0, kinds::SESSION_CLOSED);
//! # Ok::<(), mcp_roots_guard::Error>(())
//! # })?;
//! # Ok::<(), mcp_roots_guard::Error>(())
//! ```
//!
//! # Confine the process
//!
//! On Linux, the feature `process` makes the kernel confine code that bypasses the guard to the
//! allowed directories. In place of `#[tokio::main]`, write a `main` that builds the boundary,
//! confines the process before any other thread exists, logs the report, and then builds the
//! runtime. `Confinement::confine_process` has an example, and lists the operations that remain
//! possible.
//!
//! # What to log
//!
//! The text of a refusal is for the sender of the request. All other details are only for your log:
//! never include [`operator_detail`](crate::Error::operator_detail),
//! [`Roots::rejected`](crate::Roots::rejected) or a [`Root`](crate::Root) in a response. On stdio,
//! log to standard error, because standard output carries the protocol.
//!
//! With the feature `tracing`, the crate emits [events](crate#events). A subscriber must not call
//! the guard, whose operations emit events themselves. Without the feature, log each rejected entry
//! with its error, and each refusal with its [`code`](crate::Error::code), its
//! [`raw_os_error`](crate::Error::raw_os_error) and its `operator_detail`.
//! Format the [entry](crate::RejectedEntry::entry), which is the client's text, with `{:?}`, which
//! escapes it.
//!
//! # An audit log
//!
//! This needs the features `tracing` and `rmcp`. `examples/audit.rs` is a layer for
//! `tracing_subscriber` that writes each [event](crate#events) as one line of JSON, and says what
//! becomes of requests when the disk is full. It copies fields by name, without `error` and
//! `detail`, so the log contains no content of files, and no name outside the roots that the client
//! did not send. `tests/data/audit.txt` is an attack with its log.
//!
//! Only the server knows which tool was called. It runs each call in a span, which the guard enters
//! on its own threads: `guard.tool(&ctx, &call, work).instrument(span).await`, where `span` is
//! `tracing::info_span!("call", tool = &*call.name)`. Over HTTP, add the authenticated user to the
//! span as `client`.
//!
//! # Pass a file to another library
//!
//! Pass the verified open file, never the path, which may lead to another file by the time the
//! library opens it: `roots.open(path)?` implements `Read`, `Write` and `Seek`, and
//! [`into_std`](crate::OpenFile::into_std) makes a `std::fs::File` of it.
//!
//! A library that takes only a path can be given:
//!
//! - on Linux, `/proc/self/fd/N`, where `N` is the `as_raw_fd()` of a directory from
//!   [`open_unguarded_dir`](crate::CheckedPath::open_unguarded_dir), which must stay open
//!   meanwhile. It leads to exactly the directory that was checked, even if another has replaced
//!   it. No other protection remains: the library can follow symlinks and `..` to paths outside,
//!   and can write even if the root is read-only.
//! - on every system, a temporary copy of a single file, made with `std::io::copy` from
//!   `roots.open(path)?`. It loses no protection, and changes by the library affect only the copy.
//! - if nothing else writes to the root, the [path](crate::Proof::to_unguarded_path) itself.
//!   Another process that does can make it lead elsewhere.
//!
//! # Try to break your own server
//!
//! A tool that bypasses the guard looks like any other until a client requests the wrong file.
//! Create these files in a directory that your server serves, and call each tool with each of the
//! paths. No response may contain a byte of `secret.txt`, no call may hang, and the refusals must
//! be the same whether or not the file outside the root exists.
//!
//! ```sh
//! mkdir -p work/root && cd work && echo secret >secret.txt
//! ln -s ../secret.txt root/link && ln -s .. root/up && ln -s ../new.txt root/dangling
//! mkfifo root/fifo
//! # link, up/secret.txt, up/missing.txt, ../secret.txt, dangling (to write), fifo, /etc/passwd,
//! # root/../secret.txt, file:///etc/passwd, file:///%2e%2e/etc/passwd, /proc/self/root/etc/passwd
//! ```
//!
//! # A server with another SDK
//!
//! An SDK that handles each message in a task of its own may begin a call before it runs the
//! handler of an earlier `list_changed`, so a handler is too late. Create an
//! [`Observer`](crate::Observer) for each connection, which sees each message before the SDK does.
//! If the SDK accepts a reader, copy the client's stream to it line by line:
//!
//! ```
//! use mcp_roots_guard::limits::MESSAGE_BYTES;
//! use mcp_roots_guard::{Access, Boundary, Guard, Observer, RootsSource};
//! use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
//! use tokio::io::{BufReader, DuplexStream};
//! # use mcp_roots_guard::RootsResponse;
//!
//! /// Copies a stream, and observes each line before any of it can be read.
//! fn observed<R>(observer: Observer, stdin: R) -> DuplexStream
//! where
//!     R: AsyncRead + Send + Unpin + 'static,
//! {
//!     let (reader, mut writer) = tokio::io::duplex(1 << 16);
//!     tokio::spawn(async move {
//!         let mut stdin = BufReader::new(stdin);
//!         loop {
//!             let mut line = Vec::new();
//!             // A longer line is copied in pieces, each of which counts as a change.
//!             let mut limited = (&mut stdin).take(MESSAGE_BYTES as u64);
//!             if limited.read_until(b'\n', &mut line).await? == 0 {
//!                 return std::io::Result::Ok(());
//!             }
//!             observer.observe(&line);
//!             writer.write_all(&line).await?;
//!         }
//!     });
//!     reader
//! }
//!
//! /// A tool. `ask` sends `roots/list` to the client, within this request.
//! async fn read_file(
//!     observer: &Observer,
//!     path: String,
//!     ask: impl RootsSource,
//! ) -> Result<String, Box<dyn std::error::Error>> {
//!     let session = observer.session()?;
//!     let roots = session.roots(ask).await?;
//!     // Reading blocks, so it runs on a thread of the guard, when it is this client's turn.
//!     Ok(session.run(move || roots.read_to_string(path, 1 << 20)).await?)
//! }
//! # /// The SDK: parses each line, and handles it in a task.
//! # async fn serve(reader: impl AsyncRead + Unpin) -> std::io::Result<usize> {
//! #     let mut lines = BufReader::new(reader).lines();
//! #     let mut count = 0;
//! #     while lines.next_line().await?.is_some() { count += 1; }
//! #     Ok(count)
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! # let work = tempfile::tempdir()?;
//! # std::fs::create_dir_all(work.path().join("site"))?;
//! # std::fs::write(work.path().join("site/a.txt"), "a")?;
//! # std::fs::write(work.path().join("b.txt"), "b")?;
//! # let path = work.path().join("site").to_str().unwrap().replace('\\', "/");
//! # let uri = if cfg!(windows) { "file:///" } else { "file://" }.to_owned() + &path;
//! # let stdin: &'static [u8] = concat!(
//! #     r#"{"jsonrpc":"2.0","id":0,"method":"initialize","#,
//! #     r#""params":{"capabilities":{"roots":{"listChanged":true}}}}"#, "\n",
//! #     r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#, "\n",
//! # ).as_bytes();
//! let boundary = Boundary::builder().directory(work.path(), Access::ReadOnly).build()?;
//! let observer = Guard::new(boundary).observer();
//! # let list = serde_json::json!({"roots": [{"uri": uri}]});
//! # let ask = |_: Option<String>| std::future::ready(RootsResponse::from_result(list.clone()));
//! # assert!(read_file(&observer, "a.txt".into(), ask).await.is_err());
//! // Give the SDK this reader in place of `stdin`, such as `tokio::io::stdin()`.
//! let reader = observed(observer.clone(), stdin);
//! # assert_eq!(serve(reader).await?, 2);
//! # assert_eq!(read_file(&observer, "a.txt".into(), ask).await?, "a");
//! # let refused = read_file(&observer, "../b.txt".into(), ask).await.unwrap_err();
//! # let refused = refused.downcast::<mcp_roots_guard::Error>()?;
//! # assert_eq!(refused.kind(), mcp_roots_guard::ErrorKind::OutsideRoots);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If the SDK reads standard input itself, wrap its transport, as `examples/rust-mcp-sdk` does for
//! rust-mcp-sdk 1:
//!
//! ```text
//! while let Some(message) = messages.next().await {
//!     observer.observe(&json_of(&message));
//!     sender.send(message).await?; // to the SDK
//! }
//! ```
//!
//! Such a wrapper does not see a message that the SDK's own transport drops, so copy the stream if
//! you can. rust-mcp-sdk drops messages that it cannot parse, such as a `list_changed` without
//! `jsonrpc`, and lines that are longer than its limit.

#[cfg_attr(
    all(target_os = "linux", feature = "process"),
    doc = include_str!("../docs/recipes/git.md")
)]
#[cfg_attr(
    not(all(target_os = "linux", feature = "process")),
    doc = "How to run git in a workspace, for Linux and the feature `process`."
)]
pub mod git {}

#[doc = include_str!("../docs/recipes/stop-a-turn.md")]
pub mod stop_a_turn {}
