//! The memory that requests over HTTP may take.
//!
//! A request needs memory for its body and the values in it, for the file that it reads, and for
//! its response until that has been handed to the system. It is counted before it is allocated.
//! Every request has [`FREE`] bytes of its own, so small requests are always served. Beyond that,
//! all requests share [`SHARED`] bytes, and none takes more than half of what is left. A request
//! for which there is no room is refused, and never waits.
//!
//! The entries that a walk of a tool keeps are not counted: each walk keeps at most 48 MiB
//! (`WALK_BYTES`), and the guard limits how many run at once.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::model::{Extensions, RequestId};
use serde::Serialize;

use crate::lock;

/// The memory that is left, and the requests in sessions.
#[derive(Debug)]
pub(crate) struct Memory {
    left: AtomicUsize,
    /// The requests in progress, and whether each is settled. rmcp would keep the stream of one
    /// whose id is used again, and would keep a response that is sent after a cancellation.
    requests: Mutex<HashMap<Request, bool>>,
}

/// A session and the id of a request in it.
type Request = (HeaderValue, RequestId);

impl Memory {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(SHARED), requests: Mutex::default() })
    }

    pub(crate) fn account(self: &Arc<Self>) -> Arc<Account> {
        let (bytes, request) = (Mutex::new(0), OnceLock::new());
        Arc::new(Account { memory: self.clone(), bytes, request })
    }

    /// Settles a request in progress: either it is cancelled, or it has a result. Returns whether
    /// this was first.
    pub(crate) fn settle(&self, request: &Request) -> bool {
        let mut requests = lock(&self.requests);
        let is_settled = requests.get_mut(request);
        is_settled.is_some_and(|is_settled| !std::mem::replace(is_settled, true))
    }
}

/// What one request holds. It is an extension of the HTTP request and a part of the response's
/// body, and is released when both are gone: when the handler has ended, even if the client has
/// disconnected, and the response has been handed to the system.
#[derive(Debug)]
pub(crate) struct Account {
    memory: Arc<Memory>,
    bytes: Mutex<usize>,
    request: OnceLock<Request>,
}

impl Account {
    /// Counts further bytes, unless there is no room for them.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let mut held = lock(&self.bytes);
        let total = held.saturating_add(bytes);
        let more = shared(total) - shared(*held);
        let take = |left| (more <= left / 2).then(|| left - more);
        let taken = self.memory.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_ok() {
            *held = total;
        }
        taken.is_ok()
    }

    /// Begins a request, unless the session has one in progress with the same id.
    pub(crate) fn begin(&self, request: Request) -> bool {
        let mut requests = lock(&self.memory.requests);
        if requests.contains_key(&request) {
            return false;
        }
        requests.insert(request.clone(), false);
        self.request.set(request).is_ok()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.memory.left.fetch_add(shared(*lock(&self.bytes)), Ordering::Relaxed);
        if let Some(request) = self.request.get() {
            lock(&self.memory.requests).remove(request);
        }
    }
}

/// The part of a request's bytes that counts as shared.
fn shared(bytes: usize) -> usize {
    bytes.saturating_sub(FREE)
}

/// The room for a handler's result. It is not limited on stdio, which has a single client.
#[derive(Clone, Debug)]
pub(crate) struct Room(Option<Arc<Account>>);

impl Room {
    /// The room for the result of a request with these extensions.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        Self(extensions.get::<Parts>().and_then(|parts| parts.extensions.get()).cloned())
    }

    /// Takes room for the content of a file, of which at most `limit` bytes are read. Call it before
    /// reading the file. If the file cannot be read, reading it returns the reason.
    pub(crate) fn for_file(
        &self,
        roots: &RequestRoots,
        path: &str,
        limit: u64,
    ) -> Result<(), HandlerError> {
        if self.0.is_none() {
            return Ok(());
        }
        let size = roots.metadata(path).map_or(0, |metadata| metadata.len().min(limit));
        self.take(usize::try_from(size).unwrap_or(usize::MAX))
    }

    /// Takes room for a result in JSON, in which a control character of a text takes six bytes. The
    /// request cannot be cancelled any more. If it was cancelled before, returns an error.
    pub(crate) fn for_result(&self, result: &impl Serialize) -> Result<(), HandlerError> {
        let Some(account) = &self.0 else { return Ok(()) };
        if account.request.get().is_some_and(|request| !account.memory.settle(request)) {
            return Err(HandlerError::new("the request was cancelled"));
        }
        let mut encoded = Count(0);
        serde_json::to_writer(&mut encoded, result).map_err(HandlerError::other)?;
        self.take(ENCODED * encoded.0)
    }

    /// Takes room for further bytes.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), HandlerError> {
        let has_room = self.0.as_ref().is_none_or(|account| account.take(bytes));
        if has_room { Ok(()) } else { Err(HandlerError::new(FULL)) }
    }
}

/// Counts the bytes that are written to it.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a model reads if there is no room for its result.
const FULL: &str = "the server has too little memory left for this result, because clients have \
                    not yet received earlier ones: request less at once, or try again later";

/// The number of copies of a response that exist while it is encoded.
const ENCODED: usize = 2;

/// The memory of each request that is not shared: enough to read or write a text of 170 KiB, or to
/// send a list of a hundred roots.
const FREE: usize = 1 << 20;

/// The memory that all requests share. The largest result takes 130 MiB: a file of 10 MiB in which
/// each byte is a control character.
const SHARED: usize = 512 << 20;
