//! The roots in force for a request, in either era.
//!
//! Goes in: the context that rmcp gives a handler, and what the client sent along. Comes out: [`RequestRoots`], or the question that the
//! request's result must be. What is true after: in the stateless era, roots count only if the request itself declares them, and each
//! answer is judged anew; in the session era, only the session that the transport or the session manager put into the request counts.

use std::ops::Deref;
use std::sync::Arc;

use ::rmcp::model::{Extensions, InputRequiredResult, InputResponses};
use ::rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::input::{ClientInput, add_question};
use super::peer::PeerSource;
use super::transport::{Connection, Received};
use crate::error::{Code, Error, Result};
use crate::events::{self, SessionId};
use crate::roots::Roots;
use crate::session::cache::Cached;
use crate::session::runtime::Instant;
use crate::session::{
    ClientKey, ClientRoots, Guard, RootsResponse, RootsState, Session, fetch_failed,
};
use crate::wire::{ClientCapabilities, ListRootsResult, Revision};
use crate::workers::Account;
use tokio_util::sync::DropGuard;

/// The roots in force for one request: [`Roots`], and what is known of the request besides.
///
/// They serve for the request alone. When the work that they were given to returns, or when they
/// are dropped, they end, and so does every clone of the [`Roots`]: each operation is then refused
/// ([`RootsStale`](crate::ErrorKind::RootsStale)). They end as soon as rmcp has sent the answer, or
/// has seen that the client cancelled the request, also while work on them goes on. What was opened
/// before stays open, and a [`Walk`](crate::Walk) or [`ReadDir`](crate::ReadDir) that was begun
/// goes on: drop it with the request. A client that uses one id for two requests at a time can keep
/// the roots of the first until that one is dropped.
///
/// What outlives its request, as a subscription or a task does, keeps a [`Session`]
/// ([`Guard::session_of`]) and a [`CheckedPath`](crate::CheckedPath), and asks
/// [`Session::still_allows`].
#[derive(Debug)]
pub struct RequestRoots {
    roots: Roots,
    /// Cancelled when the roots end. A child of the request's own token.
    lease: CancellationToken,
    /// The session and its epoch, where a change can be told.
    session: Option<(Session, Option<u64>)>,
    cancelled: CancellationToken,
    responses: InputResponses,
    /// Whether the client told them in this request, and has to in the next.
    told: bool,
    /// Who is charged for the request's work.
    account: Account,
    /// Whose earlier request told them, in the stateless era.
    remembered: Option<(Guard, ClientKey)>,
}

/// What a request that needs roots comes to.
#[derive(Debug)]
pub enum RootsForRequest {
    /// They are in force.
    Roots(RequestRoots),
    /// The client has to be asked: the request's result. Stateless era only.
    InputRequired(InputRequiredResult),
}

impl RequestRoots {
    /// Whether what takes long may go on: ask before each step.
    ///
    /// # Errors
    ///
    /// [`Cancelled`](crate::ErrorKind::Cancelled) if the client cancelled the request, or is gone,
    /// or was answered; [`RootsStale`](crate::ErrorKind::RootsStale) if it said that its roots
    /// changed since the request took them; [`SessionClosed`](crate::ErrorKind::SessionClosed). In
    /// the stateless era nobody tells of changes: there only the first.
    pub fn ensure_active(&self) -> Result<()> {
        match &self.session {
            _ if self.cancelled.is_cancelled() => Err(Code::Cancelled.into()),
            Some((session, epoch)) => session.ensure_current(*epoch),
            None => Ok(()),
        }
    }

    /// Whether work may begin that has waited for a place: as [`ensure_active`](Self::ensure_active), and roots
    /// that the client told in an earlier request are still those that it told last, in time.
    pub(super) fn begin(&self) -> Result<()> {
        self.ensure_active()?;
        match &self.remembered {
            Some((guard, key))
                if !guard.last_of(key).is_some_and(|last| last.is_same_snapshot(&self.roots)) =>
            {
                Err(Code::RootsStale.into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn session_id(&self) -> Option<SessionId> {
        self.roots.session()
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// What the client answered to what the handler itself asked, by the handler's keys. As everything in a request, it may be made up.
    #[must_use]
    pub fn responses(&self) -> &InputResponses {
        &self.responses
    }

    /// The client's session; none in the stateless era, nor on a transport that is not wrapped.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref().map(|(session, _)| session)
    }

    /// The handler's own question, and the guard's with it if the retry needs roots again. [`Guard::tool`] and the like do this.
    #[must_use]
    pub fn input_required(&self, mut own: InputRequiredResult) -> InputRequiredResult {
        if self.told {
            add_question(&mut own);
        }
        own
    }

    /// What is left of it when the roots are given away.
    pub(super) fn must_list_again(&self) -> bool {
        self.told
    }

    /// Ends when the work does, whatever that did with the roots.
    pub(super) fn ends_with_work(&self) -> DropGuard {
        self.lease.clone().drop_guard()
    }

    pub(super) fn cancellation(&self) -> CancellationToken {
        self.cancelled.clone()
    }
}

impl Drop for RequestRoots {
    fn drop(&mut self) {
        self.lease.cancel();
    }
}

impl Deref for RequestRoots {
    type Target = Roots;

    fn deref(&self) -> &Roots {
        &self.roots
    }
}

impl Guard {
    /// The roots in force for a request, or the question to answer it with. [`tool`](Self::tool), [`resource`](Self::resource)
    /// and [`prompt`](Self::prompt) do this and more; it is for handlers that do their work otherwise.
    ///
    /// In the session era the client is asked within the request, so it must be awaited in the handler's own task; see
    /// [`Session::roots`] for time limits and what happens at a change.
    ///
    /// # Errors
    ///
    /// [`NoSession`](crate::ErrorKind::NoSession) if the request is of the session era, and came
    /// through a transport that was not [wrapped](Self::wrap) by this guard, or of a client that
    /// did not begin with `initialize`, or bears another [`ClientKey`] than its session began with;
    /// [`RootsFailed`](crate::ErrorKind::RootsFailed) (`roots_failed`) also if a request of the
    /// stateless era does not say what its client can do;
    /// [`Cancelled`](crate::ErrorKind::Cancelled); [`Busy`](crate::ErrorKind::Busy)
    /// (`too_many_sessions`); those of [`Session::roots`] and [`Session::roots_from_list`].
    pub async fn roots_for(
        &self,
        ctx: &RequestContext<RoleServer>,
        input: impl Into<ClientInput>,
    ) -> Result<RootsForRequest> {
        let input = input.into();
        let lease = ctx.ct.child_token();
        // Boxed, as every handler's future would be large else.
        let obtained = Box::pin(async {
            if stateless(ctx) {
                self.roots_stateless(ctx, input, lease).await
            } else {
                self.roots_in_session(ctx, input, lease).await.map(RootsForRequest::Roots)
            }
        });
        // Nobody waits for a client on behalf of a request that is not wanted any more: the next one asks.
        ctx.ct.run_until_cancelled(obtained).await.ok_or(Code::Cancelled)?
    }

    async fn roots_in_session(
        &self,
        ctx: &RequestContext<RoleServer>,
        input: ClientInput,
        lease: CancellationToken,
    ) -> Result<RequestRoots> {
        let session = match self.session_of(&ctx.extensions) {
            // Where client roots are of no interest, neither is who the client is and what it declared.
            Err(_) if self.choices().client_roots == ClientRoots::Ignore => None,
            session => Some(session.map_err(|error| refused(None, error))?),
        };
        let asked = session.clone().unwrap_or_else(|| {
            self.session_for_request(
                ClientCapabilities::without_roots(),
                ClientKey::of(&ctx.extensions),
            )
        });
        let (roots, epoch) = asked.roots_and_epoch(PeerSource(ctx.peer.clone())).await?;
        let (cancelled, responses) = (ctx.ct.clone(), input.into_responses());
        let account = asked.account().clone();
        let session = session.map(|session| (session, epoch));
        let roots = roots.with_lease(lease.clone());
        Ok(RequestRoots {
            roots,
            lease,
            session,
            cancelled,
            responses,
            told: false,
            account,
            remembered: None,
        })
    }

    async fn roots_stateless(
        &self,
        ctx: &RequestContext<RoleServer>,
        mut input: ClientInput,
        lease: CancellationToken,
    ) -> Result<RootsForRequest> {
        let session = self.session_for_request(
            declared(ctx).map_err(|error| refused(None, error))?,
            ClientKey::of(&ctx.extensions),
        );
        let told = !matches!(session.state(), RootsState::Ignored | RootsState::Unsupported);
        let known = ClientKey::of(&ctx.extensions).map(|key| (key, Received::of(&ctx.extensions)));
        let mut remembered = None;
        let roots = match (told, input.take_roots()) {
            (false, _) => {
                session
                    .roots(|_: Option<String>| std::future::ready(RootsResponse::Unsupported))
                    .await?
            }
            (true, Some(list)) => {
                // Whatever becomes of it, what the client told before counts no more.
                let began = Instant::now();
                let cached = |until, roots| {
                    known.map(|(key, received)| {
                        (key.account(), Arc::new(Cached::new(received, until, roots)))
                    })
                };
                if let Some((key, nothing)) = cached(began, Roots::empty()) {
                    self.cache().insert_newer(key, nothing);
                }
                let list = list_of(list).map_err(|error| refused(Some(session.id()), error))?;
                let roots = session.roots_from_list(list).await?;
                let until = began + self.choices().time_to_live_keyed;
                if let Some((key, list)) = cached(until, roots.clone()) {
                    self.cache().replace(key, list);
                }
                roots
            }
            (true, None) => {
                let key = known.map(|(key, _)| key);
                let roots = self.remembered(key).await;
                match roots.map_err(|error| refused(Some(session.id()), error))? {
                    Some(roots) => {
                        remembered = key.map(|key| (self.clone(), key.clone()));
                        roots.for_session(session.id())
                    }
                    None => return Ok(RootsForRequest::InputRequired(input.question())),
                }
            }
        };
        let (cancelled, responses) = (ctx.ct.clone(), input.into_responses());
        let account = session.account().clone();
        let roots = roots.with_lease(lease.clone());
        Ok(RootsForRequest::Roots(RequestRoots {
            roots,
            lease,
            session: None,
            cancelled,
            responses,
            told,
            account,
            remembered,
        }))
    }

    /// What a client told in an earlier request, if that counts now and its roots still are what their names say.
    async fn remembered(&self, key: Option<&ClientKey>) -> Result<Option<Roots>> {
        let Some(key) = key else { return Ok(None) };
        let Some(roots) = self.last_of(key) else { return Ok(None) };
        self.verify(&roots, key.account(), Instant::now() + self.choices().fetch_limit).await?;
        // Verifying takes time, in which the client may have sent another list.
        let still = self.last_of(key).is_some_and(|last| last.is_same_snapshot(&roots));
        Ok(Some(roots)
            .filter(|roots| still && !roots.is_outdated() && self.boundary().is_current(roots)))
    }

    /// The roots of the last list that a client sent in the stateless era, if it is not too old.
    fn last_of(&self, key: &ClientKey) -> Option<Roots> {
        self.cache().get(key.account()).map(|cached| cached.roots.clone())
    }

    /// The session that a request belongs to, in the session era: for [`Session::changes`], [`Session::still_allows`].
    ///
    /// # Errors
    ///
    /// [`NoSession`](crate::ErrorKind::NoSession), as for [`roots_for`](Self::roots_for);
    /// [`Busy`](crate::ErrorKind::Busy) (`too_many_sessions`) if there were too many when the
    /// client came.
    pub fn session_of(&self, extensions: &Extensions) -> Result<Session> {
        let no_session = |why: &str| Error::new(Code::NoSession).detail(why);
        let connection = extensions.get::<Connection>().ok_or_else(|| no_session(NOT_WRAPPED))?;
        let session = connection.session.clone()?;
        if !session.guard().is_same(self) {
            return Err(no_session(
                "the transport is wrapped by another guard: use one guard, and its clones",
            ));
        }
        if connection.key.as_ref() != ClientKey::of(extensions) {
            return Err(no_session("the session began with another client key, or without one"));
        }
        Ok(session)
    }
}

/// What an operator has forgotten, mostly.
const NOT_WRAPPED: &str = "is the transport wrapped by this guard? On stdio, serve Guard::wrap(transport); over \
                           streamable HTTP, pass the session manager through Guard::wrap_sessions. Or the client \
                           did not begin with initialize";

/// Whether a request is of the era without sessions. One of an unknown version is what rmcp takes it for.
///
/// Of a session, only what the request itself says counts: what rmcp knows of the client is what the last `initialize` asked for.
pub(super) fn stateless(ctx: &RequestContext<RoleServer>) -> bool {
    let in_session = ctx.extensions.get::<Connection>().is_some();
    let version = if in_session { ctx.meta.protocol_version() } else { ctx.protocol_version() };
    version.is_some_and(|version| !version.has_initialize())
}

/// How a refusal must look in the answer to a request.
pub(super) fn revision(ctx: &RequestContext<RoleServer>) -> Revision {
    let stateless = stateless(ctx);
    let known = ctx.protocol_version().and_then(|version| Revision::parse(version.as_str()));
    let known = known.filter(|known| known.is_stateless() == stateless);
    known.unwrap_or(if stateless { Revision::V2026_07_28 } else { Revision::V2025_11_25 })
}

/// What a request of the stateless era says of its client.
fn declared(ctx: &RequestContext<RoleServer>) -> Result<ClientCapabilities> {
    let declared = ctx.meta.get(ClientCapabilities::META_KEY).cloned().unwrap_or(Value::Null);
    serde_json::from_value(declared)
        .map_err(|error| fetch_failed(&format!("client capabilities: {error}")))
}

/// The root list that a request answers with.
fn list_of(answer: Value) -> Result<ListRootsResult> {
    match RootsResponse::from_result(answer) {
        RootsResponse::List(list) => Ok(list),
        RootsResponse::Failed(why) => Err(fetch_failed(&why)),
        RootsResponse::Unsupported => Err(Code::RootsUnsupported.into()),
    }
}

/// Tells the operator of a refusal that no session tells.
pub(super) fn refused(session: Option<SessionId>, error: Error) -> Error {
    events::refused(session, &error);
    error
}
