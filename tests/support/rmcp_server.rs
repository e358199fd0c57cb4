//! Fixtures for the tests of the rmcp adapter: a tree, a server with guarded tools, and a client
//! that answers from a script.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{Access, Boundary, ClientRoots, Guard, GuardBuilder, Session, WalkOptions};
use rmcp::handler::server::ServerHandler;
use rmcp::handler::server::tool::{InputResponses, IntoCallToolResult, RequestState};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    ElicitRequest, ElicitRequestParams, ErrorCode, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Implementation, InputRequest, InputRequests, InputRequiredResult,
    ListResourcesResult, ListRootsResult, PaginatedRequestParams, PromptMessage, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, Role, Root, RootsCapabilities, ServerCapabilities, ServerConfig,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RoleClient,
    RoleServer, RunningService, ServiceError, ServiceExt,
};
use rmcp::{ClientHandler, ErrorData};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The files `op/{a,b,c}/in.txt`, each containing the name of its directory, and `secret.txt`
/// outside `op`.
pub(crate) struct Tree {
    tree: crate::tree::Tree,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let files = "file op/a/in.txt = a; file op/b/in.txt = b; file op/c/in.txt = c
            file secret.txt = SECRET";
        let tree = crate::tree::Tree::new(files);
        tree.add("link op/a/out -> ../../secret.txt");
        Self { tree }
    }

    pub(crate) fn add(&self, text: &str) {
        self.tree.add(text);
    }

    pub(crate) fn path(&self, below: &str) -> String {
        self.tree.path(below).to_str().unwrap().to_owned()
    }

    pub(crate) fn uri(&self, below: &str) -> String {
        self.tree.uri(below)
    }

    /// A builder for a guard with the allowed directory `op`.
    pub(crate) fn builder(&self) -> GuardBuilder {
        self.builder_for(ClientRoots::Narrow)
    }

    pub(crate) fn builder_for(&self, client_roots: ClientRoots) -> GuardBuilder {
        let boundary = Boundary::builder().directory(self.path("op"), Access::ReadWrite);
        let guard = Guard::builder(boundary.build().unwrap()).client_roots(client_roots);
        guard.fetch_limit(Duration::from_secs(60))
    }

    pub(crate) fn guard(&self) -> Guard {
        self.builder().build().unwrap()
    }
}

/// A server whose tools report to the tests.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) guard: Guard,
    pub(crate) reporter: mpsc::UnboundedSender<String>,
    /// Sessions kept by the tool `hold` after its request ends.
    pub(crate) kept_sessions: Arc<Mutex<Vec<Session>>>,
}

impl Server {
    pub(crate) fn new(guard: &Guard) -> (Self, mpsc::UnboundedReceiver<String>) {
        let (reporter, reports) = mpsc::unbounded_channel();
        (Self { guard: guard.clone(), reporter, kept_sessions: Arc::default() }, reports)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts();
        ServerConfig::new(capabilities.build())
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (guard, path, reporter) = (&self.guard, path_of(&call), self.reporter.clone());
        match &*call.name {
            "read" => {
                guard.tool(&ctx, &call, move |roots| Ok(roots.read_to_string(path, 1000)?)).await
            }
            // Reads a file in the directory that the argument `workspace` names.
            "read_in" => {
                let workspace = argument(&call, "workspace");
                guard
                    .tool(&ctx, &call, move |roots| {
                        Ok(roots.within(&workspace)?.read_to_string(path, 1000)?)
                    })
                    .await
            }
            "write" => {
                guard
                    .tool(&ctx, &call, move |roots| {
                        Ok(roots.write(path, "new").map(|()| "written".to_owned())?)
                    })
                    .await
            }
            // Asks the user first, and returns the answer.
            "ask" => {
                let work = move |roots: RequestRoots| {
                    let answers = json!(roots.responses());
                    if answers.as_object().is_none_or(serde_json::Map::is_empty) {
                        return Ok(CallToolResponse::from(own_question()));
                    }
                    let text = format!("{} {answers}", roots.read_to_string(path, 1000)?);
                    Ok(CallToolResult::success(vec![rmcp::model::ContentBlock::text(text)]).into())
                };
                guard.tool(&ctx, &call, work).await
            }
            // Runs until its roots may no longer be used, but for ten seconds at most.
            "walk" => {
                let work = move |roots: RequestRoots| {
                    reporter.send("walking".into()).unwrap();
                    for _ in 0..10_000 {
                        if let Err(error) = roots.ensure_usable() {
                            let _ = reporter.send(format!("stopped: {}", error.code()));
                            return Err(error.into());
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok("the work was not stopped".to_owned())
                };
                guard.tool(&ctx, &call, work).await
            }
            // Reads 100,000 files, as a text search would. It walks the same tree repeatedly.
            "search" => {
                let work = move |roots: RequestRoots| {
                    let mut read = 0;
                    while read < 100_000 {
                        let mut walk = roots.walk(&path, WalkOptions::default())?;
                        while let Some(entry) = walk.next_entry()? {
                            entry.read(1000)?;
                            read += 1;
                        }
                    }
                    let _ = reporter.send("searched".into());
                    Ok(read.to_string())
                };
                guard.tool(&ctx, &call, work).await
            }
            "hold" => {
                let session = guard.session_of(&ctx.extensions).unwrap();
                self.kept_sessions.lock().unwrap().push(session);
                Ok(CallToolResult::success(Vec::new()).into())
            }
            "panic" => {
                guard
                    .tool(&ctx, &call, |_| -> Result<String, HandlerError> { panic!("on purpose") })
                    .await
            }
            // The work succeeds, but its result panics when it is converted.
            "unwritten" => guard.tool(&ctx, &call, |_| Ok(Unwritable)).await,
            "fail" => {
                guard
                    .tool(&ctx, &call, |_| Err::<String, _>(HandlerError::new("in my own words")))
                    .await
            }
            // Uses `?` on errors of any type and converts them in one place.
            "any" => {
                type AnyError = Box<dyn std::error::Error + Send + Sync>;
                let any = move |roots: &RequestRoots| -> Result<String, AnyError> {
                    let text = roots.read_to_string(&path, 1000)?;
                    let number: u32 = text.parse()?;
                    Ok(number.to_string())
                };
                guard.tool(&ctx, &call, move |roots| any(&roots).map_err(HandlerError::other)).await
            }
            "bad" => {
                let bad = || ErrorData::invalid_params("no such thing", None);
                guard.tool(&ctx, &call, move |_| Err::<String, _>(bad().into())).await
            }
            other => Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        }
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = params.uri.clone();
        let work = move |roots: RequestRoots| {
            let text = roots.read_to_string(&uri, 1000)?;
            Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri)]))
        };
        self.guard.respond(&ctx, &params, async |roots| roots.run(work).await).await
    }

    /// Serves the prompt `short` with blocking work, and any other with asynchronous work.
    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let message =
            |text: String| GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]);
        if params.name == "short" {
            let first =
                move |roots: RequestRoots| Ok(message(roots.read_to_string("in.txt", 1000)?));
            let work = async |roots: RequestRoots| roots.run(first).await;
            return self.guard.respond(&ctx, &params, work).await;
        }
        let work = async |roots: RequestRoots| {
            if roots.responses().is_empty() {
                return Ok(GetPromptResponse::from(own_question()));
            }
            Ok(message(roots.read_to_string("in.txt", 1000)?).into())
        };
        self.guard.respond(&ctx, &params, work).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let list = |roots: RequestRoots| {
            let roots = uris(&roots)?.into_iter().map(|uri| Resource::new(uri, "root"));
            Ok(ListResourcesResult::with_all_items(roots.collect()))
        };
        self.guard.request_without_input(&ctx, None, list).await
    }

    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        let _ = self.reporter.send("changed".into());
    }
}

/// The URIs of the roots in force.
pub(crate) fn uris(roots: &RequestRoots) -> Result<Vec<String>, HandlerError> {
    roots.iter().map(|root| Ok(roots.check(root.path())?.uri())).collect()
}

/// A result that panics when it is converted to a response.
pub(crate) struct Unwritable;

impl IntoCallToolResult for Unwritable {
    fn into_call_tool_result(self) -> Result<CallToolResponse, ErrorData> {
        panic!("on purpose")
    }
}

/// A server built with rmcp's macros. Its tool uses the request state.
pub(crate) struct Macros(pub(crate) Guard);

#[rmcp::tool_router(server_handler)]
impl Macros {
    #[rmcp::tool(description = "Reads a file and returns the request state")]
    async fn read(
        &self,
        Parameters(args): Parameters<serde_json::Map<String, Value>>,
        ctx: RequestContext<RoleServer>,
        answers: InputResponses,
        state: RequestState,
    ) -> Result<CallToolResponse, ErrorData> {
        let kept = state.0.clone().unwrap_or_default();
        let work = move |roots: RequestRoots| {
            let path = args.get("path").and_then(Value::as_str).unwrap_or_default();
            Ok(format!("{} {kept}", roots.read_to_string(path, 1000)?))
        };
        self.0.tool(&ctx, (answers, state), work).await
    }
}

/// The `path` argument of a call.
pub(crate) fn path_of(call: &CallToolRequestParams) -> String {
    argument(call, "path")
}

fn argument(call: &CallToolRequestParams, name: &str) -> String {
    call.arguments.as_ref().and_then(|args| args.get(name)?.as_str()).unwrap_or_default().to_owned()
}

fn own_question() -> InputRequiredResult {
    let schema = serde_json::from_value(
        json!({ "type": "object", "properties": { "sure": { "type": "boolean" } } }),
    );
    let message = "Sure?".to_owned();
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: schema.unwrap(),
    };
    let question = InputRequest::Elicitation(ElicitRequest::new(params));
    InputRequiredResult::new(
        Some(InputRequests::from([("mine".to_owned(), question)])),
        Some("my state".into()),
    )
}

/// An rmcp client that counts `roots/list` requests.
#[derive(Clone)]
pub(crate) struct Client {
    declares: Option<RootsCapabilities>,
    /// The roots, or none if the client answers with an error.
    uris: Arc<Mutex<Option<Vec<String>>>>,
    asked: Arc<AtomicUsize>,
}

impl Client {
    /// A client that declares `listChanged`, and answers with an error.
    pub(crate) fn failing() -> Self {
        let mut declares = RootsCapabilities::default();
        declares.list_changed = Some(true);
        Self { declares: Some(declares), uris: Arc::default(), asked: Arc::default() }
    }

    /// A client that declares `listChanged`.
    pub(crate) fn of(uris: impl IntoIterator<Item = String>) -> Self {
        let client = Self::failing();
        client.set_roots(uris);
        client
    }

    pub(crate) fn silent(self) -> Self {
        Self { declares: Some(RootsCapabilities::default()), ..self }
    }

    pub(crate) fn undeclared() -> Self {
        Self { declares: None, ..Self::failing() }
    }

    pub(crate) fn set_roots(&self, uris: impl IntoIterator<Item = String>) {
        *self.uris.lock().unwrap() = Some(uris.into_iter().collect());
    }

    pub(crate) fn times_asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots.clone_from(&self.declares);
        ClientConfig::new(capabilities, Implementation::new("test", "1"))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let uris = self.uris.lock().unwrap().clone();
        let none = || ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no roots here", None);
        let roots = uris.ok_or_else(none)?.into_iter().map(Root::new);
        Ok(ListRootsResult::new(roots.collect()))
    }
}

/// The two eras of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Sessions,
    Stateless,
}

pub(crate) const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

impl Era {
    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Sessions => ClientLifecycleMode::Initialize,
            Self::Stateless => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        }
    }
}

/// A client connected to a server by a pipe.
pub(crate) struct Pair {
    pub(crate) client: RunningService<RoleClient, Client>,
}

pub(crate) async fn connect(guard: &Guard, client: &Client, era: Era) -> Pair {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (server, _) = Server::new(guard);
    let transport = guard.wrap(far);
    tokio::spawn(async move { server.serve(transport).await.unwrap().waiting().await });
    let client = client.clone().serve_with_lifecycle(near, era.lifecycle()).await.unwrap();
    Pair { client }
}

impl Pair {
    /// Calls a tool. The inner result is the tool's text, as `Err` if the response is a tool error.
    /// A protocol error is the outer error.
    pub(crate) async fn call(
        &self,
        tool: &'static str,
        path: &str,
    ) -> Result<Result<String, String>, ServiceError> {
        let Value::Object(arguments) = json!({ "path": path }) else { unreachable!() };
        let call = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.client.call_tool(call).await?;
        let texts = result.content.iter().filter_map(|block| block.as_text());
        let text = texts.map(|text| text.text.clone()).collect();
        Ok(if result.is_error == Some(true) { Err(text) } else { Ok(text) })
    }

    pub(crate) async fn read(&self, path: &str) -> Result<String, String> {
        self.call("read", path).await.unwrap()
    }
}

/// Waits for the next report of a tool. Returns `None` if none arrives within 20 seconds.
pub(crate) async fn next_report(reports: &mut mpsc::UnboundedReceiver<String>) -> Option<String> {
    tokio::time::timeout(Duration::from_secs(20), reports.recv()).await.ok().flatten()
}

/// The refusal text of a path, as the model reads it.
pub(crate) fn refusal(path: &str, code: &str) -> String {
    format!("read {path:?}: {}", reason(code))
}

/// The text of an error code.
pub(crate) fn reason(code: &str) -> &'static str {
    match code {
        "outside_roots" => "not inside the allowed directories",
        "not_found" => "no such file or directory",
        "special_file" => "not a regular file",
        "busy" => "the server is too busy for this now; try again later",
        "roots_stale" => "the client's roots changed or expired; try again",
        _ => panic!("the text of {code} is not listed here"),
    }
}

/// The refusal text for a path if the client's list is empty.
pub(crate) fn empty_list_refusal(path: &str) -> String {
    format!("read {path:?}: the client listed no directories")
}
