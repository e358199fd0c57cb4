//! Waiting for a program in an asynchronous runtime.

use guarded_fs::Result;
use tokio::sync::oneshot;

use super::spawn::start;
use super::wait::{self, Failure};
use super::{ChildCommand, ChildOutput};
use crate::kinds;

impl ChildCommand {
    /// Like [`output`](Self::output), without blocking a thread of the runtime, which can be any.
    /// If the future is dropped, the program is killed. Requires the feature `tokio`.
    ///
    /// # Errors
    ///
    /// Those of [`output`](Self::output).
    pub async fn output_async(self) -> Result<ChildOutput> {
        let report = self.report();
        report(wait_on_a_thread(self).await)
    }
}

/// Dropping the future stops the program.
async fn wait_on_a_thread(child: ChildCommand) -> Result<ChildOutput, Failure> {
    let (sender, receiver) = oneshot::channel();
    start(move || {
        let done = wait::output(child, || sender.is_closed());
        let _ = sender.send(done);
    })?;
    receiver.await.map_err(|_| kinds::panicked("the thread panicked"))?
}
