//! The number of threads of this process.

use std::fs::File;

/// Counts the threads, also after the kernel has confined the process.
#[derive(Debug)]
pub struct Threads {
    /// `/proc/self/status` (proc(5)). A confined process can read it only if it opened it before.
    status: Option<File>,
}

impl Threads {
    /// Prepares to count. Call this before the process is confined.
    #[must_use]
    pub fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the process's own state")]
        let status = File::open("/proc/self/status").ok();
        Self { status }
    }

    /// The number of threads now, or `None` if the system does not say.
    #[cfg(unix)]
    pub(crate) fn count(&self) -> Option<u64> {
        let mut text = [0; 8 << 10];
        let length =
            std::os::unix::fs::FileExt::read_at(self.status.as_ref()?, &mut text, 0).ok()?;
        let text = String::from_utf8_lossy(text.get(..length)?).into_owned();
        text.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
    }

    #[cfg(not(unix))]
    pub(crate) fn count(&self) -> Option<u64> {
        self.status.as_ref().and(None)
    }
}

impl Default for Threads {
    fn default() -> Self {
        Self::new()
    }
}
