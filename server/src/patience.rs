//! Answers calls whose filesystem does not answer.
//!
//! A mounted filesystem can hang, and with it the job that waits for it. The job keeps its slot, but
//! its call ends once no file operation of it has ended for a time. A call that waits for a slot
//! ends once this is true of all calls of its client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use mcp_roots_guard::Session;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use tokio::time::sleep;

use crate::lock;
use crate::log::rarely;

/// How long calls wait for a filesystem.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    time: Duration,
    /// The calls in progress of each client, by session. All clients without one share an entry.
    clients: Arc<Mutex<HashMap<Option<u64>, Weak<LastProgress>>>>,
}

/// When a call of a client last made progress.
type LastProgress = Mutex<Instant>;

impl Patience {
    pub(crate) fn new(time: Duration) -> Self {
        Self { time, clients: Arc::default() }
    }

    /// Performs work in a slot of the client.
    ///
    /// # Errors
    ///
    /// That of the work, or that the filesystem does not answer.
    pub(crate) async fn run<T, W>(&self, roots: &RequestRoots, work: W) -> Result<T, HandlerError>
    where
        T: Send + 'static,
        W: FnOnce(RequestRoots) -> Result<T, HandlerError> + Send + 'static,
    {
        let client = self.progress_of(roots.session().map(Session::id));
        let stalls = async {
            let (mut steps, mut last_step) = (roots.steps(), None);
            loop {
                sleep(self.time / LOOKS).await;
                let now = Instant::now();
                if steps != roots.steps() {
                    (steps, last_step) = (roots.steps(), Some(now));
                    *lock(&client) = now;
                }
                // Before the first step, the work waits for the client's other calls.
                let last = last_step.unwrap_or_else(|| *lock(&client));
                if now.duration_since(last) >= self.time {
                    break;
                }
            }
        };
        tokio::select! {
            biased;
            done = roots.run(work) => {
                *lock(&client) = Instant::now();
                done
            }
            () = stalls => Err(self.unanswered()),
        }
    }

    fn unanswered(&self) -> HandlerError {
        rarely("hang", "a filesystem does not answer, so a call that uses it was given up");
        HandlerError::new(format!(
            "the filesystem does not answer: for {:?}, no file operation of this call, or of those \
             that it waits for, has ended. An operation that has begun can still take effect",
            self.time
        ))
    }

    fn progress_of(&self, client: Option<u64>) -> Arc<LastProgress> {
        let mut clients = lock(&self.clients);
        if let Some(progress) = clients.get(&client).and_then(Weak::upgrade) {
            return progress;
        }
        clients.retain(|_, progress| progress.strong_count() > 0);
        let progress = Arc::new(Mutex::new(Instant::now()));
        clients.insert(client, Arc::downgrade(&progress));
        progress
    }
}

/// How often a call looks for progress in the time that it waits.
const LOOKS: u32 = 16;
