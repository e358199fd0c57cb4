//! The memory that requests over HTTP may take.
//!
//! A request needs memory for its body and the values in it, for the file that it reads, and for
//! its response until that has been handed to the system. It is counted before it is allocated.
//! Every request has [`FREE`] bytes of its own, so small requests are always served. Beyond that,
//! all requests share [`SHARED`] bytes, and none takes more than half of what is left. A request
//! for which there is no room is refused, and only a walk waits.
//!
//! Connections limit how many requests have bytes of their own. When a client disconnects, the bytes
//! of its request therefore become shared, or the request is cancelled.
//!
//! A walk counts as the most that it can keep (`WALK_BYTES`), whatever it finds, until it ends. So
//! only few walks run at a time, and no session has all of them. The others wait in their client's
//! slots, of which the guard leaves each client some.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

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
    /// How many walks each session has, and all requests without one.
    walks: Mutex<HashMap<Option<HeaderValue>, usize>>,
}

/// A session and the id of a request in it.
type Request = (HeaderValue, RequestId);

impl Memory {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(SHARED),
            requests: Mutex::default(),
            walks: Mutex::default(),
        })
    }

    /// The number of shared bytes that requests hold.
    pub(crate) fn held(&self) -> usize {
        SHARED - self.left.load(Ordering::Relaxed)
    }

    /// Settles a request in progress: either it is cancelled, or it has a result. Returns whether
    /// this was first.
    pub(crate) fn settle(&self, request: &Request) -> bool {
        let mut requests = lock(&self.requests);
        let is_settled = requests.get_mut(request);
        is_settled.is_some_and(|is_settled| !std::mem::replace(is_settled, true))
    }
}

/// The memory of one request. It is an extension of the HTTP request and a part of the response's
/// body, and is released when both are gone: when the handler has ended, even if the client has
/// disconnected, and the response has been handed to the system.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// `None` on stdio, which has a single client and no limit.
    memory: Option<Arc<Memory>>,
    held: Mutex<Usage>,
    request: OnceLock<Request>,
}

/// The bytes of a request.
#[derive(Debug, Default)]
struct Usage {
    bytes: usize,
    /// How many of them are not shared, at most.
    own: usize,
}

impl Room {
    pub(crate) fn new(memory: &Arc<Memory>) -> Arc<Self> {
        let held = Mutex::new(Usage { bytes: CALL, own: FREE });
        Arc::new(Self { memory: Some(memory.clone()), held, request: OnceLock::new() })
    }

    /// The room of a request with these extensions.
    pub(crate) fn of(extensions: &Extensions) -> Arc<Self> {
        let parts = extensions.get::<Parts>();
        parts.and_then(|parts| parts.extensions.get()).cloned().unwrap_or_default()
    }

    /// Begins a request, unless the session has one in progress with the same id.
    pub(crate) fn begin(&self, request: Request) -> bool {
        let Some(memory) = &self.memory else { return true };
        let mut requests = lock(&memory.requests);
        let Entry::Vacant(new) = requests.entry(request.clone()) else { return false };
        new.insert(false);
        self.request.set(request).is_ok()
    }

    /// Takes room for further bytes, unless there is none.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        let mut held = lock(&self.held);
        let Usage { bytes: before, own } = *held;
        self.replace(&mut held, Usage { bytes: before.saturating_add(bytes), own })
    }

    /// Replaces the bytes that are held, unless there is no room for those that become shared.
    fn replace(&self, held: &mut Usage, by: Usage) -> bool {
        let Some(memory) = &self.memory else { return true };
        let (before, after) = (held.shared(), by.shared());
        let is_more_than_half = |left| after.saturating_sub(before) > left / 2;
        let take = |left| (!is_more_than_half(left)).then(|| left + before - after);
        let taken = memory.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_ok() {
            *held = by;
        }
        taken.is_ok()
    }

    /// All bytes of the request are shared from now on, because its client has disconnected.
    /// Returns the request if there is no room for them. It must then be cancelled.
    pub(crate) fn detach(self: &Arc<Self>) -> Option<&Request> {
        // The handler has ended.
        if Arc::strong_count(self) == 1 {
            return None;
        }
        let mut held = lock(&self.held);
        let bytes = held.bytes;
        if self.replace(&mut held, Usage { bytes, own: 0 }) {
            return None;
        }
        let memory = self.memory.as_ref()?;
        self.request.get().filter(|request| memory.settle(request))
    }

    /// Takes room for further bytes of a handler.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), HandlerError> {
        if self.try_take(bytes) { Ok(()) } else { Err(HandlerError::new(FULL)) }
    }

    /// Begins a part of the request's work. The room that it takes is its own.
    pub(crate) fn part(&self) -> RoomPart<'_> {
        RoomPart { room: self, before: lock(&self.held).bytes }
    }

    /// Waits for the room of a walk, which is taken until the result is dropped.
    pub(crate) fn for_walk(
        &self,
        bytes: usize,
        roots: &RequestRoots,
    ) -> Result<WalkRoom<'_>, HandlerError> {
        let (part, end) = (self.part(), Instant::now() + WAIT);
        while !self.try_walk(bytes) {
            roots.ensure_usable()?;
            if Instant::now() >= end {
                return Err(HandlerError::new(WALKING));
            }
            thread::sleep(LOOK);
        }
        Ok(WalkRoom(part))
    }

    /// Begins a walk, unless its client has enough of them, or there is no room.
    fn try_walk(&self, bytes: usize) -> bool {
        let Some(memory) = &self.memory else { return true };
        let mut walks = lock(&memory.walks);
        let of_client = walks.entry(self.client()).or_default();
        let is_possible = *of_client < WALKS && self.try_take(bytes);
        *of_client += usize::from(is_possible);
        is_possible
    }

    /// The session, or one value for all requests without one.
    fn client(&self) -> Option<HeaderValue> {
        self.request.get().map(|(session, _)| session.clone())
    }

    /// Takes room for the content of a file, of which at most `limit` bytes are read. Call it before
    /// reading the file.
    pub(crate) fn for_file(
        &self,
        roots: &RequestRoots,
        path: &str,
        limit: u64,
    ) -> Result<(), HandlerError> {
        if self.memory.is_none() {
            return Ok(());
        }
        let size = roots.metadata(path)?.len().min(limit);
        self.take(usize::try_from(size).unwrap_or(usize::MAX))
    }

    /// Takes room for a result in JSON, in which a control character of a text takes six bytes. The
    /// request cannot be cancelled any more. If it was cancelled before, returns an error.
    pub(crate) fn for_result(&self, result: &impl Serialize) -> Result<(), HandlerError> {
        let Some(memory) = &self.memory else { return Ok(()) };
        if self.request.get().is_some_and(|request| !memory.settle(request)) {
            return Err(HandlerError::new("the request was cancelled"));
        }
        let mut encoded = Count(0);
        serde_json::to_writer(&mut encoded, result).map_err(HandlerError::other)?;
        // Two copies exist while the response is encoded.
        self.take(2 * encoded.0)
    }
}

/// The room that a part of a request's work has taken, which is given back when this is dropped.
pub(crate) struct RoomPart<'a> {
    room: &'a Room,
    before: usize,
}

impl Drop for RoomPart<'_> {
    fn drop(&mut self) {
        let mut held = lock(&self.room.held);
        let own = held.own;
        self.room.replace(&mut held, Usage { bytes: self.before, own });
    }
}

/// The room that a walk has taken.
pub(crate) struct WalkRoom<'a>(RoomPart<'a>);

impl Drop for WalkRoom<'_> {
    fn drop(&mut self) {
        let RoomPart { room, .. } = self.0;
        let Some(memory) = &room.memory else { return };
        lock(&memory.walks).retain(|client, count| {
            *count -= usize::from(*client == room.client());
            *count > 0
        });
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let Some(memory) = &self.memory else { return };
        memory.left.fetch_add(lock(&self.held).shared(), Ordering::Relaxed);
        if let Some(request) = self.request.get() {
            lock(&memory.requests).remove(request);
        }
    }
}

impl Usage {
    fn shared(&self) -> usize {
        self.bytes.saturating_sub(self.own)
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

/// How long a walk waits for room, of the 30 seconds that a client waits for its result.
const WAIT: Duration = Duration::from_secs(20);

/// How many walks of a session may run at a time, so that others have room. There is room for five
/// searches of contents.
const WALKS: usize = 3;

/// What a model reads if a walk has waited for too long.
const WALKING: &str = "too many searches and listings of trees are running; try again later";

/// How often a walk that waits looks for room, and whether it is cancelled.
const LOOK: Duration = Duration::from_millis(10);

/// The memory of each request that is not shared: enough to read or write a text of 170 KiB, or to
/// send a list of a hundred roots.
const FREE: usize = 1 << 20;

/// The memory that a call takes besides its message and its result. 15 KiB were measured.
const CALL: usize = 32 << 10;

/// The memory that all requests share. The largest result takes 130 MiB: a file of 10 MiB in which
/// each byte is a control character.
const SHARED: usize = 512 << 20;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use mcp_roots_guard::limits::WALK_BYTES;

    use super::*;

    #[test]
    fn a_part_gives_back_what_it_took() {
        let memory = Memory::new();
        let room = Room::new(&memory);
        assert!(room.try_take(FREE));
        let before = memory.held();
        let part = room.part();
        assert!(room.try_take(FREE) && room.try_take(FREE));
        assert_eq!(memory.held(), before + 2 * FREE);
        drop(part);
        assert_eq!(memory.held(), before);
    }

    #[test]
    fn walks_of_a_session_leave_room_for_those_of_others() {
        let memory = Memory::new();
        let room = |session, id| {
            let room = Room::new(&memory);
            assert!(room.begin((HeaderValue::from_static(session), RequestId::Number(id))));
            room
        };
        let rooms: Vec<_> = (0..=3).map(|id| room("one", id)).collect();
        let begun: Vec<_> = rooms.iter().map(|room| room.try_walk(WALK_BYTES)).collect();
        assert_eq!(begun, [true, true, true, false]);
        assert!(room("other", 0).try_walk(WALK_BYTES));
        drop(WalkRoom(RoomPart { room: &rooms[0], before: CALL }));
        assert!(rooms[3].try_walk(WALK_BYTES));
        for number in [1, 2, 3] {
            drop(WalkRoom(RoomPart { room: &rooms[number], before: CALL }));
        }
        drop(rooms);
        // The walk of the other session has not ended.
        assert_eq!(lock(&memory.walks).len(), 1);
    }
}
