//! Answers calls whose filesystem does not answer.
//!
//! A mounted filesystem can hang, and with it the work that waits for it. The work keeps its slot,
//! but its call ends once no step of it has ended for a time. A call that waits for a slot ends once
//! this is true of all calls of its client.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use guarded_fs::{Error, Result};

use super::request::RequestRoots;
use crate::kinds;
use crate::session::runtime::{Instant, timeout_at};

impl RequestRoots {
    /// Waits for the work of this request, or until it has stalled.
    pub(super) async fn unless_stalled<T>(
        &self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (scope, client) = (&self.request.scope, &self.request.scope.client);
        let Some(time) = client.guard.choices().stalled_after else { return work.await };
        let of_client = client.guard.slots().progress_of(&client.share);
        let (began, mut steps, mut last_step) = (Instant::now(), scope.steps(), None);
        let mut work = pin!(work);
        loop {
            let done = timeout_at(Instant::now() + time / LOOKS, &mut work).await?;
            let now = Instant::now();
            if done.is_some() || steps != scope.steps() {
                (steps, last_step) = (scope.steps(), Some(now));
                of_client.note(now);
            }
            if let Some(done) = done {
                return done;
            }
            // Before its first step, the work waits for the client's other calls, which can have
            // stalled long ago.
            let last = last_step.unwrap_or_else(|| of_client.last().max(began));
            if now.duration_since(last) >= time {
                return Err(stalled(time));
            }
        }
    }
}

fn stalled(time: Duration) -> Error {
    let text = "the filesystem does not answer: no file operation of this call, or of those that \
                it waits for, has ended for a time; an operation that has begun can still take \
                effect";
    Error::new(kinds::STALLED, "stalled", text).with_outcome(format!("the time is {time:?}"))
}

/// How often a call looks for progress in the time that it waits.
const LOOKS: u32 = 16;
