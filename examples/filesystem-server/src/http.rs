//! Streamable HTTP, within limits: no client can use up the connections, sessions or memory of the
//! server by sending or reading slowly, by not sending at all, or by opening ever more.
//!
//! Clients are not authenticated, so the limits on connections and sessions are for all clients
//! together. A client that is refused for one of them is told so; those that are connected go on.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_roots_guard::Guard;
use mcp_roots_guard::rmcp::GuardedSessions;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::{Sleep, sleep, timeout};

use crate::server::Server;

/// What clients together may use of the server.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The most connections at once. More are answered with 503.
    pub connections: usize,
    /// The most sessions at once. More are answered with 503; requests of the stateless era are not
    /// counted.
    pub sessions: usize,
    /// The longest that a connection may take to send the headers of its first or next request.
    pub header_time: Duration,
    /// The longest that the body of a request may take. After that it is answered with 408.
    pub body_time: Duration,
    /// The longest that a client may take no bytes of an answer.
    pub write_time: Duration,
    /// How long a session lasts in which neither side sends a message.
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

/// Serves under `/mcp` until told to stop; then requests in flight are answered, and streams end. A
/// browser may use it for pages of this machine only.
///
/// # Errors
///
/// If the listener fails.
pub async fn serve_http(
    listener: TcpListener,
    server: Server,
    limits: Limits,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let config = StreamableHttpServerConfig::default()
        .with_allowed_origins(ORIGINS)
        .with_max_request_body_bytes(BODY);
    let streams = config.cancellation_token.clone();
    let guard = server.guard().clone();
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(limits.idle_time);
    let sessions = Arc::new(guard.wrap_sessions(manager));
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let http = Arc::new(Http { service, guard, limits, opening: Mutex::default() });
    let (connections, refusals) =
        (Arc::new(Semaphore::new(limits.connections)), Arc::new(Semaphore::new(REFUSALS)));
    let (stopping, _) = watch::channel(());
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if is_of_connection(&error) => continue,
            // Out of descriptors, say: until some are free.
            Err(_) => {
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        if let Ok(permit) = connections.clone().try_acquire_owned() {
            let connected = http.clone().connection(stream, stopping.subscribe());
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

/// What all connections share.
struct Http {
    service: StreamableHttpService<Server, GuardedSessions<LocalSessionManager>>,
    guard: Guard,
    limits: Limits,
    /// Held while a session begins, so that no two take the last place.
    opening: Mutex<()>,
}

type RootsResponse = Response<BoxBody<Bytes, Infallible>>;

impl Http {
    /// Serves one connection to its end. A client's error ends it, and concerns nobody else.
    async fn connection(self: Arc<Self>, stream: TcpStream, mut stopping: watch::Receiver<()>) {
        let Limits { header_time, write_time, .. } = self.limits;
        let stream = TokioIo::new(Stalling { stream, write_time, stalled: None });
        let answer = service_fn(move |request| {
            let http = self.clone();
            async move { Ok::<_, Infallible>(http.answer(request).await) }
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

    async fn answer(&self, request: Request<Incoming>) -> RootsResponse {
        if request.uri().path() != "/mcp" {
            return said(StatusCode::NOT_FOUND, "this server is under /mcp");
        }
        let (head, body) = request.into_parts();
        if head.method != Method::POST {
            return self.service.handle(Request::from_parts(head, body)).await;
        }
        // What says at once that it is too large need not be waited for.
        let too_large = || {
            said(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body is larger than {BODY} bytes"))
        };
        if body.size_hint().lower() > BODY as u64 {
            return too_large();
        }
        let body = match timeout(self.limits.body_time, Limited::new(body, BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Ok(Err(_)) => return said(StatusCode::BAD_REQUEST, "the body broke off"),
            Err(_) => return said(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
        };
        let opens = opens_session(&body);
        let answer = self.service.handle(Request::from_parts(head, Full::new(body)));
        if !opens {
            return answer.await;
        }
        let _opening = self.opening.lock().await;
        let sessions = self.limits.sessions;
        if self.guard.sessions() >= sessions {
            let why = format!(
                "the server has {sessions} sessions and takes no more: end one with DELETE, or try again later"
            );
            return unavailable(&why);
        }
        // It waits for nothing but the server itself.
        timeout(OPENING, answer)
            .await
            .unwrap_or_else(|_| unavailable("the session did not begin in time"))
    }
}

/// Whether a message may begin a session: also if it is not one that this can read.
fn opens_session(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Message {
        method: Option<String>,
    }
    let message = serde_json::from_slice::<Message>(body);
    message.map_or(true, |message| message.method.as_deref() == Some("initialize"))
}

fn said(status: StatusCode, why: &str) -> RootsResponse {
    let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": INTERNAL_ERROR, "message": why } });
    let mut answer = Response::new(Full::from(error.to_string()).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn unavailable(why: &str) -> RootsResponse {
    let mut answer = said(StatusCode::SERVICE_UNAVAILABLE, why);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    answer
}

/// Answers a connection that is one too many, and reads what it sends, so that it reads the answer.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    let why = "the server has no connection free: close one, or try again later\n";
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 10\r\nConnection: close";
    stream
        .write_all(format!("{head}\r\nContent-Length: {}\r\n\r\n{why}", why.len()).as_bytes())
        .await?;
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Whether accepting failed for the one connection alone (accept(2)).
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::ConnectionRefused | K::ConnectionAborted | K::ConnectionReset)
}

/// A connection that fails when its client takes nothing for a while.
struct Stalling {
    stream: TcpStream,
    write_time: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Stalling {
    fn unless_stalled(
        &mut self,
        ctx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.write_time)));
        stalled.as_mut().poll(ctx).map(|()| Err(io::ErrorKind::TimedOut.into()))
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

    fn poll_flush(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(ctx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(ctx)
    }
}

/// Where pages come from that a browser may use the server for: others could have been made by
/// anybody (MCP, security of transports).
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The default for [`Limits::connections`]: a quarter of the 1,024 descriptors that a process may
/// commonly have. The guard holds as many directories open.
const CONNECTIONS: usize = 256;

/// The default for [`Limits::sessions`]: as many as connections, as each client that listens has one
/// open. One machine's user has far fewer.
const SESSIONS: usize = CONNECTIONS;

/// The default for [`Limits::header_time`]: a program on the same machine sends its headers at once.
/// Also how long an idle connection is kept, which costs the client no more than a new one.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// The default for [`Limits::body_time`]: [`BODY`] at 140 KB a second.
const BODY_TIME: Duration = Duration::from_secs(30);

/// The default for [`Limits::write_time`]: twice the 15 seconds after which a silent stream is sent
/// something (rmcp's `sse_keep_alive`).
const WRITE_TIME: Duration = Duration::from_secs(30);

/// The default for [`Limits::idle_time`], as rmcp has it. A client whose session has ended is told so
/// (404) and begins another.
const IDLE_TIME: Duration = Duration::from_secs(5 * 60);

/// The most bytes of a request's body, as rmcp has it. All connections together hold a gigabyte at
/// most.
const BODY: usize = 4 << 20;

/// The most bytes of a request's headers. Those of a client are under a kilobyte.
const HEADERS: usize = 16 << 10;

/// The longest that a session may take to begin.
const OPENING: Duration = Duration::from_secs(10);

/// How many connections are told at once that they are too many; further ones are closed untold.
const REFUSALS: usize = 16;

/// The longest that telling one takes.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// When to accept again after an error that is not of a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// JSON-RPC 2.0, 5.1.
const INTERNAL_ERROR: i64 = -32603;
