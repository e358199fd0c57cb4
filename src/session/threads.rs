//! The threads on which jobs run: the blocking threads of a tokio runtime.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use guarded_fs::Result;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::session::errors::{busy, no_runtime};

pub(crate) enum Threads {
    /// A runtime that is used for nothing else and is never driven. `None` if it could not be
    /// built, and once this is dropped.
    Own(Option<Runtime>),
    /// The blocking threads of the server's own runtime.
    Given(Handle),
}

impl Threads {
    /// Threads that start on demand, up to this number, and end when they are idle.
    pub(crate) fn own(most: usize) -> Self {
        let mut builder = Builder::new_current_thread();
        builder.max_blocking_threads(most).thread_name(THREAD);
        Self::Own(builder.build().ok())
    }

    pub(crate) const fn of(runtime: Handle) -> Self {
        Self::Given(runtime)
    }

    /// Starts a job, which continues if the future of its result or its panic is dropped.
    pub(crate) fn spawn<T, F>(
        &self,
        job: F,
    ) -> Result<impl Future<Output = Result<std::thread::Result<T>>> + Send + use<T, F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let handle = match self {
            Self::Own(runtime) => runtime.as_ref().ok_or_else(no_runtime)?.handle(),
            Self::Given(handle) => handle,
        };
        // `spawn_blocking` panics if the system starts no thread.
        let spawned = catch_unwind(AssertUnwindSafe(|| handle.spawn_blocking(job)));
        let spawned = spawned.map_err(|_| busy("the system started no thread"))?;
        Ok(async {
            match spawned.await {
                Ok(done) => Ok(Ok(done)),
                // Any other error than a panic means that the runtime has been shut down.
                Err(error) => error.try_into_panic().map(Err).map_err(|_| no_runtime()),
            }
        })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let Self::Own(runtime) = self else { return };
        if let Some(runtime) = runtime.take() {
            // Does not wait, so a job that hangs keeps neither this thread nor the process.
            runtime.shutdown_background();
        }
    }
}

const THREAD: &str = "mcp-roots-guard";
