//! A client, its session, and the operations of the tasks that share the session. The client
//! numbers the versions of its list.
//!
//! These properties hold for each call in every schedule:
//!
//! - A call that began after `list_changed` announced a version never receives an earlier one.
//! - A list is discarded if a change was announced before the list arrived.
//! - A call that began after `close` returned is refused.
//! - The client never receives two requests at a time, except that a request sent before a change
//!   may still be pending.
//! - If the client does not announce changes, a call receives the list as it was when the call
//!   began, or a later one.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use mcp_roots_guard::{
    Access, Boundary, CheckedPath, ClientCapabilities, Guard, ListRootsResult, Roots, RootsChanges,
    RootsResponse, RootsSource, RootsState, Session,
};
use shuttle::future::yield_now;

use crate::tree::Tree;

pub(crate) struct World {
    tree: Arc<Tree>,
    pub(crate) guard: Guard,
    session: Session,
    announces: bool,
    /// One in `fails` requests to the client fails. If the number is zero, none fails.
    fails: u64,
    state: Mutex<State>,
}

/// The state of a run, as of the last step, because an access is not a scheduling point.
#[derive(Default)]
struct State {
    /// The current version of the client's list, and the last announced one.
    version: u64,
    announced: u64,
    /// The number of announcements.
    announcements: u64,
    is_closing: bool,
    is_closed: bool,
    asked: u64,
    /// The pending requests to the client, each with the change counters at the start of its call.
    pending: Vec<(u64, u64)>,
    was_asked_twice_at_once: bool,
}

impl State {
    /// The number of changes that have begun and of announcements that have returned.
    fn changes(&self) -> (u64, u64) {
        (self.version, self.announcements)
    }
}

impl World {
    pub(crate) fn new(tree: &Arc<Tree>, announces: bool, fails: u64) -> Arc<Self> {
        let boundary = Boundary::builder().directory(tree.path(""), Access::ReadWrite);
        let guard = Guard::new(boundary.build().unwrap());
        let declared = if announces {
            ClientCapabilities::WithAnnouncedRoots
        } else {
            ClientCapabilities::WithRoots
        };
        let session = guard.session(declared).unwrap();
        let (tree, state) = (tree.clone(), Mutex::default());
        Arc::new(Self { tree, guard, session, announces, fails, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A request that needs the client's roots.
    pub(crate) async fn call(&self) -> Option<Roots> {
        step();
        let (least, is_closed) = self.now();
        let (least, began) = (AtomicU64::new(least), self.state().changes());
        let received = self.session.roots(self.source(&least, began)).await;
        match received {
            Ok(roots) => {
                let (received, least) = (version_of(&roots), least.load(SeqCst));
                assert!(
                    received >= least,
                    "received version {received} after {least} was announced"
                );
                assert!(!is_closed, "received roots after close returned");
                Some(roots)
            }
            Err(error) => {
                match error.code() {
                    "session_closed" => assert!(self.state().is_closing, "closed before close"),
                    "roots_failed" => assert!(self.fails > 0 && !is_closed, "failed by itself"),
                    kind => panic!("{kind}"),
                }
                None
            }
        }
    }

    /// A request that is dropped after this many polls.
    pub(crate) async fn call_dropped_after(&self, mut polls: u32) {
        let mut call = pin!(self.call());
        poll_fn(|context| {
            if call.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            polls -= 1;
            context.waker().wake_by_ref();
            if polls == 0 { Poll::Ready(false) } else { Poll::Pending }
        })
        .await;
    }

    /// The client changes its list and then announces the change.
    pub(crate) fn change(&self) {
        step();
        self.state().version += 1;
        let version = self.state().version;
        self.session.list_changed();
        let mut state = self.state();
        state.announced = state.announced.max(version);
        state.announcements += 1;
    }

    pub(crate) fn close(&self) {
        step();
        self.state().is_closing = true;
        self.session.close();
        self.state().is_closed = true;
    }

    /// A proof, and the version of the list that it is based on. `None` if the list has changed,
    /// because nothing begins through withdrawn roots.
    pub(crate) fn proof(&self, roots: &Roots) -> Option<(CheckedPath, u64)> {
        step();
        let (version, (least, _)) = (version_of(roots), self.now());
        match roots.check("file") {
            Ok(checked) => {
                assert!(version >= least, "version {version} checked after {least} was announced");
                Some((checked, version))
            }
            Err(error) => {
                assert_eq!(error.code(), "roots_stale");
                assert!(self.state().version > version, "withdrawn before a change");
                None
            }
        }
    }

    /// The check by which a long operation determines whether it may continue.
    pub(crate) fn check_still_allowed(&self, checked: &CheckedPath, version: u64) {
        step();
        let (least, is_closed) = self.now();
        match self
            .session
            .known_roots()
            .and_then(|roots| roots.still_allows(checked))
            .map_err(|error| error.code())
        {
            Ok(()) => assert!(
                version >= least && !is_closed,
                "version {version} still allowed after {least} was announced"
            ),
            Err("session_closed") => assert!(self.state().is_closing, "closed before close"),
            Err(kind) => assert!(!is_closed, "{kind} after close returned"),
        }
    }

    pub(crate) fn changes(&self) -> RootsChanges {
        self.session.changes()
    }

    /// Runs the final checks, after all tasks have ended.
    pub(crate) async fn check_at_end(&self) {
        assert!(!self.state().was_asked_twice_at_once, "two requests to the client at a time");
        if self.now().1 {
            assert!(self.call().await.is_none());
            assert_eq!(self.session.state(), RootsState::Closed);
            assert_eq!(self.guard.sessions(), 0);
            assert!(format!("{:?}", self.guard).contains("cached: 0"), "still cached after close");
            return;
        }
        let asked = self.state().asked;
        let kept = self.session.state() == RootsState::Available;
        if let Some(roots) = self.call().await {
            assert_eq!(version_of(&roots), self.state().version, "not the client's current list");
            let again = self.state().asked - asked;
            assert_eq!(again, u64::from(!kept), "cached, but the client was asked again");
        }
        // A change that is announced after a fetch is not lost.
        self.change();
        assert_ne!(self.session.state(), RootsState::Available);
        let received = self.call().await.map(|roots| version_of(&roots));
        let is_current = received == Some(self.state().version);
        assert!(self.fails > 0 || is_current, "the new version was not received");
    }

    fn now(&self) -> (u64, bool) {
        let state = self.state();
        let version = if self.announces { state.announced } else { state.version };
        (version, state.is_closed)
    }

    /// The source that asks the client. Sending the request and receiving the answer are separate
    /// steps. Raises `least` to the last version announced before the answer was received.
    fn source<'a>(&'a self, least: &'a AtomicU64, began: (u64, u64)) -> impl RootsSource + 'a {
        move |_: Option<String>| async move {
            // A panic in this block would be caught as a panic of the server author's code.
            let pending = PendingRequest::begin(self, began);
            yield_now().await;
            let (number, version) = {
                let mut state = self.state();
                state.asked += 1;
                (state.asked, state.version)
            };
            let answer = if self.fails > 0 && number % self.fails == 0 {
                RootsResponse::Failed("scheduled failure".into())
            } else {
                let uri = self.tree.uri(format!("v{version}"));
                RootsResponse::List(ListRootsResult::from_uris([uri]))
            };
            yield_now().await;
            drop(pending);
            least.fetch_max(self.state().announced, SeqCst);
            answer
        }
    }
}

/// A pending request to the client, and the change counters at the start of its call.
struct PendingRequest<'a>(&'a World, (u64, u64));

impl<'a> PendingRequest<'a> {
    fn begin(world: &'a World, began: (u64, u64)) -> Self {
        let mut state = world.state();
        // After a change, an earlier request may still be pending, because its call may not have
        // been polled since.
        let now @ (version, announcements) = state.changes();
        let is_settled = began == now && version == announcements;
        if is_settled && state.pending.contains(&now) && !state.is_closing {
            state.was_asked_twice_at_once = true;
        }
        state.pending.push(began);
        Self(world, began)
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        let pending = &mut self.0.state().pending;
        let open = pending.iter().position(|asked| *asked == self.1).unwrap();
        pending.swap_remove(open);
    }
}

/// Ends the current step, so that other tasks can run before the code that follows.
fn step() {
    shuttle::thread::sleep(Duration::ZERO);
}

fn version_of(roots: &Roots) -> u64 {
    let root = roots.iter().next().unwrap();
    root.path().file_name().and_then(|name| name.to_str()?.strip_prefix('v')?.parse().ok()).unwrap()
}

/// Creates a directory with a file for each version of a list. All runs of a cast share the tree.
pub(crate) fn tree() -> Tree {
    let tree = Tree::in_memory("");
    (0..VERSIONS).for_each(|version| tree.add(&format!("file v{version}/file")));
    tree
}

const VERSIONS: u64 = 8;
