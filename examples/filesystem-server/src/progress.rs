//! Progress notifications for long-running tools.
//!
//! The worker thread reports a count, and never waits for the client. If the request has a progress
//! token, the client receives `notifications/progress` with increasing numbers, at most a few per
//! second and none after the result.

use std::convert::Infallible;
use std::time::Duration;

use rmcp::model::ProgressNotificationParam;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::watch;

/// The sending half, for the worker thread.
#[derive(Debug)]
pub(crate) struct Progress(watch::Sender<u32>);

/// The receiving half, which notifies the client.
#[derive(Debug)]
pub(crate) struct Reports(watch::Receiver<u32>);

/// Creates a connected pair.
pub(crate) fn channel() -> (Progress, Reports) {
    let (sender, receiver) = watch::channel(0);
    (Progress(sender), Reports(receiver))
}

impl Progress {
    /// Records the number of entries processed so far.
    pub(crate) fn reached(&self, entries: u32) {
        self.0.send_replace(entries);
    }
}

impl Reports {
    /// Sends notifications until the work is complete, and returns its result.
    pub(crate) async fn during<T>(
        self,
        work: impl Future<Output = T>,
        ctx: &RequestContext<RoleServer>,
    ) -> T {
        tokio::select! {
            biased;
            done = work => done,
            never = self.notify(ctx) => match never {},
        }
    }

    async fn notify(mut self, ctx: &RequestContext<RoleServer>) -> Infallible {
        if let Some(token) = ctx.meta.get_progress_token() {
            while self.0.changed().await.is_ok() {
                let entries = *self.0.borrow_and_update();
                let report = ProgressNotificationParam::new(token.clone(), f64::from(entries))
                    .with_message(format!("{entries} entries processed"));
                if ctx.peer.notify_progress(report).await.is_err() {
                    break;
                }
                tokio::time::sleep(INTERVAL).await;
            }
        }
        std::future::pending().await
    }
}

/// The minimum time between notifications: about as fast as a person can read them.
const INTERVAL: Duration = Duration::from_millis(250);
