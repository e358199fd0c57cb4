//! The roots in force for a request, in either era.
//!
//! In the session era, a request belongs to the session that the wrapped transport added to its
//! extensions, and to no other. In the stateless era, a list is used only if the request itself
//! declares roots, and each list is resolved within the allowed directories.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

use ::rmcp::model::{Extensions, InputRequiredResult, InputResponses};
use ::rmcp::service::{RequestContext, RoleServer};
use guarded_fs::host::{self, Scope};
use guarded_fs::{Result, Roots};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::input::ClientInput;
use super::key::ClientKey;
use super::peer::PeerSource;
use super::transport::Arrival;
use crate::session::epoch::Epoch;
use crate::session::errors::{no_session, roots_failed, roots_stale};
use crate::session::{Client, ClientRoots, Guard, RootsInForce, RootsResponse, Session};
use crate::wire::{ClientCapabilities, Revision};

/// The roots in force for one request: [`Roots`] with the request's session and cancellation.
///
/// They end
///
/// - when the work that received them returns or is dropped, and when rmcp has sent the response
///   ([`ROOTS_STALE`](crate::kinds::ROOTS_STALE));
/// - as soon as rmcp has processed the client's cancellation, or noticed that it disconnected
///   ([`CANCELLED`](crate::kinds::CANCELLED)), even while work still uses them;
/// - in the session era, as soon as the client has announced a change to its roots
///   ([`ROOTS_STALE`](crate::kinds::ROOTS_STALE)), or the session is closed
///   ([`SESSION_CLOSED`](crate::kinds::SESSION_CLOSED)).
///
/// From then on, nothing begins through them or through what was made from them: neither an
/// operation nor the next entry of a walk. [`Scope`] lists when each operation asks. Open files
/// stay open. Work that uses no roots for long, such as a computation, calls
/// [`ensure_usable`](Roots::ensure_usable) between its steps.
///
/// A client that uses the same id for two concurrent requests can keep the roots of the first one
/// valid until its work ends.
///
/// Code that outlives its request, such as a subscription or a task, should keep a [`Session`]
/// ([`Guard::session_of`]) and the path, and check it again in [`Session::known_roots`].
#[derive(Clone, Debug)]
pub struct RequestRoots {
    pub(super) request: Arc<Request>,
}

pub(super) enum RootsOutcome<R> {
    Roots(RequestRoots),
    Question(R),
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) roots: Roots,
    pub(super) scope: Arc<RequestScope>,
    /// `None` in the stateless era.
    session: Option<Session>,
    responses: InputResponses,
    /// Whether each retry must contain the client's list: in the stateless era, if it declared
    /// roots.
    pub(super) must_list_again: bool,
}

pub(super) struct RequestScope {
    /// rmcp cancels it when the client cancels the request, and when the response was sent.
    cancelled: CancellationToken,
    /// A child of that token, which is also cancelled when the work has ended.
    over: CancellationToken,
    /// Whether the work had ended before the request was cancelled.
    work_ended: AtomicBool,
    epoch: Arc<Epoch>,
    pub(super) client: Arc<Client>,
    steps: AtomicU64,
}

/// Ends the roots of a request when its work has ended or is dropped.
pub(super) struct EndOnDrop(pub(super) Arc<RequestScope>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let Self(scope) = self;
        scope.work_ended.store(!scope.cancelled.is_cancelled(), SeqCst);
        scope.over.cancel();
    }
}

impl RequestRoots {
    /// The client's responses to the handler's own requests for input, under the handler's keys.
    /// They are untrusted.
    #[must_use]
    pub fn responses(&self) -> &InputResponses {
        &self.request.responses
    }

    /// The client's session. `None` in the stateless era, or if the transport is not wrapped.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.request.session.as_ref()
    }
}

impl RequestScope {
    /// A number that rises with each step of the request's work: whenever its roots are asked
    /// whether they are over.
    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }
}

impl Scope for RequestScope {
    fn number(&self) -> NonZeroU64 {
        self.epoch.number()
    }

    fn share(&self) -> &str {
        self.epoch.share()
    }

    fn ensure_usable(&self) -> Result<()> {
        self.steps.fetch_add(1, Relaxed);
        // Defense: Roots allow nothing after their request was answered or cancelled.
        if !self.over.is_cancelled() {
            return self.epoch.ensure_usable();
        }
        let has_ended = self.work_ended.load(SeqCst);
        Err(if has_ended { roots_stale(ENDED) } else { super::cancelled() })
    }
}

impl fmt::Debug for RequestScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestScope").finish_non_exhaustive()
    }
}

impl Deref for RequestRoots {
    type Target = Roots;

    fn deref(&self) -> &Roots {
        &self.request.roots
    }
}

impl Guard {
    /// Returns the roots in force for a request, or the response with which `ask` asks the client
    /// for them. Without `ask`, the client cannot be asked in the stateless era: the request gets
    /// what is in force without its list, even if that is nothing. If the client capabilities in a
    /// request of the stateless era are missing or malformed, the error is `roots_failed`.
    ///
    /// Await this in the handler's own task, because the client is asked within the request.
    pub(super) async fn roots_for<R>(
        &self,
        ctx: &RequestContext<RoleServer>,
        mut input: ClientInput,
        ask: Option<fn(InputRequiredResult) -> R>,
    ) -> Result<RootsOutcome<R>> {
        let stateless = stateless(ctx);
        let session = match self.session_of(&ctx.extensions) {
            _ if stateless => None,
            // If client roots are ignored, the client's identity and capabilities do not matter.
            Err(_) if self.choices().client_roots == ClientRoots::Ignore => None,
            session => Some(session.map_err(|error| host::log_refused(error, None))?),
        };
        let client = if let Some(session) = &session {
            session.client().clone()
        } else {
            let declared =
                if stateless { declared(ctx) } else { Ok(ClientCapabilities::WithoutRoots) };
            let declared = declared.map_err(|error| host::log_refused(error, None))?;
            let share = Arrival::share(&ctx.extensions);
            Arc::new(Client::new(self.clone(), declared, share))
        };
        let must_list_again = stateless && client.without_list().is_none();
        let sent = input.roots.take();
        if let (true, Some(ask), None) = (must_list_again, ask, &sent) {
            return Ok(RootsOutcome::Question(ask(input.into_roots_request())));
        }
        let RootsInForce { roots, epoch } = if !stateless {
            client.roots(PeerSource(ctx.peer.clone())).await?
        } else if ask.is_some() {
            let sent = sent.map(|sent| RootsResponse::from_result(sent).into_list());
            // Without a list, the list is not read.
            let list = sent.unwrap_or_else(|| Err(roots_failed("the request has no list")));
            client.roots_of_list(list).await?
        } else {
            client.known_roots(&roots_stale(CANNOT_ASK))?
        };
        let scope = Arc::new(RequestScope {
            cancelled: ctx.ct.clone(),
            over: ctx.ct.child_token(),
            work_ended: AtomicBool::new(false),
            epoch,
            client,
            steps: AtomicU64::new(0),
        });
        let roots = host::in_scope(roots, scope.clone());
        let responses = input.responses;
        let request = Request { roots, scope, session, responses, must_list_again };
        Ok(RootsOutcome::Roots(RequestRoots { request: Arc::new(request) }))
    }

    /// Returns the session that a request of the session era belongs to, for [`Session::changes`]
    /// and [`Session::known_roots`].
    ///
    /// # Errors
    ///
    /// - [`NO_SESSION`](crate::kinds::NO_SESSION) if the request came through a transport that this
    ///   guard did not [wrap](Self::wrap), if its client did not begin with `initialize`, or if its
    ///   [`ClientKey`] differs from the key that its session began with.
    /// - [`BUSY`](crate::kinds::BUSY) (`too_many_sessions`) if there were too many sessions at the
    ///   client's `initialize`.
    pub fn session_of(&self, extensions: &Extensions) -> Result<Session> {
        let connection = Arrival::connection(extensions).ok_or_else(|| no_session(NOT_WRAPPED))?;
        let session = connection.session.clone()?;
        if !std::ptr::eq(session.client().guard.choices(), self.choices()) {
            return Err(no_session(
                "the transport is wrapped by another guard: use the same guard or its clones",
            ));
        }
        // Defense: A session serves only the client that it began with.
        if connection.key.as_ref() != ClientKey::of(extensions) {
            return Err(no_session("the session began with another client key or without one"));
        }
        Ok(session)
    }
}

const NOT_WRAPPED: &str = "either this guard did not wrap the transport, or the client did not \
                           begin with initialize. On stdio, serve Guard::wrap(transport). Over \
                           streamable HTTP, pass the session manager to Guard::wrap_sessions";

const ENDED: &str = "the request of these roots has ended, or its RequestRoots was dropped; obtain \
                     roots for each request, and keep RequestRoots while its clones are in use";

const CANNOT_ASK: &str = "the client cannot be asked for its roots in this request";

/// Whether a request belongs to the stateless era. For an unknown version, rmcp's classification
/// decides.
///
/// Within a session, only the request's own version is used, because rmcp's record of the client is
/// the version that the last `initialize` requested.
pub(super) fn stateless(ctx: &RequestContext<RoleServer>) -> bool {
    let in_session = Arrival::connection(&ctx.extensions).is_some();
    let version = if in_session { ctx.meta.protocol_version() } else { ctx.protocol_version() };
    version.is_some_and(|version| !version.has_initialize())
}

/// The protocol revision that determines the form of an error response.
pub(super) fn revision(ctx: &RequestContext<RoleServer>) -> Revision {
    let stateless = stateless(ctx);
    let known =
        ctx.protocol_version().and_then(|version| version.as_str().parse::<Revision>().ok());
    let known = known.filter(|known| known.is_stateless() == stateless);
    known.unwrap_or(if stateless { Revision::V2026_07_28 } else { Revision::V2025_11_25 })
}

fn declared(ctx: &RequestContext<RoleServer>) -> Result<ClientCapabilities> {
    let declared = ctx.meta.get(ClientCapabilities::META_KEY).cloned().unwrap_or(Value::Null);
    // Defense: Malformed capabilities are an error, not a client without roots.
    serde_json::from_value(declared)
        .map_err(|error| roots_failed(&format!("client capabilities: {error}")))
}
