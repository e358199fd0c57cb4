//! Observes a client's messages before the server's SDK does, for any SDK.
//!
//! An SDK that handles messages in separate tasks may begin a call before it runs the handler of an
//! earlier `list_changed`. The change must therefore be recorded by code that sees each message
//! before the SDK does. If the SDK's transport can be wrapped, the wrapper passes each message to
//! an [`Observer`]. If the SDK accepts a reader, it reads the client's stream through an
//! [`ObservedReader`].

use std::fmt;
use std::io;
use std::ops::DerefMut;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::error::{Code, Error, Result};
use crate::limits::MESSAGE_BYTES;
use crate::session::runtime::Mutex;
use crate::session::{Guard, Session};
use crate::wire::{ClientCapabilities, Effect};

impl Session {
    /// Observes an incoming message. Call this for each of the client's messages, in the order in
    /// which they arrive, before the SDK sees the message. If the guard should also begin the
    /// session, use an [`Observer`] instead.
    ///
    /// The message is the JSON of one message or of a batch. If it contains a
    /// [`RootsListChanged`](crate::RootsListChanged), this calls
    /// [`list_changed`](Self::list_changed), so the change takes effect before this method returns.
    /// A message that cannot be parsed, or that is longer than [`MESSAGE_BYTES`], counts as a
    /// change, because it may contain one. An `initialize` also counts as a change, but the session
    /// keeps the capabilities with which it began.
    ///
    /// ```
    /// # use mcp_roots_guard::{
    /// #     Boundary, ClientCapabilities, Guard, ListRootsResult, RootsCapability, RootsResponse,
    /// #     RootsState,
    /// # };
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    /// # runtime.unwrap().block_on(async {
    /// # let guard = Guard::new(Boundary::builder().client_roots_only().build()?);
    /// # let declared = ClientCapabilities::with_roots(RootsCapability::announcing());
    /// # let session = guard.session(declared)?;
    /// # let response = RootsResponse::List(ListRootsResult::from_uris(["file:///tmp"]));
    /// # session.roots(|_: Option<String>| std::future::ready(response.clone())).await?;
    /// session.observe(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    /// assert_eq!(session.state(), RootsState::Available);
    /// session.observe(br#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    /// assert_eq!(session.state(), RootsState::Stale);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// # })
    /// # .unwrap();
    /// ```
    pub fn observe(&self, message: &[u8]) {
        if Effect::of(message) != Effect::None {
            self.list_changed();
        }
    }
}

/// Observes the messages of one client, begins its [`Session`], and records changes to its roots.
/// An observer is cheap to clone, and all clones share the session.
///
/// Use this with any SDK that does not have an adapter in this crate. Create one observer for each
/// connection, and use it in one of two ways:
///
/// - If the SDK accepts a reader, give it the client's stream through [`filter`](Self::filter).
/// - If the SDK reads the stream itself, wrap its transport, and call [`observe`](Self::observe)
///   for each message before the SDK handles it.
///
/// In each tool, call [`session`](Self::session), and obtain the roots from the session. The
/// example `examples/rust-mcp-sdk` in the crate's repository wraps the transport of an SDK that
/// reads standard input itself.
///
/// The session begins with the client's first `initialize` that contains valid capabilities. Until
/// then, calls are refused. A later `initialize` counts as a change of roots, but the session keeps
/// its capabilities. The session remains open at the end of the stream, so that requests in
/// progress can still be answered. It closes when the observer, its clones, its readers and the
/// sessions obtained from it have all been dropped, or when [`Session::close`] is called.
///
/// ```
/// use mcp_roots_guard::{Boundary, Guard, RootsState};
/// use tokio::io::AsyncReadExt as _;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let stdin: &[u8] =
/// #     br#"{"jsonrpc":"2.0","method":"initialize","params":{"capabilities":{"roots":{}}}}"#;
/// let guard = Guard::new(Boundary::builder().client_roots_only().build()?);
/// let observer = guard.observer();
/// assert!(observer.session().is_err()); // The client has sent nothing yet.
/// // Pass the reader to the SDK instead of `tokio::io::stdin()`.
/// let mut reader = observer.filter(stdin);
/// # let mut message = String::new();
/// reader.read_to_string(&mut message).await?;
/// // In each tool.
/// let session = observer.session()?;
/// assert_eq!(session.state(), RootsState::Stale);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Observer {
    shared: Arc<Shared>,
}

struct Shared {
    guard: Guard,
    /// The session or, until it begins, the error with which calls are refused.
    session: Mutex<Result<Session>>,
}

impl Guard {
    /// Returns an observer for the messages of one client. It begins the client's session.
    #[must_use]
    pub fn observer(&self) -> Observer {
        let none = Error::new(Code::NoSession).detail("the client has not sent initialize");
        let shared = Shared { guard: self.clone(), session: Mutex::new(Err(none)) };
        Observer { shared: Arc::new(shared) }
    }
}

impl Observer {
    /// Observes an incoming message, as [`Session::observe`] does, and begins the session at the
    /// first `initialize` with valid capabilities. Call this for each of the client's messages, in
    /// the order in which they arrive, before the SDK sees the message.
    ///
    /// If the wrapped transport yields parsed messages, the wrapper can serialize them again. It
    /// does not see the messages that the transport drops, for example because they cannot be
    /// parsed. A [`filter`](Self::filter) sees every byte.
    pub fn observe(&self, message: &[u8]) {
        self.apply(Effect::of(message));
    }

    /// Returns the client's session.
    ///
    /// # Errors
    ///
    /// [`NoSession`](crate::ErrorKind::NoSession) if the client has not sent `initialize` with
    /// valid capabilities, and [`Busy`](crate::ErrorKind::Busy) (`too_many_sessions`) if
    /// [`SESSIONS`](crate::limits::SESSIONS) sessions were open when it sent `initialize`.
    pub fn session(&self) -> Result<Session> {
        self.lock().as_ref().map(Session::clone).map_err(Error::repeated)
    }

    /// Wraps the stream of the client's messages, which has one message per line, as on stdio.
    ///
    /// The reader yields the same bytes. It holds back the bytes of a line until the line is
    /// complete and has been observed. A change therefore takes effect before the SDK can read any
    /// part of its message. At the end of the stream, the last line needs no newline. If a line is
    /// longer than [`MESSAGE_BYTES`], the reader records a change, passes the line on as it
    /// arrives, and records another change before it passes on the newline.
    pub fn filter<R>(&self, reader: R) -> ObservedReader<R> {
        ObservedReader { reader, lines: Lines::default(), observer: self.clone() }
    }

    fn apply(&self, effect: Effect) {
        // The lock is released before the change is logged, because a log subscriber may call this
        // observer.
        let session = match (&mut *self.lock(), effect) {
            (_, Effect::None) | (Err(_), Effect::Changed) => return,
            (none @ Err(_), Effect::Initialize(declared)) => {
                *none = self.begin(declared);
                return;
            }
            (Ok(session), Effect::Changed | Effect::Initialize(_)) => session.clone(),
        };
        session.list_changed();
    }

    fn begin(&self, declared: Option<ClientCapabilities>) -> Result<Session> {
        let malformed = "the capabilities in initialize are missing or malformed";
        let declared = declared.ok_or_else(|| Error::new(Code::NoSession).detail(malformed))?;
        self.shared.guard.session(declared)
    }

    fn lock(&self) -> impl DerefMut<Target = Result<Session>> + '_ {
        self.shared.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("session", &self.session()).finish()
    }
}

/// A reader that observes the messages that pass through it ([`Observer::filter`]).
///
/// A read that is dropped before it completes loses no bytes.
pub struct ObservedReader<R> {
    reader: R,
    lines: Lines,
    observer: Observer,
}

impl<R: AsyncRead + Unpin> AsyncRead for ObservedReader<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { reader, lines, observer } = self.get_mut();
        while lines.observed().is_empty() && buffer.remaining() > 0 {
            let mut chunk = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut *reader).poll_read(context, &mut chunk))?;
            if !chunk.filled().is_empty() {
                lines.push(chunk.filled(), observer);
            } else if !lines.end(observer) {
                return Poll::Ready(Ok(()));
            }
        }
        lines.release(buffer);
        Poll::Ready(Ok(()))
    }
}

impl<R> fmt::Debug for ObservedReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedReader").field("observer", &self.observer).finish_non_exhaustive()
    }
}

/// The bytes that were read but not yet released. They are at most one line of [`MESSAGE_BYTES`]
/// and one chunk, because nothing is read while observed bytes remain.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// The number of bytes that have been released.
    released: usize,
    /// The number of bytes that may be released.
    observed: usize,
    /// Whether the line in progress is too long to be held back.
    is_long: bool,
}

impl Lines {
    /// Adds bytes, and observes each line that is complete or too long.
    fn push(&mut self, chunk: &[u8], observer: &Observer) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.bytes.extend_from_slice(piece);
            let ends = piece.ends_with(b"\n");
            if ends || self.is_long || self.unobserved().len() > MESSAGE_BYTES {
                self.observe_line(ends, observer);
            }
        }
    }

    /// Observes the end of the stream. Returns whether this allows bytes to be released.
    fn end(&mut self, observer: &Observer) -> bool {
        if self.is_long || !self.unobserved().is_empty() {
            self.observe_line(true, observer);
        }
        !self.observed().is_empty()
    }

    /// Observes a line, or a part of a long line, and then allows its bytes to be released.
    fn observe_line(&mut self, ends: bool, observer: &Observer) {
        // Defense: A change counts before the SDK can read any byte after it.
        match (self.is_long, ends) {
            (false, _) => observer.observe(self.unobserved()),
            (true, true) => observer.apply(Effect::Changed),
            (true, false) => {}
        }
        self.observed = self.bytes.len();
        self.is_long = !ends;
    }

    fn observed(&self) -> &[u8] {
        self.bytes.get(self.released..self.observed).unwrap_or_default()
    }

    fn unobserved(&self) -> &[u8] {
        self.bytes.get(self.observed..).unwrap_or_default()
    }

    /// Moves observed bytes to the buffer, as many as fit.
    fn release(&mut self, buffer: &mut ReadBuf<'_>) {
        let (fitting, _) = self.observed().split_at(self.observed().len().min(buffer.remaining()));
        buffer.put_slice(fitting);
        self.released += fitting.len();
        if self.released == self.observed {
            self.bytes.drain(..self.released);
            (self.released, self.observed) = (0, 0);
            // A long line must not occupy memory after it is released.
            self.bytes.shrink_to(2 * CHUNK);
        }
    }
}

/// The maximum number of bytes per read, which is also the default of tokio's `BufReader`.
const CHUNK: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use super::*;
    use crate::boundary::Boundary;
    use crate::wire::RootsCapability;

    const INITIALIZE: &str = concat!(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","#,
        r#""params":{"capabilities":{"roots":{"listChanged":true}}}}"#
    );
    const CHANGE: &str = r#"{"method":"notifications/roots/list_changed"}"#;
    const CALL: &str = r#"{"method":"tools/call","id":1}"#;

    fn guard() -> Guard {
        Guard::new(Boundary::builder().client_roots_only().build().unwrap())
    }

    fn epoch(observer: &Observer) -> u64 {
        observer.session().unwrap().client().epoch().unwrap()
    }

    /// A reader that yields these chunks and is not ready between them.
    struct Chunks {
        chunks: VecDeque<Vec<u8>>,
        is_ready: bool,
    }

    impl AsyncRead for Chunks {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.is_ready = !self.is_ready;
            if !self.is_ready {
                return Poll::Pending;
            }
            if let Some(mut chunk) = self.chunks.pop_front() {
                let rest = chunk.split_off(chunk.len().min(buffer.remaining()));
                buffer.put_slice(&chunk);
                if !rest.is_empty() {
                    self.chunks.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    /// Reads the chunks through a filter, at most `most` bytes at once. Drops each read that is not
    /// ready, and starts a new one. Returns the bytes of each read and the epoch after it.
    fn read<'a>(
        observer: &Observer,
        chunks: impl IntoIterator<Item = &'a [u8]>,
        most: usize,
    ) -> Vec<(Vec<u8>, Option<u64>)> {
        let chunks = chunks.into_iter().filter(|chunk| !chunk.is_empty());
        let chunks = Chunks { chunks: chunks.map(<[u8]>::to_vec).collect(), is_ready: false };
        let mut reader = observer.filter(chunks);
        let mut reads = Vec::new();
        loop {
            let mut bytes = vec![0; most];
            let mut buffer = ReadBuf::new(&mut bytes);
            let mut context = Context::from_waker(Waker::noop());
            if Pin::new(&mut reader).poll_read(&mut context, &mut buffer).is_pending() {
                continue;
            }
            let bytes = buffer.filled().to_vec();
            if bytes.is_empty() {
                let held = &reader.lines.bytes;
                assert!(held.is_empty() && held.capacity() <= 2 * CHUNK, "{held:?}");
                return reads;
            }
            reads.push((bytes, observer.session().ok().map(|_| epoch(observer))));
        }
    }

    fn output(reads: &[(Vec<u8>, Option<u64>)]) -> Vec<u8> {
        reads.iter().flat_map(|(bytes, _)| bytes.clone()).collect()
    }

    /// Asserts that the bytes are unchanged, and that the change was marked before the first byte
    /// of its line was released.
    fn assert_marked(reads: &[(Vec<u8>, Option<u64>)], input: &[u8], change: usize, before: u64) {
        assert!(output(reads) == input, "the bytes differ");
        let mut released = 0;
        for (bytes, epoch) in reads {
            released += bytes.len();
            assert!(released <= change || epoch.unwrap() > before, "{released} bytes are released");
        }
        assert!(reads.last().unwrap().1.unwrap() > before);
    }

    #[test]
    fn a_change_is_marked_before_its_line_is_released_however_the_stream_is_split() {
        let lines = [
            format!("{CHANGE}\n"),
            format!("{CHANGE}\r\n"),
            format!("[{CALL},{CHANGE}]\n"),
            "{\"m\\u0065thod\":\"notifications\\/roots/list_changed\"}\n".to_owned(),
            format!("\u{feff}{CALL}\n"),
            CHANGE.to_owned(),
        ];
        let mut inputs: Vec<_> = lines.iter().map(|line| line.clone().into_bytes()).collect();
        inputs.push(b"{\"method\":\"\xff\"}\n".to_vec());
        for line in inputs {
            let before = format!("{CALL}\n\r\n");
            let after: &[u8] = if line.ends_with(b"\n") { CALL.as_bytes() } else { b"" };
            let input = [before.as_bytes(), &line, after].concat();
            for at in 0..=input.len() {
                for most in [1, 7, CHUNK] {
                    let observer = guard().observer();
                    observer.observe(INITIALIZE.as_bytes());
                    let first = epoch(&observer);
                    let (left, right) = input.split_at(at);
                    let reads = read(&observer, [left, right], most);
                    assert_marked(&reads, &input, before.len(), first);
                }
            }
            let observer = guard().observer();
            observer.observe(INITIALIZE.as_bytes());
            let first = epoch(&observer);
            let reads = read(&observer, input.chunks(1), 2);
            assert_marked(&reads, &input, before.len(), first);
        }
    }

    #[test]
    fn lines_without_a_change_mark_no_change_however_the_stream_is_split() {
        let input = format!("\n{CALL}\r\n \n[{CALL},{CALL}]\n{{}}\n{CALL}");
        for at in 0..=input.len() {
            let observer = guard().observer();
            observer.observe(INITIALIZE.as_bytes());
            let first = epoch(&observer);
            let (left, right) = input.as_bytes().split_at(at);
            let reads = read(&observer, [left, right], 5);
            assert_eq!(output(&reads), input.as_bytes());
            assert_eq!(epoch(&observer), first);
        }
    }

    #[test]
    fn a_complete_line_is_released_while_the_next_is_incomplete() {
        let observer = guard().observer();
        let input = format!("{CALL}\n{CHANGE}");
        let (complete, _) = input.split_at(CALL.len() + 9);
        let mut reader = observer.filter(complete.as_bytes());
        let mut bytes = vec![0; CHUNK];
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut reader).poll_read(&mut context, &mut buffer).is_ready());
        assert_eq!(buffer.filled(), format!("{CALL}\n").as_bytes());
    }

    #[test]
    fn a_line_longer_than_the_limit_is_passed_on_and_marked_at_both_ends() {
        let observer = guard().observer();
        observer.observe(INITIALIZE.as_bytes());
        let first = epoch(&observer);
        let mut input = format!("{CALL}\n").into_bytes();
        let start = input.len();
        input.resize(start + MESSAGE_BYTES + 3 * CHUNK, b' ');
        let end = input.len();
        input.extend_from_slice(format!("\n{CALL}\n").as_bytes());
        let reads = read(&observer, input.chunks(CHUNK), CHUNK);
        assert_marked(&reads, &input, start, first);
        let mut released = 0;
        let mut epochs = Vec::new();
        for (bytes, epoch) in &reads {
            released += bytes.len();
            epochs.push((released, epoch.unwrap()));
        }
        let during = epochs.iter().find(|(released, _)| *released > start).unwrap().1;
        let after = epochs.iter().find(|(released, _)| *released > end).unwrap().1;
        assert!(first < during && during < after, "{first} {during} {after}");
        // The call after the long line is a separate line.
        assert_eq!(epoch(&observer), after);
        // Most of the long line was released before its end arrived.
        assert!(reads.len() > MESSAGE_BYTES / CHUNK);
    }

    #[test]
    fn a_session_begins_with_the_first_readable_initialize_and_keeps_its_capabilities() {
        let guard = guard();
        let observer = guard.observer();
        let refusal = |observer: &Observer| {
            let error = observer.session().unwrap_err();
            (error.reason(), error.operator_detail().unwrap().to_owned())
        };
        let none = (Code::NoSession, "the client has not sent initialize".to_owned());
        assert_eq!(refusal(&observer), none);
        observer.observe(CHANGE.as_bytes());
        observer.observe(format!("[{INITIALIZE}]").as_bytes());
        assert_eq!(refusal(&observer), none);
        observer.observe(br#"{"method":"initialize","params":{"capabilities":[]}}"#);
        let malformed = "the capabilities in initialize are missing or malformed";
        assert_eq!(refusal(&observer), (Code::NoSession, malformed.to_owned()));
        assert_eq!(guard.sessions(), 0);

        observer.observe(INITIALIZE.as_bytes());
        let session = observer.session().unwrap();
        let announcing = ClientCapabilities::with_roots(RootsCapability::announcing());
        assert_eq!(session.declared(), announcing);
        let first = epoch(&observer);
        observer.observe(br#"{"method":"initialize","params":{"capabilities":{}}}"#);
        assert_eq!(
            (observer.session().unwrap().id(), session.declared()),
            (session.id(), announcing)
        );
        assert!(epoch(&observer) > first);

        drop((session, observer));
        assert_eq!(guard.sessions(), 0);
    }

    #[test]
    fn session_treats_a_second_initialize_as_a_change() {
        let declared = ClientCapabilities::with_roots(RootsCapability::silent());
        let session = guard().session(declared).unwrap();
        let epoch = || session.client().epoch().unwrap();
        let mut last = epoch();
        for (message, changes) in [(CALL, false), (CHANGE, true), (INITIALIZE, true), ("?", true)] {
            session.observe(message.as_bytes());
            assert_eq!(epoch() > last, changes, "{message}");
            last = epoch();
        }
        assert_eq!(session.declared(), declared);
    }

    #[test]
    fn debug_shows_neither_the_reader_nor_pending_bytes() {
        let reader = guard().observer().filter("secret");
        let shown = "ObservedReader { observer: Observer { session: \
                     Err(Error(no_session: the request belongs to no known session)) }, .. }";
        assert_eq!(format!("{reader:?}"), shown);
    }
}
