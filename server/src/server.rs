//! The MCP server: routes each request to its tool or resource handler.

use std::sync::Arc;

use hyper::http::request::Parts;
use mcp_roots_guard::limits::WALK_ENTRIES;
use mcp_roots_guard::rmcp::{ClientInput, HandlerError, RequestRoots, Response};
use mcp_roots_guard::{Guard, Roots};
use rmcp::handler::server::ServerHandler;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    ContentBlock, Implementation, InitializeRequestParams, InitializeResult,
    ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, tool_handler};

use crate::http::SessionPermit;
use crate::programs::Programs;
use crate::replaced::ConfinedDirectories;
use crate::resources::{self, Resources};

/// An MCP server that accesses files only through its guard.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) guard: Guard,
    tools: Arc<ToolRouter<Self>>,
    pub(crate) programs: Arc<Programs>,
    pub(crate) resources: Arc<Resources>,
    pub(crate) search_entries: usize,
    pub(crate) confined: ConfinedDirectories,
}

impl Server {
    /// Creates a server for the files that the guard allows, with tools that run these programs.
    /// They should have been [verified](Programs::verify).
    #[must_use]
    pub fn new(guard: Guard, programs: Programs) -> Self {
        let tools = Arc::new(Self::all_tools(&programs));
        let programs = Arc::new(programs);
        let search_entries = WALK_ENTRIES;
        Self {
            guard,
            tools,
            programs,
            resources: Arc::default(),
            search_entries,
            confined: ConfinedDirectories::default(),
        }
    }

    /// Says that the process is confined to these directories.
    #[must_use]
    pub fn confined(self, confined: ConfinedDirectories) -> Self {
        Self { confined, ..self }
    }

    /// Sets how many entries a search looks at. The default is [`WALK_ENTRIES`].
    #[must_use]
    pub fn search_entries(self, search_entries: usize) -> Self {
        Self { search_entries, ..self }
    }

    /// Does not offer the tools that change files, because clients can only read.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        let changing = Self::changing_tools().map;
        Arc::make_mut(&mut self.tools).map.retain(|name, _| !changing.contains_key(name));
        self
    }

    /// Does not offer these tools. Resources are not affected.
    ///
    /// # Errors
    ///
    /// A name is that of no tool, whether or not it is offered, and the error names the tools.
    pub fn without_tools(mut self, names: &[String]) -> Result<Self, String> {
        let all =
            Self::all_tools(&Programs { git: true, run: vec![String::new()], extras: vec![] });
        let tools = Arc::make_mut(&mut self.tools);
        for name in names.iter().map(|name| name.trim()) {
            if !all.has_route(name) {
                let all: Vec<_> = all.list_all().into_iter().map(|tool| tool.name).collect();
                let all = all.join(", ");
                return Err(format!("there is no tool {name:?} to disable, but {all}"));
            }
            tools.map.remove(name);
        }
        Ok(self)
    }

    /// The names of the tools that the server offers, in alphabetical order.
    #[must_use]
    pub fn tools(&self) -> Vec<String> {
        self.tools.list_all().into_iter().map(|tool| tool.name.into()).collect()
    }

    /// The guard that checks each request.
    #[must_use]
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Performs the work of a request with the roots in force, and returns the response.
    pub(crate) async fn respond<R, T, W>(
        &self,
        ctx: &RequestContext<RoleServer>,
        input: impl Into<ClientInput>,
        work: W,
    ) -> Result<R, ErrorData>
    where
        R: Response<T>,
        T: Send + 'static,
        W: FnOnce(RequestRoots) -> Result<T, HandlerError> + Send + 'static,
    {
        let confined = self.confined.clone();
        let work = move |roots: RequestRoots| {
            let in_force = Roots::clone(&roots);
            work(roots).map_err(|error| confined.explain(error, &in_force))
        };
        let run = |roots: RequestRoots| async move { roots.run(work).await };
        self.guard.respond(ctx, input, run).await
    }

    /// The number of tracked sessions.
    #[must_use]
    pub fn tracked(&self) -> usize {
        self.resources.tracked()
    }
}

// The handlers' futures are boxed because rmcp's request future is as large as the largest of them.
#[tool_handler(router = self.tools)]
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(
                env!("CARGO_PKG_NAME"),
                env!("CARGO_PKG_VERSION"),
            ))
            .with_instructions(
                "Reads and writes files in the allowed directories. To see these directories, \
                 call list_allowed_directories.",
            )
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if let Ok(session) = self.guard.session_of(&ctx.extensions) {
            let parts = ctx.extensions.get::<Parts>();
            let permit = parts.and_then(|parts| parts.extensions.get::<SessionPermit>());
            self.resources.follow(&session, &ctx.peer, permit.cloned());
        }
        ctx.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(route) = self.tools.map.get(&request.name) else {
            let name: String = request.name.chars().take(NAME_CHARS).collect();
            return Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None));
        };
        let called = (route.call)(ToolCallContext::new(self, request, ctx)).await;
        // A model can correct its arguments if it reads what is wrong with them.
        called.or_else(|error| match error.message.strip_prefix(INVALID_ARGUMENTS) {
            Some(why) => {
                let text = format!("invalid arguments: {why}");
                Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
            }
            None => Err(error),
        })
    }

    async fn list_resources(
        &self,
        params: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Box::pin(resources::list::list(self, params, &ctx)).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::complete::templates())
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Box::pin(resources::read::read(self, &params, &ctx)).await
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Box::pin(resources::complete::complete(self, params, &ctx)).await
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Box::pin(resources::notify::subscribe(self, params, &ctx)).await
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        resources::notify::unsubscribe(self, &params.uri, &ctx);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(resources::notify::accepted(requested))
    }

    async fn listen(&self, listening: SubscriptionContext) -> Result<(), ErrorData> {
        Box::pin(resources::notify::listen(self, &listening)).await
    }
}

/// What the error of arguments that cannot be parsed begins with in rmcp.
const INVALID_ARGUMENTS: &str = "failed to deserialize parameters: ";

/// The maximum number of characters of an unknown name in an error.
const NAME_CHARS: usize = 64;
