//! Progress notifications for long-running tools.
//!
//! The worker thread reports a count, and never waits for the client. If the request has a progress
//! token, the client receives `notifications/progress` with increasing numbers, at most a few per
//! second and none after the result.

use std::time::Duration;

use rmcp::model::ProgressNotificationParam;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::watch;

/// Receives the number of entries processed so far.
pub(crate) type Progress = watch::Sender<u32>;

/// Sends notifications until the work is complete, and returns its result.
pub(crate) async fn during<T>(
    work: impl Future<Output = T>,
    mut reports: watch::Receiver<u32>,
    ctx: &RequestContext<RoleServer>,
) -> T {
    tokio::pin!(work);
    let Some(token) = ctx.meta.get_progress_token() else { return work.await };
    let notify = async {
        while reports.changed().await.is_ok() {
            let entries = *reports.borrow_and_update();
            let report = ProgressNotificationParam::new(token.clone(), f64::from(entries))
                .with_message(format!("{entries} entries processed"));
            if ctx.peer.notify_progress(report).await.is_err() {
                break;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = notify => {}
    }
    work.await
}

/// The minimum time between notifications: about as fast as a person can read them.
const INTERVAL: Duration = Duration::from_millis(250);
