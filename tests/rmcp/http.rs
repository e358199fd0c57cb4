//! Streamable HTTP on the loopback interface, with several independent clients.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mcp_roots_guard::Guard;
use mcp_roots_guard::rmcp::ClientKey;
use rmcp::transport::common::server_side_http::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{
    EventStore, EventStream, SessionManager, SessionState, SessionStore, SessionStoreError,
};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::raw_client::{
    announcing, answered, call, declaring, initialize, list, list_changed, list_resources,
    stateless, tool_text,
};
use crate::server::{Server, Tree, refusal};
use crate::sessions::wait_until_sessions;

/// A server. The header `x-user` stands for the user that an authentication layer would determine.
pub(crate) struct Http {
    address: SocketAddr,
}

/// A client's keep-alive connection.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    /// Header lines of every request.
    headers: String,
    /// The part of a chunked body that was received but not read yet.
    text: String,
    open: bool,
}

/// A protocol session, and the client's first connection.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    /// The header line that identifies the session.
    pub(crate) id: String,
}

/// The head of a response.
pub(crate) struct Head {
    pub(crate) status: u16,
    session: Option<String>,
}

impl Http {
    pub(crate) async fn serve(guard: &Guard) -> Self {
        Self::reporting(guard, StreamableHttpServerConfig::default()).await.0
    }

    /// Also returns the reports of the server's tools.
    pub(crate) async fn reporting(
        guard: &Guard,
        config: StreamableHttpServerConfig,
    ) -> (Self, mpsc::UnboundedReceiver<String>) {
        let (server, reports) = Server::new(guard);
        let sessions = Arc::new(guard.wrap_sessions(LocalSessionManager::default()));
        let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let service = service.clone();
                let answer =
                    service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
                        let user = request
                            .headers()
                            .get("x-user")
                            .and_then(|user: &HeaderValue| user.to_str().ok());
                        if let Some(key) = user.map(ClientKey::principal) {
                            request.extensions_mut().insert(key);
                        }
                        let service = service.clone();
                        async move { Ok::<_, Infallible>(service.handle(request).await) }
                    });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), answer));
            }
        });
        (Self { address }, reports)
    }

    pub(crate) async fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let headers = "Host: 127.0.0.1\r\n\
            Accept: application/json, text/event-stream\r\n\
            Content-Type: application/json\r\n";
        Connection {
            stream: BufReader::new(stream),
            headers: headers.into(),
            text: String::new(),
            open: false,
        }
    }

    /// Starts a session of a client with these capabilities.
    pub(crate) async fn begin(&self, capabilities: Value) -> Session {
        self.begin_on(self.connect().await, capabilities).await
    }

    pub(crate) async fn begin_on(
        &self,
        mut connection: Connection,
        capabilities: Value,
    ) -> Session {
        let head = connection.post("", &initialize(capabilities)).await;
        while connection.event().await.is_some() {}
        let mut session =
            Session { connection, id: format!("mcp-session-id: {}\r\n", head.session.unwrap()) };
        session.notify(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        session
    }
}

impl Connection {
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.extend([name, ": ", value, "\r\n"]);
        self
    }

    pub(crate) async fn post(&mut self, more: &str, body: &Value) -> Head {
        self.request("POST", more, &body.to_string()).await
    }

    pub(crate) async fn request(&mut self, method: &str, more: &str, body: &str) -> Head {
        assert!(!self.open, "the previous response was not read");
        let (headers, length) = (&self.headers, body.len());
        let head =
            format!("{method} /mcp HTTP/1.1\r\n{headers}{more}Content-Length: {length}\r\n\r\n");
        let request = format!("{head}{body}");
        self.stream.write_all(request.as_bytes()).await.unwrap();
        let status = self.line().await.split(' ').nth(1).unwrap().parse().unwrap();
        let (mut session, mut length) = (None, 0);
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else { break };
            match &*name.to_ascii_lowercase() {
                "mcp-session-id" => session = Some(value.to_owned()),
                "content-length" => length = value.parse().unwrap(),
                "transfer-encoding" => self.open = true,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        // A response that is not an event stream is read through the same method.
        self.text = String::from_utf8(body).unwrap();
        Head { status, session }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        // The long form of the tests waits longer, because it also measures slow answers.
        let long = std::env::var_os("GUARD_FAIRNESS_SECONDS").is_some();
        let patience = Duration::from_secs(if long { 600 } else { 20 });
        let read = tokio::time::timeout(patience, self.stream.read_line(&mut line)).await;
        read.expect("the server sent nothing in time").unwrap();
        line.trim_end().to_owned()
    }

    /// The next message of the response, or `None` at its end.
    pub(crate) async fn event(&mut self) -> Option<Value> {
        loop {
            while self.open {
                let Some((line, rest)) = self.text.split_once('\n') else { break };
                let data = line
                    .strip_prefix("data:")
                    .map(str::trim)
                    .filter(|data| !data.is_empty())
                    .map(str::to_owned);
                self.text = rest.into();
                if let Some(data) = data {
                    return Some(serde_json::from_str(&data).unwrap());
                }
            }
            if !self.open {
                return serde_json::from_str(&std::mem::take(&mut self.text)).ok();
            }
            let length = usize::from_str_radix(&self.line().await, 16).unwrap();
            let mut chunk = vec![0; length];
            self.stream.read_exact(&mut chunk).await.unwrap();
            self.line().await;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            self.open = length > 0;
        }
    }

    /// Sends a request of the stateless era and returns the response.
    async fn stateless(&mut self, request: &Value) -> Value {
        let method = request["method"].as_str().unwrap();
        let name = request["params"]["name"].as_str();
        let name = name.map_or_else(String::new, |name| format!("Mcp-Name: {name}\r\n"));
        let more = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}");
        self.post(&more, request).await;
        let answer = self.event().await.unwrap();
        assert_eq!(self.event().await, None);
        answer
    }
}

impl Session {
    pub(crate) async fn notify(&mut self, notification: &Value) {
        assert_eq!(self.connection.post(&self.id, notification).await.status, 202);
    }

    /// Sends a call and returns its text. A request for roots is answered over the other
    /// connection.
    pub(crate) async fn call(
        &mut self,
        answers: &mut Connection,
        request: &Value,
        roots: &Value,
    ) -> Result<String, String> {
        self.connection.post(&self.id, request).await;
        let mut result = None;
        while let Some(message) = self.connection.event().await {
            if message["method"] == "roots/list" {
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": roots });
                assert_eq!(answers.post(&self.id, &answer).await.status, 202);
            } else {
                result = Some(message);
            }
        }
        tool_text(&result.expect("the response ended without a result"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_clients_have_separate_roots() {
    let tree = Arc::new(Tree::new());
    let guard = tree.guard();
    let http = Arc::new(Http::serve(&guard).await);
    let client = |name: &'static str, other: &'static str| {
        let (tree, http) = (tree.clone(), http.clone());
        tokio::spawn(async move {
            let mut session = http.begin(announcing()).await;
            let mut answers = http.connect().await;
            let mut current = name;
            for round in 0..100 {
                // An accepted change counts for the next call, whatever connection it came by.
                if round % 5 == 4 {
                    if round % 10 == 9 {
                        session.notify(&list_changed()).await;
                    } else {
                        let head = answers.post(&session.id, &list_changed()).await;
                        assert_eq!(head.status, 202);
                    }
                    current = if current == name { "c" } else { name };
                }
                let roots = list([tree.uri(&format!("op/{current}"))]);
                let read = session.call(&mut answers, &call(1, "read", "in.txt"), &roots).await;
                assert_eq!(read.as_deref(), Ok(current));
                let path = tree.path(&format!("op/{other}/in.txt"));
                let read = session.call(&mut answers, &call(2, "read", &path), &roots).await;
                assert_eq!(read, Err(refusal(&path, "outside_roots")));
            }
            session
        })
    };
    let (one, other) = tokio::join!(client("a", "b"), client("b", "a"));
    assert_eq!(guard.sessions(), 2);
    for mut session in [one.unwrap(), other.unwrap()] {
        let left = guard.sessions() - 1;
        session.connection.request("DELETE", &session.id, "").await;
        wait_until_sessions(&guard, left).await;
    }
}

/// Starts a session of the user Alice with the root `a`. Returns it with a connection for her
/// answers, and the list of roots.
async fn session_of_alice(tree: &Tree, http: &Http) -> (Session, Connection, Value) {
    let (hers, mut answers) = (http.connect().await, http.connect().await.with("x-user", "alice"));
    let mut session = http.begin_on(hers.with("x-user", "alice"), announcing()).await;
    let roots = list([tree.uri("op/a")]);
    assert_eq!(
        session.call(&mut answers, &call(1, "read", "in.txt"), &roots).await.as_deref(),
        Ok("a")
    );
    (session, answers, roots)
}

/// Nor can another user initialize the session again, to take it over.
#[tokio::test]
async fn a_session_serves_only_its_principal() {
    let tree = Tree::new();
    let http = Http::serve(&tree.guard()).await;
    let (mut session, mut answers, roots) = session_of_alice(&tree, &http).await;
    let mut mallory = http.connect().await.with("x-user", "mallory");
    for version in ["2025-11-25", "2026-07-28"] {
        let mut initialize = initialize(json!({}));
        initialize["params"]["protocolVersion"] = json!(version);
        mallory.post(&session.id, &initialize).await;
        while mallory.event().await.is_some() {}
    }
    for stranger in [mallory, http.connect().await] {
        let original = std::mem::replace(&mut session.connection, stranger);
        for path in ["in.txt", "c/in.txt"] {
            let read = session.call(&mut answers, &call(1, "read", path), &roots).await;
            assert_eq!(read, Err("the request belongs to no known session".into()));
        }
        session.connection = original;
    }
    assert_eq!(
        session.call(&mut answers, &call(1, "read", "in.txt"), &roots).await.as_deref(),
        Ok("a")
    );
}

#[test]
fn the_event_store_is_that_of_the_wrapped_manager() {
    let tree = Tree::new();
    let with =
        |manager: LocalSessionManager| tree.guard().wrap_sessions(manager).event_store().is_some();
    assert!(!with(LocalSessionManager::default()));
    assert!(with(LocalSessionManager::default().with_event_store(Arc::new(Store::default()))));
}

#[tokio::test]
async fn a_restored_session_is_asked_again_and_narrows_as_before() {
    let tree = Tree::new();
    let store = Arc::new(Store::default());
    let mut instances = Vec::new();
    for _ in 0..2 {
        let mut config = StreamableHttpServerConfig::default();
        config.session_store = Some(store.clone());
        instances.push(Http::reporting(&tree.guard(), config).await.0);
    }
    let mut session = instances[0].begin(announcing()).await;
    session.connection = instances[1].connect().await;
    let (mut answers, path) = (instances[1].connect().await, tree.path("op/c/in.txt"));
    let (a, b) = (list([tree.uri("op/a")]), list([tree.uri("op/b")]));
    assert_eq!(
        session.call(&mut answers, &call(1, "read", "in.txt"), &a).await.as_deref(),
        Ok("a")
    );
    let refused = session.call(&mut answers, &call(2, "read", &path), &b).await;
    assert_eq!(refused, Err(refusal(&path, "outside_roots")));
    session.notify(&list_changed()).await;
    assert_eq!(
        session.call(&mut answers, &call(3, "read", "in.txt"), &b).await.as_deref(),
        Ok("b")
    );
}

/// A store shared by several instances of a server.
#[derive(Default)]
struct Store(Mutex<HashMap<String, SessionState>>);

impl EventStore for Store {
    fn store_event<'s: 'f, 'i: 'f, 'm: 'f, 'f>(
        &'s self,
        _: &'i str,
        _: &'m ServerSseMessage,
    ) -> Pin<Box<dyn Future<Output = Result<String, SessionStoreError>> + Send + 'f>> {
        Box::pin(std::future::ready(Ok(String::new())))
    }

    fn replay_events_after<'s: 'f, 'i: 'f, 'f>(
        &'s self,
        _: &'i str,
    ) -> Pin<Box<dyn Future<Output = Result<EventStream, SessionStoreError>> + Send + 'f>> {
        Box::pin(std::future::ready(Err("no events are stored".into())))
    }
}

type Stored<'a, T> = Pin<Box<dyn Future<Output = Result<T, SessionStoreError>> + Send + 'a>>;

impl SessionStore for Store {
    fn load<'s: 'f, 'i: 'f, 'f>(&'s self, id: &'i str) -> Stored<'f, Option<SessionState>> {
        Box::pin(std::future::ready(Ok(self.0.lock().unwrap().get(id).cloned())))
    }

    fn store<'s: 'f, 'i: 'f, 't: 'f, 'f>(
        &'s self,
        id: &'i str,
        state: &'t SessionState,
    ) -> Stored<'f, ()> {
        self.0.lock().unwrap().insert(id.to_owned(), state.clone());
        Box::pin(std::future::ready(Ok(())))
    }

    fn delete<'s: 'f, 'i: 'f, 'f>(&'s self, id: &'i str) -> Stored<'f, ()> {
        self.0.lock().unwrap().remove(id);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Nothing that a request sends is visible to the next one, even if both have the key of one user.
#[tokio::test]
async fn without_sessions_nothing_is_kept_by_key() {
    let tree = Tree::new();
    let guard = tree.guard();
    let http = Http::serve(&guard).await;
    let read = stateless(call(1, "read", "in.txt"), declaring());
    let answered = answered(call(2, "read", "in.txt"), &list([tree.uri("op/a")]));
    let listing = stateless(list_resources(), declaring());
    let connect = async |user: Option<&str>| {
        let connection = http.connect().await;
        match user {
            Some(user) => connection.with("x-user", user),
            None => connection,
        }
    };
    for user in [None, Some("alice")] {
        let mut one = connect(user).await;
        assert_eq!(one.stateless(&read).await["result"]["resultType"], "input_required");
        assert_eq!(tool_text(&one.stateless(&answered).await).as_deref(), Ok("a"));
        let listed = one.stateless(&listing).await;
        assert_eq!(listed["result"]["resources"], json!([]), "{listed}");
        assert_eq!(one.stateless(&read).await["result"]["resultType"], "input_required");
    }
    let debug = format!("{guard:?}");
    assert!(debug.contains("cached: 0,"), "{debug}");
}
