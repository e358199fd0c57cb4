//! The leader of a fetch, which requests the list and handles the response.

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::events;
use crate::roots::Roots;
use crate::session::cache::Cached;
use crate::session::fetch::{Client, timed_out};
use crate::session::runtime::{Instant, run_until_stopped, timeout_at};
use crate::session::state::{End, Fetch};
use crate::session::{FetchedList, RootsSource, fetch_list};
use crate::wire::ListRootsResult;

/// The call that performs the fetch. If it is dropped before the fetch has ended, the fetch ends
/// without a result.
pub(super) struct Leader<'a> {
    pub(super) client: &'a Client,
    pub(super) fetch: Arc<Fetch>,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        // Defense: A leader that is dropped ends its fetch, so that another call can lead.
        let end = self.client.lock().abandon(&self.fetch);
        self.fetch.end(end);
    }
}

impl Leader<'_> {
    /// Requests the list and resolves it, unless the fetch ends first, because the session closed
    /// or because another call replaced the fetch.
    pub(super) async fn fetch(
        self,
        source: &mut impl RootsSource,
        deadline: Instant,
    ) -> Result<End> {
        let began = Instant::now();
        let answer = async {
            // Defense: A client that never answers is not waited for after the deadline.
            let FetchedList { list, pages } =
                timeout_at(deadline, fetch_list(source)).await?.ok_or_else(timed_out)??;
            let list = Arc::new(list);
            Ok((self.client.resolve(list.clone(), deadline).await?, list, pages))
        };
        match run_until_stopped(self.fetch.ended(), answer).await {
            None => Ok(self.fetch.ended().await),
            Some(Ok((roots, list, pages))) => {
                self.client.log_fetched(&roots, pages);
                // The time to live starts at the request, because the client may change its list
                // immediately afterwards.
                let until = began + self.client.time_to_live();
                Ok(self.succeed(roots, list, until))
            }
            Some(Err(error)) => self.fail(error, began),
        }
    }

    /// Resolves a cached list again if the result may differ. The client is not asked.
    pub(super) async fn renew(self, cached: &Arc<Cached>, deadline: Instant) -> Result<End> {
        let client = self.client;
        let resolved = async {
            client.guard.allowed_roots(deadline).await?;
            if !cached.must_resolve(client.guard.boundary(), Instant::now()) {
                return Ok(None);
            }
            client.resolve(cached.list.clone(), deadline).await.map(Some)
        };
        match run_until_stopped(self.fetch.ended(), resolved).await {
            None => Ok(self.fetch.ended().await),
            // The list expired or was forgotten meanwhile, so it is requested again.
            Some(Ok(_)) if !cached.is_current(Instant::now()) => Ok(End::Nothing),
            Some(Ok(Some(roots))) => {
                events::resolved_again(client.id, roots.roots().len());
                Ok(self.succeed(roots, cached.list.clone(), cached.until))
            }
            Some(Ok(None)) => {
                let end = client.lock().succeed(&self.fetch, cached, false);
                self.fetch.end(end.clone());
                Ok(end)
            }
            Some(Err(error)) => {
                events::not_fetched(client.id, &error);
                Err(error)
            }
        }
    }

    fn succeed(self, roots: Roots, list: Arc<ListRootsResult>, until: Instant) -> End {
        let client = self.client;
        let is_cached = !client.time_to_live().is_zero();
        let cached = Arc::new(Cached::new(self.fetch.epoch, until, roots, list));
        let end = client.lock().succeed(&self.fetch, &cached, is_cached);
        if is_cached && matches!(end, End::Cached(_)) {
            client.guard.cache().insert(client.key(), cached);
            // Defense: A closed session leaves nothing in the cache.
            if client.lock().is_closed() {
                client.guard.cache().forget(&client.key());
            }
            client.changed.notify_waiters();
        }
        self.fetch.end(end.clone());
        end
    }

    /// Ends the fetch with a failure of the client. Returns any other failure as an error.
    fn fail(self, error: Error, began: Instant) -> Result<End> {
        let client = self.client;
        events::not_fetched(client.id, &error);
        let now = Instant::now();
        let had_enough_time = began.elapsed() >= client.guard.choices().fetch_limit / 2;
        let is_timeout = error.reason() == Code::RootsTimedOut && now >= self.fetch.until;
        let is_guards = matches!(error.reason(), Code::NoRuntime | Code::Busy | Code::QueueFull);
        if is_guards || is_timeout && !had_enough_time && client.lock().allow_short_attempt() {
            return Err(error);
        }
        let end = client.lock().fail(&self.fetch, &error, now);
        self.fetch.end(end.clone());
        Ok(end)
    }
}
