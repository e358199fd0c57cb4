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
            Ok((self.client.resolve(Arc::new(list), deadline).await?, pages))
        };
        match run_until_stopped(self.fetch.ended(), answer).await {
            None => Ok(self.fetch.ended().await),
            Some(Ok((roots, pages))) => {
                self.client.log_fetched(&roots, pages);
                // The time to live starts at the request, because the client may change its list
                // immediately afterwards.
                let until = began + self.client.time_to_live();
                Ok(self.succeed(roots, until))
            }
            Some(Err(error)) => self.fail(error, began),
        }
    }

    /// Verifies a cached snapshot, and resolves its list again if the result may differ. If either
    /// step fails, the roots of the snapshot that are still available are served.
    pub(super) async fn renew(self, cached: &Arc<Cached>, deadline: Instant) -> End {
        let client = self.client;
        let end = match run_until_stopped(self.fetch.ended(), self.renewed(cached, deadline)).await
        {
            None => return self.fetch.ended().await,
            // The list expired meanwhile, so it is requested again.
            Some(Ok(_)) if Instant::now() >= cached.until => client.lock().abandon(&self.fetch),
            Some(Ok(Some(roots))) => {
                events::resolved_again(client.id, roots.roots().len());
                if !roots.is_same_snapshot(&cached.roots) {
                    // Other sessions may share the old snapshot.
                    cached.roots.set_outdated(true);
                    return self.succeed(roots, cached.until);
                }
                client.lock().succeed(&self.fetch, cached, false, Instant::now())
            }
            Some(Ok(None)) => client.lock().succeed(&self.fetch, cached, false, Instant::now()),
            Some(Err(error)) => {
                events::not_fetched(client.id, &error);
                client.lock().postpone(&self.fetch, Instant::now())
            }
        };
        self.fetch.end(end.clone());
        end
    }

    /// Returns the roots that the cached list names now, or `None` if the snapshot is still
    /// correct.
    async fn renewed(&self, cached: &Arc<Cached>, deadline: Instant) -> Result<Option<Roots>> {
        let (client, roots) = (self.client, &cached.roots);
        // This is a use of the snapshot, which restarts its time to idle.
        if !client.guard.cache().touch(&client.key()) {
            client.lock().evicted(cached);
        }
        if roots.is_verification_due() {
            client.guard.verify(roots, &client.account, deadline).await?;
        } else {
            client.guard.allowed_roots(deadline).await?;
        }
        // Defense: An outdated snapshot is not renewed; its list is resolved again.
        if !roots.is_outdated() && client.guard.boundary().is_current(roots) {
            return Ok(None);
        }
        let list = roots.list().cloned().unwrap_or_default();
        client.resolve(list, deadline).await.map(Some)
    }

    fn succeed(self, roots: Roots, until: Instant) -> End {
        let client = self.client;
        let is_cached = !client.time_to_live().is_zero();
        let cached = Arc::new(Cached::new(self.fetch.epoch, until, roots));
        let end = client.lock().succeed(&self.fetch, &cached, is_cached, Instant::now());
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
