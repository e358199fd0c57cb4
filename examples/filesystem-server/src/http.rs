//! Streamable HTTP with limits. A client cannot exhaust the server's connections, sessions or
//! memory by sending or reading slowly, by staying idle, or by opening more and more connections.
//!
//! Clients are not authenticated, so all clients share the limits on connections and sessions. A
//! client beyond a limit receives an error, and established connections continue.

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
    /// The maximum time for which a client may stop reading a response. If it is exceeded, the
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
            // The listener failed, for example because no file descriptor is free. Retry after a
            // pause.
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

/// The state that all connections share.
struct Http {
    service: StreamableHttpService<Server, GuardedSessions<LocalSessionManager>>,
    guard: Guard,
    limits: Limits,
    /// Locked while a session is created, so that two requests cannot both pass the check of the
    /// session limit.
    opening: Mutex<()>,
}

type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

impl Http {
    /// Serves one connection until it closes. An error ends only this connection.
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

    async fn answer(&self, request: Request<Incoming>) -> HttpResponse {
        if request.uri().path() != "/mcp" {
            return refusal(StatusCode::NOT_FOUND, "not found: the MCP endpoint is /mcp");
        }
        let (head, body) = request.into_parts();
        if head.method != Method::POST {
            return self.service.handle(Request::from_parts(head, body)).await;
        }
        let too_large = || {
            let why = format!("the body is larger than {BODY} bytes");
            refusal(StatusCode::PAYLOAD_TOO_LARGE, &why)
        };
        // A body whose declared length is too large is refused before it arrives.
        if body.size_hint().lower() > BODY as u64 {
            return too_large();
        }
        let body = match timeout(self.limits.body_time, Limited::new(body, BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Ok(Err(_)) => return refusal(StatusCode::BAD_REQUEST, "the body is incomplete"),
            Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
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
                "the limit of {sessions} sessions is reached: end a session with DELETE, or try \
                 again later"
            );
            return unavailable(&why);
        }
        // Creating a session does not wait for the client, so the lock is released soon.
        timeout(OPENING, answer)
            .await
            .unwrap_or_else(|_| unavailable("creating the session took too long"))
    }
}

/// Whether a message may open a session. Returns `true` if the message cannot be parsed.
fn opens_session(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Message {
        method: Option<String>,
    }
    let message = serde_json::from_slice::<Message>(body);
    message.map_or(true, |message| message.method.as_deref() == Some("initialize"))
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

/// A connection that fails when its client stops reading for `write_time`.
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

/// The origins from which a browser may send requests. Pages from other origins may be malicious
/// (MCP, transport security).
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

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

/// The maximum size of a request body, the same as rmcp's default. All connections together buffer
/// at most one gigabyte.
const BODY: usize = 4 << 20;

/// The maximum size of request headers. Real clients send less than a kilobyte.
const HEADERS: usize = 16 << 10;

/// The maximum time to create a session.
const OPENING: Duration = Duration::from_secs(10);

/// The maximum number of concurrent 503 responses to new connections. Beyond it, connections are
/// closed without a response.
const REFUSALS: usize = 16;

/// The maximum time to send a 503 response to a new connection.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// The pause after an error that concerns the listener.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// JSON-RPC 2.0, section 5.1.
const INTERNAL_ERROR: i64 = -32603;
