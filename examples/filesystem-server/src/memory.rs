//! The memory that requests over HTTP may take.
//!
//! A request needs memory for its body and the values in it, for what it reads, and for its
//! response until the client has received it. All of it is counted by client, before it is
//! allocated. A client may always hold [`ALWAYS`] bytes. Beyond that, it may hold half of what all
//! other clients leave of [`SHARED`] bytes, so a client that takes as much as it can leaves room for
//! others. A request for which there is no room is refused, and never waits.
//!
//! Clients are not authenticated. A client is a session, or a connection that has none, so a program
//! that opens many of both is many clients. All of them together hold at most `SHARED` bytes, and
//! `ALWAYS` bytes for each session and connection.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::model::Extensions;
use serde::Serialize;

use crate::tools::LIMIT;

/// A client, as far as HTTP shows it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Client {
    Session(HeaderValue),
    Connection(SocketAddr),
}

/// The number of bytes that each client's requests hold.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<HashMap<Client, usize>>);

/// The memory of one request. It is an extension of the HTTP request and a part of the response's
/// body, and is released when both are gone: when the handler has ended, even if the client has
/// disconnected, and the client has received the response.
#[derive(Debug)]
pub(crate) struct Account {
    memory: Arc<Memory>,
    client: Client,
    held: AtomicUsize,
}

impl Memory {
    pub(crate) fn account(self: &Arc<Self>, client: Client) -> Arc<Account> {
        Arc::new(Account { memory: self.clone(), client, held: AtomicUsize::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Client, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Counts further bytes, unless there is no room for them.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let mut clients = self.memory.lock();
        let own = clients.get(&self.client).copied().unwrap_or_default();
        let others = clients.values().sum::<usize>() - own;
        let share = ALWAYS.max(SHARED.saturating_sub(others) / 2);
        let has_room = own.saturating_add(bytes) <= share;
        if has_room {
            clients.insert(self.client.clone(), own + bytes);
            self.held.fetch_add(bytes, Ordering::Relaxed);
        }
        has_room
    }

    /// Gives back bytes that were counted and are not needed.
    pub(crate) fn give_back(&self, bytes: usize) {
        let mut clients = self.memory.lock();
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(own) = clients.get_mut(&self.client) {
            *own -= bytes;
            if *own == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.give_back(self.held.load(Ordering::Relaxed));
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

    pub(crate) const fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Takes room for the content of a file. Call it before reading the file. If the file cannot be
    /// read, reading it returns the reason.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub(crate) fn for_file(&self, roots: &RequestRoots, path: &str) -> Result<(), HandlerError> {
        if self.0.is_none() {
            return Ok(());
        }
        let size = roots.metadata(path).map_or(0, |metadata| metadata.size().min(LIMIT));
        self.take(usize::try_from(size).unwrap_or(usize::MAX))
    }

    /// Takes room for a result in JSON, in which a control character of a text takes six bytes.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub(crate) fn for_result(&self, result: &impl Serialize) -> Result<(), HandlerError> {
        if self.0.is_none() {
            return Ok(());
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

/// The memory that a client may hold whatever others hold: enough for the calls of a program that
/// reads and edits source code.
pub(crate) const ALWAYS: usize = 1 << 20;

/// The memory that all clients share, beyond what each may always hold. The largest result takes
/// 130 MiB: a file of [`LIMIT`] bytes in which each is a control character.
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
        let held = |account: &Account| account.held.load(Ordering::Relaxed);
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
        assert!(memory.0.lock().unwrap().is_empty());
        assert!(!memory.account(connection(1)).take(usize::MAX));
        let account = memory.account(connection(1));
        assert!(account.take(SHARED / 2) && !account.take(1));
        account.give_back(1);
        assert!(account.take(1));
    }
}
