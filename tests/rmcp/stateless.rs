//! The stateless era: when the client is asked for its roots, which answers are accepted, and that an
//! answer counts only for its request.

use mcp_roots_guard::rmcp::{ClientInput, ROOTS_KEY, RequestRoots, Response};
use mcp_roots_guard::{Access, Boundary, ClientRoots, DirectoryOptions, Guard};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, Prompt, Resource, ResourceTemplate, ServerCapabilities, ServerConfig,
    SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::raw_client::{Raw, answered, call, declaring, list, request, stateless, tool_text};
use crate::server::{Macros, Tree, empty_list_refusal, refusal, uris};

/// Sends a call and expects the guard's question as the response.
async fn is_asked(raw: &mut Raw, path: &str) {
    raw.send(&stateless(call(1, "read", path), declaring())).await;
    let result = raw.receive().await["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert_eq!(result["inputRequests"], json!({ ROOTS_KEY: { "method": "roots/list" } }));
}

async fn read(raw: &mut Raw, path: &str, answer: &Value) -> Result<String, String> {
    raw.send(&answered(call(1, "read", path), answer)).await;
    tool_text(&raw.receive().await)
}

#[tokio::test]
async fn each_request_asks_for_roots_and_an_answer_counts_only_for_its_request() {
    let tree = Tree::new();
    let guard = tree.guard();
    let mut raw = Raw::connect(&guard);
    for name in ["a", "b"] {
        is_asked(&mut raw, "in.txt").await;
        assert_eq!(
            read(&mut raw, "in.txt", &list([tree.uri(&format!("op/{name}"))])).await.as_deref(),
            Ok(name)
        );
        is_asked(&mut raw, "in.txt").await;
    }
    let (outside, none) = (tree.path("secret.txt"), json!({ "roots": [] }));
    assert_eq!(
        read(&mut raw, &outside, &list([tree.uri(".")])).await,
        Err(refusal(&outside, "outside_roots"))
    );
    assert_eq!(read(&mut raw, "a/in.txt", &none).await, Err(empty_list_refusal("a/in.txt")));
    assert_eq!(guard.sessions(), 0);
}

#[tokio::test]
async fn an_answer_is_validated_like_any_client_input() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    let good = json!({ "uri": tree.uri("op/a") });
    assert_eq!(
        read(&mut raw, "in.txt", &json!({ "roots": [{}, good, 7] })).await.as_deref(),
        Ok("a")
    );
    for bad in [
        json!({}),
        json!(null),
        json!([]),
        json!("x"),
        json!({ "roots": good }),
        json!({ "error": { "code": 1 } }),
    ] {
        let failed = "the client's roots could not be obtained";
        assert_eq!(read(&mut raw, "a/in.txt", &bad).await, Err(failed.into()), "{bad}");
    }
    let many = list(std::iter::repeat_n("file:///x", 10_001));
    assert_eq!(
        read(&mut raw, "a/in.txt", &many).await,
        Err("the root list has more than 10000 entries".into())
    );
    // An answer under another key is not meant for the guard.
    let mut other = call(1, "read", "in.txt");
    other["params"]["inputResponses"] = json!({ "roots": list([tree.uri("op/a")]) });
    raw.send(&stateless(other, declaring())).await;
    assert_eq!(raw.receive().await["result"]["resultType"], "input_required");
}

#[tokio::test]
async fn roots_that_a_request_does_not_declare_are_neither_requested_nor_used() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    let mut unrequested_answer = answered(call(1, "read", "c/in.txt"), &list([tree.uri("op/a")]));
    unrequested_answer["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "sampling": {} });
    raw.send(&unrequested_answer).await;
    assert_eq!(tool_text(&raw.receive().await).as_deref(), Ok("c"));
    // Malformed capabilities do not count as "no roots".
    for malformed in
        [json!(null), json!(7), json!([]), json!({ "roots": true }), json!({ "roots": 1 })]
    {
        raw.send(&stateless(call(2, "read", "c/in.txt"), malformed.clone())).await;
        let answer = raw.receive().await;
        assert!(answer["error"].is_object(), "{malformed}: {answer}");
    }
    // rmcp accepts an array of the fields in order. The guard treats it as malformed.
    raw.send(&stateless(call(2, "read", "c/in.txt"), json!([null, null, null, null, null]))).await;
    assert_eq!(
        tool_text(&raw.receive().await),
        Err("the client's roots could not be obtained".into())
    );
}

#[tokio::test]
async fn the_tool_receives_its_own_state_and_answers_but_not_the_guards() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    // The guard asks first and preserves the tool's request state.
    let mut first = call(1, "ask", "in.txt");
    first["params"]["requestState"] = json!("kept");
    raw.send(&stateless(first, declaring())).await;
    let question = raw.receive().await["result"].clone();
    assert_eq!(
        (&question["resultType"], &question["requestState"]),
        (&json!("input_required"), &json!("kept"))
    );
    // The tool asks. The response contains the guard's question, the tool's question and the tool's
    // state.
    let second = answered(call(2, "ask", "in.txt"), &list([tree.uri("op/a")]));
    raw.send(&second).await;
    let both = raw.receive().await["result"].clone();
    assert_eq!(both["requestState"], "my state");
    assert_eq!(both["inputRequests"][ROOTS_KEY], json!({ "method": "roots/list" }));
    assert_eq!(both["inputRequests"]["mine"]["method"], "elicitation/create");
    // The tool receives its answer, but not the guard's.
    let mut third = answered(call(3, "ask", "in.txt"), &list([tree.uri("op/b")]));
    third["params"]["inputResponses"]["mine"] = json!({ "action": "accept" });
    raw.send(&third).await;
    assert_eq!(tool_text(&raw.receive().await).as_deref(), Ok(r#"b {"mine":{"action":"accept"}}"#));
    // The guard adds nothing for a client that declares no roots.
    raw.send(&stateless(call(4, "ask", "in.txt"), json!({ "elicitation": {} }))).await;
    let only = raw.receive().await["result"]["inputRequests"].clone();
    assert_eq!(only.as_object().unwrap().keys().collect::<Vec<_>>(), ["mine"]);
}

#[tokio::test]
async fn a_failed_answer_leaves_only_the_always_directories() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&Guard::new(with_always(&tree)));
    let [a, b] = ["op/a/in.txt", "op/b/in.txt"].map(|path| tree.path(path));
    assert_eq!(read(&mut raw, &a, &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    let failed = || Err("read \"in.txt\": the client's roots could not be obtained".to_owned());
    for answer in [json!({}), json!({ "error": { "code": 1 } })] {
        assert_eq!(read(&mut raw, &b, &answer).await.as_deref(), Ok("b"));
        assert_eq!(read(&mut raw, &a, &answer).await, Err(refusal(&a, "outside_roots")));
        assert_eq!(read(&mut raw, "in.txt", &answer).await, failed());
    }
    let many = list(std::iter::repeat_n("file:///x", 10_001));
    assert_eq!(read(&mut raw, &b, &many).await.as_deref(), Ok("b"));
    assert_eq!(read(&mut raw, "in.txt", &list([tree.uri("op/a")])).await.as_deref(), Ok("a"));
    assert_eq!(read(&mut raw, &b, &list([tree.uri("op/a")])).await.as_deref(), Ok("b"));
}

/// The directory `op/a`, and `op/b`, which is always in force.
fn with_always(tree: &Tree) -> Boundary {
    let always = DirectoryOptions::from(Access::ReadOnly).always();
    Boundary::builder()
        .directory(tree.path("op/a"), Access::ReadOnly)
        .directory(tree.path("op/b"), always)
        .build()
        .unwrap()
}

/// Each kind of list, a completion and a subscription. A client cannot be asked in any of them, so
/// they depend on the configuration and on what the request declares, and not on a list that the
/// client sent before.
#[tokio::test]
async fn requests_that_cannot_ask_serve_what_is_in_force_without_a_list() {
    let tree = Tree::new();
    let build = |client_roots| {
        let boundary = Boundary::builder().directory(tree.path("op/a"), Access::ReadOnly);
        Guard::builder(boundary.build().unwrap()).client_roots(client_roots).build().unwrap()
    };
    let allowed = || build(ClientRoots::Narrow);
    let always = || Guard::new(with_always(&tree));
    let unbounded = || Guard::new(Boundary::any_listed().build().unwrap());
    let (declares, not) = (declaring(), json!({}));
    for (guard, declared, expected) in [
        (allowed(), &declares, &[][..]),
        (allowed(), &not, &["op/a"]),
        (always(), &declares, &["op/b"]),
        (always(), &not, &["op/a", "op/b"]),
        (build(ClientRoots::Ignore), &declares, &["op/a"]),
        (build(ClientRoots::Require), &not, &[]),
        (unbounded(), &declares, &[]),
        (unbounded(), &not, &[]),
    ] {
        for is_async in [false, true] {
            let lists = Lists { guard: guard.clone(), is_async };
            let mut raw = Raw::to(lists, mpsc::unbounded_channel().1, |far| guard.wrap(far));
            // A list in an earlier request of the same connection changes nothing.
            raw.send(&answered(call(1, "read", "in.txt"), &list([tree.uri("op/a")]))).await;
            raw.receive().await;
            let expected: Vec<_> = expected.iter().map(|path| tree.uri(path)).collect();
            let complete = json!({
                "ref": { "type": "ref/resource", "uri": "file:///{path}" },
                "argument": { "name": "path", "value": "" },
            });
            for (method, params, found) in [
                ("tools/list", json!({}), "/result/tools"),
                ("prompts/list", json!({}), "/result/prompts"),
                ("resources/list", json!({}), "/result/resources"),
                ("resources/templates/list", json!({}), "/result/resourceTemplates"),
                ("completion/complete", complete, "/result/completion/values"),
            ] {
                raw.send(&stateless(request(2, method, params), declared.clone())).await;
                let answer = raw.receive().await;
                let found = answer.pointer(found).and_then(Value::as_array).unwrap_or_else(|| {
                    panic!("{method}, {declared}: {answer}");
                });
                let name = |it: &Value| {
                    let name = it.as_str().or_else(|| it["name"].as_str());
                    name.unwrap().to_owned()
                };
                let found: Vec<_> = found.iter().map(name).collect();
                assert_eq!(found, expected, "{method}, {declared}: {answer}");
            }
            let resources = json!({ "resourceSubscriptions": [tree.uri("op/a/in.txt")] });
            let listen = request(3, "subscriptions/listen", json!({ "notifications": resources }));
            raw.send(&stateless(listen, declared.clone())).await;
            let mut answer = raw.receive().await;
            while answer["id"] != 3 {
                answer = raw.receive().await;
            }
            if expected.contains(&tree.uri("op/a")) {
                assert!(answer["result"].is_object(), "{declared}: {answer}");
            } else {
                let refused = json!({ "code": "outside_roots", "uri": tree.uri("op/a/in.txt") });
                assert_eq!(answer["error"]["data"], refused, "{declared}: {answer}");
            }
        }
    }
}

/// A server whose lists and completions name the roots in force. Its subscriptions check their
/// resource, and keep nothing.
struct Lists {
    guard: Guard,
    is_async: bool,
}

impl Lists {
    /// Makes a response of the URIs of the roots in force.
    async fn named<R>(
        &self,
        ctx: &RequestContext<RoleServer>,
        of: impl FnOnce(Vec<String>) -> R + Send + 'static,
    ) -> Result<R, ErrorData>
    where
        R: Response<R> + Send + 'static,
    {
        let work = |roots: RequestRoots| Ok(of(uris(&roots)?));
        if !self.is_async {
            return self.guard.request_without_input(ctx, None, work).await;
        }
        self.guard.respond(ctx, ClientInput::default(), async |roots| roots.run(work).await).await
    }
}

impl ServerHandler for Lists {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions();
        ServerConfig::new(capabilities.build())
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.guard.tool(&ctx, &call, |roots| Ok(roots.iter().count().to_string())).await
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name| Tool::new(name, "", serde_json::Map::new());
        let list = move |names: Vec<_>| {
            ListToolsResult::with_all_items(names.into_iter().map(tool).collect())
        };
        self.named(&ctx, list).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompt = |name| Prompt::new(name, None::<String>, None);
        let list = move |names: Vec<_>| {
            ListPromptsResult::with_all_items(names.into_iter().map(prompt).collect())
        };
        self.named(&ctx, list).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resource = |name: String| Resource::new(name.clone(), name);
        let list = move |names: Vec<_>| {
            ListResourcesResult::with_all_items(names.into_iter().map(resource).collect())
        };
        self.named(&ctx, list).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = |name: String| ResourceTemplate::new(name.clone(), name);
        let list = move |names: Vec<_>| {
            ListResourceTemplatesResult::with_all_items(names.into_iter().map(template).collect())
        };
        self.named(&ctx, list).await
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = |names| CompleteResult::new(CompletionInfo::new(names).unwrap());
        self.named(&ctx, values).await
    }

    fn accepted_subscription_filter(
        &self,
        asked: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(asked.clone())
    }

    async fn listen(&self, listening: SubscriptionContext) -> Result<(), ErrorData> {
        for uri in listening.accepted().resource_subscriptions.iter().flatten() {
            let (ctx, named) = (listening.request_context(), uri.clone());
            let check = move |roots: RequestRoots| Ok(roots.check(named).map(drop)?);
            self.guard.request_without_input(ctx, Some(uri), check).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_tool_built_with_macros_receives_its_state() {
    let tree = Tree::new();
    let guard = tree.guard();
    let mut raw =
        Raw::to(Macros(guard.clone()), mpsc::unbounded_channel().1, |far| guard.wrap(far));
    let mut first = call(1, "read", "in.txt");
    first["params"]["requestState"] = json!("kept");
    raw.send(&stateless(first, declaring())).await;
    assert_eq!(raw.receive().await["result"]["requestState"], "kept");
    let mut second = answered(call(1, "read", "in.txt"), &list([tree.uri("op/a")]));
    second["params"]["requestState"] = json!("kept");
    raw.send(&second).await;
    assert_eq!(tool_text(&raw.receive().await).as_deref(), Ok("a kept"));
}

#[tokio::test]
async fn prompts_and_resources_ask_for_roots_like_tool_calls() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    let prompt = |name: &str| ("prompts/get", json!({ "name": name }), "/messages/0/content/text");
    let resource = json!({ "uri": tree.uri("op/a/in.txt") });
    for (method, params, text) in
        [prompt("short"), prompt("by hand"), ("resources/read", resource, "/contents/0/text")]
    {
        let mut send = async |responses: &Value| {
            let mut params = params.clone();
            params["inputResponses"] = responses.clone();
            raw.send(&stateless(request(1, method, params), declaring())).await;
            raw.receive().await
        };
        let asked = send(&json!({})).await;
        let question = json!({ ROOTS_KEY: { "method": "roots/list" } });
        assert_eq!(asked["result"]["inputRequests"], question, "{asked}");
        let mut responses = json!({ ROOTS_KEY: list([tree.uri("op/a")]) });
        let mut answer = send(&responses).await;
        if params["name"] == "by hand" {
            let questions = answer["result"]["inputRequests"].as_object().unwrap();
            assert_eq!(questions.keys().collect::<Vec<_>>(), [ROOTS_KEY, "mine"]);
            responses["mine"] = json!({ "action": "accept" });
            answer = send(&responses).await;
        }
        assert_eq!(answer["result"].pointer(text), Some(&json!("a")), "{answer}");
        responses[ROOTS_KEY] = list([tree.uri("none")]);
        let refused = send(&responses).await;
        assert_eq!(refused["error"]["data"]["code"], "outside_roots", "{refused}");
    }
}
