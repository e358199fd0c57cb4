//! Who asks, and what comes of it.
//!
//! Goes in: the right to ask, and the leader's own source and deadline. Comes out: how the fetch finished. What is true after: it has
//! finished, whatever became of the leader; what is kept bears the epoch that it was asked in.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{Client, Failure, Fetch, Outcome, late};
use crate::dir::Effort;
use crate::error::{Code, Error, Result};
use crate::events;
use crate::limits::{BACK_OFF, BACK_OFF_MOST};
use crate::roots::{Roots, Stopwatch};
use crate::session::cache::Cached;
use crate::session::runtime::{Instant, off_workers, std_instant, unless, unpanicked, until};
use crate::session::{FetchedList, RootsSource, ask};
use crate::wire::ListRootsResult;

/// The right to ask. Dropped before it finished, the fetch is abandoned.
pub(super) struct Leader<'a> {
    pub(super) client: &'a Client,
    pub(super) fetch: Arc<Fetch>,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.client.finish(&self.fetch, Outcome::Abandoned);
    }
}

impl Leader<'_> {
    /// Asks for the list and resolves it, unless the fetch is finished meanwhile: by who closes the session, or comes after a change.
    pub(super) async fn fetch(self, source: &mut impl RootsSource, deadline: Instant) -> Result<Outcome> {
        let began = Instant::now();
        let answer = async {
            let told = async { unpanicked(ask(source)).await? };
            let FetchedList { list, pages } = until(deadline, told).await?.ok_or_else(late)??;
            let (roots, rest) = self.client.resolve(Arc::new(list), deadline).await?;
            Ok((roots, rest, pages))
        };
        let (roots, rest, pages) = match unless(self.fetch.outcome(), answer).await {
            None => return Ok(self.fetch.outcome().await),
            Some(Err(error)) => return self.fail(error, began),
            Some(Ok(told)) => told,
        };
        self.client.tell_fetched(&roots, pages);
        // Its time begins before the answer came.
        let (epoch, until) = (self.fetch.epoch, began + self.client.time_to_live());
        Ok(self.keep(Cached { epoch, until, rests: began, lacks: false, failed: false, roots }, rest))
    }

    /// Resolves a kept list again, as a root is gone, or one that was missing may be there now. If that fails, what still stands is
    /// served, and what is gone is unavailable.
    pub(super) async fn renew(self, kept: Cached, deadline: Instant) -> Result<Outcome> {
        let list = kept.roots.list().cloned().ok_or(Code::RootsStale)?;
        let began = Stopwatch::start();
        match unless(self.fetch.outcome(), self.client.resolve(list, deadline)).await {
            None => Ok(self.fetch.outcome().await),
            Some(Ok((roots, rest))) => {
                events::resolved_again(self.client.id, roots.roots().len());
                Ok(self.keep(Cached { roots, failed: false, ..kept }, rest))
            }
            Some(Err(error)) => {
                events::not_fetched(self.client.id, &error);
                Ok(self.keep(Cached { failed: true, ..kept }, began.rest()))
            }
        }
    }

    /// Lands with a snapshot, unless the list has changed since it was asked for.
    fn keep(self, mut kept: Cached, rest: Duration) -> Outcome {
        let client = self.client;
        if kept.epoch != client.epoch() {
            client.finish(&self.fetch, Outcome::Overtaken);
            return Outcome::Overtaken;
        }
        // Nobody waits for it any more, and another may have asked since.
        if !client.is_current(&self.fetch) {
            return Outcome::Abandoned;
        }
        kept.lacks = kept.roots.rejected().iter().any(|rejected| may_pass(rejected.error().reason()));
        kept.rests = Instant::now() + rest;
        if !client.time_to_live().is_zero() {
            // A change that comes now leaves an entry of an older epoch, which never counts.
            client.guard.keep(client.id, kept.clone());
            if client.is_closed() {
                client.guard.forget(client.id);
            }
            client.tell();
        }
        client.finish(&self.fetch, Outcome::Cached(kept.clone()));
        Outcome::Cached(kept)
    }

    /// Lands with a failure that is the client's; passes on what is not.
    fn fail(self, error: Error, began: Instant) -> Result<Outcome> {
        let client = self.client;
        events::not_fetched(client.id, &error);
        let limit = client.guard.choices().fetch_limit;
        let is_late = error.reason() == Code::RootsTimedOut && Instant::now() >= self.fetch.until;
        if error.reason() == Code::NoRuntime || is_late && began.elapsed() < limit / 2 && client.asks_in_vain() {
            return Err(error);
        }
        if self.fetch.epoch != client.epoch() {
            client.finish(&self.fetch, Outcome::Overtaken);
            return Ok(Outcome::Overtaken);
        }
        let epoch = self.fetch.epoch;
        let earlier = client.lock().failure.as_ref().filter(|last| last.epoch == epoch).map_or(0, |last| last.times);
        let until = Instant::now() + BACK_OFF_MOST.min(BACK_OFF * 2_u32.saturating_pow(earlier));
        let detail = error.operator_detail().map(Arc::from);
        let failure = Failure { epoch, kind: error.reason(), detail, times: earlier.saturating_add(1), until };
        client.finish(&self.fetch, Outcome::Failed(failure.clone()));
        Ok(Outcome::Failed(failure))
    }
}

impl Client {
    /// The roots of a list, and how long it should not be resolved again.
    pub(super) async fn resolve(&self, list: Arc<ListRootsResult>, deadline: Instant) -> Result<(Roots, Duration)> {
        // Not by the resolution: one of them may hang, and this client's list need not lie in it.
        self.guard.allowed_roots(deadline).await?;
        let (boundary, account) = (self.guard.boundary().clone(), self.account.clone());
        let given_up = GiveUp::default();
        let effort = Effort::new(Some(std_instant(deadline)), given_up.0.clone());
        let work = off_workers(self.guard.workers(), &self.account, move || {
            let began = Stopwatch::start();
            let roots = boundary.resolve_to_cache(&list, &account, &effort)?;
            Ok((roots, began.rest()))
        });
        until(deadline, work).await?.ok_or_else(late)?
    }
}

/// Dropped when nobody waits for the resolution any more, which then ends.
#[derive(Default)]
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Whether what an entry was rejected for may be otherwise soon.
fn may_pass(kind: Code) -> bool {
    matches!(
        kind,
        Code::NotFound
            | Code::NotADirectory
            | Code::SpecialFile
            | Code::PermissionDenied
            | Code::RootUnavailable
            | Code::Changed
            | Code::Io
    )
}
