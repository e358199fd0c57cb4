//! The memory that requests over HTTP may take.
//!
//! A request needs memory for its body and the values in it, for the file that it reads, and for its
//! response until that has been handed to the system. It is counted by client, before it is
//! allocated. A client may always hold [`ALWAYS`] bytes. Beyond that, it may hold half of what all
//! other clients leave of [`SHARED`] bytes, so a client that takes as much as it can leaves room for
//! others. A request for which there is no room is refused, and never waits.
//!
//! Clients are not authenticated. A client is a session, or a connection that has none, so a program
//! that opens many of both is many clients. All of them together hold at most `SHARED` bytes, and
//! `ALWAYS` bytes for each session and connection. The entries that a walk of a tool keeps are not
//! counted: each walk keeps at most 48 MiB (`WALK_BYTES`), and the guard limits how many run at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::model::{Extensions, RequestId};
use serde::Serialize;

/// A client, as far as HTTP shows it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Client {
    Session(HeaderValue),
    Connection(SocketAddr),
}

/// What the requests of each client hold.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<HashMap<Client, Held>>);

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// The requests in progress, and whether each is settled. rmcp would keep the stream of one whose
    /// id is used again, and would keep a response that is sent after a cancellation.
    ids: HashMap<RequestId, bool>,
}

/// What one request holds. It is an extension of the HTTP request and a part of the response's body,
/// and is released when both are gone: when the handler has ended, even if the client has
/// disconnected, and the response has been handed to the system.
#[derive(Debug)]
pub(crate) struct Account {
    memory: Arc<Memory>,
    client: Client,
    bytes: AtomicUsize,
    id: OnceLock<RequestId>,
}

impl Memory {
    pub(crate) fn account(self: &Arc<Self>, client: Client) -> Arc<Account> {
        let (bytes, id) = (AtomicUsize::new(0), OnceLock::new());
        Arc::new(Account { memory: self.clone(), client, bytes, id })
    }

    /// Settles a request in progress: either it is cancelled, or it has a result. Returns whether
    /// this was first.
    pub(crate) fn settle(&self, client: &Client, id: &RequestId) -> bool {
        let mut clients = self.lock();
        let is_settled = clients.get_mut(client).and_then(|held| held.ids.get_mut(id));
        is_settled.is_some_and(|is_settled| !std::mem::replace(is_settled, true))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Client, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Counts further bytes, unless there is no room for them.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let mut clients = self.memory.lock();
        let all: usize = clients.values().map(|held| held.bytes).sum();
        let held = clients.entry(self.client.clone()).or_default();
        let share = ALWAYS.max(SHARED.saturating_sub(all - held.bytes) / 2);
        let has_room = held.bytes.saturating_add(bytes) <= share;
        if has_room {
            held.bytes += bytes;
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        has_room
    }

    /// Begins the client's request with this id, unless one is in progress.
    pub(crate) fn begin(&self, id: RequestId) -> bool {
        let mut clients = self.memory.lock();
        let ids = &mut clients.entry(self.client.clone()).or_default().ids;
        let Entry::Vacant(new) = ids.entry(id.clone()) else { return false };
        new.insert(false);
        self.id.set(id).is_ok()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut clients = self.memory.lock();
        let Some(held) = clients.get_mut(&self.client) else { return };
        held.bytes -= self.bytes.load(Ordering::Relaxed);
        let _ = self.id.get().map(|id| held.ids.remove(id));
        if held.bytes == 0 && held.ids.is_empty() {
            clients.remove(&self.client);
        }
    }
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
    ///
    /// # Errors
    ///
    /// There is no room.
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
    /// request cannot be cancelled any more.
    ///
    /// # Errors
    ///
    /// There is no room, or the request was cancelled.
    pub(crate) fn for_result(&self, result: &impl Serialize) -> Result<(), HandlerError> {
        let Some(account) = &self.0 else { return Ok(()) };
        let id = account.id.get();
        if id.is_some_and(|id| !account.memory.settle(&account.client, id)) {
            return Err(HandlerError::new("the request was cancelled"));
        }
        let mut encoded = Count(0);
        serde_json::to_writer(&mut encoded, result).map_err(HandlerError::other)?;
        self.take(ENCODED * encoded.0)
    }

    /// Takes room for further bytes.
    ///
    /// # Errors
    ///
    /// There is no room.
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

/// The memory that a client may hold whatever others hold: enough to read or write a text of 170 KiB,
/// or to send a list of a hundred roots.
pub(crate) const ALWAYS: usize = 1 << 20;

/// The memory that all clients share, beyond what each may always hold. The largest result takes
/// 130 MiB: a file of 10 MiB in which each is a control character.
pub(crate) const SHARED: usize = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(port: u16) -> Client {
        Client::Connection(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    #[test]
    fn client_that_takes_all_it_can_leaves_room_for_others() {
        let memory = Arc::new(Memory::default());
        let take_all = |client: &Client| {
            let account = memory.account(client.clone());
            while account.take(64 << 10) {}
            account
        };
        let held = |account: &Account| account.bytes.load(Ordering::Relaxed);
        // The second account of a client shares the room of the first.
        let first = (take_all(&connection(1)), take_all(&connection(1)));
        assert_eq!(held(&first.0) + held(&first.1), SHARED / 2);
        let second = take_all(&Client::Session(HeaderValue::from_static("a")));
        assert_eq!(held(&second), SHARED / 4);
        let others: Vec<_> = (2..100).map(|port| take_all(&connection(port))).collect();
        for other in &others {
            assert!(held(other) >= ALWAYS);
        }
        drop((first, second, others));
        assert!(memory.lock().is_empty());
        assert!(!memory.account(connection(1)).take(usize::MAX));
        let account = memory.account(connection(1));
        assert!(account.take(SHARED / 2) && !account.take(1));
    }

    #[test]
    fn id_of_a_request_in_progress_is_not_used_again() {
        let memory = Arc::new(Memory::default());
        let begin = |port: u16, id: i64| {
            let account = memory.account(connection(port));
            account.begin(RequestId::Number(id)).then_some(account)
        };
        let first = begin(1, 7);
        assert!(first.is_some() && begin(1, 7).is_none() && begin(1, 7).is_none());
        assert!(begin(1, 8).is_some() && begin(2, 7).is_some());
        // Of a cancellation and a result, the first counts.
        let settle = |id: i64| memory.settle(&connection(1), &RequestId::Number(id));
        assert_eq!((settle(7), settle(7), settle(9)), (true, false, false));
        drop(first);
        assert!(begin(1, 7).is_some());
        assert!(memory.lock().is_empty());
    }
}
