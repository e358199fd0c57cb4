//! Telling a client how far long work came.
//!
//! Goes in: a count, from the thread that works. Comes out: `notifications/progress`, if the request has a progress token. What is true
//! after: the work never waits for the client; the client hears growing numbers, a few a second, and nothing after the result.

use std::convert::Infallible;
use std::time::Duration;

use rmcp::model::ProgressNotificationParam;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::watch;

/// The end that the work holds.
#[derive(Debug)]
pub(crate) struct Progress(watch::Sender<u32>);

/// The end that tells.
#[derive(Debug)]
pub(crate) struct Reports(watch::Receiver<u32>);

/// The two ends.
pub(crate) fn channel() -> (Progress, Reports) {
    let (sender, receiver) = watch::channel(0);
    (Progress(sender), Reports(receiver))
}

impl Progress {
    /// So many entries were looked at.
    pub(crate) fn reached(&self, entries: u32) {
        self.0.send_replace(entries);
    }
}

impl Reports {
    /// Waits for the work, and tells meanwhile.
    pub(crate) async fn during<T>(
        self,
        work: impl Future<Output = T>,
        ctx: &RequestContext<RoleServer>,
    ) -> T {
        tokio::select! {
            biased;
            done = work => done,
            never = self.tell(ctx) => match never {},
        }
    }

    async fn tell(mut self, ctx: &RequestContext<RoleServer>) -> Infallible {
        if let Some(token) = ctx.meta.get_progress_token() {
            while self.0.changed().await.is_ok() {
                let entries = *self.0.borrow_and_update();
                let report = ProgressNotificationParam::new(token.clone(), f64::from(entries))
                    .with_message(format!("{entries} entries looked at"));
                if ctx.peer.notify_progress(report).await.is_err() {
                    break;
                }
                tokio::time::sleep(EVERY).await;
            }
        }
        std::future::pending().await
    }
}

/// As often as a person can follow.
const EVERY: Duration = Duration::from_millis(250);
