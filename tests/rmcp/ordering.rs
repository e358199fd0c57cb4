//! A call received after a change never uses the list from before the change. The control records
//! the change in the notification handler instead. That looks equivalent, but some calls then use
//! the old list. `http` tests the changes that HTTP accepts. A call needs longer to arrive there,
//! so this control would rarely fail.

use std::sync::{Arc, OnceLock};

use mcp_roots_guard::{
    ClientCapabilities, Guard, ListRootsResult, RootsCapability, RootsResponse, Session,
};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InitializeRequestParams,
    InitializeResult, ServerCapabilities, ServerConfig,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer};
use tokio::sync::mpsc;

use crate::raw_client::{Raw, announcing, call, list, list_changed, tool_text};
use crate::server::{Tree, path_of, refusal};

const ROUNDS: usize = if cfg!(windows) { 500 } else { 2_000 };

/// Each round sends a change, followed by a call in the withdrawn root. Returns the number of calls
/// that used the old list.
async fn stale_rounds(tree: &Tree, raw: &mut Raw) -> usize {
    let lists = [list([tree.uri("op/a")]), list([tree.uri("op/b")])];
    let paths = [tree.path("op/a/in.txt"), tree.path("op/b/in.txt")];
    raw.initialize(announcing()).await;
    assert_eq!(raw.read(&paths[0], &lists[0]).await.as_deref(), Ok("a"));
    let mut stale = 0;
    for round in 0..ROUNDS {
        let (old, new) = (round % 2, (round + 1) % 2);
        raw.write(&format!("{}\n{}\n", list_changed(), call(7, "read", &paths[old]))).await;
        stale += usize::from(is_stale(&tool_text(&raw.answer(&lists[new]).await), &paths[old]));
    }
    stale
}

/// Whether the withdrawn root was served. Panics if the call was refused for another reason.
fn is_stale(text: &Result<String, String>, path: &str) -> bool {
    assert!(text.is_ok() || *text == Err(refusal(path, "outside_roots")), "{text:?}");
    text.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_on_a_pipe_never_use_a_list_from_before_a_change() {
    let tree = Tree::new();
    let guarded = stale_rounds(&tree, &mut Raw::connect(&tree.guard())).await;
    let server = HandlerBased { guard: tree.guard(), session: Arc::default() };
    let (_, reports) = mpsc::unbounded_channel();
    let control = stale_rounds(&tree, &mut Raw::to(server, reports, |far| far)).await;
    println!(
        "pipe: of {ROUNDS} calls sent with a change, {guarded} used the old list; \
         {control} when a handler marks the change"
    );
    assert_eq!(guarded, 0);
    assert_ne!(control, 0, "the control had no stale call: does rmcp now run handlers in order?");
}

/// The control, which records a change in rmcp's notification handler.
struct HandlerBased {
    guard: Guard,
    session: Arc<OnceLock<Session>>,
}

impl ServerHandler for HandlerBased {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let session = self
            .guard
            .session(ClientCapabilities::with_roots(RootsCapability::announcing()))
            .unwrap();
        self.session.set(session).unwrap();
        self.negotiate_initialize(&request)
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let path = path_of(&call);
        let peer = &ctx.peer;
        let ask = move |_: Option<String>| async move {
            let result = peer.list_roots().await.unwrap();
            RootsResponse::List(ListRootsResult::from_uris(
                result.roots.into_iter().map(|root| root.uri),
            ))
        };
        let roots = self.session.get().unwrap().roots(ask).await.unwrap();
        Ok(match roots.read_to_string(path, 1000) {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
        }
        .into())
    }

    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        self.session.get().unwrap().list_changed();
    }
}
