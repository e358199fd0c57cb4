//! Streamable HTTP with limits. A client cannot exhaust the server's connections, sessions, memory
//! or threads by sending or reading slowly, by sending large or intricate messages, by staying idle,
//! or by opening more and more connections.
//!
//! Clients are not authenticated, so all clients share the limits on connections and sessions. A
//! client beyond a limit receives an error, and established connections continue.
//!
//! Each client has a share of the memory (module `memory`). With the default limits, the bodies, the
//! values in them and the responses of all requests together take at most one gigabyte: 512 MiB, and
//! 1 MiB for each session and connection.
//!
//! What a session keeps is not included: its roots, its subscriptions, and at most 1,024 values of
//! the message that opened it.
//!
//! The stream of a request cannot be resumed, because a response on a resumed stream belongs to no
//! request. A request that has a result cannot be cancelled, because rmcp would keep the response.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, ORIGIN, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_roots_guard::rmcp::GuardedSessions;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::SessionId;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};
use tokio::task::block_in_place;
use tokio::time::{Sleep, sleep, timeout};

use crate::memory::{Account, Client, Memory};
use crate::server::Server;

/// Limits that all clients share, and time limits for each client.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The maximum number of concurrent connections. Further connections receive a 503 response.
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
    /// The time in which a client must read 4 MiB of a response, or the rest of it. Otherwise, the
    /// connection is closed.
    pub write_time: Duration,
    /// The time after which a session ends if neither side has sent a message.
    pub idle_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            sessions: SESSIONS,
            header_time: HEADER_TIME,
            body_time: BODY_TIME,
            write_time: WRITE_TIME,
            idle_time: IDLE_TIME,
        }
    }
}

/// Serves MCP under `/mcp` until `stop` completes. Then it ends all streams and completes the
/// requests in flight. A browser's request is accepted only if the page that sent it was loaded
/// from this machine.
///
/// # Errors
///
/// Currently never returns an error. If accepting a connection fails, the server continues, after a
/// pause if the failure concerns the listener.
pub async fn serve_http(
    listener: TcpListener,
    server: Server,
    limits: Limits,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let config = StreamableHttpServerConfig::default()
        .with_sse_retry(None)
        .with_max_request_body_bytes(BODY);
    let streams = config.cancellation_token.clone();
    let guard = server.guard().clone();
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(limits.idle_time);
    manager.session_config.sse_retry = None;
    let sessions = Arc::new(guard.wrap_sessions(manager));
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions.clone(), config);
    let http = Arc::new(Http {
        service,
        limits,
        sessions,
        memory: Arc::default(),
        places: Arc::new(Semaphore::new(limits.sessions)),
        parsing: Semaphore::new(1),
    });
    let (connections, refusals) =
        (Arc::new(Semaphore::new(limits.connections)), Arc::new(Semaphore::new(REFUSALS)));
    let (stopping, _) = watch::channel(());
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_connection(&error) => continue,
            // The listener failed, for example because no file descriptor is free. Retry after a
            // pause.
            Err(_) => {
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        if let Ok(permit) = connections.clone().try_acquire_owned() {
            let connected = http.clone().connection(stream, peer, stopping.subscribe());
            tokio::spawn(async move {
                connected.await;
                drop(permit);
            });
        } else if let Ok(permit) = refusals.clone().try_acquire_owned() {
            tokio::spawn(async move {
                let _ = timeout(REFUSAL_TIME, refuse(stream)).await;
                drop(permit);
            });
        }
    }
    drop(listener);
    streams.cancel();
    stopping.send_replace(());
    stopping.closed().await;
    Ok(())
}

/// The state that all connections share.
struct Http {
    service: StreamableHttpService<Server, GuardedSessions<LocalSessionManager>>,
    limits: Limits,
    sessions: Arc<GuardedSessions<LocalSessionManager>>,
    memory: Arc<Memory>,
    /// One permit for each session that may exist.
    places: Arc<Semaphore>,
    /// The right to parse a large body.
    parsing: Semaphore,
}

type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

impl Http {
    /// Serves one connection until it closes. An error ends only this connection.
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        mut stopping: watch::Receiver<()>,
    ) {
        let Limits { header_time, write_time, .. } = self.limits;
        // The end of a response does not wait for the client to acknowledge its beginning.
        let _ = stream.set_nodelay(true);
        let stream = TokioIo::new(Stalling { stream, write_time, due: None });
        let answer = service_fn(move |request| {
            let http = self.clone();
            async move {
                let answered = http.answer(request, peer).await;
                Ok::<_, Infallible>(answered.unwrap_or_else(|refusal| refusal))
            }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(header_time).max_buf_size(HEADERS);
        let connection = builder.serve_connection(stream, answer);
        tokio::pin!(connection);
        tokio::select! {
            _ = &mut connection => return,
            _ = stopping.changed() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }

    /// Answers a request, or refuses it.
    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> Result<HttpResponse, HttpResponse> {
        if request.uri().path() != "/mcp" {
            return Err(refusal(StatusCode::NOT_FOUND, "not found: the MCP endpoint is /mcp"));
        }
        let (mut head, body) = request.into_parts();
        if !head.headers.get_all(ORIGIN).iter().all(is_allowed) {
            return Err(refusal(StatusCode::FORBIDDEN, "the Origin header is not allowed"));
        }
        if head.method != Method::POST {
            // Such an event belongs to the stream of a request.
            let last = head.headers.get(LAST_EVENT_ID);
            if last.is_some_and(|event| event.as_bytes().contains(&b'/')) {
                let why = "the stream of a request cannot be resumed";
                return Err(refusal(StatusCode::METHOD_NOT_ALLOWED, why));
            }
            return Ok(self.service.handle(Request::from_parts(head, body)).await);
        }
        let session = head.headers.get(SESSION).cloned();
        let client = session.clone().map_or(Client::Connection(peer), Client::Session);
        let session = session.and_then(|id| id.to_str().ok().map(SessionId::from));
        let account = self.memory.account(client.clone());
        let is_stateless = head.headers.get(REVISION).is_some_and(|it| it.as_bytes() >= STATELESS);
        let most = if session.is_some() || is_stateless { BODY } else { SMALL };
        let body = self.receive(body, most, &account).await?;
        let parsing = if body.len() > SMALL { self.parsing.acquire().await.ok() } else { None };
        let message = off_the_runtime(parsing.is_some(), || Message::read(&body))
            .map_err(|why| refusal(StatusCode::PAYLOAD_TOO_LARGE, &why))?;
        if message.opens_session && (body.len() > SMALL || message.values > INITIAL) {
            let why = format!("a first message has at most {SMALL} bytes and {INITIAL} values");
            return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, &why));
        }
        if !account.take((COPIES - 1) * body.len() + message.values * VALUE) {
            return Err(unavailable(FULL));
        }
        if message.opens_session {
            let permit = self.places.clone().try_acquire_owned().map_err(|_| {
                let sessions = self.limits.sessions;
                unavailable(&format!(
                    "the limit of {sessions} sessions is reached: end a session with DELETE, or \
                     try again later"
                ))
            });
            head.extensions.insert(SessionPermit::new(permit?));
        }
        if message.cancels.is_some_and(|id| !self.memory.settle(&client, &id)) {
            // The response is on its way, or the request has not begun.
            let mut answer = refusal(StatusCode::ACCEPTED, "");
            *answer.body_mut() = Full::default().boxed();
            return Ok(answer);
        }
        if message.id.is_some_and(|id| !account.begin(id)) {
            let why = "the id is that of a request in progress: use another one";
            return Err(refusal(StatusCode::BAD_REQUEST, why));
        }
        head.extensions.insert(account.clone());
        let request = Request::from_parts(head, Full::new(body));
        let answer = self.handle(request, parsing).await;
        if let Some(session) = session.filter(|_| message.is_response) {
            self.hold_while_queued(session, account.clone());
        }
        // The response has been handed to the system when its body is dropped.
        Ok(answer.map(|body| {
            let keep = move |frame| {
                let _ = &account;
                frame
            };
            body.map_frame(keep).boxed()
        }))
    }

    /// Holds the account of a client's response until rmcp has taken the response from the session's
    /// queue, where rmcp keeps it without its HTTP request. The queue is in order, so the response has
    /// been taken when a later event is answered.
    fn hold_while_queued(&self, session: SessionId, account: Arc<Account>) {
        let sessions = self.sessions.clone();
        tokio::spawn(async move {
            // No stream has this id, so nothing is resumed.
            let _ = sessions.resume(&session, format!("0/{}", u64::MAX)).await;
            drop(account);
        });
    }

    /// Passes a request on to rmcp. Its body is complete, so rmcp parses it when the answer is first
    /// polled.
    async fn handle(
        &self,
        request: Request<Full<Bytes>>,
        parsing: Option<SemaphorePermit<'_>>,
    ) -> HttpResponse {
        let answer = self.service.handle(request);
        tokio::pin!(answer);
        let polled = poll_fn(|context| {
            let poll = || answer.as_mut().poll(context);
            Poll::Ready(off_the_runtime(parsing.is_some(), poll))
        })
        .await;
        drop(parsing);
        match polled {
            Poll::Ready(answer) => answer,
            Poll::Pending => answer.await,
        }
    }

    /// Receives the body of a request, and counts it as it arrives. A body whose declared length is
    /// too large is refused before it arrives.
    async fn receive(
        &self,
        body: Incoming,
        most: usize,
        account: &Account,
    ) -> Result<Bytes, HttpResponse> {
        if body.size_hint().lower() > most as u64 {
            return Err(too_large(most));
        }
        let (mut body, mut received) = (Limited::new(body, most), Vec::new());
        let receiving = async {
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame?.into_data() else { continue };
                if !account.take(data.len()) {
                    return Ok(None);
                }
                received.extend_from_slice(&data);
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Some(received))
        };
        match timeout(self.limits.body_time, receiving).await {
            Ok(Ok(Some(body))) => Ok(body.into()),
            Ok(Ok(None)) => Err(unavailable(FULL)),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(most)),
            Ok(Err(_)) => Err(refusal(StatusCode::BAD_REQUEST, "the body is incomplete")),
            Err(_) => Err(refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
        }
    }
}

/// The right to a session, as an extension of the HTTP request that opens it. It is held until the
/// session ends.
pub(crate) type SessionPermit = Arc<OwnedSemaphorePermit>;

/// Runs work that uses the processor for long, and lets the runtime use another thread for its other
/// tasks in the meantime. A runtime with one thread waits.
fn off_the_runtime<T>(is_long: bool, work: impl FnOnce() -> T) -> T {
    let flavor = Handle::current().runtime_flavor();
    if is_long && flavor == RuntimeFlavor::MultiThread { block_in_place(work) } else { work() }
}

/// Whether an origin is that of a page from this machine (RFC 6454, 6.2).
fn is_allowed(origin: &HeaderValue) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    ORIGINS.iter().filter_map(|allowed| origin.strip_prefix(allowed)).any(|port| {
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
    })
}

/// What is known about a message before it is parsed.
struct Message {
    /// The number of values, or somewhat more.
    values: usize,
    /// Whether it may open a session. This is so if it cannot be parsed.
    opens_session: bool,
    /// Whether it is the client's response to a request of the server.
    is_response: bool,
    /// The id of a request.
    id: Option<RequestId>,
    /// The request that a notification cancels.
    cancels: Option<RequestId>,
}

impl Message {
    /// # Errors
    ///
    /// The message has more than [`VALUES`] values or more than [`DEPTH`] levels.
    fn read(body: &[u8]) -> Result<Self, String> {
        #[derive(Default, serde::Deserialize)]
        struct Called {
            method: Option<String>,
            id: Option<RequestId>,
            params: Option<Params>,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            request_id: Option<RequestId>,
        }
        let (mut values, mut depth, mut in_text, mut escaped) = (1, 0_usize, false, false);
        for byte in body {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_text => escaped = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b',' => values += 1,
                b'[' | b'{' => (values, depth) = (values + 1, depth + 1),
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if values > VALUES || depth > DEPTH {
                return Err(format!(
                    "the message has more than {VALUES} values or {DEPTH} levels: send less at once"
                ));
            }
        }
        let called = serde_json::from_slice::<Called>(body);
        let is_parsed = called.is_ok();
        let Called { method, id, params } = called.unwrap_or_default();
        let is = |name| method.as_deref() == Some(name);
        let cancelled = params.filter(|_| is("notifications/cancelled"));
        Ok(Self {
            values,
            opens_session: !is_parsed || is("initialize"),
            is_response: method.is_none(),
            cancels: cancelled.and_then(|params| params.request_id),
            id: id.filter(|_| method.is_some()),
        })
    }
}

fn too_large(most: usize) -> HttpResponse {
    let why = format!("the body is larger than {most} bytes");
    refusal(StatusCode::PAYLOAD_TOO_LARGE, &why)
}

fn refusal(status: StatusCode, why: &str) -> HttpResponse {
    let error = json!({ "code": INTERNAL_ERROR, "message": why });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
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

/// Refuses a connection beyond the limit. Reads the client's data before closing, because closing
/// with unread data resets the connection, and the client could lose the response.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    let why = "the limit on connections is reached: close one, or try again later\n";
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\
                Retry-After: 10\r\nConnection: close";
    stream
        .write_all(format!("{head}\r\nContent-Length: {}\r\n\r\n{why}", why.len()).as_bytes())
        .await?;
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Whether the error concerns a single connection rather than the listener (accept(2)).
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::ConnectionRefused | K::ConnectionAborted | K::ConnectionReset)
}

/// A connection that fails when its client reads less than [`PROGRESS`] bytes in `write_time`,
/// although there is more to read.
struct Stalling {
    stream: TcpStream,
    write_time: Duration,
    /// The end of the time, and the number of bytes to write by then. `None` if nothing waits.
    due: Option<(Pin<Box<Sleep>>, usize)>,
}

impl Stalling {
    fn unless_stalled(
        &mut self,
        ctx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.due.take_if(|(_, left)| {
                *left = left.saturating_sub(*bytes);
                *left == 0
            });
        }
        if written.is_ready() {
            return written;
        }
        let begin = || (Box::pin(sleep(self.write_time)), PROGRESS);
        let (at, _) = self.due.get_or_insert_with(begin);
        at.as_mut().poll(ctx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stalling {
    fn poll_read(
        self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(ctx, buffer)
    }
}

impl AsyncWrite for Stalling {
    fn poll_write(
        self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(ctx, bytes);
        this.unless_stalled(ctx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(ctx, slices);
        this.unless_stalled(ctx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper calls this when it has written everything.
    fn poll_flush(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.due = None;
        Pin::new(&mut this.stream).poll_flush(ctx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(ctx)
    }
}

/// The origins from which a browser may send requests. Pages from other origins may be malicious
/// (MCP, transport security).
const ORIGINS: [&str; 3] = ["http://localhost", "http://127.0.0.1", "http://[::1]"];

/// The default for [`Limits::connections`]: a quarter of the 1,024 descriptors that a process can
/// commonly open. The guard can hold the same number of directories open.
const CONNECTIONS: usize = 256;

/// The default for [`Limits::sessions`]: the same as for connections, because each listening client
/// keeps a connection open. One user of one machine needs far fewer.
const SESSIONS: usize = CONNECTIONS;

/// The default for [`Limits::header_time`]: a program on the same machine sends its headers
/// immediately. The limit also applies to idle connections, which a client can replace at low cost.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// The default for [`Limits::body_time`]: enough for [`BODY`] bytes at 140 KB per second.
const BODY_TIME: Duration = Duration::from_secs(30);

/// The default for [`Limits::write_time`]: twice the 15 seconds between keep-alive messages on a
/// stream (rmcp's `sse_keep_alive`).
const WRITE_TIME: Duration = Duration::from_secs(30);

/// The default for [`Limits::idle_time`], the same as rmcp's default. A client whose session has
/// ended receives a 404 response and opens a new one.
const IDLE_TIME: Duration = Duration::from_secs(5 * 60);

/// The bytes that a client must read in [`Limits::write_time`] while there is more to read. With the
/// default, a client holds the largest response for eight minutes at most.
const PROGRESS: usize = 4 << 20;

/// The maximum size of a request body, the same as rmcp's default.
const BODY: usize = 4 << 20;

/// The maximum size of a body without a session, and of one that is parsed on the runtime's threads,
/// which takes a millisecond or two.
const SMALL: usize = 64 << 10;

/// The number of copies of a body that exist while it is received and parsed.
const COPIES: usize = 5;

/// The maximum number of values in a message. The largest list of roots has 10,000 entries, each
/// with a handful of values.
const VALUES: usize = 1 << 16;

/// The maximum number of values in a message that opens a session, which keeps them. Clients send
/// fewer than a hundred.
const INITIAL: usize = 1 << 10;

/// The memory that a value takes while it is parsed, for example an object with one member.
const VALUE: usize = 1 << 10;

/// The maximum nesting of arrays and objects in a message.
const DEPTH: usize = 64;

/// The header with the event after which a client resumes a stream.
const LAST_EVENT_ID: &str = "last-event-id";

/// The header with a session's identifier.
const SESSION: &str = "mcp-session-id";

/// The header with the protocol's revision.
const REVISION: &str = "mcp-protocol-version";

/// The first revision without sessions.
const STATELESS: &[u8] = b"2026-07-28";

/// The reason for refusing a request that needs more memory than its client may take now.
const FULL: &str = "the server has too little memory left for this request: try again later";

/// The maximum size of request headers. Real clients send less than a kilobyte.
const HEADERS: usize = 16 << 10;

/// The maximum number of concurrent 503 responses to new connections. Beyond it, connections are
/// closed without a response.
const REFUSALS: usize = 16;

/// The maximum time to send a 503 response to a new connection.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// The pause after an error that concerns the listener.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// JSON-RPC 2.0, section 5.1.
const INTERNAL_ERROR: i64 = -32603;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_levels_of_a_message_are_counted_outside_of_texts() {
        for (text, values) in [
            ("1", 1),
            ("[1,2,3]", 4),
            (r#"{"a":1,"b":[]}"#, 4),
            (r#""[,{\"[,{""#, 1),
            (r#"["\\",","]"#, 3),
            ("", 1),
        ] {
            assert_eq!(Message::read(text.as_bytes()).map(|it| it.values), Ok(values), "{text}");
        }
        let list = |values: usize| format!("[{}]", vec!["1"; values - 1].join(","));
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (allowed, refused) in
            [(list(VALUES), list(VALUES + 1)), (nested(DEPTH), nested(DEPTH + 1))]
        {
            assert!(Message::read(allowed.as_bytes()).is_ok());
            let why = Message::read(refused.as_bytes()).err().unwrap_or_default();
            assert!(why.contains("65536 values or 64 levels"), "{why}");
        }
    }

    #[test]
    fn only_origins_of_this_machine_are_accepted() {
        for (origin, accepted) in [
            ("http://localhost", true),
            ("http://localhost:1", true),
            ("http://127.0.0.1:65535", true),
            ("http://[::1]:8000", true),
            ("http://localhost:1.evil.example", false),
            ("http://localhost.evil.example", false),
            ("http://localhost@evil.example", false),
            ("http://localhost:", false),
            ("http://localhost:99999", false),
            ("http://localhost/", false),
            ("http://user@localhost", false),
            ("https://localhost", false),
            ("null", false),
            ("localhost", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(&HeaderValue::from_static(origin)), accepted, "{origin}");
        }
    }
}
