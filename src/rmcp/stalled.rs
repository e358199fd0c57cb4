//! Answers calls whose filesystem does not answer.
//!
//! A mounted filesystem can hang, and with it the work that waits for it. The work keeps its slot,
//! but its call ends once it has made no step for a time. A call that waits for a slot ends once
//! this is true of all calls of its client.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use guarded_fs::{Error, Result};

use super::request::RequestRoots;
use crate::kinds;
use crate::limits::LONGEST_TIME;
use crate::session::GuardBuilder;
use crate::session::runtime::{Instant, lock, timeout_at};

impl GuardBuilder {
    /// Answers a call with [`STALLED`](crate::kinds::STALLED) if its work has made no step for this
    /// long, or at most an eighth longer, because a mounted filesystem that hangs would otherwise
    /// keep it waiting for ever. By default, calls wait.
    ///
    /// A step is each time that the roots are asked whether they are over, as the table at
    /// [`Scope`](guarded_fs::host::Scope) lists them: when an operation begins, before each entry of
    /// a walk or a removal, and before each mebibyte of a copy or a hash. One system call that takes
    /// longer, such as a large read or a sync, is no progress. Work that computes for long calls
    /// [`ensure_usable`](crate::Roots::ensure_usable) between its steps. A call that waits for a
    /// slot is answered so if this is true of all calls of its client. What a call waits for a
    /// client's list is [`fetch_limit`](Self::fetch_limit) instead.
    ///
    /// The work itself continues, keeps its slot, and can still take effect. This holds for the
    /// work of [`Guard::tool`](crate::Guard::tool) and
    /// [`RequestRoots::run`](crate::rmcp::RequestRoots::run).
    pub fn stalled_after(mut self, time: Duration) -> Self {
        self.stalled_after = Some(time.min(LONGEST_TIME));
        self
    }
}

impl RequestRoots {
    /// Waits for the work of this request, or until it has stalled.
    pub(super) async fn unless_stalled<T>(
        &self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (scope, client) = (&self.request.scope, &self.request.scope.client);
        let Some(time) = client.guard.choices().stalled_after else { return work.await };
        let of_client = client.guard.slots().work.client(&client.share);
        let (began, mut steps, mut last_step) = (Instant::now(), scope.steps(), None);
        let mut work = pin!(work);
        loop {
            let done = timeout_at(Instant::now() + time / LOOKS, &mut work).await?;
            let now = Instant::now();
            if done.is_some() || steps != scope.steps() {
                (steps, last_step) = (scope.steps(), Some(now));
                *lock(&of_client.progressed) = now;
            }
            if let Some(done) = done {
                return done;
            }
            // Before its first step, the work waits for the client's other calls, which can have
            // stalled long ago.
            let last = last_step.unwrap_or_else(|| (*lock(&of_client.progressed)).max(began));
            if now.duration_since(last) >= time {
                return Err(stalled(time));
            }
        }
    }
}

fn stalled(time: Duration) -> Error {
    let text = "the filesystem does not answer: no file operation of this call, or of those that \
                it waits for, has ended for too long; an operation that has begun can still take \
                effect";
    Error::new(kinds::STALLED, "stalled", text).with_outcome(format!("the limit is {time:?}"))
}

/// How often a call looks for progress in the time that it waits.
const LOOKS: u32 = 16;
