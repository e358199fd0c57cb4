//! Streamable HTTP with limits. A client cannot exhaust the server's connections, sessions, memory
//! or threads by sending slowly or not reading, by sending large or intricate messages, by staying
//! idle, or by opening more and more connections.
//!
//! Clients are not authenticated, so they share all limits. The module `memory` counts the bodies,
//! the values in them and the responses of requests, and not what a session keeps: its roots, its
//! subscriptions, and the message that opened it.
//!
//! The stream of a request cannot be resumed, because a response on a resumed stream belongs to no
//! request. A request that has a result cannot be cancelled, because rmcp would keep the response.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, ORIGIN, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_roots_guard::rmcp::GuardedSessions;
use rmcp::model::{
    CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification, ErrorCode, Notification,
    RequestId,
};
use rmcp::transport::common::http_header::{
    HEADER_LAST_EVENT_ID, HEADER_MCP_PROTOCOL_VERSION, HEADER_SESSION_ID,
};
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_io_timeout::TimeoutWriter;

use crate::listen::{Listener, Stream};
use crate::log::{rarely, shortened};
use crate::memory::{Memory, Room};
use crate::server::Server;
use crate::threads::Threads;

/// Limits that all clients share, and time limits for each client.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The maximum number of concurrent connections. Further connections wait until one closes.
    pub connections: usize,
    /// The maximum number of concurrent sessions. Further sessions receive a 503 response.
    /// Stateless requests do not count.
    pub sessions: usize,
    /// The maximum time to receive the headers of a request, including the idle time before it. If
    /// it is exceeded, the connection is closed.
    pub header_time: Duration,
    /// The maximum time to receive the body of a request. If it is exceeded, the client receives a
    /// 408 response.
    pub body_time: Duration,
    /// The time in which a client must read something of a response. Otherwise, the connection is
    /// closed.
    pub write_time: Duration,
    /// The time after which a session ends if neither side has sent a message.
    pub idle_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A quarter of the 1,024 descriptors that a process can commonly open. The guard can
            // hold the same number of directories open.
            connections: 256,
            // Each listening client keeps a connection open.
            sessions: 256,
            // Longer than proxies keep an idle connection: 60 seconds (nginx), 2 minutes (Caddy). One
            // that closes first would drop a request that is on its way.
            header_time: Duration::from_secs(150),
            // Enough for the largest body at 140 KB per second.
            body_time: Duration::from_secs(30),
            // Twice the time between keep-alive messages on a stream (rmcp's `sse_keep_alive`).
            write_time: Duration::from_secs(30),
            // rmcp's default. A client whose session has ended opens a new one.
            idle_time: Duration::from_secs(5 * 60),
        }
    }
}

/// The names by which clients may address the server, in addition to those of this machine.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Values of the header `Host` that a proxy passes on: a host name, with a port or without.
    pub hosts: Vec<String>,
    /// Values of the header `Origin`, which browsers send: a scheme, a host name and a port.
    pub origins: Vec<String>,
}

/// Serves MCP under `/mcp`, and counts under `/health`, until `stop` completes. Then it ends the
/// streams of notifications, and completes the requests in flight, for which it takes at most
/// [`STOP`]. A request is accepted only if its host is this machine or among the names, and a
/// browser's only if the same is true of its page.
pub async fn serve_http(
    listener: impl Into<Listener>,
    server: Server,
    limits: Limits,
    names: Names,
    threads: Threads,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let listener = listener.into();
    let config = StreamableHttpServerConfig::default()
        .with_allowed_origins(ORIGINS.into_iter().map(Into::into).chain(names.origins))
        .with_allowed_hosts(HOSTS.into_iter().map(Into::into).chain(names.hosts))
        .with_sse_retry(None)
        .with_max_request_body_bytes(BODY);
    let calls = config.cancellation_token.clone();
    let listening = calls.child_token();
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(limits.idle_time);
    manager.session_config.sse_retry = None;
    // No stream is resumed, so nothing is kept for that.
    manager.session_config.completed_cache_ttl = Duration::ZERO;
    let sessions = Arc::new(server.guard().wrap_sessions(manager));
    let service = |config| {
        let server = server.clone();
        StreamableHttpService::new(move || Ok(server.clone()), sessions.clone(), config)
    };
    let http = Arc::new(Http {
        listening: service(config.clone().with_cancellation_token(listening.clone())),
        calls: service(config),
        sessions,
        limits,
        memory: Memory::new(),
        threads,
        connected: AtomicU64::new(0),
        requests: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        places: Arc::new(Semaphore::new(limits.sessions)),
    });
    tokio::spawn(return_memory(http.clone()));
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new());
    protocol.header_read_timeout(limits.header_time).max_buf_size(FIRST);
    let connections = Arc::new(Semaphore::new(limits.connections));
    let stopping = listening.clone();
    tokio::spawn(async move {
        stop.await;
        stopping.cancel();
    });
    let mut backlog = limits.connections;
    loop {
        let (stream, permit) = tokio::select! {
            biased;
            // Clients have already sent requests on the connections that wait to be accepted.
            accepted = accept(&listener, &connections) => accepted,
            () = async {
                listening.cancelled().await;
                listener.close_queue();
                // Those in the queue are seen when the runtime has looked again.
                sleep(QUIET).await;
            } => break,
        };
        // Those who go on connecting do not keep the server from stopping.
        let Some(left) = backlog.checked_sub(usize::from(listening.is_cancelled())) else { break };
        backlog = left;
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(limits.write_time));
        let http = http.clone();
        let counting = http.clone();
        let answer = service_fn(move |request| {
            let http = http.clone();
            async move { Ok::<_, Infallible>(http.answer_and_count(request).await) }
        });
        let stream = TokioIo::new(Box::pin(stream));
        let connection = protocol.serve_connection(stream, answer);
        let (stopping, begun) = (listening.clone(), Instant::now());
        let serving = async move {
            let mut connection = pin!(connection);
            // An error ends only this connection.
            tokio::select! {
                biased;
                // A request that has arrived is served.
                _ = connection.as_mut() => {}
                () = async {
                    stopping.cancelled().await;
                    // A client that has just connected sends its request.
                    sleep_until(begun + ARRIVAL).await;
                } => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
        };
        tokio::spawn(async move {
            counting.connected.fetch_add(1, Ordering::Relaxed);
            serving.await;
            counting.connected.fetch_sub(1, Ordering::Relaxed);
            drop(permit);
        });
    }
    drop(listener);
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let mut closed = pin!(connections.acquire_many(all));
    let is_late = timeout(STOP, &mut closed).await.is_err();
    calls.cancel();
    if is_late {
        // The ends of the streams are sent, unless a client does not read them.
        let _ = timeout(ENDS, closed).await;
    }
}

/// Returns the memory that is free to the system, soon after requests or sessions have ended. glibc
/// keeps it otherwise: 160 MB after 1,000 sessions.
async fn return_memory(http: Arc<Http>) {
    let mut before = None;
    while !http.is_stopping() {
        sleep(RETURN).await;
        let now = (http.requests.load(Ordering::Relaxed), http.places.available_permits());
        if before.replace(now) != Some(now) {
            let _ = tokio::task::spawn_blocking(trim).await;
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "no crate offers malloc_trim(3) as safe")]
fn trim() {
    // SAFETY: The call has no precondition, and moves no memory that is in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

/// Accepts a connection when one of the permitted ones is free.
async fn accept(
    listener: &Listener,
    connections: &Arc<Semaphore>,
) -> (Stream, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let permit = connections.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok(stream) => return (stream, permit),
            // For example, no file descriptor is free. Try again after a pause.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// The state that all connections share.
struct Http {
    /// Serves requests that end.
    calls: Service,
    /// Serves streams of notifications, which end before the calls when the server stops.
    listening: Service,
    sessions: Arc<Sessions>,
    limits: Limits,
    memory: Arc<Memory>,
    threads: Threads,
    /// One permit for each session that may exist.
    places: Arc<Semaphore>,
    connected: AtomicU64,
    requests: AtomicU64,
    refused: AtomicU64,
}

type Sessions = GuardedSessions<LocalSessionManager>;
type Service = StreamableHttpService<Server, Sessions>;
type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

impl Http {
    /// Answers a request. The operator reads why one is refused.
    async fn answer_and_count(&self, request: Request<Incoming>) -> HttpResponse {
        if (request.uri().path(), request.method()) == ("/health", &Method::GET) {
            return self.health(request).await;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        let [host, origin] = [HOST, ORIGIN].map(|name| request.headers().get(name).cloned());
        let mut answer = self.answer(request).await.unwrap_or_else(|refusal| refusal);
        let status = answer.status();
        if status.is_client_error() || status.is_server_error() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        match status {
            StatusCode::FORBIDDEN => rarely(
                "403",
                format_args!(
                    "a request was refused (403), because its host {} or its origin {} is unknown: \
                     see --allow-host and --allow-origin",
                    shortened(host.as_ref()),
                    shortened(origin.as_ref())
                ),
            ),
            StatusCode::REQUEST_TIMEOUT => rarely("408", "a request took too long to arrive (408)"),
            StatusCode::PAYLOAD_TOO_LARGE => rarely("413", "a request was too large (413)"),
            StatusCode::SERVICE_UNAVAILABLE => rarely(
                "503",
                format_args!(
                    "a request was refused (503), because a limit is reached: {}",
                    self.counts()
                ),
            ),
            _ => {}
        }
        if status == StatusCode::FORBIDDEN {
            // A page on another site does not hold the connection.
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    /// The answer to `GET /health`: 503 while the server stops.
    async fn health(&self, request: Request<Incoming>) -> HttpResponse {
        let (mut head, body) = request.into_parts();
        // Without these headers, a request for the right host and origin is not acceptable, and has
        // no effect.
        head.headers.remove(ACCEPT);
        head.headers.remove(HEADER_SESSION_ID);
        let checked = self.calls.handle(Request::from_parts(head, body)).await;
        if checked.status() != StatusCode::NOT_ACCEPTABLE {
            return checked;
        }
        let mut answer = Response::new(Full::from(self.counts().to_string()).boxed());
        if self.is_stopping() {
            *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer
    }

    fn is_stopping(&self) -> bool {
        self.listening.config.cancellation_token.is_cancelled()
    }

    fn counts(&self) -> serde_json::Value {
        json!({
            "status": if self.is_stopping() { "stopping" } else { "ok" },
            "connections": self.connected.load(Ordering::Relaxed),
            "sessions": self.limits.sessions - self.places.available_permits(),
            "requests": self.requests.load(Ordering::Relaxed),
            "refused": self.refused.load(Ordering::Relaxed),
            "memoryBytes": self.memory.held(),
            "threads": self.threads.count(),
        })
    }

    /// Answers a request, or refuses it.
    async fn answer(&self, request: Request<Incoming>) -> Result<HttpResponse, HttpResponse> {
        if request.uri().path() != "/mcp" {
            return Err(refusal(StatusCode::NOT_FOUND, "not found: the MCP endpoint is /mcp"));
        }
        let (mut head, body) = request.into_parts();
        if head.method != Method::POST {
            // Such an event belongs to the stream of a request.
            let last = head.headers.get(HEADER_LAST_EVENT_ID);
            if last.is_some_and(|event| event.as_bytes().contains(&b'/')) {
                let why = "the stream of a request cannot be resumed";
                return Err(refusal(StatusCode::METHOD_NOT_ALLOWED, why));
            }
            let is_delete = head.method == Method::DELETE;
            let mut answer = self.listening.handle(Request::from_parts(head, body)).await;
            // The Python SDK warns about rmcp's 202.
            if is_delete && answer.status() == StatusCode::ACCEPTED {
                *answer.status_mut() = StatusCode::NO_CONTENT;
            }
            return Ok(answer);
        }
        let session = head.headers.get(HEADER_SESSION_ID).cloned();
        let is_stateless = head
            .headers
            .get(HEADER_MCP_PROTOCOL_VERSION)
            .is_some_and(|it| it.as_bytes() >= STATELESS);
        let most = if session.is_some() || is_stateless { BODY } else { FIRST };
        let room = Room::new(&self.memory);
        let body = self.receive(body, most, &room).await?;
        let values = values(&body);
        if values > VALUES {
            let why = format!("the message has more than {VALUES} values: send less at once");
            return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, &why));
        }
        if !room.try_take(COPIES * body.len() + VALUE * values) {
            return Err(unavailable(FULL));
        }
        let Ok(message) = serde_json::from_slice::<Message>(&body) else {
            return Err(refusal(StatusCode::BAD_REQUEST, "the body is not a JSON-RPC message"));
        };
        let Message { method, id, params } = message;
        let method = method.as_deref();
        if method == Some("initialize") {
            if body.len() > FIRST {
                return Err(too_large(FIRST));
            }
            let permit = self.places.clone().try_acquire_owned().map_err(|_| {
                let sessions = self.limits.sessions;
                unavailable(&format!(
                    "the limit of {sessions} sessions is reached: end a session with DELETE, or \
                     try again later"
                ))
            });
            head.extensions.insert(SessionPermit::new(permit?));
        }
        if let Some(session) = session {
            let cancelled = params.filter(|_| method == Some("notifications/cancelled"));
            let cancelled = cancelled.and_then(|params| params.request_id);
            if cancelled.is_some_and(|id| !self.memory.settle(&(session.clone(), id))) {
                // The response is on its way, or the request has not begun.
                let mut answer = Response::new(Full::default().boxed());
                *answer.status_mut() = StatusCode::ACCEPTED;
                return Ok(answer);
            }
            let id = id.filter(|_| method.is_some());
            if id.is_some_and(|id| !room.begin((session, id))) {
                let why = "the id is that of a request in progress: use another one";
                return Err(refusal(StatusCode::BAD_REQUEST, why));
            }
        }
        head.extensions.insert(room.clone());
        // Dropped with the response's body, which has been handed to the system then, or with this
        // future.
        let client = Client { room, sessions: self.sessions.clone() };
        let service = if method == Some(LISTEN) { &self.listening } else { &self.calls };
        let answer = service.handle(Request::from_parts(head, Full::new(body))).await;
        Ok(answer.map(|body| {
            let keep = move |frame| {
                let _ = &client;
                frame
            };
            body.map_frame(keep).boxed()
        }))
    }

    /// Receives the body of a request. If it is too large, the rest is read and dropped, because a
    /// client that cannot send all of it does not read the refusal.
    async fn receive(
        &self,
        mut body: Incoming,
        most: usize,
        room: &Room,
    ) -> Result<Bytes, HttpResponse> {
        let expected = body.size_hint().upper().and_then(|size| usize::try_from(size).ok());
        let expected = expected.unwrap_or(most);
        let until = Instant::now() + self.limits.body_time;
        let refusal = if expected > most {
            too_large(most)
        } else if !room.try_take(expected) {
            unavailable(FULL)
        } else {
            match timeout_at(until, Limited::new(&mut body, most).collect()).await {
                Ok(Ok(body)) => return Ok(body.to_bytes()),
                Ok(Err(error)) if error.is::<LengthLimitError>() => too_large(most),
                Ok(Err(_)) => refusal(StatusCode::BAD_REQUEST, "the body is incomplete"),
                Err(_) => refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
            }
        };
        let mut rest = Limited::new(body, REST);
        while let Ok(Some(Ok(_))) = timeout_at(until, rest.frame()).await {}
        Err(refusal)
    }
}

/// The client of a request, dropped when it has received the response or has disconnected.
struct Client {
    room: Arc<Room>,
    sessions: Arc<Sessions>,
}

impl Drop for Client {
    /// A request in a session continues without its client. If there is no room for it, it is
    /// cancelled, as rmcp cancels one without a session.
    fn drop(&mut self) {
        let Some((session, id)) = self.room.detach() else { return };
        let (Ok(session), Ok(runtime)) = (session.to_str(), Handle::try_current()) else { return };
        let (session, sessions) = (session.into(), self.sessions.clone());
        let params = CancelledNotificationParam::new(Some(id.clone()), None);
        let cancelled = ClientNotification::CancelledNotification(Notification::new(params));
        runtime.spawn(async move {
            // If the session has ended, so has the request.
            let message = ClientJsonRpcMessage::notification(cancelled);
            let _ = sessions.accept_message(&session, message).await;
        });
    }
}

/// The right to a session, as an extension of the HTTP request that opens it. It is held until the
/// session ends.
pub(crate) type SessionPermit = Arc<OwnedSemaphorePermit>;

/// What must be known about a message before rmcp parses it.
#[derive(serde::Deserialize)]
pub(crate) struct Message {
    pub(crate) method: Option<String>,
    pub(crate) id: Option<RequestId>,
    params: Option<Params>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    request_id: Option<RequestId>,
}

/// Counts the values in a message, or somewhat more, until there are more than [`VALUES`]. Only
/// commas and brackets outside of texts begin one.
fn values(message: &[u8]) -> usize {
    let (mut values, mut in_text, mut is_escaped) = (1, false, false);
    for byte in message {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
        if values > VALUES {
            break;
        }
    }
    values
}

fn too_large(most: usize) -> HttpResponse {
    let why = format!("the body is larger than {most} bytes");
    refusal(StatusCode::PAYLOAD_TOO_LARGE, &why)
}

fn refusal(status: StatusCode, why: &str) -> HttpResponse {
    let error = json!({ "code": ErrorCode::INTERNAL_ERROR, "message": why });
    // MCP has no `null` as an id: without one, it is unknown.
    let body = json!({ "jsonrpc": "2.0", "error": error });
    let mut answer = Response::new(Full::from(body.to_string()).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn unavailable(why: &str) -> HttpResponse {
    let mut answer = refusal(StatusCode::SERVICE_UNAVAILABLE, why);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    answer
}

/// The names of this machine.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The origins of pages that were loaded from this machine.
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The maximum size of a request body, the same as rmcp's default.
const BODY: usize = 4 << 20;

/// The maximum number of bytes of a refused body that are read: four times as many as a message
/// over stdio may have.
const REST: usize = 64 << 20;

/// The maximum size of request headers, and of a message that opens a session, which keeps it.
/// Clients send less than a kilobyte of each.
const FIRST: usize = 16 << 10;

/// The number of further copies of a body that exist while it is parsed.
const COPIES: usize = 4;

/// The maximum number of values in a message. The largest list of roots has 10,000 entries, each
/// with a handful of values.
const VALUES: usize = 1 << 16;

/// The memory that a value takes while it is parsed, for example an object with one member.
const VALUE: usize = 1 << 10;

/// How long requests in flight may take when the server stops.
pub const STOP: Duration = Duration::from_secs(10);

/// How often memory is returned to the system, if the server was used in the meantime. It takes a few
/// milliseconds.
const RETURN: Duration = Duration::from_secs(20);

/// The time without a new connection after which the server stops accepting them.
const QUIET: Duration = Duration::from_millis(20);

/// How long a new connection is kept for its first request when the server stops.
const ARRIVAL: Duration = Duration::from_millis(500);

/// The time to send the ends of streams.
const ENDS: Duration = Duration::from_secs(1);

/// The method of a request whose response is a stream of notifications.
const LISTEN: &str = "subscriptions/listen";

/// The first revision without sessions.
const STATELESS: &[u8] = b"2026-07-28";

const FULL: &str = "the server has too little memory left for this request: try again later";
